"""Istio with sidecars, rendered by its own ``istioctl``.

Configurations: ``basic`` is sidecars without TLS between them, ``mtls`` is mutual TLS required of every request.
On the embedded cluster the sidecar's Envoy is the vanilla build, which lacks Istio's own extensions (telemetry, ALPN,
metadata exchange), so these are off there; with images from the registry nothing is turned off.
"""

import json
from collections.abc import Mapping, Sequence

from meshperf.meshes.base import Manifest, Mesh, PodReader, ProxyCounters, Setting
from meshperf.meshes.istio_sidecar import (
    COUNTED,
    REGISTRY_HUB,
    REGISTRY_TAG,
    VERSION,
    VERSION_VARIABLES,
    read_sidecar,
    sidecar_image,
)
from meshperf.meshes.rendering import render
from meshperf.testbed.embedded.builds import ENVOY_VERSION, Program, Progress, build
from meshperf.testbed.embedded.images import Image

PILOT_DISCOVERY = Program(
    "pilot-discovery", "istio", "istio.io/istio/pilot/cmd/pilot-discovery", VERSION_VARIABLES
)
ISTIOCTL = Program("istioctl", "istio", "istio.io/istio/istioctl/cmd/istioctl", VERSION_VARIABLES)

_NAMESPACE = "istio-system"
_SETTINGS = (
    "profile=minimal",
    "values.pilot.autoscaleEnabled=false",
    "values.global.imagePullPolicy=IfNotPresent",
)
_VANILLA_ENVOY_SETTINGS = (
    "values.telemetry.enabled=false",
    "values.pilot.env.PILOT_ENABLE_ALPN_FILTER=false",
    "values.pilot.env.PILOT_ENABLE_METADATA_EXCHANGE=false",
)


class Istio(Mesh):
    """Istio with one sidecar in each pod."""

    name = "istio"
    sidecar = "istio-proxy"
    control_plane_namespaces = (_NAMESPACE,)
    control_plane_deployments = ((_NAMESPACE, "istiod"),)

    def images(self, configuration: str, progress: Progress) -> Sequence[Image]:
        """Return the control plane and the sidecar, the latter with vanilla Envoy."""
        discovery = "/usr/local/bin/pilot-discovery"
        pilot = {discovery[1:]: build(PILOT_DISCOVERY, progress)}
        return (Image(f"localhost/pilot:{VERSION}", pilot, (discovery,), "1337"), sidecar_image(progress))

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return ``istioctl manifest generate``'s output, rendered once per set of settings."""
        if image_source == "local":
            settings = (*_SETTINGS, "hub=localhost", f"tag={VERSION}", *_VANILLA_ENVOY_SETTINGS)
        else:
            settings = (*_SETTINGS, f"hub={REGISTRY_HUB}", f"tag={REGISTRY_TAG}")
        options = tuple(word for setting in settings for word in ("--set", setting))
        return render(ISTIOCTL, "manifest", "generate", *options)

    def namespace_labels(self, configuration: str) -> Mapping[str, str]:
        """Return the label that Istio's injection webhook selects."""
        return {"istio-injection": "enabled"}

    def pod_annotations(self, configuration: str) -> Mapping[str, str]:
        """Return the proxy's settings: start before the application, and count what the proof reads."""
        config = {
            "holdApplicationUntilProxyStarts": True,
            "proxyStatsMatcher": {"inclusionRegexps": list(COUNTED)},
        }
        return {"proxy.istio.io/config": json.dumps(config, sort_keys=True)}

    def policies(self, setting: Setting) -> Sequence[Manifest]:
        """Return the PeerAuthentication that requires or forbids mutual TLS; clients follow it (auto mTLS)."""
        mode = "STRICT" if self.expects_tls(setting.configuration) else "DISABLE"
        return [
            {
                "apiVersion": "security.istio.io/v1",
                "kind": "PeerAuthentication",
                "metadata": {"name": "default", "namespace": setting.namespace},
                "spec": {"mtls": {"mode": mode}},
            }
        ]

    def leftovers(self) -> Sequence[tuple[str, str, Mapping[str, str]]]:
        """Return the root certificates that istiod puts into every namespace."""
        return [("v1", "ConfigMap", {"istio.io/config": "true"})]

    def expects_tls(self, configuration: str) -> bool:
        """Return True for ``mtls``."""
        return configuration == "mtls"

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return Envoy's counters for port 8080: outbound at the client, inbound at the server."""
        return read_sidecar(reader, role)

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return Istio's version, and Envoy's where it is not Istio's own build."""
        if image_source == "registry":
            return {"mesh": REGISTRY_TAG}
        return {"mesh": VERSION, "envoy": f"{ENVOY_VERSION} (vanilla)", "module": "istio.io/istio"}

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return what vanilla Envoy leaves out on the embedded cluster."""
        if image_source == "registry":
            return ()
        return (
            f"Istio runs with vanilla Envoy {ENVOY_VERSION}, without Istio's own telemetry, ALPN and metadata exchange",
        )
