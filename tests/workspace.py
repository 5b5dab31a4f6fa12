"""A checkout of its own for a test: the workflow's files copied, data and results apart from the real ones."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from meshperf.study import Study

ROOT = Path(__file__).resolve().parents[1]
#: Copied, so that a test may change them.
COPIED = ("Snakefile", "rules", "profiles", "notebooks", "src", "paper")
LINKED = ("envs", "tests", "pyproject.toml")


class Workspace:
    """A directory in which the workflow runs as in the checkout."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ignore = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "_book", ".quarto")
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, directory / name, ignore=ignore)
            else:
                shutil.copy2(source, directory / name)
        for name in LINKED:
            (directory / name).symlink_to(ROOT / name)
        (directory / "config").mkdir()
        (directory / "data").mkdir()
        (directory / "data" / "published").symlink_to(ROOT / "data" / "published")

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that works here."""
        return {**os.environ, "MESHPERF_ROOT": str(self.directory), "PYTHONPATH": str(self.directory / "src")}

    def write_study(self, study: Study) -> str:
        """Write a study file and return its path relative to the workspace."""
        path = f"config/{study.study}.yaml"
        content = json.loads(study.model_dump_json())
        (self.directory / path).write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    def run(self, *command: str, timeout: float = 300, **environment: str) -> subprocess.CompletedProcess:
        """Run a command here and return it finished, with stdout and stderr in one text."""
        return subprocess.run(
            command,
            cwd=self.directory,
            env={**self.environment(), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )

    def snakemake(self, study_path: str, *arguments: str, measure: bool = False, timeout: float = 300):
        """Run Snakemake here."""
        config = ["--config", f"study={study_path}", *(["measure=true"] if measure else [])]
        command = (sys.executable, "-m", "snakemake", *arguments, *config)
        return self.run(*command, timeout=timeout)

    def plan(self, study_path: str, *arguments: str, measure: bool = False) -> dict[str, int]:
        """Return how many jobs of each rule Snakemake would run."""
        finished = self.snakemake(study_path, *arguments, "--dry-run", measure=measure)
        assert finished.returncode == 0, finished.stdout
        table = finished.stdout.partition("Job stats:")[2].partition("\n\n")[0]
        found = re.findall(r"^(\w+) +(\d+)$", table, flags=re.MULTILINE)
        return {rule: int(count) for rule, count in found if rule != "total"}
