"""Bring a cluster to a wanted state.

`ensure` compares the wanted state's hash with the one annotated on the workload's namespace. If they differ it removes
what we own, installs what is wanted, waits with deadlines, and has the state proven (see `proof`). Only then is the
namespace annotated; a crash before that means a fresh start.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from meshperf.errors import MeshperfError
from meshperf.meshes import get as get_mesh
from meshperf.meshes.base import Manifest, Mesh, Setting
from meshperf.testbed import proof
from meshperf.testbed.client import Cluster
from meshperf.testbed.proof import Deployed
from meshperf.testbed.removal import CLUSTER_KINDS, OWNED_LABEL, start_removal, wait_until_gone
from meshperf.testbed.surroundings import refuse_placement
from meshperf.workloads import echo, prometheus

STATE_ANNOTATION = "meshperf.dev/state"
INSTALL_TIMEOUT_S = 180
#: Added where images come from a registry: the first deployment of a mesh waits for them.
PULL_TIMEOUT_S = 420
#: Cluster-wide kinds that do nothing on their own: they can be applied while the mesh's namespace is still ending.
_INERT_KINDS = {"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
_CLUSTER_WIDE_KINDS = {kind for _, kind in CLUSTER_KINDS}
#: What of a readiness probe says how to ask, not when.
_PROBE_FIELDS = {"httpGet", "tcpSocket", "exec", "grpc", "timeoutSeconds"}
#: Group of definitions that belong to no mesh: one that is on the cluster already is used as it is.
_SHARED_GROUP = ".gateway.networking.k8s.io"

Progress = Callable[[str], None]


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
        Called before anything is installed: makes the images available, or refuses the cluster.

    Raises
    ------
    MeshperfError
        If the arm cannot be measured on this cluster.
    InfrastructureError
        If the cluster does not do its part in time.
    UnprovenState
        If it did, but the load does not take the path that the arm claims.
    """
    mesh = get_mesh(mesh_name)
    refuse_placement(mesh, configuration, workload["placement"])
    timeout_s = INSTALL_TIMEOUT_S + (PULL_TIMEOUT_S if image_source == "registry" else 0)
    namespace = f"meshperf-{mesh_name}-{configuration}-{block:02d}-{deployment}"
    control_plane = [
        _owned(m) for m in _with_namespaces(mesh.control_plane(configuration, image_source), mesh)
    ]
    setting = Setting(configuration, namespace, image_source, campaign)
    echoes = echo.manifests(namespace, image_source, mesh.pod_annotations(configuration), **workload)
    target = mesh.metrics(configuration)
    scraper = prometheus.manifests(namespace, image_source, target) if target else []
    workloads = [_owned(m) for m in (*scraper, *mesh.policies(setting), *mesh.adapt(echoes, setting))]
    wanted = _state_hash([campaign, mesh_name, configuration, block, deployment, control_plane, workloads])
    present = cluster.get("v1", "Namespace", namespace)
    annotations = ((present or {}).get("metadata", {}).get("annotations")) or {}
    if annotations.get(STATE_ANNOTATION) == wanted and (pods := _healthy_pods(cluster, namespace)):
        return Deployed(mesh, setting, *pods, fresh=False, install_s={})

    control_plane = [m for m in control_plane if not _is_shared(cluster, m)]
    _refuse_foreign(cluster, [*control_plane, _namespace(namespace, {}), *scraper])
    prepare()
    parts: dict[str, float] = {}
    clock = _Stopwatch(parts)
    start_removal(cluster)
    clock.lap("remove")
    progress(f"deploying {mesh_name}/{configuration}, block {block}, deployment {deployment}")
    everywhere = [m for m in control_plane if "namespace" not in m["metadata"] and m["kind"] in _INERT_KINDS]
    cluster.apply(everywhere, timeout_s)
    beside = [prometheus.namespace_beside(namespace)] if target else []
    wait_until_gone(cluster, [*mesh.control_plane_namespaces, namespace, *beside])
    cluster.apply([m for m in control_plane if m not in everywhere], timeout_s)
    for kind, control_namespace, name in (
        *(("Deployment", *where) for where in mesh.control_plane_deployments),
        *mesh.control_plane_sets,
    ):
        cluster.wait_for_rollout(kind, control_namespace, name, timeout_s)
    clock.lap("control_plane")
    labels, enrolment = mesh.namespace_labels(configuration), mesh.namespace_annotations(configuration)
    cluster.apply([_owned(_namespace(namespace, labels, enrolment))])
    *others, client = workloads
    cluster.apply(others, timeout_s)
    # The client is placed relative to the server; asked too early, the scheduler waits a second before it tries again.
    cluster.wait("the server's placement", lambda: _is_placed(cluster, namespace, "server"), timeout_s)
    cluster.apply([client])
    for name in ("server", "client"):
        cluster.wait_for_rollout("Deployment", namespace, name, timeout_s)
    for name in beside:
        cluster.wait_for_rollout("Deployment", name, prometheus.CONTAINER, timeout_s)
    pods = cluster.wait("both pods ready", lambda: _healthy_pods(cluster, namespace), timeout_s)
    clock.lap("workloads")
    deployed = Deployed(mesh, setting, *pods, fresh=True, install_s=parts)
    proof.probe(cluster, deployed)
    clock.lap("proof")
    cluster.apply([_owned(_namespace(namespace, labels, {**enrolment, STATE_ANNOTATION: wanted}))])
    return deployed


def _is_shared(cluster: Cluster, manifest: Manifest) -> bool:
    """Return whether this is a definition that somebody else has installed for whoever needs it."""
    name = manifest["metadata"]["name"]
    if manifest["kind"] != "CustomResourceDefinition" or not name.endswith(_SHARED_GROUP):
        return False
    found = cluster.get(manifest["apiVersion"], manifest["kind"], name)
    return found is not None and not _is_ours(found)


def _is_ours(found: Manifest) -> bool:
    return (found["metadata"].get("labels") or {}).get(OWNED_LABEL) == "true"


def _refuse_foreign(cluster: Cluster, manifests: Iterable[Manifest]) -> None:
    """Refuse to touch what somebody else has installed: applying it would make it ours, and we remove what is ours."""
    for manifest in manifests:
        metadata = manifest["metadata"]
        if "namespace" in metadata:
            continue
        found = cluster.get(manifest["apiVersion"], manifest["kind"], metadata["name"])
        if found and not _is_ours(found):
            raise MeshperfError(
                f"{manifest['kind']} {metadata['name']} exists and is not meshperf's, so it is left alone: "
                "remove what is installed there, or name another cluster"
            )


def _with_namespaces(manifests: Iterable[Manifest], mesh: Mesh) -> list[Manifest]:
    """Return the control plane in an order that can be applied: namespaces and definitions first."""
    order = {"Namespace": 0, "CustomResourceDefinition": 1, "ServiceAccount": 2}
    listed = [_adapted(m) for m in manifests]
    rendered = {m["metadata"]["name"]: m for m in listed if m["kind"] == "Namespace"}
    own = [rendered.get(name) or _namespace(name, {}) for name in mesh.control_plane_namespaces]
    others = [m for m in listed if m["kind"] != "Namespace"]
    return sorted([*own, *others], key=lambda m: order.get(m["kind"], 3))


def _adapted(manifest: Manifest) -> Manifest:
    """Return a control plane's manifest as it is applied."""
    if manifest["kind"] in _CLUSTER_WIDE_KINDS:
        # Some charts give these a namespace, which they cannot have.
        metadata = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
        return {**manifest, "metadata": metadata}
    if manifest["kind"] == "Deployment":
        manifest = deepcopy(manifest)
        for container in manifest["spec"]["template"]["spec"]["containers"]:
            _ask_often_at_start(container)
    return manifest


def _ask_often_at_start(container: dict[str, Any]) -> None:
    """Ask a container every second whether it is ready, but only until it is: nothing more happens while we measure.

    Kubernetes' own ten seconds between two questions would be most of the time that a control plane takes to start.
    """
    probe = container.get("readinessProbe")
    if probe and "startupProbe" not in container:
        how = {key: value for key, value in probe.items() if key in _PROBE_FIELDS}
        container["startupProbe"] = {**how, "periodSeconds": 1, "failureThreshold": INSTALL_TIMEOUT_S}
        probe.pop("initialDelaySeconds", None)


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


class _Stopwatch:
    """Writes the seconds since the last lap into a dictionary."""

    def __init__(self, parts: dict[str, float]) -> None:
        self._parts, self._last = parts, time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self._parts[name] = round(now - self._last, 3)
        self._last = now
