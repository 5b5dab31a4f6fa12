"""What the numbers owe to what was not seen: bins, requests that were never sent, and single deployments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from meshperf.analysis.pairing import Pairing, pair_cell
from meshperf.analysis.runtable import RunTable
from meshperf.analysis.shared import NAN, arms_of, cell_columns, generator, joined, quantiles_of, support
from meshperf.design import BASELINE, Arm
from meshperf.statistics.components import request_variance, variance_components
from meshperf.statistics.effect import log_ratios
from meshperf.statistics.estimability import co_corrected, omission_bounds
from meshperf.statistics.quantiles import best_log_quantile, quantile_bounds, run_cdfs
from meshperf.study import Study

SENSITIVITY_COLUMNS = (
    "mesh",
    "configuration",
    "target_rps",
    "quantile",
    "merged_s",
    "bin_low_s",
    "bin_high_s",
    "missing_fraction",
    "omission_low_s",
    "omission_high_s",
    "corrected_s",
    "ratio",
    "ratio_corrected",
    "ratio_omission_low",
    "ratio_omission_high",
    "n_blocks",
    "warnings",
)
COMPONENTS_COLUMNS = (
    "target_rps",
    "quantile",
    "sd_block",
    "sd_deployment",
    "sd_within_run",
    "within_share",
    "n_blocks",
    "method",
    "warnings",
)
_RESAMPLES = 200


def sensitivity_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Set limits to each merged quantile and typical ratio that no statistics of the requests sent can give.

    Parameters
    ----------
    runs_df, histograms_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``SENSITIVITY_COLUMNS``; a row per arm, rate and quantile that is compared and estimable. ``merged_s`` lies
        in the bin ``bin_low_s`` to ``bin_high_s``, and whatever the requests that were never sent would have shown,
        the quantile of the schedule lies between ``omission_low_s`` and ``omission_high_s`` (infinite where more
        than 1 − q were not sent). ``corrected_s`` has the requests added that a blocked connection would have sent.
        ``ratio`` is the typical ratio to the baseline, ``ratio_corrected`` the same of corrected runs,
        ``ratio_omission_low`` to ``ratio_omission_high`` the worst that the bounds of arm and baseline together
        allow the merged ratio.

    Notes
    -----
    Bounds of merged runs: with a share mᵢ missing from run i, the CDF of the whole schedule lies between the mean
    of (1 − mᵢ)Fᵢ and that plus the mean of mᵢ; both follow from the weighted CDF Σ(1 − mᵢ)Fᵢ/Σ(1 − mᵢ) with the
    mean of mᵢ missing (:func:`~meshperf.statistics.estimability.omission_bounds`).
    """
    table = RunTable.build(runs_df, histograms_df)
    corrected = _corrected(table)
    rows = [
        row
        for arm in arms_of(table.runs, study)
        for target_rps in study.target_rps
        for row in _rows(table, corrected, arm, target_rps, study)
    ]
    return pd.DataFrame(rows, columns=list(SENSITIVITY_COLUMNS))


def _corrected(table: RunTable) -> RunTable | None:
    """Return the table with what each run's blocked connections would have sent; None where nobody knows them."""
    interval_s = (table.runs["connections"].astype(float) / table.runs["target_rps"]).to_numpy()
    if not (interval_s > 0).all():
        return None
    counts = [
        co_corrected(counts, table.edges_s, interval) if counts.sum() else counts
        for counts, interval in zip(table.counts, interval_s, strict=True)
    ]
    return RunTable(table.runs, table.edges_s, np.array(counts))


def _rows(
    table: RunTable, corrected: RunTable | None, arm: Arm, target_rps: int, study: Study
) -> Iterator[dict[str, Any]]:
    pairing = pair_cell(table, arm, target_rps)
    if pairing.refusal:
        return
    own, control = list(pairing.arm_rows), pairing.all_control_rows
    # The baseline's own numbers are those of both its deployments.
    shown = own + control if arm == BASELINE else own
    for q in quantiles_of(study):
        if any(support(table, rows, q, study).label == "n.e." for rows in (own, control)):
            continue
        merged = table.cdfs(shown).mean(axis=0)
        bin_low, bin_high = quantile_bounds(merged, table.edges_s, q)
        low, high = _bounds(table, shown, q)
        yield {
            **cell_columns(arm, target_rps),
            "quantile": q,
            "merged_s": _quantile(merged, table.edges_s, q),
            "bin_low_s": float(bin_low),
            "bin_high_s": float(bin_high),
            "missing_fraction": float(table.runs.loc[shown, "missing_fraction"].mean()),
            "omission_low_s": low,
            "omission_high_s": high,
            "corrected_s": _quantile(corrected.cdfs(shown).mean(axis=0), table.edges_s, q)
            if corrected
            else NAN,
            **(_ratios(table, corrected, pairing, q) if arm != BASELINE else {}),
            "n_blocks": len(own),
            "warnings": joined(pairing.warnings),
        }


def _ratios(table: RunTable, corrected: RunTable | None, pairing: Pairing, q: float) -> dict[str, float]:
    own, control = list(pairing.arm_rows), pairing.all_control_rows
    plain, added = (
        float(np.exp(log_ratios(*pairing.cdfs(of), table.edges_s, q).mean())) if of else NAN
        for of in (table, corrected)
    )
    (low, high), (control_low, control_high) = (_bounds(table, rows, q) for rows in (own, control))
    return {
        "ratio": plain,
        "ratio_corrected": added,
        "ratio_omission_low": low / control_high,
        "ratio_omission_high": high / control_low if control_low > 0 else float("inf"),
    }


def _bounds(table: RunTable, rows: list[int], q: float) -> tuple[float, float]:
    """Limits of the merged quantile of the whole schedule of some runs, in seconds."""
    missing = table.runs.loc[rows, "missing_fraction"].to_numpy(float)
    if np.isnan(missing).any():
        return NAN, NAN
    weights = (1 - missing) / (1 - missing).sum()
    return omission_bounds(weights @ table.cdfs(rows), table.edges_s, q, float(missing.mean()))


def _quantile(cdf: NDArray[np.float64], edges_s: NDArray[np.float64], q: float) -> float:
    return float(np.exp(best_log_quantile(cdf, edges_s, q)))


def components_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Where the variance of the baseline's quantiles comes from: blocks, deployments, or the inside of runs.

    Parameters
    ----------
    runs_df, histograms_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``COMPONENTS_COLUMNS``; a row per rate and quantile. Standard deviations are of log latency.
        ``within_share`` is the share of the variance between the runs of a block that comes from within them, at
        least: requests that depend on each other have more. Above one half longer runs help, below it only more
        blocks do.

    Notes
    -----
    Within a run the requests are resampled as if they were independent, which is a lower limit; the rest is
    counted to the deployments.
    """
    table = RunTable.build(runs_df, histograms_df)
    rows = [row for target_rps in study.target_rps for row in _component_rows(table, target_rps, study)]
    return pd.DataFrame(rows, columns=list(COMPONENTS_COLUMNS))


def _component_rows(table: RunTable, target_rps: int, study: Study) -> Iterator[dict[str, Any]]:
    pairing = pair_cell(table, BASELINE, target_rps)
    if pairing.refusal:
        return
    rows = np.stack([pairing.arm_rows, pairing.all_control_rows], axis=1)
    for q in quantiles_of(study):
        if support(table, rows.ravel().tolist(), q, study).label == "n.e.":
            continue
        rng = generator(study, target_rps, q, "components")
        logs = best_log_quantile(run_cdfs(table.counts[rows.ravel()]), table.edges_s, q).reshape(rows.shape)
        inside = [
            request_variance(table.counts[row], table.edges_s, q, n_resamples=_RESAMPLES, rng=rng)
            for row in rows.ravel()
        ]
        if not np.isfinite(logs).all() or not np.isfinite(inside).all():
            continue
        found = variance_components(logs, np.reshape(inside, rows.shape))
        yield {
            "target_rps": target_rps,
            "quantile": q,
            "sd_block": float(np.sqrt(found.block)),
            "sd_deployment": float(np.sqrt(found.deployment)),
            "sd_within_run": float(np.sqrt(found.within_run)),
            "within_share": found.within_share,
            "n_blocks": found.n,
            "method": found.method,
            "warnings": joined([*pairing.warnings, *found.warnings]),
        }
