"""Figures and tables as the paper includes them: label, caption, source line, alternative text, Markdown.

A float's Markdown is what both Quarto and the pandoc fallback understand: a fenced div whose identifier starts with
``fig-`` or ``tbl-`` and whose last paragraph is the caption.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshperf.report import formats
from meshperf.report.data import ReportData

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

CHECK, DESCRIBE, COMPARE, RESOURCES = "02-check-runs", "03-describe-cell", "04-compare-arms", "05-resources"
CONTROL, DISTRIBUTIONS, SATURATION = "06-check-control", "07-compare-distributions", "08-find-saturation"
SENSITIVITY = "09-test-sensitivity"
DECIDE, PLAN = "11-choose-arm", "12-plan-blocks"
"""Notebooks that captions name."""

LINE_BREAK = "\n"
"""Between two lines of one table cell."""


@dataclass(frozen=True)
class Panel:
    """One drawing: file stem, how to draw it, the numbers in it, and what a reader who cannot see it should know."""

    stem: str
    draw: Callable[[], Figure]
    numbers: Callable[[], pd.DataFrame]
    alt: str


@dataclass(frozen=True)
class FigureFloat:
    """A numbered figure of one or more panels; the caveats of `arms` are said in its caption."""

    label: str
    panels: tuple[Panel, ...]
    caption: str
    notebook: str
    arms: Sequence[tuple[str, str]] = ()
    origin: str = ""
    """What the caption names in place of the campaign, where none of its data are shown."""

    def markdown(self, data: ReportData) -> str:
        """Return the float; panels stand side by side where there is room."""
        images = [
            f'![](figures/{panel.stem}.svg){{fig-alt="{_attribute(panel.alt)}"}}' for panel in self.panels
        ]
        layout = f" layout-ncol={len(images)}" if len(images) > 1 else ""
        body = "\n\n".join(images)
        return f"::: {{#{self.label}{layout}}}\n\n{body}\n\n{_caption(data, self)}\n\n:::\n"


@dataclass(frozen=True)
class TableFloat:
    """A numbered table; the caveats of `arms` are said in its caption.

    ``frame`` holds printed text; a line break inside a cell separates estimate and interval.
    """

    label: str
    frame: pd.DataFrame
    caption: str
    notebook: str
    arms: Sequence[tuple[str, str]] = ()
    origin: str = ""
    """What the caption names in place of the campaign, where none of its data are shown."""

    @property
    def stem(self) -> str:
        """File stem of the table's CSV."""
        return self.label.removeprefix("tbl-")

    def markdown(self, data: ReportData) -> str:
        """Return the float with a grid table."""
        grid = grid_table(self.frame)
        return f"::: {{#{self.label}}}\n\n{grid}\n{_caption(data, self)}\n\n:::\n"


def grid_table(frame: pd.DataFrame) -> str:
    """Return a pandoc grid table: words to the left, columns of numbers to the right.

    Line breaks inside cells become hard line breaks.
    """
    cells = [
        [_cell(name) for name in frame.columns],
        *([_cell(value) for value in row] for row in frame.to_numpy()),
    ]
    widths = [max(len(line) for row in cells for line in row[i]) + 3 for i in range(len(frame.columns))]
    numeric = [_is_numeric(frame.iloc[:, i]) for i in range(len(frame.columns))]

    def rule(mark: str, *, aligned: bool = False) -> str:
        parts = [
            mark * width if not aligned else mark * (width - 1) + ":" if right else ":" + mark * (width - 1)
            for width, right in zip(widths, numeric, strict=True)
        ]
        return "+" + "+".join(parts) + "+\n"

    def block(row: Sequence[list[str]]) -> str:
        height = max(len(lines) for lines in row)
        padded = [lines + [""] * (height - len(lines)) for lines in row]
        return "".join(
            "|"
            + "|".join(f" {lines[k]}".ljust(width) for lines, width in zip(padded, widths, strict=True))
            + "|\n"
            for k in range(height)
        )

    body = "".join(block(row) + rule("-") for row in cells[1:])
    return rule("-") + block(cells[0]) + rule("=", aligned=True) + body


def source_line(data: ReportData, notebook: str, origin: str = "") -> str:
    """Return how a caption ends: notebook (linked where its executed copy is published), campaign and data hash.

    Parameters
    ----------
    data : ReportData
        The study's frames.
    notebook : str
        Name of the notebook, without its suffix; empty for what no notebook makes.
    origin : str
        What to name in place of the campaign and its hash.
    """
    if not notebook:
        return f"From {origin}."
    executed = sorted(path.name for path in (data.results_dir / "notebooks").glob(f"{notebook}*.html"))
    name = f"[{notebook}](notebooks/{executed[0]})" if executed else notebook
    return f"Notebook {name}; {origin or f'campaign {data.campaign}; data {data.data_hash}'}."


def caveats(data: ReportData, arms: Sequence[tuple[str, str]]) -> str:
    """Return what a reader must know of the numbers of some arms, each sentence once and a space before it."""
    said = dict.fromkeys(text for arm in arms for text in data.caveats.get(arm, ()))
    return "".join(f" {text}." for text in said)


def _caption(data: ReportData, item: FigureFloat | TableFloat) -> str:
    stamp = "**SYNTHETIC DATA.** " if data.synthetic and not item.origin else ""
    end = source_line(data, item.notebook, item.origin)
    return f"{stamp}{item.caption}{caveats(data, item.arms)} {end}"


def _cell(value: object) -> list[str]:
    """Return the lines of a cell; all but the last end in a backslash, which is a hard line break."""
    lines = str(value).split(LINE_BREAK)
    return [f"{line}\\" for line in lines[:-1]] + lines[-1:]


def _is_numeric(column: pd.Series) -> bool:
    """Tell whether every cell that says something starts with a number."""
    told = [str(value) for value in column if str(value) not in ("", formats.DASH, formats.NOT_ESTIMABLE)]
    return all(re.match(r"[<+\N{MINUS SIGN}]?\d", value) for value in told)


def _attribute(text: str) -> str:
    return text.replace("\\", "").replace('"', "'")
