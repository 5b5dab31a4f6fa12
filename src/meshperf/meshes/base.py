"""What a mesh is to the rest of meshperf: manifests to apply, and counters that prove what happened.

A mesh is one module behind the protocol `Mesh`. It makes manifests (plain data, no cluster needed), says what its
images on the embedded cluster are made of, and reads its own proxies' counters; installing, waiting, removing and
judging are the same for all and live elsewhere. A mesh derives from `Mesh` and overrides what differs from no mesh at
all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from meshperf.testbed.checks import Check
    from meshperf.testbed.client import Cluster
    from meshperf.testbed.embedded.builds import Progress
    from meshperf.testbed.embedded.images import Image

Manifest = Mapping[str, Any]
#: What Istio's agent on a node writes on a pod whose traffic it redirects to a proxy outside the pod.
REDIRECTED = ("ambient.istio.io/redirection", "enabled")


@dataclass(frozen=True)
class Setting:
    """What the manifests of one deployment depend on.

    Attributes
    ----------
    configuration : str
        A supported configuration of the mesh.
    namespace : str
        Where the workloads go.
    image_source : {"local", "registry"}
        Whether images are in the cluster's own store or come from public registries.
    campaign : str
        Whose deployment it is: names its tokens and certificates (see `meshperf.meshes.credentials`).
    """

    configuration: str
    namespace: str
    image_source: str
    campaign: str = "none"


#: How often proxies are scraped while a load runs.
SCRAPE_INTERVAL_S = 5


@dataclass(frozen=True)
class ScrapeTarget:
    """Where a proxy serves its statistics in Prometheus' format, on its pod's address and outside the load's path."""

    port: int
    path: str


@dataclass(frozen=True)
class Trial:
    """One request that shows whether a policy is on: what it carries, and how it must be answered.

    Attributes
    ----------
    name : str
        What is shown if the answer is as it must be.
    statuses : frozenset of int
        HTTP statuses of which the answer must have one.
    headers : mapping of str to str
        Of the request; they may hold secrets.
    path : str
        Relative to where the load goes.
    """

    name: str
    statuses: frozenset[int]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    path: str = ""


class PodReader(Protocol):
    """Reads what a pod serves or shows, from outside the path of the load."""

    #: The pod.
    namespace: str
    pod: str

    def through_api_server(self, port: int, path: str) -> str:
        """Return what the pod answers on a port of its own address."""
        ...

    def from_inside(self, port: int, path: str) -> str:
        """Return what the pod answers on a port of its loopback address, asked from the workload's container."""
        ...

    def run(self, container: str, command: Sequence[str]) -> str:
        """Return what a command prints in a container of the pod."""
        ...

    def on_same_node(self, namespace: str, labels: Mapping[str, str]) -> "PodReader":
        """Return the reader of the one pod with these labels on this pod's node: for proxies that pods share."""
        ...


@dataclass(frozen=True)
class ProxyCounters:
    """What one proxy has counted since it started.

    Attributes
    ----------
    requests : int
        Requests it forwarded between the load generator and the service under test; 0 if it handles TCP.
    http_requests : int
        Those of them that it handled as HTTP; fewer than `requests` means that it saw TCP.
    connections : int
        Connections it opened (at the client) or took (at the server) on that path.
    tls_handshakes : int
        TLS handshakes completed on them.
    request_bytes, response_bytes : int
        Bytes that it passed on to the service and back, before encryption. Only read where it handles TCP.
    packets : int
        Packets that passed it towards the service. Only read where it handles IP.
    encrypted_packets : int
        Packets that left or reached its node encrypted below TCP, as by WireGuard or IPsec.
    allowed : int
        Requests that the arm's policy let pass. Only read where one decides on every request.
    """

    requests: int
    http_requests: int
    connections: int
    tls_handshakes: int
    request_bytes: int = 0
    response_bytes: int = 0
    packets: int = 0
    encrypted_packets: int = 0
    allowed: int = 0


class Mesh(Protocol):
    """A system under test."""

    #: Name as in studies and paths.
    name: str
    #: Name of the proxy's container in each pod; None for a mesh without sidecars.
    sidecar: str | None = None
    #: Namespaces of the control plane, made and removed with it.
    control_plane_namespaces: tuple[str, ...] = ()
    #: Deployments to wait for, as (namespace, name).
    control_plane_deployments: tuple[tuple[str, str], ...] = ()
    #: DaemonSets and StatefulSets to wait for, as (kind, namespace, name).
    control_plane_sets: tuple[tuple[str, str, str], ...] = ()
    #: Whether pods must be `REDIRECTED`; on a pod of any other mesh that mark is a proxy in the way.
    redirected: bool = False

    def check_cluster(self, cluster: "Cluster", configuration: str) -> None:
        """Refuse a cluster that the arm cannot be measured on, before anything is installed; by default, none.

        Raises
        ------
        MeshperfError
            If something is missing or otherwise set: what, and how to change it.
        """

    def placement(self, configuration: str) -> Literal["same-node", "other-node"] | None:
        """Return where the load generator must run as seen from the service; by default None, for anywhere."""
        return None

    def images(self, configuration: str, progress: "Progress") -> "Sequence[Image]":
        """Return the images that the embedded cluster needs, with their programs built; none by default."""
        return ()

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return what installs the mesh; nothing by default.

        Parameters
        ----------
        configuration : str
            Supported configuration.
        image_source : {"local", "registry"}
            Whether images are in the cluster's own store or come from the mesh's public registry.
        """
        return ()

    def namespace_labels(self, configuration: str) -> Mapping[str, str]:
        """Return the labels that enrol a namespace; none by default."""
        return {}

    def namespace_annotations(self, configuration: str) -> Mapping[str, str]:
        """Return the annotations that enrol a namespace; none by default."""
        return {}

    def pod_annotations(self, configuration: str) -> Mapping[str, str]:
        """Return the annotations of an enrolled pod; none by default."""
        return {}

    def policies(self, setting: Setting) -> Sequence[Manifest]:
        """Return what configures the mesh for the workloads: applied once the control plane is ready, before them."""
        return ()

    def adapt(self, workloads: Sequence[Manifest], setting: Setting) -> Sequence[Manifest]:
        """Return the workloads as this mesh needs them: for annotations on a service, or sidecars that nobody injects.

        Parameters
        ----------
        workloads : sequence of manifests
            Of `meshperf.workloads.echo.manifests`: they are not changed in place.
        """
        return workloads

    def url(self, configuration: str) -> str:
        """Return where the load generator sends its requests; by default straight to the service."""
        return "http://server:8080/"

    def leftovers(self) -> Sequence[tuple[str, str, Mapping[str, str]]]:
        """Return (apiVersion, kind, labels) of what the mesh itself makes outside its namespaces."""
        return ()

    def expects_tls(self, configuration: str) -> bool:
        """Return whether requests between the proxies are encrypted; not by default."""
        return False

    def encrypts_packets(self, configuration: str) -> bool:
        """Return whether packets between nodes are encrypted below TCP; not by default."""
        return False

    def protocol(self, configuration: str) -> Literal["http", "tcp", "ip"]:
        """Return what the proxies take the load for: requests (the default), connections of TCP, or packets of IP."""
        return "http"

    def proxied_sides(self, configuration: str) -> Sequence[Literal["client", "server"]]:
        """Return the sides of the path that have a proxy which counts; by default both, if there are sidecars."""
        return ("client", "server") if self.sidecar else ()

    def roles(self, configuration: str) -> Mapping[tuple[str, str], str]:
        """Return (namespace, container) -> role (see `meshperf.resources.ROLES`) where the place does not tell it.

        These are proxies that pods share, and a control plane in namespaces that are not the mesh's own. An empty
        string stands for the namespace of the workloads.
        """
        return {}

    def request_headers(self, setting: Setting) -> Mapping[str, str]:
        """Return the headers that every request of the load carries, such as a token; none by default.

        They are not recorded.
        """
        return {}

    def decides(self, configuration: str) -> bool:
        """Return whether a policy at the server's proxy decides on every request; not by default.

        The server's `ProxyCounters.allowed` must then count them.
        """
        return False

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Return requests that show that a policy is on, sent besides the load; none by default."""
        return ()

    def metrics(self, configuration: str) -> ScrapeTarget | None:
        """Return what a Prometheus scrapes of both proxies while the load runs; nothing, by default, and so by none."""
        return None

    def other_sidecars(self, configuration: str) -> Sequence[str]:
        """Return the names of containers, besides the proxy, that the arm adds to pods; none by default."""
        return ()

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return what the proxy of a pod, or of its node, has counted.

        Parameters
        ----------
        reader : PodReader
            Of the pod.
        configuration : str
            What is deployed.
        role : {"client", "server"}
            Which side of the path the pod is on.
        """
        raise NotImplementedError(f"{self.name} has no proxies to ask")

    def further_checks(self, readers: Mapping[str, PodReader], configuration: str) -> "Sequence[Check]":
        """Return what else shows that the arm does what it claims; asked after each load, and nothing by default.

        Parameters
        ----------
        readers : mapping of str to PodReader
            Role ("client", "server") -> reader of the pod.
        configuration : str
            What is deployed.
        """
        return ()

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return the versions of the mesh and its proxy, and the module each is from, for the run's record."""
        return {}

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return what a reader must know of this arm beside every number: stored with each run and printed."""
        return ()
