"""What was planned, and what ran: configurations, parameters, versions, images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import CHECK, DESCRIBE, TableFloat
from meshperf.report.support import support_table

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def configurations(data: ReportData) -> TableFloat:
    """Return what each measured configuration is."""
    names = list(dict.fromkeys(configuration for _, configuration in data.arms))
    frame = pd.DataFrame(
        {
            "Configuration": [
                style.configuration_label(name) or style.mesh_label("baseline") for name in names
            ],
            "What it is": [style.configuration_meaning(name) for name in names],
            "Meshes": [
                formats.listing([style.mesh_label(m) for m, c in data.arms if c == name and m != "baseline"])
                or "–"
                for name in names
            ],
        }
    )
    return TableFloat("tbl-configurations", frame, "What each configuration is.", DESCRIBE)


def support() -> TableFloat:
    """Return which mesh supports which configuration, and where it was run."""
    frame = support_table().replace("`", "", regex=True)
    caption = "What meshperf can measure: systems, configurations, and where each was run."
    return TableFloat("tbl-support", frame, caption, notebook="", origin="the table in `meshperf.meshes`")


def parameters(data: ReportData) -> TableFloat:
    """Return the design and the parameters of load and analysis."""
    study, load, analysis = data.study, data.study.load, data.study.analysis
    limits = {name: getattr(study.workload, f"{name}_limits") for name in ("server", "client")}

    def limit(which: str) -> str:
        parts = [
            f"{kind} {value}"
            for kind in ("cpu", "memory")
            if (value := getattr(limits[which], kind)) is not None
        ]
        return ", ".join(parts) or "none"

    rows = [
        (
            "Blocks",
            f"{study.blocks} planned, {data.n_blocks} measured, at most {study.makeup_blocks} make-up",
        ),
        ("Deployments per block", f"{len(list(study.arms_expanded)) + 2}, two of them without a mesh"),
        ("Target rates", f"{formats.listing([str(rate) for rate in study.target_rps])} RPS"),
        (
            "Load per run",
            f"{formats.duration(load.duration_s)} after {formats.duration(load.warmup_s)} of warm-up",
        ),
        ("Connections", formats.count(load.connections)),
        ("Pacing", "uniform, no catching up after a stall"),
        ("Histogram resolution", f"{formats.significant(load.resolution_s * 1e6)} µs"),
        ("Payload", f"{formats.count(load.payload_bytes)} bytes"),
        ("Placement", study.workload.placement.replace("-", " ")),
        ("Limits of the service", limit("server")),
        ("Limits of the client", limit("client")),
        ("Level of intervals", formats.level(analysis.confidence)),
        (
            "Saturated, degraded below",
            " and ".join(f"{tier:g}" for tier in analysis.rate_tiers) + " of the target rate",
        ),
        ("Failed above", f"{formats.percent(analysis.max_error_ratio)} errors"),
        (
            "Not estimable, † below",
            " and ".join(f"{m:g}" for m in analysis.estimable) + " effective requests in the tail",
        ),
        ("Seed of the schedule", str(study.seed)),
    ]
    caption = "Design, load and analysis: fixed before anything was measured."
    return TableFloat("tbl-parameters", pd.DataFrame(rows, columns=["Parameter", "Value"]), caption, CHECK)


def versions(data: ReportData) -> TableFloat:
    """Return the versions that ran, and the nodes they ran on; more than one value is a finding, and shown."""
    names = {
        "kubernetes": "Kubernetes",
        "containerd": "containerd",
        "fortio": "fortio",
        "envoy": "Envoy",
        "kernel": "Linux",
    }
    rows = [
        (label, seen(record.get("versions", {}).get(key) for record in data.records))
        for key, label in names.items()
    ]
    for mesh in dict.fromkeys(mesh for mesh, _ in data.mesh_arms):
        mine = [record for record in data.records if record.get("key", {}).get("mesh") == mesh]
        rows.append((style.mesh_label(mesh), seen(record.get("versions", {}).get("mesh") for record in mine)))
    nodes = [record.get("node", {}) for record in data.records]
    rows += [
        ("CPUs of the node", seen(node.get("cpu_count") for node in nodes)),
        ("Memory of the node", seen(_memory(node.get("memory_bytes")) for node in nodes)),
        ("Architecture", seen(node.get("architecture") for node in nodes)),
    ]
    frame = pd.DataFrame([row for row in rows if row[1]], columns=["Component", "Version"])
    return TableFloat("tbl-versions", frame, "Versions, as recorded with every run.", CHECK)


def images(data: ReportData) -> TableFloat:
    """Return every image that ran, with the digest that the container runtime reported."""
    seen = {
        (str(image.get("image", "")), str(image.get("digest", "")).removeprefix("sha256:"))
        for record in data.records
        for image in record.get("images", [])
    }
    rows = [(f"`{image}`", f"`{digest[:16]}`" if digest else "–") for image, digest in sorted(seen)]
    caption = "Images that ran: reference, and the first sixteen hex digits of the SHA-256 digest reported by the node."
    return TableFloat("tbl-images", pd.DataFrame(rows, columns=["Image", "Digest"]), caption, CHECK)


def seen(values: Any) -> str:
    """Return the distinct values in the order of their first appearance."""
    return ", ".join(dict.fromkeys(str(value) for value in values if value not in (None, "")))


def _memory(value: object) -> str | None:
    return f"{formats.significant(float(value) / 2**30)} GiB" if formats.is_number(value) else None  # type: ignore[arg-type]
