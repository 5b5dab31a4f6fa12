"""Overhead against no mesh, what stands beside it, and the order of the arms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import COMPARE, TableFloat
from meshperf.report.tables.parts import Notes, in_order, interval_words, stacked

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def overhead(data: ReportData) -> TableFloat:
    """Return overhead as ratio and difference, in the typical deployment and merged, with verdicts."""
    frame = data.comparisons_df[data.comparisons_df["mesh"] != "baseline"]
    merged = frame[frame["estimand"] == "merged"].set_index(
        ["mesh", "configuration", "target_rps", "quantile"]
    )
    typical = frame[frame["estimand"] == "typical"]
    notes = Notes(typical)
    rows = []
    for row in in_order(typical):
        key = (row.mesh, row.configuration, row.target_rps, row.quantile)
        other = merged.loc[[key]].iloc[0] if key in merged.index else None
        rows.append(
            [
                style.arm_label(row.mesh, row.configuration),
                str(int(row.target_rps)),
                f"p{row.quantile * 100:g}",
                stacked(row.overhead_ratio, row.ratio_low, row.ratio_high),
                stacked(row.overhead_s, row.difference_low_s, row.difference_high_s, scale=1e3, sign=True),
                "" if other is None else stacked(other.overhead_ratio, other.ratio_low, other.ratio_high),
                formats.p_value(row.p_adjusted),
                formats.count(row.n_blocks),
                _verdict(row) + notes.mark(getattr(row, "warnings", "")),
            ]
        )
    heads = [
        "Solution",
        "target RPS",
        "percentile",
        "ratio",
        "difference (ms)",
        "merged ratio",
        "p (Holm)",
        "blocks",
        "verdict",
    ]
    sizes = typical.loc[typical["family"] == "primary", "family_size"]
    corrected = (
        f", corrected for the {int(sizes.max())} comparisons that may be claimed" if len(sizes) else ""
    )
    caption = (
        "Overhead against no mesh, paired by block. Ratio: typical deployment, the mean over blocks on "
        "the log scale; difference: mean over the same blocks; merged ratio: quantile of the pooled "
        "distributions. "
        f"{interval_words(data)} p: paired t on the log ratios{corrected}; the intervals here are not. A "
        "percentile "
        "or rate that was not declared for a claim beforehand is exploratory and has neither p nor verdict."
        f"{notes.sentence()}"
    )
    return TableFloat("tbl-overhead", pd.DataFrame(rows, columns=heads), caption, COMPARE, data.mesh_arms)


def checks(data: ReportData) -> TableFloat | None:
    """Return what stands beside each ratio that may be claimed: other intervals, and what they assume."""
    frame = data.comparisons_df
    frame = frame[(frame["estimand"] == "typical") & (frame["family"] == "primary")]
    frame = frame[frame["overhead_ratio"].notna()]
    if frame["ratio_low"].isna().all():
        return None
    rows = [
        [
            style.arm_label(row.mesh, row.configuration),
            str(int(row.target_rps)),
            f"p{row.quantile * 100:g}",
            formats.significant(row.overhead_ratio),
            _range(row.simultaneous_low, row.simultaneous_high),
            _range(row.leave_one_out_low, row.leave_one_out_high),
            _range(row.robust_low, row.robust_high),
            _range(row.prediction_low, row.prediction_high),
            formats.significant(row.sd_log, 2),
            formats.significant(row.noise_ratio),
            _equivalence(row),
        ]
        for row in in_order(frame)
    ]
    heads = [
        "Solution",
        "target RPS",
        "percentile",
        "ratio",
        "all together",
        "leave one out",
        "min to max",
        "measured again",
        "sd of log",
        "noise ×",
        "equivalent",
    ]
    level = formats.level(data.study.analysis.confidence)
    robust = formats.percent(frame["robust_confidence"].max(), 3)
    caption = (
        "What stands beside the ratios that may be claimed. All together: intervals that hold all of them "
        "at once at "
        f"{level} (Bonferroni). Leave one out: smallest and largest ratio when each block in turn is left "
        "out. Min to "
        "max: the smallest and the largest block, an interval for the median ratio that assumes nothing of "
        "the "
        f"distribution (at most {robust}). Measured again: where the ratio of as many further blocks would "
        "lie "
        f"({level}). Sd of log: spread of the block ratios on the log scale. Noise: the factor between the "
        "two "
        "baselines of a block that 95 % of the blocks stay below; a smaller effect is not claimed. "
        "Equivalent: the "
        "margin that was declared, and the p-value of two one-sided tests that the ratio lies within it."
    )
    return TableFloat("tbl-checks", pd.DataFrame(rows, columns=heads), caption, COMPARE, data.mesh_arms)


def ranks(data: ReportData) -> TableFloat | None:
    """Return the order of the arms, a row per rate and percentile."""
    frame = data.ranks_df
    if frame.empty:
        return None
    arms = style.arm_order(zip(frame["mesh"], frame["configuration"], strict=True))
    rows = []
    for (rate, quantile), group in frame.groupby(["target_rps", "quantile"], sort=True):
        told = {(row.mesh, row.configuration): str(row.ranks) for row in group.itertuples()}
        blocks = formats.count(group["n_blocks"].min())
        cells = [told.get(arm, formats.DASH) for arm in arms]
        rows.append([str(int(rate)), f"p{quantile * 100:g}", *cells, blocks])
    heads = ["target RPS", "percentile", *(style.arm_label(*arm) for arm in arms), "blocks"]
    caption = (
        "Order of the arms by latency, 1 the fastest. A range is a tie: the ranks that an arm may have, "
        "given what the "
        f"comparisons of all pairs (paired t, Holm, {formats.level(data.study.analysis.alpha)} over the "
        "pairs) tell "
        "apart."
    )
    return TableFloat("tbl-ranks", pd.DataFrame(rows, columns=heads), caption, COMPARE, arms)


def _verdict(row: Any) -> str:
    """Return the verdict of a comparison; one that could not support a claim in any case has none."""
    exploratory = row.verdict == "undecided" and str(getattr(row, "reason", "")).startswith("exploratory")
    return "(exploratory)" if exploratory else str(row.verdict)


def _range(low: object, high: object) -> str:
    return formats.interval(low, high, formats.interval_decimals(low, low, high)) or formats.DASH


def _equivalence(row: Any) -> str:
    """Return margin and p-value of the test of equivalence."""
    if not formats.is_number(row.equivalence_margin):
        return formats.DASH
    return f"± {formats.level(row.equivalence_margin)}: {formats.p_value(row.equivalence_p)}"
