"""How a control plane's manifests are made ready to be applied: no cluster needed."""

from copy import deepcopy

from meshperf.meshes.base import Mesh
from meshperf.testbed.ensure import INSTALL_TIMEOUT_S, _with_namespaces


class _Some(Mesh):
    name = "some"
    control_plane_namespaces = ("some-system", "some-more")


def _object(kind, name, **more):
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}


def _deployment(**container):
    return _object(
        "Deployment", "control-plane", spec={"template": {"spec": {"containers": [{"name": "a", **container}]}}}
    )  # fmt: skip


def test_namespaces_and_definitions_come_first_and_nobody_elses_namespace_is_made():
    rendered = [
        _object("Service", "s"),
        _object("CustomResourceDefinition", "d"),
        _object("Namespace", "default"),
        {**_object("Namespace", "some-system"), "metadata": {"name": "some-system", "labels": {"a": "b"}}},
    ]
    made = _with_namespaces(rendered, _Some())
    names = [(m["kind"], m["metadata"]["name"]) for m in made]
    assert names == [
        ("Namespace", "some-system"), ("Namespace", "some-more"), ("CustomResourceDefinition", "d"), ("Service", "s"),
    ]  # fmt: skip
    assert made[0]["metadata"]["labels"] == {"a": "b"}, "the mesh's own labels are lost"


def test_what_has_no_namespace_is_given_none():
    webhook = _object("ValidatingWebhookConfiguration", "w")
    webhook["metadata"]["namespace"] = "some-system"
    account = _object("ServiceAccount", "a")
    account["metadata"]["namespace"] = "some-system"
    made = {m["kind"]: m["metadata"] for m in _with_namespaces([webhook, account], _Some())}
    assert made["ValidatingWebhookConfiguration"] == {"name": "w"}
    assert made["ServiceAccount"]["namespace"] == "some-system"


def test_a_container_is_asked_every_second_only_until_it_has_started():
    asked = {"httpGet": {"path": "/ready", "port": 1}, "timeoutSeconds": 5}
    original = _deployment(readinessProbe={**asked, "initialDelaySeconds": 5, "periodSeconds": 10})
    untouched = deepcopy(original)
    *_, made = _with_namespaces([original], _Some())
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["startupProbe"] == {**asked, "periodSeconds": 1, "failureThreshold": INSTALL_TIMEOUT_S}
    assert container["readinessProbe"] == {**asked, "periodSeconds": 10}
    assert original == untouched


def test_a_container_with_a_startup_probe_of_its_own_or_no_probe_keeps_what_it_has():
    own = {
        "readinessProbe": {"tcpSocket": {"port": 1}, "initialDelaySeconds": 5},
        "startupProbe": {"exec": {}},
    }
    for container in (own, {}):
        *_, made = _with_namespaces([_deployment(**container)], _Some())
        assert made["spec"]["template"]["spec"]["containers"] == [{"name": "a", **container}]
