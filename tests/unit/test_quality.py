"""Gates: every one fails when its cause is put in, and only then; omission against numbers by hand."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meshperf.histogram import rebin_latencies
from meshperf.loadgen.fortio import read_result
from meshperf.quality import AskedLoad, assess, omission, omission_quantile_bounds

GOLDEN = Path(__file__).parents[1] / "golden" / "fortio"
ASKED = AskedLoad(target_rps=400, connections=8, duration_s=2, resolution_s=5e-5)
CONTAINERS = [
    {"role": "service", "container": "echo", "cores": 0.2, "throttled_periods": 0, "periods": 20},
    {
        "role": "load-generator",
        "container": "fortio",
        "cores": 0.3,
        "throttled_periods": None,
        "periods": None,
    },
    {"role": "node", "container": "node", "cores": 1.0, "throttled_periods": None, "periods": None},
]


@pytest.fixture
def result():
    return read_result(GOLDEN / "plain.json")


def judge(result, asked=ASKED, **options):
    defaults = {
        "quantiles": (0.5, 0.9, 0.99),
        "containers": CONTAINERS,
        "client_limit_cores": None,
        "node_cores": 2.0,
        "proof_passed": True,
        "restarts": 0,
    }
    return assess(asked, result, **{**defaults, **options})


def status(quality):
    return {gate.name: gate.status for gate in quality.gates}


def test_a_sound_run_is_ok_and_its_record_is_json(result):
    quality = judge(result)
    assert quality.verdict == "ok"
    assert quality.reasons == ()
    gates = status(quality)
    # Latencies of 0.1 ms on a grid of 0.05 ms: the only thing to remark.
    assert {name for name, value in gates.items() if value != "pass"} == {"resolution"}
    record = json.loads(json.dumps(quality.to_dict(), allow_nan=False))
    assert set(record) == {"verdict", "gates", "reasons"}
    assert set(record["gates"][0]) == {"name", "status", "detail", "value", "limit"}


@pytest.mark.parametrize(
    ("change", "gate", "words"),
    [
        ({"target_rps_requested": 8.0}, "rate_echo", "asked 400 RPS, fortio echoed 8"),
        ({"target_rps_requested": None}, "rate_echo", "no limit"),
        ({"connections": 4}, "thread_echo", "asked 8 connections, fortio used 4"),
        ({"duration_requested_s": 5.0}, "duration_echo", "asked 2 s, fortio echoed 5"),
        ({"duration_s": 1.5}, "duration_echo", "ran 1.500 s"),
        ({"catch_up": True}, "schedule_echo", "catching up True"),
        ({"uniform": False}, "schedule_echo", "uniform False"),
        ({"return_codes": {"200": 798, "503": 2}, "n_errors": 2}, "return_codes", "2 × 503"),
        ({"return_codes": {"200": 798, "-1": 2}, "n_errors": 0}, "return_codes", "2 × -1"),
    ],
)
def test_a_run_that_is_not_the_one_asked_for_failed(result, change, gate, words):
    quality = judge(replace(result, **change))
    assert status(quality)[gate] == "fail"
    assert quality.verdict == "failed"
    assert any(words in reason for reason in quality.reasons)


def test_one_error_in_a_thousand_is_within_the_limit(result):
    codes = {"return_codes": {"200": 999, "503": 1}, "n": 1000, "n_errors": 1}
    asked = replace(ASKED, target_rps=500)
    quality = judge(replace(result, **codes, target_rps_requested=500.0, achieved_rps=495.6), asked=asked)
    assert status(quality)["return_codes"] == "pass"
    assert quality.verdict == "ok"


@pytest.mark.parametrize(
    ("option", "gate"), [({"proof_passed": False}, "proof"), ({"restarts": 1}, "restarts")]
)
def test_an_unproven_state_and_a_restart_fail_the_run(result, option, gate):
    quality = judge(result, **option)
    assert (quality.verdict, status(quality)[gate]) == ("failed", "fail")


@pytest.mark.parametrize(
    ("n", "verdict"), [(800, "ok"), (792, "ok"), (791, "degraded"), (760, "degraded"), (759, "saturated")]
)
def test_the_rate_has_two_tiers(result, n, verdict):
    # 800 requests are planned; the tiers are 0.99 and 0.95.
    missed = replace(result, n=n, achieved_rps=n / result.duration_s, return_codes={"200": n})
    quality = judge(missed)
    assert quality.verdict == verdict
    assert bool(quality.reasons) == (verdict != "ok")


def test_a_rate_that_contradicts_the_count_is_seen_too(result):
    assert judge(replace(result, achieved_rps=0.9 * 400)).verdict == "saturated"


def test_the_staggered_start_and_the_last_answer_are_not_missing_rate(result):
    # 96 requests at 100 RPS in 1 s on 16 connections: the last one starts 0.15 s late, and one answer took
    # 0.5 s.
    asked = AskedLoad(100, 16, 1, 5e-5)
    slow = replace(
        result,
        target_rps_requested=100.0,
        connections=16,
        sockets=16,
        duration_requested_s=1.0,
        duration_s=1.65,
        n=96,
        achieved_rps=96 / 1.65,
        max_s=0.5,
        return_codes={"200": 96},
    )
    gate = next(g for g in judge(slow, asked=asked).gates if g.name == "achieved_rate")
    assert gate.value == pytest.approx(0.96)
    assert next(g for g in judge(slow, asked=asked).gates if g.name == "count").value == 1.0


def test_more_requests_than_planned_are_not_the_run_that_was_asked_for(result):
    assert judge(replace(result, n=820, return_codes={"200": 820})).verdict == "failed"


def test_throttling_degrades(result):
    throttled = [{**CONTAINERS[0], "throttled_periods": 1}, *CONTAINERS[1:]]
    quality = judge(result, containers=throttled)
    assert (quality.verdict, status(quality)["throttling"]) == ("degraded", "fail")
    assert "service (echo) was throttled in 5.0 % of its CPU periods" in quality.reasons


@pytest.mark.parametrize(
    ("cores", "limit", "verdict"), [(0.39, 0.5, "ok"), (0.4, 0.5, "degraded"), (1.5, None, "ok")]
)
def test_a_busy_load_generator_degrades(result, cores, limit, verdict):
    busy = [CONTAINERS[0], {**CONTAINERS[1], "cores": cores}]
    quality = judge(result, containers=busy, client_limit_cores=limit)
    assert quality.verdict == verdict


def test_a_full_node_and_reconnects_are_remarked_without_changing_the_verdict(result):
    full = [*CONTAINERS[:2], {**CONTAINERS[2], "cores": 1.9}]
    quality = judge(replace(result, sockets=11), containers=full)
    assert quality.verdict == "ok"
    assert (status(quality)["node_cpu"], status(quality)["sockets"]) == ("warn", "warn")


def test_counters_that_do_not_exist_are_not_available(result):
    blind = replace(result, sockets=None, uniform=None, catch_up=None)
    quality = judge(blind, containers=(), node_cores=None, proof_passed=None, restarts=None)
    missing = {name for name, value in status(quality).items() if value == "not-available"}
    assert missing == {
        "schedule_echo", "proof", "restarts", "throttling", "client_cpu", "node_cpu", "sockets",
    }  # fmt: skip
    assert quality.verdict == "ok"


def test_a_run_without_a_request_failed(result):
    empty = replace(
        result, n=0, return_codes={}, achieved_rps=0.0, max_s=float("nan"), histogram=rebin_latencies([])
    )
    quality = judge(empty)
    assert quality.verdict == "failed"
    assert "no request was completed" in quality.reasons
    assert omission(ASKED, empty).missing_fraction == 1


def test_fine_bins_pass_the_resolution_gate(result):
    fine = replace(result, histogram=rebin_latencies(np.linspace(0.001, 0.002, 500)))
    gate = next(g for g in judge(fine).gates if g.name == "resolution")
    assert (gate.status, gate.value) == ("pass", pytest.approx(0.01, abs=0.001))


def test_omission_counts_what_was_never_sent():
    # Recorded against a server that stalls 300 ms in 2 % of the requests, 2 connections at 200 RPS for 2 s.
    stalled = read_result(GOLDEN / "stalled.json")
    asked = AskedLoad(200, 2, 2, 5e-5)
    bound = omission(asked, stalled)
    assert bound.hidden_requests == 400 - stalled.n == 59
    assert bound.missing_fraction == pytest.approx(59 / 400)
    assert bound.longest_stall_s == stalled.max_s > 0.3
    assert bound.stall_covered_s == pytest.approx(0.01)
    quality = judge(stalled, asked=asked)
    assert quality.verdict == "saturated"
    assert status(quality)["omission"] == "warn"


def test_omission_bounds_of_quantiles(result):
    latencies = np.arange(1, 1001) / 1000
    run = replace(result, histogram=rebin_latencies(latencies))
    # m = 0.1: (0.5 - 0.1)/0.9 = 0.444 and 0.5/0.9 = 0.556 of 1 ... 1000 ms.
    low, high = omission_quantile_bounds(run, 0.5, 0.1)
    assert low == pytest.approx(0.4444, rel=0.005)
    assert high == pytest.approx(0.5556, rel=0.005)
    assert omission_quantile_bounds(run, 0.9, 0.1)[1] == np.inf
    assert omission_quantile_bounds(run, 0.05, 0.1)[0] == 0
    same = omission_quantile_bounds(run, 0.5, 0.0)
    assert same[0] == same[1] == pytest.approx(0.5, rel=0.005)
    assert np.isnan(omission_quantile_bounds(replace(result, histogram=rebin_latencies([])), 0.5, 0.0)).all()
