"""The form of the committed notebooks: thin, stripped, indexed, and in step with the rules that run them."""

import ast
import json
import re
from pathlib import Path

import pytest

from meshperf.notebook import parameter_names

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RULES = "\n".join(path.read_text() for path in sorted((ROOT / "rules").glob("*.smk")))

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def source(cell):
    return "".join(cell["source"])


def python(cell):
    """Return a cell's source without IPython's magic lines."""
    return "\n".join(line for line in source(cell).splitlines() if not line.startswith("%"))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 5


@each_notebook
def test_is_thin(path):
    cells = code_cells(path)
    lines = [line for cell in cells for line in source(cell).splitlines() if line.strip()]
    assert len(cells) <= 15
    assert len(lines) <= 80
    for cell in cells:
        for node in ast.walk(ast.parse(python(cell))):
            assert not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda | ast.For | ast.While), (
                python(cell)
            )
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            )
            assert not {"subprocess", "re", "sys", "glob"} & set(names)


@each_notebook
def test_is_stripped(path):
    notebook = json.loads(path.read_text())
    for cell in code_cells(path):
        assert cell["outputs"] == [] and cell["execution_count"] is None
        assert "injected-parameters" not in cell["metadata"].get("tags", [])
    assert "papermill" not in notebook["metadata"]
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"


@each_notebook
def test_parameters_are_literals_in_the_first_code_cell(path):
    cells = code_cells(path)
    tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    assert tagged == cells[:1]
    for node in ast.parse(source(tagged[0])).body:
        assert isinstance(node, ast.Assign)
        ast.literal_eval(node.value)


@each_notebook
def test_defaults_point_at_the_committed_campaign(path):
    assert 'study_path = "config/embedded.yaml"' in source(code_cells(path)[0])


@each_notebook
def test_starts_with_a_title_and_a_question(path):
    first = json.loads(path.read_text())["cells"][0]
    title, blank, *paragraph = "".join(first["source"]).splitlines()
    assert first["cell_type"] == "markdown"
    assert title.startswith("# ") and blank == "" and paragraph


def rules_of(path):
    """Return the rules that run a notebook: their names and their text."""
    blocks = re.split(r"^rule (\w+):\n", RULES, flags=re.MULTILINE)[1:]
    pairs = zip(blocks[::2], blocks[1::2], strict=True)
    return {name: text for name, text in pairs if f'notebooks/{path.name}"' in text}


@each_notebook
def test_a_rule_runs_it_with_parameters_that_it_has(path):
    rules = rules_of(path)
    assert len(rules) == 1
    (text,) = rules.values()
    passed = set(re.findall(r" -[rp] (\w+) ", text))
    assert "study_path" in passed
    assert passed <= set(parameter_names(path))
    # A parameter that no rule passes is one that nobody uses.
    assert set(parameter_names(path)) <= passed


def test_index_lists_every_notebook_with_its_parameters_and_rule():
    index = (ROOT / "notebooks" / "README.md").read_text()
    rows = {
        Path(target).name: row
        for row in index.splitlines()
        if row.startswith("| [")
        for target in re.findall(r"\]\(([^)]+)\)", row)
    }
    assert set(rows) == {path.name for path in NOTEBOOKS}
    for path in NOTEBOOKS:
        (rule,) = rules_of(path)
        assert f"`{rule}`" in rows[path.name]
        for name in parameter_names(path):
            assert f"`{name}`" in rows[path.name], f"{path.name}: {name}"
