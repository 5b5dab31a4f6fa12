"""The embedded cluster's own life: started, started again, killed, removed without a trace."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from meshperf import testbed as testbeds
from meshperf.testbed.embedded import cluster as embedded
from meshperf.testbed.embedded import node


@pytest.fixture(autouse=True)
def only_embedded(testbed):
    if testbed.kind != "embedded":
        pytest.fail(
            f"these tests are of the embedded cluster and this machine gives {testbed.kind}: unset its context"
        )


def _daemons():
    """Return the daemons' names and the process ids of what holds them."""
    records = (embedded.state_dir() / "run").glob("*.json")
    return {path.stem: json.loads(path.read_text())["pid"] for path in records}


def _is_ours(process):
    """Return whether a process that still runs has to do with the node."""
    words = " ".join(process.info["cmdline"] or [])
    alive = process.info["status"] != psutil.STATUS_ZOMBIE
    return alive and (node.MARKER in words or str(embedded.state_dir()) in words)


def _machine():
    """Return what a cluster could leave on a machine."""

    def lines(*command):
        return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())

    return {
        "processes": {
            " ".join(p.info["cmdline"]) for p in psutil.process_iter(["cmdline", "status"]) if _is_ours(p)
        },
        "mounts": {line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()},
        "interfaces": {path.name for path in Path("/sys/class/net").iterdir()},
        "rules": {line.split("[")[0] for line in lines("iptables-save") if not line.startswith("#")},
        "namespaces": lines("ip", "netns", "list"),
        "cgroups": {str(p) for p in Path("/sys/fs/cgroup").rglob("*") if p.is_dir() and "meshperf" in str(p)},
        "state": {str(embedded.state_dir())} if embedded.state_dir().exists() else set(),
    }


def test_starting_again_changes_nothing():
    before = _daemons()
    testbeds.up(progress=print)
    assert _daemons() == before
    assert set(before) == {
        "etcd", "kube-apiserver", "containerd", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
    }  # fmt: skip


def test_what_died_is_started_again():
    holder = psutil.Process(_daemons()["kube-apiserver"])
    (api_server,) = holder.children()
    api_server.kill()
    holder.wait(10)
    assert not embedded.running()
    testbeds.up(progress=print)
    assert embedded.running()


def test_the_users_kubeconfig_is_not_touched(monkeypatch, tmp_path):
    config = tmp_path / ".kube" / "config"
    config.parent.mkdir()
    config.write_text("theirs")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MESHPERF_CACHE", str(Path("~").expanduser() / "unused"))
    assert "Kubernetes v1" in testbeds.status()
    assert config.read_text() == "theirs"
    assert (embedded.kubeconfig().stat().st_mode & 0o077) == 0, "others can read the administrator's key"


def test_a_removed_cluster_leaves_nothing():
    # Whoever waits for a daemon that was stopped for a while is stopped with it, and does not go on with it.
    (api_server,) = psutil.Process(_daemons()["kube-apiserver"]).children()
    api_server.suspend()
    time.sleep(0.2)
    api_server.resume()
    testbeds.down()
    left = _machine()
    assert node.remains() == []
    assert left["state"] == left["cgroups"] == left["processes"] == set()
    testbeds.up(progress=print)
    during = _machine()
    assert node.HOST_INTERFACE in during["interfaces"] and "kubelet" not in during["mounts"]
    testbeds.down()
    assert _machine() == left


@pytest.mark.parametrize("after_s", [0.3, 1.5, 4.0])
def test_a_start_that_is_killed_is_made_good(after_s):
    testbeds.down()
    start = subprocess.Popen(
        [sys.executable, "-c", "from meshperf import testbed; testbed.up()"], stdout=subprocess.DEVNULL
    )
    time.sleep(after_s)
    start.send_signal(signal.SIGKILL)
    start.wait()
    testbeds.up(progress=print)
    assert embedded.running()
