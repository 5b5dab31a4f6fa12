"""Istio's sidecar as a container: its image, its version, and how its counters are read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from meshperf.meshes.base import PodReader, ProxyCounters, ScrapeTarget
from meshperf.meshes.prometheus_text import total
from meshperf.testbed.embedded.builds import Program, Progress, build, envoy_binary, go_module_dir
from meshperf.testbed.embedded.images import Image

VERSION = "1.31.0-alpha.eed52ebb66ad"
_VERSION_PACKAGE = "istio.io/istio/pkg/version"
VERSION_VARIABLES = (
    (f"{_VERSION_PACKAGE}.buildVersion", VERSION),
    (f"{_VERSION_PACKAGE}.buildGitRevision", VERSION.rsplit(".", 1)[1]),
    (f"{_VERSION_PACKAGE}.buildStatus", "Clean"),
    (f"{_VERSION_PACKAGE}.buildTag", VERSION),
    (f"{_VERSION_PACKAGE}.buildHub", "localhost"),
)
PILOT_AGENT = Program("pilot-agent", "istio", "istio.io/istio/pilot/cmd/pilot-agent", VERSION_VARIABLES)

#: What a user's cluster pulls; the nearest release to the version that the embedded cluster builds.
REGISTRY_HUB, REGISTRY_TAG = "docker.io/istio", "1.31.1"
#: Envoy's statistics in Prometheus' format, served by every sidecar and outside the path of requests.
STATISTICS_PORT = 15090
#: Image of the sidecar and of what redirects a pod's traffic to it.
SIDECAR_IMAGES = {
    "local": f"localhost/proxyv2:{VERSION}",
    "registry": f"{REGISTRY_HUB}/proxyv2:{REGISTRY_TAG}",
}
#: Statistics that the proof reads, as regular expressions: Istio's sidecars keep few unless they are told to.
COUNTED = (".*stream_rq_total", ".*stream_cx_total", ".*ssl.handshake")
#: Beginnings of the statistics that stand in for Istio's own telemetry where Envoy lacks it: counters and histograms of
#: every listener, HTTP connection manager and cluster that the load passes.
RECORDED = ("listener.", "http.inbound_", "http.outbound_", "cluster.inbound|", "cluster.outbound|")
#: What Istio's agent serves of Envoy and of itself, for a Prometheus.
METRICS = ScrapeTarget(15020, "/stats/prometheus")


@dataclass(frozen=True)
class Allowed:
    """A counter of requests that one of Envoy's filters let pass.

    Attributes
    ----------
    statistic : str
        End of Envoy's own name of it.
    series : str
        Its name in Prometheus' format.
    labels : mapping of str to str
        Regular expressions of more labels than that of the listener.
    """

    statistic: str
    series: str
    labels: Mapping[str, str] = field(default_factory=dict)


#: Envoy's filters that decide on requests: for roles and principals, for tokens, and by asking another process.
RBAC = Allowed("rbac.allowed", "envoy_http_rbac", {"authz_enforce_result": "allowed"})
JWT_AUTHN = Allowed("jwt_authn.allowed", "envoy_http_jwt_authn_allowed")
EXT_AUTHZ = Allowed("ext_authz.ok", "envoy_http_ext_authz_ok")


def sidecar_image(progress: Progress) -> Image:
    """Return the sidecar's image for the embedded cluster, with vanilla Envoy."""
    bootstrap = go_module_dir("istio", "istio.io/istio") / "tools/packaging/common/envoy_bootstrap.json"
    agent = "/usr/local/bin/pilot-agent"
    files = {
        agent[1:]: build(PILOT_AGENT, progress),
        "usr/local/bin/envoy": envoy_binary(),
        "var/lib/istio/envoy/envoy_bootstrap_tmpl.json": bootstrap,
    }
    return Image(SIDECAR_IMAGES["local"], files, (agent,), debian=True)


def read_sidecar(reader: PodReader, role: str, allowed: Allowed | None = None) -> ProxyCounters:
    """Return what Envoy has counted for port 8080, with statistics named and tagged as Istio does it.

    Parameters
    ----------
    reader : PodReader
        Of the pod.
    role : {"client", "server"}
        Which side of the path the pod is on.
    allowed : Allowed, optional
        The filter that decides on requests, if the arm has one.
    """
    wanted = [
        "stream_rq_total",
        "stream_cx_total",
        "ssl.handshake",
        *([allowed.statistic] if allowed else []),
    ]
    path = f"/stats/prometheus?usedonly&filter={quote('({})'.format('|'.join(wanted)))}"
    text = reader.through_api_server(STATISTICS_PORT, path)
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
        allowed=total(text, allowed.series, http_conn_manager_prefix=manager, **allowed.labels)
        if allowed
        else 0,
    )
