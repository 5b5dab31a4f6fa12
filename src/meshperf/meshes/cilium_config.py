"""What Cilium's own configuration says of a cluster: the ConfigMap that its chart renders, as plain data.

Keys and names are those of Cilium 1.20: ``install/kubernetes/cilium/templates/cilium-configmap.yaml`` and the manifests
beside it in the module ``github.com/cilium/cilium``.
"""

from collections.abc import Mapping
from typing import Any

NAMESPACE = "kube-system"
CONFIG_MAP = "cilium-config"
#: DaemonSet, and its container.
AGENT, AGENT_CONTAINER = "cilium", "cilium-agent"
#: Key that turns an encryption on -> what it is called here.
_ENCRYPTIONS = {"enable-wireguard": "wireguard", "enable-ipsec": "ipsec", "enable-ztunnel": "ztunnel"}
#: Fact -> key and the default that the agent takes without it.
_FACTS = {
    "routing": ("routing-mode", "tunnel"),
    "tunnel_protocol": ("tunnel-protocol", "vxlan"),
    "kube_proxy_replacement": ("kube-proxy-replacement", "false"),
    "datapath": ("datapath-mode", "veth"),
    "socket_load_balancing": ("bpf-lb-sock", "false"),
}


def encryption(config: Mapping[str, str]) -> str:
    """Return how packets are encrypted: "none", "wireguard", "ipsec" or "ztunnel".

    Ztunnel takes the pods of the namespaces that ask for it; the others take all packets between nodes.
    """
    return next((name for key, name in _ENCRYPTIONS.items() if is_on(config, key)), "none")


def is_on(config: Mapping[str, str], key: str) -> bool:
    """Return whether a switch is on; it is off where it is missing."""
    return config.get(key, "false").strip().lower() == "true"


def facts(config: Mapping[str, str], agent: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what the run's record says of the network.

    Parameters
    ----------
    config : mapping of str to str
        Data of the ConfigMap.
    agent : mapping or None
        The agent's DaemonSet.
    """
    found = {name: config.get(key, default) for name, (key, default) in _FACTS.items()}
    return {"cni": "cilium", "cilium": agent_version(agent), "encryption": encryption(config), **found}


def agent_version(agent: Mapping[str, Any] | None) -> str:
    """Return the tag of the agent's image, such as ``v1.20.2``; "unknown" if it has none."""
    containers = (agent or {}).get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
    image = next((c["image"] for c in containers if c["name"] == AGENT_CONTAINER), "")
    _, colon, tag = image.partition("@")[0].rpartition(":")
    return tag if colon and "/" not in tag else "unknown"
