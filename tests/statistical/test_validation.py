"""Do intervals cover and tests hold their level? Campaigns of known truth, seeded.

The checks and their limits are those of ``meshperf.statistics.validation``, which the long version
(``make validate-statistics``) runs with thousands of campaigns; N is small here, so 2.6 standard errors are allowed.
Naive methods are checked to fail: if they looked good, the simulator would be broken.
"""

import numpy as np
import pytest

from meshperf.statistics import validation
from meshperf.statistics.simulate import Simulator, simulate_requests

N, SEED = 400, 1


def keep(figures):
    """Assert that every figure keeps its limits, and return them by method and quantile."""
    figures = list(figures)
    assert [figure for figure in figures if not figure.passed] == []
    assert any(figure.gated for figure in figures)
    return {(figure.method, figure.quantile): figure.value for figure in figures}


@pytest.mark.parametrize("blocks", [3, 5, 6])
@pytest.mark.parametrize("letter", ["A", "B", "C", "D", "E"])
def test_intervals_of_ratios_cover(letter, blocks):
    found = keep(validation.coverage(letter, blocks, N, SEED, requests=0))
    # The reason for t and √(r/(r − 1)): without them five blocks cover some 80 %.
    assert found["blocks, SE with divisor r x 1.96", 0.5] < 0.92


def test_resampling_requests_covers_next_to_nothing():
    found = keep(validation.coverage("B", 5, 60, SEED, requests=60))
    assert found["requests of one run resampled", 0.5] < 0.3
    assert found["pooled requests resampled", 0.99] < 0.75


@pytest.mark.parametrize("blocks", [5, 10])
def test_intervals_far_out_in_the_tail_cover_where_they_are_printed(blocks):
    assert len(keep(validation.tail_coverage(blocks, N, SEED))) == 4


@pytest.mark.parametrize("blocks", [3, 6])
def test_intervals_of_single_cells_cover(blocks):
    keep(validation.cell_coverage(blocks, N, SEED))


def test_intervals_of_d_cover_with_and_without_a_difference():
    keep(validation.distance_coverage(5, N, SEED))


@pytest.mark.parametrize("blocks", [5, 10])
def test_predictions_hold_and_two_modes_are_flagged(blocks):
    keep(validation.other_intervals(blocks, N, SEED))


@pytest.mark.parametrize("blocks", [8, 10])
def test_simultaneous_bands_cover_jointly(blocks):
    keep(validation.bands(blocks, N, SEED))


@pytest.mark.parametrize("blocks", [5, 6])
def test_equal_arms_are_called_different_at_the_level(blocks):
    keep(validation.level(blocks, N, SEED))


@pytest.mark.parametrize(
    ("scenario", "seeing", "blind"),
    [
        (validation.SHIFT, "permutation D", None),
        (validation.TAIL, "permutation D and T", "permutation D"),
    ],
    ids=["shift", "tail"],
)
def test_power_against_a_shift_and_against_the_tail_alone(scenario, seeing, blind):
    # Ten blocks and 80 or 90 % are for the long version; eight are a tenth of the work.
    found = {figure.method: figure.value for figure in validation.power(scenario, 8, 100, SEED)}
    assert found[seeing] >= 0.7
    assert blind is None or found[blind] <= 0.25


def test_families_of_tests_keep_their_error_and_equivalence_its_size():
    found = keep(validation.families(N, SEED))
    uncorrected = {method: value for (method, _), value in found.items()}["12 tests without correction"]
    assert uncorrected > 0.15


@pytest.mark.parametrize("blocks", [6, 10])
def test_the_gate_of_a_campaign_holds_its_level(blocks):
    keep(validation.gate(blocks, N, SEED))


def test_injected_ratios_and_milliseconds_are_recovered():
    keep(validation.recovery(N, SEED))


def test_the_planner_predicts_power():
    keep(validation.planner(SEED))


@pytest.mark.parametrize("blocks", [3, 10])
def test_slopes_of_deployments_cover_where_regressions_do_not(blocks):
    found = {method: value for (method, _), value in keep(validation.slopes(blocks, N, SEED)).items()}
    assert found["regression on samples"] < 0.6


def test_a_figure_beyond_its_limits_does_not_pass():
    few = validation.Figure("coverage", "B", 5, "m", 0.5, 0.90, 400, 0.93, 0.97)
    # 2.6 standard errors of 0.93 in 400 campaigns: 0.0332.
    assert few.passed
    assert not validation.Figure("coverage", "B", 5, "m", 0.5, 0.896, 400, 0.93, 0.97).passed
    assert not validation.Figure("coverage", "B", 5, "m", 0.5, 0.929, 4000, 0.93, 0.97).passed
    assert not validation.Figure("bias", "B", 5, "m", 0.5, -0.011, 10, -0.01, 0.01).passed
    assert validation.Figure("coverage", "F", 5, "m", 0.5, 0.1, 400).passed
    assert not validation.Figure("coverage", "F", 5, "m", 0.5, 0.1, 400).gated
    assert few.standard_error == pytest.approx(0.015)


def test_the_simulated_requests_are_what_the_scenarios_say():
    rng = np.random.default_rng(7)
    runs = [simulate_requests(rng, 30_000) for _ in range(60)]
    logs = np.log([[np.quantile(run, q) for q in validation.QUANTILES] for run in runs])
    assert np.exp(logs[:, 0].mean()) == pytest.approx(0.002, rel=0.02)
    # Within-run spread of log p50, p90, p99: about 3, 3 and 6 to 7 %.
    assert logs.std(axis=0) == pytest.approx([0.028, 0.030, 0.068], rel=0.35)
    assert simulate_requests(rng, 1000, hop=True).min() > 0.0005


def test_the_same_seed_gives_the_same_campaign():
    one, two = (next(validation.draw(validation.AA, 3, 1, SEED)) for _ in range(2))
    assert np.array_equal(one.arms, two.arms)
    assert np.array_equal(one.baselines, two.baselines)
    other = next(validation.draw(validation.AA, 3, 1, SEED + 1))
    assert not np.array_equal(one.arms, other.arms)


def test_a_factor_is_exact_in_the_simulator():
    assert Simulator(validation.SHIFT).typical_truth(0.99) == 1.10
