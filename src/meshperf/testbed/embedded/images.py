"""Container images of the embedded cluster, made from built binaries and a Debian root file system.

An image is a tar in Docker's archive format: at most two layers, a configuration and a manifest. Times and owners are
fixed, so that the same inputs give the same digest. The tars are kept in the cache, keyed by their inputs.
"""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from meshperf.errors import MeshperfError
from meshperf.paths import cache_dir
from meshperf.testbed.embedded.builds import (
    COREDNS,
    COREDNS_VERSION,
    ENVOY_VERSION,
    FORTIO,
    FORTIO_VERSION,
    PAUSE,
    Progress,
    build,
)

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ROOTFS_PACKAGES = ("iptables", "ca-certificates")
#: Documentation and translations are four fifths of a minimal Debian; nothing in a container reads them.
_ROOTFS_UNUSED = (
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/info",
    "var/cache",
    "var/lib/apt",
)


@dataclass(frozen=True)
class Image:
    """What an image is made of.

    Attributes
    ----------
    reference : str
        Name and version, e.g. ``localhost/fortio:1.68.1``.
    files : mapping of str to Path or bytes
        Path in the image -> file on this machine, or content. All are executable.
    entrypoint : tuple of str
        Program and first arguments.
    user : str
        Numeric user; empty for root.
    debian : bool
        Whether the files lie on top of a minimal Debian (glibc, iptables, shell) or are all there is.
    """

    reference: str
    files: Mapping[str, Path | bytes]
    entrypoint: tuple[str, ...]
    user: str = ""
    debian: bool = False
    directories: tuple[str, ...] = field(default=("tmp",))


def pause_image(progress: Progress) -> Image:
    """Return the image that holds a pod's namespaces."""
    return Image("localhost/pause:1", {"pause": build(PAUSE, progress)}, ("/pause",))


def coredns_image(progress: Progress) -> Image:
    """Return the cluster's DNS server."""
    return Image(f"localhost/coredns:{COREDNS_VERSION}", {"coredns": build(COREDNS, progress)}, ("/coredns",))


def fortio_image(progress: Progress) -> Image:
    """Return the load generator, which is also the service under test."""
    return Image(
        f"localhost/fortio:{FORTIO_VERSION}",
        {"usr/bin/fortio": build(FORTIO, progress)},
        ("/usr/bin/fortio",),
        directories=("tmp", "var/lib/fortio"),
    )


def archive(image: Image, progress: Progress) -> Path:
    """Return the image's tar, made now if the cache has none."""
    key = hashlib.sha256(
        json.dumps(
            [
                image.reference,
                image.entrypoint,
                image.user,
                image.directories,
                image.debian and [_ROOTFS_PACKAGES, _suite()],
                sorted((path, _identity(source)) for path, source in image.files.items()),
            ]
        ).encode()
    ).hexdigest()[:12]
    name = image.reference.split("/")[-1].replace(":", "-")
    target = cache_dir() / "images" / f"{name}-{key}.tar"
    if target.exists():
        return target
    base = _debian_rootfs(progress) if image.debian else None
    progress(f"making the image {image.reference}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        layers = [base] if base else []
        layers.append(_file_layer(image, Path(work) / "files.tar"))
        temporary = Path(work) / "image.tar"
        _write_archive(image, layers, temporary)
        temporary.rename(target)
    return target


def load(image: Image, ctr: list[str], progress: Progress) -> None:
    """Put an image into containerd unless the same is there.

    Parameters
    ----------
    image : Image
        What to load.
    ctr : list of str
        The ``ctr`` command with its address and namespace.
    """
    tar = archive(image, progress)
    listed = subprocess.run(
        [*ctr, "images", "ls", f"name=={image.reference}"], capture_output=True, text=True
    )
    label = f"meshperf.dev/archive={tar.stem}"
    if label in listed.stdout:
        return
    for command in (["images", "import", str(tar)], ["images", "label", image.reference, label]):
        result = subprocess.run([*ctr, *command], capture_output=True, text=True)
        if result.returncode:
            raise MeshperfError(f"loading the image {image.reference} failed: {result.stderr.strip()}")


def _identity(source: Path | bytes) -> str:
    # A built binary lies in a directory named by what it was built from; size and name tell other files apart.
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    version = ENVOY_VERSION if source.name == "envoy" else ""
    return f"{source.parent.name}/{source.name}/{source.stat().st_size}/{version}"


def _suite() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.split("=", 1)[1].strip().strip('"')
    raise MeshperfError("/etc/os-release names no Debian release: use kind or a cluster of your own instead")


def _debian_rootfs(progress: Progress) -> Path:
    """Return a layer with a minimal Debian that has iptables."""
    target = cache_dir() / "images" / f"debian-{_suite()}-{'-'.join(_ROOTFS_PACKAGES)}.tar"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    progress("making a minimal Debian for the sidecars with debootstrap (once, about half a minute)")
    mirrors = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
    ).stdout.split()
    mirror = next((uri for uri in mirrors if "security" not in uri), None)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        root = Path(work) / "root"
        command = [
            "debootstrap",
            "--variant=minbase",
            f"--include={','.join(_ROOTFS_PACKAGES)}",
            _suite(),
            str(root),
        ]
        result = subprocess.run([*command, *([mirror] if mirror else [])], capture_output=True, text=True)
        if result.returncode:
            last = " | ".join(result.stdout.strip().splitlines()[-3:])
            raise MeshperfError(f"debootstrap failed ({last}): check that apt-get update works and try again")
        for unused in _ROOTFS_UNUSED:
            shutil.rmtree(root / unused, ignore_errors=True)
        for device in (root / "dev").iterdir():
            device.unlink() if not device.is_dir() or device.is_symlink() else shutil.rmtree(device)
        temporary = Path(work) / "layer.tar"
        with tarfile.open(temporary, "w") as tar:
            tar.add(root, arcname=".", filter=_fixed)
        temporary.rename(target)
    return target


def _file_layer(image: Image, target: Path) -> Path:
    with tarfile.open(target, "w") as tar:
        directories = {str(parent) for path in image.files for parent in Path(path).parents} - {"."}
        # On top of Debian a directory entry would replace its symbolic link (/bin, /lib): only add what is new.
        existing = (
            {"usr", "usr/bin", "usr/local", "usr/local/bin", "var", "var/lib"} if image.debian else set()
        )
        for directory in sorted((directories | set(image.directories)) - existing):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if directory in image.directories else 0o755
            tar.addfile(entry)
        for path, source in sorted(image.files.items()):
            entry = tarfile.TarInfo(path)
            entry.mode = 0o755
            if isinstance(source, bytes):
                entry.size = len(source)
                tar.addfile(entry, io.BytesIO(source))
            else:
                entry.size = source.stat().st_size
                with source.open("rb") as handle:
                    tar.addfile(entry, handle)
    return target


def _fixed(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _write_archive(image: Image, layers: list[Path], target: Path) -> None:
    digests = [_sha256(layer) for layer in layers]
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"User": image.user, "Entrypoint": list(image.entrypoint), "Env": [_PATH]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        },
        sort_keys=True,
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_names = [f"{digest}.tar" for digest in digests]
    manifest = [{"Config": config_name, "RepoTags": [image.reference], "Layers": layer_names}]
    with tarfile.open(target, "w") as tar:
        for name, data in ((config_name, config), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        for name, layer in zip(layer_names, layers, strict=True):
            entry = tarfile.TarInfo(name)
            entry.size = layer.stat().st_size
            with layer.open("rb") as handle:
                tar.addfile(entry, handle)


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
