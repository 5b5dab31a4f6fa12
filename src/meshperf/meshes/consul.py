"""Consul: one server as a pod, and Envoy sidecars that are written by hand, with explicit upstreams.

Configurations: ``mtls`` handles requests of HTTP over mutual TLS; ``mtls-tcp`` passes connections through mutual TLS
without reading them (Consul's default protocol); ``basic`` is requests of HTTP without TLS. Consul has no switch for
the last: the server's sidecar exposes the path ``/`` without TLS, and an extension of the client's sidecar removes TLS
from its upstream. Intentions (authorisation) are checked where TLS ends, so they are dropped with it.

Everything is declared: the server reads its configuration entries when it starts, and an init container of each pod
registers the service, with its health, and renders the sidecar's bootstrap. No connection is intercepted: the load
generator sends to its sidecar's port on the loopback address, and the service listens on nothing else.

Consul is under the Business Source License 1.1 (its programs and images are not part of meshperf).
"""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from meshperf.meshes.base import Manifest, Mesh, PodReader, ProxyCounters, Setting
from meshperf.meshes.prometheus_text import total
from meshperf.testbed.embedded.builds import ENVOY_VERSION, Program, Progress, build, envoy_binary
from meshperf.testbed.embedded.images import Image
from meshperf.workloads import echo

VERSION = "1.22.0"
#: The newest Envoy that Consul 1.22.0 supports (envoyextensions/xdscommon/ENVOY_VERSIONS): what a user's cluster pulls.
SUPPORTED_ENVOY = "1.35.3"
CONSUL = Program("consul", "consul", "github.com/hashicorp/consul")
_IMAGES = {
    "local": (f"localhost/consul:{VERSION}", f"localhost/envoy:{ENVOY_VERSION}"),
    "registry": (
        f"docker.io/hashicorp/consul:{VERSION}",
        f"docker.io/envoyproxy/envoy:distroless-v{SUPPORTED_ENVOY}",
    ),
}
_NAMESPACE, _SERVER = "consul", "consul-server"
_HTTP_PORT, _GRPC_PORT = 8500, 8502
#: Where the client's sidecar takes requests for the service.
_UPSTREAM_PORT = 9191
#: Where the server's sidecar takes requests without TLS, for `basic`, and the catalogue's name for that.
_EXPOSED_PORT, _EXPOSED_SERVICE = 21500, "server-plain"
_MTLS_PORT, _ADMIN_PORT, _READY_PORT = 20000, 19000, 20200
#: Threads of each sidecar: the default of Consul's own installation on Kubernetes (its Helm chart).
_CONCURRENCY = 2
_USER = 1234
_STATISTICS = (
    "(upstream_rq_total|downstream_rq_total|stream_cx_total|ssl.handshake|downstream_cx_.x_bytes_total)"
)
_MOUNT = "/consul"
_RENDER = f"""\
sed "s/POD_IP/$POD_IP/g" /definitions/$SERVICE.json > {_MOUNT}/service.json
until consul services register {_MOUNT}/service.json; do sleep 0.2; done
consul connect envoy -sidecar-for $SERVICE -bootstrap -omit-deprecated-tags \
  -admin-bind 127.0.0.1:{_ADMIN_PORT} -envoy-ready-bind-address 0.0.0.0 -envoy-ready-bind-port {_READY_PORT} \
  > {_MOUNT}/envoy.json
"""


class Consul(Mesh):
    """Consul with one sidecar in each pod and no interception."""

    name = "consul"
    sidecar = "envoy"
    control_plane_namespaces = (_NAMESPACE,)
    control_plane_deployments = ((_NAMESPACE, _SERVER),)

    def images(self, configuration: str, progress: Progress) -> Sequence[Image]:
        """Return Consul, with a shell for the init containers, and vanilla Envoy."""
        consul, envoy = _IMAGES["local"]
        return (
            Image(
                consul,
                {"usr/bin/consul": build(CONSUL, progress)},
                ("/usr/bin/consul",),
                str(_USER),
                debian=True,
            ),
            Image(
                envoy,
                {"usr/local/bin/envoy": envoy_binary()},
                ("/usr/local/bin/envoy",),
                str(_USER),
                debian=True,
            ),
        )

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return one server that keeps its state in memory, with its configuration entries."""
        metadata = {"name": _SERVER, "namespace": _NAMESPACE}
        labels = {"app": _SERVER}
        settings = {
            "server": True,
            "bootstrap_expect": 1,
            "node_name": _SERVER,
            "data_dir": f"{_MOUNT}/data",
            "client_addr": "0.0.0.0",
            "connect": {"enabled": True},
            "ports": {"http": _HTTP_PORT, "grpc": _GRPC_PORT, "dns": -1},
            # What Consul recommends for production: elections take a second instead of five.
            "performance": {"raft_multiplier": 1},
            "disable_update_check": True,
            "log_level": "warn",
            "config_entries": {
                "bootstrap": _configuration_entries(self.protocol(configuration), configuration)
            },
        }
        container = {
            "name": "consul",
            "image": _IMAGES[image_source][0],
            "imagePullPolicy": "IfNotPresent",
            "command": ["consul", "agent", "-config-dir=/settings", "-bind=$(POD_IP)"],
            "env": [_POD_IP],
            "securityContext": _SECURITY,
            # The last thing that a starting server does is to write its configuration entries.
            "startupProbe": {
                "httpGet": {"path": f"/v1/config/service-defaults/{echo.SERVICE}", "port": _HTTP_PORT},
                "periodSeconds": 1,
                "failureThreshold": 120,
            },
            "volumeMounts": [
                {"name": "settings", "mountPath": "/settings"},
                {"name": "data", "mountPath": _MOUNT},
            ],
        }
        volumes = [
            {"name": "settings", "configMap": {"name": _SERVER}},
            {"name": "data", "emptyDir": {"medium": "Memory"}},
        ]
        return [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {"server.json": _json(settings)},
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {
                    "selector": labels,
                    "ports": [{"name": "http", "port": _HTTP_PORT}, {"name": "grpc", "port": _GRPC_PORT}],
                },
            },
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": metadata,
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            "automountServiceAccountToken": False,
                            # Kubernetes' variables for the service would be read as Consul's own.
                            "enableServiceLinks": False,
                            "terminationGracePeriodSeconds": 1,
                            "containers": [container],
                            "volumes": volumes,
                        },
                    },
                },
            },
        ]

    def policies(self, setting: Setting) -> Sequence[Manifest]:
        """Return what the pods register: the service, and the load generator with its upstream."""
        plain = not self.expects_tls(setting.configuration)
        proxy: dict[str, Any] = {"local_service_address": "127.0.0.1"}
        server = [_definition("server", proxy)]
        if plain:
            path = {
                "path": "/",
                "local_path_port": echo.PORT,
                "listener_port": _EXPOSED_PORT,
                "protocol": "http",
            }
            proxy["expose"] = {"paths": [path]}
            # Native: the client's sidecar is sent to this port itself instead of to a sidecar's.
            server.append(
                {
                    "name": _EXPOSED_SERVICE,
                    "id": _EXPOSED_SERVICE,
                    "address": "POD_IP",
                    "port": _EXPOSED_PORT,
                    "connect": {"native": True},
                }
            )
        upstream = {
            "destination_name": _EXPOSED_SERVICE if plain else echo.SERVICE,
            "local_bind_address": "127.0.0.1",
            "local_bind_port": _UPSTREAM_PORT,
        }
        client = [_definition("client", {"upstreams": [upstream]})]
        return [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "consul-services", "namespace": setting.namespace},
                "data": {
                    "server.json": _json({"services": server}),
                    "client.json": _json({"services": client}),
                },
            }
        ]

    def adapt(self, workloads: Sequence[Manifest], setting: Setting) -> Sequence[Manifest]:
        """Return the workloads with sidecars, listening on nothing but the loopback address."""
        return [
            _with_sidecar(manifest, setting.image_source) if manifest["kind"] == "Deployment" else manifest
            for manifest in workloads
        ]

    def url(self, configuration: str) -> str:
        """Return the load generator's own sidecar."""
        return f"http://127.0.0.1:{_UPSTREAM_PORT}/"

    def expects_tls(self, configuration: str) -> bool:
        """Return True for all but ``basic``."""
        return configuration != "basic"

    def protocol(self, configuration: str) -> Literal["http", "tcp"]:
        """Return ``tcp`` for ``mtls-tcp``."""
        return "tcp" if configuration == "mtls-tcp" else "http"

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return Envoy's counters of the upstream, at the client, and of the port that it reaches, at the server."""
        text = reader.from_inside(_ADMIN_PORT, f"/stats/prometheus?usedonly&filter={quote(_STATISTICS)}")
        plain, tcp = not self.expects_tls(configuration), self.protocol(configuration) == "tcp"
        if role == "client":
            service = _EXPOSED_SERVICE if plain else echo.SERVICE
            cluster = {"consul_destination_service": service}
            http = passed_on = {"consul_upstream_service": service}
            connections = total(text, "envoy_cluster_upstream_cx_total", **cluster)
            handshakes = total(text, "envoy_cluster_ssl_handshake", **cluster)
        else:
            port = _EXPOSED_PORT if plain else _MTLS_PORT
            name = f"exposed_path_filter_.*_{port}" if plain else "public_listener"
            listener = {"envoy_listener_address": f".*_{port}"}
            cluster = {"envoy_cluster_name": "local_app"}
            http, passed_on = {"envoy_http_conn_manager_prefix": name}, {"envoy_tcp_prefix": name}
            connections = total(text, "envoy_listener_downstream_cx_total", **listener)
            handshakes = total(text, "envoy_listener_ssl_handshake", **listener)
        return ProxyCounters(
            # Where connections are passed on, Envoy counts each of them as one request of its cluster.
            requests=0 if tcp else total(text, "envoy_cluster_upstream_rq_total", **cluster),
            http_requests=total(text, "envoy_http_downstream_rq_total", **http),
            connections=connections,
            tls_handshakes=handshakes,
            request_bytes=total(text, "envoy_tcp_downstream_cx_rx_bytes_total", **passed_on),
            response_bytes=total(text, "envoy_tcp_downstream_cx_tx_bytes_total", **passed_on),
        )

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return the versions of Consul and Envoy."""
        if image_source == "registry":
            return {"mesh": VERSION, "envoy": SUPPORTED_ENVOY}
        return {
            "mesh": VERSION,
            "envoy": f"{ENVOY_VERSION} (vanilla)",
            "module": "github.com/hashicorp/consul",
        }

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return that nothing is intercepted, what ``basic`` drops, and which Envoy is not supported."""
        found = [
            "Consul's sidecars are addressed on the loopback address: no connection is redirected to them by iptables"
        ]
        if configuration == "basic":
            found.append(
                "Consul basic is not Consul mTLS with TLS switched off: requests take an exposed path that also leaves "
                "out Consul's authorisation (intentions) and the client's certificate in each request, so the "
                "difference between the two is not the cost of encryption alone"
            )
        if image_source == "local":
            found.append(
                f"Consul {VERSION} runs with vanilla Envoy {ENVOY_VERSION}, a pairing that Consul does not support: "
                f"the newest that it does is {SUPPORTED_ENVOY}"
            )
        return tuple(found)


_POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
_SECURITY = {
    "runAsUser": _USER,
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}


def _configuration_entries(protocol: str, configuration: str) -> list[dict[str, Any]]:
    """Return what the server writes when it starts: how each service's sidecar treats what it takes."""
    entries: list[dict[str, Any]] = [
        {"kind": "service-defaults", "name": name, "protocol": protocol} for name in ("server", "client")
    ]
    if configuration == "basic":
        patch = {
            "ResourceFilter": {
                "ResourceType": "cluster",
                "TrafficDirection": "outbound",
                "Services": [{"Name": _EXPOSED_SERVICE}],
            },
            "Op": "remove",
            "Path": "/transport_socket",
        }
        entries[1]["envoy_extensions"] = [
            {
                "name": "builtin/property-override",
                "arguments": {"ProxyType": "connect-proxy", "Patches": [patch]},
            }
        ]
        entries.append({"kind": "service-defaults", "name": _EXPOSED_SERVICE, "protocol": protocol})
    return entries


def _definition(name: str, proxy: Mapping[str, Any]) -> dict[str, Any]:
    # The default check of a sidecar is critical for its first ten seconds and connects to it every ten seconds after.
    check = {"name": "sidecar", "alias_service": name, "status": "passing"}
    return {
        "name": name,
        "id": name,
        "address": "POD_IP",
        "port": echo.PORT,
        "connect": {"sidecar_service": {"port": _MTLS_PORT, "proxy": proxy, "checks": [check]}},
    }


def _with_sidecar(deployment: Manifest, image_source: str) -> Manifest:
    made = copy.deepcopy(dict(deployment))
    pod = made["spec"]["template"]["spec"]
    consul, envoy = _IMAGES[image_source]
    workload = pod["containers"][0]
    port = workload["args"].index("-http-port") + 1
    workload["args"][port] = f"127.0.0.1:{workload['args'][port]}"
    address = f"http://{_SERVER}.{_NAMESPACE}"
    register = {
        "name": "register",
        "image": consul,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-ec", _RENDER],
        "env": [
            _POD_IP,
            {"name": "SERVICE", "value": deployment["metadata"]["name"]},
            {"name": "CONSUL_HTTP_ADDR", "value": f"{address}:{_HTTP_PORT}"},
            {"name": "CONSUL_GRPC_ADDR", "value": f"{address}:{_GRPC_PORT}"},
        ],
        "securityContext": _SECURITY,
        "volumeMounts": [
            {"name": "consul", "mountPath": _MOUNT},
            {"name": "definitions", "mountPath": "/definitions"},
        ],
    }
    sidecar = {
        "name": Consul.sidecar,
        "image": envoy,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        # The options with which `consul connect envoy` itself starts Envoy, and the number of threads.
        "args": [
            "--config-path",
            f"{_MOUNT}/envoy.json",
            "--disable-hot-restart",
            "--log-level",
            "warning",
            "--concurrency",
            str(_CONCURRENCY),
        ],
        "securityContext": _SECURITY,
        "startupProbe": {
            "httpGet": {"path": "/ready", "port": _READY_PORT},
            "periodSeconds": 1,
            "failureThreshold": 60,
        },
        "volumeMounts": [{"name": "consul", "mountPath": _MOUNT}],
    }
    pod["initContainers"] = [register, sidecar]
    pod["volumes"] += [
        {"name": "consul", "emptyDir": {"medium": "Memory"}},
        {"name": "definitions", "configMap": {"name": "consul-services"}},
    ]
    return made


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True)
