"""Sentences that depend on which arms a study has: Markdown lists that the paper includes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.published.values import findings

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


def all_sentences(data: ReportData) -> dict[str, str]:
    """Return every generated list by the name under which the paper includes it."""
    return {
        "headline": headline(data),
        "dominance": dominance(data),
        "published-findings": findings(data),
        "changed-plan": "".join(f"- {clause}\n" for clause in data.changed_plan),
    }


def headline(data: ReportData) -> str:
    """Return the answer: one sentence per arm, with intervals and verdicts where there are any."""
    rate = data.headline_rate()
    if rate is None:
        return ""
    sentences = []
    for mesh, configuration in data.mesh_arms:
        parts = [part for q in (0.5, 0.99) if (part := _overhead_words(data, mesh, configuration, rate, q))]
        if parts:
            sentences.append(f"- **{style.arm_label(mesh, configuration)}:** {'; '.join(parts)}.")
    return "\n".join(sentences) + "\n"


def dominance(data: ReportData) -> str:
    """Return what can be said of all latencies of each arm, with the rates at which it holds.

    Only distributions that are told apart from the baseline's have anything to say.
    """
    frame = data.distances_df
    if frame.empty:
        return ""
    frame = frame[(frame["mesh"] != "baseline") & frame["ks_d"].notna()]
    sentences = []
    for arm in data.mesh_arms:
        mine = frame[(frame["mesh"] == arm[0]) & (frame["configuration"] == arm[1])]
        said: dict[str, list[str]] = {}
        for row in mine.sort_values("target_rps").itertuples():
            said.setdefault(_statement(row, data), []).append(str(int(row.target_rps)))
        clauses = [f"{words} at {formats.listing(rates)} RPS" for words, rates in said.items()]
        if clauses:
            sentences.append(f"- **{style.arm_label(*arm)}** {'; '.join(clauses)}.")
    return "\n".join(sentences) + "\n"


def _statement(row: object, data: ReportData) -> str:
    share = formats.level(data.study.analysis.dominance_epsilon)
    if row.verdict != "different" or row.dominance not in _STATEMENTS:
        return "supports no statement on all latencies"
    return _STATEMENTS[row.dominance].format(share=share, at=formats.milliseconds(row.crossing_s))


_STATEMENTS = {
    "slower everywhere": "is slower than no mesh at every latency, but for at most {share} of the requests,",
    "faster everywhere": "is faster than no mesh at every latency, but for at most {share} of the requests,",
    "crosses": "is faster than no mesh on one side of {at} ms and slower on the other",
}


def _overhead_words(data: ReportData, mesh: str, configuration: str, rate: int, quantile: float) -> str:
    frame = typical_overheads(data)
    frame = frame[
        (frame["mesh"] == mesh)
        & (frame["configuration"] == configuration)
        & (frame["target_rps"] == rate)
        & ((frame["quantile"] - quantile).abs() < 1e-9)
    ]
    if frame.empty:
        return ""
    row = frame.iloc[0]
    name = "the median" if quantile == 0.5 else f"the {quantile * 100:g}th percentile"
    if not formats.is_number(row["overhead_ratio"]):
        return f"{name}: {row['verdict']}"
    ratio = formats.with_interval(row["overhead_ratio"], row["ratio_low"], row["ratio_high"])
    difference = formats.with_interval(
        row["overhead_s"], row["difference_low_s"], row["difference_high_s"], scale=1e3, sign=True
    )
    return f"{name} is {ratio} times that of no mesh ({difference} ms; {row['verdict']})"


def typical_overheads(data: ReportData) -> pd.DataFrame:
    """Return the typical ratios of all arms against no mesh."""
    frame = data.comparisons_df
    return frame[(frame["mesh"] != "baseline") & (frame["estimand"] == "typical")] if len(frame) else frame
