"""Network Service Mesh: a virtual network of layer 3 (vL3) beside the cluster's own, which the load takes.

Each pod gets one more interface. A forwarder on its node (VPP) carries the packets to the vL3 endpoint, which runs
beside the service and passes them on; nothing looks into connections or requests. Configurations:

``basic``
    Client and server on one node: packets go from forwarder to endpoint and back through memory, unencrypted.
``wireguard``
    On different nodes: between them, NSM's forwarders encrypt the packets with WireGuard.

Both are within one cluster. The published comparison (Uzlov, Tingaikin and Efremov 2024) had client and server in two,
which is not offered: NSM finds names across clusters by changing the DNS of both, which is not ours to change, and what
is measured would need a baseline across clusters and one clock for both.

The manifests are the official ones, https://github.com/networkservicemesh/deployments-k8s at v1.18.0, rendered by
``kubectl kustomize`` on the measuring machine. Two things are changed: the webhook acts on our namespace alone, and
what carries the load has no CPU limit, as in the published comparison and as with every other mesh here.
"""

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal

from meshperf.errors import MeshperfError
from meshperf.meshes.base import Manifest, Mesh, PodReader, ProxyCounters, Setting
from meshperf.meshes.rendering import keep, read_output
from meshperf.workloads.echo import PORT, SERVICE

if TYPE_CHECKING:
    from meshperf.testbed.client import Cluster

VERSION = "v1.18.0"
REPOSITORY = "https://github.com/networkservicemesh/deployments-k8s"
#: What the manifests are rendered with -> where it says how to install it.
_TOOLS = {"kubectl": "https://kubernetes.io/docs/tasks/tools/", "git": "https://git-scm.com/downloads"}
#: Kustomize clones the repository for each of its parts.
_FETCH_TIMEOUT_S = 180
_NAMESPACE, _SPIRE = "nsm-system", "spire"
#: Parts of the repository, in the order in which they are applied.
_CONTROL_PLANE = ("examples/spire/single_cluster", "examples/basic")
_NETWORK = ("apps/nse-vl3-vpp", "apps/vl3-ipam")
#: Our virtual network; names in it end so.
NETWORK = "meshperf"
#: Interface that a pod gets.
_INTERFACE = "nsm-1"
_ENROLMENT = {"meshperf.dev/nsm": "enabled"}
_FORWARDER, _ENDPOINT = "forwarder-vpp", "nse"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class Nsm(Mesh):
    """Network Service Mesh with a vL3 network."""

    name = "nsm"
    sidecar = "cmd-nsc"
    control_plane_namespaces = (_SPIRE, _NAMESPACE)
    control_plane_deployments = ((_NAMESPACE, "registry-k8s"), (_NAMESPACE, "admission-webhook-k8s"))
    control_plane_sets = (
        ("StatefulSet", _SPIRE, "spire-server"),
        ("DaemonSet", _SPIRE, "spire-agent"),
        ("DaemonSet", _NAMESPACE, "nsmgr"),
        ("DaemonSet", _NAMESPACE, _FORWARDER),
    )

    def check_cluster(self, cluster: "Cluster", configuration: str) -> None:
        """Refuse a machine without the tools, and a cluster on which SPIRE gets no storage."""
        _find_tools()
        classes = cluster.list_objects("storage.k8s.io/v1", "StorageClass")
        if not any((c["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true" for c in classes):
            raise MeshperfError(
                "the cluster has no default StorageClass, and NSM's SPIRE server asks for a volume: mark one with "
                f'the annotation {_DEFAULT_CLASS}: "true", or leave nsm out'
            )

    def placement(self, configuration: str) -> Literal["same-node", "other-node"] | None:
        """Return where the load generator must run: on one node NSM never encrypts, between nodes always."""
        return "other-node" if configuration == "wireguard" else "same-node"

    def control_plane(self, configuration: str, image_source: str) -> Sequence[Manifest]:
        """Return SPIRE, the managers, the forwarders, the registry and the webhook."""
        rendered = keep("nsm", VERSION, *_CONTROL_PLANE, make=lambda: _kustomize(*_CONTROL_PLANE))
        return [*adapt_control_plane(rendered), *_identities()]

    def namespace_labels(self, configuration: str) -> Mapping[str, str]:
        """Return the label by which the webhook knows our namespace."""
        return _ENROLMENT

    def policies(self, setting: Setting) -> Sequence[Manifest]:
        """Return the virtual network: its name, the endpoint that connects it, and what gives out its addresses."""
        rendered = keep("nsm", VERSION, *_NETWORK, make=lambda: _kustomize(*_NETWORK))
        service = {
            "apiVersion": "networkservicemesh.io/v1",
            "kind": "NetworkService",
            "metadata": {"name": NETWORK, "namespace": setting.namespace},
            "spec": {"payload": "IP"},
        }
        return [service, *adapt_network(rendered, setting.namespace)]

    def adapt(self, workloads: Sequence[Manifest], setting: Setting) -> Sequence[Manifest]:
        """Return the workloads with the annotation that asks for an interface in the network, and for a name in it."""
        adapted = []
        for manifest in workloads:
            changed = deepcopy(dict(manifest))
            if manifest["kind"] == "Deployment":
                metadata = changed["spec"]["template"]["metadata"]
                name = manifest["metadata"]["name"]
                annotation = f"kernel://{NETWORK}/{_INTERFACE}?dnsName={name}"
                metadata["annotations"] = {**metadata["annotations"], "networkservicemesh.io": annotation}
            adapted.append(changed)
        return adapted

    def url(self, configuration: str) -> str:
        """Return the service by its name in the virtual network."""
        return f"http://{SERVICE}.{NETWORK}:{PORT}/"

    def encrypts_packets(self, configuration: str) -> bool:
        """Return True for ``wireguard``."""
        return configuration == "wireguard"

    def protocol(self, configuration: str) -> Literal["http", "tcp", "ip"]:
        """Return "ip"."""
        return "ip"

    def roles(self, configuration: str) -> Mapping[tuple[str, str], str]:
        """Return the forwarder and the endpoint as proxies that pods share: they carry the load."""
        return {
            (_NAMESPACE, _FORWARDER): "node-proxy",
            ("", _ENDPOINT): "node-proxy",
            ("", "vl3-ipam"): "control-plane",
        }

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return the packets of the pod's interface towards the service, and those that its forwarder encrypted."""
        sent_or_received = interface_packets(reader.run(self.sidecar, ["cat", "/proc/net/dev"]))
        encrypted = 0
        if self.encrypts_packets(configuration):
            forwarder = reader.on_same_node(_NAMESPACE, {"app": _FORWARDER})
            encrypted = tunnel_packets(forwarder.run(_FORWARDER, ["vppctl", "show", "interface"]))
        return ProxyCounters(0, 0, 0, 0, packets=sent_or_received[role], encrypted_packets=encrypted)

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return NSM's version and where its manifests are from."""
        return {"mesh": VERSION, "manifests": f"{REPOSITORY} {VERSION}"}

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return what sets this mesh apart from those with proxies."""
        return (
            "NSM carries packets of IP: unlike a proxy, it sees neither connections nor requests",
            "NSM runs within one cluster here; the published comparison had client and server in two",
        )


def adapt_control_plane(rendered: Iterable[Manifest]) -> list[Manifest]:
    """Return the manifests as they are applied: the webhook sees our namespace alone, and VPP has no CPU limit."""
    adapted = []
    for manifest in rendered:
        changed: dict[str, Any] = deepcopy(dict(manifest))
        if manifest["kind"] == "MutatingWebhookConfiguration":
            # It would be asked for every pod and deployment of the cluster, and refuse them while it does not answer.
            for webhook in changed["webhooks"]:
                webhook["namespaceSelector"] = {"matchLabels": dict(_ENROLMENT)}
        if manifest["kind"] == "DaemonSet":
            _lift_cpu_limit(changed, _FORWARDER)
        adapted.append(changed)
    return adapted


def adapt_network(rendered: Iterable[Manifest], namespace: str) -> list[Manifest]:
    """Return the endpoint and the addresses' server of our network.

    The endpoint serves our network alone, names pods after their annotations, has no CPU limit, and runs beside the
    service, as in the published comparison.
    """
    adapted = []
    for manifest in rendered:
        changed: dict[str, Any] = deepcopy(dict(manifest))
        changed["metadata"]["namespace"] = namespace
        if manifest["metadata"]["name"] == "nse-vl3-vpp":
            (endpoint,) = changed["spec"]["template"]["spec"]["containers"]
            endpoint["env"] = [
                *endpoint["env"],
                {"name": "NSM_SERVICE_NAMES", "value": NETWORK},
                {"name": "NSM_REGISTER_SERVICE", "value": "false"},
                {
                    "name": "NSM_DNS_TEMPLATES",
                    "value": '{{ index .Labels "dnsName" }}.{{ .NetworkService }}.',
                },
            ]
            _lift_cpu_limit(changed, _ENDPOINT)
            term = {
                "labelSelector": {"matchLabels": {"app": SERVICE}},
                "topologyKey": "kubernetes.io/hostname",
            }
            affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            changed["spec"]["template"]["spec"]["affinity"] = affinity
        adapted.append(changed)
    return adapted


def interface_packets(text: str) -> dict[str, int]:
    """Return the packets towards the service by role: those that the client's interface sent, or the server's received.

    Parameters
    ----------
    text : str
        Of ``/proc/net/dev`` in the pod (proc_net(5): after the name received bytes, packets and six more, then the
        same sent).
    """
    line = re.search(rf"^\s*{_INTERFACE}:\s*(.*)$", text, re.MULTILINE)
    fields = line[1].split() if line else ["0"] * 16
    return {"client": int(fields[9]), "server": int(fields[1])}


def tunnel_packets(text: str) -> int:
    """Return the packets that a forwarder's WireGuard interfaces took and gave.

    Parameters
    ----------
    text : str
        Of ``vppctl show interface``: a line with the name begins each interface, and its counters follow in columns.
    """
    packets, in_tunnel = 0, False
    for line in text.splitlines():
        if line and not line[0].isspace():
            in_tunnel = bool(re.match(r"wg\d+\s", line))
        counter = re.search(r"\b[rt]x packets\s+(\d+)\s*$", line)
        if in_tunnel and counter:
            packets += int(counter[1])
    return packets


def _find_tools() -> None:
    for name, install in _TOOLS.items():
        if shutil.which(name) is None:
            raise MeshperfError(
                f"`{name}` is not on the PATH, and NSM's manifests are rendered with it: install it ({install}), or "
                "leave nsm out"
            )


def _kustomize(*parts: str) -> list[Manifest]:
    _find_tools()
    urls = [f"{REPOSITORY}/{part}?ref={VERSION}" for part in parts]
    return [
        manifest for url in urls for manifest in read_output(["kubectl", "kustomize", url], _FETCH_TIMEOUT_S)
    ]


def _identities() -> list[Manifest]:
    """Return whom SPIRE gives which identity, as ``examples/spire`` has it in files of their own.

    They come last: the webhook that checks them is a part of what is applied before.
    """
    webhook = '{{index .PodMeta.Labels "spiffe.io/spiffe-dns-webhook"}}.{{.PodMeta.Namespace}}'
    identity = "/ns/{{.PodMeta.Namespace}}/pod/{{.PodMeta.Name}}"
    workloads = {
        "spiffeIDTemplate": f"spiffe://k8s.nsm{identity}",
        "autoPopulateDNSNames": True,
        "podSelector": {"matchLabels": {"spiffe.io/spiffe-id": "true"}},
    }
    admission = {
        "spiffeIDTemplate": "spiffe://{{.TrustDomain}}" + identity,
        "dnsNameTemplates": [webhook, f"{webhook}.svc"],
        "podSelector": {"matchLabels": {"app": "admission-webhook-k8s"}},
    }
    return [
        {
            "apiVersion": "spire.spiffe.io/v1alpha1",
            "kind": "ClusterSPIFFEID",
            "metadata": {"name": f"nsm-workloads{suffix}"},
            "spec": spec,
        }
        for suffix, spec in (("", workloads), ("-webhook", admission))
    ]


def _lift_cpu_limit(workload: dict[str, Any], container: str) -> None:
    for entry in workload["spec"]["template"]["spec"]["containers"]:
        if entry["name"] == container:
            entry["resources"].get("limits", {}).pop("cpu", None)
