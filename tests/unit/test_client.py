"""What the client does with answers of an API server: no cluster needed."""

import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import exceptions

from meshperf.errors import MeshperfError
from meshperf.testbed import client
from meshperf.testbed.client import Cluster, InfrastructureError

MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "some", "namespace": "ns"}}
BUSY = exceptions.TooManyRequestsError(ApiException(429, "storage is (re)initializing"))
NO_WEBHOOK = exceptions.InternalServerError(ApiException(500, "failed calling webhook"))
NOT_SERVED = exceptions.ResourceNotFoundError("No matches found")
FORBIDDEN = exceptions.ForbiddenError(ApiException(403, "Forbidden"))


@pytest.fixture
def cluster(monkeypatch):
    """A client whose server answers each request as the test says, the last answer for ever."""

    def answering(*answers):
        made, left = object.__new__(Cluster), list(answers)
        asked = []

        def answer(manifest):
            asked.append(manifest)
            given = left.pop(0) if len(left) > 1 else left[0]
            if given is not None:
                raise given

        made._apply = answer
        return made, asked

    monkeypatch.setattr(client, "POLL_S", 0)
    return answering


@pytest.mark.parametrize("answer", [BUSY, NO_WEBHOOK, NOT_SERVED])
def test_what_is_not_ready_yet_is_asked_again(cluster, answer):
    made, asked = cluster(answer, answer, None)
    made.apply([MANIFEST])
    assert asked == [MANIFEST] * 3


@pytest.mark.parametrize("answer", [BUSY, NO_WEBHOOK, NOT_SERVED])
def test_what_never_gets_ready_is_the_clusters_fault(cluster, answer):
    made, _ = cluster(answer)
    with pytest.raises(InfrastructureError, match="ConfigMap ns/some was not accepted in 0 s"):
        made.apply([MANIFEST], timeout_s=0.01)


def test_what_is_refused_is_not_asked_again(cluster):
    made, asked = cluster(FORBIDDEN, None)
    with pytest.raises(MeshperfError, match="ConfigMap ns/some was refused") as refused:
        made.apply([MANIFEST])
    assert not isinstance(refused.value, InfrastructureError)
    assert len(asked) == 1
