"""Whether the campaign drifted while it was measured: latency against the order of measurement.

Warm-up and drift *within* runs are columns of ``runs_df`` (:func:`meshperf.frames.load_runs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from meshperf.analysis.shared import NAN, joined
from meshperf.statistics.bootstrap import MIN_BLOCKS_INTERVAL, far_blocks
from meshperf.statistics.results import StatisticsWarning
from meshperf.study import Study

DRIFTS_COLUMNS = (
    "target_rps",
    "quantile",
    "trend_ratio",
    "trend_low",
    "trend_high",
    "p_value",
    "hours",
    "largest_block_ratio",
    "far_blocks",
    "n_blocks",
    "warnings",
)
#: Quantiles of single runs that are looked at, by their column in ``runs_df``.
_COLUMNS = {0.5: "p50_s", 0.99: "p99_s"}


def drifts_df(runs_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Trend of latency over the campaign at each rate, and blocks that were unlike the others.

    Parameters
    ----------
    runs_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``DRIFTS_COLUMNS``; a row per rate and quantile. ``trend_ratio`` is the factor by which latency changed from
        the first block to the last, ``hours`` later, with its interval; ``largest_block_ratio`` that of the block
        furthest from the mean of all; ``far_blocks`` the numbers of blocks that lie far from the others, separated
        by spaces.

    Notes
    -----
    A block's deviation is the mean over its runs of the log of the run's quantile less the mean of its cell: what
    the arms of a block share. The trend is the least-squares line through the r deviations against the time of the
    blocks, with Student's t on r − 2 degrees of freedom (Draper & Smith 1998, section 1.4). It describes:
    comparisons are made within blocks, where such a drift does not reach. Failed and saturated runs have no say.
    """
    rows = [row for target_rps in study.target_rps for row in _rows(runs_df, target_rps, study)]
    return pd.DataFrame(rows, columns=list(DRIFTS_COLUMNS))


def _rows(runs_df: pd.DataFrame, target_rps: int, study: Study) -> Iterator[dict[str, Any]]:
    runs = runs_df[(runs_df["target_rps"] == target_rps) & runs_df["verdict"].isin(["ok", "degraded"])]
    started = pd.to_datetime(runs["started_utc"], utc=True, format="mixed")
    for q, column in _COLUMNS.items():
        logs = np.log(runs[column])
        cells = [runs[name] for name in ("mesh", "configuration")]
        deviation = logs - logs.groupby(cells).transform("mean")
        blocks = pd.DataFrame({"deviation": deviation, "started": started, "block": runs["block"]})
        blocks = blocks.dropna().groupby("block").mean().sort_values("started")
        if len(blocks):
            yield {"target_rps": target_rps, "quantile": q, **_trend(blocks, study.analysis.confidence)}


def _trend(blocks: pd.DataFrame, confidence: float) -> dict[str, Any]:
    hours = (blocks["started"] - blocks["started"].iloc[0]).dt.total_seconds().to_numpy() / 3600
    values = blocks["deviation"].to_numpy()
    row: dict[str, Any] = dict.fromkeys(DRIFTS_COLUMNS[2:], NAN) | {
        "hours": hours[-1],
        "largest_block_ratio": float(np.exp(values[np.argmax(np.abs(values))])),
        "far_blocks": " ".join(str(block) for block in blocks.index[far_blocks(values)]),
        "n_blocks": len(blocks),
        "warnings": "",
    }
    if len(blocks) <= MIN_BLOCKS_INTERVAL or not np.ptp(values) > 0 or not np.ptp(hours) > 0:
        return row | {"warnings": joined([StatisticsWarning.TooFewBlocks])}
    line = stats.linregress(hours, values)
    half = stats.t.ppf(0.5 + confidence / 2, len(blocks) - 2) * line.stderr
    low, middle, high = np.exp(hours[-1] * np.array([line.slope - half, line.slope, line.slope + half]))
    return row | {
        "trend_ratio": middle,
        "trend_low": low,
        "trend_high": high,
        "p_value": line.pvalue,
    }
