"""CPU and memory of every container of a run, sampled while it runs.

Source: the kubelet's summary API, whose CPU figure is a cumulative counter; a run's CPU is the counter's difference
over exactly the run's window, never an average of sampled rates. Times are the node's.
"""

import csv
import gzip
import io
import itertools
import json
import re
import statistics
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from meshperf.meshes.prometheus_text import series
from meshperf.runs import RESOURCES_COLUMNS
from meshperf.testbed.client import Cluster, InfrastructureError

SAMPLE_INTERVAL_S = 1.0
#: A kubelet that serves statistics from a cache refreshes them at least this often.
STALE_AFTER_S = 20.0
#: The summary's times are whole seconds. One that is no older than this was read for us, just now.
LIVE_WITHIN_S = 1.5

#: What a container is to a run. "node-proxy" is a proxy that pods share; "node" is all of a node, and "pods" all of its
#: pods together: what a node used beyond its pods is the kernel's and the system's own, eBPF among it.
ROLES = (
    "service",
    "sidecar-server",
    "sidecar-client",
    "node-proxy",
    "load-generator",
    "control-plane",
    "scraper",
    "node",
    "pods",
    "other",
)
#: Roles of what is read per node; the kubelet refreshes these less often than containers.
NODE_ROLES = ("node", "pods")

Identity = tuple[str, str, str]
#: Takes namespace, pod and container and returns one of `ROLES`, or None for what is not kept.
RoleOf = Callable[[str, str, str], str | None]
#: (namespace, pod, container) -> (periods in which the container was throttled, periods in all)
Throttling = Mapping[Identity, tuple[int, int]]


@dataclass(frozen=True)
class Sample:
    """One reading of one container (or of a whole node: namespace and container are empty)."""

    time_unix_s: float
    role: str
    namespace: str
    pod: str
    container: str
    cpu_usage_s: float
    working_set_bytes: int

    @property
    def identity(self) -> Identity:
        """What the reading is of."""
        return self.namespace, self.pod, self.container


class Sampler:
    """Reads the summary API of some nodes once a second, from `start` until `stop`.

    Parameters
    ----------
    cluster : Cluster
        Where.
    nodes : iterable of str
        Nodes whose containers matter, that of the service first.
    role_of : RoleOf
        Which containers are kept, and as what.
    read_throttling : callable
        Returns the throttling counters of all containers, empty where the node offers none.
    """

    def __init__(
        self,
        cluster: Cluster,
        nodes: Iterable[str],
        role_of: RoleOf,
        read_throttling: Callable[[], Throttling],
    ) -> None:
        self._cluster, self._nodes, self._role_of = cluster, list(dict.fromkeys(nodes)), role_of
        self._read_throttling = read_throttling
        self._samples: list[Sample] = []
        self._throttling: list[Throttling] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: InfrastructureError | None = None

    def start(self) -> None:
        """Take the first reading and go on in the background."""
        self._throttling.append(self._read_throttling())
        self._read()
        self._thread.start()

    def stop(self, window_end_unix_s: float) -> None:
        """Take the last reading, at or after the end of the window.

        Raises
        ------
        InfrastructureError
            If a reading failed, or none reaches the end of the window in time.
        """
        self._end()
        self._throttling.append(self._read_throttling())
        deadline = time.monotonic() + STALE_AFTER_S
        while True:
            newest = self._read()
            containers = [s.time_unix_s for s in newest if s.role not in NODE_ROLES]
            if containers and min(containers) >= window_end_unix_s:
                return
            if time.monotonic() > deadline:
                raise InfrastructureError(f"the kubelet's statistics are older than {STALE_AFTER_S:.0f} s")
            time.sleep(0.1)

    def abandon(self) -> None:
        """End the readings of a run that failed."""
        self._stop.set()

    def samples(self) -> list[Sample]:
        """Return all readings, oldest first, each counter value at its first time only."""
        kept: dict[tuple[Identity, float], Sample] = {(s.identity, s.time_unix_s): s for s in self._samples}
        return sorted(kept.values(), key=lambda s: (s.time_unix_s, s.identity))

    def throttling(self) -> dict[Identity, tuple[int, int]]:
        """Return throttled periods and periods between the first and the last reading."""
        first, last = self._throttling[0], self._throttling[-1]
        return {
            identity: (last[identity][0] - first[identity][0], last[identity][1] - first[identity][1])
            for identity in last
            if identity in first
        }

    def _end(self) -> None:
        self._stop.set()
        self._thread.join()
        if self.error:
            raise self.error

    def _run(self) -> None:
        try:
            while not self._stop.wait(SAMPLE_INTERVAL_S):
                self._read()
        except InfrastructureError as error:
            self.error = error

    def _read(self) -> list[Sample]:
        newest = []
        for number, node in enumerate(self._nodes, start=1):
            suffix = "" if len(self._nodes) == 1 else f"-{number}"
            sent = time.time()
            path = f"/api/v1/nodes/{node}/proxy/stats/summary?only_cpu_and_memory=true"
            summary = json.loads(self._cluster.get_raw(path))
            newest += parse_summary(summary, self._role_of, (sent + time.time()) / 2, suffix)
        self._samples += newest
        return newest


def parse_summary(
    summary: Mapping[str, Any], role_of: RoleOf, asked_unix_s: float, suffix: str = ""
) -> list[Sample]:
    """Return the readings in an answer of the summary API.

    Parameters
    ----------
    summary : mapping
        The JSON.
    role_of : callable
        As for `Sampler`.
    asked_unix_s : float
        When it was asked for; stands for the reading's time if the answer says the same second.
    suffix : str
        Tells the node from others.
    """
    found = []
    node = summary["node"]
    # A node's name may name its owner, and data are published: it is called by its role.
    entries = [("node", "", f"node{suffix}", "", node)]
    entries += [
        ("pods", "", f"pods{suffix}", "", part)
        for part in node.get("systemContainers", [])
        if part["name"] == "pods"
    ]
    for pod in summary.get("pods", []):
        reference = pod["podRef"]
        for container in pod.get("containers", []):
            identity = (reference["namespace"], reference["name"], container["name"])
            if (role := role_of(*identity)) is not None:
                entries.append((role, *identity, container))
    for role, namespace, name, container, entry in entries:
        cpu, memory = entry.get("cpu", {}), entry.get("memory", {})
        if "usageCoreNanoSeconds" not in cpu or "workingSetBytes" not in memory:
            continue  # a container that has only just started
        reported = datetime.fromisoformat(cpu["time"]).timestamp()
        live = role not in NODE_ROLES and abs(reported - asked_unix_s) <= LIVE_WITHIN_S
        found.append(
            Sample(
                asked_unix_s if live else reported,
                role,
                namespace,
                name,
                container,
                cpu["usageCoreNanoSeconds"] * 1e-9,
                memory["workingSetBytes"],
            )
        )
    return found


def cadvisor_throttling(text: str) -> dict[Identity, tuple[int, int]]:
    """Return the throttling counters in cAdvisor's metrics, per container."""
    counters: dict[Identity, list[int]] = {}
    names = ("container_cpu_cfs_throttled_periods_total", "container_cpu_cfs_periods_total")
    for place, name in enumerate(names):
        for labels, value in series(text, name):
            if labels.get("container"):
                identity = (labels.get("namespace", ""), labels.get("pod", ""), labels["container"])
                counters.setdefault(identity, [0, 0])[place] = int(value)
    return {identity: (throttled, periods) for identity, (throttled, periods) in counters.items()}


def summarise(
    samples: Sequence[Sample], throttling: Throttling, start_unix_s: float, end_unix_s: float
) -> list[dict[str, Any]]:
    """Return one row per container: CPU over the window, and memory within it.

    Parameters
    ----------
    samples : sequence of Sample
        Readings from before `start_unix_s` until after `end_unix_s`.
    throttling : mapping
        Periods over the run.
    start_unix_s, end_unix_s : float
        The window in which the load generator sent.

    Notes
    -----
    The cumulative counter is interpolated linearly at both ends of the window. Where a node's own readings cover only
    part of the window, `cores` is over that part, and `cpu_s` is `cores` times the window.
    """
    rows = []
    series_of: dict[Identity, list[Sample]] = {}
    for sample in samples:
        series_of.setdefault(sample.identity, []).append(sample)
    for identity, readings in sorted(series_of.items()):
        times = [s.time_unix_s for s in readings]
        low, high = max(start_unix_s, times[0]), min(end_unix_s, times[-1])
        if high <= low:
            continue
        used = _interpolate(readings, high) - _interpolate(readings, low)
        cores = used / (high - low)
        within = [s.working_set_bytes for s in readings if low <= s.time_unix_s <= high] or [
            readings[-1].working_set_bytes
        ]
        throttled, periods = throttling.get(identity, (None, None))
        rows.append(
            {
                "role": readings[0].role,
                "namespace": identity[0],
                "pod": identity[1],
                "container": identity[2],
                "cpu_s": round(cores * (end_unix_s - start_unix_s), 6),
                "cores": round(cores, 6),
                "working_set_bytes_median": int(statistics.median(within)),
                "working_set_bytes_max": max(within),
                "samples": len(readings),
                "throttled_periods": throttled,
                "periods": periods,
            }
        )
    return sorted(
        rows, key=lambda row: (ROLES.index(row["role"]), row["namespace"], row["pod"], row["container"])
    )


def to_csv_gz(samples: Iterable[Sample], throttling: Throttling) -> bytes:
    """Return the time series as it is kept: one row per reading; the throttling columns hold the run's totals."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(RESOURCES_COLUMNS)
    for s in samples:
        throttled, periods = throttling.get(s.identity, ("", ""))
        writer.writerow(
            [
                f"{s.time_unix_s:.3f}",
                s.role,
                *s.identity,
                f"{s.cpu_usage_s:.6f}",
                s.working_set_bytes,
                throttled,
                periods,
            ]
        )
    return gzip.compress(text.getvalue().encode(), mtime=0)


def role_finder(
    workload_namespace: str,
    sidecars: Collection[str],
    workload_container: str,
    control_plane_namespaces: Iterable[str],
    declared: Mapping[tuple[str, str], str],
) -> RoleOf:
    """Return the function that tells a container's role in a run.

    Parameters
    ----------
    declared : mapping
        (namespace, container) -> role of what the mesh itself declares (see `meshperf.meshes.base.Mesh.roles`).
    """
    control = set(control_plane_namespaces)

    def role_of(namespace: str, pod: str, container: str) -> str | None:
        place = "" if namespace == workload_namespace else namespace
        if (place, container) in declared:
            return declared[place, container]
        if namespace == workload_namespace:
            side = "server" if re.match(r"server-", pod) else "client"
            if container in sidecars:
                return f"sidecar-{side}"
            if container == workload_container:
                return "service" if side == "server" else "load-generator"
            return "other"
        return "control-plane" if namespace in control else None

    return role_of


def _interpolate(readings: Sequence[Sample], time_unix_s: float) -> float:
    for before, after in itertools.pairwise(readings):
        if before.time_unix_s <= time_unix_s <= after.time_unix_s:
            span = after.time_unix_s - before.time_unix_s
            share = (time_unix_s - before.time_unix_s) / span if span else 0.0
            return before.cpu_usage_s + share * (after.cpu_usage_s - before.cpu_usage_s)
    raise ValueError(f"no readings around {time_unix_s}")
