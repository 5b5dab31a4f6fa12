"""Pieces of an Envoy configuration: clusters, TLS, and the shapes that filters and addresses have."""

from collections.abc import Mapping, Sequence
from typing import Any

from meshperf.meshes.credentials import IDENTITY_PREFIX

ADMIN_PORT = 15000
#: Where the sidecar finds its certificates.
TLS_DIR = "/etc/envoy-tls"

#: How the names of Envoy's types begin.
TYPE = "type.googleapis.com/envoy"
_UNLIMITED = 4294967295

Part = dict[str, Any]


def outbound_cluster(service: str, endpoints: str, port: int, tls: bool) -> Part:
    """Return the server's pods, as the client's sidecar knows them (see `envoy_bootstrap.bootstrap`)."""
    name = f"outbound|{port}||{service}"
    cluster = {
        "name": name,
        "alt_stat_name": f"{name};",
        "type": "STRICT_DNS",
        "dns_lookup_family": "V4_ONLY",
        # The server's pod gets its address only a moment before the client starts.
        "dns_failure_refresh_rate": {"base_interval": "0.2s", "max_interval": "1s"},
        "connect_timeout": "10s",
        "lb_policy": "LEAST_REQUEST",
        "circuit_breakers": _no_limits(),
        "common_lb_config": {"healthy_panic_threshold": {}},
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(endpoints, port)}}]}],
        },
    }
    if tls:
        cluster["transport_socket"] = extension(
            "envoy.transport_sockets.tls",
            "extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            common_tls_context=tls_context(["istio"], {"exact": f"{IDENTITY_PREFIX}server"}),
            sni=f"outbound_.{port}_._.{service}",
        )
    return cluster


def inbound_cluster(port: int) -> Part:
    """Return the service in the pod of the server's sidecar."""
    return {
        "name": f"inbound|{port}||",
        "alt_stat_name": f"inbound|{port}||;",
        "type": "ORIGINAL_DST",
        "connect_timeout": "10s",
        "lb_policy": "CLUSTER_PROVIDED",
        "circuit_breakers": _no_limits(),
        "cleanup_interval": "9223372035s",
        # From an address that is not redirected again.
        "upstream_bind_config": {"source_address": {"address": "127.0.0.6", "port_value": 0}},
    }


def passthrough_cluster() -> Part:
    """Return wherever a connection was bound before it was redirected."""
    return {
        "name": "PassthroughCluster",
        "type": "ORIGINAL_DST",
        "connect_timeout": "10s",
        "lb_policy": "CLUSTER_PROVIDED",
        "circuit_breakers": _no_limits(),
    }


def black_hole_cluster() -> Part:
    """Return a cluster without members, for connections to the redirection's own ports."""
    return {"name": "BlackHoleCluster", "type": "STATIC", "connect_timeout": "10s"}


def admin_cluster() -> Part:
    """Return the sidecar's own administration, which serves statistics and readiness."""
    return {
        "name": "admin",
        "type": "STATIC",
        "connect_timeout": "0.25s",
        "load_assignment": {
            "cluster_name": "admin",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address("127.0.0.1", ADMIN_PORT)}}]}],
        },
    }


def tls_context(alpn: Sequence[str], identity: Mapping[str, str]) -> Part:
    """Return both sides' certificate and whom they trust: any of the authority whose name matches `identity`."""
    return {
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"},
        "alpn_protocols": list(alpn),
        "tls_certificates": [
            {
                "certificate_chain": {"filename": f"{TLS_DIR}/tls.crt"},
                "private_key": {"filename": f"{TLS_DIR}/tls.key"},
            }
        ],
        "validation_context": {
            "trusted_ca": {"filename": f"{TLS_DIR}/ca.crt"},
            "match_typed_subject_alt_names": [{"san_type": "URI", "matcher": dict(identity)}],
        },
    }


def tcp_proxy(cluster: str) -> Part:
    """Return the filter that passes connections on."""
    return extension(
        "envoy.filters.network.tcp_proxy",
        "extensions.filters.network.tcp_proxy.v3.TcpProxy",
        stat_prefix=cluster,
        cluster=cluster,
    )


def http_filter(name: str, kind: str, **settings: Any) -> Part:
    """Return a filter of requests by its short name and the end of its type's name."""
    return extension(f"envoy.filters.http.{name}", f"extensions.filters.http.{kind}", **settings)


def listener_filter(name: str, kind: str, **settings: Any) -> Part:
    """Return a filter that looks at the first bytes of connections."""
    return extension(
        f"envoy.filters.listener.{name}", f"extensions.filters.listener.{name}.v3.{kind}", **settings
    )


def extension(name: str, kind: str, **settings: Any) -> Part:
    """Return what names an extension of Envoy and its settings."""
    return {"name": name, "typed_config": {"@type": f"{TYPE}.{kind}", **settings}}


def _no_limits() -> Part:
    names = ("max_connections", "max_pending_requests", "max_requests", "max_retries")
    return {"thresholds": [dict.fromkeys(names, _UNLIMITED)]}


def address(host: str, port: int) -> Part:
    """Return an address as Envoy writes it."""
    return {"socket_address": {"address": host, "port_value": port}}
