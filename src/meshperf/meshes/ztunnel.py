"""Reads ztunnel, the proxy of Istio's ambient mode, which carries the connections of all pods of a node in mutual TLS.

Metrics and labels: README.md and src/proxy/metrics.rs of https://github.com/istio/ztunnel at 1.31.
"""

from typing import Literal

from meshperf.meshes.base import ProxyCounters
from meshperf.meshes.prometheus_text import total

#: Where ztunnel serves its metrics.
PORT = 15020
PATH = "/stats/prometheus"


def counters(text: str, namespace: str, role: Literal["client", "server"]) -> ProxyCounters:
    """Return what a ztunnel has counted of the load since it started.

    Parameters
    ----------
    text : str
        Its metrics.
    namespace : str
        Of the workloads.
    role : {"client", "server"}
        Which side is asked for: the same ztunnel reports both where both pods are on its node.

    Notes
    -----
    Ztunnel sees TCP: it counts connections and bytes, and none of the requests in them. Several connections of the load
    share one connection between ztunnels, so `tls_handshakes` are the connections that were carried in mutual TLS, not
    the handshakes. In Istio's metrics *received* is what came with the request, *sent* what went back.
    """
    path = {
        "reporter": "source" if role == "client" else "destination",
        "source_principal": rf".*/ns/{namespace}/sa/client",
        "destination_principal": rf".*/ns/{namespace}/sa/server",
    }
    opened = "istio_tcp_connections_opened_total"
    return ProxyCounters(
        requests=0,
        http_requests=0,
        connections=total(text, opened, **path),
        tls_handshakes=total(text, opened, connection_security_policy="mutual_tls", **path),
        request_bytes=total(text, "istio_tcp_received_bytes_total", **path),
        response_bytes=total(text, "istio_tcp_sent_bytes_total", **path),
    )
