"""Cilium: what its configuration must be, what its node counts, and what is proven. Sources: tests/golden/README.md."""

from pathlib import Path

import pytest

from meshperf import meshes
from meshperf.errors import MeshperfError
from meshperf.meshes import cilium
from meshperf.meshes.base import ProxyCounters, Setting
from meshperf.meshes.cilium import Cilium
from meshperf.testbed.checks import Sent, check_path

GOLDEN = Path(__file__).parents[1] / "golden" / "cilium"
ENVOY = (GOLDEN / "envoy.prom").read_text()
NET_DEV = (GOLDEN / "net_dev.txt").read_text()
XFRM = (GOLDEN / "xfrm_state.txt").read_text()
NEITHER = {"client": False, "server": False}
NONE = ProxyCounters(0, 0, 0, 0)
#: Keys as Cilium's chart renders them, with its defaults.
CONFIG = {
    "enable-l7-proxy": "true",
    "external-envoy-proxy": "true",
    "mesh-auth-enabled": "false",
    "kube-proxy-replacement": "false",
}
WIREGUARD = {**CONFIG, "enable-wireguard": "true"}
IPSEC = {**CONFIG, "enable-ipsec": "true"}
ZTUNNEL = {**CONFIG, "enable-ztunnel": "true"}
AUTH = {**CONFIG, "mesh-auth-enabled": "true", "mesh-auth-mutual-enabled": "true"}


@pytest.mark.parametrize(
    ("configuration", "config"),
    [("basic", CONFIG), ("mutual-auth", AUTH), ("wireguard", WIREGUARD), ("ipsec", IPSEC), ("mtls", ZTUNNEL)],
)
def test_a_cilium_that_is_as_the_arm_claims_is_taken_and_every_other_refused(configuration, config):
    cilium.check_configuration(config, configuration)
    others = [
        c for c in (CONFIG, WIREGUARD, IPSEC, ZTUNNEL) if cilium.encryption(c) != cilium.encryption(config)
    ]
    for other in others:
        with pytest.raises(
            MeshperfError, match=rf"cilium/{configuration} needs a cluster whose Cilium has the enc"
        ):
            cilium.check_configuration(other, configuration)


@pytest.mark.parametrize(
    ("configuration", "config", "fault"),
    [
        (
            "basic",
            {**CONFIG, "enable-l7-proxy": "false"},
            "enable-l7-proxy: true .*it is false: set l7Proxy=true",
        ),
        (
            "basic",
            {"enable-l7-proxy": "true"},
            "external-envoy-proxy: true .*it is unset: set envoy.enabled=true",
        ),
        ("mutual-auth", CONFIG, "mesh-auth-enabled: true .* set authentication.enabled=true"),
        ("wireguard", CONFIG, "has none: set encryption.enabled=true and encryption.type=wireguard"),
        ("basic", WIREGUARD, "has wireguard: set encryption.enabled=false"),
    ],
)
def test_the_sentence_says_what_differs_and_which_setting_changes_it(configuration, config, fault):
    with pytest.raises(MeshperfError, match=fault):
        cilium.check_configuration(config, configuration)


def test_a_cluster_without_cilium_is_refused_and_never_given_one():
    class Cluster:
        def get(self, *what):
            return None

    with pytest.raises(MeshperfError, match="Cilium is not its network: it is never installed here"):
        Cilium().check_cluster(Cluster(), "basic")
    for configuration in meshes.SUPPORTED["cilium"]:
        assert list(Cilium().control_plane(configuration, "registry")) == []
    assert Cilium().control_plane_namespaces == ()


def test_requests_are_counted_where_they_enter_the_services_node():
    counted = cilium.envoy_counters(ENVOY, encrypted_packets=7)
    # 40 requests on 4 connections were sent; Envoy's own administration is not among them.
    assert counted == ProxyCounters(40, 40, connections=4, tls_handshakes=0, encrypted_packets=7)


def test_packets_of_the_encryption_are_counted_both_ways():
    assert cilium.wireguard_packets(NET_DEV) == 301 + 205
    assert cilium.wireguard_packets(NET_DEV.replace("cilium_wg0", "other")) == 0
    assert cilium.ipsec_packets(XFRM) == 418 + 207
    # The limits above them, which are in packets too, are not counted.
    assert cilium.ipsec_packets(XFRM.replace("(INF)(packets)", "900(packets)")) == 418 + 207
    assert cilium.ipsec_packets("") == 0


def _failed(configuration, counters):
    checks = check_path(
        Cilium(), configuration, NEITHER, {"server": NONE}, {"server": counters}, Sent(40, 4, 720, 3000)
    )
    return [check.name for check in checks if not check.passed]


def test_a_load_that_envoy_parsed_is_proven_and_one_that_it_did_not_is_refused():
    counted = cilium.envoy_counters(ENVOY)
    assert _failed("basic", counted) == []
    assert _failed("basic", NONE) == ["load passed the server's proxy"]
    as_tcp = "\n".join(line for line in ENVOY.splitlines() if not line.startswith("envoy_http"))
    assert _failed("basic", cilium.envoy_counters(as_tcp)) == ["handled as HTTP"]


def test_encryption_that_encrypted_nothing_is_refused():
    assert _failed("wireguard", cilium.envoy_counters(ENVOY, 40)) == []
    assert _failed("wireguard", cilium.envoy_counters(ENVOY, 39)) == [
        "packets were encrypted at the server's node"
    ]


def test_what_stays_on_a_node_is_not_encrypted_so_another_node_is_asked_for():
    placements = {c: Cilium().placement(c) for c in meshes.SUPPORTED["cilium"]}
    assert placements == {
        "basic": None, "mtls": None, "mutual-auth": None, "wireguard": "other-node", "ipsec": "other-node",
    }  # fmt: skip


def test_the_policy_has_every_request_parsed_and_refuses_none():
    (policy,) = Cilium().policies(Setting("basic", "ns", "registry"))
    (rule,) = policy["spec"]["ingress"]
    assert policy["spec"]["endpointSelector"] == {"matchLabels": {"app": "server"}}
    assert rule["toPorts"][0]["rules"] == {"http": [{}]}
    assert "authentication" not in rule
    (policy,) = Cilium().policies(Setting("mutual-auth", "ns", "registry"))
    assert policy["spec"]["ingress"][0]["authentication"] == {"mode": "required"}
    # Its own rule for ports would cut off what ztunnel carries.
    assert list(Cilium().policies(Setting("mtls", "ns", "registry"))) == []
    assert Cilium().namespace_labels("mtls") == {"io.cilium/mtls-enabled": "true"}
    assert Cilium().namespace_labels("basic") == {}


class _Reader:
    """A pod whose node's agent answers as a recorded one."""

    namespace = "ns"

    def __init__(self, role, answers, asked):
        self.pod, self._answers, self._asked = f"{role}-1", answers, asked

    def on_same_node(self, namespace, labels):
        assert namespace == "kube-system"
        self._asked.append(labels["k8s-app"])
        return self

    def through_api_server(self, port, path):
        self._asked.append((port, path))
        return ENVOY

    def run(self, container, command):
        assert container == "cilium-agent"
        self._asked.append(" ".join(command))
        return self._answers[" ".join(command)]


ENDPOINT = '[{"id": 1234, "status": {"identity": {"id": %d, "labels": ["k8s:app=%s"]}}}]'
LISTED = """[
  {"LocalIdentity": 17947, "RemoteIdentity": 40211, "RemoteNodeID": 0, "AuthType": 1,
   "Expiration": "2026-11-21T16:02:11Z"}
]"""


def _answers(listed=LISTED):
    return {
        "cilium-dbg endpoint get cep-name:ns/server-1 -o json": ENDPOINT % (17947, "server"),
        "cilium-dbg endpoint get cep-name:ns/client-1 -o json": ENDPOINT % (40211, "client"),
        "cilium-dbg bpf auth list -o json": listed,
    }


@pytest.mark.parametrize(
    ("listed", "passed"),
    [
        (LISTED, True),
        ("null", False),
        (LISTED.replace("40211", "40212"), False),
        # The other way round: the client let the server in.
        (LISTED.replace("17947", "x").replace("40211", "17947").replace("x", "40211"), False),
        (LISTED.replace('"AuthType": 1', '"AuthType": 0'), False),
    ],
)
def test_workloads_must_have_been_authenticated_to_each_other(listed, passed):
    readers = {role: _Reader(role, _answers(listed), []) for role in ("client", "server")}
    (check,) = Cilium().further_checks(readers, "mutual-auth")
    assert check.passed is passed and "17947" in check.detail
    assert list(Cilium().further_checks(readers, "basic")) == []


@pytest.mark.parametrize(
    ("configuration", "command", "answer", "packets"),
    [
        ("wireguard", "cat /proc/net/dev", NET_DEV, 506),
        ("ipsec", "ip -s xfrm state list nokeys", XFRM, 625),
    ],
)
def test_the_agent_of_the_services_node_counts_what_was_encrypted(configuration, command, answer, packets):
    asked = []
    counted = Cilium().read_counters(_Reader("server", {command: answer}, asked), configuration, "server")
    assert (counted.requests, counted.encrypted_packets) == (40, packets)
    assert asked == ["cilium-envoy", (9964, "/metrics"), "cilium", command]


def test_without_encryption_no_agent_is_asked():
    asked = []
    assert Cilium().read_counters(_Reader("server", {}, asked), "basic", "server").encrypted_packets == 0
    assert asked == ["cilium-envoy", (9964, "/metrics")]


def test_every_number_says_that_the_kernels_work_is_in_no_container():
    for configuration in meshes.SUPPORTED["cilium"]:
        assert "belongs to no container" in Cilium().caveats(configuration, "registry")[0]
