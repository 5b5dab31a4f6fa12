"""The same pins for uv and for conda, and the commands that people and scripts rely on."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
#: PyPI's name -> conda-forge's, where they differ: another name, or the part that is used here.
CONDA_NAMES = {
    "kubernetes": "python-kubernetes",
    "matplotlib": "matplotlib-base",
    "playwright": "playwright-python",
    "seaborn": "seaborn-base",
    "snakemake": "snakemake-minimal",
    "pypandoc-binary": "pypandoc",  # conda-forge has pandoc as a package of its own
}
#: In environment.yml besides the project's packages.
CONDA_ONLY = {"python", "pip", "pandoc", "quarto", "go"}


def conda_pins(path):
    """Return the packages of a conda environment with their versions, those of its pip section included."""
    pins = {}
    for entry in yaml.safe_load(path.read_text())["dependencies"]:
        for text in entry["pip"] if isinstance(entry, dict) else [entry]:
            if not text.startswith("--"):
                name, version = re.fullmatch(r"([\w-]+)[=>]*(.*)", text).groups()
                pins[name] = version
    return pins


def project_pins():
    groups = PROJECT["dependency-groups"]
    texts = [*PROJECT["project"]["dependencies"], *groups["dev"], *groups["cluster"]]
    pairs = (text.partition(";")[0].strip().split("==") for text in texts)
    return {CONDA_NAMES.get(name, name): version for name, version in pairs}


def test_conda_has_the_pins_of_uv():
    conda = {
        name: version
        for name, version in conda_pins(ROOT / "environment.yml").items()
        if name not in CONDA_ONLY
    }
    assert conda == project_pins()


def test_conda_has_go_of_the_project():
    (go,) = PROJECT["dependency-groups"]["go"]
    assert conda_pins(ROOT / "environment.yml")["go"] == go.partition(";")[0].split("==")[1]


@pytest.mark.parametrize("name", ["measure", "analysis", "paper", "test"])
def test_environments_of_rules_have_the_same_pins(name):
    whole = conda_pins(ROOT / "environment.yml")
    part = conda_pins(ROOT / "envs" / f"{name}.yaml")
    assert part.items() <= whole.items()


def test_every_rule_that_computes_has_an_environment():
    for path in (ROOT / "rules").glob("*.smk"):
        for block in re.split(r"^rule ", path.read_text(), flags=re.MULTILINE)[1:]:
            assert re.search(r'conda:\n\s+"\.\./envs/(\w+)\.yaml"', block), block.partition(":")[0]


def test_lock_file_is_up_to_date():
    locked = tomllib.loads((ROOT / "uv.lock").read_text())
    versions = {package["name"]: package.get("version") for package in locked["package"]}
    for text in PROJECT["project"]["dependencies"]:
        name, version = text.split("==")
        assert versions[name] == version, name


@pytest.mark.parametrize(
    ("target", "calls"),
    [
        ("quickstart", "meshperf run config/quick.yaml"),
        ("test", "pytest"),
        ("report", "snakemake --config study=config/embedded.yaml"),
        ("measure STUDY=config/x.yaml", "meshperf run config/x.yaml"),
        ("lab", "jupyter lab notebooks"),
        ("cluster", "meshperf cluster up"),
        ("cluster-down", "meshperf cluster down"),
        ("doctor", "meshperf doctor"),
        ("lint", "ruff check"),
    ],
)
def test_make_has_the_targets_people_rely_on(target, calls):
    finished = subprocess.run(
        ["make", "--dry-run", *target.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert calls in finished.stdout


def test_make_help_lists_every_target():
    finished = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in finished.stdout.splitlines()}
    phony = (
        re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE).group(1).split()
    )
    assert listed == set(phony)


@pytest.mark.parametrize("script", [".ci/run", "envs/install-debian.sh", "envs/install-uv.sh"])
def test_scripts_are_executable_and_valid(script):
    assert (ROOT / script).stat().st_mode & 0o111
    subprocess.run(["bash", "-n", ROOT / script], check=True)


def test_debian_packages_are_those_of_the_embedded_cluster():
    from meshperf.testbed.embedded.cluster import DEBIAN_PROGRAMS

    script = (ROOT / "envs" / "install-debian.sh").read_text()
    listed = dict(
        re.findall(r"([a-z0-9-]+):(/?[\w/.-]+)", script.partition('cluster="')[2].partition('"')[0])
    )
    assert DEBIAN_PROGRAMS.items() <= listed.items()
