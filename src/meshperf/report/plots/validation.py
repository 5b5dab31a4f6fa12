"""Coverage of intervals on simulated campaigns of known truth."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meshperf.report.plots.axes import new_figure, styled

_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_GREY = "#8C8C8C"


@styled
def coverage(coverage_df: pd.DataFrame, title: str | None = None) -> Figure:
    """Draw the share of 95 % intervals that hold the truth, against the number of blocks, a line per method.

    The strip is what is required of the methods in use; those of the field are grey and dashed.

    Parameters
    ----------
    coverage_df : DataFrame
        Rows of one scenario and percentile: ``method``, ``n_blocks``, ``value``, ``naive``.
    title : str, optional
        Title inside the figure.
    """
    figure = new_figure(3.6)
    axes = figure.subplots()
    axes.axhspan(93, 97, color="#DCE9F5", linewidth=0)
    handles, colours = [], iter(_COLOURS)
    methods = coverage_df[["method", "naive"]].drop_duplicates().sort_values("naive", kind="stable")
    for marker, row in zip(_MARKERS, methods.itertuples(), strict=False):
        mine = coverage_df[coverage_df["method"] == row.method].sort_values("n_blocks")
        look = {
            "color": _GREY if row.naive else next(colours),
            "linestyle": (0, (4, 2)) if row.naive else "-",
            "marker": marker,
            "markersize": 4.5,
        }
        places = range(len(mine))
        axes.plot(places, 100 * mine["value"], **look)
        handles.append(Line2D([], [], label=row.method, **look))
    blocks = sorted(coverage_df["n_blocks"].unique())
    axes.set_xticks(range(len(blocks)))
    axes.set_xticklabels([str(int(number)) for number in blocks])
    axes.set_ylim(0, 102)
    axes.set_xlabel("blocks")
    axes.set_ylabel("intervals that hold the truth (%)")
    axes.set_title(title or "Coverage of 95 % intervals")
    figure.legend(handles=handles, loc="outside lower left", ncols=1, handlelength=3.2)
    return figure
