"""The order of the arms at each rate and quantile, with ties shown as ties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from meshperf.analysis.pairing import Pairing, pair_cell
from meshperf.analysis.runtable import RunTable
from meshperf.analysis.shared import arms_of, cell_columns, quantiles_of, support
from meshperf.design import BASELINE
from meshperf.statistics.multiplicity import rank_sets
from meshperf.statistics.quantiles import best_log_quantile
from meshperf.study import Study

RANKS_COLUMNS = (
    "mesh",
    "configuration",
    "target_rps",
    "quantile",
    "best_rank",
    "worst_rank",
    "ranks",
    "typical_s",
    "n_arms",
    "n_blocks",
)


def ranks_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Ranks that each arm may have, the fastest first.

    Returns
    -------
    DataFrame
        ``RANKS_COLUMNS``; a row per rate, quantile and arm. ``ranks`` is "2–3" where the data cannot tell more.
        Arms whose comparison with the baseline is refused have no rank, nor has anything where fewer than two arms are
        left.

    Notes
    -----
    All pairs of arms are compared within the blocks that all of them share, with Holm's correction over the pairs.
    """
    table = RunTable.build(runs_df, histograms_df)
    rows = [
        row
        for target_rps in study.target_rps
        for q in quantiles_of(study)
        for row in _ranked(table, target_rps, q, study)
    ]
    return pd.DataFrame(rows, columns=list(RANKS_COLUMNS))


def _ranked(table: RunTable, target_rps: int, q: float, study: Study) -> Iterator[dict[str, Any]]:
    pairings = {
        arm: pairing
        for arm in arms_of(table.runs, study)
        if arm != BASELINE
        and not (pairing := pair_cell(table, arm, target_rps)).refusal
        and support(table, pairing.arm_rows, q, study).label != "n.e."
    }
    if len(pairings) < 2:
        return
    values = {arm: _by_block(table, pairing, q) for arm, pairing in pairings.items()}
    shared = sorted(set.intersection(*(set(of_arm) for of_arm in values.values())))
    if not shared:
        return
    matrix = np.array([[values[arm][block] for arm in pairings] for block in shared])
    if not np.isfinite(matrix).all():
        return
    sets = rank_sets(matrix, alpha=study.analysis.alpha)
    for arm, found, logs in zip(pairings, sets, matrix.T, strict=True):
        yield {
            **cell_columns(arm, target_rps),
            "quantile": q,
            "best_rank": found.best,
            "worst_rank": found.worst,
            "ranks": str(found),
            "typical_s": float(np.exp(logs.mean())),
            "n_arms": len(pairings),
            "n_blocks": found.n,
        }


def _by_block(table: RunTable, pairing: Pairing, q: float) -> dict[int, float]:
    """Log quantile of the arm's run in each block."""
    rows = list(pairing.arm_rows)
    logs = best_log_quantile(table.cdfs(rows), table.edges_s, q)
    return dict(zip(table.runs.loc[rows, "block"].astype(int), logs.astype(float), strict=True))
