"""Overhead of each arm against the baseline, quantile by quantile: ratios, differences, families of tests, verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from meshperf.analysis.control import Control, control
from meshperf.analysis.pairing import Pairing, pair_cell
from meshperf.analysis.runtable import RunTable
from meshperf.analysis.shared import (
    NAN,
    arms_of,
    cell_columns,
    generator,
    joined,
    quantile_name,
    quantiles_of,
    support,
    unbounded,
    without_extra,
)
from meshperf.design import BASELINE, Arm
from meshperf.statistics.checks import prediction_interval, robust_interval
from meshperf.statistics.effect import (
    Equivalence,
    Verdict,
    difference_interval,
    leave_one_out_range,
    log_ratio_interval,
    log_ratios,
    merged_difference_interval,
    merged_ratio_interval,
    paired_t_p,
    resolution_bracket,
    tost,
    verdict,
)
from meshperf.statistics.multiplicity import holm
from meshperf.statistics.quantiles import best_log_quantile
from meshperf.statistics.results import Interval, StatisticsWarning
from meshperf.study import Study

COMPARISONS_COLUMNS = (
    "mesh",
    "configuration",
    "target_rps",
    "quantile",
    "estimand",
    "overhead_ratio",
    "ratio_low",
    "ratio_high",
    "overhead_s",
    "difference_low_s",
    "difference_high_s",
    "n_blocks",
    "sd_log",
    "verdict",
    "reason",
    "warnings",
    "family",
    "family_size",
    "p_value",
    "p_adjusted",
    "simultaneous_low",
    "simultaneous_high",
    "noise_ratio",
    "bracket_low",
    "bracket_high",
    "leave_one_out_low",
    "leave_one_out_high",
    "robust_ratio",
    "robust_low",
    "robust_high",
    "robust_confidence",
    "prediction_low",
    "prediction_high",
    "equivalence_margin",
    "equivalence_low",
    "equivalence_high",
    "equivalence_p",
)
#: Families of comparisons: what may be claimed (Holm), what is shown without a claim, and the control.
PRIMARY, EXPLORATORY, CONTROL = "primary", "exploratory", "control"
#: Columns of the typical ratio only.
_ONLY_TYPICAL = COMPARISONS_COLUMNS[COMPARISONS_COLUMNS.index("p_value") :]


def comparisons_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Overhead of each arm against the baseline, paired by block, and of one baseline on the other (A/A).

    Parameters
    ----------
    runs_df, histograms_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``COMPARISONS_COLUMNS``; two rows (typical and merged) per arm, target RPS and quantile. Rows of mesh
        "baseline" are the A/A control: the second baseline deployment of each block against the first.
        Numbers are NaN where there is no comparison, and ``verdict`` and ``reason`` say why; those from ``p_value``
        on belong to the typical ratio. ``noise_ratio`` is how far two baselines of one block are apart,
        ``prediction_low`` and ``prediction_high`` hold the ratio that as many further blocks would show,
        ``simultaneous_low`` and ``simultaneous_high`` all true ratios of the family together.

    Notes
    -----
    Claims are made for the typical ratio of what the study declares (``analysis.families``); their p-values (paired t
    on log ratios) are corrected by Holm over the whole family, refused comparisons included. Both rows of a
    comparison carry its one verdict. A campaign whose baselines are not exchangeable supports no verdict at all.
    """
    table = RunTable.build(runs_df, histograms_df)
    noise = control(table, study)
    comparisons = [
        comparison
        for target_rps in study.target_rps
        for arm in arms_of(table.runs, study)
        for comparison in _compare(table, arm, target_rps, study)
    ]
    family = [c for c in comparisons if c.family == PRIMARY]
    adjusted = {id(c): float(p) for c, p in zip(family, holm([c.p_value for c in family]), strict=True)}
    sizes = {name: sum(c.family == name for c in comparisons) for name in (PRIMARY, EXPLORATORY, CONTROL)}
    rows = []
    for c in comparisons:
        # The control is a family of its own, whose alarms are counted and not corrected.
        p = c.p_value if c.family == CONTROL else adjusted.get(id(c))
        rows += c.rows(p, sizes[c.family], noise, study)
    order = {arm: number for number, arm in enumerate((BASELINE, *study.arms_expanded))}
    rows.sort(key=lambda row: order[Arm(row["mesh"], row["configuration"])])
    return pd.DataFrame(without_extra(rows, study, "verdict"), columns=list(COMPARISONS_COLUMNS))


@dataclass(frozen=True, eq=False)
class _Comparison:
    """One comparison before its verdict, which depends on all others (Holm) and on the A/A rows."""

    arm: Arm
    target_rps: int
    quantile: float
    family: str
    pairing: Pairing
    refused: Verdict | None = None
    log_ratios: NDArray[np.float64] | None = None
    p_value: float = NAN
    ratios: dict[str, Interval] | None = None
    differences: dict[str, Interval] | None = None
    equivalence: Equivalence | None = None
    bracket: tuple[float, float] = (NAN, NAN)
    warnings: tuple[StatisticsWarning, ...] = ()

    def rows(
        self, p_adjusted: float | None, family_size: int, noise: Control, study: Study
    ) -> list[dict[str, Any]]:
        limit = 0.0 if self.arm == BASELINE else noise.noise_limit(self.target_rps, self.quantile)
        decided = self.refused or self._verdict(p_adjusted, limit, noise, study)
        warnings = list(self.warnings)
        if decided.verdict == "resolution-limited":
            warnings.append(StatisticsWarning.ResolutionLimited)
        if noise.gate.passed is False:
            warnings.append(StatisticsWarning.AAGateFailed)
        rows = []
        for estimand in ("typical", "merged"):
            ratio = (self.ratios or {}).get(estimand)
            difference = (self.differences or {}).get(estimand)
            row = {
                **cell_columns(self.arm, self.target_rps),
                "quantile": self.quantile,
                "estimand": estimand,
                "overhead_ratio": ratio.estimate if ratio else NAN,
                "ratio_low": ratio.low if ratio else NAN,
                "ratio_high": ratio.high if ratio else NAN,
                "overhead_s": difference.estimate if difference else NAN,
                "difference_low_s": difference.low if difference else NAN,
                "difference_high_s": difference.high if difference else NAN,
                "n_blocks": len(self.pairing.arm_rows),
                "sd_log": ratio.sd if ratio else NAN,
                "verdict": decided.verdict,
                "reason": decided.reason,
                "warnings": joined([*warnings, *(ratio.warnings if ratio else ())]),
                "family": self.family,
                "family_size": family_size,
            }
            typical = estimand == "typical" and self.refused is None
            more = self._beside(p_adjusted, family_size, limit, study) if typical else {}
            rows.append({**row, **{name: more.get(name, NAN) for name in _ONLY_TYPICAL}})
        return rows

    def _beside(
        self, p_adjusted: float | None, family_size: int, noise_limit: float, study: Study
    ) -> dict[str, float]:
        """Return what stands beside a typical ratio."""
        d = self.log_ratios
        robust = robust_interval(d)
        again = prediction_interval(d, n_new=len(d), confidence=study.analysis.confidence)
        loo_low, loo_high = leave_one_out_range(d)
        joint = None
        if self.family == PRIMARY:
            joint = log_ratio_interval(d, confidence=1 - (1 - study.analysis.confidence) / family_size)
        equal = self.equivalence
        return {
            "p_value": self.p_value,
            "p_adjusted": NAN if p_adjusted is None else p_adjusted,
            "simultaneous_low": joint.low if joint else NAN,
            "simultaneous_high": joint.high if joint else NAN,
            "noise_ratio": float(np.exp(noise_limit)) if noise_limit else NAN,
            "bracket_low": self.bracket[0],
            "bracket_high": self.bracket[1],
            "leave_one_out_low": loo_low,
            "leave_one_out_high": loo_high,
            "robust_ratio": robust.estimate,
            "robust_low": robust.low,
            "robust_high": robust.high,
            "robust_confidence": robust.confidence if robust.has_interval else NAN,
            "prediction_low": again.low,
            "prediction_high": again.high,
            "equivalence_margin": equal.margin if equal else NAN,
            "equivalence_low": equal.interval.low if equal else NAN,
            "equivalence_high": equal.interval.high if equal else NAN,
            "equivalence_p": equal.p_value if equal else NAN,
        }

    def _verdict(self, p_adjusted: float | None, noise_limit: float, noise: Control, study: Study) -> Verdict:
        decided = verdict(
            self.ratios["typical"],
            p_adjusted=p_adjusted,
            alpha=study.analysis.alpha,
            bracket=self.bracket,
            noise_limit=noise_limit,
            equivalence=self.equivalence.interval if self.equivalence else None,
            margin=self.equivalence.margin if self.equivalence else None,
        )
        if decided.verdict in ("too few blocks", "not estimable"):
            return decided
        if noise.gate.passed is False:
            return Verdict("undecided", "the two baselines of the campaign differ more than chance allows")
        if self.pairing.degraded:
            return Verdict("undecided", f"degraded: the target rate was not met ({self.pairing.reason})")
        return decided


def family_of(arm: Arm, target_rps: int, q: float, study: Study) -> str:
    """Return the family of a comparison, as the study declares it."""
    if arm == BASELINE:
        return CONTROL
    families = study.analysis.families
    claimed = q in families.quantiles and q in study.quantiles
    return PRIMARY if claimed and target_rps in (families.target_rps or study.target_rps) else EXPLORATORY


def _compare(table: RunTable, arm: Arm, target_rps: int, study: Study) -> Iterator[_Comparison]:
    pairing = pair_cell(table, arm, target_rps)
    for q in quantiles_of(study):
        family = family_of(arm, target_rps, q, study)
        yield _compare_quantile(table, _Comparison(arm, target_rps, q, family, pairing), study)


def _compare_quantile(table: RunTable, empty: _Comparison, study: Study) -> _Comparison:
    pairing, q = empty.pairing, empty.quantile

    def refused(verdict_: str, reason: str, warnings: Iterable[StatisticsWarning] = ()) -> _Comparison:
        return replace(empty, refused=Verdict(verdict_, reason), warnings=(*pairing.warnings, *warnings))

    if pairing.refusal:
        return refused(pairing.verdict, pairing.reason)
    sides = {"arm": list(pairing.arm_rows), "baseline": pairing.all_control_rows}
    supports = {name: support(table, rows, q, study) for name, rows in sides.items()}
    for name, supported in supports.items():
        if supported.label == "n.e.":
            return refused("not estimable", f"{name}: {supported.reason}", supported.warnings)
    cdf, controls = pairing.cdfs(table)
    control_cdf = controls.mean(axis=1)
    edges = table.edges_s
    d = log_ratios(cdf, controls, edges, q)
    if not np.isfinite(d).all():
        return refused("not estimable", "the quantile of a run lies beyond the histogram's bins")
    analysis = study.analysis
    options = {"confidence": analysis.confidence, "n_resamples": analysis.n_resamples}
    options["rng"] = generator(study, empty.arm, empty.target_rps, q, "comparison")
    arm_s = np.exp(best_log_quantile(cdf, edges, q))
    control_s = np.exp(best_log_quantile(controls, edges, q)).mean(axis=1)
    margin = analysis.equivalence_margins.get(quantile_name(q))
    used = table.runs.loc[sides["arm"] + sides["baseline"]]
    warnings = [*pairing.warnings, *supports["arm"].warnings, *supports["baseline"].warnings]
    return replace(
        empty,
        log_ratios=d,
        p_value=paired_t_p(d),
        ratios={
            "typical": log_ratio_interval(d, confidence=analysis.confidence),
            "merged": merged_ratio_interval(cdf, control_cdf, edges, q, **options),
        },
        differences={
            "typical": difference_interval(arm_s, control_s, confidence=analysis.confidence),
            "merged": merged_difference_interval(cdf, control_cdf, edges, q, **options),
        },
        equivalence=tost(d, margin, alpha=analysis.alpha) if margin else None,
        bracket=resolution_bracket(cdf, control_cdf, edges, q),
        warnings=(*warnings, *unbounded(used, q)),
    )
