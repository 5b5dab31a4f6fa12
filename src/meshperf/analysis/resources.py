"""CPU and memory of the arms, and what they cost against the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from meshperf.analysis.pairing import Pairing, pair_runs
from meshperf.analysis.runtable import RUN
from meshperf.analysis.shared import NAN, arms_of, cell_columns, joined
from meshperf.design import Arm
from meshperf.statistics.bootstrap import mean_interval
from meshperf.statistics.effect import difference_interval, log_ratio_interval
from meshperf.study import Study

RESOURCE_COMPARISONS_COLUMNS = (
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


def resource_comparisons_df(resources_df: pd.DataFrame, runs_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """CPU per request of each role and arm, and the overhead against the baseline, paired by block.

    Parameters
    ----------
    resources_df, runs_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``RESOURCE_COMPARISONS_COLUMNS``; CPU-seconds per request, which times 10⁶ are mCPU per 1000 RPS. The
        role "data-plane" is the sum of service and proxies. Ratios are NaN for roles that the baseline does
        not have, whose baseline counts as 0. Runs count by the same rules as for latency, also
        where they were not steady.
    """
    runs = runs_df.reset_index(drop=True)
    cpu = resources_df.groupby([*RUN, "role"])["cpu_s_per_request"].sum(min_count=1).unstack("role")
    plane = [role for role in DATA_PLANE_ROLES if role in cpu.columns]
    cpu["data-plane"] = cpu[plane].sum(axis=1, min_count=1)
    values = cpu.reindex(pd.MultiIndex.from_frame(runs[RUN])).reset_index(drop=True)
    roles = [role for role in (*DATA_PLANE_ROLES, "data-plane", "load-generator", "node") if role in values]
    rows = []
    for arm in arms_of(runs, study):
        for target_rps in study.target_rps:
            pairing = pair_runs(runs, arm, target_rps, latency=False)
            if pairing.arm_rows:
                rows += _resource_rows(values, roles, arm, target_rps, pairing, study)
    return pd.DataFrame(rows, columns=list(RESOURCE_COMPARISONS_COLUMNS))


def _resource_rows(
    values: pd.DataFrame, roles: Sequence[str], arm: Arm, target_rps: int, pairing: Pairing, study: Study
) -> Iterator[dict[str, Any]]:
    confidence = study.analysis.confidence
    for role in roles:
        own = values.loc[list(pairing.arm_rows), role].to_numpy(float)
        control = np.array([values.loc[list(rows), role].mean() for rows in pairing.control_rows])
        if np.isnan(own).any():
            continue
        shared = not np.isnan(control).any() and (control > 0).all() and (own > 0).all()
        control = np.where(np.isnan(control), 0.0, control)
        level = mean_interval(own, confidence=confidence)
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
