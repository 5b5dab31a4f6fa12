"""Latency of each arm at each rate, with intervals over blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from meshperf.analysis.runtable import RunTable
from meshperf.analysis.shared import (
    NAN,
    arms_of,
    block_means,
    cell_columns,
    generator,
    joined,
    quantiles_of,
    runs_of_cell,
    support,
    unbounded,
    without_extra,
)
from meshperf.design import Arm
from meshperf.statistics.bootstrap import merged_quantile_interval
from meshperf.statistics.quantiles import best_log_quantile, quantile_bounds
from meshperf.statistics.results import StatisticsWarning
from meshperf.study import Study

CELLS_COLUMNS = (
    "mesh",
    "configuration",
    "target_rps",
    "quantile",
    "estimate_s",
    "low_s",
    "high_s",
    "bin_low_s",
    "bin_high_s",
    "typical_s",
    "estimable",
    "n_blocks",
    "n_requests",
    "achieved_rps_mean",
    "verdict",
    "warnings",
)


def cell_verdict(verdicts_by_block: pd.Series) -> str:
    """Verdict of a cell from the verdicts of its runs.

    Parameters
    ----------
    verdicts_by_block : Series of str
        One entry per run, indexed by block.

    Returns
    -------
    {"ok", "degraded", "saturated", "failed"}
        Failed runs do not count, because their blocks are repeated; of the other blocks all but one at most
        must be ok. "failed" when nothing else is left.
    """
    sound = verdicts_by_block[verdicts_by_block != "failed"]
    if sound.empty:
        return "failed"
    blocks = sound.groupby(level=0).agg(lambda runs: bool((runs == "ok").all()))
    if blocks.sum() >= max(1, len(blocks) - 1):
        return "ok"
    return "saturated" if (sound == "saturated").any() else "degraded"


def cells_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Latency quantiles of each cell with their intervals over blocks.

    Parameters
    ----------
    runs_df, histograms_df : DataFrame
        Of one campaign (:mod:`meshperf.frames`).
    study : Study

    Returns
    -------
    DataFrame
        ``CELLS_COLUMNS``; a row per cell and quantile, in the study's order. Latencies in seconds.
        ``estimate_s`` is the quantile of the mean of the runs' CDFs, ``typical_s`` the geometric mean of the
        runs' quantiles; both are NaN where the quantile is not estimable. Failed runs do not count; saturated
        runs count only in a cell that is saturated itself, whose numbers are shown and never compared. Runs that
        were not steady count here, with a warning, and are left out of comparisons only.
    """
    table = RunTable.build(runs_df, histograms_df)
    rows = []
    for arm in arms_of(table.runs, study):
        for target_rps in study.target_rps:
            runs = runs_of_cell(table.runs, arm, target_rps)
            if not runs.empty:
                rows += _cell_rows(table, runs, arm, target_rps, study)
    return pd.DataFrame(rows, columns=list(CELLS_COLUMNS))


def _cell_rows(
    table: RunTable, runs: pd.DataFrame, arm: Arm, target_rps: int, study: Study
) -> list[dict[str, Any]]:
    state = cell_verdict(runs.set_index("block")["verdict"])
    counted = ("ok", "degraded", "saturated") if state == "saturated" else ("ok", "degraded")
    has_requests = table.counts[runs.index].sum(axis=1) > 0
    used = runs[runs["verdict"].isin(counted).to_numpy() & has_requests]
    warnings = [StatisticsWarning.Saturated] if state == "saturated" else []
    if set(runs["block"]) - set(used["block"]):
        warnings.append(StatisticsWarning.BlockIncomplete)
    if (used["steadiness"] == "not steady").any():
        warnings.append(StatisticsWarning.NotSteady)
    common = {
        **cell_columns(arm, target_rps),
        "n_blocks": used["block"].nunique(),
        "n_requests": int(table.counts[used.index].sum()),
        "achieved_rps_mean": used["achieved_rps"].mean() if len(used) else NAN,
        "verdict": state,
    }
    rows = []
    for q in quantiles_of(study):
        numbers = _cell_numbers(table, used, q, study, (arm, target_rps)) if len(used) else _no_cell()
        numbers["warnings"] = joined([*warnings, *numbers["warnings"]])
        rows.append({**common, "quantile": q, **numbers})
    return without_extra(rows, study, "estimable")


def _no_cell() -> dict[str, Any]:
    names = ("estimate_s", "low_s", "high_s", "bin_low_s", "bin_high_s", "typical_s")
    return {**dict.fromkeys(names, NAN), "estimable": "n.e.", "warnings": [StatisticsWarning.NotEstimable]}


def _cell_numbers(
    table: RunTable, used: pd.DataFrame, q: float, study: Study, cell: tuple[Arm, int]
) -> dict[str, Any]:
    cdfs = table.cdfs(used.index)
    supported = support(table, used.index, q, study)
    by_block = block_means(cdfs, used["block"])
    if supported.label == "n.e.":
        return {**_no_cell(), "warnings": list(supported.warnings)}
    interval = merged_quantile_interval(
        by_block,
        table.edges_s,
        q,
        confidence=study.analysis.confidence,
        n_resamples=study.analysis.n_resamples,
        rng=generator(study, *cell, q, "cell"),
    )
    bin_low, bin_high = quantile_bounds(by_block.mean(axis=0), table.edges_s, q)
    return {
        "estimate_s": interval.estimate,
        "low_s": interval.low,
        "high_s": interval.high,
        "bin_low_s": float(bin_low),
        "bin_high_s": float(bin_high),
        "typical_s": float(np.exp(best_log_quantile(cdfs, table.edges_s, q).mean())),
        "estimable": supported.label,
        "warnings": [*supported.warnings, *interval.warnings, *unbounded(used, q)],
    }
