"""Campaigns of known truth: the simulator behind the validation of every interval and test.

A request's latency is a log-normal body plus spikes, half of them in bursts, on a level that wanders within the run;
blocks and runs multiply it by effects of their own. The within-run part is simulated request by request once, for a
pool of runs; a campaign draws runs from the pool and shifts them in log latency, which is exact for a factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from meshperf.statistics.effect import log_ratios
from meshperf.statistics.quantiles import log_quantile
from meshperf.statistics.results import StatisticsError

#: Grid of the simulated histograms: 1 % bins from 0.1 ms to 1 s.
EDGES_S: NDArray[np.float64] = np.exp(np.arange(np.log(1e-4), np.log(1.0) + 0.01, 0.01))
_WINDOW_S = 0.5
# Bursts last two windows on average and cover 30 % of the time.
_BURST_SHARE, _BURST_STAYS = 0.3, 0.5
_BURST_STARTS = (1 - _BURST_STAYS) * _BURST_SHARE / (1 - _BURST_SHARE)


@dataclass(frozen=True)
class Scenario:
    """What a campaign is like.

    Attributes
    ----------
    name : str
    sd_block, sd_run : float
        Standard deviation of the log of the factors of blocks (shared by arms) and runs.
    ratio : float
        Factor of the arm's latencies.
    incidents : float
        Share of runs, in either arm, that are slower by `incident_ratio`.
    arm_incidents : float
        Share of the arm's runs alone that are.
    incident_ratio : float
    hop : bool
        The arm adds a log-normal hop and half as many spikes again instead of a factor, and its runs spread half as
        much again.
    tail_ratio : float
        Factor of the arm's spikes alone.
    extra_s : float
        Seconds added to each of the arm's latencies.
    """

    name: str
    sd_block: float = 0.08
    sd_run: float = 0.07
    ratio: float = 1.15
    incidents: float = 0.0
    arm_incidents: float = 0.0
    incident_ratio: float = 1.6
    hop: bool = False
    tail_ratio: float = 1.0
    extra_s: float = 0.0

    @property
    def is_factor(self) -> bool:
        """Whether the arm's latencies are the baseline's times `ratio`, so that the truth needs no simulation."""
        return not self.hop and not self.arm_incidents and self.tail_ratio == 1 and not self.extra_s


#: Quiet, typical, noisy, with incidents, a change of shape, and a mesh with two modes.
SCENARIOS: dict[str, Scenario] = {
    "A": Scenario("A", 0.05, 0.03),
    "B": Scenario("B"),
    "C": Scenario("C", 0.10, 0.15),
    "D": Scenario("D", incidents=0.10),
    "E": Scenario("E", ratio=1.0, hop=True),
    "F": Scenario("F", arm_incidents=0.15),
}


@dataclass(frozen=True, eq=False)
class Campaign:
    """CDFs of a simulated campaign on :data:`EDGES_S`.

    Attributes
    ----------
    arms : ndarray, shape (n_arms, r, n_bins)
        One run of each arm in each block.
    baselines : ndarray, shape (r, 2, n_bins)
    """

    arms: NDArray[np.float64]
    baselines: NDArray[np.float64]

    @property
    def arm(self) -> NDArray[np.float64]:
        """The first arm, shape (r, n_bins)."""
        return self.arms[0]

    @property
    def baseline(self) -> NDArray[np.float64]:
        """Mean of the two baseline runs of each block, shape (r, n_bins)."""
        return self.baselines.mean(axis=1)


def simulate_requests(
    rng: np.random.Generator,
    n: int,
    *,
    duration_s: float = 60.0,
    hop: bool = False,
    tail_ratio: float = 1.0,
) -> NDArray[np.float64]:
    """Latencies in seconds of one run, in order of time, shape (n,).

    Parameters
    ----------
    rng : numpy.random.Generator
    n : int
        Requests, spread evenly over `duration_s`.
    hop : bool
        Add a log-normal hop of 1 ms and half as many spikes again.
    tail_ratio : float
        Factor of the spikes.

    Notes
    -----
    Body: median 2 ms, σ 0.35. Spikes: 2 % of requests, +12 ms, σ 0.5, half of them in bursts (a two-state Markov
    chain over windows of 0.5 s). Level: AR(1) per window, ρ 0.8, standard deviation 10 %.
    """
    n_windows = int(np.ceil(duration_s / _WINDOW_S))
    window = np.minimum((np.arange(n) * n_windows) // n, n_windows - 1)
    level = np.empty(n_windows)
    level[0] = rng.normal(0, 0.10)
    innovations = rng.normal(0, 0.10 * np.sqrt(1 - 0.8**2), n_windows)
    bursting = np.empty(n_windows, dtype=bool)
    bursting[0] = rng.random() < _BURST_SHARE
    turns = rng.random(n_windows)
    for i in range(1, n_windows):
        level[i] = 0.8 * level[i - 1] + innovations[i]
        bursting[i] = turns[i] < (_BURST_STAYS if bursting[i - 1] else _BURST_STARTS)
    rate = 0.02 * (1.5 if hop else 1.0)
    spike_rate = np.where(bursting, rate / 2 + rate / 2 / _BURST_SHARE, rate / 2)[window]
    spiking = rng.random(n) < spike_rate
    latency = 0.002 * np.exp(0.35 * rng.standard_normal(n))
    latency[spiking] += tail_ratio * 0.012 * np.exp(0.5 * rng.standard_normal(int(spiking.sum())))
    if hop:
        latency += 0.001 * np.exp(0.35 * rng.standard_normal(n))
    return latency * np.exp(level[window])


@lru_cache(maxsize=8)
def _pool(size: int, n_requests: int, seed: int, hop: bool, tail_ratio: float) -> NDArray[np.float64]:
    """Log-spaced CDFs of `size` simulated runs, shape (size, n_bins)."""
    rng = np.random.default_rng([seed, int(hop), round(1000 * tail_ratio)])
    cdfs = np.empty((size, EDGES_S.size - 1))
    for row in range(size):
        latency = simulate_requests(rng, n_requests, hop=hop, tail_ratio=tail_ratio)
        index = np.clip(np.searchsorted(EDGES_S, latency, side="left") - 1, 0, EDGES_S.size - 2)
        cdfs[row] = np.cumsum(np.bincount(index, minlength=EDGES_S.size - 1)) / n_requests
    cdfs[:, -1] = 1.0
    cdfs.flags.writeable = False
    return cdfs


def _shifted(cdf: NDArray[np.float64], log_factor: float, extra_s: float = 0.0) -> NDArray[np.float64]:
    """CDF of (latency + extra) times a factor: the same curve, further right."""
    log_edges = np.log(EDGES_S[1:])
    sources = np.log(np.maximum(EDGES_S[1:] * np.exp(-log_factor) - extra_s, 1e-12))
    moved = np.interp(sources, log_edges, cdf, left=0.0, right=1.0)
    moved[-1] = 1.0
    return moved


@dataclass(frozen=True)
class Simulator:
    """Draws campaigns of one scenario.

    Attributes
    ----------
    scenario : Scenario
    n_requests : int
        Per run.
    pool_size : int
        Simulated runs to draw from.
    pool_seed : int
    """

    scenario: Scenario
    n_requests: int = 30_000
    pool_size: int = 200
    pool_seed: int = 20261121

    @property
    def pool(self) -> NDArray[np.float64]:
        """CDFs of the baseline's runs before effects of blocks and runs, shape (pool_size, n_bins)."""
        return _pool(self.pool_size, self.n_requests, self.pool_seed, False, 1.0)

    def _pools(self) -> tuple[NDArray, NDArray]:
        sizes = (self.pool_size, self.n_requests, self.pool_seed)
        return self.pool, _pool(*sizes, self.scenario.hop, self.scenario.tail_ratio)

    def campaign(self, rng: np.random.Generator, n_blocks: int, n_arms: int = 1) -> Campaign:
        """Draw one campaign of `n_blocks` blocks with two baselines and `n_arms` equal arms each."""
        if n_blocks < 1 or n_arms < 1:
            raise StatisticsError(f"a campaign has blocks and arms, got {n_blocks} and {n_arms}")
        s = self.scenario
        plain, changed = self._pools()
        shape = (n_blocks, n_arms + 2)
        run = rng.normal(0, s.sd_run, shape)
        if s.hop:
            run[:, :n_arms] *= 1.5
        effect = rng.normal(0, s.sd_block, n_blocks)[:, None] + run
        effect += np.where(rng.random(shape) < s.incidents, np.log(s.incident_ratio), 0.0)
        own = rng.random((n_blocks, n_arms)) < s.arm_incidents
        effect[:, :n_arms] += np.log(s.ratio) + np.where(own, np.log(s.incident_ratio), 0.0)
        picks = rng.integers(0, self.pool_size, shape)
        blocks = range(n_blocks)
        arms = [
            [_shifted(changed[picks[i, k]], effect[i, k], s.extra_s) for i in blocks] for k in range(n_arms)
        ]
        baselines = [
            [_shifted(plain[picks[i, k]], effect[i, k]) for k in range(n_arms, n_arms + 2)] for i in blocks
        ]
        return Campaign(np.array(arms), np.array(baselines))

    def typical_truth(self, q: float) -> float:
        """Compute the true typical ratio, what the mean log ratio of infinitely many blocks gives.

        Notes
        -----
        Run quantiles, so a factor of all latencies is recovered exactly, whatever the runs' own spread.
        """
        s = self.scenario
        if s.is_factor:
            return s.ratio
        d = self._many()[0](q)
        return float(np.exp(d.mean()))

    def merged_truth(self, q: float) -> float:
        """Compute the true merged ratio, of the quantiles of the mean CDFs of infinitely many blocks."""
        s = self.scenario
        if s.is_factor:
            return s.ratio
        arm, baseline = self._many()[1]
        return float(np.exp(log_quantile(arm, EDGES_S, q) - log_quantile(baseline, EDGES_S, q)))

    def _many(self, n_blocks: int = 20_000):
        return _truth(self, n_blocks)


@lru_cache(maxsize=16)
def _truth(simulator: Simulator, n_blocks: int):
    """Log ratios by quantile and mean CDFs of one huge campaign."""
    rng = np.random.default_rng([simulator.pool_seed, n_blocks])
    mean_arm = np.zeros(EDGES_S.size - 1)
    mean_baseline = np.zeros_like(mean_arm)
    quantiles = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
    collected: dict[float, list[NDArray]] = {q: [] for q in quantiles}
    for _ in range(n_blocks // 1000):
        campaign = simulator.campaign(rng, 1000)
        mean_arm += campaign.arm.sum(axis=0)
        mean_baseline += campaign.baseline.sum(axis=0)
        for q in quantiles:
            collected[q].append(log_ratios(campaign.arm, campaign.baselines, EDGES_S, q))
    done = {q: np.concatenate(parts) for q, parts in collected.items()}
    return done.__getitem__, (mean_arm / n_blocks, mean_baseline / n_blocks)


def request_bootstrap_interval(
    cdf: NDArray[np.float64],
    baseline_cdf: NDArray[np.float64],
    n_requests: int,
    q: float,
    rng: np.random.Generator,
    n_resamples: int = 200,
) -> tuple[float, float]:
    """Resample pooled requests as if they were independent: the field's usual interval, a counter-example.

    Parameters
    ----------
    cdf, baseline_cdf : ndarray, shape (r, n_bins)
    n_requests : int
        Of each run.
    q : float

    Returns
    -------
    low, high : float
        Percentile interval of the ratio at 95 %. It covers the truth in a few per cent of campaigns.
    """
    return request_bootstrap_intervals(cdf, baseline_cdf, n_requests, (q,), rng, n_resamples)[q]


def request_bootstrap_intervals(
    cdf: NDArray[np.float64],
    baseline_cdf: NDArray[np.float64],
    n_requests: int,
    quantiles: Sequence[float],
    rng: np.random.Generator,
    n_resamples: int = 200,
) -> dict[float, tuple[float, float]]:
    """Give the intervals of :func:`request_bootstrap_interval` of several quantiles, from the same resamples."""
    logs = []
    for curves in (cdf, baseline_cdf):
        mass = np.diff(curves.mean(axis=0), prepend=0.0).clip(0)
        occupied = np.flatnonzero(mass)
        near = slice(occupied[0], occupied[-1] + 1)
        drawn = rng.multinomial(
            n_requests * len(curves), mass[near] / mass[near].sum(), size=n_resamples
        ).cumsum(axis=1)
        edges_s = EDGES_S[occupied[0] : occupied[-1] + 2]
        logs.append([log_quantile(drawn / drawn[:, -1:], edges_s, q) for q in quantiles])
    ends = np.quantile(np.exp(np.subtract(*logs)), [0.025, 0.975], axis=1)
    return {q: (float(low), float(high)) for q, low, high in zip(quantiles, *ends, strict=True)}


def pooled_ks_rejects(
    cdf: NDArray[np.float64], baseline_cdf: NDArray[np.float64], n_requests: int, alpha: float = 0.05
) -> bool:
    """Test pooled requests by Kolmogorov and Smirnov: the field's usual test, a counter-example.

    Notes
    -----
    Rejects when D √(n/2) exceeds Kolmogorov's quantile √(−½ log(α/2)), as ``scipy.stats.ks_2samp`` does.
    """
    n = n_requests * len(cdf)
    d = np.abs(cdf.mean(axis=0) - baseline_cdf.mean(axis=0)).max()
    return bool(d * np.sqrt(n / 2) > np.sqrt(-0.5 * np.log(alpha / 2)))
