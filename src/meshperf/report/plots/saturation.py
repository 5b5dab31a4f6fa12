"""Latency against the rate that was reached, and CPU against it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from meshperf.report import style
from meshperf.report.plots.axes import legend, log_axis, new_figure, styled


@styled
def throughput_latency(
    cells_df: pd.DataFrame, knees_df: pd.DataFrame, quantile: float, title: str | None = None
) -> Figure:
    """Draw a merged quantile of latency against the achieved rate, a line per arm.

    The band is the interval over blocks; a hollow marker is a cell that missed its rate, a tick on the
    axis a target rate, a dotted line the knee of an arm that has one below the highest rate.

    Parameters
    ----------
    cells_df : DataFrame
        A row per cell and quantile.
    knees_df : DataFrame
        A row per arm; may be empty.
    quantile : float
        Which quantile, 0 to 1.
    title : str, optional
        Title inside the figure.
    """
    cells = cells_df[np.isclose(cells_df["quantile"], quantile) & cells_df["estimate_s"].notna()]
    arms = style.arm_order(zip(cells["mesh"], cells["configuration"], strict=True))
    figure = new_figure(3.2)
    axes = figure.subplots()
    for arm in arms:
        mine = cells[(cells["mesh"] == arm[0]) & (cells["configuration"] == arm[1])].sort_values("target_rps")
        rate, estimate_ms = mine["achieved_rps_mean"], mine["estimate_s"] * 1e3
        colour = style.arm_colour(*arm)
        axes.fill_between(
            rate, mine["low_s"] * 1e3, mine["high_s"] * 1e3, color=colour, alpha=0.18, linewidth=0
        )
        axes.plot(rate, estimate_ms, zorder=3, **style.line_style(*arm))
        met = (mine["verdict"] == "ok").to_numpy()
        marker = style.marker_style(*arm)
        axes.plot(rate[met], estimate_ms[met], linestyle="none", zorder=4, **marker)
        hollow = {**marker, "markerfacecolor": "white", "markeredgecolor": "#B00020", "markeredgewidth": 1.4}
        axes.plot(rate[~met], estimate_ms[~met], linestyle="none", zorder=4, **hollow)
    for knee in knees_df.itertuples():
        if knee.at_limit == "no" and pd.notna(knee.knee_rps):
            colour = style.arm_colour(knee.mesh, knee.configuration)
            axes.axvline(knee.knee_rps, color=colour, linestyle=":", linewidth=1.1)
    axes.set_yscale("log")
    log_axis(axes.yaxis)
    targets = sorted(cells_df["target_rps"].unique())
    axes.set_xticks(targets)
    axes.set_xticklabels([f"{int(target)}" for target in targets])
    axes.set_xlim(0, max([*targets, *cells["achieved_rps_mean"]]) * 1.06)
    axes.set_xlabel("achieved RPS (ticks: targets)")
    axes.set_ylabel(f"p{quantile * 100:g} (ms, log scale)")
    axes.set_title(title or f"p{quantile * 100:g} against the rate reached")
    legend(figure, arms)
    return figure


@styled
def cpu_against_rate(cores_df: pd.DataFrame, slopes_df: pd.DataFrame, title: str | None = None) -> Figure:
    """Draw the cores of the data plane against the achieved rate, a dot per run and the mean line of each arm.

    Parameters
    ----------
    cores_df : DataFrame
        A row per run: ``mesh``, ``configuration``, ``block``, ``deployment``, ``achieved_rps`` and ``cores``.
    slopes_df : DataFrame
        Rows of one role: slope and intercept of each arm.
    title : str, optional
        Title inside the figure.
    """
    arms = style.arm_order(zip(cores_df["mesh"], cores_df["configuration"], strict=True))
    figure = new_figure(3.0)
    axes = figure.subplots()
    for arm in arms:
        mine = cores_df[(cores_df["mesh"] == arm[0]) & (cores_df["configuration"] == arm[1])]
        colour = style.arm_colour(*arm)
        for _, deployment in mine.sort_values("achieved_rps").groupby(["block", "deployment"]):
            axes.plot(
                deployment["achieved_rps"], deployment["cores"] * 1e3, color=colour, linewidth=0.5, alpha=0.5
            )
        axes.plot(
            mine["achieved_rps"], mine["cores"] * 1e3, linestyle="none", markersize=3.5,
            **{k: v for k, v in style.marker_style(*arm).items() if k != "markersize"},
        )  # fmt: skip
        line = slopes_df[(slopes_df["mesh"] == arm[0]) & (slopes_df["configuration"] == arm[1])]
        line = line[line["slope_s_per_request"].notna()]
        if len(line):
            ends = np.array([0.0, mine["achieved_rps"].max()])
            cores = line["idle_cores"].iloc[0] + line["slope_s_per_request"].iloc[0] * ends
            axes.plot(ends, cores * 1e3, zorder=3, **style.line_style(*arm))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("achieved RPS")
    axes.set_ylabel("service and sidecars (mCPU)")
    axes.set_title(title or "CPU against the rate")
    legend(figure, arms)
    return figure


@styled
def cost_plane(costs_df: pd.DataFrame, title: str | None = None) -> Figure:
    """Draw what each arm costs in CPU against what it costs in latency, with both intervals.

    Parameters
    ----------
    costs_df : DataFrame
        A row per arm: overhead in CPU-seconds per request and in seconds of latency, each with its interval.
    title : str, optional
        Title inside the figure.
    """
    figure = new_figure(3.0)
    axes = figure.subplots()
    for row in costs_df.itertuples():
        arm = (row.mesh, row.configuration)
        colour = style.arm_colour(*arm)
        x, y = row.overhead_s_per_request * 1e6, row.overhead_s * 1e3
        across = [row.difference_low_s_per_request * 1e6, row.difference_high_s_per_request * 1e6]
        axes.plot(across, [y, y], color=colour, linewidth=1.4)
        axes.plot(
            [x, x], [row.difference_low_s * 1e3, row.difference_high_s * 1e3], color=colour, linewidth=1.4
        )
        axes.plot(x, y, linestyle="none", zorder=4, **style.marker_style(*arm))
    axes.axhline(0, color="black", linewidth=0.8)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("CPU per request beyond no mesh (µs)")
    axes.set_ylabel("p99 beyond no mesh (ms)")
    axes.set_title(title or "CPU against latency")
    legend(
        figure, style.arm_order(zip(costs_df["mesh"], costs_df["configuration"], strict=True)), lines=False
    )
    return figure
