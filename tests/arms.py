"""The arms that the embedded cluster runs."""

from meshperf.meshes import MESHES

#: As (mesh, configuration); of a configuration with a number one, with more rules than one policy of Istio's can hold.
EMBEDDED = [
    (mesh, configuration.replace("-N", "-600"))
    for mesh, support in MESHES.items()
    for configuration in support.embedded
]
