"""Noise floor, A/A gate and variance components against SciPy, brute force and numbers worked out by hand."""

from itertools import product

import numpy as np
import pytest
import scipy.stats

from meshperf.histogram import LOG_GRID, rebin_latencies
from meshperf.statistics.baselines import aa_gate, clopper_pearson, noise_floor
from meshperf.statistics.components import request_variance, slice_variance, variance_components
from meshperf.statistics.results import StatisticsError, StatisticsWarning

# ---- noise floor


def test_the_noise_floor_by_hand():
    floor = noise_floor([0.01, -0.02, 0.03, -0.04, 0.05, -0.06])
    # |d| ordered: position 0.95 · 5 = 4.75 between the fifth (0.05) and the sixth (0.06).
    assert floor.limit == pytest.approx(0.0575)
    # Σd² = 91e-4, mean −0.005: s² = (91e-4 − 6 · 25e-6)/5.
    s = np.sqrt((91e-4 - 6 * 25e-6) / 5)
    assert floor.ratio.sd == pytest.approx(s)
    assert floor.expected_se == pytest.approx(np.sqrt(0.75) * s / np.sqrt(6))
    assert (floor.n, floor.confidence, floor.warnings) == (6, 0.95, ())


def test_the_expected_standard_error_is_that_of_an_arm_against_two_baselines():
    rng = np.random.default_rng(1)
    arm, first, second = rng.normal(0, 0.1, (3, 200_000))
    se = (arm - (first + second) / 2).std(ddof=1) / np.sqrt(200_000)
    assert noise_floor(second - first).expected_se == pytest.approx(se, rel=0.01)


def test_blocks_without_a_number_are_left_out_of_the_noise_floor_and_named():
    floor = noise_floor([0.01, np.nan, 0.02, 0.04])
    assert floor.n == 3
    assert floor.warnings == (StatisticsWarning.BlockIncomplete,)
    empty = noise_floor([np.nan])
    assert np.isnan(empty.limit)
    assert StatisticsWarning.TooFewBlocks in empty.warnings
    assert noise_floor([0.02]).limit == pytest.approx(0.02)
    for bad in ([], [[0.1]], [np.inf]):
        with pytest.raises(StatisticsError):
            noise_floor(bad)
    with pytest.raises(StatisticsError, match="percentile"):
        noise_floor([0.1], percentile=95)


# ---- the gate


def test_the_interval_of_a_share_is_scipys():
    for k, n in ((0, 12), (3, 12), (12, 12), (1, 7)):
        expected = scipy.stats.binomtest(k, n).proportion_ci(0.95, method="exact")
        assert clopper_pearson(k, n) == pytest.approx((expected.low, expected.high))
    with pytest.raises(StatisticsError):
        clopper_pearson(3, 2)


def test_the_gate_is_brute_force_over_sign_flips_of_whole_blocks():
    rng = np.random.default_rng(2)
    d = rng.normal(0, 0.05, (6, 5)) + rng.normal(0, 0.05, (6, 1)) + 0.03
    gate = aa_gate(d)

    def statistic(values):
        t = scipy.stats.ttest_1samp(values, 0).statistic
        return np.mean(t**2 / (t**2 + 5))

    every = [statistic(d * np.array(signs)[:, None]) for signs in product((1, -1), repeat=6)]
    assert gate.statistic == pytest.approx(every[0])
    assert gate.p_value == pytest.approx(np.mean(np.array(every) >= every[0] - 1e-12))
    assert gate.rejected == (scipy.stats.ttest_1samp(d, 0).pvalue <= 0.05).sum()
    assert (gate.tests, gate.n, gate.n_relabellings, gate.exact) == (5, 6, 32, True)
    assert gate.p_min == 1 / 32


def test_baselines_that_always_differ_fail_the_gate():
    gate = aa_gate(np.full((6, 4), 0.1) + np.random.default_rng(3).normal(0, 0.01, (6, 4)))
    assert gate.passed is False
    assert (gate.p_value, gate.rejected, gate.share) == (1 / 32, 4, 1.0)
    assert gate.warnings == (StatisticsWarning.AAGateFailed,)


def test_the_gate_holds_its_level_however_cells_depend_on_each_other():
    rng = np.random.default_rng(11)
    for shared in (0.0, 0.7, 1.0):
        failed, binomial = [], []
        for _ in range(1500):
            common = rng.standard_normal((6, 1))
            d = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.standard_normal((6, 16))
            gate = aa_gate(d)
            failed.append(gate.passed is False)
            binomial.append(gate.share_low > 0.05)
        # 1/32 is the largest level that six blocks have below 5 %; 2.6 standard errors of 1500 are 1.2 %.
        assert np.mean(failed) == pytest.approx(1 / 32, abs=0.012)
        if shared == 0.7:
            # The binomial interval takes 16 dependent tests for independent ones.
            assert np.mean(binomial) > 0.05


def test_five_blocks_cannot_fail_the_gate_and_it_says_so():
    gate = aa_gate(np.full((5, 3), 0.1) + np.random.default_rng(5).normal(0, 0.001, (5, 3)))
    assert gate.passed is None
    assert gate.p_value == 1 / 16
    assert gate.warnings == (StatisticsWarning.PMinAboveAlpha,)


def test_the_gate_leaves_out_what_cannot_be_tested():
    rng = np.random.default_rng(6)
    d = rng.normal(0, 0.1, (6, 3))
    holes = d.copy()
    holes[0, 1] = np.nan
    gate = aa_gate(np.column_stack([holes, np.full(6, np.nan), np.full(6, 0.2)]))
    assert gate.tests == 3
    assert gate.warnings == (StatisticsWarning.BlockIncomplete,)
    t = [scipy.stats.ttest_1samp(column[np.isfinite(column)], 0).statistic for column in holes.T]
    sizes = np.array([6, 5, 6])
    assert gate.statistic == pytest.approx(np.mean(np.square(t) / (np.square(t) + sizes - 1)))
    nothing = aa_gate(np.full((6, 2), np.nan))
    assert (nothing.passed, nothing.tests) == (None, 0)
    assert np.isnan(nothing.p_value)
    for bad in (np.zeros(3), np.zeros((0, 2)), np.full((3, 2), np.inf)):
        with pytest.raises(StatisticsError):
            aa_gate(bad)


def test_many_blocks_are_flipped_at_random_with_a_seed_only():
    d = np.random.default_rng(7).normal(0.2, 0.1, (20, 3))
    with pytest.raises(StatisticsError, match="seeded"):
        aa_gate(d)
    gate = aa_gate(d, n_resamples=999, rng=np.random.default_rng(1))
    assert (gate.exact, gate.n_relabellings, gate.p_value) == (False, 1000, 1 / 1000)


# ---- variance components


def test_variance_components_by_hand():
    # Block means 1, 2, 3; runs ±0.1 around them: MS_within = 2 · 0.01, MS_between = 2 · 1.
    y = np.array([[0.9, 1.1], [1.9, 2.1], [2.9, 3.1]])
    parts = variance_components(y, 0.005)
    assert parts.block == pytest.approx((2 - 0.02) / 2)
    assert parts.deployment == pytest.approx(0.015)
    assert parts.within_run == pytest.approx(0.005)
    assert parts.total == pytest.approx(0.99 + 0.02)
    assert parts.within_share == pytest.approx(0.25)
    assert (parts.n, parts.runs_per_block, parts.warnings) == (3, 2, ())


def test_variance_components_are_recovered():
    rng = np.random.default_rng(8)
    y = rng.normal(0, 0.3, (4000, 1)) + rng.normal(0, 0.2, (4000, 2)) + rng.normal(0, 0.1, (4000, 2))
    parts = variance_components(y, np.full((4000, 2), 0.01))
    assert [parts.block, parts.deployment, parts.within_run] == pytest.approx([0.09, 0.04, 0.01], rel=0.06)


def test_variance_components_never_are_negative():
    parts = variance_components([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], 10.0)
    assert (parts.block, parts.deployment) == (0.0, 0.0)
    assert parts.within_share == 1.0
    assert np.isnan(variance_components([[0.0, 1.0]], 0.1).block)
    for y, inside in (
        ([[0.0], [1.0]], 0.1),
        ([[0.0, np.nan]], 0.1),
        ([[0.0, 1.0]], -1),
        ([[0.0, 1.0]], [0.1]),
    ):
        with pytest.raises(StatisticsError):
            variance_components(y, inside)


def test_the_request_level_variance_is_that_of_independent_requests():
    rng = np.random.default_rng(9)
    sigma, n, q = 0.4, 20_000, 0.9
    counts = rebin_latencies(rng.lognormal(np.log(0.002), sigma, n)).counts
    z = scipy.stats.norm.ppf(q)
    # Asymptotic variance of a sample quantile: q (1 − q)/(n f²), f the density of log latency there.
    expected = q * (1 - q) / (n * (scipy.stats.norm.pdf(z) / sigma) ** 2)
    assert request_variance(counts, LOG_GRID, q, rng=rng) == pytest.approx(expected, rel=0.15)
    clustered = request_variance(counts, LOG_GRID, q, design_effect=9, rng=rng)
    assert clustered == pytest.approx(9 * expected, rel=0.2)


def test_slices_that_depend_on_their_neighbours_show_more_variance_than_independent_requests():
    rng = np.random.default_rng(10)

    def slices(rho):
        level = np.empty(60)
        level[0] = rng.normal(0, 0.1)
        for i in range(1, 60):
            level[i] = rho * level[i - 1] + rng.normal(0, 0.1 * np.sqrt(1 - rho**2))
        return np.array([rebin_latencies(rng.lognormal(np.log(0.002) + x, 0.3, 400)).counts for x in level])

    truth = np.var([np.median(np.log(rng.lognormal(0, 0.3, 24_000))) for _ in range(50)])
    for rho in (0.0, 0.6):
        found = [slice_variance(slices(rho), LOG_GRID, 0.5, n_resamples=300, rng=rng) for _ in range(12)]
        # The mean of 60 levels has variance 0.01/60 times (1 + ρ)/(1 − ρ); moving blocks of 5 see most of it.
        waves = 0.01 / 60 * (1 + rho) / (1 - rho)
        assert 0.45 * waves < np.mean(found) < 1.4 * (waves + truth)


def test_within_run_variances_need_counts():
    rng = np.random.default_rng(11)
    few = np.ones((9, LOG_GRID.size - 1))
    assert np.isnan(slice_variance(few, LOG_GRID, 0.5, rng=rng))
    for bad in (np.ones(3), -np.ones((10, 3)), np.full((10, 3), np.nan)):
        with pytest.raises(StatisticsError):
            slice_variance(bad, np.arange(1.0, 5.0), 0.5, rng=rng)
    for bad in (np.zeros(3), -np.ones(3), np.ones((2, 3))):
        with pytest.raises(StatisticsError):
            request_variance(bad, np.arange(1.0, 5.0), 0.5, rng=rng)
    with pytest.raises(StatisticsError, match="design effect"):
        request_variance(np.ones(3), np.arange(1.0, 5.0), 0.5, design_effect=0.5, rng=rng)
