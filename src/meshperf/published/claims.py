"""What the prose says, held against the tables, against the noise, and against the size of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from meshperf.errors import MeshperfError
from meshperf.published.findings import Audit
from meshperf.published.tables import half_unit, number

if TYPE_CHECKING:
    from meshperf.published.tables import Published

SOURCE_SPREAD = ("difference between environments, upper end", "%")
"""Quantity and unit of a claim in which a document states its own noise."""


def checks_df(published: Published) -> pd.DataFrame:
    """Compare each claim that a printed table can confirm with that table.

    A figure is confirmed if some value that rounds to the printed cells rounds to the printed figure; it is close if it
    is within one unit of the figure's last digit. A ranking is confirmed if the printed cells are in its order.

    Returns
    -------
    DataFrame
        ``source, claim, quantity, said, table, subject, found, low, high, effect, result``. ``found`` is the value from
        the table, ``low`` and ``high`` what its rounding allows; ``effect`` is the relative difference of the two cells
        (ratio − 1); ``result`` is ``confirmed``, ``close`` (a figure), ``tied`` (a ranking) or ``contradicted``.
    """
    claims = published.claims.set_index("claim")
    rows = []
    for check in published.claim_checks[published.claim_checks["file"] != ""].itertuples():
        left = _cell(published, check, check.left, check.left_column)
        said, unit = claims.at[check.claim, "value"], claims.at[check.claim, "unit"]
        if check.operation == "value":
            low, high, found, effect = _span(left)[0], _span(left)[1], number(left), np.nan
        else:
            right = _cell(published, check, check.right, check.right_column)
            found, low, high = _combine(check.operation, left, right)
            effect = number(left) / number(right) - 1
        if check.operation in ("greater", "less"):
            holds = (
                number(left) > number(right) if check.operation == "greater" else number(left) < number(right)
            )
            tied = number(left) == number(right)
            said, result = check.operation, "confirmed" if holds else "tied" if tied else "contradicted"
        else:
            result = _compared(number(said), half_unit(said), found, low, high)
            said = f"{said} {unit}".strip()
        where = f" at {check.at} RPS" if check.at else ""
        subject = f"{check.left}, {check.left_column}" if check.operation == "value" else (
            f"{check.left} {check.left_column} against {check.right} {check.right_column}{where}"
        )  # fmt: skip
        rows.append(
            [check.source, check.claim, claims.at[check.claim, "quantity"], said, check.table, subject, found, low,
             high, effect, result]
        )  # fmt: skip
    names = [
        "source",
        "claim",
        "quantity",
        "said",
        "table",
        "subject",
        "found",
        "low",
        "high",
        "effect",
        "result",
    ]
    return pd.DataFrame(rows, columns=names)


def _cell(published: Published, check: object, mesh: str, column: str) -> str:
    """Return the one printed cell that a check names."""
    text = published.printed[check.file.removesuffix(".csv")]  # type: ignore[attr-defined]
    rows = text[(text["source"] == check.source) & (text["table"] == check.table) & (text["mesh"] == mesh)]  # type: ignore[attr-defined]
    if check.at:  # type: ignore[attr-defined]
        rows = rows[rows["target_rps"] == check.at]  # type: ignore[attr-defined]
    if len(rows) != 1 or column not in rows:
        raise MeshperfError(
            f"claim_checks.csv: {check.claim} names {mesh} {column} in table {check.table}, "  # type: ignore[attr-defined]
            f"which is {len(rows)} rows of {check.file}"  # type: ignore[attr-defined]
        )
    return str(rows[column].iloc[0])


def _span(printed: str) -> tuple[float, float]:
    return number(printed) - half_unit(printed), number(printed) + half_unit(printed)


def _combine(operation: str, left: str, right: str) -> tuple[float, float, float]:
    """Return the ratio or difference of two printed cells, and what their rounding allows it to be."""
    (left_low, left_high), (right_low, right_high) = _span(left), _span(right)
    if operation == "difference":
        return number(left) - number(right), left_low - right_high, left_high - right_low
    return number(left) / number(right), left_low / right_high, left_high / right_low


def _compared(said: float, half: float, found: float, low: float, high: float) -> str:
    if high >= said - half and low <= said + half:
        return "confirmed"
    return "close" if abs(found - said) <= 2 * half else "contradicted"


def against_tables(checks: pd.DataFrame) -> list[Audit]:
    """Find claims that the printed cells do not confirm."""
    audits = []
    for source, mine in checks.groupby("source", sort=False):
        rows = [
            {
                "table": row.table,
                "row": "",
                "subject": row.subject,
                "quantity": row.quantity,
                "printed": f"{row.said} ({row.claim})",
                "against": f"{row.found:.4g}",
                "against_place": f"table {row.table}",
                "note": row.result,
            }
            for row in mine[mine["result"] != "confirmed"].itertuples()
        ]
        counts = mine["result"].value_counts()
        rankings = mine["said"].isin(["greater", "less"])
        contradicted = mine[mine["result"] == "contradicted"]
        statement = (
            f"{counts.get('confirmed', 0)} of {len(mine)} checks of figures and rankings are confirmed by the tables"
            + (f", {counts.get('close', 0)} differ in the last digit" if counts.get("close", 0) else "")
            + (f", {counts.get('tied', 0)} rank what is printed alike" if counts.get("tied", 0) else "")
            + (f", {len(contradicted)} are contradicted" if len(contradicted) else "")
            + "."
        )
        if rankings.any() and len(contradicted):
            summary = contradicted["quantity"].value_counts()
            statement += " Contradicted: " + "; ".join(
                f"{quantity}, in {n} of {(mine['quantity'] == quantity).sum()} cells" for quantity, n in summary.items()
            ) + "."  # fmt: skip
        audits.append(
            Audit("claims", source, "Do the tables say what the prose says?", len(mine), len(rows), "checks", statement,
                  rows)
        )  # fmt: skip
    return audits


def implied(published: Published) -> list[Audit]:
    """Find pairs of a difference and a share that belong to one total, and cannot.

    If B costs d more than A and A takes the share s of B, then B takes d / (1 − s). Two such pairs about one B must
    allow a common value; each figure stands for what rounds to it (to five for a percentage in tens).
    """
    audits = []
    pairs = published.claim_checks[published.claim_checks["operation"] == "implied"]
    claims = published.claims.set_index("claim")
    for source, mine in pairs.groupby("source", sort=False):
        ranges = []
        for pair in mine.itertuples():
            difference, share = claims.at[pair.left, "value"], claims.at[pair.right, "value"]
            half, share_half = half_unit(difference), 5.0 if share.endswith("0") else half_unit(share)
            low, high = (number(share) - share_half) / 100, (number(share) + share_half) / 100
            middle = number(difference) / (1 - number(share) / 100)
            lowest = (number(difference) - half) / (1 - low)
            highest = (number(difference) + half) / (1 - high)
            ranges.append((middle, lowest, highest, pair))
        common_low, common_high = max(r[1] for r in ranges), min(r[2] for r in ranges)
        agree = common_low <= common_high
        values = " and ".join(f"{middle:.3g}" for middle, *_ in ranges)
        unit = claims.at[mine["left"].iloc[0], "unit"]
        statement = f"The pairs of a difference and a share imply a total of {values} {unit}" + (
            f"; with what rounding allows, {common_low:.3g} to {common_high:.3g} {unit} agrees with all of them."
            if agree
            else "; no total agrees with all of them, whatever rounding allows."
        )
        rows = [] if agree else [
            {
                "subject": f"{claims.at[pair.left, 'quantity']}; {claims.at[pair.right, 'quantity']}",
                "quantity": "total",
                "printed": f"{low:.3g} to {high:.3g} {unit} ({pair.left}, {pair.right})",
                "against": "the other pairs",
            }
            for _, low, high, pair in ranges
        ]  # fmt: skip
        audits.append(
            Audit("implied", source, "Do a difference and a share belong to one total?", len(ranges), len(rows),
                  "pairs of figures", statement, rows)
        )  # fmt: skip
    return audits


def smaller_than_noise(published: Published, checks: pd.DataFrame) -> list[Audit]:
    """Find rankings whose difference is smaller than the noise that the document states of itself."""
    quantity, unit = SOURCE_SPREAD
    stated = published.claims[(published.claims["quantity"] == quantity) & (published.claims["unit"] == unit)]
    audits = []
    for claim in stated.itertuples():
        noise = number(claim.value) / 100
        ranked = checks[(checks["source"] == claim.source) & checks["said"].isin(["greater", "less"])]
        ranked = ranked.drop_duplicates(["table", "subject"])
        small = ranked[ranked["effect"].abs() <= noise]
        rows = [
            {
                "table": row.table,
                "row": "",
                "subject": row.subject,
                "quantity": row.quantity,
                "printed": f"{row.effect:+.1%} ({row.claim})",
                "against": f"{noise:.0%}",
                "against_place": f"{claim.claim}: {claim.section}, paragraph {claim.paragraph}",
                "note": row.result,
            }
            for row in small.itertuples()
        ]
        statement = (
            f"{len(small)} of {len(ranked)} ranked pairs differ by no more than the {claim.value} % by which the "
            "document says its environments differ from each other."
        )
        audits.append(
            Audit("noise", claim.source, "Is a claimed difference larger than the noise?", len(ranked), len(rows),
                  "ranked pairs", statement, rows)
        )  # fmt: skip
    return audits


def capacity_df(published: Published) -> pd.DataFrame:
    """Return what the stated cost models ask of a node, at every level that the document tested.

    The models are linear: idle CPU plus CPU per request for one sidecar, memory per pod for one control plane.

    Returns
    -------
    DataFrame
        ``source, model, level, unit, wanted, capacity, share, fits``; CPU in cores, memory in GB.
    """
    rows = []
    for source in published.sources["source"]:
        idle, slope = (
            published.condition(source, name) for name in ("sidecar_cpu_idle", "sidecar_cpu_per_100_rps")
        )
        cpu, memory = (published.condition(source, name) for name in ("node_cpu", "node_memory"))
        per_pod = published.condition(source, "control_plane_memory_per_pod")
        levels = published.claims[published.claims["source"] == source]
        if idle is not None and slope is not None and cpu is not None:
            for level in levels.loc[levels["quantity"] == "per-pod rates", "value"].map(number):
                rows.append([source, "CPU of one sidecar", level, "RPS", idle + slope * level / 100, cpu])
        if per_pod is not None and memory is not None:
            for level in levels.loc[levels["quantity"] == "pods in the mesh", "value"].map(number):
                rows.append(
                    [source, "memory of the control plane", level, "pods", per_pod * level / 1e3, memory]
                )
    frame = pd.DataFrame(rows, columns=["source", "model", "level", "unit", "wanted", "capacity"])
    return frame.assign(share=frame["wanted"] / frame["capacity"], fits=frame["wanted"] <= frame["capacity"])


def beyond_the_node(published: Published, capacity: pd.DataFrame) -> list[Audit]:
    """Find levels at which a stated model asks for more than the whole node has."""
    audits = []
    for source, mine in capacity.groupby("source", sort=False):
        rows = [
            {
                "table": "",
                "row": "",
                "subject": f"{row.model} at {row.level:g} {row.unit}",
                "quantity": row.model,
                "printed": f"{row.wanted:.3g}",
                "against": f"{row.capacity:g}",
                "against_place": "one node of the test",
                "note": f"{row.share:.0%} of the node",
            }
            for row in mine[~mine["fits"]].itertuples()
        ]
        cpu = mine[mine["unit"] == "RPS"]
        excess = "; ".join(
            f"{row['subject']} wants {row['printed']} of {row['against']} cores" for row in rows
        )
        statement = (
            f"At {len(rows)} of {len(mine)} tested levels a stated model asks for more than a whole node has"
        )
        statement += f": {excess}." if rows else "."
        idle, slope = (
            published.condition(source, name) for name in ("sidecar_cpu_idle", "sidecar_cpu_per_100_rps")
        )
        if len(cpu) and idle is not None and slope is not None:
            limit = (cpu["capacity"].iloc[0] - idle) / slope * 100
            statement += (
                f" A sidecar that follows the model fills the node at {limit:.0f} RPS, all by itself."
            )
        audits.append(
            Audit("capacity", source, "Does a stated model fit the node it was measured on?", len(mine), len(rows),
                  "levels", statement.strip(), rows)
        )  # fmt: skip
    return audits
