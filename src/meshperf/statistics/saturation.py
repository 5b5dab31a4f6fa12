"""Where a cell stops following its target rate: the knee of the throughput–latency curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meshperf.statistics.bootstrap import MIN_BLOCKS_INTERVAL, block_weights
from meshperf.statistics.quantiles import best_log_quantile
from meshperf.statistics.results import StatisticsError, StatisticsWarning

#: A level whose p99 exceeds this multiple of the lowest level's is beyond the knee.
MAX_LATENCY_RATIO = 2.0


@dataclass(frozen=True)
class Knee:
    """Largest tested rate that still works.

    Attributes
    ----------
    target_rps : float
        NaN when not even the lowest rate works.
    low, high : float
        Range over the block bootstrap, of tested rates; NaN below 3 blocks.
    at_limit : bool
        The knee is the highest rate tested: the true one is there or beyond.
    n : int
        Number of blocks.
    warnings : tuple of StatisticsWarning
    """

    target_rps: float
    low: float
    high: float
    at_limit: bool
    n: int
    warnings: tuple[StatisticsWarning, ...] = ()


def knee(
    target_rps: ArrayLike,
    ok: ArrayLike,
    cdf: ArrayLike,
    edges_s: ArrayLike,
    *,
    q: float = 0.99,
    max_ratio: float = MAX_LATENCY_RATIO,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
) -> Knee:
    """Find the largest tested rate that is met and whose q-quantile has not doubled.

    Met in all blocks but one at most.

    Parameters
    ----------
    target_rps : array_like, shape (levels,)
        Ascending.
    ok : array_like of bool, shape (r, levels)
        Whether each run met its rate.
    cdf : array_like, shape (r, levels, n_bins)
    edges_s : array_like, shape (n_bins + 1,)
    q : float
    max_ratio : float
        Largest allowed ratio of the merged quantile to that of the lowest rate.
    confidence : float
        The range leaves out (1 − confidence)/2 of the resamples at each end.
    n_resamples, rng
        As in :func:`~meshperf.statistics.bootstrap.block_weights`.

    Notes
    -----
    A rate counts only if all lower ones do. No model of the queue is assumed; the range is discrete, because only
    tested rates can be knees.
    """
    rates = np.asarray(target_rps, dtype=float)
    good = np.asarray(ok, dtype=bool)
    curves = np.asarray(cdf, dtype=float)
    r = good.shape[0]
    if rates.ndim != 1 or good.shape != (r, rates.size) or curves.shape[:2] != good.shape:
        raise StatisticsError(f"levels do not match: {rates.shape}, {good.shape}, {curves.shape}")
    if (np.diff(rates) <= 0).any() or not np.isfinite(curves).all():
        raise StatisticsError("rates must ascend and CDFs be finite")

    def positions(weights: NDArray) -> NDArray[np.intp]:
        quantile = np.stack(
            [best_log_quantile(weights @ curves[:, level], edges_s, q) for level in range(rates.size)], axis=1
        )
        met = weights @ good >= 1 - 1 / r - 1e-9
        works = met & (quantile - quantile[:, :1] <= np.log(max_ratio) + 1e-12)
        return np.cumprod(works, axis=1).sum(axis=1) - 1

    at = int(positions(np.full((1, r), 1 / r))[0])
    estimate = float(rates[at]) if at >= 0 else float("nan")
    if r < MIN_BLOCKS_INTERVAL:
        nan = float("nan")
        return Knee(estimate, nan, nan, at == rates.size - 1, r, (StatisticsWarning.TooFewBlocks,))
    weights, probabilities = block_weights(r, n_resamples, rng)
    found = positions(weights)
    order = np.argsort(found, kind="stable")
    cumulative = np.cumsum(probabilities[order])
    tail = (1 - confidence) / 2
    ends = [found[order][min(int(np.searchsorted(cumulative, p)), found.size - 1)] for p in (tail, 1 - tail)]
    low, high = (float(rates[end]) if end >= 0 else float("nan") for end in ends)
    return Knee(estimate, low, high, at == rates.size - 1, r)
