"""Audit of what is printed: each rule looks at the numbers of a document and at nothing else.

A rule finds what a reader can check with the document in hand. It does not say who is wrong: of two numbers for one
cell it lists both.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from meshperf.published.cells import CELL, printed_percentiles, quantile_label, subject
from meshperf.published.findings import Audit, place
from meshperf.published.tables import MESHES, QUANTILES, half_unit

if TYPE_CHECKING:
    from meshperf.published.tables import Published


def reprints(latency_df: pd.DataFrame, printed: pd.DataFrame) -> list[Audit]:
    """Find cells that are printed more than once with different numbers.

    Parameters
    ----------
    latency_df : DataFrame
        Typed rows.
    printed : DataFrame
        The same rows as text, with the same index: numbers are compared as they are printed.
    """
    columns = [name for name in printed.columns if name.endswith("_ms") or name == "achieved_rps"]
    audits = []
    for source, mine in latency_df.groupby("source", sort=False):
        rows, repeated, rate_only, more = [], 0, 0, 0
        for _, group in mine.groupby(CELL, sort=False):
            first = group.index[0]
            for other in group.index[1:]:
                repeated += 1
                differing = [name for name in columns if printed.at[first, name] != printed.at[other, name]]
                rate_only += differing == ["achieved_rps"]
                more += bool(set(differing) - {"achieved_rps"})
                rows += [
                    {
                        "table": latency_df.at[other, "table"],
                        "row": latency_df.at[other, "row"],
                        "subject": subject(latency_df.loc[first]),
                        "quantity": name,
                        "printed": printed.at[other, name],
                        "against": printed.at[first, name],
                        "against_place": place(latency_df.at[first, "table"], latency_df.at[first, "row"]),
                        "note": "only the achieved rate differs" if differing == ["achieved_rps"] else "",
                    }
                    for name in differing
                ]
        if repeated:
            statement = (
                f"{repeated} cells are printed a second time: {repeated - rate_only - more} with the same numbers, "
                f"{rate_only} with the same latencies beside another achieved rate, {more} with other latencies."
            )
            audits.append(
                Audit(
                    "reprints", source, "Is a cell that is printed twice printed with the same numbers?",
                    repeated, rate_only + more, "cells printed again", statement, rows,
                )
            )  # fmt: skip
    return audits


def captions(published: Published) -> list[Audit]:
    """Find captions that name something else than their table holds: a mesh, a configuration, an environment."""
    audits = []
    tables = published.captions[published.captions["kind"] == "table"]
    for source, mine in tables.groupby("source", sort=False):
        rows, checked = [], 0
        for caption in mine.itertuples():
            name = str(caption.file).removesuffix(".csv")
            if name not in ("latency", "resources", "oha", "osm", "multicluster"):
                continue
            text = published.printed[name]
            held = text[(text["source"] == source) & (text["table"] == caption.number)]
            checked += 1
            rows += [
                {"table": caption.number, "row": "", "subject": caption.caption} | finding
                for finding in _caption_findings(caption.caption, held)
            ]
        found = len({row["table"] for row in rows})
        statement = (
            f"The captions of {checked} tables name what the tables hold."
            if not found
            else f"{found} of {checked} captions name something else: "
            + "; ".join(f"table {r['table']} says {r['printed']}, its rows are {r['against']}" for r in rows)
            + "."
        )
        if checked:
            audits.append(
                Audit("captions", source, "Does a caption name what its table holds?", checked, found, "captions",
                      statement, rows)
            )  # fmt: skip
    return audits


def _caption_findings(caption: str, held: pd.DataFrame) -> list[dict[str, object]]:
    """Return what a caption names that the printed rows under it contradict."""
    found = []
    meshes = {MESHES[name] for name in held["mesh"]} - {"baseline"}
    named = {mesh for mesh in set(MESHES.values()) - {"baseline"} if re.search(rf"\b{mesh}\b", caption, re.I)}
    if named and named != meshes:
        found.append(("mesh", " and ".join(sorted(named)).title(), " and ".join(sorted(meshes)).title(), ""))
    configuration = re.search(r"with (basic) configuration|with (mTLS) enabled", caption)
    if configuration and "configuration" in held:
        said = configuration.group(1) or configuration.group(2)
        printed = set(held["configuration"]) - {""}
        if printed != {said}:
            found.append(("configuration", said, " and ".join(sorted(printed)), ""))
    if "connections" in held:
        said = dict(re.findall(r"(connections|Requests) ?= ?(\d+)", caption))
        for word, column in (("connections", "connections"), ("Requests", "requests")):
            if word in said and set(held[column]) != {said[word]}:
                found.append((column, said[word], " and ".join(sorted(set(held[column]))), ""))
    if "environment" in held:
        for environment in set(held["environment"]):
            if environment not in caption:
                note = (
                    "two names of one provider: Packet became Equinix Metal"
                    if environment == "Packet"
                    else ""
                )
                found.append(
                    (
                        "environment",
                        caption.removeprefix("Test results for the ").rstrip("."),
                        environment,
                        note,
                    )
                )
    keys = ("quantity", "printed", "against", "note")
    return [dict(zip(keys, finding, strict=True)) for finding in found]


def monotone(frames: list[pd.DataFrame]) -> list[Audit]:
    """Find rows in which a higher percentile is printed below a lower one."""
    audits = []
    for frame in frames:
        columns = printed_percentiles(frame)
        for source, mine in frame.groupby("source", sort=False):
            rows = [
                {
                    "table": row["table"],
                    "row": row["row"],
                    "subject": subject(row),
                    "quantity": quantile_label(high),
                    "printed": f"{row[high] * 1e3:g} ms",
                    "against": f"{row[low] * 1e3:g} ms",
                    "against_place": f"{quantile_label(low)} of the same row",
                }
                for _, row in mine.iterrows()
                for low, high in pairwise(columns)
                if row[high] < row[low]
            ]
            found = len({(row["table"], row["row"]) for row in rows})
            statement = (
                f"In {found} of {len(mine)} rows a higher percentile is below a lower one."
                if found
                else f"Percentiles ascend in all {len(mine)} rows."
            )
            audits.append(
                Audit(
                    "monotone",
                    source,
                    "Do the percentiles of a row ascend?",
                    len(mine),
                    found,
                    "rows",
                    statement,
                    rows,
                )
            )
    return audits


def mean_limits(values_s: np.ndarray, quantiles: np.ndarray) -> tuple[float, float]:
    """Return what percentiles allow the mean to be.

    Parameters
    ----------
    values_s : ndarray, shape (n,)
        Percentiles in seconds, ascending.
    quantiles : ndarray, shape (n,)
        Their ranks p₁ < … < pₙ in (0, 1).

    Returns
    -------
    low_s, high_s : float
        Σ(pᵢ₊₁ − pᵢ)qᵢ over i = 1…n with pₙ₊₁ = 1, and Σ(pᵢ − pᵢ₋₁)qᵢ + (1 − pₙ)qₙ with p₀ = 0. The first holds for
        any latencies that are not negative; the second only if nothing is slower than the last percentile, so that
        a mean above it says how slow the rest was.
    """
    shares = np.diff([0.0, *quantiles, 1.0])
    low = float((shares[1:] * values_s).sum())
    high = float((shares[:-1] * values_s).sum() + shares[-1] * values_s[-1])
    return low, high


def means(frames: list[tuple[pd.DataFrame, pd.DataFrame]]) -> list[Audit]:
    """Find means that the percentiles of their row do not allow, with what rounding can have hidden.

    Parameters
    ----------
    frames : list of (DataFrame, DataFrame)
        Typed rows with ``mean_s``, and the same rows as text.
    """
    audits = []
    for frame, text in frames:
        columns = printed_percentiles(frame)
        quantiles = np.array([QUANTILES[name.removesuffix("_s")] for name in columns])
        for source, mine in frame.groupby("source", sort=False):
            rows = []
            for index, row in mine.iterrows():
                low, high = mean_limits(row[columns].to_numpy(float), quantiles)
                slack = half_unit(text.at[index, "mean_ms"]) / 1e3
                slack += (
                    max(half_unit(text.at[index, name]) for name in text if re.match(r"p\d.*_ms", name)) / 1e3
                )
                if not low - slack <= row["mean_s"] <= high + slack:
                    rest = (row["mean_s"] - high) / (1 - quantiles[-1]) + row[columns[-1]]
                    above = row["mean_s"] > high
                    rows.append(
                        {
                            "table": row["table"],
                            "row": row["row"],
                            "subject": subject(row),
                            "quantity": "mean",
                            "printed": f"{row['mean_s'] * 1e3:g} ms",
                            "against": f"{low * 1e3:.4g} to {high * 1e3:.4g} ms",
                            "against_place": "percentiles of the same row",
                            "note": f"needs {rest * 1e3:.4g} ms on average beyond the last percentile" if above
                            else "below what the percentiles allow",
                        }
                    )  # fmt: skip
            statement = (
                f"{len(rows)} of {len(mine)} means lie outside what the percentiles of their row allow."
                if rows
                else f"All {len(mine)} means lie within what the percentiles of their row allow, also if nothing is "
                "slower than the last of them."
            )
            audits.append(
                Audit("means", source, "Can the mean be that of these percentiles?", len(mine), len(rows), "means",
                      statement, rows)
            )  # fmt: skip
    return audits


def marked_rows(oha_df: pd.DataFrame, printed: pd.DataFrame) -> list[Audit]:
    """Find rows that their document itself marks as failed and prints among the others."""
    audits = []
    for source, mine in oha_df.groupby("source", sort=False):
        rows = [
            {
                "table": row["table"],
                "row": row["row"],
                "subject": subject(row),
                "quantity": "row",
                "printed": f"{printed.at[index, 'qps']} QPS, p99 {printed.at[index, 'p99_s']} s",
                "against": printed.at[index, "mark"],
                "against_place": "note below the table",
                "note": "marked as failed by the document",
            }
            for index, row in mine[mine["marked"]].iterrows()
        ]
        statement = (
            f"{len(rows)} of {len(mine)} rows are marked as failed below their table and printed in it."
            if rows
            else f"No row of {len(mine)} is marked as failed."
        )
        audits.append(
            Audit("marked", source, "Does the document itself call a row failed?", len(mine), len(rows), "rows",
                  statement, rows)
        )  # fmt: skip
    return audits
