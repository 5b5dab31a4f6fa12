"""How well intervals keep what they promise."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from meshperf.report import formats
from meshperf.report.floats import FigureFloat, Panel
from meshperf.report.plots.validation import coverage
from meshperf.report.tables.validation import origin

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def validation(data: ReportData) -> FigureFloat | None:
    """Return the coverage of intervals against the number of blocks, p50 and p99 of the typical scenario."""
    frame = data.validation_df
    if frame.empty:
        return None
    frame = frame[(frame["check"] == "coverage") & (frame["scenario"] == "B")]
    # Only methods that are checked at several numbers of blocks make a line.
    many = frame.groupby(["method", "quantile"])["n_blocks"].transform("nunique") > 1
    panels = []
    for q in (0.5, 0.99):
        mine = frame[many & np.isclose(frame["quantile"], q)]
        if mine.empty:
            continue
        ends = "; ".join(
            f"{method} {formats.fixed(100 * group['value'].min(), 0)} to "
            f"{formats.fixed(100 * group['value'].max(), 0)} %"
            for method, group in mine.groupby("method", sort=False)
        )
        panels.append(
            Panel(
                f"coverage-p{q * 100:g}",
                partial(coverage, mine, title=f"Coverage of 95 % intervals, p{q * 100:g}"),
                partial(lambda rows: rows, mine),
                f"Share of simulated campaigns whose interval of a ratio of p{q * 100:g} holds the truth: "
                f"{ends}.",
            )
        )
    if not panels:
        return None
    caption = (
        "How often a 95 % interval of a ratio holds the truth, on simulated campaigns with the noise of "
        "public "
        "measurements. The strip is what is required of the methods in use; grey and dashed is what the "
        "field usually "
        "does, on the same campaigns. Requests are no replicates: resampling them gives intervals that are "
        "far too narrow."
    )
    return FigureFloat("fig-validation", tuple(panels), caption, "", origin=origin(frame))
