"""A study file is either right, or refused with one sentence that names file, key, value and remedy."""

import json
import re
from pathlib import Path

import pytest
import yaml
from support import make_study

from meshperf.design import Arm
from meshperf.errors import MeshperfError
from meshperf.paths import repository_root
from meshperf.study import (
    Families,
    Study,
    analysis_plan_sha256,
    changed_plan,
    json_schema,
    load_study,
    parse_study,
    study_sha256,
)

CONFIG = repository_root() / "config"
SHIPPED = sorted(CONFIG.glob("*.yaml"))


@pytest.fixture
def write(tmp_path):
    """Return a function that writes quick.yaml with some text replaced, and returns the file."""

    def write_study(old: str = "", new: str = "") -> Path:
        text = (CONFIG / "quick.yaml").read_text()
        assert old in text, "the test replaces text that quick.yaml does not have"
        path = tmp_path / "changed.yaml"
        path.write_text(text.replace(old, new, 1) if old else text)
        return path

    return write_study


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_studies_are_valid_and_named_after_their_file(path):
    assert load_study(path).study == path.stem


def test_quick_is_the_study_that_was_promised():
    study = load_study(CONFIG / "quick.yaml")
    assert study.arms_expanded == (Arm("istio", "basic"), Arm("istio", "mtls"))
    assert len(study.target_rps) == 2
    assert study.blocks == 3
    assert study.is_local


def test_the_committed_campaign_is_not_local():
    assert not load_study(CONFIG / "embedded.yaml").is_local


# What is replaced in quick.yaml, by what, and what the sentence must contain: key, value and remedy.
MISTAKES = {
    "unknown mesh": (
        "mesh: istio",
        "mesh: isto",
        ['unknown mesh "isto"', 'did you mean "istio"?', "supported are "],
    ),
    "baseline as an arm": ("mesh: istio", "mesh: baseline", ['"baseline"', "twice already", "remove it"]),
    "unknown configuration": (
        "[basic, mtls]",
        "[basic, mtsl]",
        ['unknown configuration "mtsl" of istio', 'did you mean "mtls"?', "basic, mtls"],
    ),
    "no rules": (
        "configurations: [basic, mtls]",
        "configurations: [authz-0]",
        ['unknown configuration "authz-0" of istio', "authz-N (N from 1 to 5000)"],
    ),
    "a placeholder": (
        "configurations: [basic, mtls]",
        "configurations: [authz-N]",
        ['unknown configuration "authz-N" of istio', "authz-N (N from 1 to 5000)"],
    ),
    "no arms": ("- {mesh: istio, configurations: [basic, mtls]}", "[]", ["arms must be a list", "not []"]),
    "duplicate arm": ("[basic, mtls]", "[mtls, mtls]", ["arms lists istio/mtls more than once", "remove"]),
    "unknown key": ("seed:", "sead:", ['unknown key "sead"', 'did you mean "seed"?']),
    "unknown nested key": (
        "connections: 16",
        "conections: 16",
        ['unknown key "load.conections"', 'did you mean "connections"?', "duration_s"],
    ),
    "missing key": ("blocks: 3\n", "", ['the key "blocks" is missing', "at least 1"]),
    "RPS abc": ("[200, 500]", "[200, abc]", ["target_rps[1]", '"abc"', "at least 1", "[200, 500]"]),
    "RPS not a list": ("[200, 500]", "abc", ["target_rps", '"abc"', "[200, 500]"]),
    "RPS zero": ("[200, 500]", "[0, 500]", ["target_rps[0]", "not 0"]),
    "RPS fraction": ("[200, 500]", "[200.5]", ["target_rps[0]", "200.5", "whole numbers"]),
    "RPS boolean": ("[200, 500]", "[true]", ["target_rps[0]", "true"]),
    "no RPS": ("[200, 500]", "[]", ["target_rps must be", "not []"]),
    "duplicate RPS": ("[200, 500]", "[200, 200]", ["target_rps lists 200 more than once"]),
    "no blocks": ("\nblocks: 3", "\nblocks: 0", ["blocks must be at least 1", "not 0"]),
    "too many blocks": ("\nblocks: 3", "\nblocks: 98", ["blocks (98)", "makeup_blocks (2)", "99"]),
    "negative duration": ("duration_s: 5", "duration_s: -5", ["load.duration_s", "more than 0", "-5"]),
    "negative warm-up": ("warmup_s: 1", "warmup_s: -1", ["load.warmup_s", "0 or more", "-1"]),
    "infinite duration": ("duration_s: 5", "duration_s: .inf", ["load.duration_s must be more than 0"]),
    "shorter than a slice": (
        "duration_s: 5",
        "duration_s: 2",
        ["load.duration_s (2)", "load.slice_s (5)", "lengthen"],
    ),
    "fewer requests than connections": (
        "[200, 500]",
        "[1]",
        ["target_rps 1 for 5 s is 5 requests", "load.connections (16)"],
    ),
    "unquoted CPU": ("server_limits: {cpu: null", "server_limits: {cpu: 2", ["server_limits.cpu", "quotes"]),
    "unknown CPU unit": (
        "server_limits: {cpu: null",
        'server_limits: {cpu: "2 cores"',
        ["server_limits.cpu", '"2 cores"', "325m"],
    ),
    "unknown placement": ("same-node", "far-away", ["workload.placement", '"far-away"', "other-node"]),
    "selector without labels": ("same-node", "node-selector", ["client_node_selector", "add them"]),
    "quantile of 1": ("0.9, 0.99]", "0.9, 1]", ["quantiles[2]", "between 0 and 1", "not 1"]),
    "path as a name": ("study: quick", "study: ../quick", ["study must be", '"../quick"', "hyphens"]),
    "context for kind": (
        "{kind: auto, context: null}",
        "{kind: kind, context: prod}",
        ["testbed.context", '"prod"', "kind: context"],
    ),
    "unknown testbed": ("kind: auto", "kind: cloud", ["testbed.kind", '"cloud"', "embedded"]),
    "margin of no percentile": ("p50: 0.05", "median: 0.05", ["equivalence_margins", "{p50: 0.05}"]),
    "descending tiers": ("[0.95, 0.99]", "[0.99, 0.95]", ["analysis.rate_tiers", "ascend"]),
    "key given twice": ("blocks: 3\n", "blocks: 3\nblocks: 6\n", ['"blocks" is given twice', "line"]),
}


@pytest.mark.parametrize(("old", "new", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_sentence_that_names_file_key_value_and_remedy(write, old, new, words):
    path = write(old, new)
    with pytest.raises(MeshperfError) as caught:
        load_study(path)
    sentence = str(caught.value)
    assert str(path) in sentence
    for word in words:
        assert word in sentence
    assert "\n" not in sentence
    assert "pydantic" not in sentence


def test_a_run_must_be_as_long_as_the_interval_of_scrapes(write):
    short = {"duration_s": 4.9, "slice_s": 4.9}
    arms = [{"mesh": "istio", "configurations": ["mtls", "mtls-metrics"]}]
    with pytest.raises(
        MeshperfError, match=r"load\.duration_s \(4\.9\) must be at least 5 for istio/mtls-metrics"
    ):
        make_study(arms=arms, load=short)
    assert make_study(arms=arms, load={"duration_s": 5, "slice_s": 5})
    assert make_study(load=short)


def test_several_mistakes_are_counted(write):
    path = write("connections: 16\n  duration_s: 5", "connections: 0\n  duration_s: 0")
    with pytest.raises(MeshperfError, match=r"load\.connections .* \(and 1 more mistake\)$"):
        load_study(path)


def test_a_missing_file_names_its_neighbours(tmp_path):
    (tmp_path / "quick.yaml").touch()
    with pytest.raises(MeshperfError, match=r'no study file .*quik\.yaml .*did you mean "quick\.yaml"'):
        load_study(tmp_path / "quik.yaml")


def test_a_directory_is_not_a_study(tmp_path):
    with pytest.raises(MeshperfError, match=re.escape(str(tmp_path))):
        load_study(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [("arms: [", "line 1"), ("", "nothing"), ("- a", "a list"), ("blocks: \xff", "must")],
    ids=["broken YAML", "empty", "a list", "one key"],
)
def test_what_is_no_mapping_is_refused(tmp_path, text, words):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(MeshperfError, match=words) as caught:
        load_study(path)
    assert str(path) in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MeshperfError, match="UTF-8"):
        load_study(path)


def test_exponents_are_numbers(write):
    # YAML 1.1, and with it PyYAML, reads 5e-5 as text.
    assert load_study(write("resolution_s: 0.00005", "resolution_s: 5e-5")).load.resolution_s == 5e-5


def test_the_schema_in_the_repository_is_the_models():
    path = CONFIG / "schemas" / "study.schema.json"
    assert path.read_text() == json_schema(), (
        "run `meshperf study schema -o config/schemas/study.schema.json`"
    )


def test_the_schema_accepts_the_shipped_studies_and_refuses_what_the_model_refuses():
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads(json_schema()))
    content = yaml.safe_load((CONFIG / "quick.yaml").read_text())
    for path in SHIPPED:
        assert validator.is_valid(yaml.safe_load(path.read_text())), path
    for wrong in (
        {"blocks": 0},
        {"target_rps": ["abc"]},
        {"unknown": 1},
        {"arms": [{"mesh": "isto", "configurations": ["basic"]}]},
        {"arms": [{"mesh": "istio", "configurations": ["none"]}]},
        *(
            {"arms": [{"mesh": "istio", "configurations": [f"authz-{n}"]}]}
            for n in ("0", "N", "5001", "10000", "01")
        ),
    ):
        assert not validator.is_valid(content | wrong), wrong
    for n in (1, 10, 999, 1000, 4999, 5000):
        assert validator.is_valid(content | {"arms": [{"mesh": "istio", "configurations": [f"authz-{n}"]}]})


def _changed(**changes) -> Study:
    content = load_study(CONFIG / "quick.yaml").model_dump(mode="json")
    return Study.model_validate_json(json.dumps(content | changes))


def test_hashes_tell_what_was_changed():
    quick = load_study(CONFIG / "quick.yaml")
    same = (study_sha256(quick), analysis_plan_sha256(quick))

    def hashes(study):
        return study_sha256(study), analysis_plan_sha256(study)

    assert hashes(_changed()) == same
    assert hashes(_changed(title="Another title")) == same
    alpha = {**quick.analysis.model_dump(mode="json"), "alpha": 0.01}
    measured, plan = hashes(_changed(analysis=alpha))
    assert (measured == same[0], plan == same[1]) == (True, False)
    measured, plan = hashes(_changed(seed=1))
    assert (measured == same[0], plan == same[1]) == (False, False)


def test_a_plan_keeps_its_hash_when_the_analysis_learns_more():
    # Recorded with the committed campaign, before there were families of tests.
    design = json.loads((CONFIG.parent / "data/raw/2026-11-embedded/design.json").read_text())
    study = load_study(CONFIG / "embedded.yaml")
    assert analysis_plan_sha256(study) == design["analysis_plan_sha256"]
    assert changed_plan(design["study"], study) == []
    other = study.model_copy(
        update={"analysis": study.analysis.model_copy(update={"families": Families(target_rps=(400,))})}
    )
    assert analysis_plan_sha256(other) != design["analysis_plan_sha256"]
    assert changed_plan(design["study"], other) == ["analysis.families.target_rps: null, now [400]"]


def test_families_name_what_the_study_has():
    content = yaml.safe_load((CONFIG / "quick.yaml").read_text())
    quantiles = {"analysis": {"families": {"quantiles": [0.5, 0.75]}}}
    rates = {"analysis": {"families": {"target_rps": [401]}}}
    for mistake, named in ((quantiles, "0.75"), (rates, "401")):
        with pytest.raises(MeshperfError) as caught:
            parse_study({**content, "analysis": mistake["analysis"]}, "study.yaml")
        assert f"has {named}, which is not among the study's" in str(caught.value)
    # A study without p99 claims nothing of it, and need not say so.
    assert parse_study({**content, "quantiles": [0.5]}, "study.yaml").analysis.families.quantiles == (
        0.5,
        0.99,
    )
