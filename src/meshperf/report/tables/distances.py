"""Whole distributions against no mesh."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import DISTRIBUTIONS, LINE_BREAK, TableFloat
from meshperf.report.tables.parts import Notes, in_order, interval_words, stacked

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def distances(data: ReportData) -> TableFloat | None:
    """Return distances between distributions with their tests, the control among them."""
    frame = data.distances_df
    if frame.empty or frame["ks_d"].isna().all():
        return None
    frame = frame.assign(quantile=0.0)
    notes = Notes(frame)
    rows = [
        [
            "control" if row.mesh == "baseline" else style.arm_label(row.mesh, row.configuration),
            str(int(row.target_rps)),
            stacked(row.ks_d, row.ks_low, row.ks_high) + notes.mark(row.warnings),
            formats.milliseconds(row.ks_at_s),
            formats.significant(row.tail_t),
            f"{formats.p_value(row.p_body)}{LINE_BREAK}{formats.p_value(row.p_tail)}",
            formats.p_value(row.p_combined),
            formats.p_value(row.p_adjusted),
            formats.milliseconds(row.wasserstein_s),
            formats.percent(_relative(row.wasserstein_log)),
            "" if row.mesh == "baseline" else str(row.verdict),
        ]
        for row in in_order(frame)
    ]
    heads = [
        "Solution",
        "target RPS",
        "D",
        "at (ms)",
        "T",
        "p of D, of T",
        "p of both",
        "p (BH)",
        "W (ms)",
        "mean shift",
        "verdict",
    ]
    frame_printed = pd.DataFrame(rows, columns=heads)
    smallest = frame.loc[frame["mesh"] != "baseline", "p_min"].dropna()
    reach = (
        f" The smallest p that the design can reach is {formats.p_value(smallest.max())}."
        if len(smallest)
        else ""
    )
    low, high = data.study.analysis.tail_region
    caption = (
        "Whole distributions against no mesh. D: largest vertical distance of the mean CDFs "
        "(Kolmogorov–Smirnov), and "
        f"where it is. {interval_words(data)} T: largest |log ratio| of the shares of slower requests, "
        "where those are "
        f"between {formats.level(low)} and {formats.level(high)}: D hardly sees the tail. p-values by "
        "relabelling the "
        f"runs inside blocks; of both: exact for having looked twice.{reach} BH: corrected by Benjamini and "
        "Hochberg; at "
        f"most {formats.level(data.study.analysis.families.false_discovery_rate)} of the differences that "
        "are reported "
        "are expected to be false. W: Wasserstein distance, the mean shift of a request, in milliseconds "
        "and relative to "
        f"its latency. Binning lowers D by at most {formats.significant(frame['bin_bound'].max(), 2)}. "
        "Control: one "
        f"baseline of each block against the other.{notes.sentence()}"
    )
    return TableFloat("tbl-distances", frame_printed, caption, DISTRIBUTIONS, data.mesh_arms)


def _relative(log_shift: Any) -> float:
    """Return a mean log ratio as a relative change."""
    return math.expm1(float(log_shift))
