"""What a run costs besides its load: measure a small study through the whole pipeline and print where the time went.

    python benchmarks/run_overhead.py

Two figures with their parts: the time between two runs of one deployment that is neither load nor warm-up (workflow,
notebook, proof, resources, writing), and the time of a fresh deployment (removal of the one before, control plane,
workloads, proof).
"""

import itertools
import shutil
import statistics
import tempfile
from pathlib import Path

import yaml

from meshperf import campaign, pipeline, runs, testbed
from meshperf.paths import repository_root
from meshperf.study import load_study

STUDY = {
    "study": "overhead",
    "campaign": "overhead-local",
    "title": "What a run costs besides its load",
    "seed": 7,
    "testbed": {"kind": "auto", "context": None},
    "arms": [{"mesh": "istio", "configurations": ["basic", "mtls"]}],
    "target_rps": [50, 100, 150, 200],
    "blocks": 2,
    "makeup_blocks": 0,
    "load": {
        "connections": 4, "duration_s": 2, "warmup_s": 0.5, "resolution_s": 0.00005,
        "payload_bytes": 0, "slice_s": 2, "timeout_s": 3,
    },
    "quantiles": [0.5, 0.9],
}  # fmt: skip


def main() -> None:
    """Measure the study afresh and print both figures."""
    campaign_dir = campaign.directory(STUDY["campaign"])
    shutil.rmtree(campaign_dir, ignore_errors=True)
    shutil.rmtree(repository_root() / "results" / STUDY["study"], ignore_errors=True)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "overhead.yaml"
        path.write_text(yaml.safe_dump(STUDY))
        study = load_study(path)
        pipeline.measure(path, prepare=testbed.up)
    records = sorted(
        (runs.read_record(path) for path in campaign_dir.glob("*/*/*/block-*")), key=lambda r: r["order"]
    )
    print_run_overhead(records, study.load.warmup_s)
    print_deployments(records)


def print_run_overhead(records: list[dict], warmup_s: float) -> None:
    """Print the time between runs of one deployment that was not spent under load or warm-up."""
    between, parts = [], {}
    for before, record in itertools.pairwise(records):
        if record["deployment"]["fresh"]:
            continue
        gap_s = record["window"]["start_unix_s"] - before["window"]["end_unix_s"] - warmup_s
        timing, before_timing = record["timing"], before["timing"]
        own = {
            "state and proof of it": timing["ensure_s"] + timing["prepare_s"],
            "starting the two loads": timing["warmup_s"] - warmup_s,
            "collecting and judging": before_timing["collect_s"] + before_timing["judge_s"],
        }
        own["workflow, notebook and imports"] = gap_s - sum(own.values())
        between.append(gap_s)
        for name, seconds in own.items():
            parts.setdefault(name, []).append(seconds)
    print(
        f"\nper run, not under load or warm-up: median {statistics.median(between):.2f} s of {len(between)} runs"
    )
    for name, seconds in parts.items():
        print(f"  {statistics.median(seconds):6.2f} s  {name}")


def print_deployments(records: list[dict]) -> None:
    """Print the time of fresh deployments, per mesh."""
    fresh = [record for record in records if record["deployment"]["fresh"]]
    for mesh in sorted({record["key"]["mesh"] for record in fresh}):
        made = [record["deployment"]["parts_s"] for record in fresh if record["key"]["mesh"] == mesh]
        totals = [sum(parts.values()) for parts in made]
        middle, most = statistics.median(totals), max(totals)
        print(f"fresh deployment of {mesh}: median {middle:.1f} s, most {most:.1f} s of {len(made)}")
        for name in made[0]:
            print(f"  {statistics.median(parts[name] for parts in made):6.2f} s  {name.replace('_', ' ')}")


if __name__ == "__main__":
    main()
