"""Runs the cells of a page as a kernel does, and records their outputs and errors.

``page_process.py`` starts it in a process of its own.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

Output = dict[str, Any]
"""An output of a cell, in the format of notebooks."""


class _Shown(DisplayPublisher):
    """Records the displays of a cell, such as pictures."""

    shell: PageShell

    def publish(
        self, data: Any, metadata: Any = None, source: Any = None, **_options: object
    ) -> None:
        output = {"output_type": "display_data", "data": data, "metadata": metadata or {}}
        self.shell.outputs.append(output)


class _LastValue(DisplayHook):
    """Records the value of the expression at the end of a cell."""

    shell: PageShell

    def write_output_prompt(self) -> None:
        """Write nothing: a page has no numbers of cells."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        count = self.prompt_count
        output = {"output_type": "execute_result", "execution_count": count, "data": format_dict}
        self.shell.outputs.append({**output, "metadata": md_dict or {}})

    def finish_displayhook(self) -> None:
        self._is_active = False


class _Cells(CachingCompiler):
    """Names a cell by its position, as in "cell 3", for messages."""

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        return f"cell {number}"


class _Stream(io.TextIOBase):
    """A stream of texts, ``stdout`` or ``stderr``."""

    def __init__(self, shell: PageShell, name: str) -> None:
        self._shell = shell
        self._name = name

    def write(self, text: str, /) -> int:
        outputs = self._shell.outputs
        if not outputs or outputs[-1].get("name") != self._name:
            outputs.append({"output_type": "stream", "name": self._name, "text": ""})
        outputs[-1]["text"] += text
        return len(text)


class PageShell(InteractiveShell):
    """A shell of IPython that keeps the outputs of a cell.

    Attributes
    ----------
    outputs : list of dict
        The outputs of the last cell.
    """

    compiler_class = Type(_Cells)
    display_pub_class = Type(_Shown)
    displayhook_class = Type(_LastValue)

    def __init__(self, **options: Any) -> None:
        self.outputs: list[Output] = []
        super().__init__(**options)

    def enable_gui(self, gui: Any = None) -> None:
        """Open no windows: pictures are outputs."""

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        output = {"output_type": "error", "ename": etype.__name__, "evalue": str(evalue)}
        self.outputs.append({**output, "traceback": stb})

    def run(self, code: str) -> list[Output]:
        """Run a cell, and return its outputs; the last one is its error if it has failed."""
        self.outputs = []
        self.run_cell(code, store_history=True)
        return self.outputs


def run(codes: Sequence[str], folder: str, results: Connection) -> None:
    """Run cells in a folder, and send the outputs of each."""
    os.chdir(folder)
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.xmode = "Minimal"
    shell = PageShell.instance(config=config)
    shell.enable_matplotlib("inline")
    sys.stdout, sys.stderr = _Stream(shell, "stdout"), _Stream(shell, "stderr")
    for code in codes:
        results.send(shell.run(code))
