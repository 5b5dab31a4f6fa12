"""In which order a mesh is taken off a cluster: what the API server would be asked, no cluster needed."""

import pytest
from kubernetes import dynamic

from meshperf.testbed import client, removal
from meshperf.testbed.client import is_rolled_out

OURS = {"meshperf.dev/owned": "true"}


def _object(kind, name, namespace=None, owner=None):
    metadata = {"name": name, "labels": OURS}
    if namespace:
        metadata["namespace"] = namespace
    if owner:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1]}]
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


class _Cluster:
    """Deletes at once what has a grace period, and what belongs to a DaemonSet when that is gone."""

    def __init__(self, *objects):
        self.objects, self.deleted = list(objects), []

    def list_objects(self, api_version, kind, namespace=None, selector=None):
        return [
            found
            for found in self.objects
            if found["kind"] == kind and namespace in (None, found["metadata"].get("namespace"))
        ]

    def get(self, api_version, kind, name, namespace=None):
        return next((f for f in self.list_objects("", kind) if f["metadata"]["name"] == name), None)

    def delete(self, manifests, grace_s=None):
        for manifest in list(manifests):
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            self.deleted.append(name if grace_s is None else f"{name} in {grace_s} s")
            gone = [f for f in self.objects if (f["kind"], f["metadata"]["name"]) == (kind, name)]
            gone += [
                f
                for f in self.objects
                if (kind, name) in [(o["kind"], o["name"]) for o in f["metadata"].get("ownerReferences", [])]
            ]
            self.objects = [f for f in self.objects if f not in gone]

    def wait(self, what, condition, timeout_s):
        assert condition(), what
        return True


@pytest.fixture
def cluster():
    return _Cluster(
        _object("Namespace", "meshperf-x"),
        _object("Namespace", "istio-system"),
        _object("MutatingWebhookConfiguration", "webhook"),
        _object("ClusterRole", "istio-cni"),
        _object("Deployment", "server", "meshperf-x"),
        _object("Pod", "server-1", "meshperf-x"),
        _object("Deployment", "istiod", "istio-system"),
        _object("Pod", "istiod-1", "istio-system"),
        _object("DaemonSet", "istio-cni-node", "istio-system"),
        _object("Pod", "istio-cni-node-1", "istio-system", ("DaemonSet", "istio-cni-node")),
        _object("StatefulSet", "store", "istio-system"),
    )


def test_an_agent_of_the_nodes_ends_in_its_own_time_after_the_workloads_and_before_its_permissions(cluster):
    removal.start_removal(cluster)
    order = cluster.deleted
    assert order[0] == "webhook"
    assert order.index("server-1 in 1 s") < order.index("istio-cni-node") < order.index("istio-cni")
    assert order.index("istio-cni-node") < order.index("istiod")
    assert not any(name.startswith("istio-cni-node-1") for name in order), "its pod was not left to end"
    assert order.index("store") < order.index("istiod-1 in 1 s")
    assert cluster.objects == []


def test_a_mesh_without_agents_is_removed_as_a_whole(cluster):
    cluster.objects = [f for f in cluster.objects if "istio-cni" not in f["metadata"]["name"]]
    removal.start_removal(cluster)
    assert cluster.deleted[:2] == ["webhook", "server"]
    assert cluster.objects == []


def _set(kind, generation=2, replicas=None, **status):
    spec = {} if replicas is None else {"replicas": replicas}
    return {"kind": kind, "metadata": {"generation": generation}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("found", "rolled_out"),
    [
        (None, False),
        (_set("Deployment", observedGeneration=2, readyReplicas=1), True),
        (_set("Deployment", observedGeneration=1, readyReplicas=1), False),
        (_set("StatefulSet", replicas=2, observedGeneration=2, readyReplicas=1), False),
        (_set("DaemonSet", observedGeneration=2, desiredNumberScheduled=2, numberReady=2), True),
        (_set("DaemonSet", observedGeneration=2, desiredNumberScheduled=2, numberReady=1), False),
        # No node takes it: there is nothing that could be ready.
        (_set("DaemonSet", observedGeneration=2, desiredNumberScheduled=0, numberReady=0), False),
        ({**_set("DaemonSet"), "status": None}, False),
    ],
)
def test_a_set_is_ready_when_all_its_pods_of_the_newest_generation_are(found, rolled_out):
    assert is_rolled_out(found) is rolled_out


class _TooEarly(dynamic.exceptions.TooManyRequestsError):
    def __init__(self):
        self.status = 429

    def summary(self):
        return "storage is (re)initializing"


def test_a_kind_that_is_only_just_served_is_asked_for_again(monkeypatch):
    monkeypatch.setattr(client, "POLL_S", 0)
    answers = iter([_TooEarly(), _TooEarly(), "answer"])

    def ask():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert client._patiently(ask) == "answer"


def test_a_kind_that_is_never_served_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(client, "REQUEST_TIMEOUT_S", 0.05)

    def ask():
        raise _TooEarly

    with pytest.raises(client.InfrastructureError, match=r"storage is \(re\)initializing"):
        client._patiently(ask)
