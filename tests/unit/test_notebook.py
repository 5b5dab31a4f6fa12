"""Executing a notebook with parameters: what is refused, what is kept, and what it shows."""

import json
import subprocess
import sys

import nbformat
import pytest
from nbformat import v4

from meshperf import notebook
from meshperf.errors import MeshperfError


@pytest.fixture
def write(tmp_path):
    """Write a notebook of a parameters cell and others, and return its path."""

    def write(*sources, parameters="mesh = 'baseline'\nrps = 100  # requests per second"):
        first = v4.new_code_cell(parameters)
        first.metadata["tags"] = ["parameters"]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        cells = [first, *map(v4.new_code_cell, sources)]
        path = tmp_path / "example.ipynb"
        nbformat.write(v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
        return path

    return write


def run(path, *arguments):
    log = path.with_name("log.ipynb")
    return subprocess.run(
        [sys.executable, "-m", "meshperf.notebook", str(path), "--log", str(log), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def outputs(path):
    return [cell.outputs for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_parameter_names_are_those_assigned(write):
    path = write(parameters="a = 1\nb: int = 2  # with a type\n# c = 3")
    assert notebook.parameter_names(path) == ("a", "b")


def test_an_unknown_parameter_is_refused_in_one_sentence(write):
    path = write("print(mesh)")
    finished = run(path, "-r", "mehs", "istio")
    assert finished.returncode == 2
    assert finished.stderr == f"meshperf: {path} has no parameter 'mehs': its parameters are mesh, rps\n"
    assert not path.with_name("log.ipynb").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "is not a notebook"), ('{"cells": []}', "has 0 cells tagged"), (None, "there is no notebook")],
)
def test_what_is_no_parameterised_notebook_is_refused(tmp_path, content, words):
    path = tmp_path / "example.ipynb"
    if content is not None:
        path.write_text(content)
    with pytest.raises(MeshperfError, match=words):
        notebook.parameter_names(path)


def test_text_stays_text_and_numbers_are_numbers(write):
    path = write("print(repr(mesh), repr(rps))")
    finished = run(
        path, "-r", "mesh", "007", "-p", "rps", "200", "--output", str(path.with_name("out.ipynb"))
    )
    assert finished.returncode == 0, finished.stderr
    printed = outputs(path.with_name("out.ipynb"))[-1][0].text
    assert printed == "'007' 200\n"


def test_a_value_that_is_no_json_is_refused(write):
    finished = run(write(), "-p", "rps", "istio")
    assert finished.returncode == 2
    assert "give text with -r" in finished.stderr


def test_defaults_hold_where_nothing_is_passed(write):
    path = write("print(mesh, rps)")
    assert run(path).returncode == 0
    assert outputs(path.with_name("log.ipynb"))[-1][0].text == "baseline 100\n"


def test_a_failed_notebook_is_kept_in_the_log_and_not_in_the_output(write):
    path = write("print('before')", "1 / 0", "print('after')")
    out = path.with_name("out.ipynb")

    finished = run(path, "--output", str(out))

    assert finished.returncode == 1
    assert "ZeroDivisionError" in finished.stderr
    assert not out.exists()
    kept = [output for cell in outputs(path.with_name("log.ipynb")) for output in cell]
    assert kept[0].text == "before\n"
    assert [output.ename for output in kept if output.output_type == "error"] == ["ZeroDivisionError"]
    assert "after" not in json.dumps(kept)


def test_a_users_mistake_in_a_cell_is_its_sentence_and_no_more(write):
    path = write(
        "from meshperf.errors import MeshperfError\nraise MeshperfError('the study is empty: fill it')"
    )
    finished = run(path)
    assert finished.returncode == 2
    assert finished.stderr.strip() == "meshperf: the study is empty: fill it"


def test_shows_what_a_kernel_shows(write):
    path = write(
        "%matplotlib inline",
        "import pandas as pd\nfrom IPython.display import display\ndisplay(1)\nprint('text')\npd.DataFrame({'a': [7]})",
        "from matplotlib.figure import Figure\nfigure = Figure()\nfigure.add_subplot()\nfigure",
        "'silent';",
    )
    page = path.with_name("page.html")

    finished = run(path, "--html", str(page))

    assert finished.returncode == 0, finished.stderr
    _, _, table, figure, silent = outputs(path.with_name("log.ipynb"))
    kinds = [(output.output_type, sorted(output.get("data", {}))) for output in table]
    assert ("stream", []) in kinds
    assert ("display_data", ["text/plain"]) in kinds
    assert kinds[-1] == ("execute_result", ["text/html", "text/plain"])
    assert "image/png" in figure[0].data
    assert silent == []
    assert "<table" in page.read_text()


def test_starts_without_what_it_does_not_need(write):
    path = write(
        "import sys\nprint(sorted({'pandas', 'matplotlib', 'jupyterlab', 'lark'} & set(sys.modules)))"
    )
    assert run(path).returncode == 0
    assert outputs(path.with_name("log.ipynb"))[-1][0].text == "[]\n"
