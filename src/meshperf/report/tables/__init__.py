"""The tables of a study: printed text, and the same as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from meshperf.report.floats import LINE_BREAK, TableFloat
from meshperf.report.published import tables as published
from meshperf.report.tables.comparisons import checks, overhead, ranks
from meshperf.report.tables.control import control, gate
from meshperf.report.tables.decisions import decision, features
from meshperf.report.tables.design import configurations, images, parameters, support, versions
from meshperf.report.tables.distances import distances
from meshperf.report.tables.latency import latency
from meshperf.report.tables.plan import detectable
from meshperf.report.tables.resources import cpu_overhead, memory, resources, slopes
from meshperf.report.tables.saturation import knees
from meshperf.report.tables.sensitivity import components, sensitivity
from meshperf.report.tables.steadiness import drift, unsteady
from meshperf.report.tables.validation import validation
from meshperf.report.tables.validity import gates, ledger, omission

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def write_all(data: ReportData, out_dir: str | Path) -> list[Path]:
    """Write every table of the study as ``NAME.csv``, as printed.

    Parameters
    ----------
    data : ReportData
        The study's frames.
    out_dir : path
        Where the files go.
    """
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    written = []
    for table in floats(data):
        path = out_dir / f"{table.stem}.csv"
        table.frame.replace({LINE_BREAK: " "}, regex=True).to_csv(path, index=False)
        written.append(path)
    return written


def floats(data: ReportData) -> list[TableFloat]:
    """Return the tables that the study's data support, in the order of the paper."""
    found = [configurations(data), support(), parameters(data), versions(data), images(data), ledger(data)]
    found += [gates(data), unsteady(data), drift(data), gate(data), control(data), knees(data)]
    found += [omission(data), latency(data, "tbl-latency", data.arms, "every arm")]
    if not data.comparisons_df.empty and data.mesh_arms:
        found += [overhead(data), checks(data), ranks(data), distances(data), decision(data), features(data)]
        found.append(detectable(data))
    if not data.resources_df.empty:
        found += [resources(data, "tbl-resources", data.arms, "every arm"), cpu_overhead(data)]
        found += [slopes(data), memory(data)]
    found += [sensitivity(data), components(data), validation(data)]
    found += published.floats(data)
    return [table for table in found if table is not None and not table.frame.empty]


__all__ = ["features", "floats", "latency", "resources", "write_all"]
