"""CPU and memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from meshperf.analysis.resources import DATA_PLANE_ROLES
from meshperf.report import formats, plots, style
from meshperf.report.data import RUN_IDENTITY
from meshperf.report.floats import RESOURCES, FigureFloat, Panel

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def resources(data: ReportData) -> FigureFloat:
    """Return what the components use."""

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
        "What the components use: CPU time per completed request and median working set, mean over runs, "
        "stacked. "
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
        data.arms,
    )


def cpu(data: ReportData) -> FigureFloat | None:
    """Return CPU on the path of a request against the rate, with a line per arm."""
    slopes_df = data.slopes_df[data.slopes_df["role"] == "data-plane"]
    if slopes_df.empty or slopes_df["slope_s_per_request"].isna().all():
        return None
    plane = data.counted(data.resources_df)
    plane = plane[plane["role"].isin(DATA_PLANE_ROLES)]
    cores_df = plane.groupby(RUN_IDENTITY)["cores"].sum().reset_index()
    cores_df = cores_df.merge(data.runs_df[[*RUN_IDENTITY, "achieved_rps"]], on=RUN_IDENTITY)
    known = slopes_df[slopes_df["slope_s_per_request"].notna()]
    described = "; ".join(
        f"{style.arm_label(row.mesh, row.configuration)} "
        f"{formats.significant(row.slope_s_per_request * 1e6)} µs"
        for row in known.itertuples()
    )
    panel = Panel(
        "cpu-against-rate",
        partial(plots.cpu_against_rate, cores_df, slopes_df, synthetic=data.synthetic),
        lambda: cores_df,
        f"CPU of service and proxies against the achieved rate. CPU per further request: {described}.",
    )
    caption = (
        "CPU of service and proxies together against the rate that was reached. Dots are runs, thin lines "
        "deployments, "
        "thick ones the mean line of an arm: its slope is what one more request costs."
    )
    return FigureFloat("fig-cpu", (panel,), caption, RESOURCES, data.arms)


def cost(data: ReportData) -> FigureFloat | None:
    """Return what each arm costs in CPU against what it costs in latency, at the rate that the results show."""
    rate, identity = data.shown_rate, ["mesh", "configuration", "target_rps"]
    if data.cpu_df.empty or data.comparisons_df.empty:
        return None
    latency = data.comparisons_df[
        (data.comparisons_df["estimand"] == "typical") & np.isclose(data.comparisons_df["quantile"], 0.99)
    ]
    cpu_df = data.cpu_df[data.cpu_df["role"] == "data-plane"]
    costs_df = cpu_df.merge(latency, on=identity, suffixes=("_cpu", ""))
    costs_df = costs_df[(costs_df["target_rps"] == rate) & (costs_df["mesh"] != "baseline")]
    costs_df = costs_df[costs_df["overhead_s"].notna() & costs_df["overhead_s_per_request"].notna()]
    if len(costs_df) < 2:
        return None
    described = "; ".join(
        f"{style.arm_label(row.mesh, row.configuration)} "
        f"{formats.significant(row.overhead_s_per_request * 1e6)} µs and "
        f"{formats.milliseconds(row.overhead_s)} ms"
        for row in costs_df.itertuples()
    )
    panel = Panel(
        f"cost-{rate}",
        partial(
            plots.cost_plane, costs_df, title=f"CPU against latency, {rate} RPS", synthetic=data.synthetic
        ),
        lambda: costs_df,
        f"CPU per request and p99 beyond no mesh at {rate} RPS: {described}.",
    )
    caption = (
        f"What each arm costs at {rate} RPS: CPU time per request and p99, both beyond no mesh, with "
        f"{formats.level(data.study.analysis.confidence)} intervals over blocks. Nearer to the origin is "
        "better."
    )
    return FigureFloat("fig-cost", (panel,), caption, RESOURCES, data.mesh_arms)
