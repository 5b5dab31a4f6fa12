"""Take off a cluster what meshperf put there, and only that."""

from collections.abc import Collection, Iterable

from meshperf.meshes import SUPPORTED
from meshperf.meshes import get as get_mesh
from meshperf.meshes.base import Manifest, Mesh
from meshperf.testbed.client import Cluster

#: On everything that we apply; nothing without it is ever removed.
OWNED_LABEL = "meshperf.dev/owned"
#: Definitions that are deleted within a second of their making take the API server some two minutes.
REMOVE_TIMEOUT_S = 300
#: Cluster-wide kinds that a mesh installs, in the order in which they are removed.
CLUSTER_KINDS = (
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
)


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
    for api_version, kind in CLUSTER_KINDS[:2]:
        cluster.delete(cluster.list_objects(api_version, kind, selector=owned))
    _remove_from_nodes(cluster, namespaces)
    for api_version, kind in CLUSTER_KINDS[2:]:
        cluster.delete(cluster.list_objects(api_version, kind, selector=owned))
    for namespace in namespaces:
        for kind in ("Deployment", "StatefulSet"):
            cluster.delete(cluster.list_objects("apps/v1", kind, namespace))
    pods = [pod for namespace in namespaces for pod in cluster.list_objects("v1", "Pod", namespace)]
    cluster.delete(pods, grace_s=1)
    for namespace in namespaces:
        cluster.delete([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
    cluster.wait(
        "the end of the pods",
        lambda: not any(cluster.list_objects("v1", "Pod", n) for n in namespaces),
        REMOVE_TIMEOUT_S,
    )
    leftovers = [entry for mesh in was_installed for entry in mesh.leftovers()]
    for api_version, kind, labels in leftovers:
        cluster.delete(cluster.list_objects(api_version, kind, selector=labels))
    ours = [*((api_version, kind, owned) for api_version, kind in CLUSTER_KINDS), *leftovers]
    cluster.wait(
        "the removal of what the mesh had outside its namespaces",
        lambda: not any(cluster.list_objects(api, kind, selector=labels) for api, kind, labels in ours),
        REMOVE_TIMEOUT_S,
    )
    return namespaces


def _remove_from_nodes(cluster: Cluster, namespaces: Iterable[str]) -> None:
    """Remove what runs on every node, and wait until it has ended in its own time.

    It may have changed the node (Istio's agent puts itself into the node's network configuration) and takes that back
    when it ends, which needs its permissions, and no pod that still depends on it.
    """
    agents = [agent for n in namespaces for agent in cluster.list_objects("apps/v1", "DaemonSet", n)]
    if not agents:
        return
    users = [
        deployment for n in namespaces for deployment in cluster.list_objects("apps/v1", "Deployment", n)
    ]
    own = {agent["metadata"]["namespace"] for agent in agents}
    cluster.delete([user for user in users if user["metadata"]["namespace"] not in own])
    pods = [pod for n in namespaces if n not in own for pod in cluster.list_objects("v1", "Pod", n)]
    cluster.delete(pods, grace_s=1)
    cluster.wait(
        "the end of the workloads' pods",
        lambda: not any(cluster.list_objects("v1", "Pod", n) for n in namespaces if n not in own),
        REMOVE_TIMEOUT_S,
    )
    cluster.delete(agents)
    names = {(agent["metadata"]["namespace"], agent["metadata"]["name"]) for agent in agents}
    cluster.wait(
        f"the end of {', '.join(name for _, name in sorted(names))} on the nodes",
        lambda: not any(_is_of(pod, names) for n in own for pod in cluster.list_objects("v1", "Pod", n)),
        REMOVE_TIMEOUT_S,
    )


def _is_of(pod: Manifest, agents: Collection[tuple[str, str]]) -> bool:
    """Return whether a pod is one of a DaemonSet's."""
    owners = pod["metadata"].get("ownerReferences") or []
    namespace = pod["metadata"]["namespace"]
    return any(owner["kind"] == "DaemonSet" and (namespace, owner["name"]) in agents for owner in owners)


def wait_until_gone(cluster: Cluster, namespaces: Iterable[str]) -> None:
    """Wait until no namespace of these names is left."""
    for name in namespaces:
        cluster.wait(
            f"the removal of namespace {name}",
            lambda name=name: cluster.get("v1", "Namespace", name) is None,
            REMOVE_TIMEOUT_S,
        )


def _all_meshes() -> list[Mesh]:
    return [get_mesh(name) for name in SUPPORTED]
