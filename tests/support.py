"""Campaigns for tests: complete, in the layout of the raw data, with SYNTHETIC latencies of known truth.

Latencies are log-normal. Each block, deployment and run multiplies all latencies of its runs by a factor of
its own, as real ones do, and each arm by a factor that the caller chooses: the true ratio of all quantiles to
the baseline's. Nothing here reads the code under test but the names of the layout (`RunKey`, `schedule`), the
grid of the slices and the writers.
"""

import base64
import gzip
import io
import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from meshperf import campaign, runs
from meshperf.design import BASELINE, Arm, RunKey, run_keys, schedule
from meshperf.histogram import LOG_GRID
from meshperf.study import Study, parse_study

#: True ratio of every latency quantile to the baseline's, unless the caller gives others.
TRUE_RATIOS = {Arm("istio", "basic"): 1.5, Arm("istio", "mtls"): 1.8}
#: Median latency of the baseline, in seconds, and the standard deviation of the log of a request's latency.
BASELINE_MEDIAN_S = 0.0008
SIGMA_REQUEST = 0.35
STARTED = datetime(2026, 11, 1, 8, 0, 0, tzinfo=UTC)
#: What each container uses, in cores per 1000 requests a second, and its memory in bytes.
_CONTAINERS = {
    "service": (0.05, 18 << 20),
    "load-generator": (0.08, 24 << 20),
    "sidecar-server": (0.30, 60 << 20),
    "sidecar-client": (0.35, 62 << 20),
    "control-plane": (0.01, 90 << 20),
    "node": (0.90, 900 << 20),
}


def make_study(**changes: Any) -> Study:
    """Return a small valid study (3 blocks, 2 rates, 2 configurations of Istio), with some keys replaced."""
    content = {
        "study": "example",
        "campaign": "example",
        "title": "Synthetic data for tests",
        "seed": 7,
        "arms": [{"mesh": "istio", "configurations": ["basic", "mtls"]}],
        "target_rps": [100, 400],
        "blocks": 3,
        "makeup_blocks": 2,
        "load": {"connections": 4, "duration_s": 5, "warmup_s": 1, "slice_s": 2.5},
    }
    return parse_study({**content, **changes}, "the study of a test")


def make_synthetic_campaign(
    root: Path,
    study: Study | None = None,
    seed: int = 1,
    *,
    true_ratios: Mapping[Arm, float] | None = None,
    sd_block: float = 0.05,
    sd_deployment: float = 0.02,
    sd_run: float = 0.01,
    verdicts: Mapping[RunKey, str] | None = None,
    achieved_ratio: Mapping[RunKey, float] | None = None,
    broken_attempts: Mapping[RunKey, int] | None = None,
    leave_out: frozenset[RunKey] | set[RunKey] = frozenset(),
    seal: bool = True,
) -> Path:
    """Write a campaign with synthetic latencies and return its directory, ``root/data/raw/<campaign>``.

    Parameters
    ----------
    root : Path
        Stands for the repository; the registry goes to ``root/data``.
    study : Study, optional
        `make_study()` if None.
    seed : int
        Of the latencies (the order of measurement has the study's own seed).
    true_ratios : mapping of Arm to float, optional
        True ratio of an arm's latency to the baseline's at every quantile; `TRUE_RATIOS`, and 1 for others.
    sd_block, sd_deployment, sd_run : float
        Standard deviation of the log of the factor of each block, deployment and run.
    verdicts : mapping of RunKey to str, optional
        Verdict of some runs; "ok" for the others. Failed runs bring make-up blocks, as in real campaigns.
    achieved_ratio : mapping of RunKey to float, optional
        Achieved to target RPS of some runs; 1 for the others.
    broken_attempts : mapping of RunKey to int, optional
        How many attempts were broken before some runs.
    leave_out : set of RunKey
        Runs not to write; the campaign is not sealed then.
    seal : bool
        Whether to seal and register the campaign.

    Returns
    -------
    Path
        The campaign's directory.
    """
    study = study or make_study()
    ratios = TRUE_RATIOS if true_ratios is None else true_ratios
    campaign_dir = root / "data" / "raw" / study.campaign
    campaign_dir.mkdir(parents=True, exist_ok=True)
    campaign.start(study, campaign_dir, _testbed(), synthetic=True)
    n_makeup = 0
    clock = STARTED
    while True:
        deployments = schedule(study, n_makeup)
        for order, key in enumerate(run_keys(deployments), 1):
            if runs.is_complete(campaign_dir, key) or key in leave_out:
                continue
            factor = ratios.get(key.arm, 1.0) * np.exp(
                sd_block * _normal(seed, "block", key.block)
                + sd_deployment * _normal(seed, "deployment", key.block, str(key.arm), key.deployment)
                + sd_run * _normal(seed, "run", str(key))
            )
            for number in range(1, (broken_attempts or {}).get(key, 0) + 1):
                runs.write_attempt(campaign_dir, key, _attempt(clock, number))
            files, record = make_run(
                study,
                key,
                median_s=BASELINE_MEDIAN_S * float(factor),
                rng=np.random.default_rng(_entropy(seed, "requests", str(key))),
                started=clock,
                order=order,
                attempt=runs.next_attempt(campaign_dir, key),
                verdict=(verdicts or {}).get(key, "ok"),
                achieved_ratio=(achieved_ratio or {}).get(key, 1.0),
            )
            runs.write_run(campaign_dir, key, files, record)
            clock += timedelta(seconds=study.load_s + 2)
        wanted = runs.makeup_blocks(study, campaign_dir)
        if wanted <= n_makeup:
            break
        n_makeup = wanted
    if seal and not leave_out:
        campaign.seal(campaign_dir)
    return campaign_dir


def make_run(
    study: Study,
    key: RunKey,
    *,
    median_s: float,
    rng: np.random.Generator,
    started: datetime = STARTED,
    order: int = 1,
    attempt: int = 1,
    verdict: str = "ok",
    achieved_ratio: float = 1.0,
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files of one synthetic run, and its record."""
    load = study.load
    n = round(key.target_rps * load.duration_s * achieved_ratio)
    latencies_s = np.round(np.exp(rng.normal(np.log(median_s), SIGMA_REQUEST, n)), 9)
    offsets_s = np.arange(n) / (key.target_rps * achieved_ratio)
    n_errors = max(1, n // 100) if verdict == "failed" else 0
    ended = started + timedelta(seconds=load.duration_s)
    containers = _containers(key)
    files = {
        runs.RESULT: fortio_json(
            latencies_s,
            target_rps=key.target_rps,
            connections=load.connections,
            duration_s=load.duration_s,
            resolution_s=load.resolution_s,
            started=started,
            n_errors=n_errors,
        ),
        runs.SLICES: slices_csv_gz(latencies_s, offsets_s, load.slice_s, load.duration_s),
        runs.RESOURCES: _resources_csv_gz(containers, started.timestamp(), load.duration_s),
    }
    reasons = {
        "ok": [],
        "degraded": ["target_met: achieved 98 % of the target RPS"],
        "saturated": ["target_met: achieved less than 95 % of the target RPS"],
        "failed": [f"errors: {n_errors} of {n} responses were not 200"],
    }[verdict]
    n_sidecars = 0 if key.arm == BASELINE else 1
    missing_fraction = max(0.0, 1 - achieved_ratio)
    record = {
        "schema_version": 1,
        "campaign": study.campaign,
        "study": study.study,
        "key": runs.key_record(key),
        "order": order,
        "attempt": attempt,
        "load": {
            "generator": "fortio",
            "version": "1.68.1",
            "argv": ["fortio", "load", "-uniform", "-nocatchup", "-qps", str(key.target_rps), "synthetic"],
            "warmup_argv": [],
            "connections": load.connections,
            "duration_s": load.duration_s,
            "warmup_s": load.warmup_s,
            "resolution_s": load.resolution_s,
            "offset_s": 0,
            "payload_bytes": load.payload_bytes,
            "uniform": True,
            "catch_up": False,
            "target_rps": key.target_rps,
            "achieved_rps": key.target_rps * achieved_ratio,
            "started_utc": _utc(started),
            "ended_utc": _utc(ended),
        },
        "window": {"start_unix_s": started.timestamp(), "end_unix_s": ended.timestamp()},
        "proof": {
            "sidecar": {"client": bool(n_sidecars), "server": bool(n_sidecars)},
            "requests": {"sent": n, "client_proxy": n * n_sidecars, "server_proxy": n * n_sidecars},
            "tls": {
                "expected": key.configuration == "mtls",
                "handshakes": load.connections if key.configuration == "mtls" else 0,
                "connections": load.connections,
            },
            "protocol": "http",
            "passed": True,
            "checks": [{"name": "synthetic", "passed": True, "detail": "simulated, nothing to prove"}],
        },
        "quality": {
            "verdict": verdict,
            "gates": [
                {
                    "name": "target_met",
                    "status": {"ok": "pass", "degraded": "warn"}.get(verdict, "fail"),
                    "detail": f"achieved {achieved_ratio:.3f} of the target RPS",
                    "value": achieved_ratio,
                    "limit": study.analysis.rate_tiers[1],
                }
            ],
            "reasons": reasons,
        },
        "omission": {
            "missing_fraction": missing_fraction,
            "connections": load.connections,
            "longest_stall_s": float(latencies_s.max()),
            "stall_covered_s": load.connections / key.target_rps,
            "hidden_requests": round(missing_fraction * key.target_rps * load.duration_s),
        },
        "resources": {
            "interval_s": 1.0,
            "containers": [
                {
                    "role": role,
                    "namespace": "synthetic",
                    "pod": f"synthetic-{role}",
                    "container": role,
                    "cpu_s": cores * load.duration_s,
                    "cores": cores,
                    "working_set_bytes_median": memory,
                    "working_set_bytes_max": memory,
                    "samples": int(load.duration_s) + 1,
                    "throttled_periods": 0,
                    "periods": 100,
                }
                for role, (cores, memory) in containers.items()
            ],
        },
        "slices": {
            "method": "access-log",
            "slice_s": load.slice_s,
            "n": int(load.duration_s // load.slice_s),
        },
        "versions": {
            "kubernetes": "v0.0.0-synthetic",
            "mesh": "0.0.0-synthetic",
            "envoy": "0.0.0-synthetic",
            "fortio": "1.68.1",
            "containerd": "0.0.0-synthetic",
            "kernel": "0.0.0-synthetic",
        },
        "images": [
            {
                "pod": "synthetic-service",
                "container": "service",
                "image": "localhost/synthetic:0",
                "digest": "sha256:" + "0" * 64,
            }
        ],
        "node": {
            "name": "synthetic",
            "cpu_count": 2,
            "memory_bytes": 8 << 30,
            "kernel": "0.0.0-synthetic",
            "architecture": "amd64",
        },
        "testbed": _testbed(),
        "timing": {
            "ensure_s": 0.1,
            "warmup_s": load.warmup_s,
            "load_s": load.duration_s,
            "collect_s": 0.1,
            "write_s": 0.01,
            "total_s": load.duration_s + load.warmup_s + 0.21,
        },
        "meshperf": {"version": "0.0.0-synthetic", "commit": None, "dirty": None},
    }
    return files, record


def fortio_json(
    latencies_s: np.ndarray,
    *,
    target_rps: int = 100,
    connections: int = 4,
    duration_s: float = 10,
    resolution_s: float = 0.00005,
    started: datetime = STARTED,
    n_errors: int = 0,
) -> bytes:
    """Return latencies in seconds as the JSON that `fortio load -json -` of version 1.68 prints for them."""
    n = len(latencies_s)
    codes = {"200": n - n_errors} | ({"503": n_errors} if n_errors else {})
    sizes = {"Count": n, "Min": 75, "Max": 75, "Sum": 75 * n, "Avg": 75, "StdDev": 0}
    sizes["Data"] = [{"Start": 75, "End": 75, "Percent": 100, "Count": n}]
    connect_s = np.full(connections, 0.0004)
    content = {
        "RunType": "HTTP",
        "Labels": "SYNTHETIC",
        "StartTime": started.isoformat(timespec="microseconds").replace("+00:00", "000Z"),
        "RequestedQPS": str(target_rps),
        "RequestedDuration": f"{duration_s:g}s",
        "ActualQPS": n / duration_s,
        "ActualDuration": round(duration_s * 1e9),
        "NumThreads": connections,
        "Version": "1.68.1",
        "DurationHistogram": _fortio_histogram(latencies_s, resolution_s, (50, 90, 99, 99.9)),
        "ErrorsDurationHistogram": _fortio_histogram(latencies_s[:n_errors], resolution_s, ()),
        "Exactly": 0,
        "Jitter": False,
        "Uniform": True,
        "NoCatchUp": True,
        "RunID": 0,
        "AccessLoggerInfo": "",
        "ID": started.strftime("%Y-%m-%d-%H%M%S") + "_SYNTHETIC",
        "RetCodes": codes,
        "IPCountMap": {"192.0.2.1:8080": connections},
        "URL": "http://synthetic.invalid:8080/",
        "NumConnections": 1,
        "DisableKeepAlive": False,
        "HTTPReqTimeOut": 3_000_000_000,
        "Payload": base64.b64encode(b"").decode(),
        "Offset": 0,
        "Resolution": resolution_s,
        "Sizes": sizes,
        "HeaderSizes": sizes,
        "Sockets": [1] * connections,
        "SocketCount": connections,
        "ConnectionStats": _fortio_histogram(connect_s, resolution_s, (50, 90, 99)),
        "AbortOn": 0,
    }
    return json.dumps(content, indent=2).encode()


def slices_csv_gz(latencies_s: np.ndarray, offsets_s: np.ndarray, slice_s: float, duration_s: float) -> bytes:
    """Return ``slices.csv.gz``: latencies by slice of their start and bin of the grid."""
    lines = [",".join(runs.SLICES_COLUMNS)]
    # An incomplete last slice counts in the one before.
    slices = np.minimum((offsets_s // slice_s).astype(int), int(duration_s // slice_s) - 1)
    # A bin holds what is above its left and at or below its right edge.
    bins = np.searchsorted(LOG_GRID, latencies_s, side="left") - 1
    pairs, counts = np.unique(np.stack([slices, bins]), axis=1, return_counts=True)
    for (number, position), count in zip(pairs.T, counts, strict=True):
        low_s, high_s = LOG_GRID[position], LOG_GRID[position + 1]
        lines.append(f"{number},{number * slice_s:g},{low_s:.12g},{high_s:.12g},{count}")
    return _gzip("\n".join(lines) + "\n")


def _fortio_edges(resolution_s: float) -> np.ndarray:
    """Fortio's fixed upper edges (stats/stats.go, ``histogramBucketValues``), in seconds."""
    scaled = [
        *range(12), 12, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90, 100, 120, 140, 160, 180, 200,
        250, 300, 350, 400, 450, 500, 600, 700, 800, 900, 1000, 2000, 3000, 4000, 5000, 7500, 10000, 20000,
        30000, 40000, 50000, 75000, 100000,
    ]  # fmt: skip
    return np.array(scaled) * resolution_s


def _fortio_histogram(
    values_s: np.ndarray, resolution_s: float, percentiles: tuple[float, ...]
) -> dict[str, Any]:
    n = len(values_s)
    if n == 0:
        return {"Count": 0, "Min": 0, "Max": 0, "Sum": 0, "Avg": 0, "StdDev": 0, "Data": None}
    edges = np.concatenate([[-np.inf], _fortio_edges(resolution_s), [np.inf]])
    positions, counts = np.unique(np.searchsorted(edges, values_s, side="left") - 1, return_counts=True)
    data, cumulative = [], 0
    for position, count in zip(positions, counts, strict=True):
        cumulative += int(count)
        data.append(
            {
                "Start": float(edges[position]),
                "End": float(edges[position + 1]),
                "Percent": 100.0 * cumulative / n,
                "Count": int(count),
            }
        )
    data[0]["Start"] = float(values_s.min())
    data[-1]["End"] = float(values_s.max())
    return {
        "Count": n,
        "Min": float(values_s.min()),
        "Max": float(values_s.max()),
        "Sum": float(values_s.sum()),
        "Avg": float(values_s.mean()),
        "StdDev": float(values_s.std()),
        "Data": data,
        "Percentiles": [{"Percentile": p, "Value": _fortio_percentile(data, n, p)} for p in percentiles],
    }


def _fortio_percentile(data: list[dict[str, Any]], n: int, percentile: float) -> float:
    """Fortio's own interpolation (stats/stats.go, ``CalcPercentile``)."""
    if percentile >= 100:
        return data[-1]["End"]
    before = 100.0 / n
    if percentile <= before:
        return data[0]["Start"]
    for entry in data:
        if percentile <= entry["Percent"]:
            share = (percentile - before) / (entry["Percent"] - before)
            return entry["Start"] + share * (entry["End"] - entry["Start"])
        before = entry["Percent"]
    return data[-1]["End"]


def _containers(key: RunKey) -> dict[str, tuple[float, int]]:
    no_mesh = key.arm == BASELINE
    return {
        role: (cores * key.target_rps / 1000, memory)
        for role, (cores, memory) in _CONTAINERS.items()
        if not (no_mesh and role in ("sidecar-server", "sidecar-client", "control-plane"))
    }


def _resources_csv_gz(
    containers: Mapping[str, tuple[float, int]], start_unix_s: float, duration_s: float
) -> bytes:
    lines = [",".join(runs.RESOURCES_COLUMNS)]
    for offset in range(int(duration_s) + 1):
        for role, (cores, memory) in containers.items():
            lines.append(
                f"{start_unix_s + offset:.3f},{role},synthetic,synthetic-{role},{role},"
                f"{100 + cores * offset:.6f},{memory},0,{offset * 10}"
            )
    return _gzip("\n".join(lines) + "\n")


def _attempt(clock: datetime, number: int) -> dict[str, Any]:
    return {
        "started_utc": _utc(clock - timedelta(seconds=60 * number)),
        "ended_utc": _utc(clock - timedelta(seconds=60 * number - 5)),
        "reason": "the API server did not answer (synthetic)",
        "phase": "load",
    }


def _testbed() -> dict[str, Any]:
    return {"kind": "synthetic", "description": "SYNTHETIC latencies, measured on nothing"}


def _utc(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _entropy(seed: int, *label: str | int) -> list[int]:
    return [seed, zlib.crc32(repr(label).encode())]


def _normal(seed: int, *label: str | int) -> float:
    return float(np.random.default_rng(_entropy(seed, *label)).standard_normal())


def _gzip(text: str) -> bytes:
    target = io.BytesIO()
    with gzip.GzipFile(fileobj=target, mode="wb", mtime=0, filename="") as handle:
        handle.write(text.encode())
    return target.getvalue()
