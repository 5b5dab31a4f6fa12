"""What several tables share: cautions as letters, estimates above their intervals, rows in one order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import LINE_BREAK
from meshperf.statistics.results import EXPLANATIONS

if TYPE_CHECKING:
    from meshperf.report.data import ReportData


class Notes:
    """Cautions of the rows of a table: letters where they apply, explanations for the caption.

    A caution that every row carries gets no letter.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        texts = frame["warnings"] if "warnings" in frame else pd.Series("", index=frame.index)
        lists = [self._names(text) for text in texts]
        names = list(dict.fromkeys(name for row in lists for name in row))
        self.everywhere = [name for name in names if all(name in row for row in lists)]
        self._letters = dict(
            zip([n for n in names if n not in self.everywhere], "abcdefghijkl", strict=False)
        )

    @staticmethod
    def _names(text: object) -> list[str]:
        return (
            [name.strip() for name in str(text).split(";") if name.strip()] if isinstance(text, str) else []
        )

    def mark(self, warnings: object) -> str:
        """Return the superscript letters of a row's cautions, or an empty string."""
        letters = ",".join(self._letters[name] for name in self._names(warnings) if name in self._letters)
        return f"^{letters}^" if letters else ""

    def sentence(self) -> str:
        """Return the explanations of all cautions."""
        known = {str(name): text for name, text in EXPLANATIONS.items()}
        parts = [f"{letter}: {known.get(name, name)}" for name, letter in self._letters.items()]
        parts += [f"all rows: {known.get(name, name)}" for name in self.everywhere]
        return f" Cautions: {'; '.join(parts)}." if parts else ""


def stacked(value: object, low: object, high: object, **kwargs: Any) -> str:
    """Return ``value [low, high]`` on two lines of a cell."""
    return formats.with_interval(value, low, high, **kwargs).replace(" [", f"{LINE_BREAK}[", 1)


def interval_words(data: ReportData) -> str:
    """Return the sentence of a caption on what stands below an estimate."""
    level = formats.level(data.study.analysis.confidence)
    fewest, most = int(data.cells_df["n_blocks"].min()), int(data.cells_df["n_blocks"].max())
    n_blocks = formats.plural(most, "block") if fewest == most else f"{fewest} to {most} blocks"
    if data.cells_df["low_s"].notna().any():
        return f"Below an estimate, its {level} interval over {n_blocks}."
    return f"With {n_blocks}, too few blocks for intervals."


def in_order(frame: pd.DataFrame) -> list[Any]:
    """Return rows by rate, arm, and quantile."""
    arms = style.arm_order(zip(frame["mesh"], frame["configuration"], strict=True))
    return sorted(
        frame.itertuples(index=False),
        key=lambda row: (row.target_rps, arms.index((row.mesh, row.configuration)), row.quantile),
    )


def cell_runs(
    data: ReportData, arm: tuple[str, str], rate: int, runs: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return the runs of one arm at one rate: of all runs, or of those given."""
    runs = data.runs_df if runs is None else runs
    return runs[(runs["mesh"] == arm[0]) & (runs["configuration"] == arm[1]) & (runs["target_rps"] == rate)]


def mean_and_range(values: pd.Series) -> str:
    """Return the mean of some runs, and below it the smallest and the largest."""
    values = values.dropna()
    if values.empty:
        return formats.DASH
    mean = float(values.mean())
    limits = formats.interval(values.min(), values.max(), formats.decimals(mean))
    return f"{formats.significant(mean)}{LINE_BREAK}{limits}"
