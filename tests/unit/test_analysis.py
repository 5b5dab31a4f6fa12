"""From runs to tables: which runs count, and numbers of a campaign whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from support import make_study, make_synthetic_campaign

from meshperf import analysis, frames
from meshperf.analysis.cells import CELLS_COLUMNS, cell_verdict
from meshperf.analysis.comparisons import COMPARISONS_COLUMNS
from meshperf.analysis.pairing import pair_blocks
from meshperf.analysis.runtable import RunTable
from meshperf.design import BASELINE, Arm, RunKey
from meshperf.errors import MeshperfError
from meshperf.histogram import LOG_GRID

BASIC, MTLS = Arm("istio", "basic"), Arm("istio", "mtls")
SIX = make_study(blocks=6, target_rps=[400], load={"connections": 4, "duration_s": 10, "slice_s": 5})


def key(arm, block, rps=400, k=1):
    return RunKey(arm.mesh, arm.configuration, rps, block, k)


def tables(root, study, **options):
    campaign = make_synthetic_campaign(root, study, **options)
    runs, histograms = frames.load_runs(campaign), frames.load_histograms(campaign)
    return runs, histograms, frames.load_resources(campaign)


@pytest.fixture(scope="module")
def six(tmp_path_factory):
    return tables(tmp_path_factory.mktemp("six"), SIX)


def pick(df, arm, q=0.5, **more):
    chosen = (df["mesh"] == arm.mesh) & (df["configuration"] == arm.configuration) & (df["quantile"] == q)
    for column, value in more.items():
        chosen &= df[column] == value
    assert chosen.sum() == 1
    return df[chosen].iloc[0]


def test_cells_have_the_agreed_columns_and_know_the_truth(six):
    cells = analysis.cells_df(six[0], six[1], make_study(target_rps=[400], analysis={"confidence": 0.999}))
    assert tuple(cells.columns) == CELLS_COLUMNS
    baseline = pick(cells, BASELINE)
    assert baseline["low_s"] < 0.0008 < baseline["high_s"]
    assert baseline["bin_low_s"] < baseline["estimate_s"] <= baseline["bin_high_s"]
    assert (baseline["n_blocks"], baseline["n_requests"], baseline["verdict"]) == (6, 2 * 6 * 4000, "ok")
    assert baseline["achieved_rps_mean"] == 400
    mtls = pick(cells, MTLS, q=0.99)
    # p99 of a log-normal: median · exp(2.326 σ), with the true ratio 1.8.
    truth = 0.0008 * 1.8 * np.exp(2.3263 * 0.35)
    assert mtls["low_s"] < truth < mtls["high_s"]
    assert mtls["typical_s"] == pytest.approx(mtls["estimate_s"], rel=0.05)
    assert (mtls["n_blocks"], mtls["n_requests"]) == (6, 6 * 4000)


def test_merged_quantiles_are_not_averages_of_percentiles(six):
    runs, histograms, _ = six
    cells = analysis.cells_df(runs, histograms, SIX)
    counts = histograms[(histograms["mesh"] == "istio") & (histograms["configuration"] == "mtls")]
    # All runs are equally long, so the mean CDF is the CDF of all requests together.
    merged = counts.groupby("bin_high_s")["count"].sum().cumsum()
    right_edge = merged.index[(merged >= 0.9 * merged.iloc[-1]).argmax()]
    assert pick(cells, MTLS, q=0.9)["bin_high_s"] == pytest.approx(right_edge)


def test_comparisons_have_the_agreed_columns_and_know_the_truth(six):
    # One interval in a thousand misses the truth, not one in twenty.
    sure = make_study(blocks=6, target_rps=[400], analysis={"confidence": 0.999})
    comparisons = analysis.comparisons_df(six[0], six[1], sure)
    assert tuple(comparisons.columns) == COMPARISONS_COLUMNS
    for arm, truth in ((BASIC, 1.5), (MTLS, 1.8)):
        for estimand in ("typical", "merged"):
            row = pick(comparisons, arm, estimand=estimand)
            assert row["ratio_low"] < truth < row["ratio_high"]
            assert row["difference_low_s"] < 0.0008 * (truth - 1) < row["difference_high_s"]
            assert (row["n_blocks"], row["verdict"]) == (6, "slower")
    assert pick(comparisons, BASIC, q=0.9, estimand="typical")["reason"] == "exploratory: interval only"
    control = pick(comparisons, BASELINE, estimand="typical")
    assert control["ratio_low"] < 1 < control["ratio_high"]
    assert control["verdict"] in ("undecided", "equivalent")


def test_results_do_not_depend_on_the_order_of_rows(six):
    runs, histograms, _ = six
    shuffled = analysis.comparisons_df(
        runs.sample(frac=1, random_state=1), histograms.sample(frac=1, random_state=2), SIX
    )
    pd.testing.assert_frame_equal(shuffled, analysis.comparisons_df(runs, histograms, SIX))


def test_other_arms_do_not_change_a_cell_or_an_interval(six):
    runs, histograms, _ = six
    alone = [df[~((df["mesh"] == "istio") & (df["configuration"] == "mtls"))] for df in (runs, histograms)]
    row = pick(analysis.comparisons_df(*alone, SIX), BASIC, estimand="merged")
    full = pick(analysis.comparisons_df(runs, histograms, SIX), BASIC, estimand="merged")
    same = ["overhead_ratio", "ratio_low", "ratio_high", "n_blocks"]
    assert row[same].tolist() == pytest.approx(full[same].tolist())


def test_the_extra_quantile_appears_only_where_it_is_estimable(six, tmp_path):
    cells = analysis.cells_df(six[0], six[1], SIX)
    assert set(cells["quantile"]) == {0.5, 0.9, 0.99, 0.999}
    small = make_study(target_rps=[100])
    runs, histograms, _ = tables(tmp_path, small)
    assert set(analysis.cells_df(runs, histograms, small)["quantile"]) == {0.5, 0.9, 0.99}
    # 3 x 500 requests: 15 beyond p99 and 1.5 beyond p99.9.
    not_estimable = pick(analysis.cells_df(runs, histograms, small), BASIC, q=0.99)
    if not_estimable["estimable"] == "n.e.":
        assert np.isnan(not_estimable["estimate_s"])


def test_two_blocks_give_estimates_only(tmp_path):
    study = make_study(blocks=2, target_rps=[400])
    runs, histograms, resources = tables(tmp_path, study)
    comparisons = analysis.comparisons_df(runs, histograms, study)
    assert comparisons["overhead_ratio"].notna().any()
    ends = ["ratio_low", "ratio_high", "difference_low_s", "difference_high_s"]
    assert comparisons[ends].isna().all(axis=None)
    assert set(comparisons["verdict"]) <= {"too few blocks", "not estimable"}
    estimated = comparisons[comparisons["overhead_ratio"].notna()]
    assert estimated["warnings"].str.contains("TooFewBlocks").all()
    cells = analysis.cells_df(runs, histograms, study)
    assert cells[["low_s", "high_s"]].isna().all(axis=None)
    cpu = analysis.cpu_df(resources, runs, study)
    assert cpu["cpu_low_s_per_request"].isna().all()


def test_three_blocks_give_intervals_and_no_claim(tmp_path):
    study = make_study(blocks=3, target_rps=[400])
    runs, histograms, _ = tables(tmp_path, study)
    row = pick(analysis.comparisons_df(runs, histograms, study), MTLS, estimand="typical")
    assert row["ratio_low"] < row["overhead_ratio"] < row["ratio_high"]
    assert row["verdict"] == "too few blocks"


def test_saturated_cells_are_shown_and_never_compared(tmp_path):
    verdicts = {key(MTLS, block): "saturated" for block in (1, 4)}
    runs, histograms, _ = tables(
        tmp_path, SIX, verdicts=verdicts, achieved_ratio=dict.fromkeys(verdicts, 0.8), seed=2
    )
    rows = analysis.comparisons_df(runs, histograms, SIX)
    mtls = rows[rows["configuration"] == "mtls"]
    assert set(mtls["verdict"]) == {"not comparable (saturated)"}
    assert mtls[["overhead_ratio", "ratio_low", "overhead_s"]].isna().all(axis=None)
    assert set(mtls["reason"]) == {"blocks: 4 ok, 2 saturated"}
    assert mtls["warnings"].str.contains("Saturated").all()
    assert pick(rows, BASIC, estimand="typical")["verdict"] == "slower"
    cell = pick(analysis.cells_df(runs, histograms, SIX), MTLS)
    assert cell["verdict"] == "saturated"
    assert cell["estimate_s"] > 0
    assert "Saturated" in cell["warnings"]
    # A missing fraction of 0.2 leaves p90 and p99 without an upper bound.
    assert "OmissionUnbounded" in pick(analysis.cells_df(runs, histograms, SIX), MTLS, q=0.9)["warnings"]


def test_a_saturated_baseline_stops_every_comparison(tmp_path):
    verdicts = {key(BASELINE, block, k=2): "saturated" for block in (1, 2)}
    runs, histograms, _ = tables(tmp_path, SIX, verdicts=verdicts)
    rows = analysis.comparisons_df(runs, histograms, SIX)
    assert set(rows["verdict"]) == {"not comparable (saturated)"}


def test_one_saturated_block_is_left_out(tmp_path):
    runs, histograms, _ = tables(tmp_path, SIX, verdicts={key(MTLS, 3): "saturated"})
    row = pick(analysis.comparisons_df(runs, histograms, SIX), MTLS, estimand="typical")
    assert row["n_blocks"] == 5
    assert row["verdict"] == "too few blocks"
    assert row["overhead_ratio"] > 1
    cell = pick(analysis.cells_df(runs, histograms, SIX), MTLS)
    assert (cell["verdict"], cell["n_blocks"]) == ("ok", 5)
    assert "BlockIncomplete" in cell["warnings"]


def test_degraded_blocks_keep_their_interval_and_lose_their_claim(tmp_path):
    verdicts = {key(MTLS, block): "degraded" for block in (1, 2, 3)}
    runs, histograms, _ = tables(tmp_path, SIX, verdicts=verdicts)
    row = pick(analysis.comparisons_df(runs, histograms, SIX), MTLS, estimand="typical")
    assert row["ratio_low"] > 1
    assert (row["verdict"], row["n_blocks"]) == ("undecided", 6)
    assert row["reason"].startswith("degraded")
    assert pick(analysis.cells_df(runs, histograms, SIX), MTLS)["verdict"] == "degraded"


def test_a_failed_run_is_replaced_by_its_makeup_block(tmp_path):
    runs, histograms, _ = tables(tmp_path, SIX, verdicts={key(MTLS, 2): "failed"})
    assert set(runs["block"]) == set(range(1, 8))
    rows = analysis.comparisons_df(runs, histograms, SIX)
    mtls = pick(rows, MTLS, estimand="typical")
    assert (mtls["n_blocks"], mtls["verdict"]) == (6, "slower")
    assert "BlockIncomplete" in mtls["warnings"]
    assert pick(rows, BASIC, estimand="typical")["n_blocks"] == 7


def test_nothing_but_failed_runs(tmp_path):
    study = make_study(blocks=3, target_rps=[400], makeup_blocks=0)
    verdicts = {key(MTLS, block): "failed" for block in (1, 2, 3)}
    runs, histograms, _ = tables(tmp_path, study, verdicts=verdicts)
    row = pick(analysis.comparisons_df(runs, histograms, study), MTLS, estimand="typical")
    assert row["verdict"] == "not comparable (errors)"
    cell = pick(analysis.cells_df(runs, histograms, study), MTLS)
    assert (cell["verdict"], cell["estimable"], cell["n_blocks"]) == ("failed", "n.e.", 0)
    assert np.isnan(cell["estimate_s"])


def test_a_block_without_all_its_runs_does_not_count(tmp_path):
    runs, histograms, _ = tables(tmp_path, SIX, leave_out={key(BASELINE, 5, k=2)})
    row = pick(analysis.comparisons_df(runs, histograms, SIX), MTLS, estimand="typical")
    assert row["n_blocks"] == 5
    assert "BlockIncomplete" in row["warnings"]


def test_cpu_per_request_is_paired_by_block(six):
    runs, _, resources = six
    # The synthetic containers use the same CPU in every run: 0.05 service + 0.30 + 0.35 sidecars per 1000
    # RPS.
    noisy = resources.copy()
    noisy["cpu_s_per_request"] *= 1 + 0.01 * np.random.default_rng(1).standard_normal(len(noisy))
    cpu = analysis.cpu_df(noisy, runs, SIX)
    plane = cpu[(cpu["configuration"] == "mtls") & (cpu["role"] == "data-plane")].iloc[0]
    assert plane["cpu_s_per_request"] == pytest.approx(0.70e-3, rel=0.02)
    assert plane["overhead_s_per_request"] == pytest.approx(0.65e-3, rel=0.02)
    assert plane["difference_low_s_per_request"] < 0.65e-3 < plane["difference_high_s_per_request"]
    assert plane["ratio_low"] < 14 < plane["ratio_high"]
    sidecar = cpu[(cpu["configuration"] == "mtls") & (cpu["role"] == "sidecar-client")].iloc[0]
    assert np.isnan(sidecar["overhead_ratio"])
    assert sidecar["overhead_s_per_request"] == pytest.approx(0.35e-3, rel=0.02)
    control = cpu[(cpu["mesh"] == "baseline") & (cpu["role"] == "service")].iloc[0]
    assert control["ratio_low"] < 1 < control["ratio_high"]


def test_runs_on_different_grids_are_refused(six):
    runs, histograms, _ = six
    other = histograms.copy()
    first = other["block"] == 1
    other.loc[first, "bin_low_s"] *= 1.003
    other.loc[first, "bin_high_s"] *= 1.003
    with pytest.raises(MeshperfError, match="different grids"):
        analysis.cells_df(runs, other, SIX)


def test_a_run_must_not_be_counted_twice(six):
    runs, histograms, _ = six
    with pytest.raises(MeshperfError, match="twice"):
        analysis.cells_df(pd.concat([runs, runs.iloc[:1]]), histograms, SIX)


def test_edges_rounded_by_a_text_file_are_the_same_grid(six):
    runs, histograms, _ = six
    rounded = histograms.copy()
    for column in ("bin_low_s", "bin_high_s"):
        rounded[column] = [float(f"{value:.12g}") for value in rounded[column]]
    table = RunTable.build(runs, rounded)
    assert np.isin(table.edges_s, LOG_GRID).all()
    assert table.counts.sum() == histograms["count"].sum()


def test_a_campaign_without_histograms_has_no_latencies(six):
    runs, histograms, _ = six
    cells = analysis.cells_df(runs, histograms.iloc[:0], SIX)
    assert cells["estimate_s"].isna().all()
    assert set(cells["estimable"]) == {"n.e."}
    comparisons = analysis.comparisons_df(runs, histograms.iloc[:0], SIX)
    assert set(comparisons["verdict"]) == {"too few blocks"}


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["ok", "ok", "ok"], "ok"),
        (["ok", "ok", "saturated"], "ok"),
        (["ok", "degraded", "degraded"], "degraded"),
        (["ok", "degraded", "saturated"], "saturated"),
        (["saturated"], "saturated"),
        (["failed", "ok", "ok"], "ok"),
        (["failed", "failed"], "failed"),
    ],
)
def test_cell_verdicts(verdicts, expected):
    assert cell_verdict(pd.Series(verdicts, index=range(1, len(verdicts) + 1))) == expected


def frame(verdicts, deployment=1):
    rows = [
        {"block": b, "deployment": deployment, "verdict": v, "steadiness": "steady"}
        for b, v in enumerate(verdicts, start=1)
    ]
    return pd.DataFrame(rows)


def test_pairing_keeps_blocks_in_order():
    control = pd.concat([frame(["ok"] * 3, 1), frame(["ok"] * 3, 2)], ignore_index=True)
    pairing = pair_blocks(frame(["ok", "failed", "ok"]).iloc[::-1], control, 2)
    assert pairing.arm_rows == (0, 2)
    assert pairing.control_rows == ((0, 3), (2, 5))
    assert not pairing.degraded
    assert pairing.reason == "blocks: 2 ok, 1 failed"
