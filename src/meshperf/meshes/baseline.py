"""No mesh: the same workload on the same cluster with nothing in between."""

from meshperf.meshes.base import Mesh


class Baseline(Mesh):
    """The cluster without a mesh."""

    name = "baseline"
