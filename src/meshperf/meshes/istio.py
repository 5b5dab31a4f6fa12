"""Istio with sidecars, rendered by its own ``istioctl``.

Configurations: ``basic`` is sidecars without TLS between them, ``mtls`` is mutual TLS required of every request.
On the embedded cluster the sidecar's Envoy is the vanilla build, which lacks Istio's own extensions (telemetry, ALPN,
metadata exchange), so these are off there; with images from the registry nothing is turned off.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import yaml

from meshperf.errors import MeshperfError
from meshperf.meshes.base import GetRaw, Manifest, ProxyCounters
from meshperf.meshes.prometheus_text import total
from meshperf.paths import cache_dir
from meshperf.testbed.embedded.builds import ENVOY_VERSION, ISTIO_VERSION, build

#: What a user's cluster pulls; the nearest release to the version that the embedded cluster builds.
REGISTRY_HUB, REGISTRY_TAG = "docker.io/istio", "1.31.1"
_NAMESPACE = "istio-system"
#: Envoy's statistics in Prometheus' format, served by every sidecar and outside the path of requests.
_STATISTICS_PORT = 15090
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
RENDER_TIMEOUT_S = 60


class Istio:
    """Istio with one sidecar in each pod."""

    name = "istio"
    sidecar = "istio-proxy"
    control_plane_namespaces = (_NAMESPACE,)
    control_plane_deployments = ((_NAMESPACE, "istiod"),)

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return ``istioctl manifest generate``'s output, rendered once per set of settings."""
        if image_source == "local":
            settings = (*_SETTINGS, "hub=localhost", f"tag={ISTIO_VERSION}", *_VANILLA_ENVOY_SETTINGS)
        else:
            settings = (*_SETTINGS, f"hub={REGISTRY_HUB}", f"tag={REGISTRY_TAG}")
        return _render(settings)

    def namespace_labels(self, configuration: str) -> Mapping[str, str]:
        """Return the label that Istio's injection webhook selects."""
        return {"istio-injection": "enabled"}

    def pod_annotations(self, configuration: str) -> Mapping[str, str]:
        """Return the proxy's settings: start before the application, and count what the proof reads."""
        config = {
            "holdApplicationUntilProxyStarts": True,
            "proxyStatsMatcher": {
                "inclusionRegexps": [".*stream_rq_total", ".*stream_cx_total", ".*ssl.handshake"]
            },
        }
        return {"proxy.istio.io/config": json.dumps(config, sort_keys=True)}

    def policies(self, configuration: str, namespace: str) -> Sequence[Manifest]:
        """Return the PeerAuthentication that requires or forbids mutual TLS; clients follow it (auto mTLS)."""
        mode = "STRICT" if self.expects_tls(configuration) else "DISABLE"
        return [
            {
                "apiVersion": "security.istio.io/v1",
                "kind": "PeerAuthentication",
                "metadata": {"name": "default", "namespace": namespace},
                "spec": {"mtls": {"mode": mode}},
            }
        ]

    def leftovers(self) -> Sequence[tuple[str, str, Mapping[str, str]]]:
        """Return the root certificates that istiod puts into every namespace."""
        return [("v1", "ConfigMap", {"istio.io/config": "true"})]

    def expects_tls(self, configuration: str) -> bool:
        """Return True for ``mtls``."""
        return configuration == "mtls"

    def read_counters(self, get_raw: GetRaw, namespace: str, pod: str, role: str) -> ProxyCounters:
        """Return Envoy's counters for port 8080: outbound at the client, inbound at the server."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}:{_STATISTICS_PORT}/proxy/stats/prometheus"
        text = get_raw(
            f"{path}?usedonly&filter={quote('(stream_rq_total|stream_cx_total|ssl.handshake)')}"
        ).decode()
        direction = "outbound" if role == "client" else "inbound"
        cluster = rf"{direction}\|8080\|.*"
        manager = rf"{direction}_.*8080.*"
        if role == "client":
            connections = total(text, "envoy_cluster_upstream_cx_total", cluster_name=cluster)
            handshakes = total(text, "envoy_cluster_ssl_handshake", cluster_name=cluster)
        else:
            connections = total(text, "envoy_http_downstream_cx_total", http_conn_manager_prefix=manager)
            inbound = ".*(15006|virtualInbound).*"
            handshakes = total(text, "envoy_listener_ssl_handshake", listener_address=inbound)
        return ProxyCounters(
            requests=total(text, "envoy_cluster_upstream_rq_total", cluster_name=cluster),
            http_requests=total(text, "envoy_http_downstream_rq_total", http_conn_manager_prefix=manager),
            connections=connections,
            tls_handshakes=handshakes,
        )

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return Istio's version, and Envoy's where it is not Istio's own build."""
        if image_source == "registry":
            return {"mesh": REGISTRY_TAG}
        return {"mesh": ISTIO_VERSION, "envoy": f"{ENVOY_VERSION} (vanilla)"}


def _render(settings: Sequence[str]) -> list[Manifest]:
    import hashlib

    key = hashlib.sha256("\0".join((ISTIO_VERSION, *settings)).encode()).hexdigest()[:12]
    cached = cache_dir() / "rendered" / f"istio-{key}.json"
    if not cached.exists():
        istioctl = build("istioctl", lambda line: None)
        command = [str(istioctl), "manifest", "generate", *(word for s in settings for word in ("--set", s))]
        result = subprocess.run(command, capture_output=True, text=True, timeout=RENDER_TIMEOUT_S)
        if result.returncode:
            raise MeshperfError(f"istioctl manifest generate failed: {result.stderr.strip()[-500:]}")
        manifests = [manifest for manifest in yaml.safe_load_all(result.stdout) if manifest]
        cached.parent.mkdir(parents=True, exist_ok=True)
        temporary = cached.with_suffix(".new")
        temporary.write_text(json.dumps(manifests))
        temporary.rename(cached)
    return json.loads(cached.read_text())
