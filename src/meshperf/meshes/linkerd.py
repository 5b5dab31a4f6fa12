"""Linkerd with its own proxy as a sidecar, rendered from its official Helm charts.

Linkerd's proxies speak mutual TLS to each other, always: there is no plaintext between them to measure. ``basic`` is
Linkerd as it is installed, ``mtls-metrics`` the same with the proxies' metrics scraped during the load.

No package registry serves Linkerd: its charts come from its own server and its images from a registry, so a measuring
machine must reach both. What is said of charts and metrics here is from https://github.com/linkerd/linkerd2 at
edge-26.8.3, and from ``linkerd/app/core`` of its proxy.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from meshperf.meshes.base import Manifest, Mesh, PodReader, ProxyCounters, ScrapeTarget
from meshperf.meshes.osm import HELM
from meshperf.meshes.prometheus_text import total
from meshperf.meshes.rendering import keep, run
from meshperf.testbed.embedded.pki import ca_usage, certificate_builder, private_pem
from meshperf.workloads.echo import PORT, SERVICE

#: Edge releases are the ones that everybody can have. A chart is called by its year in full.
VERSION, CHART_VERSION, PROXY_VERSION = "edge-26.8.3", "2026.8.3", "v2.366.0"
CHARTS = "https://helm.linkerd.io/edge"
_NAMESPACE = "linkerd"
#: The oldest Kubernetes that this release takes; left alone, Helm assumes one of its own age.
_KUBERNETES = "1.31.0"
#: Where the proxy serves its metrics; its own redirection leaves that port out.
_METRICS_PORT = 4191


class Linkerd(Mesh):
    """Linkerd with one sidecar in each pod."""

    name = "linkerd"
    sidecar = "linkerd-proxy"
    control_plane_namespaces = (_NAMESPACE,)
    control_plane_deployments = (
        (_NAMESPACE, "linkerd-identity"),
        (_NAMESPACE, "linkerd-destination"),
        (_NAMESPACE, "linkerd-proxy-injector"),
    )

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return what the two charts render, with an authority of this machine's own that is never published."""
        return keep(self.name, VERSION, make=_render)

    def namespace_annotations(self, configuration: str) -> Mapping[str, str]:
        """Return the annotation that has the proxy injected."""
        return {"linkerd.io/inject": "enabled"}

    def expects_tls(self, configuration: str) -> bool:
        """Return True: Linkerd has no way to turn it off."""
        return True

    def metrics(self, configuration: str) -> ScrapeTarget | None:
        """Return what the proxy serves, in ``mtls-metrics``; it records it in any case."""
        return ScrapeTarget(_METRICS_PORT, "/metrics") if configuration == "mtls-metrics" else None

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return the proxy's counters of requests to the service."""
        return counters(reader.through_api_server(_METRICS_PORT, "/metrics"), reader.namespace, role)

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return the versions of Linkerd, its proxy and its charts."""
        return {
            "mesh": VERSION,
            "proxy": f"linkerd2-proxy {PROXY_VERSION}",
            "manifests": f"{CHARTS} {CHART_VERSION}",
        }

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return how Linkerd's configurations differ from those of the same name of other meshes."""
        always = (
            "Linkerd's proxies always use mutual TLS: its basic is encrypted, that of other meshes is not"
        )
        return (always,) if configuration == "basic" else ()


def counters(text: str, namespace: str, role: str) -> ProxyCounters:
    """Return what a proxy has counted of the load since it started.

    Parameters
    ----------
    text : str
        Its metrics.
    namespace : str
        Of the workloads.
    role : {"client", "server"}
        Which side the proxy is on.

    Notes
    -----
    ``request_total`` counts requests of HTTP only; ``tcp_open_total`` connections, those towards the service with peer
    "dst" at the client and those from it with peer "src" at the server. A connection whose handshake was completed has
    the label ``tls="true"``.
    """
    if role == "client":
        path = {"direction": "outbound", "dst_service": SERVICE, "dst_namespace": namespace}
        connections = {**path, "peer": "dst"}
    else:
        path = {"direction": "inbound", "target_port": str(PORT)}
        connections = {**path, "peer": "src"}
    requests = total(text, "request_total", **path)
    return ProxyCounters(
        requests=requests,
        http_requests=requests,
        connections=total(text, "tcp_open_total", **connections),
        tls_handshakes=total(text, "tcp_open_total", tls="true", **connections),
    )


def authority() -> tuple[str, str]:
    """Return a new authority's certificate and key as PEM: trust anchor and issuer in one, as Linkerd's tool does."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "identity.linkerd.cluster.local")])
    certificate = (
        certificate_builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(ca_usage(), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), private_pem(key).decode()


def values(certificate: str, key: str) -> dict[str, Any]:
    """Return the values of the control plane's chart.

    Parameters
    ----------
    certificate, key : str
        Of `authority`.
    """
    return {
        "identityTrustAnchorsPEM": certificate,
        "identity": {"issuer": {"tls": {"crtPEM": certificate, "keyPEM": key}}},
        # It would tell Linkerd's makers of the cluster, and work at odd times.
        "disableHeartBeat": True,
    }


def _render() -> list[Manifest]:
    definitions = {"installGatewayAPI": True}
    return [
        *_template("linkerd-crds", definitions),
        *_template("linkerd-control-plane", values(*authority())),
    ]


def _template(chart: str, chart_values: Mapping[str, Any]) -> list[Manifest]:
    source = ("--repo", CHARTS, "--version", CHART_VERSION)
    target = ("--namespace", _NAMESPACE, "--kube-version", _KUBERNETES)
    # By its standard input: others on the machine can read a command's arguments, and these hold a key.
    arguments = ["template", chart, chart, *source, *target, "--values", "-"]
    return run(HELM, arguments, stdin=json.dumps(chart_values))
