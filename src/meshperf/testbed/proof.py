"""Prove from the proxies' own counters that the load took the path that an arm claims."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urljoin

from meshperf.errors import MeshperfError
from meshperf.loadgen import fortio
from meshperf.meshes import credentials
from meshperf.meshes.base import REDIRECTED, SCRAPE_INTERVAL_S, Mesh, ProxyCounters, Setting, Trial
from meshperf.testbed.checks import ROLES, Check, Sent, check_path, counted, scrape_checks, sent_by
from meshperf.testbed.client import Cluster, InfrastructureError
from meshperf.workloads import echo, prometheus

#: The proxies count a request when it ends; the last ones may be a moment behind the load generator.
COUNTERS_SETTLE_S = 5
#: For one page of a proxy's statistics.
READ_TIMEOUT_S = 10
#: For the few requests of a proof.
SEND_TIMEOUT_S = 30
#: A fresh deployment must have been scraped in this time.
SCRAPED_WITHIN_S = 60
PROBE_RPS = 160
PROBE_DURATION_S = 0.25


@dataclass(frozen=True)
class _ProbeLoad:
    connections: int = 4
    resolution_s: float = 0.001
    payload_bytes: int = 0
    timeout_s: float = 3.0


_PROBE_LOAD = _ProbeLoad()


class UnprovenState(MeshperfError):
    """The cluster took all manifests, but is not in the state that was asked for: it must not be measured."""


@dataclass(frozen=True)
class Proof:
    """What shows that the load took the path that the arm claims.

    Attributes
    ----------
    sent : Sent
        What the load generator sent.
    counted : mapping of str to ProxyCounters
        Role -> what its proxy counted in the same time; empty without proxies.
    tls_expected : bool
        Whether the arm encrypts what is sent between the proxies.
    tls_handshakes : int or None
        Handshakes completed by all proxies since they started.
    protocol : {"http", "tcp", "ip"}
        What the proxies took the load for.
    sidecars : mapping of str to bool
        Role -> whether the pod has one.
    checks : tuple of Check
        All that was looked at.
    """

    sent: Sent
    counted: Mapping[str, ProxyCounters]
    tls_expected: bool
    tls_handshakes: int | None
    protocol: str
    sidecars: Mapping[str, bool]
    checks: tuple[Check, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def as_record(self) -> dict[str, Any]:
        """Return the proof as the run's record holds it: requests for HTTP, connections and bytes for TCP.

        Packets are there where the proxies handle IP, or where packets are encrypted.
        """
        record = {
            "sidecar": dict(self.sidecars),
            "requests": self._counts("requests"),
            "tls": {"expected": self.tls_expected, "handshakes": self.tls_handshakes},
            "protocol": self.protocol,
            "passed": self.passed,
            "checks": [asdict(check) for check in self.checks],
        }
        if self.protocol == "tcp":
            record |= {
                name: self._counts(name) for name in ("connections", "request_bytes", "response_bytes")
            }
        for name in ("packets", "encrypted_packets"):
            counts = self._proxies(name)
            record |= {name: counts} if any(counts.values()) else {}
        return record

    def _counts(self, name: str) -> dict[str, int | None]:
        return {"sent": getattr(self.sent, name), **self._proxies(name)}

    def _proxies(self, name: str) -> dict[str, int | None]:
        return {
            f"{role}_proxy": getattr(self.counted[role], name) if role in self.counted else None
            for role in ROLES
        }


@dataclass(frozen=True)
class Deployed:
    """Workloads of one arm, ready and proven.

    Attributes
    ----------
    mesh : Mesh
        What is deployed, and `setting` how.
    setting : Setting
        What its manifests were made from.
    client, server : dict
        The two pods as the API server describes them.
    fresh : bool
        Whether this call made them.
    install_s : dict
        Seconds spent per part of making them; empty if they were there.
    """

    mesh: Mesh
    setting: Setting
    client: dict
    server: dict
    fresh: bool
    install_s: Mapping[str, float]

    @property
    def configuration(self) -> str:
        """The configuration of the arm."""
        return self.setting.configuration

    @property
    def namespace(self) -> str:
        """Where the workloads are."""
        return self.setting.namespace

    @property
    def url(self) -> str:
        """Where the load generator sends its requests."""
        return self.mesh.url(self.configuration)

    @property
    def request_headers(self) -> Mapping[str, str]:
        """What each request of the load carries; it may be secret."""
        return self.mesh.request_headers(self.setting)

    @property
    def sidecars(self) -> tuple[str, ...]:
        """Names of all containers that the arm adds to the pods."""
        own = (self.mesh.sidecar,) if self.mesh.sidecar else ()
        return (*own, *self.mesh.other_sidecars(self.configuration))

    @property
    def roles(self) -> Mapping[tuple[str, str], str]:
        """(namespace, container) -> role of what the mesh declares, and of what scrapes its proxies."""
        declared = dict(self.mesh.roles(self.configuration))
        if self.mesh.metrics(self.configuration):
            declared[prometheus.namespace_beside(self.namespace), prometheus.CONTAINER] = "scraper"
        return declared

    def pod_name(self, role: str) -> str:
        """Return the name of the client's or the server's pod."""
        return (self.client if role == "client" else self.server)["metadata"]["name"]


@dataclass(frozen=True)
class _PodReader:
    """Reads what a pod serves (see `meshperf.meshes.base.PodReader`)."""

    cluster: Cluster
    namespace: str
    pod: str

    def through_api_server(self, port: int, path: str) -> str:
        return self.cluster.get_raw(
            f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}:{port}/proxy{path}"
        ).decode()

    def from_inside(self, port: int, path: str) -> str:
        # Fortio's own client never ends on Envoy's chunked answers; Go's does.
        argv = ["fortio", "curl", "-quiet", "-stdclient", f"http://127.0.0.1:{port}{path}"]
        return self.run(echo.CONTAINER, argv)

    def run(self, container: str, command: Sequence[str]) -> str:
        output, _ = self.cluster.execute(self.namespace, self.pod, container, list(command), READ_TIMEOUT_S)
        return output.decode()

    def on_same_node(self, namespace: str, labels: Mapping[str, str]) -> "_PodReader":
        node = self.cluster.get("v1", "Pod", self.pod, self.namespace)["spec"]["nodeName"]
        found = [
            pod["metadata"]["name"]
            for pod in self.cluster.list_objects("v1", "Pod", namespace, labels)
            if pod["spec"].get("nodeName") == node and not pod["metadata"].get("deletionTimestamp")
        ]
        if len(found) != 1:
            wanted = ",".join(f"{key}={value}" for key, value in labels.items())
            raise MeshperfError(
                f"there are {len(found)} pods with the labels {wanted} in {namespace} on the node of "
                f"{self.namespace}/{self.pod} instead of one: check the mesh's DaemonSet there"
            )
        return _PodReader(self.cluster, namespace, found[0])


def probe(cluster: Cluster, deployed: Deployed, timeout_s: float = 30) -> Proof:
    """Send a few requests and return the proof of their path.

    Raises
    ------
    UnprovenState
        If they do not take the path that the arm claims within `timeout_s`: each failed check is named.
    """
    _refuse_missing_sidecars(deployed)
    deadline = time.monotonic() + timeout_s
    argv = fortio.build_argv(
        _PROBE_LOAD,
        target_rps=PROBE_RPS,
        url=deployed.url,
        duration_s=PROBE_DURATION_S,
        headers=deployed.request_headers,
        allow_initial_errors=True,
    )
    while True:
        before = read_counters(cluster, deployed)
        try:
            result = fortio.read_result(_send(cluster, deployed, argv))
            failed = result.n - result.return_codes.get("200", 0)
            sent = sent_by(result, _PROBE_LOAD.payload_bytes)
            # Counters of a load that failed will not come to agree with it: the next one is tried at once.
            proof = prove(cluster, deployed, before, sent, settle_s=0 if failed else COUNTERS_SETTLE_S)
            codes = ", ".join(sorted(code for code in result.return_codes if code != "200"))
            trouble = f"{failed} of {result.n} requests failed (HTTP {codes})" if failed else ""
        except InfrastructureError:
            raise
        except MeshperfError as error:  # a proxy may refuse its first connections
            proof, trouble = None, str(error)
        if proof and proof.passed and not trouble:
            return proof
        if time.monotonic() > deadline:
            failed_checks = [c for c in (proof.checks if proof else ()) if not c.passed]
            seen = [*([trouble] if trouble else []), *(f"{c.name}: {c.detail}" for c in failed_checks)]
            raise _unproven(deployed, "; ".join(seen))
        time.sleep(0.2)


def _refuse_missing_sidecars(deployed: Deployed) -> None:
    """Refuse pods that were made without their sidecar: there is nothing to read and nothing to wait for."""
    sidecar = deployed.mesh.sidecar
    if not sidecar:
        return
    pods = {"client": deployed.client, "server": deployed.server}
    without = [role for role, pod in pods.items() if not _has_container(pod, sidecar)]
    if without:
        raise _unproven(
            deployed, f"no {sidecar} was injected into the pod of the {' and of the '.join(without)}"
        )


def _unproven(deployed: Deployed, seen: str) -> UnprovenState:
    arm = f"{deployed.mesh.name}/{deployed.configuration}"
    return UnprovenState(
        f"{arm} is installed but not in the state it claims, so it is not measured ({credentials.redact(seen)})"
    )


def read_counters(cluster: Cluster, deployed: Deployed) -> dict[str, ProxyCounters]:
    """Return the counters of the proxies by role, of every side of the path that has one."""
    readers = _readers(cluster, deployed)
    return {
        role: deployed.mesh.read_counters(readers[role], deployed.configuration, role)
        for role in deployed.mesh.proxied_sides(deployed.configuration)
    }


def prove(
    cluster: Cluster,
    deployed: Deployed,
    before: Mapping[str, ProxyCounters],
    sent: Sent,
    began_s: float | None = None,
    settle_s: float | None = None,
) -> Proof:
    """Return the proof for the load sent since `before` was read.

    Parameters
    ----------
    before : mapping of str to ProxyCounters
        `read_counters` before the load.
    sent : Sent
        What the load generator sent since.
    began_s : float, optional
        When `before` was read (`time.monotonic`): since then the proxies must have been scraped as often as the
        interval says. Left out, they must have been scraped at all.
    settle_s : float, optional
        How long the counters may take to agree with what was sent; `COUNTERS_SETTLE_S` if left out.
    """
    mesh, configuration = deployed.mesh, deployed.configuration
    sidecars = {
        "client": _has_container(deployed.client, mesh.sidecar),
        "server": _has_container(deployed.server, mesh.sidecar),
    }
    declared = mesh.protocol(configuration)
    deadline = time.monotonic() + (COUNTERS_SETTLE_S if settle_s is None else settle_s)
    after: Mapping[str, ProxyCounters] = {}
    checks: tuple[Check, ...] = ()
    while before:
        after = read_counters(cluster, deployed)
        checks = check_path(mesh, configuration, sidecars, before, after, sent)
        if mesh.metrics(configuration):
            last_s = SCRAPED_WITHIN_S if began_s is None else time.monotonic() - began_s
            least = 1 if began_s is None else int(last_s // SCRAPE_INTERVAL_S)
            checks += scrape_checks(prometheus.scraped(cluster, deployed.namespace, last_s), max(1, least))
        if all(check.passed for check in checks) or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    # After the counters are read, so that these requests are not among those of the load.
    checks += tuple(_try(cluster, deployed, trial) for trial in mesh.trials(deployed.setting))
    as_declared = all(check.passed for check in checks if check.name.startswith("handled as"))
    return Proof(
        sent,
        {role: counted(before[role], after[role]) for role in after},
        mesh.expects_tls(configuration),
        sum(count.tls_handshakes for count in after.values()) if after else None,
        declared if as_declared else {"http": "tcp", "tcp": "http"}[declared],
        sidecars,
        (
            *checks,
            *pod_checks(mesh, configuration, deployed.client, deployed.server),
            *mesh.further_checks(_readers(cluster, deployed), configuration),
        ),
    )


def pod_checks(
    mesh: Mesh, configuration: str, client: Mapping[str, Any], server: Mapping[str, Any]
) -> tuple[Check, ...]:
    """Return the checks of what is seen on the two pods: proxies that belong there, and none that do not."""
    pods = {"client": client, "server": server}
    checks = []
    if mesh.sidecar is None:
        extra = {role: _containers(pod)[1:] for role, pod in pods.items()}
        none = not any(extra.values())
        checks.append(
            Check("no sidecar", none, "one container in each pod" if none else f"also found {extra}")
        )
    key, value = REDIRECTED
    redirected = {role: _annotation(pod, key) == value for role, pod in pods.items()}
    if mesh.redirected:
        checks.append(
            Check("redirected to the node's proxy", all(redirected.values()), f"{key}: {redirected}")
        )
    elif any(redirected.values()):
        detail = f"a proxy outside the pods takes their traffic ({key}: {redirected})"
        checks.append(Check("no transparent proxy", False, detail))
    if wanted := mesh.placement(configuration):
        nodes = [pod["spec"]["nodeName"] for pod in pods.values()]
        same = nodes[0] == nodes[1]
        detail = (
            "client and server run on the same node" if same else "client and server run on different nodes"
        )
        checks.append(Check(f"placed on {wanted.replace('-', ' ')}", same == (wanted == "same-node"), detail))
    return tuple(checks)


def _readers(cluster: Cluster, deployed: Deployed) -> dict[str, _PodReader]:
    return {role: _PodReader(cluster, deployed.namespace, deployed.pod_name(role)) for role in ROLES}


def _annotation(pod: Mapping[str, Any], key: str) -> str | None:
    return (pod["metadata"].get("annotations") or {}).get(key)


def _try(cluster: Cluster, deployed: Deployed, trial: Trial) -> Check:
    """Send one request besides the load and return whether it was answered as it must be."""
    url = urljoin(deployed.url, trial.path)
    argv = fortio.build_single_argv(url, trial.headers, _PROBE_LOAD.timeout_s)
    (status,) = fortio.read_result(_send(cluster, deployed, argv)).return_codes
    wanted = " or ".join(str(number) for number in sorted(trial.statuses))
    detail = f"{status} instead of {wanted}" if int(status) not in trial.statuses else f"HTTP {status}"
    return Check(trial.name, int(status) in trial.statuses, detail)


def _send(cluster: Cluster, deployed: Deployed, argv: list[str]) -> bytes:
    """Run the load generator in the client's pod and return its result."""
    pod = deployed.pod_name("client")
    return cluster.execute(deployed.namespace, pod, echo.CONTAINER, argv, SEND_TIMEOUT_S)[0]


def _containers(pod: Mapping[str, Any]) -> list[str]:
    # A sidecar may be an init container that goes on running.
    spec = pod["spec"]
    running = [c["name"] for c in spec.get("initContainers", []) if c.get("restartPolicy") == "Always"]
    return [c["name"] for c in spec["containers"]] + running


def _has_container(pod: Mapping[str, Any], name: str | None) -> bool:
    return name is not None and name in _containers(pod)
