"""Fortio's buckets: its grid, how a file states them, and the latencies of the requests that succeeded."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshperf.histogram import Histogram
from meshperf.loadgen.result import ResultError

#: Upper edges of fortio's buckets in units of the resolution (``histogramBucketValues``); one overflow
# follows.
GRID = (
    *range(12),
    *(12, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90, 100, 120, 140, 160, 180, 200),
    *(250, 300, 350, 400, 450, 500, 600, 700, 800, 900, 1000),
    *(2000, 3000, 4000, 5000, 7500, 10000, 20000, 30000, 40000, 50000, 75000, 100000),
)  # fmt: skip
_GAPS = sorted(set(np.diff(GRID).tolist()))
_BIN = np.dtype([("start_s", "f8"), ("end_s", "f8"), ("percent", "f8"), ("count", "i8")])


class FortioError(ResultError):
    """A result or an access log that fortio did not write whole."""


def grid_edges(resolution_s: float, offset_s: float = 0.0) -> NDArray[np.float64]:
    """Edges in seconds of fortio's grid for a resolution (``-r``) and an offset (``-offset``).

    Returns
    -------
    ndarray
        From 0 to infinity. Fortio's first bucket, "at or below the offset", is [0, offset]; without an offset
        it can only hold latencies of 0, which count in the bucket above it.
    """
    if not resolution_s > 0 or not offset_s >= 0:
        raise FortioError(
            f"fortio's resolution must be above 0 and its offset not below, not {resolution_s}, {offset_s}"
        )
    edges = np.array(GRID, dtype=float) * resolution_s + offset_s
    head = [0.0] if offset_s > 0 else []
    return np.concatenate([head, edges, [np.inf]])


def read_bins(data: Mapping[str, Any]) -> NDArray[np.void]:
    """Return the buckets of a ``DurationHistogram`` as written, fields start_s, end_s, percent, count.

    Early Nighthawk, which wrote counts as strings, left out the bucket of the smallest latency: it is put back.

    Raises
    ------
    ValueError, KeyError, TypeError
        If they are not buckets, or do not add up to the count.
    """
    rows = data.get("Data") or []
    bins = np.array(
        [(float(r["Start"]), float(r["End"]), float(r["Percent"]), int(r["Count"])) for r in rows], dtype=_BIN
    )
    n = int(data["Count"])
    if bins.size == 0 and n:
        raise ValueError(f"it counts {n} requests and has no histogram")
    if n < 0 or (bins["count"] < 0).any():
        raise ValueError("a count is negative")
    if any(not np.isfinite(bins[name]).all() or (bins[name] < 0).any() for name in ("start_s", "end_s")):
        raise ValueError("a bucket's edge is negative or not a number")
    total = int(bins["count"].sum())
    if total > n or (total < n and not isinstance(data["Count"], str)):
        raise ValueError(f"the buckets add up to {total}, the count is {n}")
    if total < n:
        low = bins["start_s"][0]
        bins = np.concatenate([np.array([(low, low, 0.0, n - total)], dtype=_BIN), bins])
    # The smallest latency may exceed its bucket's end by the rounding of that end.
    slack = 1e-9 * bins["end_s"]
    if (bins["end_s"] < bins["start_s"] - slack).any() or (np.diff(bins["start_s"]) < -slack[1:]).any():
        raise ValueError("the buckets are not in order")
    return bins


def is_cumulative(bins: NDArray[np.void], n: int) -> bool:
    """Return whether each bucket's percent is the share counted so far: fortio's is, Nighthawk's is not."""
    cumulative = 100.0 * np.cumsum(bins["count"]) / max(n, 1)
    return bool(np.allclose(bins["percent"], cumulative, rtol=1e-9, atol=0))


def infer_resolution(bins: NDArray[np.void]) -> float | None:
    """Return the largest resolution on whose grid all of fortio's buckets lie, or None if none is known.

    Versions before 1.38, gRPC, TCP and UDP do not write their ``-r``. Every edge but the outermost two is one
    of the grid, and a bucket between two of them is one of its cells, so that a grid which fits holds the
    same counts as the true one, whichever that was.
    """
    if bins.size < 3:
        return None
    inner = bins[1:-1]
    width = float((inner["end_s"] - inner["start_s"]).min())
    if not width > 0:
        return None
    for gap in _GAPS:
        resolution = float(f"{width / gap:.9g}")
        if _fits(bins, resolution):
            return resolution
    return None


def _fits(bins: NDArray[np.void], resolution_s: float) -> bool:
    edges = grid_edges(resolution_s)
    index = _grid_index(bins, edges, resolution_s, 0.0)
    if index is None or not np.allclose(edges[index[1:]], bins["start_s"][1:], rtol=1e-9, atol=1e-15):
        return False
    smallest, largest = bins["start_s"][0], bins["end_s"][-1]
    return bool(edges[index[0]] <= smallest and largest <= edges[index[-1] + 1] * (1 + 1e-9))


def successes(
    data: Mapping[str, Any],
    bins: NDArray[np.void],
    errors: Mapping[str, Any],
    error_bins: NDArray[np.void],
    resolution_s: float | None,
    offset_s: float,
) -> Histogram:
    """Histogram of the requests that did not fail, on the whole grid if the buckets lie on it."""
    edges, index = None, None
    if resolution_s is not None:
        edges = grid_edges(resolution_s, offset_s)
        index = _grid_index(bins, edges, resolution_s, offset_s)
    if edges is None or index is None:
        edges, index = _own_edges(bins)
    counts = np.bincount(index, weights=bins["count"], minlength=edges.size - 1).astype(np.int64)
    if bins.size == 0:
        return Histogram.from_bins(edges, counts)
    low = float(data.get("Min", bins["start_s"][0]))
    high = float(data.get("Max", bins["end_s"][-1]))
    total = data.get("Sum")
    if error_bins.size:
        # An error's bucket is on the same grid and inside a bucket of all requests: its right end tells
        # which.
        position = np.searchsorted(bins["end_s"], error_bins["end_s"] * (1 - 1e-12), side="left")
        np.subtract.at(counts, index[np.minimum(position, bins.size - 1)], error_bins["count"])
        if (counts < 0).any():
            raise ValueError("it has a bucket with more errors than requests")
        total = None if total is None else float(total) - float(errors["Sum"])
        low, high = _success_bounds(edges, counts, low, high, errors)
    return Histogram.from_bins(edges, counts, min_s=low, max_s=high, sum_s=total)


def _success_bounds(
    edges: NDArray, counts: NDArray, low: float, high: float, errors: Mapping[str, Any]
) -> tuple[float | None, float | None]:
    """Smallest and largest latency of the successes: known unless an error had the same extreme."""
    occupied = np.flatnonzero(counts)
    if occupied.size == 0:
        return None, None
    first, last = occupied[0], occupied[-1]
    low_out = low if low < float(errors["Min"]) else max(float(edges[first]), low)
    high_out = high if high > float(errors["Max"]) else min(float(edges[last + 1]), high)
    return low_out, high_out


def _bucket(latency_s: float, resolution_s: float, offset_s: float) -> int:
    """Find fortio's bucket of a latency (``Histogram.record`` in ``stats/stats.go``), its rounding included."""
    scaled = (latency_s - offset_s) / resolution_s
    if scaled <= GRID[0]:
        return 0
    if scaled > GRID[-1]:
        return len(GRID)
    whole = int(scaled)
    if scaled - whole < 1e-12:
        whole -= 1
    return bisect.bisect_right(GRID, whole)


def _grid_index(
    bins: NDArray[np.void], edges: NDArray[np.float64], resolution_s: float, offset_s: float
) -> NDArray[np.intp] | None:
    """Index on the grid of every bucket; None when the buckets do not lie on this grid."""
    if bins.size == 0:
        return np.empty(0, dtype=np.intp)
    # All right ends but the last are grid edges; the last is the largest latency, within the last bucket.
    inner = np.abs(edges[:-1][None, :] - bins["end_s"][:-1, None]).argmin(axis=1)
    if not np.allclose(edges[inner], bins["end_s"][:-1], rtol=1e-9, atol=1e-15):
        return None
    if bins.size > 1:
        start = np.abs(edges[:-1] - bins["start_s"][-1]).argmin()
        if not np.isclose(edges[start], bins["start_s"][-1], rtol=1e-9, atol=1e-15):
            return None
        last = start
    else:
        last = _bucket(bins["end_s"][-1], resolution_s, offset_s) - (offset_s == 0)
    index = np.append(inner - 1, last)
    index = np.maximum(index, 0)
    return index if (np.diff(index) >= 0).all() else None


def _own_edges(bins: NDArray[np.void]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Edges made of the file's own buckets, and the index of each; gaps become empty bins.

    A bucket of no width (Nighthawk) holds latencies equal to its edge, which belong to the bin that ends
    there, or at the very start to the first bin.
    """
    if bins.size == 0:
        return np.array([0.0, np.inf]), np.empty(0, dtype=np.intp)
    edges = np.unique(np.concatenate([bins["start_s"], bins["end_s"]]))
    if edges.size == 1:
        edges = np.array([np.nextafter(edges[0], 0.0), edges[0]])
    index = np.searchsorted(edges, bins["end_s"], side="left") - 1
    return edges, np.maximum(index, 0)
