"""Memory of each role: its level, what it is more than without a mesh, and whether it grows during a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from meshperf.analysis.pairing import pair_runs
from meshperf.analysis.resources import DATA_PLANE, DATA_PLANE_ROLES, by_role, control_values
from meshperf.analysis.runtable import RUN
from meshperf.analysis.shared import NAN, arms_of, cell_columns, joined
from meshperf.design import BASELINE
from meshperf.statistics.bootstrap import mean_interval
from meshperf.statistics.effect import difference_interval
from meshperf.statistics.slopes import Growth, growth
from meshperf.study import Study

MEMORY_COLUMNS = (
    "mesh",
    "configuration",
    "target_rps",
    "role",
    "level_bytes",
    "level_low_bytes",
    "level_high_bytes",
    "max_bytes",
    "overhead_bytes",
    "overhead_low_bytes",
    "overhead_high_bytes",
    "growth_bytes_per_s",
    "growth_low_bytes_per_s",
    "growth_high_bytes_per_s",
    "growing",
    "n_blocks",
    "warnings",
)
_ROLES = (*DATA_PLANE_ROLES, DATA_PLANE, "control-plane", "load-generator", "node")


def memory_df(
    resources_df: pd.DataFrame, samples_df: pd.DataFrame, runs_df: pd.DataFrame, study: Study
) -> pd.DataFrame:
    """Working set of each role at each arm and rate.

    Parameters
    ----------
    resources_df, samples_df, runs_df : DataFrame
        Of one campaign; `samples_df` is the course of memory within runs (:func:`meshperf.frames.load_memory`).
    study : Study

    Returns
    -------
    DataFrame
        ``MEMORY_COLUMNS``; a row per arm, rate and role. ``level_bytes`` is the mean over blocks of the median of a
        run, ``max_bytes`` the largest sample of any run, ``overhead_bytes`` the difference to the baseline of the
        same block, where a role that it lacks counts as 0. ``growth_bytes_per_s`` is the mean over runs of their
        Theil–Sen slopes; ``growing`` says "yes" where its interval lies above 0.

    Notes
    -----
    Runs count by the rules of latency, also where they were not steady. Minutes under load show no slow leak: growth
    that is not seen is not growth that is not there.
    """
    runs = runs_df.reset_index(drop=True)
    level = by_role(resources_df, runs, "working_set_median_bytes")
    largest = by_role(resources_df, runs, "working_set_max_bytes")
    series = _series(samples_df)
    roles = [role for role in _ROLES if role in level]
    rows = []
    for arm in arms_of(runs, study):
        for target_rps in study.target_rps:
            pairing = pair_runs(runs, arm, target_rps, latency=False)
            for role in roles if pairing.arm_rows else ():
                values = level[role]
                own = values[list(pairing.arm_rows)].to_numpy(float)
                control = control_values(values, pairing)
                if np.isnan(own).any() or np.isnan(control).any():
                    continue
                rows.append(
                    {
                        **cell_columns(arm, target_rps),
                        "role": role,
                        **_levels(own, control, study.analysis.confidence, both=arm == BASELINE),
                        "max_bytes": largest.loc[list(pairing.arm_rows), role].max(),
                        **_growth(_of_runs(series, runs, pairing.arm_rows, role), study.analysis.confidence),
                        "n_blocks": len(own),
                        "warnings": joined(pairing.warnings),
                    }
                )
    return pd.DataFrame(rows, columns=list(MEMORY_COLUMNS))


def _series(samples_df: pd.DataFrame) -> dict[tuple[Any, ...], pd.DataFrame]:
    """Return the samples of each run and role."""
    return dict(list(samples_df.groupby([*RUN, "role"]))) if len(samples_df) else {}


def _of_runs(
    series: dict[tuple[Any, ...], pd.DataFrame], runs: pd.DataFrame, rows: tuple[int, ...], role: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield seconds and bytes of a role in some runs; those with a single sample say nothing of growth."""
    for key in runs.loc[list(rows), RUN].itertuples(index=False, name=None):
        found = series.get((*key, role))
        if found is not None and found["time_s"].nunique() > 1:
            yield found["time_s"].to_numpy(float), found["working_set_bytes"].to_numpy(float)


def _levels(own: np.ndarray, control: np.ndarray, confidence: float, *, both: bool) -> dict[str, float]:
    """Return level and overhead; `both` deployments of the baseline make its level."""
    level = mean_interval((own + control) / 2 if both else own, confidence=confidence)
    more = difference_interval(own, control, confidence=confidence)
    return {
        "level_bytes": level.estimate,
        "level_low_bytes": level.low,
        "level_high_bytes": level.high,
        "overhead_bytes": more.estimate,
        "overhead_low_bytes": more.low,
        "overhead_high_bytes": more.high,
    }


def _growth(series: Iterator[tuple[np.ndarray, np.ndarray]], confidence: float) -> dict[str, float | str]:
    found = list(series)
    grown: Growth | None = growth(found, confidence=confidence) if found else None
    return {
        "growth_bytes_per_s": grown.slope.estimate if grown else NAN,
        "growth_low_bytes_per_s": grown.slope.low if grown else NAN,
        "growth_high_bytes_per_s": grown.slope.high if grown else NAN,
        "growing": {True: "yes", False: "no", None: "unknown"}[grown.growing if grown else None],
    }
