"""Fortio's access log: every request of a run, with the time at which it was sent.

Checked against fortio 1.68.1, ``periodic/periodic.go`` (``fileAccessLogger``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meshperf.loadgen.fortio import FortioError


@dataclass(frozen=True, eq=False)
class AccessLog:
    """Every request of a run, in the order in which they ended.

    Attributes
    ----------
    start_offset_s : ndarray of float, shape (n,)
        When each request was sent, in seconds after the first one.
    latency_s : ndarray of float, shape (n,)
        Seconds; fortio logs whole microseconds.
    status : ndarray of int, shape (n,)
        HTTP status, -1 for an error without one.
    ok : ndarray of bool, shape (n,)
        Whether fortio counts the request as a success.
    first_unix_s : float
        When the first request was sent.
    """

    start_offset_s: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    status: NDArray[np.int64]
    ok: NDArray[np.bool_]
    first_unix_s: float


_LOG_LINE = re.compile(
    rb'^\{"latency":([0-9.eE+-]+),"timestamp":([0-9]+),"thread":[0-9]+,"iter":[0-9]+,'
    rb'"ok":(true|false),"details":"([^"\n]*)[^\n]*\}$',
    re.MULTILINE,
)


def read_access_log(data: bytes, *, name: str = "the access log") -> AccessLog:
    """Read fortio's access log (``-access-log-format json``).

    Raises
    ------
    FortioError
        For a line that is not fortio's, such as the last one of a truncated file.
    """
    rows = _LOG_LINE.findall(data)
    if len(rows) != data.count(b"\n") or (data and not data.endswith(b"\n")):
        for number, line in enumerate(data.split(b"\n"), start=1):
            if (line or number <= len(rows)) and not _LOG_LINE.fullmatch(line):
                raise FortioError(f"{name} is damaged or truncated at line {number}: {line[:80]!r}")
        raise FortioError(f"{name} does not end with a whole line: it is truncated")
    if not rows:
        empty = np.empty(0)
        return AccessLog(empty, empty, empty.astype(np.int64), empty.astype(bool), float("nan"))
    latency, timestamp, ok, details = zip(*rows, strict=True)
    start_ns = np.array(timestamp, dtype="S20").astype(np.int64)
    status = np.array([int(text) if text.isdigit() else -1 for text in details], dtype=np.int64)
    first = int(start_ns.min())
    return AccessLog(
        start_offset_s=(start_ns - first) * 1e-9,
        latency_s=np.array(latency, dtype="S24").astype(float),
        status=status,
        ok=np.array(ok) == b"true",
        first_unix_s=first * 1e-9,
    )
