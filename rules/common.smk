"""What all rules share: the study, the lists of sources that results depend on, and path helpers.

All Python of the workflow that is more than a path is in this file; the rest is in `src/meshperf`.
"""

import re
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError

from meshperf import design, runs
from meshperf.errors import MeshperfError
from meshperf.study import load_study

#: The only keys that --config takes; a misspelt one must not pass for its default.
CONFIG_KEYS = {"study", "measure"}


def user_error(sentence):
    """Return a mistake of the user's as Snakemake prints it: without a traceback."""
    return WorkflowError(f"meshperf: {sentence}")


def read_study(path):
    """Return the study of a file, or stop with what is wrong with it."""
    unknown = sorted(set(config) - CONFIG_KEYS)
    if unknown:
        raise user_error(f"unknown --config key {', '.join(unknown)}: use {', '.join(sorted(CONFIG_KEYS))}")
    try:
        return load_study(path)
    except MeshperfError as error:
        raise user_error(error) from None


def alternatives(names):
    """Return a regular expression that matches each name and nothing else."""
    return "|".join(sorted({re.escape(name) for name in names}))


def sources(*names):
    """Return modules of the library, as files: an edit of one must re-run what it computed."""
    package = Path("src", "meshperf")
    found = (
        path
        for name in names
        for path in ([package / name] if name.endswith(".py") else sorted((package / name).glob("*.py")))
    )
    return [path.as_posix() for path in found]


def tree(directory, suffixes):
    """Return the files of a directory that are sources: not hidden, and not written by a build."""
    found = (path for path in Path(directory).rglob("*") if path.suffix in suffixes)
    names = (path for path in found if not any(part.startswith((".", "_book", "_var")) for part in path.parts))
    return sorted(path.as_posix() for path in names)


def campaign_data(wildcards):
    """Return the sealed campaign's checksums and its design: they differ when any raw file does."""
    if not runs.is_sealed(CAMPAIGN):
        raise user_error(f"{CAMPAIGN} is not a complete campaign: run `make measure STUDY={STUDY_PATH}` first")
    return {"checksums": f"{CAMPAIGN}/{runs.CHECKSUMS}", "design": f"{CAMPAIGN}/design.json"}


STUDY_PATH = str(config.get("study", "config/embedded.yaml"))
MEASURE = str(config.get("measure", "false")).lower() in ("true", "1", "yes")
STUDY = read_study(STUDY_PATH)
ARMS = (design.BASELINE, *STUDY.arms_expanded)
CAMPAIGN = Path("data", "raw", STUDY.campaign)

#: Differs in every invocation: a parameter of the jobs that must run whenever they are asked for.
ASKED_AT = str(time.time_ns())

# One narrow list for each family of rules, so that an edit of a plot does not repeat the statistics.
MODEL_SOURCES = sources("study.py", "design.py", "runs.py", "campaign.py")
FRAME_SOURCES = [*MODEL_SOURCES, *sources("frames.py", "histogram.py", "quality.py", "loadgen")]
ANALYSIS_SOURCES = [*FRAME_SOURCES, *sources("analysis.py", "statistics")]
REPORT_SOURCES = [*MODEL_SOURCES, *sources("frames.py", "report")]
PAPER_SOURCES = tree("paper", (".qmd", ".yml", ".bib", ".csl", ".css", ".scss", ".typ", ".lua", ".html"))

