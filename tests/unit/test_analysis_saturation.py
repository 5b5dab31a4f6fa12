"""Knees and capacities of campaigns in which it is known where they are."""

import numpy as np
import pytest
from support import make_study, make_synthetic_campaign

from meshperf import analysis, frames
from meshperf.histogram import LOG_GRID

RATES = [100, 400, 600, 800]
STUDY = make_study(blocks=5, target_rps=RATES, load={"connections": 4, "duration_s": 20, "slice_s": 10})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    campaign = make_synthetic_campaign(tmp_path_factory.mktemp("five"), STUDY, sd_block=0.03)
    return frames.load_runs(campaign), frames.load_histograms(campaign)


def slower(histograms, factors):
    """Return histograms in which the latencies of each rate are longer by a factor, in whole bins of one per cent."""
    moved = histograms.copy()
    bins = np.round(np.log(moved["target_rps"].map(factors)) / np.log(1.01)).astype(int)
    edges = np.searchsorted(LOG_GRID, moved["bin_low_s"] * 1.001) - 1 + bins
    moved["bin_low_s"], moved["bin_high_s"] = LOG_GRID[edges], LOG_GRID[edges + 1]
    return moved


def marked(runs, verdict, rate, blocks, configuration="mtls"):
    chosen = (runs["configuration"] == configuration) & (runs["target_rps"] == rate)
    changed = runs.copy()
    changed.loc[chosen & changed["block"].isin(blocks), "verdict"] = verdict
    return changed


def row(runs, histograms, configuration="mtls", study=STUDY):
    knees = analysis.knees_df(runs, histograms, study)
    return knees[knees["configuration"] == configuration].iloc[0]


def test_an_arm_that_works_everywhere_has_its_knee_at_the_limit(data):
    for configuration in ("none", "mtls"):
        knee = row(*data, configuration)
        assert (knee["knee_rps"], knee["at_limit"]) == (800, "yes")
        assert (knee["levels"], knee["levels_ok"], knee["n_blocks"]) == (4, 4, 5)


def test_a_rate_that_is_missed_is_beyond_the_knee(data):
    runs, histograms = data
    knee = row(marked(runs, "saturated", 800, [1, 2, 3, 4, 5]), histograms)
    assert (knee["knee_rps"], knee["at_limit"], knee["levels_ok"]) == (600, "no", 3)
    assert (knee["knee_low_rps"], knee["knee_high_rps"]) == (600, 600)
    # One block of five may miss it, as everywhere.
    assert row(marked(runs, "saturated", 800, [3]), histograms)["knee_rps"] == 800
    # Two may not; but resamples with fewer of the two would not have noticed.
    knee = row(marked(runs, "saturated", 800, [2, 3]), histograms)
    assert (knee["knee_rps"], knee["knee_low_rps"], knee["knee_high_rps"]) == (600, 600, 800)
    # Other arms are not touched by it.
    assert row(marked(runs, "saturated", 800, [2, 3]), histograms, "basic")["knee_rps"] == 800


def test_a_rate_at_which_p99_has_doubled_is_beyond_the_knee(data):
    runs, histograms = data
    twice = slower(histograms, {100: 1, 400: 1, 600: 1.5, 800: 2.5})
    assert row(runs, twice)["knee_rps"] == 600
    patient = make_study(
        blocks=5, target_rps=RATES, load=STUDY.load.model_dump(), analysis={"knee_ratio": 3.0}
    )
    assert row(runs, twice, study=patient)["knee_rps"] == 800


def test_the_capacity_of_a_queue_is_found(data):
    runs, histograms = data
    queue = slower(histograms, {rate: 1 / (1 - rate / 1000) for rate in RATES})
    fit = row(runs, queue, "none")
    assert fit["capacity_rps"] == pytest.approx(1000, rel=0.01)
    assert fit["capacity_low_rps"] < 1000 < fit["capacity_high_rps"]
    assert fit["base_s"] == pytest.approx(0.0008, rel=0.1)


def test_a_curve_is_used_only_where_its_conditions_hold(data):
    runs, histograms = data
    # Latency that does not rise has no capacity.
    flat = row(runs, histograms)
    assert flat["fit_usable"] == "no"
    three = row(marked(runs, "saturated", 800, [1, 2, 3, 4, 5]), histograms)
    assert (three["fit_usable"], three["fit_reason"]) == ("no", "3 levels met their rate, 4 are needed")


def test_a_block_without_all_rates_does_not_count(data):
    runs, histograms = data
    assert row(marked(runs, "failed", 400, [2]), histograms)["n_blocks"] == 4
    nothing = row(marked(runs, "failed", 400, [1, 2, 3, 4, 5]), histograms)
    assert np.isnan(nothing["knee_rps"])
    assert (nothing["n_blocks"], nothing["warnings"]) == (0, "TooFewBlocks")


def test_a_tail_that_is_not_estimable_has_no_knee(tmp_path):
    # 3 x 200 requests at the lowest rate, 6 beyond p99.
    study = make_study(target_rps=[40, 400])
    campaign = make_synthetic_campaign(tmp_path, study)
    knee = row(frames.load_runs(campaign), frames.load_histograms(campaign), study=study)
    assert np.isnan(knee["knee_rps"])
    assert knee["reason"].startswith("p99 at 40 RPS: ")
    assert "NotEstimable" in knee["warnings"]
