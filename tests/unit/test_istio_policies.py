"""Istio's policies as data: each configuration is mutual TLS and one thing more."""

import json

import pytest

from meshperf import meshes
from meshperf.meshes import credentials, istio
from meshperf.meshes.base import Setting
from meshperf.meshes.istio import Istio
from meshperf.workloads import echo, opa

LIMITS = {"server_limits": {}, "client_limits": {}, "server_node_selector": {}, "client_node_selector": {}}
WITH_TOKENS = ("jwt-mesh", "jwt-envoy", "jwt-opa")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MESHPERF_CACHE", str(tmp_path))


def _setting(configuration):
    return Setting(configuration, "ns", "local", "a-campaign")


def _policies(configuration):
    return {m["kind"]: m for m in Istio().policies(_setting(configuration))}


@pytest.mark.parametrize(
    "configuration", [c.replace("-N", "-7") for c in meshes.SUPPORTED["istio"] if c != "basic"]
)
def test_every_configuration_but_basic_requires_mutual_tls(configuration):
    assert Istio().expects_tls(configuration)
    assert _policies(configuration)["PeerAuthentication"] == _policies("mtls")["PeerAuthentication"]
    assert _policies(configuration)["PeerAuthentication"]["spec"] == {"mtls": {"mode": "STRICT"}}


@pytest.mark.parametrize("configuration", WITH_TOKENS)
def test_the_policy_holds_the_public_key_and_the_load_the_token(configuration):
    issued = credentials.of_campaign("a-campaign")
    manifests = json.dumps(Istio().policies(_setting(configuration)))
    (key,) = json.loads(issued.jwks)["keys"]
    assert key["n"] in manifests and "a-campaign" in manifests
    assert not credentials.holds_token(manifests.encode()) and '\\"d\\"' not in manifests
    assert Istio().request_headers(_setting(configuration)) == {"Authorization": f"Bearer {issued.token}"}
    valid, without, foreign = Istio().trials(_setting(configuration))
    assert (valid.statuses, without.statuses, foreign.statuses) == ({200}, {401, 403}, {401, 403})
    assert without.headers == {} and foreign.headers["Authorization"].endswith(issued.foreign_token)
    assert not credentials.holds_token(repr(valid).encode())


def test_without_tokens_the_load_carries_nothing():
    for configuration in ("basic", "mtls"):
        assert Istio().request_headers(_setting(configuration)) == {}
        assert not Istio().decides(configuration) and Istio().trials(_setting(configuration)) == ()


def test_istios_own_policy_also_refuses_requests_without_any_token():
    # A RequestAuthentication alone lets them pass (istio.io, "Authentication", request authentication).
    found = _policies("jwt-mesh")
    (rule,) = found["AuthorizationPolicy"]["spec"]["rules"]
    assert found["AuthorizationPolicy"]["spec"]["action"] == "ALLOW"
    assert rule == {"from": [{"source": {"requestPrincipals": ["https://meshperf.dev/load-generator"]}}]}
    assert set(found) == {"PeerAuthentication", "RequestAuthentication", "AuthorizationPolicy"}


@pytest.mark.parametrize(
    ("n", "policies", "last"),
    [
        (1, 1, "rules-00/0"),
        (10, 1, "rules-00/9"),
        # As text rule[10] comes before rule[9], because 1 comes before 9, and rule[99] too, because 9 comes before ].
        (11, 1, "rules-00/9"),
        (100, 1, "rules-00/9"),
        (512, 1, "rules-00/9"),
        (513, 2, "rules-01/0"),
        (5000, 10, "rules-09/9"),
    ],
)
def test_the_rule_that_envoy_looks_at_last_is_the_loads(n, policies, last):
    made = [m for m in Istio().policies(_setting(f"authz-{n}")) if m["kind"] == "AuthorizationPolicy"]
    assert len(made) == policies and {m["spec"]["action"] for m in made} == {"ALLOW"}
    paths = {}
    for policy in made:
        assert len(policy["spec"]["rules"]) <= 512
        for i, rule in enumerate(policy["spec"]["rules"]):
            (path,) = rule["to"][0]["operation"]["paths"]
            paths[f"{policy['metadata']['name']}/{i}"] = path
    assert len(set(paths.values())) == n
    assert [place for place, path in paths.items() if path == "/"] == [last]
    trials = Istio().trials(_setting(f"authz-{n}"))
    assert trials[0].path == "" and trials[-1].path == "no-rule" and trials[-1].statuses == {401, 403}
    assert {f"/{trial.path}" for trial in trials[1:-1]} <= set(paths.values())
    assert len(trials) == 2 + (n > 1) + (n > 513) * (policies - 1)


def test_opa_is_beside_the_service_only_and_is_counted_with_its_sidecar():
    workloads = echo.manifests("ns", "local", {}, placement="same-node", **LIMITS)
    assert Istio().adapt(workloads, _setting("mtls")) == workloads
    adapted = Istio().adapt(workloads, _setting("jwt-opa"))
    names = {
        m["metadata"]["name"]: [c["name"] for c in m["spec"]["template"]["spec"]["containers"]]
        for m in adapted
        if m["kind"] == "Deployment"
    }
    assert names == {"server": ["fortio", "opa"], "client": ["fortio"]}
    assert Istio().other_sidecars("jwt-opa") == ("opa",) and Istio().other_sidecars("mtls") == ()
    # On the loopback address only: nothing but the pod's own proxy can ask it.
    (container,) = (c for c in adapted[3]["spec"]["template"]["spec"]["containers"] if c["name"] == "opa")
    assert f"--set=plugins.envoy_ext_authz_grpc.addr=127.0.0.1:{opa.PORT}" in container["args"]


def _proxy_config(configuration, image_source="local"):
    workloads = echo.manifests(
        "ns", image_source, Istio().pod_annotations(configuration), placement="same-node", **LIMITS
    )
    adapted = Istio().adapt(workloads, Setting(configuration, "ns", image_source))
    texts = {
        m["spec"]["template"]["metadata"]["annotations"]["proxy.istio.io/config"]
        for m in adapted
        if m["kind"] == "Deployment"
    }
    (text,) = texts  # the same for both pods
    return json.loads(text)


def test_envoy_records_more_only_where_it_stands_in_for_istios_telemetry():
    def recorded(configuration, image_source):
        return _proxy_config(configuration, image_source)["proxyStatsMatcher"].get("inclusionPrefixes", [])

    assert "http.inbound_" in recorded("mtls-metrics", "local")
    assert recorded("mtls-metrics", "registry") == recorded("mtls", "local") == []
    without = {**_proxy_config("mtls-metrics"), "proxyStatsMatcher": None}
    assert without == {**_proxy_config("mtls"), "proxyStatsMatcher": None}


@pytest.mark.parametrize(
    ("configuration", "image_source", "off"),
    [
        ("mtls", "local", True),
        ("mtls-metrics", "local", True),  # vanilla Envoy lacks it
        ("mtls", "registry", True),
        ("jwt-opa", "registry", True),
        ("mtls-metrics", "registry", False),
    ],
)
def test_istios_telemetry_is_one_configurations_difference(monkeypatch, configuration, image_source, off):
    asked = []
    monkeypatch.setattr(istio, "render", lambda program, *arguments: asked.extend(arguments) or [])
    Istio().control_plane(configuration, image_source)
    assert ("values.telemetry.enabled=false" in asked) is off
    assert bool([word for word in asked if "extensionProviders" in word]) is (configuration == "jwt-opa")
    assert any("stand in" in text for text in Istio().caveats("mtls-metrics", "local"))
