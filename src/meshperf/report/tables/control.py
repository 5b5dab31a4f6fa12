"""The control: the two baselines of each block against each other, where no difference is the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from meshperf.report import formats
from meshperf.report.floats import CONTROL, TableFloat
from meshperf.report.tables.parts import Notes, interval_words, stacked

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def gate(data: ReportData) -> TableFloat | None:
    """Return whether the baselines are exchangeable: all A/A comparisons of the campaign tested together."""
    frame = data.gate_df[data.gate_df["tests"] > 0]
    if frame.empty:
        return None
    notes = Notes(frame)
    rows = [
        [
            str(row.compared) + notes.mark(row.warnings),
            f"{int(row.rejected)} of {int(row.tests)}",
            f"{formats.percent(row.share)} [{formats.percent(row.share_low)}, "
            f"{formats.percent(row.share_high)}]",
            formats.p_value(row.p_value),
            formats.p_value(row.p_min),
            {"yes": "passed", "no": "failed", "unknown": "cannot tell"}[row.passed],
        ]
        for row in frame.itertuples()
    ]
    heads = ["Compared", "alarms", "share of alarms", "p, all together", "smallest p", "gate"]
    level = formats.level(data.study.analysis.alpha)
    caption = (
        f"All comparisons of the two baselines of a block. Alarms: paired t tests with p at most {level}, "
        "and their share "
        "with the interval of Clopper and Pearson, which takes them for independent. All together: "
        "exchange of the two "
        "baselines within whole blocks, in all cells at once, which does not. Second against first decides "
        "whether the "
        "verdicts of this report stand; later against earlier shows drift or carry-over within blocks, "
        "which the random "
        f"order keeps out of the comparisons.{notes.sentence()}"
    )
    return TableFloat("tbl-gate", pd.DataFrame(rows, columns=heads), caption, CONTROL)


def control(data: ReportData) -> TableFloat | None:
    """Return the noise of each rate and percentile."""
    frame = data.control_df
    if frame.empty:
        return None
    notes = Notes(frame)
    rows = [
        [
            str(int(row.target_rps)),
            f"p{row.quantile * 100:g}",
            stacked(row.ratio, row.ratio_low, row.ratio_high) + notes.mark(row.warnings),
            stacked(row.later_ratio, row.later_low, row.later_high),
            formats.significant(row.noise_ratio),
            formats.significant(row.sd_log, 2),
            formats.count(row.n_blocks),
        ]
        for row in frame.sort_values(["target_rps", "quantile"]).itertuples()
    ]
    heads = [
        "target RPS",
        "percentile",
        "second to first",
        "later to earlier",
        "noise ×",
        "sd of log",
        "blocks",
    ]
    caption = (
        "Noise: one deployment without a mesh against the other of the same block; the truth is one. "
        f"{interval_words(data)} Noise: the factor between the two that 95 % of the blocks stay below; an "
        "effect that is "
        f"smaller is not claimed. Sd of log: spread of the block ratios on the log scale.{notes.sentence()}"
    )
    return TableFloat("tbl-control", pd.DataFrame(rows, columns=heads), caption, CONTROL)
