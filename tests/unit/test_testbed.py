"""Which way to a cluster is taken, and what is said where there is none."""

import pytest

from meshperf import testbed
from meshperf.errors import MeshperfError
from meshperf.testbed import kind
from meshperf.testbed.embedded import builds, images
from meshperf.testbed.embedded import cluster as embedded
from meshperf.workloads import echo


@pytest.fixture
def machine(monkeypatch):
    """A machine of which a test says what it has."""

    def has(context=None, docker=False, kind_command=False, obstacles=()):
        if context:
            monkeypatch.setenv("MESHPERF_CONTEXT", context)
        else:
            monkeypatch.delenv("MESHPERF_CONTEXT", raising=False)
        monkeypatch.setattr(kind, "docker_answers", lambda: docker)
        monkeypatch.setattr(kind, "available", lambda: docker and kind_command)
        monkeypatch.setattr(embedded, "obstacles", lambda: list(obstacles))

    return has


def test_a_named_context_comes_first_then_kind_then_the_embedded_cluster(machine):
    machine(context="mine", docker=True, kind_command=True)
    assert testbed._choose(None) == ("context", "mine")
    machine(docker=True, kind_command=True)
    assert testbed._choose(None) == ("kind", None)
    machine()
    assert testbed._choose(None) == ("embedded", None)


@pytest.mark.parametrize(
    ("has", "nearest"),
    [
        ({"docker": True, "obstacles": ["it needs root"]}, "Docker answers, but `kind` is not on the PATH"),
        (
            {"obstacles": ["Debian packages are missing (apt-get install runc)"]},
            "the embedded cluster: Debian packages",
        ),
        ({"obstacles": ["it needs Linux"]}, "no Docker engine answers"),
    ],
)
def test_without_a_cluster_the_nearest_way_is_said_first(machine, has, nearest):
    machine(**has)
    with pytest.raises(MeshperfError) as refused:
        testbed._choose(None)
    message = str(refused.value)
    assert message.startswith(f"no cluster can be had on this machine; nearest: {nearest}")
    assert "MESHPERF_CONTEXT" in message and "`make report` needs no cluster" in message


def test_a_context_that_does_not_exist_is_named(machine, tmp_path, monkeypatch):
    (tmp_path / "config").write_text("{apiVersion: v1, kind: Config, clusters: [], contexts: [], users: []}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    machine(context="no-such-context")
    with pytest.raises(MeshperfError, match=r"no-such-context.*kubectl config get-contexts"):
        testbed.connect()


def test_the_workload_asks_for_what_the_study_says():
    made = echo.manifests(
        "ns", "registry", {"a": "b"},
        server_limits={"cpu": "325m", "memory": None}, client_limits={"cpu": None, "memory": None},
        placement="other-node", server_node_selector={}, client_node_selector={},
    )  # fmt: skip
    deployments = {m["metadata"]["name"]: m["spec"]["template"] for m in made if m["kind"] == "Deployment"}
    (server,), (client,) = (deployments[name]["spec"]["containers"] for name in ("server", "client"))
    assert server["resources"]["limits"] == {"cpu": "325m"}
    assert client["resources"] == {}
    assert "podAntiAffinity" in deployments["client"]["spec"]["affinity"]
    assert server["image"] == f"docker.io/fortio/fortio:{builds.FORTIO_VERSION}"
    (service,) = (m for m in made if m["kind"] == "Service")
    assert service["spec"]["ports"][0]["appProtocol"] == "http"


def test_nodes_are_chosen_by_their_labels():
    made = echo.manifests(
        "ns", "local", {}, server_limits={}, client_limits={}, placement="node-selector",
        server_node_selector={"role": "server"}, client_node_selector={"role": "client"},
    )  # fmt: skip
    specs = {m["metadata"]["name"]: m["spec"]["template"]["spec"] for m in made if m["kind"] == "Deployment"}
    assert {name: spec["nodeSelector"]["role"] for name, spec in specs.items()} == {
        "server": "server",
        "client": "client",
    }
    assert "affinity" not in specs["client"]


def test_an_image_is_the_same_bytes_every_time(tmp_path, monkeypatch):
    monkeypatch.setenv("MESHPERF_CACHE", str(tmp_path))
    image = images.Image("localhost/test:1", {"bin/test": b"x" * 100}, ("/bin/test",), user="1000")
    first = images.archive(image, print)
    content = first.read_bytes()
    first.unlink()
    assert images.archive(image, print).read_bytes() == content


def test_a_build_is_found_again_and_another_source_is_another_build(tmp_path, monkeypatch):
    monkeypatch.setattr(builds, "_source", lambda program: tmp_path)
    (tmp_path / "go.mod").write_text("module a\n")
    one = builds.build_key(builds.PAUSE)
    assert builds.build_key(builds.PAUSE) == one
    (tmp_path / "go.mod").write_text("module b\n")
    assert builds.build_key(builds.PAUSE) != one
