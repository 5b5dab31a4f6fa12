"""Latency of every arm at every rate, in the layout of the thesis annex."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from meshperf.report import formats, style
from meshperf.report.floats import DESCRIBE, LINE_BREAK, TableFloat
from meshperf.report.tables.parts import Notes, cell_runs, interval_words

if TYPE_CHECKING:
    from meshperf.report.data import ReportData

PERCENTILE_HEADS = {0.5: "Median", 0.9: "90th", 0.99: "99th", 0.999: "99.9th", 0.9999: "99.99th"}


def latency(data: ReportData, label: str, arms: list[tuple[str, str]], whose: str) -> TableFloat:
    """Return the latency table of some arms in the layout of the thesis annex.

    Parameters
    ----------
    label : str
        Identifier of the float.
    arms : list of (mesh, configuration)
        Which arms.
    whose : str
        What the caption says of them.
    """
    quantiles = sorted(float(q) for q in data.cells_df["quantile"].unique())
    mine = data.cells_df[pd.MultiIndex.from_frame(data.cells_df[["mesh", "configuration"]]).isin(arms)]
    notes = Notes(mine)
    cells = mine.set_index(["mesh", "configuration", "target_rps"])
    rows, flagged = [], False
    for rate in data.rates:
        for arm in arms:
            runs = cell_runs(data, arm, rate, data.counted_runs_df)
            if runs.empty or (*arm, rate) not in cells.index:
                continue
            cell = cells.loc[[(*arm, rate)]].set_index("quantile")
            verdict = str(cell["verdict"].iloc[0])
            flagged |= verdict != "ok"
            name = style.arm_label(*arm) + ("" if verdict == "ok" else f"{LINE_BREAK}*{verdict}*")
            row = [name, str(rate), formats.significant(runs["achieved_rps"].mean(), 4)]
            row.append(formats.milliseconds(runs["mean_s"].mean()))
            row += [_quantile_cell(cell, q, notes) for q in quantiles]
            rows.append(row)
    heads = ["Solution", "target RPS", "RPS", "Mean"]
    heads += [PERCENTILE_HEADS.get(q, f"{q * 100:g}th") for q in quantiles]
    frame = pd.DataFrame(rows, columns=heads)
    frame = frame.loc[:, [name for name in frame.columns if not (frame[name] == formats.NOT_ESTIMABLE).all()]]
    caption = f"Latency of {whose} at every target rate, in milliseconds. {interval_words(data)} {quantisation(data)}"
    text = "".join(frame.astype(str).to_numpy().ravel())
    caption += " † few requests in the tail." if "†" in text else ""
    caption += (
        f" {formats.NOT_ESTIMABLE}: not estimable from these data." if formats.NOT_ESTIMABLE in text else ""
    )
    caption += " A cell that is not ok is shown and not compared." if flagged else ""
    caption += notes.sentence()
    return TableFloat(label, frame, caption, DESCRIBE, arms)


def _quantile_cell(cell: pd.DataFrame, quantile: float, notes: Notes) -> str:
    """Return one cell of a latency table: estimate, mark of estimability, interval below."""
    if quantile not in cell.index:
        return formats.NOT_ESTIMABLE
    row = cell.loc[quantile]
    if row["estimable"] == formats.NOT_ESTIMABLE or not formats.is_number(row["estimate_s"]):
        return formats.NOT_ESTIMABLE
    mark = ("†" if row["estimable"] == "dagger" else "") + notes.mark(row.get("warnings"))
    value, low, high = (float(row[name]) * 1e3 for name in ("estimate_s", "low_s", "high_s"))
    known = formats.is_number(low) and formats.is_number(high)
    places = formats.interval_decimals(value, low, high) if known else formats.decimals(value)
    limits = formats.interval(low, high, places)
    return f"{formats.fixed(value, places)}{mark}" + (f"{LINE_BREAK}{limits}" if limits else "")


def quantisation(data: ReportData) -> str:
    """Return a sentence on how wide the bins are that the printed quantiles lie in."""
    if not {"bin_low_s", "bin_high_s"} <= set(data.cells_df.columns):
        return ""
    printed = data.cells_df[data.cells_df["estimate_s"].notna()]
    width = (
        float(np.nanmax(printed["bin_high_s"] / printed["bin_low_s"])) - 1 if len(printed) else float("nan")
    )
    return (
        f"The histogram bin of a quantile is at most {formats.percent(width)} wide."
        if formats.is_number(width)
        else ""
    )
