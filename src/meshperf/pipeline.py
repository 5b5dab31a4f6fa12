"""What the workflow's rules do without a notebook, and the loop that measures a study until it is complete.

Rules call ``python -m meshperf.pipeline verify|seal|concatenate``; `measure` is behind ``meshperf run``.
"""

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from meshperf import campaign, runs, storage
from meshperf.errors import MeshperfError
from meshperf.paths import repository_root
from meshperf.study import Study, load_study

Echo = Callable[[str], None]
#: Seconds of a run that are not load, for the estimate that is shown before measuring.
RUN_OVERHEAD_S = 2.5
#: Seconds of a fresh deployment, for the same.
DEPLOYMENT_S = 10


def measure(
    study_path: Path, *, prepare: Callable[[Study], object] | None = None, echo: Echo = click.echo
) -> Path:
    """Measure what is missing of a study, make-up blocks included, and seal its campaign.

    It may be killed at any point: called again, it goes on where it stopped.

    Parameters
    ----------
    study_path : Path
        The study file.
    prepare : callable, optional
        Called with the study before the first run, if any is missing: brings up the cluster.
    echo : callable
        Told what happens.

    Returns
    -------
    Path
        The directory of the sealed campaign.

    Raises
    ------
    MeshperfError
        If a run could not be measured, or another process is measuring in this checkout.
    """
    root = repository_root()
    study_path = study_path.resolve()
    study = load_study(study_path)
    campaign_dir = campaign.directory(study.campaign)
    state = root / ".snakemake"
    state.mkdir(exist_ok=True)
    with storage.exclusive(state, "measuring in"):
        runs.clean_stale(campaign_dir)
        missing = runs.pending(study, campaign_dir)
        if missing and prepare is not None:
            prepare(study)
        while missing:
            echo(f"{study.campaign}: {_plan(study, missing, campaign_dir)}")
            unlock_stale(root)
            _run_workflow(root, study_path)
            left = runs.pending(study, campaign_dir)
            if len(left) >= len(missing) and set(left) & set(missing):
                raise MeshperfError(
                    f"the run {left[0]} was not measured: see "
                    f"logs/{study.study}/measure_run/{left[0]}.ipynb, then run the same command again"
                )
            missing = left
        complete(study)
    echo(f"{study.campaign}: complete and sealed in {campaign_dir.relative_to(root)}")
    return campaign_dir


def complete(study: Study) -> None:
    """Seal a campaign of which no run is missing, after taking what was measured off the cluster."""
    from meshperf import testbed
    from meshperf.meshes import credentials

    campaign_dir = campaign.directory(study.campaign)
    if not runs.is_sealed(campaign_dir):
        testbed.clean(study)
        campaign.seal(campaign_dir)
    credentials.forget(study.campaign)


def unlock_stale(root: Path) -> bool:
    """Remove the locks of a Snakemake that was killed in this checkout; return whether there were any.

    Snakemake's locks do not name their process, so a living Snakemake in the same directory keeps them all.

    Raises
    ------
    MeshperfError
        If locks exist and a Snakemake is running here.
    """
    locks = list((root / ".snakemake" / "locks").glob("*"))
    if not locks:
        return False
    process = _running_snakemake(root)
    if process is not None:
        raise MeshperfError(
            f"another workflow is running in {root} (process {process}): wait until it has ended, or end it"
        )
    for lock in locks:
        lock.unlink(missing_ok=True)
    return True


def verify(study: Study) -> dict[str, object]:
    """Check a campaign against its checksums and its study.

    Returns
    -------
    dict
        ``campaign``, ``passed``, ``n_files``, ``problems`` (one sentence each).
    """
    campaign_dir = campaign.directory(study.campaign)
    problems = campaign.verify(campaign_dir, study)
    checksums = campaign_dir / runs.CHECKSUMS
    n_files = len(checksums.read_text(encoding="utf-8").splitlines()) if checksums.exists() else 0
    return {"campaign": study.campaign, "passed": not problems, "n_files": n_files, "problems": problems}


def concatenate(paths: Sequence[Path], output_path: Path) -> None:
    """Write the rows of CSV files with one header, in the order given.

    Raises
    ------
    MeshperfError
        If two files have different columns.
    """
    header: list[str] | None = None
    rows: list[list[str]] = []
    for path in paths:
        with path.open(newline="", encoding="utf-8") as file:
            first, *rest = csv.reader(file)
        if header is not None and first != header:
            raise MeshperfError(
                f"{path} has other columns than {paths[0]}: remove {path.parent} and run the workflow again"
            )
        header = first
        rows += rest
    with output_path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header or [], *rows])


def _plan(study: Study, missing: Sequence[runs.RunKey], campaign_dir: Path) -> str:
    n_makeup = runs.makeup_blocks(study, campaign_dir)
    deployments = {(key.arm, key.block, key.deployment) for key in missing}
    seconds = len(missing) * (study.load_s + RUN_OVERHEAD_S) + len(deployments) * DEPLOYMENT_S
    makeup = f", make-up blocks: {n_makeup}" if n_makeup else ""
    return f"{len(missing)} runs to measure{makeup}, about {max(1, round(seconds / 60))} min"


def _run_workflow(root: Path, study_path: Path) -> None:
    config = [f"study={study_path.relative_to(root) if study_path.is_relative_to(root) else study_path}"]
    command = [sys.executable, "-m", "snakemake", "measure", "--cores", "1"]
    finished = subprocess.run([*command, "--config", *config, "measure=true"], cwd=root, check=False)
    if finished.returncode != 0:
        raise MeshperfError(
            "the measurement stopped; what has been measured is kept: mend what the message above names, "
            "then run the same command again to go on"
        )


def _running_snakemake(root: Path) -> int | None:
    """Return the process id of a Snakemake that works in a directory, or None."""
    import psutil

    for process in psutil.process_iter(["cmdline"]):
        words = [Path(word).name for word in (process.info["cmdline"] or [])[:4]]
        try:
            if "snakemake" in words and Path(process.cwd()) == root.resolve():
                return process.pid
        except (psutil.Error, OSError):
            continue
    return None


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main():
    """Do what a rule of the workflow asks for."""


@main.command("verify")
@click.argument("study_path", type=click.Path(path_type=Path))
@click.argument("report_path", type=click.Path(path_type=Path))
def _verify(study_path, report_path):
    """Check the campaign of STUDY_PATH, and write REPORT_PATH if nothing is wrong."""
    report = verify(load_study(study_path))
    for problem in report["problems"]:
        click.echo(f"meshperf: {problem}", err=True)
    if not report["passed"]:
        sys.exit(2)
    report_path.parent.mkdir(parents=True, exist_ok=True)
    report_path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    click.echo(
        f"{study_path}: the {report['n_files']} files of {report['campaign']} are as they were measured"
    )


@main.command("seal")
@click.argument("study_path", type=click.Path(path_type=Path))
def _seal(study_path):
    """Seal the campaign of STUDY_PATH unless runs are missing."""
    study = load_study(study_path)
    campaign_dir = campaign.directory(study.campaign)
    missing = runs.pending(study, campaign_dir)
    if missing:
        more = f"{len(missing)} more run{'s' if len(missing) > 1 else ''}"
        click.echo(f"{study.campaign}: make-up blocks ask for {more}: give the same command again")
        return
    complete(study)
    click.echo(f"{study.campaign}: sealed")


@main.command("concatenate")
@click.argument("output_path", type=click.Path(path_type=Path))
@click.argument("paths", type=click.Path(path_type=Path), nargs=-1, required=True)
def _concatenate(output_path, paths):
    """Write the rows of the CSV files PATHS to OUTPUT_PATH."""
    concatenate(paths, output_path)


def run_main() -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2."""
    try:
        main()
    except MeshperfError as error:
        click.echo(f"meshperf: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    run_main()
