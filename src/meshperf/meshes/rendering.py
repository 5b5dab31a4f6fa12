"""Manifests as a mesh's own command-line tool renders them, kept in the cache."""

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from meshperf.errors import MeshperfError
from meshperf.meshes.base import Manifest
from meshperf.paths import cache_dir
from meshperf.testbed.embedded.builds import Program, build, build_key

RENDER_TIMEOUT_S = 60
#: Half of the year for which charts make their webhooks' certificates.
KEPT_S = 180 * 24 * 3600


def render(program: Program, *arguments: str, chart: Callable[[], Path] | None = None) -> list[Manifest]:
    """Return the manifests that a program prints, rendered once per build of the program and set of arguments.

    Once, because it takes seconds, and because some tools make new certificates each time they are asked: a state that
    differs from the last one would be deployed anew before every run.

    Parameters
    ----------
    program : Program
        The mesh's tool; it is built if the cache has none.
    *arguments : str
        Its arguments; it must print YAML.
    chart : callable, optional
        Returns the directory to start it in, asked only when something is rendered. It must be of a Go module that the
        program's own ``go.mod`` pins, as nothing else tells it from another version's.

    Raises
    ------
    MeshperfError
        If the tool fails, with the end of what it said.
    """
    return keep(
        program.module,
        build_key(program),
        *arguments,
        make=lambda: run(program, arguments, chart() if chart else None),
    )


def keep(name: str, *key: str, make: Callable[[], Sequence[Manifest]]) -> list[Manifest]:
    """Return the manifests that `make` made when it was first asked with this name and key, within `KEPT_S`."""
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:12]
    cached = cache_dir() / "rendered" / f"{name}-{digest}.json"
    if not cached.exists() or time.time() - cached.stat().st_mtime > KEPT_S:
        manifests = make()
        cached.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = cached.with_suffix(".new")
        # Some hold private keys of webhooks.
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(manifests))
        temporary.rename(cached)
    return json.loads(cached.read_text())


def run(
    program: Program, arguments: Sequence[str], directory: Path | None = None, stdin: str = ""
) -> list[Manifest]:
    """Return the manifests that a program prints now.

    Raises
    ------
    MeshperfError
        If the program fails, with the end of what it said, or does not end.
    """
    tool = build(program, lambda line: None)
    return read_output([str(tool), *arguments], RENDER_TIMEOUT_S, directory, stdin)


def read_output(
    command: Sequence[str], timeout_s: float, directory: Path | None = None, stdin: str = ""
) -> list[Manifest]:
    """Return the manifests that a command prints.

    Raises
    ------
    MeshperfError
        If it fails, with the end of what it said, or does not end in time.
    """
    what = " ".join([Path(command[0]).name, *command[1:3]])
    try:
        result = subprocess.run(
            command, cwd=directory, input=stdin, capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise MeshperfError(
            f"{what} did not end in {timeout_s:.0f} s: check that this machine reaches what it fetches, and try again"
        ) from None
    if result.returncode:
        raise MeshperfError(f"{what} failed: {result.stderr.strip()[-500:]}")
    return [manifest for manifest in yaml.safe_load_all(result.stdout) if manifest]
