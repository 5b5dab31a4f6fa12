"""Bounds of what was not seen, and where the spread comes from, against numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support import BASELINE_MEDIAN_S, SIGMA_REQUEST, make_study, make_synthetic_campaign

from meshperf import analysis, frames
from meshperf.analysis import sensitivity
from meshperf.analysis.runtable import RunTable

STUDY = make_study(blocks=4, target_rps=[400], load={"connections": 4, "duration_s": 20, "slice_s": 10})
QUIET = {"sd_block": 0.0, "sd_deployment": 0.0, "sd_run": 0.0}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    campaign = make_synthetic_campaign(tmp_path_factory.mktemp("quiet"), STUDY, **QUIET)
    return frames.load_runs(campaign), frames.load_histograms(campaign)


def pick(frame, configuration, q):
    (row,) = frame[(frame["configuration"] == configuration) & (frame["quantile"] == q)].itertuples()
    return row


def log_normal(p, factor=1.0):
    return factor * BASELINE_MEDIAN_S * np.exp(SIGMA_REQUEST * stats.norm.ppf(p))


def test_where_nothing_is_missing_there_is_nothing_to_add(data):
    frame = analysis.sensitivity_df(*data, STUDY)
    comparisons = analysis.comparisons_df(*data, STUDY).query("estimand == 'typical'")
    for configuration, factor in (("none", 1.0), ("mtls", 1.8)):
        for q in (0.5, 0.99):
            row = pick(frame, configuration, q)
            assert row.merged_s == pytest.approx(log_normal(q, factor), rel=0.03)
            assert row.bin_low_s < row.merged_s <= row.bin_high_s <= 1.011 * row.bin_low_s
            assert [row.omission_low_s, row.omission_high_s] == pytest.approx([row.merged_s] * 2)
            # No latency reaches the 10 ms between two requests of one connection.
            assert row.corrected_s == pytest.approx(row.merged_s)
    mtls, base = pick(frame, "mtls", 0.5), pick(frame, "none", 0.5)
    assert mtls.ratio == mtls.ratio_corrected == pytest.approx(pick(comparisons, "mtls", 0.5).overhead_ratio)
    assert pytest.approx(mtls.merged_s / base.merged_s) == mtls.ratio_omission_low
    assert pytest.approx(mtls.merged_s / base.merged_s) == mtls.ratio_omission_high


def test_unsent_requests_leave_a_percentile_between_two_others(data):
    runs, histograms = data
    missing = runs.assign(missing_fraction=0.02)
    frame = analysis.sensitivity_df(missing, histograms, STUDY)
    median, tail = pick(frame, "none", 0.5), pick(frame, "none", 0.99)
    # Two per cent of the schedule could all have been fast, or all slow.
    assert median.omission_low_s == pytest.approx(log_normal(0.48 / 0.98), rel=0.01)
    assert median.omission_high_s == pytest.approx(log_normal(0.50 / 0.98), rel=0.01)
    assert median.omission_low_s < median.merged_s < median.omission_high_s
    # More than one per cent unsent: p99 has no upper limit, and neither has a ratio to it.
    assert tail.omission_high_s == np.inf
    assert pick(frame, "mtls", 0.99).ratio_omission_high == np.inf
    mtls = pick(frame, "mtls", 0.5)
    assert mtls.ratio_omission_low == pytest.approx(mtls.omission_low_s / median.omission_high_s)
    assert mtls.ratio_omission_high == pytest.approx(mtls.omission_high_s / median.omission_low_s)


def table(counts, missing=(0.0, 0.0), edges_s=(0.001, 0.002, 0.004, 0.008, 0.016), connections=4):
    runs = pd.DataFrame({"missing_fraction": missing, "connections": connections, "target_rps": 40})
    return RunTable(runs, np.array(edges_s), np.array(counts, dtype=float))


def test_runs_that_lack_different_shares_are_weighed_by_what_they_sent():
    # F1 = 1/4, 1/2, 3/4, 1 and F2 = 0, 0, 1/2, 1, of which half is missing: (F1 + F2/2)/1.5 = 1/6, 1/3, 2/3, 1
    # with a quarter of the schedule missing. The median is between F⁻¹(1/3) and F⁻¹(2/3).
    mixed = table([[1, 1, 1, 1], [0, 0, 1, 1]], missing=(0.0, 0.5))
    assert sensitivity._bounds(mixed, [0, 1], 0.5) == pytest.approx((0.004, 0.008))
    assert np.isnan(sensitivity._bounds(table([[1, 1, 1, 1]] * 2, (np.nan, 0)), [0, 1], 0.5)).all()


def test_a_stall_is_filled_with_what_its_connection_would_have_sent():
    # 4 connections at 40 RPS: one request in 100 ms. A stall of about 0.51 s holds back four that would have
    # taken 0.41, 0.31, 0.21 and 0.11 s.
    stalled = table([[99, 1]] * 2, edges_s=(0.001, 0.5, 0.52))
    added = sensitivity._corrected(stalled).counts - stalled.counts
    assert added.tolist() == [[4, 0]] * 2
    assert sensitivity._corrected(table([[99, 1]] * 2, edges_s=(0.001, 0.5, 0.52), connections=None)) is None


def test_spread_between_deployments_and_within_runs_adds_up(tmp_path):
    campaign = make_synthetic_campaign(tmp_path, STUDY, sd_block=0.1, sd_deployment=0.04, sd_run=0.0)
    runs, histograms = frames.load_runs(campaign), frames.load_histograms(campaign)
    (row,) = analysis.components_df(runs, histograms, STUDY).query("quantile == 0.5").itertuples()
    # The median of n log-normal requests has a standard error of σ √(π/2n) on the log.
    assert row.sd_within_run == pytest.approx(SIGMA_REQUEST * np.sqrt(np.pi / 2 / 8000), rel=0.15)
    wide = runs.query("mesh == 'baseline'").pivot_table(index="block", columns="deployment", values="p50_s")
    between = (np.log(wide[2] / wide[1]) ** 2 / 2).mean()
    assert row.sd_deployment**2 + row.sd_within_run**2 == pytest.approx(between, rel=0.03)
    assert row.within_share == pytest.approx(row.sd_within_run**2 / between, rel=0.03)
    means = np.log(wide).mean(axis=1)
    assert row.sd_block**2 == pytest.approx(means.var(ddof=1) - between / 2, rel=0.03)


def test_a_campaign_with_one_baseline_has_knees_and_slopes_too(data, tmp_path):
    runs, histograms = data
    one = runs[(runs["mesh"] != "baseline") | (runs["deployment"] == 1)]
    knee = analysis.knees_df(one, histograms, STUDY).query("mesh == 'baseline'").iloc[0]
    assert (knee["knee_rps"], knee["n_blocks"]) == (400, 4)
    assert analysis.components_df(one, histograms, STUDY).empty
