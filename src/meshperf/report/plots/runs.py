"""Single runs: in the order of measurement, and against the rate they were asked for."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from meshperf.report import style
from meshperf.report.plots.axes import legend, new_figure, ratio_axis, styled


def quantile_column(quantile: float) -> str:
    """Return the column of ``runs_df`` that holds a quantile: ``p99_s`` for 0.99, ``p999_s`` for 0.999."""
    return f"p{quantile * 100:g}_s".replace(".", "")


@styled
def run_chart(runs_df: pd.DataFrame, quantile: float = 0.5, title: str | None = None) -> Figure:
    """Draw one quantile of every run in the order of measurement, a panel per target rate.

    Grey bands are blocks. Drift and jumps would show here; a run that passed its gates only in part is drawn with a
    cross over its marker, one that was not steady with a ring around it.

    Parameters
    ----------
    runs_df : DataFrame
        All runs.
    quantile : float
        Which quantile, 0 to 1.
    title : str, optional
        Title inside the figure.
    """
    column = quantile_column(quantile)
    runs = runs_df[runs_df[column].notna()].copy()
    started = pd.to_datetime(runs["started_utc"], utc=True, format="mixed")
    runs["minutes"] = (started - started.min()).dt.total_seconds() / 60
    rates = sorted(runs["target_rps"].unique())
    figure = new_figure(0.9 + 1.35 * len(rates))
    panels = np.atleast_1d(figure.subplots(len(rates), 1, sharex=True))
    blocks = runs.groupby("block")["minutes"].agg(["min", "max"]).sort_values("min")
    for axes, rate in zip(panels, rates, strict=True):
        for index, (_, span) in enumerate(blocks.iterrows()):
            if index % 2 == 0:
                axes.axvspan(span["min"], span["max"], color="#EFEFEF", linewidth=0, zorder=0)
        for arm, group in runs[runs["target_rps"] == rate].groupby(["mesh", "configuration"]):
            axes.plot(group["minutes"], group[column] * 1e3, linestyle="none", **style.marker_style(*arm))
            flawed = group[group["verdict"] != "ok"]
            axes.plot(
                flawed["minutes"],
                flawed[column] * 1e3,
                linestyle="none",
                marker="x",
                color="#B00020",
                zorder=5,
            )
            unsteady = group[group["steadiness"] == "not steady"]
            axes.plot(
                unsteady["minutes"], unsteady[column] * 1e3, linestyle="none", marker="o", markersize=9,
                markerfacecolor="none", markeredgecolor="#B00020", zorder=5,
            )  # fmt: skip
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0), numticks=12))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylabel(f"{int(rate)} RPS\np{quantile * 100:g} (ms)")
    panels[-1].set_xlabel("minutes since the campaign started")
    panels[0].set_title(title or f"p{quantile * 100:g} of every run, in time order")
    legend(figure, style.arm_order(zip(runs["mesh"], runs["configuration"], strict=True)), lines=False)
    return figure


@styled
def achieved_vs_target(
    runs_df: pd.DataFrame, tiers: tuple[float, float] = (0.95, 0.99), title: str | None = None
) -> Figure:
    """Draw achieved over target rate of every run, with the lines that decide ``degraded`` and ``saturated``.

    Parameters
    ----------
    runs_df : DataFrame
        All runs; the column ``rate_ratio`` is drawn if there is one, else achieved over target rate.
    tiers : tuple of float
        Below the first a run is saturated, below the second degraded.
    title : str, optional
        Title inside the figure.
    """
    ratio = (
        runs_df["rate_ratio"] if "rate_ratio" in runs_df else runs_df["achieved_rps"] / runs_df["target_rps"]
    )
    arms = style.arm_order(zip(runs_df["mesh"], runs_df["configuration"], strict=True))
    rates = sorted(runs_df["target_rps"].unique())
    figure = new_figure(2.6)
    axes = figure.subplots()
    for index, arm in enumerate(arms):
        group = runs_df[(runs_df["mesh"] == arm[0]) & (runs_df["configuration"] == arm[1])]
        place = (
            group["target_rps"].map({rate: i for i, rate in enumerate(rates)})
            + (index - (len(arms) - 1) / 2) * 0.16
        )
        axes.plot(place, ratio[group.index], linestyle="none", **style.marker_style(*arm))
    for tier, word in zip(tiers, ("saturated below", "degraded below"), strict=True):
        axes.axhline(tier, color="#7A7A7A", linewidth=0.9, linestyle=(0, (4, 3)))
        axes.annotate(
            f"{word} {tier:g}",
            (0.01, tier),
            xycoords=("axes fraction", "data"),
            fontsize=7.5,
            va="top",
            color="#555555",
        )
    axes.set_xticks(range(len(rates)))
    axes.set_xticklabels([f"{int(rate)}" for rate in rates])
    axes.set_xlim(-0.6, len(rates) - 0.4)
    axes.set_ylim(min(0.93, float(ratio.min()) - 0.02), max(1.01, float(ratio.max()) + 0.01))
    axes.set_xlabel("target RPS")
    axes.set_ylabel("achieved / target")
    axes.set_title(title or "Rate reached by every run")
    legend(figure, arms, lines=False)
    return figure


@styled
def time_course(slices_df: pd.DataFrame, runs_df: pd.DataFrame, title: str | None = None) -> Figure:
    """Draw the median of every slice of every run against the run's own median, a panel per arm.

    Thin lines are runs, red ones those that were not steady, the thick line is the geometric mean over the runs.

    Parameters
    ----------
    slices_df : DataFrame
        Slices of one ``target_rps``.
    runs_df : DataFrame
        All runs; ``steadiness`` is looked at.
    title : str, optional
        Title inside the figure.
    """
    run = ["mesh", "configuration", "target_rps", "block", "deployment"]
    logs = np.log(slices_df["p50_s"])
    relative = np.exp(logs - logs.groupby([slices_df[name] for name in run]).transform("median"))
    slices = slices_df.assign(relative=relative).merge(runs_df[[*run, "steadiness"]], on=run)
    arms = style.arm_order(zip(slices["mesh"], slices["configuration"], strict=True))
    figure = new_figure(0.7 + 1.2 * len(arms))
    panels = np.atleast_1d(figure.subplots(len(arms), 1, sharex=True, sharey=True))
    for axes, arm in zip(panels, arms, strict=True):
        mine = slices[(slices["mesh"] == arm[0]) & (slices["configuration"] == arm[1])]
        for _, course in mine.groupby(run):
            unsteady = (course["steadiness"] == "not steady").any()
            colour = "#B00020" if unsteady else style.arm_colour(*arm)
            axes.plot(course["start_s"], course["relative"], color=colour, linewidth=0.6, alpha=0.6)
        mean = np.exp(np.log(mine["relative"]).groupby(mine["start_s"]).mean())
        axes.plot(mean.index, mean, zorder=3, **style.line_style(*arm))
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_ylabel("p50 of slice\nto that of run")
        axes.annotate(
            style.arm_label(*arm), (0.99, 0.95), xycoords="axes fraction", ha="right", va="top", fontsize=8.5
        )
    ratio_axis(panels[0].yaxis, slices["relative"])
    panels[-1].set_xlabel("seconds since the run began")
    panels[0].set_title(title or "Time course of every run")
    return figure
