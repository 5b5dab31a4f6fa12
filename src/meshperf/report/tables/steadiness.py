"""Runs that were not steady, and the drift of the campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import CHECK, TableFloat
from meshperf.report.tables.parts import Notes, stacked

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def unsteady(data: ReportData) -> TableFloat | None:
    """Return the runs that were not steady; none is a good sign and no table."""
    frame = data.runs_df[data.runs_df["steadiness"] == "not steady"].sort_values("order")
    if frame.empty:
        return None
    rows = [
        [
            style.arm_label(row.mesh, row.configuration),
            str(int(row.target_rps)),
            f"{int(row.block)}" + (f" ({int(row.deployment)})" if row.mesh == "baseline" else ""),
            str(int(row.order)),
            f"{int(row.warmup_slices)} of {int(row.n_slices)}",
            formats.significant(row.drift_ratio),
        ]
        for row in frame.itertuples()
    ]
    heads = ["Solution", "target RPS", "block", "order", "warm-up slices", "last third to first"]
    caption = (
        "Runs that were not steady, which take no part in comparisons of latency. Warm-up slices: slices "
        "at the beginning "
        "that differ from the rest (marginal standard error rule), more than a quarter of them is too "
        "many. Last third to "
        "first: ratio of the medians after the warm-up was cut."
    )
    return TableFloat("tbl-unsteady", pd.DataFrame(rows, columns=heads), caption, CHECK)


def drift(data: ReportData) -> TableFloat | None:
    """Return the trend of latency over the campaign."""
    frame = data.drifts_df
    if frame.empty:
        return None
    notes = Notes(frame)
    rows = [
        [
            str(int(row.target_rps)),
            f"p{row.quantile * 100:g}",
            stacked(row.trend_ratio, row.trend_low, row.trend_high) + notes.mark(row.warnings),
            formats.p_value(row.p_value),
            formats.significant(row.largest_block_ratio),
            str(row.far_blocks).replace(" ", ", ") if isinstance(row.far_blocks, str) else formats.DASH,
            formats.count(row.n_blocks),
        ]
        for row in frame.sort_values(["target_rps", "quantile"]).itertuples()
    ]
    heads = ["target RPS", "percentile", "trend", "p", "furthest block", "far blocks", "blocks"]
    hours = formats.duration(frame["hours"].max() * 3600)
    caption = (
        "Drift: what the arms of a block share against the time of the block. Trend: factor from the first "
        "block to the "
        f"last, {hours} later, with its {formats.level(data.study.analysis.confidence)} interval. Furthest "
        "block: ratio of "
        "the block that is furthest from the mean of all; far blocks are more than 3.5 scaled median "
        "deviations away. "
        f"Comparisons are made within blocks, where such a drift does not reach.{notes.sentence()}"
    )
    return TableFloat("tbl-drift", pd.DataFrame(rows, columns=heads), caption, CHECK)
