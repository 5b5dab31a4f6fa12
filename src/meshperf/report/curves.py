"""Distribution curves from run histograms, as the figures draw them.

The run is the unit: a curve of an arm is the mean of its runs' curves, each run with the same weight. Nothing here is
an inference; intervals come from the analysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meshperf.report import style
from meshperf.report.data import RUN_IDENTITY

if TYPE_CHECKING:
    import pandas as pd

_FLOOR_S = 1e-7
"""Left end of an underflow bin on a log axis: far below any latency."""


@dataclass(frozen=True)
class ArmCurves:
    """Cumulative distributions of one arm at one rate.

    Attributes
    ----------
    arm : tuple of str
        Mesh and configuration.
    latency_s : ndarray, shape (n_points,)
        Common grid of all arms: bin edges in seconds, ascending.
    cdfs : ndarray, shape (n_runs, n_points)
        Share of a run's requests at or below each latency, 0 to 1.
    n_requests : ndarray, shape (n_runs,)
        Requests of each run.
    deployments : ndarray, shape (n_runs,)
        Which deployment of the arm in its block (1, or 2 for the second baseline).
    """

    arm: tuple[str, str]
    latency_s: np.ndarray
    cdfs: np.ndarray
    n_requests: np.ndarray
    deployments: np.ndarray

    @property
    def mean_cdf(self) -> np.ndarray:
        """Mean of the run CDFs, shape (n_points,)."""
        return self.cdfs.mean(axis=0)

    def quantile(self, q: float | np.ndarray) -> np.ndarray:
        """Return the quantile of the mean CDF in seconds: linear in log latency between points."""
        mean = self.mean_cdf
        first = np.searchsorted(mean, np.atleast_1d(q), side="left").clip(1, mean.size - 1)
        low, high = mean[first - 1], mean[first]
        share = np.divide(np.atleast_1d(q) - low, high - low, out=np.ones_like(low), where=high > low).clip(
            0, 1
        )
        log_latency = np.log(self.latency_s)
        value = np.exp(log_latency[first - 1] + share * (log_latency[first] - log_latency[first - 1]))
        return value if np.ndim(q) else value[0]

    def last_estimable(self, minimum: float = 10.0, runs: float = 2.0) -> float:
        """Return the smallest tail probability that the data can carry.

        Beyond it fewer than ``minimum`` effective exceedances, or fewer than ``runs`` effective runs, are left. With
        e_i exceedances in run i: m = sum(e_i), dispersion phi = max(1, var(e)/mean(e)), and Kish's number of
        effective runs (sum e)^2 / sum(e^2); estimable while m/phi >= minimum and the runs suffice.
        """
        exceedances = (1.0 - self.cdfs) * self.n_requests[:, None]
        total, squares = exceedances.sum(axis=0), (exceedances**2).sum(axis=0)
        n_runs = len(exceedances)
        mean = np.maximum(total / n_runs, 1e-12)
        spread = exceedances.var(axis=0, ddof=1) if n_runs > 1 else np.zeros_like(mean)
        phi = np.maximum(1.0, spread / mean)
        kish = np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)
        enough = (total / phi >= minimum) & (kish >= min(runs, n_runs))
        tail = 1.0 - self.mean_cdf
        broken = ~enough & (tail < 0.5)
        return float(tail[broken].max()) if broken.any() else 0.0


def arm_curves(histograms_df: pd.DataFrame) -> list[ArmCurves]:
    """Turn the histograms of one target rate into curves, one per arm, in printing order.

    Parameters
    ----------
    histograms_df : DataFrame
        Rows of a single ``target_rps``: run identity, ``bin_low_s``, ``bin_high_s`` and ``count``.

    Raises
    ------
    ValueError
        If the rows are of more than one target rate, or if there are none.
    """
    rates = histograms_df["target_rps"].unique()
    if len(rates) != 1:
        raise ValueError(f"histograms of exactly one target_rps are needed, got {sorted(rates)}")
    filled = histograms_df[histograms_df["count"] > 0]
    lows = filled["bin_low_s"].to_numpy(float).clip(_FLOOR_S)
    finite = filled["bin_high_s"].to_numpy(float)
    highs = np.maximum(np.where(np.isfinite(finite), finite, lows * 1.01), lows * (1 + 1e-9))
    grid = np.unique(np.concatenate([lows, highs]))
    filled = filled.assign(bin_low_s=lows, bin_high_s=highs)
    curves = []
    arms = style.arm_order(
        filled[["mesh", "configuration"]].drop_duplicates().itertuples(index=False, name=None)
    )
    by_arm = filled.groupby(["mesh", "configuration"])
    for arm in arms:
        runs = list(by_arm.get_group(arm).groupby(RUN_IDENTITY))
        curves.append(
            ArmCurves(
                arm=arm,
                latency_s=grid,
                cdfs=np.array([_run_cdf(run, grid) for _, run in runs]),
                n_requests=np.array([run["count"].sum() for _, run in runs], dtype=float),
                deployments=np.array([identity[-1] for identity, _ in runs]),
            )
        )
    return curves


def _run_cdf(run: pd.DataFrame, grid: np.ndarray) -> np.ndarray:
    """Return a run's cumulative share on ``grid``, linear in log latency inside each bin."""
    run = run.sort_values("bin_low_s")
    cumulative = run["count"].to_numpy(float).cumsum()
    edges = np.column_stack([run["bin_low_s"], run["bin_high_s"]]).ravel()
    shares = np.column_stack([np.append(0.0, cumulative[:-1]), cumulative]).ravel() / cumulative[-1]
    return np.interp(np.log(grid), np.log(np.maximum.accumulate(edges)), shares, left=0.0, right=1.0)
