"""Sidecars without a control plane: what Envoy itself says of their configuration, and how they are put into pods."""

import json
import subprocess

import pytest

from meshperf.meshes import credentials
from meshperf.meshes.base import Setting
from meshperf.meshes.envoy_bootstrap import bootstrap
from meshperf.meshes.envoy_parts import TLS_DIR
from meshperf.meshes.envoy_static import EnvoyStatic
from meshperf.testbed.embedded.builds import envoy_binary
from meshperf.workloads import echo

LIMITS = {"server_limits": {}, "client_limits": {}, "server_node_selector": {}, "client_node_selector": {}}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MESHPERF_CACHE", str(tmp_path / "cache"))


def _setting(configuration):
    return Setting(configuration, "ns", "local", "a-campaign")


def _validate(text, path):
    path.write_text(text)
    command = [str(envoy_binary()), "--mode", "validate", "-c", str(path), "-l", "error"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize("tls", [False, True])
def test_envoy_accepts_the_configuration(tmp_path, role, tls):
    made = credentials.of_campaign("a-campaign")
    chain, key = made.certificates[role]
    for name, content in {"tls.crt": chain, "tls.key": key, "ca.crt": made.authority}.items():
        (tmp_path / name).write_text(content)
    text = json.dumps(bootstrap(role, "server.ns.svc.cluster.local", "server-pods", 8080, tls=tls))
    assert (TLS_DIR in text) is tls
    result = _validate(text.replace(TLS_DIR, str(tmp_path)), tmp_path / "envoy.json")
    assert result.returncode == 0, result.stderr
    wrong = _validate(
        text.replace("LEAST_REQUEST", "LEAST").replace('"ORIGINAL_DST"', '"ORIGINAL"'), tmp_path / "w"
    )
    assert wrong.returncode != 0, "Envoy validates nothing"


@pytest.mark.parametrize(("configuration", "encrypted"), [("basic", False), ("mtls", True)])
def test_keys_are_in_the_cluster_only_where_they_are_used(configuration, encrypted):
    made = EnvoyStatic().policies(_setting(configuration))
    secrets = {m["metadata"]["name"]: m["stringData"] for m in made if m["kind"] == "Secret"}
    assert bool(secrets) is encrypted
    text = json.dumps([m for m in made if m["kind"] != "Secret"])
    assert "PRIVATE KEY" not in text
    if encrypted:
        assert secrets["envoy-client"]["tls.key"] != secrets["envoy-server"]["tls.key"]
        assert made == EnvoyStatic().policies(_setting(configuration)), "a resumed campaign is another state"


def test_each_pod_gets_the_redirection_and_a_sidecar_that_starts_first():
    plain = echo.manifests("ns", "local", {}, placement="same-node", **LIMITS)
    before = json.dumps(plain)
    adapted = EnvoyStatic().adapt(plain, _setting("mtls"))
    assert json.dumps(plain) == before, "the workloads were changed in place"
    assert [m["metadata"]["name"] for m in adapted] == [m["metadata"]["name"] for m in plain]
    pods = {
        m["metadata"]["name"]: m["spec"]["template"]["spec"] for m in adapted if m["kind"] == "Deployment"
    }
    for role, pod in pods.items():
        redirection, sidecar = pod["initContainers"]
        assert (sidecar["name"], sidecar["restartPolicy"]) == (EnvoyStatic.sidecar, "Always")
        arguments = " ".join(redirection["args"])
        # All inbound ports but the sidecar's own; nothing that the sidecar's user sends.
        assert "-b * -d 15090,15021" in arguments and "-u 1337" in arguments
        assert sidecar["securityContext"]["runAsUser"] == 1337
        assert {"name": "envoy-tls", "secret": {"secretName": f"envoy-{role}"}} in pod["volumes"]
        mounted = {mount["name"] for c in pod["containers"] for mount in c["volumeMounts"]}
        assert "envoy-tls" not in mounted, "the application can read the sidecar's key"
