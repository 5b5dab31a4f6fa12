"""A campaign: started with its design, sealed when complete, verified ever after, never edited.

``design.json`` is written before anything runs. Sealing writes RO-Crate metadata and, last, ``SHA256SUMS``,
whose presence makes the campaign immutable; then the campaign is entered into the registry.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from meshperf import provenance, runs, storage
from meshperf.design import Arm, RunKey, run_keys, schedule
from meshperf.errors import MeshperfError
from meshperf.paths import repository_root
from meshperf.study import (
    LOCAL_SUFFIX,
    Study,
    analysis_plan_sha256,
    measured_part,
    parse_study,
    study_sha256,
)

DESIGN = "design.json"
CRATE = "ro-crate-metadata.json"
REGISTRY_COLUMNS = (
    "campaign",
    "study",
    "title",
    "testbed",
    "synthetic",
    "n_blocks",
    "n_makeup_blocks",
    "n_runs",
    "n_broken_attempts",
    "started_utc",
    "ended_utc",
    "sha256sums_sha256",
    "licence",
)


def data_dir() -> Path:
    """Return the directory of versioned data in the checkout."""
    return repository_root() / "data"


def directory(campaign: str) -> Path:
    """Return the directory of a campaign by its id, whether or not it exists."""
    return data_dir() / "raw" / campaign


def known() -> tuple[str, ...]:
    """Return the ids of the campaigns on this machine, in order."""
    return tuple(sorted(path.parent.name for path in (data_dir() / "raw").glob(f"*/{DESIGN}")))


def start(
    study: Study, campaign_dir: Path, testbed: Mapping[str, Any], *, synthetic: bool = False
) -> dict[str, Any]:
    """Write the design of a new campaign, or check that a started one has the same; return ``design.json``.

    Parameters
    ----------
    study : Study
        What is to be measured.
    campaign_dir : Path
        ``data/raw/<campaign>``; made if it does not exist.
    testbed : mapping
        The description of the testbed; ``kind`` is required, and is the same for all runs of a campaign.
    synthetic : bool
        Whether the latencies are simulated: shown wherever the data are.

    Raises
    ------
    MeshperfError
        If the campaign was started with another design or on another kind of testbed.
    """
    path = campaign_dir / DESIGN
    if path.exists():
        design = check_design(study, campaign_dir)
        if design["testbed"]["kind"] != testbed["kind"]:
            raise MeshperfError(
                f"the campaign {campaign_dir} was started on a testbed of kind {design['testbed']['kind']}, "
                f"not {testbed['kind']}: continue there, or give `campaign` in the study file another id"
            )
        return design
    design = {
        "schema_version": runs.SCHEMA_VERSION,
        "campaign": study.campaign,
        "study": study.model_dump(mode="json"),
        "study_sha256": study_sha256(study),
        "analysis_plan_sha256": analysis_plan_sha256(study),
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "testbed": dict(testbed),
        "seed": study.seed,
        "synthetic": synthetic,
        "schedule": _schedule_record(study),
        "meshperf": provenance.code(),
        "environment": provenance.environment(),
    }
    storage.write_file(path, _json_bytes(design))
    return design


def read_design(campaign_dir: Path) -> dict[str, Any]:
    """Read ``design.json``.

    Raises
    ------
    MeshperfError
        If there is no such campaign or the file is damaged.
    """
    path = campaign_dir / DESIGN
    try:
        design = json.loads(path.read_bytes())
        missing = {"campaign", "study", "study_sha256", "created_utc", "testbed"} - set(design)
    except FileNotFoundError:
        names = ", ".join(known()) or "none yet"
        raise MeshperfError(
            f"there is no campaign in {campaign_dir} (no {DESIGN}): known campaigns are {names}"
        ) from None
    except (ValueError, TypeError) as error:
        raise MeshperfError(
            f"{path} is truncated or not JSON ({error}): restore it from version control"
        ) from None
    if missing:
        raise MeshperfError(f"{path} lacks {', '.join(sorted(missing))}: restore it from version control")
    return design


def read_study(campaign_dir: Path) -> Study:
    """Return the study that a campaign was started with."""
    return parse_study(read_design(campaign_dir)["study"], f"the study in {campaign_dir / DESIGN}")


def check_design(study: Study, campaign_dir: Path) -> dict[str, Any] | None:
    """Return ``design.json``, or None if the campaign has not been started.

    Raises
    ------
    MeshperfError
        If the campaign was started with another design than the study's.
    """
    if not (campaign_dir / DESIGN).exists():
        return None
    design = read_design(campaign_dir)
    if design["study_sha256"] == study_sha256(study):
        return design
    started = measured_part(parse_study(design["study"], f"the study in {campaign_dir / DESIGN}"))
    wanted = measured_part(study)
    differing = (
        ", ".join(sorted(name for name in wanted if wanted[name] != started[name])) or "its recorded hash"
    )
    removal = f", or remove {campaign_dir}" if study.is_local else ""
    raise MeshperfError(
        f"the campaign {campaign_dir} was started with another design (it differs in {differing}): "
        f"restore the study file, or give `campaign` in it another id{removal}"
    )


def seal(campaign_dir: Path) -> Path:
    """Finish a complete campaign for good, and return its ``SHA256SUMS``. Sealing again changes nothing.

    Raises
    ------
    MeshperfError
        If runs are missing, or a sealed campaign is not as it was sealed.
    """
    sums = campaign_dir / runs.CHECKSUMS
    study = read_study(campaign_dir)
    with storage.exclusive(campaign_dir, "writing into"):
        if not sums.exists():
            runs.clean_stale(campaign_dir)
            _remove_notes(campaign_dir)
            _refuse_problems(campaign_dir, list(_content_problems(campaign_dir, study)))
            storage.write_file(campaign_dir / CRATE, _crate(campaign_dir, study))
            lines = [f"{_sha256(campaign_dir / name)}  {name}\n" for name in _file_names(campaign_dir)]
            storage.write_file(sums, "".join(lines).encode())
        else:
            _refuse_problems(campaign_dir, list(checksum_problems(campaign_dir)))
    _register(campaign_dir, study)
    return sums


def verify(campaign_dir: Path, study: Study | None = None) -> list[str]:
    """Return what is wrong with a campaign, one sentence each: empty if all is as it was measured.

    Parameters
    ----------
    campaign_dir : Path
        A sealed campaign.
    study : Study, optional
        What the campaign should have measured; what it was started with if None.
    """
    try:
        read_design(campaign_dir)
        if study is None:
            study = read_study(campaign_dir)
        check_design(study, campaign_dir)
    except MeshperfError as error:
        return [str(error)]
    return [*checksum_problems(campaign_dir), *_content_problems(campaign_dir, study)]


def _schedule_record(study: Study) -> list[dict[str, Any]]:
    return [
        {
            "order": deployment.order,
            "block": deployment.block,
            "mesh": deployment.arm.mesh,
            "configuration": deployment.arm.configuration,
            "deployment": deployment.deployment,
            "target_rps": list(deployment.target_rps),
        }
        for deployment in schedule(study)
    ]


def _refuse_problems(campaign_dir: Path, problems: list[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise MeshperfError(f"the campaign {campaign_dir} cannot be sealed: {problems[0]}{more}")


def checksum_problems(campaign_dir: Path) -> Iterator[str]:
    """Yield a sentence for each file of a sealed campaign that was changed, deleted or added since."""
    sums = campaign_dir / runs.CHECKSUMS
    if not sums.exists():
        yield (
            f"{campaign_dir} is not sealed (no {runs.CHECKSUMS}): "
            f"finish measuring it, then run `meshperf data seal {campaign_dir.name}`"
        )
        return
    expected = {}
    for number, line in enumerate(sums.read_text(encoding="utf-8").splitlines(), 1):
        match = re.fullmatch(r"([0-9a-f]{64})  (\S.*)", line)
        if not match:
            yield f"{sums} is damaged in line {number}: restore it from version control"
            continue
        expected[match[2]] = match[1]
    present = set(_file_names(campaign_dir))
    for name in sorted(set(expected) - present):
        yield f"{campaign_dir / name} was deleted: restore it from version control"
    for name in sorted(present - set(expected)):
        yield f"{campaign_dir / name} does not belong to the sealed campaign: remove it"
    for name in sorted(present & set(expected)):
        if _sha256(campaign_dir / name) != expected[name]:
            yield f"{campaign_dir / name} was changed (its SHA-256 differs): restore it from version control"
    registered = _registered(campaign_dir)
    if registered and registered["sha256sums_sha256"] != _sha256(sums):
        yield f"{sums} is not the one that was registered in {_registry(campaign_dir)}: restore both"


def _content_problems(campaign_dir: Path, study: Study) -> Iterator[str]:
    """Yield what the campaign lacks or should not have, and what cannot be read."""
    if read_design(campaign_dir).get("schedule") not in (None, _schedule_record(study)):
        yield f"the schedule in {campaign_dir / DESIGN} is not the one that its seed gives: restore the file"
    if study.imported is not None:
        yield from _import_problems(campaign_dir)
        return
    present = []
    damaged = False
    for key in runs.iter_keys(campaign_dir):
        try:
            _read_run(campaign_dir, key)
        except MeshperfError as error:
            damaged = True
            yield str(error)
        present.append(key)
    # Which make-up blocks belong to the design depends on the verdicts, so they must be readable first.
    planned = run_keys(schedule(study, 0 if damaged else runs.makeup_blocks(study, campaign_dir)))
    for key in planned:
        if not runs.is_complete(campaign_dir, key):
            yield (
                f"the run {runs.run_dir(campaign_dir, key)} of the design is missing: "
                "restore it from version control, or measure it (`meshperf run`)"
            )
    if not damaged:
        for key in sorted(set(present) - set(planned)):
            yield f"the run {runs.run_dir(campaign_dir, key)} is not part of the design: remove it"


def _import_problems(campaign_dir: Path) -> Iterator[str]:
    """Yield what is wrong with an imported campaign, which has no order and no plan to be compared with."""
    connections: dict[tuple[Arm, int], dict[Any, RunKey]] = {}
    for key in runs.iter_keys(campaign_dir):
        run = runs.run_dir(campaign_dir, key)
        try:
            record = _read_run(campaign_dir, key)
            origin = record["imported"]
            if _sha256(run / origin["original"]) != origin["sha256"]:
                yield f"{run / origin['original']} is not the file that was imported: restore it, or import it again"
        except (KeyError, TypeError, OSError):
            yield f"{run / runs.RECORD} does not say what was imported: remove {run} and import it again"
        except MeshperfError as error:
            yield str(error)
        else:
            load = record["load"]
            connections.setdefault((key.arm, key.target_rps), {}).setdefault(load["connections"], key)
    for (arm, target_rps), found in connections.items():
        if len(found) > 1:
            loads = " and ".join(f"{number or 'unknown'} ({key})" for number, key in found.items())
            yield (
                f"the runs of {arm} at {target_rps} RPS have different numbers of connections, {loads}, and so do not "
                "repeat each other: import each number into a campaign of its own (--connections)"
            )


def _read_run(campaign_dir: Path, key: RunKey) -> dict[str, Any]:
    """Read a run's record and result, and return the record.

    Raises
    ------
    MeshperfError
        If one is damaged, or belongs to another run.
    """
    from meshperf.loadgen.recognise import read_run

    run = runs.run_dir(campaign_dir, key)
    record = runs.read_record(run)
    if record["key"] != runs.key_record(key) or record["campaign"] != campaign_dir.name:
        raise MeshperfError(
            f"{run / runs.RECORD} is the record of another run: restore it from version control"
        )
    read_run(run)
    return record


def _file_names(campaign_dir: Path) -> list[str]:
    """Return the campaign's files, relative to it and sorted, without ``SHA256SUMS``."""
    return sorted(
        path.relative_to(campaign_dir).as_posix()
        for path in campaign_dir.rglob("*")
        if path.is_file() and path != campaign_dir / runs.CHECKSUMS
    )


def _registry(campaign_dir: Path) -> Path:
    name = "campaigns-local.csv" if campaign_dir.name.endswith(LOCAL_SUFFIX) else "campaigns.csv"
    return campaign_dir.parents[1] / name


def _read_registry(path: Path) -> dict[str, dict[str, str]]:
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as handle:
        return {row["campaign"]: row for row in csv.DictReader(handle)}


def _registered(campaign_dir: Path) -> dict[str, str] | None:
    return _read_registry(_registry(campaign_dir)).get(campaign_dir.name)


def _register(campaign_dir: Path, study: Study) -> None:
    path = _registry(campaign_dir)
    rows = _read_registry(path)
    entry = {name: str(value) for name, value in _summary(campaign_dir, study).items()}
    if rows.get(campaign_dir.name) == entry:
        return
    rows[campaign_dir.name] = entry
    text = io.StringIO()
    writer = csv.DictWriter(text, REGISTRY_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[name] for name in sorted(rows))
    with storage.exclusive(path.parent, "writing the registry in"):
        storage.write_file(path, text.getvalue().encode())


def _summary(campaign_dir: Path, study: Study) -> dict[str, Any]:
    design = read_design(campaign_dir)
    keys = list(runs.iter_keys(campaign_dir))
    started, ended = _period(campaign_dir)
    return {
        "campaign": campaign_dir.name,
        "study": study.study,
        "title": study.title,
        "testbed": design["testbed"]["kind"],
        "synthetic": str(bool(design.get("synthetic"))).lower(),
        "n_blocks": study.blocks,
        "n_makeup_blocks": len({key.block for key in keys if key.block > study.blocks}),
        "n_runs": len(keys),
        "n_broken_attempts": len(runs.read_attempts(campaign_dir)),
        "started_utc": started,
        "ended_utc": ended,
        "sha256sums_sha256": _sha256(campaign_dir / runs.CHECKSUMS),
        "licence": "CC-BY-4.0" if study.imported is None else study.imported.licence or "unknown",
    }


def _remove_notes(campaign_dir: Path) -> None:
    """Remove the note of an attempt whose process was killed after the run was written: nothing was broken."""
    attempts = campaign_dir / runs.ATTEMPTS
    for path in attempts.glob(".*"):
        path.unlink()
    if attempts.is_dir() and not any(attempts.iterdir()):
        attempts.rmdir()


def _period(campaign_dir: Path) -> tuple[str, str]:
    """Return when the first run started and the last one ended, as ISO 8601; empty where no run says it."""
    loads = [
        runs.read_record(runs.run_dir(campaign_dir, key))["load"] for key in runs.iter_keys(campaign_dir)
    ]
    started, ended = (
        [load[name] for load in loads if load[name] is not None] for name in ("started_utc", "ended_utc")
    )
    return (
        min(started, key=datetime.fromisoformat, default=""),
        max(ended, key=datetime.fromisoformat, default=""),
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _json_bytes(content: Any) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _crate(campaign_dir: Path, study: Study) -> bytes:
    from meshperf import crate  # the library behind it is slow to import

    design = read_design(campaign_dir)
    started, ended = _period(campaign_dir)
    files = [*_file_names(campaign_dir), runs.CHECKSUMS]
    return _json_bytes(
        crate.metadata(
            campaign_dir,
            sorted(name for name in files if name != CRATE),
            title=study.title,
            started_utc=started,
            ended_utc=ended,
            published_utc=design["created_utc"] if study.imported else ended,
            synthetic=bool(design.get("synthetic")),
            imported=study.imported,
            code=design.get("meshperf", {}),
        )
    )
