"""Coverage, level and power of every interval and test, on simulated campaigns of known truth.

    python benchmarks/validate_statistics.py [--campaigns 4000] [--seed 1] [--output results/validation.csv]

The long version of ``tests/statistical``: two baselines per block, scenarios A to F of
:mod:`meshperf.statistics.simulate`, and the field's usual methods in the same campaigns. Exit code 1 if a gated
figure misses its limit by more than 2.6 standard errors.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meshperf.statistics.effect import (
    log_ratio_interval,
    log_ratios,
    merged_ratio_interval,
    paired_t_p,
    shift_function,
    tost,
)
from meshperf.statistics.multiplicity import holm
from meshperf.statistics.permutation import block_permutation_body_tail
from meshperf.statistics.simulate import (
    EDGES_S,
    SCENARIOS,
    Campaign,
    Scenario,
    Simulator,
    pooled_ks_rejects,
    request_bootstrap_interval,
)

QUANTILES = (0.5, 0.9, 0.99)
AA = Scenario("A/A", ratio=1.0)
TAIL = Scenario("tail +50 %", ratio=1.0, tail_ratio=1.5)
SHIFT = Scenario("shift +10 %", ratio=1.10)
N_REQUESTS = 30_000


@dataclass(frozen=True)
class Row:
    """One figure of the validation table: a share of campaigns, and the limits it must keep."""

    check: str
    scenario: str
    blocks: int
    method: str
    quantile: float
    share: float
    campaigns: int
    low: float
    high: float

    @property
    def passed(self) -> bool:
        """Whether the share keeps its limits within 2.6 standard errors."""
        slack = [2.6 * np.sqrt(limit * (1 - limit) / self.campaigns) for limit in (self.low, self.high)]
        return self.low - slack[0] <= self.share <= self.high + slack[1]


def draw(scenario: Scenario, blocks: int, campaigns: int, seed: int, arms: int = 1) -> Iterator[Campaign]:
    simulator = Simulator(scenario)
    rng = np.random.default_rng([seed, blocks, *scenario.name.encode()])
    return (simulator.campaign(rng, blocks, arms) for _ in range(campaigns))


def coverage(letter: str, blocks: int, campaigns: int, seed: int) -> Iterator[Row]:
    """Intervals at 95 % that contain the true ratio: the chosen methods, and the percentile and request bootstrap."""
    simulator = Simulator(SCENARIOS[letter])
    rng = np.random.default_rng([seed, blocks])
    hits: dict[tuple[str, float], int] = defaultdict(int)
    for number, campaign in enumerate(draw(SCENARIOS[letter], blocks, campaigns, seed)):
        for q in QUANTILES:
            typical_truth, merged_truth = simulator.typical_truth(q), simulator.merged_truth(q)
            typical = log_ratio_interval(log_ratios(campaign.arm, campaign.baselines, EDGES_S, q))
            merged = merged_ratio_interval(
                campaign.arm, campaign.baseline, EDGES_S, q, rng=rng, n_resamples=2000
            )
            hits["paired t (typical)", q] += typical.low <= typical_truth <= typical.high
            hits["blocks, SE x t (merged)", q] += merged.low <= merged_truth <= merged.high
            plain = 1.96 * merged.se * np.sqrt((blocks - 1) / blocks)
            hits["blocks, SE x 1.96", q] += abs(np.log(merged.estimate / merged_truth)) <= plain
            if number < 400:
                low, high = request_bootstrap_interval(
                    campaign.arm, campaign.baselines[:, 0], N_REQUESTS, q, rng
                )
                hits["requests resampled", q] += low <= merged_truth <= high
    for (method, q), count in hits.items():
        n = min(campaigns, 400) if method == "requests resampled" else campaigns
        gated = method in ("paired t (typical)", "blocks, SE x t (merged)") and letter != "F"
        limits = (0.93, 0.99 if letter == "D" else 0.97) if gated else (0.0, 1.0)
        if method == "requests resampled" and letter == "B" and q == 0.5:
            limits = (0.0, 0.20)
        yield Row("coverage", letter, blocks, method, q, count / n, n, *limits)


def level(blocks: int, campaigns: int, seed: int) -> Iterator[Row]:
    """Equal arms called different at 5 %: the tests of this project and the two-sample KS test on requests."""
    rejected: dict[tuple[str, float], int] = defaultdict(int)
    for campaign in draw(AA, blocks, campaigns, seed):
        for q in (0.5, 0.99):
            rejected["paired t", q] += (
                paired_t_p(log_ratios(campaign.arm, campaign.baselines, EDGES_S, q)) <= 0.05
            )
        test = block_permutation_body_tail(campaign.arm, campaign.baselines)
        for name, result in (("D", test.body), ("T", test.tail), ("D and T", test.combined)):
            rejected[f"permutation {name}", np.nan] += result.p_value <= 0.05
        naive = pooled_ks_rejects(campaign.arm, campaign.baselines[:, 0], N_REQUESTS)
        rejected["KS on pooled requests", np.nan] += naive
    for (method, q), count in rejected.items():
        limits = (0.90, 1.0) if method.startswith("KS") else (0.0, 0.05)
        yield Row("A/A rejections", AA.name, blocks, method, q, count / campaigns, campaigns, *limits)


def power(scenario: Scenario, blocks: int, campaigns: int, seed: int) -> Iterator[Row]:
    """Find true differences: shares of campaigns in which each test does."""
    found: dict[str, int] = defaultdict(int)
    for campaign in draw(scenario, blocks, campaigns, seed):
        test = block_permutation_body_tail(campaign.arm, campaign.baselines)
        found["permutation D"] += test.body.p_value <= 0.05
        found["permutation T"] += test.tail.p_value <= 0.05
        found["permutation D and T"] += test.combined.p_value <= 0.05
        for name, q in (("paired t p50", 0.5), ("paired t p99", 0.99)):
            found[name] += paired_t_p(log_ratios(campaign.arm, campaign.baselines, EDGES_S, q)) <= 0.05
    for method, count in found.items():
        gated = blocks == 10 and (
            (scenario is SHIFT and method == "permutation D")
            or (scenario is TAIL and method == "permutation D and T")
        )
        floor = (0.80 if scenario is SHIFT else 0.90) if gated else 0.0
        yield Row("power", scenario.name, blocks, method, np.nan, count / campaigns, campaigns, floor, 1.0)


def families(campaigns: int, seed: int) -> Iterator[Row]:
    """Holm over four equal meshes and three quantiles; joint coverage of bands; size of TOST at its margin."""
    alarms = 0
    for campaign in draw(AA, 6, campaigns, seed, arms=4):
        p = [
            paired_t_p(log_ratios(arm, campaign.baselines, EDGES_S, q))
            for arm in campaign.arms
            for q in QUANTILES
        ]
        alarms += bool((holm(p) <= 0.05).any())
    yield Row(
        "family-wise error", AA.name, 6, "Holm, 12 tests", np.nan, alarms / campaigns, campaigns, 0.0, 0.06
    )
    rng = np.random.default_rng(seed)
    for blocks in (5, 8, 10):
        joint = 0
        for campaign in draw(SCENARIOS["B"], blocks, campaigns, seed):
            band = shift_function(campaign.arm, campaign.baselines, EDGES_S, rng=rng)
            joint += bool(((band.ratio_low <= 1.15) & (band.ratio_high >= 1.15)).all())
        limits = (0.93, 0.98) if blocks >= 8 else (0.93, 1.0)
        yield Row("joint coverage", "B", blocks, band.method, np.nan, joint / campaigns, campaigns, *limits)
    margin = Scenario("margin", 0.05, 0.03, ratio=1.10)
    called = sum(
        tost(log_ratios(c.arm, c.baselines, EDGES_S, 0.5), 0.10).equivalent
        for c in draw(margin, 6, campaigns, seed)
    )
    yield Row(
        "TOST at the margin", "quiet", 6, "two one-sided t", 0.5, called / campaigns, campaigns, 0.0, 0.06
    )


def rows(campaigns: int, seed: int) -> Iterator[Row]:
    for letter in SCENARIOS:
        for blocks in (3, 5, 6, 8, 10, 20):
            yield from coverage(letter, blocks, campaigns, seed)
    for blocks in (5, 6):
        yield from level(blocks, campaigns, seed)
    # 3^10 relabellings are listed one by one; a tenth of the campaigns is enough for these limits.
    yield from level(10, max(campaigns // 10, 100), seed)
    for scenario in (SHIFT, TAIL):
        yield from power(scenario, 6, campaigns, seed)
        yield from power(scenario, 10, max(campaigns // 10, 100), seed)
    yield from families(campaigns, seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--campaigns", type=int, default=4000, help="simulated campaigns per figure (4000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="also write the table here, as CSV")
    arguments = parser.parse_args()
    started, done = time.monotonic(), []
    columns = (
        "check",
        "scenario",
        "blocks",
        "method",
        "quantile",
        "share",
        "campaigns",
        "low",
        "high",
        "passed",
    )
    print(" ".join(columns), flush=True)
    for row in rows(arguments.campaigns, arguments.seed):
        done.append(row)
        limits = f"[{row.low:.2f}, {row.high:.2f}]"
        print(
            f"{row.check:18} {row.scenario:12} r={row.blocks:<3} {row.method:28} q={row.quantile:<5} "
            f"{100 * row.share:5.1f} % {limits} {'ok' if row.passed else 'MISSED'}",
            flush=True,
        )
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        with arguments.output.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([*(getattr(row, name) for name in columns)] for row in done)
    missed = [row for row in done if not row.passed]
    print(f"{len(done)} figures, {len(missed)} missed, {time.monotonic() - started:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
