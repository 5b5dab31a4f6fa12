"""The state of a cluster: reached, proven, left again; and wrong states refused."""

import pytest

from meshperf.meshes import istio_policies
from meshperf.meshes.base import Setting
from meshperf.meshes.istio import Istio
from meshperf.testbed import proof
from meshperf.testbed.removal import CLUSTER_KINDS, OWNED_LABEL, remove_all
from meshperf.workloads import echo


def _names(pod):
    return {c["name"] for c in pod["spec"]["containers"] + pod["spec"].get("initContainers", [])}


def _owned_objects(cluster):
    kinds = [("v1", "Namespace"), *CLUSTER_KINDS]
    return [
        f"{kind} {found['metadata']['name']}"
        for api_version, kind in kinds
        for found in cluster.list_objects(api_version, kind, selector={OWNED_LABEL: "true"})
    ]


def test_the_baseline_has_no_sidecar_and_is_made_once(clean_testbed, bring):
    first = bring("baseline", "none")
    again = bring("baseline", "none")
    assert _names(first.client) == _names(first.server) == {"fortio"}
    assert first.fresh and not again.fresh
    assert first.server["metadata"]["uid"] == again.server["metadata"]["uid"]


def test_another_deployment_or_campaign_is_made_afresh(clean_testbed, bring):
    pods = [bring("baseline", "none", **which).server["metadata"]["uid"] for which in (
        {"deployment": 1}, {"deployment": 2}, {"block": 2}, {"campaign": "other"}, {"deployment": 1})]  # fmt: skip
    assert len(set(pods)) == 5


@pytest.mark.parametrize(("configuration", "encrypted"), [("basic", False), ("mtls", True)])
def test_istio_is_proven_by_its_proxies_counters(clean_testbed, bring, configuration, encrypted):
    deployed = bring("istio", configuration)
    shown = proof.probe(clean_testbed.cluster, deployed)
    assert "istio-proxy" in _names(deployed.client) & _names(deployed.server)
    assert shown.passed
    counted = [shown.counted[role].requests for role in ("client", "server")]
    assert counted == [shown.sent.requests] * 2 and shown.sent.requests > 40
    assert (shown.tls_handshakes > 0) is encrypted
    assert shown.protocol == "http"


def test_switching_arms_leaves_nothing_of_the_one_before(clean_testbed, bring):
    cluster = clean_testbed.cluster
    before = {
        (c["metadata"]["namespace"], c["metadata"]["name"]) for c in cluster.list_objects("v1", "ConfigMap")
    }
    bring("istio", "mtls")
    bring("baseline", "none")
    owned = [name for name in _owned_objects(cluster) if not name.startswith("Namespace")]
    assert owned == [], "webhooks, definitions or roles of Istio are left beside the baseline"
    remove_all(cluster)
    assert _owned_objects(cluster) == []
    after = {
        (c["metadata"]["namespace"], c["metadata"]["name"]) for c in cluster.list_objects("v1", "ConfigMap")
    }
    assert after <= before, f"left behind: {sorted(after - before)}"


@pytest.mark.parametrize(
    ("api_version", "kind", "name"),
    [
        ("v1", "Namespace", "istio-system"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "istiod-clusterrole-istio-system"),
    ],
)
def test_what_is_not_ours_is_left_alone(clean_testbed, bring, api_version, kind, name):
    cluster = clean_testbed.cluster
    theirs = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
    cluster.apply([theirs])
    try:
        with pytest.raises(Exception, match=f"{kind} {name} exists and is not meshperf's"):
            bring("istio", "basic")
        remove_all(cluster)
        assert cluster.get(api_version, kind, name) is not None
    finally:
        cluster.delete([theirs])
        cluster.wait("its removal", lambda: cluster.get(api_version, kind, name) is None, 60)


@pytest.fixture
def impatient(monkeypatch):
    """Do not wait half a minute for a state that cannot come."""
    probe = proof.probe
    monkeypatch.setattr(proof, "probe", lambda cluster, deployed: probe(cluster, deployed, timeout_s=1))
    monkeypatch.setattr(proof, "COUNTERS_SETTLE_S", 0.5)


def test_a_mesh_that_was_not_injected_is_refused(clean_testbed, bring, monkeypatch, impatient):
    monkeypatch.setattr(Istio, "namespace_labels", lambda self, configuration: {})
    reason = "no istio-proxy was injected into the pod of the client and of the server"
    with pytest.raises(proof.UnprovenState, match=reason):
        bring("istio", "basic")


def test_a_port_that_looks_like_tcp_is_refused(clean_testbed, bring, monkeypatch, impatient):
    real = echo.manifests

    def as_tcp(*arguments, **keywords):
        made = real(*arguments, **keywords)
        for manifest in made:
            if manifest["kind"] == "Service":
                manifest["spec"]["ports"][0].update(name="tcp-raw", appProtocol="tcp")
        return made

    monkeypatch.setattr(echo, "manifests", as_tcp)
    with pytest.raises(proof.UnprovenState, match="handled as HTTP"):
        bring("istio", "basic")


def test_a_load_that_lost_its_token_is_refused(clean_testbed, bring, monkeypatch, impatient):
    monkeypatch.setattr(Istio, "request_headers", lambda self, setting: {})
    with pytest.raises(proof.UnprovenState, match=r"requests failed \(HTTP 403\)"):
        bring("istio", "jwt-mesh")


def test_a_policy_that_asks_for_no_token_is_refused(clean_testbed, bring, monkeypatch, impatient):
    # The mistake that leaves a benchmark without what it is to measure: tokens are checked where there are some.
    real = istio_policies.token_policies
    monkeypatch.setattr(
        istio_policies,
        "token_policies",
        lambda setting: [m for m in real(setting) if m["kind"] != "AuthorizationPolicy"],
    )
    with pytest.raises(proof.UnprovenState, match="a request without a token is refused: 200 instead of 401"):
        bring("istio", "jwt-mesh")


def test_mtls_turned_off_behind_our_back_is_noticed(clean_testbed, bring, impatient):
    cluster = clean_testbed.cluster
    deployed = bring("istio", "mtls")
    (policy,) = Istio().policies(Setting("basic", deployed.namespace, clean_testbed.image_source))
    cluster.apply([policy])

    def noticed():
        try:
            proof.probe(cluster, deployed)
        except proof.UnprovenState as error:
            return "every connection is TLS" in str(error)
        return False

    assert cluster.wait("the proof to fail", noticed, 30)
