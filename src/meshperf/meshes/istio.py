"""Istio with sidecars, rendered by its own ``istioctl``.

Configurations: ``basic`` is sidecars without TLS between them, ``mtls`` is mutual TLS required of every request. Each
of the others is ``mtls`` and one thing more: with ``jwt-mesh``, ``jwt-envoy`` and ``jwt-opa`` the server's sidecar
refuses requests without a valid token, which Istio's policy, Envoy's own filter, or OPA beside the service checks; with
``authz-N`` it allows what one of N rules allows, and looks at the load's rule last; with ``mtls-metrics`` both sidecars
record metrics of the requests, which a Prometheus scrapes.
On the embedded cluster the sidecar's Envoy is the vanilla build, which lacks Istio's own extensions (telemetry, ALPN,
metadata exchange), so these are off there, and ``mtls-metrics`` records Envoy's own statistics instead. With images
from the registry Istio's telemetry, which it has on by default, is on in ``mtls-metrics`` and off in all others.
"""

import copy
import json
from collections.abc import Mapping, Sequence

from meshperf import meshes
from meshperf.meshes import credentials, istio_policies
from meshperf.meshes.base import (
    SCRAPE_INTERVAL_S,
    Manifest,
    Mesh,
    PodReader,
    ProxyCounters,
    ScrapeTarget,
    Setting,
    Trial,
)
from meshperf.meshes.istio_sidecar import (
    COUNTED,
    EXT_AUTHZ,
    JWT_AUTHN,
    METRICS,
    RBAC,
    RECORDED,
    REGISTRY_HUB,
    REGISTRY_TAG,
    VERSION,
    VERSION_VARIABLES,
    read_sidecar,
    sidecar_image,
)
from meshperf.meshes.rendering import render
from meshperf.testbed.embedded.builds import ENVOY_VERSION, Program, Progress, build
from meshperf.testbed.embedded.images import Image
from meshperf.workloads import opa, prometheus

PILOT_DISCOVERY = Program(
    "pilot-discovery", "istio", "istio.io/istio/pilot/cmd/pilot-discovery", VERSION_VARIABLES
)
ISTIOCTL = Program("istioctl", "istio", "istio.io/istio/istioctl/cmd/istioctl", VERSION_VARIABLES)

_NAMESPACE = "istio-system"
_SETTINGS = (
    "profile=minimal",
    "values.pilot.autoscaleEnabled=false",
    "values.global.imagePullPolicy=IfNotPresent",
)
_WITHOUT_TELEMETRY = "values.telemetry.enabled=false"
_VANILLA_ENVOY_SETTINGS = (
    _WITHOUT_TELEMETRY,
    "values.pilot.env.PILOT_ENABLE_ALPN_FILTER=false",
    "values.pilot.env.PILOT_ENABLE_METADATA_EXCHANGE=false",
)
#: Configuration -> the filter of the server's sidecar that decides on requests.
_DECIDERS = {"jwt-mesh": RBAC, "jwt-envoy": JWT_AUTHN, "jwt-opa": EXT_AUTHZ, "authz-N": RBAC}


class Istio(Mesh):
    """Istio with one sidecar in each pod."""

    name = "istio"
    sidecar = "istio-proxy"
    control_plane_namespaces = (_NAMESPACE,)
    control_plane_deployments = ((_NAMESPACE, "istiod"),)

    def images(self, configuration: str, progress: Progress) -> Sequence[Image]:
        """Return the control plane and the sidecar, the latter with vanilla Envoy."""
        discovery = "/usr/local/bin/pilot-discovery"
        pilot = {discovery[1:]: build(PILOT_DISCOVERY, progress)}
        return (
            Image(f"localhost/pilot:{VERSION}", pilot, (discovery,), "1337"),
            sidecar_image(progress),
            *((opa.image(progress),) if configuration == "jwt-opa" else ()),
        )

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return ``istioctl manifest generate``'s output, rendered once per set of settings."""
        if image_source == "local":
            settings = (*_SETTINGS, "hub=localhost", f"tag={VERSION}", *_VANILLA_ENVOY_SETTINGS)
        else:
            settings = (*_SETTINGS, f"hub={REGISTRY_HUB}", f"tag={REGISTRY_TAG}")
            settings += () if configuration == "mtls-metrics" else (_WITHOUT_TELEMETRY,)
        if configuration == "jwt-opa":
            settings += tuple(istio_policies.opa_provider())
        options = tuple(word for setting in settings for word in ("--set", setting))
        return render(ISTIOCTL, "manifest", "generate", *options)

    def namespace_labels(self, configuration: str) -> Mapping[str, str]:
        """Return the label that Istio's injection webhook selects."""
        return {"istio-injection": "enabled"}

    def pod_annotations(self, configuration: str) -> Mapping[str, str]:
        """Return the proxy's settings: start before the application, and count what the proof reads."""
        decider = _DECIDERS.get(meshes.family(configuration))
        more = [f".*{decider.statistic}"] if decider else []
        return _proxy_config(inclusionRegexps=[*COUNTED, *more])

    def policies(self, setting: Setting) -> Sequence[Manifest]:
        """Return what requires or forbids mutual TLS, and the configuration's own policies."""
        encrypted = self.expects_tls(setting.configuration)
        made = [istio_policies.peer_authentication(setting.namespace, encrypted)]
        if _has_tokens(setting.configuration):
            made += istio_policies.token_policies(setting)
        if n := _n_rules(setting.configuration):
            made += istio_policies.rules(setting.namespace, n)
        return made

    def adapt(self, workloads: Sequence[Manifest], setting: Setting) -> Sequence[Manifest]:
        """Return the workloads, with OPA beside the service, or with sidecars that record what Istio's would."""
        adapted = copy.deepcopy(list(workloads))
        for manifest in adapted:
            if manifest["kind"] != "Deployment":
                continue
            template = manifest["spec"]["template"]
            if setting.configuration == "jwt-opa" and manifest["metadata"]["name"] == "server":
                opa.add_to(template["spec"], setting.image_source)
            if setting.configuration == "mtls-metrics" and setting.image_source == "local":
                recorded = _proxy_config(inclusionRegexps=list(COUNTED), inclusionPrefixes=list(RECORDED))
                template["metadata"]["annotations"] |= recorded
        return adapted

    def leftovers(self) -> Sequence[tuple[str, str, Mapping[str, str]]]:
        """Return the root certificates that istiod puts into every namespace."""
        return [("v1", "ConfigMap", {"istio.io/config": "true"})]

    def expects_tls(self, configuration: str) -> bool:
        """Return True for all but ``basic``."""
        return configuration != "basic"

    def request_headers(self, setting: Setting) -> Mapping[str, str]:
        """Return the campaign's token where one is asked for."""
        if not _has_tokens(setting.configuration):
            return {}
        return _authorization(credentials.of_campaign(setting.campaign).token)

    def decides(self, configuration: str) -> bool:
        """Return True where tokens or rules are checked."""
        return meshes.family(configuration) in _DECIDERS

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Return requests that the configuration's policy must accept or refuse."""
        accepted, refused = frozenset({200}), frozenset({401, 403})
        if n := _n_rules(setting.configuration):
            firsts = [
                istio_policies.RULE_PATH.format(i) for i in range(0, n - 1, istio_policies.RULES_PER_POLICY)
            ]
            return (
                Trial("the load's path is allowed", accepted),
                *(Trial(f"the path of the rule /{path} is allowed", accepted, path=path) for path in firsts),
                Trial("a path that no rule allows is refused", refused, path="no-rule"),
            )
        if not _has_tokens(setting.configuration):
            return ()
        issued = credentials.of_campaign(setting.campaign)
        return (
            Trial("a valid token is accepted", accepted, _authorization(issued.token)),
            Trial("a request without a token is refused", refused),
            Trial("a token of another key is refused", refused, _authorization(issued.foreign_token)),
        )

    def metrics(self, configuration: str) -> ScrapeTarget | None:
        """Return what Istio's agent serves, in ``mtls-metrics``."""
        return METRICS if configuration == "mtls-metrics" else None

    def other_sidecars(self, configuration: str) -> Sequence[str]:
        """Return OPA where it decides."""
        return (opa.CONTAINER,) if configuration == "jwt-opa" else ()

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return Envoy's counters for port 8080: outbound at the client, inbound at the server."""
        return read_sidecar(reader, role, _DECIDERS.get(meshes.family(configuration)))

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return Istio's version, and Envoy's where it is not Istio's own build."""
        if image_source == "registry":
            return {"mesh": REGISTRY_TAG}
        return {"mesh": VERSION, "envoy": f"{ENVOY_VERSION} (vanilla)", "module": "istio.io/istio"}

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return what vanilla Envoy leaves out on the embedded cluster, and how an arm does what it is named after."""
        found = []
        if image_source == "local":
            missing = "without Istio's own telemetry, ALPN and metadata exchange"
            found.append(f"Istio runs with vanilla Envoy {ENVOY_VERSION}, {missing}")
        if configuration == "jwt-opa":
            found.append(
                f"tokens are checked by OPA {opa.VERSION}, asked over gRPC on the pod's loopback address"
            )
        if _has_tokens(configuration):
            found.append(
                "the signature (RS256, 2048 bits) is verified anew for every request: nothing is cached"
            )
        if configuration == "mtls-metrics":
            if image_source == "local":
                found.append("the metrics are Envoy's own statistics, which stand in for Istio's telemetry")
            found.append(
                f"metrics are scraped every {SCRAPE_INTERVAL_S} s by Prometheus {prometheus.VERSION} "
                f"(module {prometheus.MODULE_VERSION}) on the same cluster"
            )
        elif image_source == "registry":
            found.append("Istio's telemetry, which it has on by default, is on in mtls-metrics only")
        return tuple(found)


def _proxy_config(**counted: Sequence[str]) -> Mapping[str, str]:
    """Return the annotation with a sidecar's settings: which statistics it keeps, besides what all have."""
    config = {"holdApplicationUntilProxyStarts": True, "proxyStatsMatcher": counted}
    return {"proxy.istio.io/config": json.dumps(config, sort_keys=True)}


def _has_tokens(configuration: str) -> bool:
    return configuration.startswith("jwt-")


def _n_rules(configuration: str) -> int:
    """Return the number of rules; 0 where there are none."""
    return meshes.number(configuration) if meshes.family(configuration) == "authz-N" else 0


def _authorization(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}
