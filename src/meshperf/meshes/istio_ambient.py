"""Istio's ambient mode: no sidecars, but one ztunnel per node that carries connections in mutual TLS.

Its one configuration is ``mtls``: between ztunnels there is nothing else. Layer 7 would need a waypoint proxy, and
with it definitions that Istio does not install: it is not offered. The control plane is rendered by Istio's own
``istioctl``; ztunnel is written in Rust and served by no package registry, so this mesh needs images from a registry.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from meshperf.errors import MeshperfError
from meshperf.meshes import cilium_config, ztunnel
from meshperf.meshes.base import Manifest, Mesh, PodReader, ProxyCounters, Setting
from meshperf.meshes.istio import ISTIOCTL
from meshperf.meshes.istio_sidecar import REGISTRY_HUB, REGISTRY_TAG
from meshperf.meshes.rendering import render

if TYPE_CHECKING:
    from meshperf.testbed.client import Cluster

_NAMESPACE = "istio-system"
_ZTUNNEL_LABELS = {"app": "ztunnel"}
_SETTINGS = (
    "profile=ambient",
    "values.pilot.autoscaleEnabled=false",
    "values.global.imagePullPolicy=IfNotPresent",
    f"hub={REGISTRY_HUB}",
    f"tag={REGISTRY_TAG}",
)
#: What Istio needs where Cilium is the network: its documentation, "Integration with Istio", version 1.20.
_BESIDE_CILIUM = {
    "cni-exclusive": ("false", "cni.exclusive=false"),
    "bpf-lb-sock-hostns-only": ("true", "socketLB.hostNamespaceOnly=true"),
}


class IstioAmbient(Mesh):
    """Istio with one ztunnel on each node."""

    name = "istio-ambient"
    control_plane_namespaces = (_NAMESPACE,)
    control_plane_deployments = ((_NAMESPACE, "istiod"),)
    control_plane_sets = (("DaemonSet", _NAMESPACE, "istio-cni-node"), ("DaemonSet", _NAMESPACE, "ztunnel"))
    redirected = True

    def check_cluster(self, cluster: "Cluster", configuration: str) -> None:
        """Refuse a Cilium that would push Istio's agent aside, or take connections before ztunnel sees them."""
        found = cluster.get("v1", "ConfigMap", cilium_config.CONFIG_MAP, cilium_config.NAMESPACE)
        config = (found or {}).get("data") or {}
        replaces_proxy = config.get("kube-proxy-replacement", "false") != "false"
        for key, (wanted, setting) in _BESIDE_CILIUM.items():
            matters = key == "cni-exclusive" or replaces_proxy or cilium_config.is_on(config, "bpf-lb-sock")
            if found and matters and config.get(key) != wanted:
                raise MeshperfError(
                    f"the cluster's Cilium has {key}: {config.get(key, 'unset')}, with which Istio's ambient mode does "
                    f"not work: set {setting} in Cilium's chart, or leave istio-ambient out"
                )

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return ``istioctl manifest generate``'s output: istiod, the agent of each node, and ztunnel."""
        options = tuple(word for setting in _SETTINGS for word in ("--set", setting))
        return render(ISTIOCTL, "manifest", "generate", *options)

    def namespace_labels(self, configuration: str) -> Mapping[str, str]:
        """Return the label that has the agent redirect a namespace's pods."""
        return {"istio.io/dataplane-mode": "ambient"}

    def policies(self, setting: Setting) -> Sequence[Manifest]:
        """Return the PeerAuthentication that refuses what does not come in mutual TLS."""
        return [
            {
                "apiVersion": "security.istio.io/v1",
                "kind": "PeerAuthentication",
                "metadata": {"name": "default", "namespace": setting.namespace},
                "spec": {"mtls": {"mode": "STRICT"}},
            }
        ]

    def leftovers(self) -> Sequence[tuple[str, str, Mapping[str, str]]]:
        """Return the root certificates that istiod puts into every namespace."""
        return [("v1", "ConfigMap", {"istio.io/config": "true"})]

    def expects_tls(self, configuration: str) -> bool:
        """Return True."""
        return True

    def protocol(self, configuration: str) -> Literal["http", "tcp", "ip"]:
        """Return "tcp"."""
        return "tcp"

    def proxied_sides(self, configuration: str) -> Sequence[Literal["client", "server"]]:
        """Return both sides: a connection passes the ztunnel of each, which is the same on one node."""
        return ("client", "server")

    def roles(self, configuration: str) -> Mapping[tuple[str, str], str]:
        """Return ztunnel as the proxy that pods share; the rest of its namespace is the control plane."""
        return {(_NAMESPACE, "istio-proxy"): "node-proxy"}

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return the counters of the ztunnel on the pod's node."""
        proxy = reader.on_same_node(_NAMESPACE, _ZTUNNEL_LABELS)
        text = proxy.through_api_server(ztunnel.PORT, ztunnel.PATH)
        return ztunnel.counters(text, reader.namespace, role)

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return Istio's version, which is ztunnel's too."""
        return {"mesh": REGISTRY_TAG, "manifests": "istio.io/istio"}

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return what sets this mesh apart from those with sidecars."""
        return (
            "Istio's ambient mode handles TCP: unlike a sidecar, it routes, retries and counts no requests",
        )
