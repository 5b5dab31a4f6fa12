"""Lines per deployment or run, Student's interval over them: CPU against rate, memory against time.

Samples or runs pooled over deployments share each deployment's own level and pretend to be independent: their
regression intervals cover 40 to 90 % instead of 95 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meshperf.statistics.bootstrap import mean_interval
from meshperf.statistics.results import Interval, StatisticsError, StatisticsWarning


@dataclass(frozen=True)
class Slopes:
    """Lines through the levels of each deployment.

    Attributes
    ----------
    slope, intercept : Interval
        In units of y per unit of x, and of y: cores per RPS and idle cores.
    curvature : Interval or None
        Quadratic coefficient, with at least 3 levels; print the curve instead of a slope if it leaves out 0.
    per_deployment : ndarray, shape (r, 2)
        Slope and intercept of each deployment.
    n : int
        Number of deployments.
    """

    slope: Interval
    intercept: Interval
    curvature: Interval | None
    per_deployment: NDArray[np.float64]
    n: int

    @property
    def linear(self) -> bool | None:
        """Whether a line will do; None when it cannot be told."""
        if self.curvature is None or not self.curvature.has_interval:
            return None
        return self.curvature.low <= 0 <= self.curvature.high


def deployment_slopes(x: ArrayLike, y: ArrayLike, *, confidence: float = 0.95) -> Slopes:
    """Fit a line per deployment and average.

    Parameters
    ----------
    x : array_like, shape (r, levels)
        Achieved RPS of each deployment's runs.
    y : array_like, shape (r, levels)
        Cores.
    confidence : float

    Returns
    -------
    Slopes
        Least squares within each deployment, Student's t over the r slopes, intercepts and curvatures.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.shape != y.shape or x.ndim != 2 or x.shape[1] < 2:
        raise StatisticsError(f"at least two levels per deployment are needed, got {x.shape} and {y.shape}")
    if not np.isfinite(x).all() or not np.isfinite(y).all() or (np.ptp(x, axis=1) == 0).any():
        raise StatisticsError("rates and CPU must be finite, and the rates of a deployment must differ")
    lines = np.array([np.polyfit(*pair, 1) for pair in zip(x, y, strict=True)])
    curvature = None
    if x.shape[1] >= 3:
        # In units of the largest rate, for the sake of conditioning.
        unit = x.max()
        bends = [np.polyfit(a / unit, b, 2)[0] / unit**2 for a, b in zip(x, y, strict=True)]
        curvature = mean_interval(bends, confidence=confidence, method="t over curvatures of deployments")
    return Slopes(
        slope=mean_interval(lines[:, 0], confidence=confidence, method="t over slopes of deployments"),
        intercept=mean_interval(
            lines[:, 1], confidence=confidence, method="t over intercepts of deployments"
        ),
        curvature=curvature,
        per_deployment=lines,
        n=x.shape[0],
    )


@dataclass(frozen=True, eq=False)
class Growth:
    """How a level such as memory changes during a run.

    Attributes
    ----------
    slope : Interval
        Mean of the runs' slopes, in units of y per unit of x (bytes per second).
    growing : bool or None
        Whether the interval lies above 0 (a leak, for memory); None without an interval.
    per_run : ndarray, shape (r,)
    n : int
        Number of runs.
    warnings : tuple of StatisticsWarning
    """

    slope: Interval
    growing: bool | None
    per_run: NDArray[np.float64]
    n: int
    warnings: tuple[StatisticsWarning, ...] = ()

    @property
    def confidence(self) -> float:
        """Nominal coverage of the interval."""
        return self.slope.confidence

    @property
    def method(self) -> str:
        """How the interval was made."""
        return self.slope.method


def theil_sen(x: ArrayLike, y: ArrayLike) -> float:
    """Median of the slopes of all pairs of points: unmoved by single steps and spikes.

    Parameters
    ----------
    x, y : array_like, shape (n,)
        Such as seconds and bytes; at least two different x.

    Notes
    -----
    Theil (1950); Sen (1968) leaves out pairs of equal x. Of an even number the mean of the middle two.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.ndim != 1 or x.shape != y.shape or not np.isfinite(x).all() or not np.isfinite(y).all():
        raise StatisticsError(f"a slope needs finite pairs, got shapes {x.shape} and {y.shape}")
    first, second = np.triu_indices(x.size, 1)
    run = x[second] - x[first]
    apart = run != 0
    if not apart.any():
        raise StatisticsError("a slope needs two points at different places")
    return float(np.median((y[second] - y[first])[apart] / run[apart]))


def growth(series: Sequence[tuple[ArrayLike, ArrayLike]], *, confidence: float = 0.95) -> Growth:
    """Growth of a level within runs, over one run per block.

    Parameters
    ----------
    series : sequence of (x, y)
        Seconds and values of each run of one cell, after the settling time; runs may differ in length.
    confidence : float

    Returns
    -------
    Growth
        Theil–Sen slope of each run, Student's t over the runs.
    """
    if not len(series):
        raise StatisticsError("there is no run to take a slope of")
    slopes = np.array([theil_sen(x, y) for x, y in series])
    slope = mean_interval(slopes, confidence=confidence, method="t over Theil-Sen slopes of runs")
    growing = slope.low > 0 if slope.has_interval else None
    return Growth(slope, growing, slopes, slopes.size, slope.warnings)
