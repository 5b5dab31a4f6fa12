"""Gates of a run that others measured: those of our own as far as the file tells, and whether it contradicts itself."""

from __future__ import annotations

import math
from typing import Any

from meshperf import quality
from meshperf.loadgen.result import LoadResult
from meshperf.quality import FAIL, NOT_AVAILABLE, PASS, WARN, AskedLoad, Gate, Quality


def judge(
    result: LoadResult,
    target_rps: int,
    *,
    quantiles: tuple[float, ...],
    rate_tiers: tuple[float, float],
    max_error_ratio: float,
) -> Quality:
    """Judge an imported run before anybody looks at its latencies.

    Parameters
    ----------
    result : LoadResult
    target_rps : int
        0 where there was none or none is known.
    quantiles, rate_tiers, max_error_ratio
        As in :func:`meshperf.quality.assess`.

    Returns
    -------
    Quality
        "failed" when the file contradicts itself, the run was broken off or errors are too many; else "saturated"
        (the rate was missed, or there was no limit, where latency says no more than throughput), "degraded" (the
        rate is between the tiers, or it is not known whether it was met) or "ok".
    """
    failing = [
        _consistency(result),
        _duration(result),
        quality.error_gate(result, max_error_ratio),
        Gate("proof", NOT_AVAILABLE, "imported: what the mesh did was not proven"),
    ]
    rate = [_achieved(result, target_rps, rate_tiers), _count(result, target_rps, rate_tiers)]
    advisory = [_schedule(result), quality.resolution_gate(result, quantiles), _omission(result)]
    if result.connections is not None:
        advisory.append(quality.socket_gate(AskedLoad(target_rps, result.connections, 0.0, 0.0), result))
    verdict = "ok"
    if any(gate.status == FAIL for gate in failing):
        verdict = "failed"
    elif any(gate.status == FAIL for gate in rate):
        verdict = "saturated"
    elif rate[0].status in (WARN, NOT_AVAILABLE) or rate[1].status == WARN:
        verdict = "degraded"
    decisive = [gate for gate in failing if gate.status == FAIL]
    decisive += [gate for gate in rate if gate.status in (FAIL, WARN)]
    decisive += [gate for gate in rate[:1] if gate.status == NOT_AVAILABLE]
    return Quality(verdict, tuple(failing + rate + advisory), tuple(gate.detail for gate in decisive))


def omission(result: LoadResult, target_rps: int) -> dict[str, Any]:
    """Return what the run could have hidden, in the form of ``run.json``; what the file does not tell is None.

    The share of the schedule that was never sent is known only without catching up, which sends late what it
    could not send in time.
    """
    planned = _planned(result, target_rps)
    known = planned is not None and result.catch_up is False
    hidden = max(planned - result.n, 0) if known and planned is not None else None
    covered = result.connections / target_rps if result.connections is not None and target_rps else None
    return {
        "missing_fraction": hidden / planned if hidden is not None and planned else None,
        "connections": result.connections,
        "longest_stall_s": result.max_s if math.isfinite(result.max_s) else None,
        "stall_covered_s": covered,
        "hidden_requests": hidden,
    }


def _planned(result: LoadResult, target_rps: int) -> int | None:
    """Return how many requests the schedule had, or None where the file does not tell."""
    duration_s = result.duration_requested_s
    if not target_rps or not duration_s > 0:
        return None
    if result.generator == "fortio" and result.connections:
        return quality.planned_requests(target_rps, duration_s, result.connections)
    return round(target_rps * duration_s)


def _consistency(result: LoadResult) -> Gate:
    if result.contradictions:
        return Gate("consistency", FAIL, f"the file contradicts itself: {'; '.join(result.contradictions)}")
    return Gate("consistency", PASS, "the numbers of the file agree with each other")


def _duration(result: LoadResult) -> Gate:
    asked, ran = result.duration_requested_s, result.duration_s
    if any("not finished" in note for note in result.notes):
        return Gate("duration_echo", FAIL, f"the run was broken off after {ran:.3f} s", ran)
    if not asked > 0:
        return Gate(
            "duration_echo", NOT_AVAILABLE, f"it ran {ran:.3f} s; what was asked for is not known", ran
        )
    status = PASS if ran >= 0.98 * asked else FAIL
    return Gate("duration_echo", status, f"asked {asked:g} s, ran {ran:.3f} s", ran, asked)


def _achieved(result: LoadResult, target_rps: int, tiers: tuple[float, float]) -> Gate:
    name, achieved = "achieved_rate", result.achieved_rps
    if not target_rps and result.rate_limited is False:
        return Gate(
            name, FAIL, f"there was no rate limit: {achieved:.1f} RPS is what the connections allowed"
        )
    if not target_rps:
        return Gate(name, NOT_AVAILABLE, f"achieved {achieved:.1f} RPS; the target rate is not known")
    if result.uniform and result.connections and result.duration_requested_s > 0:
        asked = AskedLoad(target_rps, result.connections, result.duration_requested_s, 0.0)
        return quality.rate_gate(asked, result, tiers)
    ratio = achieved / target_rps
    detail = f"achieved {achieved:.1f} of {target_rps} RPS ({100 * ratio:.1f} %)"
    return Gate(name, quality.tier(ratio, tiers), detail, ratio, tiers[1])


def _count(result: LoadResult, target_rps: int, tiers: tuple[float, float]) -> Gate:
    planned = _planned(result, target_rps)
    if not planned:
        return Gate(
            "count", NOT_AVAILABLE, f"counted {result.n} requests; how many were planned is not known"
        )
    ratio = result.n / planned
    detail = f"counted {result.n} of {planned} planned requests ({100 * ratio:.1f} %)"
    return Gate("count", quality.tier(ratio, tiers), detail, ratio, tiers[1])


def _schedule(result: LoadResult) -> Gate:
    if result.uniform is None or result.catch_up is None:
        return Gate("schedule_echo", NOT_AVAILABLE, "how requests were scheduled is not known")
    good = result.uniform and not result.catch_up
    detail = f"uniform {result.uniform}, catching up {result.catch_up}"
    return Gate("schedule_echo", PASS if good else WARN, detail)


def _omission(result: LoadResult) -> Gate:
    if result.catch_up is False:
        return Gate(
            "omission", PASS, "requests were not sent late: those missing from the count bound the rest"
        )
    return Gate("omission", NOT_AVAILABLE, "how many requests were sent late is not known")
