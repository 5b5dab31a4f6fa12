"""Options and rules for all tests."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

#: What a test must not see: credentials of whoever runs it, and settings that change where meshperf looks.
_SECRETS = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "API_KEY", "ACCESS_KEY")
_SETTINGS = ("KUBECONFIG", "MESHPERF_CONTEXT", "MESHPERF_ROOT")


def pytest_addoption(parser):
    parser.addoption("--results", type=Path, help="directory of the results to test, e.g. results/quick")
    parser.addoption("--study", type=Path, help="the study file of these results")
    parser.addoption("--switches", type=int, default=8, help="how often to switch from one arm to another")
    parser.addoption("--switch-seed", type=int, default=1, help="of the random order of these arms")


def pytest_ignore_collect(collection_path, config):
    """Leave out the tests of results unless results are named: the workflow runs them on what it computed."""
    if collection_path.name == "results" and collection_path.parent.name == "tests":
        return config.getoption("--results") is None or None
    return None


@pytest.fixture(scope="session", autouse=True)
def _no_secrets():
    """Take credentials and personal settings out of the environment of all tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name in _SETTINGS or any(word in name.upper() for word in _SECRETS):
                patch.delenv(name)
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Fail a test of the cluster that skips in CI: there, a cluster that cannot be had is a defect."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and item.get_closest_marker("cluster") and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} was skipped, but CI must run every test of the cluster: {report.longrepr}"
        )


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the checkout that is tested."""
    return ROOT


@pytest.fixture
def workspace(tmp_path):
    """Return a checkout of its own, without data."""
    from workspace import Workspace

    return Workspace(tmp_path)


@pytest.fixture(scope="session")
def analysed(tmp_path_factory):
    """Return a checkout whose workflow has run on a small synthetic campaign, and the path of its study.

    A test that changes anything in it must change it back.
    """
    from support import make_study, make_synthetic_campaign
    from workspace import Workspace

    workspace = Workspace(tmp_path_factory.mktemp("analysed"))
    study = make_study(
        study="analysed",
        campaign="analysed-local",
        arms=[{"mesh": "istio", "configurations": ["mtls"]}],
        target_rps=[100],
    )
    study_path = workspace.write_study(study)
    make_synthetic_campaign(workspace.directory, study)
    finished = workspace.snakemake(study_path, timeout=600)
    assert finished.returncode == 0, finished.stdout[-5000:]
    return workspace, study_path
