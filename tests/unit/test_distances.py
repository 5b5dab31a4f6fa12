"""Distances, permutation tests, shift function and equivalence against SciPy, statsmodels and brute force."""

from itertools import product

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.weightstats import DescrStatsW

from meshperf.histogram import LOG_GRID, rebin_latencies
from meshperf.statistics.effect import log_ratios, shift_function, tost
from meshperf.statistics.ks import dominance, ks_distance, ks_interval, wasserstein_log, wasserstein_s
from meshperf.statistics.permutation import TAIL_REGION, block_permutation_body_tail, block_permutation_ks
from meshperf.statistics.quantiles import run_cdfs
from meshperf.statistics.results import StatisticsError, StatisticsWarning

EDGES = np.geomspace(5e-4, 0.05, 200)


def run(rng, scale, n=3000, spikes=0.0):
    latencies = rng.lognormal(np.log(0.002), 0.35, n) * scale
    latencies[: int(n * spikes)] *= 3
    return run_cdfs(rebin_latencies(latencies.clip(6e-4, 0.049), EDGES).counts)


def design(r, ratio=1.0, spikes=0.0, seed=0):
    """Arm (r, bins) and two baselines (r, 2, bins) with block and run effects."""
    rng = np.random.default_rng(seed)
    blocks = np.exp(rng.normal(0, 0.08, r))
    noise = lambda: np.exp(rng.normal(0, 0.05))  # noqa: E731
    arm = np.stack([run(rng, b * ratio * noise(), spikes=spikes) for b in blocks])
    baselines = np.stack([[run(rng, b * noise()) for _ in range(2)] for b in blocks])
    return arm, baselines


# ---- distances


def test_d_by_hand():
    edges = [1.0, 2.0, 3.0, 4.0]
    d = ks_distance([[0.1, 0.5, 1.0], [0.3, 0.7, 1.0]], [[0.5, 0.6, 1.0], [0.5, 0.8, 1.0]], edges)
    # Means (0.2, 0.6, 1) and (0.5, 0.7, 1): 0.3 at the edge 2, the baseline above.
    assert (d.d, d.at_s, d.d_plus, d.d_minus) == (pytest.approx(0.3), 2.0, 0.0, pytest.approx(0.3))
    assert d.bin_bound == pytest.approx(0.5)
    assert d.n == 2


def test_d_of_binned_samples_is_scipys_within_the_bin_bound():
    rng = np.random.default_rng(1)
    x, y = rng.lognormal(-6, 0.4, 4000), rng.lognormal(-5.9, 0.5, 4000)
    cdfs = [run_cdfs([rebin_latencies(s).counts]) for s in (x, y)]
    ours, theirs = ks_distance(*cdfs, LOG_GRID), scipy.stats.ks_2samp(x, y)
    assert theirs.statistic - ours.bin_bound <= ours.d <= theirs.statistic + 1e-12
    assert ours.at_s == pytest.approx(theirs.statistic_location, rel=0.2)


def test_wasserstein_is_scipys():
    rng = np.random.default_rng(2)
    x, y = rng.lognormal(-6, 0.4, 20_000), rng.lognormal(-5.9, 0.7, 20_000)
    cdfs = [run_cdfs([rebin_latencies(s).counts]) for s in (x, y)]
    in_log = scipy.stats.wasserstein_distance(np.log(x), np.log(y))
    assert wasserstein_log(*cdfs, LOG_GRID) == pytest.approx(in_log, rel=0.005)
    assert wasserstein_s(*cdfs, LOG_GRID) == pytest.approx(scipy.stats.wasserstein_distance(x, y), rel=0.005)


def test_wasserstein_of_a_pure_factor_is_its_logarithm():
    arm = run_cdfs([[0, 0, 5, 3, 2]])
    baseline = run_cdfs([[5, 3, 2, 0, 0]])
    # Two bins of a factor 2 each to the right: log 4.
    assert wasserstein_log(arm, baseline, 2.0 ** np.arange(6)) == pytest.approx(np.log(4))


def test_wasserstein_with_requests_at_the_end_of_the_grid_is_not_a_number():
    assert np.isnan(wasserstein_log([[0.5, 1.0]], [[0.9, 1.0]], [0.0, 1.0, 2.0]))
    assert np.isnan(wasserstein_s([[0.5, 1.0]], [[0.9, 1.0]], [0.5, 1.0, np.inf]))


def test_the_interval_of_d_is_cut_to_shares():
    arm, baselines = design(5, ratio=1.02)
    interval = ks_interval(arm, baselines.mean(axis=1))
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1
    assert not ks_interval(arm[:2], baselines.mean(axis=1)[:2]).has_interval


def test_dominance():
    arm, baselines = design(8, ratio=1.6)
    baseline = baselines.mean(axis=1)
    assert dominance(arm, baseline, EDGES).statement == "slower everywhere"
    assert dominance(baseline, arm, EDGES).statement == "faster everywhere"
    assert dominance(baselines[:, 0], baselines[:, 1], EDGES).statement == "undecided"
    assert dominance(arm[:2], baseline[:2], EDGES).statement == "undecided"


def test_crossing_distributions_are_found_where_they_cross():
    rng = np.random.default_rng(3)

    def runs(sigma):
        samples = [rng.lognormal(np.log(0.004), sigma, 5000) * np.exp(rng.normal(0, 0.01)) for _ in range(6)]
        return run_cdfs([rebin_latencies(s.clip(6e-4, 0.049), EDGES).counts for s in samples])

    crossing = dominance(runs(0.6), runs(0.2), EDGES)
    assert crossing.statement == "crosses"
    assert crossing.crossing_s == pytest.approx(0.004, rel=0.05)


# ---- permutation


def test_with_one_baseline_the_test_is_scipys_sign_flip():
    arm, baselines = design(6, ratio=1.08, seed=4)
    differences = arm - baselines[:, 0]
    ours = block_permutation_ks(arm, baselines[:, :1])

    def statistic(index_signs, axis=-1):
        return np.abs(np.tensordot(index_signs, differences, axes=([axis], [0])) / 6).max(axis=-1)

    theirs = scipy.stats.permutation_test(
        (np.ones(6),), statistic, permutation_type="samples", vectorized=True, n_resamples=np.inf,
        alternative="greater",
    )  # fmt: skip
    assert ours.statistic == pytest.approx(theirs.statistic)
    assert ours.p_value == pytest.approx(theirs.pvalue)
    assert (ours.n_relabellings, ours.exact, ours.p_min) == (64, True, 1 / 32)


def test_with_two_baselines_the_test_is_brute_force():
    arm, baselines = design(3, ratio=1.1, seed=5)
    members = np.concatenate([arm[:, None], baselines], axis=1)
    pooled = 1 - members.mean(axis=(0, 1))
    region = (pooled >= TAIL_REGION[0]) & (pooled <= TAIL_REGION[1])
    body, tail = [], []
    for labels in product(range(3), repeat=3):
        own = np.mean([members[i, k] for i, k in enumerate(labels)], axis=0)
        rest = np.mean([np.delete(members[i], k, axis=0).mean(axis=0) for i, k in enumerate(labels)], axis=0)
        body.append(np.abs(own - rest).max())
        tail.append(np.abs(np.log((1 - own[region]) / (1 - rest[region]))).max())
    body, tail = np.array(body), np.array(tail)
    p_of = lambda values: np.array([(values >= v - 1e-12).mean() for v in values])  # noqa: E731
    least = np.minimum(p_of(body), p_of(tail))
    test = block_permutation_body_tail(arm, baselines)
    assert test.body.statistic == pytest.approx(body[0])
    assert test.tail.statistic == pytest.approx(tail[0])
    assert test.body.p_value == pytest.approx(p_of(body)[0])
    assert test.tail.p_value == pytest.approx(p_of(tail)[0])
    assert test.combined.p_value == pytest.approx((least <= least[0] + 1e-12).mean())
    assert test.body.n_relabellings == 27


def test_the_largest_effect_reaches_the_smallest_p_value():
    arm, baselines = design(5, ratio=3.0)
    test = block_permutation_body_tail(arm, baselines)
    assert test.body.p_value == pytest.approx(3.0**-5)
    assert test.body.p_min == pytest.approx(3.0**-5)
    assert test.body.warnings == ()


def test_a_design_that_cannot_reach_the_level_says_so():
    arm, baselines = design(5, ratio=3.0)
    test = block_permutation_ks(arm, baselines[:, :1])
    assert test.p_value == test.p_min == pytest.approx(0.0625)
    assert test.warnings == (StatisticsWarning.PMinAboveAlpha,)


def test_a_change_of_the_tail_alone_is_seen_by_the_tail_statistic():
    arm, baselines = design(6, spikes=0.01, seed=6)
    test = block_permutation_body_tail(arm, baselines)
    assert test.tail.p_value < 0.02 < 0.1 < test.body.p_value
    assert test.combined.p_value < 0.05


def test_permuting_blocks_or_baselines_changes_no_p_value():
    arm, baselines = design(4, ratio=1.1, seed=7)
    test = block_permutation_body_tail(arm, baselines)
    order = [2, 0, 3, 1]
    for other in (
        block_permutation_body_tail(arm[order], baselines[order]),
        block_permutation_body_tail(arm, baselines[:, ::-1]),
    ):
        for name in ("body", "tail", "combined"):
            assert getattr(other, name).p_value == pytest.approx(getattr(test, name).p_value)


def test_too_many_relabellings_are_drawn_and_counted_with_the_real_one():
    arm, baselines = design(11, ratio=3.0)
    with pytest.raises(StatisticsError, match="seeded"):
        block_permutation_ks(arm, baselines)
    test = block_permutation_ks(arm, baselines, n_resamples=999, rng=np.random.default_rng(1))
    assert (test.exact, test.n_relabellings) == (False, 1000)
    assert test.p_value == pytest.approx(1 / 1000)


def test_p_values_of_equal_arms_are_uniform():
    rejected = [block_permutation_ks(*design(4, seed=seed)).p_value <= 0.1 for seed in range(120)]
    # 120 tests at 10 %: 12 expected, at most 22 with probability 0.998.
    assert 3 <= sum(rejected) <= 22


def test_without_a_tail_only_the_body_is_tested():
    arm, baselines = (np.tile([0.5, 1.0], (3, *shape, 1)) for shape in ((), (2,)))
    test = block_permutation_body_tail(arm, baselines)
    assert np.isnan(test.tail.p_value)
    assert test.tail.warnings[-1] == StatisticsWarning.NotEstimable
    assert test.body.p_value == 1


def test_impossible_designs_are_refused():
    arm, baselines = design(3)
    for bad in (baselines[:2], baselines[:, :, :5], np.concatenate([baselines, baselines], axis=1)):
        with pytest.raises(StatisticsError):
            block_permutation_ks(arm, bad)
    with pytest.raises(StatisticsError):
        ks_distance(arm, arm[:, :7], EDGES)


# ---- shift function and equivalence


def test_the_shift_function_is_the_typical_ratio_at_each_quantile():
    arm, baselines = design(6, ratio=1.4)
    baseline = baselines.mean(axis=1)
    shift = shift_function(arm, baseline, EDGES, (0.5, 0.9))
    for column, q in enumerate((0.5, 0.9)):
        d = log_ratios(arm, baseline, EDGES, q)
        assert shift.ratio[column] == pytest.approx(np.exp(d.mean()))
        # Bonferroni: each interval at 1 - 0.05/2.
        expected = scipy.stats.ttest_1samp(d, 0).confidence_interval(1 - 0.05 / 2)
        assert np.log([shift.ratio_low[column], shift.ratio_high[column]]) == pytest.approx(list(expected))
    assert shift.log_ratios.shape == (6, 2)
    assert (shift.difference_low_s < shift.difference_s).all()


def test_from_eight_blocks_the_band_uses_the_largest_t():
    arm, baselines = design(10, ratio=1.4)
    baseline = baselines.mean(axis=1)
    band = shift_function(arm, baseline, EDGES, rng=np.random.default_rng(1))
    width = np.log(band.ratio_high / band.ratio_low)
    sd = band.log_ratios.std(axis=0, ddof=1)
    critical = width / 2 / (sd / np.sqrt(10))
    # Between one t interval and Bonferroni over seven.
    assert scipy.stats.t.ppf(0.975, 9) < critical[0] < scipy.stats.t.ppf(1 - 0.025 / 7, 9)
    assert critical == pytest.approx(np.full(7, critical[0]))
    with pytest.raises(StatisticsError, match="seeded"):
        shift_function(arm, baseline, EDGES)


def test_the_largest_t_of_one_quantile_is_students():
    arm, baselines = design(9, ratio=1.4)
    one = shift_function(arm, baselines.mean(axis=1), EDGES, (0.5,), rng=np.random.default_rng(1))
    d = one.log_ratios[:, 0]
    expected = scipy.stats.ttest_1samp(d, 0).confidence_interval(0.95)
    assert np.log([one.ratio_low[0], one.ratio_high[0]]) == pytest.approx(list(expected), rel=0.03)


def test_two_blocks_give_a_shift_function_without_a_band():
    arm, baselines = design(2)
    shift = shift_function(arm, baselines.mean(axis=1), EDGES)
    assert np.isfinite(shift.ratio).all()
    assert np.isnan(shift.ratio_low).all()
    assert shift.warnings == (StatisticsWarning.TooFewBlocks,)


@pytest.mark.parametrize("margin", [0.05, 0.1, 0.3])
def test_equivalence_is_statsmodels_tost(margin):
    d = np.array([0.02, -0.01, 0.05, 0.03, -0.02, 0.01])
    limit = np.log1p(margin)
    p, _, _ = DescrStatsW(d).ttost_mean(-limit, limit)
    ours = tost(d, margin)
    assert ours.p_value == pytest.approx(p)
    assert ours.equivalent == (p <= 0.05)
    inside = 1 / (1 + margin) <= ours.interval.low and ours.interval.high <= 1 + margin
    assert ours.equivalent == inside


def test_equivalence_needs_blocks_and_a_margin():
    assert not tost([0.0, 0.001], 0.1).equivalent
    assert np.isnan(tost([0.0, 0.001], 0.1).p_value)
    with pytest.raises(StatisticsError, match="margin"):
        tost([0.0, 0.1, 0.2], 0)
