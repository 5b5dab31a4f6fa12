"""CPU and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import LINE_BREAK, RESOURCES, TableFloat
from meshperf.report.tables.parts import Notes, in_order, interval_words, mean_and_range, stacked

if TYPE_CHECKING:
    from meshperf.report.data import ReportData

#: The sum of service and proxies.
DATA_PLANE = "data-plane"
PROXIES = ("sidecar-server", "sidecar-client", "node-proxy")


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
        ("Proxies, µs per request", PROXIES, "cpu_s_per_request", 1e6),
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
    """Return CPU per request on the path of a request (service and proxies), against no mesh."""
    frame = data.cpu_df
    if frame.empty:
        return None
    frame = frame[(frame["role"] == DATA_PLANE) & (frame["mesh"] != "baseline")].assign(quantile=0.0)
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
        "CPU time per request on the path of a request (service and proxies), and its overhead against no "
        "mesh, "
        f"paired by block. {interval_words(data)}{notes.sentence()}"
    )
    return TableFloat(
        "tbl-cpu-overhead", pd.DataFrame(rows, columns=heads), caption, RESOURCES, data.mesh_arms
    )


def slopes(data: ReportData) -> TableFloat | None:
    """Return CPU time per request by the slope of CPU against rate, for each part of an arm."""
    roles = [*(role for role in (*style.ROLES, DATA_PLANE) if role != "control-plane")]
    frame = data.slopes_df
    if frame.empty or frame["slope_s_per_request"].isna().all():
        return None
    frame = frame[frame["role"].isin(roles)]
    arms = style.arm_order(zip(frame["mesh"], frame["configuration"], strict=True))
    notes = Notes(frame)
    rows = [
        [
            style.arm_label(row.mesh, row.configuration),
            _role(row.role),
            stacked(
                row.slope_s_per_request, row.slope_low_s_per_request, row.slope_high_s_per_request, scale=1e6
            )
            + notes.mark(row.warnings),
            stacked(
                row.overhead_s_per_request,
                row.overhead_low_s_per_request,
                row.overhead_high_s_per_request,
                scale=1e6,
                sign=True,
            ),
            stacked(row.idle_cores, row.idle_low_cores, row.idle_high_cores, scale=1e3),
            {"yes": "yes", "no": "**no**"}.get(row.linear, formats.DASH),
            formats.count(row.levels),
            formats.count(row.n_blocks),
        ]
        for row in sorted(
            frame.itertuples(),
            key=lambda row: (arms.index((row.mesh, row.configuration)), roles.index(row.role)),
        )
    ]
    heads = [
        "Solution",
        "part",
        "µs per request",
        "beyond no mesh (µs)",
        "idle (mCPU)",
        "line",
        "rates",
        "blocks",
    ]
    caption = (
        "What one more request costs in CPU time: slope of CPU against the rate reached, a line per block "
        "through the rates "
        f"that were met. {interval_words(data)} Idle: what the line leaves at no load. Line: **no** where a "
        "curvature is "
        "certain, so that the slope is no price of a request and the values at each rate are. A value in "
        "µs per request is "
        f"also one in mCPU at a thousand requests per second.{notes.sentence()}"
    )
    return TableFloat("tbl-cpu-slopes", pd.DataFrame(rows, columns=heads), caption, RESOURCES, arms)


def memory(data: ReportData) -> TableFloat | None:
    """Return the working set on the path of a request, against no mesh, and its growth during a run."""
    frame = data.memory_df
    if frame.empty:
        return None
    plane = frame[frame["role"] == DATA_PLANE].assign(quantile=0.0)
    parts = frame.set_index(["mesh", "configuration", "target_rps", "role"])
    shown = [role for role in ("service", *PROXIES) if role in set(frame["role"])]
    notes = Notes(plane)
    rows = []
    for row in in_order(plane):
        cell = (row.mesh, row.configuration, row.target_rps)
        growth = [_growth(parts, (*cell, role)) for role in shown]
        rows.append(
            [
                style.arm_label(row.mesh, row.configuration),
                str(int(row.target_rps)),
                stacked(row.level_bytes, row.level_low_bytes, row.level_high_bytes, scale=2**-20),
                ""
                if row.mesh == "baseline"
                else stacked(
                    row.overhead_bytes,
                    row.overhead_low_bytes,
                    row.overhead_high_bytes,
                    scale=2**-20,
                    sign=True,
                )
                + notes.mark(row.warnings),
                *growth,
                formats.count(row.n_blocks),
            ]
        )
    heads = ["Solution", "target RPS", "MiB", "beyond no mesh (MiB)"]
    heads += [f"growth, {_role(role)}" for role in shown] + ["blocks"]
    duration = formats.duration(data.study.load.duration_s)
    caption = (
        "Working set of service and proxies together: mean over blocks of the median of a run. "
        f"{interval_words(data)} Growth: KiB per second within the {duration} of a run (Theil–Sen slopes, "
        "mean over runs); "
        f"in bold where its interval lies above zero. A leak that is slow against {duration} does not show."
        f"{notes.sentence()}"
    )
    return TableFloat("tbl-memory", pd.DataFrame(rows, columns=heads), caption, RESOURCES, data.arms)


def _growth(parts: pd.DataFrame, key: tuple[object, ...]) -> str:
    if key not in parts.index:
        return formats.DASH
    row = parts.loc[key]
    names = ("growth_bytes_per_s", "growth_low_bytes_per_s", "growth_high_bytes_per_s")
    text = stacked(*(row[name] for name in names), scale=2**-10)
    return f"**{text.replace(LINE_BREAK, f'**{LINE_BREAK}', 1)}" if row["growing"] == "yes" else text


def _role(role: str) -> str:
    return "all on the path" if role == DATA_PLANE else style.ROLES[role][0]
