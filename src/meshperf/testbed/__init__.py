"""Testbeds: a cluster of the user's, one of `kind`, or the embedded one, all measured in the same way.

The order of preference: the kubeconfig context that the study or ``MESHPERF_CONTEXT`` names; kind where a Docker engine
answers; the embedded cluster. Nothing acts on a context that nobody named.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meshperf.errors import MeshperfError

if TYPE_CHECKING:
    from meshperf.study import Study
    from meshperf.testbed.client import Cluster

Progress = Callable[[str], None]
#: What whoever holds the lock on the cache is doing: one process measures at a time on a machine.
MEASURING = "measuring with"
#: (namespace, pod, container) -> (throttled periods, periods)
Throttling = Mapping[tuple[str, str, str], tuple[int, int]]


@dataclass(frozen=True)
class Testbed:
    """A cluster to measure on.

    Attributes
    ----------
    kind : {"context", "kind", "embedded"}
        How it came to be.
    context : str or None
        The kubeconfig context that the user named.
    cluster : Cluster
        The client.
    image_source : {"local", "registry"}
        Where its images come from.
    """

    kind: str
    context: str | None
    cluster: "Cluster"
    image_source: str

    def prepare(self, mesh: str, configuration: str, progress: Progress) -> None:
        """Make sure that the images of an arm can be had, and that the cluster is what the arm needs.

        Raises
        ------
        MeshperfError
            If they cannot, as the embedded cluster has no registry, or if it is not.
        """
        from meshperf import meshes

        if self.kind == "embedded":
            from meshperf.testbed.embedded import cluster as embedded

            if not meshes.supports(mesh, configuration, embedded=True):
                raise MeshperfError(
                    f"{mesh}/{configuration} needs images from a registry, which the embedded cluster does not have: "
                    "name a cluster with access to the internet (MESHPERF_CONTEXT), or leave the arm out"
                )
            images = list(meshes.get(mesh).images(configuration, progress))
            if meshes.get(mesh).metrics(configuration):
                from meshperf.workloads import prometheus

                images.append(prometheus.image(progress))
            embedded.load_images(images, progress)
        meshes.get(mesh).check_cluster(self.cluster, configuration)

    def recover(self, progress: Progress) -> None:
        """Start again what died of the embedded cluster; others are only waited for."""
        if self.kind == "embedded":
            from meshperf.testbed.embedded import cluster as embedded

            embedded.up(progress)

    def throttling(self, pods: Iterable[Mapping[str, Any]]) -> Throttling:
        """Return the throttling counters of the pods' containers; empty where the nodes offer none."""
        pods = list(pods)
        if self.kind == "embedded":
            from meshperf.testbed.embedded import cluster as embedded

            return embedded.throttling(_container_ids(pods))
        from meshperf.resources import cadvisor_throttling

        found: dict = {}
        for node in {pod["spec"]["nodeName"] for pod in pods}:
            text = self.cluster.get_raw(f"/api/v1/nodes/{node}/proxy/metrics/cadvisor").decode()
            found.update(cadvisor_throttling(text))
        return found

    def description(self) -> dict[str, str]:
        """Return how the testbed came to be, for the records. A context's name may name its owner: it is not kept."""
        return {"kind": self.kind, "image_source": self.image_source}


def connect(study: "Study | None" = None, progress: Progress = lambda line: None) -> Testbed:
    """Return the testbed of a study, started if it is a local one.

    Parameters
    ----------
    study : Study, optional
        Names the testbed; without one the order of preference decides.
    progress : callable
        Takes a line of text before anything slow.

    Raises
    ------
    MeshperfError
        If the named context cannot be used, or no cluster can be had: the message says which way is nearest.
    """
    from meshperf.testbed.client import Cluster

    kind, context = _choose(study)
    if kind == "context":
        cluster = Cluster(context=context)
        if not cluster.is_ready():
            raise MeshperfError(
                f"the cluster of context {context!r} does not answer: check `kubectl --context {context} get nodes`"
            )
        return Testbed("context", context, cluster, "registry")
    if kind == "kind":
        from meshperf.testbed import kind as kind_cluster

        if not kind_cluster.running():
            progress("creating a cluster with kind")
        return Testbed("kind", None, Cluster(kind_cluster.up()), "registry")
    from meshperf.testbed.embedded import cluster as embedded

    if embedded.running():
        return Testbed("embedded", None, Cluster(embedded.kubeconfig()), "local")
    return Testbed("embedded", None, embedded.up(progress), "local")


def up(study: "Study | None" = None, progress: Progress = print) -> str:
    """Start the cluster, or what is missing of it, and return a line that describes it."""
    kind, _ = _choose(study)
    if kind == "embedded":
        from meshperf.testbed.embedded import cluster as embedded

        embedded.up(progress)
    testbed = connect(study, progress)
    for arm in study.arms_expanded if study else ():
        from meshperf.meshes import get as get_mesh
        from meshperf.testbed.surroundings import refuse_placement

        refuse_placement(get_mesh(arm.mesh), arm.configuration, study.workload.placement)
        testbed.prepare(arm.mesh, arm.configuration, progress)
    return _describe(testbed)


def status(study: "Study | None" = None) -> str:
    """Return what runs, without starting anything."""
    kind, _ = _choose(study)
    if kind == "context":
        return _describe(connect(study))
    if kind == "kind":
        from meshperf.testbed import kind as kind_cluster

        return (
            _describe(connect(study))
            if kind_cluster.running()
            else "no cluster runs: `make cluster` creates one with kind"
        )
    from meshperf.testbed.embedded import cluster as embedded

    if embedded.running():
        return _describe(connect(study))
    return "no cluster runs: `make cluster` starts the embedded one"


def down(study: "Study | None" = None) -> str:
    """Remove the local cluster; from a named one, only what meshperf put there."""
    kind, context = _choose(study, check=False)
    if kind == "context":
        from meshperf.testbed.removal import remove_all

        remove_all(connect(study).cluster)
        return (
            f"removed what meshperf had put into the cluster of context {context}; the cluster itself stays"
        )
    if kind == "kind":
        from meshperf.testbed import kind as kind_cluster

        kind_cluster.down()
    from meshperf.testbed.embedded import cluster as embedded

    if os.geteuid() == 0:
        embedded.down()
    return "the local cluster is removed"


def clean(study: "Study | None" = None) -> bool:
    """Remove our workloads and meshes from the cluster of a study, if it runs; return whether anything was done.

    Starts nothing, and does nothing while another process measures.
    """
    from meshperf import storage
    from meshperf.paths import cache_dir
    from meshperf.testbed import kind as kind_cluster
    from meshperf.testbed.embedded import cluster as embedded

    kind, _ = _choose(study, check=False)
    if not {"context": lambda: True, "kind": kind_cluster.running, "embedded": embedded.running}[kind]():
        return False
    from meshperf.testbed.removal import remove_all

    cache_dir().mkdir(parents=True, exist_ok=True)
    try:
        with storage.exclusive(cache_dir(), MEASURING):
            remove_all(connect(study).cluster)
    except storage.InUse:
        return False
    return True


def obstacles() -> dict[str, str]:
    """Return, for each way to a cluster that is not open on this machine, what is in the way; the nearest way first."""
    from meshperf.testbed import kind as kind_cluster
    from meshperf.testbed.embedded import cluster as embedded

    found = {}
    if not os.environ.get("MESHPERF_CONTEXT"):
        found["context"] = (
            "name a kubeconfig context: MESHPERF_CONTEXT=<name> (`kubectl config get-contexts` lists them)"
        )
    if not kind_cluster.docker_answers():
        found["kind"] = (
            "no Docker engine answers: install or start Docker, and kind (https://kind.sigs.k8s.io)"
        )
    elif not kind_cluster.available():
        found["kind"] = "Docker answers, but `kind` is not on the PATH: install it (https://kind.sigs.k8s.io)"
    if blocked := embedded.obstacles():
        found["embedded"] = f"the embedded cluster: {'; '.join(blocked)}"
    return dict(sorted(found.items(), key=lambda item: _distance(*item)))


def _distance(way: str, obstacle: str) -> int:
    if way == "embedded":  # one missing package is nearer than another operating system
        return 1 if "packages are missing" in obstacle and ";" not in obstacle else 3
    return {"kind": 0 if obstacle.startswith("Docker answers") else 2, "context": 4}[way]


def _choose(study: "Study | None", check: bool = True) -> tuple[str, str | None]:
    """Return which way to a cluster is taken, and the context if one was named."""
    from meshperf.testbed import kind as kind_cluster
    from meshperf.testbed.embedded import cluster as embedded

    wanted = study.testbed.kind if study else "auto"
    context = (study.testbed.context if study else None) or os.environ.get("MESHPERF_CONTEXT")
    if wanted == "context" or (wanted == "auto" and context):
        if not context:
            raise MeshperfError(
                "the study asks for a context and names none: set testbed.context or MESHPERF_CONTEXT"
            )
        return "context", context
    if wanted == "kind" or (wanted == "auto" and kind_cluster.available()):
        if check and not kind_cluster.available():
            raise MeshperfError(f"the study asks for kind, but {obstacles()['kind']}")
        return "kind", None
    if check and embedded.obstacles():
        ways = obstacles()
        nearest, *others = [text for way, text in ways.items()]
        raise MeshperfError(
            f"no cluster can be had on this machine; nearest: {nearest}. Otherwise: {'; or '.join(others)}. "
            "`make report` needs no cluster"
        )
    return "embedded", None


def _describe(testbed: Testbed) -> str:
    nodes = testbed.cluster.list_objects("v1", "Node")
    ready = sum(
        any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
        for node in nodes
    )
    return (
        f"{testbed.kind} cluster, Kubernetes {testbed.cluster.version()}, {ready} of {len(nodes)} nodes ready"
    )


def _container_ids(pods: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], str]:
    found = {}
    for pod in pods:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        status = pod.get("status", {})
        for entry in [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]:
            if entry.get("containerID"):
                found[namespace, name, entry["name"]] = entry["containerID"].split("//")[-1]
    return found
