"""Cluster tests run on a real cluster: the named context, or the one that `meshperf cluster up` starts.

They are never skipped: where no cluster can be had, they fail with the sentence that says why.
"""

import pytest

from meshperf import testbed as testbeds
from meshperf.testbed.ensure import ensure
from meshperf.testbed.removal import remove_all

WORKLOAD = {
    "server_limits": {},
    "client_limits": {},
    "placement": "same-node",
    "server_node_selector": {},
    "client_node_selector": {},
}


def pytest_collection_modifyitems(items):
    for item in items:
        if "cluster" in item.path.parts:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture
def testbed():
    return testbeds.connect(progress=print)


@pytest.fixture
def clean_testbed(testbed):
    """A cluster without anything of ours, before and after."""
    remove_all(testbed.cluster)
    yield testbed
    remove_all(testbed.cluster)


@pytest.fixture
def bring(testbed):
    """Bring the cluster to the state of one deployment of an arm."""

    def bring(mesh, configuration, block=1, deployment=1, campaign="test"):
        return ensure(
            testbed.cluster,
            campaign,
            mesh,
            configuration,
            block,
            deployment,
            WORKLOAD,
            testbed.image_source,
            prepare=lambda: testbed.prepare(mesh, configuration, print),
        )

    return bring
