"""The command ``meshperf``.

Commands import what they need when they run, so that ``--help`` answers at once. A mistake of the user's is
one sentence on standard error and exit code 2.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meshperf import __version__
from meshperf.errors import MeshperfError

if TYPE_CHECKING:
    from meshperf.study import Study

_STUDY = click.Path(dir_okay=False, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="meshperf")
def cli() -> None:
    """Measure what a service mesh costs, and check what was measured.

    Start with `make quickstart`, or see what this machine has with `meshperf doctor`.
    """


@cli.group()
def cluster() -> None:
    """Start, inspect and remove the cluster that is measured on."""


@cluster.command("up")
@click.argument("study", type=_STUDY, required=False)
def cluster_up(study: Path | None) -> None:
    """Find or start a cluster, and make ready what STUDY needs on it."""
    from meshperf import testbed

    click.echo(testbed.up(_load(study) if study else None, click.echo))


@cluster.command("status")
def cluster_status() -> None:
    """Say which cluster there is, and what runs on it."""
    from meshperf import testbed

    click.echo(testbed.status())


@cluster.command("down")
def cluster_down() -> None:
    """Remove what was started here.

    A cluster of your own stays, with all in it that is not ours.
    """
    from meshperf import testbed

    click.echo(testbed.down())


@cli.group()
def mesh() -> None:
    """List the systems under test."""


@mesh.command("list")
def mesh_list() -> None:
    """Print what each mesh supports, and where it was run."""
    from meshperf.meshes import MESHES

    rows = [("mesh", "configurations", "on the embedded cluster")]
    rows += [
        (name, ", ".join(m.configurations), ", ".join(m.embedded) or "not run here")
        for name, m in MESHES.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, configurations, embedded in rows:
        click.echo(f"{name:{widths[0]}}  {configurations:{widths[1]}}  {embedded}")


@cli.command("run")
@click.argument("study", type=_STUDY)
def run(study: Path) -> None:
    """Measure what STUDY still lacks, and seal it.

    It may be interrupted at any time: the same command goes on where it stopped.
    """
    from meshperf import campaign, pipeline, testbed

    loaded = _load(study)
    loaded.require_measured()
    campaign.check_design(loaded, campaign.directory(loaded.campaign))
    pipeline.measure(
        study, prepare=lambda wanted: click.echo(testbed.up(wanted, click.echo)), echo=click.echo
    )


@cli.command("plan")
@click.argument("study", type=_STUDY)
@click.option("--pilot", metavar="CAMPAIGN", help="Take the spread between blocks from this campaign.")
@click.option("--sd", type=float, help="Take this standard deviation of log ratios between blocks.")
@click.option("--effect", type=float, default=1.1, show_default=True, help="Ratio to no mesh to be detected.")
@click.option("--power", type=float, default=0.8, show_default=True, help="Probability of detecting it.")
def plan(study: Path, pilot: str | None, sd: float | None, effect: float, power: float) -> None:
    """Say how many blocks STUDY needs, and what it can detect."""
    from meshperf import planning

    loaded = _load(study)
    if pilot and sd is not None:
        raise MeshperfError("--pilot and --sd both give the spread between blocks: choose one")
    if sd is not None:
        lines = planning.from_spread(loaded, sd, effect, power)
    else:
        lines = planning.from_campaign(loaded, _directory(pilot or loaded.campaign), effect, power)
    for line in lines:
        click.echo(line)


@cli.group()
def data() -> None:
    """List, verify, import and seal the raw data."""


@data.command("list")
def data_list() -> None:
    """Print the campaigns on this machine."""
    from meshperf import campaign, runs

    names = campaign.known()
    if not names:
        click.echo("no campaigns yet: measure one with `meshperf run config/quick.yaml`")
    for name in names:
        directory = campaign.directory(name)
        n_runs = sum(1 for _ in runs.iter_keys(directory))
        state = "sealed" if runs.is_sealed(directory) else "unfinished"
        design = campaign.read_design(directory)
        kind = "SYNTHETIC" if design.get("synthetic") else design["testbed"]["kind"]
        click.echo(f"{name}  {state}  {n_runs} runs  {kind}")


@data.command("verify")
@click.argument("campaigns", nargs=-1, metavar="[CAMPAIGN ...]")
@click.option(
    "--study", type=_STUDY, help="Check against this study instead of the one recorded with the campaign."
)
def data_verify(campaigns: tuple[str, ...], study: Path | None) -> None:
    """Check campaigns against checksums and design.

    A CAMPAIGN is an id, e.g. 2026-11-embedded, or a directory; without one, all are checked.
    """
    from meshperf import campaign

    loaded = _load(study) if study else None
    names = campaigns or ((loaded.campaign,) if loaded else campaign.known())
    if not names:
        click.echo("no campaigns to verify")
    n_problems = 0
    for name in names:
        directory = _directory(name)
        problems = campaign.verify(directory, loaded)
        n_problems += len(problems)
        for problem in problems:
            click.echo(f"meshperf: {problem}", err=True)
        if not problems:
            click.echo(f"{directory.name}: all files are as they were measured, and no run is missing")
    if n_problems:
        sys.exit(2)


@data.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE ...")
@click.option(
    "--campaign", "campaign_id", required=True, help="Id of a new or an unsealed imported campaign."
)
@click.option("--mesh", help="What was measured, e.g. istio; baseline for no mesh.")
@click.option("--configuration", help="Its configuration, e.g. mtls.")
@click.option(
    "--rps", metavar="N|max", help="The target rate where a file does not say it; max for no limit."
)
@click.option(
    "--block", metavar="N", help="The block; without it, repetitions are numbered in order of time."
)
@click.option("--deployment", metavar="N", help="The deployment of the arm in the block; 1 without it.")
@click.option(
    "--connections", metavar="N", help="Import only results with N connections, or that do not say."
)
@click.option(
    "--mapping", type=_STUDY, help="CSV: file,mesh,configuration,target_rps,block,deployment,connections."
)
@click.option("--pattern", metavar="REGEX", help="Named groups of it, found in a file's path, are the same.")
@click.option(
    "--arm", "arms", multiple=True, metavar="TEXT=MESH/CONFIGURATION", help="What the group arm stands for."
)
@click.option("--title", help="The campaign's title.")
@click.option("--source", help="Where the files are from, e.g. an address.")
@click.option("--licence", help="The licence of the files, e.g. Apache-2.0.")
@click.option(
    "--campaigns-dir", type=click.Path(file_okay=False, path_type=Path), help="Instead of data/raw."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be imported.")
def data_import(
    files: tuple[Path, ...], campaign_id: str, campaigns_dir: Path | None, dry_run: bool, **options: Any
) -> None:
    """Import results that others measured.

    FILEs are results of fortio, Nighthawk (fortio's format), Meshery and oha (text or JSON), or folders of them. What
    was measured is stated for all of them with --mesh and --configuration, or file by file with --mapping or --pattern.
    A file that cannot be imported is refused with the reason, and the others are imported.
    """
    from meshperf.importing import command

    sys.exit(command.run(files, campaign_id, campaigns_dir, dry_run, options, click.echo))


@data.command("seal")
@click.argument("campaigns", nargs=-1, required=True, metavar="CAMPAIGN ...")
def data_seal(campaigns: tuple[str, ...]) -> None:
    """Finish complete campaigns for good.

    Writes metadata and checksums, and enters them into the registry.
    """
    from meshperf import campaign

    for name in campaigns:
        click.echo(f"{campaign.seal(_directory(name))} is written")


@cli.group("study")
def study_group() -> None:
    """Show what a study file does, and what it may hold."""


@study_group.command("show")
@click.argument("study", type=_STUDY)
def study_show(study: Path) -> None:
    """Print the random order of STUDY and how long it takes."""
    from meshperf.design import run_keys, schedule
    from meshperf.pipeline import DEPLOYMENT_S, RUN_OVERHEAD_S

    loaded = _load(study)
    deployments = schedule(loaded)
    n_runs = len(run_keys(deployments))
    click.echo(f"{loaded.title}\nstudy {loaded.study}, campaign {loaded.campaign}, seed {loaded.seed}\n")
    click.echo("block  order  arm                   k  target RPS")
    for deployment in deployments:
        rates = " ".join(str(rps) for rps in deployment.target_rps)
        position = f"{deployment.block:>5}  {deployment.order:>5}"
        click.echo(f"{position}  {deployment.arm!s:<20}  {deployment.deployment}  {rates}")
    load_s = n_runs * loaded.load_s
    total_s = load_s + n_runs * RUN_OVERHEAD_S + len(deployments) * DEPLOYMENT_S
    click.echo(
        f"\n{loaded.blocks} blocks, {len(deployments)} deployments, {n_runs} runs: about {_duration(total_s)}, "
        f"of which {_duration(load_s)} under load (and at most {loaded.makeup_blocks} make-up blocks)"
    )


@study_group.command("schema")
@click.option("-o", "--output", type=_STUDY, help="Write to this file instead of standard output.")
@click.option("--check", is_flag=True, help="Only check that config/schemas/study.schema.json is up to date.")
def study_schema(output: Path | None, check: bool) -> None:
    """Print the JSON Schema of study files."""
    from meshperf import storage
    from meshperf.paths import repository_root
    from meshperf.study import json_schema

    schema = json_schema()
    if check:
        path = repository_root() / "config" / "schemas" / "study.schema.json"
        if not path.exists() or path.read_text(encoding="utf-8") != schema:
            raise MeshperfError(f"{path} is out of date: run `meshperf study schema -o {path}`")
        click.echo(f"{path} is up to date")
    elif output:
        storage.write_file(output, schema.encode())
    else:
        click.echo(schema, nl=False)


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def doctor(arguments: tuple[str, ...]) -> None:
    """Say what this machine has and what is missing."""
    from meshperf import doctor as checks

    sys.exit(checks.main(list(arguments), click.echo))


def main() -> None:
    """Run the command line; a `MeshperfError` becomes one sentence and exit code 2."""
    try:
        cli()
    except MeshperfError as error:
        click.echo(f"meshperf: {error}", err=True)
        sys.exit(2)


def _load(path: Path) -> "Study":
    from meshperf.study import load_study

    return load_study(path)


def _directory(name: str) -> Path:
    """Return the directory of a campaign named by its id or by a path."""
    from meshperf import campaign

    path = Path(name)
    if path.is_absolute() or len(path.parts) > 1 or path.is_dir():
        return path.resolve()
    return campaign.directory(name)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
