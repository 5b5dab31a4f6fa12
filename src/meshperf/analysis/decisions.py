"""Which arm to choose if one thing matters most, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from meshperf import meshes
from meshperf.analysis.pairing import pair_cell, pair_runs
from meshperf.analysis.resources import DATA_PLANE_ROLES
from meshperf.analysis.runtable import RUN, RunTable
from meshperf.analysis.shared import arms_of, cell_columns, support
from meshperf.design import BASELINE, Arm
from meshperf.statistics.bootstrap import MIN_BLOCKS_INTERVAL
from meshperf.statistics.multiplicity import rank_sets
from meshperf.statistics.quantiles import best_log_quantile
from meshperf.study import Study

DECISIONS_COLUMNS = (
    "requirement",
    "criterion",
    "target_rps",
    "mesh",
    "configuration",
    "best_rank",
    "worst_rank",
    "ranks",
    "value",
    "ratio_to_baseline",
    "n_arms",
    "n_blocks",
)
#: What every arm that is asked for must do, in the order in which they are printed.
ANY, ENCRYPTED, TOKENS = "any", "encrypted", "tokens"
PROXY_ROLES = ("sidecar-server", "sidecar-client", "node-proxy")

#: arm, rate -> log of the arm's value and of its baseline's in each block
_Values = Callable[[Arm, int], dict[int, tuple[float, float]]]


@dataclass(frozen=True)
class Criterion:
    """One thing that may matter most: its name, and the quantile that it is if it is a latency."""

    name: str
    quantile: float | None = None


#: In the order in which they are printed. Latencies in seconds, CPU in seconds per request, memory in bytes.
CRITERIA = (
    Criterion("median latency", 0.5),
    Criterion("tail latency", 0.99),
    Criterion("CPU per request"),
    Criterion("memory of the proxies"),
    Criterion("memory of the control plane"),
)


def decisions_df(
    runs_df: pd.DataFrame, histograms_df: pd.DataFrame, resources_df: pd.DataFrame, study: Study
) -> pd.DataFrame:
    """Ranks of the arms by each criterion, among those that meet each requirement.

    Parameters
    ----------
    runs_df, histograms_df, resources_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``DECISIONS_COLUMNS``; a row per requirement, criterion, rate and arm. ``value`` is the geometric mean over
        blocks, ``ratio_to_baseline`` that of its ratio to no mesh in the same block (NaN where no mesh has none of it).
        An arm with ``best_rank`` 1 may be the best. Empty where fewer than two arms meet a requirement, or there are
        too few blocks.

    Notes
    -----
    As in :func:`meshperf.analysis.ranks_df`, all pairs of arms are compared (paired t on logs) within the blocks that
    all of them share, with Holm's correction over the pairs of one row of the decision page. Rates are the lowest and
    the highest at which every arm could be compared.
    """
    table = RunTable.build(runs_df, histograms_df)
    usage = _usage(resources_df)
    arms = [arm for arm in arms_of(table.runs, study) if arm != BASELINE]
    rows: list[dict[str, Any]] = []
    for requirement in (ANY, ENCRYPTED, TOKENS):
        chosen = [arm for arm in arms if _meets(arm, requirement)]
        if len(chosen) < 2 or (requirement != ANY and len(chosen) == len(arms)):
            continue
        for rate in _rates(table, chosen, study):
            for criterion in CRITERIA:
                rows += _ranked(
                    requirement, criterion, rate, chosen, _values(table, usage, criterion, study), study
                )
    return pd.DataFrame(rows, columns=list(DECISIONS_COLUMNS))


def _meets(arm: Arm, requirement: str) -> bool:
    if requirement == ENCRYPTED:
        return arm.mesh in meshes.MESHES and meshes.get(arm.mesh).expects_tls(arm.configuration)
    return requirement == ANY or arm.configuration.startswith("jwt-")


def _rates(table: RunTable, arms: list[Arm], study: Study) -> list[int]:
    """Return the lowest and the highest rate at which every arm can be compared; one if there is but one."""
    possible = [
        rate
        for rate in sorted(study.target_rps)
        if not any(pair_cell(table, arm, rate).refusal for arm in arms)
    ]
    return sorted({possible[0], possible[-1]}) if possible else []


def _ranked(
    requirement: str, criterion: Criterion, rate: int, arms: list[Arm], values: _Values, study: Study
) -> Iterator[dict[str, Any]]:
    by_arm = {arm: found for arm in arms if (found := values(arm, rate))}
    if len(by_arm) < len(arms):
        return
    shared = sorted(set.intersection(*(set(found) for found in by_arm.values())))
    if len(shared) < MIN_BLOCKS_INTERVAL:
        return
    logs = np.array([[by_arm[arm][block] for arm in arms] for block in shared])  # (blocks, arms, 2)
    if not np.isfinite(logs[:, :, 0]).all():
        return
    sets = rank_sets(logs[:, :, 0], alpha=study.analysis.alpha)
    for number, (arm, found) in enumerate(zip(arms, sets, strict=True)):
        own, baseline = logs[:, number, 0], logs[:, number, 1]
        yield {
            "requirement": requirement,
            "criterion": criterion.name,
            **cell_columns(arm, rate),
            "best_rank": found.best,
            "worst_rank": found.worst,
            "ranks": str(found),
            "value": float(np.exp(own.mean())),
            "ratio_to_baseline": float(np.exp((own - baseline).mean()))
            if np.isfinite(baseline).all()
            else np.nan,
            "n_arms": len(arms),
            "n_blocks": len(shared),
        }


def _values(table: RunTable, usage: pd.DataFrame, criterion: Criterion, study: Study) -> _Values:
    if criterion.quantile is not None:
        return lambda arm, rate: _latencies(table, arm, rate, criterion.quantile, study)
    return lambda arm, rate: _used(table, usage, arm, rate, criterion.name)


def _latencies(
    table: RunTable, arm: Arm, rate: int, q: float, study: Study
) -> dict[int, tuple[float, float]]:
    pairing = pair_cell(table, arm, rate)
    if pairing.refusal or support(table, pairing.arm_rows, q, study).label == "n.e.":
        return {}
    cdf, controls = pairing.cdfs(table)
    own = best_log_quantile(cdf, table.edges_s, q)
    baseline = best_log_quantile(controls, table.edges_s, q).mean(axis=1)
    blocks = table.runs.loc[list(pairing.arm_rows), "block"]
    return {int(b): (float(o), float(c)) for b, o, c in zip(blocks, own, baseline, strict=True)}


def _usage(resources_df: pd.DataFrame) -> pd.DataFrame:
    """Return what each run used, a column per criterion that is no latency."""
    names = [criterion.name for criterion in CRITERIA if criterion.quantile is None]
    if resources_df.empty:
        return pd.DataFrame(columns=names)
    roles = ((*DATA_PLANE_ROLES, "node-proxy"), PROXY_ROLES, ("control-plane",))
    columns = ("cpu_s_per_request", "working_set_median_bytes", "working_set_median_bytes")
    return pd.DataFrame(
        {
            name: resources_df[resources_df["role"].isin(of)].groupby(RUN)[column].sum(min_count=1)
            for name, of, column in zip(names, roles, columns, strict=True)
        }
    )


def _used(
    table: RunTable, usage: pd.DataFrame, arm: Arm, rate: int, name: str
) -> dict[int, tuple[float, float]]:
    pairing = pair_runs(table.runs, arm, rate, latency=False)
    if pairing.refusal or usage.empty:
        return {}
    of_run = usage[name].reindex(pd.MultiIndex.from_frame(table.runs[RUN])).to_numpy(float)
    found = {}
    for row, controls in zip(pairing.arm_rows, pairing.control_rows, strict=True):
        # What an arm has none of (a control plane) is no measurement: it is left to the reader's eye.
        if not of_run[row] > 0:
            return {}
        with np.errstate(divide="ignore", invalid="ignore"):
            found[int(table.runs.loc[row, "block"])] = (
                float(np.log(of_run[row])),
                float(np.log(of_run[list(controls)]).mean()),
            )
    return found
