"""The node of the embedded cluster: one set of Linux namespaces in which everything runs.

The node has a process, a mount and a network namespace of its own, held open by one `pause` process. Whatever
runs in it (containerd, the kubelet, proxies, pods) dies with that process, and with the namespaces go their mounts,
interfaces and iptables rules. The machine keeps its own; only a pair of connected interfaces joins the two.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from meshperf.errors import MeshperfError

#: Last argument of the process that holds the node; how a node is recognised, also after a crash of its maker.
MARKER = "meshperf-embedded-node"
#: The machine's end of the pair of interfaces, and the node's.
HOST_INTERFACE = "meshperf0"
HOST_IP = "10.201.0.254"
NODE_IP = "10.201.0.1"
#: The cgroup under which the kubelet puts every pod.
CGROUP = "meshperf"

_CGROUPS = Path("/sys/fs/cgroup")

#: What the kubelet wants of the kernel. It reads these files from the node's own copies, already as wanted, so that the
#: machine's settings stay as they are.
_KUBELET_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def find() -> int | None:
    """Return the process id of the running node's first process, or None if no node runs."""
    # `unshare` carries the marker too until it has become the parent: the node is the one called pause.
    found = (
        pid
        for pid, words in _command_lines()
        if words[-1] == MARKER.encode() and words[0].endswith(b"/pause")
    )
    return next(found, None)


def start(state_dir: Path, pause: Path) -> int:
    """Start an empty node and return the process id of its first process.

    Parameters
    ----------
    state_dir : Path
        Visible in the node under the same path; ``/run``, ``/var/lib`` and ``/var/log`` are the node's own otherwise.
    pause : Path
        The program that holds the node open.
    """
    _make_cgroups()
    log = (state_dir / "log" / "node.log").open("ab")
    subprocess.Popen(
        ["unshare", "--fork", "--pid", "--mount", "--net", "--uts", "--mount-proc", str(pause), MARKER],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    deadline = time.monotonic() + 10
    while (pid := find()) is None:
        if time.monotonic() > deadline:
            raise MeshperfError(
                f"the node's namespaces could not be made: see {state_dir / 'log' / 'node.log'}"
            )
        time.sleep(0.02)
    try:
        _prepare_mounts(pid, state_dir)
        _join_networks(pid)
    except BaseException:
        stop()
        raise
    return pid


def enter(pid: int) -> list[str]:
    """Return the words that, put before a command, run it inside the node."""
    return ["nsenter", "--target", str(pid), "--mount", "--net", "--pid", "--uts", "--"]


def stop() -> None:
    """Remove the node with all its processes, mounts, interfaces, rules and cgroups. Does nothing without one."""
    while (pid := find()) is not None:
        # What entered from outside goes too: the node does not end before each of its processes has been waited for,
        # and an `nsenter` that was stopped together with its daemon waits for nothing.
        for process in (pid, *_entered(pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while Path(f"/proc/{pid}").exists():
            if time.monotonic() > deadline:
                raise MeshperfError(
                    f"process {pid} of the embedded cluster does not end: restart the machine"
                )
            time.sleep(0.05)
    subprocess.run(["ip", "link", "delete", HOST_INTERFACE], capture_output=True)
    _remove_cgroups()


def remains() -> list[str]:
    """Return what is left of a node on this machine, one line each: empty after `stop`."""
    left = []
    if (pid := find()) is not None:
        left.append(f"process {pid}")
    if Path(f"/sys/class/net/{HOST_INTERFACE}").exists():
        left.append(f"interface {HOST_INTERFACE}")
    left += [f"cgroup {path}" for path in _cgroup_dirs() if path.exists()]
    return left


def find_cgroup_file(container_id: str, name: str) -> Path | None:
    """Return a file of a container's CPU cgroup, or None if the container has none."""
    root = (
        _CGROUPS / CGROUP
        if (_CGROUPS / "cgroup.controllers").exists()
        else (_CGROUPS / "cpu" / CGROUP).resolve()
    )
    return next(root.glob(f"**/*{container_id}*/{name}"), None)


def _entered(node_pid: int) -> list[int]:
    """Return the processes that hold a daemon in the node from outside."""
    start = [word.encode() for word in enter(node_pid)[:3]]
    return [pid for pid, words in _command_lines() if words[:3] == start]


def _command_lines() -> Iterator[tuple[int, list[bytes]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")


def _run_in(pid: int, script: str) -> None:
    result = subprocess.run([*enter(pid), "sh", "-ec", script], capture_output=True, text=True)
    if result.returncode:
        raise MeshperfError(f"preparing the node of the embedded cluster failed: {result.stderr.strip()}")


def _prepare_mounts(pid: int, state_dir: Path) -> None:
    sysctls = state_dir / "sysctl"
    for name, value in _KUBELET_SYSCTLS.items():
        path = sysctls / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    binds = "\n".join(
        f"[ ! -e /proc/sys/{name} ] || mount --bind {sysctls / name} /proc/sys/{name}"
        for name in _KUBELET_SYSCTLS
    )
    _run_in(
        pid,
        f"""
        mount --make-rprivate /
        {binds}
        mount -t tmpfs -o mode=755 run /run
        mkdir -p /run/lock /run/meshperf
        mount --bind {state_dir} /run/meshperf
        mount -t tmpfs -o mode=755 varlib /var/lib
        mkdir -p {state_dir}
        mount --bind /run/meshperf {state_dir}
        mount -t tmpfs -o mode=755 varlog /var/log
        mount --make-rshared /
        """,
    )


def _join_networks(pid: int) -> None:
    subprocess.run(["ip", "link", "delete", HOST_INTERFACE], capture_output=True)
    for command in (
        f"ip link add {HOST_INTERFACE} type veth peer name eth0 netns {pid}",
        f"ip address add {HOST_IP}/24 dev {HOST_INTERFACE}",
        f"ip link set {HOST_INTERFACE} up",
    ):
        result = subprocess.run(command.split(), capture_output=True, text=True)
        if result.returncode:
            raise MeshperfError(f"`{command}` failed: {result.stderr.strip()}")
    _run_in(
        pid,
        f"""
        ip link set lo up
        ip address add {NODE_IP}/24 dev eth0
        ip link set eth0 up
        ip route add default via {HOST_IP}
        echo 1 > /proc/sys/net/ipv4/ip_forward
        """,
    )


def _cgroup_dirs() -> list[Path]:
    """Return the node's cgroup in each hierarchy: one with cgroup v2, one per controller (and v2's) with v1."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS / CGROUP]
    hierarchies = {path.resolve() for path in _CGROUPS.iterdir() if (path / "cgroup.procs").exists()}
    return sorted(path / CGROUP for path in hierarchies)


def _make_cgroups() -> None:
    for path in _cgroup_dirs():
        path.mkdir(exist_ok=True)
        parent = path.parent
        if (parent / "cgroup.subtree_control").exists():
            for directory in (parent, path):
                names = (directory / "cgroup.controllers").read_text().split()
                for name in names:
                    with contextlib.suppress(OSError):
                        (directory / "cgroup.subtree_control").write_text(f"+{name}")
        for name in ("cpuset.cpus", "cpuset.mems"):  # v1: a new cpuset is empty and takes no process
            if (parent / name).exists() and not (path / name).read_text().strip():
                (path / name).write_text((parent / name).read_text())


def _remove_cgroups() -> None:
    deadline = time.monotonic() + 20
    for root in _cgroup_dirs():
        while root.exists():
            for directory, _, _ in os.walk(root, topdown=False):
                with contextlib.suppress(OSError):  # busy until the kernel has reaped the last process
                    Path(directory).rmdir()
            if root.exists():
                if time.monotonic() > deadline:
                    raise MeshperfError(f"the cgroup {root} still holds processes: end them and try again")
                time.sleep(0.1)
