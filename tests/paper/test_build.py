"""What stops a build, and what it leaves behind: a paper with a hole in it is not rendered."""

import shutil
import stat
import sys

import pytest
import yaml
from paper.paper_study import PAPER

from meshperf.errors import MeshperfError
from meshperf.report import data, render


@pytest.fixture
def paper(tmp_path):
    """A copy of the paper, to be damaged."""
    return shutil.copytree(PAPER, tmp_path / "paper")


def append(path, text):
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_committed_chapters_are_exactly_those_of_the_project():
    listed = yaml.safe_load((PAPER / "_quarto.yml").read_text(encoding="utf-8"))["book"]["chapters"]
    assert sorted(listed) == sorted(path.name for path in PAPER.glob("*.qmd"))
    assert listed[0] == "index.qmd"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nMore than {{< var headline.p42 >}}.\n", "index.qmd uses the variable headline.p42"),
        ("\n{{< include _generated/tbl-moon.qmd >}}\n", "index.qmd includes _generated/tbl-moon.qmd"),
        ("\nSee @fig-moon.\n", "refers to @fig-moon"),
        ("\nSee @sec-moon.\n", "refers to @sec-moon"),
        ("\nAs shown [@moon2031].\n", "cites @moon2031"),
        ('\n![](figures/moon.svg){fig-alt="a moon"}\n', "shows figures/moon.svg"),
        ("\n{{< pagebreak >}}\n", "a shortcode that only Quarto knows"),
        ('\n::: {.content-visible when-meta="measured.moon"}\nx\n:::\n', "depends on measured.moon"),
        ("\n::: {.note}\nnever closed\n", "opens a div that it does not close"),
        ("\n:::\n", "closes a div that it did not open"),
        ("\n## Again {#sec-method}\n", "defines sec-method a second time"),
    ],
)
def test_a_hole_in_the_text_stops_the_build_and_is_named(rendered, paper, tmp_path, text, message):
    append(paper / "index.qmd", text)
    with pytest.raises(MeshperfError) as caught:
        rendered.build(tmp_path / "report", paper)
    assert message in str(caught.value)
    assert not (tmp_path / "report").exists()


def test_a_hidden_part_may_use_what_the_study_does_not_have(rendered, paper, tmp_path):
    append(
        paper / "index.qmd",
        '\n::: {.content-hidden when-meta="measured.synthetic"}\n{{< var not.there >}}\n:::\n',
    )
    assert rendered.build(tmp_path / "report", paper).html.is_file()


def test_a_missing_figure_stops_the_build_and_is_named(results_copy, tmp_path):
    (results_copy.results_dir / "figures" / "overhead-p99.svg").unlink()
    with pytest.raises(MeshperfError, match=r"figures/overhead-p99\.svg, which does not exist"):
        results_copy.build(tmp_path / "report")


def test_a_chapter_outside_the_project_stops_the_build(rendered, paper, tmp_path):
    (paper / "moon.qmd").write_text("# Moon\n", encoding="utf-8")
    with pytest.raises(MeshperfError, match=r"moon\.qmd is not listed"):
        rendered.build(tmp_path / "report", paper)


def test_a_listed_chapter_that_is_gone_stops_the_build(rendered, paper, tmp_path):
    (paper / "threats.qmd").unlink()
    with pytest.raises(MeshperfError, match=r"lists threats\.qmd, which does not exist"):
        rendered.build(tmp_path / "report", paper)


def test_missing_values_stop_the_build(results_copy, tmp_path):
    (results_copy.results_dir / "values.yml").unlink()
    with pytest.raises(MeshperfError, match=r"values\.yml is missing"):
        results_copy.build(tmp_path / "report")


def test_a_renamed_column_is_named(results_copy):
    path = results_copy.results_dir / "cells.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("estimate_s", "estimate", 1), encoding="utf-8")
    with pytest.raises(MeshperfError, match=r"cells\.csv lacks the column estimate_s"):
        data.load(results_copy.study, results_copy.results_dir, results_copy.campaign_dir)


@pytest.mark.parametrize("name", ["runs.csv", "cells.csv"])
def test_a_missing_table_is_named(results_copy, name):
    (results_copy.results_dir / name).unlink()
    with pytest.raises(MeshperfError, match=rf"{name} is missing"):
        data.load(results_copy.study, results_copy.results_dir, results_copy.campaign_dir)


def test_a_failed_build_keeps_the_report_that_was_there(results_copy, paper, tmp_path):
    out_dir = tmp_path / "report"
    before = results_copy.build(out_dir).html.read_bytes()
    append(paper / "index.qmd", "\n{{< var not.there >}}\n")
    with pytest.raises(MeshperfError):
        results_copy.build(out_dir, paper)
    assert (out_dir / "index.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".report-")] == []


STUB = """#!{python}
import pathlib, sys, yaml
if sys.argv[1] == "--version":
    print("1.10.7")
    sys.exit()
source = pathlib.Path(sys.argv[2])
project = yaml.safe_load((source / "_quarto.yml").read_text())
chapters = project["book"]["chapters"] + project["book"]["appendices"]
assert sorted(chapters) == sorted(path.name for path in source.glob("*.qmd")), chapters
assert "annex-performance.qmd" in chapters
assert yaml.safe_load((source / "_variables.yml").read_text())["campaign"]["id"]
assert "{{< var campaign.id >}}" in (source / "index.qmd").read_text()
assert "when-meta" not in (source / "index.qmd").read_text()
report = source / project["project"]["output-dir"]
report.mkdir()
if {fails!r}:
    print("ERROR: the moon is full", file=sys.stderr)
    sys.exit(1)
(report / "index.html").write_text("by quarto")
(report / (project["book"]["output-file"] + ".pdf")).write_text("by quarto")
"""


def quarto_stub(directory, monkeypatch, *, fails=False):
    """Put a `quarto` on PATH that checks the project it is given."""
    directory.mkdir()
    path = directory / "quarto"
    path.write_text(
        STUB.replace("{python}", sys.executable).replace("{fails!r}", repr(fails)), encoding="utf-8"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(directory), prepend=":")


def test_quarto_is_used_where_it_is_installed(rendered, tmp_path, monkeypatch):
    quarto_stub(tmp_path / "bin", monkeypatch)
    built = rendered.build(tmp_path / "report")
    assert built.renderer == "Quarto 1.10.7"
    assert built.html.read_text() == built.pdf.read_text() == "by quarto"


def test_what_quarto_complains_of_is_passed_on(rendered, tmp_path, monkeypatch):
    quarto_stub(tmp_path / "bin", monkeypatch, fails=True)
    with pytest.raises(MeshperfError, match="the moon is full"):
        rendered.build(tmp_path / "report")


def test_conditions_nest_and_keep_other_divs():
    text = """a
::: {.content-visible when-meta="measured.x"}
b
::: {.callout-note}
c
:::
::: {.content-visible unless-meta="measured.y"}
d
:::
:::
::: {.content-hidden when-meta="measured.x"}
e
:::
f
"""
    assert render.apply_conditions(text, {"x": True, "y": True}, "t").split() == [
        "a",
        "b",
        ":::",
        "{.callout-note}",
        "c",
        ":::",
        "f",
    ]
    assert render.apply_conditions(text, {"x": True, "y": False}, "t").split()[-2:] == ["d", "f"]
    assert render.apply_conditions(text, {"x": False, "y": False}, "t").split() == ["a", "e", "f"]
