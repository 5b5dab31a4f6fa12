"""CPU by slope, memory, and drift over a campaign, from numbers made by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support import make_study, make_synthetic_campaign

from meshperf import analysis, frames

RUN = ["mesh", "configuration", "target_rps", "block", "deployment"]
STUDY = make_study(blocks=4, target_rps=[100, 200, 400])
#: Cores per RPS of the service in each block, and idle cores.
BLOCK_SLOPES = np.array([50e-6, 52e-6, 47e-6, 55e-6])
IDLE = 0.01


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    campaign = make_synthetic_campaign(tmp_path_factory.mktemp("four"), STUDY)
    return frames.load_runs(campaign), frames.load_resources(campaign), frames.load_memory(campaign)


@pytest.fixture(scope="module")
def resources(data):
    """The service has a known line in each block; the sidecars have what the campaign gave them."""
    changed = data[1].copy()
    service = changed["role"] == "service"
    slope = BLOCK_SLOPES[changed["block"].astype(int) - 1]
    changed.loc[service, "cores"] = (IDLE + slope * changed["target_rps"])[service]
    return changed


def one(frame, **wanted):
    chosen = np.logical_and.reduce([frame[name] == value for name, value in wanted.items()])
    assert chosen.sum() == 1
    return frame[chosen].iloc[0]


def test_a_request_costs_the_slope_of_its_deployments(data, resources):
    runs = data[0]
    row = one(analysis.slopes_df(resources, runs, STUDY), configuration="mtls", role="service")
    assert row["slope_s_per_request"] == pytest.approx(BLOCK_SLOPES.mean())
    interval = stats.ttest_1samp(BLOCK_SLOPES, 0).confidence_interval(0.95)
    ends = (row["slope_low_s_per_request"], row["slope_high_s_per_request"])
    assert ends == pytest.approx((interval.low, interval.high))
    assert row["idle_cores"] == pytest.approx(IDLE)
    assert (row["levels"], row["n_blocks"]) == (3, 4)
    # The baseline's service has the same line in each block.
    assert row["overhead_s_per_request"] == pytest.approx(0, abs=1e-12)


def test_a_role_that_the_baseline_lacks_costs_all_it_uses(data, resources):
    slopes = analysis.slopes_df(resources, data[0], STUDY)
    client = one(slopes, configuration="basic", role="sidecar-client")
    assert client["overhead_s_per_request"] == client["slope_s_per_request"] == pytest.approx(0.35e-3)
    # Service, server sidecar 0.30 and client sidecar 0.35 cores per 1000 RPS.
    plane = one(slopes, configuration="basic", role="data-plane")
    assert plane["slope_s_per_request"] == pytest.approx(BLOCK_SLOPES.mean() + 0.65e-3)
    assert plane["overhead_s_per_request"] == pytest.approx(0.65e-3)
    assert slopes.query("mesh == 'baseline' and role == 'sidecar-client'").empty


def test_a_curve_is_no_line(data, resources):
    bent = resources.copy()
    service = bent["role"] == "service"
    wobble = np.random.default_rng(1).normal(0, 1e-5, len(bent))
    bent.loc[service, "cores"] += (1e-6 * bent["target_rps"] ** 2 + wobble)[service]
    slopes = analysis.slopes_df(bent, data[0], STUDY)
    row = one(slopes, configuration="mtls", role="service")
    assert row["linear"] == "no"
    assert row["curvature"] == pytest.approx(1e-6, rel=0.05)


def test_rates_that_were_missed_are_left_out_of_the_line(data, resources):
    runs = data[0].copy()
    missed = (runs["configuration"] == "mtls") & (runs["target_rps"] == 400)
    runs.loc[missed, "verdict"] = "saturated"
    odd = resources.copy()
    odd.loc[(odd["configuration"] == "mtls") & (odd["target_rps"] == 400), "cores"] = 9.0
    row = one(analysis.slopes_df(odd, runs, STUDY), configuration="mtls", role="service")
    assert (row["slope_s_per_request"], row["levels"]) == (pytest.approx(BLOCK_SLOPES.mean()), 2)
    runs.loc[(runs["configuration"] == "mtls") & (runs["target_rps"] == 200), "verdict"] = "degraded"
    row = one(analysis.slopes_df(odd, runs, STUDY), configuration="mtls", role="service")
    assert np.isnan(row["slope_s_per_request"])
    assert row["reason"] == "rates met in all blocks: 1, 2 are needed"


def test_a_container_that_was_not_seen_in_one_block_is_not_zero(data):
    runs, resources, _ = data
    lost = (resources["mesh"] == "baseline") & (resources["block"] == 2) & (resources["role"] == "service")
    cpu = analysis.cpu_df(resources[~lost], runs, STUDY)
    assert cpu.query("configuration == 'mtls' and role == 'service'").empty
    assert (
        len(analysis.cpu_df(resources, runs, STUDY).query("configuration == 'mtls' and role == 'service'"))
        == 3
    )


def test_memory_is_what_the_containers_hold(data):
    runs, resources, samples = data
    memory = analysis.memory_df(resources, samples, runs, STUDY)
    plane = one(memory, configuration="mtls", target_rps=400, role="data-plane")
    # Service 18, sidecars 60 and 62 MiB; the baseline has the service only.
    assert plane["level_bytes"] == (18 + 60 + 62) * 2**20
    assert plane["overhead_bytes"] == (60 + 62) * 2**20
    assert one(memory, mesh="baseline", target_rps=400, role="service")["overhead_bytes"] == 0


def test_memory_that_grows_is_noticed(data):
    runs, resources, samples = data
    leaking = samples.copy()
    client = (leaking["role"] == "sidecar-client") & (leaking["configuration"] == "mtls")
    per_s = 1000.0 + 10 * leaking["block"]
    leaking["working_set_bytes"] = leaking["working_set_bytes"].astype(float)
    leaking.loc[client, "working_set_bytes"] += (per_s * leaking["time_s"])[client]
    memory = analysis.memory_df(resources, leaking, runs, STUDY)
    row = one(memory, configuration="mtls", target_rps=100, role="sidecar-client")
    # Blocks 1 to 4: 1010, 1020, 1030, 1040 bytes per second.
    assert row["growth_bytes_per_s"] == pytest.approx(1025)
    interval = stats.ttest_1samp([1010, 1020, 1030, 1040], 0).confidence_interval(0.95)
    ends = (row["growth_low_bytes_per_s"], row["growth_high_bytes_per_s"])
    assert ends == pytest.approx((interval.low, interval.high))
    assert row["growing"] == "yes"
    assert one(memory, configuration="mtls", target_rps=100, role="sidecar-server")["growing"] == "unknown"


def test_memory_samples_add_the_containers_of_a_role(data):
    samples = data[2]
    assert tuple(samples.columns) == frames.MEMORY_COLUMNS
    run = samples.query("configuration == 'mtls' and target_rps == 100 and block == 1")
    # Five seconds of load, a sample each second, both ends included.
    assert sorted(run.query("role == 'service'")["time_s"]) == pytest.approx([0, 1, 2, 3, 4, 5])
    assert set(run.query("role == 'node'")["working_set_bytes"]) == {900 << 20}


def drifting(runs, change):
    """Return runs whose median is multiplied by what `change` makes of the hours since the first."""
    changed = runs.copy()
    started = pd.to_datetime(changed["started_utc"], utc=True, format="mixed")
    changed["p50_s"] *= change((started - started.min()).dt.total_seconds() / 3600, changed["block"])
    return changed


def test_a_trend_over_the_campaign_is_found(tmp_path):
    study = make_study(blocks=6, target_rps=[400])
    campaign = make_synthetic_campaign(tmp_path, study, sd_block=0.001, sd_deployment=0.001, sd_run=0.001)
    runs = frames.load_runs(campaign)
    rising = drifting(runs, lambda hours, _: np.exp(2.0 * hours))
    row = one(analysis.drifts_df(rising, study), quantile=0.5)
    assert row["trend_ratio"] == pytest.approx(np.exp(2.0 * row["hours"]), rel=0.02)
    assert row["trend_low"] > 1 and row["p_value"] < 0.001
    assert pd.isna(row["far_blocks"]) or row["far_blocks"] == ""
    jump = drifting(runs, lambda _, block: np.where(block == 3, 1.5, 1.0))
    row = one(analysis.drifts_df(jump, study), quantile=0.5)
    # All arms of block 3 are half as slow again: 1.5 against the mean of six, 1.5^(1 - 1/6).
    assert (row["far_blocks"], row["n_blocks"]) == ("3", 6)
    assert row["largest_block_ratio"] == pytest.approx(1.5 ** (5 / 6), rel=0.02)
