"""The two baselines of each block against each other (A/A): what noise looks like, and whether the design was kept.

Nothing differs between them but the deployment. Their differences are the noise floor of each cell; over all cells
together they decide whether any verdict of the campaign stands (the gate).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from meshperf.analysis.pairing import Pairing, pair_cell
from meshperf.analysis.runtable import RunTable
from meshperf.analysis.shared import generator, joined, quantiles_of, support
from meshperf.design import BASELINE
from meshperf.statistics.baselines import AAGate, NoiseFloor, aa_gate, noise_floor
from meshperf.statistics.effect import log_ratio_interval, log_ratios, paired_t_p
from meshperf.study import Study

CONTROL_COLUMNS = (
    "target_rps",
    "quantile",
    "ratio",
    "ratio_low",
    "ratio_high",
    "p_value",
    "sd_log",
    "noise_ratio",
    "expected_se_log",
    "later_ratio",
    "later_low",
    "later_high",
    "n_blocks",
    "warnings",
)
GATE_COLUMNS = (
    "compared",
    "passed",
    "p_value",
    "p_min",
    "rejected",
    "tests",
    "share",
    "share_low",
    "share_high",
    "alpha",
    "n_blocks",
    "n_relabellings",
    "exact",
    "method",
    "warnings",
)
#: How the two baselines of a block are told apart: by their drawn numbers, which decides the gate, or by the order in
#: which they were measured, which shows drift and carry-over inside blocks.
BY_NUMBER, BY_ORDER = "second against first", "later against earlier"


@dataclass(frozen=True, eq=False)
class ControlCell:
    """Second against first baseline at one rate and quantile.

    Attributes
    ----------
    target_rps : int
    quantile : float
    blocks : tuple of int
    d : ndarray, shape (r,)
        Log ratio of the second baseline to the first.
    later : ndarray, shape (r,)
        1 where the second was measured after the first, else −1.
    """

    target_rps: int
    quantile: float
    blocks: tuple[int, ...]
    d: NDArray[np.float64]
    later: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Control:
    """All A/A comparisons of a campaign.

    Attributes
    ----------
    cells : tuple of ControlCell
        Of the rates and quantiles that the data support.
    gate : AAGate
        By the numbers of the deployments: it decides.
    order : AAGate
        By the order of measurement: it explains.
    """

    cells: tuple[ControlCell, ...]
    gate: AAGate
    order: AAGate
    _floors: dict[tuple[int, float], NoiseFloor]

    def floor(self, target_rps: int, q: float) -> NoiseFloor | None:
        """Noise floor of a cell; None where the baselines do not support one."""
        return self._floors.get((target_rps, q))

    def noise_limit(self, target_rps: int, q: float) -> float:
        """Return the largest |log ratio| that is noise; 0 where the baselines cannot tell."""
        floor = self.floor(target_rps, q)
        return 0.0 if floor is None or np.isnan(floor.limit) else floor.limit


def control(table: RunTable, study: Study) -> Control:
    """Compare the two baselines of each block at every rate and quantile.

    Notes
    -----
    The gate tests the quantiles of the primary family, at all rates together.
    """
    cells = tuple(_cells(table, study))
    claimed = [cell for cell in cells if cell.quantile in study.analysis.families.quantiles]
    options = {"alpha": study.analysis.alpha, "confidence": study.analysis.confidence}
    options["n_resamples"] = study.analysis.n_resamples
    return Control(
        cells,
        gate=aa_gate(_matrix(claimed), rng=generator(study, "gate"), **options),
        order=aa_gate(_matrix(claimed, by_order=True), rng=generator(study, "gate", "order"), **options),
        _floors={
            (cell.target_rps, cell.quantile): noise_floor(cell.d, confidence=study.analysis.confidence)
            for cell in cells
        },
    )


def control_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Noise of each rate and quantile.

    Returns
    -------
    DataFrame
        ``CONTROL_COLUMNS``; a row per rate and quantile. ``ratio`` is the typical ratio of the second baseline to the
        first, ``later_ratio`` that of the later to the earlier, ``noise_ratio`` the 95th percentile over blocks of
        the factor between the two, ``expected_se_log`` the standard error that the noise alone would give a
        comparison.
    """
    compared = control(RunTable.build(runs_df, histograms_df), study)
    rows = []
    for cell in compared.cells:
        floor = compared.floor(cell.target_rps, cell.quantile)
        later = log_ratio_interval(cell.d * cell.later, confidence=study.analysis.confidence)
        rows.append(
            {
                "target_rps": cell.target_rps,
                "quantile": cell.quantile,
                "ratio": floor.ratio.estimate,
                "ratio_low": floor.ratio.low,
                "ratio_high": floor.ratio.high,
                "p_value": paired_t_p(cell.d),
                "sd_log": floor.ratio.sd,
                "noise_ratio": float(np.exp(floor.limit)),
                "expected_se_log": floor.expected_se,
                "later_ratio": later.estimate,
                "later_low": later.low,
                "later_high": later.high,
                "n_blocks": floor.n,
                "warnings": joined(floor.warnings),
            }
        )
    return pd.DataFrame(rows, columns=list(CONTROL_COLUMNS))


def gate_df(runs_df: pd.DataFrame, histograms_df: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Whether the baselines of the campaign are exchangeable.

    Returns
    -------
    DataFrame
        ``GATE_COLUMNS``; the gate (second against first) and what the order of measurement explains (later against
        earlier). ``passed`` is "yes", "no", or "unknown" where the design cannot tell.
    """
    compared = control(RunTable.build(runs_df, histograms_df), study)
    rows = [_gate_row(BY_NUMBER, compared.gate), _gate_row(BY_ORDER, compared.order)]
    return pd.DataFrame(rows, columns=list(GATE_COLUMNS))


def _gate_row(name: str, gate: AAGate) -> dict[str, object]:
    return {
        "compared": name,
        "passed": {True: "yes", False: "no", None: "unknown"}[gate.passed],
        "p_value": gate.p_value,
        "p_min": gate.p_min,
        "rejected": gate.rejected,
        "tests": gate.tests,
        "share": gate.share,
        "share_low": gate.share_low,
        "share_high": gate.share_high,
        "alpha": gate.alpha,
        "n_blocks": gate.n,
        "n_relabellings": gate.n_relabellings,
        "exact": gate.exact,
        "method": gate.method,
        "warnings": joined(gate.warnings),
    }


def _cells(table: RunTable, study: Study) -> Iterator[ControlCell]:
    for target_rps in study.target_rps:
        pairing = pair_cell(table, BASELINE, target_rps)
        if pairing.refusal:
            continue
        second, first = pairing.cdfs(table)
        for q in quantiles_of(study):
            sides = (pairing.arm_rows, pairing.all_control_rows)
            if any(support(table, rows, q, study).label == "n.e." for rows in sides):
                continue
            blocks = tuple(int(block) for block in table.runs.loc[list(pairing.arm_rows), "block"])
            d = log_ratios(second, first, table.edges_s, q)
            yield ControlCell(target_rps, q, blocks, d, _later(table, pairing))


def _later(table: RunTable, pairing: Pairing) -> NDArray[np.float64]:
    order = table.runs["order"].to_numpy()
    return np.where(order[list(pairing.arm_rows)] > order[pairing.all_control_rows], 1.0, -1.0)


def _matrix(cells: list[ControlCell], *, by_order: bool = False) -> NDArray[np.float64]:
    """Log ratios as the gate takes them: a row per block, a column per cell, NaN where a cell has no such block."""
    blocks = sorted({block for cell in cells for block in cell.blocks})
    matrix = np.full((max(len(blocks), 1), len(cells)), np.nan)
    for column, cell in enumerate(cells):
        rows = [blocks.index(block) for block in cell.blocks]
        matrix[rows, column] = cell.d * cell.later if by_order else cell.d
    return matrix
