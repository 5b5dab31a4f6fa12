"""CPU and memory from the kubelet's summary: which readings are kept, and what a window costs."""

import csv
import gzip
import io
import json

import pytest

from meshperf import resources
from meshperf.resources import Sample, cadvisor_throttling, parse_summary, summarise
from meshperf.runs import RESOURCES_COLUMNS


def _container(name, cpu_ns, memory, when="2026-11-21T05:00:10Z"):
    return {
        "name": name,
        "cpu": {"time": when, "usageCoreNanoSeconds": cpu_ns},
        "memory": {"time": when, "workingSetBytes": memory},
    }


def _summary(*containers, node_time="2026-11-21T05:00:05Z"):
    pod = {"podRef": {"namespace": "ns", "name": "server-1"}, "containers": list(containers)}
    return {
        "node": {"nodeName": "alice-laptop", **_container("x", 9_000_000_000, 5, node_time)},
        "pods": [pod],
    }


NOW = 1795237210.4  # 2026-11-21T05:00:10.4Z
DECLARED = {
    ("kube-system", "cilium-envoy"): "node-proxy",
    ("istio-system", "ztunnel"): "node-proxy",
    ("", "nse"): "node-proxy",
}
ROLES = resources.role_finder("ns", ("istio-proxy",), "fortio", ["istio-system"], DECLARED)


def test_roles_follow_from_where_a_container_runs():
    found = {
        ("ns", "server-1", "fortio"): "service",
        ("ns", "client-1", "fortio"): "load-generator",
        ("ns", "server-1", "istio-proxy"): "sidecar-server",
        ("ns", "client-1", "istio-proxy"): "sidecar-client",
        ("ns", "server-1", "else"): "other",
        ("istio-system", "istiod-1", "discovery"): "control-plane",
        ("kube-system", "coredns-1", "coredns"): None,
        ("kube-system", "cilium-envoy-x", "cilium-envoy"): "node-proxy",
        ("istio-system", "ztunnel-x", "ztunnel"): "node-proxy",
        ("ns", "nse-1", "nse"): "node-proxy",
        ("default", "nse-1", "nse"): None,
    }
    assert {identity: ROLES(*identity) for identity in found} == found


def test_a_reading_of_this_second_has_the_time_at_which_it_was_asked_for():
    node, service = parse_summary(_summary(_container("fortio", 1_500_000_000, 7)), ROLES, NOW)
    assert (service.role, service.cpu_usage_s, service.working_set_bytes) == ("service", 1.5, 7)
    assert service.time_unix_s == NOW
    assert node.time_unix_s == NOW - 5.4  # the kubelet's own reading of the node is older, and says so


def test_a_cached_reading_keeps_its_own_time():
    old = _container("fortio", 1, 1, "2026-11-21T04:59:58Z")
    assert parse_summary(_summary(old), ROLES, NOW)[1].time_unix_s == pytest.approx(NOW - 12.4)


def test_the_name_of_the_node_is_not_kept():
    assert all("alice" not in sample.pod for sample in parse_summary(_summary(), ROLES, NOW))


def test_all_pods_of_a_node_together_are_read_beside_the_node():
    summary = _summary()
    summary["node"]["systemContainers"] = [
        _container("kubelet", 1, 1),
        _container("pods", 6_000_000_000, 4),
    ]
    node, pods = parse_summary(summary, ROLES, NOW, suffix="-2")
    assert (node.role, node.pod, node.cpu_usage_s) == ("node", "node-2", 9)
    assert (pods.role, pods.pod, pods.cpu_usage_s) == ("pods", "pods-2", 6)
    # Read when the kubelet says, not when it was asked: the two are subtracted from each other.
    assert pods.time_unix_s == NOW - 0.4


def test_nodes_are_told_apart_and_the_servers_is_the_first():
    class Cluster:
        def get_raw(self, path):
            return json.dumps(_summary()).encode()

    def names(*nodes):
        sampler = resources.Sampler(Cluster(), nodes, ROLES, dict)
        return [sample.pod for sample in sampler._read()]

    assert names("b", "b") == ["node"]
    assert names("b", "a", "b") == ["node-1", "node-2"]


def test_a_container_that_has_only_just_started_is_left_out():
    assert len(parse_summary(_summary({"name": "fortio", "cpu": {}, "memory": {}}), ROLES, NOW)) == 1


def _samples(*readings, role="service"):
    return [Sample(time, role, "ns", "server-1", "fortio", cpu, memory) for time, cpu, memory in readings]


def test_cpu_is_the_counters_difference_over_exactly_the_window():
    # 1 core until t=10, 0.5 cores after. Window 9..13: 1 s at 1 core and 3 s at 0.5 = 2.5 core-seconds.
    (row,) = summarise(_samples((8, 8, 1), (10, 10, 3), (14, 12, 9)), {}, 9, 13)
    assert row["cpu_s"] == pytest.approx(2.5)
    assert row["cores"] == pytest.approx(2.5 / 4)
    assert (row["working_set_bytes_median"], row["working_set_bytes_max"]) == (3, 3)
    assert row["throttled_periods"] is None


def test_a_node_whose_readings_cover_half_the_window_is_summed_up_over_that_half():
    (row,) = summarise(_samples((0, 0, 1), (5, 4, 1), role="node"), {}, 1, 9)
    assert row["cores"] == pytest.approx(0.8)  # 3.2 core-seconds in 4 s
    assert row["cpu_s"] == pytest.approx(6.4)


def test_readings_that_miss_the_window_give_no_number():
    assert summarise(_samples((0, 0, 1), (1, 1, 1)), {}, 2, 3) == []


def test_throttling_is_given_to_its_container():
    identity = ("ns", "server-1", "fortio")
    (row,) = summarise(_samples((0, 0, 1), (9, 1, 1)), {identity: (3, 40)}, 1, 8)
    assert (row["throttled_periods"], row["periods"]) == (3, 40)


def test_cadvisors_counters_are_read_per_container():
    text = (
        'container_cpu_cfs_periods_total{container="fortio",namespace="ns",pod="server-1"} 40\n'
        'container_cpu_cfs_throttled_periods_total{container="fortio",namespace="ns",pod="server-1"} 3\n'
        'container_cpu_cfs_periods_total{container="",namespace="ns",pod="server-1"} 99\n'
    )
    assert cadvisor_throttling(text) == {("ns", "server-1", "fortio"): (3, 40)}


def test_the_series_is_kept_as_it_was_read():
    content = resources.to_csv_gz(_samples((1.25, 0.5, 7)), {})
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(content).decode())))
    assert list(rows[0]) == list(RESOURCES_COLUMNS)
    assert (rows[0]["time_unix_s"], rows[0]["cpu_usage_s"], rows[0]["working_set_bytes"]) == (
        "1.250",
        "0.500000",
        "7",
    )
    assert content == resources.to_csv_gz(_samples((1.25, 0.5, 7)), {}), (
        "the same series gives the same bytes"
    )
