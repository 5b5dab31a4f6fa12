"""meshperf measures what a service mesh costs, and publishes the answer so that anyone can check it.

Words, one meaning each, here and in every name of the code:

study
    The design: what to vary, how often, in which order, with which seed (``config/*.yaml``).
testbed
    A Kubernetes cluster with a description: how it was made, its nodes and versions.
campaign
    All runs of one study on one testbed: one directory of versioned data.
mesh
    The system under test: ``baseline`` (no mesh), ``istio``, ...
configuration
    A named set of mesh settings: ``basic``, ``mtls``, ...
arm
    Mesh x configuration.
block
    One pass through all arms in random order on fresh deployments, the baseline twice.
deployment
    Fresh workloads (and sidecars) of one arm within a block; it carries all its target RPS.
cell
    Arm x target RPS (x connections where a study varies them).
run
    One execution of the load generator in a cell: the statistical unit.
target RPS, achieved RPS
    The rate asked of, and the rate reached by, the load generator (``target_rps``, ``achieved_rps``).
overhead
    A quantile of an arm against the baseline's at the same target RPS and block (``overhead_s``,
    ``overhead_ratio``).
quantile, percentile
    0-1 in code (``q=0.99``), "p99" in text (``p99_s``).

Quantities carry their unit in their name (``_s _rps _bytes _cores _ratio``), SI throughout; milliseconds and
mCPU appear only in print.
"""

__version__ = "0.1.0"
