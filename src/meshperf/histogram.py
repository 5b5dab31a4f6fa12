"""Latency histograms: exact counts on a fixed grid, and what can be read from them.

A histogram knows more than its bins: the smallest and the largest latency are kept, and they cut the first
and the last occupied bin to size. Two histograms on one grid merge without loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PchipInterpolator

from meshperf.errors import MeshperfError
from meshperf.statistics.quantiles import WIDE_BIN_RATIO, best_log_quantile, quantile_bounds

LOG_GRID_LOW_S = 1e-5
LOG_GRID_HIGH_S = 60.0
_LOG_GRID_BINS = int(np.ceil(np.log(LOG_GRID_HIGH_S / LOG_GRID_LOW_S) / np.log(1.01)))


def _log_grid() -> NDArray[np.float64]:
    inner = np.geomspace(LOG_GRID_LOW_S, LOG_GRID_HIGH_S, _LOG_GRID_BINS + 1)
    # Twelve digits survive any text file; the edges are compared after a round trip.
    inner = np.array([float(f"{edge:.12g}") for edge in inner])
    return np.concatenate([[0.0], inner, [np.inf]])


#: Edges in seconds of the study-wide grid: underflow bin, 1569 bins of 1 % from 10 µs to 60 s, overflow bin.
LOG_GRID: NDArray[np.float64] = _log_grid()
LOG_GRID.flags.writeable = False


class HistogramError(MeshperfError):
    """A histogram that cannot be: negative or fractional counts, unsorted edges, different grids."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of latencies on a fixed grid; a bin holds what is above its left and at or below its right edge.

    Attributes
    ----------
    edges_s : ndarray of float, shape (n_bins + 1,)
        Strictly ascending, in seconds; the last may be infinite.
    counts : ndarray of int64, shape (n_bins,)
    min_s, max_s : float
        Smallest and largest latency in seconds; NaN when there is none.
    sum_s : float
        Sum of the latencies in seconds; NaN when the source does not tell.
    n : int
        Number of latencies, the sum of the counts.
    """

    edges_s: NDArray[np.float64]
    counts: NDArray[np.int64]
    min_s: float
    max_s: float
    sum_s: float
    n: int

    @classmethod
    def from_bins(
        cls,
        edges_s: ArrayLike,
        counts: ArrayLike,
        *,
        min_s: float | None = None,
        max_s: float | None = None,
        sum_s: float | None = None,
    ) -> Histogram:
        """Build from edges and counts.

        Parameters
        ----------
        edges_s : array_like, shape (n_bins + 1,)
            Seconds, strictly ascending, not negative; the last may be infinite.
        counts : array_like, shape (n_bins,)
            Whole numbers, not negative.
        min_s, max_s : float, optional
            Smallest and largest latency; left out, they are the outer edges of the occupied bins.
        sum_s : float, optional
            Sum of all latencies.

        Raises
        ------
        HistogramError
            When the bins are not a histogram, or `min_s` and `max_s` lie outside the occupied bins.
        """
        edges = np.array(edges_s, dtype=float)
        raw = np.array(counts, dtype=float)
        if edges.ndim != 1 or raw.ndim != 1 or raw.size == 0 or edges.size != raw.size + 1:
            raise HistogramError(
                f"a histogram of {raw.size} bins needs {raw.size + 1} edges, not {edges.size}"
            )
        if np.isnan(edges).any() or not (np.diff(edges) > 0).all() or edges[0] < 0:
            raise HistogramError("the edges of a histogram must ascend strictly from 0 or more, without NaN")
        if not np.isfinite(raw).all() or (raw < 0).any() or (raw != np.floor(raw)).any():
            raise HistogramError("the counts of a histogram must be whole numbers, none negative")
        whole = raw.astype(np.int64)
        n = int(whole.sum())
        if n == 0:
            return cls(_frozen(edges), _frozen(whole), np.nan, np.nan, 0.0, 0)
        occupied = np.flatnonzero(whole)
        first, last = occupied[0], occupied[-1]
        low = float(edges[first]) if min_s is None else float(min_s)
        high = float(edges[last + 1]) if max_s is None else float(max_s)
        slack = 1e-9
        if not edges[first] * (1 - slack) <= low <= edges[first + 1] * (1 + slack):
            raise HistogramError(f"the smallest latency {low:g} s is not in the first occupied bin")
        if not edges[last] * (1 - slack) <= high <= edges[last + 1] * (1 + slack) or high < low:
            raise HistogramError(f"the largest latency {high:g} s is not in the last occupied bin")
        total = np.nan if sum_s is None else float(sum_s)
        return cls(_frozen(edges), _frozen(whole), low, high, total, n)

    @classmethod
    def merge(cls, histograms: Iterable[Histogram]) -> Histogram:
        """Add histograms of one grid, exactly: counts, extremes and sums.

        Raises
        ------
        HistogramError
            When there is nothing to merge or the grids differ; re-bin the raw latencies instead.
        """
        parts = list(histograms)
        if not parts:
            raise HistogramError("there is no histogram to merge")
        edges = parts[0].edges_s
        if any(not np.array_equal(part.edges_s, edges) for part in parts):
            raise HistogramError("histograms on different grids cannot be merged without loss")
        counts = np.sum([part.counts for part in parts], axis=0)
        n = int(counts.sum())
        if n == 0:
            return cls.from_bins(edges, counts)
        filled = [part for part in parts if part.n]
        return cls(
            edges,
            _frozen(counts),
            min(part.min_s for part in filled),
            max(part.max_s for part in filled),
            float(sum(part.sum_s for part in filled)),
            n,
        )

    @property
    def mean_s(self) -> float:
        """Mean latency in seconds; NaN when empty or when the source does not tell the sum."""
        return self.sum_s / self.n if self.n else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; an infinite edge or an unknown number becomes None."""

        def plain(value: float) -> float | None:
            return float(value) if np.isfinite(value) else None

        return {
            "edges_s": [plain(edge) for edge in self.edges_s],
            "counts": [int(count) for count in self.counts],
            "min_s": plain(self.min_s),
            "max_s": plain(self.max_s),
            "sum_s": plain(self.sum_s),
            "n": self.n,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Histogram:
        """Inverse of :meth:`to_dict`.

        Raises
        ------
        HistogramError
            For a missing field, or an `n` that is not the sum of the counts.
        """
        try:
            edges = [np.inf if edge is None else edge for edge in data["edges_s"]]
            bounds = {key: data[key] for key in ("min_s", "max_s", "sum_s")}
            histogram = cls.from_bins(edges, data["counts"], **bounds)
            n = int(data["n"])
        except (KeyError, TypeError, ValueError) as error:
            raise HistogramError(f"the stored histogram is damaged: {error}") from error
        if n != histogram.n:
            raise HistogramError(f"the stored histogram says n = {n}, its counts add up to {histogram.n}")
        return histogram

    def spread(self, edges_s: ArrayLike) -> Histogram:
        """Put the counts on other bins, where the own ones are too wide or lie differently.

        Parameters
        ----------
        edges_s : array_like, shape (n_bins + 1,)
            Seconds, strictly ascending from 0, the last infinite.

        Returns
        -------
        Histogram
            Of as many latencies, with the same extremes and sum.

        Notes
        -----
        Between the own edges, which are exact, the number of latencies at or below runs along a monotone cubic
        (PCHIP: Fritsch and Carlson 1980) of log latency, rounded to whole numbers. It is an estimate there.

        Raises
        ------
        HistogramError
            When the latencies do not lie within the edges.
        """
        edges = np.asarray(edges_s, dtype=float)
        if self.n == 0:
            return Histogram.from_bins(edges, np.zeros(edges.size - 1))
        if self.min_s < edges[0] or self.max_s > edges[-1]:
            raise HistogramError("a latency lies outside the grid")
        latencies, shares = self.cdf()
        x = np.log(np.maximum(latencies, np.finfo(float).tiny))
        last = np.append(np.diff(x) > 0, True)
        x, known = x[last], shares[last] * self.n
        at = np.clip(np.log(np.maximum(edges, np.finfo(float).tiny)), x[0], x[-1])
        cumulative = (
            np.round(PchipInterpolator(x, known)(at)) if x.size > 1 else np.full(edges.size, float(self.n))
        )
        # The smallest and the largest latency are in their own bins.
        cumulative = np.clip(cumulative, 1, self.n - 1) if self.n > 1 else cumulative
        cumulative[edges < self.min_s] = 0
        cumulative[edges >= self.max_s] = self.n
        bounds = {"min_s": self.min_s, "max_s": self.max_s, "sum_s": self.sum_s}
        return Histogram.from_bins(edges, np.diff(cumulative), **bounds)

    def _occupied(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Cumulative shares and edges from the first to the last occupied bin, cut to [min_s, max_s]."""
        occupied = np.flatnonzero(self.counts)
        first, last = occupied[0], occupied[-1]
        edges = self.edges_s[first : last + 2].copy()
        counts = self.counts[first : last + 1]
        edges[0], edges[-1] = max(edges[0], self.min_s), min(edges[-1], self.max_s)
        shares = np.cumsum(counts) / self.n
        shares[-1] = 1.0
        return shares, edges

    def quantile(self, q: float) -> float:
        """Estimate the q-quantile in seconds; NaN when empty, or where the bin starts at 0 or has no end.

        Parameters
        ----------
        q : float
            In (0, 1).

        Notes
        -----
        Smallest bin with F >= q; inside it linear in log latency, or along a monotone cubic (PCHIP) of F
        against log latency where bins are wider than 5 %. The first and last occupied bins are cut at the
        smallest and largest latency.
        """
        low, high = self.quantile_bounds(q)
        if not high > low:
            return high
        if low <= 0 or np.isinf(high):
            return float("nan")
        cdf, edges = self._occupied()
        value = float(np.exp(best_log_quantile(cdf, edges, q)))
        return min(max(value, low), high)

    def quantile_bounds(self, q: float) -> tuple[float, float]:
        """Edges in seconds of the bin that holds the q-quantile: what binning hides; NaN when empty."""
        if not 0 < q < 1:
            raise HistogramError(f"a quantile is between 0 and 1, not {q}")
        if self.n == 0:
            return float("nan"), float("nan")
        cdf, edges = self._occupied()
        low, high = quantile_bounds(cdf, edges, q)
        return float(low), float(high)

    def cdf(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Points of the cumulative distribution: latencies in seconds and the share at or below each.

        Returns
        -------
        latency_s, share : ndarray, shape (m + 1,)
            From the smallest latency (share 0) over the right edge of every bin in between to the largest
            (share 1); empty for an empty histogram.
        """
        if self.n == 0:
            return np.empty(0), np.empty(0)
        shares, edges = self._occupied()
        return edges, np.concatenate([[0.0], shares])

    def ccdf(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Like :meth:`cdf` with the share *above* each latency, from counts, so that the tail is exact."""
        if self.n == 0:
            return np.empty(0), np.empty(0)
        edges, _ = self.cdf()
        occupied = np.flatnonzero(self.counts)
        counts = self.counts[occupied[0] : occupied[-1] + 1]
        return edges, np.concatenate([[self.n], self.n - np.cumsum(counts)]) / self.n

    @property
    def has_wide_bins(self) -> bool:
        """Whether any bin of finite log width is wider than 5 %: bounds then matter more than estimates."""
        finite = self.edges_s[(self.edges_s > 0) & np.isfinite(self.edges_s)]
        return bool(finite.size > 1 and (finite[1:] / finite[:-1] > WIDE_BIN_RATIO).any())


def on_one_grid(histograms: Iterable[Histogram]) -> bool:
    """Return whether no occupied bin of one histogram is cut by an edge of another's."""
    bins = [
        (histogram.edges_s[:-1][histogram.counts > 0], histogram.edges_s[1:][histogram.counts > 0])
        for histogram in histograms
    ]
    if not bins:
        return True
    low, high = np.concatenate([low for low, _ in bins]), np.concatenate([high for _, high in bins])
    edges = np.unique(np.concatenate([low, high]))
    # Edges that differ by their rounding are one.
    inner_low = np.searchsorted(edges, low * (1 + 1e-9), side="right")
    inner_high = np.searchsorted(edges, high * (1 - 1e-9), side="left")
    return bool((inner_high <= inner_low).all())


def _frozen(array: NDArray) -> NDArray:
    array = np.array(array)
    array.flags.writeable = False
    return array


def rebin_latencies(latencies_s: ArrayLike, edges_s: ArrayLike = LOG_GRID) -> Histogram:
    """Histogram of single latencies on a grid, by default the study-wide :data:`LOG_GRID`.

    Parameters
    ----------
    latencies_s : array_like, shape (n,)
        Seconds, not negative.
    edges_s : array_like, shape (n_bins + 1,)

    Returns
    -------
    Histogram
        With exact minimum, maximum and sum. A latency on an edge counts in the bin below it; 0 in the first
        bin.

    Raises
    ------
    HistogramError
        For NaN, negative or infinite latencies, or any beyond the outer edges.
    """
    latencies = np.asarray(latencies_s, dtype=float).ravel()
    edges = np.asarray(edges_s, dtype=float)
    if latencies.size == 0:
        return Histogram.from_bins(edges, np.zeros(edges.size - 1))
    if not np.isfinite(latencies).all() or latencies.min() < 0:
        raise HistogramError("latencies must be finite and not negative")
    if latencies.min() < edges[0] or latencies.max() > edges[-1]:
        raise HistogramError("a latency lies outside the grid")
    index = np.maximum(np.searchsorted(edges, latencies, side="left") - 1, 0)
    counts = np.bincount(index, minlength=edges.size - 1)
    return Histogram.from_bins(
        edges, counts, min_s=latencies.min(), max_s=latencies.max(), sum_s=float(latencies.sum())
    )
