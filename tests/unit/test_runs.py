"""Runs on disk: whole or not there, never overwritten, and what is still to be measured."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime

import numpy as np
import pytest
from support import make_run, make_study, make_synthetic_campaign

from meshperf import campaign, runs, storage
from meshperf.design import RunKey, run_keys, schedule
from meshperf.errors import MeshperfError

KEY = RunKey("istio", "mtls", 400, 2, 1)


@pytest.fixture
def study():
    return make_study()


@pytest.fixture
def started(tmp_path, study):
    """A campaign without runs."""
    campaign_dir = tmp_path / "data" / "raw" / study.campaign
    campaign.start(study, campaign_dir, {"kind": "synthetic"}, synthetic=True)
    return campaign_dir


@pytest.fixture
def run(study):
    """The files and the record of a run with `KEY`."""
    return make_run(study, KEY, median_s=0.001, rng=np.random.default_rng(1))


def test_a_run_is_written_where_its_key_says(started, run):
    files, record = run
    assert not runs.is_complete(started, KEY)
    path = runs.write_run(started, KEY, files, record)
    assert path == started / "istio" / "mtls" / "400" / "block-02-1"
    assert sorted(file.name for file in path.iterdir()) == [
        "fortio.json",
        "resources.csv.gz",
        "run.json",
        "slices.csv.gz",
    ]
    assert (path / "fortio.json").read_bytes() == files["fortio.json"]
    assert runs.read_record(path) == record
    assert runs.is_complete(started, KEY)
    assert list(runs.iter_keys(started)) == [KEY]


def test_a_run_is_never_overwritten(started, run):
    files, record = run
    path = runs.write_run(started, KEY, files, record)
    before = (path / "run.json").read_bytes()
    with pytest.raises(MeshperfError, match=r"block-02-1 .*never overwritten"):
        runs.write_run(started, KEY, files, {**record, "attempt": 2})
    assert (path / "run.json").read_bytes() == before


def test_a_record_of_another_run_is_refused(started, run):
    files, record = run
    other = RunKey("istio", "mtls", 400, 3, 1)
    with pytest.raises(ValueError, match="block-03-1"):
        runs.write_run(started, other, files, record)
    assert not runs.run_dir(started, other).exists()


@pytest.mark.parametrize("missing", ["quality", "proof", "key", "attempt"])
def test_a_record_that_lacks_what_analyses_need_is_refused(started, run, missing):
    files, record = run
    del record[missing]
    with pytest.raises(ValueError, match=missing):
        runs.write_run(started, KEY, files, record)


def test_what_json_has_no_word_for_becomes_null(started, run):
    files, record = run
    record["omission"]["longest_stall_s"] = float("nan")
    record["quality"]["gates"][0]["limit"] = np.float64("inf")
    record["attempt"] = np.int64(2)
    written = runs.read_record(runs.write_run(started, KEY, files, record))
    assert written["omission"]["longest_stall_s"] is None
    assert written["quality"]["gates"][0]["limit"] is None
    assert written["attempt"] == 2


def test_an_unknown_verdict_is_refused(started, run):
    files, record = run
    record["quality"]["verdict"] = "fine"
    with pytest.raises(ValueError, match="verdict"):
        runs.write_run(started, KEY, files, record)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"schema_version": 1, "camp', "truncated or not JSON"),
        ("[]", "not a JSON object"),
        ('{"schema_version": 2}', "not the record of a run"),
        ("", "truncated"),
    ],
)
def test_a_damaged_record_is_named(tmp_path, content, words):
    path = tmp_path / "run.json"
    path.write_text(content)
    with pytest.raises(MeshperfError, match=words) as caught:
        runs.read_record(path)
    assert str(path) in str(caught.value)


def test_a_missing_record_is_named(tmp_path):
    with pytest.raises(MeshperfError, match=f"{tmp_path / 'run.json'} is missing"):
        runs.read_record(tmp_path / "run.json")


def test_pending_is_the_schedule_without_what_is_there(started, study, run):
    planned = run_keys(schedule(study))
    assert runs.pending(study, started) == planned
    runs.write_run(started, KEY, *run)
    assert runs.pending(study, started) == tuple(key for key in planned if key != KEY)


def test_nothing_is_pending_only_when_all_is_measured(tmp_path, study):
    campaign_dir = make_synthetic_campaign(tmp_path, study)
    assert runs.pending(study, campaign_dir) == ()


def test_pending_before_the_campaign_exists(tmp_path, study):
    assert runs.pending(study, tmp_path / "nowhere") == run_keys(schedule(study))


def test_a_sealed_campaign_is_not_mended_by_measuring(tmp_path, study):
    campaign_dir = make_synthetic_campaign(tmp_path, study)
    (runs.run_dir(campaign_dir, KEY) / "run.json").unlink()
    with pytest.raises(MeshperfError, match=f"lacks the run {KEY}: restore"):
        runs.pending(study, campaign_dir)


class TestMakeupBlocks:
    """A failed run brings its whole block back at the end, within the study's cap of 2."""

    FAILED = RunKey("istio", "basic", 100, 2, 1)
    SAME_BLOCK = RunKey("baseline", "none", 400, 2, 2)
    OTHER_BLOCK = RunKey("istio", "mtls", 100, 3, 1)
    FIRST_MAKEUP = RunKey("istio", "mtls", 100, 4, 1)
    SECOND_MAKEUP = RunKey("istio", "mtls", 100, 5, 1)

    def blocks(self, tmp_path, study, *failed):
        campaign_dir = make_synthetic_campaign(tmp_path, study, verdicts=dict.fromkeys(failed, "failed"))
        assert runs.pending(study, campaign_dir) == ()
        return runs.makeup_blocks(study, campaign_dir), {key.block for key in runs.iter_keys(campaign_dir)}

    def test_no_failure(self, tmp_path, study):
        assert self.blocks(tmp_path, study) == (0, {1, 2, 3})

    def test_one_failure(self, tmp_path, study):
        assert self.blocks(tmp_path, study, self.FAILED) == (1, {1, 2, 3, 4})

    def test_two_failures_in_one_block(self, tmp_path, study):
        assert self.blocks(tmp_path, study, self.FAILED, self.SAME_BLOCK) == (1, {1, 2, 3, 4})

    def test_two_failed_blocks(self, tmp_path, study):
        assert self.blocks(tmp_path, study, self.FAILED, self.OTHER_BLOCK) == (2, {1, 2, 3, 4, 5})

    def test_a_failed_makeup(self, tmp_path, study):
        assert self.blocks(tmp_path, study, self.FAILED, self.FIRST_MAKEUP) == (2, {1, 2, 3, 4, 5})

    def test_the_cap(self, tmp_path, study):
        failed = (self.FAILED, self.FIRST_MAKEUP, self.SECOND_MAKEUP)
        assert self.blocks(tmp_path, study, *failed) == (2, {1, 2, 3, 4, 5})

    def test_saturated_and_degraded_runs_are_data(self, tmp_path, study):
        verdicts = {self.FAILED: "saturated", self.OTHER_BLOCK: "degraded"}
        campaign_dir = make_synthetic_campaign(tmp_path, study, verdicts=verdicts)
        assert runs.makeup_blocks(study, campaign_dir) == 0


def test_attempts_are_numbered_and_kept(started):
    record = {
        "started_utc": "2026-11-01T08:00:00Z",
        "ended_utc": "2026-11-01T08:00:05Z",
        "reason": "the API server did not answer",
        "phase": "load",
    }
    assert runs.next_attempt(started, KEY) == 1
    first = runs.write_attempt(started, KEY, record)
    second = runs.write_attempt(started, KEY, {**record, "started_utc": "2026-11-01T08:01:00Z"})
    assert first == started / "attempts/istio/mtls/400/block-02-1-attempt-1.json"
    assert second.name == "block-02-1-attempt-2.json"
    assert runs.next_attempt(started, KEY) == 3
    assert [(attempt["attempt"], attempt["started_utc"]) for attempt in runs.read_attempts(started)] == [
        (1, "2026-11-01T08:00:00Z"),
        (2, "2026-11-01T08:01:00Z"),
    ]
    assert json.loads(first.read_text())["key"] == runs.key_record(KEY)
    assert not runs.is_complete(started, KEY)
    assert list(runs.iter_keys(started)) == []


def test_a_sealed_campaign_takes_nothing(tmp_path, study, run):
    campaign_dir = make_synthetic_campaign(tmp_path, study)
    new = RunKey("istio", "mtls", 400, 9, 1)
    files, record = run
    with pytest.raises(MeshperfError, match="sealed and never edited"):
        runs.write_run(campaign_dir, new, files, {**record, "key": runs.key_record(new)})
    with pytest.raises(MeshperfError, match="sealed and never edited"):
        runs.write_attempt(campaign_dir, new, {"started_utc": datetime.now(UTC).isoformat()})


MEASURER = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
from support import make_study, make_synthetic_campaign
make_synthetic_campaign(Path(sys.argv[1]), make_study(), seal=False)
"""


def test_killed_at_any_moment_it_goes_on_where_it_stopped(tmp_path, study):
    """Kill a writer of runs again and again; in the end each run is there once, whole, and nothing else."""
    rng = random.Random(1)
    campaign_dir = tmp_path / "data" / "raw" / study.campaign
    for _ in range(8):
        before = len(list(runs.iter_keys(campaign_dir)))
        process = subprocess.Popen([sys.executable, "-c", MEASURER, str(tmp_path)], start_new_session=True)
        deadline = time.monotonic() + 20
        while len(list(runs.iter_keys(campaign_dir))) < before + 2 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.006))
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()
        for key in runs.iter_keys(campaign_dir):
            runs.read_record(runs.run_dir(campaign_dir, key))
    make_synthetic_campaign(tmp_path, study)
    assert list(tmp_path.rglob(f"{storage.HIDDEN}*")) == []
    assert campaign.verify(campaign_dir, study) == []
    assert len(list(runs.iter_keys(campaign_dir))) == 24
