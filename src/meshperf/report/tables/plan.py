"""What the campaign could detect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import PLAN, TableFloat
from meshperf.report.tables.parts import in_order

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def detectable(data: ReportData) -> TableFloat | None:
    """Return what each comparison that may be claimed could detect, and the blocks that the planned effect needs."""
    frame = data.plan_df
    if frame.empty:
        return None
    ratio, power = float(frame["ratio"].iloc[0]), float(frame["power"].iloc[0])
    rows = [
        [
            style.arm_label(row.mesh, row.configuration),
            str(int(row.target_rps)),
            f"p{row.quantile * 100:g}",
            formats.count(row.n_blocks),
            formats.significant(row.sd_log, 2),
            formats.significant(row.detectable_ratio),
            formats.significant(row.detectable_in_family),
            formats.count(row.blocks_needed) if formats.is_number(row.blocks_needed) else "more than 1000",
        ]
        for row in in_order(frame)
    ]
    heads = ["Solution", "target RPS", "percentile", "blocks", "sd of log", "detects", "in its family"]
    heads.append(f"blocks for {ratio:g}")
    caption = (
        f"What the campaign could detect with a power of {formats.level(power)}: the smallest ratio to no mesh, in a "
        "test of its own, and with the first step of the correction for all comparisons that may be claimed; and how "
        f"many blocks a ratio of {ratio:g} needs, planned with the upper {formats.level(0.8)} limit of the spread. "
        "A smaller effect may exist and not be seen."
    )
    return TableFloat("tbl-plan", pd.DataFrame(rows, columns=heads), caption, PLAN)
