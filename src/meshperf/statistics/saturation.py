"""Where a cell stops following its target rate: the knee of the throughput–latency curve, and a curve through it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import fdtrc

from meshperf.statistics.bootstrap import MIN_BLOCKS_INTERVAL, block_weights, mean_interval
from meshperf.statistics.quantiles import best_log_quantile
from meshperf.statistics.results import Interval, StatisticsError, StatisticsWarning

#: A level whose p99 exceeds this multiple of the lowest level's is beyond the knee.
MAX_LATENCY_RATIO = 2.0
#: Levels that a curve through the knee needs, and the lack-of-fit p-value above which it may be used.
MIN_LEVELS_CURVE, MIN_LACK_OF_FIT_P = 4, 0.05


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


@dataclass(frozen=True, eq=False)
class CapacityFit:
    """The curve R(x) = R₀/(1 − x/μ) through the levels of each block: a second opinion on the knee.

    Attributes
    ----------
    capacity_rps : Interval
        μ, the rate at which latency grows without bound. ``high`` is infinite when no capacity can be excluded.
    base_s : Interval
        R₀ in seconds, the latency without load (typical: geometric mean over blocks).
    lack_of_fit_p : float
        NaN below 2 blocks or 3 levels.
    usable : bool
        Whether the conditions hold: 4 levels, 3 blocks, lack-of-fit p above 0.05, a finite capacity.
    reason : str
        Empty when usable, else one clause.
    per_block : ndarray, shape (r, 2)
        1/μ and log R₀ of each block.
    levels : int
    n : int
        Number of blocks.
    warnings : tuple of StatisticsWarning
    """

    capacity_rps: Interval
    base_s: Interval
    lack_of_fit_p: float
    usable: bool
    reason: str
    per_block: NDArray[np.float64]
    levels: int
    n: int
    warnings: tuple[StatisticsWarning, ...] = ()

    @property
    def confidence(self) -> float:
        """Nominal coverage of the intervals."""
        return self.capacity_rps.confidence

    @property
    def method(self) -> str:
        """How the intervals were made."""
        return self.capacity_rps.method


def capacity_fit(achieved_rps: ArrayLike, log_p50: ArrayLike, *, confidence: float = 0.95) -> CapacityFit:
    """Fit the latency of a single queue to the levels of each block.

    Parameters
    ----------
    achieved_rps : array_like, shape (r, levels)
        Above 0; eligible levels only, those whose runs met their rate.
    log_p50 : array_like, shape (r, levels)
        Natural log of each run's median latency in seconds.
    confidence : float

    Returns
    -------
    CapacityFit

    Notes
    -----
    R(x) = R₀/(1 − x/μ) is the response time of one queue with exponential or processor-shared service (Kleinrock 1975,
    section 3.2; Jain 1991, chapter 31). Least squares on log R within each block; 1/μ is averaged over blocks with
    Student's t and inverted, because a block without any bend has 1/μ = 0 and no finite μ (1/μ below 0 is let be: the
    latency falls with load). Lack of fit: what the blocks' residuals have in common at each level, against how they
    differ, F on (L − 2, (r − 1)(L − 2)) degrees of freedom after two parameters per block (Draper & Smith 1998,
    section 2.1).
    """
    x, y = np.asarray(achieved_rps, dtype=float), np.asarray(log_p50, dtype=float)
    if x.shape != y.shape or x.ndim != 2 or x.shape[1] < 2:
        raise StatisticsError(f"at least two levels per block are needed, got {x.shape} and {y.shape}")
    if not np.isfinite(x).all() or not np.isfinite(y).all() or (x <= 0).any():
        raise StatisticsError("rates are above 0 and latencies finite: leave out levels that were not met")
    if (np.ptp(x, axis=1) == 0).any():
        raise StatisticsError("the rates of a block must differ")
    r, levels = x.shape
    fits = np.array([_queue_fit(*pair) for pair in zip(x, y, strict=True)])
    residuals = y - (fits[:, 1:] - np.log1p(-x * fits[:, :1]))
    p = _lack_of_fit_p(residuals)
    inverse = mean_interval(fits[:, 0], confidence=confidence, method="t over 1/capacity of blocks, inverted")
    base = mean_interval(fits[:, 1], confidence=confidence, log=True, method="t over log R0 of blocks")
    capacity = Interval(
        _inverted(inverse.estimate),
        _inverted(inverse.high) if inverse.has_interval else float("nan"),
        _inverted(inverse.low) if inverse.has_interval else float("nan"),
        inverse.se,
        r,
        confidence,
        inverse.method,
        inverse.sd,
        inverse.warnings,
    )
    reason = ""
    if levels < MIN_LEVELS_CURVE:
        reason = f"{levels} levels met their rate, {MIN_LEVELS_CURVE} are needed"
    elif r < MIN_BLOCKS_INTERVAL:
        reason = f"complete blocks: {r}; {MIN_BLOCKS_INTERVAL} are needed"
    elif not inverse.has_interval:
        reason = "all blocks are equal"
    elif not p > MIN_LACK_OF_FIT_P:
        reason = f"the curve does not fit (lack of fit p = {p:.2g})"
    elif not np.isfinite(capacity.estimate):
        reason = "latency does not rise with the rate"
    return CapacityFit(capacity, base, p, not reason, reason, fits, levels, r, capacity.warnings)


def _queue_fit(x: NDArray, y: NDArray) -> tuple[float, float]:
    """1/μ and log R₀ of least squares; for a given 1/μ, log R₀ is a mean."""
    unit = float(x.max())

    def levels(u: NDArray) -> NDArray[np.float64]:
        return y + np.log1p(-x / unit * np.atleast_1d(u)[:, None])

    # The pole lies just beyond the largest rate; the sum of squares may have a flat part, so a grid comes first.
    grid = np.concatenate([-np.geomspace(10, 1e-3, 40), [0.0], 1 - np.geomspace(1, 1e-6, 80)[1:]])
    best = int(np.argmin(levels(grid).var(axis=1)))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)])
    found = minimize_scalar(
        lambda u: float(levels(u).var()), bounds=bounds, method="bounded", options={"xatol": 1e-9}
    )
    return float(found.x) / unit, float(levels(found.x).mean())


def _lack_of_fit_p(residuals: NDArray[np.float64]) -> float:
    r, levels = residuals.shape
    if r < 2 or levels < 3:
        return float("nan")
    common = residuals.mean(axis=0)
    between = r * (common**2).sum() / (levels - 2)
    error = ((residuals - common) ** 2).sum() / ((r - 1) * (levels - 2))
    if error <= 0:
        return float("nan") if between <= 0 else 0.0
    return float(fdtrc(levels - 2, (r - 1) * (levels - 2), between / error))


def _inverted(rate: float) -> float:
    return 1 / rate if rate > 0 else float("inf")
