"""Measuring a study to its end, with a notebook in the place of the real one that takes runs from a finished campaign.

Everything else is real: the loop, the workflow, its order, what is pending, and what is on disk after a kill.
"""

import os
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from support import make_study, make_synthetic_campaign

from meshperf import campaign, runs
from meshperf.design import RunKey, run_keys, schedule

pytestmark = pytest.mark.slow

#: Takes the run from the finished campaign whole, as a writer of runs does, and notes that it did.
FAKE = """
import os, shutil, time
from pathlib import Path
from meshperf.design import RunKey
key = RunKey(mesh, configuration, target_rps, block, deployment)
target = Path("data/raw/example-local") / key.relative_path()
target.parent.mkdir(parents=True, exist_ok=True)
hidden = target.with_name(f".writing-{target.name}")
shutil.rmtree(hidden, ignore_errors=True)
shutil.copytree(Path("finished/data/raw/example-local") / key.relative_path(), hidden)
time.sleep(float(os.environ.get("FAKE_LOAD_S", "0")))
assert not target.exists(), f"{key} is measured twice"
hidden.rename(target)
with open("order.txt", "a") as order:
    order.write(f"{key}\\n")
"""
#: What `meshperf run` does, without a cluster.
RUN = "import sys, pathlib; from meshperf import pipeline; pipeline.measure(pathlib.Path(sys.argv[1]))"


@pytest.fixture
def measuring(workspace):
    """Return a workspace with a study to be measured, and a failed run in its second block."""
    study = make_study(campaign="example-local", target_rps=[100], makeup_blocks=1)
    failed = RunKey("istio", "basic", 100, 2, 1)
    finished = workspace.directory / "finished"
    make_synthetic_campaign(finished, study, verdicts={failed: "failed"})
    study_path = workspace.write_study(study)
    path = workspace.directory / "notebooks" / "01-measure-run.ipynb"
    notebook = nbformat.read(path, as_version=4)
    parameters = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    notebook.cells = [parameters, nbformat.v4.new_code_cell(FAKE)]
    nbformat.write(notebook, path)
    campaign_dir = workspace.directory / "data" / "raw" / "example-local"
    campaign_dir.mkdir(parents=True)
    design = finished / "data" / "raw" / "example-local" / campaign.DESIGN
    (campaign_dir / campaign.DESIGN).write_bytes(design.read_bytes())
    return workspace, study_path, study, campaign_dir


def measured(workspace) -> list[str]:
    path = workspace.directory / "order.txt"
    return path.read_text().split() if path.exists() else []


def test_measures_in_the_order_of_the_design_with_a_makeup_block_and_then_nothing_more(measuring):
    workspace, study_path, study, campaign_dir = measuring

    finished = workspace.run(sys.executable, "-c", RUN, study_path)

    assert finished.returncode == 0, finished.stdout[-4000:]
    # 3 blocks and one more for the failed run, 4 deployments each: the whole block, not the lone arm
    assert measured(workspace) == [str(key) for key in run_keys(schedule(study, 1))]
    assert len(measured(workspace)) == 16
    assert runs.is_sealed(campaign_dir)
    assert list(campaign.checksum_problems(campaign_dir)) == []

    again = workspace.run(sys.executable, "-c", RUN, study_path)

    assert again.returncode == 0
    assert len(measured(workspace)) == 16
    assert "Building DAG" not in again.stdout


def test_only_missing_runs_are_planned(measuring):
    workspace, study_path, study, campaign_dir = measuring
    keys = run_keys(schedule(study))
    finished = workspace.directory / "finished" / "data" / "raw" / "example-local"
    for key in keys[3:]:
        target = runs.run_dir(campaign_dir, key)
        target.parent.mkdir(parents=True, exist_ok=True)
        runs.run_dir(finished, key).rename(target)

    # The failed run is among those on disk, so that a make-up block of 4 is wanted, too.
    assert workspace.plan(study_path, "measure", measure=True)["measure_run"] == 3 + 4


def test_runs_are_measured_again_when_their_campaign_was_removed(measuring):
    workspace, study_path, study, campaign_dir = measuring
    key = run_keys(schedule(study))[0]
    notebook = workspace.directory / "results" / study.study / "measure" / f"{key}.ipynb"
    finished = workspace.snakemake(study_path, str(notebook.relative_to(workspace.directory)), measure=True)
    assert finished.returncode == 0 and notebook.exists(), finished.stdout[-3000:]
    subprocess.run(["rm", "-r", str(runs.run_dir(campaign_dir, key))], check=True)

    # 3 blocks of 4 deployments: the executed notebook that is left stands for nothing
    assert workspace.plan(study_path, "measure", measure=True)["measure_run"] == 12


def test_goes_on_after_every_kill(measuring):
    workspace, study_path, study, campaign_dir = measuring
    command = [sys.executable, "-c", RUN, study_path]
    environment = {**workspace.environment(), "FAKE_LOAD_S": "0.3"}
    for n_before_kill in (1, 4, 9):
        process = subprocess.Popen(
            command,
            cwd=workspace.directory,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        wait_until(lambda n=n_before_kill, p=process: len(measured(workspace)) >= n or p.poll() is not None)
        assert process.poll() is None, "it ended before it could be killed"
        kill_tree(process.pid)
        process.wait()
    assert list((workspace.directory / ".snakemake" / "locks").glob("*")), (
        "the kill left no lock: not the case meant"
    )

    finished = workspace.run(*command)

    assert finished.returncode == 0, finished.stdout[-4000:]
    assert sorted(measured(workspace)) == sorted(str(key) for key in run_keys(schedule(study, 1)))
    assert list(campaign.checksum_problems(campaign_dir)) == []
    assert not list(campaign_dir.rglob(".writing-*"))


def test_two_at_once_are_refused(measuring):
    workspace, study_path, _, _ = measuring
    command = [sys.executable, "-c", RUN, study_path]
    environment = {**workspace.environment(), "FAKE_LOAD_S": "2"}
    first = subprocess.Popen(
        command, cwd=workspace.directory, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        wait_until(lambda: list((workspace.directory / ".snakemake" / "locks").glob("*")))
        second = workspace.run(*command)
    finally:
        kill_tree(first.pid)
        first.wait()

    assert second.returncode != 0
    assert "another process is measuring" in second.stdout


def test_a_failed_measurement_stops_with_its_sentence(measuring):
    workspace, study_path, _, campaign_dir = measuring
    path = workspace.directory / "notebooks" / "01-measure-run.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[
        1
    ].source = "from meshperf.errors import MeshperfError\nraise MeshperfError('no cluster: start one')"
    nbformat.write(notebook, path)

    finished = workspace.run(sys.executable, "-c", RUN, study_path)

    assert finished.returncode != 0
    assert "meshperf: no cluster: start one\n" in finished.stdout
    assert "run the same command again" in finished.stdout
    assert not list(runs.iter_keys(campaign_dir))
    kept = list((workspace.directory / "logs").rglob("block-*.ipynb"))
    assert len(kept) == 1, "the failed notebook is kept, and no other was started"


def wait_until(condition, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def kill_tree(pid: int) -> None:
    process = psutil.Process(pid)
    family = [*process.children(recursive=True), process]
    for member in family:
        try:
            os.kill(member.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    psutil.wait_procs(family, timeout=10)
