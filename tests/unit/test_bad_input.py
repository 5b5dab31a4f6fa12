"""Input that no statistic can use: a named error, or a stated "not estimable", and never a number."""

import numpy as np
import pytest

from meshperf.histogram import Histogram, HistogramError, rebin_latencies
from meshperf.statistics.baselines import aa_gate, noise_floor
from meshperf.statistics.bootstrap import mean_interval, merged_quantile_interval
from meshperf.statistics.checks import prediction_interval, robust_interval
from meshperf.statistics.components import request_variance, slice_variance, variance_components
from meshperf.statistics.effect import (
    difference_interval,
    log_ratio_interval,
    log_ratios,
    merged_difference_interval,
    merged_ratio_interval,
    paired_t_p,
    resolution_bracket,
    shift_function,
    tost,
)
from meshperf.statistics.estimability import co_corrected, estimability, exceedances, tail_dispersion
from meshperf.statistics.ks import (
    ad_distance,
    dominance,
    ks_distance,
    ks_interval,
    wasserstein_log,
    wasserstein_s,
)
from meshperf.statistics.multiplicity import rank_sets
from meshperf.statistics.permutation import block_permutation_body_tail, sign_flip_test
from meshperf.statistics.quantiles import run_cdfs
from meshperf.statistics.results import Interval, StatisticsError, StatisticsWarning
from meshperf.statistics.saturation import capacity_fit
from meshperf.statistics.slopes import deployment_slopes, growth
from meshperf.statistics.steady import steadiness

EDGES = np.geomspace(1e-3, 1.0, 9)
#: CDFs of four blocks that differ, and of their baselines.
ARM = run_cdfs(
    [[1, 5, 9, 4, 2, 1, 1, 1], [2, 4, 8, 5, 2, 1, 1, 1], [1, 6, 8, 4, 3, 1, 1, 2], [1, 4, 9, 6, 2, 1, 2, 1]]
)
BASE = run_cdfs(
    [[3, 9, 6, 3, 1, 1, 1, 1], [4, 8, 5, 3, 1, 1, 1, 2], [3, 8, 7, 3, 2, 1, 1, 1], [2, 9, 6, 4, 1, 1, 1, 1]]
)
#: What compares an arm with its baseline.
PAIRED = {
    "log_ratios": lambda a, b: log_ratios(a, b, EDGES, 0.5),
    "merged_ratio_interval": lambda a, b: merged_ratio_interval(a, b, EDGES, 0.5),
    "merged_difference_interval": lambda a, b: merged_difference_interval(a, b, EDGES, 0.5),
    "resolution_bracket": lambda a, b: resolution_bracket(a, b, EDGES, 0.5),
    "shift_function": lambda a, b: shift_function(a, b, EDGES, (0.5,)),
    "ks_distance": lambda a, b: ks_distance(a, b, EDGES),
    "ks_interval": ks_interval,
    "wasserstein_log": lambda a, b: wasserstein_log(a, b, EDGES),
    "wasserstein_s": lambda a, b: wasserstein_s(a, b, EDGES),
    "ad_distance": ad_distance,
    "dominance": lambda a, b: dominance(a, b, EDGES),
    "block_permutation": lambda a, b: block_permutation_body_tail(a, np.asarray(b)[:, None]),
}
#: What takes one number per block.
PER_BLOCK = {
    "mean_interval": mean_interval,
    "log_ratio_interval": log_ratio_interval,
    "difference_interval": lambda d: difference_interval(d, np.zeros(len(d))),
    "robust_interval": robust_interval,
    "prediction_interval": prediction_interval,
    "tost": lambda d: tost(d, 0.1).interval,
    "noise_floor": lambda d: noise_floor(d).ratio,
}


def broken(cdf, value):
    cdf = np.array(cdf)
    cdf[1, 3] = value
    return cdf


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize(
    ("arm", "baseline"),
    [
        (broken(ARM, np.nan), BASE),
        (ARM, broken(BASE, np.nan)),
        (ARM[:3], BASE),
        (ARM, BASE[:, :5]),
        (ARM[0], BASE[0]),
        (np.empty((0, 8)), np.empty((0, 8))),
    ],
    ids=["NaN in the arm", "NaN in the baseline", "unequal blocks", "mismatched grids", "no blocks", "empty"],
)
def test_distributions_that_cannot_be_compared_are_refused(name, arm, baseline):
    with pytest.raises(StatisticsError):
        PAIRED[name](arm, baseline)


@pytest.mark.parametrize("name", ["merged_ratio_interval", "merged_difference_interval", "ks_interval"])
@pytest.mark.parametrize("r", [1, 2])
def test_one_run_gives_no_interval(name, r):
    found = PAIRED[name](ARM[:r], BASE[:r])
    assert not found.has_interval
    assert StatisticsWarning.TooFewBlocks in found.warnings


def test_one_run_gives_no_statement_band_or_rank():
    assert dominance(ARM[:1], BASE[:1], EDGES).statement == "undecided"
    assert np.isnan(shift_function(ARM[:1], BASE[:1], EDGES, (0.5,)).ratio_low).all()
    assert [str(rank) for rank in rank_sets([[0.0, 9.0]])] == ["1–2", "1–2"]
    test = block_permutation_body_tail(ARM[:1], BASE[:1, None])
    assert (test.body.p_value, test.body.p_min) == (1.0, 1.0)
    assert StatisticsWarning.PMinAboveAlpha in test.body.warnings
    assert aa_gate([[0.1, 0.2]]).passed is None
    assert tail_dispersion([3.0]) == np.inf


@pytest.mark.parametrize("name", ["merged_ratio_interval", "merged_difference_interval", "ks_interval"])
def test_equal_blocks_give_no_interval(name):
    found = PAIRED[name](ARM[[0, 0, 0, 0]], BASE[[0, 0, 0, 0]])
    assert not found.has_interval
    assert found.warnings == (StatisticsWarning.NotEstimable,)


@pytest.mark.parametrize("name", PER_BLOCK)
@pytest.mark.parametrize(
    "values",
    [[], [0.1], [0.1, 0.2], [0.1] * 5, [np.nan] * 4, [0.1, np.nan, 0.2, 0.3], [[0.1, 0.2, 0.3]]],
    ids=str,
)
def test_numbers_per_block_that_support_no_interval_get_none(name, values):
    try:
        found = PER_BLOCK[name](np.array(values))
    except StatisticsError:
        return
    assert isinstance(found, Interval)
    # Blocks without a number are named and left out of the noise floor alone.
    if (
        name == "noise_floor"
        and np.isfinite(values).sum() >= 3
        and np.ptp(np.array(values)[np.isfinite(values)])
    ):
        return
    assert not found.has_interval
    assert np.isnan([found.low, found.high]).all()
    assert found.warnings


@pytest.mark.parametrize("values", [[0.1], [0.1] * 5, [0.1, np.nan, 0.2]])
def test_there_is_no_p_value_without_a_test(values):
    assert np.isnan(paired_t_p(values))


@pytest.mark.parametrize(
    "counts",
    [[[1, np.nan]], [[1, -1]], [[0, 0]], [[]], [[1, np.inf]]],
    ids=["NaN", "negative", "empty", "none", "∞"],
)
def test_counts_that_are_no_histogram_are_refused(counts):
    with pytest.raises(StatisticsError):
        run_cdfs(counts)
    if counts != [[0, 0]]:
        with pytest.raises(HistogramError):
            Histogram.from_bins(np.arange(len(counts[0]) + 1.0), counts[0])
    with pytest.raises(StatisticsError):
        request_variance(counts[0], np.arange(len(counts[0]) + 1.0), 0.5, rng=np.random.default_rng(1))


def test_an_empty_histogram_has_no_number():
    empty = rebin_latencies([])
    assert np.isnan([empty.quantile(0.5), empty.mean_s]).all()


def test_a_quantile_in_a_bin_without_log_width_gives_no_interval():
    cdf = np.array([[0.9, 1.0], [0.8, 1.0], [0.95, 1.0]])
    found = merged_quantile_interval(cdf, [0.0, 1e-3, 2e-3], 0.5)
    assert np.isnan(found.estimate)
    assert found.warnings == (StatisticsWarning.NotEstimable,)


@pytest.mark.parametrize(
    "call",
    [
        lambda: rank_sets([[0.0, np.nan]]),
        lambda: sign_flip_test([0.1, np.nan]),
        lambda: aa_gate([[0.1, np.inf]]),
        lambda: variance_components([[0.1, np.nan]], 0.0),
        lambda: slice_variance([[1, -1]] * 10, [1.0, 2.0, 3.0], 0.5, rng=np.random.default_rng(1)),
        lambda: estimability([-1.0, 2.0], 100, 0.9),
        lambda: exceedances(ARM, EDGES[:-1], [10] * 4, 0.9),
        lambda: co_corrected([1, np.nan], [0.0, 1.0, 2.0], 0.1),
        lambda: capacity_fit([[1.0, 2.0]], [[0.1, np.nan]]),
        lambda: deployment_slopes([[1.0, 2.0]], [[0.1, np.nan]]),
        lambda: growth([([0.0, 1.0], [1.0, np.nan])]),
        lambda: steadiness([0.1, np.nan]),
        lambda: merged_quantile_interval(broken(ARM, np.nan), EDGES, 0.5),
        lambda: merged_quantile_interval(ARM, EDGES[:-1], 0.5),
        lambda: tost([0.1, 0.2, 0.3], -0.1),
    ],
)
def test_other_nonsense_is_refused_by_name(call):
    with pytest.raises(StatisticsError) as raised:
        call()
    assert len(str(raised.value)) > 20
