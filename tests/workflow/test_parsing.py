"""What the workflow accepts, and how it is written."""

import subprocess
import sys
from pathlib import Path

import pytest
from support import make_study

from meshperf.study import load_study

ROOT = Path(__file__).resolve().parents[2]
STUDIES = sorted((ROOT / "config").glob("*.yaml"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_plans_every_run_of_a_shipped_study(workspace, path):
    study = load_study(path)
    (workspace.directory / "config" / path.name).write_bytes(path.read_bytes())

    plan = workspace.plan(f"config/{path.name}", "measure", measure=True)

    n_deployments = 2 + sum(len(arms.configurations) for arms in study.arms)  # two baselines
    assert plan["measure_run"] == study.blocks * n_deployments * len(study.target_rps)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arms": [{"mesh": "isto", "configurations": ["mtls"]}]}, ["isto", "istio"]),
        ({"blocks": 0}, ["blocks", "at least 1"]),
        ({"target_rps": ["abc"]}, ["target_rps", "abc"]),
        ({"bloks": 3}, ["bloks", "blocks"]),
    ],
    ids=["unknown mesh", "no blocks", "rate that is no number", "unknown key"],
)
def test_refuses_a_wrong_study_in_one_sentence(workspace, change, words):
    study_path = workspace.write_study(make_study())
    path = workspace.directory / study_path
    import yaml

    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **change}))

    finished = workspace.snakemake(study_path, "--dry-run", "measure", measure=True)

    assert finished.returncode == 2
    said = [line for line in finished.stdout.splitlines() if line.startswith("meshperf: ")]
    assert len(said) == 1 and all(word in said[0] for word in words)
    assert "Traceback" not in finished.stdout and "rules/common.smk" not in finished.stdout


def test_refuses_an_unknown_setting(workspace):
    study_path = workspace.write_study(make_study())
    finished = workspace.run(sys.executable, "-m", "snakemake", "-n", "--config", f"stduy={study_path}")
    assert finished.returncode == 2
    assert "unknown --config key stduy" in finished.stdout


def test_a_report_without_data_says_what_to_do(workspace):
    study_path = workspace.write_study(make_study())
    finished = workspace.snakemake(study_path)
    assert finished.returncode == 2
    assert f"make measure STUDY={study_path}" in finished.stdout


def test_lint_is_clean():
    finished = subprocess.run(
        [sys.executable, "-m", "snakemake", "--lint"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_formatting_is_clean():
    finished = subprocess.run(
        [Path(sys.executable).with_name("snakefmt"), "--check", "Snakefile", "rules"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr


def test_snakefile_is_short_and_has_no_helpers():
    lines = (ROOT / "Snakefile").read_text().splitlines()
    assert len(lines) <= 60
    assert not any(line.startswith(("def ", "import ")) for line in lines)
