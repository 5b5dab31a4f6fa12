"""All that the re-reading computes, and its files: ``results/<study>/published``."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from meshperf.errors import MeshperfError
from meshperf.published import bands, claims, comparison, effects, printed, support
from meshperf.published.cells import cells_df, rate_tier
from meshperf.published.findings import Audit, audit_df, findings_df

if TYPE_CHECKING:
    from meshperf.published.tables import Published
    from meshperf.study import Study

PROVENANCE = "provenance.json"
TEXT = ("table", "row", "reference_table", "reference_row")
"""Columns that are names even where they look like numbers: 9.10 is a table."""
MAIN = "elca2022"
"""The document whose cells are compared one by one: the only one with target rates, configurations and a baseline."""


@dataclass(frozen=True, eq=False)
class Reading:
    """The result of reading the published tables again, one frame per file.

    Attributes
    ----------
    audit, findings : DataFrame
        One row per rule and document; one row per printed row that shows a finding.
    estimability, effects, signs, spread : DataFrame
        Requests behind each percentile; a mesh against no mesh and mTLS against basic; their signs; the noise.
    checks, capacity : DataFrame
        Claims against tables; cost models against the node.
    bands, distances : DataFrame
        What quantiles say of the distributions, and of the distance between them.
    side_by_side, noise, sidecars : DataFrame
        Beside our campaign; empty for arms that only one of the two has.
    sources : DataFrame
        The documents, with ``printed_rows``: rows of numbers.
    cells : DataFrame
        Each cell once, as printed first: ``source, table, row, mesh, configuration, target_rps, achieved_rps,
        rate_ratio, tier``.
    service : DataFrame
        CPU of the service: ``source, table, row, mesh, configuration, target_rps, service_cores, limit_cores``.
    """

    sources: pd.DataFrame
    cells: pd.DataFrame
    service: pd.DataFrame
    audit: pd.DataFrame
    findings: pd.DataFrame
    estimability: pd.DataFrame
    effects: pd.DataFrame
    signs: pd.DataFrame
    spread: pd.DataFrame
    checks: pd.DataFrame
    capacity: pd.DataFrame
    bands: pd.DataFrame
    distances: pd.DataFrame
    side_by_side: pd.DataFrame
    noise: pd.DataFrame
    sidecars: pd.DataFrame
    data_hash: str


def audits(published: Published, tiers: tuple[float, float]) -> list[Audit]:
    """Return every audit, in the order in which the report shows them."""
    text = published.printed
    estimable = support.estimability_df(published)
    found = effects.effects_df(published, tiers)
    signs = effects.signs_df(found, effects.spread_df(published.latency_df))
    checks = claims.checks_df(published)
    multicluster = published.multicluster_df
    targets = (
        multicluster["source"].map(lambda source: published.condition(source, "target_rate")).astype(float)
    )
    return [
        *printed.reprints(published.latency_df, text["latency"]),
        *printed.captions(published),
        *printed.monotone([published.latency_df, published.oha_df, multicluster]),
        *printed.means([(published.latency_df, text["latency"]), (multicluster, text["multicluster"])]),
        *printed.marked_rows(published.oha_df, text["oha"]),
        *support.sample_sizes(estimable),
        *support.rates(cells_df(published.latency_df), tiers),
        *support.rates(multicluster.assign(target_rps=targets), tiers),
        *support.closed_loop(published),
        *support.cpu_limit(published),
        *effects.unexpected_signs(found, signs),
        *claims.against_tables(checks),
        *claims.implied(published),
        *claims.smaller_than_noise(published, checks),
        *claims.beyond_the_node(published, claims.capacity_df(published)),
    ]


def read_again(
    published: Published, study: Study, comparisons_df: pd.DataFrame, resources_df: pd.DataFrame
) -> Reading:
    """Audit the published tables and put them beside a study's results.

    Parameters
    ----------
    published : Published
        The tables.
    study : Study
        For its tiers of the achieved rate and its level of confidence.
    comparisons_df, resources_df : DataFrame
        Of the study's campaign.
    """
    tiers = tuple(study.analysis.rate_tiers)
    found = audits(published, tiers)
    estimable = support.estimability_df(published)
    effect = effects.effects_df(published, tiers)
    spread = effects.spread_df(published.latency_df)
    return Reading(
        sources=_sources(published),
        cells=_cells(published, tiers),
        service=_service(published),
        audit=audit_df(found),
        findings=findings_df(found),
        estimability=estimable,
        effects=effect,
        signs=effects.signs_df(effect, spread),
        spread=spread,
        checks=claims.checks_df(published),
        capacity=claims.capacity_df(published),
        bands=bands.bands_df(published.latency_df),
        distances=bands.distances_df(published.latency_df),
        side_by_side=comparison.side_by_side_df(effect, estimable, spread, comparisons_df),
        noise=comparison.noise_df(effect, spread, comparisons_df, MAIN),
        sidecars=comparison.sidecars_df(published, resources_df, study.analysis.confidence, tiers),
        data_hash=published.data_hash,
    )


def _sources(published: Published) -> pd.DataFrame:
    captions = published.captions
    numeric = captions[(captions["file"] != "") & (captions["file"] != "other_tables.csv")]
    rows = numeric["rows"].astype(int).groupby(numeric["source"]).sum()
    return published.sources.assign(printed_rows=published.sources["source"].map(rows).fillna(0).astype(int))


def _cells(published: Published, tiers: tuple[float, float]) -> pd.DataFrame:
    frame = cells_df(published.latency_df)
    frame = frame[["source", "table", "row", "mesh", "configuration", "target_rps", "achieved_rps"]]
    ratio = frame["achieved_rps"] / frame["target_rps"]
    return frame.assign(rate_ratio=ratio, tier=[rate_tier(value, tiers) for value in ratio])


def _service(published: Published) -> pd.DataFrame:
    columns = ["source", "table", "row", "mesh", "configuration", "target_rps", "service_cores"]
    frame = published.resources_df[columns]
    limits = {source: published.condition(source, "service_cpu_limit") for source in frame["source"].unique()}
    return frame.assign(limit_cores=frame["source"].map(limits).astype(float) / 1e3)


def frames(reading: Reading) -> dict[str, pd.DataFrame]:
    """Return the frames of a reading by the names of their files."""
    return {item.name: getattr(reading, item.name) for item in fields(reading) if item.name != "data_hash"}


def write(reading: Reading, out_dir: str | Path) -> list[Path]:
    """Write every frame as ``NAME.csv``, and the hash of the published data beside them."""
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, frame in frames(reading).items():
        paths.append(out_dir / f"{name}.csv")
        frame.to_csv(paths[-1], index=False)
    (out_dir / PROVENANCE).write_text(json.dumps({"data_hash": reading.data_hash}) + "\n", encoding="utf-8")
    return paths


def load(out_dir: str | Path) -> Reading | None:
    """Return a reading from its files, or None where it was not made.

    Raises
    ------
    MeshperfError
        If some of the files are there and others are not.
    """
    out_dir = Path(out_dir)
    if not (out_dir / PROVENANCE).is_file():
        return None
    data_hash = json.loads((out_dir / PROVENANCE).read_text(encoding="utf-8"))["data_hash"]
    found = {}
    for item in fields(Reading):
        if item.name == "data_hash":
            continue
        path = out_dir / f"{item.name}.csv"
        if not path.is_file():
            raise MeshperfError(
                f"{path} is missing: run notebooks/10-read-published.ipynb again (make report)"
            )
        found[item.name] = pd.read_csv(path, dtype=dict.fromkeys(TEXT, str))
    return Reading(**found, data_hash=data_hash)
