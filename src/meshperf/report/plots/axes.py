"""What all figures share: the style, axes that say what they show in plain numbers, one row of keys."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from meshperf.report import style

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

PERCENTILE_TICKS = (0.5, 0.9, 0.99, 0.999, 0.9999)


def styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw in the style of the paper, and stamp what was not measured."""

    @wraps(draw)
    def styled(*args: object, synthetic: bool = False, **kwargs: object) -> Figure:
        with style.applied():
            figure = draw(*args, **kwargs)
            if synthetic:
                figure.text(
                    0.5, 0.5, "SYNTHETIC DATA", ha="center", va="center", rotation=24, fontsize=24, fontweight="bold",
                    color="#B00020", alpha=0.22, zorder=10,
                )  # fmt: skip
        return figure

    return styled


def new_figure(height_in: float, width_in: float = style.WIDTH_IN) -> Figure:
    """Return an empty figure of the width that all of them have."""
    return Figure(figsize=(width_in, height_in), layout="constrained")


def log_axis(axis: object, *, decades: bool = False) -> None:
    """Label a log axis with plain numbers: 0.5, 1, 2, 5, 10; with ``decades`` only powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1.0,) if decades else (1.0, 2.0, 5.0), numticks=20))  # type: ignore[attr-defined]
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))  # type: ignore[attr-defined]
    axis.set_minor_formatter(NullFormatter())  # type: ignore[attr-defined]
    axis.set_minor_locator(NullLocator())  # type: ignore[attr-defined]


def latency_axis(axes: Axes, low_s: float, high_s: float) -> None:
    """Set up a logarithmic x axis in milliseconds."""
    axes.set_xscale("log")
    axes.set_xlim(low_s * 1e3, high_s * 1e3)
    log_axis(axes.xaxis, decades=high_s / low_s > 300)
    axes.set_xlabel("latency (ms, log scale)")


def legend(figure: Figure, arms: list[tuple[str, str]], *, lines: bool = True) -> None:
    """Put one row of arm keys above the axes."""
    handles = [
        Line2D([], [], label=style.arm_label(*arm), **style.marker_style(*arm), **_line(arm, lines))
        for arm in arms
    ]
    # Three columns of short names fit the width of a figure, two of long ones.
    longest = max((len(style.arm_label(*arm)) for arm in arms), default=0)
    columns = max(1, min(len(arms), 3 if longest < 14 else 2))
    figure.legend(
        handles=handles, loc="outside upper left", ncols=columns, handlelength=3.2, columnspacing=1.4
    )


def _line(arm: tuple[str, str], visible: bool) -> dict[str, object]:
    return style.line_style(*arm) if visible else {"linestyle": "none"}


def ratio_axis(axis: Axis, values: Iterable[float]) -> None:
    """Set up a logarithmic axis of ratios that holds some values, with round numbers on it."""
    finite = [value for value in values if np.isfinite(value) and value > 0]
    low, high = min([*finite, 0.9]) / 1.08, max([*finite, 1.1]) * 1.08
    scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    scale("log")
    axis.set_view_interval(low, high, ignore=True)
    axis.set_major_locator(FixedLocator(_ratio_ticks(low, high)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def percentile_axis(axes: Axes, quantiles: Iterable[float]) -> None:
    """Set up an x axis on which the tail is stretched: −log₁₀(1 − q), labelled with percentiles."""
    deepest = max(stretched(q) for q in quantiles)
    ticks = [q for q in PERCENTILE_TICKS if stretched(q) <= deepest + 0.05]
    axes.set_xlim(0, deepest + 0.15)
    axes.xaxis.set_major_locator(FixedLocator([stretched(q) for q in ticks]))
    axes.set_xticklabels([f"p{q * 100:g}" for q in ticks])
    axes.set_xlabel("percentile (tail stretched)")


def stretched(q: float) -> float:
    """Return the place of a quantile on the axis of :func:`percentile_axis`."""
    return float(-np.log10(1 - q))


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Choose at most seven round ratios between ``low`` and ``high``."""
    for candidates in (
        (0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2),
        (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5),
        (0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3),
        (0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6),
        (0.125, 0.25, 0.5, 1, 2, 4, 8, 16),
        (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
    ):
        inside = [value for value in candidates if low <= value <= high]
        if high <= candidates[-1] * 1.15 and low >= candidates[0] / 1.15 and len(inside) <= 7:
            return inside
    return [value for value in (1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1e3, 1e4) if low <= value <= high]
