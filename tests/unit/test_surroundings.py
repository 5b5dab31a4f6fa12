"""What a cluster's own network is, and what of it is refused: no cluster needed.

The ConfigMap's keys and values are those that the chart of Cilium 1.20.2 renders with ``encryption.type=wireguard``.
"""

import pytest

from meshperf.errors import MeshperfError
from meshperf.meshes.base import Mesh
from meshperf.meshes.cilium_config import agent_version, encryption
from meshperf.testbed import surroundings

CONFIG = {
    "enable-wireguard": "true",
    "enable-l7-proxy": "true",
    "kube-proxy-replacement": "true",
    "routing-mode": "native",
    "tunnel-protocol": "vxlan",
    "datapath-mode": "veth",
    "bpf-lb-sock": "false",
}
IMAGE = "quay.io/cilium/cilium:v1.20.2@sha256:" + "0" * 64
AGENT = {
    "kind": "DaemonSet",
    "spec": {"template": {"spec": {"containers": [{"name": "cilium-agent", "image": IMAGE}]}}},
}


class _Cluster:
    def __init__(self, config=None, policies=()):
        self.objects = {"ConfigMap": config and {"data": config}, "DaemonSet": AGENT}
        self.policies, self.listed = policies, []

    def get(self, api_version, kind, name, namespace=None):
        assert namespace == "kube-system"
        return self.objects[kind]

    def list_objects(self, api_version, kind, namespace=None, selector=None):
        self.listed.append(kind)
        return [policy for policy in self.policies if policy["kind"] == kind]


def _policy(rules, kind="CiliumClusterwideNetworkPolicy", side="ingress", **labels):
    ports = {"ports": [{"port": "8080", "protocol": "TCP"}], **rules}
    return {
        "kind": kind,
        "metadata": {"name": "theirs", "labels": labels},
        "spec": {"endpointSelector": {}, side: [{"toPorts": [ports]}]},
    }


def test_nothing_is_said_of_a_network_that_is_not_known_and_it_is_asked_only_once():
    cluster = _Cluster()
    assert surroundings.look(cluster, "ns") == surroundings.Surroundings({}, ())
    assert cluster.listed == []


def test_the_record_says_what_the_network_is_and_that_it_encrypts_the_baseline_too():
    found = surroundings.look(_Cluster(CONFIG), "ns")
    assert found.facts == {
        "cni": "cilium", "cilium": "v1.20.2", "encryption": "wireguard", "routing": "native",
        "tunnel_protocol": "vxlan", "kube_proxy_replacement": "true", "datapath": "veth",
        "socket_load_balancing": "false",
    }  # fmt: skip
    (caveat,) = found.caveats
    assert "wireguard" in caveat and "the baseline too" in caveat


@pytest.mark.parametrize(
    ("config", "how"),
    [
        ({}, "none"),
        ({"enable-wireguard": "false"}, "none"),
        ({"enable-ipsec": "true"}, "ipsec"),
        ({"enable-ztunnel": "true"}, "ztunnel"),
    ],
)
def test_only_encryption_that_takes_every_pod_needs_a_caveat(config, how):
    assert encryption(config) == how
    assert bool(surroundings.look(_Cluster({"other": "1", **config}), "ns").caveats) is (how == "ipsec")


@pytest.mark.parametrize(
    "policy",
    [
        _policy({"rules": {"http": [{}]}}),
        _policy({"rules": {"http": [{"path": "/"}]}}, side="egress"),
        _policy({"listener": {"envoyConfig": {"name": "x"}, "name": "y"}}),
        _policy({"rules": {"l7proto": "x", "l7": [{}]}}, kind="CiliumNetworkPolicy"),
        {**_policy({}), "spec": None, "specs": [_policy({"rules": {"http": [{}]}})["spec"]]},
    ],
)
def test_a_policy_that_puts_a_proxy_into_the_way_is_refused_by_name(policy):
    with pytest.raises(MeshperfError, match=r"theirs sends traffic through Cilium's proxy.*remove it"):
        surroundings.look(_Cluster(CONFIG, [policy]), "ns")


@pytest.mark.parametrize(
    "policy",
    [
        _policy({}),
        _policy({"rules": {"dns": [{"matchPattern": "*"}]}}, side="egress"),
        _policy({"rules": {"http": [{}]}}, **{"meshperf.dev/owned": "true"}),
        {**_policy({}), "spec": {"endpointSelector": {}}},
    ],
)
def test_policies_without_a_proxy_and_our_own_are_let_pass(policy):
    assert surroundings.look(_Cluster(CONFIG, [policy]), "ns").facts


@pytest.mark.parametrize(
    ("image", "version"),
    [
        (IMAGE, "v1.20.2"),
        ("localhost:5000/cilium", "unknown"),
        ("quay.io/cilium/cilium@sha256:00", "unknown"),
    ],
)
def test_the_version_is_the_tag_of_the_agents_image(image, version):
    spec = {"containers": [{"name": "cilium-agent", "image": image}]}
    assert agent_version({"spec": {"template": {"spec": spec}}}) == version


def test_a_placement_that_an_arm_cannot_have_is_refused_before_anything_is_installed():
    class Placed(Mesh):
        name = "some"

        def placement(self, configuration):
            return "other-node"

    with pytest.raises(MeshperfError, match=r"some/a can only .* other-node, and the study has same-node"):
        surroundings.refuse_placement(Placed(), "a", "same-node")
    surroundings.refuse_placement(Placed(), "a", "other-node")
    surroundings.refuse_placement(Placed(), "a", "node-selector")  # the proof looks where they are
