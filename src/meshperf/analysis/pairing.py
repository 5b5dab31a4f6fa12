"""Which blocks of an arm and of its control are compared, and their distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from meshperf.analysis.runtable import RunTable
from meshperf.analysis.shared import runs_of_cell
from meshperf.design import BASELINE, Arm
from meshperf.statistics.results import StatisticsWarning

#: Verdicts of a run from worst to best: a block is as good as its worst run.
_VERDICTS = ("failed", "saturated", "degraded", "ok")
#: How a comparison that is refused for a reason of this kind is labelled; others are "not comparable (reason)".
TOO_FEW_BLOCKS = "too few blocks"


@dataclass(frozen=True)
class Pairing:
    """Runs of an arm and of its control, matched by block.

    Attributes
    ----------
    arm_rows, control_rows : tuple of int, tuple of tuple of int
        Row numbers of the runs, one entry per block; a control may have several runs.
    refusal : str
        Why there is no comparison ("saturated", "errors", "unsteady", "too few blocks"); empty if there is one.
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

    @property
    def verdict(self) -> str:
        """The verdict of a comparison that is refused."""
        return self.refusal if self.refusal == TOO_FEW_BLOCKS else f"not comparable ({self.refusal})"

    @property
    def all_control_rows(self) -> list[int]:
        """Row numbers of all control runs."""
        return [row for rows in self.control_rows for row in rows]

    def cdfs(self, table: RunTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """CDFs of the arm, shape (r, n_bins), and of its control, shape (r, runs, n_bins)."""
        return table.cdfs(self.arm_rows), np.stack([table.cdfs(rows) for rows in self.control_rows])


def pair_cell(table: RunTable, arm: Arm, target_rps: int) -> Pairing:
    """Match the runs of an arm at a rate with all baselines; of the baseline, the second with the first (A/A)."""
    return pair_runs(table.runs_with_requests, arm, target_rps)


def pair_runs(runs: pd.DataFrame, arm: Arm, target_rps: int, *, latency: bool = True) -> Pairing:
    """As :func:`pair_cell`, for any rows of ``runs_df``; without `latency`, unsteady runs count like others."""
    baseline = runs_of_cell(runs, BASELINE, target_rps)
    if arm == BASELINE:
        first, second = (baseline[baseline["deployment"] == k] for k in (1, 2))
        return pair_blocks(second, first, 1, latency=latency)
    return pair_blocks(
        runs_of_cell(runs, arm, target_rps), baseline, deployments_per_block(runs, BASELINE), latency=latency
    )


def deployments_per_block(runs: pd.DataFrame, arm: Arm) -> int:
    """Return how many deployments of an arm make a block complete: 2 of the baseline, 1 in some imported campaigns."""
    mine = runs[(runs["mesh"] == arm.mesh) & (runs["configuration"] == arm.configuration)]
    return max(1, mine["deployment"].nunique())


def pair_blocks(
    arm_runs: pd.DataFrame, control_runs: pd.DataFrame, n_controls: int, *, latency: bool = True
) -> Pairing:
    """Match an arm's runs with its control's, block by block.

    Parameters
    ----------
    arm_runs, control_runs : DataFrame
        Rows of ``runs_df`` at one target RPS.
    n_controls : int
        Control runs that make a block complete.
    latency : bool
        Whether latencies are compared, which a run that was not steady has no say in.

    Notes
    -----
    A block counts when all of its runs are there and none failed. Saturated blocks are left out; more than
    one of them, or none left, and there is no comparison. With more than one saturated or degraded block the
    comparison is degraded; with one, that block is left out. Blocks with a run that was not steady are left out; if
    that is more than half of those that could be used, there is no comparison.
    """
    names = ("ok", "degraded", "unsteady", "saturated", "failed", "incomplete")
    states: dict[str, list[int]] = {name: [] for name in names}
    arm, control = _by_block(arm_runs), _by_block(control_runs)
    for block in sorted({*arm, *control}):
        states[_state(arm.get(block, []), control.get(block, []), n_controls, latency)].append(block)
    warnings = [StatisticsWarning.BlockIncomplete] if states["failed"] or states["incomplete"] else []
    if states["unsteady"]:
        warnings.append(StatisticsWarning.NotSteady)
    n_bad = len(states["saturated"]) + len(states["degraded"])
    blocks, degraded, refusal = states["ok"], False, ""
    if n_bad > 1 or not blocks:
        blocks, degraded = sorted(states["ok"] + states["degraded"]), True
    if len(states["saturated"]) > 1 or (states["saturated"] and not blocks):
        refusal = "saturated"
    elif len(states["unsteady"]) > len(states["ok"]) + len(states["degraded"]):
        refusal = "unsteady"
    elif not blocks:
        refusal = "errors" if states["failed"] else TOO_FEW_BLOCKS
    if states["saturated"]:
        warnings.append(StatisticsWarning.Saturated)
    if refusal == TOO_FEW_BLOCKS:
        warnings.append(StatisticsWarning.TooFewBlocks)
    listed = ", ".join(f"{len(found)} {name}" for name, found in states.items() if found) or "none"
    if refusal:
        return Pairing((), (), refusal, f"blocks: {listed}", False, tuple(warnings))
    arm_rows = tuple(arm[block][0].row for block in blocks)
    control_rows = tuple(tuple(run.row for run in control[block]) for block in blocks)
    return Pairing(arm_rows, control_rows, "", f"blocks: {listed}", degraded, tuple(warnings))


class _Run(NamedTuple):
    row: int
    verdict: str
    steadiness: str


def _by_block(runs: pd.DataFrame) -> dict[int, list[_Run]]:
    """Sort runs by block, in one pass: there may be hundreds of blocks."""
    found: dict[int, list[_Run]] = {}
    columns = (runs["block"], runs.index, runs["verdict"], runs["steadiness"])
    for block, row, verdict, steadiness in zip(*columns, strict=True):
        found.setdefault(block, []).append(_Run(int(row), verdict, steadiness))
    return found


def _state(arm: list[_Run], control: list[_Run], n_controls: int, latency: bool) -> str:
    """Return what becomes of a block: the verdict of its worst run, "unsteady", or "incomplete"."""
    if len(arm) != 1 or len(control) != n_controls:
        return "incomplete"
    verdicts = {run.verdict for run in (*arm, *control)}
    worst = next(verdict for verdict in _VERDICTS if verdict in verdicts)
    unsteady = latency and any(run.steadiness == "not steady" for run in (*arm, *control))
    return "unsteady" if worst in ("ok", "degraded") and unsteady else worst
