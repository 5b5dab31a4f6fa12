"""One run: the state ensured, the load sent, everything about it read, judged and written.

An attempt that the infrastructure breaks is recorded with its reason and repeated in place; a run that was measured is
kept whatever its verdict. A process that is killed leaves a note of the attempt it was making, which the next one
turns into the record of a broken attempt.
"""

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from meshperf import campaign, provenance, quality, resources, runs, slices, storage, testbed
from meshperf.design import RunKey, run_keys, schedule
from meshperf.errors import MeshperfError
from meshperf.loadgen import access_log, fortio
from meshperf.meshes import credentials
from meshperf.paths import cache_dir
from meshperf.study import Study, load_study
from meshperf.testbed import proof as proofs
from meshperf.testbed import surroundings
from meshperf.testbed.checks import sent_by
from meshperf.testbed.client import InfrastructureError
from meshperf.testbed.ensure import ensure
from meshperf.workloads import echo

#: Broken attempts at one run before the measurement stops.
MAX_ATTEMPTS = 5
#: How long to wait for a cluster that is gone before the next attempt.
RECOVERY_TIMEOUT_S = 300
#: Beyond a load's own duration, until the command that sends it must have ended.
LOAD_GRACE_S = 20
#: Note of the attempt that is being made, in the campaign's directory.
_NOTE = runs.ATTEMPTS + "/.attempting.json"

Progress = Callable[[str], None]


def measure_run(
    study_path: str | Path, key: RunKey, campaigns_dir: str | Path | None = None, progress: Progress = print
) -> dict[str, Any]:
    """Measure one run of a study, unless it is on disk, and return its record.

    Parameters
    ----------
    study_path : str or Path
        The study file.
    key : RunKey
        The run's identity; it must be in the study's design.
    campaigns_dir : str or Path, optional
        The directory of campaigns; ``data/raw`` if None.
    progress : callable
        Takes a line of text before anything slow.

    Raises
    ------
    MeshperfError
        If the run is not in the design, no cluster can be had, the mesh's state cannot be proven, or the
        infrastructure broke `MAX_ATTEMPTS` attempts.
    """
    study = load_study(study_path)
    campaign_dir = (
        Path(campaigns_dir) / study.campaign if campaigns_dir else campaign.directory(study.campaign)
    )
    if runs.is_complete(campaign_dir, key):
        return runs.read_record(runs.run_dir(campaign_dir, key))
    order = _order(study, key, campaign_dir)
    cache_dir().mkdir(parents=True, exist_ok=True)
    with storage.exclusive(cache_dir(), testbed.MEASURING):
        where = testbed.connect(study, progress)
        campaign.start(study, campaign_dir, where.description())
        _record_killed_attempt(campaign_dir)
        while True:
            number = runs.next_attempt(campaign_dir, key)
            attempt = _Attempt(study, key, order, number, where, campaign_dir, progress)
            try:
                return attempt.make()
            except InfrastructureError as error:
                runs.write_attempt(campaign_dir, key, attempt.broken(str(error)))
                if number >= MAX_ATTEMPTS:
                    raise MeshperfError(
                        f"the run {key} was broken {number} times, the last time because {error}: "
                        "mend the cluster, then run the same command again to go on"
                    ) from error
                progress(f"attempt {number} at {key} was broken ({error}); repeating it")
                _recover(where, progress)
            finally:
                _forget(campaign_dir)


@dataclass
class _Attempt:
    """One attempt at a run; `phase` says how far it came."""

    study: Study
    key: RunKey
    order: int
    number: int
    where: testbed.Testbed
    campaign_dir: Path
    progress: Progress
    phase: str = "ensure"
    started_utc: str = ""

    def make(self) -> dict[str, Any]:
        """Measure, write the run, and return its record."""
        self.started_utc = _now()
        load = self.study.load
        timing: dict[str, float] = {}
        clock = time.monotonic()

        def lap(name: str) -> None:
            nonlocal clock
            now = time.monotonic()
            timing[name] = round(now - clock, 3)
            clock = now

        cluster = self.where.cluster
        deployed = self._ensure()
        around = surroundings.look(cluster, deployed.namespace)
        lap("ensure_s")
        # Fortio appends, so each attempt has a file of its own.
        log_path = f"{echo.DATA_DIR}/access-{self.key.target_rps}-{self.number}-{int(time.time())}.json"
        asked_for = {
            "target_rps": self.key.target_rps,
            "url": deployed.url,
            "headers": deployed.request_headers,
        }
        warmup = fortio.build_argv(load, **asked_for, duration_s=load.warmup_s) if load.warmup_s else []
        argv = fortio.build_argv(load, **asked_for, duration_s=load.duration_s, access_log_path=log_path)
        self.phase = "warm-up"
        _note(self.campaign_dir, self.key, self.started_utc, load.warmup_s + load.duration_s + load.timeout_s)
        if warmup:
            self._execute(deployed, warmup, load.warmup_s)
        lap("warmup_s")

        self.phase = "load"
        before, began_s = proofs.read_counters(cluster, deployed), time.monotonic()
        role_of = resources.role_finder(
            deployed.namespace,
            deployed.sidecars,
            echo.CONTAINER,
            deployed.mesh.control_plane_namespaces,
            deployed.roles,
        )
        pods = self._pods(deployed, role_of)
        sampler = resources.Sampler(
            cluster,
            (pod["spec"]["nodeName"] for pod in (deployed.server, deployed.client, *pods)),
            role_of,
            lambda: self.where.throttling(pods),
        )
        sampler.start()
        lap("prepare_s")
        try:
            output = self._execute(deployed, argv, load.duration_s)
            lap("load_s")
            self.phase = "collect"
            result = fortio.read_result(output, name="fortio's output")
            start_s = result.started.timestamp()
            end_s = start_s + result.duration_s
            sampler.stop(end_s)
        finally:
            sampler.abandon()
        proof = proofs.prove(cluster, deployed, before, sent_by(result, load.payload_bytes), began_s)
        log = access_log.read_access_log(self._read_log(deployed, log_path))
        if log.ok.size != result.n:
            raise InfrastructureError(f"the access log has {log.ok.size} of {result.n} requests")
        restarts = self._restarts(deployed)
        lap("collect_s")

        self.phase = "write"
        containers = resources.summarise(sampler.samples(), sampler.throttling(), start_s, end_s)
        asked = quality.AskedLoad(self.key.target_rps, load.connections, load.duration_s, load.resolution_s)
        node = cluster.get("v1", "Node", deployed.server["spec"]["nodeName"])
        judged = quality.assess(
            asked,
            result,
            quantiles=self.study.quantiles,
            containers=containers,
            client_limit_cores=_cores(self.study.workload.client_limits.cpu),
            node_cores=_cores(node["status"]["capacity"]["cpu"]),
            proof_passed=proof.passed,
            restarts=restarts,
            rate_tiers=self.study.analysis.rate_tiers,
            max_error_ratio=self.study.analysis.max_error_ratio,
        )
        counts = slices.slice_counts(log, load.slice_s, load.duration_s)
        record = {
            "schema_version": runs.SCHEMA_VERSION,
            "campaign": self.study.campaign,
            "study": self.study.study,
            "key": runs.key_record(self.key),
            "order": self.order,
            "attempt": self.number,
            "load": {
                "generator": "fortio",
                "version": result.version,
                "argv": [credentials.redact(word) for word in argv],
                "warmup_argv": [credentials.redact(word) for word in warmup],
                "connections": load.connections,
                "duration_s": load.duration_s,
                "warmup_s": load.warmup_s,
                "resolution_s": load.resolution_s,
                "offset_s": result.offset_s,
                "payload_bytes": load.payload_bytes,
                "uniform": result.uniform,
                "catch_up": result.catch_up,
                "target_rps": self.key.target_rps,
                "achieved_rps": result.achieved_rps,
                "started_utc": _utc(start_s),
                "ended_utc": _utc(end_s),
            },
            "window": {"start_unix_s": start_s, "end_unix_s": end_s},
            "proof": proof.as_record(),
            "quality": judged.to_dict(),
            "omission": _finite(quality.omission(asked, result).to_dict()),
            "resources": {"interval_s": resources.SAMPLE_INTERVAL_S, "containers": containers},
            "slices": {"method": "access-log", "slice_s": load.slice_s, "n": len(counts)},
            "versions": {
                "kubernetes": cluster.version(),
                **deployed.mesh.versions(self.where.image_source),
                "fortio": result.version,
                "containerd": node["status"]["nodeInfo"]["containerRuntimeVersion"].split("//")[-1],
                "kernel": node["status"]["nodeInfo"]["kernelVersion"],
            },
            "cluster": dict(around.facts),
            "caveats": [
                *deployed.mesh.caveats(self.key.configuration, self.where.image_source),
                *around.caveats,
            ],
            "images": _images(pods),
            "node": _node_record(node),
            "testbed": self.where.description(),
            "deployment": {"fresh": deployed.fresh, "parts_s": dict(deployed.install_s)},
            "timing": timing,
            "meshperf": provenance.code(),
        }
        lap("judge_s")
        timing["total_s"] = round(sum(timing.values()), 3)
        files = {
            runs.RESULT: output,
            runs.SLICES: slices.to_csv_gz(counts, load.slice_s),
            runs.RESOURCES: resources.to_csv_gz(sampler.samples(), sampler.throttling()),
        }
        if credentials.holds_token(output):
            raise MeshperfError(
                "fortio wrote the load's token into its result, which is kept untouched and published: "
                "measure with a version of fortio that does not"
            )
        runs.write_run(self.campaign_dir, self.key, files, record)
        self.progress(f"{self.key}: {judged.verdict}, {result.achieved_rps:.1f} RPS achieved")
        return record

    def broken(self, reason: str) -> dict[str, Any]:
        """Return the record of this attempt if it broke."""
        return {
            "started_utc": self.started_utc,
            "ended_utc": _now(),
            "phase": self.phase,
            "reason": credentials.redact(reason),
        }

    def _ensure(self) -> proofs.Deployed:
        workload = self.study.workload
        return ensure(
            self.where.cluster,
            self.study.campaign,
            self.key.mesh,
            self.key.configuration,
            self.key.block,
            self.key.deployment,
            {
                "server_limits": workload.server_limits.model_dump(),
                "client_limits": workload.client_limits.model_dump(),
                "placement": workload.placement,
                "server_node_selector": dict(workload.server_node_selector or {}),
                "client_node_selector": dict(workload.client_node_selector or {}),
            },
            self.where.image_source,
            self.progress,
            prepare=lambda: self.where.prepare(self.key.mesh, self.key.configuration, self.progress),
        )

    def _execute(self, deployed: proofs.Deployed, argv: Sequence[str], duration_s: float) -> bytes:
        output, _ = self.where.cluster.execute(
            deployed.namespace,
            deployed.pod_name("client"),
            echo.CONTAINER,
            list(argv),
            duration_s + LOAD_GRACE_S,
        )
        return output

    def _read_log(self, deployed: proofs.Deployed, path: str) -> bytes:
        url = f"http://127.0.0.1:{echo.PORT}/fortio/data/{Path(path).name}"
        # Fortio's own client stops after 128 KiB, Go's does not.
        return self._execute(deployed, ["fortio", "curl", "-quiet", "-stdclient", url], LOAD_GRACE_S)

    def _pods(self, deployed: proofs.Deployed, role_of: resources.RoleOf) -> list[dict]:
        """Return the pods that matter to a run; of those that every node has, only the ones beside the workloads."""
        mesh = deployed.mesh
        declared = {namespace for namespace, _ in deployed.roles if namespace}
        beside = {pod["spec"]["nodeName"] for pod in (deployed.client, deployed.server)}
        found = []
        for namespace in (deployed.namespace, *sorted({*mesh.control_plane_namespaces, *declared})):
            for pod in self.where.cluster.list_objects("v1", "Pod", namespace):
                name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
                matters = any(role_of(namespace, name, c["name"]) for c in pod["spec"]["containers"])
                owners = pod["metadata"].get("ownerReferences") or []
                everywhere = any(owner["kind"] == "DaemonSet" for owner in owners)
                if matters and node and (node in beside or not everywhere):
                    found.append(pod)
        return found

    def _restarts(self, deployed: proofs.Deployed) -> int:
        pods = self.where.cluster.list_objects("v1", "Pod", deployed.namespace)
        return sum(
            entry["restartCount"] for pod in pods for entry in pod["status"].get("containerStatuses", [])
        )


def _order(study: Study, key: RunKey, campaign_dir: Path) -> int:
    """Return the run's place in the measuring order, from 1."""
    planned = run_keys(schedule(study, runs.makeup_blocks(study, campaign_dir)))
    if key not in planned:
        raise MeshperfError(
            f"{key} is not a run of the study {study.study}: `meshperf study show` lists what is"
        )
    return planned.index(key) + 1


def _recover(where: testbed.Testbed, progress: Progress) -> None:
    """Wait until the cluster answers again, starting what died of a local one."""
    deadline = time.monotonic() + RECOVERY_TIMEOUT_S
    while True:
        with contextlib.suppress(MeshperfError):
            where.recover(progress)
            if where.cluster.is_ready():
                return
        if time.monotonic() > deadline:
            raise MeshperfError(
                f"the cluster did not answer for {RECOVERY_TIMEOUT_S} s: "
                "mend it, then run the same command again to go on"
            )
        time.sleep(1)


def _note(campaign_dir: Path, key: RunKey, started_utc: str, load_s: float) -> None:
    """Keep what is known of the attempt, in case that this process is killed."""
    note = {"key": runs.key_record(key), "started_utc": started_utc, "load_ends_unix_s": time.time() + load_s}
    path = campaign_dir / _NOTE
    path.parent.mkdir(parents=True, exist_ok=True)
    storage.write_file(path, json.dumps(note).encode())


def _forget(campaign_dir: Path) -> None:
    (campaign_dir / _NOTE).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it holds records of broken attempts
        (campaign_dir / _NOTE).parent.rmdir()


def _record_killed_attempt(campaign_dir: Path) -> None:
    """Turn the note of a process that was killed into a record, once the load that it left has ended."""
    path = campaign_dir / _NOTE
    if not path.exists():
        return
    note = json.loads(path.read_text())
    key = RunKey(**note["key"])
    if not runs.is_complete(campaign_dir, key):
        runs.write_attempt(
            campaign_dir,
            key,
            {
                "started_utc": note["started_utc"],
                "ended_utc": _now(),
                "phase": "load",
                "reason": "the measuring process was killed",
            },
        )
        time.sleep(max(0.0, note["load_ends_unix_s"] - time.time()))
    _forget(campaign_dir)


def _images(pods: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    found = []
    for pod in pods:
        status = pod["status"]
        for entry in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
            found.append(
                {
                    "pod": pod["metadata"]["labels"].get("app", pod["metadata"]["name"]),
                    "container": entry["name"],
                    "image": entry["image"],
                    "digest": entry["imageID"].split("@")[-1],
                }
            )
    return found


def _node_record(node: Mapping[str, Any]) -> dict[str, Any]:
    info, capacity = node["status"]["nodeInfo"], node["status"]["capacity"]
    return {
        "cpu_count": int(capacity["cpu"]),
        "memory_bytes": _bytes(capacity["memory"]),
        "kernel": info["kernelVersion"],
        "operating_system": info["osImage"],
        "architecture": info["architecture"],
    }


def _cores(quantity: str | None) -> float | None:
    """Return a CPU quantity of Kubernetes in cores."""
    if quantity is None:
        return None
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def _bytes(quantity: str) -> int:
    """Return a memory quantity of Kubernetes, as nodes report it, in bytes."""
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
    return int(quantity[:-2]) * units[quantity[-2:]] if quantity[-2:] in units else int(quantity)


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return the values with None for what is not a number: JSON has no word for it."""
    return {name: value if value == value else None for name, value in values.items()}


def _utc(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat().replace("+00:00", "Z")


def _now() -> str:
    return _utc(time.time())


__all__ = ["measure_run"]
