"""The cells of each page run in a process of their own: a Sphinx extension.

A kernel for each page would take one to two seconds of processor time to start and to import the
library. Here a server imports the library once, and forks for each page.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from jupyter_cache.executors.utils import ExecutionResult
from myst_nb.core.execute import cache
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode, from_dict

from examples.docs.building import page_shell

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LANGUAGE = {"name": "python", "pygments_lexer": "ipython3"}
PRELOADED = [
    page_shell.__name__,
    *(f"funcgrad.{name}" for name in ("debug", "integrate", "nn", "optim", "optimize", "random")),
    "funcgrad.scipy.stats",
    "llvmlite.binding",
    "matplotlib_inline.backend_inline",
    "scipy.special",
    "scipy.stats",
]
"""The modules that the server imports, since many pages use them."""


def setup(_app: Sphinx) -> dict[str, bool]:
    """Run pages here, in place of a kernel."""
    cache.single_nb_execution = run
    return {"parallel_read_safe": True}


def run(notebook: NotebookNode, cwd: str, timeout: int, **_options: object) -> ExecutionResult:
    """Run the cells of a notebook, and write their outputs into it.

    The result has an error if a cell raises that is not tagged ``raises-exception``, or takes
    longer than ``timeout`` seconds.
    """
    start = time.perf_counter()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    notebook.metadata["language_info"] = LANGUAGE
    error = None
    try:
        _fill(cells, cwd, timeout)
    except (CellExecutionError, CellTimeoutError) as raised:
        error = raised
    return ExecutionResult(notebook, cwd, time.perf_counter() - start, error, str(error))


def _fill(cells: Sequence[Any], folder: str, timeout: int) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    results, end = context.Pipe(duplex=False)
    codes = [cell.source for cell in cells]
    process = context.Process(target=page_shell.run, args=(codes, folder, end))
    process.start()
    end.close()
    try:
        for count, cell in enumerate(cells, 1):
            cell.execution_count = count
            cell.outputs = _outputs(cell, results, timeout)
        process.join(timeout)
    finally:
        process.kill()
        process.join()


def _outputs(cell: Any, results: Connection, timeout: int) -> list[Any]:
    if not results.poll(timeout):
        raise CellTimeoutError(f"A cell took longer than {timeout} s:\n{cell.source}")
    try:
        outputs: list[Any] = [from_dict(output) for output in results.recv()]
    except EOFError as error:
        raise DeadKernelError(f"The process ended in a cell:\n{cell.source}") from error
    failed = outputs and outputs[-1].output_type == "error"
    if failed and "raises-exception" not in cell.metadata.get("tags", ()):
        raise CellExecutionError.from_cell_and_msg(cell, {**outputs[-1], "status": "error"})
    return outputs
