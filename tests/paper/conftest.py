"""One synthetic study, analysed and rendered once for all tests of the paper."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import make_study, make_synthetic_campaign

from meshperf import analysis, frames
from meshperf.design import RunKey
from meshperf.report import data, figures, render, tables, values
from meshperf.study import Study

PAPER = Path(__file__).parents[2] / "paper"


@dataclass(frozen=True)
class Rendered:
    """A study with its results, and the report if it was rendered."""

    study: Study
    campaign_dir: Path
    results_dir: Path
    report_data: data.ReportData
    built: render.Built | None = None

    @property
    def out_dir(self) -> Path:
        return self.results_dir / "report"

    def build(self, out_dir: Path, paper_dir: Path = PAPER) -> render.Built:
        return render.build(self.study, self.results_dir, paper_dir, out_dir, campaign_dir=self.campaign_dir)


def analysed(root: Path, study: Study, *, resources: bool = True, **campaign: object) -> Rendered:
    """Make a synthetic campaign, analyse it as the workflow does, and write what the report is made of."""
    campaign_dir = make_synthetic_campaign(root, study, **campaign)
    results_dir = root / "results" / study.study
    results_dir.mkdir(parents=True)
    runs_df, histograms_df = frames.load_runs(campaign_dir), frames.load_histograms(campaign_dir)
    runs_df.to_csv(results_dir / "runs.csv", index=False)
    analysis.cells_df(runs_df, histograms_df, study).to_csv(results_dir / "cells.csv", index=False)
    comparisons_df = analysis.comparisons_df(runs_df, histograms_df, study)
    comparisons_df.to_csv(results_dir / "comparisons.csv", index=False)
    if resources:
        frames.load_resources(campaign_dir).to_csv(results_dir / "resources.csv", index=False)
    report_data = data.load(study, results_dir, campaign_dir)
    figures.write_all(report_data, results_dir / "figures")
    tables.write_all(report_data, results_dir / "tables")
    values.write(report_data, results_dir / "values.yml")
    return Rendered(study, campaign_dir, results_dir, report_data)


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
