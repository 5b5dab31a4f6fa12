"""What of a cluster that somebody else set up has to do with a measurement: refused, or recorded with every run.

A cluster's own network can already encrypt packets or parse HTTP, for the baseline as for every other arm.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from meshperf.errors import MeshperfError
from meshperf.meshes.base import Mesh
from meshperf.meshes.cilium_config import AGENT, CONFIG_MAP, NAMESPACE, encryption, facts
from meshperf.testbed.client import Cluster
from meshperf.testbed.removal import OWNED_LABEL


@dataclass(frozen=True)
class Surroundings:
    """What was found.

    Attributes
    ----------
    facts : mapping of str to str
        For the run's record; empty where nothing is known of the network.
    caveats : tuple of str
        What a reader must know beside every number.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()


def look(cluster: Cluster, namespace: str) -> Surroundings:
    """Return what is known of the cluster's network.

    Parameters
    ----------
    cluster : Cluster
        Where.
    namespace : str
        Of the workloads; it need not exist.

    Raises
    ------
    MeshperfError
        If somebody else's policy sends the load through a proxy, which no arm claims.
    """
    found = cluster.get("v1", "ConfigMap", CONFIG_MAP, NAMESPACE)
    if found is None:
        return Surroundings()
    policies = [
        *cluster.list_objects("cilium.io/v2", "CiliumClusterwideNetworkPolicy"),
        *cluster.list_objects("cilium.io/v2", "CiliumNetworkPolicy", namespace),
    ]
    refuse_foreign_proxies(policies)
    config = found.get("data") or {}
    agent = cluster.get("apps/v1", "DaemonSet", AGENT, NAMESPACE)
    how = encryption(config)
    caveats = ()
    if how not in ("none", "ztunnel"):
        caveats = (
            f"Cilium encrypts packets between nodes with {how} for every arm of this cluster, the baseline too: "
            "the price of that encryption is in none of the differences",
        )
    return Surroundings(facts(config, agent), caveats)


def refuse_foreign_proxies(policies: Iterable[Mapping[str, Any]]) -> None:
    """Refuse policies of others that send traffic through Cilium's proxy.

    Parameters
    ----------
    policies : iterable of manifests
        CiliumNetworkPolicy or CiliumClusterwideNetworkPolicy. Whether one selects our pods is not worked out: one that
        parses anything but names is refused.

    Raises
    ------
    MeshperfError
        If there is one: it is named.
    """
    for policy in policies:
        metadata = policy["metadata"]
        if (metadata.get("labels") or {}).get(OWNED_LABEL) == "true":
            continue
        specs = [policy["spec"]] if policy.get("spec") else policy.get("specs") or []
        if any(_proxies(spec) for spec in specs):
            raise MeshperfError(
                f"{policy['kind']} {metadata['name']} sends traffic through Cilium's proxy, which would be in the way "
                "of every arm: remove it while you measure, or name another cluster"
            )


def refuse_placement(mesh: Mesh, configuration: str, placement: str) -> None:
    """Refuse a study whose placement an arm cannot be measured with.

    Raises
    ------
    MeshperfError
        If it is another than the arm needs. Where node selectors decide, it is the proof that looks.
    """
    needed = mesh.placement(configuration)
    if needed and placement not in (needed, "node-selector"):
        raise MeshperfError(
            f"{mesh.name}/{configuration} can only be measured with workload.placement {needed}, and the study has "
            f"{placement}: change it, or leave the arm out"
        )


def _proxies(spec: Mapping[str, Any]) -> bool:
    """Return whether a policy redirects any port to the proxy; names are parsed for everybody's DNS, not for HTTP."""
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for ports in rule.get("toPorts") or ():
            if ports.get("listener") or set(ports.get("rules") or ()) - {"dns"}:
                return True
    return False
