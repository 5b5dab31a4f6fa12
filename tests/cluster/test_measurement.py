"""A tiny study measured for real, and what breaks a measurement."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
import yaml

from meshperf import campaign, frames, runs
from meshperf.measure import measure_run
from meshperf.meshes import credentials
from meshperf.study import load_study
from meshperf.testbed.embedded import cluster as embedded

STUDY = {
    "study": "tiny",
    "campaign": "tiny-local",
    "title": "A study that is as small as one can be",
    "seed": 1,
    "testbed": {"kind": "auto", "context": None},
    "arms": [{"mesh": "istio", "configurations": ["jwt-mesh"]}],  # mutual TLS, and a secret to keep
    "target_rps": [100, 200],
    "blocks": 1,
    "makeup_blocks": 0,
    "load": {
        "connections": 4, "duration_s": 3, "warmup_s": 0.5, "resolution_s": 0.00005,
        "payload_bytes": 0, "slice_s": 1, "timeout_s": 3,
    },
    "quantiles": [0.5, 0.9, 0.99],
}  # fmt: skip


@pytest.fixture
def study_path(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    return path


def _measure_all(study_path, campaigns_dir):
    """Measure in another process, as the workflow does, and return it."""
    script = (
        "import sys; from pathlib import Path; from meshperf import runs; from meshperf.measure import measure_run;"
        "from meshperf.study import load_study; path, top = sys.argv[1:]; study = load_study(path);"
        "[measure_run(path, key, top) for key in runs.pending(study, Path(top) / study.campaign)]"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script, str(study_path), str(campaigns_dir)], start_new_session=True
    )


def test_a_study_is_measured_sealed_and_read(clean_testbed, study_path, tmp_path):
    study = load_study(study_path)
    assert _measure_all(study_path, tmp_path).wait(180) == 0
    campaign_dir = tmp_path / study.campaign
    assert runs.pending(study, campaign_dir) == ()
    records = [runs.read_record(runs.run_dir(campaign_dir, key)) for key in runs.iter_keys(campaign_dir)]
    assert len(records) == 6  # two baselines and one arm, two rates each
    for record in records:
        meshed = record["key"]["mesh"] == "istio"
        assert record["proof"]["passed"] and record["quality"]["verdict"] != "failed"
        assert (record["proof"]["tls"]["expected"], record["proof"]["sidecar"]["server"]) == (meshed, meshed)
        roles = {row["role"]: row for row in record["resources"]["containers"]}
        assert {"service", "load-generator", "node"} <= set(roles)
        assert ({"sidecar-client", "sidecar-server", "control-plane"} <= set(roles)) is meshed
        # A few hundred requests cost more than nothing and less than the run's own time on one core.
        assert 0 < roles["service"]["cpu_s"] < STUDY["load"]["duration_s"]
        assert record["slices"]["n"] == 3
        assert all(entry["digest"].startswith("sha256:") for entry in record["images"])
    runs_df = frames.load_runs(campaign_dir)
    # Never more than asked for; on a busy machine some are never sent, and the verdict says so.
    asked = runs_df.target_rps * STUDY["load"]["duration_s"]
    assert ((runs_df.n_requests <= asked) & (runs_df.n_requests > 0.5 * asked)).all()
    assert (runs_df.p50_s < runs_df.p99_s).all()
    # The result is byte for byte what the load generator wrote: it ends as Go's encoder ends it.
    raw = (runs.run_dir(campaign_dir, next(runs.iter_keys(campaign_dir))) / runs.RESULT).read_bytes()
    assert raw.startswith(b"{") and json.loads(raw)["RunType"] == "HTTP"
    meshed = [record for record in records if record["key"]["mesh"] == "istio"]
    assert all("Authorization: Bearer <token>" in record["load"]["argv"] for record in meshed)
    assert not [path for path in campaign_dir.rglob("*.json") if credentials.holds_token(path.read_bytes())]


def _kill_tree(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_measurement_that_is_killed_goes_on_and_counts_no_run_twice(clean_testbed, study_path, tmp_path):
    study = load_study(study_path)
    campaign_dir = tmp_path / study.campaign
    for after_s in (2.0, 7.0, 13.0):
        process = _measure_all(study_path, tmp_path)
        time.sleep(after_s)
        _kill_tree(process)
    assert _measure_all(study_path, tmp_path).wait(180) == 0
    assert sorted(map(str, runs.iter_keys(campaign_dir))) == sorted(map(str, _planned(study)))
    orders = [
        runs.read_record(runs.run_dir(campaign_dir, key))["order"] for key in runs.iter_keys(campaign_dir)
    ]
    assert sorted(orders) == [1, 2, 3, 4, 5, 6]
    assert list(campaign_dir.rglob(".*")) == [], "temporary files are left"
    for attempt in runs.read_attempts(campaign_dir):
        assert attempt["reason"] == "the measuring process was killed"
    assert [p for p in campaign.verify(campaign_dir, study) if "not sealed" not in p] == []


def _planned(study):
    from meshperf.design import run_keys, schedule

    return run_keys(schedule(study))


def _api_server():
    holder = json.loads((embedded.state_dir() / "run" / "kube-apiserver.json").read_text())["pid"]
    (process,) = psutil.Process(holder).children()
    return process


@pytest.mark.parametrize("how", ["killed", "stopped for 20 s"])
def test_an_api_server_that_is_gone_breaks_the_attempt_and_not_the_study(
    clean_testbed, bring, study_path, tmp_path, how
):
    study = load_study(study_path)
    api_server = _api_server()
    process = _measure_all(study_path, tmp_path)
    note = tmp_path / study.campaign / "attempts" / ".attempting.json"
    deadline = time.monotonic() + 60
    while not note.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.5)  # the load has begun
    if how == "killed":
        api_server.kill()
    else:
        api_server.suspend()
        threading.Timer(20, api_server.resume).start()
    assert process.wait(240) == 0
    campaign_dir = tmp_path / study.campaign
    assert runs.pending(study, campaign_dir) == ()
    attempts = runs.read_attempts(campaign_dir)
    assert attempts and all(attempt["reason"] for attempt in attempts)
    assert attempts[0]["phase"] in {"warm-up", "load", "collect"}
    repeated = runs.read_record(runs.run_dir(campaign_dir, runs.RunKey(**attempts[0]["key"])))
    assert repeated["attempt"] == 1 + sum(attempt["key"] == attempts[0]["key"] for attempt in attempts)


def test_a_run_that_the_design_does_not_have_is_refused(clean_testbed, study_path, tmp_path):
    with pytest.raises(Exception, match="is not a run of the study tiny"):
        measure_run(study_path, runs.RunKey("istio", "basic", 100, 1, 1), tmp_path)
    assert not (tmp_path / "tiny-local").exists()
