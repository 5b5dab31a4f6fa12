"""Manifests as a mesh's own command-line tool renders them, kept in the cache."""

import hashlib
import json
import subprocess

import yaml

from meshperf.errors import MeshperfError
from meshperf.meshes.base import Manifest
from meshperf.paths import cache_dir
from meshperf.testbed.embedded.builds import Program, build, build_key

RENDER_TIMEOUT_S = 60


def render(program: Program, *arguments: str) -> list[Manifest]:
    """Return the manifests that a program prints, rendered once per build of the program and set of arguments.

    Once, because it takes seconds, and because some tools make new certificates each time they are asked: a state that
    differs from the last one would be deployed anew before every run.

    Parameters
    ----------
    program : Program
        The mesh's tool; it is built if the cache has none.
    *arguments : str
        Its arguments; it must print YAML.

    Raises
    ------
    MeshperfError
        If the tool fails, with the end of what it said.
    """
    key = hashlib.sha256("\0".join((build_key(program), *arguments)).encode()).hexdigest()[:12]
    cached = cache_dir() / "rendered" / f"{program.module}-{key}.json"
    if not cached.exists():
        tool = build(program, lambda line: None)
        result = subprocess.run(
            [str(tool), *arguments], capture_output=True, text=True, timeout=RENDER_TIMEOUT_S
        )
        if result.returncode:
            raise MeshperfError(
                f"{program.name} {' '.join(arguments[:2])} failed: {result.stderr.strip()[-500:]}"
            )
        manifests = [manifest for manifest in yaml.safe_load_all(result.stdout) if manifest]
        cached.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = cached.with_suffix(".new")
        # Some hold private keys of webhooks.
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(manifests))
        temporary.rename(cached)
    return json.loads(cached.read_text())
