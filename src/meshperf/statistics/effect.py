"""Overhead of an arm against the baseline: paired by block, on the log scale for ratios.

Two estimands, both printed. *Typical*: the geometric mean over blocks of the ratio of run quantiles, what one
deployment can expect. *Merged*: the ratio of the quantiles of the mean CDFs, what the CDF figure shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr

from meshperf.statistics.bootstrap import (
    MIN_BLOCKS_CLAIM,
    MIN_BLOCKS_INTERVAL,
    block_interval,
    cdf_matrix,
    mean_interval,
    paired_cdfs,
    t_quantile,
)
from meshperf.statistics.quantiles import best_log_quantile, quantile_bounds, window
from meshperf.statistics.results import Interval, StatisticsError, StatisticsWarning


def log_ratios(cdf: ArrayLike, baseline_cdfs: ArrayLike, edges_s: ArrayLike, q: float) -> NDArray[np.float64]:
    """Log ratio of the q-quantiles in each block.

    Parameters
    ----------
    cdf : array_like, shape (r, n_bins)
        The arm's run in each block.
    baseline_cdfs : array_like, shape (r, b, n_bins) or (r, n_bins)
        The b baseline runs of each block.
    edges_s : array_like, shape (n_bins + 1,)
    q : float
        In (0, 1).

    Returns
    -------
    ndarray, shape (r,)
        d_i = log Q_arm,i(q) − mean over k of log Q_baseline,i,k(q).

    Notes
    -----
    The mean of the two baselines' log quantiles, not the quantile of their mean CDF: mixing two runs that differ by
    a factor stretches the tail, and in an A/A comparison at p99 the arm would look faster by one to two per cent.
    """
    return best_log_quantile(cdf_matrix(cdf), edges_s, q) - _baseline_log_quantiles(
        cdf, baseline_cdfs, edges_s, q
    ).mean(axis=1)


def _baseline_log_quantiles(
    cdf: ArrayLike, baseline_cdfs: ArrayLike, edges_s: ArrayLike, q: float
) -> NDArray[np.float64]:
    """Log quantiles of the baseline runs of each block, shape (r, b)."""
    arm, baselines = cdf_matrix(cdf), np.asarray(baseline_cdfs, dtype=float)
    if baselines.ndim == 2:
        baselines = baselines[:, None, :]
    if baselines.ndim != 3 or baselines.shape[::2] != arm.shape or not np.isfinite(baselines).all():
        raise StatisticsError(
            f"arm and baseline need the same blocks and bins: {arm.shape}, {baselines.shape}"
        )
    return best_log_quantile(baselines, edges_s, q)


def log_ratio_interval(d: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Typical ratio exp(mean d) with Student's interval over blocks.

    Parameters
    ----------
    d : array_like, shape (r,)
        Log ratio of each block.
    """
    return mean_interval(d, confidence=confidence, log=True, method="paired t on log ratios of blocks")


def merged_ratio_interval(
    cdf: ArrayLike,
    baseline_cdf: ArrayLike,
    edges_s: ArrayLike,
    q: float,
    *,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
) -> Interval:
    """Ratio of the quantiles of the mean CDFs; arm and baseline of a block are resampled together.

    Parameters
    ----------
    cdf, baseline_cdf : array_like, shape (r, n_bins)
    edges_s : array_like, shape (n_bins + 1,)
    q : float
        In (0, 1).
    """
    cdf, baseline_cdf = paired_cdfs(cdf, baseline_cdf)
    high, high_edges_s = window(cdf, edges_s, q)
    low, low_edges_s = window(baseline_cdf, edges_s, q)
    return block_interval(
        lambda weights: (
            best_log_quantile(weights @ high, high_edges_s, q)
            - best_log_quantile(weights @ low, low_edges_s, q)
        ),
        cdf.shape[0],
        confidence=confidence,
        n_resamples=n_resamples,
        rng=rng,
        log=True,
    )


def merged_difference_interval(
    cdf: ArrayLike,
    baseline_cdf: ArrayLike,
    edges_s: ArrayLike,
    q: float,
    *,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
) -> Interval:
    """Difference in seconds of the quantiles of the mean CDFs; parameters as in `merged_ratio_interval`."""
    cdf, baseline_cdf = paired_cdfs(cdf, baseline_cdf)
    high, high_edges_s = window(cdf, edges_s, q)
    low, low_edges_s = window(baseline_cdf, edges_s, q)
    return block_interval(
        lambda weights: (
            np.exp(best_log_quantile(weights @ high, high_edges_s, q))
            - np.exp(best_log_quantile(weights @ low, low_edges_s, q))
        ),
        cdf.shape[0],
        confidence=confidence,
        n_resamples=n_resamples,
        rng=rng,
    )


def difference_interval(arm: ArrayLike, baseline: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Mean difference arm − baseline with Student's interval over blocks.

    Parameters
    ----------
    arm, baseline : array_like, shape (r,)
        One value per block in the same unit (seconds, CPU-seconds per request, ...).
    """
    arm, baseline = np.asarray(arm, dtype=float), np.asarray(baseline, dtype=float)
    if arm.shape != baseline.shape or arm.ndim != 1:
        raise StatisticsError(f"one pair per block is needed, got shapes {arm.shape} and {baseline.shape}")
    return mean_interval(arm - baseline, confidence=confidence, method="paired t on differences of blocks")


def resolution_bracket(
    cdf: ArrayLike, baseline_cdf: ArrayLike, edges_s: ArrayLike, q: float
) -> tuple[float, float]:
    """Limits of the merged ratio that binning alone leaves open.

    Returns
    -------
    low, high : float
        [left edge of the arm / right edge of the baseline, right edge / left edge]. When this bracket
        contains 1, the bins are too wide to claim a difference.
    """
    cdf, baseline_cdf = paired_cdfs(cdf, baseline_cdf)
    low, high = quantile_bounds(cdf.mean(axis=0), edges_s, q)
    baseline_low, baseline_high = quantile_bounds(baseline_cdf.mean(axis=0), edges_s, q)
    with np.errstate(divide="ignore"):
        return float(low / baseline_high), float(np.divide(high, baseline_low))


def paired_t_p(d: ArrayLike) -> float:
    """Two-sided p of the paired t test that the mean of `d` is 0; NaN below 3 blocks or without spread."""
    d = np.asarray(d, dtype=float)
    interval = mean_interval(d)
    if not interval.has_interval:
        return float("nan")
    p = 2 * float(stdtr(d.size - 1, -abs(d.mean()) / interval.se))
    return max(p, float(np.finfo(float).tiny))


def leave_one_out_range(d: ArrayLike) -> tuple[float, float]:
    """Smallest and largest typical ratio when each block in turn is left out; NaN below 2 blocks."""
    d = np.asarray(d, dtype=float)
    if d.size < 2:
        return float("nan"), float("nan")
    ratios = np.exp((d.sum() - d) / (d.size - 1))
    return float(ratios.min()), float(ratios.max())


@dataclass(frozen=True)
class Verdict:
    """One of the closed list of verdicts, and why.

    Attributes
    ----------
    verdict : str
        "slower", "faster", "equivalent", "undecided", "resolution-limited", "not estimable" or "too few
        blocks"; the analysis adds "not comparable (...)" for cells that are not compared at all.
    reason : str
        One clause.
    """

    verdict: str
    reason: str


def verdict(
    ratio: Interval,
    *,
    p_adjusted: float | None,
    alpha: float,
    bracket: tuple[float, float],
    noise_limit: float = 0.0,
    equivalence: Interval | None = None,
    margin: float | None = None,
) -> Verdict:
    """Say what a comparison supports.

    Parameters
    ----------
    ratio : Interval
        Typical ratio.
    p_adjusted : float or None
        p-value corrected for its family; None for an exploratory comparison, which supports no claim.
    alpha : float
        Level of the test.
    bracket : tuple of float
        What binning leaves open of the merged ratio (:func:`resolution_bracket`).
    noise_limit : float
        95th percentile of |log ratio| between the two baselines of the same cell: a smaller effect is not
        told from noise.
    equivalence : Interval, optional
        Typical ratio at confidence 1 − 2α, which makes the comparison with `margin` a TOST (Schuirmann 1987).
    margin : float, optional
        Equivalent when `equivalence` lies in [1/(1 + margin), 1 + margin].
    """
    if ratio.n < MIN_BLOCKS_CLAIM:
        need = f"{MIN_BLOCKS_INTERVAL} for an interval and {MIN_BLOCKS_CLAIM} for a claim"
        return Verdict("too few blocks", f"complete blocks: {ratio.n}; {need} are needed")
    if not ratio.has_interval or (equivalence is not None and not equivalence.has_interval):
        return Verdict("not estimable", "the log ratio of a block is not a number, or all blocks are equal")
    if margin is not None and equivalence is not None:
        low, high = 1 / (1 + margin), 1 + margin
        if low <= equivalence.low and equivalence.high <= high:
            level = f"{100 * equivalence.confidence:.0f} %"
            return Verdict("equivalent", f"the {level} interval lies within the margin of {100 * margin:g} %")
    if p_adjusted is None:
        return Verdict("undecided", "exploratory: interval only")
    if np.isnan(p_adjusted):
        return Verdict("undecided", "no test was possible")
    if p_adjusted > alpha:
        return Verdict("undecided", f"adjusted p = {p_adjusted:.2g} is above {alpha:g}")
    effect = float(np.log(ratio.estimate))
    if abs(effect) <= noise_limit:
        return Verdict("undecided", "no larger than the differences between the two baselines")
    if bracket[0] <= 1 <= bracket[1]:
        return Verdict("resolution-limited", "the effect is smaller than the histogram's bins")
    return Verdict("slower" if effect > 0 else "faster", f"adjusted p = {p_adjusted:.2g}")


@dataclass(frozen=True, eq=False)
class ShiftFunction:
    """Ratios and differences of quantiles over the whole distribution, with simultaneous bands.

    Attributes
    ----------
    quantiles : ndarray, shape (k,)
    ratio, ratio_low, ratio_high : ndarray, shape (k,)
        Typical ratios; the band covers all of them together with the given confidence.
    difference_s, difference_low_s, difference_high_s : ndarray, shape (k,)
    log_ratios : ndarray, shape (r, k)
        One line per block.
    n : int
        Number of blocks.
    confidence : float
    method : str
    warnings : tuple of StatisticsWarning
    """

    quantiles: NDArray[np.float64]
    ratio: NDArray[np.float64]
    ratio_low: NDArray[np.float64]
    ratio_high: NDArray[np.float64]
    difference_s: NDArray[np.float64]
    difference_low_s: NDArray[np.float64]
    difference_high_s: NDArray[np.float64]
    log_ratios: NDArray[np.float64]
    n: int
    confidence: float
    method: str
    warnings: tuple[StatisticsWarning, ...] = ()


#: Quantiles of the shift function: deciles are too few where the tail matters.
SHIFT_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_MIN_BLOCKS_MAX_T = 8


def shift_function(
    cdf: ArrayLike,
    baseline_cdfs: ArrayLike,
    edges_s: ArrayLike,
    quantiles: Sequence[float] = SHIFT_QUANTILES,
    *,
    confidence: float = 0.95,
    rng: np.random.Generator | None = None,
) -> ShiftFunction:
    """How an arm shifts each part of the distribution (Doksum 1974; Rousselet, Pernet & Wilcox 2017).

    Parameters
    ----------
    cdf : array_like, shape (r, n_bins)
    baseline_cdfs : array_like, shape (r, b, n_bins) or (r, n_bins)
        As in :func:`log_ratios`.
    edges_s : array_like, shape (n_bins + 1,)
    quantiles : sequence of float
    confidence : float
        Joint coverage of the band over all quantiles.
    rng : numpy.random.Generator, optional
        Needed from 8 blocks on, for the distribution of the largest t.

    Notes
    -----
    Below 8 blocks the band is Bonferroni's; from 8 on it takes the quantile of max |t| with the correlation
    of the quantiles estimated from the blocks. No band below 3 blocks.
    """
    high = np.stack([best_log_quantile(cdf_matrix(cdf), edges_s, q) for q in quantiles], axis=1)
    low = np.stack([_baseline_log_quantiles(cdf, baseline_cdfs, edges_s, q) for q in quantiles], axis=2)
    d, difference = high - low.mean(axis=1), np.exp(high) - np.exp(low).mean(axis=1)
    r, k = d.shape
    if r < MIN_BLOCKS_INTERVAL:
        nan, warnings = np.full(k, np.nan), (StatisticsWarning.TooFewBlocks,)
        half_d = half_difference = nan
        method = "no band"
    else:
        warnings = ()
        if r >= _MIN_BLOCKS_MAX_T:
            method = "largest of paired t statistics"
            critical = [_max_t(values, confidence, rng) for values in (d, difference)]
        else:
            method = "paired t, Bonferroni"
            critical = [t_quantile(1 - (1 - confidence) / k, r)] * 2
        half_d, half_difference = (
            c * values.std(axis=0, ddof=1) / np.sqrt(r)
            for c, values in zip(critical, (d, difference), strict=True)
        )
    mean_d, mean_difference = d.mean(axis=0), difference.mean(axis=0)
    return ShiftFunction(
        quantiles=np.asarray(quantiles, dtype=float),
        ratio=np.exp(mean_d),
        ratio_low=np.exp(mean_d - half_d),
        ratio_high=np.exp(mean_d + half_d),
        difference_s=mean_difference,
        difference_low_s=mean_difference - half_difference,
        difference_high_s=mean_difference + half_difference,
        log_ratios=d,
        n=r,
        confidence=confidence,
        method=method,
        warnings=warnings,
    )


def _max_t(
    values: NDArray[np.float64], confidence: float, rng: np.random.Generator | None, n_draws: int = 20_000
) -> float:
    """Quantile of max |t| for r − 1 degrees of freedom and the columns' estimated correlation."""
    if rng is None:
        raise StatisticsError("a simultaneous band from 8 blocks on is simulated: pass a seeded generator")
    r = values.shape[0]
    centred = values - values.mean(axis=0)
    spread = np.sqrt((centred**2).sum(axis=0))
    if not np.isfinite(spread).all() or (spread == 0).any():
        return float("nan")
    # Normal draws in the blocks' own space have the estimated correlation, of rank r − 1 at most.
    draws = rng.standard_normal((n_draws, r)) @ (centred / spread)
    scale = np.sqrt(rng.chisquare(r - 1, n_draws) / (r - 1))
    return float(np.quantile(np.abs(draws).max(axis=1) / scale, confidence))


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests that a ratio lies within a margin (Schuirmann 1987).

    Attributes
    ----------
    equivalent : bool
        Whether both tests reject at `alpha`: the interval at confidence 1 − 2 alpha lies within the margin.
    p_value : float
        The larger of the two one-sided p-values; NaN below 3 blocks.
    interval : Interval
        At confidence 1 − 2 alpha.
    margin, alpha : float
    """

    equivalent: bool
    p_value: float
    interval: Interval
    margin: float
    alpha: float


def tost(d: ArrayLike, margin: float, *, alpha: float = 0.05) -> Equivalence:
    """Test whether the typical ratio lies in [1/(1 + margin), 1 + margin].

    Parameters
    ----------
    d : array_like, shape (r,)
        Log ratio of each block.
    margin : float
        Above 0, declared before the data were seen.
    """
    if not margin > 0:
        raise StatisticsError(f"a margin of equivalence is above 0, got {margin}")
    d = np.asarray(d, dtype=float)
    interval = log_ratio_interval(d, confidence=1 - 2 * alpha)
    if not interval.has_interval:
        return Equivalence(False, float("nan"), interval, margin, alpha)
    limit = np.log1p(margin)
    sides = [float(stdtr(d.size - 1, (sign * d.mean() - limit) / interval.se)) for sign in (1, -1)]
    return Equivalence(max(sides) <= alpha, max(sides), interval, margin, alpha)
