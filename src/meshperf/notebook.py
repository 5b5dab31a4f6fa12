"""Execute a parameterised notebook: ``python -m meshperf.notebook NOTEBOOK --log FILE -p name value``.

This is papermill with three differences that a pipeline needs:

* an unknown parameter is an error (papermill only warns and runs with the default, so that a misspelt mesh
  would be measured as another one);
* the notebook is executed into a log and copied to its output only when it succeeded: a failed one is kept;
* the cells run in this process instead of in a kernel of their own. Every run of a campaign is one execution,
  and starting a kernel costs a second of each run that is not spent under load. The notebooks run unchanged
  in JupyterLab and under the ``papermill`` command; a test executes them that way, too.
"""

import ast
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from meshperf.errors import MeshperfError

#: Tag of the one cell that holds a notebook's parameters; papermill's own word.
PARAMETERS_TAG = "parameters"

_PATH = click.Path(path_type=Path)


def parameter_names(notebook_path: Path) -> tuple[str, ...]:
    """Return the names that a notebook's ``parameters`` cell assigns, in their order.

    Raises
    ------
    MeshperfError
        If the file is not a notebook, or has not exactly one cell tagged ``parameters``.
    """
    try:
        cells = json.loads(notebook_path.read_text(encoding="utf-8"))["cells"]
    except FileNotFoundError:
        raise MeshperfError(f"there is no notebook {notebook_path}: see notebooks/README.md") from None
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError):
        raise MeshperfError(f"{notebook_path} is not a notebook: restore it from git") from None
    tagged = [cell for cell in cells if PARAMETERS_TAG in cell.get("metadata", {}).get("tags", [])]
    if len(tagged) != 1:
        raise MeshperfError(
            f"{notebook_path} has {len(tagged)} cells tagged {PARAMETERS_TAG!r}: tag exactly one of its cells"
        )
    source = "".join(tagged[0]["source"])
    assignments = (node for node in ast.parse(source).body if isinstance(node, ast.Assign | ast.AnnAssign))
    targets = (
        target
        for node in assignments
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )
    return tuple(target.id for target in targets if isinstance(target, ast.Name))


def check_parameters(notebook_path: Path, names: set[str]) -> None:
    """Refuse parameter names that the notebook does not have.

    Raises
    ------
    MeshperfError
        If a name is unknown; the sentence lists the known ones.
    """
    known = parameter_names(notebook_path)
    unknown = sorted(names - set(known))
    if unknown:
        raise MeshperfError(
            f"{notebook_path} has no parameter {', '.join(map(repr, unknown))}: "
            f"its parameters are {', '.join(known)}"
        )


def execute(
    notebook_path: Path, *, log_path: Path, output_path: Path | None, parameters: Mapping[str, Any]
) -> None:
    """Execute a notebook with parameters.

    Parameters
    ----------
    notebook_path : Path
        The notebook; it is not changed.
    log_path : Path
        Where it is executed, saved after each cell; it stays if a cell fails, with the traceback.
    output_path : Path or None
        Where the executed notebook is copied when all cells succeeded.
    parameters : mapping of str to value
        Replaces the defaults of the notebook's ``parameters`` cell.

    Raises
    ------
    MeshperfError
        If a parameter is unknown, or if a cell raised one.
    papermill.exceptions.PapermillExecutionError
        If a cell raised anything else.
    """
    check_parameters(notebook_path, set(parameters))
    log_path.parent.mkdir(parents=True, exist_ok=True)
    engine = _import_engine()
    engine.run(notebook_path, log_path, dict(parameters))
    if output_path is not None:
        output_path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log_path, output_path)


def write_html(executed_path: Path, html_path: Path) -> None:
    """Write an executed notebook as one HTML page that needs no other file, for the annex of the report."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(exclude_input_prompt=True, exclude_output_prompt=True)
    body, _ = exporter.from_filename(str(executed_path))
    html_path.parent.mkdir(parents=True, exist_ok=True)
    html_path.write_text(body, encoding="utf-8")


def _import_engine():
    """Import the engine without what papermill's dependencies load and this use never needs."""
    # None in sys.modules makes an import fail as if the package were absent. jsonschema would use the first to
    # check the "iri" format, which no notebook has, and compiles its grammar for 0.6 s of each run; papermill
    # would lay out the injected parameters with the second.
    for name in ("rfc3987_syntax", "black"):
        sys.modules.setdefault(name, None)
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    from meshperf import _notebook_engine

    return _notebook_engine


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("notebook", type=_PATH)
@click.option(
    "--log", "log_path", type=click.Path(path_type=Path), required=True, help="where it is executed"
)
@click.option(
    "--output", "output_path", type=click.Path(path_type=Path), help="where it is copied on success"
)
@click.option("--html", "html_path", type=click.Path(path_type=Path), help="the executed notebook as a page")
@click.option("-p", "values", nargs=2, multiple=True, metavar="NAME VALUE", help="a parameter; VALUE is JSON")
@click.option("-r", "strings", nargs=2, multiple=True, metavar="NAME TEXT", help="a parameter that is text")
def main(notebook, log_path, output_path, html_path, values, strings):
    """Execute NOTEBOOK with parameters."""
    try:
        parameters = {name: _read_json(name, value) for name, value in values} | dict(strings)
        execute(notebook, log_path=log_path, output_path=output_path, parameters=parameters)
        if html_path is not None:
            write_html(output_path or log_path, html_path)
    except MeshperfError as error:
        click.echo(f"meshperf: {error}", err=True)
        sys.exit(2)
    except Exception as error:
        if type(error).__name__ != "PapermillExecutionError":
            raise
        click.echo(
            f"{error}\nmeshperf: {notebook} failed; it is kept, with the traceback, as {log_path}", err=True
        )
        sys.exit(1)


def _read_json(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        raise MeshperfError(
            f"parameter {name} is {value!r}, which is no JSON: give text with -r, numbers with -p"
        ) from None


if __name__ == "__main__":
    main()
