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

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def measured(data: ReportData) -> dict[str, bool]:
    """Return the conditions of the paper: what this study has, so that the rest is left out and not printed empty."""
    verdicts = data.runs_df["verdict"].astype(str)
    typical = _typical(data)
    return {
        "comparisons": data.headline_rate() is not None,
        "overhead": len(typical) > 0,
        "intervals": bool(typical["ratio_low"].notna().any()) if len(typical) else False,
        "claims": data.n_blocks >= 6,
        "distributions": not data.histograms_df.empty,
        "resources": not data.resources_df.empty,
        "cpu_overhead": bool((data.resource_comparisons_df["mesh"] != "baseline").any())
        if len(data.resource_comparisons_df)
        else False,
        "control": bool(data.comparisons_df.query("mesh == 'baseline'")["overhead_ratio"].notna().any())
        if len(data.comparisons_df)
        else False,
        "control_intervals": bool(data.comparisons_df.query("mesh == 'baseline'")["ratio_low"].notna().any())
        if len(data.comparisons_df)
        else False,
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
            "warmup": formats.duration(study.load.warmup_s),
            "connections": formats.count(study.load.connections),
            "confidence": formats.percent(study.analysis.confidence),
            "degraded_below": f"{study.analysis.rate_tiers[1]:g}",
            "saturated_below": f"{study.analysis.rate_tiers[0]:g}",
            "max_errors": formats.percent(study.analysis.max_error_ratio),
            "placement": study.workload.placement.replace("-", " "),
            "seed": str(study.seed),
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
    if measured(data)["control"]:
        values["control"] = _control(data)
    return values


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


def headline(data: ReportData) -> str:
    """Return the answer as a Markdown list: one sentence per arm, with intervals and verdicts where there are any.

    It is generated, and not written into the paper, because the arms are the study's.
    """
    rate = data.headline_rate()
    if rate is None:
        return ""
    sentences = []
    for mesh, configuration in data.mesh_arms:
        parts = [part for q in (0.5, 0.99) if (part := _overhead_words(data, mesh, configuration, rate, q))]
        if parts:
            sentences.append(f"- **{style.arm_label(mesh, configuration)}:** {'; '.join(parts)}.")
    return "\n".join(sentences) + "\n"


def _overhead_words(data: ReportData, mesh: str, configuration: str, rate: int, quantile: float) -> str:
    frame = _typical(data)
    frame = frame[
        (frame["mesh"] == mesh)
        & (frame["configuration"] == configuration)
        & (frame["target_rps"] == rate)
        & ((frame["quantile"] - quantile).abs() < 1e-9)
    ]
    if frame.empty:
        return ""
    row = frame.iloc[0]
    name = "the median" if quantile == 0.5 else f"the {quantile * 100:g}th percentile"
    if not formats.is_number(row["overhead_ratio"]):
        return f"{name}: {row['verdict']}"
    ratio = formats.with_interval(row["overhead_ratio"], row["ratio_low"], row["ratio_high"])
    difference = formats.with_interval(
        row["overhead_s"], row["difference_low_s"], row["difference_high_s"], scale=1e3, sign=True
    )
    return f"{name} is {ratio} times that of no mesh ({difference} ms; {row['verdict']})"


def _typical(data: ReportData) -> pd.DataFrame:
    frame = data.comparisons_df
    return frame[(frame["mesh"] != "baseline") & (frame["estimand"] == "typical")] if len(frame) else frame


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
    """Return the range over arms of what both sidecars of a request cost."""
    counted = data.counted(data.resources_df)
    proxies = counted[counted["role"].isin(["sidecar-server", "sidecar-client"])]
    if proxies.empty:
        return {"proxies": "no sidecar was measured"}
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


def _control(data: ReportData) -> dict[str, str]:
    """Return how often the A/A control raised a false alarm, and its largest ratio."""
    frame = data.comparisons_df
    frame = frame[
        (frame["mesh"] == "baseline") & (frame["estimand"] == "typical") & frame["overhead_ratio"].notna()
    ]
    with_interval = frame[frame["ratio_low"].notna()]
    alarms = int(((with_interval["ratio_low"] > 1) | (with_interval["ratio_high"] < 1)).sum())
    distance = frame["overhead_ratio"].where(frame["overhead_ratio"] >= 1, 1 / frame["overhead_ratio"]).max()
    return {
        "comparisons": formats.count(len(frame)),
        "alarms": f"{alarms} of {len(with_interval)}" if len(with_interval) else "none (no intervals)",
        "expected_alarms": formats.significant(len(with_interval) * (1 - data.study.analysis.confidence), 2),
        "largest_ratio": formats.significant(distance),
    }
