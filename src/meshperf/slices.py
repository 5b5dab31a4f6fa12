"""The time course of a run: one histogram per slice of a few seconds, from the load generator's access log.

The log itself is not kept: every request's time and latency would be a hundred times the size of its histograms.
"""

import csv
import gzip
import io

import numpy as np

from meshperf.histogram import LOG_GRID
from meshperf.loadgen.access_log import AccessLog
from meshperf.runs import SLICES_COLUMNS


def slice_counts(log: AccessLog, slice_s: float, duration_s: float) -> np.ndarray:
    """Return the counts of successful requests per slice and bin.

    Parameters
    ----------
    log : AccessLog
        Every request of a run.
    slice_s : float
        Length of a slice in seconds. Requests of an incomplete last slice count in the one before.
    duration_s : float
        Length of the run in seconds.

    Returns
    -------
    ndarray of int, shape (n_slices, n_bins)
        On the study-wide grid; a request belongs to the slice in which it was sent.
    """
    n_slices = max(1, int(round(duration_s / slice_s, 6)))
    index = np.minimum((log.start_offset_s[log.ok] / slice_s).astype(int), n_slices - 1)
    bins = np.maximum(np.searchsorted(LOG_GRID, log.latency_s[log.ok], side="left") - 1, 0)
    counts = np.zeros((n_slices, LOG_GRID.size - 1), dtype=np.int64)
    np.add.at(counts, (index, bins), 1)
    return counts


def to_csv_gz(counts: np.ndarray, slice_s: float) -> bytes:
    """Return the counts as they are kept: one row per slice and bin that holds anything."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(SLICES_COLUMNS)
    for number, position in zip(*np.nonzero(counts), strict=True):
        low, high = LOG_GRID[position], LOG_GRID[position + 1]
        writer.writerow(
            [number, f"{number * slice_s:g}", repr(float(low)), repr(float(high)), counts[number, position]]
        )
    return gzip.compress(text.getvalue().encode(), mtime=0)
