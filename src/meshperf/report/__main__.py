"""``python -m meshperf.report STUDY.yaml``: figures, tables, values and the rendered report of one study."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from meshperf.errors import MeshperfError
from meshperf.paths import repository_root
from meshperf.report import figures, render, tables, values
from meshperf.report.data import load
from meshperf.study import load_study


def main(arguments: list[str] | None = None) -> int:
    """Write everything of one study's report; return 0, or 2 after one sentence on what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m meshperf.report", description=__doc__)
    parser.add_argument("study", type=Path, help="the study's file, such as config/quick.yaml")
    parser.add_argument("--results", type=Path, help="results of the study (default: results/<study>)")
    parser.add_argument("--campaign-dir", type=Path, help="raw data (default: data/raw/<campaign>)")
    parser.add_argument("--paper", type=Path, help="the Quarto project (default: paper)")
    options = parser.parse_args(arguments)
    try:
        study = load_study(options.study)
        if study.imported is not None:
            raise MeshperfError(
                f"{study.campaign} was imported, and the report's text is of measurements of our own: `make report` "
                f"leaves tables and notebooks in results/{study.study}"
            )
        results_dir = options.results or repository_root() / "results" / study.study
        data = load(study, results_dir, options.campaign_dir)
        figures.write_all(data, results_dir / "figures")
        tables.write_all(data, results_dir / "tables")
        values.write(data, results_dir / "values.yml")
        built = render.build(
            study,
            results_dir,
            options.paper or repository_root() / "paper",
            results_dir / "report",
            campaign_dir=options.campaign_dir,
        )
    except MeshperfError as error:
        print(f"meshperf: {error}", file=sys.stderr)
        return 2
    print(f"{built.html} and {built.pdf.name}, rendered with {built.renderer} in {built.seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
