"""One style for every figure and table: names, order, colours, markers and dashes.

A mesh keeps its colour, marker and dash everywhere; a configuration is a tint of its mesh's colour and a filled or
hollow marker. Colours are those of Okabe and Ito (2008), and where these end of Tol (2021), told apart by readers with
any common colour vision; marker, dash and lightness repeat the information for grey print.
"""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.colors import to_hex, to_rgb

from meshperf.meshes import NUMBERED, family, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from matplotlib.figure import Figure


@dataclass(frozen=True)
class MeshStyle:
    """How one mesh looks: its printed name, colour (hex), marker and dash pattern (points on, off, …)."""

    label: str
    colour: str
    marker: str
    dash: tuple[float, ...]


MESHES: dict[str, MeshStyle] = {
    "baseline": MeshStyle("no mesh", "#000000", "o", ()),
    "envoy-static": MeshStyle("Envoy, static", "#882255", "p", (1.5, 1.5)),
    "istio": MeshStyle("Istio", "#0072B2", "s", (6, 1.6)),
    "istio-ambient": MeshStyle("Istio ambient", "#56B4E9", "P", (6, 1.6, 1.2, 1.6)),
    "linkerd": MeshStyle("Linkerd", "#D55E00", "^", (3, 1.4)),
    "kuma": MeshStyle("Kuma", "#009E73", "D", (9, 2, 2, 2)),
    "consul": MeshStyle("Consul", "#CC79A7", "v", (4, 1.2, 1.2, 1.2, 1.2, 1.2)),
    "cilium": MeshStyle("Cilium", "#E69F00", "X", (2, 1)),
    "nsm": MeshStyle("NSM", "#8C6D31", "<", (8, 3)),
    "osm": MeshStyle("OSM", "#7F7F7F", ">", (5, 3, 1, 3)),
}
"""Meshes in the order of every legend and table."""

CONFIGURATIONS: dict[str, tuple[str, str, tuple[str, float], bool]] = {
    "none": ("", "the cluster without a mesh", ("#000000", 0.0), True),
    "basic": ("basic", "sidecar proxies on both sides, no TLS between them", ("#000000", 0.0), True),
    "mtls": (
        "mTLS",
        "as basic, and every connection between the proxies is mutual TLS",
        ("#000000", 0.5),
        False,
    ),
    "mtls-tcp": (
        "mTLS, TCP",
        "mutual TLS between proxies that pass connections on and read no requests",
        ("#FFFFFF", 0.45),
        True,
    ),
    "mtls-smi": (
        "mTLS + SMI",
        "as mTLS, and only what policies of the Service Mesh Interface allow gets through",
        ("#FFFFFF", 0.35),
        True,
    ),
    "mtls-metrics": (
        "mTLS + metrics",
        "as mTLS, with request metrics recorded and scraped by Prometheus",
        ("#FFFFFF", 0.35),
        True,
    ),
    "wireguard": (
        "WireGuard",
        "as basic, and packets between nodes are encrypted with WireGuard",
        ("#FFFFFF", 0.5),
        True,
    ),
    "ipsec": (
        "IPsec",
        "as basic, and packets between nodes are encrypted with IPsec",
        ("#000000", 0.4),
        False,
    ),
    "mutual-auth": (
        "mutual auth",
        "as basic, and the mesh's agents have authenticated the two workloads beside the connections",
        ("#000000", 0.25),
        True,
    ),
    "jwt-mesh": (
        "JWT (mesh)",
        "as mTLS, and the mesh's own policy checks a token in every request",
        ("#FFFFFF", 0.35),
        False,
    ),
    "jwt-envoy": (
        "JWT (Envoy)",
        "as mTLS, and an Envoy filter checks a token in every request",
        ("#FFFFFF", 0.55),
        True,
    ),
    "jwt-opa": (
        "JWT (OPA)",
        "as mTLS, and Open Policy Agent beside the service checks a token in every request",
        ("#000000", 0.7),
        True,
    ),
    "authz-N": (
        "mTLS + N rules",
        "as mTLS, and N authorisation rules, of which the last one looked at allows the load's path",
        ("#FFFFFF", 0.2),
        False,
    ),
    "mtls-jwt": ("mTLS + JWT", "mutual TLS and tokens checked by the mesh", ("#000000", 0.3), True),
}
"""Configuration -> printed name, what it is, tint of the mesh's colour (colour mixed in, share), filled marker.

An N stands for the configuration's number; the more, the lighter.
"""

ROLES: dict[str, tuple[str, str, str]] = {
    "service": ("service", "#4D4D4D", ""),
    "sidecar-server": ("server sidecar", "#9E9E9E", "///"),
    "sidecar-client": ("client sidecar", "#D0D0D0", "..."),
    "node-proxy": ("shared proxy", "#B7B7B7", "\\\\\\"),
    "control-plane": ("control plane", "#FFFFFF", "xxx"),
    "scraper": ("scraper of metrics", "#B8B8B8", "+++"),
    "load-generator": ("load generator", "#F2F2F2", "---"),
}
"""Role of a container -> printed name, grey, hatch, in the order of the stack. Grey: colour means a mesh."""

RC = {
    "figure.dpi": 120,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#D9D9D9",
    "grid.linewidth": 0.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.0,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "meshperf",
}
"""Matplotlib settings of every figure. Text becomes paths, so that a figure needs no font where it is read."""

WIDTH_IN = 4.2
"""Width of a figure: nine-point text stays readable both on a page half as wide and on a 400 px screen."""


def mesh_label(mesh: str) -> str:
    """Return the printed name of a mesh; an unknown one keeps its own name."""
    return MESHES[mesh].label if mesh in MESHES else mesh


def configuration_label(configuration: str) -> str:
    """Return the printed name of a configuration; an unknown one keeps its own name."""
    return _with_number(configuration, _configuration(configuration)[0])


def configuration_meaning(configuration: str) -> str:
    """Return in half a sentence what a configuration is, or an empty string for one without a description."""
    return _with_number(configuration, _configuration(configuration)[1])


def arm_label(mesh: str, configuration: str) -> str:
    """Return the printed name of an arm, such as ``Istio mTLS`` or ``no mesh``."""
    return " ".join(part for part in (mesh_label(mesh), configuration_label(configuration)) if part)


def arm_order(arms: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sort arms (mesh, configuration) as printed everywhere: by mesh, then by configuration; unknown ones last."""
    meshes, configurations = list(MESHES), list(CONFIGURATIONS)

    def rank(known: list[str], name: str) -> tuple[int, int, str]:
        found = family(name)
        n = number(name) if found in NUMBERED else 0
        return (known.index(found) if found in known else len(known), n, name)

    return sorted(set(arms), key=lambda arm: (rank(meshes, arm[0]), rank(configurations, arm[1])))


def arm_colour(mesh: str, configuration: str) -> str:
    """Return the hex colour of an arm: its mesh's colour, tinted by its configuration."""
    base = to_rgb(MESHES[mesh].colour if mesh in MESHES else "#595959")
    into, share = _configuration(configuration)[2]
    if family(configuration) in NUMBERED:
        share += 0.13 * math.log10(number(configuration))
    return to_hex([(1 - share) * a + share * b for a, b in zip(base, to_rgb(into), strict=True)])


def line_style(mesh: str, configuration: str) -> dict[str, object]:
    """Return the Line2D properties of an arm's line."""
    dash = MESHES[mesh].dash if mesh in MESHES else (1, 1)
    return {"color": arm_colour(mesh, configuration), "linestyle": (0, dash) if dash else "-"}


def marker_style(mesh: str, configuration: str) -> dict[str, object]:
    """Return the Line2D properties of an arm's marker: filled, or hollow for every second configuration."""
    colour = arm_colour(mesh, configuration)
    filled = _configuration(configuration)[3]
    return {
        "marker": MESHES[mesh].marker if mesh in MESHES else "o",
        "markerfacecolor": colour if filled else "white",
        "markeredgecolor": colour,
    }


def _configuration(name: str) -> tuple[str, str, tuple[str, float], bool]:
    return CONFIGURATIONS.get(family(name), (name, "", ("#000000", 0.0), True))


def _with_number(configuration: str, text: str) -> str:
    if family(configuration) not in NUMBERED:
        return text
    n = number(configuration)
    return re.sub(r"\bN\b", str(n), text.replace("rules", "rule") if n == 1 else text)


@contextmanager
def applied() -> Iterator[None]:
    """Draw in the style of the paper while inside."""
    with mpl.rc_context(RC):
        yield


def save_svg(figure: Figure, path: Path) -> Path:
    """Write a figure as SVG: the same figure gives the same bytes, on every day."""
    with mpl.rc_context(RC):
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    return path
