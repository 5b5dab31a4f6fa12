"""How well the statistics keep what they promise, on simulated campaigns of known truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from meshperf.report import formats
from meshperf.report.floats import TableFloat

if TYPE_CHECKING:
    from meshperf.report.data import ReportData

#: Checks whose value is no share of campaigns and has no unit.
_PLAIN = "chi-square"


def validation(data: ReportData) -> TableFloat | None:
    """Return the range of every check over scenarios, percentiles and numbers of blocks; None without a validation."""
    frame = data.validation_df
    if frame.empty:
        return None
    rows = [
        [
            f"{check}, A/A" if check != "coverage" and "A/A" in set(group["scenario"]) else str(check),
            f"*{method}*" if naive else str(method),
            _listing(group["scenario"]),
            _listing(group["n_blocks"]),
            _range(check, group["value"].min(), group["value"].max()),
            "counter-example" if naive else _required(check, group),
            "" if naive or not _gated(group).any() else _passed(group[_gated(group)]),
        ]
        for (check, method, naive), group in frame.groupby(["check", "method", "naive"], sort=False)
    ]
    heads = ["Check", "method", "scenarios", "blocks", "found", "required", "within"]
    n_campaigns = formats.count(frame.loc[~frame["naive"], "n_campaigns"].max())
    caption = (
        f"Validation on up to {n_campaigns} simulated campaigns of known truth for each figure, with two "
        "baselines in each "
        "block. Found: smallest and largest value over scenarios, percentiles and numbers of blocks. In "
        "italics: what the "
        "field usually does, on the same campaigns. Scenarios: A quiet, B typical, C noisy, D with a tenth "
        "of bad runs, E "
        "with a change of shape, F with two modes of deployment (a known limit: reported, not required)."
    )
    return TableFloat("tbl-validation", pd.DataFrame(rows, columns=heads), caption, "", origin=origin(frame))


def origin(frame: pd.DataFrame) -> str:
    """Return where a validation comes from, for the end of a caption."""
    commits = formats.listing([f"`{commit}`" for commit in dict.fromkeys(frame["commit"].astype(str))])
    return f"`make validate-statistics` (`data/validation/statistics.csv`), code {commits}"


def _gated(group: pd.DataFrame) -> pd.Series:
    return group[["required_low", "required_high"]].notna().any(axis=1)


def _passed(group: pd.DataFrame) -> str:
    return f"{int(group['passed'].sum())} of {len(group)}"


def _required(check: str, group: pd.DataFrame) -> str:
    low, high = group["required_low"].min(), group["required_high"].max()
    if pd.notna(low) and pd.notna(high):
        return _range(check, low, high)
    if pd.notna(high):
        return f"at most {_value(check, high)}"
    return f"at least {_value(check, low)}" if pd.notna(low) else "reported"


def _range(check: str, low: float, high: float) -> str:
    texts = [_value(check, low), _value(check, high)]
    return " to ".join(dict.fromkeys(texts))


def _value(check: str, value: float) -> str:
    if check.startswith(_PLAIN):
        return formats.significant(value)
    return f"{formats.fixed(100 * value, 1)} %"


def _listing(values: pd.Series) -> str:
    """Return distinct values in their order of appearance; whole numbers as a range where there are many."""
    distinct = list(dict.fromkeys(values))
    if len(distinct) > 3 and all(isinstance(value, int) for value in distinct):
        return f"{min(distinct)} to {max(distinct)}"
    return ", ".join(str(value) for value in distinct)
