"""What became of every run: verdicts, gates, and what the load generator could have hidden."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import CHECK, TableFloat
from meshperf.report.tables.parts import cell_runs

if TYPE_CHECKING:
    from meshperf.report.data import ReportData

GATES = {
    "rate_echo": "the rate in the generator's own record is the one asked for",
    "thread_echo": "so are the connections",
    "duration_echo": "so is the duration, and the run is whole",
    "schedule_echo": "the schedule was uniform and did not catch up",
    "return_codes": "share of responses other than 200",
    "proof": "the state of the mesh was proven around the run",
    "restarts": "restarts of containers",
    "achieved_rate": "achieved over target rate",
    "count": "requests recorded against rate times time",
    "throttling": "share of CPU periods in which a container was throttled",
    "client_cpu": "CPU use of the load generator",
    "node_cpu": "CPU use of the node",
    "sockets": "sockets opened against connections asked for",
    "resolution": "width of the histogram's bins at the quantiles",
    "omission": "share of the schedule that was never sent",
}
"""What a validity gate asks, for the gates that this version knows; another one is printed by its name."""


def ledger(data: ReportData) -> TableFloat:
    """Return what became of every planned run: nothing is dropped silently."""
    n_makeup = max(0, data.n_blocks - data.study.blocks)
    attempts = Counter(
        (record.get("key", {}).get("mesh"), record.get("key", {}).get("configuration"))
        for record in data.attempts
    )
    planned_arms = [("baseline", "none")] + [
        (arm.mesh, arm.configuration) for arm in data.study.arms_expanded
    ]
    rows = []
    for arm in style.arm_order([*planned_arms, *data.arms]):
        runs = data.runs_df[(data.runs_df["mesh"] == arm[0]) & (data.runs_df["configuration"] == arm[1])]
        verdicts = Counter(runs["verdict"].astype(str))
        per_block = len(data.study.target_rps) * (2 if arm[0] == "baseline" else 1)
        planned = data.study.blocks * per_block
        rows.append(
            [style.arm_label(*arm), planned, n_makeup * per_block, len(runs)]
            + [verdicts[name] for name in ("ok", "degraded", "saturated", "failed")]
            + [attempts[arm]]
        )
    heads = [
        "Solution",
        "planned",
        "make-up",
        "measured",
        "ok",
        "degraded",
        "saturated",
        "failed",
        "broken attempts",
    ]
    frame = pd.DataFrame(rows, columns=heads)
    total = pd.DataFrame([["all", *frame[heads[1:]].sum()]], columns=heads)
    caption = (
        "Runs planned, repeated and measured, and their verdicts. A broken attempt was ended by the "
        "infrastructure, is kept "
        "with its reason, and was repeated in place."
    )
    return TableFloat("tbl-ledger", pd.concat([frame, total], ignore_index=True).astype(str), caption, CHECK)


def gates(data: ReportData) -> TableFloat | None:
    """Return how often each validity gate passed, warned, failed, or could not be read on this testbed."""
    counts: dict[str, Counter[str]] = {}
    for record in data.records:
        for gate in record.get("quality", {}).get("gates", []):
            counts.setdefault(gate["name"], Counter())[gate["status"]] += 1
    if not counts:
        return None
    statuses = ["pass", "warn", "fail", "not-available"]
    rows = [
        [name.replace("_", " "), GATES.get(name, ""), *(str(counts[name][status]) for status in statuses)]
        for name in counts
    ]
    heads = ["Gate", "What it looks at", "pass", "warn", "fail", "not available"]
    caption = (
        "Validity gates over all runs. "
        "A gate that this testbed cannot read is counted as not available, not as passed."
    )
    return TableFloat("tbl-gates", pd.DataFrame(rows, columns=heads), caption, CHECK)


def omission(data: ReportData) -> TableFloat:
    """Return the bound on coordinated omission: the most that the runs of a cell could have hidden."""
    rows = []
    records = {_identity(record): record.get("omission", {}) for record in data.records}
    for rate in data.rates:
        for arm in data.arms:
            cell = cell_runs(data, arm, rate)
            if cell.empty:
                continue
            hidden = [
                records.get((*arm, rate, int(run.block), int(run.deployment)), {}).get("hidden_requests")
                for run in cell.itertuples()
            ]
            hidden = [value for value in hidden if formats.is_number(value)]
            rows.append(
                [
                    style.arm_label(*arm),
                    str(rate),
                    formats.percent(cell["missing_fraction"].max()),
                    formats.milliseconds(cell["longest_stall_s"].max()),
                    formats.significant(float(cell["connections"].max()) / rate * 1e3),
                    formats.count(max(hidden)) if hidden else formats.DASH,
                ]
            )
    heads = [
        "Solution",
        "target RPS",
        "never sent",
        "longest stall (ms)",
        "stall covered (ms)",
        "hidden requests",
    ]
    caption = (
        "Bound on coordinated omission, the worst run of each cell. Never sent: share of the schedule "
        "that was not sent. A "
        "stall of all connections shorter than the stall covered (connections over rate) delays no "
        "request of the schedule; "
        "hidden requests are those that a longer one can have kept back."
    )
    return TableFloat("tbl-omission", pd.DataFrame(rows, columns=heads), caption, CHECK)


def _identity(record: dict[str, Any]) -> tuple[Any, ...]:
    key = record.get("key", {})
    return tuple(key.get(name) for name in ("mesh", "configuration", "target_rps", "block", "deployment"))
