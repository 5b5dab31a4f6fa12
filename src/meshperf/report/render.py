"""Build the paper: assemble its sources with what the study generated, check them, and render HTML and PDF.

The paper executes no code. :func:`assemble` makes a directory that holds everything: the chapters of ``paper/`` with
the conditions of this study applied, generated floats and annex chapters, variables and figures. It refuses to go on
if a variable, a figure, an included file or the target of a reference is missing. ``quarto`` renders that directory
when it is on PATH; otherwise pandoc and Typst do, from their PyPI packages, and the title page says so.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import yaml

from meshperf.errors import MeshperfError
from meshperf.report import annex, figures, sentences, tables, values
from meshperf.report.data import ReportData, load

if TYPE_CHECKING:
    from meshperf.study import Study

GENERATED = "_generated"
_INCLUDE = re.compile(r"^\{\{< include (\S+) >\}\}[ \t]*$", re.MULTILINE)
_VARIABLE = re.compile(r"\{\{< var (\S+) >\}\}")
_IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
_REFERENCE = re.compile(r"(?<![\w@\\])@((?:fig|tbl|sec)-[\w-]*\w)")
_TARGET = re.compile(r"\{#((?:fig|tbl|sec)-[\w-]+)")
_CITATION = re.compile(r"(?<![\w@\\./])@([a-z][\w:-]*\w)")
_FENCE = re.compile(r"^(:{3,})\s*(\S.*)?$")
_CONDITION = re.compile(r'\.content-(visible|hidden)\s+(when|unless)-meta="measured\.([\w-]+)"')


@dataclass(frozen=True)
class Built:
    """What was rendered, by what, and how long it took."""

    html: Path
    pdf: Path
    renderer: str
    seconds: float


def build(
    study: Study,
    results_dir: str | Path,
    paper_dir: str | Path,
    out_dir: str | Path,
    *,
    campaign_dir: str | Path | None = None,
) -> Built:
    """Render the report of a study from its results.

    Parameters
    ----------
    study : Study
        The design.
    results_dir : path
        ``results/<study>``, with ``figures/`` and ``values.yml`` already written.
    paper_dir : path
        The Quarto project.
    out_dir : path
        Replaced as a whole: ``index.html`` with its files, ``report.pdf``, executed notebooks.
    campaign_dir : path, optional
        Raw data, if they are not in ``data/raw/<campaign>``.

    Raises
    ------
    MeshperfError
        If the paper needs something that the results do not have; the message names it. ``out_dir`` is then untouched.
    """
    began = time.monotonic()
    results_dir, paper_dir, out_dir = Path(results_dir), Path(paper_dir), Path(out_dir)
    data = load(study, results_dir, campaign_dir)
    out_dir.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".report-", dir=out_dir.parent) as scratch:
        source, rendered = Path(scratch) / "source", Path(scratch) / "report"
        quarto = shutil.which("quarto")
        project = assemble(data, paper_dir, source)
        renderer = (
            _with_quarto(quarto, source, rendered)
            if quarto
            else _with_pandoc(data, project, source, rendered)
        )
        notebooks = results_dir / "notebooks"
        if notebooks.is_dir():
            shutil.copytree(notebooks, rendered / "notebooks", dirs_exist_ok=True)
        if out_dir.exists():
            shutil.rmtree(out_dir)
        rendered.rename(out_dir)
    return Built(out_dir / "index.html", out_dir / "report.pdf", renderer, time.monotonic() - began)


def assemble(data: ReportData, paper_dir: Path, source: Path) -> dict[str, Any]:
    """Put everything the paper needs into ``source``, check it, and return the project's configuration."""
    project = yaml.safe_load((paper_dir / "_quarto.yml").read_text(encoding="utf-8"))
    chapters = list(project["book"]["chapters"])
    _check_chapters(paper_dir, chapters)
    source.mkdir(parents=True)
    shutil.copytree(paper_dir / "assets", source / "assets")
    shutil.copytree(paper_dir / "fallback", source / "fallback")
    shutil.copy(paper_dir / "references.bib", source)
    floats = [*figures.floats(data), *tables.floats(data)]
    conditions = values.measured(data) | {item.label: True for item in floats}
    for name in list(chapters):
        text = apply_conditions((paper_dir / name).read_text(encoding="utf-8"), conditions, name)
        if text.strip():
            (source / name).write_text(text, encoding="utf-8")
        else:  # all of it depends on what this study has not
            chapters.remove(name)
    appendices = annex.chapters(data)
    for name, text in appendices.items():
        (source / name).write_text(text, encoding="utf-8")
    (source / GENERATED).mkdir()
    for item in floats:
        (source / GENERATED / f"{item.label}.qmd").write_text(item.markdown(data), encoding="utf-8")
    for name, text in sentences.all_sentences(data).items():
        (source / GENERATED / f"{name}.qmd").write_text(text, encoding="utf-8")
    _copy_values_and_figures(data, source)
    started = pd.to_datetime(data.runs_df["started_utc"], utc=True, format="mixed").max()
    project["book"] |= {
        "chapters": chapters,
        "subtitle": ("SYNTHETIC DATA · " if data.synthetic else "") + data.study.title,
        "date": f"{started:%Y-%m-%d}",
        "appendices": list(appendices),
    }
    if not appendices:
        del project["book"]["appendices"]
    (source / "_quarto.yml").write_text(
        yaml.safe_dump(project, sort_keys=False, allow_unicode=True), encoding="utf-8"
    )
    check({name: expand(source, name) for name in [*chapters, *appendices]}, source)
    return project


def apply_conditions(text: str, conditions: dict[str, bool], name: str) -> str:
    """Resolve ``content-visible``/``content-hidden`` divs on ``measured.*`` metadata, as Quarto would.

    It is done here, for both renderers, so that checks see exactly what will be rendered.

    Parameters
    ----------
    text : str
        A chapter.
    conditions : dict
        What the study measured; a label of a figure or table that is not among them is one that it does not have.
    name : str
        The chapter's name, for messages.
    """
    kept: list[str] = []
    open_divs: list[tuple[bool, bool]] = []  # (is a condition, shows its content)
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if fence and fence.group(2):
            condition = _CONDITION.search(fence.group(2))
            if condition:
                how, when, key = condition.groups()
                if key not in conditions and not key.startswith(("fig-", "tbl-")):
                    raise MeshperfError(f"{name} depends on measured.{key}, which the report does not define")
                open_divs.append(
                    (True, ((how == "visible") == (when == "when")) == conditions.get(key, False))
                )
                continue
            open_divs.append((False, True))
        elif fence:
            if not open_divs:
                raise MeshperfError(f"{name} closes a div that it did not open")
            if open_divs.pop()[0]:
                continue
            if all(shown for _, shown in open_divs):
                kept.append(line)
            continue
        if all(shown for _, shown in open_divs):
            kept.append(line)
    if open_divs:
        raise MeshperfError(f"{name} opens a div that it does not close")
    return "\n".join(kept) + "\n"


def expand(source: Path, name: str) -> str:
    """Return a chapter with its included files and variables put in, as the fallback renders it."""

    def included(match: re.Match[str]) -> str:
        path = source / match.group(1)
        if not path.is_file():
            raise MeshperfError(
                f"{name} includes {match.group(1)}, which this study does not have: put it under a "
                "condition on measured.*"
            )
        return path.read_text(encoding="utf-8")

    variables = yaml.safe_load((source / "_variables.yml").read_text(encoding="utf-8"))

    def variable(match: re.Match[str]) -> str:
        value: Any = variables
        for part in match.group(1).split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is None or isinstance(value, dict):
            raise MeshperfError(
                f"{name} uses the variable {match.group(1)}, which values.yml does not define: "
                "define it in meshperf.report.values, or correct the name"
            )
        return str(value)

    text = _INCLUDE.sub(included, (source / name).read_text(encoding="utf-8"))
    return _VARIABLE.sub(variable, text)


def check(chapters: dict[str, str], source: Path) -> None:
    """Refuse a paper with a missing figure, a dangling or doubled reference, or a citation that is not in the list.

    Parameters
    ----------
    chapters : dict
        Expanded text of every chapter by name.
    source : Path
        The assembled directory.
    """
    targets: set[str] = set()
    for name, text in chapters.items():
        for target in _TARGET.findall(text):
            if target in targets:
                raise MeshperfError(
                    f"{name} defines {target} a second time: give each figure, table and section its own label"
                )
            targets.add(target)
    bibliography = (source / "references.bib").read_text(encoding="utf-8")
    for name, text in chapters.items():
        for image in _IMAGE.findall(text):
            if not (source / image).is_file():
                raise MeshperfError(
                    f"{name} shows {image}, which does not exist: run the analysis again (make report)"
                )
        for reference in _REFERENCE.findall(text):
            if reference not in targets:
                raise MeshperfError(f"{name} refers to @{reference}, which no chapter defines")
        for citation in _CITATION.findall(text):
            if not citation.startswith(("fig-", "tbl-", "sec-")) and f"{{{citation}," not in bibliography:
                raise MeshperfError(f"{name} cites @{citation}, which is not in references.bib")
        if left := re.search(r"\{\{<[^>]*>\}\}", text):
            raise MeshperfError(f"{name} has a shortcode that only Quarto knows: {left.group(0)}")


def _check_chapters(paper_dir: Path, chapters: list[str]) -> None:
    present = {path.name for path in paper_dir.glob("*.qmd")}
    for name in chapters:
        if name not in present:
            raise MeshperfError(f"{paper_dir / '_quarto.yml'} lists {name}, which does not exist")
    if unlisted := sorted(present - set(chapters)):
        raise MeshperfError(
            f"{paper_dir / unlisted[0]} is not listed in _quarto.yml: add it to book.chapters or remove it"
        )


def _copy_values_and_figures(data: ReportData, source: Path) -> None:
    variables = data.results_dir / "values.yml"
    if not variables.is_file():
        raise MeshperfError(
            f"{variables} is missing: write it with meshperf.report.values.write (make report)"
        )
    shutil.copy(variables, source / "_variables.yml")
    (source / "figures").mkdir()
    for path in sorted((data.results_dir / "figures").glob("*.svg")):
        shutil.copy(path, source / "figures")


def _with_quarto(quarto: str, source: Path, rendered: Path) -> str:
    """Render with Quarto; return its name and version."""
    run = subprocess.run([quarto, "render", str(source)], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        tail = "; ".join(run.stderr.strip().splitlines()[-3:])
        raise MeshperfError(f"quarto could not render the paper: {tail}")
    (source / "_report").rename(rendered)
    for path in (rendered / "index.html", rendered / "report.pdf"):
        if not path.is_file():
            raise MeshperfError(
                f"quarto did not write {path.name}: version 1.9 or later is needed for books with Typst"
            )
    version = subprocess.run(
        [quarto, "--version"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return f"Quarto {version}"


def _with_pandoc(data: ReportData, project: dict[str, Any], source: Path, rendered: Path) -> str:
    """Render with pandoc and Typst from PyPI: one HTML page with its files, and the PDF."""
    from importlib.metadata import version

    import pypandoc
    import typst

    renderer = f"pandoc {pypandoc.get_pandoc_version()} and Typst {version('typst')}"
    book = project["book"]
    text = [expand(source, name) for name in book["chapters"]]
    for name in book.get("appendices", []):
        text += ["::: {.appendix-begins}\n:::\n", expand(source, name)]
    metadata = {
        "title": book["title"],
        "subtitle": data.study.title,
        "author": book["author"],
        "lang": project["lang"],
        "date": f"{pd.Timestamp(book['date']):%-d %B %Y}",
        "campaign": data.campaign,
        "datahash": data.data_hash,
        "synthetic": data.synthetic,
        "renderer": renderer,
        "bibliography": str(source / "references.bib"),
        "link-citations": True,
        "reference-section-title": "",
    }
    (source / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    common = [
        f"--metadata-file={source / 'metadata.json'}",
        f"--lua-filter={source / 'fallback' / 'quarto.lua'}",
        "--citeproc",
        "--standalone",
        "--toc",
        "--toc-depth=3",
        "--wrap=none",
    ]
    body = "\n\n".join(text)
    outputs = {"html5": "report.html", "typst": "report.typ"}
    made = {
        target: pypandoc.convert_text(
            body,
            target,
            format="markdown",
            extra_args=[*common, f"--template={source / 'fallback' / template}"],
        )
        for target, template in outputs.items()
    }
    rendered.mkdir()
    (rendered / "index.html").write_text(made["html5"], encoding="utf-8")
    shutil.copytree(source / "assets", rendered / "assets", ignore=shutil.ignore_patterns("scripts.html"))
    for name in ("report.css", "contents.js"):
        shutil.copy(source / "fallback" / name, rendered / "assets")
    shutil.copytree(source / "figures", rendered / "figures")
    (source / "report.typ").write_text(made["typst"], encoding="utf-8")
    typst.compile(
        str(source / "report.typ"),
        output=str(rendered / "report.pdf"),
        root=str(source),
        ignore_system_fonts=True,
        timestamp=int(pd.Timestamp(book["date"], tz="UTC").timestamp()),
    )
    return renderer
