"""Overhead against no mesh, its course over the distribution, and the control."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from meshperf.report import formats, plots, style
from meshperf.report.floats import COMPARE, CONTROL, DISTRIBUTIONS, FigureFloat, Panel

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def overhead(data: ReportData) -> FigureFloat:
    """Return the overhead of every arm at every rate, p50 and p99."""
    comparisons_df = data.comparisons_df
    quantiles = [q for q in (0.5, 0.99) if np.isclose(comparisons_df["quantile"], q).any()]
    typical = comparisons_df[
        (comparisons_df["estimand"] == "typical") & (comparisons_df["mesh"] != "baseline")
    ]

    def described(quantile: float) -> str:
        rows = typical[np.isclose(typical["quantile"], quantile)]
        return "; ".join(
            f"{style.arm_label(row.mesh, row.configuration)} at {int(row.target_rps)} RPS "
            f"{formats.with_interval(row.overhead_ratio, row.ratio_low, row.ratio_high)}"
            for row in rows.itertuples()
        )

    panels = tuple(
        Panel(
            f"overhead-p{q * 100:g}",
            partial(plots.overhead_forest, comparisons_df, q, synthetic=data.synthetic),
            partial(lambda q: comparisons_df[np.isclose(comparisons_df["quantile"], q)], q),
            f"Ratio of p{q * 100:g} to no mesh: {described(q)}.",
        )
        for q in quantiles
    )
    bars = (
        f"bars are {formats.level(data.study.analysis.confidence)} intervals over blocks"
        if typical["ratio_low"].notna().any()
        else "too few blocks for intervals (hollow markers)"
    )
    caption = (
        "Overhead in the typical deployment: ratio of an arm's percentile to that of no mesh in the same "
        "block, "
        f"averaged on the log scale; {bars}. Grey: noise, the factor between the two baselines of a block "
        "that 95 % of "
        "the blocks stay below; an effect inside it is not claimed. At the right, the verdict."
    )
    return FigureFloat("fig-overhead", panels, caption, COMPARE, data.mesh_arms)


def shift(data: ReportData) -> FigureFloat | None:
    """Return the shift function of every arm, at the rate that the results show."""
    rate = data.shown_rate
    shifts_df = data.shifts_df[data.shifts_df["target_rps"] == rate]
    bands = shifts_df[shifts_df["block"].isna() & (shifts_df["mesh"] != "baseline")]
    if bands.empty:
        return None
    arms = style.arm_order(zip(bands["mesh"], bands["configuration"], strict=True))

    def described(arm: tuple[str, str]) -> str:
        mine = bands[(bands["mesh"] == arm[0]) & (bands["configuration"] == arm[1])].sort_values("quantile")
        ends = [
            f"{formats.with_interval(row.ratio, row.ratio_low, row.ratio_high)} at p{row.quantile * 100:g}"
            for row in mine.iloc[[0, -1]].itertuples()
        ]
        return f"{style.arm_label(*arm)} from {' to '.join(ends)}"

    panel = Panel(
        f"shift-{rate}",
        partial(plots.shift, shifts_df, title=f"Shift function, {rate} RPS", synthetic=data.synthetic),
        lambda: shifts_df,
        f"Ratio of each percentile to no mesh at {rate} RPS: {'; '.join(described(arm) for arm in arms)}.",
    )
    level = formats.level(data.study.analysis.confidence)
    band = (
        f"the coloured band holds all percentiles together at {level} ({bands['method'].iloc[0]})"
        if bands["ratio_low"].notna().any()
        else "too few blocks for a band"
    )
    caption = (
        f"Shift function at a target of {rate} RPS: the ratio of each percentile to that of no mesh in the "
        "typical "
        f"deployment; {band}. Thin grey lines are single blocks; the grey area is the noise between the two "
        "baselines. "
        "A level line is the same factor for all requests; one that rises costs the slow requests more."
    )
    return FigureFloat("fig-shift", (panel,), caption, DISTRIBUTIONS, arms)


def control(data: ReportData) -> FigureFloat | None:
    """Return the two baselines against each other, at every rate and percentile."""
    control_df = data.control_df.sort_values(["target_rps", "quantile"])
    if control_df.empty:
        return None
    blocks = data.shifts_df[data.shifts_df["mesh"] == "baseline"]
    largest = control_df.loc[control_df["noise_ratio"].idxmax()]
    panel = Panel(
        "control",
        partial(plots.control, control_df, blocks, synthetic=data.synthetic),
        lambda: control_df,
        f"Ratio of the second deployment without a mesh to the first, {len(control_df)} rates and "
        "percentiles; the noise "
        f"is largest at {int(largest['target_rps'])} RPS and p{largest['quantile'] * 100:g}, a factor of "
        f"{formats.significant(largest['noise_ratio'])}.",
    )
    caption = (
        "Control: the second deployment without a mesh against the first of the same block, where one is "
        "the truth. "
        "Circles are single blocks, the bar is the interval of their typical ratio, the grey box the "
        "noise: the factor "
        "that 95 % of the blocks stay below."
    )
    return FigureFloat("fig-control", (panel,), caption, CONTROL)
