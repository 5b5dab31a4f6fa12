"""What Kuma asks for and how its proxies are read, as data: no cluster needed."""

import itertools
from copy import deepcopy

import pytest

from meshperf import meshes
from meshperf.meshes import kuma
from meshperf.meshes.base import Setting
from meshperf.meshes.kuma import Kuma
from meshperf.workloads import echo

NAMESPACE = "meshperf-kuma-mtls-01-1"
# Printed by the sidecars of a deployment with mutual TLS after 40 requests on 4 connections, shortened.
CLIENT = """\
# TYPE envoy_cluster_ssl_handshake counter
envoy_cluster_ssl_handshake{envoy_cluster_name="ads_cluster"} 1
envoy_cluster_ssl_handshake{envoy_cluster_name="server_meshperf-kuma-mtls-01-1_svc_8080"} 2
envoy_cluster_upstream_cx_total{envoy_cluster_name="ads_cluster"} 1
envoy_cluster_upstream_cx_total{envoy_cluster_name="kuma_envoy_admin"} 2
envoy_cluster_upstream_cx_total{envoy_cluster_name="server_meshperf-kuma-mtls-01-1_svc_8080"} 2
envoy_cluster_upstream_rq_total{envoy_cluster_name="ads_cluster"} 1
envoy_cluster_upstream_rq_total{envoy_cluster_name="kuma_envoy_admin"} 5
envoy_cluster_upstream_rq_total{envoy_cluster_name="server_meshperf-kuma-mtls-01-1_svc_8080"} 40
envoy_http_downstream_cx_total{envoy_http_conn_manager_prefix="admin"} 3
envoy_http_downstream_cx_total{envoy_http_conn_manager_prefix="server_meshperf-kuma-mtls-01-1_svc_8080"} 4
envoy_http_downstream_rq_total{envoy_http_conn_manager_prefix="admin"} 6
envoy_http_downstream_rq_total{envoy_http_conn_manager_prefix="kuma_envoy_admin"} 5
envoy_http_downstream_rq_total{envoy_http_conn_manager_prefix="server_meshperf-kuma-mtls-01-1_svc_8080"} 40
envoy_listener_downstream_cx_total{envoy_listener_address="10.202.0.4_9901"} 5
envoy_listener_downstream_cx_total{envoy_listener_address="10.203.148.251_8080"} 4
"""
SERVER = """\
envoy_cluster_ssl_handshake{envoy_cluster_name="ads_cluster"} 1
envoy_cluster_upstream_cx_total{envoy_cluster_name="ads_cluster"} 1
envoy_cluster_upstream_cx_total{envoy_cluster_name="localhost_8080"} 4
envoy_cluster_upstream_rq_total{envoy_cluster_name="kuma_envoy_admin"} 5
envoy_cluster_upstream_rq_total{envoy_cluster_name="localhost_8080"} 40
envoy_http_downstream_cx_total{envoy_http_conn_manager_prefix="admin"} 3
envoy_http_downstream_cx_total{envoy_http_conn_manager_prefix="kuma_envoy_admin"} 5
envoy_http_downstream_cx_total{envoy_http_conn_manager_prefix="localhost_8080"} 2
envoy_http_downstream_rq_total{envoy_http_conn_manager_prefix="kuma_envoy_admin"} 5
envoy_http_downstream_rq_total{envoy_http_conn_manager_prefix="localhost_8080"} 40
envoy_listener_downstream_cx_total{envoy_listener_address="10.202.0.5_9901"} 5
envoy_listener_ssl_handshake{envoy_listener_address="10.202.0.5_8080"} 2
"""


def _read(text, role):
    asked = []

    class Reader:
        def from_inside(self, port, path):
            asked.append((port, path))
            return text

    return Kuma().read_counters(Reader(), "mtls", role), asked


def _setting(configuration):
    return Setting(configuration, NAMESPACE, "local")


@pytest.mark.parametrize(("text", "role"), [(CLIENT, "client"), (SERVER, "server")])
def test_only_the_path_of_the_load_is_counted(text, role):
    counters, ((port, path),) = _read(text, role)
    assert (counters.requests, counters.http_requests) == (40, 40)
    # HTTP/2 between the sidecars: one connection for each of the client's two workers, whatever the load opens.
    assert (counters.connections, counters.tls_handshakes) == (2, 2)
    assert port == 9901 and path.startswith("/stats/prometheus?usedonly&filter=")


@pytest.mark.parametrize(("text", "role"), [(CLIENT, "client"), (SERVER, "server")])
def test_the_handshake_with_the_control_plane_is_not_one_of_the_path(text, role):
    plain = "\n".join(
        line for line in text.splitlines() if "ssl_handshake" not in line or "ads_cluster" in line
    )
    assert _read(plain, role)[0].tls_handshakes == 0


def test_a_port_that_kuma_takes_for_tcp_is_not_counted_as_http():
    # What the client's sidecar prints before it has heard that the service speaks HTTP.
    as_tcp = "\n".join(
        line.replace("envoy_http_downstream_cx_total{envoy_http_conn_manager_prefix",
                     "envoy_tcp_downstream_cx_total{envoy_tcp_prefix")
        for line in CLIENT.splitlines() if "svc_8080" in line and "rq_total" not in line
    )  # fmt: skip
    counters, _ = _read(as_tcp, "client")
    assert (counters.http_requests, counters.connections) == (0, 2)


def test_the_mesh_issues_certificates_or_has_no_authority_at_all():
    (plain,), (mtls,) = (Kuma().policies(_setting(c)) for c in meshes.SUPPORTED["kuma"])
    assert plain["spec"] == {}
    enabled, backends = mtls["spec"]["mtls"]["enabledBackend"], mtls["spec"]["mtls"]["backends"]
    assert [backend["type"] for backend in backends if backend["name"] == enabled] == ["builtin"]


def test_the_sidecar_gets_a_token_and_the_workload_stays_as_it_is():
    workload = {
        "server_limits": {}, "client_limits": {}, "placement": "same-node",
        "server_node_selector": {}, "client_node_selector": {},
    }  # fmt: skip
    plain = echo.manifests(NAMESPACE, "local", Kuma().pod_annotations("mtls"), **workload)
    original = deepcopy(plain)
    adapted = Kuma().adapt(plain, _setting("mtls"))
    assert plain == original
    pods = [m["spec"]["template"] for m in adapted if m["kind"] == "Deployment"]
    assert len(pods) == 2
    for pod in pods:
        name = pod["metadata"]["annotations"]["kuma.io/service-account-token-volume"]
        (volume,) = (v for v in pod["spec"]["volumes"] if v["name"] == name)
        assert volume["projected"]["sources"][0]["serviceAccountToken"]["path"] == "token"
        # The webhook mounts it into the sidecar; the workload's own container does not see it.
        assert name not in [mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]]
        pod["spec"]["volumes"].remove(volume)
    assert adapted == original


@pytest.mark.parametrize(("source", "registry"), [("local", "localhost"), ("registry", "docker.io/kumahq")])
def test_images_come_from_the_clusters_store_or_from_kumas_registry(monkeypatch, source, registry):
    asked = []
    monkeypatch.setattr(kuma, "render", lambda program, *arguments: asked.append((program.name, arguments)))
    Kuma().control_plane("mtls", source)
    ((name, arguments),) = asked
    options = dict(itertools.pairwise(arguments))
    assert (name, arguments[:2]) == ("kumactl", ("install", "control-plane"))
    assert (options["--registry"], options["--version"]) == (registry, "1.8.1")
    # Nothing of a release is turned off where its own images are used.
    assert ("--env-var" in arguments) is (source == "local")


def test_the_record_says_that_envoy_is_not_the_one_of_the_release():
    assert Kuma().versions("local")["envoy"] == "1.40.0 (vanilla)"
    assert Kuma().versions("registry") == {"mesh": "1.8.1", "envoy": "1.22.1"}
    (caveat,) = Kuma().caveats("basic", "local")
    assert "1.40.0" in caveat and "1.22.1" in caveat
    assert Kuma().caveats("basic", "registry") == ()
