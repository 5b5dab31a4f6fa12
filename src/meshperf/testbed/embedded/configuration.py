"""What the node's daemons read: certificates, kubeconfigs and the files of containerd, CNI, kubelet and kube-proxy."""

import base64
import json
from pathlib import Path

import yaml

from meshperf.testbed.embedded import node
from meshperf.testbed.embedded.pki import Authority, write_private, write_signing_key

NODE_NAME = "node1"
CONTEXT = "meshperf-embedded"
POD_NETWORK = "10.202.0.0/16"
NODE_POD_NETWORK = "10.202.0.0/24"
SERVICE_NETWORK = "10.203.0.0/16"
API_SERVICE_IP = "10.203.0.1"
DNS_SERVICE_IP = "10.203.0.10"
API_PORT = 6443


def write_configuration(state: Path) -> None:
    """Write all of it into the state directory, with new keys; the administrator's file is ``kubeconfig``."""
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
    (state / "admin.kubeconfig").rename(state / "kubeconfig")
    (state / "containerd.toml").write_text(_CONTAINERD.format(state=state))
    (state / "cni" / "conf" / "10-meshperf.conflist").write_text(json.dumps(_cni(state)))
    (state / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet_configuration(state)))
    (state / "kube-proxy.yaml").write_text(yaml.safe_dump(_kube_proxy_configuration(state)))


def _write_kubeconfig(pki: Path, name: str, target: Path) -> None:
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
