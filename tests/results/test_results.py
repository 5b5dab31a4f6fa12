"""What must hold of the numbers of any campaign, whatever they say. A rule of the workflow runs this on results."""

import numpy as np
import pandas as pd
import pytest

from meshperf import design
from meshperf.study import load_study

KEY = ["mesh", "configuration", "target_rps", "block", "deployment"]
CELL = ["mesh", "configuration", "target_rps"]


@pytest.fixture(scope="module")
def study(request):
    return load_study(request.config.getoption("--study"))


@pytest.fixture(scope="module")
def results(request):
    directory = request.config.getoption("--results")

    def read(name):
        return pd.read_csv(directory / f"{name}.csv", keep_default_na=True)

    return read


@pytest.fixture(scope="module")
def runs_df(results):
    return results("runs")


@pytest.fixture(scope="module")
def cells_df(results):
    return results("cells")


@pytest.fixture(scope="module")
def comparisons_df(results):
    return results("comparisons")


def test_no_run_is_there_twice(runs_df):
    assert not runs_df.duplicated(KEY).any()


def test_every_run_of_the_design_is_there(study, runs_df):
    if study.imported:
        pytest.skip("imported results follow no design of ours")
    planned = {
        (key.mesh, key.configuration, key.target_rps, key.block, key.deployment)
        for key in design.run_keys(design.schedule(study))
    }
    assert planned <= set(runs_df[KEY].itertuples(index=False, name=None))


def test_makeup_blocks_are_whole_and_within_the_cap(study, runs_df):
    if study.imported:
        pytest.skip("imported results have no make-up blocks")
    blocks = runs_df.groupby("block").size()
    assert blocks.nunique() == 1, "a block with fewer runs than another"
    assert blocks.index.max() <= study.blocks + study.makeup_blocks


def test_quantiles_of_a_run_ascend(runs_df):
    finished = runs_df[runs_df["n_requests"] > runs_df["n_errors"]]
    ascending = ["p50_s", "p90_s", "p99_s"]
    assert (finished["min_s"] > 0).all()
    assert (finished[ascending].diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)


def test_no_run_outran_its_target(runs_df):
    # A fixed schedule can be missed but not beaten; 1 % covers the edges of the window. Without a limit there is none.
    limited = runs_df[(runs_df["target_rps"] > 0) & (runs_df["verdict"] != "failed")]
    assert (limited["achieved_rps"] <= limited["target_rps"] * 1.01).all()


def test_requests_are_rate_times_duration(runs_df):
    # A file that contradicts itself makes a failed run.
    runs_df = runs_df[runs_df["verdict"] != "failed"]
    expected = runs_df["achieved_rps"] * runs_df["duration_s"]
    assert ((runs_df["n_requests"] - expected).abs() <= 0.02 * expected + 2).all()


def test_every_verdict_other_than_ok_has_a_reason(runs_df):
    assert set(runs_df["verdict"]) <= {"ok", "degraded", "saturated", "failed"}
    reasons = runs_df.loc[runs_df["verdict"] != "ok", "reasons"].fillna("")
    assert all(str(reason) for reason in reasons)


def test_every_cell_of_the_design_is_described(study, cells_df, runs_df):
    described = set(cells_df[CELL].itertuples(index=False, name=None))
    planned = {(cell.arm.mesh, cell.arm.configuration, cell.target_rps) for cell in design.cells(study)}
    present = set(runs_df[CELL].itertuples(index=False, name=None))
    assert described == (present if study.imported else planned)
    for q in study.quantiles:
        assert (cells_df["quantile"] == q).groupby([cells_df[name] for name in CELL]).any().all()


def test_quantiles_of_a_cell_ascend_and_lie_in_their_intervals(cells_df):
    estimated = cells_df[cells_df["estimate_s"].notna()].sort_values([*CELL, "quantile"])
    assert (estimated.groupby(CELL)["estimate_s"].diff().dropna() >= 0).all()
    with_interval = estimated[estimated["low_s"].notna()]
    assert (with_interval["low_s"] <= with_interval["high_s"]).all()


def test_what_is_not_estimable_has_no_number(cells_df):
    assert (
        cells_df.loc[cells_df["estimable"] == "n.e.", ["estimate_s", "low_s", "high_s"]].isna().all(axis=None)
    )


def test_comparisons_have_their_control(study, comparisons_df):
    if study.imported and study.imported.baselines < 2:
        pytest.skip("imported results may have one baseline or none")
    control = comparisons_df[comparisons_df["mesh"] == "baseline"]
    assert set(control["target_rps"]) == set(study.target_rps)


def test_ratios_lie_in_their_intervals(comparisons_df):
    with_interval = comparisons_df[comparisons_df["ratio_low"].notna() & comparisons_df["ratio_high"].notna()]
    assert (with_interval["ratio_low"] <= with_interval["overhead_ratio"] * (1 + 1e-9)).all()
    assert (with_interval["overhead_ratio"] <= with_interval["ratio_high"] * (1 + 1e-9)).all()


def test_saturated_cells_are_not_compared(cells_df, comparisons_df):
    saturated = cells_df.loc[cells_df["verdict"] == "saturated", CELL].drop_duplicates()
    compared = comparisons_df[comparisons_df["overhead_ratio"].notna()]
    assert compared.merge(saturated, on=CELL).empty


def test_resources_are_physical(results):
    resources_df = results("resources")
    assert (resources_df["cores"].dropna() >= 0).all()
    known = resources_df.dropna(subset=["working_set_median_bytes", "working_set_max_bytes"])
    assert (known["working_set_median_bytes"] <= known["working_set_max_bytes"]).all()


def test_no_p_value_is_below_what_the_design_can_reach(results):
    distances_df = results("distances")
    tested = distances_df[distances_df["p_combined"].notna()]
    for name in ("p_body", "p_tail", "p_combined"):
        assert (tested[name].dropna() >= tested.loc[tested[name].notna(), "p_min"] * (1 - 1e-9)).all()
        assert (tested[name].dropna() <= 1).all()
    gate_df = results("gate")
    assert (gate_df["p_value"].dropna() >= gate_df["p_min"].dropna() * (1 - 1e-9)).all()


def test_adjusted_p_values_are_no_smaller_than_plain_ones(results):
    for name, plain in (("comparisons", "p_value"), ("distances", "p_combined")):
        frame = results(name).dropna(subset=["p_adjusted", plain])
        assert (frame["p_adjusted"] >= frame[plain] * (1 - 1e-9)).all()


def test_claims_survive_their_family_and_exceed_the_noise(study, comparisons_df):
    claims = comparisons_df[comparisons_df["verdict"].isin(["slower", "faster"])]
    claims = claims[(claims["estimand"] == "typical") & (claims["mesh"] != "baseline")]
    assert set(claims["family"]) <= {"primary"}
    assert (claims["p_adjusted"] <= study.analysis.alpha).all()
    size = claims["overhead_ratio"].where(claims["overhead_ratio"] >= 1, 1 / claims["overhead_ratio"])
    assert (size > claims["noise_ratio"].fillna(1)).all()


def test_nothing_is_claimed_where_the_control_fails(results, comparisons_df):
    if (results("gate")["passed"].iloc[0]) == "no":
        assert not set(comparisons_df["verdict"]) & {"slower", "faster", "equivalent"}


def test_distances_and_bands_are_what_their_names_say(results):
    distances_df, shifts_df = results("distances"), results("shifts")
    known = distances_df[distances_df["ks_d"].notna()]
    assert known["ks_d"].between(0, 1).all()
    assert np.isclose(known["ks_d"], known[["ks_plus", "ks_minus"]].max(axis=1)).all()
    bands = shifts_df[shifts_df["block"].isna() & shifts_df["ratio_low"].notna()]
    assert (bands["ratio_low"] <= bands["ratio"]).all() and (bands["ratio"] <= bands["ratio_high"]).all()


def test_ranks_are_ranks(results):
    ranks_df = results("ranks")
    assert ((ranks_df["best_rank"] >= 1) & (ranks_df["worst_rank"] <= ranks_df["n_arms"])).all()
    assert (ranks_df["best_rank"] <= ranks_df["worst_rank"]).all()
