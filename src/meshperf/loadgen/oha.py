"""oha's results, as text and as JSON.

Checked against oha 0.4 to 1.15: ``src/printer.rs`` (text and JSON), ``src/histogram.rs`` (bins),
``src/result_data.rs`` (percentiles, success rate) and ``src/timescale.rs`` (units). oha writes neither its
version nor what it was asked for: target rate, connections and schedule are unknown.

What it says of the latencies are eleven bins of equal width and seven or nine percentiles. Both become edges
of one histogram, whose wide bins say what is known between them: nothing but the count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshperf.errors import MeshperfError
from meshperf.histogram import Histogram
from meshperf.loadgen.result import LoadResult, ResultError, is_success, parse_json

#: Units of ``src/timescale.rs``, longest names first; a number printed with "10 sec" counts tens of seconds.
_UNITS = {
    "10 sec": 10.0, "10 min": 600.0, "secs": 1.0, "sec": 1.0, "min": 60.0, "hr": 3600.0,
    "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
}  # fmt: skip
_UNIT = "|".join(_UNITS)
_NUMBER = r"-?(?:[0-9]+(?:\.[0-9]+)?|NaN|inf)"
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_HEADING = re.compile(r"^(?:Summary|Response time .*|Latency distribution|Details .*|.* distribution):$")
_BIN = re.compile(rf"^ +({_NUMBER})(?: (?:{_UNIT}))? \[([0-9]+)\] *\|")
_PERCENTILE = re.compile(rf"^ +([0-9.]+)% in ({_NUMBER}) ({_UNIT})$")
_STATUS = re.compile(r"^ +\[([0-9]{3})\] ([0-9]+) responses$")
_ERROR = re.compile(r"^ +\[([0-9]+)\] (.*)$")
#: Requests that were under way when the time was up: neither successes nor failures (since 1.2).
_CUT_OFF = "aborted due to deadline"
_N_BINS = 11
#: No run is longer (30 years).
_LONGEST_S = 1e9
#: Decimals of a latency and of a bin's label in the text.
_DECIMALS, _LABEL_DECIMALS = 4, 3


@dataclass(frozen=True)
class _Stated:
    """What one result says, in seconds."""

    total_s: float
    slowest_s: float
    fastest_s: float
    average_s: float
    rps: float
    bins: tuple[tuple[float, int], ...]
    percentiles: dict[float, float]
    codes: dict[str, int]
    errors: dict[str, int]
    rounding_s: float
    label_rounding_s: float


def is_document(document: Any) -> bool:
    """Return whether a JSON document is a result of oha's."""
    return isinstance(document, dict) and {"summary", "latencyPercentiles"} <= set(document)


def is_text(text: str) -> bool:
    """Return whether a text is a result of oha's."""
    return "Summary:" in text and "Success rate:" in text


def read_text(text: str, where: str) -> LoadResult:
    """Read what oha prints; colours, and lines before and after, do not matter.

    Parameters
    ----------
    text : str
        The content of a file.
    where : str
        What to call it in an error.

    Raises
    ------
    ResultError
        One sentence naming the file: truncated, more than one result, numbers that do not add up.
    """
    sections = _sections(_ANSI.sub("", text).splitlines(), where)
    return _checked(lambda: _from_sections(sections), where)


def read_document(document: Mapping[str, Any], where: str) -> LoadResult:
    """Read oha's JSON.

    Raises
    ------
    ResultError
        As :func:`read_text`.
    """
    return _checked(lambda: _from_document(document), where)


def read_result(content: str, where: str) -> LoadResult:
    """Read the content of a file of oha's, text or JSON."""
    if content.lstrip().startswith("{"):
        document = parse_json(content, where)
        if not is_document(document):
            raise ResultError(
                f"{where} is not a result of oha's: it has no summary; give the file that oha wrote"
            )
        return read_document(document, where)
    return read_text(content, where)


def _checked(read: Any, where: str) -> LoadResult:
    try:
        return _result(read())
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MeshperfError) as error:
        detail = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ResultError(
            f"{where} is not a whole result of oha's: {detail}; take the file from its source again, "
            "or measure the run again"
        ) from error


# ---- text


def _sections(lines: Sequence[str], where: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        if _HEADING.match(line.rstrip()):
            name = line.rstrip().rstrip(":")
            if name in sections:
                raise ResultError(f"{where} holds more than one result of oha's: give one result per file")
            current = sections.setdefault(name, [])
        elif line.strip():
            current.append(line.rstrip())
    return sections


def _from_sections(sections: Mapping[str, Sequence[str]]) -> _Stated:
    summary = {}
    for line in sections["Summary"]:
        name, _, value = line.strip().partition(":")
        summary[name] = value.strip()
    slowest_s, unit_s = _time(summary["Slowest"])
    lines = sections.get("Response time distribution") or sections["Latency distribution"]
    percentiles = dict(_percentiles(lines))
    if len(percentiles) < 7:
        raise ValueError(f"it has {len(percentiles)} percentiles instead of 7 or 9")
    bins = [match for line in sections["Response time histogram"] if (match := _BIN.match(line))]
    codes = [match for line in sections["Status code distribution"] if (match := _STATUS.match(line))]
    errors = [match for line in sections.get("Error distribution", ()) if (match := _ERROR.match(line))]
    return _Stated(
        total_s=_time(summary["Total"])[0],
        slowest_s=slowest_s,
        fastest_s=_time(summary["Fastest"])[0],
        average_s=_time(summary["Average"])[0],
        rps=float(summary["Requests/sec"]),
        bins=tuple((float(match[1]) * unit_s, int(match[2])) for match in bins),
        percentiles=percentiles,
        codes={match[1]: int(match[2]) for match in codes},
        errors={match[2]: int(match[1]) for match in errors},
        rounding_s=0.5 * 10.0**-_DECIMALS * unit_s,
        label_rounding_s=0.5 * 10.0**-_LABEL_DECIMALS * unit_s,
    )


def _time(text: str) -> tuple[float, float]:
    """Return a printed time in seconds, and its unit."""
    match = re.fullmatch(rf"({_NUMBER}) ({_UNIT})", text)
    if not match:
        raise ValueError(f'"{text}" is not a time')
    return float(match[1]) * _UNITS[match[2]], _UNITS[match[2]]


def _percentiles(lines: Sequence[str]) -> Iterator[tuple[float, float]]:
    for line in lines:
        if match := _PERCENTILE.match(line):
            yield float(match[1]), float(match[2]) * _UNITS[match[3]]


# ---- JSON


def _from_document(document: Mapping[str, Any]) -> _Stated:
    summary = document["summary"]
    bins = sorted((float(label), int(count)) for label, count in document["responseTimeHistogram"].items())
    percentiles = {
        float(name.removeprefix("p")): _number(value)
        for name, value in document["latencyPercentiles"].items()
    }
    return _Stated(
        total_s=float(summary["total"]),
        slowest_s=_number(summary["slowest"]),
        fastest_s=_number(summary["fastest"]),
        average_s=_number(summary["average"]),
        rps=float(summary["requestsPerSec"]),
        bins=tuple(bins),
        percentiles=percentiles,
        codes={str(code): int(count) for code, count in document["statusCodeDistribution"].items()},
        errors={str(error): int(count) for error, count in document["errorDistribution"].items()},
        rounding_s=0.0,
        label_rounding_s=0.0,
    )


def _number(value: float | None) -> float:
    """Return a number; serde writes null for NaN and infinity, which oha has for no response at all."""
    return float("nan") if value is None else float(value)


# ---- both


def _result(stated: _Stated) -> LoadResult:
    if any(error != _CUT_OFF and _CUT_OFF.startswith(error) for error in stated.errors):
        raise ValueError("its last line is cut off")
    n_responses = sum(stated.codes.values())
    n_cut_off = sum(count for error, count in stated.errors.items() if error == _CUT_OFF)
    n_unanswered = sum(stated.errors.values()) - n_cut_off
    n_failed_responses = sum(n for code, n in stated.codes.items() if not is_success(code))
    _check_counts(stated, n_responses + n_unanswered + n_cut_off)
    histogram, notes = _histogram(stated, n_responses)
    if n_failed_responses:
        notes.append(f"the latencies of {n_failed_responses} failed responses are among the others")
    if n_cut_off:
        notes.append(f"{n_cut_off} requests under way when the time was up are not counted")
    if stated.rounding_s:
        notes.append(f"latencies are printed in steps of {2 * stated.rounding_s:g} s")
    none = float("nan")
    return LoadResult(
        generator="oha",
        target_rps_requested=None,
        rate_limited=None,
        achieved_rps=stated.rps,
        duration_requested_s=none,
        duration_s=stated.total_s,
        connections=None,
        sockets=None,
        return_codes=stated.codes,
        n=n_responses + n_unanswered,
        n_errors=n_failed_responses + n_unanswered,
        histogram=histogram,
        n_errors_in_histogram=n_failed_responses,
        min_s=stated.fastest_s if n_responses else none,
        max_s=stated.slowest_s if n_responses else none,
        sum_s=stated.average_s * n_responses if n_responses else none,
        percentiles=stated.percentiles if n_responses else {},
        started=None,
        rounding_s=stated.rounding_s,
        notes=tuple(notes),
    )


def _check_counts(stated: _Stated, n: int) -> None:
    """Refuse a result whose status codes and errors are not all there."""
    if not (0 < stated.total_s < _LONGEST_S and 0 <= stated.rps < np.inf):
        raise ValueError(f"{stated.rps:g} RPS for {stated.total_s:g} s are no load")
    if any(count < 0 for count in (*stated.codes.values(), *stated.errors.values())):
        raise ValueError("a count is negative")
    expected = stated.rps * stated.total_s
    digits = 0.5 * 10.0**-_DECIMALS if stated.rounding_s else 0.0
    slack = 0.5 + 1e-9 * expected + digits * stated.total_s + stated.rps * stated.rounding_s
    if not abs(expected - n) <= slack:
        raise ValueError(f"its rate and time make {expected:.0f} requests, its status codes and errors {n}")


def _histogram(stated: _Stated, n: int) -> tuple[Histogram, list[str]]:
    """Histogram of all responses, whose edges are what is known: bins and percentiles."""
    if n == 0:
        return Histogram.from_bins([0.0, np.inf], [0]), []
    low, high = stated.fastest_s, stated.slowest_s
    if not 0 <= low <= high < np.inf:
        raise ValueError(f"its latencies run from {low:g} to {high:g} s")
    width = stated.rounding_s or 1e-9 * high
    points, notes = _bin_points(stated, n)
    points = _merged(_percentile_points(stated, n, width), points)
    edges, cumulative = [max(0.0, low - width)], [0]
    for latency_s, count in points:
        if edges[-1] < latency_s < high + width and max(1, cumulative[-1]) <= count < n:
            edges.append(latency_s)
            cumulative.append(count)
    edges.append(high + width)
    cumulative.append(n)
    return (
        Histogram.from_bins(edges, np.diff(cumulative), min_s=low, max_s=high, sum_s=stated.average_s * n),
        notes,
    )


def _bin_points(stated: _Stated, n: int) -> tuple[list[tuple[float, int]], list[str]]:
    """Return right edges of the bins and how many responses lie at or below each.

    Since 0.5.4 the k-th bin (from 0) ends at fastest + k (slowest - fastest)/10, its label. Before, there were
    eleven bins from the fastest to the smaller of slowest and three times the average, what is beyond counted
    in the last, and up to 0.5.0 labels left the fastest out.
    """
    low, high = stated.fastest_s, stated.slowest_s
    if not low < high:
        # All bins have one label then, which JSON keeps once.
        return [], []
    total = sum(count for _, count in stated.bins)
    if len(stated.bins) != _N_BINS or total != n:
        raise ValueError(
            f"its histogram has {len(stated.bins)} bins with {total} responses instead of {_N_BINS} with {n}"
        )
    labels = np.array([label for label, _ in stated.bins])
    cumulative = np.cumsum([count for _, count in stated.bins])
    steps = np.arange(_N_BINS)
    edges = low + (high - low) / (_N_BINS - 1) * steps
    tolerance = stated.label_rounding_s + 2 * stated.rounding_s + 1e-9 * high
    if np.allclose(labels, edges, rtol=0, atol=tolerance):
        return list(zip(edges.tolist(), cumulative.tolist(), strict=True))[:-1], []
    end = min(high, 3 * stated.average_s)
    edges = low + (end - low) / _N_BINS * (steps + 1)
    tolerance += 4 * stated.rounding_s
    if any(np.allclose(labels, expected, rtol=0, atol=tolerance) for expected in (edges, edges - low)):
        return list(zip(edges.tolist(), cumulative.tolist(), strict=True))[:-1], []
    return [], ["the labels of the histogram are none that oha prints, so that only percentiles are used"]


def _percentile_points(stated: _Stated, n: int, width: float) -> list[tuple[float, int]]:
    """Return points on both sides of each percentile, and how many responses lie at or below each.

    oha's p-th percentile is the response number floor(p n/100) from 0 in the order of latency, so that at
    most that many lie below it, and at least one more at or below it. Equal values make one step.
    """
    steps: list[list[float]] = []
    for p, value_s in sorted(stated.percentiles.items()):
        if not np.isfinite(value_s):
            raise ValueError(f"its {p:g}th percentile is {value_s}")
        if steps and value_s < steps[-1][1] - 2 * width:
            raise ValueError(f"its {p:g}th percentile is below the one before")
        rank = int(p / 100.0 * n)
        # Where p n/100 is whole, every value from that response to the next is a p-th percentile (Hyndman and Fan
        # 1996): it counts as the value that oha prints.
        below = max(0, rank - 1) if abs(rank - p / 100.0 * n) < 1e-6 else rank
        if steps and value_s - width < steps[-1][1] - 0.01 * width:
            steps[-1][1:] = [value_s + width, steps[-1][2], rank + 1]
        else:
            steps.append([value_s - width, value_s + width, below, rank + 1])
    return [point for low, high, below, upto in steps for point in ((low, int(below)), (high, int(upto)))]


def _merged(
    percentiles: Sequence[tuple[float, int]], bins: Sequence[tuple[float, int]]
) -> list[tuple[float, int]]:
    """Return the points of both in order; a bin's edge that contradicts a percentile by its rounding is left out."""
    points = list(percentiles)
    for latency_s, count in bins:
        below = [n for other, n in percentiles if other <= latency_s]
        above = [n for other, n in percentiles if other > latency_s]
        if (not below or below[-1] <= count) and (not above or count <= above[0]):
            points.append((latency_s, count))
    return sorted(points)
