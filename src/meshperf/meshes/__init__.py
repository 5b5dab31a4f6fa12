"""The systems under test, one module each, and the one table of what each supports and where it was run."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from meshperf.errors import MeshperfError

if TYPE_CHECKING:
    from meshperf.meshes.base import Mesh


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
        ("basic", "mtls", "jwt-mesh", "jwt-envoy", "jwt-opa"),
        ("basic", "mtls", "jwt-mesh", "jwt-envoy", "jwt-opa"),
    ),
    "kuma": Support("meshperf.meshes.kuma:Kuma", ("basic", "mtls"), ("basic", "mtls")),
    "osm": Support("meshperf.meshes.osm:Osm", ("mtls", "mtls-smi"), ("mtls", "mtls-smi")),
}

#: mesh -> configurations it supports.
SUPPORTED: Mapping[str, tuple[str, ...]] = {name: mesh.configurations for name, mesh in MESHES.items()}


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
