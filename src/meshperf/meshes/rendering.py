"""Manifests as a mesh's own command-line tool renders them, kept in the cache."""

import hashlib
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from meshperf.errors import MeshperfError
from meshperf.meshes.base import Manifest
from meshperf.paths import cache_dir
from meshperf.testbed.embedded.builds import Program, build, build_key

RENDER_TIMEOUT_S = 60


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
    return keep(program, *arguments, make=lambda: _run(program, arguments, chart() if chart else None))


def keep(program: Program, *key: str, make: Callable[[], Sequence[Manifest]]) -> list[Manifest]:
    """Return the manifests that `make` made the first time it was asked with this key and build of the program."""
    digest = hashlib.sha256("\0".join((build_key(program), *key)).encode()).hexdigest()[:12]
    cached = cache_dir() / "rendered" / f"{program.module}-{digest}.json"
    if not cached.exists():
        manifests = make()
        cached.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = cached.with_suffix(".new")
        # Some hold private keys of webhooks.
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(manifests))
        temporary.rename(cached)
    return json.loads(cached.read_text())


def _run(program: Program, arguments: Sequence[str], directory: Path | None) -> list[Manifest]:
    tool = build(program, lambda line: None)
    result = subprocess.run(
        [str(tool), *arguments], cwd=directory, capture_output=True, text=True, timeout=RENDER_TIMEOUT_S
    )
    if result.returncode:
        raise MeshperfError(
            f"{program.name} {' '.join(arguments[:2])} failed: {result.stderr.strip()[-500:]}"
        )
    return [manifest for manifest in yaml.safe_load_all(result.stdout) if manifest]
