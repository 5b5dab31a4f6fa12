"""Any two arms, in any order: nothing of the one before is left, and an arm that comes back is proven as before.

Eight switches by default; `pytest tests/cluster/test_switching.py -s --switches 24` makes more and prints their times.
"""

import itertools
import random
import re
import time
from collections import Counter

import arms
import traces

from meshperf.testbed import proof
from meshperf.testbed.removal import remove_all

#: The API server keeps a namespace that was deleted for some seconds; rules and mounts of pods follow.
ENDING_S = 60
ARMS = arms.EMBEDDED
#: An address is reused at random, and an object of the same name in another block is the same for us.
_UNNAMED = {"IPAddress.networking.k8s.io"}
_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_GENERATED = re.compile(f"-({_UUID}|[0-9a-f]{{8,10}}-[a-z0-9]{{5}}|[0-9a-f]{{8,10}}|[a-z0-9]{{5}})$")


def order(choice, n_switches, seed):
    """Return the arms to visit: neighbours differ, and at least a quarter of them come back after another arm."""
    rng = random.Random(seed)
    n_visits = n_switches + 1
    distinct = rng.sample(choice, min(len(choice), n_visits - max(1, n_visits // 4)))
    visits = list(distinct)
    while len(visits) < n_visits:
        visits.append(rng.choice([arm for arm in distinct if arm != visits[-1]]))
    return visits


def test_the_order_has_every_arm_and_none_twice_in_a_row():
    for n_switches in (2, 8, 20, 40):
        visits = order(ARMS, n_switches, seed=n_switches)
        assert len(visits) == n_switches + 1
        assert all(one != other for one, other in itertools.pairwise(visits))
        assert max(Counter(visits).values()) >= 2
    assert set(order(ARMS, 2 * len(ARMS), seed=3)) == set(ARMS)


def test_switching_leaves_nothing_and_proves_the_same_again(clean_testbed, bring, request):
    cluster, embedded = clean_testbed.cluster, clean_testbed.kind == "embedded"
    clean = traces.objects(cluster)
    clean_node = traces.on_node() if embedded else Counter()
    visits = order(ARMS, request.config.getoption("--switches"), request.config.getoption("--switch-seed"))
    proven, footprints, previous = {}, {}, {}
    print(
        f"\n{'arm':24} {'removal':>8} {'control plane':>14} {'workloads':>10} {'proof':>6} {'in all':>7}  s"
    )
    for block, arm in enumerate(visits, 1):
        began = time.monotonic()
        deployed = bring(*arm, block=block)
        parts = deployed.install_s
        print(
            f"{'/'.join(arm):24} {parts['remove']:8.1f} {parts['control_plane']:14.1f} {parts['workloads']:10.1f} "
            f"{parts['proof']:6.1f} {time.monotonic() - began:7.1f}"
        )
        assert traces.eventually(lambda seen=previous: _survivors(cluster, seen), ENDING_S) == []
        previous = {key: uid for key, uid in traces.objects(cluster).items() if clean.get(key) != uid}
        if embedded:
            assert traces.eventually(lambda: _of_no_pod(cluster), ENDING_S) == []
        if arm == ("baseline", "none"):
            assert {namespace for _, namespace, _ in previous} <= {"", deployed.namespace}
            assert {kind for kind, namespace, _ in previous if not namespace} <= {"Namespace", *_UNNAMED}

        shown = proof.probe(cluster, deployed)
        what = (
            {(c.name, c.passed) for c in shown.checks},
            shown.protocol,
            shown.tls_expected,
            shown.sidecars,
        )
        assert proven.setdefault(arm, what) == what, f"{arm} is proven by other checks than before"
        footprint = _footprint(previous, deployed.namespace)
        assert footprints.setdefault(arm, footprint) == footprint, (
            f"{arm} is made of other objects than before"
        )

    remove_all(cluster)
    assert traces.eventually(lambda: sorted(set(traces.objects(cluster)) - set(clean)), ENDING_S) == []
    assert set(clean) - set(traces.objects(cluster)) == set(), "something that was there before is gone"
    if embedded:
        assert traces.eventually(lambda: traces.on_node() - clean_node, ENDING_S) == Counter()
        assert clean_node - traces.on_node() == Counter(), "something that was on the node before is gone"


def _survivors(cluster, before):
    """Return what was there before the switch and still is: the same object, not one of the same name."""
    now = traces.objects(cluster)
    return sorted(key for key, uid in before.items() if now.get(key) == uid)


def _of_no_pod(cluster):
    """Return what is on the node and belongs to no pod: shims, interfaces, and rules for namespaces that are gone."""
    pods = cluster.list_objects("v1", "Pod")
    on_node = traces.on_node()
    wanted = {("process", "containerd-shim-runc-v2"): len(pods), ("interface", "veth"): len(pods)}
    found = [f"{on_node[what]} {what[1]} for {n} pods" for what, n in wanted.items() if on_node[what] != n]
    namespaces = {namespace["metadata"]["name"] for namespace in cluster.list_objects("v1", "Namespace")}
    for what, rule in on_node:
        service = re.search(r'--comment "?([a-z0-9-]+)/', rule)
        if what == "rule" and service and service[1] not in namespaces:
            found.append(rule)
    return found


def _footprint(objects, namespace):
    """Return an arm's objects without what differs between its deployments: generated names and the block."""
    return Counter(
        (
            kind,
            "workload" if where == namespace else where,
            _GENERATED.sub("", name.replace(namespace, "workload")),
        )
        for kind, where, name in objects
        if kind not in _UNNAMED
    )
