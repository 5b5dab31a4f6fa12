"""The Prometheus beside the workloads: whom it scrapes, whose CPU that is, and what is made of its answers."""

import json
from types import SimpleNamespace

import yaml

from meshperf import resources
from meshperf.meshes.base import ScrapeTarget, Setting
from meshperf.meshes.istio import Istio
from meshperf.testbed.proof import Deployed
from meshperf.workloads import echo, prometheus


def test_it_scrapes_each_pod_once_at_the_stated_interval_and_place():
    made = prometheus.manifests("ns", "local", ScrapeTarget(15020, "/stats"))
    (text,) = (m["data"]["prometheus.yml"] for m in made if m["kind"] == "ConfigMap")
    configuration = yaml.safe_load(text)
    assert configuration["global"]["scrape_interval"] == "5s"
    (job,) = configuration["scrape_configs"]
    assert job["metrics_path"] == "/stats"
    (discovery,) = job["kubernetes_sd_configs"]
    assert discovery["namespaces"]["names"] == ["ns"]
    keep, address, role = job["relabel_configs"]
    # Of all ports of all containers that are found, the application's alone is kept: one for each pod.
    assert (keep["action"], keep["regex"]) == ("keep", "fortio;8080")
    assert (address["target_label"], address["replacement"]) == ("__address__", "$1:15020")
    assert role == {"source_labels": ["__meta_kubernetes_pod_label_app"], "target_label": "role"}


def test_it_is_in_a_namespace_of_its_own_and_may_only_see_pods():
    made = prometheus.manifests("ns", "registry", ScrapeTarget(1, "/"))
    assert made[0] == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns-metrics"}}
    (role,) = (m for m in made if m["kind"] == "Role")
    assert role["metadata"]["namespace"] == "ns"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    assert not [m for m in made if m["kind"].startswith("Cluster")]
    (deployment,) = (m for m in made if m["kind"] == "Deployment")
    assert deployment["metadata"]["namespace"] == "ns-metrics"


def test_its_cpu_is_its_own_and_not_the_services():
    for configuration, role in (("mtls-metrics", "scraper"), ("mtls", None)):
        deployed = Deployed(Istio(), Setting(configuration, "ns", "local"), {}, {}, True, {})
        role_of = resources.role_finder(
            "ns", deployed.sidecars, echo.CONTAINER, ["istio-system"], deployed.roles
        )
        assert role_of("ns-metrics", "prometheus-1", "prometheus") == role
        assert role_of("ns", "server-1", "fortio") == "service"
    assert "scraper" in resources.ROLES


def _cluster(answers, pods=("prometheus-1",)):
    """A cluster whose Prometheus gives one answer after another."""
    asked = []

    def get_raw(path):
        asked.append(path)
        result = [
            {"metric": {"role": role}, "value": [1.5, value]}
            for role, value in answers[len(asked) - 1].items()
        ]
        return json.dumps({"data": {"result": result}}).encode()

    listed = [{"metadata": {"name": name}} for name in pods]
    return SimpleNamespace(get_raw=get_raw, list_objects=lambda *where: listed), asked


def test_scrapes_are_counted_over_the_load_alone():
    cluster, asked = _cluster([{"client": "2", "server": "3"}, {"client": "2565", "server": "2739"}])
    assert prometheus.scraped(cluster, "ns", 12.3456) == {"client": (2, 2565), "server": (3, 2739)}
    assert all("%5B12346ms%5D" in path and "/ns-metrics/pods/prometheus-1:9090/" in path for path in asked)
    assert "sum_over_time%28up" in asked[0] and "min_over_time%28scrape_samples_scraped" in asked[1]


def test_without_scrapes_there_are_none():
    cluster, _ = _cluster([{"client": "0"}, {}])
    assert prometheus.scraped(cluster, "ns", 10) == {"client": (0, 0)}
    assert prometheus.scraped(_cluster([], pods=())[0], "ns", 10) == {}
