"""CPU and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import RESOURCES, TableFloat
from meshperf.report.tables.parts import Notes, in_order, interval_words, mean_and_range, stacked

if TYPE_CHECKING:
    from meshperf.report.data import ReportData

PROXIES = ("sidecar-server", "sidecar-client")


def resources(data: ReportData, label: str, arms: list[tuple[str, str]], whose: str) -> TableFloat:
    """Return the resource table of some arms in the layout of the thesis annex, completed by CPU per request.

    Parameters
    ----------
    label : str
        Identifier of the float.
    arms : list of (mesh, configuration)
        Which arms.
    whose : str
        What the caption says of them.
    """
    columns: list[tuple[str, tuple[str, ...], str, float]] = [
        ("Service RAM", ("service",), "working_set_median_bytes", 2**-20),
        ("Sidecar RAM", ("sidecar-server",), "working_set_median_bytes", 2**-20),
        ("Service CPU", ("service",), "cores", 1e3),
        ("Sidecar CPU", ("sidecar-server",), "cores", 1e3),
        ("Client sidecar RAM", ("sidecar-client",), "working_set_median_bytes", 2**-20),
        ("Client sidecar CPU", ("sidecar-client",), "cores", 1e3),
        ("Both sidecars, µs per request", PROXIES, "cpu_s_per_request", 1e6),
    ]
    rows = []
    for rate in data.rates:
        for arm in arms:
            frame = data.counted(data.resources_df)
            frame = frame[
                (frame["mesh"] == arm[0]) & (frame["configuration"] == arm[1]) & (frame["target_rps"] == rate)
            ]
            if frame.empty:
                continue
            row = [style.arm_label(*arm), str(rate)]
            for _, roles, column, factor in columns:
                mine = frame[frame["role"].isin(roles)]
                row.append(
                    mean_and_range(mine.groupby(["block", "deployment"])[column].sum(min_count=1) * factor)
                )
            rows.append(row)
    frame = pd.DataFrame(rows, columns=["Solution", "target RPS", *(head for head, *_ in columns)])
    frame = frame.loc[:, [name for name in frame.columns if not (frame[name] == formats.DASH).all()]]
    caption = (
        f"RAM and CPU of {whose}. RAM: median working set in MiB; CPU: in mCPU; over the window of each "
        "run. Mean over runs, "
        "below it the smallest and the largest run."
    )
    return TableFloat(label, frame, caption, RESOURCES, arms)


def cpu_overhead(data: ReportData) -> TableFloat | None:
    """Return CPU per request on the path of a request (service and sidecars), against no mesh."""
    frame = data.resource_comparisons_df
    if frame.empty:
        return None
    frame = frame[(frame["role"] == "data-plane") & (frame["mesh"] != "baseline")].assign(quantile=0.0)
    notes = Notes(frame)
    rows = [
        [
            style.arm_label(row.mesh, row.configuration),
            str(int(row.target_rps)),
            stacked(row.cpu_s_per_request, row.cpu_low_s_per_request, row.cpu_high_s_per_request, scale=1e6),
            stacked(
                row.overhead_s_per_request,
                row.difference_low_s_per_request,
                row.difference_high_s_per_request,
                scale=1e6,
                sign=True,
            ),
            stacked(row.overhead_ratio, row.ratio_low, row.ratio_high) + notes.mark(row.warnings),
            formats.count(row.n_blocks),
        ]
        for row in in_order(frame)
    ]
    heads = ["Solution", "target RPS", "µs per request", "difference (µs)", "ratio", "blocks"]
    caption = (
        "CPU time per request on the path of a request (service and both sidecars), and its overhead "
        "against no mesh, "
        f"paired by block. {interval_words(data)}{notes.sentence()}"
    )
    return TableFloat(
        "tbl-cpu-overhead", pd.DataFrame(rows, columns=heads), caption, RESOURCES, data.mesh_arms
    )
