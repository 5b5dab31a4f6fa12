"""A campaign: sealed only when complete, never edited, and verified against checksums and design."""

import csv
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support import make_study, make_synthetic_campaign

from meshperf import campaign, provenance, runs
from meshperf.design import RunKey, run_keys, schedule
from meshperf.errors import MeshperfError

KEY = RunKey("istio", "mtls", 400, 2, 1)


@pytest.fixture(scope="module")
def sealed_once(tmp_path_factory):
    """A sealed campaign with a failed run, its make-up block and two broken attempts."""
    return make_synthetic_campaign(
        tmp_path_factory.mktemp("campaign"),
        verdicts={KEY: "failed"},
        broken_attempts={RunKey("baseline", "none", 100, 1, 2): 2},
    )


@pytest.fixture
def sealed(sealed_once, tmp_path):
    """A copy of the sealed campaign that a test may damage."""
    root = tmp_path / "data"
    shutil.copytree(sealed_once.parents[1], root)
    return root / "raw" / sealed_once.name


def test_the_design_is_written_before_anything_else(tmp_path):
    study = make_study()
    design = campaign.start(study, tmp_path / "example", {"kind": "embedded"})
    written = json.loads((tmp_path / "example" / "design.json").read_text())
    assert written == design
    assert written["study"]["target_rps"] == [100, 400]
    assert written["testbed"] == {"kind": "embedded"}
    assert written["synthetic"] is False
    assert len(written["schedule"]) == len(schedule(study))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", written["created_utc"])
    assert campaign.read_study(tmp_path / "example") == study


def test_starting_again_changes_nothing(tmp_path):
    campaign.start(make_study(), tmp_path, {"kind": "embedded"})
    before = (tmp_path / "design.json").read_bytes()
    campaign.start(make_study(title="A better title"), tmp_path, {"kind": "embedded"})
    assert (tmp_path / "design.json").read_bytes() == before


def test_another_design_is_refused(tmp_path):
    campaign.start(make_study(), tmp_path, {"kind": "embedded"})
    with pytest.raises(MeshperfError, match=r"another design .*differs in seed, target_rps.*another id"):
        campaign.start(make_study(seed=8, target_rps=[100]), tmp_path, {"kind": "embedded"})


def test_another_kind_of_testbed_is_refused(tmp_path):
    campaign.start(make_study(), tmp_path, {"kind": "embedded"})
    with pytest.raises(MeshperfError, match="kind embedded, not kind:"):
        campaign.start(make_study(), tmp_path, {"kind": "kind"})


def test_a_campaign_that_does_not_exist(tmp_path):
    with pytest.raises(MeshperfError, match=f"no campaign in {tmp_path}"):
        campaign.read_design(tmp_path)


def test_a_sealed_campaign_verifies(sealed):
    assert campaign.verify(sealed) == []
    assert campaign.verify(sealed, make_study()) == []


def test_the_checksums_are_those_of_sha256sum(sealed):
    result = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"],
        cwd=sealed,
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stdout) == (0, "")
    listed = {line.split("  ", 1)[1] for line in (sealed / "SHA256SUMS").read_text().splitlines()}
    assert listed == {
        path.relative_to(sealed).as_posix()
        for path in sealed.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    }


def test_the_registry_counts_what_was_measured(sealed):
    with (sealed.parents[1] / "campaigns.csv").open(newline="") as handle:
        (row,) = csv.DictReader(handle)
    assert tuple(row) == campaign.REGISTRY_COLUMNS
    assert row["campaign"] == "example"
    assert row["testbed"] == "synthetic"
    assert row["synthetic"] == "true"
    # 3 blocks and 1 make-up block of 4 deployments with 2 rates.
    assert (row["n_blocks"], row["n_makeup_blocks"], row["n_runs"]) == ("3", "1", "32")
    assert row["n_broken_attempts"] == "2"
    assert row["started_utc"] == "2026-11-01T08:00:00.000Z"
    digest = hashlib.sha256((sealed / "SHA256SUMS").read_bytes()).hexdigest()
    assert row["sha256sums_sha256"] == digest
    assert row["licence"] == "CC-BY-4.0"


def test_local_campaigns_have_a_registry_of_their_own(tmp_path):
    directory = make_synthetic_campaign(tmp_path, make_study(campaign="example-local", blocks=1))
    assert (directory.parents[1] / "campaigns-local.csv").exists()
    assert not (directory.parents[1] / "campaigns.csv").exists()


def test_sealing_again_changes_nothing(sealed):
    def snapshot():
        return {
            path: (path.read_bytes(), path.stat().st_mtime_ns)
            for path in sealed.parents[1].rglob("*")
            if path.is_file()
        }

    before = snapshot()
    campaign.seal(sealed)
    assert snapshot() == before


def test_sealing_restores_a_lost_registration(sealed):
    registry = sealed.parents[1] / "campaigns.csv"
    before = registry.read_bytes()
    registry.unlink()
    campaign.seal(sealed)
    assert registry.read_bytes() == before


def test_an_incomplete_campaign_is_not_sealed(tmp_path):
    directory = make_synthetic_campaign(tmp_path, leave_out={KEY})
    with pytest.raises(MeshperfError, match=f"cannot be sealed: the run .*{KEY} of the design is missing"):
        campaign.seal(directory)
    assert not runs.is_sealed(directory)


def test_a_campaign_without_its_makeup_block_is_not_sealed(tmp_path):
    makeup = {key for key in run_keys(schedule(make_study(), 1)) if key.block == 4}
    directory = make_synthetic_campaign(tmp_path, verdicts={KEY: "failed"}, leave_out=makeup)
    with pytest.raises(MeshperfError, match=r"block-04-. of the design is missing.* \(and 7 more\)"):
        campaign.seal(directory)


def test_notes_of_dead_processes_are_not_sealed_in(tmp_path):
    directory = make_synthetic_campaign(tmp_path, make_study(blocks=1), seal=False)
    (directory / "attempts").mkdir()
    (directory / "attempts" / ".attempting.json").write_text("{}")
    (directory / ".writing-abc").mkdir()
    campaign.seal(directory)
    assert not (directory / "attempts").exists()
    assert not (directory / ".writing-abc").exists()
    assert campaign.verify(directory) == []


def damage_delete(directory: Path) -> str:
    path = runs.run_dir(directory, KEY) / "slices.csv.gz"
    path.unlink()
    return f"{path} was deleted"


def damage_byte(directory: Path) -> str:
    path = runs.run_dir(directory, KEY) / "resources.csv.gz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return f"{path} was changed"


def damage_extra(directory: Path) -> str:
    path = directory / "istio" / "notes.txt"
    path.write_text("hello")
    return f"{path} does not belong"


def damage_run(directory: Path) -> str:
    run = runs.run_dir(directory, KEY)
    shutil.rmtree(run)
    return f"the run {run} of the design is missing"


def damage_truncate(directory: Path) -> str:
    path = runs.run_dir(directory, KEY) / "fortio.json"
    path.write_bytes(path.read_bytes()[:-200])
    return f"{path} is not valid JSON"


def damage_record(directory: Path) -> str:
    path = runs.run_dir(directory, KEY) / "run.json"
    path.write_text(path.read_text().replace('"block": 2', '"block": 3'))
    return f"{path} is the record of another run"


def damage_sums(directory: Path) -> str:
    path = directory / "SHA256SUMS"
    path.write_text(path.read_text()[:-30])
    return f"{path} is damaged in line"


def damage_seal(directory: Path) -> str:
    (directory / "SHA256SUMS").unlink()
    return f"{directory} is not sealed"


def damage_resealed(directory: Path) -> str:
    """Change a file, and the checksums with it."""
    path = runs.run_dir(directory, KEY) / "fortio.json"
    old = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(path.read_bytes() + b"\n")
    sums = directory / "SHA256SUMS"
    sums.write_text(sums.read_text().replace(old, hashlib.sha256(path.read_bytes()).hexdigest()))
    return f"{sums} is not the one that was registered"


def damage_schedule(directory: Path) -> str:
    path = directory / "design.json"
    design = json.loads(path.read_text())
    design["schedule"].reverse()
    path.write_text(json.dumps(design))
    return f"the schedule in {path} is not the one that its seed gives"


DAMAGES = [value for name, value in sorted(globals().items()) if name.startswith("damage_")]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda function: function.__name__)
def test_verify_says_what_is_wrong(sealed, damage):
    words = damage(sealed)
    problems = campaign.verify(sealed, make_study())
    assert any(problem.startswith(words) for problem in problems), problems
    assert all("\n" not in problem for problem in problems)


@pytest.mark.parametrize("damage", [damage_byte, damage_delete, damage_extra])
def test_a_damaged_campaign_is_not_sealed_again(sealed, damage):
    words = damage(sealed)
    before = (sealed / "SHA256SUMS").read_bytes()
    with pytest.raises(MeshperfError, match=f"cannot be sealed: {re.escape(words)}"):
        campaign.seal(sealed)
    assert (sealed / "SHA256SUMS").read_bytes() == before


def test_verify_compares_with_the_study_it_is_given(sealed):
    (problem,) = campaign.verify(sealed, make_study(blocks=4))
    assert "another design (it differs in blocks)" in problem


def test_verify_needs_a_campaign(tmp_path):
    (problem,) = campaign.verify(tmp_path / "nothing")
    assert "there is no campaign" in problem


class TestCrate:
    """RO-Crate 1.1, checked against its specification (https://w3id.org/ro/crate/1.1)."""

    @pytest.fixture
    def graph(self, sealed):
        content = json.loads((sealed / "ro-crate-metadata.json").read_text())
        assert content["@context"] == "https://w3id.org/ro/crate/1.1/context"
        identifiers = [entity["@id"] for entity in content["@graph"]]
        assert len(identifiers) == len(set(identifiers))
        return {entity["@id"]: entity for entity in content["@graph"]}

    def test_the_descriptor(self, graph):
        descriptor = graph["ro-crate-metadata.json"]
        assert descriptor["@type"] == "CreativeWork"
        assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
        assert descriptor["about"] == {"@id": "./"}

    def test_the_root_has_what_the_specification_requires(self, graph):
        root = graph["./"]
        assert root["@type"] == "Dataset"
        assert root["name"]
        assert "SYNTHETIC" in root["description"]
        assert root["license"] == {"@id": "https://creativecommons.org/licenses/by/4.0/"}
        assert graph[root["license"]["@id"]]["name"] == "Creative Commons Attribution 4.0 International"
        assert re.fullmatch(r"2026-11-01T\d\d:\d\d:\d\d\.\d{3}Z", root["datePublished"])

    def test_every_file_is_one_entity_that_exists(self, graph, sealed):
        files = {name for name, entity in graph.items() if entity["@type"] == "File"}
        assert files == {
            path.relative_to(sealed).as_posix()
            for path in sealed.rglob("*")
            if path.is_file() and path.name != "ro-crate-metadata.json"
        }
        assert {part["@id"] for part in graph["./"]["hasPart"]} == files
        assert all(graph[name]["encodingFormat"] for name in files)

    def test_every_reference_is_described(self, graph):
        def references(value):
            if isinstance(value, dict) and set(value) == {"@id"}:
                yield value["@id"]
            elif isinstance(value, list | dict):
                for item in value.values() if isinstance(value, dict) else value:
                    yield from references(item)

        outside = {"https://w3id.org/ro/crate/1.1"}
        assert set(references(list(graph.values()))) - outside <= set(graph)

    def test_it_is_the_same_every_time(self, sealed):
        before = (sealed / "ro-crate-metadata.json").read_bytes()
        for name in ("ro-crate-metadata.json", "SHA256SUMS"):
            (sealed / name).unlink()
        campaign.seal(sealed)
        assert (sealed / "ro-crate-metadata.json").read_bytes() == before


class TestProvenance:
    """Only changes of the code make it dirty."""

    @pytest.fixture
    def checkout(self, tmp_path, monkeypatch):
        (tmp_path / "envs" / "cluster").mkdir(parents=True)
        (tmp_path / "code.py").write_text("x = 1\n")
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"]):
            subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
        monkeypatch.setenv("MESHPERF_ROOT", str(tmp_path))
        provenance.code.cache_clear()
        yield tmp_path
        provenance.code.cache_clear()

    def test_a_clean_checkout(self, checkout):
        for name in ("data", "results", "logs"):
            (checkout / name).mkdir()
            (checkout / name / "file").touch()
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=checkout, check=True, capture_output=True, text=True
        ).stdout.strip()
        assert provenance.code() == {"version": "0.1.0", "commit": head, "dirty": False}

    @pytest.mark.parametrize("name", ["code.py", "new.py", "sub/data/file"])
    def test_a_changed_one(self, checkout, name):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("x = 2\n")
        assert provenance.code()["dirty"] is True

    def test_no_checkout(self, tmp_path, monkeypatch):
        (tmp_path / "envs" / "cluster").mkdir(parents=True)
        monkeypatch.setenv("MESHPERF_ROOT", str(tmp_path))
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
        provenance.code.cache_clear()
        assert provenance.code() == {"version": "0.1.0", "commit": None, "dirty": None}
        provenance.code.cache_clear()

    def test_nobody_and_no_machine_is_named(self):
        import getpass
        import platform

        text = json.dumps([provenance.environment(), provenance.code()])
        assert platform.node() not in text
        assert getpass.getuser() not in text
