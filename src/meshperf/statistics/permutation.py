"""Permutation inside blocks: what a blocked design can reach at best."""

from __future__ import annotations

from meshperf.statistics.results import StatisticsError


def p_min(n_blocks: int, *, baselines_per_block: int = 2) -> float:
    """Smallest p-value that relabelling inside blocks can give.

    Parameters
    ----------
    n_blocks : int
        r, at least 1.
    baselines_per_block : int
        2 (which of three runs was the mesh, 3^r relabellings) or 1 (which of two, 2^r, of which each and its
        mirror image are equally extreme).

    Returns
    -------
    float
        1/3^r or 2/2^r, in (0, 1].
    """
    if n_blocks < 1 or baselines_per_block not in (1, 2):
        raise StatisticsError(
            f"there is no design with {n_blocks} blocks and {baselines_per_block} baselines"
        )
    return 3.0**-n_blocks if baselines_per_block == 2 else 2.0 ** (1 - n_blocks)
