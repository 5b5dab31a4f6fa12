"""Every arm that runs on the embedded cluster: reached, proven, seen on the wire, caught when wrong, and removed."""

from collections import Counter
from dataclasses import replace

import arms
import pytest
import traces
import wire

from meshperf.meshes.base import Setting
from meshperf.testbed import proof
from meshperf.testbed.removal import remove_all
from meshperf.workloads import echo, prometheus

ARMS = [arm for arm in arms.EMBEDDED if arm[0] != "baseline"]
MARKER = "HereIsMyPlaintextToFind"


def _with_policies_of(configuration):
    """Return what applies another configuration's policies to the workloads of an arm."""

    def spoil(cluster, deployed, monkeypatch):
        setting = Setting(configuration, deployed.namespace, "local", "test")
        cluster.apply(deployed.mesh.policies(setting))

    return spoil


def _without_permission(cluster, deployed, monkeypatch):
    """Take away what lets the client call the server: the mesh's own setting, or the policy for it."""
    strict = (m for m in deployed.mesh.control_plane("mtls-smi", "local") if m["kind"] == "MeshConfig")
    cluster.apply(strict)
    cluster.delete(cluster.list_objects("access.smi-spec.io/v1alpha3", "TrafficTarget", deployed.namespace))


def _with_another_campaigns_tokens(cluster, deployed, monkeypatch):
    """Send tokens that the policy does not know."""
    headers = deployed.mesh.request_headers(replace(deployed.setting, campaign="another"))
    monkeypatch.setattr(type(deployed.mesh), "request_headers", lambda mesh, setting: headers)


def _without_rules(cluster, deployed, monkeypatch):
    """Allow everything."""
    policies = cluster.list_objects("security.istio.io/v1", "AuthorizationPolicy", deployed.namespace)
    assert len(policies) == 2
    cluster.delete(policies)


def _without_prometheus(cluster, deployed, monkeypatch):
    """Let nothing scrape the proxies any more."""
    namespace = prometheus.namespace_beside(deployed.namespace)
    cluster.delete(cluster.list_objects("apps/v1", "Deployment", namespace))
    cluster.wait("its end", lambda: not cluster.list_objects("v1", "Pod", namespace), 60)


def _around_the_proxies(cluster, deployed, monkeypatch):
    """Let the load end where it starts: the client's pod answers it too."""
    url = f"http://127.0.0.1:{echo.PORT}/"
    monkeypatch.setattr(type(deployed.mesh), "url", lambda mesh, configuration: url)


#: Arm -> what makes its state wrong behind our back, and what the proof says of it; for all others, the load is sent
#: around the proxies.
SPOILED = {
    ("istio", "basic"): (_with_policies_of("mtls"), "no connection is TLS"),
    ("istio", "mtls"): (_with_policies_of("basic"), "every connection is TLS"),
    ("istio", "jwt-mesh"): (_with_another_campaigns_tokens, "requests failed (HTTP 403)"),
    ("istio", "jwt-envoy"): (_with_another_campaigns_tokens, "requests failed (HTTP 403)"),
    ("istio", "jwt-opa"): (_with_another_campaigns_tokens, "requests failed (HTTP 403)"),
    ("istio", "mtls-metrics"): (_without_prometheus, "the server's proxy was scraped: 0 scrapes"),
    ("istio", "authz-600"): (
        _without_rules,
        "a path that no rule allows is refused: 200 instead of 401 or 403",
    ),
    ("kuma", "basic"): (_with_policies_of("mtls"), "no connection is TLS"),
    ("kuma", "mtls"): (_with_policies_of("basic"), "every connection is TLS"),
    ("osm", "mtls"): (_without_permission, "requests failed"),
    ("osm", "mtls-smi"): (_without_permission, "requests failed"),
}
OTHERWISE_SPOILED = (_around_the_proxies, "passed the client's proxy")


def _noticed(cluster, deployed):
    try:
        proof.probe(cluster, deployed, timeout_s=0)
    except proof.UnprovenState as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("mesh", "configuration"), ARMS, ids=["/".join(arm) for arm in ARMS])
def test_an_arm_is_proven_caught_when_wrong_and_removed(
    clean_testbed, bring, monkeypatch, mesh, configuration
):
    assert clean_testbed.kind == "embedded", "these arms are declared to run on the embedded cluster"
    cluster = clean_testbed.cluster
    before, on_node_before = set(traces.objects(cluster)), traces.on_node()
    deployed = bring(mesh, configuration)
    assert len(set(traces.objects(cluster)) - before) > 10, "the test does not see what it looks for"
    new = traces.on_node() - on_node_before
    assert new["process", "fortio"] == 2 and any(deployed.namespace in which for _, which in new)

    shown = proof.probe(cluster, deployed)
    record = shown.as_record()
    assert shown.passed and record["sidecar"] == {"client": True, "server": True}
    encrypted = deployed.mesh.expects_tls(configuration)
    assert (record["tls"]["handshakes"] > 0) is encrypted
    headers = [
        word for name, value in deployed.request_headers.items() for word in ("-H", f"{name}: {value}")
    ]
    load = ["fortio", "load", "-quiet", "-qps", "50", "-n", "20", "-c", "2", "-payload", MARKER, *headers]
    load.append(deployed.url)
    with wire.watched(MARKER) as seen:
        cluster.execute(deployed.namespace, deployed.pod_name("client"), echo.CONTAINER, load, 30)
    assert seen["packets"] > 20, "the test does not see the load"
    assert (seen["with the marker"] == 0) is encrypted, seen
    assert not encrypted or seen["TLS records"] >= 20, seen

    spoil, reason = SPOILED.get((mesh, configuration), OTHERWISE_SPOILED)
    spoil(cluster, deployed, monkeypatch)
    monkeypatch.setattr(proof, "COUNTERS_SETTLE_S", 0.5)
    # At first only some of the proxies have heard of it.
    cluster.wait(f"the proof to say: {reason}", lambda: reason in _noticed(cluster, deployed), 60)

    remove_all(cluster)
    assert set(traces.objects(cluster)) - before == set()
    # The kubelet and kube-proxy follow the API server.
    assert traces.eventually(lambda: traces.on_node() - on_node_before, 30) == Counter()
