"""The configuration of an Envoy sidecar without a control plane, after what Istio's control plane sends to its own.

Taken over from a dump of Istio's sidecars (``/config_dump``): listeners and how they recognise a connection, HTTP
filters, sampling, request ids, retries, timeouts, connection limits, TLS versions and ciphers, names and choice of
statistics. Left out is what the load does not touch: listeners and clusters of other services, and the pass-through of
inbound ports that the service does not have.
"""

from typing import Any

from meshperf.meshes.credentials import IDENTITY_PREFIX
from meshperf.meshes.envoy_parts import (
    ADMIN_PORT,
    TYPE,
    Part,
    address,
    admin_cluster,
    black_hole_cluster,
    extension,
    http_filter,
    inbound_cluster,
    listener_filter,
    outbound_cluster,
    passthrough_cluster,
    tcp_proxy,
    tls_context,
)
from meshperf.meshes.istio_sidecar import COUNTED, STATISTICS_PORT

OUTBOUND_PORT, INBOUND_PORT = 15001, 15006
READINESS_PORT, READINESS_PATH = 15021, "/healthz/ready"

_CIPHERS = (
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-GCM-SHA256",
)


def bootstrap(role: str, service: str, endpoints: str, port: int, *, tls: bool) -> Part:
    """Return the bootstrap configuration of one sidecar.

    Parameters
    ----------
    role : {"client", "server"}
        The side of the path.
    service : str
        Full name of the service under test.
    endpoints : str
        A name that resolves to the addresses of its pods.
    port : int
        Of the service and of its pods.
    tls : bool
        Whether the two sidecars speak mutual TLS, and nothing else, with each other.
    """
    if role == "client":
        listeners = [_virtual_outbound(), _outbound(service, port)]
        clusters = [outbound_cluster(service, endpoints, port, tls), passthrough_cluster()]
    else:
        listeners, clusters = [_virtual_inbound(service, port, tls)], [inbound_cluster(port)]
    return {
        "node": {"id": f"meshperf-{role}", "cluster": service},
        "admin": {"address": address("127.0.0.1", ADMIN_PORT)},
        "layered_runtime": {
            "layers": [
                {
                    "name": "static",
                    "static_layer": {
                        "envoy.reloadable_features.http_reject_path_with_fragment": False,
                        "envoy.reloadable_features.fixed_heap_use_allocated": True,
                    },
                }
            ]
        },
        "static_resources": {
            "listeners": [*listeners, *_own_listeners()],
            "clusters": [*clusters, black_hole_cluster(), admin_cluster()],
        },
        "stats_config": {
            "use_all_default_tags": False,
            "stats_tags": [
                {"tag_name": "cluster_name", "regex": r"^cluster(\.(.+);)"},
                {
                    "tag_name": "http_conn_manager_prefix",
                    "regex": r"^http\.(((?:[_.[:digit:]\w]*|[_\[\]aAbBcCdDeEfF[:digit:]\w\:]*));\.)",
                },
                {
                    "tag_name": "listener_address",
                    "regex": r"^listener\.(((?:[_.[:digit:]]*|[_\[\]aAbBcCdDeEfF[:digit:]]*))\.)",
                },
            ],
            "stats_matcher": {
                "inclusion_list": {
                    "patterns": [
                        *({"prefix": name} for name in ("cluster_manager", "listener_manager", "server")),
                        *({"safe_regex": {"regex": expression}} for expression in COUNTED),
                    ]
                }
            },
        },
        "deferred_stat_options": {"enable_deferred_creation_stats": True},
        "overload_manager": {
            "resource_monitors": [
                extension(
                    "envoy.resource_monitors.global_downstream_max_connections",
                    "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
                    max_active_downstream_connections=2147483647,
                )
            ]
        },
    }


def _virtual_outbound() -> Part:
    """Return the listener that every connection of the application is redirected to."""
    return {
        "name": "virtualOutbound",
        "address": address("0.0.0.0", OUTBOUND_PORT),
        "use_original_dst": True,
        "traffic_direction": "OUTBOUND",
        "max_connections_to_accept_per_socket_event": 1,
        "filter_chains": [
            {
                "name": "blackhole",
                "filter_chain_match": {"destination_port": OUTBOUND_PORT},
                "filters": [tcp_proxy("BlackHoleCluster")],
            },
            {"name": "catchall", "filters": [tcp_proxy("PassthroughCluster")]},
        ],
    }


def _outbound(service: str, port: int) -> Part:
    """Return the listener that `_virtual_outbound` hands connections to the service's port to."""
    retry = {
        "retry_on": "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes",
        "num_retries": 2,
        "retry_host_predicate": [
            extension(
                "envoy.retry_host_predicates.previous_hosts",
                "extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
            )
        ],
        "host_selection_retry_max_attempts": "5",
    }
    virtual_host = {
        "name": f"{service}:{port}",
        "domains": ["*"],
        "include_request_attempt_count": True,
        "routes": [
            _route(service, port, f"outbound|{port}||{service}", retry_policy=retry, max_grpc_timeout="0s")
        ],
    }
    return {
        "name": f"0.0.0.0_{port}",
        "address": address("0.0.0.0", port),
        "bind_to_port": False,
        "traffic_direction": "OUTBOUND",
        "listener_filters": [listener_filter("http_inspector", "HttpInspector")],
        "listener_filters_timeout": "0s",
        "continue_on_listener_filters_timeout": True,
        "filter_chains": [
            {
                "filter_chain_match": {
                    "transport_protocol": "raw_buffer",
                    "application_protocols": ["http/1.1", "h2c"],
                },
                "transport_socket_connect_timeout": "15s",
                "filters": [
                    _http_manager(
                        f"outbound_0.0.0.0_{port};",
                        {
                            "name": str(port),
                            "ignore_port_in_host_matching": True,
                            "virtual_hosts": [virtual_host],
                        },
                    )
                ],
            }
        ],
        "default_filter_chain": {"name": "passthrough", "filters": [tcp_proxy("PassthroughCluster")]},
    }


def _virtual_inbound(service: str, port: int, tls: bool) -> Part:
    """Return the listener that every connection to the pod is redirected to; other ports are refused."""
    retry = {"retry_on": "reset-before-request", "num_retries": 2}
    stream = {"max_stream_duration": "0s", "grpc_timeout_header_max": "0s"}
    virtual_host = {
        "name": f"inbound|http|{port}",
        "domains": ["*"],
        "routes": [
            _route(service, port, f"inbound|{port}||", retry_policy=retry, max_stream_duration=stream)
        ],
    }
    chain = {
        "name": f"0.0.0.0_{port}",
        "filter_chain_match": {
            "destination_port": port,
            "transport_protocol": "tls" if tls else "raw_buffer",
        },
        "filters": [
            _http_manager(
                f"inbound_0.0.0.0_{port};",
                {"name": f"inbound|{port}||", "virtual_hosts": [virtual_host]},
                server_name="envoy",
                forward_client_cert_details="APPEND_FORWARD",
                set_current_client_cert_details={"subject": True, "dns": True, "uri": True},
            )
        ],
    }
    if tls:
        context = tls_context(["h2", "http/1.1"], {"prefix": IDENTITY_PREFIX})
        context["tls_params"]["cipher_suites"] = list(_CIPHERS)
        chain["transport_socket"] = extension(
            "envoy.transport_sockets.tls",
            "extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            common_tls_context=context,
            require_client_certificate=True,
        )
    inspector = listener_filter("tls_inspector", "TlsInspector", initial_read_buffer_size=512)
    return {
        "name": "virtualInbound",
        "address": address("0.0.0.0", INBOUND_PORT),
        "traffic_direction": "INBOUND",
        "max_connections_to_accept_per_socket_event": 1,
        "listener_filters": [
            listener_filter("original_dst", "OriginalDst"),
            *([inspector] if tls else []),
        ],
        "listener_filters_timeout": "0s",
        "continue_on_listener_filters_timeout": True,
        "filter_chains": [
            {
                "name": "blackhole",
                "filter_chain_match": {"destination_port": INBOUND_PORT},
                "filters": [tcp_proxy("BlackHoleCluster")],
            },
            chain,
        ],
    }


def _own_listeners() -> list[Part]:
    """Return the listeners for statistics and readiness, which traffic to the pod is not redirected from."""
    wanted = (
        ("stats", STATISTICS_PORT, "/stats/prometheus", "/stats/prometheus"),
        ("ready", READINESS_PORT, READINESS_PATH, "/ready"),
    )
    return [
        {
            "name": f"0.0.0.0_{port}",
            "address": address("0.0.0.0", port),
            "filter_chains": [
                {
                    "filters": [
                        extension(
                            "envoy.filters.network.http_connection_manager",
                            "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                            stat_prefix=name,
                            route_config={
                                "virtual_hosts": [
                                    {
                                        "name": "backend",
                                        "domains": ["*"],
                                        "routes": [
                                            {
                                                "match": {"prefix": path},
                                                "route": {"cluster": "admin", "prefix_rewrite": target},
                                            }
                                        ],
                                    }
                                ]
                            },
                            http_filters=[http_filter("router", "router.v3.Router")],
                        )
                    ]
                }
            ],
        }
        for name, port, path, target in wanted
    ]


def _http_manager(stat_prefix: str, route_config: Part, **more: Any) -> Part:
    return extension(
        "envoy.filters.network.http_connection_manager",
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix=stat_prefix,
        route_config={**route_config, "validate_clusters": False},
        http_filters=[
            http_filter(
                "grpc_stats",
                "grpc_stats.v3.FilterConfig",
                emit_filter_state=True,
                stats_for_all_methods=False,
            ),
            http_filter("fault", "fault.v3.HTTPFault"),
            http_filter("cors", "cors.v3.Cors"),
            http_filter("router", "router.v3.Router"),
        ],
        # Nothing is traced without a provider, but each request is sampled.
        tracing={
            "client_sampling": {"value": 100},
            "random_sampling": {"value": 1},
            "overall_sampling": {"value": 100},
        },
        use_remote_address=False,
        proxy_100_continue=True,
        upgrade_configs=[{"upgrade_type": "websocket"}],
        stream_idle_timeout="0s",
        normalize_path=True,
        path_with_escaped_slashes_action="KEEP_UNCHANGED",
        request_id_extension={
            "typed_config": {
                "@type": f"{TYPE}.extensions.request_id.uuid.v3.UuidRequestIdConfig",
                "use_request_id_for_trace_sampling": True,
            }
        },
        **more,
    )


def _route(service: str, port: int, cluster: str, **action: Any) -> Part:
    return {
        "name": "default",
        "match": {"prefix": "/"},
        "decorator": {"operation": f"{service}:{port}/*"},
        "route": {"cluster": cluster, "timeout": "0s", **action},
    }
