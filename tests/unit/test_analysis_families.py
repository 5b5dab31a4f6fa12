"""Which comparisons may be claimed, what noise forbids, and what stands beside a ratio."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from support import make_study, make_synthetic_campaign

from meshperf import analysis, frames
from meshperf.design import Arm
from meshperf.histogram import LOG_GRID

BASIC, MTLS = Arm("istio", "basic"), Arm("istio", "mtls")
OPTIONS = {"blocks": 6, "target_rps": [400, 800], "load": {"connections": 4, "duration_s": 10, "slice_s": 5}}
STUDY = make_study(**OPTIONS)


def tables(root, **options):
    campaign = make_synthetic_campaign(root, STUDY, **options)
    return frames.load_runs(campaign), frames.load_histograms(campaign)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Six blocks at two rates, in which nothing but mTLS costs anything, and that little."""
    return tables(tmp_path_factory.mktemp("six"), true_ratios={MTLS: 1.06}, sd_deployment=0.03)


@pytest.fixture(scope="module")
def typical(data):
    return analysis.comparisons_df(*data, STUDY).query("estimand == 'typical'")


def shifted(histograms, chosen, n_bins):
    """Return histograms with the latencies of some rows made longer by whole bins of one per cent."""
    edges = np.searchsorted(LOG_GRID, histograms.loc[chosen, "bin_low_s"] * 1.001) - 1
    moved = histograms.copy()
    moved.loc[chosen, "bin_low_s"] = LOG_GRID[edges + n_bins]
    moved.loc[chosen, "bin_high_s"] = LOG_GRID[edges + n_bins + 1]
    return moved


def test_what_may_be_claimed_is_corrected_together(typical):
    family = typical.query("family == 'primary'")
    # Two arms, two rates, p50 and p99.
    assert len(family) == 8
    assert set(family["family_size"]) == {8}
    assert set(family["quantile"]) == {0.5, 0.99}
    expected = multipletests(family["p_value"], method="holm")[1]
    assert family["p_adjusted"].to_numpy() == pytest.approx(expected)
    others = typical.query("family == 'exploratory'")
    assert others["p_adjusted"].isna().all()
    assert not set(others["verdict"]) & {"slower", "faster"}


def test_a_study_declares_what_may_be_claimed(data):
    study = make_study(**OPTIONS, analysis={"families": {"quantiles": [0.9], "target_rps": [400]}})
    typical = analysis.comparisons_df(*data, study).query("estimand == 'typical'")
    family = typical.query("family == 'primary'")
    assert set(zip(family["quantile"], family["target_rps"], strict=True)) == {(0.9, 400)}
    assert set(family["family_size"]) == {2}


def test_a_refused_comparison_counts_in_its_family(data):
    runs, histograms = data
    saturated = runs.copy()
    of_cell = (saturated["configuration"] == "mtls") & (saturated["target_rps"] == 400)
    saturated.loc[of_cell, "verdict"] = "saturated"
    typical = analysis.comparisons_df(saturated, histograms, STUDY).query("estimand == 'typical'")
    family = typical.query("family == 'primary'")
    refused = family["verdict"] == "not comparable (saturated)"
    assert refused.sum() == 2
    assert (
        family.loc[refused, ["p_value", "p_adjusted", "robust_low", "simultaneous_low"]].isna().all(axis=None)
    )
    # The smallest of six p-values is still multiplied by eight.
    told = family[~refused]
    assert told["p_adjusted"].min() == pytest.approx(8 * told["p_value"].min())


def blocks_of(data, arm, q, rps=400):
    shifts = analysis.shifts_df(*data, STUDY)
    mine = shifts.query("configuration == @arm.configuration and quantile == @q and target_rps == @rps")
    return mine.dropna(subset=["block"])["ratio"].to_numpy()


def test_what_stands_beside_a_ratio_comes_from_its_blocks(data, typical):
    ratios = blocks_of(data, MTLS, 0.5)
    row = typical.query("configuration == 'mtls' and quantile == 0.5 and target_rps == 400").iloc[0]
    assert len(ratios) == 6
    assert (row["robust_low"], row["robust_high"]) == pytest.approx((ratios.min(), ratios.max()))
    # 1 - 2^(1 - 6): the median is outside only when all six blocks are on one side of it.
    assert row["robust_confidence"] == 0.96875
    without_one = [stats.gmean(np.delete(ratios, i)) for i in range(6)]
    left_out = (row["leave_one_out_low"], row["leave_one_out_high"])
    assert left_out == pytest.approx((min(without_one), max(without_one)))
    plain = stats.ttest_1samp(np.log(ratios), 0).confidence_interval(0.95)
    assert (row["ratio_low"], row["ratio_high"]) == pytest.approx((np.exp(plain.low), np.exp(plain.high)))
    # Eight intervals that hold together have 1 - 0.05/8 each.
    joint = stats.ttest_1samp(np.log(ratios), 0).confidence_interval(1 - 0.05 / 8)
    ends = (row["simultaneous_low"], row["simultaneous_high"])
    assert ends == pytest.approx((np.exp(joint.low), np.exp(joint.high)))
    # Six further blocks have the same error once more.
    half = np.log(row["prediction_high"]) - np.log(row["overhead_ratio"])
    assert half == pytest.approx(np.sqrt(2) * (plain.high - plain.low) / 2)


def test_equivalence_has_its_margin_and_p_value(data, typical):
    ratios = blocks_of(data, BASIC, 0.5)
    row = typical.query("configuration == 'basic' and quantile == 0.5 and target_rps == 400").iloc[0]
    assert row["equivalence_margin"] == 0.05
    sides = [
        stats.ttest_1samp(np.log(ratios), -np.log(1.05), alternative="greater").pvalue,
        stats.ttest_1samp(np.log(ratios), np.log(1.05), alternative="less").pvalue,
    ]
    assert row["equivalence_p"] == pytest.approx(max(sides))
    assert typical.query("quantile == 0.9")["equivalence_margin"].isna().all()


def test_no_claim_is_smaller_than_the_noise_of_its_cell(data):
    runs, histograms = data
    # The first baseline is now slower, now faster than the second by 20 bins, which leaves their mean alone.
    baseline, odd = histograms["mesh"] == "baseline", histograms["block"] % 2 == 1
    first = histograms["deployment"] == 1
    noisy = shifted(histograms, baseline & (first == odd), 10)
    noisy = shifted(noisy, baseline & (first != odd), -10)
    # An arm that costs 15 bins in every block: firmly slower, and less than the 20 bins of noise.
    slower = shifted(noisy, (noisy["mesh"] == "istio") & (noisy["configuration"] == "basic"), 15)
    typical = analysis.comparisons_df(runs, slower, STUDY).query("estimand == 'typical'")
    row = typical.query("configuration == 'basic' and quantile == 0.5 and target_rps == 400").iloc[0]
    assert row["p_adjusted"] < 0.05
    assert row["overhead_ratio"] < row["noise_ratio"]
    assert (row["verdict"], row["reason"]) == (
        "undecided",
        "no larger than the differences between the two baselines",
    )


def test_the_control_passes_where_nothing_differs(data):
    gate = analysis.gate_df(*data, STUDY)
    assert gate["compared"].tolist() == ["second against first", "later against earlier"]
    # Two rates and two percentiles, and 2^5 different sign flips of six blocks.
    assert gate["tests"].tolist() == [4, 4]
    assert gate["p_min"].tolist() == [2 / 2**6] * 2
    assert gate["passed"].iloc[0] == "yes"


def test_baselines_that_differ_take_every_verdict_away(data):
    runs, histograms = data
    biased = shifted(histograms, (histograms["mesh"] == "baseline") & (histograms["deployment"] == 2), 30)
    gate = analysis.gate_df(runs, biased, STUDY).iloc[0]
    assert (gate["passed"], gate["rejected"], gate["p_value"]) == ("no", 4, 2 / 2**6)
    comparisons = analysis.comparisons_df(runs, biased, STUDY).query("mesh != 'baseline'")
    assert set(comparisons["verdict"]) <= {"undecided", "not estimable"}
    assert comparisons["warnings"].str.contains("AAGateFailed").all()
    distances = analysis.distances_df(runs, biased, STUDY).query("mesh != 'baseline'")
    assert set(distances["verdict"]) == {"undecided"}
    assert distances["warnings"].str.contains("AAGateFailed").all()


def test_the_control_knows_which_baseline_came_later(data):
    runs, histograms = data
    baseline = runs.query("mesh == 'baseline'").set_index(["target_rps", "block", "deployment"])["order"]
    later = baseline.unstack("deployment").idxmax(axis=1)
    assert set(later) == {1, 2}
    columns = ["target_rps", "block", "deployment"]
    is_later = pd.MultiIndex.from_frame(histograms[columns]).isin([(*key, k) for key, k in later.items()])
    drifting = shifted(histograms, (histograms["mesh"] == "baseline").to_numpy() & is_later, 30)
    gate = analysis.gate_df(runs, drifting, STUDY).set_index("compared")
    assert gate.loc["later against earlier", "passed"] == "no"
    control = analysis.control_df(runs, drifting, STUDY)
    assert control["later_ratio"].to_numpy() == pytest.approx(1.01**30, rel=0.1)
    assert control["ratio"].to_numpy() == pytest.approx(1, abs=0.3)


def test_noise_is_what_the_baselines_of_a_block_differ_by(data):
    control = analysis.control_df(*data, STUDY).query("quantile == 0.5 and target_rps == 400").iloc[0]
    wide = (
        data[0]
        .query("mesh == 'baseline' and target_rps == 400")
        .pivot_table(index="block", columns="deployment", values="p50_s")
    )
    logs = np.log(wide[2] / wide[1])
    # Run quantiles of the frames end at the smallest and largest latency, those of the analysis at bins.
    assert control["noise_ratio"] == pytest.approx(np.exp(np.percentile(np.abs(logs), 95)), rel=1e-3)
    assert control["sd_log"] == pytest.approx(logs.std(ddof=1), rel=0.02)
    assert control["expected_se_log"] == pytest.approx(np.sqrt(0.75) * control["sd_log"] / np.sqrt(6))
