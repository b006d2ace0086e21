"""The table of the page about edges: ``python -m tests.edges.page`` writes it.

The table is in ``funcgrad/numpy/EDGES.md``, after the line ``BEGIN``. A test keeps it up to date.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from tests.edges.exceptions import AT_INFINITY, EXCUSES
from tests.edges.policy import POLICY

PAGE = Path(fnp.__file__).parent / "EDGES.md"
BEGIN = "<!-- Written by python -m tests.edges.page from here on. -->\n"


def _number(x: float) -> str:
    return f"{float(x):.4g}"


def _written(x: Any) -> str:
    if x is None:
        return ""
    if np.ndim(x):
        return f"({', '.join(map(_number, x))})"
    return _number(x)


def _rows() -> Iterator[str]:
    yield "| function | at | value | first derivative | second derivative | why |"
    yield "|---|---|---|---|---|---|"
    for edge in POLICY:
        cells = [_written(x) for x in (edge.at, edge.value, edge.first, edge.second)]
        yield f"| `{edge.name}` | {' | '.join(cells)} | {edge.why} |"
    yield ""
    yield "| excused from a law at some points | because there |"
    yield "|---|---|"
    yield from _reasons({name: excuse.why for name, excuse in EXCUSES.items()})
    yield ""
    yield "| values at infinity that differ from 1e300 | because |"
    yield "|---|---|"
    yield "| each of `special` | SciPy's value is NaN, though the function has a limit |"
    yield from _reasons({name: excuse.why for name, excuse in AT_INFINITY.items()})


def _reasons(reasons: Mapping[str, str]) -> Iterator[str]:
    """A row of functions with the same reason."""
    names: dict[str, list[str]] = {}
    for name, why in reasons.items():
        names.setdefault(why, []).append(f"`{name}`")
    for why, functions in names.items():
        yield f"| {' '.join(functions)} | {why} |"


def table() -> str:
    """The text of the policy at edges, and of the functions that are excused from the laws."""
    return "\n".join([*_rows(), ""])


def main() -> None:
    """Write the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.partition(BEGIN)[0] + BEGIN + "\n" + table(), encoding="utf-8")


if __name__ == "__main__":
    main()
