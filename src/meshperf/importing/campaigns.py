"""From foreign files to a campaign: planned as a whole, then written run by run, each whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from meshperf import campaign, provenance, runs, storage
from meshperf.design import BASELINE, RunKey
from meshperf.errors import MeshperfError
from meshperf.importing.identity import Claim, Refused, Rules
from meshperf.importing.records import Origin, record
from meshperf.loadgen import recognise
from meshperf.loadgen.result import LoadResult, ResultError
from meshperf.study import Study, analysis_plan_sha256, load_study, parse_study, study_sha256

#: Files of a folder that may be results; the others in it are left out.
_SUFFIXES = (".json", ".txt", ".out", ".log")
#: No result of a load generator is as large; reading one that is would fill the memory.
_MAX_BYTES = 64 << 20
_MAX_BLOCK = 99


@dataclass
class Outcome:
    """What became of the files.

    Attributes
    ----------
    imported : list of (str, RunKey, tuple of str)
        Name, run, and what a reader of its numbers must know.
    refused : list of (str, str)
        Name and reason with its remedy.
    skipped : list of (str, str)
        Name and reason of those that are there already, or were not asked for.
    mixed : list of str
        Cells whose runs have different numbers of connections, which a sealed campaign must not have.
    n_files : int
    campaign_dir, study_path : Path
    """

    n_files: int
    campaign_dir: Path
    study_path: Path
    imported: list[tuple[str, RunKey, tuple[str, ...]]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """One result that may become a run."""

    name: str
    file: str
    sha256: str
    part: int
    content: bytes
    found: recognise.Recognised
    result: LoadResult
    claim: Claim
    target_rps: int

    @property
    def cell(self) -> tuple[str, str, int, int]:
        return (
            str(self.claim.mesh),
            str(self.claim.configuration),
            self.target_rps,
            self.claim.deployment or 1,
        )


def import_files(
    paths: Iterable[Path],
    campaign_dir: Path,
    rules: Rules,
    *,
    connections: int | None = None,
    title: str | None = None,
    source: str | None = None,
    licence: str | None = None,
    dry_run: bool = False,
) -> Outcome:
    """Import foreign results into a campaign; files that cannot be are refused one by one, the others imported.

    Parameters
    ----------
    paths : iterable of Path
        Files, and folders, of which all ``.json``, ``.txt``, ``.out`` and ``.log`` files are taken.
    campaign_dir : Path
        Of a new or an unsealed imported campaign; its name is the campaign's id.
    rules : Rules
        How to tell which run a file is.
    connections : int, optional
        Only results with so many are imported; it is taken for granted where a file does not say.
    title, source, licence : str, optional
        Of the campaign; what it had before if None.
    dry_run : bool
        Whether to write nothing.

    Raises
    ------
    MeshperfError
        If there is no file, the campaign is sealed or was measured, or the disk is full.
    """
    files = list(_files(paths))
    if not files:
        raise MeshperfError(
            "there is no file to import: name files, or folders with .json or .txt files in them"
        )
    with contextlib.nullcontext() if dry_run else _alone(campaign_dir.parent):
        return _import(files, campaign_dir, rules, connections, (title, source, licence), dry_run)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the directory of all campaigns: what is free is decided before anything is written."""
    directory.mkdir(parents=True, exist_ok=True)
    with storage.exclusive(directory, "importing into"):
        yield


def _import(
    files: Sequence[tuple[str, Path]],
    campaign_dir: Path,
    rules: Rules,
    connections: int | None,
    about: tuple[str | None, str | None, str | None],
    dry_run: bool,
) -> Outcome:
    study_path = campaign_dir.parent / f"{campaign_dir.name}.yaml"
    before = _study_before(campaign_dir, study_path)
    outcome = Outcome(len({path for _, path in files}), campaign_dir, study_path)
    present = {key: runs.read_record(runs.run_dir(campaign_dir, key)) for key in runs.iter_keys(campaign_dir)}
    known = {_identity(kept): key for key, kept in present.items()}
    wanted = list(_candidates(files, rules, connections, known, outcome))
    planned = _keyed(wanted, set(present), outcome)
    outcome.imported = [(item.name, key, item.result.notes) for item, key, _ in planned]
    connections_of = {key: kept["load"]["connections"] for key, kept in present.items()}
    outcome.mixed = _mixed(connections_of | {key: item.result.connections for item, key, _ in planned})
    if dry_run or not planned:
        return outcome
    study = _study(campaign_dir.name, before, {*present, *(key for _, key, _ in planned)}, *about)
    campaign_dir.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).replace(microsecond=0)
    with storage.exclusive(campaign_dir, "importing into"):
        runs.clean_stale(campaign_dir)
        _write_design(campaign_dir, study, now)
        storage.write_file(study_path, _study_yaml(study))
        for order, (item, key, numbered) in enumerate(planned, len(present) + 1):
            _write(campaign_dir, study, key, order, item, numbered, now)
    return outcome


# ---- reading


def _files(paths: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Yield names and paths; a file of a folder is called by its path in it."""
    for path in paths:
        if path.is_dir():
            for inner in sorted(path.rglob("*")):
                if inner.suffix.lower() in _SUFFIXES and inner.is_file():
                    yield inner.relative_to(path).as_posix(), inner
        else:
            yield path.name, path


def _candidates(
    files: Sequence[tuple[str, Path]],
    rules: Rules,
    connections: int | None,
    known: dict[tuple[str, int], RunKey],
    outcome: Outcome,
) -> Iterator[_Candidate]:
    seen: dict[str, str] = {}
    for name, path in files:
        try:
            content = _read(path)
            digest = hashlib.sha256(content).hexdigest()
            if digest in seen:
                outcome.skipped.append((name, f"it is the same file as {seen[digest]}"))
                continue
            seen[digest] = name
            found = recognise.recognise(content, name)
        except ResultError as error:
            outcome.refused.append((name, str(error).removeprefix(f"{name} ")))
            continue
        for part, item in enumerate(found, 1):
            label = name if len(found) == 1 else f"{name}#{part}"
            try:
                claim = rules.claim(path, part, len(found))
                result, target_rps = _reconciled(item.result, claim, connections)
                candidate = _Candidate(label, name, digest, part, content, item, result, claim, target_rps)
                there = known.get((digest, part))
                if there is not None:
                    _refuse_other_key(candidate, there)
                    outcome.skipped.append((label, f"it is there already, as {there}"))
                elif connections is not None and candidate.result.connections != connections:
                    outcome.skipped.append((label, f"it has {candidate.result.connections} connections"))
                else:
                    yield candidate
            except Refused as error:
                outcome.refused.append((label, str(error)))


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ResultError(
                f"is larger than {_MAX_BYTES >> 20} MiB, as no result is: give the load generator's own"
            )
        return path.read_bytes()
    except OSError as error:
        raise ResultError(f"cannot be read ({error.strerror or error}): name a file that can") from None


def _reconciled(result: LoadResult, claim: Claim, connections: int | None) -> tuple[LoadResult, int]:
    """Return a result completed by what is stated of it, and its target rate: they must not contradict each other."""
    if result.connections is None:
        result = replace(result, connections=connections if claim.connections is None else claim.connections)
    elif claim.connections not in (None, result.connections):
        raise Refused(
            f"it has {result.connections} connections, and {claim.connections} are stated: correct that"
        )
    return result, _target_rps(result, claim)


def _target_rps(result: LoadResult, claim: Claim) -> int:
    """Return the target rate in whole requests per second, 0 for none or none known."""
    if result.rate_limited is None:
        return claim.target_rps or 0
    own = result.target_rps_requested or 0.0
    if claim.target_rps is not None and claim.target_rps != own:
        says = f"a target of {own:g} RPS" if own else "no rate limit"
        other = f"{claim.target_rps} RPS" if claim.target_rps else "no limit"
        raise Refused(f"it says {says}, and {other} is stated: correct that, or leave it to the file")
    if own != int(own):
        raise Refused(
            f"its target of {own:g} RPS is not a whole number, which runs are told apart by: leave it out"
        )
    return int(own)


def _identity(kept: dict[str, Any]) -> tuple[str, int]:
    origin = kept.get("imported") or {}
    return origin.get("sha256", ""), origin.get("part", 0)


def _refuse_other_key(candidate: _Candidate, there: RunKey) -> None:
    """Refuse a file that was imported as another run than the one that is stated now."""
    wanted = replace(candidate.claim, target_rps=candidate.target_rps, connections=None)
    differing = [
        part.name
        for part in fields(Claim)
        if (value := getattr(wanted, part.name)) is not None and value != getattr(there, part.name)
    ]
    if differing:
        raise Refused(
            f"it is there already as {there}, which is another {differing[0]} than is stated now: state the same, or "
            "remove that run's directory and import it again"
        )


# ---- planning


def _keyed(
    wanted: Sequence[_Candidate], taken: set[RunKey], outcome: Outcome
) -> list[tuple[_Candidate, RunKey, bool]]:
    """Give each candidate its run: the block that is stated, or the next free one of its cell in order of time."""
    stated = [item for item in wanted if item.claim.block is not None]
    others = sorted((item for item in wanted if item.claim.block is None), key=_by_time)
    planned: list[tuple[_Candidate, RunKey, bool]] = []
    names = {}
    for item in (*stated, *others):
        mesh, configuration, target_rps, deployment = item.cell
        block = item.claim.block or 1
        key = RunKey(mesh, configuration, target_rps, block, deployment)
        while item.claim.block is None and key in taken:
            key = replace(key, block=key.block + 1)
        if key in taken:
            other = f"by {names[key]}" if key in names else "by another file"
            reason = f"its run {key} is taken {other}: state another block, deployment or configuration"
            outcome.refused.append((item.name, reason))
        elif key.block > _MAX_BLOCK:
            reason = f"{key.arm} at {target_rps} RPS has {_MAX_BLOCK} runs already: use another campaign"
            outcome.refused.append((item.name, reason))
        else:
            taken.add(key)
            names[key] = item.name
            planned.append((item, key, item.claim.block is None))
    return planned


def _by_time(item: _Candidate) -> tuple[bool, datetime, str]:
    """Order by the time of start, then by name; results without a time last."""
    started = item.result.started
    return started is None, started or datetime.min.replace(tzinfo=UTC), item.name


def _mixed(connections: dict[RunKey, int | None]) -> list[str]:
    found: dict[str, set[int | None]] = {}
    for key, number in connections.items():
        found.setdefault(f"{key.arm} at {key.target_rps} RPS", set()).add(number)
    return sorted(cell for cell, numbers in found.items() if len(numbers) > 1)


# ---- writing


def _write(
    campaign_dir: Path, study: Study, key: RunKey, order: int, item: _Candidate, numbered: bool, now: datetime
) -> None:
    found = item.found
    files = {found.file_name: found.content}
    original = found.file_name
    if not found.is_whole_file:
        original = recognise.ORIGINAL
        files[original] = item.content
    stated = {
        part.name: value for part in fields(Claim) if (value := getattr(item.claim, part.name)) is not None
    }
    origin = Origin(item.file, item.sha256, item.part, original, now, stated, numbered)
    runs.write_run(campaign_dir, key, files, record(study, key, order, item.result, origin))


def _study_before(campaign_dir: Path, study_path: Path) -> Study | None:
    """Return the study of the campaign so far: what people may have changed in its file counts.

    Raises
    ------
    MeshperfError
        If the campaign is sealed, or was measured.
    """
    if not (campaign_dir / campaign.DESIGN).exists():
        return None
    study = campaign.read_study(campaign_dir)
    if study.imported is None:
        raise MeshperfError(
            f"the campaign {campaign_dir} was measured here, and nothing is imported into it: choose another --campaign"
        )
    if runs.is_sealed(campaign_dir):
        raise MeshperfError(
            f"the campaign {campaign_dir} is sealed and never edited: choose another --campaign"
        )
    return load_study(study_path) if study_path.exists() else study


def _study(
    name: str,
    before: Study | None,
    keys: set[RunKey],
    title: str | None,
    source: str | None,
    licence: str | None,
) -> Study:
    """Return the study that the runs make up."""
    arms: dict[str, list[str]] = {}
    for arm in sorted({key.arm for key in keys} - {BASELINE}):
        arms.setdefault(arm.mesh, []).append(arm.configuration)
    baselines = {key.deployment for key in keys if key.arm == BASELINE}
    kept = before.imported if before is not None else None
    content: dict[str, Any] = before.model_dump(mode="json") if before is not None else {"seed": 0}
    content |= {
        "study": before.study if before is not None else name,
        "campaign": name,
        "title": title or (before.title if before is not None else f"Imported results: {name}"),
        "imported": {
            "baselines": len(baselines),
            "source": source or (kept.source if kept else None),
            "licence": licence or (kept.licence if kept else None),
        },
        "arms": [{"mesh": mesh, "configurations": names} for mesh, names in arms.items()],
        "target_rps": sorted({key.target_rps for key in keys}),
        "blocks": max(key.block for key in keys),
        "makeup_blocks": 0,
        "load": None,
    }
    return parse_study(content, f"the study of {name}")


def _write_design(campaign_dir: Path, study: Study, now: datetime) -> None:
    path = campaign_dir / campaign.DESIGN
    created = campaign.read_design(campaign_dir)["created_utc"] if path.exists() else None
    design = {
        "schema_version": runs.SCHEMA_VERSION,
        "campaign": study.campaign,
        "study": study.model_dump(mode="json"),
        "study_sha256": study_sha256(study),
        "analysis_plan_sha256": analysis_plan_sha256(study),
        "created_utc": created or now.isoformat().replace("+00:00", "Z"),
        "testbed": {"kind": "imported"},
        "seed": study.seed,
        "synthetic": False,
        "imported": True,
        "schedule": None,
        "meshperf": provenance.code(),
        "environment": provenance.environment(),
    }
    storage.write_file(path, (json.dumps(design, indent=1, ensure_ascii=False) + "\n").encode())


def _study_yaml(study: Study) -> bytes:
    content = study.model_dump(mode="json", exclude={"testbed", "workload"})
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    return (
        "# Written by `meshperf data import`: title, quantiles and analysis may be changed and stay, the rest follows\n"
        f"# from the imported files.\n{text}"
    ).encode()
