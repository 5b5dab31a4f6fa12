"""The embedded cluster: a real Kubernetes of one node that needs no container engine and no registry.

Everything is in one state directory and in the namespaces of one node (see `node`). Starting is idempotent: what runs
is left alone, what is missing is started, and the remains of a start that was killed are replaced.
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import yaml

from meshperf.errors import MeshperfError
from meshperf.paths import cache_dir, repository_root
from meshperf.testbed.client import Cluster
from meshperf.testbed.embedded import images, node
from meshperf.testbed.embedded.builds import KUBERNETES_VERSION, Progress, build
from meshperf.testbed.embedded.pki import Authority, write_private, write_signing_key

NODE_NAME = "node1"
CONTEXT = "meshperf-embedded"
POD_NETWORK = "10.202.0.0/16"
NODE_POD_NETWORK = "10.202.0.0/24"
SERVICE_NETWORK = "10.203.0.0/16"
API_SERVICE_IP = "10.203.0.1"
DNS_SERVICE_IP = "10.203.0.10"
Identity = tuple[str, str, str]
API_PORT = 6443

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
    binaries = {name: build(name, progress) for name in ("pause", "etcd", "kube", "coredns", "fortio")}
    with _exclusive():
        processes = _start_node(binaries["pause"], progress)
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
        cluster.wait_for_deployments("kube-system", ["coredns"], READY_TIMEOUT_S)
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


def load_images(mesh: str, progress: Progress) -> None:
    """Load the images that a mesh needs into the running cluster."""
    if mesh == "istio":
        for image in images.istio_images(progress):
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


def containerd_version() -> str:
    """Return the version of containerd."""
    return subprocess.run(["containerd", "--version"], capture_output=True, text=True).stdout.split()[2]


class _Processes:
    """The daemons in the node, each recorded by the process id and the start time of its ``nsenter``."""

    def __init__(self, pid: int, state: Path) -> None:
        self._pid, self._state = pid, state

    def start(self, name: str, command: list[str], environment: dict[str, str] | None = None) -> bool:
        """Start a daemon unless it runs; return whether it was started."""
        record = self._record(name)
        if _alive(record):
            return False
        log = (self._state / "log" / f"{name}.log").open("ab")
        process = subprocess.Popen(
            [*node.enter(self._pid), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.environ["PATH"], **(environment or {})},
        )
        record.write_text(
            json.dumps({"pid": process.pid, "started": psutil.Process(process.pid).create_time()})
        )
        return True

    def end(self, name: str) -> None:
        """End a daemon if it runs."""
        record = self._record(name)
        if _alive(record):
            holder = psutil.Process(json.loads(record.read_text())["pid"])
            for process in [*holder.children(), holder]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    def _record(self, name: str) -> Path:
        return self._state / "run" / f"{name}.json"


def _alive(record: Path) -> bool:
    """Return whether a recorded daemon runs; what is left of one that does not is ended."""
    try:
        known = json.loads(record.read_text())
        holder = psutil.Process(known["pid"])
        if holder.create_time() != known["started"] or holder.status() == psutil.STATUS_ZOMBIE:
            return False
        # `nsenter` waits for the daemon, its only child; one that was itself stopped may not notice the end.
        forked = time.time() - holder.create_time() > 2
        if forked and all(child.status() == psutil.STATUS_ZOMBIE for child in holder.children()):
            holder.kill()
            return False
        return True
    except (OSError, ValueError, KeyError, psutil.NoSuchProcess):
        return False


def _start_node(pause: Path, progress: Progress) -> _Processes:
    state = state_dir()
    complete = state / "node-complete"
    pid = node.find()
    if pid is None or not complete.exists():
        progress("starting the embedded cluster")
        node.stop()
        shutil.rmtree(state, ignore_errors=True)
        for name in ("log/pods", "run", "etcd", "kubelet", "cni/conf", "cni/networks", "containerd"):
            (state / name).mkdir(parents=True, exist_ok=True)
        # The node sees copies: a home directory may lie where the node has mounts of its own.
        pid = node.start(state, _local_copy(pause))
        _write_configuration()
        complete.touch()
    return _Processes(pid, state)


def _local_copy(binary: Path) -> Path:
    target = state_dir() / "bin" / binary.name
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        temporary = target.with_name(f".{target.name}")
        shutil.copy2(binary, temporary)
        temporary.rename(target)
    return target


def _write_configuration() -> None:
    state = state_dir()
    pki = state / "pki"
    authority = Authority(pki)
    authority.issue(
        "apiserver",
        "kube-apiserver",
        "kubernetes",
        (
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
            "127.0.0.1",
            API_SERVICE_IP,
            node.NODE_IP,
        ),
    )
    authority.issue("kubelet", f"system:node:{NODE_NAME}", "system:nodes", (NODE_NAME, node.NODE_IP))
    authority.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
    authority.issue("front-proxy", "front-proxy-client", "meshperf")
    write_signing_key(pki)
    clients = {
        "admin": ("meshperf-admin", "system:masters"),
        "controller-manager": ("system:kube-controller-manager", "system:kube-controller-manager"),
        "scheduler": ("system:kube-scheduler", "system:kube-scheduler"),
        "proxy": ("system:kube-proxy", "system:node-proxier"),
    }
    for name, (user, group) in clients.items():
        authority.issue(name, user, group)
        _write_kubeconfig(pki, name, state / f"{name}.kubeconfig")
    _write_kubeconfig(pki, "kubelet", state / "kubelet.kubeconfig")
    (state / "admin.kubeconfig").rename(kubeconfig())
    (state / "containerd.toml").write_text(_CONTAINERD.format(state=state))
    (state / "cni" / "conf" / "10-meshperf.conflist").write_text(json.dumps(_cni(state)))
    (state / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet_configuration(state)))
    (state / "kube-proxy.yaml").write_text(yaml.safe_dump(_kube_proxy_configuration(state)))


def _write_kubeconfig(pki: Path, name: str, target: Path) -> None:
    import base64

    def read(file: str) -> str:
        return base64.b64encode((pki / file).read_bytes()).decode()

    server = f"https://{node.NODE_IP}:{API_PORT}"
    write_private(
        target,
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {
                        "name": CONTEXT,
                        "cluster": {"server": server, "certificate-authority-data": read("ca.crt")},
                    }
                ],
                "users": [
                    {
                        "name": name,
                        "user": {
                            "client-certificate-data": read(f"{name}.crt"),
                            "client-key-data": read(f"{name}.key"),
                        },
                    }
                ],
                "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": name}}],
                "current-context": CONTEXT,
            }
        ).encode(),
    )


def _start_control_plane(processes: _Processes, binaries: dict[str, Path]) -> None:
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


def _start_runtime(processes: _Processes) -> None:
    processes.start("containerd", ["containerd", "--config", str(state_dir() / "containerd.toml")])


def _start_controllers(processes: _Processes, kube: Path) -> None:
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


def _start_kubelet(processes: _Processes, kube: Path) -> None:
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


_CONTAINERD = """\
version = 2
root = "{state}/containerd/root"
state = "{state}/containerd/state"
[grpc]
  address = "{state}/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Without CAP_SYS_RESOURCE no score can be lowered, and every sandbox would fail.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{state}/cni/conf"
"""


def _cni(state: Path) -> dict:
    return {
        "cniVersion": "1.0.0",
        "name": "meshperf",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods0",
                "isGateway": True,
                "ipMasq": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": NODE_POD_NETWORK}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": str(state / "cni" / "networks"),
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _kubelet_configuration(state: Path) -> dict:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{state}/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{state}/pki/kubelet.crt",
        "tlsPrivateKeyFile": f"{state}/pki/kubelet.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [DNS_SERVICE_IP],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{state}/run/containerd.sock",
        "podLogsDir": f"{state}/log/pods",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        # Fresh deployments are frequent; the default of 5 starts a second would pace them.
        "registryPullQPS": 0,
        "eventRecordQPS": 50,
        # How soon the kubelet sees that a container started or ended.
        "syncFrequency": "10s",
    }


def _kube_proxy_configuration(state: Path) -> dict:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{state}/proxy.kubeconfig"},
        "hostnameOverride": NODE_NAME,
        "clusterCIDR": POD_NETWORK,
        "mode": "iptables",
        "iptables": {"minSyncPeriod": "100ms"},
        # The table's size belongs to the machine, not to the node.
        "conntrack": {"maxPerCore": 0, "min": 0},
    }


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


__all__ = [
    "KUBERNETES_VERSION",
    "containerd_version",
    "down",
    "kubeconfig",
    "load_images",
    "obstacles",
    "running",
    "up",
]
