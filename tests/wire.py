"""Watch what crosses the embedded cluster's network: the one witness of encryption that no proxy has a hand in."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from meshperf.testbed.embedded import node

#: Data, and the two sides' first messages, in the record layer of TLS (RFC 8446, 2018, section 5.1).
TLS_RECORDS = (b"\x17\x03\x03", b"\x16\x03\x01", b"\x16\x03\x03")
_ETHERNET, _ALL_PROTOCOLS = 14, socket.htons(3)


@contextlib.contextmanager
def watched(marker: str) -> Iterator[dict[str, int]]:
    """Count packets of TCP in the node while the block runs; the dictionary is filled when it ends.

    Parameters
    ----------
    marker : str
        What is looked for in their payload.
    """
    command = ["nsenter", "--target", str(node.find()), "--net", sys.executable, __file__, marker]
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    counts: dict[str, int] = {}
    try:
        assert watcher.stdout.readline() == "watching\n"
        yield counts
        # It ends with its standard input.
        counts.update(json.loads(watcher.communicate(timeout=10)[0]))
    finally:
        watcher.kill()
        watcher.wait()


def _payload(packet: bytes) -> bytes:
    """Return the payload of a packet of TCP over IPv4, nothing for others."""
    if len(packet) < 54 or packet[12:14] != b"\x08\x00" or packet[23] != socket.IPPROTO_TCP:
        return b""
    segment = _ETHERNET + (packet[14] & 15) * 4
    start, end = segment + (packet[segment + 12] >> 4) * 4, _ETHERNET + int.from_bytes(packet[16:18])
    return packet[start:end]


def _watch(marker: bytes) -> dict[str, int]:
    counts = {"packets": 0, "with the marker": 0, "TLS records": 0}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, _ALL_PROTOCOLS) as tap:
        tap.settimeout(0.1)
        print("watching", flush=True)
        ends = None
        while ends is None or time.monotonic() < ends:
            if ends is None and _asked_to_end():
                ends = time.monotonic() + 0.2
            try:
                payload = _payload(tap.recv(65535))
            except TimeoutError:
                continue
            counts["packets"] += bool(payload)
            counts["with the marker"] += marker in payload
            counts["TLS records"] += payload[:3] in TLS_RECORDS
    return counts


def _asked_to_end() -> bool:
    import select

    return bool(select.select([sys.stdin], [], [], 0)[0])


if __name__ == "__main__":
    print(json.dumps(_watch(sys.argv[1].encode())), flush=True)
