"""What a mesh is to the rest of meshperf: manifests to apply, and counters that prove what happened.

A mesh is one module behind the protocol `Mesh`. It makes manifests (plain data, no cluster needed), says what its
images on the embedded cluster are made of, and reads its own proxies' counters; installing, waiting, removing and
judging are the same for all and live elsewhere. A mesh derives from `Mesh` and overrides what differs from no mesh at
all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from meshperf.testbed.embedded.builds import Progress
    from meshperf.testbed.embedded.images import Image

Manifest = Mapping[str, Any]


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


class PodReader(Protocol):
    """Reads a page that a pod serves, from outside the path of the load."""

    def through_api_server(self, port: int, path: str) -> str:
        """Return what the pod answers on a port of its own address."""
        ...

    def from_inside(self, port: int, path: str) -> str:
        """Return what the pod answers on a port of its loopback address, asked from the workload's container."""
        ...


@dataclass(frozen=True)
class ProxyCounters:
    """What one sidecar has counted since it started.

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
    """

    requests: int
    http_requests: int
    connections: int
    tls_handshakes: int
    request_bytes: int = 0
    response_bytes: int = 0


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

    def protocol(self, configuration: str) -> Literal["http", "tcp"]:
        """Return what the proxies take the load for: requests of HTTP, by default, or connections of TCP."""
        return "http"

    def other_sidecars(self, configuration: str) -> Sequence[str]:
        """Return the names of containers, besides the proxy, that the arm adds to pods; none by default."""
        return ()

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return what the proxy of a pod has counted.

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

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return the versions of the mesh and its proxy, and the module each is from, for the run's record."""
        return {}

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return what a reader must know of this arm beside every number: stored with each run and printed."""
        return ()
