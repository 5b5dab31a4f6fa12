"""What meshes ask for and how they read their proxies, as data: no cluster needed."""

import json

import pytest

from meshperf import meshes
from meshperf.errors import MeshperfError
from meshperf.meshes.base import Setting
from meshperf.meshes.istio import Istio
from meshperf.meshes.prometheus_text import series, total

# Printed by the sidecars of a deployment with mutual TLS after 44 requests on 4 connections, shortened.
CLIENT = """\
# TYPE envoy_cluster_ssl_handshake counter
envoy_cluster_ssl_handshake{cluster_name="outbound|8080||server.ns.svc.cluster.local"} 3
envoy_cluster_upstream_cx_total{cluster_name="agent"} 1
envoy_cluster_upstream_cx_total{cluster_name="outbound|8080||server.ns.svc.cluster.local"} 3
envoy_cluster_upstream_rq_total{cluster_name="xds-grpc"} 1
envoy_cluster_upstream_rq_total{cluster_name="outbound|8080||server.ns.svc.cluster.local"} 44
envoy_http_downstream_rq_total{http_conn_manager_prefix="outbound_0.0.0.0_8080"} 44
envoy_listener_downstream_cx_total{listener_address="0.0.0.0_8080"} 4
"""
SERVER = """\
envoy_cluster_upstream_rq_total{cluster_name="inbound|8080||"} 44
envoy_cluster_upstream_rq_total{cluster_name="prometheus_stats"} 3
envoy_http_downstream_cx_total{http_conn_manager_prefix="inbound_0.0.0.0_8080"} 3
envoy_http_downstream_rq_total{http_conn_manager_prefix="inbound_0.0.0.0_8080"} 44
envoy_http_stats_downstream_rq_total{} 3
envoy_listener_ssl_handshake{listener_address="0.0.0.0_15006"} 3
"""


def _read(text, role):
    asked = []

    class Reader:
        def through_api_server(self, port, path):
            asked.append((port, path))
            return text

    return Istio().read_counters(Reader(), "mtls", role), asked


def test_every_supported_mesh_is_there():
    for name in meshes.SUPPORTED:
        assert meshes.get(name).name == name


def test_a_configuration_with_a_number_is_supported_for_the_numbers_of_its_range():
    for n in (1, 10, 4999, 5000):
        assert meshes.supports("istio", f"authz-{n}") and meshes.supports(
            "istio", f"authz-{n}", embedded=True
        )
        assert (meshes.family(f"authz-{n}"), meshes.number(f"authz-{n}")) == ("authz-N", n)
    for wrong in ("0", "01", "5001", "N", "-1", "1.5", "", "1 "):
        assert not meshes.supports("istio", f"authz-{wrong}"), wrong
    assert not meshes.supports("kuma", "authz-10")
    assert meshes.family("mtls") == "mtls"


def test_an_unknown_mesh_is_named_with_those_that_exist():
    with pytest.raises(MeshperfError, match=r"there is no mesh 'itsio': choose one of baseline, .*istio"):
        meshes.get("itsio")


@pytest.mark.parametrize(("text", "role"), [(CLIENT, "client"), (SERVER, "server")])
def test_istio_counts_only_the_path_of_the_load(text, role):
    counters, (asked,) = _read(text, role)
    assert (counters.requests, counters.http_requests) == (44, 44)
    assert (counters.connections, counters.tls_handshakes) == (3, 3)
    assert asked[0] == 15090 and asked[1].startswith("/stats/prometheus?usedonly&filter=")


def test_requests_that_went_through_as_tcp_are_not_counted_as_http():
    # A TCP proxy counts connections on the listener and has no HTTP connection manager.
    as_tcp = "\n".join(line for line in CLIENT.splitlines() if not line.startswith("envoy_http"))
    assert _read(as_tcp, "client")[0].http_requests == 0


def test_mtls_is_required_or_forbidden_and_never_left_to_chance():
    modes = {
        c: Istio().policies(Setting(c, "ns", "local"))[0]["spec"]["mtls"]["mode"] for c in ("basic", "mtls")
    }
    assert modes == {"basic": "DISABLE", "mtls": "STRICT"}


def test_the_sidecar_starts_before_the_application():
    annotation = Istio().pod_annotations("mtls")["proxy.istio.io/config"]
    assert json.loads(annotation)["holdApplicationUntilProxyStarts"] is True


def test_the_record_says_that_envoy_is_not_istios_own_build():
    assert "vanilla" in Istio().versions("local")["envoy"]
    assert "envoy" not in Istio().versions("registry")


def test_counters_are_summed_over_the_series_that_match_in_full():
    text = (
        '# HELP x y\nx{a="1",b="q"} 2\nx{a="12",b="q"} 3\nx{b="q"} 5\nxx{a="1"} 7\nx{a="1",b="r\\"}"} 1e1\n'
    )
    assert total(text, "x", a="1") == 12  # 2 + 10
    assert total(text, "x") == 20
    assert total(text, "y") == 0
    assert len(list(series(text, "xx"))) == 1
