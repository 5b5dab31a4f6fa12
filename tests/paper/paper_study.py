"""Synthetic studies, analysed as the workflow does it, for the tests of the paper."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from support import make_synthetic_campaign

from meshperf import analysis, frames
from meshperf.published import results
from meshperf.published import tables as published_tables
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
    frames.load_time_course(campaign_dir).to_csv(results_dir / "slices.csv", index=False)
    analysis.drifts_df(runs_df, study).to_csv(results_dir / "drifts.csv", index=False)
    for name in (
        "comparisons",
        "ranks",
        "gate",
        "control",
        "distances",
        "shifts",
        "knees",
        "features",
        "sensitivity",
        "components",
    ):
        table = getattr(analysis, f"{name}_df")(runs_df, histograms_df, study)
        table.to_csv(results_dir / f"{name}.csv", index=False)
    resources_df = frames.load_resources(campaign_dir)
    if resources:
        samples_df = frames.load_memory(campaign_dir)
        for name, table in (
            ("resources", resources_df),
            ("cpu", analysis.cpu_df(resources_df, runs_df, study)),
            ("slopes", analysis.slopes_df(resources_df, runs_df, study)),
            ("memory", analysis.memory_df(resources_df, samples_df, runs_df, study)),
        ):
            table.to_csv(results_dir / f"{name}.csv", index=False)
    used_df = resources_df if resources else resources_df.iloc[:0]
    decisions_df = analysis.decisions_df(runs_df, histograms_df, used_df, study)
    decisions_df.to_csv(results_dir / "decisions.csv", index=False)
    plan_df = analysis.plan_df(runs_df, histograms_df, study, analysis.Wish())
    plan_df.to_csv(results_dir / "plan.csv", index=False)
    comparisons_df = pd.read_csv(results_dir / "comparisons.csv")
    results.write(
        results.read_again(published_tables.load(), study, comparisons_df, used_df), results_dir / "published"
    )
    report_data = data.load(study, results_dir, campaign_dir)
    figures.write_all(report_data, results_dir / "figures")
    tables.write_all(report_data, results_dir / "tables")
    values.write(report_data, results_dir / "values.yml")
    return Rendered(study, campaign_dir, results_dir, report_data)
