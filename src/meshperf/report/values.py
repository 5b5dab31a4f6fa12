"""Numbers in prose: every variable of the paper, formatted with its unit and its digits, in one YAML file.

The paper's text holds ``{{< var name >}}`` and no number of its own. :func:`collect` is the only place where those
numbers come from; a variable that the study does not support is absent, and text that needs it is left out by the
conditions of :func:`measured`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import yaml

from meshperf.report import formats, style
from meshperf.report.published import values as published_values
from meshperf.report.sentences import typical_overheads
from meshperf.report.tables.resources import PROXIES

if TYPE_CHECKING:
    from meshperf.report.data import ReportData
    from meshperf.study import Study


def measured(data: ReportData) -> dict[str, bool]:
    """Return the conditions of the paper: what this study has, so that the rest is left out and not printed empty.

    Besides these, the label of a figure or table is a condition of its own: whether the study has it.
    """
    verdicts = data.runs_df["verdict"].astype(str)
    typical = typical_overheads(data)
    return {
        "comparisons": data.headline_rate() is not None,
        "overhead": len(typical) > 0,
        "intervals": bool(typical["ratio_low"].notna().any()) if len(typical) else False,
        "claims": data.n_blocks >= 6,
        "distributions": not data.histograms_df.empty,
        "resources": not data.resources_df.empty,
        "bent": len(data.slopes_df) > 0
        and bool((data.slopes_df.query("role == 'data-plane'")["linear"] == "no").any()),
        "steadiness": bool((data.runs_df["steadiness"] != "unknown").any()),
        "control": not data.control_df.empty,
        "gate": "passed" in data.gate_df and bool(data.gate_df["tests"].max() > 0),
        "gate_passed": _gate(data) == "yes",
        "gate_failed": _gate(data) == "no",
        "gate_unknown": _gate(data) == "unknown",
        "decisions": not data.decisions_df.empty,
        "features": not data.features_df.empty,
        "plan": not data.plan_df.empty,
        "distances": bool(data.distances_df.query("mesh != 'baseline'")["ks_d"].notna().any())
        if len(data.distances_df)
        else False,
        "plan_changed": bool(data.changed_plan),
        "records": bool(data.records),
        "gates": any(record.get("quality", {}).get("gates") for record in data.records),
        "images": any(record.get("images") for record in data.records),
        "attempts": bool(data.attempts),
        "imperfect": bool((verdicts != "ok").any()),
        "sealed": data.sealed,
        "synthetic": data.synthetic,
        "limits": any(
            getattr(getattr(data.study.workload, side), kind) is not None
            for side in ("server_limits", "client_limits")
            for kind in ("cpu", "memory")
        ),
        **published_values.measured(data),
    }


def collect(data: ReportData) -> dict[str, Any]:
    """Return all variables of the paper as a nested mapping of printed text."""
    study, runs = data.study, data.runs_df
    started = pd.to_datetime(runs["started_utc"], utc=True, format="mixed")
    n_ok = int((runs["verdict"] == "ok").sum())
    values: dict[str, Any] = {
        "study": {
            "name": study.study,
            "title": study.title,
            "arms": formats.listing([style.arm_label(*arm) for arm in data.mesh_arms]),
            "rates": formats.listing([str(rate) for rate in data.rates]),
            "blocks": formats.plural(data.n_blocks, "block"),
            "deployments": formats.count(len(list(study.arms_expanded)) + 2),
            "duration": formats.duration(study.load.duration_s),
            "slice": formats.duration(study.load.slice_s),
            "warmup": formats.duration(study.load.warmup_s),
            "connections": formats.count(study.load.connections),
            "confidence": formats.level(study.analysis.confidence),
            "degraded_below": f"{study.analysis.rate_tiers[1]:g}",
            "saturated_below": f"{study.analysis.rate_tiers[0]:g}",
            "max_errors": formats.percent(study.analysis.max_error_ratio),
            "placement": study.workload.placement.replace("-", " "),
            "seed": str(study.seed),
        },
        "families": {
            "quantiles": formats.listing([f"p{q * 100:g}" for q in _claimed(study)]),
            "rates": _claimed_rates(study),
            "alpha": formats.level(study.analysis.alpha),
            "false_discovery_rate": formats.level(study.analysis.families.false_discovery_rate),
        },
        "campaign": {
            "id": data.campaign,
            "data_hash": data.data_hash,
            "started": f"{started.min():%-d %B %Y, %H:%M} UTC",
            "ended": f"{started.max():%-d %B %Y, %H:%M} UTC",
            "day": f"{started.min():%-d %B %Y}",
            "runs": formats.plural(len(runs), "run"),
            "ok": formats.count(n_ok),
            "not_ok": formats.plural(len(runs) - n_ok, "run"),
            "attempts": formats.plural(len(data.attempts), "attempt"),
            "requests": formats.count(runs["n_requests"].sum()),
            "steady": formats.count((runs["steadiness"] == "steady").sum()),
            "unsteady": formats.plural(int((runs["steadiness"] == "not steady").sum()), "run"),
            "steadiness_unknown": formats.plural(int((runs["steadiness"] == "unknown").sum()), "run"),
            "worst_missing": formats.percent(runs["missing_fraction"].max()),
            "longest_stall": f"{formats.milliseconds(runs['longest_stall_s'].max())} ms",
            "span": formats.duration(
                (started.max() - started.min()).total_seconds() + float(study.load.duration_s)
            ),
        },
    }
    if data.records:
        values["testbed"] = _testbed(data)
        values["provenance"] = _provenance(data)
    if (rate := data.headline_rate()) is not None:
        values["headline"] = {"target_rps": f"{rate}", "baseline_p50": _baseline(data, rate, 0.5)}
    if not data.resources_df.empty:
        values["resources"] = _resources(data)
    if not data.knees_df.empty:
        values["saturation"] = _saturation(data)
    has = measured(data)
    if has["control"]:
        values["control"] = _control(data)
    if has["gate"]:
        values["gate"] = _gate_values(data)
    if has["intervals"]:
        values["overhead"] = _counts(data)
    if has["distances"]:
        values["distances"] = _distances(data)
    if read := published_values.values(data):
        values["published"] = read
    return values


def _claimed(study: Study) -> list[float]:
    return [q for q in study.analysis.families.quantiles if q in study.quantiles]


def _claimed_rates(study: Study) -> str:
    rates = study.analysis.families.target_rps
    return f"{formats.listing([str(rate) for rate in rates])} RPS" if rates else "every rate"


def write(data: ReportData, path: str | Path) -> dict[str, Any]:
    """Write the variables as YAML and return them.

    Parameters
    ----------
    data : ReportData
        The study's frames.
    path : path
        The file, which the paper reads as ``_variables.yml``.
    """
    path = Path(path)
    values = collect(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(values, allow_unicode=True, sort_keys=False, width=1000), encoding="utf-8")
    return values


def _baseline(data: ReportData, rate: int, quantile: float) -> str:
    cells = data.cells_df
    cell = cells[
        (cells["mesh"] == "baseline") & (cells["target_rps"] == rate) & (cells["quantile"] == quantile)
    ]
    if cell.empty:
        return formats.NOT_ESTIMABLE
    row = cell.iloc[0]
    return f"{formats.with_interval(row['estimate_s'], row['low_s'], row['high_s'], scale=1e3)} ms"


def _testbed(data: ReportData) -> dict[str, str]:
    node = data.records[0].get("node", {})
    kinds = {
        "embedded": "a single-node Kubernetes cluster that this project builds and starts itself",
        "kind": "a local cluster made with kind",
        "context": "a cluster named by its kubeconfig context",
    }
    kind = str(data.records[0].get("testbed", {}).get("kind", data.study.testbed.kind))
    names = dict.fromkeys(str(record.get("node", {}).get("name", "")) for record in data.records)
    return {
        "description": kinds.get(kind, f"a cluster of kind {kind}"),
        "nodes": formats.plural(len(names), "node"),
        "cpus": formats.count(node.get("cpu_count")),
        "memory": f"{formats.significant(float(node.get('memory_bytes') or 0) / 2**30)} GiB",
        "kubernetes": str(data.records[0].get("versions", {}).get("kubernetes", "unknown")),
    }


def _provenance(data: ReportData) -> dict[str, str]:
    commits = dict.fromkeys(
        str(record.get("meshperf", {}).get("commit") or "unknown")[:12]
        + (" (with uncommitted changes)" if record.get("meshperf", {}).get("dirty") else "")
        for record in data.records
    )
    timings = pd.DataFrame([record.get("timing", {}) for record in data.records])
    outside = (
        timings["total_s"] - timings["load_s"] - timings["warmup_s"]
        if "total_s" in timings
        else pd.Series(dtype=float)
    )
    versions = dict.fromkeys(
        str(record.get("meshperf", {}).get("version", "unknown")) for record in data.records
    )
    return {
        "version": formats.listing(list(versions)),
        "commit": formats.listing(list(commits)),
        "study_hash": str(data.design.get("study_sha256", "unknown"))[:12],
        "plan_hash": str(data.design.get("analysis_plan_sha256", "unknown"))[:12],
        "time_outside_load": f"{formats.significant(outside.median(), 2)} s",
        "time_total": formats.duration(timings["total_s"].sum() if "total_s" in timings else float("nan")),
        "time_course": formats.listing(
            list(
                dict.fromkeys(
                    str(r.get("slices", {}).get("method", "unknown")).replace("-", " ") for r in data.records
                )
            )
        ),
    }


def _resources(data: ReportData) -> dict[str, str]:
    """Return the range over arms and rates of what the proxies of a request cost."""
    counted = data.counted(data.resources_df)
    proxies = counted[counted["role"].isin(PROXIES)]
    if proxies.empty:
        return {"proxies": "no proxy was measured"}
    by_run = proxies.groupby(["mesh", "configuration", "target_rps", "block", "deployment"])
    cells = (
        by_run[["cpu_s_per_request", "working_set_median_bytes"]]
        .sum()
        .groupby(["mesh", "configuration", "target_rps"])
    )
    mean = cells.mean()
    cpu, memory = mean["cpu_s_per_request"] * 1e6, mean["working_set_median_bytes"] / 2**20
    return {
        "proxies": (
            f"{formats.span(cpu.min(), cpu.max())} µs of CPU per request and "
            f"{formats.span(memory.min(), memory.max())} MiB of memory"
        )
    }


def _saturation(data: ReportData) -> dict[str, str]:
    """Return how many arms work at every rate that was tested, and how many cells missed theirs."""
    states = data.cells_df.drop_duplicates(["mesh", "configuration", "target_rps"])["verdict"]
    known = data.knees_df[data.knees_df["knee_rps"].notna()]
    return {
        "arms": formats.count(len(data.knees_df)),
        "unbroken": formats.count((known["at_limit"] == "yes").sum()),
        "cells": formats.count(len(states)),
        "missed": formats.count((states != "ok").sum()),
        "knee_ratio": f"{data.study.analysis.knee_ratio:g}",
    }


def _control(data: ReportData) -> dict[str, str]:
    """Return the largest difference between the baselines, and the largest noise."""
    frame = data.control_df
    distance = frame["ratio"].where(frame["ratio"] >= 1, 1 / frame["ratio"]).max()
    return {
        "comparisons": formats.count(len(frame)),
        "largest_ratio": formats.significant(distance),
        "largest_noise": formats.significant(frame["noise_ratio"].max()),
        "smallest_noise": formats.significant(frame["noise_ratio"].min()),
    }


def _gate(data: ReportData) -> str:
    """Return what the gate says: "yes", "no", "unknown", or nothing without one."""
    return str(data.gate_df["passed"].iloc[0]) if len(data.gate_df) else ""


def _gate_values(data: ReportData) -> dict[str, str]:
    """Return how often the A/A control raised a false alarm, and whether it does so by chance."""
    row = data.gate_df.iloc[0]
    return {
        "alarms": f"{int(row['rejected'])} of {int(row['tests'])}",
        "expected": formats.significant(row["tests"] * row["alpha"], 2),
        "p": formats.p_value(row["p_value"]),
        "p_min": formats.p_value(row["p_min"]),
        "alpha": formats.level(row["alpha"]),
    }


def _counts(data: ReportData) -> dict[str, str]:
    """Return how many intervals exclude one, and how many would by chance."""
    frame = typical_overheads(data)
    frame = frame[frame["ratio_low"].notna()]
    excluding = int(((frame["ratio_low"] > 1) | (frame["ratio_high"] < 1)).sum())
    claims = int(frame["verdict"].isin(["slower", "faster"]).sum())
    return {
        "intervals": formats.count(len(frame)),
        "excluding_one": formats.count(excluding),
        "expected": formats.significant(len(frame) * (1 - data.study.analysis.confidence), 2),
        "claims": formats.count(claims),
    }


def _distances(data: ReportData) -> dict[str, str]:
    """Return what the tests on whole distributions found, and what they can find."""
    frame = data.distances_df
    arms = frame[(frame["mesh"] != "baseline") & frame["ks_d"].notna()]
    return {
        "p_min": formats.p_value(arms["p_min"].max()),
        "relabellings": formats.count(arms["n_relabellings"].max()),
        "different": formats.count((arms["verdict"] == "different").sum()),
        "compared": formats.count(len(arms)),
    }
