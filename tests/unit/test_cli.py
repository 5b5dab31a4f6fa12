"""The command line: what it prints, its exit codes, and how fast it starts."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import make_study, make_synthetic_campaign

from meshperf import cli
from meshperf.errors import MeshperfError
from meshperf.meshes import MESHES
from meshperf.paths import repository_root

CONFIG = repository_root() / "config"
COMMAND = Path(sys.executable).with_name("meshperf")


def run(*arguments, **environment):
    """Run the installed command, as a user does."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **environment}
    )


@pytest.fixture
def checkout(tmp_path):
    """A repository with one sealed and one unfinished campaign of synthetic data."""
    (tmp_path / "envs" / "cluster").mkdir(parents=True)
    make_synthetic_campaign(tmp_path, make_study(blocks=1))
    make_synthetic_campaign(tmp_path, make_study(blocks=1, campaign="other-local"), seal=False)
    return tmp_path


def test_help_names_every_group():
    result = run("--help")
    assert result.returncode == 0
    for name in ("cluster", "data", "doctor", "mesh", "run", "study"):
        assert f"\n  {name} " in result.stdout


@pytest.mark.parametrize("group", [(), ("cluster",), ("data",), ("mesh",), ("study",)])
def test_no_summary_is_cut_in_the_help(group):
    assert "..." not in run(*group, "--help").stdout.replace("[ARGS]...", "")


def test_version():
    assert run("--version").stdout.strip() == "meshperf, version 0.1.0"


def test_mesh_list_is_the_table_of_what_is_supported():
    head, *lines = run("mesh", "list").stdout.splitlines()
    assert head.split()[0] == "mesh"
    rows = {line.split()[0]: line for line in lines}
    assert list(rows) == list(MESHES)
    assert rows["envoy-static"].endswith("basic, mtls")


def test_study_show_prints_the_design_and_the_time():
    result = run("study", "show", CONFIG / "quick.yaml")
    assert result.returncode == 0
    assert result.stdout.count("baseline/none") == 6
    assert result.stdout.count("istio/mtls") == 3
    # 24 runs of 1 s warm-up and 5 s load.
    assert "12 deployments, 24 runs: about" in result.stdout
    assert "2 min under load" in result.stdout


def test_the_schema_is_up_to_date_and_printed():
    assert run("study", "schema", "--check").returncode == 0
    assert run("study", "schema").stdout == (CONFIG / "schemas" / "study.schema.json").read_text()


def test_an_outdated_schema_is_refused(tmp_path):
    (tmp_path / "envs" / "cluster").mkdir(parents=True)
    path = tmp_path / "config" / "schemas" / "study.schema.json"
    result = run("study", "schema", "--check", MESHPERF_ROOT=str(tmp_path))
    assert result.returncode == 2
    assert f"meshperf study schema -o {path}" in result.stderr
    assert run("study", "schema", "-o", path).returncode == 0
    assert run("study", "schema", "--check", MESHPERF_ROOT=str(tmp_path)).returncode == 0


@pytest.mark.parametrize(
    "command", [("run",), ("study", "show"), ("cluster", "up"), ("data", "verify", "--study")]
)
def test_a_mistake_in_a_study_is_one_sentence_and_exit_code_2(tmp_path, command):
    path = tmp_path / "wrong.yaml"
    path.write_text((CONFIG / "quick.yaml").read_text().replace("blocks: 3", "blocks: 0", 1))
    result = run(*command, path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"meshperf: {path}: blocks must be at least 1")
    assert result.stderr.count("\n") == 1


def test_a_missing_study_is_one_sentence(tmp_path):
    result = run("run", tmp_path / "nothing.yaml")
    assert result.returncode == 2
    assert result.stderr.startswith(f"meshperf: there is no study file {tmp_path / 'nothing.yaml'}")
    assert result.stderr.count("\n") == 1


def test_run_refuses_a_changed_design_before_it_looks_for_a_cluster(checkout):
    study = tmp_study(checkout, make_study(blocks=2))
    result = run("run", study, MESHPERF_ROOT=str(checkout))
    assert result.returncode == 2
    assert "another design (it differs in blocks)" in result.stderr


def test_data_list(checkout):
    result = run("data", "list", MESHPERF_ROOT=str(checkout))
    assert result.stdout.splitlines() == [
        "example  sealed  8 runs  SYNTHETIC",
        "other-local  unfinished  8 runs  SYNTHETIC",
    ]


def test_data_list_without_campaigns(tmp_path):
    (tmp_path / "envs" / "cluster").mkdir(parents=True)
    assert "no campaigns yet" in run("data", "list", MESHPERF_ROOT=str(tmp_path)).stdout


def test_verify_passes_and_seal_completes(checkout):
    assert run("data", "verify", "example", MESHPERF_ROOT=str(checkout)).returncode == 0
    unsealed = run("data", "verify", MESHPERF_ROOT=str(checkout))
    assert unsealed.returncode == 2
    assert "meshperf data seal other-local" in unsealed.stderr
    assert run("data", "seal", "other-local", MESHPERF_ROOT=str(checkout)).returncode == 0
    assert run("data", "verify", MESHPERF_ROOT=str(checkout)).returncode == 0


def test_verify_takes_a_directory(checkout):
    directory = checkout / "data" / "raw" / "example"
    assert run("data", "verify", directory).returncode == 0
    moved = shutil.move(directory, checkout / "elsewhere")
    assert run("data", "verify", directory).returncode == 2
    assert moved


def test_each_problem_is_a_line_of_its_own(checkout):
    directory = checkout / "data" / "raw" / "example"
    path = next(directory.rglob("resources.csv.gz"))
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    (directory / "more.txt").touch()
    result = run("data", "verify", "example", MESHPERF_ROOT=str(checkout))
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"meshperf: {directory}") for line in lines)


def test_seal_refuses_a_campaign_that_is_not_there(checkout):
    result = run("data", "seal", "nothing", MESHPERF_ROOT=str(checkout))
    assert result.returncode == 2
    assert "known campaigns are example, other-local" in result.stderr


def test_cluster_commands_print_what_the_testbed_says(monkeypatch):
    from meshperf import testbed

    monkeypatch.setattr(testbed, "up", lambda study, progress: f"up for {study.study if study else None}")
    monkeypatch.setattr(testbed, "status", lambda: "running")
    monkeypatch.setattr(testbed, "down", lambda: "removed")
    runner = CliRunner()
    assert runner.invoke(cli.cli, ["cluster", "up", str(CONFIG / "quick.yaml")]).output == "up for quick\n"
    assert runner.invoke(cli.cli, ["cluster", "up"]).output == "up for None\n"
    assert runner.invoke(cli.cli, ["cluster", "status"]).output == "running\n"
    assert runner.invoke(cli.cli, ["cluster", "down"]).output == "removed\n"


def test_an_error_of_the_testbed_is_one_sentence(monkeypatch, capsys):
    from meshperf import testbed

    def fail():
        raise MeshperfError("no cluster here: start one")

    monkeypatch.setattr(testbed, "status", fail)
    monkeypatch.setattr(sys, "argv", ["meshperf", "cluster", "status"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == "meshperf: no cluster here: start one\n"


def fastest_s(*command):
    """Return the shortest of five times: what the command needs, not what else the machine does."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


def test_import_takes_less_than_half_a_second():
    assert fastest_s(sys.executable, "-c", "import meshperf") < 0.5


def test_help_takes_less_than_a_second():
    assert fastest_s(COMMAND, "--help") < 1


def test_nothing_slow_is_imported_for_help():
    program = (
        "import sys, json; from meshperf import cli\n"
        "print(json.dumps([name for name in ('numpy', 'pandas', 'pydantic', 'kubernetes', 'rocrate', 'yaml') "
        "if name in sys.modules]))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(printed) == []


def tmp_study(root, study):
    path = root / "study.yaml"
    path.write_text(json.dumps(study.model_dump(mode="json")))
    return path
