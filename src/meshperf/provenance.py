"""What produced a file: the state of the code, and the machine without its name or its user's."""

import functools
import platform
import subprocess
from importlib import metadata
from typing import Any

import meshperf
from meshperf.errors import MeshperfError
from meshperf.paths import repository_root

#: What a measurement or an analysis writes does not make the code dirty.
_OUTPUTS = ("data", "results", "logs")
#: Packages whose version can change a number in the report.
_PACKAGES = ("kubernetes", "matplotlib", "numpy", "pandas", "pydantic", "scipy", "snakemake")


@functools.cache
def code() -> dict[str, Any]:
    """Return the version of meshperf, its commit and whether the checkout differs from it.

    Returns
    -------
    dict
        ``version``; ``commit`` (40 hex digits) and ``dirty``, both None outside of a git checkout. Changes
        below ``data/``, ``results/`` and ``logs/`` do not count as dirty.
    """
    commit = _git("rev-parse", "HEAD")
    changes = None
    if commit is not None:
        changes = _git("status", "--porcelain", "--", ".", *(f":(exclude,top){name}" for name in _OUTPUTS))
    return {
        "version": meshperf.__version__,
        "commit": commit,
        "dirty": None if changes is None else changes != "",
    }


def environment() -> dict[str, Any]:
    """Return the kernel, the architecture, the Python and the packages that this process runs on."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = None
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "packages": packages,
    }


def _git(*arguments: str) -> str | None:
    try:
        result = subprocess.run(
            ["git", "-C", str(repository_root()), *arguments], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired, MeshperfError):
        return None
    return result.stdout.strip() if result.returncode == 0 else None
