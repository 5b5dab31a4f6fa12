"""CPU against rate: one line per deployment, Student's interval over the deployments.

Samples or runs pooled over deployments share each deployment's own level and pretend to be independent: their
regression intervals cover 40 to 90 % instead of 95 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meshperf.statistics.bootstrap import mean_interval
from meshperf.statistics.results import Interval, StatisticsError


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
