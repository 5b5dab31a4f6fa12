"""Which tool wrote a file, and its results whatever it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshperf.loadgen import fortio, oha
from meshperf.loadgen.result import LoadResult, ResultError, decode, parse_json

#: What each kind of result is called in a run's directory; the first one there is read.
FORTIO_JSON, OHA_JSON, OHA_TEXT = "fortio.json", "oha.json", "oha.txt"
#: The file that holds more than the one result of a run, as it was.
ORIGINAL = "original.json"
_KNOWN = "fortio (JSON), Nighthawk (--output-format fortio), Meshery and oha (text or JSON)"


@dataclass(frozen=True, eq=False)
class Recognised:
    """One result of a file.

    Attributes
    ----------
    result : LoadResult
    file_name : str
        What it is called in a run's directory.
    content : bytes
        What is kept there: the file itself, or the one result cut out of it.
    is_whole_file : bool
        Whether `content` is the file, byte for byte.
    """

    result: LoadResult
    file_name: str
    content: bytes
    is_whole_file: bool


def recognise(content: bytes, where: str) -> list[Recognised]:
    """Return the results that a file holds: one, or several where a tool such as Meshery collects them.

    Parameters
    ----------
    content : bytes
        The file.
    where : str
        What to call it in an error.

    Raises
    ------
    ResultError
        One sentence: it is damaged, or of no tool that is known, and what to do.
    """
    text = decode(content, where)
    if "Aggregated Function Time" in text:
        raise ResultError(
            f"{where} is what fortio prints, not its result: run it with -json FILE, and give that file"
        )
    if not text.lstrip().startswith(("{", "[")):
        return [Recognised(_read_text(text, where), OHA_TEXT, content, is_whole_file=True)]
    document = parse_json(text, where)
    if oha.is_document(document):
        return [Recognised(oha.read_document(document, where), OHA_JSON, content, is_whole_file=True)]
    parts = fortio.result_documents(document)
    if not parts:
        _refuse_document(document, where)
    found = fortio.results(document, where)
    if parts == [document]:
        return [Recognised(found[0], FORTIO_JSON, content, is_whole_file=True)]
    return [
        Recognised(result, FORTIO_JSON, _cut_out(part), is_whole_file=False)
        for result, part in zip(found, parts, strict=True)
    ]


def read_run(run: Path) -> LoadResult:
    """Return the load generator's result in a run's directory.

    Raises
    ------
    ResultError
        If it is missing or damaged.
    """
    for name in (OHA_JSON, OHA_TEXT):
        path = run / name
        if path.is_file():
            return oha.read_result(decode(path.read_bytes(), str(path)), str(path))
    return fortio.read_result(run / FORTIO_JSON)


def _read_text(text: str, where: str) -> LoadResult:
    if oha.is_text(text):
        return oha.read_text(text, where)
    raise ResultError(f"{where} is no result of a known load generator: known are {_KNOWN}")


def _refuse_document(document: Any, where: str) -> None:
    """Refuse a JSON document without a result; fortio's own error reports are left to its reader."""
    native = document.get("results") if isinstance(document, dict) else None
    if isinstance(native, list) and any("statistics" in item for item in native if isinstance(item, dict)):
        raise ResultError(
            f"{where} is in Nighthawk's own format, which is not read: convert it with "
            "`nighthawk_output_transform --output-format fortio`, and give the result"
        )
    if not (isinstance(document, dict) and {"Error", "Exception"} & set(document)):
        raise ResultError(f"{where} is no result of a known load generator: known are {_KNOWN}")


def _cut_out(part: dict[str, Any]) -> bytes:
    return (json.dumps(part, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
