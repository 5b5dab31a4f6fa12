"""Histograms against numbers worked out by hand, and against quantiles of the raw values."""

import json

import numpy as np
import pytest

from meshperf.histogram import LOG_GRID, Histogram, HistogramError, rebin_latencies


def test_the_grid_has_bins_of_one_percent_between_ten_microseconds_and_a_minute():
    assert LOG_GRID[0] == 0
    assert LOG_GRID[1] == 1e-5
    assert LOG_GRID[-2] == 60
    assert np.isinf(LOG_GRID[-1])
    ratios = LOG_GRID[2:-1] / LOG_GRID[1:-2]
    assert ratios.max() < 1.01
    assert ratios.min() > 1.0099
    # ln(60 / 1e-5) / ln(1.01) = 1568.4
    assert len(LOG_GRID) == 1569 + 1 + 2


def test_edges_survive_twelve_digits_of_text():
    assert np.array_equal([float(f"{edge:.12g}") for edge in LOG_GRID], LOG_GRID)


def test_a_latency_on_an_edge_counts_below_it_and_zero_in_the_first_bin():
    histogram = rebin_latencies([0.0, 1.0, 1.5, 2.0, 2.1], edges_s=[0, 1, 2, 3])
    assert histogram.counts.tolist() == [2, 2, 1]
    assert (histogram.n, histogram.min_s, histogram.max_s) == (5, 0.0, 2.1)
    assert histogram.sum_s == pytest.approx(6.6)
    assert histogram.mean_s == pytest.approx(1.32)


@pytest.mark.parametrize("q", [0.01, 0.1, 0.5, 0.9, 0.99, 0.999])
def test_quantiles_of_one_percent_bins_are_those_of_the_raw_values_within_0_15_percent(q):
    latencies = np.random.default_rng(3).lognormal(np.log(0.002), 0.5, 2_000_000)
    exact = np.quantile(latencies, q, method="inverted_cdf")
    histogram = rebin_latencies(latencies)
    assert histogram.quantile(q) == pytest.approx(exact, rel=0.0015)
    low, high = histogram.quantile_bounds(q)
    assert low < exact <= high


def test_inside_a_bin_the_quantile_is_linear_in_log_latency():
    # All in (1.00, 1.04]: half way in log is sqrt(1.00 * 1.04).
    histogram = Histogram.from_bins([1.0, 1.04], [10])
    assert histogram.quantile(0.5) == pytest.approx(np.sqrt(1.04))
    # Cut at the extremes: sqrt(1.01 * 1.03).
    cut = Histogram.from_bins([1.0, 1.04], [10], min_s=1.01, max_s=1.03)
    assert cut.quantile(0.5) == pytest.approx(np.sqrt(1.01 * 1.03))
    assert cut.quantile_bounds(0.5) == (1.01, 1.03)


def test_wide_bins_follow_a_monotone_cubic_that_knows_the_neighbours():
    latencies = np.random.default_rng(5).lognormal(np.log(0.002), 0.4, 400_000)
    edges = np.array([0.0001, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.02])
    histogram = rebin_latencies(latencies, edges)
    assert histogram.has_wide_bins
    # Log-linear inside (0.003, 0.004] would be about 1.5 % off at p90.
    assert histogram.quantile(0.9) == pytest.approx(np.quantile(latencies, 0.9), rel=0.006)


def test_merging_adds_counts_and_keeps_extremes():
    a = rebin_latencies([0.001, 0.002])
    b = rebin_latencies([0.0005, 0.002, 0.9])
    merged = Histogram.merge([a, b])
    assert merged.n == 5
    assert np.array_equal(merged.counts, a.counts + b.counts)
    assert (merged.min_s, merged.max_s) == (0.0005, 0.9)
    assert merged.sum_s == pytest.approx(0.9055)


def test_merging_different_grids_is_refused():
    with pytest.raises(HistogramError, match="different grids"):
        Histogram.merge([rebin_latencies([1.0], [0, 2]), rebin_latencies([1.0], [0, 3])])
    with pytest.raises(HistogramError, match="no histogram"):
        Histogram.merge([])


def test_cdf_and_ccdf_are_complements_between_the_extremes():
    histogram = Histogram.from_bins([0, 1, 2, 3, 4], [0, 3, 0, 1], min_s=1.5, max_s=3.25)
    latency, share = histogram.cdf()
    assert latency.tolist() == [1.5, 2, 3, 3.25]
    assert share.tolist() == [0, 0.75, 0.75, 1]
    same, above = histogram.ccdf()
    assert same.tolist() == latency.tolist()
    assert above.tolist() == [1, 0.25, 0.25, 0]


def test_round_trip_through_json():
    histogram = rebin_latencies([1e-6, 0.002, 0.0021, 100.0])
    again = Histogram.from_dict(json.loads(json.dumps(histogram.to_dict())))
    assert np.array_equal(again.edges_s, histogram.edges_s)
    assert np.array_equal(again.counts, histogram.counts)
    assert (again.min_s, again.max_s, again.sum_s, again.n) == (1e-6, 100.0, histogram.sum_s, 4)


def test_an_empty_histogram_has_no_numbers():
    histogram = rebin_latencies([])
    assert histogram.n == 0
    assert np.isnan([histogram.quantile(0.5), *histogram.quantile_bounds(0.5), histogram.mean_s]).all()
    assert histogram.cdf()[0].size == 0
    assert Histogram.merge([histogram, rebin_latencies([0.001])]).min_s == 0.001
    assert Histogram.from_dict(json.loads(json.dumps(histogram.to_dict()))).n == 0


def test_a_histogram_of_one_value_has_that_quantile():
    histogram = rebin_latencies([0.00123] * 7)
    assert histogram.quantile(0.5) == 0.00123
    assert histogram.quantile_bounds(0.99) == (0.00123, 0.00123)


@pytest.mark.parametrize(
    ("edges", "counts", "extremes", "message"),
    [
        ([0, 1, 2], [1], {}, "needs 2 edges"),
        ([0, 1], [-1], {}, "none negative"),
        ([0, 1], [0.5], {}, "whole numbers"),
        ([0, 1], [np.nan], {}, "whole numbers"),
        ([0, 1, 1], [1, 1], {}, "ascend strictly"),
        ([0, np.nan], [1], {}, "ascend strictly"),
        ([-1, 1], [1], {}, "from 0"),
        ([0, 1, 2], [1, 0], {"min_s": 1.5}, "smallest latency"),
        ([0, 1, 2], [1, 1], {"max_s": 0.5}, "largest latency"),
    ],
)
def test_impossible_histograms_are_refused(edges, counts, extremes, message):
    with pytest.raises(HistogramError, match=message):
        Histogram.from_bins(edges, counts, **extremes)


@pytest.mark.parametrize("latencies", [[np.nan], [-1.0], [np.inf]])
def test_impossible_latencies_are_refused(latencies):
    with pytest.raises(HistogramError, match="finite"):
        rebin_latencies(latencies)


def test_damaged_storage_is_refused():
    stored = rebin_latencies([0.001]).to_dict()
    with pytest.raises(HistogramError, match="n = 2"):
        Histogram.from_dict({**stored, "n": 2})
    del stored["counts"]
    with pytest.raises(HistogramError, match="damaged"):
        Histogram.from_dict(stored)


@pytest.mark.parametrize("q", [0, 1, -0.1, 50])
def test_a_quantile_is_a_share(q):
    with pytest.raises(HistogramError, match="between 0 and 1"):
        rebin_latencies([0.001]).quantile(q)
