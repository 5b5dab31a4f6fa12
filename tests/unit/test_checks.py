"""Robust interval, sign flips, prediction of a repetition, correction for omission, queue curve and growth."""

import numpy as np
import pytest
import scipy.stats

from meshperf.histogram import LOG_GRID
from meshperf.statistics.bootstrap import far_blocks
from meshperf.statistics.checks import prediction_interval, robust_interval
from meshperf.statistics.estimability import co_corrected
from meshperf.statistics.ks import ad_distance, dominance
from meshperf.statistics.permutation import sign_flip_test
from meshperf.statistics.quantiles import log_quantile, run_cdfs
from meshperf.statistics.results import StatisticsError, StatisticsWarning
from meshperf.statistics.saturation import capacity_fit
from meshperf.statistics.slopes import growth, theil_sen

D = [0.10, 0.14, 0.05, 0.12, 0.09]

# ---- without assumptions


def test_the_robust_interval_goes_from_the_smallest_to_the_largest_block():
    interval = robust_interval(D)
    assert np.log([interval.estimate, interval.low, interval.high]) == pytest.approx([0.10, 0.05, 0.14])
    assert (interval.confidence, interval.n, interval.warnings) == (0.9375, 5, ())
    assert robust_interval([*D, 0.11]).confidence == 0.96875


@pytest.mark.parametrize("r", [3, 5, 6])
def test_the_robust_interval_covers_the_median_as_often_as_it_says_whatever_the_distribution(r):
    rng = np.random.default_rng(r)
    d = rng.exponential(size=(4000, r))
    covered = (d.min(axis=1) <= np.log(2)) & (np.log(2) <= d.max(axis=1))
    confidence = robust_interval(d[0]).confidence
    assert covered.mean() == pytest.approx(
        confidence, abs=2.6 * np.sqrt(confidence * (1 - confidence) / 4000)
    )


def test_the_robust_interval_needs_three_blocks_that_differ():
    assert not robust_interval(D[:2]).has_interval
    assert robust_interval(D[:2]).warnings == (StatisticsWarning.TooFewBlocks,)
    assert robust_interval([0.1] * 4).warnings == (StatisticsWarning.NotEstimable,)
    assert robust_interval([*D, 0.9]).warnings == (StatisticsWarning.Bimodal,)
    for bad in ([], [0.1, np.nan], [[0.1]]):
        with pytest.raises(StatisticsError):
            robust_interval(bad)


def test_far_blocks_by_hand():
    # Median 3, deviations 2 1 0 1 97, MAD 1: the limit is 5.19.
    assert far_blocks([1, 2, 3, 4, 100]).tolist() == [False] * 4 + [True]
    assert not far_blocks([1, 1, 1, 9]).any()


def test_sign_flips_are_scipys_permutation_test():
    d = np.array([0.02, 0.05, -0.01, 0.04, 0.03, 0.06, 0.01])
    ours = sign_flip_test(d)
    theirs = scipy.stats.permutation_test(
        (d,), lambda x, axis=-1: np.abs(np.mean(x, axis=axis)), permutation_type="samples",
        alternative="greater", n_resamples=np.inf,
    )  # fmt: skip
    assert ours.statistic == pytest.approx(theirs.statistic)
    assert ours.p_value == pytest.approx(theirs.pvalue)
    assert (ours.p_min, ours.n_relabellings, ours.exact, ours.warnings) == (1 / 64, 64, True, ())


def test_sign_flips_of_fishers_plants():
    # Darwin's 15 pairs of cross- and self-fertilised plants (eighths of an inch), Fisher (1935, section 21): the
    # difference of 314 is reached or passed in 1726 of 2^15 = 32768 sign flips, counting both directions.
    d = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sum(d) == 314
    test = sign_flip_test(d)
    assert test.p_value == pytest.approx(1726 / 32768)


def test_few_sign_flips_say_so_and_many_are_drawn():
    assert sign_flip_test(D).warnings == (StatisticsWarning.PMinAboveAlpha,)
    assert sign_flip_test(D).p_value == 1 / 16
    with pytest.raises(StatisticsError, match="seeded"):
        sign_flip_test(np.ones(20))
    drawn = sign_flip_test(np.ones(20), n_resamples=999, rng=np.random.default_rng(1))
    assert (drawn.p_value, drawn.exact) == (1 / 1000, False)


# ---- repetitions


def test_the_prediction_interval_by_hand():
    # Mean 0.1, s² = (0 + 16 + 25 + 4 + 1)e-4/4 = 11.5e-4; t(4, 0.975) = 2.776445.
    half = 2.776445 * np.sqrt(11.5e-4 * (1 / 5 + 1))
    interval = prediction_interval(D)
    assert np.log([interval.low, interval.high]) == pytest.approx([0.1 - half, 0.1 + half], abs=1e-7)
    again = prediction_interval(D, n_new=5)
    half = 2.776445 * np.sqrt(11.5e-4 * (1 / 5 + 1 / 5))
    assert np.log([again.low, again.high]) == pytest.approx([0.1 - half, 0.1 + half], abs=1e-7)
    assert interval.estimate == pytest.approx(np.exp(0.1))


@pytest.mark.parametrize(("r", "n_new"), [(3, 1), (6, 1), (6, 6), (10, 3)])
def test_repetitions_lie_in_the_prediction_interval_as_often_as_it_says(r, n_new):
    rng = np.random.default_rng([r, n_new])
    inside = []
    for _ in range(3000):
        interval = prediction_interval(rng.normal(0.1, 0.2, r), n_new=n_new)
        inside.append(interval.low <= np.exp(rng.normal(0.1, 0.2, n_new).mean()) <= interval.high)
    assert np.mean(inside) == pytest.approx(0.95, abs=2.6 * np.sqrt(0.95 * 0.05 / 3000))


def test_predictions_need_blocks():
    assert prediction_interval(D[:2]).warnings == (StatisticsWarning.TooFewBlocks,)
    assert prediction_interval([0.1] * 3).warnings == (StatisticsWarning.NotEstimable,)
    for bad in ([], [0.1, np.nan, 0.2]):
        with pytest.raises(StatisticsError):
            prediction_interval(bad)
    with pytest.raises(StatisticsError, match="at least 1 block"):
        prediction_interval(D, n_new=0)


# ---- coordinated omission


def test_the_correction_adds_what_hdrhistogram_adds():
    # A latency of 5.5 intervals: HdrHistogram records 4.5, 3.5, 2.5 and 1.5 besides.
    edges = np.arange(0.0, 7.0)
    assert co_corrected([0, 3, 0, 0, 0, 2], edges, 1.0).tolist() == [0, 5, 2, 2, 2, 2]


def test_nothing_is_added_below_two_intervals():
    edges = np.arange(0.0, 7.0)
    counts = np.array([4.0, 3, 0, 0, 0, 0])
    assert np.array_equal(co_corrected(counts, edges, 1.0), counts)


def test_a_stopped_server_shows_again():
    # One connection, a request every 10 ms at 1 ms each, and one of 1 s: 99 requests were held back.
    counts = np.zeros(LOG_GRID.size - 1)
    place = np.searchsorted(LOG_GRID, [0.001, 1.0]) - 1
    counts[place] = [900, 1]
    p99 = lambda c: float(np.exp(log_quantile(run_cdfs(c), LOG_GRID, 0.99)))  # noqa: E731
    assert p99(counts) < 0.0011
    corrected = co_corrected(counts, LOG_GRID, 0.010)
    assert corrected.sum() == pytest.approx(1000, abs=1)
    # The longest 1 % of 1000 requests are those of the first 0.1 s of the stall.
    assert p99(corrected) == pytest.approx(0.9, rel=0.02)


def test_corrections_of_nonsense_are_refused():
    edges = [0.0, 1.0, 2.0]
    for counts, interval in (
        ([-1, 1], 1),
        ([np.nan, 1], 1),
        ([1, 1], 0),
        ([1, 1], np.nan),
        ([[1, 1]], 1),
        ([1], 1),
    ):
        with pytest.raises(StatisticsError):
            co_corrected(counts, edges, interval)
    assert co_corrected([0, 0], edges, 1.0).tolist() == [0, 0]


# ---- curve of a queue


def queue(r=6, levels=(100, 200, 400, 600, 800), capacity=1000.0, base=0.002, sd=0.02, seed=1):
    rng = np.random.default_rng(seed)
    x = np.tile(np.array(levels, dtype=float), (r, 1)) * (1 + rng.normal(0, 0.002, (r, len(levels))))
    y = np.log(base) - np.log1p(-x / capacity) + rng.normal(0, 0.1, (r, 1)) + rng.normal(0, sd, x.shape)
    return x, y


def test_the_curve_is_found_exactly_where_there_is_no_noise():
    fit = capacity_fit(*queue(sd=0.0))
    assert fit.capacity_rps.estimate == pytest.approx(1000, rel=1e-5)
    assert fit.per_block[:, 0] == pytest.approx(np.full(6, 1e-3), rel=1e-4)


def test_the_capacity_is_covered():
    hits, usable = [], []
    for seed in range(300):
        fit = capacity_fit(*queue(seed=seed))
        hits.append(fit.capacity_rps.low <= 1000 <= fit.capacity_rps.high)
        usable.append(fit.usable)
    assert np.mean(hits) == pytest.approx(0.95, abs=2.6 * np.sqrt(0.95 * 0.05 / 300))
    # A curve that fits is called so in 95 of 100 cases.
    assert np.mean(usable) == pytest.approx(0.95, abs=2.6 * np.sqrt(0.95 * 0.05 / 300))


def test_a_curve_that_does_not_fit_is_not_used():
    x, y = queue(sd=0.01)
    y[:, 1] += 0.3
    fit = capacity_fit(x, y)
    assert not fit.usable
    assert "does not fit" in fit.reason


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"levels": (100, 400, 800)}, "3 levels"),
        ({"r": 2}, "complete blocks: 2"),
    ],
)
def test_conditions_of_the_curve(arguments, reason):
    fit = capacity_fit(*queue(**arguments))
    assert not fit.usable
    assert reason in fit.reason


def test_flat_latency_has_no_capacity():
    rng = np.random.default_rng(3)
    x = np.tile([100.0, 200, 400, 800], (6, 1))
    fit = capacity_fit(x, np.log(0.002) - 1e-4 * x + rng.normal(0, 0.01, x.shape))
    assert fit.capacity_rps.estimate == np.inf
    assert not fit.usable
    for bad in ((x, x[:, :2]), (x - 100, x), (x, np.full_like(x, np.nan)), (np.ones_like(x), x)):
        with pytest.raises(StatisticsError):
            capacity_fit(*bad)


# ---- growth


def test_theil_sen_is_scipys():
    rng = np.random.default_rng(4)
    x, y = np.round(rng.uniform(0, 60, 40)), rng.normal(size=40)
    assert theil_sen(x, y) == pytest.approx(scipy.stats.theilslopes(y, x).slope)


def test_growth_is_one_slope_per_run_and_t_over_runs():
    t = np.arange(0.0, 60, 5)
    series = [(t, 1e6 + slope * t) for slope in (10.0, 20.0, 30.0)]
    found = growth(series)
    assert found.per_run == pytest.approx([10, 20, 30])
    expected = scipy.stats.ttest_1samp([10, 20, 30], 0).confidence_interval()
    assert (found.slope.low, found.slope.high) == pytest.approx(tuple(expected))
    # t(2) = 4.303 is just too wide for three runs: 20 − 24.8.
    assert found.growing is False
    assert growth([(t, 1e6 + s * t) for s in (20.0, 20.5, 21.0)]).growing is True
    assert growth(series[:2]).growing is None
    assert growth(series[:2]).warnings == (StatisticsWarning.TooFewBlocks,)


def test_a_step_is_no_growth():
    t = np.arange(0.0, 60, 5)
    level = np.where(t > 40, 2e6, 1e6)
    assert theil_sen(t, level) == 0
    for bad in (([1.0], [1.0]), ([1.0, 1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0, np.nan])):
        with pytest.raises(StatisticsError):
            theil_sen(*bad)
    with pytest.raises(StatisticsError):
        growth([])


# ---- inputs of the sentence on dominance


def test_dominance_carries_its_limits():
    rng = np.random.default_rng(5)
    baseline = run_cdfs(rng.multinomial(5000, [0.3, 0.4, 0.2, 0.1], 6))
    arm = run_cdfs(rng.multinomial(5000, [0.1, 0.3, 0.3, 0.3], 6))
    found = dominance(arm, baseline, [1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.statement == "slower everywhere"
    assert found.d_minus == pytest.approx(0.3, abs=0.02)
    assert 0 < found.d_minus_low < found.d_minus < found.d_minus_high < 1
    assert found.d_plus == found.d_plus_low == 0.0
    assert found.d_plus_high <= found.epsilon
    few = dominance(arm[:2], baseline[:2], [1.0, 2.0, 3.0, 4.0, 5.0])
    assert few.warnings == (StatisticsWarning.TooFewBlocks,)
    assert np.isnan(few.d_plus_high)
    with pytest.raises(StatisticsError):
        dominance(arm, baseline[:5], [1.0, 2.0, 3.0, 4.0, 5.0])
    with pytest.raises(StatisticsError):
        dominance(arm, baseline, [1.0, 2.0, 3.0, 4.0, 5.0], epsilon=1.0)


def test_the_weighted_distance_by_hand():
    # H = (0.3, 0.75, 1): 0.3 · 0.2²/(0.3 · 0.7) + 0.45 · 0.1²/(0.75 · 0.25).
    expected = 0.3 * 0.04 / 0.21 + 0.45 * 0.01 / 0.1875
    assert ad_distance([[0.2, 0.7, 1.0]], [[0.4, 0.8, 1.0]]) == pytest.approx(expected)
    assert ad_distance([[0.2, 1.0]], [[0.2, 1.0]]) == 0
