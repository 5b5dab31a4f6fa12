"""The notebooks in a kernel of their own, as JupyterLab and papermill run them."""

import json
import os
from pathlib import Path

import papermill
import pytest
from support import make_study, make_synthetic_campaign
from workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return a checkout with a synthetic campaign that nothing has analysed."""
    workspace = Workspace(tmp_path_factory.mktemp("measured"))
    study = make_study(campaign="example-local", arms=[{"mesh": "istio", "configurations": ["mtls"]}])
    make_synthetic_campaign(workspace.directory, study)
    return workspace, workspace.write_study(study)


def execute(workspace, name, tmp_path, **parameters):
    """Execute a notebook from another directory, with a kernel; return its outputs as text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MESHPERF_ROOT", str(workspace.directory))
        patch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
        executed = papermill.execute_notebook(
            str(ROOT / "notebooks" / f"{name}.ipynb"),
            str(tmp_path / f"{name}.ipynb"),
            parameters=parameters,
            kernel_name="python3",
            cwd=str(tmp_path),
            progress_bar=False,
        )
    return json.dumps([cell.get("outputs", []) for cell in executed.cells])


@pytest.mark.parametrize(
    ("name", "parameters", "shown"),
    [
        ("01-measure-run", {"target_rps": 400}, "server_proxy"),
        ("02-check-runs", {}, "image/svg+xml"),
        ("03-describe-cell", {"target_rps": 100}, "image/svg+xml"),
        ("04-compare-arms", {}, "overhead_ratio"),
        ("05-resources", {}, "sidecar"),
        ("06-check-control", {}, "second against first"),
        ("08-find-saturation", {}, "at_limit"),
        ("09-test-sensitivity", {}, "ratio_corrected"),
        ("07-compare-distributions", {}, "wasserstein"),
        ("10-read-published", {}, "9.10"),
        ("11-choose-arm", {}, "reference_configuration"),
        ("12-plan-blocks", {}, "detectable_ratio"),
    ],
)
def test_runs_all_without_a_cluster(measured, tmp_path, name, parameters, shown):
    workspace, study_path = measured
    before = sorted(workspace.directory.rglob("*"))

    outputs = execute(workspace, name, tmp_path, study_path=study_path, **parameters)

    assert shown in outputs
    after = [path for path in sorted(workspace.directory.rglob("*")) if "__pycache__" not in path.parts]
    assert [path for path in after if path not in before] == [], "it wrote where nothing asked it to"


def test_runs_all_on_the_committed_campaign(tmp_path):
    """What somebody sees who opens a notebook on a fresh clone."""
    executed = papermill.execute_notebook(
        str(ROOT / "notebooks" / "04-compare-arms.ipynb"),
        str(tmp_path / "compare.ipynb"),
        kernel_name="python3",
        cwd=str(ROOT / "notebooks"),
        progress_bar=False,
    )
    assert "2026-11-embedded" in json.dumps([cell.get("outputs", []) for cell in executed.cells])
    assert os.environ.get("MESHPERF_ROOT") is None
