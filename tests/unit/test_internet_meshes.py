"""Meshes that cannot run here: what they rely on is in the manifests that their tools render, and all of it is removed.

The names were taken from these manifests (see tests/golden/README.md).
"""

import json
from pathlib import Path

import pytest

from meshperf import meshes
from meshperf.design import run_keys, schedule
from meshperf.paths import repository_root
from meshperf.resources import ROLES
from meshperf.study import load_study
from meshperf.testbed.removal import CLUSTER_KINDS
from meshperf.testbed.surroundings import refuse_placement

GOLDEN = Path(__file__).parents[1] / "golden"
NAMES = ("linkerd", "cilium", "nsm")
#: What goes with its definition, or with nothing.
_HARMLESS = {"Namespace"}


def _objects(mesh):
    return json.loads((GOLDEN / mesh / "objects.json").read_text())["objects"]


@pytest.mark.parametrize("name", [*NAMES, "istio-ambient"])
def test_what_needs_a_registry_is_said_not_to_run_here(name):
    assert meshes.MESHES[name].embedded == ()


@pytest.mark.parametrize("name", NAMES)
def test_everything_that_is_waited_for_is_made(name):
    made = {(o["kind"], o.get("namespace"), o["name"]) for o in _objects(name)}
    mesh = meshes.get(name)
    waited_for = {("Deployment", *where) for where in mesh.control_plane_deployments}
    assert waited_for | set(mesh.control_plane_sets) <= made


@pytest.mark.parametrize("name", NAMES)
def test_every_container_with_a_declared_role_is_there(name):
    mesh = meshes.get(name)
    there = {(o.get("namespace", ""), c) for o in _objects(name) for c in o.get("containers", ())}
    for configuration in meshes.SUPPORTED[name]:
        roles = mesh.roles(configuration)
        assert set(roles) <= there and set(roles.values()) <= set(ROLES)


@pytest.mark.parametrize("name", ["linkerd", "nsm"])
def test_everything_that_is_made_is_removed(name):
    mesh = meshes.get(name)
    assert mesh.control_plane_namespaces
    removed_kinds = {kind for _, kind in CLUSTER_KINDS}
    # What has no namespace in the golden file and is not cluster-wide goes into the workloads' own (NSM's network).
    in_workloads = {"nse-vl3-vpp", "vl3-ipam"}
    for o in _objects(name):
        outside = "namespace" not in o and o["name"] not in in_workloads
        if outside:
            assert o["kind"] in removed_kinds | _HARMLESS, f"{o['kind']} {o['name']} would be left behind"
        elif "namespace" in o:
            assert o["namespace"] in mesh.control_plane_namespaces, (
                f"{o['name']} would be left in {o['namespace']}"
            )


def test_agents_of_nodes_are_found_by_labels_that_they_have():
    labels = {o["name"]: o["labels"] for mesh in NAMES for o in _objects(mesh) if o["kind"] == "DaemonSet"}
    from meshperf.meshes import cilium, nsm

    for name, wanted in (
        ("cilium", cilium._AGENT_LABELS),
        ("cilium-envoy", cilium._ENVOY_LABELS),
        ("ztunnel-cilium", cilium._ZTUNNEL_LABELS),
        (nsm._FORWARDER, {"app": nsm._FORWARDER}),
    ):
        assert wanted.items() <= labels[name].items()


def test_the_full_comparison_has_every_mesh_and_rate_and_can_be_placed():
    study = load_study(repository_root() / "config" / "thesis-full.yaml")
    # The eight systems of the published comparisons, and the rates of the theses' tables 9.1 to 9.6.
    assert {"baseline", *(arm.mesh for arm in study.arms_expanded)} == {
        "baseline", "istio", "linkerd", "kuma", "consul", "cilium", "nsm", "osm",
    }  # fmt: skip
    assert study.target_rps == (100, 200, 400, 700, 1000, 1200, 1500, 1800)
    assert (study.blocks, study.testbed.kind) == (10, "context")
    for arm in study.arms_expanded:
        refuse_placement(meshes.get(arm.mesh), arm.configuration, study.workload.placement)
    deployments = schedule(study)
    # 16 arms and two baselines in each of ten blocks, eight rates each.
    assert len(deployments) == 180 and len(run_keys(deployments)) == 1440
