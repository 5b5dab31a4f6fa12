"""Fortio: its command line and its JSON results (Nighthawk's dialect of them too).

Checked against fortio 1.68.1: ``stats/stats.go`` (buckets, percentiles), ``periodic/periodic.go`` (schedule,
result, access log), ``cli/fortio_main.go`` and ``bincommon/commonflags.go`` (flags). This module and
`access_log` are the only ones that know fortio's words (QPS, NumThreads, ...).
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from meshperf.errors import MeshperfError
from meshperf.histogram import Histogram

#: Upper edges of fortio's buckets in units of the resolution (``histogramBucketValues``); one overflow
# follows.
GRID = (
    *range(12),
    *(12, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90, 100, 120, 140, 160, 180, 200),
    *(250, 300, 350, 400, 450, 500, 600, 700, 800, 900, 1000),
    *(2000, 3000, 4000, 5000, 7500, 10000, 20000, 30000, 40000, 50000, 75000, 100000),
)  # fmt: skip
PERCENTILES = (50.0, 75.0, 90.0, 99.0, 99.9)


class FortioError(MeshperfError):
    """A result or an access log that fortio did not write whole."""


class Load(Protocol):
    """What :func:`build_argv` reads of a study's ``load`` section."""

    connections: int
    resolution_s: float
    payload_bytes: int
    timeout_s: float


@dataclass(frozen=True, eq=False)
class FortioResult:
    """One fortio result, in this project's words.

    Attributes
    ----------
    target_rps_requested : float or None
        Rate that fortio says it was asked for; None for "max".
    achieved_rps : float
        All requests divided by the time from the first to the last, as fortio prints it. With ``-uniform``
        that time includes the staggered start of the connections, so it reads a little low on short runs.
    duration_requested_s, duration_s : float
        Asked and real duration in seconds; the first is NaN when the run was not asked by time.
    connections : int
    sockets : int or None
        Sockets opened in all; more than `connections` means reconnects.
    return_codes : dict of str to int
    n, n_errors : int
        All requests, and those that failed.
    response_bytes : int or None
        Received in all answers to them, with their heads where fortio's own client was used.
    histogram : Histogram
        Successful requests only (fortio counts errors in; they are taken out), on fortio's whole grid where
        the file tells its resolution, else on the file's own bins.
    bins : ndarray, shape (k,), fields start_s, end_s, percent, count
        The buckets exactly as written, errors included, ends cut at the smallest and largest latency.
    min_s, max_s, sum_s : float
        Of all requests, as written; NaN where the file does not say.
    percentiles : dict of float to float
        Percentiles as stored in the file, in seconds; empty when it has none.
    dialect : {"fortio", "nighthawk"}
        Nighthawk writes percent levels of its own instead of cumulative shares of the counts.
    started : datetime or None
    version, labels, run_type, url : str
    resolution_s, offset_s : float or None
    uniform, catch_up : bool or None
        None in versions that do not tell.
    """

    target_rps_requested: float | None
    achieved_rps: float
    duration_requested_s: float
    duration_s: float
    connections: int
    sockets: int | None
    return_codes: dict[str, int]
    n: int
    n_errors: int
    response_bytes: int | None
    histogram: Histogram
    bins: NDArray[np.void]
    min_s: float
    max_s: float
    sum_s: float
    percentiles: dict[float, float]
    dialect: str
    started: datetime | None
    version: str
    labels: str
    run_type: str
    url: str
    resolution_s: float | None
    offset_s: float | None
    uniform: bool | None
    catch_up: bool | None


def grid_edges(resolution_s: float, offset_s: float = 0.0) -> NDArray[np.float64]:
    """Edges in seconds of fortio's grid for a resolution (``-r``) and an offset (``-offset``).

    Returns
    -------
    ndarray
        From 0 to infinity. Fortio's first bucket, "at or below the offset", is [0, offset]; without an offset
        it can only hold latencies of 0, which count in the bucket above it.
    """
    if not resolution_s > 0 or not offset_s >= 0:
        raise FortioError(
            f"fortio's resolution must be above 0 and its offset not below, not {resolution_s}, {offset_s}"
        )
    edges = np.array(GRID, dtype=float) * resolution_s + offset_s
    head = [0.0] if offset_s > 0 else []
    return np.concatenate([head, edges, [np.inf]])


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
        do not add up.
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
    document = _parse_json(content, where)
    try:
        return _result(document, where)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        detail = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FortioError(f"{where} is not a whole fortio result: {detail}; measure the run again") from error


def _parse_json(content: bytes, where: str) -> dict[str, Any]:
    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not a number")

    try:
        document = json.loads(content.decode("utf-8"), parse_constant=refuse)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise FortioError(
                f"{where} holds more than one JSON document; give one result per file"
            ) from error
        raise FortioError(
            f"{where} is not valid JSON (line {error.lineno}, column {error.colno}): "
            "the file is truncated or damaged; measure the run again"
        ) from error
    except ValueError as error:
        raise FortioError(f"{where} is not a fortio result: {error}") from error
    if not isinstance(document, dict):
        raise FortioError(f"{where} is not a fortio result: its JSON is not an object")
    wrapped = _unwrapped(document)
    if wrapped is not None:
        return wrapped
    if any(key in document for key in ("Error", "Exception", "Message")):
        reason = document.get("Message") or document.get("Error") or document.get("Exception")
        raise FortioError(f"{where} is an error report, not a result: fortio said {str(reason)!r}")
    raise FortioError(f"{where} is not a fortio result: it has no DurationHistogram")


def _unwrapped(document: dict[str, Any], depth: int = 3) -> dict[str, Any] | None:
    """Find the object with the result in it, which some tools wrap; None for none or more than one."""
    if isinstance(document.get("DurationHistogram"), dict):
        return document
    if depth == 0:
        return None
    inner = [_unwrapped(value, depth - 1) for value in document.values() if isinstance(value, dict)]
    found = [value for value in inner if value is not None]
    return found[0] if len(found) == 1 else None


_BIN = np.dtype([("start_s", "f8"), ("end_s", "f8"), ("percent", "f8"), ("count", "i8")])


def _bins(data: Mapping[str, Any]) -> NDArray[np.void]:
    rows = data.get("Data") or []
    bins = np.array(
        [(float(r["Start"]), float(r["End"]), float(r["Percent"]), int(r["Count"])) for r in rows], dtype=_BIN
    )
    n = int(data["Count"])
    if bins.size == 0 and n:
        raise ValueError(f"it counts {n} requests and has no histogram")
    if n < 0 or (bins["count"] < 0).any():
        raise ValueError("a count is negative")
    total = int(bins["count"].sum())
    # Early Nighthawk (which writes counts as strings) left out the bucket of the smallest latency.
    if total > n or (total < n and not isinstance(data["Count"], str)):
        raise ValueError(f"the buckets add up to {total}, the count is {n}")
    # The smallest latency may exceed its bucket's end by the rounding of that end.
    slack = 1e-9 * bins["end_s"]
    if (bins["end_s"] < bins["start_s"] - slack).any() or (np.diff(bins["start_s"]) < -slack[1:]).any():
        raise ValueError("the buckets are not in order")
    return bins


def _dialect(bins: NDArray[np.void], n: int) -> str:
    """Tell the dialect: fortio's percent is the share counted so far, Nighthawk's a level of its own."""
    cumulative = 100.0 * np.cumsum(bins["count"]) / max(n, 1)
    return "fortio" if np.allclose(bins["percent"], cumulative, rtol=1e-9, atol=0) else "nighthawk"


def _optional(data: Mapping[str, Any], key: str) -> float:
    value = data.get(key)
    return float("nan") if value is None else float(value)


def _result(document: Mapping[str, Any], where: str) -> FortioResult:
    data = document["DurationHistogram"]
    bins = _bins(data)
    n = int(data["Count"])
    errors = document.get("ErrorsDurationHistogram") or {"Count": 0, "Data": None}
    error_bins = _bins(errors)
    n_errors = int(errors["Count"])
    if n_errors > n:
        raise ValueError(f"it has {n_errors} errors in {n} requests")
    resolution = document.get("Resolution")
    resolution = float(resolution) if resolution else None
    offset = document.get("Offset")
    offset = float(offset) * 1e-9 if offset is not None else None
    bounds = (_optional(data, "Min"), _optional(data, "Max")) if n else (float("nan"), float("nan"))
    requested = str(document["RequestedQPS"])
    duration = str(document.get("RequestedDuration", ""))
    started = document.get("StartTime")
    no_catch_up = document.get("NoCatchUp")
    sizes = document.get("Sizes")
    return FortioResult(
        target_rps_requested=None if requested == "max" else float(requested),
        achieved_rps=float(document["ActualQPS"]),
        duration_requested_s=_go_duration_s(duration),
        duration_s=float(document["ActualDuration"]) * 1e-9,
        connections=int(document["NumThreads"]),
        sockets=None if document.get("SocketCount") is None else int(document["SocketCount"]),
        return_codes={str(code): int(count) for code, count in (document.get("RetCodes") or {}).items()},
        n=n,
        n_errors=n_errors,
        response_bytes=None if sizes is None else round(float(sizes["Sum"])),
        histogram=_successes(data, bins, errors, error_bins, resolution, offset or 0.0),
        bins=bins,
        min_s=bounds[0],
        max_s=bounds[1],
        sum_s=_optional(data, "Sum"),
        percentiles={float(p["Percentile"]): float(p["Value"]) for p in data.get("Percentiles") or []},
        dialect=_dialect(bins, n),
        started=datetime.fromisoformat(started) if started else None,
        version=str(document.get("Version", "")),
        labels=str(document.get("Labels", "")),
        run_type=str(document.get("RunType", "")),
        url=str(document.get("URL", "")),
        resolution_s=resolution,
        offset_s=offset,
        uniform=document.get("Uniform"),
        catch_up=None if no_catch_up is None else not no_catch_up,
    )


def _successes(
    data: Mapping[str, Any],
    bins: NDArray[np.void],
    errors: Mapping[str, Any],
    error_bins: NDArray[np.void],
    resolution_s: float | None,
    offset_s: float,
) -> Histogram:
    """Histogram of the requests that did not fail, on the whole grid if the buckets lie on it."""
    edges, index = None, None
    if resolution_s is not None:
        edges = grid_edges(resolution_s, offset_s)
        index = _grid_index(bins, edges, resolution_s, offset_s)
    if edges is None or index is None:
        edges, index = _own_edges(bins)
    counts = np.bincount(index, weights=bins["count"], minlength=edges.size - 1).astype(np.int64)
    if bins.size == 0:
        return Histogram.from_bins(edges, counts)
    low = float(data.get("Min", bins["start_s"][0]))
    high = float(data.get("Max", bins["end_s"][-1]))
    total = data.get("Sum")
    if error_bins.size:
        # An error's bucket is on the same grid and inside a bucket of all requests: its right end tells
        # which.
        position = np.searchsorted(bins["end_s"], error_bins["end_s"] * (1 - 1e-12), side="left")
        np.subtract.at(counts, index[np.minimum(position, bins.size - 1)], error_bins["count"])
        if (counts < 0).any():
            raise ValueError("it has a bucket with more errors than requests")
        total = None if total is None else float(total) - float(errors["Sum"])
        low, high = _success_bounds(edges, counts, low, high, errors)
    return Histogram.from_bins(edges, counts, min_s=low, max_s=high, sum_s=total)


def _success_bounds(
    edges: NDArray, counts: NDArray, low: float, high: float, errors: Mapping[str, Any]
) -> tuple[float | None, float | None]:
    """Smallest and largest latency of the successes: known unless an error had the same extreme."""
    occupied = np.flatnonzero(counts)
    if occupied.size == 0:
        return None, None
    first, last = occupied[0], occupied[-1]
    low_out = low if low < float(errors["Min"]) else max(float(edges[first]), low)
    high_out = high if high > float(errors["Max"]) else min(float(edges[last + 1]), high)
    return low_out, high_out


def _bucket(latency_s: float, resolution_s: float, offset_s: float) -> int:
    """Find fortio's bucket of a latency (``Histogram.record`` in ``stats/stats.go``), its rounding included."""
    scaled = (latency_s - offset_s) / resolution_s
    if scaled <= GRID[0]:
        return 0
    if scaled > GRID[-1]:
        return len(GRID)
    whole = int(scaled)
    if scaled - whole < 1e-12:
        whole -= 1
    return bisect.bisect_right(GRID, whole)


def _grid_index(
    bins: NDArray[np.void], edges: NDArray[np.float64], resolution_s: float, offset_s: float
) -> NDArray[np.intp] | None:
    """Index on the grid of every bucket; None when the buckets do not lie on this grid."""
    if bins.size == 0:
        return np.empty(0, dtype=np.intp)
    # All right ends but the last are grid edges; the last is the largest latency, within the last bucket.
    inner = np.abs(edges[:-1][None, :] - bins["end_s"][:-1, None]).argmin(axis=1)
    if not np.allclose(edges[inner], bins["end_s"][:-1], rtol=1e-9, atol=1e-15):
        return None
    if bins.size > 1:
        start = np.abs(edges[:-1] - bins["start_s"][-1]).argmin()
        if not np.isclose(edges[start], bins["start_s"][-1], rtol=1e-9, atol=1e-15):
            return None
        last = start
    else:
        last = _bucket(bins["end_s"][-1], resolution_s, offset_s) - (offset_s == 0)
    index = np.append(inner - 1, last)
    index = np.maximum(index, 0)
    return index if (np.diff(index) >= 0).all() else None


def _own_edges(bins: NDArray[np.void]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Edges made of the file's own buckets, and the index of each; gaps become empty bins.

    A bucket of no width (Nighthawk) holds latencies equal to its edge, which belong to the bin that ends
    there, or at the very start to the first bin.
    """
    if bins.size == 0:
        return np.array([0.0, np.inf]), np.empty(0, dtype=np.intp)
    edges = np.unique(np.concatenate([bins["start_s"], bins["end_s"]]))
    if edges.size == 1:
        edges = np.array([np.nextafter(edges[0], 0.0), edges[0]])
    index = np.searchsorted(edges, bins["end_s"], side="left") - 1
    return edges, np.maximum(index, 0)


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
