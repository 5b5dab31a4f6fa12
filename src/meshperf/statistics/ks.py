"""Distances between distributions as effect sizes: Kolmogorov–Smirnov D, Wasserstein-1, stochastic dominance.

All compare means of run CDFs, in which runs weigh the same. ``scipy.stats.ks_2samp`` on requests is not a
test here: its n assumes independent requests, and it calls two runs of one system different nearly every
time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meshperf.statistics.bootstrap import block_interval, block_weights, cdf_matrix, t_quantile
from meshperf.statistics.results import Interval, StatisticsError


@dataclass(frozen=True)
class KsDistance:
    """Largest vertical distance between two mean CDFs.

    Attributes
    ----------
    d : float
        sup |F̄₁ − F̄₀| over bin edges, in [0, 1].
    at_s : float
        Latency in seconds where it is reached.
    d_plus, d_minus : float
        sup (F̄₁ − F̄₀) and sup (F̄₀ − F̄₁), not negative. A slower arm has a large `d_minus`.
    bin_bound : float
        Largest share in one bin: binning can lower `d` by no more than this.
    n : int
        Number of blocks.
    """

    d: float
    at_s: float
    d_plus: float
    d_minus: float
    bin_bound: float
    n: int


def ks_distance(cdf: ArrayLike, baseline_cdf: ArrayLike, edges_s: ArrayLike) -> KsDistance:
    """Measure D between the mean CDFs of an arm and its baseline.

    Parameters
    ----------
    cdf, baseline_cdf : array_like, shape (r, n_bins)
        One CDF per block.
    edges_s : array_like, shape (n_bins + 1,)
    """
    arm, baseline = _means(cdf, baseline_cdf)
    difference = arm - baseline
    at = int(np.argmax(np.abs(difference)))
    masses = [float(np.diff(mean, prepend=0.0).max()) for mean in (arm, baseline)]
    return KsDistance(
        d=float(np.abs(difference[at])),
        at_s=float(np.asarray(edges_s, dtype=float)[at + 1]),
        d_plus=max(float(difference.max()), 0.0),
        d_minus=max(float(-difference.min()), 0.0),
        bin_bound=max(masses),
        n=len(cdf_matrix(cdf)),
    )


def ks_interval(
    cdf: ArrayLike,
    baseline_cdf: ArrayLike,
    *,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
) -> Interval:
    """D with its interval over blocks, cut to [0, 1].

    Notes
    -----
    D is biased upwards when the truth is small; print D between the two baselines next to it.
    """
    pair = np.stack([cdf_matrix(cdf), cdf_matrix(baseline_cdf)])
    difference = pair[0] - pair[1]
    interval = block_interval(
        lambda weights: np.abs(weights @ difference).max(axis=1),
        difference.shape[0],
        confidence=confidence,
        n_resamples=n_resamples,
        rng=rng,
    )
    low, high = np.clip([interval.low, interval.high], 0.0, 1.0)
    return Interval(
        interval.estimate,
        float(low),
        float(high),
        interval.se,
        interval.n,
        confidence,
        interval.method,
        warnings=interval.warnings,
    )


def wasserstein_log(cdf: ArrayLike, baseline_cdf: ArrayLike, edges_s: ArrayLike) -> float:
    """Wasserstein-1 distance of log latency: the area between the quantile curves, the mean relative shift.

    Parameters
    ----------
    cdf, baseline_cdf : array_like, shape (r, n_bins)
    edges_s : array_like, shape (n_bins + 1,)

    Returns
    -------
    float
        ∫ |F̄₁ − F̄₀| d log x, with F linear in log latency inside bins; 0.1 reads "10 % on average". NaN when
        requests lie in a bin without a finite log width.
    """
    return _area(cdf, baseline_cdf, edges_s, np.log)


def wasserstein_s(cdf: ArrayLike, baseline_cdf: ArrayLike, edges_s: ArrayLike) -> float:
    """Wasserstein-1 distance in seconds; for a slower arm at all quantiles, the mean cost of a request."""
    return _area(cdf, baseline_cdf, edges_s, np.asarray)


def _area(cdf: ArrayLike, baseline_cdf: ArrayLike, edges_s: ArrayLike, scale) -> float:
    difference = np.concatenate([[0.0], np.subtract(*_means(cdf, baseline_cdf))])
    with np.errstate(divide="ignore", invalid="ignore"):
        widths = np.diff(scale(np.asarray(edges_s, dtype=float)))
    left, right = difference[:-1], difference[1:]
    crossing = left * right < 0
    size = np.abs(left) + np.abs(right)
    with np.errstate(divide="ignore", invalid="ignore"):
        height = np.where(crossing, (left**2 + right**2) / (2 * size), size / 2)
    used = size > 0
    area = float((height[used] * widths[used]).sum())
    return area if np.isfinite(area) else float("nan")


@dataclass(frozen=True)
class Dominance:
    """Whether one arm is slower at every latency.

    Attributes
    ----------
    statement : {"slower everywhere", "faster everywhere", "crosses", "undecided"}
    crossing_s : float
        Latency in seconds at which the mean CDFs cross (the first time beyond `epsilon`); NaN without a
        crossing.
    epsilon : float
    n : int
        Number of blocks.
    """

    statement: str
    crossing_s: float
    epsilon: float
    n: int


def dominance(
    cdf: ArrayLike,
    baseline_cdf: ArrayLike,
    edges_s: ArrayLike,
    *,
    epsilon: float = 0.01,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
) -> Dominance:
    """First-order stochastic dominance within `epsilon`.

    "slower everywhere" when the upper one-sided limit of D⁺ = sup (F̄₁ − F̄₀) is at most `epsilon` and the lower limit
    of D⁻ is above 0, and the mirror image for "faster everywhere"; "crosses" when the lower limits of both
    are above `epsilon`; else "undecided".

    Parameters
    ----------
    cdf, baseline_cdf : array_like, shape (r, n_bins)
    edges_s : array_like, shape (n_bins + 1,)
    epsilon : float
        Share of requests that does not count.
    confidence : float
        Of each one-sided limit.
    """
    arm, baseline = cdf_matrix(cdf), cdf_matrix(baseline_cdf)
    difference, r = arm - baseline, arm.shape[0]
    if r < 3:
        return Dominance("undecided", float("nan"), epsilon, r)
    weights, probabilities = block_weights(r, n_resamples, rng)
    means = weights @ difference
    critical = t_quantile(2 * confidence - 1, r)

    def limits(values: NDArray, estimate: float) -> tuple[float, float]:
        centre = probabilities @ values
        se = np.sqrt(probabilities @ (values - centre) ** 2 * r / (r - 1))
        return estimate - critical * se, estimate + critical * se

    mean = difference.mean(axis=0)
    plus = limits(np.maximum(means.max(axis=1), 0), max(mean.max(), 0.0))
    minus = limits(np.maximum(-means.min(axis=1), 0), max(-mean.min(), 0.0))
    crossing, statement = float("nan"), "undecided"
    if plus[1] <= epsilon and minus[0] > 0:
        statement = "slower everywhere"
    elif minus[1] <= epsilon and plus[0] > 0:
        statement = "faster everywhere"
    elif plus[0] > epsilon and minus[0] > epsilon:
        statement = "crosses"
        beyond = np.flatnonzero(np.abs(mean) > epsilon)
        turn = np.flatnonzero(np.diff(np.sign(mean[beyond])) != 0)[0]
        between = mean[beyond[turn] : beyond[turn + 1] + 1]
        crossing = float(np.asarray(edges_s)[beyond[turn] + 1 + int(np.argmin(np.abs(between)))])
    return Dominance(statement, crossing, epsilon, r)


def _means(cdf: ArrayLike, baseline_cdf: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    arm, baseline = cdf_matrix(cdf), cdf_matrix(baseline_cdf)
    if arm.shape[1] != baseline.shape[1]:
        raise StatisticsError(f"arm and baseline are on different grids: {arm.shape}, {baseline.shape}")
    return arm.mean(axis=0), baseline.mean(axis=0)
