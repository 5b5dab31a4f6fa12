"""Judge what the proxies counted against what the load generator sent: no cluster needed."""

from collections.abc import Mapping
from dataclasses import dataclass

from meshperf.loadgen import fortio
from meshperf.meshes.base import Mesh, ProxyCounters

#: Share by which the proxies' count of requests may differ from the load generator's.
COUNT_TOLERANCE = 0.01
#: Least length of a request of HTTP/1.1: request line and the line that ends its head (RFC 9112, 2022, section 2.1).
LEAST_REQUEST_BYTES = len("GET / HTTP/1.1\r\n\r\n")

ROLES = ("client", "server")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: its name, whether it is as wanted, and what was seen."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Sent:
    """What the load generator itself says of a load.

    Attributes
    ----------
    requests : int
        All requests, its unrecorded first ones included.
    connections : int
        Connections that it opened.
    request_bytes, response_bytes : int
        At least so many bytes went to the service and came back.
    """

    requests: int
    connections: int
    request_bytes: int
    response_bytes: int


def sent_by(result: fortio.FortioResult, payload_bytes: int) -> Sent:
    """Return what fortio sent in a run.

    Parameters
    ----------
    result : FortioResult
        Of the run. Fortio sends one more request on each connection before it starts to count.
    payload_bytes : int
        Of each request.
    """
    requests = result.n + result.connections
    return Sent(
        requests,
        result.connections if result.sockets is None else result.sockets,
        requests * (LEAST_REQUEST_BYTES + payload_bytes),
        result.response_bytes or 0,
    )


def counted(before: ProxyCounters, after: ProxyCounters) -> ProxyCounters:
    """Return what a proxy counted between two readings."""
    return ProxyCounters(**{name: getattr(after, name) - value for name, value in vars(before).items()})


def check_path(
    mesh: Mesh,
    configuration: str,
    sidecars: Mapping[str, bool],
    before: Mapping[str, ProxyCounters],
    after: Mapping[str, ProxyCounters],
    sent: Sent,
) -> tuple[Check, ...]:
    """Return all checks of an arm with proxies.

    Parameters
    ----------
    mesh, configuration : Mesh, str
        The arm: it declares the protocol and what is encrypted.
    sidecars : mapping of str to bool
        Role -> whether the pod has its sidecar.
    before, after : mapping of str to ProxyCounters
        Role -> counters before and after the load, of every side that has a proxy.
    sent : Sent
        The load.
    """
    passed = {role: counted(before[role], after[role]) for role in after}
    protocol = mesh.protocol(configuration)
    path = {"http": _http_checks, "tcp": _tcp_checks, "ip": _ip_checks}[protocol]
    checks = list(path(passed, sent))
    if mesh.sidecar:
        checks.insert(
            0, Check("sidecars present", all(sidecars.values()), f"{mesh.sidecar} in {dict(sidecars)}")
        )
    if mesh.decides(configuration):
        checks.append(_decision_check(passed["server"], sent))
    if protocol != "ip":
        checks.append(_tls_check(mesh.expects_tls(configuration), after))
    if mesh.encrypts_packets(configuration):
        checks += _packet_checks("packets were encrypted at the {}'s node", "encrypted_packets", passed, sent)
    return tuple(checks)


def _http_checks(passed: Mapping[str, ProxyCounters], sent: Sent) -> list[Check]:
    slack = max(1, COUNT_TOLERANCE * sent.requests)
    checks = []
    for role, count in passed.items():
        close = abs(count.requests - sent.requests) <= slack
        detail = f"{count.requests} counted, {sent.requests} sent"
        checks.append(Check(f"load passed the {role}'s proxy", close, detail))
    gaps = [count.requests - count.http_requests for count in passed.values()]
    as_http = all(abs(gap) <= slack for gap in gaps)
    sides = ", ".join(passed)
    checks.append(Check("handled as HTTP", as_http, f"requests not seen as HTTP ({sides}): {gaps}"))
    return checks


def _tcp_checks(passed: Mapping[str, ProxyCounters], sent: Sent) -> list[Check]:
    """Return the checks of proxies that see connections and bytes, and no requests."""
    checks = []
    for role, count in passed.items():
        detail = f"{count.connections} counted, {sent.connections} opened"
        exact = count.connections == sent.connections
        checks.append(Check(f"connections passed the {role}'s proxy", exact, detail))
    for role, count in passed.items():
        enough = count.request_bytes >= sent.request_bytes and count.response_bytes >= sent.response_bytes
        detail = (
            f"{count.request_bytes} to the service and {count.response_bytes} back, "
            f"at least {sent.request_bytes} and {sent.response_bytes} sent"
        )
        checks.append(Check(f"bytes passed the {role}'s proxy", enough, detail))
    seen = [count.http_requests for count in passed.values()]
    checks.append(Check("handled as TCP", not any(seen), f"requests seen as HTTP (client, server): {seen}"))
    return checks


def _ip_checks(passed: Mapping[str, ProxyCounters], sent: Sent) -> list[Check]:
    """Return the checks of a path that sees packets alone."""
    return _packet_checks("packets passed the {}'s path", "packets", passed, sent)


def _packet_checks(name: str, field: str, passed: Mapping[str, ProxyCounters], sent: Sent) -> list[Check]:
    """Return checks that each request took a packet: a connection has one request under way, so none share one."""
    checks = []
    for role, count in passed.items():
        seen = getattr(count, field)
        detail = f"{seen} counted, at least {sent.requests} sent"
        checks.append(Check(name.format(role), seen >= sent.requests, detail))
    return checks


def scrape_checks(scraped: Mapping[str, tuple[int, int]], least: int) -> tuple[Check, ...]:
    """Return the checks that a Prometheus had statistics of both proxies, often enough.

    Parameters
    ----------
    scraped : mapping of str to (int, int)
        Role -> number of scrapes, and fewest samples in one of them (see `meshperf.workloads.prometheus.scraped`).
    least : int
        Scrapes of each proxy that there must be.
    """
    checks = []
    for role in ROLES:
        scrapes, samples = scraped.get(role, (0, 0))
        detail = f"{scrapes} scrapes of at least {samples} samples, at least {least} wanted"
        checks.append(Check(f"the {role}'s proxy was scraped", scrapes >= least and samples > 0, detail))
    return tuple(checks)


def _decision_check(passed: ProxyCounters, sent: Sent) -> Check:
    close = abs(passed.allowed - sent.requests) <= max(1, COUNT_TOLERANCE * sent.requests)
    detail = f"{passed.allowed} let pass by it, {sent.requests} sent"
    return Check("the policy decided on every request", close, detail)


def _tls_check(expected: bool, after: Mapping[str, ProxyCounters]) -> Check:
    handshakes = {role: count.tls_handshakes for role, count in after.items()}
    connections = {role: count.connections for role, count in after.items()}
    seen = f"{handshakes} handshakes on {connections} connections since the proxies started"
    if not expected:
        return Check("no connection is TLS", not any(handshakes.values()), seen)
    # A client's connection that the server never answered has no handshake; one that the server took has.
    encrypted = all(handshakes.values()) and handshakes["server"] >= connections["server"]
    return Check("every connection is TLS", encrypted, seen)
