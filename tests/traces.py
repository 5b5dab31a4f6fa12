"""What is on a cluster and on the embedded cluster's node, so that a test can say what something left there."""

import json
import subprocess
import time
from collections import Counter
from pathlib import Path

import psutil

from meshperf.testbed.client import InfrastructureError
from meshperf.testbed.embedded import cluster as embedded
from meshperf.testbed.embedded import node

#: Kinds whose objects come and go on their own.
_PASSING = {"Event", "Lease"}


def objects(cluster):
    """Return every object of every kind that the API server lists, as (kind, namespace or "", name) -> its uid."""
    roots = [("/api/v1", "")]
    for group in json.loads(cluster.get_raw("/apis"))["groups"]:
        roots.append((f"/apis/{group['preferredVersion']['groupVersion']}", f".{group['name']}"))
    found = {}
    for root, suffix in roots:
        for resource in _list(cluster, root, "resources"):
            kind, name = resource["kind"], resource["name"]
            if "list" not in resource["verbs"] or "/" in name or kind in _PASSING:
                continue
            for item in _list(cluster, f"{root}/{name}", "items"):
                metadata = item["metadata"]
                found[kind + suffix, metadata.get("namespace", ""), metadata["name"]] = metadata.get(
                    "uid", ""
                )
    return found


def _list(cluster, path, what):
    """Return a list below the API server: empty for a kind that has just gone; one that is new is busy for a moment."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return json.loads(cluster.get_raw(path))[what]
        except InfrastructureError as error:
            if "gave 404" in str(error):
                return []
            if "gave 429" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def on_node():
    """Return what is on the node besides API objects: a `Counter` of (what, which)."""
    pid = node.find()
    assert pid is not None, "no embedded node runs"
    found = Counter()
    for command in ("iptables-save", "ip6tables-save"):
        for line in _in_node(pid, command).splitlines():
            if not line.startswith("#"):
                # Chains end with the numbers of packets and bytes.
                found["rule", f"{command} {line.split(' [')[0]}"] += 1
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                found["process", process.name()] += 1
        except psutil.NoSuchProcess:
            continue
    for link in json.loads(_in_node(pid, "ip", "-json", "link")):
        found["interface", "veth" if link["ifname"].startswith("veth") else link["ifname"]] += 1
    for line in Path(f"/proc/{pid}/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if any(word in where for word in ("/pods/", "/containerd/", "/netns/")):
            found["mount", kind] += 1
    found["address", "pod"] = len([*(embedded.state_dir() / "cni" / "networks").glob("*/*.*.*.*")])
    cgroups = (path.resolve() / node.CGROUP for path in Path("/sys/fs/cgroup").iterdir() if path.is_dir())
    found["cgroup", "pod"] = sum(1 for root in set(cgroups) for _ in root.glob("kubepods/*/pod*"))
    return found


def _in_node(pid, *command):
    result = subprocess.run([*node.enter(pid), *command], capture_output=True, text=True, timeout=20)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout


def eventually(look, timeout_s):
    """Return what `look` returns once it is empty, or what it still returns at the end of the time."""
    deadline = time.monotonic() + timeout_s
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return left
