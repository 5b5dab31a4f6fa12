"""Istio's policies for the workloads, one configuration each: who must show a token, and who checks it."""

from collections.abc import Mapping, Sequence
from typing import Any

from meshperf.meshes import credentials
from meshperf.meshes.base import Manifest, Setting
from meshperf.meshes.credentials import ISSUER, SUBJECT
from meshperf.workloads import echo, opa

#: The name under which Istio's mesh configuration knows OPA, and the host that stands for it.
OPA_PROVIDER, _OPA_HOST = "opa", "opa.meshperf.internal"
_SELECTOR = {"matchLabels": {"app": "server"}}


def opa_provider() -> Sequence[str]:
    """Return the settings of Istio's installation that make OPA known as an external authoriser."""
    provider = "meshConfig.extensionProviders[0]"
    return (
        f"{provider}.name={OPA_PROVIDER}",
        f"{provider}.envoyExtAuthzGrpc.service={_OPA_HOST}",
        f"{provider}.envoyExtAuthzGrpc.port={opa.PORT}",
    )


def peer_authentication(namespace: str, encrypted: bool) -> Manifest:
    """Return what requires or forbids mutual TLS; clients follow it (auto mTLS)."""
    mode = "STRICT" if encrypted else "DISABLE"
    spec = {"mtls": {"mode": mode}}
    return _manifest("security.istio.io/v1", "PeerAuthentication", namespace, spec, name="default")


def token_policies(setting: Setting) -> list[Manifest]:
    """Return what makes the server's sidecar refuse requests without a valid token; empty without tokens."""
    namespace = setting.namespace
    issued = credentials.of_campaign(setting.campaign)
    if setting.configuration == "jwt-mesh":
        rule = {"issuer": ISSUER, "audiences": [issued.audience], "jwks": issued.jwks}
        # The first refuses tokens that are not valid, and only the second refuses that there is none.
        return [
            _security(
                "RequestAuthentication", namespace, {"jwtRules": [{**rule, "forwardOriginalToken": True}]}
            ),
            _security(
                "AuthorizationPolicy",
                namespace,
                {
                    "action": "ALLOW",
                    "rules": [{"from": [{"source": {"requestPrincipals": [f"{ISSUER}/{SUBJECT}"]}}]}],
                },
            ),
        ]
    if setting.configuration == "jwt-envoy":
        return [_jwt_filter(namespace, issued.audience, issued.jwks)]
    entry = {
        "hosts": [_OPA_HOST],
        "ports": [{"number": opa.PORT, "name": "grpc", "protocol": "GRPC"}],
        "resolution": "STATIC",
        "endpoints": [{"address": "127.0.0.1"}],
    }
    custom = {"action": "CUSTOM", "provider": {"name": OPA_PROVIDER}, "rules": [{}]}
    return [
        opa.policy(namespace, issued),
        _manifest("networking.istio.io/v1", "ServiceEntry", namespace, entry),
        _security("AuthorizationPolicy", namespace, custom),
    ]


def _jwt_filter(namespace: str, audience: str, jwks: str) -> Manifest:
    """Return what puts Envoy's own filter for tokens before the router of the server's inbound listener."""
    provider = {
        "issuer": ISSUER,
        "audiences": [audience],
        "local_jwks": {"inline_string": jwks},
        "forward": True,
    }
    settings = {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
        "providers": {"meshperf": provider},
        "rules": [{"match": {"prefix": "/"}, "requires": {"provider_name": "meshperf"}}],
    }
    router = {"filterChain": {"filter": {
        "name": "envoy.filters.network.http_connection_manager",
        "subFilter": {"name": "envoy.filters.http.router"},
    }}}  # fmt: skip
    patch = {
        "applyTo": "HTTP_FILTER",
        "match": {"context": "SIDECAR_INBOUND", "listener": {"portNumber": echo.PORT, **router}},
        "patch": {
            "operation": "INSERT_BEFORE",
            "value": {"name": "envoy.filters.http.jwt_authn", "typed_config": settings},
        },
    }
    spec = {"workloadSelector": {"labels": {"app": "server"}}, "configPatches": [patch]}
    return _manifest("networking.istio.io/v1alpha3", "EnvoyFilter", namespace, spec)


def _security(kind: str, namespace: str, spec: Mapping[str, Any]) -> Manifest:
    return _manifest("security.istio.io/v1", kind, namespace, {"selector": _SELECTOR, **spec})


def _manifest(
    api_version: str, kind: str, namespace: str, spec: Mapping[str, Any], name: str = "meshperf"
) -> Manifest:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": dict(spec)}
