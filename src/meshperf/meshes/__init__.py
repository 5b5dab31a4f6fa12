"""The systems under test, one module each, and the one table of what each supports and where it was run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from meshperf.errors import MeshperfError

if TYPE_CHECKING:
    from meshperf.meshes.base import Mesh


#: Configurations of which there is one for every number, as the table writes them -> pattern of their names, in a form
#: that JSON Schema reads too, and what N may be.
NUMBERED = {"authz-N": (r"authz-([1-9][0-9]{0,2}|[1-4][0-9]{3}|5000)", "N from 1 to 5000")}


@dataclass(frozen=True)
class Support:
    """What is supported of one mesh.

    Attributes
    ----------
    implementation : str
        Its class as ``module:name``; imported when it is needed.
    configurations : tuple of str
        Supported configurations, in the order in which they are printed everywhere.
    embedded : tuple of str
        Those of them that run on the embedded cluster and are tested there. The others need images that no package
        registry serves: they are for a cluster with access to the internet.
    """

    implementation: str
    configurations: tuple[str, ...]
    embedded: tuple[str, ...]


#: Every mesh, in the order in which they are printed everywhere. `meshperf mesh list`, the README, the report and the
#: schema of studies are made from this table.
MESHES: dict[str, Support] = {
    "baseline": Support("meshperf.meshes.baseline:Baseline", ("none",), ("none",)),
    "envoy-static": Support("meshperf.meshes.envoy_static:EnvoyStatic", ("basic", "mtls"), ("basic", "mtls")),
    "istio": Support(
        "meshperf.meshes.istio:Istio",
        ("basic", "mtls", "mtls-metrics", "jwt-mesh", "jwt-envoy", "jwt-opa", "authz-N"),
        ("basic", "mtls", "mtls-metrics", "jwt-mesh", "jwt-envoy", "jwt-opa", "authz-N"),
    ),
    "istio-ambient": Support("meshperf.meshes.istio_ambient:IstioAmbient", ("mtls",), ()),
    "linkerd": Support("meshperf.meshes.linkerd:Linkerd", ("basic", "mtls-metrics"), ()),
    "kuma": Support("meshperf.meshes.kuma:Kuma", ("basic", "mtls"), ("basic", "mtls")),
    "consul": Support(
        "meshperf.meshes.consul:Consul", ("basic", "mtls", "mtls-tcp"), ("basic", "mtls", "mtls-tcp")
    ),
    "cilium": Support(
        "meshperf.meshes.cilium:Cilium", ("basic", "mtls", "mutual-auth", "wireguard", "ipsec"), ()
    ),
    "nsm": Support("meshperf.meshes.nsm:Nsm", ("basic", "wireguard"), ()),
    "osm": Support("meshperf.meshes.osm:Osm", ("mtls", "mtls-smi"), ("mtls", "mtls-smi")),
}

#: mesh -> configurations it supports, as the table writes them.
SUPPORTED: Mapping[str, tuple[str, ...]] = {name: mesh.configurations for name, mesh in MESHES.items()}


def family(configuration: str) -> str:
    """Return a configuration as the table writes it: ``authz-100`` as ``authz-N``, most others as they are."""
    for name, (pattern, _) in NUMBERED.items():
        if re.fullmatch(pattern, configuration):
            return name
    return configuration


def number(configuration: str) -> int:
    """Return the number in a configuration whose family is in `NUMBERED`."""
    return int(configuration.rpartition("-")[2])


def supports(mesh: str, configuration: str, *, embedded: bool = False) -> bool:
    """Return whether a mesh supports a configuration, or whether the embedded cluster runs it."""
    listed = MESHES[mesh].embedded if embedded else MESHES[mesh].configurations
    return configuration not in NUMBERED and family(configuration) in listed


def explained(configurations: tuple[str, ...]) -> tuple[str, ...]:
    """Return configurations of the table with the range of their numbers, for a message."""
    return tuple(f"{c} ({NUMBERED[c][1]})" if c in NUMBERED else c for c in configurations)


def get(name: str) -> "Mesh":
    """Return the mesh of a name; its module is imported now.

    Raises
    ------
    MeshperfError
        If there is no such mesh.
    """
    if name not in MESHES:
        raise MeshperfError(f"there is no mesh {name!r}: choose one of {', '.join(MESHES)}")
    module, _, class_name = MESHES[name].implementation.partition(":")
    return getattr(import_module(module), class_name)()
