"""Statistics against SciPy, statsmodels and numbers worked out by hand."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.interpolate
import scipy.stats
from statsmodels.stats.multitest import multipletests

from meshperf.histogram import LOG_GRID, rebin_latencies
from meshperf.statistics.bootstrap import (
    block_interval,
    block_weights,
    mean_interval,
    merged_quantile_interval,
)
from meshperf.statistics.effect import (
    difference_interval,
    leave_one_out_range,
    log_ratio_interval,
    log_ratios,
    merged_difference_interval,
    merged_ratio_interval,
    paired_t_p,
    resolution_bracket,
    verdict,
)
from meshperf.statistics.estimability import estimability, exceedances, omission_bounds, tail_dispersion
from meshperf.statistics.multiplicity import benjamini_hochberg, holm
from meshperf.statistics.permutation import p_min
from meshperf.statistics.quantiles import (
    _pchip_slopes,
    best_log_quantile,
    log_quantile,
    pchip_log_quantile,
    quantile_bounds,
    run_cdfs,
    window,
)
from meshperf.statistics.results import EXPLANATIONS, Interval, StatisticsError, StatisticsWarning

RNG = np.random.default_rng(20261121)
#: Log ratios of five blocks.
D = np.array([0.10, 0.14, 0.05, 0.12, 0.09])


def cdfs_of(samples):
    return run_cdfs([rebin_latencies(sample).counts for sample in samples])


def arms(r=5, ratio=1.2, n=4000, seed=1):
    """CDFs of an arm and its baseline in r blocks that share a block effect."""
    rng = np.random.default_rng(seed)
    block = rng.normal(0, 0.08, r)
    make = lambda shift: cdfs_of(  # noqa: E731
        [rng.lognormal(np.log(0.002) + shift + b + rng.normal(0, 0.05), 0.35, n) for b in block]
    )
    return make(np.log(ratio)), make(0.0)


# ---- quantiles


def test_log_quantile_by_hand():
    cdf = [[0.25, 0.75, 1.0], [0.0, 0.5, 1.0]]
    edges = [1.0, 2.0, 4.0, 8.0]
    # Row 1: q = 0.5 is half way from 2 to 4 in log: 2^1.5. Row 2: F reaches 0.5 at the edge 4.
    assert np.exp(log_quantile(cdf, edges, 0.5)) == pytest.approx([2**1.5, 4.0])
    low, high = quantile_bounds(cdf, edges, 0.5)
    assert (low.tolist(), high.tolist()) == ([2, 2], [4, 4])


def test_a_quantile_in_a_bin_without_log_width_is_not_a_number():
    assert np.isnan(log_quantile([0.9, 1.0], [0.0, 1.0, 2.0], 0.5))
    assert np.isnan(log_quantile([0.1, 1.0], [0.5, 1.0, np.inf], 0.5))
    assert np.isnan(pchip_log_quantile([0.9, 0.95, 1.0], [0.0, 1.0, 2.0, 3.0], 0.5))


def test_rounding_does_not_push_a_quantile_into_the_next_bin():
    # Ten times 0.1 adds up to 0.9999999999999999.
    cdf = np.cumsum([0.1] * 10)[None, :]
    assert quantile_bounds(cdf, np.arange(1.0, 12.0), 0.3)[1] == 4.0
    assert quantile_bounds(cdf, np.arange(1.0, 12.0), 0.9999999999999)[1] == 11.0


def test_the_cubic_is_scipys():
    x = np.sort(RNG.uniform(0, 3, 12))
    y = np.cumsum(RNG.exponential(size=(4, 12)), axis=1)
    y[:, 5] = y[:, 4]
    expected = [scipy.interpolate.PchipInterpolator(x, row).derivative()(x) for row in y]
    assert _pchip_slopes(x, y) == pytest.approx(np.array(expected), abs=1e-10)


def test_the_cubic_quantile_inverts_scipys_curve():
    edges = np.array([0.5, 1, 2, 3, 5, 9, 20])
    cdf = np.array([0.05, 0.3, 0.7, 0.8, 0.95, 1.0])
    curve = scipy.interpolate.PchipInterpolator(np.log(edges), np.append(0, cdf))
    for q in (0.01, 0.29, 0.5, 0.77, 0.99):
        assert curve(pchip_log_quantile(cdf, edges, q)) == pytest.approx(q, abs=1e-12)
        assert best_log_quantile(cdf, edges, q) == pchip_log_quantile(cdf, edges, q)


def test_a_run_with_more_requests_weighs_no_more():
    # Pooled, the shares would be 9/1010, 110/1010 and 1: the run of 1000 requests alone.
    cdf = run_cdfs([[9, 1, 0], [0, 100, 900]])
    assert cdf.mean(axis=0) == pytest.approx([0.45, 0.55, 1.0])


@pytest.mark.parametrize(
    "counts", [[[-1, 2]], [[np.nan, 1]], [[0, 0]], np.empty((2, 0)), np.zeros((2, 2, 2)), [[np.inf, 1]]]
)
def test_counts_that_are_no_distribution_are_refused(counts):
    with pytest.raises(StatisticsError):
        run_cdfs(counts)


def test_mismatched_grids_and_shares_beyond_one_are_refused():
    with pytest.raises(StatisticsError, match="need 3 edges"):
        log_quantile([0.5, 1.0], [1.0, 2.0], 0.5)
    for q in (0.0, 1.0, 99):
        with pytest.raises(StatisticsError, match="between 0 and 1"):
            log_quantile([0.5, 1.0], [1.0, 2.0, 3.0], q)
    with pytest.raises(StatisticsError, match="same blocks"):
        log_ratios(np.ones((3, 4)), np.ones((2, 4)), np.arange(1.0, 6.0), 0.5)


# ---- weights and intervals


@pytest.mark.parametrize(("r", "n"), [(1, 1), (2, 3), (3, 10), (5, 126), (6, 462), (8, 6435)])
def test_up_to_eight_blocks_every_resample_is_there_once(r, n):
    weights, probabilities = block_weights(r)
    assert weights.shape == (n, r)
    assert len(np.unique(weights, axis=0)) == n
    assert weights.sum(axis=1) == pytest.approx(np.ones(n))
    assert probabilities.sum() == pytest.approx(1)
    # Multinomial moments: mean 1/r and variance (1/r)(1 - 1/r)/r.
    assert probabilities @ weights == pytest.approx(np.full(r, 1 / r))
    variance = probabilities @ (weights - 1 / r) ** 2
    assert variance == pytest.approx(np.full(r, (1 / r) * (1 - 1 / r) / r))


def test_more_blocks_are_drawn_with_a_seed_only():
    with pytest.raises(StatisticsError, match="seeded"):
        block_weights(9)
    one, two = (block_weights(9, 500, np.random.default_rng(4))[0] for _ in range(2))
    assert np.array_equal(one, two)
    assert one.shape == (500, 9)


def test_the_typical_interval_is_scipys_t_interval():
    interval = log_ratio_interval(D)
    expected = scipy.stats.ttest_1samp(D, 0).confidence_interval(0.95)
    assert np.log([interval.low, interval.high]) == pytest.approx([expected.low, expected.high], rel=1e-12)
    assert interval.estimate == pytest.approx(np.exp(0.1))
    assert interval.sd == pytest.approx(np.std(D, ddof=1))
    assert (interval.n, interval.confidence, interval.warnings) == (5, 0.95, ())
    assert paired_t_p(D) == pytest.approx(scipy.stats.ttest_1samp(D, 0).pvalue, rel=1e-10)


@pytest.mark.parametrize("r", [3, 5, 8, 12])
def test_for_a_mean_the_block_bootstrap_is_students_interval(r):
    values = RNG.normal(size=r)
    by_blocks = block_interval(
        lambda weights: weights @ values, r, n_resamples=200_000, rng=np.random.default_rng(1)
    )
    student = mean_interval(values)
    tolerance = 1e-9 if r <= 8 else 0.01
    assert by_blocks.se == pytest.approx(student.se, rel=tolerance)
    assert [by_blocks.low, by_blocks.high] == pytest.approx([student.low, student.high], rel=3 * tolerance)


def test_the_bootstrap_standard_error_is_scipys_times_the_small_sample_factor():
    cdf, baseline = arms(r=5)
    ours = merged_ratio_interval(cdf, baseline, LOG_GRID, 0.9)

    def statistic(index, axis=-1):
        picked = np.moveaxis(np.take(cdf, index.astype(int), axis=0), -2, axis if axis >= 0 else -2).mean(
            axis=-2
        )
        other = np.take(baseline, index.astype(int), axis=0).mean(axis=-2)
        return log_quantile(picked, LOG_GRID, 0.9) - log_quantile(other, LOG_GRID, 0.9)

    theirs = scipy.stats.bootstrap(
        (np.arange(5),), statistic, n_resamples=3000, rng=np.random.default_rng(2), method="percentile"
    )
    assert ours.se == pytest.approx(theirs.standard_error * np.sqrt(5 / 4), rel=0.04)


def test_differences_are_paired():
    arm, baseline = np.array([5.0, 6.0, 9.0]), np.array([4.0, 4.5, 8.0])
    interval = difference_interval(arm, baseline)
    expected = scipy.stats.ttest_rel(arm, baseline).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    # Unpaired, the interval would be several times wider.
    assert interval.high - interval.low < 2


def test_a_true_ratio_is_recovered_and_covered():
    cdf, baseline = arms(r=6, ratio=1.5, n=20_000, seed=3)
    for q in (0.5, 0.9, 0.99):
        typical = log_ratio_interval(log_ratios(cdf, baseline, LOG_GRID, q))
        merged = merged_ratio_interval(cdf, baseline, LOG_GRID, q)
        for interval in (typical, merged):
            assert interval.low < 1.5 < interval.high
            assert interval.estimate == pytest.approx(1.5, rel=0.1)


def test_merged_quantile_of_equal_runs_is_that_quantile():
    sample = RNG.lognormal(np.log(0.002), 0.3, 100_000)
    interval = merged_quantile_interval(cdfs_of([sample] * 3), LOG_GRID, 0.9)
    assert interval.estimate == pytest.approx(np.quantile(sample, 0.9), rel=0.0015)
    assert not interval.has_interval
    assert interval.warnings == (StatisticsWarning.NotEstimable,)


@pytest.mark.parametrize("r", [1, 2])
def test_fewer_than_three_blocks_give_an_estimate_and_no_interval(r):
    cdf, baseline = arms(r=r)
    d = log_ratios(cdf, baseline, LOG_GRID, 0.5)
    for interval in (
        log_ratio_interval(d),
        merged_ratio_interval(cdf, baseline, LOG_GRID, 0.5),
        merged_quantile_interval(cdf, LOG_GRID, 0.5),
        difference_interval(d, np.zeros(r)),
    ):
        assert np.isfinite(interval.estimate)
        assert not interval.has_interval
        assert np.isnan([interval.low, interval.high, interval.se]).all()
        assert StatisticsWarning.TooFewBlocks in interval.warnings
    assert np.isnan(paired_t_p(d))


def test_equal_blocks_give_no_interval_and_no_p_value():
    interval = log_ratio_interval([0.1, 0.1, 0.1, 0.1])
    assert interval.warnings == (StatisticsWarning.NotEstimable,)
    assert not interval.has_interval
    assert np.isnan(paired_t_p([0.1] * 4))


def test_a_block_without_a_number_gives_no_interval():
    interval = log_ratio_interval([0.1, np.nan, 0.2])
    assert np.isnan(interval.estimate)
    assert interval.warnings == (StatisticsWarning.NotEstimable,)


def test_one_far_block_is_flagged():
    assert StatisticsWarning.Bimodal in log_ratio_interval([0.1, 0.11, 0.12, 0.13, 0.9]).warnings
    assert log_ratio_interval(D).warnings == ()


def test_p_is_never_zero():
    assert paired_t_p(np.full(400, 1e6) + RNG.normal(0, 1e-4, 400)) > 0


def test_bad_shapes_and_confidences_are_refused():
    for values in ([], [[1.0, 2.0]]):
        with pytest.raises(StatisticsError):
            mean_interval(values)
    with pytest.raises(StatisticsError, match="confidence"):
        mean_interval(D, confidence=95)
    with pytest.raises(StatisticsError, match="pair"):
        difference_interval([1.0, 2.0], [1.0])
    with pytest.raises(StatisticsError, match="CDF"):
        merged_quantile_interval(np.full((3, LOG_GRID.size - 1), np.nan), LOG_GRID, 0.5)
    with pytest.raises(StatisticsError, match="at least 1 block"):
        block_weights(0)


def test_leave_one_out_range_by_hand():
    # Without 0.05 the mean is 0.1125, without 0.14 it is 0.09.
    assert leave_one_out_range(D) == pytest.approx((np.exp(0.09), np.exp(0.1125)))
    assert np.isnan(leave_one_out_range([0.1])).all()


# ---- estimability and omission


def test_estimability_by_hand():
    # 1000 requests beyond the quantile, equally over 5 runs: dispersion below 1 counts as 1.
    even = estimability([200, 200, 200, 200, 200], 100_000, 0.99)
    assert (even.label, even.exceedances, even.design_effect) == ("ok", pytest.approx(1000), 1.0)
    assert even.effective_runs == pytest.approx(5)
    # s² = 2000, mean 40: φ = 50; 200/50 = 4 effective exceedances.
    clustered = estimability([0, 40, 0, 120, 40], 20_000, 0.99)
    assert clustered.design_effect == pytest.approx(60.0)
    assert clustered.label == "n.e."
    assert "3.3 effective requests" in clustered.reason


def test_one_bad_run_must_not_be_the_tail():
    single = estimability([1000, 1, 1, 1, 1], 10_000_000, 0.9999, design_effect=1.0)
    assert single.label == "n.e."
    assert StatisticsWarning.SingleRunTail in single.warnings
    two = estimability([1000, 1000, 1, 1, 1], 20_000_000, 0.9999, design_effect=1.0)
    assert two.label == "dagger"


@pytest.mark.parametrize(("expected", "label"), [(30, "ok"), (29, "dagger"), (10, "dagger"), (9, "n.e.")])
def test_the_limits_of_estimability(expected, label):
    per_run = np.full(5, expected / 5)
    assert estimability(per_run, expected * 1000, 0.999).label == label


def test_fewer_than_three_runs_are_a_dagger_at_best():
    assert estimability([500.0], 50_000, 0.99).label == "dagger"
    assert estimability([5.0, 5.0], 1000, 0.995).label == "n.e."
    assert tail_dispersion([5.0]) == np.inf


def test_exceedances_add_up_to_the_expected_number():
    cdf, _ = arms(r=4, n=5000)
    e = exceedances(cdf, LOG_GRID, [5000] * 4, 0.9)
    assert e.sum() == pytest.approx(0.1 * 20_000)
    assert (e > 0).all()


def test_impossible_exceedances_are_refused():
    for bad in ([np.nan, 1, 1], [-1, 1, 1]):
        with pytest.raises(StatisticsError):
            estimability(bad, 100, 0.9)
    with pytest.raises(StatisticsError):
        estimability([1, 1, 1], 100, 1.0)


def test_omission_bounds_contain_the_quantile_of_any_completion():
    rng = np.random.default_rng(8)
    everything = rng.lognormal(np.log(0.002), 0.6, 20_000)
    sent, unsent = everything[:18_000], everything[18_000:]
    cdf = cdfs_of([sent])[0]
    for hidden in (unsent, np.full(2000, 1e-4), np.full(2000, 30.0)):
        for q in (0.3, 0.5, 0.8):
            low, high = omission_bounds(cdf, LOG_GRID, q, 0.1)
            assert low * 0.998 <= np.quantile(np.concatenate([sent, hidden]), q) <= high * 1.002
    assert omission_bounds(cdf, LOG_GRID, 0.9, 0.1)[1] == np.inf
    assert omission_bounds(cdf, LOG_GRID, 0.1, 0.1)[0] == 0


def test_impossible_fractions_are_refused():
    cdf, _ = arms(r=1)
    for m in (-0.1, 1.1):
        with pytest.raises(StatisticsError, match="missing fraction"):
            omission_bounds(cdf[0], LOG_GRID, 0.5, m)


# ---- many tests, small designs, verdicts


def test_holm_by_hand_and_by_statsmodels():
    # 3 x 0.01 = 0.03; 2 x 0.02 = 0.04; 0.03 -> not below 0.04.
    assert holm([0.02, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])
    p = RNG.uniform(0, 0.2, 15)
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


def test_benjamini_hochberg_is_scipys():
    p = RNG.uniform(0, 0.5, 15)
    assert benjamini_hochberg(p) == pytest.approx(scipy.stats.false_discovery_control(p))


def test_tests_that_could_not_be_made_still_count_in_the_family():
    assert holm([0.01, np.nan, 0.02])[[0, 2]] == pytest.approx([0.03, 0.04])
    assert benjamini_hochberg([0.01, np.nan, 0.02])[[0, 2]] == pytest.approx([0.03, 0.03])
    assert np.isnan(holm([np.nan, 0.5])[0])
    assert holm([]).size == 0
    with pytest.raises(StatisticsError):
        holm([1.5])


@pytest.mark.parametrize(
    ("r", "flips", "three"),
    [(3, 0.25, 0.0370), (4, 0.125, 0.0123), (5, 0.0625, 0.0041), (6, 0.0313, 0.0014), (10, 0.0020, 1.7e-5)],
)
def test_smallest_p_values_of_blocked_designs(r, flips, three):
    assert p_min(r, baselines_per_block=1) == pytest.approx(flips, rel=0.03)
    assert p_min(r) == pytest.approx(three, rel=0.03)


def interval(low, high, n=6, confidence=0.95):
    middle = float(np.sqrt(low * high))
    return Interval(middle, low, high, 0.01, n, confidence, "test")


WIDE = (1.05, 1.15)


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        ("slower", {"ratio": interval(1.05, 1.2), "p_adjusted": 0.01}),
        ("faster", {"ratio": interval(0.8, 0.9), "p_adjusted": 0.01, "bracket": (0.8, 0.9)}),
        ("undecided", {"ratio": interval(0.95, 1.2), "p_adjusted": 0.2}),
        ("undecided", {"ratio": interval(1.05, 1.2), "p_adjusted": None}),
        ("undecided", {"ratio": interval(1.05, 1.2), "p_adjusted": float("nan")}),
        ("undecided", {"ratio": interval(1.05, 1.2), "p_adjusted": 0.01, "noise_limit": 0.2}),
        ("resolution-limited", {"ratio": interval(1.05, 1.2), "p_adjusted": 0.01, "bracket": (0.9, 1.3)}),
        ("too few blocks", {"ratio": interval(1.05, 1.2, n=5), "p_adjusted": 0.001}),
        ("not estimable", {"ratio": interval(float("nan"), float("nan")), "p_adjusted": 0.001}),
        (
            "equivalent",
            {
                "ratio": interval(0.97, 1.04),
                "p_adjusted": 0.5,
                "equivalence": interval(0.98, 1.03, confidence=0.9),
                "margin": 0.05,
            },
        ),
        (
            "undecided",
            {
                "ratio": interval(0.94, 1.06),
                "p_adjusted": 0.5,
                "equivalence": interval(0.95, 1.03, confidence=0.9),
                "margin": 0.05,
            },
        ),
    ],
)
def test_verdicts(expected, arguments):
    decided = verdict(**{"alpha": 0.05, "bracket": WIDE, **arguments})
    assert decided.verdict == expected
    assert decided.reason


def test_the_resolution_bracket_by_hand():
    edges = [1.0, 2.0, 4.0, 8.0]
    slow, fast = [[0.0, 0.2, 1.0]], [[0.0, 0.9, 1.0]]
    # p50 in (4, 8] against (2, 4]: the ratio lies in [4/4, 8/2].
    assert resolution_bracket(slow, fast, edges, 0.5) == (1.0, 4.0)


def test_every_warning_has_an_explanation():
    assert set(EXPLANATIONS) == set(StatisticsWarning)


def test_statistics_load_neither_pandas_nor_files():
    code = (
        "import sys, meshperf.statistics.effect, meshperf.statistics.estimability, meshperf.statistics.permutation,"
        " meshperf.statistics.multiplicity; assert not {'pandas', 'pydantic', 'yaml'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("q", [0.001, 0.5, 0.9, 0.999])
def test_the_window_changes_no_quantile_of_any_resample(q):
    cdf, _ = arms(r=5, n=3000)
    weights, _ = block_weights(5)
    near, near_edges = window(cdf, LOG_GRID, q)
    assert near.shape[1] < 120
    expected = log_quantile(weights @ cdf, LOG_GRID, q)
    assert log_quantile(weights @ near, near_edges, q) == pytest.approx(expected, abs=1e-12)


def test_merged_differences_are_differences_of_merged_quantiles():
    cdf, baseline = arms(r=5, ratio=1.5)
    interval = merged_difference_interval(cdf, baseline, LOG_GRID, 0.9)
    quantiles = [merged_quantile_interval(c, LOG_GRID, 0.9).estimate for c in (cdf, baseline)]
    assert interval.estimate == pytest.approx(quantiles[0] - quantiles[1])
    assert interval.low < interval.estimate < interval.high


def test_two_baselines_that_differ_by_a_factor_do_not_bias_the_typical_ratio():
    rng = np.random.default_rng(9)
    sample = rng.lognormal(np.log(0.002), 0.3, 50_000)
    # The arm is the geometric mean of the two baselines at every quantile; a mixture of the two has a longer tail.
    arm = cdfs_of([sample] * 3)
    baselines = np.stack([cdfs_of([sample * 1.3, sample / 1.3])] * 3)
    for q in (0.5, 0.9, 0.99):
        assert log_ratios(arm, baselines, LOG_GRID, q) == pytest.approx(np.zeros(3), abs=0.002)
    mixed = log_ratios(arm, baselines.mean(axis=1), LOG_GRID, 0.99)
    assert (mixed < -0.1).all()
