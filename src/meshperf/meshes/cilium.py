"""Cilium, the network of a user's cluster: detected and checked, never installed and never reconfigured.

There are no sidecars. Layer 7 is one Envoy per node, which a policy sends the load through; encryption is the kernel's
(WireGuard, IPsec) or a ztunnel's. Configurations:

``basic``
    The service's node parses the load as HTTP (a CiliumNetworkPolicy with an HTTP rule); nothing is encrypted.
``mtls``
    Cilium's ztunnel carries connections in mutual TLS; nothing is parsed.
``mutual-auth``
    As basic, and the policy requires that agents have authenticated the two workloads to each other.
``wireguard``, ``ipsec``
    As basic, and packets between nodes are encrypted.

Names, keys and labels are those that the chart in the module ``github.com/cilium/cilium`` at v1.20.2 renders.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from meshperf.errors import MeshperfError
from meshperf.meshes import ztunnel
from meshperf.meshes.base import Manifest, Mesh, PodReader, ProxyCounters, Setting
from meshperf.meshes.cilium_config import (
    AGENT,
    AGENT_CONTAINER,
    CONFIG_MAP,
    NAMESPACE,
    encryption,
    is_on,
)
from meshperf.meshes.prometheus_text import total
from meshperf.testbed.checks import Check
from meshperf.workloads.echo import PORT

if TYPE_CHECKING:
    from meshperf.testbed.client import Cluster

_AGENT_LABELS = {"k8s-app": "cilium"}
_ENVOY, _ENVOY_LABELS = "cilium-envoy", {"k8s-app": "cilium-envoy"}
_ENVOY_METRICS_PORT = 9964
_ZTUNNEL_LABELS = {"app": "ztunnel-cilium"}
#: Cluster of Cilium's Envoy through which it passes on what it has taken on the way into a pod.
_INGRESS = "ingress-cluster"
#: Version of Cilium whose chart and commands were read.
CHECKED_AGAINST = "1.20.2"
#: Kind of authentication in the agent's table (``pkg/policy/types/auth.go``).
_SPIRE = 1
#: Configuration -> encryption that the cluster must have, and the setting of Cilium's chart that makes it so.
_ENCRYPTION = {
    "basic": ("none", "encryption.enabled=false"),
    "mutual-auth": ("none", "encryption.enabled=false"),
    "mtls": ("ztunnel", "encryption.enabled=true and encryption.type=ztunnel"),
    "wireguard": ("wireguard", "encryption.enabled=true and encryption.type=wireguard"),
    "ipsec": ("ipsec", "encryption.enabled=true and encryption.type=ipsec"),
}
#: Switches that must be on where the load is parsed, and the setting of the chart that does it.
_FOR_HTTP = {
    "enable-l7-proxy": "l7Proxy=true",
    # Otherwise Envoy runs inside the agent, and its CPU cannot be told from the agent's.
    "external-envoy-proxy": "envoy.enabled=true",
}
_FOR_MUTUAL_AUTH = {
    "mesh-auth-enabled": "authentication.enabled=true",
    "mesh-auth-mutual-enabled": "authentication.mutual.spire.enabled=true",
}


class Cilium(Mesh):
    """Cilium without sidecars."""

    name = "cilium"

    def check_cluster(self, cluster: "Cluster", configuration: str) -> None:
        """Refuse a cluster without Cilium, and one whose Cilium is set otherwise than the arm claims."""
        found = cluster.get("v1", "ConfigMap", CONFIG_MAP, NAMESPACE)
        if found is None:
            raise MeshperfError(
                f"the cluster has no ConfigMap {NAMESPACE}/{CONFIG_MAP}, so Cilium is not its network: it is never "
                "installed here, as that would replace the cluster's own; name a cluster that has it"
            )
        check_configuration(found.get("data") or {}, configuration)

    def placement(self, configuration: str) -> Literal["same-node", "other-node"] | None:
        """Return "other-node" where packets are encrypted: Cilium does not encrypt what stays on its node."""
        return "other-node" if self.encrypts_packets(configuration) else None

    def namespace_labels(self, configuration: str) -> Mapping[str, str]:
        """Return the label that enrols a namespace in ztunnel."""
        return {"io.cilium/mtls-enabled": "true"} if configuration == "mtls" else {}

    def policies(self, setting: Setting) -> Sequence[Manifest]:
        """Return the policy that sends requests to the service through Envoy; ztunnel needs none."""
        if setting.configuration == "mtls":
            return ()
        rule: dict[str, Any] = {
            "fromEndpoints": [{"matchLabels": {"app": "client"}}],
            "toPorts": [
                # An empty rule allows every request, and has every request parsed.
                {"ports": [{"port": str(PORT), "protocol": "TCP"}], "rules": {"http": [{}]}}
            ],
        }
        if setting.configuration == "mutual-auth":
            rule["authentication"] = {"mode": "required"}
        return [
            {
                "apiVersion": "cilium.io/v2",
                "kind": "CiliumNetworkPolicy",
                "metadata": {"name": "server", "namespace": setting.namespace},
                "spec": {"endpointSelector": {"matchLabels": {"app": "server"}}, "ingress": [rule]},
            }
        ]

    def expects_tls(self, configuration: str) -> bool:
        """Return True for ``mtls``: elsewhere no connection is TLS, whatever happens to its packets."""
        return configuration == "mtls"

    def encrypts_packets(self, configuration: str) -> bool:
        """Return True for ``wireguard`` and ``ipsec``."""
        return configuration in ("wireguard", "ipsec")

    def protocol(self, configuration: str) -> Literal["http", "tcp", "ip"]:
        """Return what the proxy of the node takes the load for."""
        return "tcp" if configuration == "mtls" else "http"

    def proxied_sides(self, configuration: str) -> Sequence[Literal["client", "server"]]:
        """Return where a proxy counts: Envoy where requests enter the service's node, ztunnel on both sides."""
        return ("client", "server") if configuration == "mtls" else ("server",)

    def roles(self, configuration: str) -> Mapping[tuple[str, str], str]:
        """Return the agent and the operator as the control plane, and Envoy or ztunnel as the proxy that pods share."""
        proxy = "istio-proxy" if configuration == "mtls" else _ENVOY
        return {
            (NAMESPACE, AGENT_CONTAINER): "control-plane",
            (NAMESPACE, "cilium-operator"): "control-plane",
            (NAMESPACE, proxy): "node-proxy",
        }

    def read_counters(self, reader: PodReader, configuration: str, role: str) -> ProxyCounters:
        """Return the counters of ztunnel, or of Envoy and of the encryption, on the pod's node."""
        if configuration == "mtls":
            proxy = reader.on_same_node(NAMESPACE, _ZTUNNEL_LABELS)
            return ztunnel.counters(
                proxy.through_api_server(ztunnel.PORT, ztunnel.PATH), reader.namespace, role
            )
        envoy = reader.on_same_node(NAMESPACE, _ENVOY_LABELS)
        text = envoy.through_api_server(_ENVOY_METRICS_PORT, "/metrics")
        packets = 0
        if self.encrypts_packets(configuration):
            agent = reader.on_same_node(NAMESPACE, _AGENT_LABELS)
            packets = _encrypted_packets(agent, configuration)
        return envoy_counters(text, packets)

    def further_checks(self, readers: Mapping[str, PodReader], configuration: str) -> Sequence[Check]:
        """Return whether the agents have authenticated the two workloads, where the policy requires it."""
        if configuration != "mutual-auth":
            return ()
        agents = {role: reader.on_same_node(NAMESPACE, _AGENT_LABELS) for role, reader in readers.items()}
        identities = {
            role: endpoint_identity(_ask(agent, "endpoint", "get", f"cep-name:{_endpoint(readers[role])}"))
            for role, agent in agents.items()
        }
        return (authentication_check(_ask(agents["server"], "bpf", "auth", "list"), **identities),)

    def versions(self, image_source: str) -> Mapping[str, str]:
        """Return where the version is: the run's record has what was found on the cluster."""
        return {"mesh": "see cluster", "checked_against": CHECKED_AGAINST}

    def caveats(self, configuration: str, image_source: str) -> Sequence[str]:
        """Return what sets this mesh apart from those with sidecars."""
        kernel = (
            "Most of Cilium runs as eBPF in the kernel, whose CPU belongs to no container: compare the CPU of whole "
            "nodes, or that of nodes less that of all their pods"
        )
        if configuration == "mtls":
            return (kernel, "Cilium's ztunnel handles TCP, not HTTP, and is called beta by Cilium")
        passes = (
            "Cilium's Envoy takes the load once, where it enters the service's node; sidecars take it twice, and its "
            "CPU includes what it does for other pods of the node"
        )
        further = {
            "mutual-auth": (
                "Cilium's agents authenticate workloads beside the connections, which stay as they are: nothing is "
                "encrypted, and Cilium calls it beta",
            )
        }
        return (kernel, passes, *further.get(configuration, ()))


def check_configuration(config: Mapping[str, str], configuration: str) -> None:
    """Refuse a Cilium that is set otherwise than a configuration claims.

    Parameters
    ----------
    config : mapping of str to str
        Data of the ConfigMap ``cilium-config``.
    configuration : str
        Supported configuration.

    Raises
    ------
    MeshperfError
        If something differs: the key, its value, and the setting of Cilium's chart that changes it.
    """
    wanted, setting = _ENCRYPTION[configuration]
    if (found := encryption(config)) != wanted:
        raise MeshperfError(
            f"cilium/{configuration} needs a cluster whose Cilium has the encryption {wanted}, and this one has "
            f"{found}: set {setting} in Cilium's chart, or leave the arm out"
        )
    switches = {} if configuration == "mtls" else dict(_FOR_HTTP)
    if configuration == "mutual-auth":
        switches |= _FOR_MUTUAL_AUTH
    for key, setting in switches.items():
        if not is_on(config, key):
            raise MeshperfError(
                f"cilium/{configuration} needs {key}: true in {NAMESPACE}/{CONFIG_MAP}, and it is "
                f"{config.get(key, 'unset')}: set {setting} in Cilium's chart, or leave the arm out"
            )


def envoy_counters(text: str, encrypted_packets: int = 0) -> ProxyCounters:
    """Return what Cilium's Envoy of a node has counted of the requests that entered pods there, of all pods together.

    Parameters
    ----------
    text : str
        Its metrics.
    encrypted_packets : int
        Of the node, from elsewhere.
    """
    ingress = {"envoy_cluster_name": _INGRESS}
    return ProxyCounters(
        requests=total(text, "envoy_cluster_upstream_rq_total", **ingress),
        http_requests=total(text, "envoy_http_downstream_rq_total", envoy_http_conn_manager_prefix="proxy"),
        connections=total(text, "envoy_cluster_upstream_cx_total", **ingress),
        tls_handshakes=total(text, "envoy_cluster_ssl_handshake", **ingress),
        encrypted_packets=encrypted_packets,
    )


def wireguard_packets(text: str) -> int:
    """Return the packets that Cilium's WireGuard device took and gave.

    Parameters
    ----------
    text : str
        Of ``/proc/net/dev`` (proc_net(5): after the device's name received bytes, packets and six more, then the same
        sent).
    """
    line = re.search(r"^\s*cilium_wg0:\s*(.*)$", text, re.MULTILINE)
    if line is None:
        return 0
    fields = line[1].split()
    return int(fields[1]) + int(fields[9])


def ipsec_packets(text: str) -> int:
    """Return the packets of all IPsec associations.

    Parameters
    ----------
    text : str
        Of ``ip -s xfrm state list nokeys``: under ``lifetime current:``, each has ``<n>(bytes), <n>(packets)``.
    """
    return sum(
        int(packets) for packets in re.findall(r"^\s+\d+\(bytes\), (\d+)\(packets\)", text, re.MULTILINE)
    )


def endpoint_identity(endpoints: Sequence[Mapping[str, Any]]) -> int:
    """Return the security identity of an endpoint, as ``cilium-dbg endpoint get -o json`` shows it."""
    return int(endpoints[0]["status"]["identity"]["id"])


def authentication_check(listed: Sequence[Mapping[str, Any]] | None, client: int, server: int) -> Check:
    """Return whether the two workloads are authenticated to each other.

    Parameters
    ----------
    listed : sequence of mappings or None
        Of ``cilium-dbg bpf auth list -o json`` on the service's node; None if there is nothing.
    client, server : int
        Security identities.
    """
    found = any(
        (entry["LocalIdentity"], entry["RemoteIdentity"], entry["AuthType"]) == (server, client, _SPIRE)
        for entry in listed or ()
    )
    detail = (
        f"identities {client} and {server} {'are' if found else 'are not'} in the table of {AGENT}'s agent"
    )
    return Check("workloads were authenticated", found, detail)


def _encrypted_packets(agent: PodReader, configuration: str) -> int:
    if configuration == "wireguard":
        return wireguard_packets(agent.run(AGENT_CONTAINER, ["cat", "/proc/net/dev"]))
    # The keys would be shown otherwise.
    return ipsec_packets(agent.run(AGENT_CONTAINER, ["ip", "-s", "xfrm", "state", "list", "nokeys"]))


def _endpoint(reader: PodReader) -> str:
    return f"{reader.namespace}/{reader.pod}"


def _ask(agent: PodReader, *words: str) -> Any:
    return json.loads(agent.run(AGENT_CONTAINER, ["cilium-dbg", *words, "-o", "json"]))
