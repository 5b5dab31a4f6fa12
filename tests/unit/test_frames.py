"""The raw data as tables: columns, truth of the synthetic latencies, and damaged files."""

import gzip
import time

import numpy as np
import pandas as pd
import pytest
from support import (
    BASELINE_MEDIAN_S,
    SIGMA_REQUEST,
    TRUE_RATIOS,
    make_study,
    make_synthetic_campaign,
    slices_csv_gz,
)

from meshperf import frames, runs
from meshperf.design import Arm, RunKey
from meshperf.errors import MeshperfError
from meshperf.histogram import LOG_GRID

FAILED = RunKey("istio", "mtls", 400, 2, 1)
SATURATED = RunKey("istio", "basic", 400, 1, 1)
BROKEN = RunKey("baseline", "none", 100, 1, 2)
SIZES = {"connections": 4, "duration_s": 10, "warmup_s": 0, "slice_s": 5}


@pytest.fixture(scope="module")
def campaign_dir(tmp_path_factory):
    return make_synthetic_campaign(
        tmp_path_factory.mktemp("frames"),
        make_study(load=SIZES),
        verdicts={FAILED: "failed", SATURATED: "saturated"},
        achieved_ratio={SATURATED: 0.8},
        broken_attempts={BROKEN: 2},
    )


@pytest.fixture(scope="module")
def runs_df(campaign_dir):
    return frames.load_runs(campaign_dir)


def row_of(frame, key):
    (row,) = frame[frame.path == str(key)].itertuples()
    return row


def test_runs_are_rows_in_measuring_order(runs_df):
    assert tuple(runs_df.columns) == frames.RUNS_COLUMNS
    # 3 blocks and a make-up block of 4 deployments with 2 rates.
    assert len(runs_df) == 4 * 4 * 2
    assert list(runs_df.order) == list(range(1, 33))
    assert runs_df.started_utc.is_monotonic_increasing
    # Two slices are too few to tell whether a run drifted.
    assert not runs_df.drop(columns=["reasons", "drift_ratio"]).isna().any().any()
    assert set(runs_df.steadiness) == {"unknown"}


def test_a_failed_run_is_kept_with_its_verdict(runs_df):
    row = row_of(runs_df, FAILED)
    assert (row.verdict, row.n_requests, row.n_errors) == ("failed", 4000, 40)
    assert row.error_ratio == pytest.approx(0.01)
    assert row.reasons == "errors: 40 of 4000 responses were not 200"


def test_a_saturated_run_is_kept_with_its_verdict(runs_df):
    row = row_of(runs_df, SATURATED)
    assert (row.verdict, row.target_rps, row.achieved_rps) == ("saturated", 400, pytest.approx(320))
    assert row.missing_fraction == pytest.approx(0.2)
    assert row.n_requests == 3200


def test_attempts_count_the_broken_ones(runs_df):
    assert row_of(runs_df, BROKEN).attempts == 3
    assert sorted(runs_df.attempts.unique()) == [1, 3]


def test_quantiles_are_those_that_the_latencies_were_drawn_with(tmp_path):
    directory = make_synthetic_campaign(
        tmp_path, make_study(load=SIZES), sd_block=0, sd_deployment=0, sd_run=0
    )
    frame = frames.load_runs(directory).query("target_rps == 400")
    # Normal quantiles of 0.9 and 0.99; the standard error of a quantile of 4000 requests is below 3 %.
    for column, z in (("p50_s", 0.0), ("p90_s", 1.2816), ("p99_s", 2.3263)):
        truth = BASELINE_MEDIAN_S * np.exp(SIGMA_REQUEST * z)
        for (mesh, configuration), values in frame.groupby(["mesh", "configuration"])[column]:
            ratio = TRUE_RATIOS.get(Arm(mesh, configuration), 1.0)
            assert values.to_numpy() == pytest.approx(truth * ratio, rel=0.1)
            assert values.mean() == pytest.approx(truth * ratio, rel=0.03)
    assert frame.mean_s.min() > frame.p50_s.min(), "the mean of a log-normal exceeds its median"
    assert (frame.min_s < frame.p50_s).all()
    assert (frame.max_s >= frame.p999_s).all()


def test_histograms_hold_every_request_once(campaign_dir, runs_df):
    histograms_df = frames.load_histograms(campaign_dir)
    assert tuple(histograms_df.columns) == frames.HISTOGRAMS_COLUMNS
    counted = histograms_df.groupby(list(frames.IDENTITY))["count"].sum()
    expected = runs_df.set_index(list(frames.IDENTITY)).n_requests
    assert (counted == expected.reindex(counted.index)).all()
    assert (histograms_df["count"] > 0).all()
    assert set(histograms_df.bin_low_s) <= set(LOG_GRID)
    width = histograms_df.bin_high_s / histograms_df.bin_low_s
    assert width.max() < 1.0101
    assert width.min() > 1.009


def test_a_run_without_slices_falls_back_to_the_load_generators_bins(tmp_path):
    directory = make_synthetic_campaign(tmp_path, make_study(load=SIZES, blocks=1), seal=False)
    key = RunKey("istio", "mtls", 400, 1, 1)
    fine = frames.load_histogram(runs.run_dir(directory, key))
    (runs.run_dir(directory, key) / "slices.csv.gz").unlink()
    coarse = frames.load_histogram(runs.run_dir(directory, key))
    assert coarse.n == fine.n == 4000
    assert coarse.quantile(0.5) == pytest.approx(fine.quantile(0.5), rel=0.02)
    counted = frames.load_histograms(directory).groupby("configuration")["count"].sum()
    assert counted["mtls"] == 1000 + 4000


def test_bins_are_read_back_where_they_were_written(tmp_path):
    directory = make_synthetic_campaign(tmp_path, make_study(blocks=1), seal=False)
    key = RunKey("istio", "mtls", 400, 1, 1)
    low, mid, high = (float(edge) for edge in LOG_GRID[500:503])
    rows = [(0, 0, 0.0, LOG_GRID[1], 1), (0, 0, low, mid, 2), (1, 5, low, mid, 3), (1, 5, mid, high, 4)]
    text = "slice,start_s,bin_low_s,bin_high_s,count\n" + "".join(
        f"{a},{b},{c},{d},{e}\n" for a, b, c, d, e in rows
    )
    (runs.run_dir(directory, key) / "slices.csv.gz").write_bytes(gzip.compress(text.encode()))
    frame = frames.load_histograms(directory).query("configuration == 'mtls' and target_rps == 400")
    assert list(zip(frame.bin_low_s, frame.bin_high_s, frame["count"], strict=True)) == [
        (0.0, LOG_GRID[1], 1),
        (low, mid, 5),
        (mid, high, 4),
    ]


def test_bins_of_another_grid_are_refused(tmp_path):
    directory = make_synthetic_campaign(tmp_path, make_study(blocks=1), seal=False)
    path = runs.run_dir(directory, RunKey("istio", "mtls", 400, 1, 1)) / "slices.csv.gz"
    text = "slice,start_s,bin_low_s,bin_high_s,count\n0,0,0.0012345,0.0012469,1\n"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(MeshperfError, match="not on the study-wide grid") as caught:
        frames.load_histograms(directory)
    assert str(path) in str(caught.value)


def test_slices_add_up(campaign_dir):
    run = runs.run_dir(campaign_dir, RunKey("baseline", "none", 100, 1, 1))
    slices = frames.load_slices(run)
    assert {number: histogram.n for number, histogram in slices.items()} == {0: 500, 1: 500}
    assert frames.load_histogram(run).n == 1000


def test_resources_are_rows_per_container(campaign_dir):
    resources_df = frames.load_resources(campaign_dir)
    assert tuple(resources_df.columns) == frames.RESOURCES_COLUMNS
    roles = resources_df.groupby("mesh").role.unique().map(set)
    assert roles["baseline"] == {"service", "load-generator", "node"}
    assert roles["istio"] == roles["baseline"] | {"sidecar-server", "sidecar-client", "control-plane"}
    service = resources_df.query("role == 'service' and mesh == 'baseline' and target_rps == 400")
    # 0.05 cores per 1000 requests a second.
    assert service.cores.to_numpy() == pytest.approx(0.02)
    assert service.cpu_s.to_numpy() == pytest.approx(0.2)
    assert service.cpu_s_per_request.to_numpy() == pytest.approx(0.2 / 4000)
    assert (service.working_set_median_bytes == 18 * 1024**2).all()
    assert (service.throttled_ratio == 0).all()


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("slices.csv.gz", lambda content: content[:-20], "truncated or damaged"),
        ("slices.csv.gz", lambda content: gzip.compress(b"a,b\n1,2\n"), "its header is not"),
        ("fortio.json", lambda content: content[: len(content) // 2], "truncated"),
        ("run.json", lambda content: content[: len(content) // 2], "truncated"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, damage, words):
    directory = make_synthetic_campaign(tmp_path, make_study(blocks=1), seal=False)
    path = runs.run_dir(directory, RunKey("istio", "mtls", 400, 1, 1)) / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(MeshperfError, match=words) as caught:
        frames.load_runs(directory)
    assert str(path) in str(caught.value)


def test_a_campaign_that_does_not_exist(tmp_path):
    with pytest.raises(MeshperfError, match="no campaign"):
        frames.load_runs(tmp_path)


def test_a_campaign_without_runs_gives_empty_tables(tmp_path):
    from meshperf import campaign

    campaign.start(make_study(), tmp_path, {"kind": "synthetic"}, synthetic=True)
    for load in (frames.load_runs, frames.load_histograms, frames.load_resources):
        assert load(tmp_path).empty


def test_hundreds_of_runs_are_read_in_seconds(tmp_path):
    directory = make_synthetic_campaign(
        tmp_path, make_study(blocks=25, target_rps=[100, 200, 300, 400]), seal=False
    )
    start = time.process_time()
    assert len(frames.load_runs(directory)) == 400
    assert time.process_time() - start < 4


LONG = {"connections": 4, "duration_s": 60, "warmup_s": 0, "slice_s": 2.5}


def overwritten(directory, key, factor_at):
    """Replace the slices of a run: as many latencies, multiplied by a factor of the time."""
    n, path = 400 * 60, runs.run_dir(directory, key) / runs.SLICES
    offsets_s = np.arange(n) / 400
    latencies_s = np.exp(np.random.default_rng(3).normal(np.log(0.001), 0.3, n)) * factor_at(offsets_s)
    path.write_bytes(slices_csv_gz(latencies_s, offsets_s, 2.5, 60))


def test_time_course_tells_steady_runs_from_others(tmp_path):
    study = make_study(blocks=1, target_rps=[400], load=LONG)
    directory = make_synthetic_campaign(tmp_path, study, seal=False)
    drifting, warming = RunKey("istio", "mtls", 400, 1, 1), RunKey("istio", "basic", 400, 1, 1)
    overwritten(directory, drifting, lambda t: np.exp(0.3 * t / 60))
    overwritten(directory, warming, lambda t: np.where(t < 20, 2.0, 1.0))
    frame = frames.load_runs(directory)
    assert set(frame.n_slices) == {24}
    assert row_of(frame, drifting).steadiness == "not steady"
    row = row_of(frame, warming)
    # Eight of 24 slices are more than a quarter.
    assert (row.steadiness, row.warmup_slices) == ("not steady", 8)
    others = frame[~frame.path.isin([str(drifting), str(warming)])]
    assert set(others.steadiness) == {"steady"}
    assert others.drift_ratio.to_numpy() == pytest.approx(1, abs=0.05)


def test_slices_are_rows_in_the_order_of_time(tmp_path):
    study = make_study(blocks=1, target_rps=[400], load=LONG)
    directory = make_synthetic_campaign(tmp_path, study, seal=False)
    overwritten(directory, RunKey("istio", "mtls", 400, 1, 1), lambda t: np.where(t < 20, 2.0, 1.0))
    slices = frames.load_time_course(directory)
    assert tuple(slices.columns) == frames.SLICES_COLUMNS
    run = slices.query("configuration == 'mtls'")
    assert run["start_s"].tolist() == [2.5 * number for number in range(24)]
    assert set(run["n_requests"]) == {1000}
    assert run["p50_s"].to_numpy() == pytest.approx([0.002] * 8 + [0.001] * 16, rel=0.05)
    # p99 of a log-normal: median · exp(2.3263 σ).
    assert run["p99_s"].to_numpy()[8:] == pytest.approx(0.001 * np.exp(2.3263 * 0.3), rel=0.25)


def test_a_cell_can_be_loaded_alone(tmp_path):
    campaign = make_synthetic_campaign(tmp_path, make_study())
    arm = Arm("istio", "mtls")
    whole = frames.load_runs(campaign).query(
        "mesh == 'istio' and configuration == 'mtls' and target_rps == 400"
    )
    pd.testing.assert_frame_equal(frames.load_runs(campaign, arm, 400), whole.reset_index(drop=True))
    histograms = frames.load_histograms(campaign)
    of_cell = histograms.query("mesh == 'istio' and configuration == 'mtls' and target_rps == 400")
    pd.testing.assert_frame_equal(frames.load_histograms(campaign, arm, 400), of_cell.reset_index(drop=True))
    assert 0 < len(of_cell) < len(histograms)
    assert set(frames.load_runs(campaign, target_rps=100)["target_rps"]) == {100}
