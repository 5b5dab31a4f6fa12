"""Linkerd: its proxy's counters, its charts' values, and what is proven. Metrics: tests/golden/README.md."""

import json
import os
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from meshperf.meshes import linkerd, rendering
from meshperf.meshes.base import ProxyCounters
from meshperf.meshes.linkerd import Linkerd, counters
from meshperf.testbed.checks import Sent, check_path

GOLDEN = Path(__file__).parents[1] / "golden" / "linkerd"
TEXT = {role: (GOLDEN / f"{role}.prom").read_text() for role in ("client", "server")}
BOTH = {"client": True, "server": True}


@pytest.mark.parametrize("role", ["client", "server"])
def test_only_the_path_of_the_load_is_counted(role):
    assert counters(TEXT[role], "ns", role) == ProxyCounters(44, 44, connections=2, tls_handshakes=2)


def _failed(client, server):
    none = ProxyCounters(0, 0, 0, 0)
    after = {"client": counters(client, "ns", "client"), "server": counters(server, "ns", "server")}
    checks = check_path(
        Linkerd(), "basic", BOTH, dict.fromkeys(after, none), after, Sent(44, 4, 44 * 18, 3000)
    )
    return [check.name for check in checks if not check.passed]


def test_the_load_that_was_encrypted_and_seen_as_http_is_proven():
    assert _failed(TEXT["client"], TEXT["server"]) == []


def test_a_plaintext_connection_is_refused():
    plain = 'tls="no_identity",no_tls_reason="not_provided_by_service_discovery"'
    assert _failed(
        TEXT["client"].replace('tls="true"', plain), TEXT["server"].replace('tls="true"', plain)
    ) == ["every connection is TLS"]


def test_a_port_that_was_taken_for_tcp_is_refused():
    def without_requests(text):
        return "\n".join(line for line in text.splitlines() if not line.startswith("request_total"))

    failed = _failed(without_requests(TEXT["client"]), without_requests(TEXT["server"]))
    assert failed == ["load passed the client's proxy", "load passed the server's proxy"]


def test_the_authority_is_one_that_linkerd_takes_and_new_each_time():
    (certificate, key), (other, _) = linkerd.authority(), linkerd.authority()
    assert certificate != other
    parsed = x509.load_pem_x509_certificate(certificate.encode())
    assert parsed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    # Linkerd names its issuer so: `issuerName` in cli/cmd/options.go.
    assert parsed.subject.rfc4514_string() == "CN=identity.linkerd.cluster.local"
    loaded = serialization.load_pem_private_key(key.encode(), None)
    assert loaded.public_key() == parsed.public_key()


def test_charts_are_rendered_once_and_their_key_is_on_no_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("MESHPERF_CACHE", str(tmp_path))
    asked = []

    def run(program, arguments, directory=None, stdin=""):
        asked.append((arguments, json.loads(stdin)))
        return [{"kind": "Secret", "metadata": {"name": arguments[1]}, "from": stdin}]

    monkeypatch.setattr(linkerd, "run", run)
    first = Linkerd().control_plane("basic", "registry")
    assert Linkerd().control_plane("basic", "registry") == first, "another authority would be another state"
    (definitions, charted), (control_plane, values) = asked
    assert charted == {"installGatewayAPI": True}
    assert definitions[1:3] == ["linkerd-crds", "linkerd-crds"]
    assert control_plane[1:3] == ["linkerd-control-plane", "linkerd-control-plane"]
    for arguments in (definitions, control_plane):
        assert "https://helm.linkerd.io/edge" in arguments and "2026.8.3" in arguments
        assert not any("PRIVATE KEY" in word for word in arguments)
    assert "PRIVATE KEY" in values["identity"]["issuer"]["tls"]["keyPEM"]
    (kept,) = (tmp_path / "rendered").iterdir()
    assert kept.stat().st_mode & 0o077 == 0, "others can read the authority's key"


def test_what_is_kept_is_rendered_anew_before_its_certificates_end(tmp_path, monkeypatch):
    monkeypatch.setenv("MESHPERF_CACHE", str(tmp_path))
    made = iter([[{"n": 1}], [{"n": 2}]])

    def keep():
        return rendering.keep("x", "key", make=lambda: next(made))

    assert keep() == keep() == [{"n": 1}]
    (kept,) = (tmp_path / "rendered").iterdir()
    half_a_year_ago = time.time() - 181 * 24 * 3600
    os.utime(kept, (half_a_year_ago, half_a_year_ago))
    assert keep() == [{"n": 2}]


def test_the_proxies_are_scraped_where_they_serve_their_metrics_and_only_if_that_is_asked_for():
    target = Linkerd().metrics("mtls-metrics")
    assert (target.port, target.path) == (4191, "/metrics")
    assert Linkerd().metrics("basic") is None


def test_basic_is_said_to_be_encrypted():
    assert Linkerd().expects_tls("basic")
    assert "always use mutual TLS" in Linkerd().caveats("basic", "registry")[0]
