"""Figures as pure functions: frames in, a Matplotlib figure out; no files, no global state.

Frames hold seconds, cores and bytes; axes show milliseconds, millicores and MiB.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from meshperf.report import style
from meshperf.report.curves import ArmCurves, arm_curves

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

PERCENTILE_TICKS = (0.5, 0.9, 0.99, 0.999, 0.9999)
BASELINE = ("baseline", "none")


def _styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw in the style of the paper, and stamp what was not measured."""

    @wraps(draw)
    def styled(*args: object, synthetic: bool = False, **kwargs: object) -> Figure:
        with style.applied():
            figure = draw(*args, **kwargs)
            if synthetic:
                figure.text(
                    0.5, 0.5, "SYNTHETIC DATA", ha="center", va="center", rotation=24, fontsize=24, fontweight="bold",
                    color="#B00020", alpha=0.22, zorder=10,
                )  # fmt: skip
        return figure

    return styled


def _figure(height_in: float, width_in: float = style.WIDTH_IN) -> Figure:
    return Figure(figsize=(width_in, height_in), layout="constrained")


def _log_axis(axis: object, *, decades: bool = False) -> None:
    """Label a log axis with plain numbers: 0.5, 1, 2, 5, 10; with ``decades`` only powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1.0,) if decades else (1.0, 2.0, 5.0), numticks=20))  # type: ignore[attr-defined]
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))  # type: ignore[attr-defined]
    axis.set_minor_formatter(NullFormatter())  # type: ignore[attr-defined]
    axis.set_minor_locator(NullLocator())  # type: ignore[attr-defined]


def _latency_axis(axes: Axes, low_s: float, high_s: float) -> None:
    """Set up a logarithmic x axis in milliseconds."""
    axes.set_xscale("log")
    axes.set_xlim(low_s * 1e3, high_s * 1e3)
    _log_axis(axes.xaxis, decades=high_s / low_s > 300)
    axes.set_xlabel("latency (ms, log scale)")


def _legend(figure: Figure, arms: list[tuple[str, str]], *, lines: bool = True) -> None:
    """Put one row of arm keys above the axes."""
    handles = [
        Line2D([], [], label=style.arm_label(*arm), **style.marker_style(*arm), **_line(arm, lines))
        for arm in arms
    ]
    columns = 3 if len(arms) > 4 else max(len(arms), 1)
    figure.legend(
        handles=handles, loc="outside upper left", ncols=columns, handlelength=3.2, columnspacing=1.4
    )


def _line(arm: tuple[str, str], visible: bool) -> dict[str, object]:
    return style.line_style(*arm) if visible else {"linestyle": "none"}


def _markers_at(
    axes: Axes, curve: ArmCurves, quantiles: tuple[float, ...], height: Callable[[float], float]
) -> None:
    """Mark reported quantiles on a curve: tells lines apart in grey print."""
    for q in quantiles:
        axes.plot(
            curve.quantile(q) * 1e3,
            height(q),
            linestyle="none",
            zorder=4,
            clip_on=True,
            **style.marker_style(*curve.arm),
        )


@_styled
def cdf(histograms_df: pd.DataFrame, title: str | None = None) -> Figure:
    """Draw the cumulative distribution of latency at one target rate.

    Thin lines are runs, the thick line is the mean of the runs' distributions; markers sit at p50, p90 and p99.

    Parameters
    ----------
    histograms_df : DataFrame
        Histograms of one ``target_rps``.
    title : str, optional
        Title inside the figure.
    """
    curves = arm_curves(histograms_df)
    figure = _figure(3.3)
    axes = figure.subplots()
    for curve in curves:
        for run in curve.cdfs:
            axes.plot(
                curve.latency_s * 1e3, run, linewidth=0.5, alpha=0.35, color=style.arm_colour(*curve.arm)
            )
        axes.plot(curve.latency_s * 1e3, curve.mean_cdf, zorder=3, **style.line_style(*curve.arm))
        _markers_at(axes, curve, (0.5, 0.9, 0.99), lambda q: q)
    _latency_axis(
        axes,
        min(curve.quantile(0.001) for curve in curves) * 0.9,
        max(curve.quantile(0.998) for curve in curves) * 1.05,
    )
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of requests at or below")
    axes.set_title(title or "CDF")
    _legend(figure, [curve.arm for curve in curves])
    return figure


@_styled
def ccdf(histograms_df: pd.DataFrame, title: str | None = None) -> Figure:
    """Draw the share of requests slower than x, both axes logarithmic, at one target rate.

    A line turns dotted where its arm's data no longer carry an estimate (:meth:`ArmCurves.last_estimable`). The two
    baseline deployments are drawn apart in thin grey: their distance is what no difference looks like.

    Parameters
    ----------
    histograms_df : DataFrame
        Histograms of one ``target_rps``.
    title : str, optional
        Title inside the figure.
    """
    curves = arm_curves(histograms_df)
    figure = _figure(3.3)
    axes = figure.subplots()
    floor = min(1.0 / curve.n_requests.sum() for curve in curves)
    for curve in curves:
        latency_ms = curve.latency_s * 1e3
        for run, n_requests in zip(curve.cdfs, curve.n_requests, strict=True):
            tail = np.where(1 - run >= 0.5 / n_requests, 1 - run, np.nan)
            axes.plot(latency_ms, tail, linewidth=0.5, alpha=0.3, color=style.arm_colour(*curve.arm))
        if curve.arm == BASELINE and len(set(curve.deployments)) > 1:
            for deployment in sorted(set(curve.deployments)):
                tail = 1 - curve.cdfs[curve.deployments == deployment].mean(axis=0)
                axes.plot(
                    latency_ms, np.where(tail > floor / 2, tail, np.nan), linewidth=1.0, color="#8C8C8C"
                )
        tail = 1 - curve.mean_cdf
        limit = max(curve.last_estimable(), floor / 2)
        axes.plot(latency_ms, np.where(tail >= limit, tail, np.nan), zorder=3, **style.line_style(*curve.arm))
        beyond = np.where((tail <= limit) & (tail > floor / 2), tail, np.nan)
        axes.plot(
            latency_ms, beyond, zorder=3, linestyle=":", linewidth=1.3, color=style.arm_colour(*curve.arm)
        )
        _markers_at(axes, curve, tuple(q for q in (0.5, 0.9, 0.99, 0.999) if 1 - q >= limit), lambda q: 1 - q)
    low = min(curve.quantile(0.05) for curve in curves)
    high = max(curve.latency_s[np.flatnonzero(1 - curve.mean_cdf > floor / 2)[-1]] for curve in curves)
    _latency_axis(axes, low * 0.9, high * 1.15)
    axes.set_yscale("log")
    axes.set_ylim(floor * 0.7, 1.15)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("share of requests slower")
    axes.set_title(title or "CCDF")
    _legend(figure, [curve.arm for curve in curves])
    return figure


@_styled
def percentiles(histograms_df: pd.DataFrame, cells_df: pd.DataFrame, title: str | None = None) -> Figure:
    """Draw latency against the percentile, the tail stretched as in an HdrHistogram plot, at one target rate.

    Points and bars are the estimates and intervals of ``cells_df``; lines are quantiles of the mean distributions,
    drawn as far as they are estimable.

    Parameters
    ----------
    histograms_df, cells_df : DataFrame
        Rows of one ``target_rps``.
    title : str, optional
        Title inside the figure.
    """
    curves = arm_curves(histograms_df)
    figure = _figure(3.3)
    axes = figure.subplots()
    deepest = 0.1
    for index, curve in enumerate(curves):
        limit = max(curve.last_estimable(), 1.0 / curve.n_requests.sum())
        deepest = min(deepest, limit)
        stretch = np.linspace(0, -np.log10(limit), 200)[1:]
        axes.plot(stretch, curve.quantile(1 - 10**-stretch) * 1e3, **style.line_style(*curve.arm))
        cell = cells_df[(cells_df["mesh"] == curve.arm[0]) & (cells_df["configuration"] == curve.arm[1])]
        cell = cell[cell["estimate_s"].notna()]
        if cell.empty:
            continue
        nudge = (index - (len(curves) - 1) / 2) * 0.03
        estimate_ms = cell["estimate_s"].to_numpy(float) * 1e3
        position = -np.log10(1 - cell["quantile"].to_numpy(float)) + nudge
        axes.plot(position, estimate_ms, linestyle="none", zorder=4, **style.marker_style(*curve.arm))
        if cell["low_s"].notna().any():
            errors = np.vstack([estimate_ms - cell["low_s"] * 1e3, cell["high_s"] * 1e3 - estimate_ms]).clip(
                0
            )
            axes.errorbar(
                position,
                estimate_ms,
                yerr=errors,
                fmt="none",
                capsize=2.5,
                color=style.arm_colour(*curve.arm),
                linewidth=1,
            )
    ticks = [q for q in PERCENTILE_TICKS if 1 - q >= deepest * 0.9]
    axes.set_xlim(0, -np.log10(deepest) + 0.15)
    axes.xaxis.set_major_locator(FixedLocator([-np.log10(1 - q) for q in ticks]))
    axes.set_xticklabels([f"p{q * 100:g}" for q in ticks])
    axes.set_yscale("log")
    _log_axis(axes.yaxis)
    axes.set_xlabel("percentile (tail stretched)")
    axes.set_ylabel("latency (ms, log scale)")
    axes.set_title(title or "Percentiles")
    _legend(figure, [curve.arm for curve in curves])
    return figure


def aa_envelope(runs_df: pd.DataFrame, quantile: float) -> dict[int, float]:
    """Return, per target rate, the 95th percentile over blocks of |log ratio| between the two baseline deployments.

    With few blocks this is close to their maximum. Rates with no block that has both baselines are left out.
    """
    column = quantile_column(quantile)
    base = runs_df[runs_df["mesh"] == BASELINE[0]]
    pairs = base.pivot_table(index=["target_rps", "block"], columns="deployment", values=column)
    if not {1, 2} <= set(pairs.columns):
        return {}
    logs = np.log(pairs[2] / pairs[1]).abs().dropna()
    return {int(rate): float(np.quantile(values, 0.95)) for rate, values in logs.groupby(level="target_rps")}


def quantile_column(quantile: float) -> str:
    """Return the column of ``runs_df`` that holds a quantile: ``p99_s`` for 0.99, ``p999_s`` for 0.999."""
    return f"p{quantile * 100:g}_s".replace(".", "")


@_styled
def overhead_forest(
    comparisons_df: pd.DataFrame, runs_df: pd.DataFrame, quantile: float, title: str | None = None
) -> Figure:
    """Draw the overhead of every arm and rate at one quantile, with its interval and verdict.

    The x axis is the ratio to the baseline of the same block (log scale; one is no overhead); the grey box is the A/A
    envelope of the rate. A hollow marker has no interval (too few blocks).

    Parameters
    ----------
    comparisons_df : DataFrame
        Comparisons; rows with the estimand ``typical`` are drawn.
    runs_df : DataFrame
        Runs, for the A/A envelope.
    quantile : float
        Which quantile, 0 to 1.
    title : str, optional
        Title inside the figure.
    """
    rows = _forest_rows(comparisons_df, quantile)
    envelope = aa_envelope(runs_df, quantile)
    figure = _figure(1.15 + 0.27 * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        arm = (row["mesh"], row["configuration"])
        colour = style.arm_colour(*arm)
        half = envelope.get(int(row["target_rps"]))
        if half is not None:
            axes.fill_betweenx(
                [place - 0.5, place + 0.5], np.exp(-half), np.exp(half), color="#DADADA", linewidth=0
            )
        if pd.notna(row["ratio_low"]) and pd.notna(row["ratio_high"]):
            axes.plot([row["ratio_low"], row["ratio_high"]], [place, place], color=colour, linewidth=1.6)
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
    axes.set_xscale("log")
    values = [row[name] for row in rows for name in ("overhead_ratio", "ratio_low", "ratio_high")]
    values = [value for value in values if pd.notna(value)] + [np.exp(half) for half in envelope.values()]
    low, high = min([*values, 0.9]), max([*values, 1.1])
    axes.set_xlim(low / 1.08, high * 1.08)
    axes.xaxis.set_major_locator(FixedLocator(_ratio_ticks(low / 1.08, high * 1.08)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
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


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Choose at most seven round ratios between ``low`` and ``high``."""
    for candidates in (
        (0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2),
        (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5),
        (0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3),
        (0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6),
        (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
    ):
        inside = [value for value in candidates if low <= value <= high]
        if high <= candidates[-1] * 1.15 and low >= candidates[0] / 1.15 and len(inside) <= 7:
            return inside
    return [value for value in (1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1e3, 1e4) if low <= value <= high]


@_styled
def run_chart(runs_df: pd.DataFrame, quantile: float = 0.5, title: str | None = None) -> Figure:
    """Draw one quantile of every run in the order of measurement, a panel per target rate.

    Grey bands are blocks. Drift and jumps would show here; a run that passed its gates only in part is drawn with a
    cross over its marker.

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
    figure = _figure(0.9 + 1.35 * len(rates))
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
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0), numticks=12))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylabel(f"{int(rate)} RPS\np{quantile * 100:g} (ms)")
    panels[-1].set_xlabel("minutes since the campaign started")
    panels[0].set_title(title or f"p{quantile * 100:g} of every run, in time order")
    _legend(figure, style.arm_order(zip(runs["mesh"], runs["configuration"], strict=True)), lines=False)
    return figure


@_styled
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
    figure = _figure(2.6)
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
    _legend(figure, arms, lines=False)
    return figure


@_styled
def resources(
    resources_df: pd.DataFrame, runs_df: pd.DataFrame, what: str = "cpu", title: str | None = None
) -> Figure:
    """Draw what each component uses, stacked, a bar per arm and rate: mean over runs.

    Parameters
    ----------
    resources_df : DataFrame
        A row per run and container.
    runs_df : DataFrame
        All runs; dots show the total of each.
    what : {"cpu", "memory"}
        CPU time per request in microseconds, or the median working set in MiB.
    title : str, optional
        Title inside the figure.
    """
    column, factor, label = {
        "cpu": ("cpu_s_per_request", 1e6, "CPU per request (µs)"),
        "memory": ("working_set_median_bytes", 2**-20, "working set (MiB)"),
    }[what]
    identity = ["mesh", "configuration", "target_rps", "block", "deployment"]
    roles = [role for role in style.ROLES if role in set(resources_df["role"])]
    per_run = resources_df[resources_df["role"].isin(roles)].pivot_table(
        index=identity, columns="role", values=column, aggfunc="sum"
    )
    per_run = (per_run.reindex(columns=roles).fillna(0) * factor).reset_index()
    cells = [
        (arm, rate)
        for rate in sorted(runs_df["target_rps"].unique())
        for arm in style.arm_order(zip(runs_df["mesh"], runs_df["configuration"], strict=True))
    ]
    figure = _figure(1.25 + 0.27 * len(cells))
    axes = figure.subplots()
    for place, (arm, rate) in enumerate(cells):
        runs = per_run[
            (per_run["mesh"] == arm[0])
            & (per_run["configuration"] == arm[1])
            & (per_run["target_rps"] == rate)
        ]
        left = 0.0
        for role in roles:
            _, grey, hatch = style.ROLES[role]
            width = float(runs[role].mean()) if len(runs) else 0.0
            axes.barh(
                place,
                width,
                left=left,
                height=0.62,
                color=grey,
                hatch=hatch,
                edgecolor="#333333",
                linewidth=0.5,
            )
            left += width
        axes.plot(
            runs[roles].sum(axis=1), [place] * len(runs), linestyle="none", zorder=4, markersize=3.5,
            **style.marker_style(*arm),
        )  # fmt: skip
    axes.set_yticks(range(len(cells)))
    axes.set_yticklabels([f"{style.arm_label(*arm)} · {int(rate)} RPS" for arm, rate in cells])
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(label)
    axes.set_title(title or label)
    handles = [
        Patch(
            facecolor=style.ROLES[role][1],
            hatch=style.ROLES[role][2],
            edgecolor="#333333",
            label=style.ROLES[role][0],
        )
        for role in roles
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, handlelength=2.2, columnspacing=1.2)
    return figure
