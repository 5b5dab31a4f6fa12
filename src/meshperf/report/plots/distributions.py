"""Distributions of latency: CDF, CCDF, percentiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from meshperf.report import style
from meshperf.report.curves import ArmCurves, arm_curves
from meshperf.report.data import BASELINE
from meshperf.report.plots.axes import latency_axis, legend, log_axis, new_figure, percentile_axis, styled

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes


@styled
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
    figure = new_figure(3.3)
    axes = figure.subplots()
    for curve in curves:
        for run in curve.cdfs:
            axes.plot(
                curve.latency_s * 1e3, run, linewidth=0.5, alpha=0.35, color=style.arm_colour(*curve.arm)
            )
        axes.plot(curve.latency_s * 1e3, curve.mean_cdf, zorder=3, **style.line_style(*curve.arm))
        markers_at(axes, curve, (0.5, 0.9, 0.99), lambda q: q)
    latency_axis(
        axes,
        min(curve.quantile(0.001) for curve in curves) * 0.9,
        max(curve.quantile(0.998) for curve in curves) * 1.05,
    )
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of requests at or below")
    axes.set_title(title or "CDF")
    legend(figure, [curve.arm for curve in curves])
    return figure


@styled
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
    figure = new_figure(3.3)
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
        markers_at(axes, curve, tuple(q for q in (0.5, 0.9, 0.99, 0.999) if 1 - q >= limit), lambda q: 1 - q)
    low = min(curve.quantile(0.05) for curve in curves)
    high = max(curve.latency_s[np.flatnonzero(1 - curve.mean_cdf > floor / 2)[-1]] for curve in curves)
    latency_axis(axes, low * 0.9, high * 1.15)
    axes.set_yscale("log")
    axes.set_ylim(floor * 0.7, 1.15)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("share of requests slower")
    axes.set_title(title or "CCDF")
    legend(figure, [curve.arm for curve in curves])
    return figure


@styled
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
    figure = new_figure(3.3)
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
    percentile_axis(axes, [1 - deepest])
    axes.set_yscale("log")
    log_axis(axes.yaxis)
    axes.set_ylabel("latency (ms, log scale)")
    axes.set_title(title or "Percentiles")
    legend(figure, [curve.arm for curve in curves])
    return figure


def markers_at(
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
