"""How fast is the analysis? Against SciPy's bootstrap, for a whole campaign, and as campaigns grow.

    python benchmarks/analysis.py [bootstrap] [campaign] [growth]

All data are synthetic and stay in memory or in a temporary directory. Exit code 1 if a figure misses its limit.
"""

from __future__ import annotations

import argparse
import inspect
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.stats

from meshperf import analysis, frames
from meshperf.design import BASELINE, Arm
from meshperf.histogram import LOG_GRID
from meshperf.statistics.bootstrap import t_quantile
from meshperf.statistics.effect import merged_ratio_interval
from meshperf.statistics.quantiles import run_cdfs
from meshperf.study import Study

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import make_study, make_synthetic_campaign

ARMS = (BASELINE, Arm("istio", "basic"), Arm("istio", "mtls"))
#: Limits: how many times faster than SciPy; seconds and bytes for 400 runs; slope of log time on log runs.
MIN_SPEEDUP, MAX_CAMPAIGN_S, MAX_CAMPAIGN_BYTES, MAX_SLOPE = 100, 60, 1 << 30, 1.1
RUNS, REQUESTS, BINS, RESAMPLES, Q = 10, 20_000, 500, 10_000, 0.99


# ---- the bootstrap


def bootstrap() -> bool:
    """Compare 10 000 block resamples of a p99 ratio with SciPy's on the requests themselves.

    SciPy gets what a bootstrap of blocks needs from it: ``scipy.stats.bootstrap((blocks,), ...)`` draws the numbers of
    ten blocks with replacement, 10 000 times (``method="percentile"``, ``vectorized=False``), and its statistic joins
    the 20 000 requests of every drawn run of either arm, takes ``numpy.quantile(..., 0.99)`` of the 200 000 of each and
    the log of their ratio. Resampling requests instead would be another, wrong interval.
    """
    rng = np.random.default_rng(20261121)
    edges_s = np.geomspace(1e-4, 1e-4 * 1.01**BINS, BINS + 1)
    factors = np.exp(rng.normal(0, 0.08, RUNS) + rng.normal(0, 0.05, (2, RUNS)) + [[np.log(1.2)], [0.0]])
    requests = 0.002 * factors[..., None] * np.exp(0.35 * rng.standard_normal((2, RUNS, REQUESTS)))
    requests = requests.clip(edges_s[0] * 1.0001, edges_s[-1])
    counts = [[np.histogram(run, edges_s)[0] for run in arm] for arm in requests]

    started = time.perf_counter()
    arm, baseline = (run_cdfs(c) for c in counts)
    ours = merged_ratio_interval(
        arm, baseline, edges_s, Q, n_resamples=RESAMPLES, rng=np.random.default_rng(1)
    )
    ours_s = time.perf_counter() - started

    def log_ratio(blocks: np.ndarray) -> float:
        p99 = [np.quantile(runs[blocks].ravel(), Q) for runs in requests]
        return float(np.log(p99[0] / p99[1]))

    started = time.perf_counter()
    theirs = scipy.stats.bootstrap(
        (np.arange(RUNS),), log_ratio, n_resamples=RESAMPLES, vectorized=False, method="percentile",
        rng=np.random.default_rng(2),
    )  # fmt: skip
    theirs_s = time.perf_counter() - started

    estimate = log_ratio(np.arange(RUNS))
    half = t_quantile(0.95, RUNS) * theirs.standard_error * np.sqrt(RUNS / (RUNS - 1))
    low, high = np.exp([estimate - half, estimate + half])
    ratio = theirs_s / ours_s
    # The standard error of a standard deviation from B resamples is 1/√(2B) of it; both sides have one.
    error = 3 * np.sqrt(2 / (2 * RESAMPLES))
    apart = abs(ours.se / (theirs.standard_error * np.sqrt(RUNS / (RUNS - 1))) - 1)
    print(f"p99 ratio, {RUNS} runs per arm, {RESAMPLES} resamples of blocks")
    print(f"  meshperf, {BINS} bins:              {1000 * ours_s:9.1f} ms  [{ours.low:.4f}, {ours.high:.4f}]")
    print(f"  SciPy, {RUNS} x {REQUESTS} requests:  {1000 * theirs_s:9.1f} ms  [{low:.4f}, {high:.4f}]")
    print(
        f"  {ratio:.0f} times faster (at least {MIN_SPEEDUP}); standard errors differ by {100 * apart:.1f} %"
    )
    print(f"  (three Monte Carlo standard errors: {100 * error:.1f} %)")
    return ratio >= MIN_SPEEDUP and apart <= error


# ---- a whole campaign


def campaign() -> bool:
    """Analyse a campaign of 400 runs from its raw files, in a process of its own."""
    study = synthetic_study(10, 10)
    with tempfile.TemporaryDirectory() as directory:
        campaign_dir = make_synthetic_campaign(Path(directory), study)
        command = [sys.executable, __file__, "--analyse", str(campaign_dir)]
        finished = subprocess.run(command, input=study.model_dump_json(), capture_output=True, text=True)
    if finished.returncode:
        print(finished.stderr)
        return False
    result = json.loads(finished.stdout)
    print(f"complete analysis of {result['runs']} synthetic runs, {result['bins']} occupied bins")
    for name, seconds in result["steps"].items():
        print(f"  {name:24} {seconds:7.2f} s")
    print(
        f"  wall {result['wall_s']:.1f} s (at most {MAX_CAMPAIGN_S}), processor {result['cpu_s']:.1f} s, "
        f"peak memory {result['peak_bytes'] / 2**20:.0f} MiB (at most {MAX_CAMPAIGN_BYTES >> 20})"
    )
    return result["wall_s"] <= MAX_CAMPAIGN_S and result["peak_bytes"] <= MAX_CAMPAIGN_BYTES


def analyse(campaign_dir: Path, study: Study) -> None:
    """Do what the notebooks do with one campaign, and print times and memory as JSON."""
    started, cpu = time.perf_counter(), time.process_time()
    steps: dict[str, float] = {}
    loaders = (frames.load_runs, frames.load_histograms, frames.load_resources)
    runs_df, histograms_df, resources_df = (
        timed(steps, load.__name__, lambda load=load: load(campaign_dir)) for load in loaders
    )
    tables(runs_df, histograms_df, resources_df, study, steps)
    result = {
        "runs": len(runs_df),
        "bins": len(histograms_df),
        "steps": steps,
        "wall_s": time.perf_counter() - started,
        "cpu_s": time.process_time() - cpu,
        # Kibibytes on Linux.
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(result))


def tables(
    runs_df: pd.DataFrame,
    histograms_df: pd.DataFrame,
    resources_df: pd.DataFrame | None,
    study: Study,
    steps: dict[str, float],
) -> None:
    """Compute every table of :mod:`meshperf.analysis` and note the seconds of each."""
    given = {"runs_df": runs_df, "histograms_df": histograms_df, "resources_df": resources_df, "study": study}
    for name in analysis.__all__:
        table = getattr(analysis, name)
        wanted = inspect.signature(table).parameters if callable(table) else {}
        arguments = {parameter: given.get(parameter) for parameter in wanted}
        # Tables alone: what takes something else is no table of a campaign.
        if name.endswith("_df") and not any(value is None for value in arguments.values()):
            timed(steps, name, lambda table=table, arguments=arguments: table(**arguments))


def timed(steps: dict[str, float], name: str, work: Callable):
    started = time.perf_counter()
    result = work()
    steps[name] = time.perf_counter() - started
    return result


def synthetic_study(blocks: int, levels: int) -> Study:
    return make_study(
        study="benchmark",
        campaign="benchmark",
        title="SYNTHETIC data for a benchmark",
        blocks=blocks,
        target_rps=[100 * (level + 1) for level in range(levels)],
        load={"connections": 16, "duration_s": 60, "warmup_s": 10, "slice_s": 5},
    )


# ---- growth


def growth(sizes: tuple[int, ...] = (400, 1000, 2000, 4000, 10_000)) -> bool:
    """Time all tables for more and more runs: first more rates, then more blocks."""
    with tempfile.TemporaryDirectory() as directory:
        template = frames.load_runs(make_synthetic_campaign(Path(directory), make_study(blocks=1))).iloc[0]
    fine = True
    for what in ("rates", "blocks"):
        print(f"all tables of one campaign with more {what} (40 runs each, in memory)")
        seconds = []
        for size in sizes:
            blocks, levels = (10, size // 40) if what == "rates" else (size // 40, 10)
            study = synthetic_study(blocks, levels)
            runs_df, histograms_df = synthetic_frames(template, study)
            steps: dict[str, float] = {}
            tables(runs_df, histograms_df, None, study, steps)
            seconds.append(sum(steps.values()))
            slowest = max(steps, key=steps.get)
            print(
                f"  {len(runs_df):6} runs {seconds[-1]:8.2f} s, of which {slowest} {steps[slowest]:.2f} s",
                flush=True,
            )
        slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        print(f"  slope of log time on log runs: {slope:.2f} (at most {MAX_SLOPE})")
        fine &= slope <= MAX_SLOPE
    return fine


def synthetic_frames(template: pd.Series, study: Study) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make ``runs_df`` and ``histograms_df`` of a study: one log-normal histogram, shifted by whole bins."""
    rng = np.random.default_rng(study.seed)
    keys = [
        (arm.mesh, arm.configuration, rps, block, k)
        for block in range(1, study.blocks + 1)
        for arm in ARMS
        for k in ((1, 2) if arm == BASELINE else (1,))
        for rps in study.target_rps
    ]
    names = ["mesh", "configuration", "target_rps", "block", "deployment"]
    runs_df = pd.DataFrame([template] * len(keys)).reset_index(drop=True)
    runs_df[names] = pd.DataFrame(keys, columns=names)
    runs_df["order"] = np.arange(1, len(keys) + 1)
    centre = int(np.searchsorted(LOG_GRID, 0.002))
    # 1 % bins, σ = 0.35: 35 bins per standard deviation.
    shape = np.exp(-0.5 * (np.arange(-125, 126) / 35) ** 2)
    counts = rng.poisson(6000 * shape / shape.sum(), (len(keys), shape.size))
    slower = np.array([0 if mesh == BASELINE.mesh else 18 for mesh, *_ in keys])
    first = centre - 125 + rng.integers(-8, 9, len(keys)) + slower
    bins = first[:, None] + np.arange(shape.size)
    run, column = np.nonzero(counts)
    histograms_df = runs_df.loc[run, ["campaign", *names]].reset_index(drop=True)
    histograms_df["bin_low_s"] = LOG_GRID[bins[run, column]]
    histograms_df["bin_high_s"] = LOG_GRID[bins[run, column] + 1]
    histograms_df["count"] = counts[run, column]
    return runs_df, histograms_df


def main() -> int:
    parts = {"bootstrap": bootstrap, "campaign": campaign, "growth": growth}
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(parts)}; all if none is named")
    parser.add_argument("--analyse", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.analyse:
        analyse(arguments.analyse, Study.model_validate_json(sys.stdin.read()))
        return 0
    if unknown := set(arguments.parts) - set(parts):
        parser.error(f"there is no part {', '.join(sorted(unknown))}: choose from {', '.join(parts)}")
    # Every part is run, whatever the others found.
    kept = [parts[name]() for name in arguments.parts or parts]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
