"""Validity gates of a run, decided before anybody looks at its latencies, and what it could have hidden.

Pure functions of what was asked, what the load generator wrote, and what was counted around it. A gate
without its counter is "not-available", which never counts as passed or failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from meshperf.loadgen.fortio import planned_requests
from meshperf.loadgen.result import LoadResult
from meshperf.statistics.estimability import omission_bounds

PASS, WARN, FAIL, NOT_AVAILABLE = "pass", "warn", "fail", "not-available"
#: A container throttled in more than this share of its CPU periods was not measured at its own speed.
MAX_THROTTLED_RATIO = 0.01
#: A load generator that used more than this share of its CPU may have been the bottleneck.
MAX_CLIENT_CPU_RATIO = 0.8
#: Beyond this share of the node's CPU everything on the node competes.
MAX_NODE_CPU_RATIO = 0.9
#: Relative width of a histogram bin beyond which its quantile is an interval more than a number.
MAX_BIN_WIDTH = 0.25


@dataclass(frozen=True)
class AskedLoad:
    """What the load generator was asked for.

    Attributes
    ----------
    target_rps : float
        Requests per second over all connections.
    connections : int
    duration_s, resolution_s : float
        Seconds; `resolution_s` is the width of the finest histogram bin.
    """

    target_rps: float
    connections: int
    duration_s: float
    resolution_s: float


@dataclass(frozen=True)
class Gate:
    """One check: its status, a sentence with the numbers in it, and value against limit if there are any."""

    name: str
    status: str
    detail: str
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Quality:
    """All gates of a run and the verdict they add up to.

    Attributes
    ----------
    verdict : {"ok", "degraded", "saturated", "failed"}
    gates : tuple of Gate
    reasons : tuple of str
        Why the verdict is not "ok", one sentence each.
    """

    verdict: str
    gates: tuple[Gate, ...]
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Form in which it is kept in ``run.json``."""
        gates = [asdict(gate) for gate in self.gates]
        return {"verdict": self.verdict, "gates": gates, "reasons": list(self.reasons)}


@dataclass(frozen=True)
class Omission:
    """What a run could have hidden because requests were never sent (coordinated omission).

    Attributes
    ----------
    missing_fraction : float
        Share of the schedule that was never sent.
    connections : int
    longest_stall_s : float
        Largest latency of any request, errors included, in seconds; NaN without requests.
    stall_covered_s : float
        Longest stall during which no connection misses a turn: connections / target RPS.
    hidden_requests : int
        Requests of the schedule that were never sent.
    """

    missing_fraction: float
    connections: int
    longest_stall_s: float
    stall_covered_s: float
    hidden_requests: int

    def to_dict(self) -> dict[str, Any]:
        """Form in which it is kept in ``run.json``."""
        return asdict(self)


def omission(asked: AskedLoad, result: LoadResult) -> Omission:
    """Bound what the run could have hidden.

    Notes
    -----
    Without catching up, a connection that waits for a slow answer skips the requests whose time has passed,
    and they are missing from the count; the share is therefore planned against counted requests and not the
    ratio of rates, which also contains the staggered start and the last answer.
    """
    planned = planned_requests(asked.target_rps, asked.duration_s, asked.connections)
    hidden = max(planned - result.n, 0)
    return Omission(
        missing_fraction=hidden / planned,
        connections=asked.connections,
        longest_stall_s=result.max_s,
        stall_covered_s=asked.connections / asked.target_rps,
        hidden_requests=hidden,
    )


def omission_quantile_bounds(result: LoadResult, q: float, missing_fraction: float) -> tuple[float, float]:
    """Worst-case limits in seconds of the q-quantile, whatever the unsent requests would have shown.

    Returns
    -------
    low_s, high_s : float
        High is infinite when the missing fraction is 1 − q or more; both are NaN without successful requests.
    """
    if result.histogram.n == 0:
        return float("nan"), float("nan")
    edges, shares = result.histogram.cdf()
    return omission_bounds(shares[1:], edges, q, missing_fraction)


def assess(
    asked: AskedLoad,
    result: LoadResult,
    *,
    quantiles: Sequence[float],
    containers: Iterable[Mapping[str, Any]] = (),
    client_limit_cores: float | None = None,
    node_cores: float | None = None,
    proof_passed: bool | None = None,
    restarts: int | None = None,
    rate_tiers: tuple[float, float] = (0.95, 0.99),
    max_error_ratio: float = 0.001,
) -> Quality:
    """Judge a run.

    Parameters
    ----------
    asked : AskedLoad
    result : LoadResult
        Of the same run.
    quantiles : sequence of float
        That the study reports; the histogram must resolve them.
    containers : iterable of mapping
        Summary of the run's window per container: ``role``, ``container``, ``cores``, ``throttled_periods``
        and ``periods`` (None where the node does not count them).
    client_limit_cores, node_cores : float, optional
        CPU limit of the load generator; cores of its node.
    proof_passed : bool, optional
        Whether the state of the mesh was proven around this run.
    restarts : int, optional
        Container restarts during the run.
    rate_tiers : tuple of float
        Below the first share of the target rate the run is saturated, below the second degraded.
    max_error_ratio : float

    Returns
    -------
    Quality
        "failed" when the run is not the one that was asked for, errors are too many or the mesh was not
        proven; else "saturated", "degraded" (rate between the tiers, throttling, busy load generator) or
        "ok". Warnings do not change the verdict.
    """
    rows = list(containers)
    failing = [
        _rate_echo(asked, result),
        _thread_echo(asked, result),
        _duration_echo(asked, result),
        _schedule_echo(result),
        error_gate(result, max_error_ratio),
        _proof(proof_passed),
        _restarts(restarts),
    ]
    rate = [rate_gate(asked, result, rate_tiers), _count(asked, result, rate_tiers)]
    degrading = [_throttling(rows), _client_cpu(rows, client_limit_cores, node_cores)]
    advisory = [
        socket_gate(asked, result),
        resolution_gate(result, quantiles),
        _omission(asked, result, quantiles),
        _node_cpu(rows, node_cores),
    ]
    count = rate[1]
    surplus = count.status == FAIL and count.value is not None and count.value > 1
    verdict = "ok"
    if surplus or any(gate.status == FAIL for gate in failing):
        verdict = "failed"
    elif any(gate.status == FAIL for gate in rate):
        verdict = "saturated"
    elif any(gate.status == WARN for gate in rate) or any(gate.status == FAIL for gate in degrading):
        verdict = "degraded"
    decisive = [gate for gate in failing + degrading if gate.status == FAIL]
    decisive += [gate for gate in rate if gate.status in (FAIL, WARN)]
    gates = tuple(failing + rate + degrading + advisory)
    return Quality(verdict, gates, tuple(gate.detail for gate in decisive))


def _rate_echo(asked: AskedLoad, result: LoadResult) -> Gate:
    echoed = result.target_rps_requested
    text = "no limit" if echoed is None else f"{echoed:g}"
    same = echoed is not None and abs(echoed - asked.target_rps) <= 1e-6 * asked.target_rps
    return Gate(
        "rate_echo", PASS if same else FAIL, f"asked {asked.target_rps:g} RPS, fortio echoed {text}", echoed
    )


def _thread_echo(asked: AskedLoad, result: LoadResult) -> Gate:
    same = result.connections == asked.connections
    detail = f"asked {asked.connections} connections, fortio used {result.connections}"
    return Gate("thread_echo", PASS if same else FAIL, detail, result.connections, asked.connections)


def _duration_echo(asked: AskedLoad, result: LoadResult) -> Gate:
    echoed = result.duration_requested_s
    detail = f"asked {asked.duration_s:g} s, fortio echoed {echoed:g} s and ran {result.duration_s:.3f} s"
    same = abs(echoed - asked.duration_s) <= 1e-6 * asked.duration_s
    # A run that was interrupted echoes the duration that was asked for, and is short.
    whole = result.duration_s >= 0.98 * asked.duration_s
    return Gate(
        "duration_echo", PASS if same and whole else FAIL, detail, result.duration_s, asked.duration_s
    )


def _schedule_echo(result: LoadResult) -> Gate:
    if result.uniform is None or result.catch_up is None:
        return Gate("schedule_echo", NOT_AVAILABLE, "this version of fortio does not echo its schedule")
    good = result.uniform and not result.catch_up
    detail = (
        f"uniform {result.uniform}, catching up {result.catch_up}; both bounds on omission need true, false"
    )
    return Gate("schedule_echo", PASS if good else FAIL, detail)


def error_gate(result: LoadResult, limit: float) -> Gate:
    """Judge the share of failed requests."""
    other = result.failures
    errors = max(result.n_errors, sum(other.values()))
    if result.n == 0:
        return Gate("return_codes", FAIL, "no request was completed", None, limit)
    ratio = errors / result.n
    codes = ", ".join(f"{count} × {code}" for code, count in sorted(other.items())) or "none"
    detail = (
        f"{errors} of {result.n} requests failed ({100 * ratio:.3g} %, at most {100 * limit:g} %): {codes}"
    )
    return Gate("return_codes", PASS if ratio <= limit else FAIL, detail, ratio, limit)


def _proof(passed: bool | None) -> Gate:
    if passed is None:
        return Gate("proof", NOT_AVAILABLE, "the state of the mesh was not proven around this run")
    word = "proven" if passed else "NOT proven"
    return Gate("proof", PASS if passed else FAIL, f"the state of the mesh was {word} around this run")


def _restarts(restarts: int | None) -> Gate:
    if restarts is None:
        return Gate("restarts", NOT_AVAILABLE, "container restarts were not counted")
    detail = f"{restarts} containers restarted during the run"
    return Gate("restarts", PASS if restarts == 0 else FAIL, detail, restarts, 0)


def tier(ratio: float, tiers: tuple[float, float]) -> str:
    """Return the status of a ratio: fail below the first tier, warn below the second."""
    return FAIL if ratio < tiers[0] else WARN if ratio < tiers[1] else PASS


def rate_gate(asked: AskedLoad, result: LoadResult, tiers: tuple[float, float]) -> Gate:
    """Compare rates, over the time in which the schedule wanted requests.

    Fortio divides by the time until the last answer. Of that, the staggered start of the connections
    (``-uniform``: (c − 1)/rate) and the last answer's own latency belong to no request's turn.
    """
    stagger = (asked.connections - 1) / asked.target_rps
    last_answer = 0.0 if np.isnan(result.max_s) else result.max_s
    window = max(asked.duration_s, result.duration_s - stagger - last_answer)
    achieved = result.achieved_rps * result.duration_s / window
    ratio = achieved / asked.target_rps
    detail = f"achieved {achieved:.1f} of {asked.target_rps:g} RPS ({100 * ratio:.1f} %)"
    return Gate("achieved_rate", tier(ratio, tiers), detail, ratio, tiers[1])


def _count(asked: AskedLoad, result: LoadResult, tiers: tuple[float, float]) -> Gate:
    planned = planned_requests(asked.target_rps, asked.duration_s, asked.connections)
    ratio = result.n / planned
    detail = f"counted {result.n} of {planned} planned requests ({100 * ratio:.1f} %)"
    status = FAIL if ratio > 2 - tiers[1] else tier(ratio, tiers)
    return Gate("count", status, detail, ratio, tiers[1])


def _throttling(containers: Sequence[Mapping[str, Any]]) -> Gate:
    watched = ("service", "sidecar-server", "sidecar-client", "node-proxy", "load-generator")
    ratios = {
        f"{row['role']} ({row['container']})": row["throttled_periods"] / row["periods"]
        if row["periods"]
        else 0.0
        for row in containers
        if row["role"] in watched
        and row.get("periods") is not None
        and row.get("throttled_periods") is not None
    }
    if not ratios:
        return Gate("throttling", NOT_AVAILABLE, "the node does not count throttled CPU periods")
    worst = max(ratios, key=lambda name: ratios[name])
    detail = f"{worst} was throttled in {100 * ratios[worst]:.1f} % of its CPU periods"
    status = PASS if ratios[worst] <= MAX_THROTTLED_RATIO else FAIL
    return Gate("throttling", status, detail, ratios[worst], MAX_THROTTLED_RATIO)


def _cores(containers: Sequence[Mapping[str, Any]], role: str) -> float | None:
    cores = [row["cores"] for row in containers if row["role"] == role and row.get("cores") is not None]
    return float(sum(cores)) if cores else None


def _client_cpu(containers: Sequence[Mapping[str, Any]], limit: float | None, node: float | None) -> Gate:
    used, available = _cores(containers, "load-generator"), limit or node
    if used is None or not available:
        return Gate("client_cpu", NOT_AVAILABLE, "the CPU of the load generator is not known")
    ratio = used / available
    whose = "its limit" if limit else "the node"
    detail = f"the load generator used {used:.2f} of {available:g} cores of {whose} ({100 * ratio:.0f} %)"
    status = PASS if ratio < MAX_CLIENT_CPU_RATIO else FAIL
    return Gate("client_cpu", status, detail, ratio, MAX_CLIENT_CPU_RATIO)


def _node_cpu(containers: Sequence[Mapping[str, Any]], node: float | None) -> Gate:
    # The busiest, where there are several: they are taken for alike.
    used = max((row["cores"] for row in containers if row["role"] == "node"), default=None)
    if used is None or not node:
        return Gate("node_cpu", NOT_AVAILABLE, "the CPU of the node is not known")
    ratio = used / node
    detail = f"the node used {used:.2f} of {node:g} cores ({100 * ratio:.0f} %)"
    return Gate("node_cpu", PASS if ratio < MAX_NODE_CPU_RATIO else WARN, detail, ratio, MAX_NODE_CPU_RATIO)


def socket_gate(asked: AskedLoad, result: LoadResult) -> Gate:
    """Judge how often connections were opened anew."""
    if result.sockets is None:
        return Gate("sockets", NOT_AVAILABLE, "the load generator does not count its sockets")
    detail = f"{result.sockets} sockets for {asked.connections} connections"
    status = PASS if result.sockets == asked.connections else WARN
    return Gate("sockets", status, detail, result.sockets, asked.connections)


def resolution_gate(result: LoadResult, quantiles: Sequence[float]) -> Gate:
    """Judge the width of the bins that hold the quantiles."""
    if result.histogram.n == 0:
        return Gate("resolution", NOT_AVAILABLE, "there is no latency to resolve")
    widths = {}
    for q in quantiles:
        low, high = result.histogram.quantile_bounds(q)
        widths[q] = (high - low) / low if low > 0 else float("inf")
    worst = max(widths, key=lambda q: widths[q])
    if not np.isfinite(widths[worst]):
        return Gate("resolution", WARN, f"the generator's bin of the {worst:g} quantile starts at 0")
    detail = f"the generator's bin of the {worst:g} quantile is {100 * widths[worst]:.0f} % wide"
    status = PASS if widths[worst] <= MAX_BIN_WIDTH else WARN
    return Gate("resolution", status, detail, widths[worst], MAX_BIN_WIDTH)


def _omission(asked: AskedLoad, result: LoadResult, quantiles: Sequence[float]) -> Gate:
    bound = omission(asked, result)
    open_ended = [q for q in quantiles if bound.missing_fraction >= 1 - q]
    detail = (
        f"{bound.hidden_requests} requests were never sent; longest stall {bound.longest_stall_s:.4g} s, "
        f"covered {bound.stall_covered_s:.4g} s"
    )
    if open_ended:
        detail += f"; quantiles from {min(open_ended):g} up have no upper bound"
    limit = round(1 - max(quantiles), 12)
    return Gate("omission", WARN if open_ended else PASS, detail, bound.missing_fraction, limit)
