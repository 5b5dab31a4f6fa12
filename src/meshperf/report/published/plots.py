"""Figures of the published tables: frames in, a Matplotlib figure out.

Only what is printed is drawn. Between two printed quantiles there is a rectangle, because a distribution that passes
through both may take any way inside it, and no curve.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, NullLocator

from meshperf.report import style
from meshperf.report.plots.axes import latency_axis, legend, new_figure, ratio_axis, styled

BAND_TICKS = (0.5, 0.1, 0.01, 0.001, 0.0001)


@styled
def bands(bands_df: pd.DataFrame, title: str, *, tail: bool = False) -> Figure:
    """Draw what the quantiles of some rows say of their distributions.

    Parameters
    ----------
    bands_df : DataFrame
        Rectangles of one comparison and rate (:func:`meshperf.published.bands.bands_df`).
    title : str
        Title inside the figure.
    tail : bool
        The share of slower requests on a logarithmic axis, instead of the share at or below.
    """
    figure = new_figure(3.4)
    axes = figure.subplots()
    arms = style.arm_order(zip(bands_df["mesh"], bands_df["configuration"], strict=True))
    for arm in arms:
        mine = bands_df[(bands_df["mesh"] == arm[0]) & (bands_df["configuration"] == arm[1])]
        colour = style.arm_colour(*arm)
        for row in mine.itertuples():
            low, high = (1 - row.cdf_high, 1 - row.cdf_low) if tail else (row.cdf_low, row.cdf_high)
            axes.add_patch(
                Rectangle(
                    (row.low_s * 1e3, low), (row.high_s - row.low_s) * 1e3, high - low, facecolor=colour,
                    edgecolor=colour, alpha=0.5 / len(arms), linewidth=0,
                )
            )  # fmt: skip
            axes.add_patch(
                Rectangle(
                    (row.low_s * 1e3, low), (row.high_s - row.low_s) * 1e3, high - low, fill=False,
                    edgecolor=colour, linewidth=0.8, linestyle=style.line_style(*arm)["linestyle"],
                )
            )  # fmt: skip
        known_s = np.array([*mine["low_s"], mine["high_s"].iloc[-1]])
        ranks = np.array([*mine["cdf_low"], mine["cdf_high"].iloc[-1]])
        axes.plot(
            known_s * 1e3, 1 - ranks if tail else ranks, linestyle="none", zorder=4, clip_on=False,
            **style.marker_style(*arm),
        )  # fmt: skip
    latency_axis(axes, bands_df["low_s"].min() * 0.8, bands_df["high_s"].max() * 1.15)
    if tail:
        axes.set_yscale("log")
        axes.set_ylim(8e-5, 0.7)
        axes.set_yticks(BAND_TICKS)
        axes.set_yticklabels([f"{tick:g}" for tick in BAND_TICKS])
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylabel("share of requests slower")
    else:
        axes.set_ylim(0.45, 1.02)
        axes.set_ylabel("share of requests at or below")
    axes.set_title(title)
    legend(figure, arms)
    return figure


@styled
def estimability(estimability_df: pd.DataFrame) -> Figure:
    """Draw how many requests are expected beyond each percentile, for each target rate.

    Parameters
    ----------
    estimability_df : DataFrame
        Rows of one document whose ``load`` is a target rate
        (:func:`meshperf.published.support.estimability_df`).
    """
    loads = sorted(estimability_df["load"].astype(float).unique())
    quantiles = sorted(estimability_df["quantile"].unique())
    fills = {
        "n.e.": ("#595959", "white", ""),
        "dagger": ("#D9D9D9", "black", "///"),
        "ok": ("#FFFFFF", "black", ""),
    }
    figure = new_figure(2.9)
    axes = figure.subplots()
    for column, load in enumerate(loads):
        for line, quantile in enumerate(quantiles):
            cell = estimability_df[
                (estimability_df["load"].astype(float) == load) & (estimability_df["quantile"] == quantile)
            ]
            kind = cell_kind(cell)
            colour, ink, hatch = fills[kind]
            axes.add_patch(
                Rectangle((column - 0.5, line - 0.5), 1, 1, facecolor=colour, edgecolor="white", hatch=hatch)
            )
            smallest, largest = cell["exceedances"].min(), cell["exceedances"].max()
            text = (
                f"{smallest:.2g}"
                if f"{smallest:.2g}" == f"{largest:.2g}"
                else f"{smallest:.2g}–{largest:.2g}"
            )
            if largest >= 100:
                text = f"{smallest:.0f}" if largest - smallest < 1 else f"{smallest:.0f}–\n{largest:.0f}"
            axes.text(
                column, line, text, ha="center", va="center", color=ink, fontsize=6.5,
                bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.8},
            )  # fmt: skip
    axes.set_xlim(-0.5, len(loads) - 0.5)
    axes.set_ylim(-0.5, len(quantiles) - 0.5)
    axes.set_xticks(range(len(loads)), [f"{load:g}" for load in loads])
    axes.set_yticks(range(len(quantiles)), [f"p{q * 100:g}" for q in quantiles])
    axes.grid(visible=False)
    axes.set_xlabel("target rate (RPS)")
    axes.set_title("Requests expected beyond a percentile")
    handles = [
        Patch(facecolor=fills["n.e."][0], label="fewer than 10"),
        Patch(
            facecolor=fills["dagger"][0],
            hatch=fills["dagger"][2],
            edgecolor="#8C8C8C",
            label="more, from one run",
        ),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2)
    return figure


def cell_kind(cell: pd.DataFrame) -> str:
    """Return the worst label of some cells."""
    return max(cell["label"], key=["ok", "dagger", "n.e."].index)


@styled
def achieved(cells_df: pd.DataFrame, tiers: tuple[float, float]) -> Figure:
    """Draw the achieved over the target rate of every cell, a marker each.

    Parameters
    ----------
    cells_df : DataFrame
        ``mesh, configuration, target_rps, rate_ratio``, one row per cell.
    tiers : tuple of float
        Limits of saturated and degraded, drawn as lines.
    """
    figure = new_figure(3.2)
    axes = figure.subplots()
    meshes = [mesh for mesh in style.MESHES if mesh in set(cells_df["mesh"])]
    for place, mesh in enumerate(meshes):
        shift = 10 ** (0.012 * (place - (len(meshes) - 1) / 2))
        for row in cells_df[cells_df["mesh"] == mesh].itertuples():
            axes.plot(
                row.target_rps * shift, row.rate_ratio, linestyle="none", markersize=4,
                **style.marker_style(row.mesh, row.configuration),
            )  # fmt: skip
    for tier, name in zip(tiers, ("saturated below", "degraded below"), strict=True):
        axes.axhline(tier, color="#595959", linewidth=0.8, linestyle=(0, (4, 2)))
        axes.annotate(
            f"{name} {tier:g}",
            (0.0, tier),
            xytext=(2, -2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=7.5,
            va="top",
        )
    axes.set_xscale("log")
    axes.set_xticks(sorted(cells_df["target_rps"].unique()))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelrotation=45)
    axes.set_xlabel("target rate (RPS)")
    axes.set_ylabel("achieved over target rate")
    axes.set_title("Rate reached")
    _mesh_keys(figure, meshes)
    return figure


@styled
def service_cpu(resources_df: pd.DataFrame, limit_cores: float) -> Figure:
    """Draw the CPU of the service against the target rate, with its limit.

    Parameters
    ----------
    resources_df : DataFrame
        ``mesh, configuration, target_rps, service_cores``.
    limit_cores : float
        Limit of the container in cores.
    """
    figure = new_figure(3.2)
    axes = figure.subplots()
    arms = style.arm_order(zip(resources_df["mesh"], resources_df["configuration"], strict=True))
    for arm in arms:
        mine = resources_df[resources_df["mesh"] == arm[0]].sort_values("target_rps")
        axes.plot(
            mine["target_rps"], mine["service_cores"] * 1e3, markersize=4, linewidth=0.9,
            **style.line_style(*arm), **style.marker_style(*arm),
        )  # fmt: skip
    axes.axhline(limit_cores * 1e3, color="#595959", linewidth=0.8, linestyle=(0, (4, 2)))
    axes.annotate(
        f"limit {limit_cores * 1e3:g} mCPU", (0.0, limit_cores * 1e3), xytext=(2, 2),
        xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=7.5, va="bottom",
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(sorted(resources_df["target_rps"].unique()))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelrotation=45)
    axes.set_ylim(0, limit_cores * 1.15e3)
    axes.set_xlabel("target rate (RPS)")
    axes.set_ylabel("CPU of the service (mCPU)")
    axes.set_title("CPU of the service")
    _mesh_keys(figure, [arm[0] for arm in arms])
    return figure


def _mesh_keys(figure: Figure, meshes: list[str]) -> None:
    handles = [
        Line2D([], [], linestyle="none", label=style.mesh_label(mesh), **style.marker_style(mesh, "basic"))
        for mesh in meshes
    ]
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=min(len(meshes), 5),
        handletextpad=0.2,
        columnspacing=0.9,
    )


@styled
def side_by_side(side_by_side_df: pd.DataFrame, quantile: float) -> Figure:
    """Draw published ratios beside ours with their intervals, at one quantile.

    Parameters
    ----------
    side_by_side_df : DataFrame
        Of :func:`meshperf.published.comparison.side_by_side_df`.
    quantile : float
        Which quantile, 0 to 1.
    """
    rows = side_by_side_df[np.isclose(side_by_side_df["quantile"], quantile)]
    rows = rows.sort_values(["mesh", "configuration", "target_rps"], ascending=[False, False, False])
    figure = new_figure(1.3 + 0.3 * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(rows.itertuples()):
        colour = style.arm_colour(row.mesh, row.configuration)
        if pd.notna(row.ratio_low) and pd.notna(row.ratio_high):
            axes.plot([row.ratio_low, row.ratio_high], [place, place], color=colour)
        if pd.notna(row.overhead_ratio):
            axes.plot(
                row.overhead_ratio, place, linestyle="none", zorder=4,
                **style.marker_style(row.mesh, row.configuration),
            )  # fmt: skip
        axes.plot(row.published_ratio, place, linestyle="none", marker="x", color="#333333", zorder=4)
        axes.annotate(
            row.direction, (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=8,
            color="#333333", annotation_clip=False,
        )  # fmt: skip
    axes.axvline(1, color="#595959", linewidth=0.8)
    ratio_axis(
        axes.xaxis,
        rows[["published_ratio", "overhead_ratio", "ratio_low", "ratio_high"]].to_numpy(float).ravel(),
    )
    axes.set_yticks(range(len(rows)))
    axes.set_yticklabels(
        [
            f"{style.arm_label(row.mesh, row.configuration)} · {row.target_rps:g} / {row.published_rps:g}"
            for row in rows.itertuples()
        ]
    )
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel(f"p{quantile * 100:g} over that of no mesh (log scale)")
    axes.set_title(f"p{quantile * 100:g}: RPS ours / published")
    handles = [
        Line2D([], [], linestyle="-", marker="s", color="#333333", label="ours, with interval"),
        Line2D([], [], linestyle="none", marker="x", color="#333333", label="published"),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2)
    return figure
