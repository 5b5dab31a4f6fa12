"""Fortio's echo server as the service under test, and Fortio again as the load generator, each in its own pod."""

from collections.abc import Mapping
from typing import Any

from meshperf.testbed.embedded.builds import FORTIO_VERSION

PORT = 8080
SERVICE = "server"
CONTAINER = "fortio"
#: Where the load generator's pod keeps the access log of the run: in memory, so that no disk is waited for.
DATA_DIR = "/var/lib/fortio"
_IMAGES = {
    "local": f"localhost/fortio:{FORTIO_VERSION}",
    "registry": f"docker.io/fortio/fortio:{FORTIO_VERSION}",
}

Manifest = dict[str, Any]


def manifests(
    namespace: str,
    image_source: str,
    annotations: Mapping[str, str],
    *,
    server_limits: Mapping[str, str | None],
    client_limits: Mapping[str, str | None],
    placement: str,
    server_node_selector: Mapping[str, str],
    client_node_selector: Mapping[str, str],
) -> list[Manifest]:
    """Return the two deployments, their service and their accounts.

    Parameters
    ----------
    namespace : str
        Where they go.
    image_source : {"local", "registry"}
        Where Fortio's image comes from.
    annotations : mapping
        Of both pods.
    server_limits, client_limits : mapping
        Kubernetes quantities under ``cpu`` and ``memory``; None means no limit.
    placement : {"same-node", "other-node", "node-selector"}
        Where the load generator runs as seen from the service.
    server_node_selector, client_node_selector : mapping
        Node labels, for ``node-selector``.
    """
    server = _deployment(namespace, "server", image_source, annotations, server_limits, [])
    client = _deployment(
        namespace, "client", image_source, annotations, client_limits, ["-data-dir", DATA_DIR]
    )
    if placement == "node-selector":
        server["spec"]["template"]["spec"]["nodeSelector"] = dict(server_node_selector)
        client["spec"]["template"]["spec"]["nodeSelector"] = dict(client_node_selector)
    else:
        kind = "podAffinity" if placement == "same-node" else "podAntiAffinity"
        term = {"labelSelector": {"matchLabels": {"app": "server"}}, "topologyKey": "kubernetes.io/hostname"}
        client["spec"]["template"]["spec"]["affinity"] = {
            kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": namespace},
        "spec": {
            "selector": {"app": "server"},
            # Named and typed as HTTP: a mesh that is left to guess may treat the port as plain TCP.
            "ports": [{"name": "http", "port": PORT, "targetPort": PORT, "appProtocol": "http"}],
        },
    }
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
        for name in ("server", "client")
    ]
    return [*accounts, service, server, client]


def _deployment(
    namespace: str,
    name: str,
    image_source: str,
    annotations: Mapping[str, str],
    limits: Mapping[str, str | None],
    extra_arguments: list[str],
) -> Manifest:
    given = {key: value for key, value in limits.items() if value}
    container = {
        "name": CONTAINER,
        "image": _IMAGES[image_source],
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "server",
            "-http-port",
            str(PORT),
            "-grpc-port",
            "disabled",
            "-tcp-port",
            "disabled",
            "-udp-port",
            "disabled",
            "-redirect-port",
            "disabled",
            *extra_arguments,
        ],
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": {"limits": given, "requests": given} if given else {},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "data", "mountPath": DATA_DIR}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": dict(annotations)},
                "spec": {
                    "serviceAccountName": name,
                    "automountServiceAccountToken": False,
                    # No variables for every service of the namespace: they would differ between meshes.
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                    "volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}],
                },
            },
        },
    }
