"""Envoy sidecars without a control plane: the price of the proxies apart from that of the mesh around them.

The sidecars are Istio's own image, with Istio's redirection of the pods' traffic, its limits and, as far as the load
touches them, its settings (see `envoy_bootstrap`), so that what differs is what Istio adds: the agent in each sidecar,
the control plane, and configuration and certificates that arrive while the proxy runs.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from meshperf.meshes import credentials
from meshperf.meshes.base import Manifest, Mesh, PodReader, ProxyCounters, Setting
from meshperf.meshes.envoy_bootstrap import (
    INBOUND_PORT,
    OUTBOUND_PORT,
    READINESS_PATH,
    READINESS_PORT,
    bootstrap,
)
from meshperf.meshes.envoy_parts import TLS_DIR
from meshperf.meshes.istio_sidecar import (
    REGISTRY_TAG,
    SIDECAR_IMAGES,
    STATISTICS_PORT,
    read_sidecar,
    sidecar_image,
)
from meshperf.testbed.embedded.builds import ENVOY_VERSION, Progress
from meshperf.testbed.embedded.images import Image
from meshperf.workloads import echo

_ROLES = ("client", "server")
_ENDPOINTS = "server-pods"
#: Traffic of this user is not redirected: it is the proxy's.
_USER = 1337
_RESOURCES = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}}
_CONCURRENCY = 2
_CONFIG_DIR, _CONFIG_FILE = "/etc/envoy-static", "envoy.json"


class EnvoyStatic(Mesh):
    """Two Envoys with a static configuration, one in each pod."""

    name = "envoy-static"
    sidecar = "envoy"

    def images(self, configuration: str, progress: Progress) -> Sequence[Image]:
        """Return Istio's sidecar, of which only Envoy and the redirection are used."""
        return (sidecar_image(progress),)

    def policies(self, setting: Setting) -> Sequence[Manifest]:
        """Return the sidecars' configuration, the name of the service's pods, and for ``mtls`` the certificates."""
        namespace = setting.namespace
        service, endpoints = (f"{name}.{namespace}.svc.cluster.local" for name in (echo.SERVICE, _ENDPOINTS))
        tls = self.expects_tls(setting.configuration)
        made: list[Manifest] = [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": _ENDPOINTS, "namespace": namespace},
                "spec": {
                    # A name of the pods themselves: Istio's sidecars too go past the service's own address.
                    "clusterIP": "None",
                    "publishNotReadyAddresses": True,
                    "selector": {"app": "server"},
                    "ports": [{"name": "http", "port": echo.PORT, "appProtocol": "http"}],
                },
            }
        ]
        for role in _ROLES:
            text = json.dumps(bootstrap(role, service, endpoints, echo.PORT, tls=tls), indent=1)
            made.append(_object("ConfigMap", role, namespace, data={_CONFIG_FILE: text}))
        if tls:
            issued = credentials.of_campaign(setting.campaign)
            for role in _ROLES:
                chain, key = issued.certificates[role]
                files = {"tls.crt": chain, "tls.key": key, "ca.crt": issued.authority}
                made.append(_object("Secret", role, namespace, stringData=files))
        return made

    def adapt(self, workloads: Sequence[Manifest], setting: Setting) -> Sequence[Manifest]:
        """Return the workloads with the redirection and the sidecar in each pod."""
        tls = self.expects_tls(setting.configuration)
        image = SIDECAR_IMAGES[setting.image_source]
        adapted = []
        for manifest in workloads:
            if manifest["kind"] == "Deployment":
                manifest = copy.deepcopy(manifest)
                pod = manifest["spec"]["template"]["spec"]
                pod["initContainers"] = [_redirection(image), _sidecar(image, tls)]
                pod["volumes"] += _volumes(manifest["metadata"]["name"], tls)
            adapted.append(manifest)
        return adapted

    def expects_tls(self, configuration: str) -> bool:
        """Return True for ``mtls``."""
        return configuration == "mtls"

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return Envoy's counters, which are named as Istio names them."""
        return read_sidecar(reader, role)

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return Envoy's version, or that of Istio's image where it is Istio's build."""
        if image_source == "registry":
            return {"envoy": f"of Istio {REGISTRY_TAG}"}
        return {"envoy": f"{ENVOY_VERSION} (vanilla)", "module": "istio.io/istio (redirection only)"}

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return what is like Istio's sidecars, and what is not."""
        certificates = (
            "; certificates are files of the campaign's own authority" if configuration == "mtls" else ""
        )
        return (
            "Envoy without a control plane runs in Istio's sidecar image, with its redirection by iptables, limits, "
            "threads, HTTP filters and TLS settings, but without agent, updates and the configuration of other "
            f"services; the server's address comes from DNS instead of a control plane{certificates}",
        )


def _object(kind: str, role: str, namespace: str, **content: Any) -> Manifest:
    metadata = {"name": f"envoy-{role}", "namespace": namespace}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}


def _redirection(image: str) -> dict[str, Any]:
    """Return the init container that redirects the pod's traffic, with the arguments that Istio injects."""
    excluded = f"{STATISTICS_PORT},{READINESS_PORT}"
    arguments = ["-p", str(OUTBOUND_PORT), "-z", str(INBOUND_PORT), "-u", str(_USER), "-m", "REDIRECT"]
    return {
        "name": "redirect",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["istio-iptables", *arguments, "-i", "*", "-x", "", "-b", "*", "-d", excluded],
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"]},
        },
    }


def _sidecar(image: str, tls: bool) -> dict[str, Any]:
    """Return Envoy as a sidecar that starts before the application, with the options that Istio's agent gives it."""
    options = ["--disable-hot-restart", "--allow-unknown-static-fields", "--skip-deprecated-logs"]
    options += ["--drain-time-s", "45", "--drain-strategy", "immediate", "--local-address-ip-version", "v4"]
    options += ["--file-flush-interval-msec", "1000", "-l", "warning", "--component-log-level", "misc:error"]
    probe = {"httpGet": {"path": READINESS_PATH, "port": READINESS_PORT}, "timeoutSeconds": 3}
    mounts = [{"name": "envoy-config", "mountPath": _CONFIG_DIR, "readOnly": True}]
    if tls:
        mounts.append({"name": "envoy-tls", "mountPath": TLS_DIR, "readOnly": True})
    return {
        "name": EnvoyStatic.sidecar,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "command": ["/usr/local/bin/envoy"],
        "args": ["-c", f"{_CONFIG_DIR}/{_CONFIG_FILE}", *options, "--concurrency", str(_CONCURRENCY)],
        "resources": _RESOURCES,
        "startupProbe": {**probe, "periodSeconds": 1, "failureThreshold": 600},
        "readinessProbe": {**probe, "periodSeconds": 15, "failureThreshold": 4},
        "securityContext": {
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _volumes(role: str, tls: bool) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [{"name": "envoy-config", "configMap": {"name": f"envoy-{role}"}}]
    if tls:
        volumes.append({"name": "envoy-tls", "secret": {"secretName": f"envoy-{role}"}})
    return volumes
