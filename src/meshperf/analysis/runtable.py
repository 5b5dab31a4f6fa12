"""The histograms of all runs of a campaign on one grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from meshperf.errors import MeshperfError
from meshperf.histogram import LOG_GRID
from meshperf.statistics.quantiles import run_cdfs

#: What tells the runs of one campaign apart.
RUN = ["mesh", "configuration", "target_rps", "block", "deployment"]


@dataclass(frozen=True, eq=False)
class RunTable:
    """Runs with their histograms on one grid.

    Attributes
    ----------
    runs : DataFrame
        ``runs_df`` with a range index, the row numbers of `counts`.
    edges_s : ndarray, shape (n_bins + 1,)
    counts : ndarray, shape (n_runs, n_bins)
        Successful requests per bin; a row of zeros for a run without any.
    """

    runs: pd.DataFrame
    edges_s: NDArray[np.float64]
    counts: NDArray[np.float64]

    @classmethod
    def build(cls, runs_df: pd.DataFrame, histograms_df: pd.DataFrame) -> RunTable:
        """Put the histograms of all runs on one grid.

        Raises
        ------
        MeshperfError
            When the runs were binned on different grids, which cannot be merged.
        """
        runs = runs_df.reset_index(drop=True)
        if histograms_df.empty:
            return cls(runs, LOG_GRID, np.zeros((len(runs), LOG_GRID.size - 1)))
        low = histograms_df["bin_low_s"].to_numpy(float)
        high = histograms_df["bin_high_s"].to_numpy(float)
        edges = _grid(low, high)
        left, right = _nearest(edges, low), _nearest(edges, high)
        if (right - left != 1).any():
            raise MeshperfError(
                "the histograms of this campaign are on different grids: "
                "measure all runs of a campaign with one load.resolution_s"
            )
        key = runs.reset_index().set_index(RUN)["index"]
        if key.index.has_duplicates:
            raise MeshperfError("runs_df has a run twice: load the runs of one campaign")
        rows = key.reindex(pd.MultiIndex.from_frame(histograms_df[RUN]))
        known = rows.notna().to_numpy()
        counts = np.zeros((len(runs), edges.size - 1))
        values = histograms_df["count"].to_numpy(float)[known]
        np.add.at(counts, (rows.to_numpy()[known].astype(int), left[known]), values)
        return cls(runs, edges, counts)

    @cached_property
    def runs_with_requests(self) -> pd.DataFrame:
        """The rows of `runs` that have a distribution."""
        return self.runs[self.counts.any(axis=1)]

    def cdfs(self, rows: Sequence[int]) -> NDArray[np.float64]:
        """CDFs of some runs, shape (len(rows), n_bins)."""
        return run_cdfs(self.counts[list(rows)])


def _grid(low: NDArray, high: NDArray) -> NDArray[np.float64]:
    edges = np.unique(np.concatenate([low, high]))
    on_log_grid = _nearest(LOG_GRID, edges)
    same = np.isclose(LOG_GRID[on_log_grid], edges, rtol=1e-9, atol=0) | (LOG_GRID[on_log_grid] == edges)
    if same.all():
        return LOG_GRID[on_log_grid.min() : on_log_grid.max() + 1]
    # Text files round edges: those that agree to nine digits are one.
    keep = np.append(True, ~np.isclose(edges[1:], edges[:-1], rtol=1e-9, atol=0))
    return edges[keep]


def _nearest(edges: NDArray, values: NDArray) -> NDArray[np.intp]:
    """Index of the edge nearest to each value, exact at 0 and infinity."""
    position = np.clip(np.searchsorted(edges, values * (1 + 1e-9)) - 1, 0, edges.size - 1)
    upper = np.minimum(position + 1, edges.size - 1)
    with np.errstate(invalid="ignore"):
        closer = np.abs(edges[upper] - values) < np.abs(edges[position] - values)
    return np.where(closer | (edges[upper] == values), upper, position)
