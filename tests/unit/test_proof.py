"""The judgement of what proxies counted, for loads handled as HTTP and as TCP."""

from dataclasses import replace
from pathlib import Path

import pytest

from meshperf.loadgen import fortio
from meshperf.meshes.base import Mesh, ProxyCounters, Setting
from meshperf.testbed import proof
from meshperf.testbed.checks import Sent, check_path, scrape_checks, sent_by
from meshperf.testbed.proof import Deployed, Proof, pod_checks

GOLDEN = Path(__file__).parents[1] / "golden" / "fortio"
BOTH = {"client": True, "server": True}
#: 40 requests that were counted and one before them on each of 4 connections, with answers of 75 bytes.
SENT = Sent(requests=44, connections=4, request_bytes=44 * 18, response_bytes=40 * 75)
HTTP = ProxyCounters(requests=44, http_requests=44, connections=2, tls_handshakes=2)
# `GET / HTTP/1.1`, a host and an agent: some 60 bytes.
TCP = ProxyCounters(0, 0, connections=4, tls_handshakes=4, request_bytes=2640, response_bytes=3300)
NONE = ProxyCounters(0, 0, 0, 0)


class _Arm(Mesh):
    name = "some"
    sidecar = "proxy"

    def __init__(self, protocol, tls=True, encrypts=False, decides=False):
        self._protocol, self._tls, self._encrypts, self._decides = protocol, tls, encrypts, decides

    def encrypts_packets(self, configuration):
        return self._encrypts

    def protocol(self, configuration):
        return self._protocol

    def expects_tls(self, configuration):
        return self._tls

    def decides(self, configuration):
        return self._decides


def _failed(protocol, client, server, sent=SENT, tls=True, before=NONE, sidecars=BOTH, decides=False):
    checks = check_path(
        _Arm(protocol, tls, decides=decides),
        "any",
        sidecars,
        {"client": before, "server": before},
        {"client": client, "server": server},
        sent,
    )
    return [check.name for check in checks if not check.passed]


def test_what_fortio_sent_is_read_from_its_result():
    result = fortio.read_result((GOLDEN / "plain.json").read_bytes())
    # From the file: 800 requests on 8 sockets, sizes with a sum of 60000. GET / HTTP/1.1 and two line ends: 18.
    assert sent_by(result, payload_bytes=0) == Sent(808, 8, 808 * 18, 60000)
    assert sent_by(result, payload_bytes=100).request_bytes == 808 * 118
    assert sent_by(replace(result, sockets=11), payload_bytes=0).connections == 11


def test_a_policy_must_have_decided_on_every_request():
    # 44 requests; one percent of them, or one, may be a moment behind.
    name = "the policy decided on every request"
    for allowed, failed in ((44, []), (43, []), (42, [name]), (0, [name])):
        assert _failed("http", HTTP, replace(HTTP, allowed=allowed), decides=True) == failed
    # The client's proxy decides nothing, and neither does one without a policy.
    assert _failed("http", replace(HTTP, allowed=44), HTTP, decides=True) == [name]
    assert _failed("http", HTTP, HTTP) == []
    earlier = replace(NONE, allowed=100)
    assert _failed("http", HTTP, replace(HTTP, allowed=144), decides=True, before=earlier) == []


def test_both_proxies_must_have_been_scraped_often_enough_and_not_in_vain():
    def failed(scraped, least=2):
        return [check.name for check in scrape_checks(scraped, least) if not check.passed]

    client, server = "the client's proxy was scraped", "the server's proxy was scraped"
    assert failed({"client": (2, 100), "server": (3, 1)}) == []
    assert failed({"client": (1, 100), "server": (2, 100)}) == [client]
    assert failed({"client": (2, 100), "server": (2, 0)}) == [server]
    assert failed({"client": (2, 100)}) == [server]
    assert failed({}, least=1) == [client, server]


def test_a_load_handled_as_declared_passes():
    assert _failed("http", HTTP, HTTP) == []
    assert _failed("tcp", TCP, TCP) == []


def test_only_what_was_counted_since_the_first_reading_matters():
    after = ProxyCounters(*(value + 100 for value in vars(TCP).values()))
    before = ProxyCounters(*([100] * 6))
    assert "handled as TCP" not in _failed("tcp", after, after, before=before)
    assert _failed("tcp", after, after)[:2] == [
        "connections passed the client's proxy",
        "connections passed the server's proxy",
    ]


def test_an_http_arm_that_looks_like_tcp_is_refused():
    # A proxy of TCP counts no requests of its own; one whose cluster counts a request per connection neither.
    assert "handled as HTTP" in _failed("http", replace(HTTP, http_requests=0), HTTP)
    assert "load passed the client's proxy" in _failed("http", TCP, TCP)


def test_a_tcp_arm_that_looks_like_http_is_refused():
    assert _failed("tcp", replace(TCP, http_requests=44), TCP) == ["handled as TCP"]
    assert _failed("tcp", TCP, replace(TCP, http_requests=1)) == ["handled as TCP"]


@pytest.mark.parametrize("connections", [0, 3, 5])
def test_every_connection_must_pass_both_proxies_and_no_other(connections):
    wrong = replace(TCP, connections=connections, tls_handshakes=connections)
    assert "connections passed the client's proxy" in _failed("tcp", wrong, TCP)
    assert "connections passed the server's proxy" in _failed("tcp", TCP, wrong)


@pytest.mark.parametrize(("name", "least"), [("request_bytes", 44 * 18), ("response_bytes", 40 * 75)])
def test_all_bytes_must_pass_both_proxies(name, least):
    assert _failed("tcp", replace(TCP, **{name: least}), TCP) == []
    assert _failed("tcp", replace(TCP, **{name: least - 1}), TCP) == ["bytes passed the client's proxy"]
    assert _failed("tcp", TCP, replace(TCP, **{name: least - 1})) == ["bytes passed the server's proxy"]


@pytest.mark.parametrize(("counters", "protocol"), [(HTTP, "http"), (TCP, "tcp")])
def test_encryption_must_be_as_declared(counters, protocol):
    plain = replace(counters, tls_handshakes=0)
    assert _failed(protocol, plain, plain, tls=False) == []
    assert _failed(protocol, plain, plain) == ["every connection is TLS"]
    assert _failed(protocol, counters, counters, tls=False) == ["no connection is TLS"]
    one_less = replace(counters, tls_handshakes=counters.tls_handshakes - 1)
    assert _failed(protocol, counters, one_less) == ["every connection is TLS"]


def test_a_missing_sidecar_is_named():
    assert _failed("http", HTTP, HTTP, sidecars={"client": True, "server": False}) == ["sidecars present"]


def test_the_record_of_tcp_holds_connections_and_bytes():
    record = Proof(SENT, {"client": TCP, "server": TCP}, True, 8, "tcp", BOTH).as_record()
    assert record["protocol"] == "tcp"
    assert record["connections"] == {"sent": 4, "client_proxy": 4, "server_proxy": 4}
    assert record["request_bytes"] == {"sent": 792, "client_proxy": 2640, "server_proxy": 2640}
    assert record["response_bytes"] == {"sent": 3000, "client_proxy": 3300, "server_proxy": 3300}
    assert record["requests"] == {"sent": 44, "client_proxy": 0, "server_proxy": 0}


def test_the_record_of_http_holds_requests_and_that_of_no_mesh_what_was_sent():
    record = Proof(SENT, {"client": HTTP, "server": HTTP}, True, 4, "http", BOTH).as_record()
    assert record["requests"] == {"sent": 44, "client_proxy": 44, "server_proxy": 44}
    assert "connections" not in record and "request_bytes" not in record
    nothing = Proof(SENT, {}, False, None, "http", {"client": False, "server": False}).as_record()
    assert nothing["requests"] == {"sent": 44, "client_proxy": None, "server_proxy": None}


def _failed_packets(protocol, encrypts, **counters):
    """Return what fails where one side alone has a proxy."""
    none = replace(HTTP, requests=0, http_requests=0, connections=0, tls_handshakes=0)
    after = {"server": replace(HTTP, tls_handshakes=0, **counters)}
    arm = _Arm(protocol, tls=False, encrypts=encrypts)
    return [c.name for c in check_path(arm, "any", BOTH, {"server": none}, after, SENT) if not c.passed]


def test_a_path_of_packets_must_carry_one_for_each_request():
    assert _failed_packets("ip", False, packets=44) == []
    assert _failed_packets("ip", False, packets=43) == ["packets passed the server's path"]


def test_packets_must_be_encrypted_where_that_is_claimed():
    assert _failed_packets("http", True, encrypted_packets=44) == []
    assert _failed_packets("http", True, encrypted_packets=43) == [
        "packets were encrypted at the server's node"
    ]
    assert _failed_packets("http", False) == []


def test_a_side_without_a_proxy_is_not_asked():
    assert _failed_packets("http", False, requests=42, http_requests=42) == ["load passed the server's proxy"]
    counted = {"server": replace(HTTP, packets=50)}
    record = Proof(SENT, counted, False, 0, "http", {"client": False, "server": False}).as_record()
    assert record["requests"] == {"sent": 44, "client_proxy": None, "server_proxy": 44}
    assert record["packets"] == {"client_proxy": None, "server_proxy": 50}
    assert "encrypted_packets" not in record


def _pod(node="a", containers=("fortio",), **annotations):
    return {
        "metadata": {"annotations": annotations or None},
        "spec": {"nodeName": node, "containers": [{"name": name} for name in containers]},
    }


class _NoProxy(Mesh):
    name = "baseline"


REDIRECTED = {"ambient.istio.io/redirection": "enabled"}


def _failed_pods(mesh, client, server):
    return [check.name for check in pod_checks(mesh, "any", client, server) if not check.passed]


def test_without_a_mesh_neither_a_sidecar_nor_a_proxy_outside_the_pod_may_be_there():
    assert _failed_pods(_NoProxy(), _pod(), _pod()) == []
    assert _failed_pods(_NoProxy(), _pod(), _pod(containers=("fortio", "linkerd-proxy"))) == ["no sidecar"]
    assert _failed_pods(_NoProxy(), _pod(), _pod(**REDIRECTED)) == ["no transparent proxy"]
    assert _failed_pods(_Arm("http"), _pod(**REDIRECTED), _pod()) == ["no transparent proxy"]


def test_a_mesh_without_sidecars_must_have_taken_both_pods():
    ambient = _NoProxy()
    ambient.redirected = True
    assert _failed_pods(ambient, _pod(**REDIRECTED), _pod(**REDIRECTED)) == []
    assert _failed_pods(ambient, _pod(**REDIRECTED), _pod()) == ["redirected to the node's proxy"]


@pytest.mark.parametrize(("wanted", "node"), [("same-node", "a"), ("other-node", "b")])
def test_what_is_encrypted_only_between_nodes_must_not_be_on_one(wanted, node):
    class Placed(_NoProxy):
        def placement(self, configuration):
            return wanted

    wrong = {"a": "b", "b": "a"}[node]
    assert _failed_pods(Placed(), _pod("a"), _pod(node)) == []
    assert _failed_pods(Placed(), _pod("a"), _pod(wrong)) == [f"placed on {wanted.replace('-', ' ')}"]


@pytest.mark.parametrize(("settle_s", "n_readings", "passed"), [(None, 3, True), (0, 1, False)])
def test_counters_may_lag_behind_a_load_unless_it_failed(monkeypatch, settle_s, n_readings, passed):
    readings = []

    def read_counters(cluster, deployed):
        # The last two of 44 requests are counted in the third reading.
        seen = HTTP if len(readings) == 2 else replace(HTTP, requests=42, http_requests=42)
        readings.append(seen)
        return {"client": seen, "server": seen}

    monkeypatch.setattr(proof, "read_counters", read_counters)
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "fortio"}, {"name": "proxy"}]}}
    deployed = Deployed(_Arm("http"), Setting("any", "ns", "local"), pod, pod, fresh=True, install_s={})
    before = {"client": NONE, "server": NONE}
    shown = proof.prove(None, deployed, before, SENT, settle_s=settle_s)
    assert (len(readings), shown.passed) == (n_readings, passed)
