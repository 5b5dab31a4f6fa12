"""What a mesh is to the rest of meshperf: manifests to apply, and counters that prove what happened.

A mesh is one module behind the protocol `Mesh`. It makes manifests (plain data, no cluster needed) and reads its own
proxies' counters; installing, waiting, removing and judging are the same for all and live elsewhere.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Manifest = Mapping[str, Any]
#: Reads a path below the API server and returns the body.
GetRaw = Callable[[str], bytes]


@dataclass(frozen=True)
class ProxyCounters:
    """What one sidecar has counted since it started.

    Attributes
    ----------
    requests : int
        Requests it forwarded between the load generator and the service under test.
    http_requests : int
        Those of them that it handled as HTTP; fewer than `requests` means that it saw TCP.
    connections : int
        Connections it opened (at the client) or took (at the server) on that path.
    tls_handshakes : int
        TLS handshakes completed on them.
    """

    requests: int
    http_requests: int
    connections: int
    tls_handshakes: int


class Mesh(Protocol):
    """A system under test."""

    #: Name as in studies and paths.
    name: str
    #: Name of the sidecar container; None for a mesh without sidecars.
    sidecar: str | None
    #: Namespaces of the control plane, made and removed with it.
    control_plane_namespaces: tuple[str, ...]
    #: Deployments to wait for, as (namespace, name).
    control_plane_deployments: tuple[tuple[str, str], ...]

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return what installs the mesh.

        Parameters
        ----------
        configuration : str
            Supported configuration.
        image_source : {"local", "registry"}
            Whether images are in the cluster's own store or come from the mesh's public registry.
        """
        ...

    def namespace_labels(self, configuration: str) -> Mapping[str, str]:
        """Return the labels that enrol a namespace."""
        ...

    def pod_annotations(self, configuration: str) -> Mapping[str, str]:
        """Return the annotations of an enrolled pod."""
        ...

    def policies(self, configuration: str, namespace: str) -> Sequence[Manifest]:
        """Return what configures the mesh for one namespace of workloads."""
        ...

    def leftovers(self) -> Sequence[tuple[str, str, Mapping[str, str]]]:
        """Return (apiVersion, kind, labels) of what the mesh itself makes outside its namespaces."""
        ...

    def expects_tls(self, configuration: str) -> bool:
        """Return whether requests between the sidecars are encrypted."""
        ...

    def read_counters(self, get_raw: GetRaw, namespace: str, pod: str, role: str) -> ProxyCounters:
        """Return what the sidecar of a pod has counted.

        Parameters
        ----------
        get_raw : callable
            Reads a path below the API server.
        namespace, pod : str
            The pod.
        role : {"client", "server"}
            Which side of the path it is on.
        """
        ...

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return the versions of the mesh and its proxy, for the run's record."""
        ...
