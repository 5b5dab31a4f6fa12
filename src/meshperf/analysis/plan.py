"""What a campaign can detect, and how many blocks and seconds a stated effect needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from meshperf.analysis.comparisons import family_of
from meshperf.analysis.pairing import pair_cell
from meshperf.analysis.runtable import RunTable
from meshperf.analysis.shared import NAN, arms_of, cell_columns, joined, support
from meshperf.design import BASELINE
from meshperf.statistics.effect import log_ratios
from meshperf.statistics.power import detectable_ratio, half_width, pilot_upper_sd, plan
from meshperf.study import Study

PLAN_COLUMNS = (
    "mesh",
    "configuration",
    "target_rps",
    "quantile",
    "n_blocks",
    "sd_log",
    "upper_sd_log",
    "design_effect",
    "detectable_ratio",
    "detectable_in_family",
    "half_width",
    "blocks_needed",
    "seconds_needed",
    "ratio",
    "power",
    "warnings",
)
#: Confidence of the upper limit of the spread that blocks are planned with: the estimate itself is too small in half
#: of all pilots.
PILOT_LEVEL = 0.8


@dataclass(frozen=True)
class Wish:
    """What a study shall be able to detect.

    Attributes
    ----------
    ratio : float
        True ratio of a quantile to that of no mesh, above 1.
    power : float
        Probability with which it is to be detected, between 0 and 1.
    """

    ratio: float = 1.1
    power: float = 0.8


def plan_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study, wish: Wish) -> pd.DataFrame:
    """Plan from a campaign, taken as a pilot or judged for what it can detect itself.

    Parameters
    ----------
    runs_df, histograms_df : DataFrame
        Of one campaign.
    study : Study
        Its study.
    wish : Wish

    Returns
    -------
    DataFrame
        ``PLAN_COLUMNS``; a row per arm, rate and quantile that may be claimed and has at least two complete blocks.
        ``detectable_ratio`` is what ``n_blocks`` blocks detect with the wished power in a test of its own at
        ``analysis.alpha``, ``detectable_in_family`` with the first step of Holm's correction (alpha over the size
        of the family). ``half_width`` is the expected upper half of an interval, as a share. ``blocks_needed`` is for
        the wished ratio in a test of its own, with the upper limit of the spread; NaN if 1000 are not enough.
        ``seconds_needed`` is the length of a run, so that the quantile of a cell of that many blocks is printed
        without a dagger. ``ratio`` and ``power`` repeat the wish.
    """
    table = RunTable.build(runs_df, histograms_df)
    cells = [
        (arm, rate, q)
        for arm in arms_of(table.runs, study)
        for rate in study.target_rps
        for q in study.quantiles
        if arm != BASELINE and family_of(arm, rate, q, study) == "primary"
    ]
    rows = [row for arm, rate, q in cells for row in _planned(table, arm, rate, q, len(cells), study, wish)]
    return pd.DataFrame(rows, columns=list(PLAN_COLUMNS))


def _planned(
    table: RunTable, arm: Any, rate: int, q: float, family_size: int, study: Study, wish: Wish
) -> Iterator[dict[str, Any]]:
    pairing = pair_cell(table, arm, rate)
    if pairing.refusal or len(pairing.arm_rows) < 2:
        return
    cdf, controls = pairing.cdfs(table)
    d = log_ratios(cdf, controls, table.edges_s, q)
    if not np.isfinite(d).all() or not d.std() > 0:
        return
    sd, upper = float(d.std(ddof=1)), pilot_upper_sd(d, level=PILOT_LEVEL)
    alpha, n_blocks = study.analysis.alpha, len(d)
    effect = max(support(table, pairing.arm_rows, q, study).design_effect, 1.0)
    planned = plan(
        upper,
        wish.ratio,
        quantile=q,
        target_rps=rate,
        design_effect=effect,
        exceedances=study.analysis.estimable[1],
        target_power=wish.power,
        alpha=alpha,
    )
    yield {
        **cell_columns(arm, rate),
        "quantile": q,
        "n_blocks": n_blocks,
        "sd_log": sd,
        "upper_sd_log": upper,
        "design_effect": effect,
        "detectable_ratio": detectable_ratio(sd, n_blocks, target_power=wish.power, alpha=alpha),
        "detectable_in_family": detectable_ratio(
            sd, n_blocks, target_power=wish.power, alpha=alpha / family_size
        ),
        "half_width": half_width(sd, n_blocks, confidence=study.analysis.confidence),
        "blocks_needed": planned.n_blocks if planned.n_blocks else NAN,
        "seconds_needed": planned.seconds_per_run,
        "ratio": wish.ratio,
        "power": wish.power,
        "warnings": joined((*pairing.warnings, *planned.warnings)),
    }
