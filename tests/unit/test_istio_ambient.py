"""Istio's ambient mode: ztunnel's counters, what is proven, and which Cilium it gets on with.

Metrics: tests/golden/README.md. What Istio needs of Cilium: Cilium's documentation, "Integration with Istio".
"""

from pathlib import Path

import pytest

from meshperf.errors import MeshperfError
from meshperf.meshes import istio_ambient, ztunnel
from meshperf.meshes.base import ProxyCounters, Setting
from meshperf.meshes.istio_ambient import IstioAmbient
from meshperf.testbed.checks import Sent, check_path

TEXT = (Path(__file__).parents[1] / "golden" / "istio-ambient" / "ztunnel.prom").read_text()
NONE = ProxyCounters(0, 0, 0, 0)
NEITHER = {"client": False, "server": False}


def test_both_sides_are_read_from_the_ztunnel_that_they_share():
    client, server = (ztunnel.counters(TEXT, "ns", role) for role in ("client", "server"))
    assert client == ProxyCounters(0, 0, 4, 4, request_bytes=2640, response_bytes=3300)
    assert server == ProxyCounters(0, 0, 4, 4, request_bytes=2641, response_bytes=3301)
    assert ztunnel.counters(TEXT, "none", "client") == NONE


def _failed(text):
    after = {role: ztunnel.counters(text, "ns", role) for role in ("client", "server")}
    sent = Sent(requests=44, connections=4, request_bytes=44 * 18, response_bytes=3000)
    checks = check_path(IstioAmbient(), "mtls", NEITHER, dict.fromkeys(after, NONE), after, sent)
    return [check.name for check in checks if not check.passed]


def test_a_load_carried_in_mutual_tls_is_proven():
    assert _failed(TEXT) == []


def test_connections_that_were_not_in_mutual_tls_are_refused():
    assert _failed(TEXT.replace('"mutual_tls"', '"unknown"')) == ["every connection is TLS"]


def test_a_load_that_went_around_ztunnel_is_refused():
    lines = [line for line in TEXT.splitlines() if 'reporter="destination"' not in line]
    assert _failed("\n".join(lines)) == [
        "connections passed the server's proxy", "bytes passed the server's proxy", "every connection is TLS",
    ]  # fmt: skip


def test_the_proxy_of_the_pods_own_node_is_asked():
    asked = []

    class Reader:
        namespace = "ns"

        def on_same_node(self, namespace, labels):
            asked.append((namespace, labels))
            return self

        def through_api_server(self, port, path):
            asked.append((port, path))
            return TEXT

    assert IstioAmbient().read_counters(Reader(), "mtls", "server").connections == 4
    assert asked == [("istio-system", {"app": "ztunnel"}), (15020, "/stats/prometheus")]


def test_plaintext_is_not_let_in():
    (policy,) = IstioAmbient().policies(Setting("mtls", "ns", "registry"))
    assert policy["spec"] == {"mtls": {"mode": "STRICT"}} and policy["metadata"]["namespace"] == "ns"


def test_the_ambient_profile_is_rendered_with_released_images(monkeypatch):
    asked = []
    monkeypatch.setattr(istio_ambient, "render", lambda program, *words: asked.append(words) or [])
    IstioAmbient().control_plane("mtls", "registry")
    (words,) = asked
    assert words[:2] == ("manifest", "generate")
    assert "profile=ambient" in words and "hub=docker.io/istio" in words


class _Cluster:
    def __init__(self, **config):
        self._config = {key.replace("_", "-"): value for key, value in config.items()}

    def get(self, api_version, kind, name, namespace):
        assert (kind, namespace, name) == ("ConfigMap", "kube-system", "cilium-config")
        return {"data": self._config} if self._config else None


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"cni_exclusive": "true"}, r"cni-exclusive: true.*set cni\.exclusive=false"),
        ({"kube_proxy_replacement": "false"}, "cni-exclusive: unset"),
        (
            {"cni_exclusive": "false", "kube_proxy_replacement": "true"},
            r"bpf-lb-sock-hostns-only: unset.*set socketLB\.hostNamespaceOnly=true",
        ),
        ({"cni_exclusive": "false", "bpf_lb_sock": "true"}, "bpf-lb-sock-hostns-only"),
    ],
)
def test_a_cilium_that_would_be_in_the_way_is_refused_with_its_remedy(config, fault):
    with pytest.raises(MeshperfError, match=fault):
        IstioAmbient().check_cluster(_Cluster(**config), "mtls")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"cni_exclusive": "false", "kube_proxy_replacement": "false"},
        {"cni_exclusive": "false", "kube_proxy_replacement": "true", "bpf_lb_sock_hostns_only": "true"},
    ],
)
def test_other_networks_and_a_fitting_cilium_are_taken(config):
    IstioAmbient().check_cluster(_Cluster(**config), "mtls")
