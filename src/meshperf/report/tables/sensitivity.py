"""What the numbers owe to what was not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import LINE_BREAK, SENSITIVITY, TableFloat
from meshperf.report.tables.parts import Notes, in_order

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def sensitivity(data: ReportData) -> TableFloat | None:
    """Return bins, bounds of unsent requests and the correction for them, for what may be claimed."""
    frame = data.sensitivity_df
    if frame.empty:
        return None
    frame = frame[frame["quantile"].isin(data.study.analysis.families.quantiles)]
    rows = [
        [
            style.arm_label(row.mesh, row.configuration),
            str(int(row.target_rps)),
            f"p{row.quantile * 100:g}",
            f"{formats.milliseconds(row.merged_s)}{LINE_BREAK}"
            f"({formats.span(row.bin_low_s * 1e3, row.bin_high_s * 1e3)})",
            formats.percent(row.missing_fraction),
            _bounds(row.omission_low_s, row.omission_high_s, 1e3),
            formats.milliseconds(row.corrected_s),
            *_ratios(row),
        ]
        for row in in_order(frame)
    ]
    heads = [
        "Solution",
        "target RPS",
        "percentile",
        "merged (ms)",
        "never sent",
        "bounds (ms)",
        "corrected (ms)",
    ]
    heads += ["ratio", "ratio, corrected", "ratio, bounds"]
    caption = (
        "Sensitivity to what was not seen. Below the merged percentile, the bin that it lies in (from, to). Bounds: "
        "where the "
        "percentile of the whole schedule lies, whatever the requests that were never sent would have "
        "shown. Corrected: "
        "with the requests added that a blocked connection would have sent in the meantime (the rule of "
        "HdrHistogram), a "
        "sensitivity and no result. Ratio: typical ratio to no mesh; its bounds are the worst that the "
        "bounds of both "
        "sides allow."
    )
    return TableFloat("tbl-sensitivity", pd.DataFrame(rows, columns=heads), caption, SENSITIVITY, data.arms)


def components(data: ReportData) -> TableFloat | None:
    """Return where the variance of the baseline comes from."""
    frame = data.components_df
    if frame.empty:
        return None
    notes = Notes(frame)
    rows = [
        [
            str(int(row.target_rps)),
            f"p{row.quantile * 100:g}" + notes.mark(row.warnings),
            *(formats.percent(value) for value in (row.sd_block, row.sd_deployment, row.sd_within_run)),
            formats.percent(row.within_share),
            formats.count(row.n_blocks),
        ]
        for row in frame.sort_values(["target_rps", "quantile"]).itertuples()
    ]
    heads = ["target RPS", "percentile", "block", "deployment", "within run", "share within", "blocks"]
    caption = (
        "Where the spread of latency without a mesh comes from: standard deviations of the log between "
        "blocks, between "
        "the two deployments of a block, and within runs (at least: as if requests were independent). "
        "Share within: of "
        "the variance between the runs of a block; above one half longer runs would help, below it only "
        "more blocks do."
        f"{notes.sentence()}"
    )
    return TableFloat("tbl-components", pd.DataFrame(rows, columns=heads), caption, SENSITIVITY, data.arms)


def _ratios(row: Any) -> list[str]:
    if row.mesh == "baseline":
        return [formats.DASH] * 3
    bounds = _bounds(row.ratio_omission_low, row.ratio_omission_high, 1)
    return [formats.significant(row.ratio), formats.significant(row.ratio_corrected), bounds]


def _bounds(low: float, high: float, scale: float) -> str:
    """Return bounds, of which the upper one may be infinite; no brackets, which stand for intervals of confidence."""
    if not formats.is_number(low):
        return formats.DASH
    if not formats.is_number(high):
        return f"≥ {formats.significant(low * scale)} (unbounded)"
    return formats.span(low * scale, high * scale)
