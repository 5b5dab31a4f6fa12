"""What one feature costs: an arm against the arm that differs from it in that feature alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from meshperf.analysis.control import control
from meshperf.analysis.pairing import pair_blocks
from meshperf.analysis.runtable import RunTable
from meshperf.analysis.shared import NAN, arms_of, cell_columns, joined, runs_of_cell, support
from meshperf.design import BASELINE, Arm
from meshperf.statistics.effect import (
    Verdict,
    difference_interval,
    log_ratio_interval,
    log_ratios,
    paired_t_p,
    resolution_bracket,
    verdict,
)
from meshperf.statistics.multiplicity import holm
from meshperf.statistics.quantiles import best_log_quantile
from meshperf.statistics.results import Interval
from meshperf.study import Study

FEATURES_COLUMNS = (
    "feature",
    "mesh",
    "configuration",
    "reference_mesh",
    "reference_configuration",
    "target_rps",
    "quantile",
    "ratio",
    "ratio_low",
    "ratio_high",
    "difference_s",
    "difference_low_s",
    "difference_high_s",
    "n_blocks",
    "p_value",
    "p_adjusted",
    "verdict",
    "reason",
    "warnings",
)


@dataclass(frozen=True)
class Feature:
    """A difference between two arms that is one feature.

    Attributes
    ----------
    name : str
        What the arm has and its reference has not.
    configuration : str
        Regular expression for the configuration that has it.
    reference : str
        The configuration that has not.
    mesh, reference_mesh : str or None
        Only this mesh; None for any, and for the same mesh.
    """

    name: str
    configuration: str
    reference: str
    mesh: str | None = None
    reference_mesh: str | None = None


#: Every pair of configurations that differ in one feature, in the order in which they are printed.
FEATURES = (
    Feature("mutual TLS", "mtls", "basic"),
    Feature("metrics, scraped", "mtls-metrics", "mtls"),
    Feature("metrics, scraped", "mtls-metrics", "basic", mesh="linkerd"),
    Feature("token checked by the mesh", "jwt-mesh", "mtls"),
    Feature("token checked by a filter of Envoy", "jwt-envoy", "mtls"),
    Feature("token checked by Open Policy Agent", "jwt-opa", "mtls"),
    Feature("authorisation rules", r"authz-\d+", "mtls"),
    Feature("SMI policies", "mtls-smi", "mtls"),
    Feature("TCP instead of HTTP", "mtls-tcp", "mtls"),
    Feature("the mesh around its proxies", "basic", "basic", mesh="istio", reference_mesh="envoy-static"),
    Feature("the mesh around its proxies", "mtls", "mtls", mesh="istio", reference_mesh="envoy-static"),
)


def features_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Typical ratio and difference of latency quantiles between arms that differ in one feature, paired by block.

    Parameters
    ----------
    runs_df, histograms_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``FEATURES_COLUMNS``; a row per feature, rate and quantile that the study claims (``analysis.families``). Empty
        where no two arms of the study differ in one feature.

    Notes
    -----
    Statistics, verdicts and noise floor are those of :func:`meshperf.analysis.comparisons_df`. p-values (paired t on
    log ratios) are corrected by Holm over all rows. A block counts if both of its runs do.
    """
    table = RunTable.build(runs_df, histograms_df)
    noise = control(table, study)
    quantiles = [q for q in study.analysis.families.quantiles if q in study.quantiles]
    found = [
        _compare(table, feature, arm, reference, target_rps, q, study)
        for feature, arm, reference in measured_features(runs_df, study)
        for target_rps in study.target_rps
        for q in quantiles
    ]
    adjusted = holm([row["p_value"] for row, *_ in found]) if found else []
    rows = []
    for (row, ratio, bracket, refused), p in zip(found, adjusted, strict=True):
        decided = refused
        if decided is None:
            decided = verdict(
                ratio,
                p_adjusted=float(p),
                alpha=study.analysis.alpha,
                bracket=bracket,
                noise_limit=noise.noise_limit(row["target_rps"], row["quantile"]),
            )
            if noise.gate.passed is False and decided.verdict in ("slower", "faster"):
                decided = Verdict(
                    "undecided", "the two baselines of the campaign differ more than chance allows"
                )
        rows.append({**row, "p_adjusted": float(p), "verdict": decided.verdict, "reason": decided.reason})
    return pd.DataFrame(rows, columns=list(FEATURES_COLUMNS))


def measured_features(runs_df: pd.DataFrame, study: Study) -> Iterator[tuple[Feature, Arm, Arm]]:
    """Yield each feature with the arm that has it and the one that has not, as far as both have runs."""
    arms = [arm for arm in arms_of(runs_df, study) if arm != BASELINE]
    for feature in FEATURES:
        for arm in arms:
            if feature.mesh not in (None, arm.mesh) or not re.fullmatch(
                feature.configuration, arm.configuration
            ):
                continue
            reference = Arm(feature.reference_mesh or arm.mesh, feature.reference)
            if reference in arms:
                yield feature, arm, reference


def _compare(
    table: RunTable, feature: Feature, arm: Arm, reference: Arm, target_rps: int, q: float, study: Study
) -> tuple[dict[str, Any], Interval | None, tuple[float, float], Verdict | None]:
    """Return a row without its verdict, and what the verdict depends on."""
    with_requests = table.runs[table.counts.sum(axis=1) > 0]
    sides = (runs_of_cell(with_requests, a, target_rps) for a in (arm, reference))
    pairing = pair_blocks(*sides, 1)
    row = {
        **cell_columns(arm, target_rps),
        "feature": feature.name,
        "reference_mesh": reference.mesh,
        "reference_configuration": reference.configuration,
        "quantile": q,
        "n_blocks": len(pairing.arm_rows),
        "p_value": NAN,
        "warnings": joined(pairing.warnings),
    }

    def refused(word: str, reason: str) -> tuple[dict[str, Any], None, tuple[float, float], Verdict]:
        return row, None, (NAN, NAN), Verdict(word, reason)

    if pairing.refusal:
        return refused(pairing.verdict, pairing.reason)
    supports = [support(table, rows, q, study) for rows in (pairing.arm_rows, pairing.all_control_rows)]
    for supported in supports:
        if supported.label == "n.e.":
            return refused("not estimable", supported.reason)
    cdf, controls = pairing.cdfs(table)
    d = log_ratios(cdf, controls, table.edges_s, q)
    if not np.isfinite(d).all():
        return refused("not estimable", "the quantile of a run lies beyond the histogram's bins")
    ratio = log_ratio_interval(d, confidence=study.analysis.confidence)
    arm_s, reference_s = (np.exp(best_log_quantile(c, table.edges_s, q)) for c in (cdf, controls[:, 0]))
    difference = difference_interval(arm_s, reference_s, confidence=study.analysis.confidence)
    warnings = [*pairing.warnings, *(w for s in supports for w in s.warnings), *ratio.warnings]
    row |= {
        "ratio": ratio.estimate,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
        "difference_s": difference.estimate,
        "difference_low_s": difference.low,
        "difference_high_s": difference.high,
        "p_value": paired_t_p(d),
        "warnings": joined(warnings),
    }
    bracket = resolution_bracket(cdf, controls[:, 0], table.edges_s, q)
    blocked = Verdict("undecided", f"degraded: {pairing.reason}") if pairing.degraded else None
    return row, ratio, bracket, blocked
