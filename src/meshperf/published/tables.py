"""The published tables: as printed, and as typed frames.

A printed table is text: ``read`` returns it untouched, one string per cell, so that ``1,332.38``, ``-`` and ``1.30``
are what the document says. ``load`` checks the files and adds the typed frames that the audits use: SI units, the
project's names of meshes and configurations, a dash as a missing value.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from meshperf.errors import MeshperfError
from meshperf.paths import repository_root

CHECKSUMS = "SHA256SUMS"

COLUMNS: dict[str, tuple[str, ...]] = {
    "sources": ("source", "title", "authors", "publisher", "year", "url", "licence", "scope", "stated", "established"),
    "captions": ("source", "kind", "number", "numbered", "section", "caption", "rows", "file"),
    "latency": (
        "source", "table", "row", "mesh", "configuration", "target_rps", "achieved_rps",
        "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p99_9_ms", "p99_99_ms",
    ),
    "resources": (
        "source", "table", "row", "mesh", "target_rps",
        "service_ram_mib", "sidecar_ram_mib", "service_cpu_mcores", "sidecar_cpu_mcores",
    ),
    "oha": (
        "source", "table", "row", "section", "connections", "requests", "mesh", "mark",
        "time_s", "qps", "p50_s", "p90_s", "p99_s", "p99_9_s",
    ),
    "osm": ("source", "table", "row", "column", "mesh", "target_rps", "p99_ms"),
    "multicluster": ("source", "table", "row", "environment", "mesh", "qps", "mean_ms", "p90_ms", "p99_ms", "p99_9_ms"),
    "other_tables": ("source", "table", "row", "column", "text"),
    "claims": ("source", "claim", "section", "paragraph", "sentence", "quote", "kind", "quantity", "value", "unit"),
    "claim_checks": (
        "source", "claim", "file", "table", "at", "left", "left_column", "operation", "right", "right_column",
    ),
    "conditions": ("source", "quantity", "value", "unit", "stated", "where"),
}  # fmt: skip
"""File (without ``.csv``) -> its columns, in order."""

MESHES = {
    "without mesh": "baseline",
    "Baseline": "baseline",
    "w/o OSM": "baseline",
    "w/ OSM": "osm",
    "istio": "istio",
    "Istio": "istio",
    "kuma": "kuma",
    "Kuma": "kuma",
    "linkerd": "linkerd",
    "Linkerd": "linkerd",
    "consul": "consul",
    "Cilium": "cilium",
    "NSM vl3": "nsm",
}
"""Printed name -> name in this project."""

UNSTATED = "unstated"
"""Configuration of a mesh whose table gives none."""

CONFIGURATIONS = {
    "": "none",
    UNSTATED: UNSTATED,
    "basic": "basic",
    "mTLS": "mtls",
    "mTLS + metrics": "mtls-metrics",
    "JWT (mesh)": "jwt-mesh",
    "JWT (envoy)": "jwt-envoy",
    "JWT (OPA)": "jwt-opa",
    "mTLS + JWT": "mtls-jwt",
}
"""Printed name -> name in this project."""

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
"""Stem of a typed column (``p99_s``) -> quantile."""

PLACE = ["source", "table", "row"]
"""Where a printed row stands: columns of every typed frame."""


@dataclass(frozen=True, eq=False)
class Published:
    """All published tables.

    Attributes
    ----------
    sources, captions, claims, claim_checks, conditions : DataFrame
        As printed or recorded: text.
    latency_df : DataFrame, one row per printed row
        ``source, table, row, mesh, configuration, target_rps, achieved_rps, mean_s`` and a column ``<p>_s`` for each
        of :data:`QUANTILES`; rates in 1/s, latencies in seconds.
    resources_df : DataFrame
        ``source, table, row, mesh, configuration, target_rps, service_ram_bytes, sidecar_ram_bytes, service_cores,
        sidecar_cores``; missing where a dash is printed.
    oha_df : DataFrame
        ``source, table, row, mesh, configuration, connections, requests, marked, time_s, achieved_rps`` and quantiles.
    osm_df : DataFrame
        ``source, table, row, mesh, configuration, target_rps, p99_s``.
    multicluster_df : DataFrame
        ``source, table, row, environment, mesh, configuration, achieved_rps, mean_s`` and quantiles.
    printed : dict of str to DataFrame
        The same tables as text, by file; typed frames have the same index.
    data_hash : str
        First twelve hex digits of the SHA-256 of ``SHA256SUMS``.
    """

    sources: pd.DataFrame
    captions: pd.DataFrame
    claims: pd.DataFrame
    claim_checks: pd.DataFrame
    conditions: pd.DataFrame
    latency_df: pd.DataFrame
    resources_df: pd.DataFrame
    oha_df: pd.DataFrame
    osm_df: pd.DataFrame
    multicluster_df: pd.DataFrame
    printed: dict[str, pd.DataFrame]
    data_hash: str

    def condition(self, source: str, quantity: str) -> float | None:
        """Return a test condition of a source as a number, or None if nobody states it."""
        rows = self.conditions[
            (self.conditions["source"] == source) & (self.conditions["quantity"] == quantity)
        ]
        return None if rows.empty else float(rows["value"].iloc[0])


def directory() -> Path:
    """Return ``data/published`` of the checkout."""
    return repository_root() / "data" / "published"


def read(name: str, published_dir: Path | None = None) -> pd.DataFrame:
    """Return one file as text, every cell as it is printed.

    Parameters
    ----------
    name : str
        A key of :data:`COLUMNS`.
    published_dir : Path, optional
        :func:`directory` if not given.

    Raises
    ------
    MeshperfError
        If the file is missing or its columns are not those of :data:`COLUMNS`.
    """
    path = (published_dir or directory()) / f"{name}.csv"
    if not path.is_file():
        raise MeshperfError(f"{path} is missing: restore it from git")
    frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    if tuple(frame.columns) != COLUMNS[name]:
        raise MeshperfError(
            f"{path} has the columns {', '.join(frame.columns)}: they must be {', '.join(COLUMNS[name])}"
        )
    return frame


def load(published_dir: Path | None = None) -> Published:
    """Read, check and type all published tables.

    Parameters
    ----------
    published_dir : Path, optional
        :func:`directory` if not given.

    Raises
    ------
    MeshperfError
        If a file is missing, differs from its checksum, or holds a name or number that cannot be read; the sentence
        names file, table and row.
    """
    published_dir = published_dir or directory()
    check(published_dir)
    text = {name: read(name, published_dir) for name in COLUMNS}
    return Published(
        sources=text["sources"],
        captions=text["captions"],
        claims=text["claims"],
        claim_checks=text["claim_checks"],
        conditions=text["conditions"],
        latency_df=_latency(text["latency"]),
        resources_df=_resources(text["resources"]),
        oha_df=_oha(text["oha"]),
        osm_df=_osm(text["osm"]),
        multicluster_df=_multicluster(text["multicluster"]),
        printed=text,
        data_hash=hashlib.sha256((published_dir / CHECKSUMS).read_bytes()).hexdigest()[:12],
    )


def check(published_dir: Path) -> None:
    """Refuse published data that are not those whose checksums are recorded.

    Raises
    ------
    MeshperfError
        If ``SHA256SUMS`` is missing, or a file is missing, changed or not listed.
    """
    sums = published_dir / CHECKSUMS
    if not sums.is_file():
        raise MeshperfError(f"{sums} is missing: restore data/published from git")
    listed = {}
    for line in sums.read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        listed[name] = digest
    present = {path.name for path in published_dir.iterdir() if path.name != CHECKSUMS}
    if missing := sorted(set(listed) - present):
        raise MeshperfError(f"{published_dir / missing[0]} is missing: restore it from git")
    for name in sorted(present):
        if hashlib.sha256((published_dir / name).read_bytes()).hexdigest() != listed.get(name):
            raise MeshperfError(
                f"{published_dir / name} is not the file of {CHECKSUMS}: published tables are never edited, "
                "restore it from git"
            )


def number(printed: str) -> float:
    """Return a printed number: thousands may be set apart by commas, a dash is missing (NaN)."""
    return float("nan") if printed == "-" else float(printed.replace(",", ""))


def half_unit(printed: str) -> float:
    """Return half a unit of the last printed digit: what rounding can have hidden (0.005 for ``1.30``)."""
    _, _, fraction = printed.partition(".")
    return 0.5 * 10.0 ** -len(fraction)


def _latency(text: pd.DataFrame) -> pd.DataFrame:
    columns = {"mean_ms": "mean_s", "p50_ms": "p50_s", "p90_ms": "p90_s", "p99_ms": "p99_s"}
    columns |= {"p99_9_ms": "p999_s", "p99_99_ms": "p9999_s"}
    frame = _identity(text, "latency")
    frame["target_rps"] = _numbers(text, "latency", "target_rps")
    frame["achieved_rps"] = _numbers(text, "latency", "achieved_rps")
    for printed, typed in columns.items():
        frame[typed] = _numbers(text, "latency", printed) / 1e3
    return frame


def _resources(text: pd.DataFrame) -> pd.DataFrame:
    frame = _identity(text, "resources")
    # The captions give the configuration: basic.
    frame["configuration"] = frame["configuration"].replace(UNSTATED, "basic")
    frame["target_rps"] = _numbers(text, "resources", "target_rps")
    for side in ("service", "sidecar"):
        frame[f"{side}_ram_bytes"] = _numbers(text, "resources", f"{side}_ram_mib") * 2**20
    for side in ("service", "sidecar"):
        frame[f"{side}_cores"] = _numbers(text, "resources", f"{side}_cpu_mcores") / 1e3
    return frame


def _oha(text: pd.DataFrame) -> pd.DataFrame:
    frame = _identity(text, "oha")
    frame["connections"] = _numbers(text, "oha", "connections")
    frame["requests"] = _numbers(text, "oha", "requests")
    frame["marked"] = text["mark"] != ""
    frame["time_s"] = _numbers(text, "oha", "time_s")
    frame["achieved_rps"] = _numbers(text, "oha", "qps")
    for printed, typed in {"p50_s": "p50_s", "p90_s": "p90_s", "p99_s": "p99_s", "p99_9_s": "p999_s"}.items():
        frame[typed] = _numbers(text, "oha", printed)
    return frame


def _osm(text: pd.DataFrame) -> pd.DataFrame:
    frame = _identity(text, "osm")
    frame["target_rps"] = _numbers(text, "osm", "target_rps")
    frame["p99_s"] = _numbers(text, "osm", "p99_ms") / 1e3
    return frame


def _multicluster(text: pd.DataFrame) -> pd.DataFrame:
    frame = _identity(text, "multicluster")
    frame["environment"] = text["environment"]
    frame["achieved_rps"] = _numbers(text, "multicluster", "qps")
    columns = {"mean_ms": "mean_s", "p90_ms": "p90_s", "p99_ms": "p99_s", "p99_9_ms": "p999_s"}
    for printed, typed in columns.items():
        frame[typed] = _numbers(text, "multicluster", printed) / 1e3
    return frame


def _identity(text: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return place, mesh and configuration of every row, in this project's names."""
    frame = text[["source", "table"]].copy()
    frame["row"] = text["row"].astype(int)
    if "configuration" not in text:
        stated = text["mesh"].map(lambda mesh: "" if MESHES.get(mesh) == "baseline" else UNSTATED)
        text = text.assign(configuration=stated)
    for column, names in (("mesh", MESHES), ("configuration", CONFIGURATIONS)):
        unknown = text[~text[column].isin(list(names))]
        if len(unknown):
            first = unknown.iloc[0]
            raise MeshperfError(
                f"{name}.csv, table {first['table']}, row {first['row']}: the {column} {first[column]!r} has no name "
                "here; add it to meshperf.published.tables"
            )
        frame[column] = text[column].map(names)
    return frame


def _numbers(text: pd.DataFrame, name: str, column: str) -> pd.Series:
    """Return a column of printed numbers as floats."""
    try:
        return text[column].map(number).astype(float)
    except ValueError:
        for row in text.itertuples():
            try:
                number(getattr(row, column))
            except ValueError:
                raise MeshperfError(
                    f"{name}.csv, table {row.table}, row {row.row}: {column} is {getattr(row, column)!r}, "
                    "which is no number"
                ) from None
        raise
