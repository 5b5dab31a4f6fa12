"""Latency against the rate that was reached."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from meshperf.report import formats, plots, style
from meshperf.report.floats import SATURATION, FigureFloat, Panel

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def throughput(data: ReportData) -> FigureFloat | None:
    """Return the throughput–latency curve of every arm; None where only one rate was measured."""
    if len(data.rates) < 2 or data.knees_df.empty:
        return None
    cells_df = data.cells_df
    shown = [
        q for q in (0.5, 0.99) if (np.isclose(cells_df["quantile"], q) & cells_df["estimate_s"].notna()).any()
    ]
    if not shown:
        return None

    def described(quantile: float) -> str:
        mine = cells_df[np.isclose(cells_df["quantile"], quantile) & cells_df["estimate_s"].notna()]
        parts = []
        for arm in style.arm_order(zip(mine["mesh"], mine["configuration"], strict=True)):
            of_arm = mine[(mine["mesh"] == arm[0]) & (mine["configuration"] == arm[1])]
            ends = of_arm.sort_values("target_rps").iloc[[0, -1]]["estimate_s"]
            span = " to ".join(formats.milliseconds(value) for value in ends)
            parts.append(f"{style.arm_label(*arm)} {span} ms")
        return "; ".join(parts)

    panels = tuple(
        Panel(
            f"throughput-p{q * 100:g}",
            partial(plots.throughput_latency, cells_df, data.knees_df, q, synthetic=data.synthetic),
            partial(lambda q: cells_df[np.isclose(cells_df["quantile"], q)], q),
            f"p{q * 100:g} at the lowest and the highest rate: {described(q)}.",
        )
        for q in shown
    )
    caption = (
        "Latency against the rate that was reached: quantiles of the mean distributions, bands are "
        f"{formats.level(data.study.analysis.confidence)} intervals over blocks. A hollow marker with a red "
        "edge is a cell "
        "that missed its rate: it is shown and not compared. A dotted line marks a knee below the highest "
        "rate."
    )
    return FigureFloat("fig-throughput", panels, caption, SATURATION, data.arms)
