"""Istio's policies for the workloads: who must show a token and who checks it, and rules of who may ask for what."""

from collections.abc import Mapping, Sequence
from typing import Any

from meshperf.meshes import credentials
from meshperf.meshes.base import Manifest, Setting
from meshperf.meshes.credentials import ISSUER, SUBJECT
from meshperf.workloads import echo, opa

#: The name under which Istio's mesh configuration knows OPA, and the host that stands for it.
OPA_PROVIDER, _OPA_HOST = "opa", "opa.meshperf.internal"
#: Istio accepts no more rules in one policy (``maxItems`` in its definition of AuthorizationPolicy).
RULES_PER_POLICY = 512
#: The path that a rule allows, by its number.
RULE_PATH = "rule-{}"
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


def rules(namespace: str, n: int) -> list[Manifest]:
    """Return `n` rules that allow one path each, of which Envoy looks at the one that allows the load's path last.

    Envoy keeps the rules of all policies in one map ordered by name and stops at the first that matches
    (``RoleBasedAccessControlEngineImpl`` in ``source/extensions/filters/common/rbac/engine_impl.cc``); Istio names them
    ``ns[namespace]-policy[name]-rule[i]`` (``policyName`` in ``pilot/pkg/security/authz/builder/builder.go``). So the
    last one is that of the last policy whose number, read as text up to the bracket, is the largest.

    Parameters
    ----------
    namespace : str
        Of the policies.
    n : int
        At least 1.
    """
    policies = []
    for first in range(0, n, RULES_PER_POLICY):
        numbers = range(first, min(n, first + RULES_PER_POLICY))
        paths = [f"/{RULE_PATH.format(number)}" for number in numbers]
        if numbers.stop == n:
            paths[max(range(len(paths)), key=lambda i: f"rule[{i}]")] = "/"
        spec = {"action": "ALLOW", "rules": [{"to": [{"operation": {"paths": [path]}}]} for path in paths]}
        name = f"rules-{first // RULES_PER_POLICY:02d}"
        policies.append(_security("AuthorizationPolicy", namespace, spec, name))
    return policies


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


def _security(kind: str, namespace: str, spec: Mapping[str, Any], name: str = "meshperf") -> Manifest:
    return _manifest("security.istio.io/v1", kind, namespace, {"selector": _SELECTOR, **spec}, name)


def _manifest(
    api_version: str, kind: str, namespace: str, spec: Mapping[str, Any], name: str = "meshperf"
) -> Manifest:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": dict(spec)}
