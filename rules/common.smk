"""What all rules share: the study, the lists of sources that results depend on, and path helpers.

All Python of the workflow that is more than a path is in this file; the rest is in `src/meshperf`.
"""

import os
import re
import sys
import time
from pathlib import Path

from meshperf import campaign, design, runs
from meshperf.errors import MeshperfError
from meshperf.study import load_study

# Jobs run the Python that runs Snakemake, also where its environment is not activated, the library is that of this
# checkout, also in an environment of their own (--sdm conda), and it finds data and
# results where the workflow does.
os.environ.update(
    PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]),
    MESHPERF_ROOT=str(Path.cwd()),
    PYTHONPATH=str(Path("src").resolve()),
)

#: The only keys that --config takes; a misspelt one must not pass for its default.
CONFIG_KEYS = {"study", "measure"}


def stop(problems):
    """End with the user's mistakes, a sentence each: Snakemake would add where in this file they were noticed."""
    for problem in problems:
        print(f"meshperf: {problem}", file=sys.stderr)
    sys.exit(2)


def read_study(path):
    """Return the study of a file, or stop with what is wrong with it."""
    unknown = sorted(set(config) - CONFIG_KEYS)
    if unknown:
        stop(
            [
                f"unknown --config key {', '.join(unknown)}: use {', '.join(sorted(CONFIG_KEYS))}"
            ]
        )
    try:
        return load_study(path)
    except MeshperfError as error:
        stop([error])


def alternatives(names):
    """Return a regular expression that matches each name and nothing else."""
    return "|".join(sorted({re.escape(name) for name in names}))


def sources(*names):
    """Return modules of the library, as files: an edit of one must re-run what it computed."""
    package = Path("src", "meshperf")
    found = (
        path
        for name in names
        for path in (
            [package / name]
            if name.endswith(".py")
            else sorted((package / name).glob("*.py"))
        )
    )
    return [path.as_posix() for path in found]


def tree(directory, suffixes):
    """Return the files of a directory that are sources: not hidden, and not written by a build."""
    found = (path for path in Path(directory).rglob("*") if path.suffix in suffixes)
    names = (
        path
        for path in found
        if not any(part.startswith((".", "_book", "_var")) for part in path.parts)
    )
    return sorted(path.as_posix() for path in names)


def check_raw_data():
    """Stop unless every file of the campaign is there and has its checksum.

    Snakemake forgives a raw file that vanished when its result exists, and cannot be told to run one job always
    without repeating what depends on it. So this is checked before anything is planned.
    """
    if not runs.is_sealed(CAMPAIGN):
        command = (
            f"meshperf data seal {STUDY.campaign}"
            if STUDY.imported
            else f"make measure STUDY={STUDY_PATH}"
        )
        stop([f"{CAMPAIGN} is not a complete campaign: run `{command}` first"])
    problems = list(campaign.checksum_problems(CAMPAIGN))
    if problems:
        stop(problems)


STUDY_PATH = str(config.get("study", "config/embedded.yaml"))
MEASURE = str(config.get("measure", "false")).lower() in ("true", "1", "yes")
STUDY = read_study(STUDY_PATH)
ARMS = (design.BASELINE, *STUDY.arms_expanded)
CAMPAIGN = Path("data", "raw", STUDY.campaign)
CELLS = runs.cells(STUDY, CAMPAIGN)

#: Differs in every invocation: a parameter of jobs that must run whenever they are asked for.
ASKED_AT = str(time.time_ns())

if MEASURE and STUDY.imported:
    stop([f"{CAMPAIGN} was imported: nothing of it can be measured"])
if not MEASURE and "--lint" not in sys.argv:
    check_raw_data()

#: What is made unless something else is asked for. The report's text is of measurements of our own, so that results which
#: others measured end in tables and notebooks.
OUTPUTS = (
    ["test-results.txt"]
    if STUDY.imported
    else ["report/index.html", "report/report.pdf", "test-results.txt"]
)

#: What stands for all raw data: the checksums of a campaign, and its design.
RAW_DATA = [f"{CAMPAIGN}/{runs.CHECKSUMS}", f"{CAMPAIGN}/{campaign.DESIGN}"]

#: Every table of results, a file each in `results/<study>`; notebooks/README.md says which notebook writes which.
RESULT_TABLES = [
    *("runs", "slices", "drifts", "cells"),
    *("gate", "control", "comparisons", "ranks", "distances", "shifts"),
    *("features", "decisions", "plan"),
    *("knees", "resources", "cpu", "slopes", "memory", "sensitivity", "components"),
]

# One narrow list for each family of rules, so that an edit of the report does not repeat the statistics.
MODEL_SOURCES = sources("study.py", "design.py", "runs.py", "campaign.py")
FRAME_SOURCES = [
    *MODEL_SOURCES,
    *sources("frames.py", "histogram.py", "loadgen", "statistics"),
]
PLOT_SOURCES = sources("report/plots", "report/style.py", "report/curves.py")
ANALYSIS_SOURCES = [*FRAME_SOURCES, *sources("analysis")]
# What runs and resources are judged by, without the comparisons.
STEADINESS_SOURCES = [
    *FRAME_SOURCES,
    *sources("analysis/steadiness.py", "analysis/shared.py", "analysis/runtable.py"),
]
USAGE_SOURCES = [
    *FRAME_SOURCES,
    *sources("analysis/resources.py", "analysis/slopes.py", "analysis/memory.py"),
    *sources("analysis/pairing.py", "analysis/shared.py", "analysis/runtable.py"),
]
REPORT_SOURCES = [
    *ANALYSIS_SOURCES,
    *sources("report", "report/plots", "report/figures", "report/tables"),
    *sources("report/published", "published"),
]
PUBLISHED_SOURCES = [*PLOT_SOURCES, *sources("published", "report/published/plots.py")]
PUBLISHED_DATA = [
    *tree("data/published", (".csv", ".md")),
    "data/published/SHA256SUMS",
]
#: The last validation of the statistics, if there is one: hours of simulation that no rule repeats.
VALIDATION = tree("data/validation", (".csv",))
PAPER_SOURCES = tree(
    "paper", (".qmd", ".yml", ".bib", ".css", ".js", ".typ", ".lua", ".html")
)
