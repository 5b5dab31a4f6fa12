"""The decision page: which arm, if one thing matters most, and what a feature costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from meshperf.analysis.decisions import ANY, ENCRYPTED, TOKENS
from meshperf.report import formats, style
from meshperf.report.floats import DECIDE, TableFloat
from meshperf.report.tables.parts import Notes, stacked

if TYPE_CHECKING:
    from meshperf.report.data import ReportData

_REQUIREMENTS = {
    ANY: "any arm",
    ENCRYPTED: "requests must be encrypted",
    TOKENS: "requests must carry a token",
}
_MIB, _US, _MS = 2**-20, 1e6, 1e3
#: Criterion -> how its value is printed: factor and unit.
_UNITS = {
    "median latency": (_MS, "ms"),
    "tail latency": (_MS, "ms"),
    "CPU per request": (_US, "µs"),
    "memory of the proxies": (_MIB, "MiB"),
    "memory of the control plane": (_MIB, "MiB"),
}


def decision(data: ReportData) -> TableFloat | None:
    """Return the table of choices: a row per requirement, criterion and rate."""
    frame = data.decisions_df
    if frame.empty:
        return None
    rows = []
    for (requirement, criterion, rate), group in frame.groupby(
        ["requirement", "criterion", "target_rps"], sort=False
    ):
        first = group[group["best_rank"] == 1].sort_values("value")
        rows.append(
            [
                _REQUIREMENTS[requirement],
                f"{criterion} at {int(rate)} RPS",
                formats.listing([_named(row, criterion) for row in first.itertuples()]),
                _certainty(group, first),
                formats.listing([_named(row, criterion) for row in _last(group, first).itertuples()])
                or formats.DASH,
            ]
        )
    heads = ["Among", "if you care most about", "choose", "how sure", "the most costly"]
    level = formats.level(1 - data.study.analysis.alpha)
    caption = (
        "Which arm to choose if one thing matters most. In brackets the typical value of the arm, and its ratio to no "
        "mesh where that has any. Several arms are a tie: the comparisons of all pairs (paired t on logs, Holm over "
        f"the pairs of a row, {level}) cannot put one before the other. Rates are the lowest and the highest at which "
        "every arm could be compared."
    )
    return TableFloat("tbl-decision", pd.DataFrame(rows, columns=heads), caption, DECIDE, data.mesh_arms)


def features(data: ReportData, label: str = "tbl-features", mesh: str | None = None) -> TableFloat | None:
    """Return what single features cost: of all meshes, or of one."""
    frame = data.features_df
    if mesh is not None:
        frame = frame[frame["mesh"] == mesh]
    if frame.empty:
        return None
    notes = Notes(frame)
    rows = [
        [
            row.feature,
            style.arm_label(row.mesh, row.configuration),
            style.arm_label(row.reference_mesh, row.reference_configuration),
            str(int(row.target_rps)),
            f"p{row.quantile * 100:g}",
            stacked(row.ratio, row.ratio_low, row.ratio_high),
            stacked(row.difference_s, row.difference_low_s, row.difference_high_s, scale=_MS, sign=True),
            formats.p_value(row.p_adjusted),
            f"{row.verdict}{notes.mark(row.warnings)}",
        ]
        for row in frame.itertuples()
    ]
    heads = [
        "Feature",
        "with",
        "without",
        "target RPS",
        "percentile",
        "ratio",
        "difference (ms)",
        "p (Holm)",
        "verdict",
    ]
    whose = f"of {style.mesh_label(mesh)} " if mesh else ""
    caption = (
        f"What a feature {whose}costs: an arm against the one that differs from it in that feature alone, in the same "
        f"block. Below an estimate, its {formats.level(data.study.analysis.confidence)} interval. p: paired t on log "
        f"ratios, corrected for all {len(data.features_df)} comparisons of features.{notes.sentence()}"
    )
    return TableFloat(label, pd.DataFrame(rows, columns=heads), caption, DECIDE, data.mesh_arms)


def _named(row, criterion: str) -> str:
    factor, unit = _UNITS[criterion]
    ratio = (
        f", × {formats.significant(row.ratio_to_baseline)}"
        if formats.is_number(row.ratio_to_baseline)
        else ""
    )
    arm = style.arm_label(row.mesh, row.configuration)
    return f"{arm} ({formats.significant(row.value * factor)} {unit}{ratio})"


def _certainty(group: pd.DataFrame, first: pd.DataFrame) -> str:
    """Return what the comparisons tell of the arms that may be first."""
    others, blocks = len(group) - len(first), formats.plural(int(group["n_blocks"].min()), "block")
    if others == 0:
        return f"not told apart at all, in {blocks}"
    told = f"told apart from {'the other' if others == 1 else f'all {others} others'}, in {blocks}"
    if len(first) == 1:
        return told if int(first["worst_rank"].iloc[0]) == 1 else f"first, but not {told}"
    return f"a tie of {len(first)} of {len(group)}, in {blocks}"


def _last(group: pd.DataFrame, first: pd.DataFrame) -> pd.DataFrame:
    """Return the arms that may be last, unless they may be first as well."""
    last = group[group["worst_rank"] == group["worst_rank"].max()].sort_values("value")
    return last[~last.index.isin(first.index)]
