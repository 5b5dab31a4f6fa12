"""The annex: chapters in the structure of the thesis annex, made from what the study measured.

First the meshes against each other, per configuration: the CDF and CCDF pair of every rate, the latency table, the
resource table. Then, for each mesh measured in more than one configuration, what its features cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshperf.report import figures, style, tables

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def chapters(data: ReportData) -> dict[str, str]:
    """Return the annex as file name -> Markdown, in order; empty where nothing was compared."""
    if not data.mesh_arms:
        return {}
    drawn = [] if data.histograms_df.empty else figures.annex_distributions(data)
    pairs: dict[tuple[str, str], list[str]] = {}
    for group, figure in drawn:
        pairs.setdefault(group, []).append(figure.markdown(data))
    found = {"annex-performance.qmd": _performance(data, pairs)}
    for mesh in dict.fromkeys(mesh for mesh, _ in data.mesh_arms):
        if figures.feature_arms(data, mesh):
            found[f"annex-{mesh}.qmd"] = _features(data, mesh, pairs)
    return found


def _performance(data: ReportData, pairs: dict[tuple[str, str], list[str]]) -> str:
    parts = ["# Performance evaluation {#sec-annex-performance}\n"]
    for configuration in data.configurations:
        arms = figures.comparison_arms(data, configuration)
        label = style.configuration_label(configuration)
        parts += [
            f"## Comparison with the configuration {label} {{#sec-annex-{configuration}}}\n",
            f"In this configuration: {style.configuration_meaning(configuration) or label}.\n",
            *_graphics(pairs.get(("configuration", configuration)), "###"),
            "### Latencies table\n",
            tables.latency(
                data, f"tbl-latency-{configuration}", arms, f"configuration {label} and no mesh"
            ).markdown(data),
        ]
        resources = _resources(
            data, f"tbl-resources-{configuration}", arms, f"configuration {label} and no mesh"
        )
        parts += ["### Resource consumption table\n", resources] if resources else []
    return "\n".join(parts)


def _features(data: ReportData, mesh: str, pairs: dict[tuple[str, str], list[str]]) -> str:
    arms, name = figures.feature_arms(data, mesh), style.mesh_label(mesh)
    parts = [
        f"# {name}: feature impact on performance {{#sec-annex-{mesh}}}\n",
        *_graphics(pairs.get(("mesh", mesh)), "##"),
        "## Latencies table\n",
        tables.latency(data, f"tbl-latency-{mesh}", arms, f"{name} in different configurations").markdown(
            data
        ),
    ]
    resources = _resources(data, f"tbl-resources-{mesh}", arms, f"{name} in different configurations")
    parts += ["## Resource consumption table\n", resources] if resources else []
    cost = tables.features(data, f"tbl-features-{mesh}", mesh)
    parts += ["## Cost of single features\n", cost.markdown(data)] if cost else []
    return "\n".join(parts)


def _graphics(pairs: list[str] | None, level: str) -> list[str]:
    """Return the section of CDF and CCDF pairs of one comparison, or nothing where there are none."""
    return [f"{level} Graphics\n", *pairs] if pairs else []


def _resources(data: ReportData, label: str, arms: list[tuple[str, str]], whose: str) -> str:
    if data.resources_df.empty:
        return ""
    table = tables.resources(data, label, arms, whose)
    return "" if table.frame.empty else table.markdown(data)
