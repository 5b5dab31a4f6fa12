"""The workflow on a synthetic campaign: what it makes, what it repeats, and what it refuses."""

import json

import pytest

pytestmark = pytest.mark.slow


def test_makes_the_report_and_everything_under_it(analysed):
    workspace, _ = analysed
    results = workspace.directory / "results" / "analysed"
    assert (results / "report" / "index.html").stat().st_size > 10_000
    assert (results / "report" / "report.pdf").read_bytes().startswith(b"%PDF")
    for name in (
        "runs.csv",
        "cells.csv",
        "comparisons.csv",
        "ranks.csv",
        "gate.csv",
        "control.csv",
        "distances.csv",
        "shifts.csv",
        "features.csv",
        "decisions.csv",
        "plan.csv",
        "drifts.csv",
        "knees.csv",
        "slopes.csv",
        "memory.csv",
        "resources.csv",
        "values.yml",
        "test-results.txt",
    ):
        assert (results / name).stat().st_size > 0, name
    assert json.loads((results / "verify.json").read_text())["passed"]
    # 2 cells: the baseline and Istio at one rate
    assert sorted(path.name for path in (results / "cells").glob("*.csv")) == [
        "baseline-none-100.csv",
        "istio-mtls-100.csv",
    ]


def test_repeats_nothing(analysed):
    workspace, study_path = analysed
    assert workspace.plan(study_path) == {}


@pytest.mark.parametrize(
    ("source", "repeated", "spared"),
    [
        (
            "src/meshperf/statistics/quantiles.py",
            {"describe_cell": 2, "compare_arms": 1, "build_report": 1},
            {"verify_campaign"},
        ),
        (
            "src/meshperf/analysis/comparisons.py",
            {"compare_arms": 1, "check_control": 1, "build_report": 1},
            {"check_runs", "summarise_resources", "verify_campaign"},
        ),
        (
            "src/meshperf/report/render.py",
            {"build_report": 1},
            {"describe_cell", "compare_arms", "check_runs", "test_results"},
        ),
        ("notebooks/05-resources.ipynb", {"summarise_resources": 1}, {"describe_cell", "compare_arms"}),
        (
            "src/meshperf/published/printed.py",
            {"read_published": 1, "build_report": 1},
            {"describe_cell", "compare_arms", "check_runs"},
        ),
        ("paper/method.qmd", {"build_report": 1}, {"describe_cell", "compare_arms", "check_runs"}),
    ],
)
def test_a_changed_source_repeats_what_it_computed(analysed, source, repeated, spared):
    workspace, study_path = analysed
    path = workspace.directory / source
    before = path.read_bytes()
    try:
        path.write_bytes(before + b"\n")
        plan = workspace.plan(study_path)
    finally:
        path.write_bytes(before)

    assert {rule: plan.get(rule) for rule in repeated} == repeated
    assert not spared & set(plan)


@pytest.mark.parametrize("damage", ["deleted", "changed"])
@pytest.mark.parametrize("name", ["fortio.json", "run.json", "slices.csv.gz"])
def test_a_damaged_raw_file_stops_everything(analysed, damage, name):
    workspace, study_path = analysed
    path = workspace.directory / "data/raw/analysed-local/istio/mtls/100/block-02-1" / name
    before = path.read_bytes()
    try:
        if damage == "deleted":
            path.unlink()
        else:
            path.write_bytes(before[:-2] + bytes([before[-2] ^ 1]) + before[-1:])
        finished = workspace.snakemake(study_path)
    finally:
        path.write_bytes(before)

    assert finished.returncode == 2
    said = [line for line in finished.stdout.splitlines() if line.startswith("meshperf: ")]
    assert len(said) == 1 and f"block-02-1/{name} was {damage}" in said[0]


def test_results_that_cannot_be_are_not_published(analysed):
    workspace, study_path = analysed
    path = workspace.directory / "results/analysed/comparisons.csv"
    before = path.read_bytes()
    try:
        header, *rows = before.decode().splitlines()
        column = header.split(",").index("ratio_low")
        fields = [row.split(",") for row in rows]
        for row in fields:
            row[column] = "99" if row[column] else ""
        path.write_text("\n".join([header, *(",".join(row) for row in fields)]) + "\n")
        finished = workspace.snakemake(study_path)
    finally:
        path.write_bytes(before)
        restored = workspace.snakemake(study_path)

    assert finished.returncode != 0
    assert "test_ratios_lie_in_their_intervals" in finished.stdout
    assert "Build the report" not in finished.stdout
    assert restored.returncode == 0, restored.stdout[-3000:]


def test_workflow_report_holds_figures_and_tables(analysed):
    workspace, study_path = analysed
    finished = workspace.snakemake(study_path, "--report", "workflow.html")
    assert finished.returncode == 0, finished.stdout[-3000:]
    page = (workspace.directory / "workflow.html").read_text()
    for category in ("Runs", "Cells", "Comparisons", "Resources", "Figures", "Tables"):
        assert category in page
