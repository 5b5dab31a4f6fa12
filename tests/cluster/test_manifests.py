"""Meshes that cannot run here: a real API server takes their manifests, as their own tools render them.

Istio's ambient mode is rendered by its ``istioctl``, Cilium's definitions and chart are in its Go module. Linkerd's and
NSM's manifests can be had from no package registry: see tests/unit/test_internet_meshes.py.
"""

import pytest
import yaml
from kubernetes import dynamic

from meshperf import meshes
from meshperf.errors import MeshperfError
from meshperf.meshes import cilium
from meshperf.meshes.base import Setting
from meshperf.meshes.cilium_config import encryption
from meshperf.meshes.osm import HELM
from meshperf.meshes.rendering import render
from meshperf.testbed import surroundings
from meshperf.testbed.embedded.builds import go_module_dir
from meshperf.testbed.ensure import _namespace, _owned, _with_namespaces
from meshperf.workloads import echo

DEFINITIONS = {"Namespace", "CustomResourceDefinition"}
NAMESPACE = "meshperf-dry-run"
#: Configuration of the arm -> settings of Cilium's chart.
SETTINGS = {
    "basic": (),
    "mtls": ("encryption.enabled=true", "encryption.type=ztunnel"),
    "mutual-auth": ("authentication.enabled=true", "authentication.mutual.spire.enabled=true"),
    "wireguard": ("encryption.enabled=true", "encryption.type=wireguard"),
    "ipsec": ("encryption.enabled=true", "encryption.type=ipsec"),
}


def _workloads(mesh, configuration):
    setting = Setting(configuration, NAMESPACE, "registry")
    made = echo.manifests(
        NAMESPACE, "registry", mesh.pod_annotations(configuration), server_limits={}, client_limits={},
        placement="same-node", server_node_selector={}, client_node_selector={},
    )  # fmt: skip
    return [_owned(manifest) for manifest in (*mesh.policies(setting), *mesh.adapt(made, setting))]


def _try(cluster, manifest):
    """Have the API server check a manifest as if it were applied."""

    def accepted():
        try:
            return cluster.resource(manifest["apiVersion"], manifest["kind"]).server_side_apply(
                body=manifest,
                name=manifest["metadata"]["name"],
                namespace=manifest["metadata"].get("namespace"),
                field_manager="meshperf",
                force_conflicts=True,
                dry_run="All",
            )
        except (dynamic.exceptions.ResourceNotFoundError, dynamic.exceptions.NotFoundError):
            return None  # its definition is not served yet

    return cluster.wait(f"{manifest['kind']} {manifest['metadata']['name']} to be known", accepted, 30)


def _chart_of_cilium(*settings):
    options = [word for setting in settings for word in ("--set", setting)]
    return render(
        HELM, "template", "cilium", ".", "--namespace", "kube-system", "--kube-version", "1.34.4", *options,
        chart=lambda: _module() / "install" / "kubernetes" / "cilium",
    )  # fmt: skip


def _module():
    return go_module_dir("cilium", "github.com/cilium/cilium")


def _config(chart):
    (config,) = (m for m in chart if m["kind"] == "ConfigMap" and m["metadata"]["name"] == "cilium-config")
    return config


@pytest.fixture
def policies_of_cilium(clean_testbed):
    """A cluster that knows Cilium's policies."""
    cluster = clean_testbed.cluster
    directory = _module() / "pkg" / "k8s" / "apis" / "cilium.io" / "client" / "crds" / "v2"
    for name in ("ciliumnetworkpolicies", "ciliumclusterwidenetworkpolicies"):
        cluster.apply([_owned(yaml.safe_load((directory / f"{name}.yaml").read_text()))])
    cluster.apply([_owned(_namespace(NAMESPACE, {}))])
    return cluster


def test_istios_ambient_mode_is_accepted_as_its_own_tool_renders_it(clean_testbed):
    cluster, mesh = clean_testbed.cluster, meshes.get("istio-ambient")
    control_plane = [_owned(m) for m in _with_namespaces(mesh.control_plane("mtls", "registry"), mesh)]
    names = {(m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in control_plane}
    waited_for = {("Deployment", *where) for where in mesh.control_plane_deployments}
    assert waited_for | set(mesh.control_plane_sets) <= names
    cluster.apply([m for m in control_plane if m["kind"] in DEFINITIONS])
    cluster.apply([_owned(_namespace(NAMESPACE, mesh.namespace_labels("mtls")))])
    tried = [m for m in control_plane if m["kind"] not in DEFINITIONS] + _workloads(mesh, "mtls")
    accepted = [_try(cluster, manifest) for manifest in tried]
    assert len(accepted) > 30 and all(accepted)
    assert cluster.list_objects("apps/v1", "DaemonSet", "istio-system") == [], "it was only tried"


def test_ciliums_definitions_accept_our_policies_and_nothing_else(policies_of_cilium):
    for configuration in meshes.SUPPORTED["cilium"]:
        for manifest in _workloads(meshes.get("cilium"), configuration):
            assert _try(policies_of_cilium, manifest)
    (policy, *_) = _workloads(meshes.get("cilium"), "mutual-auth")
    policy["spec"]["ingress"][0]["authentication"]["mode"] = "perhaps"
    with pytest.raises(dynamic.exceptions.DynamicApiError, match="perhaps"):
        _try(policies_of_cilium, policy)


@pytest.mark.parametrize("configuration", meshes.SUPPORTED["cilium"])
def test_ciliums_own_chart_gives_the_configuration_that_an_arm_asks_for(configuration):
    chart = _chart_of_cilium(*SETTINGS[configuration])
    cilium.check_configuration(_config(chart)["data"], configuration)
    wrong = {encryption(_config(_chart_of_cilium(*settings))["data"]) for settings in SETTINGS.values()}
    assert wrong == {"none", "ztunnel", "wireguard", "ipsec"}
    containers = {
        (m["metadata"]["namespace"], container["name"])
        for m in chart
        if m["kind"] in ("DaemonSet", "Deployment")
        for container in m["spec"]["template"]["spec"]["containers"]
    }
    assert set(meshes.get("cilium").roles(configuration)) <= containers


def test_a_cluster_with_cilium_is_recognised_and_a_foreign_proxy_on_it_refused(policies_of_cilium):
    cluster, mesh = policies_of_cilium, meshes.get("cilium")
    with pytest.raises(MeshperfError, match="Cilium is not its network"):
        mesh.check_cluster(cluster, "basic")
    config = _config(_chart_of_cilium(*SETTINGS["wireguard"]))
    foreign = {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumClusterwideNetworkPolicy",
        "metadata": {"name": "theirs"},
        "spec": {
            "endpointSelector": {},
            "ingress": [
                {"toPorts": [{"ports": [{"port": "8080", "protocol": "TCP"}], "rules": {"http": [{}]}}]}
            ],
        },
    }
    try:
        cluster.apply([config])
        mesh.check_cluster(cluster, "wireguard")
        with pytest.raises(MeshperfError, match="has wireguard"):
            mesh.check_cluster(cluster, "basic")
        around = surroundings.look(cluster, NAMESPACE)
        assert (around.facts["cni"], around.facts["encryption"]) == ("cilium", "wireguard")
        cluster.apply([foreign])
        with pytest.raises(MeshperfError, match="theirs sends traffic through Cilium's proxy"):
            surroundings.look(cluster, NAMESPACE)
    finally:
        cluster.delete([config, foreign])
    assert surroundings.look(cluster, NAMESPACE).facts == {}
