"""What the chapter on published results rests on: the reading, its conditions, its numbers, its lists.

Everything here is printed from ``results/<study>/published``, which the notebook 10-read-published writes; a study
without it has no such chapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshperf.published import bands, comparison, effects, results
from meshperf.report import formats

if TYPE_CHECKING:
    from meshperf.published.results import Reading
    from meshperf.report.data import ReportData

READ = "10-read-published"
"""The notebook that captions name."""

NAMES = {
    "elca2022": "ELCA annex",
    "livewyer2024": "LiveWyer report",
    "osm2022": "OSM page",
    "uzlov2024": "multi-cluster article",
    "klinker2020": "Istio article",
}
"""Citation key -> short name in tables."""


def reading(data: ReportData) -> Reading | None:
    """Return the study's reading of the published tables, or None if it has none."""
    return results.load(data.results_dir / "published")


def measured(data: ReportData) -> dict[str, bool]:
    """Return the conditions of the chapter."""
    read = reading(data)
    return {
        "published": read is not None,
        "published_common": read is not None and not read.side_by_side.empty,
        "published_sidecars": read is not None and not read.sidecars.empty,
    }


def values(data: ReportData) -> dict[str, str]:
    """Return the numbers of the chapter's prose, printed; empty where there is no reading."""
    read = reading(data)
    if read is None:
        return {}
    signs = read.signs[(read.signs["source"] == results.MAIN) & (read.signs["cells"] == "all")]
    against_none = signs[signs["kind"] == effects.AGAINST_NONE].set_index("quantity")
    against_plain = signs[signs["kind"] == effects.AGAINST_PLAIN].set_index("quantity")
    audit = read.audit.set_index(["rule", "source"])
    apart = int((read.distances["distance_low"] > 0).sum())
    printed = {
        "documents": formats.count(len(read.sources)),
        "rules": formats.count(read.audit["rule"].nunique()),
        "checks": formats.count(len(read.audit)),
        "with_findings": formats.count((read.audit["found"] > 0).sum()),
        "reprinted": formats.count(audit.at[("reprints", results.MAIN), "checked"]),
        "reprints_differ": formats.count(audit.at[("reprints", results.MAIN), "found"]),
        "pairs": formats.count(against_none.at["p99", "n"]),
        "ratio_p50": formats.significant(against_none.at["p50", "mean_ratio"]),
        "ratio_p90": formats.significant(against_none.at["p90", "mean_ratio"]),
        "ratio_p99": formats.significant(against_none.at["p99", "mean_ratio"]),
        "faster_p50": formats.count(against_none.at["p50", "below"]),
        "faster_p99": formats.count(against_none.at["p99", "below"]),
        "sign_p99": formats.significant(against_none.at["p99", "p_value"], 2),
        "tls_pairs": formats.count(against_plain.at["p99", "n"]),
        "tls_faster_p99": formats.count(against_plain.at["p99", "below"]),
        "noise_pairs": formats.count(read.spread["n"].max()),
        "within_noise_p50": formats.count(against_none.at["p50", "within_spread"]),
        "within_noise_p99": formats.count(against_none.at["p99", "within_spread"]),
        "distances": formats.count(len(read.distances)),
        "apart": formats.count(apart),
        "apart_most": formats.significant(read.distances["distance_low"].max(), 1),
        "distance_median": formats.significant(read.distances["distance_high"].median(), 2),
    }
    if not read.side_by_side.empty:
        counts = read.side_by_side["direction"].value_counts()
        printed |= {
            "common": formats.count(len(read.side_by_side)),
            "agree": formats.count(counts.get(comparison.AGREES, 0)),
            "disagree": formats.count(counts.get(comparison.DISAGREES, 0)),
            "untold": formats.count(counts.get(comparison.UNKNOWN, 0)),
        }
    return printed


def findings(data: ReportData) -> str:
    """Return what the audit found, as a Markdown list: one item per rule and document that found something."""
    read = reading(data)
    if read is None:
        return ""
    return "".join(
        f"- **{row.question}** {NAMES.get(row.source, row.source)} [@{row.source}]: {row.statement}\n"
        for row in read.audit[read.audit["found"] > 0].itertuples()
    )


def origin(read: Reading) -> str:
    """Return how the caption of a float ends that shows published numbers only."""
    return f"published tables; data {read.data_hash}"


def band_rate(read: Reading, name: str) -> float:
    """Return the rate at which the bands of a comparison are drawn: the highest that all of its cells reached."""
    return bands.highest_complete_rate(read.bands, bands.COMPARISONS[name])
