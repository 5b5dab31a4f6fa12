"""The node's daemons: each started once, recorded, and found again by a later process."""

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

import psutil

from meshperf.testbed.embedded import node


class Daemons:
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
