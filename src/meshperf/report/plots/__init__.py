"""Figures as pure functions: frames in, a Matplotlib figure out; no files, no global state.

Frames hold seconds, cores and bytes; axes show milliseconds, millicores and MiB.
"""

from meshperf.report.plots.comparisons import control, overhead_forest, shift
from meshperf.report.plots.distributions import ccdf, cdf, percentiles
from meshperf.report.plots.resources import resources
from meshperf.report.plots.runs import achieved_vs_target, quantile_column, run_chart, time_course
from meshperf.report.plots.saturation import cost_plane, cpu_against_rate, throughput_latency

__all__ = [
    "achieved_vs_target",
    "ccdf",
    "cdf",
    "control",
    "cost_plane",
    "cpu_against_rate",
    "overhead_forest",
    "percentiles",
    "quantile_column",
    "resources",
    "run_chart",
    "shift",
    "throughput_latency",
    "time_course",
]
