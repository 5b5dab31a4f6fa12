"""The embedded cluster: a real Kubernetes of one node that needs no container engine and no registry.

Everything is in one state directory and in the namespaces of one node (see `node`). Starting is idempotent: what runs
is left alone, what is missing is started, and the remains of a start that was killed are replaced.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import yaml

from meshperf.errors import MeshperfError
from meshperf.paths import cache_dir, repository_root
from meshperf.testbed.client import Cluster
from meshperf.testbed.embedded import images, node
from meshperf.testbed.embedded.builds import COREDNS, ETCD, FORTIO, KUBERNETES, PAUSE, Progress, build
from meshperf.testbed.embedded.configuration import (
    API_PORT,
    CONTEXT,
    NODE_NAME,
    POD_NETWORK,
    SERVICE_NETWORK,
    write_configuration,
)
from meshperf.testbed.embedded.daemons import Daemons

Identity = tuple[str, str, str]

#: Debian packages whose programs the node runs, and one program of each.
DEBIAN_PROGRAMS = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "iproute2": "ip",
    "debootstrap": "debootstrap",
}
READY_TIMEOUT_S = 120


def state_dir() -> Path:
    """Return the directory that holds all of the cluster's state: ``MESHPERF_STATE`` or ``/var/lib/meshperf``."""
    return Path(os.environ.get("MESHPERF_STATE", "/var/lib/meshperf"))


def kubeconfig() -> Path:
    """Return the administrator's kubeconfig; the user's own is never touched."""
    return state_dir() / "kubeconfig"


def obstacles() -> list[str]:
    """Return what keeps this machine from running the embedded cluster, one clause each; empty if nothing does."""
    import platform
    import sys

    found = []
    if sys.platform != "linux":
        return ["it needs Linux"]
    if platform.machine() != "x86_64":
        found.append("its Envoy is for x86_64 only")
    if os.geteuid() != 0:
        found.append("it needs root")
    missing = [package for package, program in DEBIAN_PROGRAMS.items() if not _has(program)]
    if missing:
        found.append(f"Debian packages are missing (apt-get install {' '.join(missing)})")
    return found


def up(progress: Progress) -> Cluster:
    """Start the cluster, or what is missing of it, and return a client once its node is ready.

    Parameters
    ----------
    progress : callable
        Takes one line of text before anything that takes more than a moment.

    Raises
    ------
    MeshperfError
        If the machine cannot run it, or a component does not get ready in time.
    """
    if blocked := obstacles():
        raise MeshperfError(f"the embedded cluster cannot be started here: {'; '.join(blocked)}")
    binaries = {p.name: build(p, progress) for p in (PAUSE, ETCD, KUBERNETES, COREDNS, FORTIO)}
    with _exclusive():
        processes = _start_node(binaries, progress)
        _start_control_plane(processes, binaries)
        _start_runtime(processes)
        ctr = _ctr()
        _wait("containerd", lambda: subprocess.run([*ctr, "version"], capture_output=True).returncode == 0)
        for image in (
            images.pause_image(progress),
            images.coredns_image(progress),
            images.fortio_image(progress),
        ):
            images.load(image, ctr, progress)
        cluster = Cluster(kubeconfig(), CONTEXT)
        _wait("kube-apiserver", cluster.is_ready)
        _start_controllers(processes, binaries["kube"])
        _start_kubelet(processes, binaries["kube"])
        cluster.apply(_coredns_manifests())
        _wait(f"node {NODE_NAME}", lambda: _node_ready(cluster))
        cluster.wait_for_rollout("Deployment", "kube-system", "coredns", READY_TIMEOUT_S)
    return cluster


def down() -> None:
    """Remove the cluster and everything it left on this machine; the cache of builds stays."""
    if os.geteuid() != 0:
        raise MeshperfError("the embedded cluster belongs to root: run `meshperf cluster down` as root")
    with _exclusive():
        node.stop()
    shutil.rmtree(state_dir(), ignore_errors=True)


def running() -> bool:
    """Return whether a node runs and its API server is ready."""
    if os.geteuid() != 0 or node.find() is None or not kubeconfig().exists():
        return False
    return Cluster(kubeconfig(), CONTEXT).is_ready()


def load_images(wanted: Iterable[images.Image], progress: Progress) -> None:
    """Load images into the running cluster, unless they are there."""
    for image in wanted:
        images.load(image, _ctr(), progress)


def throttling(container_ids: Mapping[Identity, str]) -> dict[Identity, tuple[int, int]]:
    """Return throttled periods and periods of containers, from the kernel's own counters.

    Parameters
    ----------
    container_ids : mapping
        (namespace, pod, container) -> containerd's id.
    """
    found = {}
    for identity, container_id in container_ids.items():
        path = node.find_cgroup_file(container_id, "cpu.stat")
        if path is None:
            continue
        counters = dict(line.split() for line in path.read_text().splitlines())
        found[identity] = (int(counters.get("nr_throttled", 0)), int(counters.get("nr_periods", 0)))
    return found


def _start_node(binaries: Mapping[str, Path], progress: Progress) -> Daemons:
    """Return the daemons of the running node, or of a new one if none runs that was made whole from these builds."""
    state = state_dir()
    complete = state / "node-complete"
    builds = "\n".join(sorted(binary.parent.name for binary in binaries.values()))
    pid = node.find()
    if pid is None or not complete.exists() or complete.read_text() != builds:
        progress("starting the embedded cluster")
        node.stop()
        shutil.rmtree(state, ignore_errors=True)
        for name in ("log/pods", "run", "etcd", "kubelet", "cni/conf", "cni/networks", "containerd"):
            (state / name).mkdir(parents=True, exist_ok=True)
        # The node sees copies: a home directory may lie where the node has mounts of its own.
        pid = node.start(state, _local_copy(binaries["pause"]))
        write_configuration(state)
        complete.write_text(builds)
    return Daemons(pid, state)


def _local_copy(binary: Path) -> Path:
    target = state_dir() / "bin" / binary.name
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        temporary = target.with_name(f".{target.name}")
        shutil.copy2(binary, temporary)
        temporary.rename(target)
    return target


def _start_control_plane(processes: Daemons, binaries: dict[str, Path]) -> None:
    state, pki = state_dir(), state_dir() / "pki"
    etcd = "http://127.0.0.1:2379"
    processes.start(
        "etcd",
        [
            str(_local_copy(binaries["etcd"])),
            f"--data-dir={state / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            # The cluster is thrown away with its machine: no need to wait for the disk.
            "--unsafe-no-fsync",
        ],
    )
    started = processes.start(
        "kube-apiserver",
        [
            str(_local_copy(binaries["kube"])),
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            f"--secure-port={API_PORT}",
            f"--advertise-address={node.NODE_IP}",
            f"--tls-cert-file={pki}/apiserver.crt",
            f"--tls-private-key-file={pki}/apiserver.key",
            f"--client-ca-file={pki}/ca.crt",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki}/sa.pub",
            f"--service-account-signing-key-file={pki}/sa.key",
            "--allow-privileged=true",
            f"--kubelet-client-certificate={pki}/kubelet-client.crt",
            f"--kubelet-client-key={pki}/kubelet-client.key",
            f"--kubelet-certificate-authority={pki}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
            f"--requestheader-client-ca-file={pki}/ca.crt",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={pki}/front-proxy.crt",
            f"--proxy-client-key-file={pki}/front-proxy.key",
            "--enable-aggregator-routing=true",
        ],
    )
    if started:
        # They would find a new API server by themselves, but only after pauses of up to a minute.
        for name in ("kube-controller-manager", "kube-scheduler"):
            processes.end(name)


def _start_runtime(processes: Daemons) -> None:
    processes.start("containerd", ["containerd", "--config", str(state_dir() / "containerd.toml")])


def _start_controllers(processes: Daemons, kube: Path) -> None:
    state, pki, binary = state_dir(), state_dir() / "pki", str(_local_copy(kube))
    processes.start(
        "kube-controller-manager",
        [
            binary,
            "kube-controller-manager",
            f"--kubeconfig={state}/controller-manager.kubeconfig",
            f"--service-account-private-key-file={pki}/sa.key",
            f"--root-ca-file={pki}/ca.crt",
            f"--cluster-signing-cert-file={pki}/ca.crt",
            f"--cluster-signing-key-file={pki}/ca.key",
            "--use-service-account-credentials",
            "--allocate-node-cidrs",
            f"--cluster-cidr={POD_NETWORK}",
            "--leader-elect=false",
        ],
    )
    processes.start(
        "kube-scheduler",
        [binary, "kube-scheduler", f"--kubeconfig={state}/scheduler.kubeconfig", "--leader-elect=false"],
    )


def _start_kubelet(processes: Daemons, kube: Path) -> None:
    state, binary = state_dir(), str(_local_copy(kube))
    processes.start(
        "kubelet",
        [
            binary,
            "kubelet",
            f"--config={state}/kubelet.yaml",
            f"--kubeconfig={state}/kubelet.kubeconfig",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={node.NODE_IP}",
            f"--root-dir={state}/kubelet",
            # The node's own CPU counter is read this often; the default of 10 s is as long as a short run.
            "--housekeeping-interval=1s",
        ],
    )
    processes.start("kube-proxy", [binary, "kube-proxy", f"--config={state}/kube-proxy.yaml"])


def _coredns_manifests() -> list[dict]:
    text = (repository_root() / "envs" / "cluster" / "coredns" / "coredns.yaml").read_text()
    return list(yaml.safe_load_all(text))


def _ctr() -> list[str]:
    return ["ctr", "--address", str(state_dir() / "run" / "containerd.sock"), "--namespace", "k8s.io"]


def _node_ready(cluster: Cluster) -> bool:
    found = cluster.get("v1", "Node", NODE_NAME) or {}
    return any(
        c["type"] == "Ready" and c["status"] == "True" for c in found.get("status", {}).get("conditions", [])
    )


def _wait(component: str, ready) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not ready():
        if time.monotonic() > deadline:
            raise MeshperfError(
                f"{component} of the embedded cluster did not get ready in {READY_TIMEOUT_S} s: "
                f"see the logs in {state_dir() / 'log'}, then run `meshperf cluster down` and try again"
            )
        time.sleep(0.1)


def _has(program: str) -> bool:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None


@contextlib.contextmanager
def _exclusive() -> Iterator[None]:
    """Let one process change the cluster at a time; the lock dies with its holder."""
    lock = cache_dir() / "cluster.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
