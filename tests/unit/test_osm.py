"""What Open Service Mesh asks for and how its proxies are read, as data: no cluster needed."""

import itertools
import json
import re

import pytest

from meshperf import meshes
from meshperf.meshes import osm
from meshperf.meshes.base import Setting
from meshperf.meshes.osm import Osm

NAMESPACE = "meshperf-osm-mtls-01-1"
# Printed by the sidecars of a deployment after 40 requests on 4 connections, shortened.
CLIENT = """\
# TYPE envoy_cluster_ssl_handshake counter
envoy_cluster_ssl_handshake{envoy_cluster_name="meshperf-osm-mtls-01-1/server|8080"} 4
envoy_cluster_ssl_handshake{envoy_cluster_name="osm-controller"} 1
envoy_cluster_upstream_cx_total{envoy_cluster_name="meshperf-osm-mtls-01-1/server|8080"} 4
envoy_cluster_upstream_cx_total{envoy_cluster_name="osm-controller"} 1
envoy_cluster_upstream_rq_total{envoy_cluster_name="meshperf-osm-mtls-01-1/server|8080"} 40
envoy_cluster_upstream_rq_total{envoy_cluster_name="osm-controller"} 1
envoy_http_downstream_cx_total{envoy_http_conn_manager_prefix="admin"} 1
envoy_http_downstream_rq_total{envoy_http_conn_manager_prefix="admin"} 1
envoy_http_rds_outbound_8080_downstream_cx_total{envoy_http_conn_manager_prefix="mesh-http-conn-manager"} 4
envoy_http_rds_outbound_8080_downstream_rq_total{envoy_http_conn_manager_prefix="mesh-http-conn-manager"} 40
envoy_listener_downstream_cx_total{envoy_listener_address="0.0.0.0_15001"} 4
"""
SERVER = """\
envoy_cluster_ssl_handshake{envoy_cluster_name="osm-controller"} 1
envoy_cluster_upstream_cx_total{envoy_cluster_name="meshperf-osm-mtls-01-1/server|8080|local"} 4
envoy_cluster_upstream_rq_total{envoy_cluster_name="meshperf-osm-mtls-01-1/server|8080|local"} 40
envoy_cluster_upstream_rq_total{envoy_cluster_name="osm-controller"} 1
envoy_http_downstream_rq_total{envoy_http_conn_manager_prefix="admin"} 1
envoy_http_rds_inbound_8080_downstream_cx_total{envoy_http_conn_manager_prefix="mesh-http-conn-manager"} 4
envoy_http_rds_inbound_8080_downstream_rq_total{envoy_http_conn_manager_prefix="mesh-http-conn-manager"} 40
envoy_http_rds_inbound_8080_rbac_allowed{envoy_http_conn_manager_prefix="mesh-http-conn-manager"} 40
envoy_listener_downstream_cx_total{envoy_listener_address="0.0.0.0_15003"} 4
envoy_listener_ssl_handshake{envoy_listener_address="0.0.0.0_15003"} 4
"""
PRESET = {"traffic": {"enablePermissiveTrafficPolicyMode": True}}


def _read(text, role):
    asked = []

    class Reader:
        def from_inside(self, port, path):
            asked.append((port, path))
            return text

    return Osm().read_counters(Reader(), "mtls", role), asked


@pytest.fixture
def control_plane(monkeypatch):
    """Render a chart of one part, and keep what Helm was asked."""
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "osm-controller", "namespace": "osm-system"},
        "spec": {"template": {"spec": {"initContainers": [{"name": "wait"}], "containers": [{"name": "c"}]}}},
    }
    preset = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "preset-mesh-config", "namespace": "osm-system"},
        "data": {"preset-mesh-config.json": json.dumps(PRESET)},
    }
    asked = []

    def rendered(program, *arguments, chart):
        asked.append(arguments)
        return [deployment, preset]

    monkeypatch.setattr(osm, "render", rendered)
    monkeypatch.setattr(osm, "keep", lambda program, *key, make: [])

    def made(configuration, image_source):
        manifests = Osm().control_plane(configuration, image_source)
        options = asked[-1]
        values = [value for word, value in itertools.pairwise(options) if word == "--set"]
        return manifests, dict(value.split("=", 1) for value in values)

    return made


@pytest.mark.parametrize(("text", "role"), [(CLIENT, "client"), (SERVER, "server")])
def test_only_the_path_of_the_load_is_counted(text, role):
    counters, ((port, path),) = _read(text, role)
    assert (counters.requests, counters.http_requests) == (40, 40)
    assert (counters.connections, counters.tls_handshakes) == (4, 4)
    assert port == 15000 and path.startswith("/stats/prometheus?usedonly&filter=")


@pytest.mark.parametrize(("text", "role"), [(CLIENT, "client"), (SERVER, "server")])
def test_the_handshake_with_the_control_plane_is_not_one_of_the_path(text, role):
    plain = "\n".join(
        line for line in text.splitlines() if "ssl_handshake" not in line or "osm-controller" in line
    )
    plain += '\nenvoy_listener_ssl_handshake{envoy_listener_address="0.0.0.0_15010"} 3\n'  # not where requests come in
    assert _read(plain, role)[0].tls_handshakes == 0


def test_requests_that_went_through_as_tcp_are_not_counted_as_http():
    as_tcp = "\n".join(line for line in CLIENT.splitlines() if not line.startswith("envoy_http"))
    assert _read(as_tcp, "client")[0].http_requests == 0


def test_every_arm_is_encrypted():
    assert all(Osm().expects_tls(configuration) for configuration in meshes.SUPPORTED["osm"])


def test_all_is_allowed_or_only_what_a_policy_names(control_plane):
    permissive = {
        configuration: control_plane(configuration, "local")[1]["osm.enablePermissiveTrafficPolicy"]
        for configuration in meshes.SUPPORTED["osm"]
    }
    assert permissive == {"mtls": "true", "mtls-smi": "false"}
    assert list(Osm().policies(Setting("mtls", NAMESPACE, "local"))) == []
    routes, target = Osm().policies(Setting("mtls-smi", NAMESPACE, "local"))
    accounts = [target["spec"]["destination"], *target["spec"]["sources"]]
    assert [(a["kind"], a["name"], a["namespace"]) for a in accounts] == [
        ("ServiceAccount", "server", NAMESPACE), ("ServiceAccount", "client", NAMESPACE),
    ]  # fmt: skip
    (rule,) = target["spec"]["rules"]
    assert (rule["kind"], rule["name"]) == (routes["kind"], routes["metadata"]["name"])
    assert rule["matches"] == [match["name"] for match in routes["spec"]["matches"]]


def test_the_proof_tries_a_path_that_no_policy_names():
    routes, _ = Osm().policies(Setting("mtls-smi", NAMESPACE, "local"))
    for configuration, statuses in (("mtls", {200}), ("mtls-smi", {403, 404})):
        (trial,) = Osm().trials(Setting(configuration, NAMESPACE, "local"))
        assert trial.statuses == statuses
        # OSM matches paths in full.
        named = [re.fullmatch(match["pathRegex"], f"/{trial.path}") for match in routes["spec"]["matches"]]
        assert named == [None]
    assert [Osm().decides(configuration) for configuration in ("mtls", "mtls-smi")] == [False, True]
    assert _read(SERVER, "server")[0].allowed == 40


def test_osm_finds_its_webhooks_and_settings_made_before_it_starts(control_plane):
    manifests, _ = control_plane("mtls", "local")
    kinds = [manifest["kind"] for manifest in manifests]
    before = kinds[: kinds.index("Deployment")]
    assert before == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "MeshConfig"]
    webhooks, settings = manifests[:2], manifests[2]
    # The names that the chart gives to osm-injector and osm-controller in their arguments.
    assert [webhook["metadata"]["name"] for webhook in webhooks] == [
        "osm-webhook-osm",
        "osm-validator-mesh-osm",
    ]
    assert not any("webhooks" in webhook for webhook in webhooks), "OSM's own would be overwritten"
    assert (settings["metadata"]["name"], settings["spec"]) == ("osm-mesh-config", PRESET)


def test_nothing_waits_for_what_is_there_already(control_plane):
    manifests, _ = control_plane("mtls", "local")
    (deployment,) = (m for m in manifests if m["kind"] == "Deployment")
    assert "initContainers" not in deployment["spec"]["template"]["spec"]


def test_a_users_cluster_runs_the_release_as_its_chart_has_it(control_plane):
    _, local = control_plane("mtls", "local")
    assert local["osm.image.registry"] == "localhost" and local["osm.sidecarImage"].startswith("localhost/")
    _, registry = control_plane("mtls", "registry")
    assert registry == {"osm.enablePermissiveTrafficPolicy": "true"}


def test_the_reader_is_told_that_the_project_has_ended():
    for source in ("local", "registry"):
        assert any("archived" in caveat for caveat in Osm().caveats("mtls", source))
    assert Osm().versions("registry") == {"mesh": "1.2.4", "envoy": "1.22.2"}
    assert Osm().versions("local")["envoy"] == "1.40.0 (vanilla)"
    assert sum("1.22.2" in caveat for caveat in Osm().caveats("mtls", "local")) == 1
