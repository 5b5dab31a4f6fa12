"""The documents: whole, their links leading somewhere, and the README's numbers those of the data."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from meshperf import meshes
from meshperf.errors import MeshperfError
from meshperf.report import support
from meshperf.report.findings import measured_findings
from meshperf.report.markers import replace
from meshperf.study import load_study

ROOT = Path(__file__).resolve().parents[2]


def test_licences_are_whole():
    assert "END OF TERMS AND CONDITIONS" in (ROOT / "LICENSE").read_text()
    assert "Section 8 -- Interpretation." in (ROOT / "LICENSE-DATA").read_text()


def test_citation_has_the_version_and_the_licence_of_the_project():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])


def test_changelog_has_the_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {re.escape(project['version'])} ", changelog, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "document", ["README.md", "CONTRIBUTING.md", "notebooks/README.md", "data/README.md"]
)
def test_links_lead_somewhere(document):
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_readme_says_what_the_committed_campaign_found():
    readme = (ROOT / "README.md").read_text()
    assert "PLACEHOLDER" not in readme
    found = measured_findings(load_study(ROOT / "config" / "embedded.yaml"))
    assert readme == replace(readme, "findings", found), (
        "run `python -m meshperf.report.findings config/embedded.yaml README.md`"
    )


def test_readme_says_what_is_supported_and_where_it_was_run():
    readme = (ROOT / "README.md").read_text()
    assert readme == replace(readme, "support", support.markdown()), (
        "run `python -m meshperf.report.support README.md`"
    )


def test_the_table_of_support_tells_apart_what_was_run(monkeypatch):
    table = {
        "kuma": meshes.Support("", ("basic", "mtls"), ("mtls",)),
        "linkerd": meshes.Support("", ("basic",), ()),
    }
    monkeypatch.setattr(support, "MESHES", table)
    assert support.support_table().to_numpy().tolist() == [
        ["Kuma", "`mtls`", "`basic`"],
        ["Linkerd", "–", "`basic`"],
    ]


def test_readme_has_the_two_commands_on_its_first_screen():
    first_screen = (ROOT / "README.md").read_text().splitlines()[:40]
    assert any(line.startswith("make quickstart") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)


def test_findings_go_between_their_markers_and_nowhere_else():
    text = "a\n<!-- findings -->\nold\n<!-- /findings -->\nb\n"
    assert replace(text, "findings", "| \\1 new |\n") == (
        "a\n<!-- findings -->\n| \\1 new |\n<!-- /findings -->\nb\n"
    )
    with pytest.raises(MeshperfError, match="has no <!-- findings -->"):
        replace("a\n", "findings", "new\n")
