"""Distances between whole distributions, shift functions, ranks, and runs that were not steady."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from support import make_study, make_synthetic_campaign

from meshperf import analysis, frames
from meshperf.analysis.pairing import pair_blocks
from meshperf.design import Arm

BASIC, MTLS = Arm("istio", "basic"), Arm("istio", "mtls")
STUDY = make_study(blocks=6, target_rps=[400, 800], load={"connections": 4, "duration_s": 10, "slice_s": 5})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Basic costs nothing, mTLS a third at every latency."""
    campaign = make_synthetic_campaign(
        tmp_path_factory.mktemp("six"), STUDY, true_ratios={MTLS: 4 / 3}, sd_deployment=0.03
    )
    return frames.load_runs(campaign), frames.load_histograms(campaign)


@pytest.fixture(scope="module")
def distances(data):
    return analysis.distances_df(*data, STUDY).set_index(["configuration", "target_rps"])


def test_a_slower_arm_is_told_from_chance_as_surely_as_the_design_can(distances):
    for rate in (400, 800):
        row = distances.loc[("mtls", rate)]
        # Which of three runs was the mesh, in each of six blocks.
        assert (row["n_relabellings"], row["exact"]) == (3**6, "yes")
        assert row["p_body"] == row["p_min"] == pytest.approx(3.0**-6)
        assert (row["verdict"], row["dominance"]) == ("different", "slower everywhere")
        assert row["ks_low"] < row["ks_d"] < row["ks_high"]
        assert row["ks_minus"] == row["ks_d"] > row["ks_plus"]
        # A factor of 4/3 on latencies of mean exp(σ²/2) times the median of 0.8 ms.
        assert row["wasserstein_log"] == pytest.approx(np.log(4 / 3), abs=0.05)
        assert row["wasserstein_s"] == pytest.approx(0.0008 * np.exp(0.35**2 / 2) / 3, rel=0.2)
        # Two log-normals a factor c apart: D = 2 Φ(log c/2σ) − 1, half-way between their medians.
        assert row["ks_d"] == pytest.approx(2 * stats.norm.cdf(np.log(4 / 3) / 0.7) - 1, abs=0.04)
        assert row["ks_at_s"] == pytest.approx(0.0008 * np.sqrt(4 / 3), rel=0.12)


def test_the_control_is_listed_and_claims_nothing(distances):
    control = distances.query("mesh == 'baseline'")
    assert len(control) == 2
    assert control["p_adjusted"].isna().all()
    assert set(control["verdict"]) == {"undecided"}
    # One baseline against the other: 2^6 relabellings, each as extreme as its mirror image.
    assert control["p_min"].tolist() == [2 / 2**6] * 2


def test_distributions_are_corrected_together(distances):
    arms = distances.query("mesh != 'baseline'")
    assert set(arms["family_size"]) == {4}
    expected = multipletests(arms["p_combined"], method="fdr_bh")[1]
    assert arms["p_adjusted"].to_numpy() == pytest.approx(expected)
    assert ((arms["p_adjusted"] <= 0.1) == (arms["verdict"] == "different")).all()


def test_two_blocks_cannot_call_distributions_different(tmp_path):
    study = make_study(blocks=2, target_rps=[400])
    campaign = make_synthetic_campaign(tmp_path, study)
    arms = analysis.distances_df(frames.load_runs(campaign), frames.load_histograms(campaign), study)
    arms = arms.query("mesh != 'baseline'")
    # 1/9 is above the false discovery rate of a tenth.
    assert arms["p_min"].tolist() == pytest.approx([1 / 9] * 2)
    assert set(arms["verdict"]) == {"too few blocks"}
    assert arms["warnings"].str.contains("PMinAboveAlpha").all()


def test_shift_function_is_the_typical_ratio_at_every_percentile(data):
    shifts = analysis.shifts_df(*data, STUDY)
    bands = shifts[shifts["block"].isna() & (shifts["configuration"] == "mtls")]
    bands = bands.query("target_rps == 400").set_index("quantile")
    assert bands.index.tolist()[:10] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
    typical = analysis.comparisons_df(*data, STUDY).query(
        "estimand == 'typical' and configuration == 'mtls' and target_rps == 400"
    )
    for row in typical[typical["overhead_ratio"].notna()].itertuples():
        assert bands.loc[row.quantile, "ratio"] == pytest.approx(row.overhead_ratio)
        assert bands.loc[row.quantile, "difference_s"] == pytest.approx(row.overhead_s)
    blocks = shifts.query("configuration == 'mtls' and target_rps == 400 and quantile == 0.5")
    logs = np.log(blocks.dropna(subset=["block"])["ratio"])
    # Six blocks: Bonferroni over the percentiles that the data support.
    joint = stats.ttest_1samp(logs, 0).confidence_interval(1 - 0.05 / len(bands))
    assert bands.loc[0.5, "ratio_low"] == pytest.approx(np.exp(joint.low))
    assert bands.loc[0.5, "ratio_high"] == pytest.approx(np.exp(joint.high))


def test_ranks_are_ties_where_the_data_cannot_tell(data, tmp_path):
    told = analysis.ranks_df(*data, STUDY).query("quantile == 0.5 and target_rps == 400")
    assert told.set_index("configuration")["ranks"].to_dict() == {"basic": "1", "mtls": "2"}
    campaign = make_synthetic_campaign(tmp_path, STUDY, true_ratios={}, sd_deployment=0.03)
    equal = analysis.ranks_df(frames.load_runs(campaign), frames.load_histograms(campaign), STUDY)
    tied = equal.query("quantile == 0.5 and target_rps == 400")
    assert tied["ranks"].tolist() == ["1–2", "1–2"]
    assert tied["n_blocks"].tolist() == [6, 6]


def test_one_arm_has_no_rank(data):
    runs, histograms = (df[df["configuration"] != "basic"] for df in data)
    assert analysis.ranks_df(runs, histograms, STUDY).empty


def with_unsteady(runs, blocks, deployment=1, configuration="mtls"):
    marked = runs.copy()
    chosen = marked["block"].isin(blocks) & (marked["configuration"] == configuration)
    marked.loc[chosen & (marked["deployment"] == deployment), "steadiness"] = "not steady"
    return marked


def test_blocks_with_an_unsteady_run_are_left_out_of_the_comparison(data):
    runs, histograms = data
    marked = with_unsteady(with_unsteady(runs, [2]), [5], deployment=2, configuration="none")
    rows = analysis.comparisons_df(marked, histograms, STUDY).query("estimand == 'typical'")
    mtls = rows.query("configuration == 'mtls' and quantile == 0.5").iloc[0]
    basic = rows.query("configuration == 'basic' and quantile == 0.5").iloc[0]
    # The baseline of block 5 is missing to both arms.
    assert (mtls["n_blocks"], basic["n_blocks"]) == (4, 5)
    assert "NotSteady" in mtls["warnings"] and "NotSteady" in basic["warnings"]
    cell = (
        analysis.cells_df(marked, histograms, STUDY)
        .query("configuration == 'mtls' and quantile == 0.5")
        .iloc[0]
    )
    assert (cell["n_blocks"], cell["warnings"]) == (6, "NotSteady")


def test_a_comparison_that_would_rest_on_a_minority_of_steady_blocks_is_none(data):
    runs, histograms = data
    rows = analysis.comparisons_df(with_unsteady(runs, [1, 2, 3, 4]), histograms, STUDY)
    mtls = rows.query("configuration == 'mtls'")
    assert set(mtls["verdict"]) == {"not comparable (unsteady)"}
    assert set(mtls["reason"]) == {"blocks: 2 ok, 4 unsteady"}
    assert mtls["overhead_ratio"].isna().all()


def test_cpu_of_unsteady_runs_counts(data):
    runs, _ = data
    of_arm = with_unsteady(runs, [1]).query("configuration == 'mtls' and target_rps == 400")
    baseline = runs.query("mesh == 'baseline' and target_rps == 400")
    assert len(pair_blocks(of_arm, baseline, 2).arm_rows) == 5
    assert len(pair_blocks(of_arm, baseline, 2, latency=False).arm_rows) == 6
