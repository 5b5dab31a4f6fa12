"""Up to which rate each arm works: the knee of its throughput–latency curve, and a curve through it.

The curve itself is in the tables of runs and cells: achieved rate, merged quantiles, verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from meshperf.analysis.pairing import deployments_per_block
from meshperf.analysis.runtable import RunTable
from meshperf.analysis.shared import NAN, arms_of, generator, joined, runs_of_cell, support
from meshperf.design import Arm
from meshperf.statistics.quantiles import best_log_quantile
from meshperf.statistics.results import StatisticsWarning
from meshperf.statistics.saturation import CapacityFit, Knee, capacity_fit, knee
from meshperf.study import Study

KNEES_COLUMNS = (
    "mesh",
    "configuration",
    "knee_rps",
    "knee_low_rps",
    "knee_high_rps",
    "at_limit",
    "levels",
    "levels_ok",
    "capacity_rps",
    "capacity_low_rps",
    "capacity_high_rps",
    "base_s",
    "lack_of_fit_p",
    "fit_usable",
    "fit_reason",
    "n_blocks",
    "reason",
    "warnings",
)
#: The quantile whose growth marks the knee.
KNEE_QUANTILE = 0.99


def knees_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Find the largest tested rate at which each arm still works, and fit a queue to the rates that it met.

    Parameters
    ----------
    runs_df, histograms_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``KNEES_COLUMNS``; a row per arm. ``knee_rps`` is the largest rate that was met in all blocks but one at
        most and whose merged p99 is at most ``analysis.knee_ratio`` times that of the lowest rate; ``knee_low_rps``
        to ``knee_high_rps`` its range over the block bootstrap. ``at_limit`` is "yes" where the knee is the highest
        rate tested, so that the true one is there or beyond. ``capacity_rps`` is the rate at which R₀/(1 − x/μ)
        grows without bound, with its interval over blocks; it may be used only where ``fit_usable`` is "yes".

    Notes
    -----
    Only blocks in which every rate of the arm has a run that did not fail count; a baseline's two runs of a block
    are taken together. Saturated runs count as rates that were not met. No knee is given where p99 is not estimable
    at the lowest rate.
    """
    table = RunTable.build(runs_df, histograms_df)
    rows = [_row(table, arm, study) for arm in arms_of(table.runs, study)]
    return pd.DataFrame(rows, columns=list(KNEES_COLUMNS))


@dataclass(frozen=True, eq=False)
class _Levels:
    """Rates of one arm in the blocks that have them all, in ascending order of the rates."""

    rates: NDArray[np.float64]  # (levels,)
    ok: NDArray[np.bool_]  # (r, levels)
    achieved: NDArray[np.float64]  # (r, levels)
    cdf: NDArray[np.float64]  # (r, levels, n_bins)
    log_p50: NDArray[np.float64]  # (r, levels)
    lowest: list[int]  # row numbers of the runs at the lowest rate


def _row(table: RunTable, arm: Arm, study: Study) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(KNEES_COLUMNS, NAN)
    row |= {"mesh": arm.mesh, "configuration": arm.configuration}
    row |= {"at_limit": "", "fit_usable": "no", "fit_reason": "", "reason": "", "n_blocks": 0}
    levels = _levels(table, arm, study)
    if levels is None:
        few = joined([StatisticsWarning.TooFewBlocks])
        return {**row, "reason": "no block has a usable run at every rate", "warnings": few}
    eligible = levels.ok.all(axis=0)
    row |= {"n_blocks": len(levels.ok), "levels": levels.rates.size, "levels_ok": int(eligible.sum())}
    found, reason, warnings = _knee(table, levels, arm, study)
    if found is not None:
        row |= {
            "knee_rps": found.target_rps,
            "knee_low_rps": found.low,
            "knee_high_rps": found.high,
            "at_limit": "yes" if found.at_limit else "no",
        }
    fit = _fit(levels, eligible, study)
    if fit is not None:
        row |= {
            "capacity_rps": fit.capacity_rps.estimate,
            "capacity_low_rps": fit.capacity_rps.low,
            "capacity_high_rps": fit.capacity_rps.high,
            "base_s": fit.base_s.estimate,
            "lack_of_fit_p": fit.lack_of_fit_p,
            "fit_usable": "yes" if fit.usable else "no",
        }
    row["fit_reason"] = fit.reason if fit is not None else "fewer than 2 rates were met in all blocks"
    return {**row, "reason": reason, "warnings": joined(warnings)}


def _knee(
    table: RunTable, levels: _Levels, arm: Arm, study: Study
) -> tuple[Knee | None, str, list[StatisticsWarning]]:
    supported = support(table, levels.lowest, KNEE_QUANTILE, study)
    if supported.label == "n.e.":
        return None, f"p99 at {levels.rates[0]:g} RPS: {supported.reason}", list(supported.warnings)
    found = knee(
        levels.rates,
        levels.ok,
        levels.cdf,
        table.edges_s,
        q=KNEE_QUANTILE,
        max_ratio=study.analysis.knee_ratio,
        confidence=study.analysis.confidence,
        n_resamples=study.analysis.n_resamples,
        rng=generator(study, arm, "knee"),
    )
    return found, "", [*supported.warnings, *found.warnings]


def _fit(levels: _Levels, eligible: NDArray[np.bool_], study: Study) -> CapacityFit | None:
    if eligible.sum() < 2 or not np.isfinite(levels.log_p50[:, eligible]).all():
        return None
    return capacity_fit(
        levels.achieved[:, eligible], levels.log_p50[:, eligible], confidence=study.analysis.confidence
    )


def _levels(table: RunTable, arm: Arm, study: Study) -> _Levels | None:
    """Return the rates of an arm, or None when no block has them all."""
    per_block = deployments_per_block(table.runs, arm)
    usable = table.runs[(table.runs["verdict"] != "failed") & (table.counts.sum(axis=1) > 0)]
    rates = sorted(study.target_rps)
    cells = [runs_of_cell(usable, arm, rate) for rate in rates]
    counts = [cell.groupby("block").size() for cell in cells]
    blocks = sorted(set.intersection(*(set(n.index[n == per_block]) for n in counts)))
    if not blocks:
        return None
    rows = [[list(cell.index[cell["block"] == block]) for cell in cells] for block in blocks]

    def over_runs(values: NDArray) -> NDArray:
        """Mean over the runs of each block and rate, shape (r, levels, ...)."""
        return np.array([[values[runs].mean(axis=0) for runs in of_block] for of_block in rows])

    cdfs = np.zeros_like(table.counts)
    cdfs[usable.index] = table.cdfs(usable.index)
    log_p50 = np.full(len(table.runs), np.nan)
    log_p50[usable.index] = best_log_quantile(cdfs[usable.index], table.edges_s, 0.5)
    return _Levels(
        rates=np.array(rates, dtype=float),
        ok=over_runs((table.runs["verdict"] == "ok").to_numpy(float)) == 1.0,
        achieved=over_runs(table.runs["achieved_rps"].to_numpy(float)),
        cdf=over_runs(cdfs),
        log_p50=over_runs(log_p50),
        lowest=[row for of_block in rows for row in of_block[0]],
    )
