"""One synthetic study, analysed and rendered once for all tests of the paper."""

import shutil
from pathlib import Path

import pytest
from paper.paper_study import Rendered, analysed
from support import make_study

from meshperf.design import RunKey


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """A study of six blocks, two rates and two configurations, with one degraded run and a broken attempt."""
    study = make_study(blocks=6, load={"connections": 4, "duration_s": 5, "warmup_s": 1, "slice_s": 2.5})
    key = RunKey("istio", "mtls", 400, 2, 1)
    made = analysed(
        tmp_path_factory.mktemp("study"),
        study,
        verdicts={key: "degraded"},
        achieved_ratio={key: 0.97},
        broken_attempts={RunKey("istio", "basic", 100, 3, 1): 1},
    )
    built = made.build(made.out_dir)
    return Rendered(made.study, made.campaign_dir, made.results_dir, made.report_data, built)


@pytest.fixture
def results_copy(rendered: Rendered, tmp_path: Path) -> Rendered:
    """The same results in a directory of their own, to be damaged."""
    results_dir = tmp_path / "results"
    shutil.copytree(rendered.results_dir, results_dir, ignore=shutil.ignore_patterns("report"))
    return Rendered(rendered.study, rendered.campaign_dir, results_dir, rendered.report_data)
