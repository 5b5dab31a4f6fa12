"""The record of an imported run: what its file says in the fields of our own, null for all else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from meshperf import provenance, runs
from meshperf.design import RunKey
from meshperf.importing import judging
from meshperf.loadgen.result import LoadResult
from meshperf.study import Study


@dataclass(frozen=True)
class Origin:
    """Where a run comes from.

    Attributes
    ----------
    file : str
        Name of the file, with its folders as far as they were given.
    sha256 : str
        Of the file.
    part : int
        Which result in it, from 1.
    original : str
        What the untouched file is called in the run's directory.
    imported_utc : datetime
    stated : dict
        What was stated from outside of the file: by whoever imported it.
    numbered : bool
        Whether the block is no more than the order of time among repetitions.
    """

    file: str
    sha256: str
    part: int
    original: str
    imported_utc: datetime
    stated: dict[str, str | int]
    numbered: bool


def record(study: Study, key: RunKey, order: int, result: LoadResult, origin: Origin) -> dict[str, Any]:
    """Return ``run.json`` of an imported run.

    Parameters
    ----------
    study : Study
        Of the campaign; its analysis decides the gates.
    key : RunKey
    order : int
        Place among the imported runs, from 1.
    result : LoadResult
    origin : Origin

    Notes
    -----
    ``load.duration_s`` is how long the run took: what was asked for is ``load.duration_requested_s``.
    ``load.target_rps`` is null where the file and whoever imported it say nothing, or "no limit";
    ``load.rate_limited`` tells the two apart.
    """
    judged = judging.judge(
        result,
        key.target_rps,
        quantiles=study.quantiles,
        rate_tiers=study.analysis.rate_tiers,
        max_error_ratio=study.analysis.max_error_ratio,
    )
    started = result.started.astimezone(UTC) if result.started else None
    ended = started + timedelta(seconds=result.duration_s) if started and result.duration_s >= 0 else None
    return {
        "schema_version": runs.SCHEMA_VERSION,
        "campaign": study.campaign,
        "study": study.study,
        "key": runs.key_record(key),
        "order": order,
        "attempt": 1,
        "load": {
            "generator": result.generator,
            "version": result.version or None,
            "argv": None,
            "connections": result.connections,
            "duration_s": _known(result.duration_s),
            "duration_requested_s": _known(result.duration_requested_s),
            "warmup_s": None,
            "resolution_s": result.resolution_s,
            "offset_s": result.offset_s,
            "payload_bytes": None,
            "uniform": result.uniform,
            "catch_up": result.catch_up,
            "rate_limited": True if key.target_rps else result.rate_limited,
            "target_rps": key.target_rps or None,
            "achieved_rps": _known(result.achieved_rps),
            "started_utc": _utc(started),
            "ended_utc": _utc(ended),
        },
        "proof": {"passed": None, "checks": [], "detail": "not available: imported"},
        "quality": judged.to_dict(),
        "omission": judging.omission(result, key.target_rps),
        "latency": {
            "n_requests": result.n,
            "n_errors": result.n_errors,
            "n_errors_among_latencies": result.n_errors_in_histogram,
            "min_s": _known(result.min_s),
            "max_s": _known(result.max_s),
            "sum_s": _known(result.sum_s),
            "rounding_s": result.rounding_s,
            "percentiles_s": {f"{p:g}": value for p, value in sorted(result.percentiles.items())},
            "return_codes": result.return_codes,
        },
        "resources": {"containers": []},
        "versions": {result.generator: result.version or None},
        "node": {},
        "testbed": {"kind": "imported"},
        "imported": {
            "file": origin.file,
            "sha256": origin.sha256,
            "part": origin.part,
            "original": origin.original,
            "imported_utc": _utc(origin.imported_utc),
            "stated": origin.stated,
            "block_is_numbered": origin.numbered,
            "labels": result.labels or None,
            "url": result.url or None,
            "notes": list(result.notes),
            "contradictions": list(result.contradictions),
        },
        "meshperf": provenance.code(),
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _utc(time: datetime | None) -> str | None:
    return time.isoformat().replace("+00:00", "Z") if time else None
