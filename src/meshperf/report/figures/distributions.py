"""Distributions of latency, for the results and for the annex."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from meshperf.report import formats, plots, style
from meshperf.report.curves import arm_curves
from meshperf.report.floats import DESCRIBE, FigureFloat, Panel

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def comparison_arms(data: ReportData, configuration: str) -> list[tuple[str, str]]:
    """Return the arms of a comparison of meshes in one configuration: the baseline and every mesh that has it."""
    return [arm for arm in data.arms if arm[0] == "baseline" or arm[1] == configuration]


def feature_arms(data: ReportData, mesh: str) -> list[tuple[str, str]]:
    """Return the arms of a mesh, for the impact of its features; empty if it was measured in one configuration only."""
    arms = [arm for arm in data.arms if arm[0] == mesh]
    return arms if mesh != "baseline" and len(arms) > 1 else []


def annex_distributions(data: ReportData) -> list[tuple[tuple[str, str], FigureFloat]]:
    """Return the distribution figures of the annex, each with its group: (``configuration`` or ``mesh``, name)."""
    groups = [(("configuration", name), comparison_arms(data, name)) for name in data.configurations]
    meshes = list(dict.fromkeys(mesh for mesh, _ in data.mesh_arms))
    groups += [(("mesh", mesh), arms) for mesh in meshes if (arms := feature_arms(data, mesh))]
    return [
        (group, distribution(data, f"fig-distribution-{group[1]}-{rate}", arms, rate))
        for group, arms in groups
        for rate in data.rates
        if _has_runs(data, arms, rate)
    ]


def distribution(data: ReportData, label: str, arms: list[tuple[str, str]], rate: int) -> FigureFloat:
    """Return the CDF and CCDF pair of some arms at one rate."""
    histograms_df = _select(data.counted(data.histograms_df), arms, rate)
    curves = arm_curves(histograms_df)
    names = formats.listing([style.arm_label(*curve.arm) for curve in curves])
    suffix = label.removeprefix("fig-distribution").lstrip("-") or f"all-{rate}"

    def described(quantile: float) -> str:
        return "; ".join(
            f"{style.arm_label(*c.arm)} {formats.milliseconds(c.quantile(quantile))} ms" for c in curves
        )

    draw = {"synthetic": data.synthetic}
    panels = (
        Panel(
            f"cdf-{suffix}",
            partial(plots.cdf, histograms_df, title=f"CDF, {rate} RPS", **draw),
            partial(_curve_numbers, histograms_df),
            f"Cumulative distribution of latency at {rate} RPS. Medians: {described(0.5)}.",
        ),
        Panel(
            f"ccdf-{suffix}",
            partial(plots.ccdf, histograms_df, title=f"CCDF, {rate} RPS", **draw),
            partial(_curve_numbers, histograms_df),
            f"Complementary cumulative distribution of latency at {rate} RPS, both axes logarithmic. "
            f"99th percentiles: {described(0.99)}.",
        ),
    )
    grey = (
        " Thin grey in the CCDF: the two baseline deployments apart." if ("baseline", "none") in arms else ""
    )
    caption = (
        f"Latency of {names} at a target of {rate} RPS: cumulative distribution and its complement. Thin "
        "lines are single "
        "runs, thick lines the mean of the runs' distributions over "
        f"{formats.plural(data.n_blocks, 'block')}; markers sit "
        "at p50, p90, p99 (and p99.9 where shown). A line turns dotted where the data no longer support "
        f"an estimate.{grey}"
    )
    return FigureFloat(label, panels, caption, DESCRIBE, arms)


def percentiles(data: ReportData, arms: list[tuple[str, str]], rate: int) -> FigureFloat:
    """Return latency against the percentile."""
    histograms_df, cells_df = (
        _select(data.counted(data.histograms_df), arms, rate),
        _select(data.cells_df, arms, rate),
    )
    bars = (
        f"bars are {formats.level(data.study.analysis.confidence)} intervals over blocks"
        if cells_df["low_s"].notna().any()
        else "too few blocks for intervals"
    )
    panel = Panel(
        f"percentiles-{rate}",
        partial(
            plots.percentiles,
            histograms_df,
            cells_df,
            title=f"Percentiles, {rate} RPS",
            synthetic=data.synthetic,
        ),
        lambda: cells_df,
        f"Latency against percentile at {rate} RPS for "
        f"{formats.listing([style.arm_label(*arm) for arm in arms])}; the "
        "same numbers are in the latency table.",
    )
    caption = (
        f"Latency percentiles at a target of {rate} RPS, the tail stretched; points are the table's "
        f"estimates, {bars}."
    )
    return FigureFloat("fig-percentiles", (panel,), caption, DESCRIBE, arms)


def _curve_numbers(histograms_df: pd.DataFrame) -> pd.DataFrame:
    """Return what a distribution figure shows: the mean CDF of each arm at 400 points of its range."""
    frames = []
    for curve in arm_curves(histograms_df):
        mean = curve.mean_cdf
        inside = np.flatnonzero((mean > 0) & (mean < 1))
        chosen = (
            inside[np.unique(np.linspace(0, inside.size - 1, 400).astype(int))] if inside.size else inside
        )
        frames.append(
            pd.DataFrame(
                {
                    "mesh": curve.arm[0],
                    "configuration": curve.arm[1],
                    "latency_s": curve.latency_s[chosen],
                    "cdf": mean[chosen],
                    "ccdf": 1 - mean[chosen],
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def _select(frame: pd.DataFrame, arms: list[tuple[str, str]], rate: int) -> pd.DataFrame:
    """Return the rows of some arms at one target rate."""
    wanted = pd.MultiIndex.from_frame(frame[["mesh", "configuration"]]).isin(arms)
    return frame[wanted & (frame["target_rps"] == rate)]


def _has_runs(data: ReportData, arms: list[tuple[str, str]], rate: int) -> bool:
    """Tell whether more than one of the arms was measured at a rate: a lone curve compares nothing."""
    rows = _select(data.counted(data.histograms_df), arms, rate)
    return len(rows[["mesh", "configuration"]].drop_duplicates()) > 1
