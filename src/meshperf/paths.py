"""Where things are: the checkout, and the cache of what was built from it."""

import os
from pathlib import Path

from meshperf.errors import MeshperfError


def repository_root() -> Path:
    """Return the checkout that holds ``envs/``, ``config/`` and ``data/``.

    ``MESHPERF_ROOT`` names it; otherwise it is the checkout this package was installed from.

    Raises
    ------
    MeshperfError
        If the package was installed without its repository.
    """
    named = os.environ.get("MESHPERF_ROOT")
    root = Path(named) if named else Path(__file__).resolve().parents[2]
    if not (root / "envs" / "cluster").is_dir():
        raise MeshperfError(
            f"{root} is not a checkout of meshperf (it has no envs/cluster): "
            "run from a clone, or set MESHPERF_ROOT to one"
        )
    return root


def cache_dir() -> Path:
    """Return the directory of built binaries and images: ``MESHPERF_CACHE`` or ``~/.cache/meshperf``."""
    named = os.environ.get("MESHPERF_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "meshperf"
