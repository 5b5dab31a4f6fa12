"""What an audit returns: how much was looked at, what was found, and the printed rows that show it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

COLUMNS = [
    "rule",
    "source",
    "table",
    "row",
    "subject",
    "quantity",
    "printed",
    "against",
    "against_place",
    "note",
]
"""One finding: the printed value, what it stands against, and where that is printed."""


@dataclass(frozen=True, eq=False)
class Audit:
    """One rule applied to one document.

    Attributes
    ----------
    rule : str
        Short name, such as ``reprints``.
    source : str
        Citation key of the document.
    question : str
        What the rule asks.
    checked, found : int
        How many of ``unit`` were looked at, and how many of them show what the question asks for.
    unit : str
        What is counted, in the plural.
    statement : str
        The result in one or two sentences, with its numbers.
    rows : list of dict
        The findings, each with the keys of :data:`COLUMNS` that apply.
    """

    rule: str
    source: str
    question: str
    checked: int
    found: int
    unit: str
    statement: str
    rows: list[dict[str, object]] = field(default_factory=list)


def audit_df(audits: list[Audit]) -> pd.DataFrame:
    """Return one row per audit: ``rule, source, question, checked, found, unit, statement``."""
    names = ["rule", "source", "question", "checked", "found", "unit", "statement"]
    return pd.DataFrame([[getattr(audit, name) for name in names] for audit in audits], columns=names)


def findings_df(audits: list[Audit]) -> pd.DataFrame:
    """Return one row per finding, with the columns :data:`COLUMNS`; what does not apply is empty."""
    rows = [{"rule": audit.rule, "source": audit.source} | row for audit in audits for row in audit.rows]
    return pd.DataFrame(rows, columns=COLUMNS).fillna("")


def place(table: object, row: object) -> str:
    """Return where a row is printed, in words."""
    return f"table {table}, row {row}"
