"""Features, decisions and plans, on campaigns whose truth is known."""

import re

import numpy as np
import pytest
from support import make_study, make_synthetic_campaign

from meshperf import analysis, frames, planning
from meshperf.analysis.decisions import DECISIONS_COLUMNS
from meshperf.analysis.features import FEATURES, FEATURES_COLUMNS
from meshperf.analysis.plan import PLAN_COLUMNS
from meshperf.design import Arm
from meshperf.errors import MeshperfError
from meshperf.meshes import SUPPORTED

BASIC, MTLS = Arm("istio", "basic"), Arm("istio", "mtls")
SIX = make_study(
    blocks=6,
    target_rps=[400],
    load={"connections": 4, "duration_s": 10, "slice_s": 5},
    analysis={"confidence": 0.999},
)


def tables(root, study, **options):
    campaign = make_synthetic_campaign(root, study, **options)
    return frames.load_runs(campaign), frames.load_histograms(campaign), frames.load_resources(campaign)


@pytest.fixture(scope="module")
def six(tmp_path_factory):
    return tables(tmp_path_factory.mktemp("six"), SIX, true_ratios={BASIC: 1.5, MTLS: 1.8})


def test_a_feature_is_an_arm_against_the_one_without_it(six):
    features = analysis.features_df(six[0], six[1], SIX)
    assert tuple(features.columns) == FEATURES_COLUMNS
    median = features[features["quantile"] == 0.5]
    assert len(median) == 1
    row = median.iloc[0]
    assert (row["feature"], row["configuration"], row["reference_configuration"]) == (
        "mutual TLS",
        "mtls",
        "basic",
    )
    # 1.8 / 1.5 of a median of 0.8 ms.
    assert row["ratio_low"] < 1.2 < row["ratio_high"]
    assert row["difference_low_s"] < 0.0008 * 0.3 < row["difference_high_s"]
    assert (row["n_blocks"], row["verdict"]) == (6, "slower")


def test_a_study_without_two_arms_that_differ_in_one_feature_has_no_features(tmp_path):
    study = make_study(arms=[{"mesh": "istio", "configurations": ["mtls"]}])
    features = analysis.features_df(*tables(tmp_path, study)[:2], study)
    assert features.empty and tuple(features.columns) == FEATURES_COLUMNS


def test_three_blocks_are_too_few_for_what_a_feature_costs(tmp_path):
    features = analysis.features_df(*tables(tmp_path, make_study())[:2], make_study())
    median = features[features["quantile"] == 0.5]
    assert set(median["verdict"]) == {"too few blocks"}


def test_every_feature_is_one_of_configurations_that_exist():
    known = {name for names in SUPPORTED.values() for name in names} | {"authz-N"}
    for feature in FEATURES:
        assert feature.reference in known
        assert feature.mesh is None or feature.mesh in {*SUPPORTED, "linkerd"}


def test_the_faster_arm_is_chosen_and_said_to_be_told_apart(six):
    decisions = analysis.decisions_df(*six, SIX)
    assert tuple(decisions.columns) == DECISIONS_COLUMNS
    median = decisions[(decisions["criterion"] == "median latency") & (decisions["requirement"] == "any")]
    ranks = {(row.mesh, row.configuration): row.ranks for row in median.itertuples()}
    assert ranks == {("istio", "basic"): "1", ("istio", "mtls"): "2"}
    basic = median[median["configuration"] == "basic"].iloc[0]
    assert basic["ratio_to_baseline"] == pytest.approx(1.5, rel=0.1)
    assert basic["value"] == pytest.approx(0.0008 * 1.5, rel=0.1)
    # One arm alone encrypts, and none asks for a token: there is nothing to choose among them.
    assert set(decisions["requirement"]) == {"any"}


def test_equal_arms_are_a_tie(tmp_path):
    runs = tables(tmp_path, SIX, true_ratios={BASIC: 1.5, MTLS: 1.5})
    decisions = analysis.decisions_df(
        *runs, make_study(blocks=6, target_rps=[400], analysis={"alpha": 0.001})
    )
    median = decisions[decisions["criterion"] == "median latency"]
    assert set(median["ranks"]) == {"1–2"}


def test_two_blocks_put_nothing_before_anything(tmp_path):
    study = make_study(blocks=2)
    assert analysis.decisions_df(*tables(tmp_path, study), study).empty


def test_a_campaign_says_what_it_could_detect(six):
    plan = analysis.plan_df(six[0], six[1], SIX, analysis.Wish(1.1, 0.8))
    assert tuple(plan.columns) == PLAN_COLUMNS
    assert len(plan) == 4  # two arms, p50 and p99
    comparisons = analysis.comparisons_df(six[0], six[1], SIX)
    typical = comparisons[(comparisons["estimand"] == "typical") & (comparisons["family"] == "primary")]
    merged = plan.merge(typical, on=["mesh", "configuration", "target_rps", "quantile"])
    np.testing.assert_allclose(merged["sd_log_x"], merged["sd_log_y"], rtol=1e-9)
    assert (plan["detectable_in_family"] > plan["detectable_ratio"]).all()
    assert (plan["upper_sd_log"] > plan["sd_log"]).all()


@pytest.mark.parametrize(("blocks", "detects"), [(3, 1.39), (6, 1.15), (10, 1.10), (30, 1.05)])
def test_the_planner_agrees_with_simulated_power(blocks, detects):
    """Simulated paired t tests, spread 0.10, power 80 %, level 5 %: they detect 39, 15, 10 and 5 per cent."""
    lines = "\n".join(planning.from_spread(make_study(blocks=blocks), 0.1, 1.1, 0.8))
    (found,) = re.findall(r"detects a ratio of ([0-9.]+),", lines)
    assert round(float(found), 2) == detects


def test_the_planner_says_what_to_change():
    needed = "\n".join(planning.from_spread(make_study(blocks=6), 0.1, 1.1, 0.8))
    assert "example has 6 blocks, which is too few (a claim needs 6 in any case): set blocks: 11." in needed
    enough = "\n".join(planning.from_spread(make_study(blocks=11), 0.1, 1.1, 0.8))
    assert "which is enough" in enough


@pytest.mark.parametrize(
    ("sd", "ratio", "power", "said"),
    [
        (0.1, 0.9, 0.8, "--effect 0.9 is no ratio to detect"),
        (0.1, 1.1, 80, "--power 80 is no probability"),
        (0, 1.1, 0.8, "--sd 0 is no spread"),
        (float("nan"), 1.1, 0.8, "--sd nan is no spread"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(sd, ratio, power, said):
    with pytest.raises(MeshperfError, match=said):
        list(planning.from_spread(make_study(), sd, ratio, power))


def test_a_pilot_of_one_block_is_refused(tmp_path):
    study = make_study(blocks=1)
    campaign = make_synthetic_campaign(tmp_path, study)
    with pytest.raises(MeshperfError, match="no arm with two complete blocks"):
        list(planning.from_campaign(study, campaign, 1.1, 0.8))


def test_a_synthetic_pilot_is_called_so(tmp_path):
    campaign = make_synthetic_campaign(tmp_path, make_study())
    lines = list(planning.from_campaign(make_study(), campaign, 1.1, 0.8))
    assert "SYNTHETIC DATA: the pilot was simulated." in lines
    assert sum("istio/mtls" in line for line in lines) == 4
