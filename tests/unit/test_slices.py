"""The time course of a run, cut from an access log."""

import gzip

import numpy as np

from meshperf import slices
from meshperf.histogram import LOG_GRID
from meshperf.loadgen.access_log import AccessLog


def _log(start_s, latency_s, ok=None):
    n = len(start_s)
    ok = np.ones(n, bool) if ok is None else np.array(ok)
    return AccessLog(np.array(start_s), np.array(latency_s), np.full(n, 200), ok, 0.0)


def test_a_request_counts_in_the_slice_in_which_it_was_sent():
    counts = slices.slice_counts(_log([0.0, 4.999, 5.0, 9.9], [0.001, 3.0, 0.002, 0.002]), 5, 10)
    assert counts.sum(axis=1).tolist() == [2, 2]
    (low,) = np.flatnonzero(counts[1])
    assert LOG_GRID[low] < 0.002 <= LOG_GRID[low + 1]
    assert counts[1, low] == 2


def test_requests_after_the_last_whole_slice_count_in_it():
    # With -uniform the last requests are sent a little after the asked duration.
    assert slices.slice_counts(_log([1.0, 10.02], [0.001, 0.001]), 5, 10).sum(axis=1).tolist() == [1, 1]


def test_failed_requests_have_no_latency():
    assert slices.slice_counts(_log([0, 1], [0.001, 0.001], [True, False]), 5, 5).sum() == 1


def test_only_what_holds_something_is_written():
    counts = slices.slice_counts(_log([0.0, 6.0, 6.1], [0.001, 0.001, 0.001]), 5, 10)
    lines = gzip.decompress(slices.to_csv_gz(counts, 5)).decode().splitlines()
    assert lines[0] == "slice,start_s,bin_low_s,bin_high_s,count"
    assert [line.split(",")[0::4] for line in lines[1:]] == [["0", "1"], ["1", "2"]]
    assert lines[2].split(",")[1] == "5"
