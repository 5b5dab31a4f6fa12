"""Do intervals cover and tests hold their level? The checks, on simulated campaigns of known truth.

Each function simulates campaigns of one kind and yields figures with the limits that they must keep. The fast tests
run a part of them with few campaigns, ``benchmarks/validate_statistics.py`` all of them with thousands; the field's
usual methods are tried on the same campaigns and marked as naive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from meshperf.statistics.baselines import aa_gate
from meshperf.statistics.bootstrap import block_weights, merged_quantile_interval, t_quantile
from meshperf.statistics.checks import prediction_interval, robust_interval
from meshperf.statistics.effect import (
    difference_interval,
    log_ratio_interval,
    log_ratios,
    merged_ratio_interval,
    paired_t_p,
    shift_function,
    tost,
)
from meshperf.statistics.estimability import estimability, exceedances
from meshperf.statistics.ks import ks_distance, ks_interval
from meshperf.statistics.multiplicity import holm
from meshperf.statistics.permutation import block_permutation_body_tail, sign_flip_test
from meshperf.statistics.power import power as planned_power
from meshperf.statistics.quantiles import log_quantile
from meshperf.statistics.results import StatisticsWarning
from meshperf.statistics.simulate import (
    EDGES_S,
    SCENARIOS,
    Campaign,
    Scenario,
    Simulator,
    pooled_ks_rejects,
    request_bootstrap_intervals,
)
from meshperf.statistics.slopes import deployment_slopes

QUANTILES = (0.5, 0.9, 0.99)
BLOCKS = (3, 5, 6, 8, 10, 20)
#: Scenario B without a difference, with a shift, and with a change of the tail alone.
AA = Scenario("A/A", ratio=1.0)
SHIFT = Scenario("shift +10 %", ratio=1.10)
TAIL = Scenario("tail +50 %", ratio=1.0, tail_ratio=1.5)
#: True ratios, and seconds added, that must be found again. Runs spread little there, so that bias shows.
RATIOS = (1.0, 1.05, 1.5, 3.0)
EXTRA_S = (0.001, 0.005)
#: Blocks, ratio and standard deviation between blocks at which the planner is checked.
PLANS = ((3, 1.2, 0.1), (5, 1.1, 0.1), (6, 1.1, 0.1), (10, 1.1, 0.1), (10, 1.05, 0.1), (20, 1.05, 0.1))
#: Campaigns from which on limits hold without allowance for chance.
FULL = 4000
#: Requests of a simulated run.
N_REQUESTS = 30_000
#: The request bootstrap is slow, and its coverage so low that few campaigns show it.
REQUEST_CAMPAIGNS = 200
_STANDARD_ERRORS = 2.6


@dataclass(frozen=True)
class Figure:
    """One figure of the validation table.

    Attributes
    ----------
    check : str
        What was checked, e.g. "coverage".
    scenario : str
    blocks : int
    method : str
    quantile : float
        NaN where there is none.
    value : float
        A share of campaigns, unless `check` says otherwise.
    campaigns : int
        That the value was found in.
    low, high : float
        Limits it must keep; NaN when it is only reported.
    naive : bool
        The field's usual method, a counter-example.
    allowance : bool
        Whether chance (2.6 standard errors) is allowed for however many campaigns there are.
    """

    check: str
    scenario: str
    blocks: int
    method: str
    quantile: float
    value: float
    campaigns: int
    low: float = float("nan")
    high: float = float("nan")
    naive: bool = False
    allowance: bool = False

    @property
    def is_share(self) -> bool:
        """Whether the value is a share of campaigns, with a binomial standard error."""
        return not self.check.startswith(("bias", "chi-square", "planner"))

    @property
    def standard_error(self) -> float:
        """Of a share; NaN otherwise."""
        return _share_error(self.value, self.campaigns) if self.is_share else float("nan")

    @property
    def gated(self) -> bool:
        """Whether there is a limit."""
        return not np.isnan([self.low, self.high]).all()

    @property
    def passed(self) -> bool:
        """Whether the value keeps its limits; below 4000 campaigns with an allowance of 2.6 standard errors."""
        slack = [0.0, 0.0]
        if self.is_share and (self.allowance or self.campaigns < FULL):
            slack = [
                _STANDARD_ERRORS * _share_error(limit, self.campaigns) for limit in (self.low, self.high)
            ]
        # A missing limit compares as kept.
        return not (self.value < self.low - slack[0] or self.value > self.high + slack[1])


def _share_error(share: float, n: int) -> float:
    return float(np.sqrt(share * (1 - share) / n)) if n else float("nan")


def draw(scenario: Scenario, blocks: int, campaigns: int, seed: int, arms: int = 1) -> Iterator[Campaign]:
    """Simulate campaigns of a scenario, the same for the same seed."""
    simulator = Simulator(scenario, n_requests=N_REQUESTS)
    rng = np.random.default_rng([seed, blocks, *scenario.name.encode()])
    return (simulator.campaign(rng, blocks, arms) for _ in range(campaigns))


# ---- intervals


def coverage(
    letter: str, blocks: int, campaigns: int, seed: int, *, requests: int = REQUEST_CAMPAIGNS
) -> Iterator[Figure]:
    """Intervals of ratios at 95 % that contain the true one: both estimands, and the methods that are usual.

    Parameters
    ----------
    letter : str
        Of the scenario.
    blocks, campaigns, seed : int
    requests : int
        Campaigns on which requests are resampled too.
    """
    simulator = Simulator(SCENARIOS[letter])
    rng = np.random.default_rng([seed, blocks, 1])
    hits: dict[tuple[str, float], list[bool]] = defaultdict(list)
    for number, campaign in enumerate(draw(SCENARIOS[letter], blocks, campaigns, seed)):
        for q in QUANTILES:
            typical_truth, merged_truth = simulator.typical_truth(q), simulator.merged_truth(q)
            d = log_ratios(campaign.arm, campaign.baselines, EDGES_S, q)
            typical = log_ratio_interval(d)
            hits["typical", q].append(typical.low <= typical_truth <= typical.high)
            merged = merged_ratio_interval(
                campaign.arm, campaign.baseline, EDGES_S, q, rng=rng, n_resamples=2000
            )
            hits["merged", q].append(merged.low <= merged_truth <= merged.high)
            low, high = _percentile_interval(d, rng)
            hits["percentile", q].append(low <= np.log(typical_truth) <= high)
            hits["1.96", q].append(abs(d.mean() - np.log(typical_truth)) <= 1.96 * d.std() / np.sqrt(blocks))
            hits["Welch", q].append(_welch_covers(campaign, q, np.log(typical_truth)))
        if number < requests:
            for name, runs in (("pooled requests", slice(None)), ("requests of one run", slice(1))):
                ends = request_bootstrap_intervals(
                    campaign.arm[runs], campaign.baselines[runs, 0], N_REQUESTS, QUANTILES, rng
                )
                for q, (low, high) in ends.items():
                    hits[name, q].append(low <= simulator.merged_truth(q) <= high)
    names = {
        "typical": "paired t on log ratios (typical)",
        "merged": "blocks resampled, SE x t (merged)",
        "percentile": "blocks resampled, percentile",
        "1.96": "blocks, SE with divisor r x 1.96",
        "Welch": "Welch t on runs, unpaired",
        "pooled requests": "pooled requests resampled",
        "requests of one run": "requests of one run resampled",
    }
    for (name, q), found in hits.items():
        limits = (float("nan"), float("nan"))
        if name in ("typical", "merged") and letter != "F":
            limits = (0.93, 0.99 if letter == "D" else 0.97)
        elif name == "pooled requests" and letter == "B" and q == 0.5:
            # If the naive method looked good, the simulator would be broken.
            limits = (float("nan"), 0.20)
        yield Figure(
            "coverage", letter, blocks, names[name], q, float(np.mean(found)), len(found), *limits,
            naive=name not in ("typical", "merged"),
        )  # fmt: skip


def _percentile_interval(d: NDArray, rng: np.random.Generator) -> tuple[float, float]:
    weights, probabilities = block_weights(d.size, 1000, rng)
    means = weights @ d
    order = np.argsort(means)
    cumulative = np.cumsum(probabilities[order])
    low, high = np.minimum(np.searchsorted(cumulative, [0.025, 0.975]), means.size - 1)
    return means[order][low], means[order][high]


def _welch_covers(campaign: Campaign, q: float, truth: float) -> bool:
    """Whether the unpaired interval of means of log quantiles over runs contains the log of the true ratio."""
    groups = [log_quantile(c, EDGES_S, q).ravel() for c in (campaign.arm, campaign.baselines)]
    parts = [g.var(ddof=1) / g.size for g in groups]
    degrees = sum(parts) ** 2 / sum(p**2 / (g.size - 1) for p, g in zip(parts, groups, strict=True))
    half = stdtrit(degrees, 0.975) * np.sqrt(sum(parts))
    return abs(groups[0].mean() - groups[1].mean() - truth) <= half


def tail_coverage(blocks: int, campaigns: int, seed: int) -> Iterator[Figure]:
    """Intervals at p99.9 and p99.99, among the campaigns whose quantile may be printed at all."""
    truth = SCENARIOS["B"].ratio
    rng = np.random.default_rng([seed, blocks, 2])
    hits: dict[tuple[str, float], list[bool]] = defaultdict(list)
    for campaign in draw(SCENARIOS["B"], blocks, campaigns, seed):
        for q in (0.999, 0.9999):
            runs = (campaign.arm, campaign.baselines.reshape(2 * blocks, -1))
            labels = []
            for cdf in runs:
                e = exceedances(cdf, EDGES_S, np.full(len(cdf), N_REQUESTS), q)
                labels.append(estimability(e, len(cdf) * N_REQUESTS, q).label)
            if "n.e." in labels:
                continue
            typical = log_ratio_interval(log_ratios(campaign.arm, campaign.baselines, EDGES_S, q))
            merged = merged_ratio_interval(
                campaign.arm, campaign.baseline, EDGES_S, q, rng=rng, n_resamples=2000
            )
            hits["paired t on log ratios (typical)", q].append(typical.low <= truth <= typical.high)
            hits["blocks resampled, SE x t (merged)", q].append(merged.low <= truth <= merged.high)
    for (method, q), found in hits.items():
        # A handful of printable campaigns would decide nothing.
        limits = (0.92, 0.99) if len(found) >= 100 else (float("nan"), float("nan"))
        yield Figure("coverage", "B", blocks, method, q, float(np.mean(found)), len(found), *limits)


def cell_coverage(blocks: int, campaigns: int, seed: int) -> Iterator[Figure]:
    """Intervals of the merged quantile of single cells."""
    many = Simulator(AA).campaign(np.random.default_rng(5), 20_000).arm.mean(axis=0)
    truths = {q: float(np.exp(log_quantile(many, EDGES_S, q))) for q in QUANTILES}
    rng = np.random.default_rng([seed, blocks, 3])
    hits: dict[float, list[bool]] = defaultdict(list)
    for campaign in draw(AA, blocks, campaigns, seed):
        for q in QUANTILES:
            found = merged_quantile_interval(campaign.arm, EDGES_S, q, rng=rng, n_resamples=2000)
            hits[q].append(found.low <= truths[q] <= found.high)
    for q, found in hits.items():
        method = "blocks resampled, SE x t (one cell)"
        yield Figure("coverage", "B", blocks, method, q, float(np.mean(found)), len(found), 0.93, 0.97)


def distance_coverage(blocks: int, campaigns: int, seed: int) -> Iterator[Figure]:
    """Intervals of the Kolmogorov–Smirnov distance D, with and without a difference."""
    for scenario in (SCENARIOS["B"], AA):
        many = Simulator(scenario).campaign(np.random.default_rng(6), 20_000)
        truth = ks_distance(many.arm, many.baseline, EDGES_S).d if scenario is not AA else 0.0
        rng = np.random.default_rng([seed, blocks, 4])
        intervals = [ks_interval(c.arm, c.baseline, rng=rng, n_resamples=2000)
                     for c in draw(scenario, blocks, campaigns, seed)]  # fmt: skip
        share = np.mean([i.low <= truth <= i.high for i in intervals])
        name = "interval of D"
        yield Figure("coverage", scenario.name, blocks, name, np.nan, float(share), campaigns, 0.92, 0.98)


def other_intervals(blocks: int, campaigns: int, seed: int) -> Iterator[Figure]:
    """Prediction of one block and of a whole repetition; smallest to largest block; far blocks in scenario F."""
    inside: dict[tuple[str, float], list[bool]] = defaultdict(list)
    robust: list[bool] = []
    for campaign in draw(SCENARIOS["B"], 2 * blocks, campaigns, seed):
        for q in (0.5, 0.99):
            d = log_ratios(campaign.arm, campaign.baselines, EDGES_S, q)
            measured, again = d[:blocks], d[blocks:]
            for name, new in (("one further block", again[:1]), ("a whole repetition", again)):
                interval = prediction_interval(measured, n_new=new.size)
                inside[name, q].append(interval.low <= np.exp(new.mean()) <= interval.high)
            if q == 0.5:
                interval = robust_interval(measured)
                robust.append(interval.low <= SCENARIOS["B"].ratio <= interval.high)
    for (name, q), found in inside.items():
        method = f"t prediction of {name}"
        yield Figure("coverage", "B", blocks, method, q, float(np.mean(found)), len(found), 0.93, 0.97)
    nominal = 1 - 2.0 ** (1 - blocks)
    yield Figure(
        "coverage", "B", blocks, "smallest to largest block ratio", 0.5, float(np.mean(robust)), len(robust),
        nominal, nominal, allowance=True,
    )  # fmt: skip
    flagged = [
        StatisticsWarning.Bimodal in log_ratio_interval(log_ratios(c.arm, c.baselines, EDGES_S, 0.5)).warnings
        for c in draw(SCENARIOS["F"], blocks, campaigns, seed)
    ]
    # With few blocks most campaigns have no deployment in the other mode.
    low = 0.5 if blocks >= 10 else float("nan")
    yield Figure("warning", "F", blocks, "far blocks flagged", 0.5, float(np.mean(flagged)), campaigns, low)


def bands(blocks: int, campaigns: int, seed: int) -> Iterator[Figure]:
    """Joint coverage of the band of the shift function."""
    rng = np.random.default_rng([seed, blocks, 5])
    joint, method = [], ""
    for campaign in draw(SCENARIOS["B"], blocks, campaigns, seed):
        band = shift_function(campaign.arm, campaign.baselines, EDGES_S, rng=rng)
        joint.append(bool(((band.ratio_low <= 1.15) & (band.ratio_high >= 1.15)).all()))
        method = band.method
    high = 0.98 if blocks >= 8 else 1.0
    share = float(np.mean(joint))
    yield Figure(
        "joint coverage", "B", blocks, f"shift function, {method}", np.nan, share, campaigns, 0.93, high
    )


# ---- tests


def level(blocks: int, campaigns: int, seed: int) -> Iterator[Figure]:
    """Equal arms called different at 5 %, and whether permutation p-values are uniform."""
    p: dict[tuple[str, float], list[float]] = defaultdict(list)
    naive: dict[str, list[bool]] = defaultdict(list)
    for campaign in draw(AA, blocks, campaigns, seed):
        for q in (0.5, 0.99):
            d = log_ratios(campaign.arm, campaign.baselines, EDGES_S, q)
            p["paired t", q].append(paired_t_p(d))
            p["sign flips", q].append(sign_flip_test(d).p_value)
        test = block_permutation_body_tail(campaign.arm, campaign.baselines)
        for name, result in (("D", test.body), ("T", test.tail), ("D and T", test.combined)):
            p[f"permutation {name}", np.nan].append(result.p_value)
        naive["KS on requests of one run"].append(
            pooled_ks_rejects(campaign.arm[:1], campaign.baselines[:1, 0], N_REQUESTS)
        )
        naive["KS on pooled requests"].append(
            pooled_ks_rejects(campaign.arm, campaign.baselines[:, 0], N_REQUESTS)
        )
    check = "A/A rejections"
    for (method, q), values in p.items():
        share = float(np.mean(np.array(values) <= 0.05))
        yield Figure(check, AA.name, blocks, method, q, share, campaigns, 0.0, 0.05, allowance=True)
    for method, found in naive.items():
        share = float(np.mean(found))
        yield Figure(check, AA.name, blocks, method, np.nan, share, campaigns, 0.90, 1.0, naive=True)
    counts = np.histogram(p["permutation D", np.nan], bins=np.linspace(0, 1, 11))[0]
    chi_square = float(((counts - campaigns / 10) ** 2 / (campaigns / 10)).sum())
    name = "chi-square of the deciles of p"
    # 21.67 is the 99th percentile of chi-square with 9 degrees of freedom.
    yield Figure(name, AA.name, blocks, "permutation D", np.nan, chi_square, campaigns, high=21.67)


def power(scenario: Scenario, blocks: int, campaigns: int, seed: int) -> Iterator[Figure]:
    """Find true differences at 5 %."""
    found: dict[tuple[str, float], list[bool]] = defaultdict(list)
    for campaign in draw(scenario, blocks, campaigns, seed):
        test = block_permutation_body_tail(campaign.arm, campaign.baselines)
        for name, result in (("D", test.body), ("T", test.tail), ("D and T", test.combined)):
            found[f"permutation {name}", np.nan].append(result.p_value <= 0.05)
        for q in (0.5, 0.99):
            p = paired_t_p(log_ratios(campaign.arm, campaign.baselines, EDGES_S, q))
            found["paired t", q].append(p <= 0.05)
    wanted = {(SHIFT.name, "permutation D"): 0.80, (TAIL.name, "permutation D and T"): 0.90}
    for (method, q), hits in found.items():
        low = wanted.get((scenario.name, method), float("nan")) if blocks == 10 else float("nan")
        yield Figure("power", scenario.name, blocks, method, q, float(np.mean(hits)), campaigns, low)


def families(campaigns: int, seed: int) -> Iterator[Figure]:
    """Family-wise error of Holm over four equal meshes and three quantiles, and size of TOST at its margin."""
    alarms: dict[str, list[bool]] = {"Holm, 12 tests": [], "12 tests without correction": []}
    for campaign in draw(AA, 6, campaigns, seed, arms=4):
        p = [
            paired_t_p(log_ratios(arm, campaign.baselines, EDGES_S, q))
            for arm in campaign.arms
            for q in QUANTILES
        ]
        alarms["Holm, 12 tests"].append(bool((holm(p) <= 0.05).any()))
        alarms["12 tests without correction"].append(min(p) <= 0.05)
    for method, found in alarms.items():
        naive = not method.startswith("Holm")
        high = float("nan") if naive else 0.06
        share = float(np.mean(found))
        check = "family-wise error"
        yield Figure(check, AA.name, 6, method, np.nan, share, campaigns, high=high, naive=naive)
    margin = Scenario("ratio at the margin", 0.05, 0.03, ratio=1.10)
    called = [
        tost(log_ratios(c.arm, c.baselines, EDGES_S, 0.5), 0.10).equivalent
        for c in draw(margin, 6, campaigns, seed)
    ]
    share = float(np.mean(called))
    yield Figure("called equivalent", margin.name, 6, "two one-sided t", 0.5, share, campaigns, high=0.06)


def gate(blocks: int, campaigns: int, seed: int) -> Iterator[Figure]:
    """A/A gate of campaigns whose eight rates share the deployment's effect, with and without a true difference."""
    simulator = Simulator(AA, n_requests=N_REQUESTS)
    pool = np.stack([log_quantile(simulator.pool, EDGES_S, q) for q in (0.5, 0.99)], axis=1)
    rng = np.random.default_rng([seed, blocks, 6])
    for name, shift in ((AA.name, 0.0), ("second baseline +10 %", np.log(1.1))):
        failed, binomial = [], []
        for _ in range(campaigns):
            deployments = rng.normal(0, AA.sd_run, (2, blocks, 1))
            runs = pool[rng.integers(0, len(pool), (2, blocks, 8))].reshape(2, blocks, 16) + deployments
            found = aa_gate(runs[1] - runs[0] + shift)
            failed.append(found.passed is False)
            binomial.append(found.share_low > 0.05)
        high = 0.05 if not shift else float("nan")
        for method, hits in (("sign flips of whole blocks", failed), ("binomial share of cells", binomial)):
            naive = hits is binomial
            yield Figure(
                "A/A gate fails", name, blocks, method, np.nan, float(np.mean(hits)), campaigns,
                high=float("nan") if naive else high, naive=naive, allowance=True,
            )  # fmt: skip


# ---- recovery, planning, slopes


def recovery(campaigns: int, seed: int) -> Iterator[Figure]:
    """Relative bias of injected ratios and milliseconds, and of a change of the tail alone."""
    check = "bias"
    quiet = {"sd_block": 0.05, "sd_run": 0.03}
    cases = [Scenario(f"ratio {ratio:g}", ratio=ratio, **quiet) for ratio in RATIOS]
    for scenario in [*cases, replace(TAIL, **quiet)]:
        simulator = Simulator(scenario)
        for q, limit in ((0.5, 0.01), (0.99, 0.03)):
            d = [
                log_ratios(c.arm, c.baselines, EDGES_S, q).mean() for c in draw(scenario, 6, campaigns, seed)
            ]
            bias = float(np.exp(np.mean(d)) / simulator.typical_truth(q) - 1)
            yield Figure(check, scenario.name, 6, "typical ratio", q, bias, campaigns, -limit, limit)
    for extra_s in EXTRA_S:
        name = f"{1000 * extra_s:g} ms"
        for q, limit in ((0.5, 0.01), (0.99, 0.03)):
            # The same campaigns without the milliseconds: what chance does to both alike is no bias.
            with_extra, without = (
                np.mean([_difference_s(c, q) for c in draw(scenario, 6, campaigns, seed)])
                for scenario in (Scenario(name, ratio=1.0, extra_s=s, **quiet) for s in (extra_s, 0.0))
            )
            bias = float((with_extra - without) / extra_s - 1)
            yield Figure(check, name, 6, "mean difference", q, bias, campaigns, -limit, limit)


def _difference_s(campaign: Campaign, q: float) -> float:
    arm_s = np.exp(log_quantile(campaign.arm, EDGES_S, q))
    baseline_s = np.exp(log_quantile(campaign.baselines, EDGES_S, q)).mean(axis=1)
    return difference_interval(arm_s, baseline_s).estimate


def planner(seed: int, campaigns: int = 20_000) -> Iterator[Figure]:
    """Predicted power against simulated power."""
    for blocks, ratio, sd in PLANS:
        rng = np.random.default_rng([seed, blocks, round(1000 * ratio)])
        d = rng.normal(np.log(ratio), sd, (campaigns, blocks))
        t = d.mean(axis=1) / (d.std(axis=1, ddof=1) / np.sqrt(blocks))
        simulated = np.mean(2 * stdtr(blocks - 1, -np.abs(t)) <= 0.05)
        gap = float(planned_power(sd, ratio, blocks) - simulated)
        name = f"ratio {ratio:g}, sd {sd:g}"
        check = "planner minus simulated power"
        yield Figure(check, name, blocks, "noncentral t", np.nan, gap, campaigns, -0.02, 0.02)


def slopes(blocks: int, campaigns: int, seed: int) -> Iterator[Figure]:
    """CPU against rate: intervals of the slope that contain it, per deployment and by the usual regressions."""
    rng = np.random.default_rng([seed, blocks, 7])
    rates, samples, truth = np.array([100.0, 200, 400, 800]), 12, 1e-3
    hits: dict[str, list[bool]] = defaultdict(list)
    for _ in range(campaigns):
        own = truth * (1 + rng.normal(0, 0.1, (blocks, 1))) * rates + rng.normal(0, 0.02, (blocks, 1))
        means = own + rng.normal(0, 0.01, own.shape)
        every = means[:, :, None] + rng.normal(0, 0.02, (blocks, rates.size, samples))
        x = np.broadcast_to(rates, means.shape)
        interval = deployment_slopes(x, every.mean(axis=2)).slope
        hits["a line per deployment, t"].append(interval.low <= truth <= interval.high)
        hits["regression on run means"].append(_ols_covers(x.ravel(), every.mean(axis=2).ravel(), truth))
        hits["regression on samples"].append(_ols_covers(np.repeat(x, samples), every.ravel(), truth))
    for method, found in hits.items():
        naive = not method.startswith("a line")
        limits = (float("nan"), float("nan")) if naive else (0.93, 0.97)
        share = float(np.mean(found))
        yield Figure("coverage", "CPU slope", blocks, method, np.nan, share, campaigns, *limits, naive=naive)


def _ols_covers(x: NDArray, y: NDArray, truth: float) -> bool:
    centred = x - x.mean()
    squares = (centred**2).sum()
    slope = (centred * y).sum() / squares
    residuals = y - y.mean() - slope * centred
    error = np.sqrt((residuals**2).sum() / (x.size - 2) / squares)
    return abs(slope - truth) <= t_quantile(0.95, x.size - 1) * error


# ---- all of them


def checks(campaigns: int = FULL, seed: int = 1) -> list[Callable[[], Iterator[Figure]]]:
    """List every check, each to be called without arguments, the longest first.

    Parameters
    ----------
    campaigns : int
        Simulated campaigns per figure. A quarter of them where all 3^10 relabellings are listed.
    seed : int
    """
    some = max(campaigns // 4, 1)
    requests = min(REQUEST_CAMPAIGNS, campaigns)
    both = (campaigns, seed)
    return [
        partial(level, 10, some, seed),
        *(partial(power, scenario, 10, some, seed) for scenario in (SHIFT, TAIL)),
        *(
            partial(coverage, letter, blocks, *both, requests=requests if blocks in (3, 5, 10) else 0)
            for letter in SCENARIOS
            for blocks in BLOCKS
        ),
        *(
            partial(check, blocks, *both)
            for check in (tail_coverage, distance_coverage)
            for blocks in (5, 10)
        ),
        *(partial(check, blocks, *both) for check in (cell_coverage, slopes) for blocks in (3, 5, 10)),
        *(partial(other_intervals, blocks, *both) for blocks in (5, 6, 10)),
        *(partial(bands, blocks, *both) for blocks in (5, 8, 10)),
        *(partial(level, blocks, *both) for blocks in (5, 6)),
        *(partial(power, scenario, 6, *both) for scenario in (SHIFT, TAIL)),
        partial(families, *both),
        *(partial(gate, blocks, *both) for blocks in (6, 10)),
        partial(recovery, *both),
        partial(planner, seed),
    ]
