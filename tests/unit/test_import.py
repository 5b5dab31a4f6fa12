"""Importing foreign results: what becomes of each file, what is kept of it, and what a campaign of them is."""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from meshperf import campaign, frames, runs
from meshperf.analysis.pairing import pair_cell
from meshperf.analysis.runtable import RunTable
from meshperf.cli import cli
from meshperf.design import BASELINE, Arm, RunKey
from meshperf.errors import MeshperfError
from meshperf.importing import Claim, Rules, import_files
from meshperf.report.__main__ import main as report
from meshperf.study import load_study

FOREIGN = Path(__file__).parents[1] / "golden" / "foreign"
#: Where there is a directory of results that nobody here made.
EXTERNAL = os.environ.get("MESHPERF_EXTERNAL")
BASE = RunKey("baseline", "none", 100, 1, 1)


@pytest.fixture
def command(tmp_path):
    """Run `meshperf data import` for the campaign foreign-local below tmp_path."""

    def run(*arguments, campaign_id="foreign-local"):
        words = ["data", "import", *map(str, arguments), "--campaign", campaign_id]
        return CliRunner().invoke(
            cli, [*words, "--campaigns-dir", str(tmp_path / "data" / "raw")], catch_exceptions=True
        )

    run.dir = tmp_path / "data" / "raw" / "foreign-local"
    run.study = tmp_path / "data" / "raw" / "foreign-local.yaml"
    return run


def tree(directory):
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def record(directory, key):
    return runs.read_record(runs.run_dir(directory, key))


def test_one_file_becomes_one_run(command):
    source = FOREIGN / "http-1.1.0.json"
    result = command(source, "--mesh", "baseline", "--source", "our own loopback", "--licence", "CC0-1.0")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "1 run imported from 1 file" in result.stdout
    assert tree(command.dir) == [
        "baseline/none/100/block-01-1/fortio.json",
        "baseline/none/100/block-01-1/run.json",
        "design.json",
    ]
    assert (runs.run_dir(command.dir, BASE) / "fortio.json").read_bytes() == source.read_bytes()
    raw, kept = json.loads(source.read_text()), record(command.dir, BASE)
    assert kept["load"] == {
        "generator": "fortio",
        "version": "1.1.0-pre",
        "argv": None,
        "connections": 4,
        "duration_s": raw["ActualDuration"] / 1e9,
        "duration_requested_s": 1.0,
        "warmup_s": None,
        "resolution_s": None,
        "offset_s": None,
        "payload_bytes": None,
        "uniform": None,
        "catch_up": None,
        "rate_limited": True,
        "target_rps": 100,
        "achieved_rps": raw["ActualQPS"],
        "started_utc": raw["StartTime"][:26] + "Z",
        "ended_utc": kept["load"]["ended_utc"],
    }
    assert kept["latency"]["n_requests"] == raw["DurationHistogram"]["Count"]
    assert kept["latency"]["percentiles_s"]["99.9"] == raw["DurationHistogram"]["Percentiles"][-1]["Value"]
    origin = kept["imported"]
    assert (origin["file"], origin["original"], origin["part"]) == (source.name, "fortio.json", 1)
    assert origin["sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert kept["proof"]["passed"] is None
    assert {gate["name"]: gate["status"] for gate in kept["quality"]["gates"]}["proof"] == "not-available"
    assert (kept["testbed"], kept["node"], kept["resources"]) == (
        {"kind": "imported"},
        {},
        {"containers": []},
    )


def test_bad_files_are_refused_one_by_one_and_the_rest_is_imported(command, tmp_path):
    good, half = FOREIGN / "http-1.28.0.json", tmp_path / "half.json"
    half.write_bytes(good.read_bytes()[:2000])
    paths = [good, half, FOREIGN / "printed-1.68.1.txt", tmp_path / "nowhere.json", FOREIGN / "oha-1.4.1.txt"]
    result = command(*paths, "--mesh", "istio", "--configuration", "mtls")
    assert result.exit_code == 2
    errors = result.stderr.splitlines()
    assert [line.split(": ")[1] for line in errors] == ["half.json", "printed-1.68.1.txt", "nowhere.json"]
    assert "truncated or damaged" in errors[0]
    assert "-json FILE" in errors[1]
    assert "No such file" in errors[2]
    assert "2 runs imported from 5 files" in result.stdout
    assert "3 refused" in result.stdout
    assert len(list(runs.iter_keys(command.dir))) == 2


def test_nothing_is_left_where_nothing_was_imported(command, tmp_path):
    result = command(FOREIGN / "printed-1.68.1.txt", "--mesh", "istio", "--configuration", "mtls")
    assert result.exit_code == 2
    assert "0 runs imported" in result.stdout
    assert not command.dir.exists()
    assert not command.study.exists()


def test_the_same_file_is_skipped_and_another_one_for_its_run_refused(command, tmp_path):
    first, second = FOREIGN / "http-1.1.0.json", FOREIGN / "http-1.28.0.json"
    assert command(first, "--mesh", "baseline", "--block", 1).exit_code == 0
    before = {path: path.read_bytes() for path in command.dir.rglob("*.json")}
    again = command(first, "--mesh", "baseline", "--block", 1)
    assert again.exit_code == 0
    assert f"left out, it is there already, as {BASE}" in again.stdout
    assert {path: path.read_bytes() for path in command.dir.rglob("*.json")} == before
    other = command(second, "--mesh", "baseline", "--block", 1)
    assert other.exit_code == 2
    assert f"http-1.28.0.json: its run {BASE} is taken by another file" in other.stderr
    renamed = command(first, "--mesh", "istio", "--configuration", "mtls")
    assert renamed.exit_code == 2
    assert "another mesh than is stated now" in renamed.stderr
    twice = tmp_path / "copy.json"
    shutil.copy(second, twice)
    result = command(second, twice, "--mesh", "baseline")
    assert "copy.json: left out, it is the same file as http-1.28.0.json" in result.stdout
    assert {path: path.read_bytes() for path in before if path.name == "run.json"} == {
        path: content for path, content in before.items() if path.name == "run.json"
    }


def test_repetitions_are_numbered_in_order_of_time(command):
    # Recorded in this order; given in another one.
    names = ["http-1.1.0", "errors-1.1.0", "http-1.28.0", "http-1.40.0"]
    result = command(*[FOREIGN / f"{name}.json" for name in reversed(names)], "--mesh", "baseline")
    assert result.exit_code == 0
    for block, name in enumerate(names, 1):
        key = RunKey("baseline", "none", 100, block, 1)
        assert record(command.dir, key)["imported"]["file"] == f"{name}.json"
        assert record(command.dir, key)["imported"]["block_is_numbered"] is True
    # A later import goes on after them.
    assert command(FOREIGN / "errors-1.40.0.json", "--mesh", "baseline").exit_code == 0
    assert RunKey("baseline", "none", 100, 5, 1) in set(runs.iter_keys(command.dir))


def test_a_dry_run_writes_nothing(command, tmp_path):
    result = command(FOREIGN / "http-1.1.0.json", "--mesh", "baseline", "--dry-run")
    assert (result.exit_code, str(BASE) in result.stdout) == (0, True)
    assert "1 run would be imported" in result.stdout
    assert tree(tmp_path) == []


def test_a_folder_is_searched(command):
    result = command(FOREIGN, "--mesh", "traefik", "--configuration", "plain")
    n_files = len(tree(FOREIGN))
    assert f"from {n_files} files" in result.stdout
    assert f"{n_files - 1} runs imported" in result.stdout
    assert "not measured by this version, and kept under the names given: traefik/plain" in result.stdout


# ---- which run a file is


def test_a_mapping_says_which_run_a_file_is(command, tmp_path):
    mapping = tmp_path / "map.csv"
    mapping.write_text(
        "file,mesh,configuration,target_rps,block,deployment,connections\n"
        "http-1.1.0.json,baseline,none,100,3,2,\n"
        "foreign/http-1.28.0.json,istio,mtls,,1,,4\n"
        "oha-1.4.1.txt,istio,mtls,100,2,,4\n"
    )
    result = command(*[FOREIGN / name for name in ("http-1.1.0.json", "http-1.28.0.json", "oha-1.4.1.txt")],
                     "--mapping", mapping)  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")
    assert set(runs.iter_keys(command.dir)) == {
        RunKey("baseline", "none", 100, 3, 2),
        RunKey("istio", "mtls", 100, 1, 1),
        RunKey("istio", "mtls", 100, 2, 1),
    }
    oha = record(command.dir, RunKey("istio", "mtls", 100, 2, 1))
    assert (oha["load"]["connections"], oha["load"]["target_rps"]) == (4, 100)
    assert oha["imported"]["stated"]["connections"] == 4


def test_a_pattern_says_which_run_a_file_is(command, tmp_path):
    for name, source in (("both_r100_3.json", "http-1.28.0"), ("none_r100_3.json", "http-1.40.0")):
        shutil.copy(FOREIGN / f"{source}.json", tmp_path / name)
    pattern = r"(?P<arm>[a-z]+)_r(?P<rps>\d+)_(?P<block>\d)\.json$"
    files = [tmp_path / "both_r100_3.json", tmp_path / "none_r100_3.json"]
    result = command(*files, "--pattern", pattern, "--arm", "both=istio/mtls", "--arm", "none=baseline")
    assert (result.exit_code, result.stderr) == (0, "")
    assert set(runs.iter_keys(command.dir)) == {
        RunKey("istio", "mtls", 100, 3, 1),
        RunKey("baseline", "none", 100, 3, 1),
    }
    assert (
        "add --arm both=MESH/CONFIGURATION"
        in command(files[0], "--pattern", pattern, campaign_id="x-local").stderr
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "its mesh is not known: state it with --mesh"),
        (("--mesh", "istio"), "configuration of istio is not known"),
        (("--mesh", "baseline", "--configuration", "mtls"), 'has the configuration "none", not "mtls"'),
        (("--mesh", "baseline", "--rps", "200"), "a target of 100 RPS, and 200 RPS is stated"),
        (("--mesh", "baseline", "--rps", "max"), "a target of 100 RPS, and no limit is stated"),
        (("--mesh", "attempts", "--configuration", "x"), 'no mesh can be called "attempts"'),
        (("--pattern", "(?P<mesh>x+)"), "does not fit --pattern"),
    ],
)
def test_a_file_whose_run_is_not_clear_is_refused(command, options, words):
    result = command(FOREIGN / "http-1.1.0.json", *options)
    assert result.exit_code == 2
    assert result.stderr.startswith("meshperf: http-1.1.0.json: ")
    assert words in result.stderr
    assert not command.dir.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mesh", "NoMesh"), 'the mesh "NoMesh" is not lower-case'),
        (("--mesh", "x", "--rps", "fast"), 'the target_rps "fast" is not a whole number from 1'),
        (("--mesh", "x", "--block", "100"), "from 1 to 99"),
        (("--pattern", "(?P<mash>x)"), 'unknown group "mash"'),
        (("--pattern", "("), "not a regular expression"),
        (("--pattern", "x"), "no named group"),
        (("--arm", "a=b/c"), "give --pattern too"),
        (("--pattern", "(?P<arm>x)", "--arm", "a"), "not TEXT=MESH/CONFIGURATION"),
        (("--mapping", "nowhere.csv"), "cannot be read"),
    ],
)
def test_options_that_cannot_be_are_refused_at_once(command, options, words):
    result = command(FOREIGN / "http-1.1.0.json", *options)
    assert isinstance(result.exception, MeshperfError)
    assert words in str(result.exception)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mesh\nistio\n", 'has no column "file"'),
        ("file,mash\nx,istio\n", 'unknown column "mash"'),
        ("file,mesh\nx,istio\nx,istio\n", 'line 3 of .* names "x" again'),
        ("file,mesh\n,istio\n", "line 2 of .* names no file"),
        ("file,mesh\nx,istio,mtls\n", "more values than columns"),
        ("file,mesh\nx,Istio\n", 'line 2 of .*: the mesh "Istio"'),
    ],
)
def test_a_mapping_with_mistakes_is_refused_with_the_line(command, tmp_path, text, words):
    mapping = tmp_path / "map.csv"
    mapping.write_text(text)
    result = command(FOREIGN / "http-1.1.0.json", "--mapping", mapping)
    assert isinstance(result.exception, MeshperfError)
    with pytest.raises(MeshperfError, match=words):
        raise result.exception


def test_what_is_nearer_to_the_file_counts_more():
    path = Path("results/istio/x_500.json")
    pattern = re.compile(r"_(?P<target_rps>\d+)\.json")
    rules = Rules(
        given=Claim(mesh="kuma", configuration="mtls", target_rps=1),
        mapping={"istio/x_500.json": Claim(mesh="istio")},
        pattern=pattern,
    )
    assert rules.claim(path, 1, 1) == Claim("istio", "mtls", 500)
    assert rules.claim(Path("other/y.json"), 1, 1) == Claim("kuma", "mtls", 1)


# ---- loads


def test_a_load_without_a_limit_is_saturated_and_an_unknown_one_degraded(command):
    assert (
        command(FOREIGN / "max-1.11.0.json", FOREIGN / "oha-1.4.1.json", "--mesh", "baseline").exit_code == 0
    )
    by_file = {
        kept["imported"]["file"]: kept
        for key in runs.iter_keys(command.dir)
        for kept in [record(command.dir, key)]
        if key.target_rps == 0
    }
    unlimited, unknown = by_file["max-1.11.0.json"], by_file["oha-1.4.1.json"]
    assert (unlimited["load"]["target_rps"], unlimited["load"]["rate_limited"]) == (None, False)
    assert unlimited["quality"]["verdict"] == "saturated"
    assert "no rate limit" in unlimited["quality"]["reasons"][0]
    assert (unknown["load"]["target_rps"], unknown["load"]["rate_limited"]) == (None, None)
    assert unknown["load"]["connections"] is None
    assert unknown["quality"]["verdict"] == "degraded"
    assert "not known" in unknown["quality"]["reasons"][0]


def test_verdicts_follow_the_file(command):
    names = ["interrupted-1.68.1", "errors-1.1.0", "http-1.28.0", "tcp-1.11.0"]
    command(*[FOREIGN / f"{name}.json" for name in names], "--mesh", "baseline")
    found = [record(command.dir, key) for key in runs.iter_keys(command.dir)]
    verdicts = {kept["imported"]["file"].split("-")[0]: kept["quality"] for kept in found}
    assert verdicts["interrupted"]["verdict"] == "failed"
    assert "asked 60 s" in verdicts["interrupted"]["reasons"][0]
    assert verdicts["errors"]["verdict"] == "failed"
    assert "× 503" in verdicts["errors"]["reasons"][0]
    # 84 of 100 requests, recorded on a busy machine: nothing was sent late, so that they are missing.
    assert verdicts["http"]["verdict"] == "saturated"
    assert verdicts["tcp"]["verdict"] == "ok"
    omission = next(kept["omission"] for kept in found if kept["imported"]["file"].startswith("http-1.28"))
    assert (omission["hidden_requests"], omission["missing_fraction"]) == (16, 0.16)


def test_runs_with_other_connections_do_not_repeat_each_other(command):
    # grpc with 2 connections, http with 4, both at 100 RPS.
    result = command(FOREIGN / "http-1.1.0.json", FOREIGN / "grpc-1.1.0.json", "--mesh", "baseline")
    assert result.exit_code == 0
    assert "have different connections" in result.stderr
    with pytest.raises(MeshperfError, match=r"different numbers of connections, 4 .* and 2 .*--connections"):
        campaign.seal(command.dir)
    chosen = command(FOREIGN, "--mesh", "baseline", "--connections", 4, campaign_id="four-local")
    directory = command.dir.with_name("four-local")
    assert {record(directory, key)["load"]["connections"] for key in runs.iter_keys(directory)} == {4}
    assert "left out, it has 2 connections" in chosen.stdout


def test_several_results_of_one_file_are_told_apart(command, tmp_path):
    parts = [json.loads((FOREIGN / f"{name}.json").read_text()) for name in ("http-1.1.0", "http-1.28.0")]
    wrapped = tmp_path / "meshery.json"
    wrapped.write_text(json.dumps([{"runner_results": [part]} for part in parts]))
    mapping = tmp_path / "map.csv"
    mapping.write_text("file,mesh,configuration\nmeshery.json#1,baseline,\nmeshery.json#2,istio,mtls\n")
    assert command(wrapped, "--mapping", mapping).exit_code == 0
    second = RunKey("istio", "mtls", 100, 1, 1)
    run = runs.run_dir(command.dir, second)
    assert sorted(path.name for path in run.iterdir()) == ["fortio.json", "original.json", "run.json"]
    assert (run / "original.json").read_bytes() == wrapped.read_bytes()
    assert record(command.dir, second)["imported"]["original"] == "original.json"
    assert record(command.dir, second)["latency"]["n_requests"] == 84
    again = command(wrapped, "--mapping", mapping)
    assert "2 left out" in again.stdout


# ---- the campaign


def imported(command):
    """Import a small campaign: one baseline and one istio in each of two blocks."""
    names = {"http-1.28.0": ("baseline", "none", 1), "http-1.40.0": ("istio", "mtls", 1),
             "http-1.1.0": ("baseline", "none", 2), "errors-1.40.0": ("istio", "mtls", 2)}  # fmt: skip
    for name, (mesh, configuration, block) in names.items():
        path = FOREIGN / f"{name}.json"
        assert (
            command(path, "--mesh", mesh, "--configuration", configuration, "--block", block).exit_code == 0
        )
    return command.dir


def test_the_study_is_written_beside_and_keeps_what_people_change(command):
    directory = imported(command)
    study = load_study(command.study)
    assert (study.campaign, study.target_rps, study.blocks, study.load) == ("foreign-local", (100,), 2, None)
    assert [str(arm) for arm in study.arms_expanded] == ["istio/mtls"]
    assert study.imported.baselines == 1
    text = command.study.read_text()
    command.study.write_text(
        text.replace("seed: 0", "seed: 5").replace("Imported results: foreign-local", "Ours")
    )
    path = FOREIGN / "tcp-1.11.0.json"
    assert command(path, "--mesh", "kuma", "--configuration", "plain", "--block", 1).exit_code == 0
    study = load_study(command.study)
    assert (study.seed, study.title) == (5, "Ours")
    assert [str(arm) for arm in study.arms_expanded] == ["istio/mtls", "kuma/plain"]
    assert campaign.check_design(study, directory)["imported"] is True


def test_an_imported_campaign_is_sealed_verified_and_never_edited(command, tmp_path):
    directory = imported(command)
    campaign.seal(directory)
    study = load_study(command.study)
    assert campaign.verify(directory, study) == []
    row = (tmp_path / "data" / "campaigns-local.csv").read_text().splitlines()[1].split(",")
    assert row[3] == "imported"
    assert row[-1] == "unknown"
    crate = json.loads((directory / "ro-crate-metadata.json").read_text())
    root = next(item for item in crate["@graph"] if item["@id"] == "./")
    assert root["description"].startswith("IMPORTED results, measured by others")
    assert "not known" in root["license"]
    assert "author" not in root
    result = command(FOREIGN / "grpc-1.1.0.json", "--mesh", "baseline")
    assert isinstance(result.exception, MeshperfError)
    assert "is sealed and never edited" in str(result.exception)
    victim = next(directory.glob("istio/*/*/*/fortio.json"))
    victim.write_bytes((FOREIGN / "tcp-1.11.0.json").read_bytes())
    problems = campaign.verify(directory, study)
    assert any("was changed" in problem for problem in problems)
    assert any("is not the file that was imported" in problem for problem in problems)


def test_nothing_is_measured_of_an_imported_campaign(command, tmp_path):
    directory = imported(command)
    study = load_study(command.study)
    with pytest.raises(MeshperfError, match="was imported, so that nothing of it can be measured"):
        runs.pending(study, directory)
    result = CliRunner().invoke(cli, ["run", str(command.study)])
    assert isinstance(result.exception, MeshperfError)


def test_nothing_is_imported_into_a_measured_campaign(tmp_path):
    from support import make_study, make_synthetic_campaign

    directory = make_synthetic_campaign(tmp_path, make_study(blocks=1), seal=False)
    with pytest.raises(MeshperfError, match="was measured here"):
        import_files([FOREIGN / "http-1.1.0.json"], directory, Rules(given=Claim("kuma", "x")))


def test_a_measured_run_must_say_everything(command):
    imported(command)
    kept = record(command.dir, BASE)
    del kept["imported"]
    with pytest.raises(ValueError, match="argv is null and the run not imported"):
        runs.RunRecord.model_validate(kept)


def test_imported_runs_are_rows_like_others(command):
    directory = imported(command)
    runs_df = frames.load_runs(directory)
    assert len(runs_df) == 4
    raw = json.loads((FOREIGN / "http-1.1.0.json").read_text())
    row = runs_df[runs_df["path"] == "baseline/none/100/block-02-1"].iloc[0]
    assert (row["n_requests"], row["achieved_rps"]) == (raw["DurationHistogram"]["Count"], raw["ActualQPS"])
    histograms_df = frames.load_histograms(directory)
    errors = json.loads((FOREIGN / "errors-1.40.0.json").read_text())["RetCodes"]["503"]
    assert histograms_df["count"].sum() == runs_df["n_requests"].sum() - errors
    # All on fortio's grid of 0.1 ms, so that nothing is interpolated.
    assert {round(width, 9) for width in histograms_df["bin_high_s"] - histograms_df["bin_low_s"]} >= {0.0001}
    assert frames.load_resources(directory).empty


def test_runs_with_edges_of_their_own_are_spread_over_one_grid(command):
    for mesh, configuration, name in (
        ("baseline", "none", "oha-1.4.1.json"),
        ("istio", "mtls", "oha-1.4.1.txt"),
    ):
        path = FOREIGN / name
        assert (
            command(path, "--mesh", mesh, "--configuration", configuration, "--connections", 4).exit_code == 0
        )
    histograms_df = frames.load_histograms(command.dir)
    assert histograms_df.groupby("mesh")["count"].sum().to_dict() == {"baseline": 300, "istio": 200}
    ratio = (histograms_df["bin_high_s"] / histograms_df["bin_low_s"]).to_numpy()
    assert np.allclose(ratio, 1.01, atol=1e-3)
    stated = json.loads((FOREIGN / "oha-1.4.1.json").read_text())["latencyPercentiles"]
    bins = histograms_df[histograms_df["mesh"] == "baseline"]
    for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        reached = bins["count"].cumsum().to_numpy() >= q * 300
        low, high = bins[["bin_low_s", "bin_high_s"]].to_numpy()[reached.argmax()]
        assert low * 0.99 <= stated[name] <= high * 1.01, name


def test_arms_are_compared_with_the_one_baseline_that_there_is(command):
    directory = imported(command)
    study = load_study(command.study)
    runs_df, histograms_df = frames.load_runs(directory), frames.load_histograms(directory)
    # By hand: as if all runs were sound, which a busy machine did not let them be.
    runs_df["verdict"] = "ok"
    table = RunTable.build(runs_df, histograms_df)
    pairing = pair_cell(table, Arm("istio", "mtls"), 100)
    assert pairing.refusal == ""
    assert [len(rows) for rows in pairing.control_rows] == [1, 1]
    assert pair_cell(table, BASELINE, 100).refusal == "too few blocks"
    assert {str(cell.arm) for cell in runs.cells(study, directory)} == {"baseline/none", "istio/mtls"}


def test_no_report_says_that_we_measured_it(command, capsys):
    imported(command)
    assert report([str(command.study)]) == 2
    assert "was imported, and the report's text is of measurements of our own" in capsys.readouterr().err


# ---- outside data


@pytest.mark.skipif(EXTERNAL is None, reason="MESHPERF_EXTERNAL names no directory of foreign results")
def test_results_of_others_are_imported_with_their_numbers(command):
    result = command(EXTERNAL, "--mesh", "istio", "--configuration", "mtls")
    assert result.exit_code in (0, 2)
    keys = list(runs.iter_keys(command.dir))
    assert keys
    for key in keys:
        kept, run = record(command.dir, key), runs.run_dir(command.dir, key)
        original = run / kept["imported"]["original"]
        assert hashlib.sha256(original.read_bytes()).hexdigest() == kept["imported"]["sha256"]
        histogram = frames.load_histogram(run)
        if kept["load"]["generator"] == "oha":
            assert histogram.n == sum(kept["latency"]["return_codes"].values())
            for p, value in kept["latency"]["percentiles_s"].items():
                rounding = 1.01 * kept["latency"]["rounding_s"]
                assert histogram.quantile(float(p) / 100) == pytest.approx(value, abs=rounding, rel=1e-6), key
        else:
            taken_out = kept["latency"]["n_errors"] - kept["latency"]["n_errors_among_latencies"]
            assert histogram.n == kept["latency"]["n_requests"] - taken_out
