"""Consul's wrong states: a load taken for another protocol, and a way around the sidecar."""

import pytest

from meshperf.errors import MeshperfError
from meshperf.meshes import consul
from meshperf.testbed import proof
from meshperf.workloads import echo


@pytest.mark.parametrize(
    ("configuration", "protocol", "check"),
    [("mtls", "tcp", "handled as HTTP"), ("mtls-tcp", "http", "handled as TCP")],
)
def test_a_load_that_is_taken_for_another_protocol_is_refused(
    clean_testbed, bring, monkeypatch, configuration, protocol, check
):
    entries = consul._configuration_entries
    monkeypatch.setattr(consul, "_configuration_entries", lambda _, name: entries(protocol, name))
    probe = proof.probe
    monkeypatch.setattr(proof, "probe", lambda cluster, deployed: probe(cluster, deployed, timeout_s=1))
    monkeypatch.setattr(proof, "COUNTERS_SETTLE_S", 0.5)
    with pytest.raises(proof.UnprovenState, match=check):
        bring("consul", configuration)


def test_nothing_but_its_sidecar_reaches_the_service(clean_testbed, bring):
    cluster = clean_testbed.cluster
    deployed = bring("consul", "mtls")

    def ask(role, url):
        argv = ["fortio", "curl", "-quiet", "-stdclient", "-timeout", "3s", url]
        return cluster.execute(deployed.namespace, deployed.pod_name(role), echo.CONTAINER, argv, 10)

    assert ask("server", f"http://127.0.0.1:{echo.PORT}/"), "the test does not see the service"
    assert ask("client", deployed.url)
    address = deployed.server["status"]["podIP"]
    # By its name, at its pod's address, and without a client's certificate at its sidecar.
    for around in (
        f"http://{echo.SERVICE}:{echo.PORT}/",
        f"http://{address}:{echo.PORT}/",
        f"http://{address}:20000/",
    ):
        with pytest.raises(MeshperfError, match="failed"):
            ask("client", around)
