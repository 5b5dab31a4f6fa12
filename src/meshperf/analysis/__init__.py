"""From runs to results: which runs count, which blocks are complete, and the tables that the report is made of.

The statistics themselves are in :mod:`meshperf.statistics`; here runs are chosen, matched by block and labelled. Each
function takes frames of one campaign (:mod:`meshperf.frames`) and its study, and returns one frame.

================  ====================================================================================
module            contents
================  ====================================================================================
``runtable``      the histograms of all runs on one grid
``shared``        order of arms and quantiles, random generators, warnings as text
``pairing``       which blocks of an arm and its control are compared
``cells``         latency of each arm at each rate
``control``       the two baselines of each block against each other: noise floor and gate
``comparisons``   overhead of quantiles, with its families of tests and its verdicts
``distances``     whole distributions: Kolmogorov–Smirnov D, tail, Wasserstein, shift function
``ranks``         order of the arms, ties shown as ties
``saturation``    largest rate at which each arm works
``steadiness``    drift over the campaign
``resources``     CPU per request at each rate
``slopes``        CPU against rate
``sensitivity``   what was not seen: bins, unsent requests, the inside of runs
``memory``        level and growth of memory
``features``      an arm against the one that differs from it in one feature
``decisions``     which arm to choose if one thing matters most
``plan``          what a campaign can detect, and how many blocks an effect needs
================  ====================================================================================
"""

from meshperf.analysis.cells import cells_df
from meshperf.analysis.comparisons import comparisons_df
from meshperf.analysis.control import control_df, gate_df
from meshperf.analysis.decisions import decisions_df
from meshperf.analysis.distances import distances_df, shifts_df
from meshperf.analysis.features import features_df
from meshperf.analysis.memory import memory_df
from meshperf.analysis.plan import Wish, plan_df
from meshperf.analysis.ranks import ranks_df
from meshperf.analysis.resources import cpu_df
from meshperf.analysis.saturation import knees_df
from meshperf.analysis.sensitivity import components_df, sensitivity_df
from meshperf.analysis.slopes import slopes_df
from meshperf.analysis.steadiness import drifts_df

__all__ = [
    "Wish",
    "cells_df",
    "comparisons_df",
    "components_df",
    "control_df",
    "cpu_df",
    "decisions_df",
    "distances_df",
    "drifts_df",
    "features_df",
    "gate_df",
    "knees_df",
    "memory_df",
    "plan_df",
    "ranks_df",
    "sensitivity_df",
    "shifts_df",
    "slopes_df",
]
