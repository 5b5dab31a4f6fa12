"""CPU against rate: what a request costs, one line per deployment, and what it costs more than without a mesh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from meshperf.analysis.pairing import deployments_per_block
from meshperf.analysis.resources import DATA_PLANE, DATA_PLANE_ROLES, by_role
from meshperf.analysis.shared import NAN, arms_of, joined, runs_of_cell
from meshperf.design import BASELINE, Arm
from meshperf.statistics.effect import difference_interval
from meshperf.statistics.results import StatisticsWarning
from meshperf.statistics.slopes import Slopes, deployment_slopes
from meshperf.study import Study

SLOPES_COLUMNS = (
    "mesh",
    "configuration",
    "role",
    "slope_s_per_request",
    "slope_low_s_per_request",
    "slope_high_s_per_request",
    "idle_cores",
    "idle_low_cores",
    "idle_high_cores",
    "curvature",
    "curvature_low",
    "curvature_high",
    "linear",
    "overhead_s_per_request",
    "overhead_low_s_per_request",
    "overhead_high_s_per_request",
    "levels",
    "n_blocks",
    "reason",
    "warnings",
)
_ROLES = (*DATA_PLANE_ROLES, DATA_PLANE, "load-generator", "node")


def slopes_df(resources_df: pd.DataFrame, runs_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Fit cores against achieved rate for each arm and role.

    Parameters
    ----------
    resources_df, runs_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``SLOPES_COLUMNS``; a row per arm and role. ``slope_s_per_request`` is the CPU time of one more request
        (times 10⁶ it is mCPU per 1000 RPS), ``idle_cores`` what remains at rate 0, ``overhead_s_per_request`` the
        slope's difference to the baseline's, paired by block, with a role that the baseline lacks counting as 0
        there. ``linear`` is "no" where a curvature is certain: then the slope is no price of a request, and the
        values at each rate are. "data-plane" is the sum of service and proxies.

    Notes
    -----
    Rates that a run of the arm missed are left out, and with them their queues. Each block gives one line; the runs
    of the two baselines of a block are averaged first. Fewer than two rates give none.
    """
    cores = by_role(resources_df, runs_df, "cores")
    runs = runs_df.reset_index(drop=True)
    roles = [role for role in _ROLES if role in cores]
    fits = {
        (arm, role): _fit(cores[role], runs, arm, study) for arm in arms_of(runs, study) for role in roles
    }
    rows = [_row(arm, role, fit, fits.get((BASELINE, role))) for (arm, role), fit in fits.items() if fit]
    order = {arm: number for number, arm in enumerate((BASELINE, *study.arms_expanded))}
    rows.sort(key=lambda row: order[Arm(row["mesh"], row["configuration"])])
    return pd.DataFrame(rows, columns=list(SLOPES_COLUMNS))


class _Fit:
    """Lines of one arm and role, with the numbers of their blocks; no lines, and why, where there are none."""

    def __init__(self, blocks: list[int], levels: int, slopes: Slopes | None, reason: str) -> None:
        self.blocks, self.levels, self.slopes, self.reason = blocks, levels, slopes, reason


def _fit(cores: pd.Series, runs: pd.DataFrame, arm: Arm, study: Study) -> _Fit | None:
    """Fit an arm's role; None where the arm has no such container."""
    usable = runs[runs["verdict"] != "failed"]
    cells = {rate: runs_of_cell(usable, arm, rate) for rate in sorted(study.target_rps)}
    if all(cores[cell.index].isna().all() for cell in cells.values()):
        return None
    met = {rate: cell for rate, cell in cells.items() if len(cell) and (cell["verdict"] == "ok").all()}
    if len(met) < 2:
        return _Fit([], len(met), None, f"rates met in all blocks: {len(met)}, 2 are needed")
    per_block = deployments_per_block(runs, arm)
    complete = [set(n.index[n == per_block]) for n in (cell.groupby("block").size() for cell in met.values())]
    x, y = (
        pd.DataFrame({rate: values[cell.index].groupby(cell["block"]).mean() for rate, cell in met.items()})
        for values in (runs["achieved_rps"], cores)
    )
    known = y.dropna().index.intersection(sorted(set.intersection(*complete)))
    if known.empty:
        return _Fit([], len(met), None, "no block has the CPU of every rate")
    lines = deployment_slopes(
        x.loc[known].to_numpy(), y.loc[known].to_numpy(), confidence=study.analysis.confidence
    )
    return _Fit([int(block) for block in known], len(met), lines, "")


def _row(arm: Arm, role: str, fit: _Fit, baseline: _Fit | None) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(SLOPES_COLUMNS, NAN)
    row |= {"mesh": arm.mesh, "configuration": arm.configuration, "role": role, "levels": fit.levels}
    row |= {"n_blocks": len(fit.blocks), "reason": fit.reason, "linear": "", "warnings": ""}
    lines = fit.slopes
    if lines is None:
        return row | {"warnings": joined([StatisticsWarning.NotEstimable])}
    row |= {
        "slope_s_per_request": lines.slope.estimate,
        "slope_low_s_per_request": lines.slope.low,
        "slope_high_s_per_request": lines.slope.high,
        "idle_cores": lines.intercept.estimate,
        "idle_low_cores": lines.intercept.low,
        "idle_high_cores": lines.intercept.high,
        "linear": {True: "yes", False: "no", None: "unknown"}[lines.linear],
        "warnings": joined(lines.slope.warnings),
    }
    if lines.curvature is not None:
        bend = lines.curvature
        row |= {"curvature": bend.estimate, "curvature_low": bend.low, "curvature_high": bend.high}
    if arm != BASELINE:
        row |= dict(_overhead(fit, baseline, lines.slope.confidence))
    return row


def _overhead(fit: _Fit, baseline: _Fit | None, confidence: float) -> Iterator[tuple[str, float]]:
    """Yield the difference of the slopes to the baseline's, over the blocks that both have."""
    own = _by_block(fit)
    if baseline is not None and baseline.slopes is None:
        return
    other = _by_block(baseline) if baseline is not None else dict.fromkeys(own, 0.0)
    shared = [block for block in own if block in other]
    if not shared:
        return
    pair: list[NDArray[np.float64]] = [np.array([of[block] for block in shared]) for of in (own, other)]
    difference = difference_interval(*pair, confidence=confidence)
    yield "overhead_s_per_request", difference.estimate
    yield "overhead_low_s_per_request", difference.low
    yield "overhead_high_s_per_request", difference.high


def _by_block(fit: _Fit) -> dict[int, float]:
    return dict(zip(fit.blocks, fit.slopes.per_deployment[:, 0].astype(float), strict=True))
