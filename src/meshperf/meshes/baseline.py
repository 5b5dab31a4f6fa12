"""No mesh: the same workload on the same cluster with nothing in between."""

from collections.abc import Mapping, Sequence

from meshperf.meshes.base import GetRaw, Manifest, ProxyCounters


class Baseline:
    """The cluster without a mesh."""

    name = "baseline"
    sidecar = None
    control_plane_namespaces: tuple[str, ...] = ()
    control_plane_deployments: tuple[tuple[str, str], ...] = ()

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return nothing to install."""
        return []

    def namespace_labels(self, configuration: str) -> Mapping[str, str]:
        """Return no labels."""
        return {}

    def pod_annotations(self, configuration: str) -> Mapping[str, str]:
        """Return no annotations."""
        return {}

    def policies(self, configuration: str, namespace: str) -> Sequence[Manifest]:
        """Return no policies."""
        return []

    def leftovers(self) -> Sequence[tuple[str, str, Mapping[str, str]]]:
        """Return nothing."""
        return []

    def expects_tls(self, configuration: str) -> bool:
        """Return False: nothing encrypts."""
        return False

    def read_counters(self, get_raw: GetRaw, namespace: str, pod: str, role: str) -> ProxyCounters:
        """Raise: there is no proxy to ask."""
        raise TypeError("the baseline has no proxies")

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return no versions."""
        return {}
