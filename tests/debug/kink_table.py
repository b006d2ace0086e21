"""Write the table of conventions: where public functions have kinks, and their derivatives there.

Nothing is listed by hand. The public functions of one or two arguments are called at the points of
a grid, and ``conventions`` reads from the declarations of their operations where these are at a
kink.

``python -m tests.debug.kink_table`` writes the page ``funcgrad/debug/KINKS.md``.

>>> import funcgrad.numpy as fnp
>>> for row in rows_of("numpy.sqrt", fnp.sqrt):
...     print(row)
| `numpy.sqrt(0)` | the end of its domain | inf | nan, inf | the limit from inside | 2 |
| `numpy.sqrt(-1)` | outside of its domain | nan |  | following the value | 3 |
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

import numpy as np

import funcgrad.debug as debug
import funcgrad.nn as nn
import funcgrad.numpy as array_functions
import funcgrad.scipy.special as special
from funcgrad.debug.conventions import OUTSIDE, POLE, Convention, conventions

PAGE: Final = Path(debug.__file__).parent / "KINKS.md"

_PLACES: Final = (
    *[(x,) for x in (0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, 6.0, -3.0)],
    *[(x, y) for x in (1.0, 0.0, -1.0) for y in (1.0, 0.0, 2.0)],
    *[(np.array(x),) for x in ([1.0, 1.0], [0.0, 0.0], [0.0, 1.0])],
    (np.zeros((2, 2)),),
    (np.eye(2),),
)
"""Points of the grid; of places of one kind the first one is in the table."""

_NAMESPACES: Final[Mapping[str, ModuleType]] = MappingProxyType(
    {
        "numpy": array_functions,
        "numpy.linalg": array_functions.linalg,
        "nn": nn,
        "scipy.special": special,
    }
)

_SOURCES: Final = (
    ("the limit from inside", 2),
    ("following the value", 3),
    ("the subgradient of least norm", 5),
    ("shared among equal elements", 6),
    ("with equal elements ordered", 6),
    ("the slope on both sides", 7),
    ("the slope on one side", 7),
    ("the limit", 1),
)
"""The principles of ``funcgrad/numpy/EDGES.md`` by how a rule begins."""

HEADER: Final = """\
# Conventions at kinks, ties, jumps and ends of domains

The points where public functions of one or two arguments are not smooth, the derivatives there,
and the slopes on both sides. A function that consists of several operations with kinks follows
their conventions and is not listed. Among several points of one kind, such as the integers, the
first one is listed. The last column is the principle of [`numpy/EDGES.md`](../numpy/EDGES.md) that
applies. `fg.debug.conventions(f, *args)` reports the same for your own functions.

`python -m tests.debug.kink_table` writes this page, from the declarations of the operations.

| function | place | derivative | slopes left, right | convention | principle |
|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    rows: list[str] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for path, functions in public_functions().items():
            rows += rows_of(path, functions)
    return HEADER + "\n".join(rows) + "\n"


def public_functions() -> dict[str, Callable[..., Any]]:
    """The public functions of the namespaces, by their paths; of aliases the first one."""
    functions: dict[str, Callable[..., Any]] = {}
    seen: set[int] = set()
    for namespace, module in _NAMESPACES.items():
        for name in sorted(module.__all__):
            function = getattr(module, name)
            if callable(function) and not isinstance(function, type) and id(function) not in seen:
                seen.add(id(function))
                functions[f"{namespace}.{name}"] = function
    return functions


def rows_of(path: str, function: Callable[..., Any]) -> Iterator[str]:
    """The rows of a function, one for each kind of place and convention.

    Functions that consist of several operations with kinks have none.
    """
    rows: dict[tuple[str, ...], str] = {}
    for args in _PLACES:
        try:
            listed = conventions(function, *args)
        except Exception:  # it takes other arguments
            continue
        for entry in listed:
            kind = entry.operation, entry.place, entry.rule
            if kind not in rows:
                rows[kind] = _row(f"{path}({', '.join(map(_text, args))})", entry)
    if len({operation for operation, *_ in rows}) == 1:
        yield from rows.values()


def _text(x: Any) -> str:
    if isinstance(x, float):
        return f"{x:g}"
    return str(np.asarray(x, int).tolist()) if (x == np.round(x)).all() else str(x.tolist())


def _row(call: str, entry: Convention) -> str:
    has_slopes = entry.place not in (POLE, OUTSIDE)
    slopes = f"{_slope(entry.left)}, {_slope(entry.right)}" if has_slopes else ""
    source = next((str(n) for start, n in _SOURCES if entry.rule.startswith(start)), "")
    name = call.partition("(")[0].rpartition(".")[2]
    inside = "" if entry.operation == name else f", of `{entry.operation}`"
    return (
        f"| `{call}` | {entry.place}{inside} | {entry.derivative:.4g} | {slopes} | {entry.rule} |"
        f" {source} |"
    )


def _slope(x: float) -> str:
    """A difference quotient in three digits; one that grows beyond all bounds is infinite."""
    return f"{np.copysign(np.inf, x) if abs(x) > 1e5 else x:.3g}"


if __name__ == "__main__":
    PAGE.write_text(page())
