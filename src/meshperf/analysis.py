"""From runs to cells and comparisons: which runs count, which blocks are complete, and the tables of results.

The statistics themselves are in :mod:`meshperf.statistics`; here runs are chosen, matched by block and
labelled.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from meshperf.design import BASELINE, Arm
from meshperf.errors import MeshperfError
from meshperf.histogram import LOG_GRID
from meshperf.statistics.bootstrap import mean_interval, merged_quantile_interval
from meshperf.statistics.effect import (
    Verdict,
    difference_interval,
    log_ratio_interval,
    log_ratios,
    merged_difference_interval,
    merged_ratio_interval,
    paired_t_p,
    resolution_bracket,
    verdict,
)
from meshperf.statistics.estimability import Estimability, estimability, exceedances
from meshperf.statistics.multiplicity import holm
from meshperf.statistics.quantiles import best_log_quantile, quantile_bounds, run_cdfs
from meshperf.statistics.results import Interval, StatisticsWarning
from meshperf.study import Study

#: Reported besides the study's own quantiles wherever the data support it.
EXTRA_QUANTILE = 0.999
#: Quantiles whose comparisons may support a claim; all others are exploratory.
CONFIRMATORY_QUANTILES = (0.5, 0.99)

CELLS_COLUMNS = (
    "mesh",
    "configuration",
    "target_rps",
    "quantile",
    "estimate_s",
    "low_s",
    "high_s",
    "bin_low_s",
    "bin_high_s",
    "typical_s",
    "estimable",
    "n_blocks",
    "n_requests",
    "achieved_rps_mean",
    "verdict",
    "warnings",
)
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
)
RESOURCE_COMPARISONS_COLUMNS = (
    "mesh",
    "configuration",
    "target_rps",
    "role",
    "cpu_s_per_request",
    "cpu_low_s_per_request",
    "cpu_high_s_per_request",
    "overhead_ratio",
    "ratio_low",
    "ratio_high",
    "overhead_s_per_request",
    "difference_low_s_per_request",
    "difference_high_s_per_request",
    "n_blocks",
    "warnings",
)

#: Roles of ``resources_df`` that carry a request; their sum is the role "data-plane".
DATA_PLANE_ROLES = ("service", "sidecar-server", "sidecar-client")
_RUN = ["mesh", "configuration", "target_rps", "block", "deployment"]
_NAN = float("nan")


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
        key = runs.reset_index().set_index(_RUN)["index"]
        if key.index.has_duplicates:
            raise MeshperfError("runs_df has a run twice: load the runs of one campaign")
        rows = key.reindex(pd.MultiIndex.from_frame(histograms_df[_RUN]))
        known = rows.notna().to_numpy()
        counts = np.zeros((len(runs), edges.size - 1))
        values = histograms_df["count"].to_numpy(float)[known]
        np.add.at(counts, (rows.to_numpy()[known].astype(int), left[known]), values)
        return cls(runs, edges, counts)

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


def _arms(runs: pd.DataFrame, study: Study) -> Iterator[Arm]:
    present = {Arm(mesh, name) for mesh, name in runs[["mesh", "configuration"]].itertuples(index=False)}
    yield from (arm for arm in (BASELINE, *study.arms_expanded) if arm in present)


def _of_cell(runs: pd.DataFrame, arm: Arm, target_rps: int) -> pd.DataFrame:
    chosen = (
        (runs["mesh"] == arm.mesh)
        & (runs["configuration"] == arm.configuration)
        & (runs["target_rps"] == target_rps)
    )
    return runs[chosen]


def _rng(study: Study, *purpose: object) -> np.random.Generator:
    """Make the generator of one purpose, independent of the order of work and of how many cells there are."""
    return np.random.default_rng([study.seed, zlib.crc32("/".join(map(str, purpose)).encode())])


def _quantiles(study: Study) -> list[float]:
    return sorted({*study.quantiles, EXTRA_QUANTILE})


def _joined(warnings: Iterable[StatisticsWarning]) -> str:
    return "; ".join(dict.fromkeys(str(warning) for warning in warnings))


def _without_extra(rows: list[dict[str, Any]], study: Study, label: str) -> list[dict[str, Any]]:
    """Leave out the extra quantile where the data do not support it."""
    extra = EXTRA_QUANTILE if EXTRA_QUANTILE not in study.quantiles else None
    return [row for row in rows if row["quantile"] != extra or row[label] not in ("n.e.", "not estimable")]


# ---- cells


def cell_verdict(verdicts_by_block: pd.Series) -> str:
    """Verdict of a cell from the verdicts of its runs.

    Parameters
    ----------
    verdicts_by_block : Series of str
        One entry per run, indexed by block.

    Returns
    -------
    {"ok", "degraded", "saturated", "failed"}
        Failed runs do not count, because their blocks are repeated; of the other blocks all but one at most
        must be ok. "failed" when nothing else is left.
    """
    sound = verdicts_by_block[verdicts_by_block != "failed"]
    if sound.empty:
        return "failed"
    blocks = sound.groupby(level=0).agg(lambda runs: bool((runs == "ok").all()))
    if blocks.sum() >= max(1, len(blocks) - 1):
        return "ok"
    return "saturated" if (sound == "saturated").any() else "degraded"


def cells_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Latency quantiles of each cell with their intervals over blocks.

    Parameters
    ----------
    runs_df, histograms_df : DataFrame
        Of one campaign (:mod:`meshperf.frames`).
    study : Study

    Returns
    -------
    DataFrame
        ``CELLS_COLUMNS``; a row per cell and quantile, in the study's order. Latencies in seconds.
        ``estimate_s`` is the quantile of the mean of the runs' CDFs, ``typical_s`` the geometric mean of the
        runs' quantiles; both are NaN where the quantile is not estimable. Failed runs do not count; saturated
        runs count only in a cell that is saturated itself, whose numbers are shown and never compared.
    """
    table = RunTable.build(runs_df, histograms_df)
    rows = []
    for arm in _arms(table.runs, study):
        for target_rps in study.target_rps:
            runs = _of_cell(table.runs, arm, target_rps)
            if not runs.empty:
                rows += _cell_rows(table, runs, arm, target_rps, study)
    return pd.DataFrame(rows, columns=list(CELLS_COLUMNS))


def _cell_rows(
    table: RunTable, runs: pd.DataFrame, arm: Arm, target_rps: int, study: Study
) -> list[dict[str, Any]]:
    state = cell_verdict(runs.set_index("block")["verdict"])
    counted = ("ok", "degraded", "saturated") if state == "saturated" else ("ok", "degraded")
    has_requests = table.counts[runs.index].sum(axis=1) > 0
    used = runs[runs["verdict"].isin(counted).to_numpy() & has_requests]
    warnings = [StatisticsWarning.Saturated] if state == "saturated" else []
    if set(runs["block"]) - set(used["block"]):
        warnings.append(StatisticsWarning.BlockIncomplete)
    common = {
        "mesh": arm.mesh,
        "configuration": arm.configuration,
        "target_rps": target_rps,
        "n_blocks": used["block"].nunique(),
        "n_requests": int(table.counts[used.index].sum()),
        "achieved_rps_mean": used["achieved_rps"].mean() if len(used) else _NAN,
        "verdict": state,
    }
    rows = []
    for q in _quantiles(study):
        numbers = _cell_numbers(table, used, q, study, (arm, target_rps)) if len(used) else _no_cell()
        numbers["warnings"] = _joined([*warnings, *numbers["warnings"]])
        rows.append({**common, "quantile": q, **numbers})
    return _without_extra(rows, study, "estimable")


def _no_cell() -> dict[str, Any]:
    names = ("estimate_s", "low_s", "high_s", "bin_low_s", "bin_high_s", "typical_s")
    return {**dict.fromkeys(names, _NAN), "estimable": "n.e.", "warnings": [StatisticsWarning.NotEstimable]}


def _cell_numbers(
    table: RunTable, used: pd.DataFrame, q: float, study: Study, cell: tuple[Arm, int]
) -> dict[str, Any]:
    cdfs = table.cdfs(used.index)
    support = _support(table, used, q, study)
    by_block = _block_cdfs(cdfs, used["block"])
    if support.label == "n.e.":
        return {**_no_cell(), "warnings": list(support.warnings)}
    interval = merged_quantile_interval(
        by_block,
        table.edges_s,
        q,
        confidence=study.analysis.confidence,
        n_resamples=study.analysis.n_resamples,
        rng=_rng(study, *cell, q, "cell"),
    )
    bin_low, bin_high = quantile_bounds(by_block.mean(axis=0), table.edges_s, q)
    return {
        "estimate_s": interval.estimate,
        "low_s": interval.low,
        "high_s": interval.high,
        "bin_low_s": float(bin_low),
        "bin_high_s": float(bin_high),
        "typical_s": float(np.exp(best_log_quantile(cdfs, table.edges_s, q).mean())),
        "estimable": support.label,
        "warnings": [*support.warnings, *interval.warnings, *_unbounded(used, q)],
    }


def _support(table: RunTable, used: pd.DataFrame, q: float, study: Study) -> Estimability:
    totals = table.counts[used.index].sum(axis=1)
    exceeding = exceedances(table.cdfs(used.index), table.edges_s, totals, q)
    return estimability(exceeding, totals.sum(), q, limits=study.analysis.estimable)


def _unbounded(used: pd.DataFrame, q: float) -> list[StatisticsWarning]:
    """Warn where a run left so many requests unsent that they could all lie beyond the quantile."""
    return [StatisticsWarning.OmissionUnbounded] if (used["missing_fraction"] >= 1 - q).any() else []


def _block_cdfs(cdfs: NDArray, blocks: pd.Series) -> NDArray[np.float64]:
    """Mean CDF of each block's runs, in the order of the block numbers; shape (r, n_bins)."""
    numbers = blocks.to_numpy()
    return np.stack([cdfs[numbers == block].mean(axis=0) for block in np.unique(numbers)])


# ---- comparisons


@dataclass(frozen=True)
class Pairing:
    """Runs of an arm and of its control, matched by block.

    Attributes
    ----------
    arm_rows, control_rows : tuple of int, tuple of tuple of int
        Row numbers of the runs, one entry per block; a control may have several runs.
    refusal : str
        Why there is no comparison ("saturated", "errors", ...); empty if there is one.
    reason : str
        One clause with the numbers.
    degraded : bool
        Intervals are printed, claims are not made.
    warnings : tuple of StatisticsWarning
    """

    arm_rows: tuple[int, ...]
    control_rows: tuple[tuple[int, ...], ...]
    refusal: str = ""
    reason: str = ""
    degraded: bool = False
    warnings: tuple[StatisticsWarning, ...] = ()


def pair_blocks(arm_runs: pd.DataFrame, control_runs: pd.DataFrame, n_controls: int) -> Pairing:
    """Match an arm's runs with its control's, block by block.

    Parameters
    ----------
    arm_runs, control_runs : DataFrame
        Rows of ``runs_df`` at one target RPS.
    n_controls : int
        Control runs that make a block complete.

    Notes
    -----
    A block counts when all of its runs are there and none failed. Saturated blocks are left out; more than
    one of them, or none left, and there is no comparison. With more than one saturated or degraded block the
    comparison is degraded; with one, that block is left out.
    """
    states: dict[str, list[int]] = {"ok": [], "degraded": [], "saturated": [], "failed": [], "incomplete": []}
    for block in sorted({*arm_runs["block"], *control_runs["block"]}):
        arm, control = arm_runs[arm_runs["block"] == block], control_runs[control_runs["block"] == block]
        verdicts = {*arm["verdict"], *control["verdict"]}
        if len(arm) != 1 or len(control) != n_controls:
            states["incomplete"].append(block)
        else:
            worst = next(v for v in ("failed", "saturated", "degraded", "ok") if v in verdicts)
            states[worst].append(block)
    warnings = [StatisticsWarning.BlockIncomplete] if states["failed"] or states["incomplete"] else []
    n_bad = len(states["saturated"]) + len(states["degraded"])
    blocks, degraded, refusal = states["ok"], False, ""
    if n_bad > 1 or not blocks:
        blocks, degraded = sorted(states["ok"] + states["degraded"]), True
    if len(states["saturated"]) > 1 or (states["saturated"] and not blocks):
        refusal = "saturated"
    elif not blocks:
        refusal = "errors" if states["failed"] else "too few blocks"
    if states["saturated"]:
        warnings.append(StatisticsWarning.Saturated)
    listed = ", ".join(f"{len(found)} {name}" for name, found in states.items() if found) or "none"
    if refusal:
        return Pairing((), (), refusal, f"blocks: {listed}", False, tuple(warnings))
    arm_rows = tuple(int(arm_runs.index[arm_runs["block"] == block][0]) for block in blocks)
    control_rows = tuple(tuple(control_runs.index[control_runs["block"] == block]) for block in blocks)
    return Pairing(arm_rows, control_rows, "", f"blocks: {listed}", degraded, tuple(warnings))


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
        Numbers are NaN where there is no comparison, and ``verdict`` and ``reason`` say why.

    Notes
    -----
    Claims are made for p50 and p99 of the typical ratio only; their p-values (paired t on log ratios) are
    corrected by Holm over all arms and target RPS of the study. Both rows of a comparison carry its one
    verdict.
    """
    table = RunTable.build(runs_df, histograms_df)
    comparisons = [
        comparison
        for target_rps in study.target_rps
        for arm in _arms(table.runs, study)
        for comparison in _compare(table, arm, target_rps, study)
    ]
    noise = {
        (c.target_rps, c.quantile): float(np.quantile(np.abs(c.log_ratios), 0.95))
        for c in comparisons
        if c.arm == BASELINE and c.log_ratios.size
    }
    family = [c for c in comparisons if c.confirmatory and c.arm != BASELINE]
    adjusted = holm([c.p_value for c in family])
    p_of = {id(c): float(p) for c, p in zip(family, adjusted, strict=True)}
    rows = []
    for c in comparisons:
        p = c.p_value if c.arm == BASELINE and c.confirmatory else p_of.get(id(c))
        limit = 0.0 if c.arm == BASELINE else noise.get((c.target_rps, c.quantile), 0.0)
        rows += c.rows(p, limit, study)
    order = {arm: number for number, arm in enumerate((BASELINE, *study.arms_expanded))}
    rows.sort(key=lambda row: order[Arm(row["mesh"], row["configuration"])])
    return pd.DataFrame(_without_extra(rows, study, "verdict"), columns=list(COMPARISONS_COLUMNS))


@dataclass(frozen=True, eq=False)
class _Comparison:
    """One comparison before its verdict, which depends on all others (Holm) and on the A/A rows."""

    arm: Arm
    target_rps: int
    quantile: float
    pairing: Pairing
    refused: Verdict | None
    log_ratios: NDArray[np.float64]
    p_value: float
    confirmatory: bool
    ratios: dict[str, Interval]
    differences: dict[str, Interval]
    equivalence: Interval | None
    bracket: tuple[float, float]
    warnings: tuple[StatisticsWarning, ...]

    def rows(self, p_adjusted: float | None, noise_limit: float, study: Study) -> list[dict[str, Any]]:
        decided = self.refused or self._verdict(p_adjusted, noise_limit, study)
        limited = [StatisticsWarning.ResolutionLimited] if decided.verdict == "resolution-limited" else []
        rows = []
        for estimand in ("typical", "merged"):
            ratio, difference = self.ratios.get(estimand), self.differences.get(estimand)
            warnings = [*self.warnings, *limited, *(ratio.warnings if ratio else ())]
            rows.append(
                {
                    "mesh": self.arm.mesh,
                    "configuration": self.arm.configuration,
                    "target_rps": self.target_rps,
                    "quantile": self.quantile,
                    "estimand": estimand,
                    "overhead_ratio": ratio.estimate if ratio else _NAN,
                    "ratio_low": ratio.low if ratio else _NAN,
                    "ratio_high": ratio.high if ratio else _NAN,
                    "overhead_s": difference.estimate if difference else _NAN,
                    "difference_low_s": difference.low if difference else _NAN,
                    "difference_high_s": difference.high if difference else _NAN,
                    "n_blocks": len(self.pairing.arm_rows),
                    "sd_log": ratio.sd if ratio else _NAN,
                    "verdict": decided.verdict,
                    "reason": decided.reason,
                    "warnings": _joined(warnings),
                }
            )
        return rows

    def _verdict(self, p_adjusted: float | None, noise_limit: float, study: Study) -> Verdict:
        margin = study.analysis.equivalence_margins.get(f"p{100 * self.quantile:g}".replace(".", ""))
        decided = verdict(
            self.ratios["typical"],
            p_adjusted=p_adjusted,
            alpha=study.analysis.alpha,
            bracket=self.bracket,
            noise_limit=noise_limit,
            equivalence=self.equivalence,
            margin=margin,
        )
        if self.pairing.degraded and decided.verdict not in ("too few blocks", "not estimable"):
            return Verdict("undecided", f"degraded: the target rate was not met ({self.pairing.reason})")
        return decided


def _compare(table: RunTable, arm: Arm, target_rps: int, study: Study) -> Iterator[_Comparison]:
    baseline = _of_cell(table.runs, BASELINE, target_rps)
    baseline = baseline[table.counts[baseline.index].sum(axis=1) > 0]
    if arm == BASELINE:
        pairing = pair_blocks(baseline[baseline["deployment"] == 2], baseline[baseline["deployment"] == 1], 1)
    else:
        runs = _of_cell(table.runs, arm, target_rps)
        pairing = pair_blocks(runs[table.counts[runs.index].sum(axis=1) > 0], baseline, 2)
    for q in _quantiles(study):
        yield _compare_quantile(table, arm, target_rps, q, pairing, study)


def _compare_quantile(
    table: RunTable, arm: Arm, target_rps: int, q: float, pairing: Pairing, study: Study
) -> _Comparison:
    def refused(verdict_: str, reason: str, warnings: Iterable[StatisticsWarning] = ()) -> _Comparison:
        why = Verdict(verdict_, reason)
        every = (*pairing.warnings, *warnings)
        empty = np.empty(0)
        return _Comparison(
            arm, target_rps, q, pairing, why, empty, _NAN, False, {}, {}, None, (_NAN, _NAN), every
        )

    if pairing.refusal:
        known = pairing.refusal == "too few blocks"
        return refused(
            pairing.refusal if known else f"not comparable ({pairing.refusal})",
            pairing.reason,
            (StatisticsWarning.TooFewBlocks,) if known else (),
        )
    control_rows = [row for rows in pairing.control_rows for row in rows]
    supports = [
        _support(table, table.runs.loc[list(rows)], q, study) for rows in (pairing.arm_rows, control_rows)
    ]
    for name, support in zip(("arm", "baseline"), supports, strict=True):
        if support.label == "n.e.":
            return refused("not estimable", f"{name}: {support.reason}", support.warnings)
    cdf = table.cdfs(pairing.arm_rows)
    controls = np.stack([table.cdfs(rows) for rows in pairing.control_rows])
    control = controls.mean(axis=1)
    d = log_ratios(cdf, controls, table.edges_s, q)
    analysis = study.analysis
    options = {"confidence": analysis.confidence, "n_resamples": analysis.n_resamples}
    options["rng"] = _rng(study, arm, target_rps, q, "comparison")
    arm_s = np.exp(best_log_quantile(cdf, table.edges_s, q))
    control_s = np.exp(best_log_quantile(controls, table.edges_s, q)).mean(axis=1)

    used = table.runs.loc[[*pairing.arm_rows, *control_rows]]
    warnings = [*pairing.warnings, *supports[0].warnings, *supports[1].warnings, *_unbounded(used, q)]
    return _Comparison(
        arm=arm,
        target_rps=target_rps,
        quantile=q,
        pairing=pairing,
        refused=None,
        log_ratios=d,
        p_value=paired_t_p(d),
        confirmatory=q in CONFIRMATORY_QUANTILES,
        ratios={
            "typical": log_ratio_interval(d, confidence=analysis.confidence),
            "merged": merged_ratio_interval(cdf, control, table.edges_s, q, **options),
        },
        differences={
            "typical": difference_interval(arm_s, control_s, confidence=analysis.confidence),
            "merged": merged_difference_interval(cdf, control, table.edges_s, q, **options),
        },
        equivalence=log_ratio_interval(d, confidence=1 - 2 * analysis.alpha),
        bracket=resolution_bracket(cdf, control, table.edges_s, q),
        warnings=tuple(warnings),
    )


# ---- resources


def resource_comparisons_df(resources_df: pd.DataFrame, runs_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """CPU per request of each role and arm, and the overhead against the baseline, paired by block.

    Parameters
    ----------
    resources_df, runs_df : DataFrame
        Of one campaign.
    study : Study

    Returns
    -------
    DataFrame
        ``RESOURCE_COMPARISONS_COLUMNS``; CPU-seconds per request, which times 10⁶ are mCPU per 1000 RPS. The
        role "data-plane" is the sum of service and sidecars. Ratios are NaN for roles that the baseline does
        not have, whose baseline counts as 0. Runs count by the same rules as for latency.
    """
    runs = runs_df.reset_index(drop=True)
    cpu = resources_df.groupby([*_RUN, "role"])["cpu_s_per_request"].sum(min_count=1).unstack("role")
    plane = [role for role in DATA_PLANE_ROLES if role in cpu.columns]
    cpu["data-plane"] = cpu[plane].sum(axis=1, min_count=1)
    values = cpu.reindex(pd.MultiIndex.from_frame(runs[_RUN])).reset_index(drop=True)
    roles = [role for role in (*DATA_PLANE_ROLES, "data-plane", "load-generator", "node") if role in values]
    rows = []
    for arm in _arms(runs, study):
        for target_rps in study.target_rps:
            baseline = _of_cell(runs, BASELINE, target_rps)
            if arm == BASELINE:
                first, second = (baseline[baseline["deployment"] == k] for k in (1, 2))
                pairing = pair_blocks(second, first, 1)
            else:
                pairing = pair_blocks(_of_cell(runs, arm, target_rps), baseline, 2)
            if pairing.arm_rows:
                rows += _resource_rows(values, roles, arm, target_rps, pairing, study)
    return pd.DataFrame(rows, columns=list(RESOURCE_COMPARISONS_COLUMNS))


def _resource_rows(
    values: pd.DataFrame, roles: Sequence[str], arm: Arm, target_rps: int, pairing: Pairing, study: Study
) -> Iterator[dict[str, Any]]:
    confidence = study.analysis.confidence
    for role in roles:
        own = values.loc[list(pairing.arm_rows), role].to_numpy(float)
        control = np.array([values.loc[list(rows), role].mean() for rows in pairing.control_rows])
        if np.isnan(own).any():
            continue
        shared = not np.isnan(control).any() and (control > 0).all() and (own > 0).all()
        control = np.where(np.isnan(control), 0.0, control)
        level = mean_interval(own, confidence=confidence)
        difference = difference_interval(own, control, confidence=confidence)
        ratio = log_ratio_interval(np.log(own / control), confidence=confidence) if shared else None
        warnings = [*pairing.warnings, *level.warnings, *(ratio.warnings if ratio else ())]
        yield {
            "mesh": arm.mesh,
            "configuration": arm.configuration,
            "target_rps": target_rps,
            "role": role,
            "cpu_s_per_request": level.estimate,
            "cpu_low_s_per_request": level.low,
            "cpu_high_s_per_request": level.high,
            "overhead_ratio": ratio.estimate if ratio else _NAN,
            "ratio_low": ratio.low if ratio else _NAN,
            "ratio_high": ratio.high if ratio else _NAN,
            "overhead_s_per_request": difference.estimate,
            "difference_low_s_per_request": difference.low,
            "difference_high_s_per_request": difference.high,
            "n_blocks": len(own),
            "warnings": _joined(warnings),
        }
