"""Up to which rate each arm works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import SATURATION, TableFloat
from meshperf.report.tables.parts import Notes

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def knees(data: ReportData) -> TableFloat | None:
    """Return the knee of each arm, and the capacity of the curve through the rates that it met."""
    frame = data.knees_df
    if frame.empty:
        return None
    notes = Notes(frame)
    arms = style.arm_order(zip(frame["mesh"], frame["configuration"], strict=True))
    ordered = frame.set_index(["mesh", "configuration"]).loc[arms].reset_index()
    rows = [
        [
            style.arm_label(row.mesh, row.configuration),
            _knee(row) + notes.mark(row.warnings),
            _range(row.knee_low_rps, row.knee_high_rps),
            f"{formats.count(row.levels_ok)} of {formats.count(row.levels)}",
            _capacity(row),
            formats.p_value(row.lack_of_fit_p),
            formats.count(row.n_blocks),
            _remark(row),
        ]
        for row in ordered.itertuples()
    ]
    heads = [
        "Solution",
        "knee (RPS)",
        "range",
        "rates met",
        "capacity (RPS)",
        "lack of fit p",
        "blocks",
        "remark",
    ]
    caption = (
        "Knee: the largest tested rate that was met in all blocks but one at most, and whose p99 is at most "
        f"{data.study.analysis.knee_ratio:g} times that of the lowest rate; ≥ where it is the highest rate "
        "tested. Range: "
        f"over {formats.level(data.study.analysis.confidence)} of the resamples of the blocks. Capacity: "
        "the rate at which "
        "a single queue fitted to the medians of each block would grow without bound, given only where at "
        "least four rates "
        f"were met and the curve fits.{notes.sentence()}"
    )
    return TableFloat("tbl-knees", pd.DataFrame(rows, columns=heads), caption, SATURATION, arms)


def _knee(row: Any) -> str:
    if not formats.is_number(row.knee_rps):
        return formats.DASH
    return f"{'≥ ' if row.at_limit == 'yes' else ''}{formats.count(row.knee_rps)}"


def _range(low: object, high: object) -> str:
    if not (formats.is_number(low) and formats.is_number(high)):
        return formats.DASH
    return formats.count(low) if low == high else f"{formats.count(low)} to {formats.count(high)}"


def _capacity(row: Any) -> str:
    if row.fit_usable != "yes":
        return formats.DASH
    low, high = row.capacity_low_rps, row.capacity_high_rps
    upper = formats.count(round(high)) if formats.is_number(high) else "∞"
    lower = formats.count(round(low)) if formats.is_number(low) else formats.DASH
    return f"{formats.count(round(row.capacity_rps))} [{lower}, {upper}]"


def _remark(row: Any) -> str:
    """Return why there is no knee, or else why there is no capacity."""
    for reason in (row.reason, row.fit_reason):
        if isinstance(reason, str) and reason:
            return reason
    return ""
