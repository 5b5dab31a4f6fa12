"""What ``meshperf data import`` does with its options, and what it says."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from meshperf import campaign
from meshperf.errors import MeshperfError
from meshperf.importing.campaigns import Outcome, import_files
from meshperf.importing.identity import Claim, Refused, Rules, compile_pattern, parse_arms, read_mapping
from meshperf.meshes import SUPPORTED

#: Lines of one kind that are printed before the rest is only counted.
_MAX_LINES = 20
_REFUSED = 2


def run(
    files: Sequence[Path],
    campaign_id: str,
    campaigns_dir: Path | None,
    dry_run: bool,
    options: Mapping[str, Any],
    echo: Callable[[str], None],
) -> int:
    """Import, say what became of each file, and return the exit code: 2 if a file was refused.

    Raises
    ------
    MeshperfError
        If the options contradict each other, or nothing at all can be done.
    """
    rules, connections = _rules(options)
    directory = campaigns_dir.resolve() / campaign_id if campaigns_dir else campaign.directory(campaign_id)
    if directory.name != campaign_id:
        raise MeshperfError(f'"{campaign_id}" is not the id of a campaign: give letters, digits and hyphens')
    outcome = import_files(
        files,
        directory,
        rules,
        connections=connections,
        title=options["title"],
        source=options["source"],
        licence=options["licence"],
        dry_run=dry_run,
    )
    _report(outcome, dry_run, echo)
    return _REFUSED if outcome.refused else 0


def _rules(options: Mapping[str, Any]) -> tuple[Rules, int | None]:
    try:
        given = Claim.parse(
            {name: options[name] for name in ("mesh", "configuration", "rps", "block", "deployment")}
        )
        connections = Claim.parse({"connections": options["connections"]}).connections
    except Refused as error:
        raise MeshperfError(str(error)) from None
    if options["arms"] and not options["pattern"]:
        raise MeshperfError("--arm says what the group arm of --pattern stands for: give --pattern too")
    rules = Rules(
        given=given,
        mapping=read_mapping(options["mapping"]) if options["mapping"] else None,
        mapping_name=str(options["mapping"] or ""),
        pattern=compile_pattern(options["pattern"]) if options["pattern"] else None,
        arms=parse_arms(options["arms"]),
    )
    return rules, connections


def _report(outcome: Outcome, dry_run: bool, echo: Callable[[str], None]) -> None:
    warn = functools.partial(click.echo, err=True)
    for name, reason in outcome.refused:
        warn(f"meshperf: {name}: {reason}")
    _listed([f"{name}: left out, {reason}" for name, reason in outcome.skipped], echo)
    _listed([f"{name}: {key}" + _remark(notes) for name, key, notes in outcome.imported], echo)
    foreign = {
        str(key.arm) for _, key, _ in outcome.imported if key.configuration not in SUPPORTED.get(key.mesh, ())
    }
    if foreign:
        echo(f"not measured by this version, and kept under the names given: {', '.join(sorted(foreign))}")
    verb = "would be imported" if dry_run else "imported"
    n_runs = len(outcome.imported)
    echo(
        f"{n_runs} run{'' if n_runs == 1 else 's'} {verb} from {outcome.n_files} "
        f"file{'' if outcome.n_files == 1 else 's'} into {outcome.campaign_dir}: "
        f"{len(outcome.refused)} refused, {len(outcome.skipped)} left out"
    )
    if outcome.mixed:
        warn(
            f"meshperf: runs of {', '.join(outcome.mixed)} have different connections and do not repeat each other: "
            "import each number into a campaign of its own with --connections, or this one cannot be sealed"
        )
    elif outcome.imported and not dry_run:
        name = outcome.campaign_dir.name
        shown = name if outcome.campaign_dir == campaign.directory(name) else str(outcome.campaign_dir)
        echo(
            f"when all results are there: meshperf data seal {shlex.quote(shown)} && "
            f"make report STUDY={shlex.quote(_shown(outcome.study_path))}"
        )


def _listed(lines: Sequence[str], echo: Callable[[str], None]) -> None:
    for line in lines[:_MAX_LINES]:
        echo(line)
    if len(lines) > _MAX_LINES:
        echo(f"... and {len(lines) - _MAX_LINES} more")


def _remark(notes: Sequence[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""


def _shown(path: Path) -> str:
    root = campaign.data_dir().parent
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
