"""What holds for every comparison. Scaling all counts changes nothing: no method may count requests as replicates."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from meshperf.statistics.baselines import aa_gate
from meshperf.statistics.bootstrap import mean_interval, merged_quantile_interval
from meshperf.statistics.checks import prediction_interval, robust_interval
from meshperf.statistics.effect import (
    difference_interval,
    log_ratio_interval,
    log_ratios,
    merged_ratio_interval,
    paired_t_p,
    resolution_bracket,
)
from meshperf.statistics.estimability import co_corrected, estimability, omission_bounds
from meshperf.statistics.ks import ad_distance, dominance, ks_distance, ks_interval, wasserstein_log
from meshperf.statistics.multiplicity import benjamini_hochberg, holm
from meshperf.statistics.permutation import block_permutation_body_tail, p_min
from meshperf.statistics.quantiles import best_log_quantile, run_cdfs

EDGES = np.geomspace(1e-4, 1.0, 31)
QUANTILES = st.sampled_from([0.1, 0.5, 0.9, 0.99])
PAIRS = st.integers(3, 6).flatmap(
    lambda r: st.tuples(*[npst.arrays(np.int64, (r, 30), elements=st.integers(1, 200))] * 2)
)
BLOCK_VALUES = npst.arrays(float, st.integers(3, 12), elements=st.floats(-2, 2).map(lambda x: round(x, 6)))


def ends(interval):
    return np.array([interval.estimate, interval.low, interval.high])


def everything(arm, baseline, q):
    c1, c0 = run_cdfs(arm), run_cdfs(baseline)
    return np.concatenate(
        [
            ends(log_ratio_interval(log_ratios(c1, c0, EDGES, q))),
            ends(merged_ratio_interval(c1, c0, EDGES, q)),
            ends(merged_quantile_interval(c1, EDGES, q)),
        ]
    )


def close(a, b):
    assert np.allclose(a, b, rtol=1e-6, equal_nan=True)


@settings(deadline=None, max_examples=40)
@given(PAIRS, QUANTILES, st.integers(2, 100_000))
def test_scaling_all_counts_leaves_intervals_unchanged(pair, q, k):
    arm, baseline = pair
    close(everything(arm * k, baseline * k, q), everything(arm, baseline, q))


@settings(deadline=None, max_examples=40)
@given(PAIRS, QUANTILES, st.randoms(use_true_random=False))
def test_permuting_blocks_changes_nothing(pair, q, random):
    arm, baseline = pair
    order = list(range(len(arm)))
    random.shuffle(order)
    close(everything(arm[order], baseline[order], q), everything(arm, baseline, q))


@settings(deadline=None, max_examples=40)
@given(PAIRS, QUANTILES)
def test_swapping_the_arms_inverts_ratios_and_their_intervals(pair, q):
    c1, c0 = (run_cdfs(counts) for counts in pair)
    for make in (
        lambda a, b: log_ratio_interval(log_ratios(a, b, EDGES, q)),
        lambda a, b: merged_ratio_interval(a, b, EDGES, q),
    ):
        forth, back = make(c1, c0), make(c0, c1)
        close(
            [forth.estimate * back.estimate, forth.low * back.high], [1, 1 if forth.has_interval else np.nan]
        )
    low, high = resolution_bracket(c1, c0, EDGES, q)
    swapped = resolution_bracket(c0, c1, EDGES, q)
    close([low * swapped[1], high * swapped[0]], [1, 1])


@settings(deadline=None)
@given(BLOCK_VALUES, st.floats(0.5, 0.999))
def test_intervals_contain_their_estimate_and_grow_with_confidence(values, confidence):
    interval, wider = mean_interval(values, confidence=confidence), mean_interval(values, confidence=0.9995)
    if not interval.has_interval:
        assert values.std() <= 1e-11
        return
    assert wider.low <= interval.low <= interval.estimate <= interval.high <= wider.high
    p = paired_t_p(values)
    assert 0 < p <= 1
    # The test rejects exactly when the interval leaves 0 out.
    level = mean_interval(values, confidence=0.95)
    if abs(p - 0.05) > 1e-9:
        assert (p < 0.05) == (level.low > 0 or level.high < 0)


@given(BLOCK_VALUES, st.floats(-3, 3))
def test_a_common_shift_of_both_arms_cancels(values, shift):
    zero = np.zeros_like(values)
    close(ends(difference_interval(values + shift, zero + shift))[0], values.mean())


@settings(deadline=None)
@given(PAIRS, QUANTILES, st.floats(0, 0.5), st.floats(0, 0.5))
def test_omission_bounds_contain_the_quantile_and_grow_with_what_is_missing(pair, q, m1, m2):
    cdf = run_cdfs(pair[0])[0]
    less, more = sorted((m1, m2))
    low, high = omission_bounds(cdf, EDGES, q, less)
    wider_low, wider_high = omission_bounds(cdf, EDGES, q, more)
    value = float(np.exp(best_log_quantile(cdf, EDGES, q)))
    slack = 1 + 1e-9
    assert low <= value * slack
    assert high >= value / slack
    assert wider_low <= low * slack
    assert wider_high >= high / slack


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=12), st.floats(0.01, 0.999))
def test_more_requests_never_make_a_quantile_less_estimable(exceeding, q):
    order = {"n.e.": 0, "dagger": 1, "ok": 2}
    n = sum(exceeding) / (1 - q)
    few = estimability(exceeding, n, q, design_effect=5.0)
    many = estimability(exceeding, 10 * n, q, design_effect=5.0)
    assert order[many.label] >= order[few.label]
    assert (few.reason == "") == (few.label == "ok")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_corrections_keep_the_order_and_never_help(p_values):
    p = np.array(p_values)
    h, b = holm(p), benjamini_hochberg(p)
    order = np.argsort(p, kind="stable")
    for adjusted in (h, b):
        assert (np.diff(adjusted[order]) >= -1e-15).all()
        assert ((adjusted >= p - 1e-12) & (adjusted <= 1)).all()
    assert (b <= h + 1e-12).all()


@given(st.integers(1, 40), st.sampled_from([1, 2]))
def test_the_smallest_p_value_is_above_zero_and_falls_with_blocks(r, baselines):
    assert 0 < p_min(r + 1, baselines_per_block=baselines) < p_min(r, baselines_per_block=baselines) <= 1


DESIGNS = st.integers(2, 4).flatmap(
    lambda r: st.tuples(
        npst.arrays(np.int64, (r, 30), elements=st.integers(1, 200)),
        npst.arrays(np.int64, (r, 2, 30), elements=st.integers(1, 200)),
    )
)


def baseline_cdfs(counts):
    return np.stack([run_cdfs(block) for block in counts])


@settings(deadline=None, max_examples=40)
@given(PAIRS, st.integers(2, 100_000))
def test_scaling_all_counts_leaves_distances_and_their_intervals_unchanged(pair, k):
    def distances(arm, baseline):
        c1, c0 = run_cdfs(arm), run_cdfs(baseline)
        found = ks_distance(c1, c0, EDGES)
        relation = dominance(c1, c0, EDGES)
        return np.concatenate(
            [
                ends(ks_interval(c1, c0)),
                [found.d, found.d_plus, found.d_minus, wasserstein_log(c1, c0, EDGES), ad_distance(c1, c0)],
                [relation.d_plus_low, relation.d_plus_high, relation.d_minus_low, relation.d_minus_high],
            ]
        )

    arm, baseline = pair
    close(distances(arm * k, baseline * k), distances(arm, baseline))


@settings(deadline=None, max_examples=40)
@given(PAIRS, st.floats(0.1, 5))
def test_d_is_a_share_symmetric_and_blind_to_the_scale_of_latency(pair, power):
    c1, c0 = (run_cdfs(counts) for counts in pair)
    forth, back = ks_distance(c1, c0, EDGES), ks_distance(c0, c1, EDGES)
    assert 0 <= forth.d <= 1
    assert (forth.d, forth.d_plus, forth.d_minus) == (back.d, back.d_minus, back.d_plus)
    assert forth.d == max(forth.d_plus, forth.d_minus)
    assert ks_distance(c1, c0, EDGES**power).d == forth.d
    assert wasserstein_log(c1, c0, EDGES) == wasserstein_log(c0, c1, EDGES)
    assert np.isclose(wasserstein_log(c1, c0, EDGES**power), power * wasserstein_log(c1, c0, EDGES))


@settings(deadline=None, max_examples=30)
@given(DESIGNS, st.randoms(use_true_random=False))
def test_permutation_p_values_know_only_the_statistic(design, random):
    arm, baselines = run_cdfs(design[0]), baseline_cdfs(design[1])
    members = np.concatenate([arm[:, None], baselines], axis=1)
    found = []
    for _ in range(6):
        # Any run of a block may be called the arm: the set of relabellings is the same.
        order = [random.sample(range(3), 3) for _ in members]
        mixed = np.stack([block[o] for block, o in zip(members, order, strict=True)])
        test = block_permutation_body_tail(mixed[:, 0], mixed[:, 1:]).body
        assert test.p_min - 1e-12 <= test.p_value <= 1
        found.append((round(test.statistic, 9), test.p_value))
    for one, p_one in found:
        for other, p_other in found:
            assert one < other or p_one <= p_other + 1e-12


@settings(deadline=None, max_examples=40)
@given(npst.arrays(float, st.tuples(st.integers(3, 7), st.integers(1, 5)), elements=st.floats(-1, 1)))
def test_the_gate_does_not_know_order_sign_or_unit(d):
    gate = aa_gate(d)
    for same in (d[::-1], -d, 3.0 * d, d[:, ::-1]):
        other = aa_gate(same)
        assert other.tests == gate.tests
        close([other.p_value, other.statistic], [gate.p_value, gate.statistic])
    if gate.tests:
        assert gate.p_min <= gate.p_value <= 1
        assert 0 <= gate.statistic <= 1
        assert gate.share_low <= gate.share <= gate.share_high


@settings(deadline=None)
@given(BLOCK_VALUES, st.integers(1, 8))
def test_predictions_are_wider_than_intervals_and_narrow_with_more_new_blocks(values, n_new):
    interval, prediction = log_ratio_interval(values), prediction_interval(values, n_new=n_new)
    assert prediction.has_interval == interval.has_interval
    if interval.has_interval:
        assert prediction.low <= interval.low
        assert interval.high <= prediction.high
        more = prediction_interval(values, n_new=n_new + 1)
        assert prediction.low <= more.low
        robust = robust_interval(values)
        assert robust.low <= robust.estimate <= robust.high


@given(npst.arrays(np.int64, 30, elements=st.integers(0, 200)), st.floats(1e-4, 1))
def test_the_correction_for_omission_only_adds(counts, interval_s):
    corrected = co_corrected(counts, EDGES, interval_s)
    assert (corrected >= counts).all()
    assert np.isclose(co_corrected(3 * counts, EDGES, interval_s), 3 * corrected).all()
