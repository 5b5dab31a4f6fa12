"""Comparisons with the baseline: overhead, its course over the distribution, and the control."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from meshperf.report import style
from meshperf.report.data import BASELINE
from meshperf.report.plots.axes import new_figure, percentile_axis, ratio_axis, stretched, styled
from meshperf.statistics.baselines import noise_floor

_NOISE_GREY, _BLOCK_GREY = "#DADADA", "#8C8C8C"


@styled
def overhead_forest(comparisons_df: pd.DataFrame, quantile: float, title: str | None = None) -> Figure:
    """Draw the overhead of every arm and rate at one quantile, with its interval and verdict.

    The x axis is the ratio to the baseline of the same block (log scale; one is no overhead); the grey box is how far
    the two baselines of a block are apart at the rate. A hollow marker has no interval (too few blocks).

    Parameters
    ----------
    comparisons_df : DataFrame
        Comparisons; rows with the estimand ``typical`` are drawn.
    quantile : float
        Which quantile, 0 to 1.
    title : str, optional
        Title inside the figure.
    """
    rows = _forest_rows(comparisons_df, quantile)
    figure = new_figure(1.15 + 0.27 * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        arm = (row["mesh"], row["configuration"])
        noise = row["noise_ratio"]
        if pd.notna(noise):
            axes.fill_betweenx([place - 0.5, place + 0.5], 1 / noise, noise, color=_NOISE_GREY, linewidth=0)
        if pd.notna(row["ratio_low"]) and pd.notna(row["ratio_high"]):
            ends = [row["ratio_low"], row["ratio_high"]]
            axes.plot(ends, [place, place], color=style.arm_colour(*arm), linewidth=1.6)
        marker = style.marker_style(*arm)
        if pd.isna(row["ratio_low"]):
            marker["markerfacecolor"] = "white"
        if pd.notna(row["overhead_ratio"]):
            axes.plot(row["overhead_ratio"], place, linestyle="none", zorder=4, **marker)
        axes.annotate(
            str(row["verdict"]).split(" (")[0], (1.02, place), xycoords=("axes fraction", "data"), va="center",
            fontsize=8, color="#333333", annotation_clip=False,
        )  # fmt: skip
    axes.axvline(1, color="black", linewidth=0.8)
    names = ("overhead_ratio", "ratio_low", "ratio_high", "noise_ratio")
    values = [row[name] for row in rows for name in names]
    ratio_axis(axes.xaxis, [*values, *(1 / row["noise_ratio"] for row in rows)])
    axes.set_yticks(range(len(rows)))
    axes.set_yticklabels(
        [f"{style.arm_label(r['mesh'], r['configuration'])} · {int(r['target_rps'])} RPS" for r in rows]
    )
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"p{quantile * 100:g}: ratio to no mesh (log scale)")
    axes.set_title(title or f"Overhead at p{quantile * 100:g}")
    return figure


def _forest_rows(comparisons_df: pd.DataFrame, quantile: float) -> list[pd.Series]:
    """Return the rows of a forest plot from top to bottom: by rate, then by arm."""
    frame = comparisons_df[
        (comparisons_df["estimand"] == "typical")
        & np.isclose(comparisons_df["quantile"], quantile)
        & (comparisons_df["mesh"] != BASELINE[0])
    ]
    order = {
        arm: i
        for i, arm in enumerate(style.arm_order(zip(frame["mesh"], frame["configuration"], strict=True)))
    }
    return sorted(
        (row for _, row in frame.iterrows()),
        key=lambda r: (r["target_rps"], order[r["mesh"], r["configuration"]]),
    )


@styled
def shift(shifts_df: pd.DataFrame, title: str | None = None) -> Figure:
    """Draw how each arm shifts each part of the distribution at one target rate, a panel per arm.

    The line is the typical ratio to no mesh at each quantile, the coloured band covers all quantiles together, thin
    grey lines are single blocks; the grey area is how far the two baselines of a block are apart.

    Parameters
    ----------
    shifts_df : DataFrame
        Rows of one ``target_rps``; those of the baseline give the grey area.
    title : str, optional
        Title inside the figure.
    """
    arms = style.arm_order(zip(shifts_df["mesh"], shifts_df["configuration"], strict=True))
    drawn = [arm for arm in arms if arm != BASELINE]
    noise = _noise(shifts_df)
    figure = new_figure(0.75 + 1.55 * len(drawn))
    panels = np.atleast_1d(figure.subplots(len(drawn), 1, sharex=True, sharey=True))
    extremes: list[float] = []
    for axes, arm in zip(panels, drawn, strict=True):
        mine = _of(shifts_df, arm)
        estimate = mine[mine["block"].isna()].sort_values("quantile")
        place = [stretched(q) for q in estimate["quantile"]]
        if len(noise):
            grey = [stretched(q) for q in noise.index]
            axes.fill_between(grey, 1 / noise, noise, color=_NOISE_GREY, linewidth=0)
        for _, block in mine[mine["block"].notna()].sort_values("quantile").groupby("block"):
            axes.plot(
                [stretched(q) for q in block["quantile"]], block["ratio"], color=_BLOCK_GREY, linewidth=0.6
            )
        colour = style.arm_colour(*arm)
        axes.fill_between(
            place, estimate["ratio_low"], estimate["ratio_high"], color=colour, alpha=0.22, linewidth=0
        )
        axes.plot(place, estimate["ratio"], zorder=3, **style.line_style(*arm))
        axes.plot(place, estimate["ratio"], linestyle="none", zorder=4, **style.marker_style(*arm))
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_ylabel("ratio to no mesh")
        axes.annotate(
            style.arm_label(*arm), (0.99, 0.96), xycoords="axes fraction", ha="right", va="top", fontsize=8.5
        )
        extremes += [*mine["ratio"], *estimate["ratio_low"], *estimate["ratio_high"]]
    ratio_axis(panels[0].yaxis, extremes)
    percentile_axis(panels[-1], shifts_df["quantile"])
    panels[0].set_title(title or "Shift function")
    return figure


def _noise(shifts_df: pd.DataFrame) -> pd.Series:
    """Return the factor between the two baselines of a block that noise explains, by quantile."""
    blocks = _of(shifts_df, BASELINE).dropna(subset=["block"])
    ratios = {q: np.exp(noise_floor(np.log(rows["ratio"])).limit) for q, rows in blocks.groupby("quantile")}
    return pd.Series(ratios, dtype=float).sort_index()


def _of(frame: pd.DataFrame, arm: tuple[str, str]) -> pd.DataFrame:
    return frame[(frame["mesh"] == arm[0]) & (frame["configuration"] == arm[1])]


@styled
def control(control_df: pd.DataFrame, shifts_df: pd.DataFrame, title: str | None = None) -> Figure:
    """Draw the second baseline against the first, at every rate and quantile, where no difference is the truth.

    Circles are single blocks, the bar is the interval of their typical ratio, the grey box the noise floor.

    Parameters
    ----------
    control_df : DataFrame
        A row per rate and quantile.
    shifts_df : DataFrame
        Its rows of the baseline hold the ratio of each block.
    title : str, optional
        Title inside the figure.
    """
    blocks = _of(shifts_df, BASELINE).dropna(subset=["block"])
    figure = new_figure(1.0 + 0.27 * len(control_df))
    axes = figure.subplots()
    values: list[float] = []
    for place, row in enumerate(control_df.itertuples()):
        mine = blocks[
            (blocks["target_rps"] == row.target_rps) & np.isclose(blocks["quantile"], row.quantile)
        ]["ratio"]
        noise = row.noise_ratio
        axes.fill_betweenx([place - 0.5, place + 0.5], 1 / noise, noise, color=_NOISE_GREY, linewidth=0)
        axes.plot(
            mine, [place] * len(mine), linestyle="none", marker="o", markersize=3.5, markerfacecolor="white",
            markeredgecolor=_BLOCK_GREY, zorder=3,
        )  # fmt: skip
        if pd.notna(row.ratio_low):
            axes.plot([row.ratio_low, row.ratio_high], [place, place], color="black", linewidth=1.6)
        axes.plot(row.ratio, place, zorder=4, linestyle="none", **style.marker_style(*BASELINE))
        values += [*mine, row.ratio, row.ratio_low, row.ratio_high, noise, 1 / noise]
    axes.axvline(1, color="black", linewidth=0.8)
    ratio_axis(axes.xaxis, values)
    axes.set_yticks(range(len(control_df)))
    axes.set_yticklabels(
        [f"p{row.quantile * 100:g} · {int(row.target_rps)} RPS" for row in control_df.itertuples()]
    )
    axes.set_ylim(len(control_df) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("second deployment to the first (log scale)")
    axes.set_title(title or "Control: no mesh against no mesh")
    return figure
