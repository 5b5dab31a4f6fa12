"""What a configuration adds to the path of the load, seen from outside the path."""

import pytest

from meshperf.testbed.client import InfrastructureError


def _asked_around_the_mesh(cluster, deployed):
    """Return what the service answers to the API server, which is no part of the mesh."""
    pod = f"/api/v1/namespaces/{deployed.namespace}/pods/{deployed.pod_name('server')}:8080/proxy/debug"
    return cluster.get_raw(pod).decode()


def test_a_service_behind_mutual_tls_cannot_be_reached_around_its_proxy(clean_testbed, bring):
    cluster = clean_testbed.cluster
    assert "echo debug server" in _asked_around_the_mesh(cluster, bring("baseline", "none"))
    deployed = bring("envoy-static", "mtls")
    with pytest.raises(InfrastructureError, match="gave 50"):
        _asked_around_the_mesh(cluster, deployed)
