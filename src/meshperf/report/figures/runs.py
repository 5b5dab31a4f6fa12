"""Every run: in the order of measurement, and against the rate it was asked for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from meshperf.report import formats, plots
from meshperf.report.data import RUN_IDENTITY
from meshperf.report.floats import CHECK, FigureFloat, Panel

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def run_chart(data: ReportData) -> FigureFloat:
    """Return every run in the order of measurement."""
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
        "A red cross marks a run that is not ok, a red ring one that was not steady."
    )
    return FigureFloat("fig-run-chart", panels, caption, CHECK)


def achieved(data: ReportData) -> FigureFloat:
    """Return the rate that every run reached."""
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
        f"Achieved over target rate of every run: between {formats.percent(runs_df['rate_ratio'].min(), 3)} "
        "and "
        f"{formats.percent(runs_df['rate_ratio'].max(), 3)}.",
    )
    caption = (
        "Rate reached by every run, relative to the rate asked for, over the time in which the schedule "
        "wanted "
        "requests. Below the dashed lines a run is degraded or saturated."
    )
    return FigureFloat("fig-achieved", (panel,), caption, CHECK)


def time_course(data: ReportData) -> FigureFloat | None:
    """Return the course of latency within runs, at the rate that the results show; None where slices are too few."""
    rate = data.shown_rate
    if data.slices_df.empty or set(data.runs_df["steadiness"]) == {"unknown"}:
        return None
    slices_df = data.slices_df[data.slices_df["target_rps"] == rate]
    n_unsteady = int((data.runs_df["steadiness"] == "not steady").sum())
    panel = Panel(
        f"time-course-{rate}",
        partial(
            plots.time_course,
            slices_df,
            data.runs_df,
            title=f"Time course, {rate} RPS",
            synthetic=data.synthetic,
        ),
        lambda: slices_df,
        f"Median of every slice to the median of its run at {rate} RPS; {n_unsteady} of all "
        f"{len(data.runs_df)} runs were not steady.",
    )
    caption = (
        f"Course of latency within runs at a target of {rate} RPS: the median of each slice of "
        f"{formats.duration(data.study.load.slice_s)} to that of its run. Thin lines are runs, red ones "
        "those that were "
        "not steady, the thick line is their mean."
    )
    return FigureFloat("fig-time-course", (panel,), caption, CHECK, data.arms)
