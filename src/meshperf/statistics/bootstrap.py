"""Intervals over blocks: the bootstrap that resamples blocks, widened by Student's t.

With few blocks the percentile bootstrap is far too narrow: it estimates the variance with divisor r and uses
normal instead of t quantiles (Cameron, Gelbach & Miller 2008; Hesterberg 2015). The interval here is

    estimate ± t(r − 1) · SE_boot · √(r / (r − 1)),

which for a mean is exactly Student's interval, and serves any statistic that is a function of block weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import combinations_with_replacement
from math import factorial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from meshperf.statistics.quantiles import best_log_quantile, window
from meshperf.statistics.results import Interval, StatisticsError, StatisticsWarning

#: Fewest blocks for an interval, fewest for a claim, most for which every resample is enumerated.
MIN_BLOCKS_INTERVAL, MIN_BLOCKS_CLAIM, MAX_BLOCKS_EXACT = 3, 6, 8
#: A block further from the median than this many scaled median absolute deviations is far from the others; the
#: scale, 1/Φ⁻¹(3/4), makes the deviation of a normal distribution its standard deviation.
FAR, MAD_SCALE = 3.5, 1.4826
_CHUNK = 2000


def t_quantile(confidence: float, n_blocks: int) -> float:
    """Two-sided Student quantile for r − 1 degrees of freedom."""
    if not 0 < confidence < 1:
        raise StatisticsError(f"a confidence is between 0 and 1, got {confidence}")
    return float(stdtrit(n_blocks - 1, 0.5 + confidence / 2))


@lru_cache(maxsize=16)
def _all_weights(n_blocks: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    picks = np.array(list(combinations_with_replacement(range(n_blocks), n_blocks)))
    counts = np.stack([(picks == block).sum(axis=1) for block in range(n_blocks)], axis=1)
    ways = np.array([factorial(n_blocks) / np.prod([factorial(int(c)) for c in row]) for row in counts])
    weights, probabilities = counts / n_blocks, ways / float(n_blocks) ** n_blocks
    weights.flags.writeable = probabilities.flags.writeable = False
    return weights, probabilities


def block_weights(
    n_blocks: int, n_resamples: int = 10_000, rng: np.random.Generator | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights that each bootstrap resample gives to the blocks.

    Parameters
    ----------
    n_blocks : int
        r, at least 1.
    n_resamples : int
        Number of random resamples when r > 8.
    rng : numpy.random.Generator, optional
        Needed when r > 8; there is no global state.

    Returns
    -------
    weights : ndarray, shape (n_resamples, r)
        Each row sums to 1.
    probabilities : ndarray, shape (n_resamples,)
        Sum to 1.

    Notes
    -----
    Up to 8 blocks all C(2r − 1, r) multisets are enumerated with their multinomial probabilities (10 at
    r = 3, 462 at 6, 6435 at 8): no Monte Carlo error and no seed.
    """
    if n_blocks < 1:
        raise StatisticsError(f"there must be at least 1 block, got {n_blocks}")
    if n_blocks <= MAX_BLOCKS_EXACT:
        return _all_weights(n_blocks)
    if rng is None:
        raise StatisticsError(f"{n_blocks} blocks are resampled at random: pass a seeded generator")
    weights = rng.multinomial(n_blocks, np.full(n_blocks, 1 / n_blocks), size=n_resamples) / n_blocks
    return weights, np.full(n_resamples, 1 / n_resamples)


def block_interval(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    n_blocks: int,
    *,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
    log: bool = False,
    method: str = "blocks resampled, bootstrap standard error times t",
) -> Interval:
    """Interval of a statistic of block weights.

    Parameters
    ----------
    statistic : callable
        Maps weights (B, r) to values (B,), on the scale on which the interval is made.
    n_blocks : int
        r.
    confidence : float
        Nominal coverage.
    n_resamples, rng
        As in :func:`block_weights`.
    log : bool
        The statistic is a logarithm: estimate and ends are exponentiated.
    method : str
        Printed with the interval.

    Returns
    -------
    Interval
        Without ends when r < 3 (warning ``TooFewBlocks``), or when the statistic is not a number for some
        resample or the same for all (``NotEstimable``).

    Notes
    -----
    SE = sqrt(Σ p_b (T_b − T̄)² · r/(r − 1)); the factor undoes the divisor r of the resampling variance.
    """
    estimate = float(statistic(np.full((1, n_blocks), 1 / n_blocks))[0])
    transform = np.exp if log else float
    if n_blocks < MIN_BLOCKS_INTERVAL or np.isnan(estimate):
        few = n_blocks < MIN_BLOCKS_INTERVAL
        warning = StatisticsWarning.TooFewBlocks if few else StatisticsWarning.NotEstimable
        return _without_ends(float(transform(estimate)), n_blocks, confidence, method, warning)
    weights, probabilities = block_weights(n_blocks, n_resamples, rng)
    chunks = range(0, len(weights), _CHUNK)
    values = np.concatenate([np.asarray(statistic(weights[start : start + _CHUNK])) for start in chunks])
    mean = probabilities @ values
    se = float(np.sqrt(probabilities @ (values - mean) ** 2 * n_blocks / (n_blocks - 1)))
    if not np.isfinite(se) or se <= 1e-12 * max(1.0, abs(estimate)):
        return _without_ends(
            float(transform(estimate)), n_blocks, confidence, method, StatisticsWarning.NotEstimable
        )
    half = t_quantile(confidence, n_blocks) * se
    low, high = float(transform(estimate - half)), float(transform(estimate + half))
    return Interval(float(transform(estimate)), low, high, se, n_blocks, confidence, method)


def mean_interval(
    values: ArrayLike, *, confidence: float = 0.95, log: bool = False, method: str = "Student's t over blocks"
) -> Interval:
    """Student's interval of the mean of one value per block.

    Parameters
    ----------
    values : array_like, shape (r,)
        One number per block; logarithms when `log` is true.
    confidence, log, method
        As in :func:`block_interval`.

    Returns
    -------
    Interval
        With the standard deviation between blocks in ``sd``. The warning ``Bimodal`` is set when a block is
        further than 3.5 · 1.4826 · MAD from the median; ends are missing as in :func:`block_interval`.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or values.size == 0:
        raise StatisticsError(f"one value per block is needed, got shape {values.shape}")
    transform = np.exp if log else float
    r = values.size
    estimate = float(transform(values.mean()))
    if np.isnan(values).any():
        return _without_ends(float("nan"), r, confidence, method, StatisticsWarning.NotEstimable)
    sd = float(values.std(ddof=1)) if r > 1 else float("nan")
    if r < MIN_BLOCKS_INTERVAL:
        return _without_ends(estimate, r, confidence, method, StatisticsWarning.TooFewBlocks, sd)
    if sd <= 1e-12 * max(1.0, abs(values.mean())):
        return _without_ends(estimate, r, confidence, method, StatisticsWarning.NotEstimable, sd)
    se = sd / np.sqrt(r)
    half = t_quantile(confidence, r) * se
    low, high = (float(transform(values.mean() + sign * half)) for sign in (-1, 1))
    warnings = (StatisticsWarning.Bimodal,) if far_blocks(values).any() else ()
    return Interval(estimate, low, high, float(se), r, confidence, method, sd, warnings)


def far_blocks(values: ArrayLike) -> NDArray[np.bool_]:
    """Mark blocks that lie far from the others: none is left out, all are shown.

    Parameters
    ----------
    values : array_like, shape (r,)
        One number per block, such as a log ratio.

    Returns
    -------
    ndarray of bool, shape (r,)
        |x_i − median| > 3.5 · 1.4826 · median |x_j − median|; nothing is marked when that is 0.

    Notes
    -----
    The modified z-score of Iglewicz & Hoaglin (1993), 0.6745 |x_i − median|/MAD > 3.5. It marks a block of an arm
    whose deployments have two modes, as long as fewer than half are in the other mode.
    """
    values = block_values(values)
    deviation = np.abs(values - np.median(values))
    limit = FAR * MAD_SCALE * np.median(deviation)
    return deviation > limit if limit > 0 else np.zeros(values.size, dtype=bool)


def block_values(values: ArrayLike) -> NDArray[np.float64]:
    """Check that there is one finite number per block and return them, shape (r,)."""
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise StatisticsError(f"one finite number per block is needed, got shape {values.shape}")
    return values


def _without_ends(
    estimate: float,
    n: int,
    confidence: float,
    method: str,
    warning: StatisticsWarning,
    sd: float = float("nan"),
) -> Interval:
    nan = float("nan")
    return Interval(estimate, nan, nan, nan, n, confidence, method, sd, (warning,))


def merged_quantile_interval(
    cdf: ArrayLike,
    edges_s: ArrayLike,
    q: float,
    *,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
) -> Interval:
    """Quantile in seconds of the mean of the blocks' CDFs, with its interval over blocks.

    Parameters
    ----------
    cdf : array_like, shape (r, n_bins)
        One CDF per block (the mean of the block's runs of this arm).
    edges_s : array_like, shape (n_bins + 1,)
    q : float
        In (0, 1).

    Notes
    -----
    The interval contains the variance between blocks, so two overlapping cell intervals are not a comparison.
    """
    near, near_edges_s = window(cdf_matrix(cdf), edges_s, q)
    return block_interval(
        lambda weights: best_log_quantile(weights @ near, near_edges_s, q),
        near.shape[0],
        confidence=confidence,
        n_resamples=n_resamples,
        rng=rng,
        log=True,
    )


def cdf_matrix(cdf: ArrayLike) -> NDArray[np.float64]:
    """Check that there is one finite CDF per block and return them as an array of shape (r, n_bins)."""
    cdf = np.asarray(cdf, dtype=float)
    if cdf.ndim != 2 or cdf.shape[0] == 0 or not np.isfinite(cdf).all():
        raise StatisticsError(f"one finite CDF per block is needed, got shape {cdf.shape}")
    return cdf


def paired_cdfs(cdf: ArrayLike, baseline_cdf: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check that arm and baseline have one finite CDF for each of the same blocks, on the same grid."""
    cdf, baseline_cdf = cdf_matrix(cdf), cdf_matrix(baseline_cdf)
    if cdf.shape != baseline_cdf.shape:
        raise StatisticsError(
            f"arm and baseline need the same blocks and bins: {cdf.shape}, {baseline_cdf.shape}"
        )
    return cdf, baseline_cdf
