"""The cells of a page run in a process of their own, with the outputs that a kernel gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell, new_notebook

from examples.docs.building.page_process import run

pytestmark = pytest.mark.slow

CODES = (
    "import sys\nprint(sys._getframe().f_code.co_filename)\nprint('c', file=sys.stderr)\n1 + 1",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
    "class Drawn:\n    def _repr_svg_(self):\n        return '<svg></svg>'\n\nDrawn()",
    "import pickle\nassert pickle.loads(pickle.dumps(Drawn)) is Drawn\n_;",
    "open('file', 'w').write('text')\nx.y",
)


def notebook(*codes: str, tags: tuple[str, ...] = ()) -> Any:
    cells = [new_code_cell(code) for code in codes]
    cells[-1].metadata.tags = list(tags)
    return new_notebook(cells=cells)


def test_outputs_are_those_of_a_kernel(tmp_path: Path) -> None:
    page = notebook(*CODES, tags=("raises-exception",))
    result = run(page, str(tmp_path), 60)
    assert result.err is None
    printed, picture, drawn, nothing, failed = [cell.outputs for cell in page.cells]
    assert [(o.name, o.text) for o in printed[:2]] == [("stdout", "cell 1\n"), ("stderr", "c\n")]
    assert printed[2].output_type == "execute_result"
    assert printed[2].data == {"text/plain": "2"}
    assert [o.output_type for o in picture] == ["display_data"]
    assert picture[0].data["image/png"].startswith("iVBOR")
    assert drawn[0].data["image/svg+xml"] == "<svg></svg>"
    assert not nothing
    assert (failed[0].ename, failed[0].evalue) == ("NameError", "name 'x' is not defined")
    assert "line" not in "".join(failed[0].traceback), "the message only"
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize(
    ("code", "timeout", "kind"),
    [("x", 60, CellExecutionError), ("import time\ntime.sleep(60)", 3, CellTimeoutError)],
)
def test_a_cell_that_fails_is_told(
    tmp_path: Path, code: str, timeout: int, kind: type[Exception]
) -> None:
    assert run(notebook("x = 1"), str(tmp_path), 60).err is None  # pages share nothing
    result = run(notebook(code), str(tmp_path), timeout)
    assert isinstance(result.err, kind)
    assert code in str(result.exc_string)


def test_a_process_that_ends_is_told(tmp_path: Path) -> None:
    with pytest.raises(DeadKernelError, match="_exit"):
        run(notebook("import os\nos._exit(3)"), str(tmp_path), 60)
