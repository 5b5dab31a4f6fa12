"""The systems under test, one module each, and the one table of what each supports."""

from importlib import import_module
from typing import TYPE_CHECKING

from meshperf.errors import MeshperfError

if TYPE_CHECKING:
    from meshperf.meshes.base import Mesh

#: mesh -> configurations it supports, in the order in which they are printed everywhere.
SUPPORTED: dict[str, tuple[str, ...]] = {
    "baseline": ("none",),
    "istio": ("basic", "mtls"),
}

_CLASSES = {"baseline": "meshperf.meshes.baseline:Baseline", "istio": "meshperf.meshes.istio:Istio"}


def get(name: str) -> "Mesh":
    """Return the mesh of a name; its module is imported now.

    Raises
    ------
    MeshperfError
        If there is no such mesh.
    """
    if name not in _CLASSES:
        raise MeshperfError(f"there is no mesh {name!r}: choose one of {', '.join(SUPPORTED)}")
    module, _, class_name = _CLASSES[name].partition(":")
    return getattr(import_module(module), class_name)()
