"""Whether a run was in a steady state: warm-up cut and drift flag on the medians of its slices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

from meshperf.statistics.results import StatisticsError, StatisticsWarning

#: A warm-up longer than this share of the slices is no steady run.
MAX_TRUNCATION = 0.25
#: A drift smaller than this share of the median does not matter.
MIN_DRIFT = 0.02
#: Slices needed after the cut for a first and a last third of two each.
MIN_SLICES = 6
_INFLATION = 1.5
_STANDARD_ERRORS = 2.5


@dataclass(frozen=True)
class Steadiness:
    """Verdict on the time course of a run.

    Attributes
    ----------
    steady : bool or None
        None when there are too few slices to tell.
    truncation : int
        Slices that belong to the warm-up (MSER).
    drift : float
        Log ratio of the last third's mean to the first third's, after the cut; NaN when unknown.
    limit : float
        Drift that would still pass.
    n : int
        Number of slices.
    warnings : tuple of StatisticsWarning
    """

    steady: bool | None
    truncation: int
    drift: float
    limit: float
    n: int
    warnings: tuple[StatisticsWarning, ...] = ()


def mser_truncation(values: ArrayLike) -> int:
    """Count the leading values to drop by the marginal standard error rule (White 1997).

    Parameters
    ----------
    values : array_like, shape (n,)
        Means of batches in order of time; slices are the batches here.

    Returns
    -------
    int
        d <= n/2 that minimises Σ_{i > d} (y_i − ȳ_d)²/(n − d)², the smallest of equals.
    """
    y = _finite(values)
    costs = [((y[d:] - y[d:].mean()) ** 2).sum() / (y.size - d) ** 2 for d in range(y.size // 2 + 1)]
    return int(np.argmin(costs))


def steadiness(medians_s: ArrayLike) -> Steadiness:
    """Judge a run by the medians of its slices.

    Parameters
    ----------
    medians_s : array_like, shape (n,)
        Median latency of each slice in seconds, above 0, in order of time.

    Notes
    -----
    Not steady when more than a quarter of the slices is warm-up, or when after the cut the first and the last
    third differ by more than 2.5 standard errors (inflated by 1.5 because slices depend on their neighbours) and
    by more than 2 %. The same limits decide whether what MSER cut off differs at all; with few slices Student's t
    takes the place of the normal quantile 2.5.
    """
    y = _finite(medians_s)
    if (y <= 0).any():
        raise StatisticsError("medians of latency are above 0")
    y = np.log(y)
    n = y.size
    cut = mser_truncation(y)
    rest = y[cut:]
    nan = float("nan")
    if cut > MAX_TRUNCATION * n and n >= MIN_SLICES and _differ(y[:cut], rest, rest.var(ddof=1)):
        return Steadiness(False, cut, nan, nan, n, (StatisticsWarning.NotSteady,))
    if rest.size < MIN_SLICES:
        return Steadiness(None, cut, nan, nan, n)
    third = rest.size // 3
    first, last = rest[:third], rest[-third:]
    drift = float(last.mean() - first.mean())
    limit = _limit(first, last, (first.var(ddof=1) + last.var(ddof=1)) / 2, 2 * (third - 1))
    steady = abs(drift) <= limit
    return Steadiness(steady, cut, drift, limit, n, () if steady else (StatisticsWarning.NotSteady,))


def _differ(early: NDArray, late: NDArray, variance: float) -> bool:
    """Whether a part that was cut off really differs; the rule also cuts noise and trifles."""
    return abs(early.mean() - late.mean()) > _limit(early, late, variance, late.size - 1)


def _limit(a: NDArray, b: NDArray, variance: float, degrees: int) -> float:
    """Largest difference of two means that still passes; t takes the place of the normal for few slices."""
    critical = stdtrit(degrees, ndtr(_STANDARD_ERRORS))
    return max(float(critical * _INFLATION * np.sqrt(variance * (1 / a.size + 1 / b.size))), MIN_DRIFT)


def _finite(values: ArrayLike) -> np.ndarray:
    y = np.asarray(values, dtype=float)
    if y.ndim != 1 or y.size == 0 or not np.isfinite(y).all():
        raise StatisticsError("a time course is a list of finite numbers")
    return y
