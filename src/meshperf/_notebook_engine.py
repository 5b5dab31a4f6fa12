"""The papermill engine that runs cells in this process; import it through `meshperf.notebook`."""

from pathlib import Path
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbformat import v4
from papermill.engines import Engine, papermill_engines
from papermill.exceptions import PapermillExecutionError
from papermill.execute import execute_notebook
from traitlets.config import Config

from meshperf.errors import MeshperfError


def run(notebook_path: Path, output_path: Path, parameters: dict[str, Any]) -> None:
    """Execute a notebook with papermill; a cell's `MeshperfError` is raised again as it was."""
    InProcessEngine.user_error = None
    try:
        execute_notebook(
            str(notebook_path),
            str(output_path),
            parameters=parameters,
            engine_name="meshperf",
            kernel_name="python3",
            progress_bar=False,
            log_output=False,
        )
    except PapermillExecutionError:
        if InProcessEngine.user_error is not None:
            raise InProcessEngine.user_error from None
        raise


class InProcessEngine(Engine):
    """Runs the cells one after another in one IPython shell of this process."""

    #: The `MeshperfError` that ended the last execution, or None.
    user_error: MeshperfError | None = None

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, **_):
        """Run the code cells, store what they show, and stop at the first that raises."""
        shell = _new_shell()
        tracebacks: list[list[str]] = []
        shell._showtraceback = lambda _type, _value, lines: tracebacks.append(list(lines))
        for index, cell in enumerate(nb_man.nb.cells):
            if cell.cell_type != "code" or not cell.source.strip():
                continue
            nb_man.cell_start(cell, index)
            with capture_output() as captured:
                result = shell.run_cell(cell.source, store_history=True)
            cell.outputs = _outputs(captured, shell.displayhook.take(), result.execution_count)
            cell.execution_count = result.execution_count
            error = result.error_before_exec or result.error_in_exec
            if error is None:
                nb_man.cell_complete(cell, index)
                continue
            if isinstance(error, MeshperfError):
                cls.user_error = error
            traceback = tracebacks[-1] if tracebacks else []
            cell.outputs.append(
                v4.new_output("error", ename=type(error).__name__, evalue=str(error), traceback=traceback)
            )
            nb_man.cell_exception(cell, index, exception=error)
            break


papermill_engines.register("meshperf", InProcessEngine)


class _LastExpression(DisplayHook):
    """Keeps the value of a cell's last expression in all its formats, instead of printing its text."""

    def take(self) -> dict[str, dict] | None:
        """Return what was kept since the last call: formats and their metadata."""
        kept, self.kept = getattr(self, "kept", None), None
        return kept

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self.kept = {"data": format_dict, "metadata": md_dict or {}}


class _Shell(InteractiveShell):
    displayhook_class = _LastExpression

    def enable_gui(self, gui=None):
        """Do nothing: ``%matplotlib inline`` asks for no event loop, and there is none."""


def _new_shell() -> InteractiveShell:
    config = Config()
    config.HistoryManager.enabled = False  # a history file is shared by all processes of a user, and locked
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    return _Shell.instance(config=config)


def _outputs(captured, last, execution_count: int) -> list:
    outputs = [
        v4.new_output("stream", name=name, text=text)
        for name, text in (("stdout", captured.stdout), ("stderr", captured.stderr))
        if text
    ]
    shown = (v4.new_output("display_data", data=o.data, metadata=o.metadata) for o in captured.outputs)
    results = [v4.new_output("execute_result", execution_count=execution_count, **last)] if last else []
    return [*outputs, *shown, *results]
