"""CPU and memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from meshperf.report import plots
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
