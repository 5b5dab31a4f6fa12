"""Bring a cluster to a wanted state, and prove that it is there.

`ensure` compares the wanted state's hash with the one annotated on the workload's namespace. If they differ it removes
what we own, installs what is wanted, waits with deadlines, and sends a few requests to prove from the proxies' own
counters that the state is real. Only then is the namespace annotated; a crash before that means a fresh start.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from meshperf.errors import MeshperfError
from meshperf.loadgen import fortio
from meshperf.meshes import get as get_mesh
from meshperf.meshes.base import Manifest, Mesh, ProxyCounters
from meshperf.testbed.client import Cluster, InfrastructureError
from meshperf.workloads import echo

#: On everything that we apply; nothing without it is ever removed.
OWNED_LABEL = "meshperf.dev/owned"
STATE_ANNOTATION = "meshperf.dev/state"
INSTALL_TIMEOUT_S = 180
#: Definitions that are deleted within a second of their making take the API server some two minutes.
REMOVE_TIMEOUT_S = 300
#: The proxies count a request when it ends; the last ones may be a moment behind the load generator.
COUNTERS_SETTLE_S = 5
#: Share by which the proxies' count may differ from the load generator's.
COUNT_TOLERANCE = 0.01
PROBE_RPS = 160
PROBE_DURATION_S = 0.25

Progress = Callable[[str], None]


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
class Check:
    """One thing that was looked at: its name, whether it is as wanted, and what was seen."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Proof:
    """What shows that the load took the path that the arm claims.

    Attributes
    ----------
    sent : int
        Requests that the load generator sent.
    client_proxy, server_proxy : int or None
        Requests that the two sidecars counted in the same time; None without sidecars.
    tls_handshakes : int or None
        Handshakes completed by both sidecars since they started.
    checks : tuple of Check
        All that was looked at.
    """

    sent: int
    client_proxy: int | None
    server_proxy: int | None
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
        """Return the proof as the run's record holds it."""
        return {
            "sidecar": dict(self.sidecars),
            "requests": {
                "sent": self.sent,
                "client_proxy": self.client_proxy,
                "server_proxy": self.server_proxy,
            },
            "tls": {"expected": self.tls_expected, "handshakes": self.tls_handshakes},
            "protocol": self.protocol,
            "passed": self.passed,
            "checks": [asdict(check) for check in self.checks],
        }


@dataclass(frozen=True)
class Deployed:
    """Workloads of one arm, ready and proven.

    Attributes
    ----------
    client, server : dict
        The two pods as the API server describes them.
    fresh : bool
        Whether this call made them.
    install_s : dict
        Seconds spent per part of making them; empty if they were there.
    """

    mesh: Mesh
    configuration: str
    namespace: str
    client: dict
    server: dict
    fresh: bool
    install_s: Mapping[str, float]

    @property
    def url(self) -> str:
        """Where the load generator sends its requests."""
        return f"http://{echo.SERVICE}:{echo.PORT}/"

    def pod_name(self, role: str) -> str:
        """Return the name of the client's or the server's pod."""
        return (self.client if role == "client" else self.server)["metadata"]["name"]


def ensure(
    cluster: Cluster,
    campaign: str,
    mesh_name: str,
    configuration: str,
    block: int,
    deployment: int,
    workload: Mapping[str, Any],
    image_source: str,
    progress: Progress = lambda line: None,
    prepare: Callable[[], None] = lambda: None,
) -> Deployed:
    """Bring the cluster to the state of one deployment and return it; idempotent.

    Parameters
    ----------
    cluster : Cluster
        Where.
    campaign : str
        Whose deployment it is: one campaign never measures what another has used.
    mesh_name, configuration : str
        The arm.
    block, deployment : int
        Which of the arm's deployments: each is made afresh.
    workload : mapping
        Keyword arguments of `meshperf.workloads.echo.manifests` from ``server_limits`` on.
    image_source : {"local", "registry"}
        Where images come from.
    progress : callable
        Takes a line of text before anything slow.
    prepare : callable
        Called before anything is installed: makes the images available.

    Raises
    ------
    InfrastructureError
        If the cluster does not do its part in time.
    UnprovenState
        If it did, but the load does not take the path that the arm claims.
    """
    mesh = get_mesh(mesh_name)
    namespace = f"meshperf-{mesh_name}-{configuration}-{block:02d}-{deployment}"
    control_plane = [
        _owned(m) for m in _with_namespaces(mesh.control_plane(configuration, image_source), mesh)
    ]
    workloads = [
        _owned(m)
        for m in (
            *mesh.policies(configuration, namespace),
            *echo.manifests(namespace, image_source, mesh.pod_annotations(configuration), **workload),
        )
    ]
    wanted = _state_hash([campaign, mesh_name, configuration, block, deployment, control_plane, workloads])
    present = cluster.get("v1", "Namespace", namespace)
    annotations = ((present or {}).get("metadata", {}).get("annotations")) or {}
    if annotations.get(STATE_ANNOTATION) == wanted and (pods := _healthy_pods(cluster, namespace)):
        return Deployed(mesh, configuration, namespace, *pods, fresh=False, install_s={})

    _refuse_foreign(cluster, [*control_plane, _namespace(namespace, {})])
    prepare()
    parts: dict[str, float] = {}
    clock = _Stopwatch(parts)
    start_removal(cluster)
    clock.lap("remove")
    progress(f"deploying {mesh_name}/{configuration}, block {block}, deployment {deployment}")
    everywhere = [m for m in control_plane if "namespace" not in m["metadata"] and m["kind"] in _INERT_KINDS]
    cluster.apply(everywhere, INSTALL_TIMEOUT_S)
    wait_until_gone(cluster, [*mesh.control_plane_namespaces, namespace])
    cluster.apply([m for m in control_plane if m not in everywhere], INSTALL_TIMEOUT_S)
    for control_namespace, name in mesh.control_plane_deployments:
        cluster.wait_for_deployments(control_namespace, [name], INSTALL_TIMEOUT_S)
    clock.lap("control_plane")
    labels = mesh.namespace_labels(configuration)
    cluster.apply([_owned(_namespace(namespace, labels))])
    *others, client = workloads
    cluster.apply(others, INSTALL_TIMEOUT_S)
    # The client is placed relative to the server; asked too early, the scheduler waits a second before it tries again.
    cluster.wait(
        "the server's placement", lambda: _is_placed(cluster, namespace, "server"), INSTALL_TIMEOUT_S
    )
    cluster.apply([client])
    cluster.wait_for_deployments(namespace, ["server", "client"], INSTALL_TIMEOUT_S)
    pods = cluster.wait("both pods ready", lambda: _healthy_pods(cluster, namespace), INSTALL_TIMEOUT_S)
    clock.lap("workloads")
    deployed = Deployed(mesh, configuration, namespace, *pods, fresh=True, install_s=parts)
    probe(cluster, deployed)
    clock.lap("proof")
    cluster.apply([_owned(_namespace(namespace, labels, {STATE_ANNOTATION: wanted}))])
    return deployed


def probe(cluster: Cluster, deployed: Deployed, timeout_s: float = 30) -> Proof:
    """Send a few requests and return the proof of their path.

    Raises
    ------
    UnprovenState
        If they do not take the path that the arm claims within `timeout_s`: each failed check is named.
    """
    deadline = time.monotonic() + timeout_s
    argv = fortio.build_argv(_PROBE_LOAD, target_rps=PROBE_RPS, url=deployed.url, duration_s=PROBE_DURATION_S)
    while True:
        before = read_counters(cluster, deployed)
        try:
            output, _ = cluster.execute(
                deployed.namespace, deployed.pod_name("client"), echo.CONTAINER, argv, 30
            )
            result = fortio.read_result(output)
            failed = result.n - result.return_codes.get("200", 0)
            proof = prove(cluster, deployed, before, requests_sent(result))
            trouble = f"{failed} of {result.n} requests failed" if failed else ""
        except InfrastructureError:
            raise
        except MeshperfError as error:  # a proxy may refuse its first connections
            proof, trouble = None, str(error)
        if proof and proof.passed and not trouble:
            return proof
        if time.monotonic() > deadline:
            failed_checks = [c for c in (proof.checks if proof else ()) if not c.passed]
            seen = "; ".join(
                [*([trouble] if trouble else []), *(f"{c.name}: {c.detail}" for c in failed_checks)]
            )
            raise UnprovenState(
                f"{deployed.mesh.name}/{deployed.configuration} is installed but not in the state it claims, "
                f"so it is not measured ({seen})"
            )
        time.sleep(0.2)


def requests_sent(result: fortio.FortioResult) -> int:
    """Return all requests of a run: fortio sends one more on each connection before it starts to count."""
    return result.n + result.connections


def read_counters(cluster: Cluster, deployed: Deployed) -> dict[str, ProxyCounters]:
    """Return the counters of both sidecars by role; empty without sidecars."""
    if deployed.mesh.sidecar is None:
        return {}
    return {
        role: deployed.mesh.read_counters(cluster.get_raw, deployed.namespace, deployed.pod_name(role), role)
        for role in ("client", "server")
    }


def prove(cluster: Cluster, deployed: Deployed, before: Mapping[str, ProxyCounters], sent: int) -> Proof:
    """Return the proof for requests sent since `before` was read.

    Parameters
    ----------
    before : mapping of str to ProxyCounters
        `read_counters` before the load.
    sent : int
        Requests that the load generator sent since, its unrecorded first ones included.
    """
    mesh = deployed.mesh
    sidecars = {
        "client": _has_container(deployed.client, mesh.sidecar),
        "server": _has_container(deployed.server, mesh.sidecar),
    }
    if mesh.sidecar is None:
        extra = {
            role: _containers(pod)[1:]
            for role, pod in (("client", deployed.client), ("server", deployed.server))
        }
        none = not any(extra.values())
        checks = (Check("no sidecar", none, "one container in each pod" if none else f"also found {extra}"),)
        return Proof(sent, None, None, False, None, "http", sidecars, checks)

    deadline = time.monotonic() + COUNTERS_SETTLE_S
    while True:
        after = read_counters(cluster, deployed)
        checks = _checks(mesh, deployed.configuration, sidecars, before, after, sent)
        if all(check.passed for check in checks) or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    client, server = (after[role].requests - before[role].requests for role in ("client", "server"))
    handshakes = after["client"].tls_handshakes + after["server"].tls_handshakes
    http = all(check.passed for check in checks if check.name == "handled as HTTP")
    return Proof(
        sent,
        client,
        server,
        mesh.expects_tls(deployed.configuration),
        handshakes,
        "http" if http else "tcp",
        sidecars,
        checks,
    )


def _checks(
    mesh: Mesh,
    configuration: str,
    sidecars: Mapping[str, bool],
    before: Mapping[str, ProxyCounters],
    after: Mapping[str, ProxyCounters],
    sent: int,
) -> tuple[Check, ...]:
    checks = [Check("sidecars present", all(sidecars.values()), f"{mesh.sidecar} in {sidecars}")]
    http_gaps = []
    for role in ("client", "server"):
        counted = after[role].requests - before[role].requests
        close = abs(counted - sent) <= max(1, COUNT_TOLERANCE * sent)
        checks.append(Check(f"load passed the {role}'s proxy", close, f"{counted} counted, {sent} sent"))
        http_gaps.append(counted - (after[role].http_requests - before[role].http_requests))
    as_http = all(abs(gap) <= max(1, COUNT_TOLERANCE * sent) for gap in http_gaps)
    checks.append(
        Check("handled as HTTP", as_http, f"requests not seen as HTTP (client, server): {http_gaps}")
    )
    handshakes = {role: after[role].tls_handshakes for role in ("client", "server")}
    connections = {role: after[role].connections for role in ("client", "server")}
    seen = f"{handshakes} handshakes on {connections} connections since the sidecars started"
    if mesh.expects_tls(configuration):
        # A client's connection that the server never answered has no handshake; one that the server took has.
        encrypted = all(handshakes.values()) and handshakes["server"] >= connections["server"]
        checks.append(Check("every connection is TLS", encrypted, seen))
    else:
        checks.append(Check("no connection is TLS", not any(handshakes.values()), seen))
    return tuple(checks)


def remove_all(cluster: Cluster) -> None:
    """Remove every workload and mesh that carries our label, and wait until all of it is gone.

    Raises
    ------
    InfrastructureError
        If something is still there after the deadline.
    """
    wait_until_gone(cluster, start_removal(cluster))


def start_removal(cluster: Cluster) -> list[str]:
    """Remove what carries our label, but leave its emptied namespaces to end on their own; return their names.

    When it returns no pod runs and nothing of ours acts on the cluster. The API server keeps a namespace that was
    deleted for five more seconds; whoever does not need the same name again need not wait for that.
    """
    owned = {OWNED_LABEL: "true"}
    namespaces = [n["metadata"]["name"] for n in cluster.list_objects("v1", "Namespace", selector=owned)]
    was_installed = [mesh for mesh in _all_meshes() if set(mesh.control_plane_namespaces) & set(namespaces)]
    # Webhooks first: without their servers they would hold up what follows.
    for api_version, kind in _CLUSTER_KINDS:
        cluster.delete(cluster.list_objects(api_version, kind, selector=owned))
    for namespace in namespaces:
        cluster.delete(cluster.list_objects("apps/v1", "Deployment", namespace))
    pods = [pod for namespace in namespaces for pod in cluster.list_objects("v1", "Pod", namespace)]
    cluster.delete(pods, grace_s=1)
    for namespace in namespaces:
        cluster.delete([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
    cluster.wait(
        "the end of the pods",
        lambda: not any(cluster.list_objects("v1", "Pod", n) for n in namespaces),
        REMOVE_TIMEOUT_S,
    )
    for mesh in was_installed:
        for api_version, kind, labels in mesh.leftovers():
            cluster.delete(cluster.list_objects(api_version, kind, selector=labels))
    cluster.wait(
        "the removal of the mesh's cluster-wide objects",
        lambda: not any(cluster.list_objects(api, kind, selector=owned) for api, kind in _CLUSTER_KINDS),
        REMOVE_TIMEOUT_S,
    )
    return namespaces


def wait_until_gone(cluster: Cluster, namespaces: Iterable[str]) -> None:
    """Wait until no namespace of these names is left."""
    for name in namespaces:
        cluster.wait(
            f"the removal of namespace {name}",
            lambda name=name: cluster.get("v1", "Namespace", name) is None,
            REMOVE_TIMEOUT_S,
        )


def _refuse_foreign(cluster: Cluster, manifests: Iterable[Manifest]) -> None:
    """Refuse to touch what somebody else has installed: applying it would make it ours, and we remove what is ours."""
    for manifest in manifests:
        metadata = manifest["metadata"]
        if "namespace" in metadata:
            continue
        found = cluster.get(manifest["apiVersion"], manifest["kind"], metadata["name"])
        if found and (found["metadata"].get("labels") or {}).get(OWNED_LABEL) != "true":
            raise MeshperfError(
                f"{manifest['kind']} {metadata['name']} exists and is not meshperf's, so it is left alone: "
                "remove what is installed there, or name another cluster"
            )


#: Cluster-wide kinds that do nothing on their own: they can be applied while the mesh's namespace is still ending.
_INERT_KINDS = {"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
#: Cluster-wide kinds that a mesh installs, in the order in which they are removed.
_CLUSTER_KINDS = (
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
)


def _all_meshes() -> list[Mesh]:
    from meshperf.meshes import SUPPORTED

    return [get_mesh(name) for name in SUPPORTED]


def _with_namespaces(manifests: Iterable[Manifest], mesh: Mesh) -> list[Manifest]:
    """Return the control plane in an order that can be applied: namespaces and definitions first."""
    order = {"Namespace": 0, "CustomResourceDefinition": 1, "ServiceAccount": 2}
    listed = [m for m in manifests if m["kind"] != "Namespace"]
    own = [_namespace(name, {}) for name in mesh.control_plane_namespaces]
    return sorted([*own, *listed], key=lambda m: order.get(m["kind"], 3))


def _namespace(
    name: str, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> Manifest:
    metadata: dict[str, Any] = {"name": name, "labels": dict(labels)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _owned(manifest: Manifest) -> Manifest:
    metadata = {**manifest["metadata"]}
    metadata["labels"] = {**(metadata.get("labels") or {}), OWNED_LABEL: "true"}
    return {**manifest, "metadata": metadata}


def _state_hash(parts: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _healthy_pods(cluster: Cluster, namespace: str) -> tuple[dict, dict] | None:
    """Return the client's and the server's pod if each is the only one, ready and never restarted."""
    pods = []
    for name in ("client", "server"):
        found = cluster.list_objects("v1", "Pod", namespace, {"app": name})
        if len(found) != 1 or not _is_ready(found[0]):
            return None
        pods.append(found[0])
    return pods[0], pods[1]


def _is_placed(cluster: Cluster, namespace: str, app: str) -> bool:
    return any(
        pod["spec"].get("nodeName") for pod in cluster.list_objects("v1", "Pod", namespace, {"app": app})
    )


def _is_ready(pod: Mapping[str, Any]) -> bool:
    status = pod.get("status", {})
    restarted = any(entry.get("restartCount") for entry in status.get("containerStatuses", []))
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))
    return ready and not restarted and not pod["metadata"].get("deletionTimestamp")


def _containers(pod: Mapping[str, Any]) -> list[str]:
    # A sidecar may be an init container that goes on running.
    spec = pod["spec"]
    running = [c["name"] for c in spec.get("initContainers", []) if c.get("restartPolicy") == "Always"]
    return [c["name"] for c in spec["containers"]] + running


def _has_container(pod: Mapping[str, Any], name: str | None) -> bool:
    return name is not None and name in _containers(pod)


class _Stopwatch:
    """Writes the seconds since the last lap into a dictionary."""

    def __init__(self, parts: dict[str, float]) -> None:
        self._parts, self._last = parts, time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self._parts[name] = round(now - self._last, 3)
        self._last = now
