"""Open Service Mesh with sidecars, its chart rendered by the version of Helm that the module itself depends on.

Requests between its sidecars are always mutual TLS. Configurations: ``mtls`` lets every account of the mesh call every
other (OSM's permissive traffic policy, its default), ``mtls-smi`` refuses all but what policies of the Service Mesh
Interface allow. The project was archived by its authors in 2023.
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from urllib.parse import quote

import yaml

from meshperf.meshes.base import Manifest, Mesh, PodReader, ProxyCounters, Setting, Trial
from meshperf.meshes.prometheus_text import total
from meshperf.meshes.rendering import keep, render
from meshperf.testbed.embedded.builds import (
    ENVOY_VERSION,
    KUBERNETES_VERSION,
    Program,
    Progress,
    build,
    build_key,
    envoy_binary,
    go_module_dir,
)
from meshperf.testbed.embedded.images import Image
from meshperf.workloads import echo

VERSION = "v1.2.4"
#: What the chart of this version names as its sidecar.
RELEASED_WITH_ENVOY = "1.22.2"
MODULE = "github.com/openservicemesh/osm"
_VERSION_VARIABLES = ((f"{MODULE}/pkg/version.Version", VERSION),)
_COMPONENTS = ("osm-controller", "osm-injector", "osm-bootstrap")
PROGRAMS = tuple(Program(name, "osm", f"{MODULE}/cmd/{name}", _VERSION_VARIABLES) for name in _COMPONENTS)
HELM = Program("helm", "osm", "helm.sh/helm/v3/cmd/helm")

_NAMESPACE, _MESH = "osm-system", "osm"
#: What OSM itself writes on its definitions, and on its webhooks.
_LABELS = {"app.kubernetes.io/name": "openservicemesh.io"}
_WEBHOOK_LABELS = {**_LABELS, "app.kubernetes.io/instance": _MESH}
_SIDECAR_IMAGE = f"localhost/osm-envoy:{ENVOY_VERSION}"
#: Envoy's administration interface, on the loopback address of each pod.
_ADMIN_PORT = 15000
#: Not what the load asks for.
_UNNAMED_PATH = "unnamed"
#: The listener that takes what other sidecars send.
_INBOUND = "0.0.0.0_15003"
_STATISTICS = (
    "(upstream_rq_total|upstream_cx_total|downstream_rq_total|downstream_cx_total|ssl.handshake|rbac.allowed)"
)
#: A node of two cores has no room for what the chart reserves (1.1 cores), which is not what it uses.
_SMALL_REQUESTS = tuple(
    f"osm.{component}.resource.requests.cpu=50m"
    for component in ("osmController", "injector", "osmBootstrap")
)


class Osm(Mesh):
    """Open Service Mesh with one sidecar in each pod."""

    name = "osm"
    sidecar = "envoy"
    control_plane_namespaces = (_NAMESPACE,)
    control_plane_deployments = tuple((_NAMESPACE, name) for name in _COMPONENTS)

    def images(self, configuration: str, progress: Progress) -> Sequence[Image]:
        """Return the three parts of the control plane, vanilla Envoy, and what redirects a pod's traffic to it."""
        parts = []
        for program in PROGRAMS:
            files = {program.name: build(program, progress)}
            if program.name == "osm-bootstrap":
                files |= {f"osm-crds/{path.name}": path for path in _definition_files()}
            parts.append(Image(f"localhost/{program.name}:{VERSION}", files, (f"/{program.name}",), "1000"))
        return (
            *parts,
            Image(
                _SIDECAR_IMAGE, {"usr/bin/envoy": envoy_binary()}, ("/usr/bin/envoy",), "1500", debian=True
            ),
            Image(f"localhost/init:{VERSION}", {}, ("/bin/sh",), debian=True),
        )

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return the chart's manifests, and those that OSM would otherwise make itself.

        These are its definitions, its settings and its (still empty) webhooks. OSM finds them and fills them in, so
        that all of it carries our label and is removed by it. With them there before anything starts, the chart's init
        containers have nothing to wait for: they are left out.
        """
        values = [f"osm.enablePermissiveTrafficPolicy={json.dumps(configuration != 'mtls-smi')}"]
        if image_source == "local":
            values += ["osm.image.registry=localhost", f"osm.image.tag={VERSION}"]
            values += [f"osm.sidecarImage={_SIDECAR_IMAGE}", *_SMALL_REQUESTS]
            # The module has an empty file where a release has the WebAssembly filter that counts requests.
            values += ["osm.featureFlags.enableWASMStats=false"]
        options = tuple(word for value in values for word in ("--set", value))
        chart = render(
            HELM, "template", "osm", ".", "--namespace", _NAMESPACE, "--no-hooks", "--kube-version",
            f"v{KUBERNETES_VERSION}", *options, chart=lambda: _module() / "charts" / "osm",
        )  # fmt: skip
        definitions = keep(
            HELM.module,
            build_key(HELM),
            "definitions",
            make=lambda: [
                manifest
                for path in _definition_files()
                for manifest in yaml.safe_load_all(path.read_text())
                if manifest
            ],
        )
        return [*definitions, *_webhooks(), _mesh_config(chart), *map(_without_init_containers, chart)]

    def namespace_labels(self, configuration: str) -> Mapping[str, str]:
        """Return the label by which OSM watches a namespace."""
        return {"openservicemesh.io/monitored-by": _MESH}

    def namespace_annotations(self, configuration: str) -> Mapping[str, str]:
        """Return the annotation by which OSM's webhook injects sidecars."""
        return {"openservicemesh.io/sidecar-injection": "enabled"}

    def policies(self, setting: Setting) -> Sequence[Manifest]:
        """Return, for ``mtls-smi``, what lets the client's account call the server's; nothing for ``mtls``."""
        if setting.configuration != "mtls-smi":
            return ()
        namespace = setting.namespace
        # What the load asks for, and nothing else: the proof tries another path.
        routes = {"name": "load", "matches": [{"name": "root", "pathRegex": "/", "methods": ["*"]}]}
        client, server = (
            {"kind": "ServiceAccount", "name": name, "namespace": namespace} for name in ("client", "server")
        )
        return [
            {
                "apiVersion": "specs.smi-spec.io/v1alpha4",
                "kind": "HTTPRouteGroup",
                "metadata": {"name": routes["name"], "namespace": namespace},
                "spec": {"matches": routes["matches"]},
            },
            {
                "apiVersion": "access.smi-spec.io/v1alpha3",
                "kind": "TrafficTarget",
                "metadata": {"name": "client-to-server", "namespace": namespace},
                "spec": {
                    "destination": server,
                    "sources": [client],
                    "rules": [{"kind": "HTTPRouteGroup", "name": routes["name"], "matches": ["root"]}],
                },
            },
        ]

    def leftovers(self) -> Sequence[tuple[str, str, Mapping[str, str]]]:
        """Return what OSM makes anew if it is removed while it starts: webhooks and definitions."""
        return [
            ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", _WEBHOOK_LABELS),
            ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", _WEBHOOK_LABELS),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", _LABELS),
        ]

    def expects_tls(self, configuration: str) -> bool:
        """Return True: OSM has no other way between its sidecars."""
        return True

    def decides(self, configuration: str) -> bool:
        """Return True for ``mtls-smi``."""
        return configuration == "mtls-smi"

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Return a request that no policy allows: refused for ``mtls-smi``, answered for ``mtls``."""
        if self.decides(setting.configuration):
            return (Trial("what no policy allows is refused", frozenset({403, 404}), path=_UNNAMED_PATH),)
        return (Trial("what no policy allows is answered", frozenset({200}), path=_UNNAMED_PATH),)

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return Envoy's counters of the service `server` at the client, and of its own port at the server."""
        text = reader.from_inside(_ADMIN_PORT, f"/stats/prometheus?usedonly&filter={quote(_STATISTICS)}")
        direction, suffix = ("outbound", "") if role == "client" else ("inbound", r"\|local")
        cluster = rf".*/{echo.SERVICE}\|{echo.PORT}{suffix}"
        # The name of OSM's connection manager has dots: Envoy takes its first part for the prefix.
        manager = f"envoy_http_rds_{direction}_{echo.PORT}"
        if role == "client":
            connections = total(text, "envoy_cluster_upstream_cx_total", envoy_cluster_name=cluster)
            handshakes = total(text, "envoy_cluster_ssl_handshake", envoy_cluster_name=cluster)
        else:
            connections = total(text, f"{manager}_downstream_cx_total")
            handshakes = total(text, "envoy_listener_ssl_handshake", envoy_listener_address=_INBOUND)
        return ProxyCounters(
            requests=total(text, "envoy_cluster_upstream_rq_total", envoy_cluster_name=cluster),
            http_requests=total(text, f"{manager}_downstream_rq_total"),
            connections=connections,
            tls_handshakes=handshakes,
            allowed=total(text, f"{manager}_rbac_allowed"),
        )

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return OSM's version and Envoy's, and the module that OSM was built from."""
        mesh = VERSION.removeprefix("v")
        if image_source == "registry":
            return {"mesh": mesh, "envoy": RELEASED_WITH_ENVOY}
        return {"mesh": mesh, "envoy": f"{ENVOY_VERSION} (vanilla)", "module": MODULE}

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return that the project has ended, and what differs from its release on the embedded cluster."""
        archived = "Open Service Mesh was archived by its authors in 2023 and gets no more fixes"
        if image_source == "registry":
            return (archived,)
        return (
            archived,
            f"OSM {VERSION} runs with vanilla Envoy {ENVOY_VERSION} instead of the {RELEASED_WITH_ENVOY} that it was "
            "released with, a pairing that OSM does not support, and without its own statistics in WebAssembly",
        )


def _module() -> Path:
    return go_module_dir("osm", MODULE)


def _definition_files() -> list[Path]:
    return sorted((_module() / "cmd" / "osm-bootstrap" / "crds").glob("*.yaml"))


def _webhooks() -> list[Manifest]:
    """Return the webhooks' names, under which OSM writes what they call."""
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": name, "labels": dict(_WEBHOOK_LABELS)},
        }
        for kind, name in (
            ("Mutating", f"osm-webhook-{_MESH}"),
            ("Validating", f"osm-validator-mesh-{_MESH}"),
        )
    ]


def _mesh_config(chart: Sequence[Manifest]) -> Manifest:
    """Return OSM's settings as osm-bootstrap would make them from the chart's preset."""
    (preset,) = (m for m in chart if m["metadata"]["name"] == "preset-mesh-config")
    return {
        "apiVersion": "config.openservicemesh.io/v1alpha2",
        "kind": "MeshConfig",
        "metadata": {"name": "osm-mesh-config", "namespace": _NAMESPACE},
        "spec": json.loads(preset["data"]["preset-mesh-config.json"]),
    }


def _without_init_containers(manifest: Manifest) -> Manifest:
    if manifest["kind"] != "Deployment":
        return manifest
    changed = deepcopy(manifest)
    changed["spec"]["template"]["spec"].pop("initContainers", None)
    return changed
