"""What a few quantiles say of a distribution: a band between two staircases.

A row that gives the quantiles q₁ ≤ … ≤ qₙ at p₁ < … < pₙ fixes the distribution function F at n points and leaves it
free between them, apart from being monotone: for qᵢ ≤ x < qᵢ₊₁, pᵢ ≤ F(x) ≤ pᵢ₊₁. Any curve drawn through the points is
one of infinitely many, and a test computed from such a curve is a test of the curve.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from meshperf.errors import MeshperfError
from meshperf.published.cells import CELL, RATE_TIERS, printed_percentiles
from meshperf.published.tables import QUANTILES

COMPARISONS: dict[str, tuple[str, ...]] = {
    "basic": ("9.1", "9.2"),
    "mtls": ("9.5", "9.6"),
    "istio": ("9.7", "9.8"),
    "linkerd": ("9.9",),
    "kuma": ("9.10",),
    "consul": ("9.11",),
}
"""Comparison of the thesis annex -> its tables."""


def band(
    values_s: ArrayLike, quantiles: ArrayLike, x_s: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest and the highest distribution function that pass through some quantiles.

    Parameters
    ----------
    values_s : array_like, shape (n,)
        Quantiles in seconds, not descending.
    quantiles : array_like, shape (n,)
        Their ranks, ascending in (0, 1).
    x_s : array_like, shape (m,)
        Where to evaluate, in seconds.

    Returns
    -------
    low, high : ndarray, shape (m,)
        Limits of F(x); 0 below the first quantile at the low side, 1 above the last at the high side.

    Raises
    ------
    MeshperfError
        If the quantiles descend: then no distribution has them.
    """
    values, ranks = np.asarray(values_s, float), np.asarray(quantiles, float)
    if values.shape != ranks.shape or (np.diff(values) < 0).any() or (np.diff(ranks) <= 0).any():
        raise MeshperfError("a band needs quantiles that do not descend, with their ranks ascending")
    below = np.searchsorted(values, np.asarray(x_s, float), side="right")
    return np.concatenate([[0.0], ranks])[below], np.concatenate([ranks, [1.0]])[below]


def distance_limits(first_s: ArrayLike, second_s: ArrayLike, quantiles: ArrayLike) -> tuple[float, float]:
    """Return what two rows of quantiles allow the largest distance between their distributions to be.

    Parameters
    ----------
    first_s, second_s : array_like, shape (n,)
        Quantiles of the two rows, in seconds, at the same ranks.
    quantiles : array_like, shape (n,)
        The ranks.

    Returns
    -------
    low, high : float
        Limits of sup|F₁ − F₂| (Kolmogorov–Smirnov distance) over all pairs of distributions with these quantiles, each
        in [0, 1].
    """
    points = np.unique(np.concatenate([np.asarray(first_s, float), np.asarray(second_s, float)]))
    # Between two neighbouring points both bands are constant, so one place inside each gap is enough.
    places = np.concatenate([points, (points[1:] + points[:-1]) / 2, [points[0] / 2]])
    low_1, high_1 = band(first_s, quantiles, places)
    low_2, high_2 = band(second_s, quantiles, places)
    apart = np.maximum(low_1 - high_2, low_2 - high_1).max()
    return max(0.0, float(apart)), float(np.maximum(high_1 - low_2, high_2 - low_1).max())


def bands_df(latency_df: pd.DataFrame) -> pd.DataFrame:
    """Return the band of every row, as rectangles.

    Returns
    -------
    DataFrame
        ``source, comparison, table, row, mesh, configuration, target_rps, achieved_rps, low_s, high_s, cdf_low,
        cdf_high``: one row per rectangle between two known quantiles. Outside the first and the last nothing is known
        but 0 and 1.
    """
    columns = printed_percentiles(latency_df)
    ranks = [QUANTILES[name.removesuffix("_s")] for name in columns]
    rows = []
    for name, tables in COMPARISONS.items():
        for _, row in latency_df[latency_df["table"].isin(tables)].iterrows():
            values = row[columns].to_numpy(float)
            identity = [row["source"], name, *row[["table", "row", "mesh", "configuration"]]]
            identity += [row["target_rps"], row["achieved_rps"]]
            rows += [
                [*identity, values[k], values[k + 1], ranks[k], ranks[k + 1]] for k in range(len(ranks) - 1)
            ]
    names = ["source", "comparison", "table", "row", "mesh", "configuration", "target_rps", "achieved_rps"]
    return pd.DataFrame(rows, columns=[*names, "low_s", "high_s", "cdf_low", "cdf_high"])


def distances_df(latency_df: pd.DataFrame) -> pd.DataFrame:
    """Return the limits of the distance of every mesh to no mesh in the same table.

    Returns
    -------
    DataFrame
        ``source, table, mesh, configuration, target_rps, distance_low, distance_high``.
    """
    columns = printed_percentiles(latency_df)
    ranks = [QUANTILES[name.removesuffix("_s")] for name in columns]
    rows = []
    for (source, table, target_rps), group in latency_df.groupby(
        ["source", "table", "target_rps"], sort=False
    ):
        reference = group[group["mesh"] == "baseline"]
        if reference.empty:
            continue
        base = reference.iloc[0][columns].to_numpy(float)
        for _, row in group[group["mesh"] != "baseline"].iterrows():
            limits = distance_limits(row[columns].to_numpy(float), base, ranks)
            rows.append([source, table, row["mesh"], row["configuration"], target_rps, *limits])
    names = ["source", "table", "mesh", "configuration", "target_rps", "distance_low", "distance_high"]
    return pd.DataFrame(rows, columns=names)


def highest_complete_rate(rows: pd.DataFrame, tables: tuple[str, ...]) -> float:
    """Return the highest target rate that every cell of some tables reached, so that none of them is degraded.

    Where no rate was reached by all, the lowest rate of the tables.

    Parameters
    ----------
    rows : DataFrame
        Typed rows or their bands, with ``table, achieved_rps`` and the columns of
        :data:`meshperf.published.cells.CELL`.
    tables : tuple of str
        Numbers of the tables.
    """
    mine = rows[rows["table"].isin(tables)].drop_duplicates(CELL)
    reached = (mine["achieved_rps"] >= RATE_TIERS[1] * mine["target_rps"]).groupby(mine["target_rps"]).all()
    return float(reached[reached].index.max() if reached.any() else mine["target_rps"].min())
