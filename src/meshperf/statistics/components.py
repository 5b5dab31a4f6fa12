"""Where the variance of a quantile comes from: between blocks, between deployments, or within runs.

If most of it is within runs, longer runs help; otherwise only more blocks do. A description, never an interval: the
spread between runs already contains what happens within them, so adding both would count it twice (Davison & Hinkley
1997, section 3.8).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meshperf.statistics.quantiles import best_log_quantile, run_cdfs
from meshperf.statistics.results import StatisticsError, StatisticsWarning

#: Slices that are resampled together, so that neighbours keep their dependence.
SLICES_PER_RESAMPLE = 5


@dataclass(frozen=True)
class VarianceComponents:
    """Variance of one run's log quantile, in parts.

    Attributes
    ----------
    block, deployment, within_run : float
        Variances of the natural log: of what the runs of a block share, of what a deployment adds, of what the
        requests of a run add. NaN where they cannot be told apart; negative estimates count as 0.
    total : float
        Their sum.
    n : int
        Number of blocks.
    runs_per_block : int
    method : str
    warnings : tuple of StatisticsWarning
    """

    block: float
    deployment: float
    within_run: float
    total: float
    n: int
    runs_per_block: int
    method: str
    warnings: tuple[StatisticsWarning, ...] = ()

    @property
    def within_share(self) -> float:
        """Share of the variance between the runs of a block that comes from within runs, in [0, 1].

        Above one half longer runs help, below it only more blocks do; what the block adds cancels in a paired
        comparison and is left out.
        """
        between = self.deployment + self.within_run
        return self.within_run / between if between > 0 else float("nan")


def variance_components(log_quantiles: ArrayLike, within_run: ArrayLike) -> VarianceComponents:
    """Split the variance of a quantile between blocks, deployments and the inside of runs.

    Parameters
    ----------
    log_quantiles : array_like, shape (r, k)
        Natural log of the quantile of each of the k >= 2 runs of one arm in each block, such as the two baselines.
    within_run : array_like, shape () or (r, k)
        Variance of each log quantile from within its run (:func:`slice_variance`, :func:`request_variance`).

    Notes
    -----
    One-way random effects by the method of moments (Searle, Casella & McCulloch 1992, chapter 3):
    E MS_within = σ²_deployment + σ²_run, E MS_between = k σ²_block + E MS_within. With few blocks the components are
    rough: the relative standard error of a mean square on ν degrees of freedom is √(2/ν).
    """
    y = np.asarray(log_quantiles, dtype=float)
    if y.ndim != 2 or y.shape[1] < 2 or not np.isfinite(y).all():
        raise StatisticsError(f"two or more finite runs per block are needed, got shape {y.shape}")
    inside = np.asarray(within_run, dtype=float)
    if inside.shape not in ((), y.shape) or not np.isfinite(inside).all() or (inside < 0).any():
        raise StatisticsError(f"variances within runs are not negative, one or {y.shape}, got {inside.shape}")
    r, k = y.shape
    method = f"one-way random effects, {r} blocks of {k} runs"
    within = float(inside.mean())
    if r < 2:
        nan = float("nan")
        return VarianceComponents(nan, nan, within, nan, r, k, method, (StatisticsWarning.TooFewBlocks,))
    means = y.mean(axis=1)
    square_within = float(((y - means[:, None]) ** 2).sum() / (r * (k - 1)))
    square_between = float(k * means.var(ddof=1))
    block = max((square_between - square_within) / k, 0.0)
    within = min(within, square_within)
    deployment = square_within - within
    few = (StatisticsWarning.TooFewBlocks,) if r < 3 else ()
    return VarianceComponents(block, deployment, within, block + deployment + within, r, k, method, few)


def slice_variance(
    slice_counts: ArrayLike,
    edges_s: ArrayLike,
    q: float,
    *,
    slices_per_resample: int = SLICES_PER_RESAMPLE,
    n_resamples: int = 1000,
    rng: np.random.Generator,
) -> float:
    """Variance of a run's log quantile from within the run, by resampling its slices.

    Parameters
    ----------
    slice_counts : array_like, shape (n_slices, n_bins)
        Requests per bin of each slice, in order of time.
    edges_s : array_like, shape (n_bins + 1,)
    q : float
        In (0, 1).
    slices_per_resample : int
        Length of the moving blocks.
    n_resamples : int
    rng : numpy.random.Generator

    Returns
    -------
    float
        NaN with fewer slices than two moving blocks, or when a resample has no such quantile.

    Notes
    -----
    Moving blocks of neighbouring slices (Künsch 1989) keep the dependence between requests that lasts up to
    `slices_per_resample` slices; longer waves count as differences between deployments.
    """
    counts = np.asarray(slice_counts, dtype=float)
    if counts.ndim != 2 or not np.isfinite(counts).all() or (counts < 0).any():
        raise StatisticsError(f"slices are (slices, bins) of counts, got shape {counts.shape}")
    n, length = len(counts), slices_per_resample
    if length < 1:
        raise StatisticsError(f"at least 1 slice is resampled at a time, got {length}")
    if n < 2 * length:
        return float("nan")
    pieces = -(-n // length)
    starts = rng.integers(0, n - length + 1, size=(n_resamples, pieces))
    picks = (starts[:, :, None] + np.arange(length)).reshape(n_resamples, -1)[:, :n]
    weights = np.zeros((n_resamples, n))
    np.add.at(weights, (np.arange(n_resamples)[:, None], picks), 1.0)
    return _variance(weights @ counts, edges_s, q)


def request_variance(
    counts: ArrayLike,
    edges_s: ArrayLike,
    q: float,
    *,
    design_effect: float = 1.0,
    n_resamples: int = 1000,
    rng: np.random.Generator,
) -> float:
    """Variance of a run's log quantile from within the run, as if its requests came in clusters.

    Parameters
    ----------
    counts : array_like, shape (n_bins,)
        Requests per bin of one run.
    edges_s : array_like, shape (n_bins + 1,)
    q : float
        In (0, 1).
    design_effect : float
        φ of the requests *within* a run, at least 1: n requests tell as much as n/φ independent ones. With
        slices :func:`slice_variance` needs no such number.
    n_resamples : int
    rng : numpy.random.Generator

    Returns
    -------
    float
        NaN when a resample has no such quantile.

    Notes
    -----
    Poisson bootstrap (Chamandy et al. 2012): each bin's count is drawn from Poisson(count/φ), in O(resamples × bins)
    whatever the number of requests.
    """
    counts = np.asarray(counts, dtype=float)
    if counts.ndim != 1 or not np.isfinite(counts).all() or (counts < 0).any() or not counts.sum() > 0:
        raise StatisticsError(f"one run is a list of counts with requests, got shape {counts.shape}")
    if not design_effect >= 1:
        raise StatisticsError(f"a design effect is at least 1, got {design_effect}")
    occupied = np.flatnonzero(counts)
    first, last = occupied[0], occupied[-1]
    near = counts[first : last + 1] / design_effect
    return _variance(rng.poisson(near, (n_resamples, near.size)), np.asarray(edges_s)[first : last + 2], q)


def _variance(resampled: NDArray, edges_s: ArrayLike, q: float) -> float:
    if not (resampled.sum(axis=1) > 0).all():
        return float("nan")
    return float(best_log_quantile(run_cdfs(resampled), edges_s, q).var(ddof=1))
