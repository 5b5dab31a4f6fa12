"""The figures of a study: which there are, their captions, and their files."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from meshperf.report import formats, plots, style
from meshperf.report.curves import arm_curves
from meshperf.report.data import RUN_IDENTITY
from meshperf.report.floats import CHECK, COMPARE, DESCRIBE, RESOURCES, FigureFloat, Panel

if TYPE_CHECKING:
    from meshperf.report.data import ReportData

MAX_ARMS = 6
"""Arms that one distribution figure can carry and still be read."""


def write_all(data: ReportData, out_dir: str | Path) -> list[Path]:
    """Draw every figure of the study as SVG, with its numbers as CSV beside it.

    Parameters
    ----------
    data : ReportData
        The study's frames.
    out_dir : path
        Where ``NAME.svg`` and ``NAME.csv`` go, and ``figures.json`` with captions and alternative texts.

    Returns
    -------
    list of Path
        The SVG files.
    """
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    written, index = [], {}
    for figure in floats(data):
        for panel in figure.panels:
            path = style.save_svg(panel.draw(), out_dir / f"{panel.stem}.svg")
            panel.numbers().to_csv(out_dir / f"{panel.stem}.csv", index=False, float_format="%.6g")
            index[panel.stem] = {"label": figure.label, "caption": figure.caption, "alt": panel.alt}
            written.append(path)
    (out_dir / "figures.json").write_text(
        json.dumps(index, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return written


def floats(data: ReportData) -> list[FigureFloat]:
    """Return the figures that the study's data support, in the order of the paper."""
    found = [_achieved(data), _run_chart(data)]
    rate = headline_rate(data)
    if not data.histograms_df.empty:
        arms = data.arms if len(data.arms) <= MAX_ARMS else comparison_arms(data, data.configurations[0])
        found += [distribution(data, "fig-distribution", arms, rate), _percentiles(data, arms, rate)]
        found += [figure for _, figure in annex_distributions(data)]
    if not data.comparisons_df.empty and data.mesh_arms:
        found.append(_overhead(data))
    if not data.resources_df.empty:
        found.append(_resources(data))
    return found


def headline_rate(data: ReportData) -> int:
    """Return the rate that the results chapter shows: that of the headline, or the highest where there is none."""
    return data.headline_rate() or data.rates[-1]


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
    return FigureFloat(label, panels, caption, DESCRIBE)


def _percentiles(data: ReportData, arms: list[tuple[str, str]], rate: int) -> FigureFloat:
    histograms_df, cells_df = (
        _select(data.counted(data.histograms_df), arms, rate),
        _select(data.cells_df, arms, rate),
    )
    bars = (
        f"bars are {formats.percent(data.study.analysis.confidence)} intervals over blocks"
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
    return FigureFloat("fig-percentiles", (panel,), caption, DESCRIBE)


def _overhead(data: ReportData) -> FigureFloat:
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
            partial(plots.overhead_forest, comparisons_df, data.counted_runs_df, q, synthetic=data.synthetic),
            partial(lambda q: comparisons_df[np.isclose(comparisons_df["quantile"], q)], q),
            f"Ratio of p{q * 100:g} to no mesh: {described(q)}.",
        )
        for q in quantiles
    )
    bars = (
        f"bars are {formats.percent(data.study.analysis.confidence)} intervals over blocks"
        if typical["ratio_low"].notna().any()
        else "too few blocks for intervals (hollow markers)"
    )
    caption = (
        "Overhead in the typical deployment: ratio of an arm's percentile to that of no mesh in the same "
        "block, averaged on "
        f"the log scale; {bars}. Grey: A/A envelope, the 95th percentile of the distance between the two baseline "
        "deployments of a block; an effect inside it is not told apart from no effect. At the right, the verdict."
    )
    return FigureFloat("fig-overhead", panels, caption, COMPARE)


def _run_chart(data: ReportData) -> FigureFloat:
    panels = tuple(
        Panel(
            f"run-chart-p{q * 100:g}",
            partial(plots.run_chart, data.runs_df, q, synthetic=data.synthetic),
            partial(lambda column: data.runs_df[[*RUN_IDENTITY, "started_utc", column]], plots.quantile_column(q)),
            f"p{q * 100:g} of each of the {len(data.runs_df)} runs against the time it was measured, one "
            "panel per target rate.",
        )
        for q in (0.5, 0.99)
        if plots.quantile_column(q) in data.runs_df
    )  # fmt: skip
    caption = (
        "Every run in the order of measurement; shaded bands are blocks. Drift would show as a slope, an "
        "incident as a jump. "
        "A red cross marks a run that is not ok."
    )
    return FigureFloat("fig-run-chart", panels, caption, CHECK)


def _achieved(data: ReportData) -> FigureFloat:
    runs_df = data.runs_df.assign(rate_ratio=data.rate_ratio)
    panel = Panel(
        "achieved-vs-target",
        partial(
            plots.achieved_vs_target,
            runs_df,
            tuple(data.study.analysis.rate_tiers),
            synthetic=data.synthetic,
        ),
        lambda: runs_df[[*RUN_IDENTITY, "achieved_rps", "rate_ratio", "verdict"]],
        f"Achieved over target rate of every run: between {formats.percent(runs_df['rate_ratio'].min(), 3)} and "
        f"{formats.percent(runs_df['rate_ratio'].max(), 3)}.",
    )
    caption = (
        "Rate reached by every run, relative to the rate asked for, over the time in which the schedule wanted "
        "requests. Below the dashed lines a run is degraded or saturated."
    )
    return FigureFloat("fig-achieved", (panel,), caption, CHECK)


def _resources(data: ReportData) -> FigureFloat:
    def panel(what: str, title: str, alt: str) -> Panel:
        return Panel(
            f"resources-{what}",
            partial(
                plots.resources,
                data.counted(data.resources_df),
                data.counted_runs_df,
                what,
                title=title,
                synthetic=data.synthetic,
            ),
            lambda: data.resources_df,
            alt,
        )

    caption = (
        "What the components use: CPU time per completed request and median working set, mean over runs, stacked. "
        "Dots are the totals of single runs."
    )
    return FigureFloat(
        "fig-resources",
        (
            panel(
                "cpu",
                "CPU per request",
                "Stacked bars of CPU time per request by component, for every arm and rate.",
            ),
            panel(
                "memory", "Memory", "Stacked bars of working-set memory by component, for every arm and rate."
            ),
        ),
        caption,
        RESOURCES,
    )


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
