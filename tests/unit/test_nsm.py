"""Network Service Mesh: its network, what its forwarders count, and what is proven. Sources: tests/golden/README.md."""

from copy import deepcopy
from pathlib import Path

import pytest

from meshperf.errors import MeshperfError
from meshperf.meshes import nsm
from meshperf.meshes.base import ProxyCounters, Setting
from meshperf.meshes.nsm import Nsm
from meshperf.testbed.checks import Sent, check_path
from meshperf.workloads import echo

GOLDEN = Path(__file__).parents[1] / "golden" / "nsm"
NET_DEV = (GOLDEN / "net_dev.txt").read_text()
INTERFACES = (GOLDEN / "vpp_interfaces.txt").read_text()
BOTH = {"client": True, "server": True}
NONE = ProxyCounters(0, 0, 0, 0)


def _workload(kind, name, container, **resources):
    spec = {"containers": [{"name": container, "env": [{"name": "NSM_LOG_LEVEL"}], "resources": resources}]}
    return {"kind": kind, "metadata": {"name": name}, "spec": {"template": {"spec": spec}}}


#: Of the fields of the official manifests, those that are changed.
WEBHOOK = {
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "nsm-mutating-webhook"},
    "webhooks": [{"name": "x", "failurePolicy": "Fail", "namespaceSelector": {"matchExpressions": []}}],
}
FORWARDER = _workload(
    "DaemonSet", "forwarder-vpp", "forwarder-vpp", limits={"cpu": "525m", "memory": "500Mi"}
)
MANAGER = _workload("DaemonSet", "nsmgr", "nsmgr", limits={"cpu": "400m"})
ENDPOINT = _workload("Deployment", "nse-vl3-vpp", "nse", limits={"cpu": "500m"}, requests={"cpu": "150m"})
IPAM = _workload("Deployment", "vl3-ipam", "vl3-ipam", limits={"cpu": "200m"})


def _limits(manifest):
    return manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]


def test_the_webhook_is_asked_for_our_namespace_alone():
    (webhook,) = nsm.adapt_control_plane([WEBHOOK])
    selector = webhook["webhooks"][0]["namespaceSelector"]
    assert selector == {"matchLabels": dict(Nsm().namespace_labels("basic"))}
    assert WEBHOOK["webhooks"][0]["namespaceSelector"] == {"matchExpressions": []}, "changed in place"


def test_only_what_carries_the_load_has_no_cpu_limit():
    forwarder, manager = nsm.adapt_control_plane([FORWARDER, MANAGER])
    endpoint, ipam = nsm.adapt_network([ENDPOINT, IPAM], "ns")
    assert _limits(forwarder) == {"memory": "500Mi"} and _limits(endpoint) == {}
    assert _limits(manager) == {"cpu": "400m"} and _limits(ipam) == {"cpu": "200m"}


def test_the_endpoint_serves_our_network_beside_the_service():
    before = deepcopy(ENDPOINT)
    endpoint, ipam = nsm.adapt_network([ENDPOINT, IPAM], "ns")
    assert before == ENDPOINT, "changed in place"
    assert endpoint["metadata"]["namespace"] == ipam["metadata"]["namespace"] == "ns"
    spec = endpoint["spec"]["template"]["spec"]
    environment = {entry["name"]: entry.get("value") for entry in spec["containers"][0]["env"]}
    assert environment["NSM_SERVICE_NAMES"] == "meshperf"
    assert "NSM_LOG_LEVEL" in environment
    (term,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"] == {"matchLabels": {"app": "server"}}
    assert "affinity" not in ipam["spec"]["template"]["spec"]


def test_the_load_goes_to_a_name_in_the_network_that_the_server_asks_for():
    workloads = echo.manifests(
        "ns", "registry", {"kept": "1"}, server_limits={}, client_limits={}, placement="other-node",
        server_node_selector={}, client_node_selector={},
    )  # fmt: skip
    adapted = Nsm().adapt(workloads, Setting("wireguard", "ns", "registry"))
    annotations = {
        m["metadata"]["name"]: m["spec"]["template"]["metadata"]["annotations"]
        for m in adapted
        if m["kind"] == "Deployment"
    }
    assert annotations["server"] == {
        "kept": "1",
        "networkservicemesh.io": "kernel://meshperf/nsm-1?dnsName=server",
    }
    assert annotations["client"]["networkservicemesh.io"] == "kernel://meshperf/nsm-1?dnsName=client"
    assert "networkservicemesh.io" not in str(workloads), "changed in place"
    assert adapted[-1]["metadata"]["name"] == "client", "the client is applied last"
    # The endpoint's template of names: the annotation's dnsName, then the network's name.
    assert Nsm().url("wireguard") == "http://server.meshperf:8080/"


def test_packets_towards_the_service_are_counted_on_both_sides():
    assert nsm.interface_packets(NET_DEV) == {"client": 4812, "server": 4404}
    assert nsm.interface_packets("no such interface") == {"client": 0, "server": 0}


def test_only_what_the_tunnels_carried_counts_as_encrypted():
    assert nsm.tunnel_packets(INTERFACES) == 230 + 221 + 9
    assert nsm.tunnel_packets("") == 0


def _failed(configuration, **counters):
    after = dict.fromkeys(("client", "server"), ProxyCounters(0, 0, 0, 0, **counters))
    checks = check_path(Nsm(), configuration, BOTH, dict.fromkeys(after, NONE), after, Sent(44, 4, 792, 3000))
    return [check.name for check in checks if not check.passed]


def test_a_load_that_went_around_the_network_or_was_not_encrypted_is_refused():
    assert _failed("basic", packets=44) == []
    assert _failed("basic", packets=43) == [
        "packets passed the client's path",
        "packets passed the server's path",
    ]
    assert _failed("wireguard", packets=44, encrypted_packets=44) == []
    assert _failed("wireguard", packets=44) == [
        "packets were encrypted at the client's node", "packets were encrypted at the server's node",
    ]  # fmt: skip


@pytest.mark.parametrize(("configuration", "encrypted"), [("basic", 0), ("wireguard", 460)])
def test_the_pods_own_interface_and_its_nodes_forwarder_are_read(configuration, encrypted):
    asked = []

    class Reader:
        def run(self, container, command):
            asked.append((container, *command))
            return NET_DEV if container == "cmd-nsc" else INTERFACES

        def on_same_node(self, namespace, labels):
            asked.append((namespace, labels["app"]))
            return self

    counted = Nsm().read_counters(Reader(), configuration, "client")
    assert (counted.packets, counted.encrypted_packets) == (4812, encrypted)
    assert asked[0] == ("cmd-nsc", "cat", "/proc/net/dev")
    forwarder = [("nsm-system", "forwarder-vpp"), ("forwarder-vpp", "vppctl", "show", "interface")]
    assert asked[1:] == (forwarder if encrypted else [])


class _Cluster:
    def __init__(self, *annotations):
        self._classes = [{"metadata": {"name": "standard", "annotations": a}} for a in annotations]

    def list_objects(self, api_version, kind):
        assert kind == "StorageClass"
        return self._classes


def test_a_cluster_without_storage_for_spire_is_refused(monkeypatch):
    monkeypatch.setattr(nsm.shutil, "which", lambda name: name)
    Nsm().check_cluster(_Cluster({"storageclass.kubernetes.io/is-default-class": "true"}), "basic")
    for cluster in (_Cluster(), _Cluster(None), _Cluster({"other": "true"})):
        with pytest.raises(MeshperfError, match="no default StorageClass"):
            Nsm().check_cluster(cluster, "basic")


@pytest.mark.parametrize("missing", ["kubectl", "git"])
def test_a_missing_tool_is_named_with_where_to_get_it(monkeypatch, missing):
    monkeypatch.setattr(nsm.shutil, "which", lambda name: None if name == missing else name)
    with pytest.raises(MeshperfError, match=f"`{missing}` is not on the PATH.*install it \\(https://"):
        Nsm().check_cluster(_Cluster(), "basic")


def test_official_manifests_are_asked_for_at_one_version(monkeypatch, tmp_path):
    monkeypatch.setenv("MESHPERF_CACHE", str(tmp_path))
    monkeypatch.setattr(nsm.shutil, "which", lambda name: name)
    asked = []

    def read_output(command, timeout_s):
        asked.append(command[-1])
        return [_workload("Deployment", command[-1].split("/")[-1].partition("?")[0], "nse", limits={})]

    monkeypatch.setattr(nsm, "read_output", read_output)
    *_, identities = Nsm().control_plane("basic", "registry")
    assert identities["kind"] == "ClusterSPIFFEID", "its webhook must be there before it"
    Nsm().policies(Setting("basic", "ns", "registry"))
    base = "https://github.com/networkservicemesh/deployments-k8s"
    assert asked == [
        f"{base}/{part}?ref=v1.18.0"
        for part in ("examples/spire/single_cluster", "examples/basic", "apps/nse-vl3-vpp", "apps/vl3-ipam")
    ]
    Nsm().policies(Setting("wireguard", "other", "registry"))
    assert len(asked) == 4, "they are kept"


def test_the_limits_of_what_is_offered_are_said():
    assert any("within one cluster" in caveat for caveat in Nsm().caveats("basic", "registry"))
    assert (Nsm().placement("basic"), Nsm().placement("wireguard")) == ("same-node", "other-node")
