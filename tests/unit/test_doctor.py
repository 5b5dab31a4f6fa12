"""The diagnosis: what it says on machines that lack something."""

import pytest

from meshperf import doctor, testbed
from meshperf.errors import MeshperfError
from meshperf.testbed import kind
from meshperf.testbed.embedded import cluster as embedded


@pytest.fixture
def machine(monkeypatch):
    """Make this machine one without Docker, contexts and a running cluster; return a way to change it."""
    monkeypatch.delenv("MESHPERF_CONTEXT", raising=False)
    monkeypatch.setattr(doctor, "_contexts", list)
    monkeypatch.setattr(kind, "docker_answers", lambda: False)
    monkeypatch.setattr(kind, "available", lambda: False)
    monkeypatch.setattr(testbed, "status", lambda: "no cluster runs")
    monkeypatch.setattr(embedded, "obstacles", list)
    return monkeypatch


def diagnosis():
    lines = []
    return doctor.main([], lines.append), "\n".join(lines)


def test_a_machine_with_root_and_packages_can_do_all(machine):
    code, text = diagnosis()
    assert code == 0
    assert "make report: yes" in text
    assert "make measure: yes, on the embedded cluster" in text


def test_without_any_cluster_the_nearest_way_is_named_and_the_report_still_possible(machine):
    machine.setattr(embedded, "obstacles", lambda: ["it needs Linux"])
    code, text = diagnosis()
    assert code == 0
    assert "make report: yes" in text
    (line,) = [line for line in text.splitlines() if "make measure: no" in line]
    assert "nearest is:" in line
    assert "MESHPERF_CONTEXT" in line and "Docker" in line and "Linux" in line


def test_a_missing_debian_package_comes_with_its_command(machine):
    machine.setattr(embedded, "DEBIAN_PROGRAMS", {"containerd": "no-such-program-here"})
    _, text = diagnosis()
    assert "apt-get install --no-install-recommends containerd" in text


def test_a_context_that_does_not_exist_is_named(machine):
    machine.setenv("MESHPERF_CONTEXT", "no-such-context")
    _, text = diagnosis()
    assert "no-such-context is named, but no kubeconfig has it" in text
    assert "make measure: no" in text


def test_a_named_context_is_what_a_measurement_uses(machine):
    machine.setattr(doctor, "_contexts", lambda: ["mine"])
    machine.setenv("MESHPERF_CONTEXT", "mine")
    _, text = diagnosis()
    assert "make measure: yes, on the cluster of kubeconfig context mine" in text


def test_without_a_package_of_the_report_it_fails(machine):
    machine.setattr(doctor, "REPORT_PACKAGES", ("snakemake", "no_such_package"))
    code, text = diagnosis()
    assert code == 1
    assert "missing: no_such_package" in text and "make setup" in text
    assert "make report: no" in text


def test_a_full_disk_says_how_much_to_free(machine):
    machine.setattr(doctor, "REPORT_DISK_BYTES", 2**60)
    code, text = diagnosis()
    assert code == 1
    assert "free " in text and "GiB on the disk of" in text


def test_arguments_are_refused():
    with pytest.raises(MeshperfError, match="takes no arguments"):
        doctor.main(["--fix"])
