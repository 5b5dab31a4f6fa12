"""Which way to a run's time course disturbs the measurement less: an access log, or consecutive short runs.

    python benchmarks/time_course.py [ROUNDS]

Both give slices of a few seconds. In each round, in random order, the same deployment is measured for the same time
plainly, with an access log, and as consecutive intervals; each way is compared with the plain run of its round.
Printed: ratios of p50, p99 and the load generator's CPU, as geometric means over the rounds with 95 % intervals.
"""

import random
import sys
import time

import numpy as np
from scipy import stats

from meshperf import resources, testbed
from meshperf.loadgen import fortio
from meshperf.study import Load
from meshperf.testbed.ensure import ensure
from meshperf.testbed.proof import Deployed
from meshperf.testbed.removal import remove_all
from meshperf.workloads import echo

DURATION_S, INTERVAL_S, TARGET_RPS = 10, 5, 400
WAYS = ("plain", "access log", "intervals")


def main(rounds: int) -> None:
    """Measure all rounds on the baseline and print both comparisons."""
    where = testbed.connect(progress=print)
    workload = {
        "server_limits": {}, "client_limits": {}, "placement": "same-node",
        "server_node_selector": {}, "client_node_selector": {},
    }  # fmt: skip
    deployed = ensure(
        where.cluster, "benchmark", "baseline", "none", 1, 1, workload, where.image_source, print
    )
    order = random.Random(1)
    figures = {way: [] for way in WAYS}
    for number in range(rounds):
        for way in order.sample(WAYS, len(WAYS)):
            figures[way].append(measure(where, deployed, way))
            p50_s, p99_s, cpu_s = figures[way][-1]
            times = f"p50 {p50_s * 1e3:.3f} ms  p99 {p99_s * 1e3:.3f} ms"
            print(f"round {number + 1}  {way:10}  {times}  {cpu_s * 1e6:.0f} µs CPU per request")
    remove_all(where.cluster)
    plain = np.log(figures["plain"])
    for way in WAYS[1:]:
        ratios = np.log(figures[way]) - plain
        low, high = stats.t.interval(0.95, rounds - 1, ratios.mean(0), stats.sem(ratios, axis=0))
        for name, mean, left, right in zip(("p50", "p99", "CPU"), ratios.mean(0), low, high, strict=True):
            print(f"{way:10} / plain  {name}: {np.exp(mean):.3f} [{np.exp(left):.3f}, {np.exp(right):.3f}]")


def measure(where: testbed.Testbed, deployed: Deployed, way: str) -> tuple[float, float, float]:
    """Return p50 and p99 in seconds and the load generator's CPU seconds per request, measured in one way."""
    load = Load(
        connections=16,
        resolution_s=0.00005,
        payload_bytes=0,
        timeout_s=3,
        duration_s=DURATION_S,
        warmup_s=0,
        slice_s=INTERVAL_S,
    )
    roles = resources.role_finder(deployed.namespace, (), echo.CONTAINER, ())
    sampler = resources.Sampler(where.cluster, [deployed.client["spec"]["nodeName"]], roles, dict)
    pieces = DURATION_S // INTERVAL_S if way == "intervals" else 1
    log = f"{echo.DATA_DIR}/bench-{time.time_ns()}.json" if way == "access log" else None
    argv = fortio.build_argv(
        load, target_rps=TARGET_RPS, url=deployed.url, duration_s=DURATION_S / pieces, access_log_path=log
    )
    sampler.start()
    began = time.time()
    results = [
        fortio.read_result(
            where.cluster.execute(deployed.namespace, deployed.pod_name("client"), echo.CONTAINER, argv, 60)[
                0
            ]
        )
        for _ in range(pieces)
    ]
    ended = time.time()
    sampler.stop(ended)
    merged = (
        results[0].histogram if pieces == 1 else results[0].histogram.merge([r.histogram for r in results])
    )
    (cpu_s,) = (
        row["cpu_s"]
        for row in resources.summarise(sampler.samples(), {}, began, ended)
        if row["role"] == "load-generator"
    )
    return merged.quantile(0.5), merged.quantile(0.99), cpu_s / merged.n


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
