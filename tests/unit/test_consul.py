"""What Consul asks for and how its proxies are read, as data: no cluster needed."""

import json
from copy import deepcopy

import pytest

from meshperf import meshes
from meshperf.meshes.base import Setting
from meshperf.meshes.consul import Consul
from meshperf.workloads import echo

WORKLOAD = {
    "server_limits": {},
    "client_limits": {},
    "placement": "same-node",
    "server_node_selector": {},
    "client_node_selector": {},
}
# Printed by the sidecars after 40 requests on 4 connections; labels that say nothing here are left out.
UPSTREAM = 'consul_destination_service="server",consul_destination_datacenter="dc1"'
CLIENT = """\
envoy_cluster_ssl_handshake{local_cluster="client",envoy_cluster_name="server",UPSTREAM} 4
envoy_cluster_upstream_cx_total{local_cluster="client",envoy_cluster_name="local_agent"} 1
envoy_cluster_upstream_cx_total{local_cluster="client",envoy_cluster_name="server",UPSTREAM} 4
envoy_cluster_upstream_rq_total{local_cluster="client",envoy_cluster_name="local_agent"} 1
envoy_cluster_upstream_rq_total{local_cluster="client",envoy_cluster_name="self_admin"} 1
envoy_cluster_upstream_rq_total{local_cluster="client",envoy_cluster_name="server",UPSTREAM} 40
envoy_http_downstream_cx_rx_bytes_total{consul_upstream_service="server",envoy_http_conn_manager_prefix="upstream"} 3120
envoy_http_downstream_rq_total{local_cluster="client",envoy_http_conn_manager_prefix="admin"} 2
envoy_http_downstream_rq_total{local_cluster="client",envoy_http_conn_manager_prefix="envoy_ready"} 1
envoy_http_downstream_rq_total{consul_upstream_service="server",envoy_http_conn_manager_prefix="upstream"} 40
envoy_listener_downstream_cx_total{local_cluster="client",envoy_listener_address="0.0.0.0_20200"} 1
envoy_listener_downstream_cx_total{local_cluster="client",envoy_listener_address="127.0.0.1_9191"} 4
""".replace("UPSTREAM", UPSTREAM)
SERVER = """\
envoy_cluster_upstream_cx_total{local_cluster="server",envoy_cluster_name="local_app"} 4
envoy_cluster_upstream_rq_total{local_cluster="server",envoy_cluster_name="local_agent"} 1
envoy_cluster_upstream_rq_total{local_cluster="server",envoy_cluster_name="local_app"} 40
envoy_http_downstream_cx_rx_bytes_total{local_cluster="server",envoy_http_conn_manager_prefix="public_listener"} 7760
envoy_http_downstream_rq_total{local_cluster="server",envoy_http_conn_manager_prefix="admin"} 2
envoy_http_downstream_rq_total{local_cluster="server",envoy_http_conn_manager_prefix="public_listener"} 40
envoy_listener_downstream_cx_total{local_cluster="server",envoy_listener_address="0.0.0.0_20200"} 1
envoy_listener_downstream_cx_total{local_cluster="server",envoy_listener_address="10.202.0.35_20000"} 4
envoy_listener_ssl_handshake{local_cluster="server",envoy_listener_address="10.202.0.35_20000"} 4
"""
TCP_CLIENT = """\
envoy_cluster_ssl_handshake{local_cluster="client",envoy_cluster_name="server",UPSTREAM} 4
envoy_cluster_upstream_cx_total{local_cluster="client",envoy_cluster_name="server",UPSTREAM} 4
envoy_cluster_upstream_rq_total{local_cluster="client",envoy_cluster_name="server",UPSTREAM} 4
envoy_http_downstream_rq_total{local_cluster="client",envoy_http_conn_manager_prefix="admin"} 2
envoy_tcp_downstream_cx_rx_bytes_total{consul_upstream_service="server",envoy_tcp_prefix="upstream"} 3120
envoy_tcp_downstream_cx_total{consul_upstream_service="server",envoy_tcp_prefix="upstream"} 4
envoy_tcp_downstream_cx_tx_bytes_total{consul_upstream_service="server",envoy_tcp_prefix="upstream"} 3000
""".replace("UPSTREAM", UPSTREAM)
TCP_SERVER = """\
envoy_cluster_upstream_rq_total{local_cluster="server",envoy_cluster_name="local_app"} 4
envoy_listener_downstream_cx_total{local_cluster="server",envoy_listener_address="0.0.0.0_20200"} 1
envoy_listener_downstream_cx_total{local_cluster="server",envoy_listener_address="10.202.0.37_20000"} 4
envoy_listener_ssl_handshake{local_cluster="server",envoy_listener_address="10.202.0.37_20000"} 4
envoy_tcp_downstream_cx_rx_bytes_total{local_cluster="server",envoy_tcp_prefix="public_listener"} 3120
envoy_tcp_downstream_cx_tx_bytes_total{local_cluster="server",envoy_tcp_prefix="public_listener"} 3000
"""


def _plain(text):
    """Return the same pages as printed without TLS: other names, and no handshake."""
    text = text.replace('="server",consul', '="server-plain",consul').replace(
        '_service="server"', '_service="server-plain"'
    )
    text = text.replace("public_listener", "exposed_path_filter__21500").replace("_20000", "_21500")
    return "\n".join(line for line in text.splitlines() if "ssl_handshake" not in line)


def _read(text, configuration, role):
    asked = []

    class Reader:
        def from_inside(self, port, path):
            asked.append((port, path))
            return text

    counters = Consul().read_counters(Reader(), configuration, role)
    ((port, path),) = asked
    assert port == 19000 and path.startswith("/stats/prometheus?usedonly&filter=")
    return counters


def _setting(configuration, source="local"):
    return Setting(configuration, "ns", source)


def _pods(configuration="mtls", source="local"):
    plain = echo.manifests("ns", source, {}, **WORKLOAD)
    original = deepcopy(plain)
    adapted = Consul().adapt(plain, _setting(configuration, source))
    assert plain == original, "the workloads were changed in place"
    assert [m for m in adapted if m["kind"] != "Deployment"] == [
        m for m in original if m["kind"] != "Deployment"
    ]
    return {
        m["metadata"]["name"]: m["spec"]["template"]["spec"] for m in adapted if m["kind"] == "Deployment"
    }


def _server_settings(configuration):
    (text,) = (
        m["data"]["server.json"]
        for m in Consul().control_plane(configuration, "local")
        if m["kind"] == "ConfigMap"
    )
    return json.loads(text)


def _registered(configuration, role):
    (manifest,) = Consul().policies(_setting(configuration))
    return {service["name"]: service for service in json.loads(manifest["data"][f"{role}.json"])["services"]}


@pytest.mark.parametrize(("text", "role"), [(CLIENT, "client"), (SERVER, "server")])
def test_only_the_path_of_the_load_is_counted(text, role):
    counters = _read(text, "mtls", role)
    assert (counters.requests, counters.http_requests) == (40, 40)
    assert (counters.connections, counters.tls_handshakes) == (4, 4)


@pytest.mark.parametrize(("text", "role"), [(CLIENT, "client"), (SERVER, "server")])
def test_without_tls_the_exposed_path_is_counted_and_nothing_else(text, role):
    counters = _read(_plain(text), "basic", role)
    assert (counters.requests, counters.http_requests, counters.connections) == (40, 40, 4)
    assert counters.tls_handshakes == 0
    assert _read(text, "basic", role).http_requests == 0, "the port with TLS is not the exposed one"


@pytest.mark.parametrize(("text", "role"), [(TCP_CLIENT, "client"), (TCP_SERVER, "server")])
def test_of_tcp_connections_and_bytes_are_counted_and_no_requests(text, role):
    counters = _read(text, "mtls-tcp", role)
    assert (counters.requests, counters.http_requests) == (0, 0)
    assert (counters.connections, counters.tls_handshakes) == (4, 4)
    # 40 requests of 78 bytes, 40 answers of 75.
    assert (counters.request_bytes, counters.response_bytes) == (3120, 3000)


@pytest.mark.parametrize(
    ("http", "tcp", "role"), [(CLIENT, TCP_CLIENT, "client"), (SERVER, TCP_SERVER, "server")]
)
def test_one_protocol_is_not_taken_for_the_other(http, tcp, role):
    assert _read(tcp, "mtls", role).http_requests == 0
    as_http = _read(http, "mtls-tcp", role)
    assert (as_http.http_requests, as_http.request_bytes, as_http.response_bytes) == (40, 0, 0)


def test_each_configuration_declares_what_its_proxies_do():
    declared = {
        c: (Consul().protocol(c), Consul().expects_tls(c)) for c in meshes.MESHES["consul"].configurations
    }
    assert declared == {"basic": ("http", False), "mtls": ("http", True), "mtls-tcp": ("tcp", True)}


@pytest.mark.parametrize(
    ("configuration", "protocol"), [("basic", "http"), ("mtls", "http"), ("mtls-tcp", "tcp")]
)
def test_the_server_starts_with_its_configuration_entries(configuration, protocol):
    entries = _server_settings(configuration)["config_entries"]["bootstrap"]
    assert {entry["protocol"] for entry in entries} == {protocol}
    assert {"server", "client"} <= {entry["name"] for entry in entries}
    assert any("envoy_extensions" in entry for entry in entries) is (configuration == "basic")


def test_tls_is_taken_off_the_upstream_that_basic_uses_and_no_other():
    (extension,) = (
        extension
        for entry in _server_settings("basic")["config_entries"]["bootstrap"]
        for extension in entry.get("envoy_extensions", [])
    )
    (patch,) = extension["arguments"]["Patches"]
    (upstream,) = _registered("basic", "client")["client"]["connect"]["sidecar_service"]["proxy"]["upstreams"]
    assert patch["ResourceFilter"]["Services"] == [{"Name": upstream["destination_name"]}]
    assert (patch["Op"], patch["Path"]) == ("remove", "/transport_socket")
    plain = _registered("basic", "server")[upstream["destination_name"]]
    (path,) = _registered("basic", "server")["server"]["connect"]["sidecar_service"]["proxy"]["expose"][
        "paths"
    ]
    assert plain["port"] == path["listener_port"] and path["local_path_port"] == 8080


@pytest.mark.parametrize("configuration", ["mtls", "mtls-tcp"])
def test_nothing_is_exposed_around_tls(configuration):
    registered = _registered(configuration, "server")
    assert list(registered) == ["server"]
    assert "expose" not in registered["server"]["connect"]["sidecar_service"]["proxy"]
    (upstream,) = _registered(configuration, "client")["client"]["connect"]["sidecar_service"]["proxy"][
        "upstreams"
    ]
    assert upstream["destination_name"] == "server"
    assert Consul().url(configuration) == f"http://127.0.0.1:{upstream['local_bind_port']}/"


@pytest.mark.parametrize("role", ["client", "server"])
def test_a_sidecar_is_healthy_from_the_start_and_nothing_connects_to_it_to_see(role):
    (check,) = _registered("mtls", role)[role]["connect"]["sidecar_service"]["checks"]
    assert check["status"] == "passing" and check["alias_service"] == role
    assert not {"tcp", "http", "grpc", "interval"} & set(check)


def test_the_service_listens_on_the_loopback_address_only():
    for pod in _pods().values():
        (workload,) = pod["containers"]
        assert workload["args"][workload["args"].index("-http-port") + 1] == "127.0.0.1:8080"


def test_the_sidecar_is_registered_then_started_and_only_then_the_workload():
    for name, pod in _pods().items():
        register, sidecar = pod["initContainers"]
        assert {"name": "SERVICE", "value": name} in register["env"]
        assert (sidecar["name"], sidecar["restartPolicy"]) == (Consul.sidecar, "Always")
        assert sidecar["startupProbe"]["httpGet"]["path"] == "/ready"


@pytest.mark.parametrize(
    ("source", "consul", "envoy"),
    [
        ("local", "localhost/consul:1.22.0", "localhost/envoy:1.40.0"),
        # The newest Envoy in Consul 1.22.0's own list.
        ("registry", "docker.io/hashicorp/consul:1.22.0", "docker.io/envoyproxy/envoy:distroless-v1.35.3"),
    ],
)
def test_images_come_from_the_clusters_store_or_from_public_registries(source, consul, envoy):
    (server,) = (m for m in Consul().control_plane("mtls", source) if m["kind"] == "Deployment")
    assert [c["image"] for c in server["spec"]["template"]["spec"]["containers"]] == [consul]
    for pod in _pods(source=source).values():
        assert [c["image"] for c in pod["initContainers"]] == [consul, envoy]


def test_the_record_says_which_pairing_ran_and_what_basic_drops():
    mesh = Consul()
    assert mesh.versions("local") == {
        "mesh": "1.22.0",
        "envoy": "1.40.0 (vanilla)",
        "module": "github.com/hashicorp/consul",
    }
    assert mesh.versions("registry") == {"mesh": "1.22.0", "envoy": "1.35.3"}
    said = {(c, s): " ".join(mesh.caveats(c, s)) for c in ("basic", "mtls") for s in ("local", "registry")}
    assert ["intentions" in said[c, "local"] for c in ("basic", "mtls")] == [True, False]
    assert ["1.40.0" in said["mtls", s] for s in ("local", "registry")] == [True, False]
    assert all("iptables" in text for text in said.values())
