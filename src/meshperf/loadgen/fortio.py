"""Fortio: its command line and its JSON results (Nighthawk's and Meshery's dialects of them too).

Checked against fortio 1.68.1: ``stats/stats.go`` (buckets, percentiles), ``periodic/periodic.go`` (schedule,
result, access log), ``cli/fortio_main.go`` and ``bincommon/commonflags.go`` (flags); results are read since
version 1.1. This module, `fortio_buckets` and `access_log` are the only ones that know fortio's words (QPS,
NumThreads, ...).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from meshperf.errors import MeshperfError
from meshperf.loadgen.fortio_buckets import (
    FortioError,
    infer_resolution,
    is_cumulative,
    read_bins,
    successes,
)
from meshperf.loadgen.result import LoadResult, ResultError, decode, is_success, parse_json

PERCENTILES = (50.0, 75.0, 90.0, 99.0, 99.9)
#: Rates that differ by more than this share are not the same rate.
_SAME_RATE = 0.05
#: What early versions wrote as a number (``grpc_health_v1.HealthCheckResponse_ServingStatus``).
_GRPC_STATUS = {"0": "UNKNOWN", "1": "SERVING", "2": "NOT_SERVING"}
#: No run is longer (30 years).
_LONGEST_S = 1e9
#: How deep a result may lie in what other tools wrap around it.
_MAX_DEPTH = 5


class Load(Protocol):
    """What :func:`build_argv` reads of a study's ``load`` section."""

    connections: int
    resolution_s: float
    payload_bytes: int
    timeout_s: float


@dataclass(frozen=True, eq=False, kw_only=True)
class FortioResult(LoadResult):
    """One fortio result.

    The histogram is on fortio's whole grid where the file tells its resolution or the buckets show it, else on
    the file's own bins. The achieved rate is all requests divided by the time from the first to the last, as
    fortio prints it; with ``-uniform`` that time includes the staggered start of the connections, so it reads
    a little low on short runs.

    Attributes
    ----------
    bins : ndarray, shape (k,), fields start_s, end_s, percent, count
        The buckets exactly as written, errors included, ends cut at the smallest and largest latency.
    dialect : {"fortio", "nighthawk"}
        Nighthawk writes percent levels of its own instead of cumulative shares of the counts.
    run_type : str
    response_bytes : int or None
        Received in all answers, with their heads where fortio's own client was used.
    """

    bins: NDArray[np.void]
    dialect: str
    run_type: str
    response_bytes: int | None


def read_result(source: str | Path | bytes, *, name: str | None = None) -> FortioResult:
    """Read one fortio result.

    Parameters
    ----------
    source : path or bytes
        A file, or its content.
    name : str, optional
        What to call the content in error messages; a file is called by its path.

    Raises
    ------
    FortioError
        One sentence naming the file: not there, truncated, JSON lines, a run that never started, counts that
        do not add up, more than one result.
    """
    if isinstance(source, bytes):
        content, where = source, name or "the fortio result"
    else:
        path = Path(source)
        where = name or str(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise FortioError(f"{where} cannot be read: {error.strerror or error}") from error
    try:
        document = parse_json(decode(content, where), where)
    except FortioError:
        raise
    except ResultError as error:
        raise FortioError(str(error)) from error
    found = results(document, where)
    if len(found) > 1:
        raise FortioError(f"{where} holds {len(found)} results: give one result per file")
    return found[0]


def results(document: Any, where: str) -> list[FortioResult]:
    """Return the results in a JSON document: one, or as many as a tool such as Meshery wrapped in it.

    Raises
    ------
    FortioError
        If there is none, or one is not whole.
    """
    found = list(_unwrapped(document))
    if not found:
        raise _no_result(document, where)
    names = [where] if len(found) == 1 else [f"{where}#{number}" for number in range(1, len(found) + 1)]
    return [_checked(item, name) for item, name in zip(found, names, strict=True)]


def result_documents(document: Any) -> list[dict[str, Any]]:
    """Return the objects of a JSON document that :func:`results` reads, in the same order."""
    return list(_unwrapped(document))


def _unwrapped(document: Any, depth: int = _MAX_DEPTH) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict) and isinstance(document.get("DurationHistogram"), dict):
        yield document
    elif depth > 0 and isinstance(document, dict | list):
        for value in document.values() if isinstance(document, dict) else document:
            yield from _unwrapped(value, depth - 1)


def _no_result(document: Any, where: str) -> FortioError:
    if not isinstance(document, dict):
        return FortioError(f"{where} is not a fortio result: its JSON is not an object")
    if any(key in document for key in ("Error", "Exception", "Message")):
        reason = document.get("Message") or document.get("Error") or document.get("Exception")
        return FortioError(f"{where} is an error report, not a result: fortio said {str(reason)!r}")
    return FortioError(f"{where} is not a fortio result: it has no DurationHistogram")


def _checked(document: Mapping[str, Any], where: str) -> FortioResult:
    try:
        return _result(document)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MeshperfError) as error:
        detail = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FortioError(f"{where} is not a whole fortio result: {detail}; measure the run again") from error


def _optional(data: Mapping[str, Any], key: str) -> float:
    value = data.get(key)
    return float("nan") if value is None else float(value)


def _result(document: Mapping[str, Any]) -> FortioResult:
    data = document["DurationHistogram"]
    bins = read_bins(data)
    n = int(data["Count"])
    dialect = "fortio" if is_cumulative(bins, n) else "nighthawk"
    run_type = str(document.get("RunType") or "")
    names = _GRPC_STATUS if run_type.startswith("GRPC") else {}
    codes = {names.get(code, code): int(count) for code, count in (document.get("RetCodes") or {}).items()}
    errors = document.get("ErrorsDurationHistogram") or {"Count": 0, "Data": None}
    error_bins = read_bins(errors)
    n_errors = int(errors["Count"])
    if n_errors > n:
        raise ValueError(f"it has {n_errors} errors in {n} requests")
    n_failed = max(n_errors, _failed(codes, n, dialect))
    resolution = document.get("Resolution")
    resolution = float(resolution) if resolution else None
    offset = document.get("Offset")
    offset = float(offset) * 1e-9 if offset is not None else None
    grid = resolution
    if grid is None and dialect == "fortio" and not offset:
        grid = infer_resolution(bins)
    bounds = (_optional(data, "Min"), _optional(data, "Max")) if n else (float("nan"), float("nan"))
    requested = str(document["RequestedQPS"])
    target = None if requested == "max" or float(requested) <= 0 else float(requested)
    asked = str(document.get("RequestedDuration", ""))
    asked_s = _go_duration_s(asked)
    duration_s, notes = _duration_s(document, asked_s, dialect)
    achieved = float(document["ActualQPS"])
    connections = int(document["NumThreads"])
    if not (0 <= duration_s < _LONGEST_S and 0 <= achieved < np.inf and connections > 0):
        raise ValueError(f"{achieved:g} RPS on {connections} connections for {duration_s:g} s are no load")
    started = document.get("StartTime")
    uniform, no_catch_up = document.get("Uniform"), document.get("NoCatchUp")
    size = (document.get("Sizes") or {}).get("Sum")
    if n_failed > n_errors:
        notes.append(f"the latencies of {n_failed - n_errors} failed requests are among the others")
    if "interrupted" in asked:
        notes.append(f'the run was not finished: asked for "{asked}"')
    return FortioResult(
        generator=dialect,
        target_rps_requested=target,
        rate_limited=target is not None,
        achieved_rps=achieved,
        duration_requested_s=asked_s,
        duration_s=duration_s,
        connections=connections,
        sockets=None if document.get("SocketCount") is None else int(document["SocketCount"]),
        return_codes=codes,
        n=n,
        n_errors=n_failed,
        histogram=successes(data, bins, errors, error_bins, grid, offset or 0.0),
        n_errors_in_histogram=n_failed - n_errors,
        bins=bins,
        min_s=bounds[0],
        max_s=bounds[1],
        sum_s=_optional(data, "Sum"),
        percentiles={float(p["Percentile"]): float(p["Value"]) for p in data.get("Percentiles") or []},
        dialect=dialect,
        started=_time(started),
        version=str(document.get("Version") or ""),
        labels=str(document.get("Labels") or ""),
        run_type=run_type,
        response_bytes=None if size is None else round(float(size)),
        # gRPC and TCP results have a destination instead.
        url=str(document.get("URL") or document.get("Destination") or ""),
        resolution_s=resolution,
        offset_s=offset,
        uniform=None if uniform is None else bool(uniform),
        catch_up=None if no_catch_up is None else not no_catch_up,
        contradictions=tuple(_contradictions(n, codes, achieved, duration_s, dialect)),
        notes=tuple(notes),
    )


def _failed(codes: Mapping[str, int], n: int, dialect: str) -> int:
    """Count the failed requests by their codes; Nighthawk writes the number of 2xx and no other."""
    if dialect == "nighthawk":
        return max(0, n - codes["200"]) if list(codes) == ["200"] else 0
    return sum(count for code, count in codes.items() if not is_success(code))


def _duration_s(document: Mapping[str, Any], asked_s: float, dialect: str) -> tuple[float, list[str]]:
    """Return the real duration in seconds, which early Nighthawk wrote in seconds and all others in ns."""
    written = float(document["ActualDuration"])
    if dialect == "nighthawk" and abs(written - asked_s) <= 0.5 * asked_s:
        return written, ["ActualDuration is in seconds, as early Nighthawk wrote it"]
    return written * 1e-9, []


def _contradictions(
    n: int, codes: Mapping[str, int], achieved_rps: float, duration_s: float, dialect: str
) -> Iterator[str]:
    if duration_s > 0 and abs(n / duration_s - achieved_rps) > _SAME_RATE * n / duration_s:
        yield f"{n} requests in {duration_s:g} s are {n / duration_s:.4g} RPS, not {achieved_rps:g}"
    total = sum(codes.values())
    if codes and (total > n or (total < n and dialect == "fortio")):
        yield f"it counts {n} requests and {total} return codes"


def _time(text: str | None) -> datetime | None:
    """Read a time as Go writes it; None for no time, Go's zero time, and a time of no known zone."""
    time = datetime.fromisoformat(text) if text else None
    return time if time is not None and time.tzinfo is not None and time.year > 1 else None


def percentile(result: FortioResult, p: float, *, rule: str | None = None) -> float:
    """Percentile exactly as the tool that wrote the file computes it, to the last digit.

    Parameters
    ----------
    result : FortioResult
    p : float
        Percent, in (0, 100].
    rule : {"fortio", "nighthawk"}, optional
        Left out, the file's own dialect.

    Returns
    -------
    float
        Seconds, over all requests including errors, as in the file.

    Raises
    ------
    FortioError
        When there are no requests, or `p` is not a percentage.

    Notes
    -----
    Fortio (``CalcPercentile`` in ``stats/stats.go``) interpolates linearly in latency, and starts at the
    share of one request, because the smallest latency covers that much. Nighthawk reports the end of the
    first bucket whose percent level reaches `p`. Both are kept for comparison with published numbers; the
    analysis uses :meth:`meshperf.histogram.Histogram.quantile`.
    """
    if not 0 < p <= 100:
        raise FortioError(f"a percentile is above 0 and at most 100, not {p}")
    bins = result.bins
    if bins.size == 0:
        raise FortioError("a result without requests has no percentiles")
    rule = rule or result.dialect
    starts, ends, percents = bins["start_s"].tolist(), bins["end_s"].tolist(), bins["percent"].tolist()
    if rule == "nighthawk":
        return next((end for end, level in zip(ends, percents, strict=True) if level >= p), ends[-1])
    largest = ends[-1] if np.isnan(result.max_s) else result.max_s
    if p >= 100:
        return largest
    previous = 100.0 / result.n
    if p <= previous:
        return starts[0] if np.isnan(result.min_s) else result.min_s
    for start, end, level in zip(starts, ends, percents, strict=True):
        if p <= level:
            return start + (p - previous) / (level - previous) * (end - start)
        previous = level
    return largest


_GO_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def _go_duration_s(text: str) -> float:
    """Read a Go duration such as "1m30s", in seconds; NaN for anything else ("exactly 100 calls")."""
    if not re.fullmatch(r"(\d+(\.\d+)?(h|ms|m|s|us|µs|ns))+", text):
        return float("nan")
    return sum(
        float(value) * _GO_UNITS[unit] for value, unit in re.findall(r"([\d.]+)(h|ms|m|s|us|µs|ns)", text)
    )


def _plain(value: float) -> str:
    """Write a number without an exponent, as Go's duration parser wants it."""
    return f"{value:.9f}".rstrip("0").rstrip(".")


def build_argv(
    load: Load,
    *,
    target_rps: float,
    url: str,
    duration_s: float,
    access_log_path: str | None = None,
    labels: str | None = None,
    headers: Mapping[str, str] | None = None,
    allow_initial_errors: bool = False,
) -> list[str]:
    """Command line of one fortio run: constant rate, staggered connections, no catching up.

    Parameters
    ----------
    load : Load
        Connections, resolution, payload and timeout of the study.
    target_rps : float
        Rate over all connections.
    url : str
    duration_s : float
    access_log_path : str, optional
        Where fortio logs every request, in the client's file system.
    labels : str, optional
        Kept by fortio in its result.
    headers : mapping of str to str, optional
        Of every request. Fortio keeps them out of its result and its access log.
    allow_initial_errors : bool
        Whether fortio goes on if the unrecorded first requests fail.

    Returns
    -------
    list of str
        ``-uniform`` spreads the connections over the interval between requests. ``-nocatchup`` skips requests
        whose time has passed, so that a stall shows as missing requests and not as a burst of fast ones. The
        result goes to standard output.
    """
    argv = ["fortio", "load", "-quiet", "-log-errors=false", "-uniform", "-nocatchup"]
    argv += ["-qps", _plain(target_rps), "-c", str(load.connections), "-t", f"{_plain(duration_s)}s"]
    argv += ["-r", _plain(load.resolution_s), "-timeout", f"{_plain(load.timeout_s)}s"]
    argv += ["-p", ",".join(f"{p:g}" for p in PERCENTILES)]
    if load.payload_bytes:
        argv += ["-payload-size", str(load.payload_bytes)]
    if access_log_path is not None:
        argv += ["-access-log-file", access_log_path, "-access-log-format", "json"]
    if allow_initial_errors:
        argv.append("-allow-initial-errors")
    if labels is not None:
        argv += ["-labels", labels]
    return [*argv, *_header_options(headers or {}), "-json", "-", url]


def build_single_argv(url: str, headers: Mapping[str, str], timeout_s: float) -> list[str]:
    """Command line that sends one request, and one before it, and does not mind how they are answered."""
    argv = ["fortio", "load", "-quiet", "-log-errors=false", "-allow-initial-errors", "-c", "1", "-n", "1"]
    return [*argv, "-timeout", f"{_plain(timeout_s)}s", *_header_options(headers), "-json", "-", url]


def _header_options(headers: Mapping[str, str]) -> list[str]:
    return [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]


def planned_requests(target_rps: float, duration_s: float, connections: int) -> int:
    """Count the requests that fortio plans: the same whole number on every connection.

    ``runQPSSetup`` in ``periodic/periodic.go``: rate × time cut to a whole number, at least 2; connections
    reduced when there are fewer than two calls for each.
    """
    calls = int(target_rps * duration_s)
    if calls < 2:
        return 2
    connections = min(connections, max(calls // 2, 1))
    return calls // connections * connections
