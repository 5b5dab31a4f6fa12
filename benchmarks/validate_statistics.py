"""Coverage, level and power of every interval and test, on simulated campaigns of known truth.

    python benchmarks/validate_statistics.py [--campaigns 4000] [--seed 1] [--jobs 2] [--output FILE.csv]

The long version of ``tests/statistical``: all checks of :mod:`meshperf.statistics.validation`, with two baselines per
block, and the field's usual methods on the same campaigns. Exit code 1 if a figure misses its limit.
``make validate-statistics`` writes the table of the paper's method chapter, ``data/validation/statistics.csv``.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

# One thread per process: the matrices are small, and the processes share the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from meshperf import provenance
from meshperf.statistics import validation
from meshperf.statistics.validation import Figure

COLUMNS = (
    "check",
    "scenario",
    "method",
    "quantile",
    "n_blocks",
    "n_campaigns",
    "value",
    "standard_error",
    "required_low",
    "required_high",
    "naive",
    "passed",
    "seed",
    "commit",
)


def run(check: Callable[[], Iterator[Figure]]) -> list[Figure]:
    return list(check())


def text(value: float) -> str:
    """Six digits, and nothing for what is not a number."""
    return "" if value != value else f"{value:.6g}"


def row(figure: Figure, seed: int, commit: str) -> tuple:
    return (
        figure.check,
        figure.scenario,
        figure.method,
        text(figure.quantile),
        figure.blocks,
        figure.campaigns,
        text(figure.value),
        text(figure.standard_error),
        text(figure.low),
        text(figure.high),
        str(figure.naive).lower(),
        str(figure.passed).lower() if figure.gated else "",
        seed,
        commit,
    )


def show(figure: Figure) -> None:
    limits = f"[{text(figure.low)}, {text(figure.high)}]" if figure.gated else ""
    outcome = ("ok" if figure.passed else "MISSED") if figure.gated else ""
    print(
        f"{figure.check:30} {figure.scenario:22} r={figure.blocks:<3} {figure.method:38} q={text(figure.quantile):<7}"
        f" {figure.value:8.4f} {limits} {outcome}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--campaigns", type=int, default=validation.FULL, help="per figure (4000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (one per core)")
    parser.add_argument("--output", type=Path, help="also write the table here, as CSV")
    arguments = parser.parse_args()
    if arguments.campaigns < 1 or arguments.jobs < 1:
        parser.error("--campaigns and --jobs are 1 or more")
    code = provenance.code()
    commit = f"{code['commit'] or 'unknown'}{'-dirty' if code['dirty'] else ''}"
    started, done = time.monotonic(), []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for figures in pool.map(run, validation.checks(arguments.campaigns, arguments.seed)):
            for figure in figures:
                show(figure)
            done += figures
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        part = arguments.output.with_suffix(".part")
        with part.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(row(figure, arguments.seed, commit) for figure in done)
        part.replace(arguments.output)
    missed = [figure for figure in done if not figure.passed]
    print(f"{len(done)} figures, {len(missed)} missed, {time.monotonic() - started:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
