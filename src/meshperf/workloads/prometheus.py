"""Prometheus, which scrapes the proxies of the two pods while a load runs, in a namespace beside that of the workloads.

It finds the pods as a Prometheus of a cluster usually does, from the API server, and is in no mesh: proxies serve their
statistics outside the path of the load.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from meshperf.meshes.base import SCRAPE_INTERVAL_S, Manifest, ScrapeTarget
from meshperf.testbed.client import Cluster
from meshperf.testbed.embedded.builds import Program, Progress, build
from meshperf.testbed.embedded.images import Image
from meshperf.workloads import echo

#: Of the program; its Go module counts minor and patch version together.
VERSION, MODULE_VERSION = "3.7.3", "v0.307.3"
PROGRAM = Program("prometheus", "prometheus", "github.com/prometheus/prometheus/cmd/prometheus")
CONTAINER = "prometheus"
_PORT = 9090
_IMAGES = {
    "local": f"localhost/prometheus:{VERSION}",
    "registry": f"docker.io/prom/prometheus:v{VERSION}",
}
_DIRECTORY, _FILE, _DATA = "/etc/prometheus", "prometheus.yml", "/prometheus"
_NAME = "prometheus"


def namespace_beside(namespace: str) -> str:
    """Return the namespace of the Prometheus that scrapes the workloads of another."""
    return f"{namespace}-metrics"


def image(progress: Progress) -> Image:
    """Return Prometheus' image for the embedded cluster."""
    return Image(
        _IMAGES["local"], {"bin/prometheus": build(PROGRAM, progress)}, ("/bin/prometheus",), "65534"
    )


def manifests(workload_namespace: str, image_source: str, target: ScrapeTarget) -> list[Manifest]:
    """Return Prometheus, and what lets it see the pods; the first is its namespace.

    Parameters
    ----------
    workload_namespace : str
        Whose two pods are scraped.
    image_source : {"local", "registry"}
        Where Prometheus' image comes from.
    target : ScrapeTarget
        What each pod serves its statistics as.
    """
    own = namespace_beside(workload_namespace)
    metadata = {"name": _NAME, "namespace": own}
    account = {"kind": "ServiceAccount", **metadata}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": _NAME}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    seen_from = {"name": _NAME, "namespace": workload_namespace}
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": rbac, "kind": "Role", "metadata": seen_from, "rules": rules},
        {
            "apiVersion": rbac,
            "kind": "RoleBinding",
            "metadata": seen_from,
            "roleRef": role,
            "subjects": [account],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {_FILE: json.dumps(_configuration(workload_namespace, target), indent=1)},
        },
        _deployment(metadata, _IMAGES[image_source]),
    ]


def scraped(cluster: Cluster, workload_namespace: str, last_s: float) -> Mapping[str, tuple[int, int]]:
    """Return what Prometheus has scraped lately.

    Parameters
    ----------
    cluster : Cluster
        Where.
    workload_namespace : str
        Whose pods are scraped.
    last_s : float
        How far to look back.

    Returns
    -------
    dict of str to (int, int)
        Role (client, server) -> number of scrapes that succeeded, and fewest samples in one of them.
    """
    own = namespace_beside(workload_namespace)
    pods = cluster.list_objects("v1", "Pod", own, {"app": _NAME})
    if not pods:
        return {}
    window = f"[{round(last_s * 1000)}ms]"
    name = pods[0]["metadata"]["name"]
    scrapes, samples = (
        _query(cluster, own, name, query)
        for query in (
            f"sum_over_time(up{window})",
            f"min_over_time(scrape_samples_scraped{window})",
        )
    )
    return {role: (scrapes[role], samples.get(role, 0)) for role in scrapes}


def _query(cluster: Cluster, namespace: str, pod: str, query: str) -> dict[str, int]:
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}:{_PORT}/proxy/api/v1/query?query={quote(query)}"
    answer = json.loads(cluster.get_raw(path))
    return {row["metric"]["role"]: int(float(row["value"][1])) for row in answer["data"]["result"]}


def _configuration(workload_namespace: str, target: ScrapeTarget) -> dict[str, Any]:
    """Return Prometheus' configuration: JSON is YAML."""
    discovery = {
        "role": "pod",
        "namespaces": {"names": [workload_namespace]},
        "selectors": [{"role": "pod", "label": "app in (client,server)"}],
    }
    relabelling = [
        # Each port of each container is found: one of them stands for the pod.
        {
            "source_labels": [
                "__meta_kubernetes_pod_container_name",
                "__meta_kubernetes_pod_container_port_number",
            ],
            "regex": f"{echo.CONTAINER};{echo.PORT}",
            "action": "keep",
        },
        {
            "source_labels": ["__meta_kubernetes_pod_ip"],
            "replacement": f"$1:{target.port}",
            "target_label": "__address__",
        },
        {"source_labels": ["__meta_kubernetes_pod_label_app"], "target_label": "role"},
    ]
    return {
        "global": dict.fromkeys(("scrape_interval", "scrape_timeout"), f"{SCRAPE_INTERVAL_S}s"),
        "scrape_configs": [
            {
                "job_name": "proxies",
                "metrics_path": target.path,
                "kubernetes_sd_configs": [discovery],
                "relabel_configs": relabelling,
            }
        ],
    }


def _deployment(metadata: Mapping[str, str], image_reference: str) -> Manifest:
    labels = {"app": _NAME}
    arguments: Sequence[str] = (
        f"--config.file={_DIRECTORY}/{_FILE}",
        f"--storage.tsdb.path={_DATA}",
        f"--web.listen-address=0.0.0.0:{_PORT}",
        "--log.level=warn",
    )
    container = {
        "name": CONTAINER,
        "image": image_reference,
        "imagePullPolicy": "IfNotPresent",
        "args": list(arguments),
        "ports": [{"name": "web", "containerPort": _PORT}],
        "readinessProbe": {"httpGet": {"path": "/-/ready", "port": _PORT}, "periodSeconds": 1},
        "securityContext": {
            "runAsUser": 65534,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "config", "mountPath": _DIRECTORY, "readOnly": True},
            {"name": "data", "mountPath": _DATA},
        ],
    }
    pod = {
        "serviceAccountName": metadata["name"],
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [
            {"name": "config", "configMap": {"name": metadata["name"]}},
            # In memory, so that no disk is waited for.
            {"name": "data", "emptyDir": {"medium": "Memory"}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
