"""A local cluster of `kind`, where a Docker engine answers."""

import shutil
import subprocess
from pathlib import Path

from meshperf.errors import MeshperfError
from meshperf.paths import cache_dir

CLUSTER_NAME = "meshperf"
#: Kubernetes of the node image; the tag fixes the version.
NODE_IMAGE = "kindest/node:v1.34.0"
CREATE_TIMEOUT_S = 600


def available() -> bool:
    """Return whether a Docker engine answers and ``kind`` is on the PATH."""
    return docker_answers() and shutil.which("kind") is not None


def docker_answers() -> bool:
    """Return whether a Docker engine answers."""
    if shutil.which("docker") is None:
        return False
    try:
        return subprocess.run(["docker", "info"], capture_output=True, timeout=10).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def kubeconfig() -> Path:
    """Return the kubeconfig of the cluster; the user's own is never touched."""
    return cache_dir() / "kind" / "kubeconfig"


def running() -> bool:
    """Return whether our cluster exists."""
    if not available():
        return False
    listed = subprocess.run(["kind", "get", "clusters"], capture_output=True, text=True, timeout=30)
    return CLUSTER_NAME in listed.stdout.split()


def up() -> Path:
    """Create the cluster unless it exists, and return its kubeconfig.

    Raises
    ------
    MeshperfError
        If kind fails: the message ends with its last lines.
    """
    kubeconfig().parent.mkdir(parents=True, exist_ok=True)
    if running():
        _kind("export", "kubeconfig", "--name", CLUSTER_NAME, "--kubeconfig", str(kubeconfig()))
    else:
        _kind(
            "create", "cluster", "--name", CLUSTER_NAME, "--image", NODE_IMAGE, "--wait", "120s",
            "--kubeconfig", str(kubeconfig()),
        )  # fmt: skip
    return kubeconfig()


def down() -> None:
    """Remove the cluster if it exists."""
    if running():
        _kind("delete", "cluster", "--name", CLUSTER_NAME, "--kubeconfig", str(kubeconfig()))
    kubeconfig().unlink(missing_ok=True)


def _kind(*arguments: str) -> None:
    result = subprocess.run(["kind", *arguments], capture_output=True, text=True, timeout=CREATE_TIMEOUT_S)
    if result.returncode:
        last = " | ".join(result.stderr.strip().splitlines()[-3:])
        raise MeshperfError(
            f"`kind {arguments[0]} {arguments[1]}` failed ({last}): check that Docker has room and try again"
        )
