"""CPU per request of the arms at each rate, and what it is more than without a mesh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from meshperf.analysis.pairing import Pairing, pair_runs
from meshperf.analysis.runtable import RUN
from meshperf.analysis.shared import NAN, arms_of, cell_columns, joined
from meshperf.design import BASELINE, Arm
from meshperf.statistics.bootstrap import mean_interval
from meshperf.statistics.effect import difference_interval, log_ratio_interval
from meshperf.study import Study

CPU_COLUMNS = (
    "mesh",
    "configuration",
    "target_rps",
    "role",
    "cpu_s_per_request",
    "cpu_low_s_per_request",
    "cpu_high_s_per_request",
    "overhead_ratio",
    "ratio_low",
    "ratio_high",
    "overhead_s_per_request",
    "difference_low_s_per_request",
    "difference_high_s_per_request",
    "n_blocks",
    "warnings",
)
#: Roles of ``resources_df`` that carry a request; their sum is the role "data-plane".
DATA_PLANE_ROLES = ("service", "sidecar-server", "sidecar-client", "node-proxy")
DATA_PLANE = "data-plane"


def cpu_df(resources_df: pd.DataFrame, runs_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """CPU per request of each role and arm, and the overhead against the baseline, paired by block.

    Parameters
    ----------
    resources_df, runs_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``CPU_COLUMNS``; CPU-seconds per request, which times 10⁶ are mCPU per 1000 RPS. The
        role "data-plane" is the sum of service and proxies. Ratios are NaN for roles that the baseline does
        not have, whose baseline counts as 0. Runs count by the same rules as for latency, also
        where they were not steady.
    """
    runs = runs_df.reset_index(drop=True)
    values = by_role(resources_df, runs, "cpu_s_per_request")
    roles = [role for role in (*DATA_PLANE_ROLES, DATA_PLANE, "load-generator", "node") if role in values]
    rows = []
    for arm in arms_of(runs, study):
        for target_rps in study.target_rps:
            pairing = pair_runs(runs, arm, target_rps, latency=False)
            if pairing.arm_rows:
                rows += _resource_rows(values, roles, arm, target_rps, pairing, study)
    return pd.DataFrame(rows, columns=list(CPU_COLUMNS))


def _resource_rows(
    values: pd.DataFrame, roles: Sequence[str], arm: Arm, target_rps: int, pairing: Pairing, study: Study
) -> Iterator[dict[str, Any]]:
    confidence = study.analysis.confidence
    for role in roles:
        own = values.loc[list(pairing.arm_rows), role].to_numpy(float)
        control = control_values(values[role], pairing)
        if np.isnan(own).any() or np.isnan(control).any():
            continue
        shared = (control > 0).all() and (own > 0).all()
        # The level of the baseline is that of both its deployments.
        level = mean_interval((own + control) / 2 if arm == BASELINE else own, confidence=confidence)
        difference = difference_interval(own, control, confidence=confidence)
        ratio = log_ratio_interval(np.log(own / control), confidence=confidence) if shared else None
        warnings = [*pairing.warnings, *level.warnings, *(ratio.warnings if ratio else ())]
        yield {
            **cell_columns(arm, target_rps),
            "role": role,
            "cpu_s_per_request": level.estimate,
            "cpu_low_s_per_request": level.low,
            "cpu_high_s_per_request": level.high,
            "overhead_ratio": ratio.estimate if ratio else NAN,
            "ratio_low": ratio.low if ratio else NAN,
            "ratio_high": ratio.high if ratio else NAN,
            "overhead_s_per_request": difference.estimate,
            "difference_low_s_per_request": difference.low,
            "difference_high_s_per_request": difference.high,
            "n_blocks": len(own),
            "warnings": joined(warnings),
        }


def by_role(resources_df: pd.DataFrame, runs_df: pd.DataFrame, column: str) -> pd.DataFrame:
    """Add up the containers of each role in each run.

    Parameters
    ----------
    resources_df, runs_df : DataFrame
        Of one campaign.
    column : str
        What to add up: ``cores``, ``cpu_s_per_request``, ``working_set_median_bytes``, ...

    Returns
    -------
    DataFrame
        A row per run, in the order of `runs_df`, with row numbers from 0; a column per role, and "data-plane" for
        the sum of service and proxies. NaN where a run has no such container.
    """
    wide = resources_df.groupby([*RUN, "role"])[column].sum(min_count=1).unstack("role")
    plane = [role for role in DATA_PLANE_ROLES if role in wide]
    wide[DATA_PLANE] = wide[plane].sum(axis=1, min_count=1)
    return wide.reindex(pd.MultiIndex.from_frame(runs_df[RUN])).reset_index(drop=True)


def control_values(values: pd.Series, pairing: Pairing) -> NDArray[np.float64]:
    """Mean of a role's values over the control runs of each block, shape (r,): 0 where no control run has the role."""
    control = np.array([values[list(rows)].mean(skipna=False) for rows in pairing.control_rows])
    return np.zeros_like(control) if values[pairing.all_control_rows].isna().all() else control
