"""Whole distributions against the baseline: how far apart they are, where, and whether that can be chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from meshperf.analysis.comparisons import CONTROL
from meshperf.analysis.control import control
from meshperf.analysis.pairing import Pairing, pair_cell
from meshperf.analysis.runtable import RunTable
from meshperf.analysis.shared import (
    EXTRA_QUANTILE,
    NAN,
    arms_of,
    cell_columns,
    generator,
    joined,
    support,
)
from meshperf.design import BASELINE, Arm
from meshperf.statistics.effect import shift_function
from meshperf.statistics.ks import (
    Dominance,
    KsDistance,
    dominance,
    ks_distance,
    ks_interval,
    wasserstein_log,
    wasserstein_s,
)
from meshperf.statistics.multiplicity import benjamini_hochberg
from meshperf.statistics.permutation import BodyTailTest, block_permutation_body_tail
from meshperf.statistics.results import Interval, StatisticsWarning
from meshperf.study import Study

DISTANCES_COLUMNS = (
    "mesh",
    "configuration",
    "target_rps",
    "ks_d",
    "ks_low",
    "ks_high",
    "ks_at_s",
    "ks_plus",
    "ks_minus",
    "bin_bound",
    "p_body",
    "tail_t",
    "p_tail",
    "p_combined",
    "p_adjusted",
    "p_min",
    "n_relabellings",
    "exact",
    "wasserstein_log",
    "wasserstein_s",
    "dominance",
    "crossing_s",
    "family",
    "family_size",
    "n_blocks",
    "verdict",
    "reason",
    "warnings",
)
SHIFTS_COLUMNS = (
    "mesh",
    "configuration",
    "target_rps",
    "quantile",
    "block",
    "ratio",
    "ratio_low",
    "ratio_high",
    "difference_s",
    "difference_low_s",
    "difference_high_s",
    "n_blocks",
    "method",
    "warnings",
)
#: Family of the tests on whole distributions, whose false discoveries are limited to a share.
SECONDARY = "secondary"
#: Quantiles of the shift function: the deciles, and the tail where the data support it.
SHIFT_QUANTILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, EXTRA_QUANTILE)


def distances_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Distances between the distribution of each arm and the baseline's, with their tests.

    Parameters
    ----------
    runs_df, histograms_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``DISTANCES_COLUMNS``; a row per arm and rate, of mesh "baseline" the A/A control. ``ks_d`` is the largest
        vertical distance of the mean CDFs, reached at ``ks_at_s``; ``ks_minus`` its part in which the arm is slower;
        ``tail_t`` the largest |log ratio| of the CCDFs in the study's tail region. p-values are by relabelling runs
        inside blocks and at least ``p_min``. ``wasserstein_log`` is the mean relative shift (0.1 reads 10 %),
        ``wasserstein_s`` the mean shift in seconds.

    Notes
    -----
    ``p_adjusted`` is the combined p-value of body and tail, corrected by Benjamini and Hochberg over all arms and
    rates; "different" where it is at most the study's false discovery rate.
    """
    table = RunTable.build(runs_df, histograms_df)
    found = [
        _distance(table, arm, target_rps, study)
        for arm in arms_of(table.runs, study)
        for target_rps in study.target_rps
    ]
    family = [one for one in found if one.arm != BASELINE]
    ps = [one.test.combined.p_value if one.test else NAN for one in family]
    adjusted = {id(one): float(p) for one, p in zip(family, benjamini_hochberg(ps), strict=True)}
    exchangeable = control(table, study).gate.passed is not False
    rows = [one.row(adjusted.get(id(one)), len(family), exchangeable, study) for one in found]
    return pd.DataFrame(rows, columns=list(DISTANCES_COLUMNS))


@dataclass(frozen=True, eq=False)
class _Distance:
    """One comparison of distributions before its verdict, which depends on all others."""

    arm: Arm
    target_rps: int
    pairing: Pairing
    ks: KsDistance | None = None
    interval: Interval | None = None
    test: BodyTailTest | None = None
    dominance: Dominance | None = None
    wasserstein_log: float = NAN
    wasserstein_s: float = NAN

    def row(
        self, p_adjusted: float | None, family_size: int, exchangeable: bool, study: Study
    ) -> dict[str, Any]:
        family = CONTROL if self.arm == BASELINE else SECONDARY
        row: dict[str, Any] = dict.fromkeys(DISTANCES_COLUMNS, NAN)
        row |= cell_columns(self.arm, self.target_rps)
        row |= {"family": family, "n_blocks": len(self.pairing.arm_rows), "dominance": "", "exact": ""}
        row["family_size"] = 0 if family == CONTROL else family_size
        if self.ks is None:
            verdict, reason = self.pairing.verdict, self.pairing.reason
            return {**row, "verdict": verdict, "reason": reason, "warnings": joined(self.pairing.warnings)}
        body, tail, combined = self.test.body, self.test.tail, self.test.combined
        verdict, reason = self._verdict(p_adjusted, exchangeable, study)
        warnings = [*self.pairing.warnings, *self.interval.warnings, *body.warnings, *tail.warnings]
        if not exchangeable:
            warnings.append(StatisticsWarning.AAGateFailed)
        return row | {
            "ks_d": self.ks.d,
            "ks_low": self.interval.low,
            "ks_high": self.interval.high,
            "ks_at_s": self.ks.at_s,
            "ks_plus": self.ks.d_plus,
            "ks_minus": self.ks.d_minus,
            "bin_bound": self.ks.bin_bound,
            "p_body": body.p_value,
            "tail_t": tail.statistic,
            "p_tail": tail.p_value,
            "p_combined": combined.p_value,
            "p_adjusted": NAN if p_adjusted is None else p_adjusted,
            "p_min": combined.p_min,
            "n_relabellings": combined.n_relabellings,
            "exact": "yes" if combined.exact else "no",
            "wasserstein_log": self.wasserstein_log,
            "wasserstein_s": self.wasserstein_s,
            "dominance": self.dominance.statement,
            "crossing_s": self.dominance.crossing_s,
            "verdict": verdict,
            "reason": reason,
            "warnings": joined(warnings),
        }

    def _verdict(self, p_adjusted: float | None, exchangeable: bool, study: Study) -> tuple[str, str]:
        combined, limit = self.test.combined, study.analysis.families.false_discovery_rate
        if not exchangeable:
            return "undecided", "the two baselines of the campaign differ more than chance allows"
        if self.pairing.degraded:
            return "undecided", f"degraded: the target rate was not met ({self.pairing.reason})"
        if p_adjusted is None:
            return "undecided", "control: not a claim"
        if np.isnan(p_adjusted):
            return "undecided", "no test was possible"
        if combined.p_min > limit:
            return "too few blocks", f"{combined.n} blocks cannot reach a p-value of {limit:g}"
        reason = f"adjusted p = {p_adjusted:.2g}"
        if p_adjusted <= limit:
            return "different", reason
        return "undecided", f"{reason} is above {limit:g}"


def _distance(table: RunTable, arm: Arm, target_rps: int, study: Study) -> _Distance:
    pairing = pair_cell(table, arm, target_rps)
    if pairing.refusal:
        return _Distance(arm, target_rps, pairing)
    cdf, controls = pairing.cdfs(table)
    baseline = controls.mean(axis=1)
    analysis = study.analysis
    options: dict[str, Any] = {"confidence": analysis.confidence, "n_resamples": analysis.n_resamples}
    return _Distance(
        arm,
        target_rps,
        pairing,
        ks=ks_distance(cdf, baseline, table.edges_s),
        interval=ks_interval(cdf, baseline, rng=generator(study, arm, target_rps, "ks"), **options),
        test=block_permutation_body_tail(
            cdf,
            controls,
            alpha=analysis.alpha,
            tail_region=analysis.tail_region,
            n_resamples=analysis.n_resamples,
            rng=generator(study, arm, target_rps, "permutation"),
        ),
        dominance=dominance(
            cdf,
            baseline,
            table.edges_s,
            epsilon=analysis.dominance_epsilon,
            rng=generator(study, arm, target_rps, "dominance"),
            **options,
        ),
        wasserstein_log=wasserstein_log(cdf, baseline, table.edges_s),
        wasserstein_s=wasserstein_s(cdf, baseline, table.edges_s),
    )


def shifts_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """How each arm shifts each part of the distribution: ratios and differences with simultaneous bands.

    Returns
    -------
    DataFrame
        ``SHIFTS_COLUMNS``; per arm, rate and quantile a row with the estimate and its band (``block`` empty), and one
        per block with that block's own ratio. The band covers all quantiles of an arm and rate together. Quantiles
        that the data do not support are left out, and so are arms that are not compared.
    """
    table = RunTable.build(runs_df, histograms_df)
    rows = [
        row
        for arm in arms_of(table.runs, study)
        for target_rps in study.target_rps
        for row in _shift_rows(table, arm, target_rps, study)
    ]
    return pd.DataFrame(rows, columns=list(SHIFTS_COLUMNS))


def _shift_rows(table: RunTable, arm: Arm, target_rps: int, study: Study) -> Iterator[dict[str, Any]]:
    pairing = pair_cell(table, arm, target_rps)
    if pairing.refusal:
        return
    sides = (pairing.arm_rows, pairing.all_control_rows)
    supported = [
        q for q in SHIFT_QUANTILES if all(support(table, rows, q, study).label != "n.e." for rows in sides)
    ]
    if not supported:
        return
    shift = shift_function(
        *pairing.cdfs(table),
        table.edges_s,
        supported,
        confidence=study.analysis.confidence,
        rng=generator(study, arm, target_rps, "shift"),
    )
    blocks = table.runs.loc[list(pairing.arm_rows), "block"].astype(int)
    for place, q in enumerate(supported):
        common = {**cell_columns(arm, target_rps), "quantile": q, "n_blocks": shift.n}
        yield {
            **common,
            "ratio": shift.ratio[place],
            "ratio_low": shift.ratio_low[place],
            "ratio_high": shift.ratio_high[place],
            "difference_s": shift.difference_s[place],
            "difference_low_s": shift.difference_low_s[place],
            "difference_high_s": shift.difference_high_s[place],
            "method": shift.method,
            "warnings": joined([*pairing.warnings, *shift.warnings]),
        }
        for block, logs in zip(blocks, shift.log_ratios, strict=True):
            yield {**common, "block": block, "ratio": float(np.exp(logs[place])), "warnings": ""}
