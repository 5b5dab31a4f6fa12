"""What holds for every histogram, and for every fortio result made of one."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from meshperf.histogram import LOG_GRID, Histogram, rebin_latencies
from meshperf.loadgen.fortio import percentile, read_result
from meshperf.loadgen.fortio_buckets import GRID, grid_edges

QUANTILES = st.floats(0.001, 0.999)
LATENCIES = st.lists(st.floats(2e-5, 50), min_size=1, max_size=60)
EDGES = np.array([0.0, 1e-4, 2e-4, 3e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 1e-1, 1.0, 10.0, 60.0])
COUNTS = npst.arrays(np.int64, 12, elements=st.integers(0, 1000))
HISTOGRAMS = COUNTS.map(lambda counts: Histogram.from_bins(EDGES, counts))
#: Without requests in the bin that starts at 0, and with one at least.
FILLED = npst.arrays(np.int64, 11, elements=st.integers(0, 1000)).map(
    lambda counts: Histogram.from_bins(EDGES, np.append(0, counts + (counts.sum() == 0)))
)


def same(a, b):
    assert np.array_equal(a.counts, b.counts)
    assert (a.n, a.min_s, a.max_s) == (b.n, b.min_s, b.max_s) or a.n == b.n == 0


@given(HISTOGRAMS, HISTOGRAMS, HISTOGRAMS)
def test_merging_is_associative_commutative_and_keeps_counts(a, b, c):
    left = Histogram.merge([Histogram.merge([a, b]), c])
    same(left, Histogram.merge([a, Histogram.merge([b, c])]))
    same(left, Histogram.merge([c, b, a]))
    assert left.n == a.n + b.n + c.n == left.counts.sum()


@given(LATENCIES, LATENCIES)
def test_merging_is_binning_everything_together(a, b):
    merged = Histogram.merge([rebin_latencies(a), rebin_latencies(b)])
    same(merged, rebin_latencies(a + b))


@settings(deadline=None)
@given(FILLED, QUANTILES, QUANTILES)
def test_quantiles_are_monotone_and_inside_their_bin(histogram, p, q):
    low, high = min(p, q), max(p, q)
    assert histogram.quantile(low) <= histogram.quantile(high) * (1 + 1e-9)
    left, right = histogram.quantile_bounds(q)
    assert left <= histogram.quantile(q) <= right
    assert histogram.min_s <= left
    assert right <= histogram.max_s


@given(LATENCIES, QUANTILES)
def test_the_sample_quantile_lies_in_the_bin(latencies, q):
    left, right = rebin_latencies(latencies).quantile_bounds(q)
    assert left <= np.quantile(latencies, q, method="inverted_cdf") <= right


@settings(deadline=None)
@given(FILLED, QUANTILES, st.floats(0.01, 100))
def test_scaling_latencies_scales_quantiles(histogram, q, factor):
    scaled = Histogram.from_bins(EDGES * factor, histogram.counts)
    assert np.isclose(scaled.quantile(q), histogram.quantile(q) * factor, rtol=1e-6)


@settings(deadline=None)
@given(FILLED, QUANTILES, st.integers(2, 1000))
def test_scaling_counts_changes_no_quantile(histogram, q, factor):
    more = Histogram.from_bins(EDGES, histogram.counts * factor)
    assert np.isclose(more.quantile(q), histogram.quantile(q), rtol=1e-9)


@settings(deadline=None)
@given(LATENCIES, QUANTILES)
def test_wider_bins_never_narrow_the_bounds(latencies, q):
    fine = rebin_latencies(latencies).quantile_bounds(q)
    # Every second edge of the grid.
    coarse_edges = np.append(LOG_GRID[:-1:2], np.inf)
    coarse = rebin_latencies(latencies, coarse_edges).quantile_bounds(q)
    assert coarse[0] <= fine[0]
    assert coarse[1] >= fine[1]


@given(HISTOGRAMS)
def test_the_cdf_rises_from_zero_to_one_and_the_ccdf_is_its_complement(histogram):
    latency, share = histogram.cdf()
    same_latency, above = histogram.ccdf()
    assert (np.diff(share) >= 0).all()
    assert np.array_equal(latency, same_latency)
    assert np.allclose(share + above, 1)
    if histogram.n:
        assert (share[0], share[-1], above[0], above[-1]) == (0, 1, 1, 0)


@given(HISTOGRAMS)
def test_json_round_trip(histogram):
    again = Histogram.from_dict(json.loads(json.dumps(histogram.to_dict())))
    same(again, histogram)
    assert np.array_equal(again.edges_s, histogram.edges_s)


def fortio_buckets(latencies, resolution_s):
    """Sort latencies into buckets as ``Histogram.record`` of fortio's stats/stats.go does, its rounding included."""
    scaled = np.array(latencies) / resolution_s
    whole = np.floor(scaled)
    whole[scaled - whole < 1e-12] -= 1
    index = np.searchsorted(GRID, whole, side="right") - 1
    return np.where(scaled > GRID[-1], len(GRID) - 1, index)


def fortio_document(latencies, resolution_s):
    """Export latencies as ``Histogram.Export`` of fortio's stats/stats.go does."""
    edges = grid_edges(resolution_s)
    occupied, counts = np.unique(fortio_buckets(latencies, resolution_s), return_counts=True)
    shares = 100.0 * np.cumsum(counts) / len(latencies)
    data = [
        {"Start": edges[i], "End": edges[i + 1], "Percent": share, "Count": int(count)}
        for i, share, count in zip(occupied, shares, counts, strict=True)
    ]
    data[0]["Start"], data[-1]["End"] = min(latencies), max(latencies)
    return {
        "RequestedQPS": "100",
        "ActualQPS": 100.0,
        "ActualDuration": 10**9,
        "NumThreads": 4,
        "Resolution": resolution_s,
        "Offset": 0,
        "DurationHistogram": {
            "Count": len(latencies),
            "Min": min(latencies),
            "Max": max(latencies),
            "Sum": sum(latencies),
            "Data": data,
        },
    }


@settings(deadline=None)
@given(LATENCIES, st.sampled_from([1e-3, 1e-4, 5e-5, 1e-6]), st.floats(0.1, 100))
def test_fortio_results_find_their_bins_again(latencies, resolution_s, p):
    result = read_result(json.dumps(fortio_document(latencies, resolution_s)).encode())
    assert result.dialect == "fortio"
    expected = np.bincount(fortio_buckets(latencies, resolution_s), minlength=len(GRID))
    assert np.array_equal(result.histogram.counts, expected)
    assert min(latencies) * (1 - 1e-12) <= percentile(result, p) <= max(latencies) * (1 + 1e-12)
