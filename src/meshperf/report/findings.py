"""What a campaign found, in one small table for the README: ``python -m meshperf.report.findings STUDY README.md``.

The README's numbers come from the raw data in this way and in no other; a test compares the two.
"""

import sys
from pathlib import Path

import pandas as pd

from meshperf import analysis, campaign, frames, runs
from meshperf.design import BASELINE
from meshperf.errors import MeshperfError
from meshperf.report import formats, style
from meshperf.report.markers import replace
from meshperf.study import Study, load_study

QUANTILES = {0.5: "median", 0.99: "99th percentile"}


def findings(
    study: Study, runs_df: pd.DataFrame, comparisons_df: pd.DataFrame, node: dict[str, object]
) -> str:
    """Return the overhead of every arm at every rate as Markdown, with the A/A control in the last row of a rate.

    Parameters
    ----------
    study : Study
    runs_df, comparisons_df : DataFrame
        Of the study's campaign; the typical ratios are shown.
    node : dict
        ``cpu_count`` and ``memory_bytes`` of the node that ran the service, from a run's record.
    """
    typical = comparisons_df[comparisons_df["estimand"] == "typical"]
    lines = [
        f"| latency against no mesh | target RPS | {' | '.join(QUANTILES.values())} |",
        f"|---|---|{'---|' * len(QUANTILES)}",
    ]
    for target_rps in sorted(study.target_rps):
        for arm in (*study.arms_expanded, BASELINE):
            of_arm = typical[
                (typical["mesh"] == arm.mesh)
                & (typical["configuration"] == arm.configuration)
                & (typical["target_rps"] == target_rps)
            ]
            name = style.arm_label(arm.mesh, arm.configuration)
            if arm == BASELINE:
                name = "no mesh, second deployment (control)"
            cells = [_ratio(of_arm[of_arm["quantile"] == q]) for q in QUANTILES]
            lines.append(f"| {name} | {target_rps} | {' | '.join(cells)} |")
    day = pd.to_datetime(runs_df["started_utc"], utc=True, format="mixed").min()
    memory = formats.significant(float(node["memory_bytes"]) / 2**30, 2)
    lines += [
        "",
        f"Ratio of the latency quantile to that of no mesh in the same block, with its {study.analysis.confidence:.0%} "
        f"interval over {runs_df['block'].nunique()} blocks and the verdict (after Holm's correction): "
        f"{len(runs_df)} runs of {study.load.duration_s:g} s on {study.load.connections} connections, on one node of "
        f"{node['cpu_count']} CPUs and {memory} GiB, {day.day} {day:%B %Y}. It holds for this machine; measure yours.",
    ]
    return "\n".join(lines) + "\n"


def measured_findings(study: Study) -> str:
    """Return the findings of a study's campaign from its raw data."""
    campaign_dir = campaign.directory(study.campaign)
    runs_df = frames.load_runs(campaign_dir)
    comparisons_df = analysis.comparisons_df(runs_df, frames.load_histograms(campaign_dir), study)
    record = runs.read_record(campaign_dir / runs_df["path"].iloc[0])
    return findings(study, runs_df, comparisons_df, record["node"])


def _ratio(row: pd.DataFrame) -> str:
    if row.empty or not formats.is_number(row["overhead_ratio"].iloc[0]):
        return formats.DASH if row.empty else str(row["verdict"].iloc[0])
    first = row.iloc[0]
    ratio = formats.with_interval(first["overhead_ratio"], first["ratio_low"], first["ratio_high"])
    return f"× {ratio}, {first['verdict']}"


def main(arguments: list[str]) -> int:
    """Write the findings of a study into a document, or print them."""
    try:
        study_path, *documents = arguments
        new = measured_findings(load_study(study_path))
        for document in map(Path, documents):
            document.write_text(
                replace(document.read_text(encoding="utf-8"), "findings", new), encoding="utf-8"
            )
        if not documents:
            print(new, end="")
    except ValueError:
        print("usage: python -m meshperf.report.findings STUDY [DOCUMENT]", file=sys.stderr)
        return 2
    except MeshperfError as error:
        print(f"meshperf: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
