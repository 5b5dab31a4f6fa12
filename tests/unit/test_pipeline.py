"""What the rules call besides notebooks, and the locks of a workflow that was killed."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from support import make_study, make_synthetic_campaign

from meshperf import pipeline
from meshperf.design import RunKey
from meshperf.errors import MeshperfError


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "envs" / "cluster").mkdir(parents=True)
    monkeypatch.setenv("MESHPERF_ROOT", str(tmp_path))
    return tmp_path


@pytest.fixture
def study_path(checkout):
    path = checkout / "example.yaml"
    path.write_text(make_study().model_dump_json())  # JSON is YAML
    return path


def test_concatenate_keeps_one_header_and_the_order(tmp_path):
    first, second = tmp_path / "b.csv", tmp_path / "a.csv"
    first.write_text('mesh,warnings\nistio,"few, but enough"\n')
    second.write_text("mesh,warnings\nbaseline,\nbaseline,x\n")
    pipeline.concatenate([first, second], tmp_path / "all.csv")
    assert (
        tmp_path / "all.csv"
    ).read_text() == 'mesh,warnings\nistio,"few, but enough"\nbaseline,\nbaseline,x\n'


def test_concatenate_refuses_different_columns(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("mesh\nistio\n")
    second.write_text("arm\nistio\n")
    with pytest.raises(MeshperfError, match=r"b\.csv has other columns than .*a\.csv"):
        pipeline.concatenate([first, second], tmp_path / "all.csv")


def test_locks_of_a_dead_workflow_are_removed(tmp_path):
    locks = tmp_path / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.input.lock").touch()
    assert pipeline.unlock_stale(tmp_path)
    assert not list(locks.iterdir())
    assert not pipeline.unlock_stale(tmp_path)


def test_locks_of_a_living_workflow_are_kept(tmp_path):
    locks = tmp_path / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.input.lock").touch()
    script = tmp_path / "snakemake"
    script.write_text("import time; print('ready', flush=True); time.sleep(60)")
    process = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        with pytest.raises(MeshperfError, match=f"process {process.pid}"):
            pipeline.unlock_stale(tmp_path)
    finally:
        process.kill()
        process.wait()
    assert list(locks.iterdir())


def test_verify_writes_its_findings(checkout, study_path):
    make_synthetic_campaign(checkout, make_study())
    report_path = checkout / "results" / "verify.json"
    finished = CliRunner().invoke(pipeline.main, ["verify", str(study_path), str(report_path)])
    assert finished.exit_code == 0, finished.output
    report = json.loads(report_path.read_text())
    assert report["passed"] and report["problems"] == []
    # 3 blocks of 4 deployments at 2 rates with 4 files each, and design.json and the metadata
    assert report["n_files"] == 3 * 4 * 2 * 4 + 2


def test_verify_names_a_changed_file_and_writes_nothing(checkout, study_path):
    campaign_dir = make_synthetic_campaign(checkout, make_study())
    changed = campaign_dir / RunKey("istio", "mtls", 400, 3, 1).relative_path() / "run.json"
    changed.write_bytes(changed.read_bytes() + b" ")
    report_path = checkout / "results" / "verify.json"
    finished = CliRunner().invoke(pipeline.main, ["verify", str(study_path), str(report_path)])
    assert finished.exit_code == 2
    assert "istio/mtls/400/block-03-1/run.json was changed" in finished.output
    assert not report_path.exists()


def test_seal_waits_for_makeup_blocks(checkout, study_path):
    key = RunKey("istio", "mtls", 400, 3, 1)
    campaign_dir = make_synthetic_campaign(checkout, make_study(), leave_out={key})
    finished = CliRunner().invoke(pipeline.main, ["seal", str(study_path)])
    assert finished.exit_code == 0
    assert "1 more run" in finished.output
    assert not (campaign_dir / "SHA256SUMS").exists()
