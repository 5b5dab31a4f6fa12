"""Cells of the published tables: which is which, and what they are called."""

from __future__ import annotations

import pandas as pd

from meshperf.published.tables import QUANTILES

CELL = ["source", "mesh", "configuration", "target_rps"]
"""What makes two printed rows rows of the same cell."""
RATE_TIERS = (0.95, 0.99)
"""Achieved over target rate: below the first a cell is saturated, below the second degraded."""


def cells_df(latency_df: pd.DataFrame) -> pd.DataFrame:
    """Return each cell once, as it is printed first (tables in the order of the document)."""
    return latency_df.drop_duplicates(CELL).reset_index(drop=True)


def printed_percentiles(frame: pd.DataFrame) -> list[str]:
    """Return the columns of a typed frame that hold percentiles, ascending."""
    return [f"{stem}_s" for stem in QUANTILES if f"{stem}_s" in frame]


def quantile_label(column: str) -> str:
    """Return a column of percentiles as printed: ``p99.9`` for ``p999_s``."""
    return f"p{QUANTILES[column.removesuffix('_s')] * 100:g}"


def subject(row: pd.Series) -> str:
    """Return which cell a typed row describes, in this project's names."""
    name = (
        row["mesh"]
        if row["configuration"] in ("none", "unstated")
        else f"{row['mesh']} {row['configuration']}"
    )
    if "target_rps" in row.index:
        return f"{name} at {row['target_rps']:g} RPS"
    if "connections" in row.index:
        return f"{name} with {row['connections']:g} connections"
    return f"{name} on {row['environment']}"


def rate_tier(ratio: float, tiers: tuple[float, float] = RATE_TIERS) -> str:
    """Return what a cell that reached this share of its target rate is called: ok, degraded or saturated."""
    return "saturated" if ratio < tiers[0] else "degraded" if ratio < tiers[1] else "ok"
