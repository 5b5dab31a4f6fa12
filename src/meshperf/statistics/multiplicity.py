"""Corrections for testing more than one hypothesis, and ranks that respect them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meshperf.statistics.bootstrap import MIN_BLOCKS_INTERVAL
from meshperf.statistics.effect import paired_t_p
from meshperf.statistics.results import StatisticsError, StatisticsWarning


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values by Holm (1979): rejecting those at most α keeps the family-wise error at α.

    Parameters
    ----------
    p_values : array_like, shape (m,)
        In [0, 1]; NaN (no test was possible) stays NaN but still counts in the family.

    Returns
    -------
    ndarray, shape (m,)
        p̃_(i) = max over j <= i of min(1, (m − j + 1) p_(j)).
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    factors = p.size - np.arange(p.size)
    adjusted = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return _restored(adjusted, order)


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values by Benjamini & Hochberg (1995), for a false discovery rate.

    Parameters and result as in :func:`holm`; p̃_(i) = min over j >= i of min(1, m p_(j)/j).
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * p.size / (1 + np.arange(p.size))
    valid = int((~np.isnan(scaled)).sum())
    scaled[:valid] = np.minimum(np.minimum.accumulate(scaled[:valid][::-1])[::-1], 1.0)
    return _restored(scaled, order)


def _checked(p_values: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(p_values, dtype=float)
    if p.ndim != 1 or (p < 0).any() or (p > 1).any():
        raise StatisticsError("p-values are a list of numbers between 0 and 1")
    return p


def _restored(sorted_values: NDArray, order: NDArray) -> NDArray[np.float64]:
    result = np.empty_like(sorted_values)
    result[order] = sorted_values
    return result


@dataclass(frozen=True)
class RankSet:
    """Ranks that an arm may have, given what the comparisons could tell apart.

    Attributes
    ----------
    best, worst : int
        1 is the smallest value; equal for an arm that is told apart from all others.
    n : int
        Number of blocks.
    confidence : float
        Of all pairs together.
    method : str
    warnings : tuple of StatisticsWarning
    """

    best: int
    worst: int
    n: int
    confidence: float = 0.95
    method: str = "all-pairs paired t with Holm's correction"
    warnings: tuple[StatisticsWarning, ...] = ()

    def __str__(self) -> str:
        return str(self.best) if self.best == self.worst else f"{self.best}–{self.worst}"


def rank_sets(log_values: ArrayLike, *, alpha: float = 0.05) -> tuple[RankSet, ...]:
    """Ranks of arms by all-pairs paired t tests with Holm's correction; ties stay ties.

    Parameters
    ----------
    log_values : array_like, shape (r, arms)
        Log of one value per block and arm (a run's quantile, CPU per request).
    alpha : float
        Family-wise level.

    Returns
    -------
    tuple of RankSet
        One per arm: best = 1 + arms that are smaller beyond doubt, worst = arms − those larger beyond doubt. All
        ranks are possible below 3 blocks.
    """
    values = np.asarray(log_values, dtype=float)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise StatisticsError(f"one finite value per block and arm is needed, got shape {values.shape}")
    r, arms = values.shape
    pairs = list(combinations(range(arms), 2))
    adjusted = holm([paired_t_p(values[:, j] - values[:, i]) for i, j in pairs]) if pairs else np.empty(0)
    smaller, larger = np.zeros(arms, dtype=int), np.zeros(arms, dtype=int)
    for (i, j), p in zip(pairs, adjusted, strict=True):
        if p <= alpha:
            low, high = (i, j) if values[:, i].mean() < values[:, j].mean() else (j, i)
            larger[low] += 1
            smaller[high] += 1
    warnings = (StatisticsWarning.TooFewBlocks,) if r < MIN_BLOCKS_INTERVAL else ()
    return tuple(
        RankSet(1 + int(s), arms - int(g), r, 1 - alpha, warnings=warnings)
        for s, g in zip(smaller, larger, strict=True)
    )
