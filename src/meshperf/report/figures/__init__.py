"""The figures of a study: which there are, their captions, and their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from meshperf.report import style
from meshperf.report.figures.comparisons import control, overhead, shift
from meshperf.report.figures.distributions import (
    annex_distributions,
    comparison_arms,
    distribution,
    feature_arms,
    percentiles,
)
from meshperf.report.figures.resources import cost, cpu, resources
from meshperf.report.figures.runs import achieved, run_chart, time_course
from meshperf.report.figures.saturation import throughput
from meshperf.report.figures.validation import validation
from meshperf.report.floats import FigureFloat
from meshperf.report.published import figures as published

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
    found = [control(data), achieved(data), run_chart(data), time_course(data), throughput(data)]
    if not data.histograms_df.empty:
        arms = data.arms if len(data.arms) <= MAX_ARMS else comparison_arms(data, data.configurations[0])
        found += [distribution(data, "fig-distribution", arms, data.shown_rate)]
        found += [percentiles(data, arms, data.shown_rate)]
        found += [figure for _, figure in annex_distributions(data)]
    if not data.comparisons_df.empty and data.mesh_arms:
        found += [overhead(data), shift(data)]
    if not data.resources_df.empty:
        found += [resources(data), cpu(data), cost(data)]
    found.append(validation(data))
    found += published.floats(data)
    return [figure for figure in found if figure is not None]


__all__ = ["annex_distributions", "comparison_arms", "feature_arms", "floats", "write_all"]
