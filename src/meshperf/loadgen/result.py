"""What every load generator's result says, in this project's words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from meshperf.errors import MeshperfError
from meshperf.histogram import Histogram


class ResultError(MeshperfError):
    """A result that the load generator did not write whole, or that is not a result."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LoadResult:
    """One result of a load generator.

    What the file does not say is None, or NaN where a number is expected; nothing is guessed.

    Attributes
    ----------
    generator : {"fortio", "nighthawk", "oha"}
        Whose numbers they are; Nighthawk writes fortio's format.
    version, labels, url : str
        Empty where the file does not say.
    target_rps_requested : float or None
        Rate that the generator says it was asked for; None for "no limit" and where it does not say.
    rate_limited : bool or None
        Whether there was a target rate; None where the file does not say.
    achieved_rps : float
        As the generator prints it.
    duration_requested_s, duration_s : float
        Asked and real duration in seconds; the first is NaN when the run was not asked by time.
    connections : int or None
    sockets : int or None
        Sockets opened in all; more than `connections` means reconnects.
    return_codes : dict of str to int
        Responses by status.
    n, n_errors : int
        All requests, and those that failed.
    histogram : Histogram
        Latencies of successful requests, and of `n_errors_in_histogram` failed ones that the file does not
        tell apart.
    n_errors_in_histogram : int
    min_s, max_s, sum_s : float
        As written; NaN where the file does not say.
    percentiles : dict of float to float
        Percent to seconds, as stored in the file; empty when it has none.
    started : datetime or None
    resolution_s, offset_s : float or None
        Of the generator's histogram.
    uniform, catch_up : bool or None
        The schedule: connections staggered, and late requests sent in a burst.
    rounding_s : float
        Half of the last digit that the file prints of a latency; 0 where it prints all digits.
    contradictions : tuple of str
        Where the file contradicts itself, a clause each.
    notes : tuple of str
        What a reader of the numbers must know, a clause each.
    """

    generator: str
    version: str = ""
    labels: str = ""
    url: str = ""
    target_rps_requested: float | None
    rate_limited: bool | None
    achieved_rps: float
    duration_requested_s: float
    duration_s: float
    connections: int | None
    sockets: int | None
    return_codes: dict[str, int]
    n: int
    n_errors: int
    histogram: Histogram
    n_errors_in_histogram: int = 0
    min_s: float
    max_s: float
    sum_s: float
    percentiles: dict[float, float]
    started: datetime | None
    resolution_s: float | None = None
    offset_s: float | None = None
    uniform: bool | None = None
    catch_up: bool | None = None
    rounding_s: float = 0.0
    contradictions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def failures(self) -> dict[str, int]:
        """Responses by status that were not successes."""
        return {code: n for code, n in self.return_codes.items() if n and not is_success(code)}


def is_success(code: str) -> bool:
    """Return whether a status is a success: HTTP 2xx, fortio's 418, and its words for gRPC, TCP and UDP.

    Fortio: ``codeIsOK`` in ``fhttp/http_client.go``, ``fgrpc/grpcrunner.go``, ``tcprunner``, ``udprunner``.
    """
    return (len(code) == 3 and code.startswith("2")) or code in ("418", "SERVING", "OK")


def decode(content: bytes, where: str) -> str:
    """Return the text of a file: UTF-8, or UTF-16 with its byte-order mark as PowerShell writes it.

    Raises
    ------
    ResultError
        If it is empty, or not text.
    """
    if not content.strip():
        raise ResultError(f"{where} is empty: take the file from its source again, or measure the run again")
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        raise ResultError(f"{where} is not text: give the file that the load generator wrote") from None


def parse_json(text: str, where: str) -> Any:
    """Return what a JSON document holds.

    Raises
    ------
    ResultError
        If it is truncated, holds more than one document, or NaN and the like, which JSON does not have.
    """

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not a number")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise ResultError(
                f"{where} holds more than one JSON document, or something besides it: "
                "give one result per file and nothing else in it"
            ) from None
        raise ResultError(
            f"{where} is not valid JSON (line {error.lineno}, column {error.colno}): the file is truncated "
            "or damaged; take it from its source again, or measure the run again"
        ) from None
    except RecursionError:
        raise ResultError(f"{where} is nested too deeply to be a result: give another file") from None
    except ValueError as error:
        raise ResultError(f"{where} is not a result: {error}") from None
