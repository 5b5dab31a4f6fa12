"""Planner, steadiness, slopes, knee and ranks against published tables, SciPy and numbers by hand."""

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.power import TTestPower

from meshperf.histogram import LOG_GRID, rebin_latencies
from meshperf.statistics.multiplicity import rank_sets
from meshperf.statistics.power import blocks_needed, detectable_ratio, half_width, pilot_upper_sd, plan, power
from meshperf.statistics.quantiles import run_cdfs
from meshperf.statistics.results import StatisticsError, StatisticsWarning
from meshperf.statistics.saturation import knee
from meshperf.statistics.slopes import deployment_slopes
from meshperf.statistics.steady import mser_truncation, steadiness

# ---- planner


@pytest.mark.parametrize(("sd", "ratio", "r"), [(0.1, 1.1, 5), (0.1, 1.1, 10), (0.05, 1.1, 3), (0.2, 1.5, 8)])
def test_power_is_statsmodels(sd, ratio, r):
    expected = TTestPower().power(np.log(ratio) / sd, r, 0.05, alternative="two-sided")
    assert power(sd, ratio, r) == pytest.approx(expected, abs=5e-4)
    assert power(sd, 1 / ratio, r) == pytest.approx(power(sd, ratio, r))


def test_power_without_an_effect_is_the_level_and_far_out_it_is_one():
    assert power(0.1, 1.0, 6) == pytest.approx(0.05, abs=1e-4)
    # SciPy's noncentral t returns NaN here.
    assert power(0.001, 10.0, 30) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("sd", "detectable", "half"),
    [
        (0.03, (10, 5, 4, 4, 3, 2, 2, 2), (8, 4, 3, 3, 2, 2, 1, 1)),
        (0.10, (39, 18, 15, 12, 10, 8, 7, 5), (28, 13, 11, 9, 7, 6, 5, 4)),
        (0.20, (92, 40, 33, 26, 22, 17, 14, 11), (64, 28, 23, 18, 15, 12, 10, 8)),
        (0.30, (166, 66, 54, 41, 35, 26, 22, 17), (111, 45, 37, 29, 24, 18, 15, 12)),
    ],
)
def test_the_planning_table(sd, detectable, half):
    blocks = (3, 5, 6, 8, 10, 15, 20, 30)
    assert [round(100 * (detectable_ratio(sd, r) - 1)) for r in blocks] == pytest.approx(detectable, abs=1)
    assert [round(100 * half_width(sd, r)) for r in blocks] == pytest.approx(half, abs=1)


@pytest.mark.parametrize(("sd", "ratio"), [(0.1, 1.1), (0.05, 1.2), (0.3, 1.05)])
def test_blocks_needed_are_just_enough(sd, ratio):
    r = blocks_needed(sd, ratio)
    assert power(sd, ratio, r) >= 0.8
    assert r == 3 or power(sd, ratio, r - 1) < 0.8
    assert blocks_needed(1.0, 1.001) is None


def test_the_upper_limit_of_a_pilots_spread():
    d = [0.1, 0.2, 0.3]
    expected = 0.1 * np.sqrt(2 / scipy.stats.chi2.ppf(0.2, 2))
    assert pilot_upper_sd(d) == pytest.approx(expected)
    rng = np.random.default_rng(1)
    covered = [pilot_upper_sd(rng.normal(0, 0.1, 3)) >= 0.1 for _ in range(2000)]
    assert np.mean(covered) == pytest.approx(0.8, abs=0.03)


def test_a_plan_has_blocks_and_seconds():
    wanted = plan(0.1, 1.1, quantile=0.99, target_rps=100, design_effect=5)
    # 30 · 5 / 0.01 = 15 000 requests over the blocks.
    assert wanted.requests_per_cell == 15_000
    assert wanted.seconds_per_run == pytest.approx(150 / wanted.n_blocks)
    assert plan(0.01, 1.5, quantile=0.5, target_rps=10).warnings == (StatisticsWarning.TooFewBlocks,)
    impossible = plan(2.0, 1.001, quantile=0.5, target_rps=10)
    assert impossible.n_blocks is None
    assert np.isnan(impossible.seconds_per_run)


def test_impossible_plans_are_refused():
    for arguments in ((0, 1.1, 5), (0.1, 0, 5), (0.1, 1.1, 1)):
        with pytest.raises(StatisticsError):
            power(*arguments)
    with pytest.raises(StatisticsError):
        blocks_needed(0.1, 1.1, target_power=1)
    with pytest.raises(StatisticsError):
        pilot_upper_sd([0.1])
    with pytest.raises(StatisticsError):
        plan(0.1, 1.1, quantile=0.99, target_rps=100, design_effect=0.5)


# ---- steadiness


def test_the_warm_up_is_cut_where_the_standard_error_is_least():
    # By hand: dropping the 9 leaves constants, cost 0.
    assert mser_truncation([9, 1, 1, 1, 1, 1, 1, 1]) == 1
    assert mser_truncation([1, 1, 1, 1]) == 0
    # d = 0: Σ = 2 · 0.25, /16; d = 1: 2/3 / 9; d = 2: 0.5/4.
    assert mser_truncation([1, 2, 1, 2]) == 0


def course(rng, rise=0.0, n=36, time_constant=6.0):
    noise = rng.normal(0, 0.02, n)
    return 0.002 * np.exp(rise * np.exp(-np.arange(n) / time_constant) + noise)


def test_a_steady_run_passes_and_a_drifting_run_does_not():
    rng = np.random.default_rng(2)
    flagged = [steadiness(course(rng)).steady is False for _ in range(400)]
    assert np.mean(flagged) < 0.08
    drifting = steadiness(0.002 * np.exp(0.01 * np.arange(36)))
    assert drifting.steady is False
    assert drifting.warnings == (StatisticsWarning.NotSteady,)


def test_a_short_warm_up_is_cut_and_a_long_one_is_flagged():
    rng = np.random.default_rng(3)
    short = [steadiness(course(rng, rise=1.0, time_constant=0.7)) for _ in range(50)]
    assert np.mean([s.steady is True for s in short]) > 0.85
    assert all(s.truncation >= 1 for s in short)
    long = [steadiness(course(rng, rise=1.0, time_constant=12)) for _ in range(50)]
    assert np.mean([s.steady is False for s in long]) > 0.95


def test_two_percent_do_not_matter():
    tiny = 0.002 * np.exp(np.linspace(0, 0.02, 12))
    assert steadiness(tiny).steady is True


def test_too_few_slices_say_nothing():
    assert steadiness([0.002, 0.0021, 0.002]).steady is None
    assert steadiness([0.002]).n == 1
    for bad in ([], [0.1, np.nan], [0.0, 0.1]):
        with pytest.raises(StatisticsError):
            steadiness(bad)


# ---- slopes


def test_slopes_by_hand():
    x = np.array([[100.0, 200, 300]] * 3)
    y = np.array([[1.0, 2, 3], [2, 4, 6], [3, 6, 9]]) / 100
    slopes = deployment_slopes(x, y)
    assert slopes.per_deployment[:, 0] == pytest.approx([1e-4, 2e-4, 3e-4])
    assert slopes.slope.estimate == pytest.approx(2e-4)
    expected = scipy.stats.ttest_1samp([1e-4, 2e-4, 3e-4], 0).confidence_interval()
    assert (slopes.slope.low, slopes.slope.high) == pytest.approx(tuple(expected))
    assert slopes.intercept.estimate == pytest.approx(0, abs=1e-12)


def test_a_curve_is_not_called_a_line():
    rng = np.random.default_rng(4)
    x = np.tile([100.0, 200, 400, 800], (6, 1))
    bent = 1e-4 * x + 1e-7 * x**2 + rng.normal(0, 1e-4, x.shape)
    assert deployment_slopes(x, bent).linear is False
    straight = 1e-4 * x + rng.normal(0, 1e-3, x.shape)
    assert deployment_slopes(x, straight).linear is True
    assert deployment_slopes(x[:, :2], bent[:, :2]).linear is None


def test_slopes_over_deployments_cover_where_pooled_regression_does_not():
    rng = np.random.default_rng(5)
    x = np.tile([100.0, 200, 400, 800], (5, 1))
    hits, pooled_hits = 0, 0
    for _ in range(400):
        per_deployment = 1e-3 * (1 + rng.normal(0, 0.1, (5, 1)))
        y = per_deployment * x + rng.normal(0, 0.002, x.shape)
        interval = deployment_slopes(x, y).slope
        hits += interval.low < 1e-3 < interval.high
        fit = scipy.stats.linregress(x.ravel(), y.ravel())
        half = scipy.stats.t.ppf(0.975, 18) * fit.stderr
        pooled_hits += abs(fit.slope - 1e-3) < half
    assert 0.92 <= hits / 400 <= 0.98
    assert pooled_hits / 400 < 0.92


def test_slopes_need_levels():
    for x, y in (
        ([[1.0], [2.0]], [[1.0], [2.0]]),
        ([[1.0, 1.0]], [[1.0, 2.0]]),
        ([[1.0, np.nan]], [[1.0, 2.0]]),
    ):
        with pytest.raises(StatisticsError):
            deployment_slopes(x, y)
    assert not deployment_slopes([[1.0, 2], [1, 2]], [[1.0, 2], [2, 3]]).slope.has_interval


# ---- knee


def curves(scales, r=4, sd=0.03, seed=1):
    """CDFs (r, levels, bins) of log-normal latencies whose median is multiplied per level."""
    rng = np.random.default_rng(seed)
    sample = rng.lognormal(np.log(0.002), 0.3, 4000)
    return np.stack(
        [
            [run_cdfs(rebin_latencies(sample * s * np.exp(rng.normal(0, sd))).counts) for s in scales]
            for _ in range(r)
        ]
    )


def test_the_knee_is_the_last_rate_before_the_latency_doubles():
    found = knee([100, 200, 400, 800], np.ones((4, 4)), curves([1, 1.1, 1.4, 4]), LOG_GRID)
    assert (found.target_rps, found.low, found.high, found.at_limit) == (400, 400, 400, False)


def test_a_rate_missed_in_two_blocks_is_beyond_the_knee():
    ok = np.ones((4, 3), dtype=bool)
    ok[0, 2] = False
    assert knee([100, 200, 400], ok, curves([1, 1, 1]), LOG_GRID).target_rps == 400
    ok[1, 2] = False
    assert knee([100, 200, 400], ok, curves([1, 1, 1]), LOG_GRID).target_rps == 200
    # Higher rates do not count once a lower one failed.
    ok = np.ones((4, 3), dtype=bool)
    ok[:, 1] = False
    assert knee([100, 200, 400], ok, curves([1, 1, 1]), LOG_GRID).target_rps == 100


def test_a_knee_on_the_edge_has_a_range():
    found = knee([100, 200], np.ones((6, 2)), curves([1, 2.0], r=6, sd=0.1), LOG_GRID)
    assert (found.low, found.high) == (100, 200)


def test_knees_without_enough_blocks_or_levels():
    few = knee([100, 200], np.ones((2, 2)), curves([1, 1], r=2), LOG_GRID)
    assert few.target_rps == 200
    assert few.at_limit
    assert np.isnan(few.low)
    assert few.warnings == (StatisticsWarning.TooFewBlocks,)
    none = knee([100], np.zeros((3, 1)), curves([1], r=3), LOG_GRID)
    assert np.isnan(none.target_rps)
    with pytest.raises(StatisticsError):
        knee([200, 100], np.ones((3, 2)), curves([1, 1], r=3), LOG_GRID)
    with pytest.raises(StatisticsError):
        knee([100], np.ones((3, 2)), curves([1, 1], r=3), LOG_GRID)


# ---- ranks


def test_ranks_with_ties_as_ties():
    rng = np.random.default_rng(6)
    block = rng.normal(0, 0.2, (8, 1))
    values = block + np.array([0.0, 0.01, 1.0]) + rng.normal(0, 0.05, (8, 3))
    assert [str(rank) for rank in rank_sets(values)] == ["1–2", "1–2", "3"]
    # Order of arms does not matter.
    assert [str(rank) for rank in rank_sets(values[:, [2, 0, 1]])] == ["3", "1–2", "1–2"]


def test_two_blocks_rank_nothing():
    assert [str(rank) for rank in rank_sets([[0.0, 5.0], [0.1, 5.2]])] == ["1–2", "1–2"]
    assert [str(rank) for rank in rank_sets([[0.0], [0.1]])] == ["1"]
    with pytest.raises(StatisticsError):
        rank_sets([[0.0, np.nan]])
