"""Runs on disk: one directory each, written whole or not at all, and what is still to be measured.

Layout below ``data/raw/<campaign>/``::

    <mesh>/<configuration>/<rps>/block-<NN>-<k>/   fortio.json run.json slices.csv.gz resources.csv.gz
                                                   (imported: run.json and fortio.json, oha.json or oha.txt)
    attempts/<mesh>/<configuration>/<rps>/block-<NN>-<k>-attempt-<n>.json

A run directory appears by one rename, so that a run that exists is complete. An attempt that the
infrastructure broke leaves a record below ``attempts/`` and no run.
"""

import glob
import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from meshperf import storage
from meshperf.design import Cell, RunKey, run_keys, schedule
from meshperf.design import cells as design_cells
from meshperf.errors import MeshperfError
from meshperf.study import Study

#: Of ``run.json`` and ``design.json``.
SCHEMA_VERSION = 1

RECORD = "run.json"
#: The load generator's output, byte for byte.
RESULT = "fortio.json"
SLICES = "slices.csv.gz"
RESOURCES = "resources.csv.gz"
#: Its presence seals a campaign.
CHECKSUMS = "SHA256SUMS"
ATTEMPTS = "attempts"

SLICES_COLUMNS = ("slice", "start_s", "bin_low_s", "bin_high_s", "count")
RESOURCES_COLUMNS = (
    "time_unix_s",
    "role",
    "namespace",
    "pod",
    "container",
    "cpu_usage_s",
    "working_set_bytes",
    "throttled_periods",
    "periods",
)

Verdict = Literal["ok", "degraded", "saturated", "failed"]


class _Part(BaseModel):
    # What a tool adds is kept; what analyses rely on must be there.
    model_config = ConfigDict(extra="allow", frozen=True)


class _Key(_Part):
    mesh: str
    configuration: str
    target_rps: int
    block: int
    deployment: int


class _Load(_Part):
    # Null only in imported runs: see RunRecord.
    generator: str
    version: str | None
    argv: list[str] | None
    connections: int | None
    duration_s: float | None
    warmup_s: float | None
    target_rps: float | None
    achieved_rps: float | None
    started_utc: datetime | None
    ended_utc: datetime | None


class _Gate(_Part):
    name: str
    status: Literal["pass", "warn", "fail", "not-available"]
    detail: str


class _Quality(_Part):
    verdict: Verdict
    gates: list[_Gate]
    reasons: list[str]


class _Proof(_Part):
    passed: bool | None


class _Import(_Part):
    file: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    part: int = Field(ge=1)
    original: str
    imported_utc: datetime


class _Container(_Part):
    role: str
    namespace: str
    pod: str
    container: str
    cpu_s: float
    cores: float
    working_set_bytes_median: float
    working_set_bytes_max: float


class _Resources(_Part):
    containers: list[_Container]


class RunRecord(_Part):
    """What ``run.json`` must hold; more is allowed (contract of each part: its own module)."""

    schema_version: Literal[1]
    campaign: str
    study: str
    key: _Key
    order: int = Field(ge=1)
    attempt: int = Field(ge=1)
    load: _Load
    proof: _Proof
    quality: _Quality
    omission: dict[str, float | None]
    resources: _Resources
    versions: dict[str, Any]
    node: dict[str, Any]
    testbed: dict[str, Any]
    meshperf: dict[str, Any]
    #: Where the run comes from, if others measured it.
    imported: _Import | None = None

    @model_validator(mode="after")
    def _measured_is_known(self) -> "RunRecord":
        if self.imported is None:
            unknown = [name for name in _Load.model_fields if getattr(self.load, name) is None]
            if unknown or self.proof.passed is None:
                raise ValueError(
                    f"{unknown[0] if unknown else 'proof.passed'} is null and the run not imported"
                )
        return self


def run_dir(campaign_dir: Path, key: RunKey) -> Path:
    """Return where a run is, or will be."""
    return campaign_dir / key.relative_path()


def is_complete(campaign_dir: Path, key: RunKey) -> bool:
    """Return whether a run has been measured."""
    return (run_dir(campaign_dir, key) / RECORD).is_file()


def is_sealed(campaign_dir: Path) -> bool:
    """Return whether a campaign is finished for good."""
    return (campaign_dir / CHECKSUMS).exists()


def write_run(campaign_dir: Path, key: RunKey, files: Mapping[str, bytes], record: Mapping[str, Any]) -> Path:
    """Write a run, whole or not at all, and return its directory.

    Parameters
    ----------
    campaign_dir : Path
        An existing campaign that is not sealed.
    key : RunKey
        The run's identity.
    files : mapping of str to bytes
        ``fortio.json``, ``slices.csv.gz`` and ``resources.csv.gz``, as they are to be kept.
    record : mapping
        The content of ``run.json``. What is not a number (NaN, infinity) becomes null: JSON has no word for it.

    Raises
    ------
    MeshperfError
        If the run exists, the campaign is sealed, or the disk is full; nothing is left half-written then.
    ValueError
        If the record is not what ``run.json`` must hold, or is another run's.
    """
    _refuse_sealed(campaign_dir)
    record = _plain(record)
    try:
        valid = RunRecord.model_validate(record)
    except ValidationError as error:
        raise ValueError(f"the record of {key} is not valid: {error}") from error
    if RunKey(**valid.key.model_dump()) != key:
        raise ValueError(f"the record of {key} has the key {valid.key!r}")
    target = run_dir(campaign_dir, key)
    storage.write_directory(target, {**files, RECORD: _json_bytes(record)}, campaign_dir)
    return target


def read_record(path: str | Path) -> dict[str, Any]:
    """Read ``run.json``.

    Parameters
    ----------
    path : str or Path
        The file, or the run's directory.

    Raises
    ------
    MeshperfError
        If it is missing, truncated or not a record of a run.
    """
    path = Path(path)
    if path.is_dir():
        path = path / RECORD
    content = _read_json(path)
    try:
        RunRecord.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise MeshperfError(
            f"{path} is not the record of a run ({where}: {first['msg'].lower()}): "
            "restore it from version control"
        ) from None
    return content


def iter_keys(campaign_dir: Path) -> Iterator[RunKey]:
    """Yield the keys of the runs on disk, in the order of their paths."""
    # Unlike Path.glob, glob bears that a directory is renamed meanwhile, and leaves hidden ones alone.
    records = glob.iglob(f"*/*/*/block-*/{RECORD}", root_dir=campaign_dir)  # noqa: PTH207
    for path in sorted(records):
        try:
            key = RunKey.parse(PurePath(path).parent)
        except ValueError:
            continue
        yield key


def write_attempt(campaign_dir: Path, key: RunKey, record: Mapping[str, Any]) -> Path:
    """Keep the record of an attempt that was broken, and return its file.

    Parameters
    ----------
    campaign_dir : Path
        An existing campaign that is not sealed.
    key : RunKey
        The run that was attempted.
    record : mapping
        ``started_utc``, ``ended_utc``, ``reason``, ``phase``, ...; ``key`` and ``attempt`` are added.

    Raises
    ------
    MeshperfError
        If the campaign is sealed or the disk is full.
    """
    _refuse_sealed(campaign_dir)
    number = next_attempt(campaign_dir, key)
    path = _attempt_path(campaign_dir, key, number)
    identity = {"schema_version": SCHEMA_VERSION, "key": key_record(key), "attempt": number}
    storage.write_file(path, _json_bytes(_plain({**record, **identity})))
    return path


def next_attempt(campaign_dir: Path, key: RunKey) -> int:
    """Return the number of the next attempt at a run: 1 if none has been broken."""
    number = 1
    while _attempt_path(campaign_dir, key, number).exists():
        number += 1
    return number


def read_attempts(campaign_dir: Path) -> list[dict[str, Any]]:
    """Return the records of all broken attempts, oldest first."""
    records = [_read_json(path) for path in (campaign_dir / ATTEMPTS).glob("*/*/*/block-*.json")]
    return sorted(
        records, key=lambda record: (record.get("started_utc") or "", sorted(record["key"].items(), key=str))
    )


def cells(study: Study, campaign_dir: Path) -> tuple[Cell, ...]:
    """Return the cells of a study, the baseline's first; of an imported campaign, those that have a run."""
    planned = design_cells(study)
    if study.imported is None:
        return planned
    present = {(key.arm, key.target_rps) for key in iter_keys(campaign_dir)}
    return tuple(cell for cell in planned if (cell.arm, cell.target_rps) in present)


def makeup_blocks(study: Study, campaign_dir: Path) -> int:
    """Return how many make-up blocks the verdicts on disk ask for; none of an imported campaign.

    One for each block with a failed run, a failed make-up block included, at most ``study.makeup_blocks``.
    The whole block is repeated, never the lone arm: that would select.
    """
    if study.imported is not None:
        return 0
    failed = {
        key.block
        for key in iter_keys(campaign_dir)
        if read_record(run_dir(campaign_dir, key))["quality"]["verdict"] == "failed"
    }
    return min(len(failed), study.makeup_blocks)


def pending(study: Study, campaign_dir: Path) -> tuple[RunKey, ...]:
    """Return the runs that are still to be measured, make-up blocks included, in measuring order.

    Raises
    ------
    MeshperfError
        If a sealed campaign lacks a run: its data have been damaged, and are not to be mended by measuring; or
        if the campaign was imported.
    """
    study.require_measured()
    planned = run_keys(schedule(study, makeup_blocks(study, campaign_dir)))
    missing = tuple(key for key in planned if not is_complete(campaign_dir, key))
    if missing and is_sealed(campaign_dir):
        raise MeshperfError(
            f"the sealed campaign {campaign_dir} lacks the run {missing[0]}: restore it from version "
            "control, or give `campaign` in the study file another id to measure again"
        )
    return missing


def clean_stale(campaign_dir: Path) -> list[Path]:
    """Remove what writers that were killed left behind, and return it."""
    return storage.remove_leftovers(campaign_dir) if campaign_dir.is_dir() else []


def key_record(key: RunKey) -> dict[str, str | int]:
    """Return a key as ``run.json`` holds it."""
    return {
        "mesh": key.mesh,
        "configuration": key.configuration,
        "target_rps": key.target_rps,
        "block": key.block,
        "deployment": key.deployment,
    }


def _attempt_path(campaign_dir: Path, key: RunKey, number: int) -> Path:
    run = run_dir(campaign_dir / ATTEMPTS, key)
    return run.with_name(f"{run.name}-attempt-{number}.json")


def _refuse_sealed(campaign_dir: Path) -> None:
    if is_sealed(campaign_dir):
        raise MeshperfError(
            f"the campaign {campaign_dir} is sealed and never edited: "
            "give `campaign` in the study file another id to measure again"
        )


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: None for NaN and infinity, Python's numbers for NumPy's."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json_bytes(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MeshperfError(
            f"{path} is missing: restore it from version control, or measure the run again"
        ) from None
    except ValueError as error:
        raise MeshperfError(
            f"{path} is truncated or not JSON ({error}): restore it from version control"
        ) from None
    if not isinstance(content, dict):
        raise MeshperfError(f"{path} is not a JSON object: restore it from version control")
    return content
