"""Kuma with sidecars, rendered by its own ``kumactl``.

Configurations: ``basic`` is a mesh without TLS between its sidecars, ``mtls`` is one whose built-in authority issues
certificates and whose sidecars take nothing else (Kuma's strict mode). Sidecars speak HTTP/2 to each other, so that all
requests of a run share one connection per worker thread of the client's proxy.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from urllib.parse import quote

from meshperf.meshes.base import Manifest, Mesh, PodReader, ProxyCounters, Setting
from meshperf.meshes.prometheus_text import total
from meshperf.meshes.rendering import render
from meshperf.testbed.embedded.builds import ENVOY_VERSION, Program, Progress, build, envoy_binary
from meshperf.testbed.embedded.images import Image
from meshperf.workloads import echo

VERSION = "1.8.1"
#: What this version of Kuma was released with (tools/envoy/version.sh of the module).
RELEASED_WITH_ENVOY = "1.22.1"
MODULE = "github.com/kumahq/kuma"
_VERSION_PACKAGE = f"{MODULE}/pkg/version"
_VERSION_VARIABLES = (
    (f"{_VERSION_PACKAGE}.version", VERSION),
    (f"{_VERSION_PACKAGE}.gitTag", VERSION),
    # kuma-dp compares it with its proxy's version and logs what it finds; it ends if this is not a version.
    (f"{_VERSION_PACKAGE}.Envoy", RELEASED_WITH_ENVOY),
)
#: One of its dependencies reaches into Go's runtime in a way that newer linkers refuse unless told not to.
_LINKER_OPTIONS = ("-checklinkname=0",)
KUMA_CP, KUMA_DP, KUMACTL = (
    Program(name, "kuma", f"{MODULE}/app/{name}", _VERSION_VARIABLES, _LINKER_OPTIONS)
    for name in ("kuma-cp", "kuma-dp", "kumactl")
)

#: What a user's cluster pulls.
REGISTRY = "docker.io/kumahq"
_NAMESPACE, _CONTROL_PLANE = "kuma-system", "kuma-control-plane"
_MESH = "default"
#: Envoy's administration interface, on the loopback address of each pod.
_ADMIN_PORT = 9901
#: Where the sidecar, and nobody else in the pod, gets the account's token from.
_TOKEN_VOLUME, _TOKEN_LIFETIME_S = "kuma-token", 86400
_STATISTICS = "(upstream_rq_total|upstream_cx_total|downstream_rq_total|downstream_cx_total|ssl.handshake)"


class Kuma(Mesh):
    """Kuma on Kubernetes with one sidecar in each pod."""

    name = "kuma"
    sidecar = "kuma-sidecar"
    control_plane_namespaces = (_NAMESPACE,)
    control_plane_deployments = ((_NAMESPACE, _CONTROL_PLANE),)

    def images(self, configuration: str, progress: Progress) -> Sequence[Image]:
        """Return the control plane, the sidecar with vanilla Envoy, and what redirects a pod's traffic to it."""
        kumactl = build(KUMACTL, progress)
        return (
            Image(
                f"localhost/kuma-cp:{VERSION}",
                {"usr/bin/kuma-cp": build(KUMA_CP, progress)},
                ("/usr/bin/kuma-cp",),
                "6789",
            ),
            Image(
                f"localhost/kuma-dp:{VERSION}",
                {"usr/bin/kuma-dp": build(KUMA_DP, progress), "usr/bin/envoy": envoy_binary()},
                ("/usr/bin/kuma-dp",),
                "5678",
                debian=True,
            ),
            Image(
                f"localhost/kuma-init:{VERSION}",
                {"usr/bin/kumactl": kumactl},
                ("/usr/bin/kumactl", "install", "transparent-proxy"),
                debian=True,
            ),
        )

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return ``kumactl install control-plane``'s output, without a default mesh: `policies` makes the mesh."""
        registry = "localhost" if image_source == "local" else REGISTRY
        options = ["--registry", registry, "--version", VERSION, "--image-pull-policy", "IfNotPresent"]
        options += ["--set", "controlPlane.defaults.skipMeshCreation=true"]
        if image_source == "local":
            # Kuma's sidecar starts a CoreDNS of Kuma's own build, which the embedded cluster does not have.
            options += ["--env-var", "KUMA_RUNTIME_KUBERNETES_INJECTOR_BUILTIN_DNS_ENABLED=false"]
        return render(KUMACTL, "install", "control-plane", "--without-kubernetes-connection", *options)

    def namespace_labels(self, configuration: str) -> Mapping[str, str]:
        """Return the label that Kuma's injection webhook selects."""
        return {"kuma.io/sidecar-injection": "enabled"}

    def pod_annotations(self, configuration: str) -> Mapping[str, str]:
        """Return where the sidecar finds its token: the workload itself has none."""
        return {"kuma.io/service-account-token-volume": _TOKEN_VOLUME}

    def policies(self, setting: Setting) -> Sequence[Manifest]:
        """Return the mesh itself, with or without an authority that issues certificates."""
        authority = {"name": "builtin", "type": "builtin"}
        mtls = {"mtls": {"enabledBackend": authority["name"], "backends": [authority]}}
        spec = mtls if self.expects_tls(setting.configuration) else {}
        return [{"apiVersion": "kuma.io/v1alpha1", "kind": "Mesh", "metadata": {"name": _MESH}, "spec": spec}]

    def adapt(self, workloads: Sequence[Manifest], setting: Setting) -> Sequence[Manifest]:
        """Return the workloads with a token in a volume of each pod, by which the sidecar shows whose it is."""
        token = {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_LIFETIME_S}}
        adapted = []
        for manifest in deepcopy(list(workloads)):
            if manifest["kind"] == "Deployment":
                manifest["spec"]["template"]["spec"]["volumes"].append(
                    {"name": _TOKEN_VOLUME, "projected": {"sources": [token]}}
                )
            adapted.append(manifest)
        return adapted

    def expects_tls(self, configuration: str) -> bool:
        """Return True for ``mtls``."""
        return configuration == "mtls"

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return Envoy's counters of the service `server` at the client, and of its own port at the server."""
        text = reader.from_inside(_ADMIN_PORT, f"/stats/prometheus?usedonly&filter={quote(_STATISTICS)}")
        # Kuma names cluster and connection manager alike: <service>_<namespace>_svc_<port>, and localhost_<port>.
        path = rf"{echo.SERVICE}_.*_svc_{echo.PORT}" if role == "client" else f"localhost_{echo.PORT}"
        if role == "client":
            connections = total(text, "envoy_cluster_upstream_cx_total", envoy_cluster_name=path)
            handshakes = total(text, "envoy_cluster_ssl_handshake", envoy_cluster_name=path)
        else:
            connections = total(text, "envoy_http_downstream_cx_total", envoy_http_conn_manager_prefix=path)
            inbound = rf".*_{echo.PORT}"
            handshakes = total(text, "envoy_listener_ssl_handshake", envoy_listener_address=inbound)
        return ProxyCounters(
            requests=total(text, "envoy_cluster_upstream_rq_total", envoy_cluster_name=path),
            http_requests=total(text, "envoy_http_downstream_rq_total", envoy_http_conn_manager_prefix=path),
            connections=connections,
            tls_handshakes=handshakes,
        )

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return Kuma's version and Envoy's, and the module that Kuma was built from."""
        if image_source == "registry":
            return {"mesh": VERSION, "envoy": RELEASED_WITH_ENVOY}
        return {"mesh": VERSION, "envoy": f"{ENVOY_VERSION} (vanilla)", "module": MODULE}

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return that Kuma and Envoy are not a pair that Kuma supports on the embedded cluster."""
        if image_source == "registry":
            return ()
        return (
            f"Kuma {VERSION} runs with vanilla Envoy {ENVOY_VERSION} instead of the {RELEASED_WITH_ENVOY} "
            "that it was released with, a pairing that Kuma does not support",
        )
