"""Summaries of models: the shape, size and cost of each array.

>>> import funcgrad as fg
>>> from funcgrad import nn
>>> model = nn.MLP.init(fg.random.key(0), (3, 8, 2))
>>> print(summary(model, (5, 3)))
MLP: 50 numbers in 4 arrays, 490 operations
<BLANKLINE>
  path              shape   dtype    count  operations
  layers[0].weight  (3, 8)  float64     24         240
  layers[0].bias    (8,)    float64      8          40
  layers[1].weight  (8, 2)  float64     16         160
  layers[1].bias    (2,)    float64      2          10
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.html import text_table
from funcgrad._core import pytrees
from funcgrad._core.specs import Shape, Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import Movement
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._passes.costs import equation_costs
from funcgrad._programs.inline import inlined
from funcgrad.nn.layer_parts import function_option
from funcgrad.nn.recipes import applied_program, call_layer, spec_of_input


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One array of a model.

    Attributes
    ----------
    path : str
    shape : tuple of int
    dtype : numpy.dtype
    count : int
        The number of elements.
    operations : int or None
        The arithmetic operations that use the array, as ``jit(f).lower(...).costs`` counts them;
        None without specs, or if they cannot be counted.
    """

    path: str
    shape: Shape
    dtype: np.dtype[Any]
    count: int
    operations: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A table of the arrays of a model; ``print`` shows it.

    Attributes
    ----------
    name : str
    rows : tuple of SummaryRow
    operations : int or None
        The arithmetic operations of a call; None without specs.
    """

    name: str
    rows: tuple[SummaryRow, ...]
    operations: int | None

    @property
    def count(self) -> int:
        """The number of elements of all arrays."""
        return sum([row.count for row in self.rows])

    def _head(self) -> str:
        least = "at least " * any(row.operations is None for row in self.rows)
        total = "" if self.operations is None else f", {least}{self.operations:,} operations"
        return f"{self.name}: {self.count:,} numbers in {len(self.rows)} arrays{total}"

    def _table(self) -> list[tuple[str, ...]]:
        """Return the titles of the columns, and the rows."""
        table: list[tuple[str, ...]] = [("path", "shape", "dtype", "count", "operations")]
        for row in self.rows:
            unknown = "" if self.operations is None else "?"
            costs = unknown if row.operations is None else f"{row.operations:,}"
            table.append((row.path, str(row.shape), str(row.dtype), f"{row.count:,}", costs))
        return table

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        return text_table(self._head(), self._table())

    def __str__(self) -> str:
        head, table = self._head(), self._table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                [
                    cell.ljust(width) if place < 3 else cell.rjust(width)
                    for place, (cell, width) in enumerate(zip(row, widths, strict=True))
                ]
            )
            for row in table
        ]
        return "\n".join([head, "", *[f"  {line}".rstrip() for line in lines]])


def summary(model: Callable[..., Any], *specs: ArrayLike) -> Summary:
    """List the arrays of a model, their sizes, and the cost of applying them.

    Parameters
    ----------
    model : layer
        A layer, or any pytree; with specs, a layer that is called with arrays.
    *specs : tuple of int, or array_like
        Shapes of the inputs, as for ``build``. Nothing is computed. Without specs the table has no
        operations.

    Returns
    -------
    Summary
        ``print`` shows a table; ``rows``, ``count`` and ``operations`` hold its values.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from funcgrad import nn
    >>> summary(nn.Linear.init(fg.random.key(0), 784, 10)).count
    7850
    """
    leaves = pytrees.leaves_with_path(model)
    for path, leaf in leaves:
        operand(leaf, f"summary: model{pytrees.key_path_text(path)}")
    if specs:
        function_option(model, "summary", "a model that is applied to specs")
    costs: list[int | None] = [None] * len(leaves)
    total = None
    if specs:
        inputs = tuple([spec_of_input(x, "summary") for x in specs])
        costs, total = _operations(model, [leaf for _, leaf in leaves], inputs)
    rows = [
        SummaryRow(
            pytrees.key_path_text(path).removeprefix("."),
            shape_of(leaf),
            dtype_of(leaf),
            prod(shape_of(leaf)),
            cost,
        )
        for (path, leaf), cost in zip(leaves, costs, strict=True)
    ]
    return Summary(type(model).__name__, tuple(rows), total)


def _operations(
    model: Callable[..., Any], leaves: list[Any], inputs: tuple[Spec, ...]
) -> tuple[list[int | None], int]:
    """Count the arithmetic of operations that take each leaf or a view of it, and the total."""
    form = pytrees.structure(model)

    def applied(*arrays: ArrayLike) -> Any:
        return call_layer(pytrees.unflatten(form, arrays[: len(leaves)]), *arrays[len(leaves) :])

    specs = (*[Spec(shape_of(leaf), dtype_of(leaf)) for leaf in leaves], *inputs)
    program = inlined(applied_program(applied, specs, "summary"))
    sources = {variable: variable for variable in range(len(leaves))}
    costs: list[int | None] = [0] * len(leaves)
    total, known = 0, program.specs()
    for equation, results in zip(program.equations, program.index.results, strict=True):
        operations = equation_costs(equation, known).arithmetic
        total += operations or 0
        for variable in {*equation.operands} & {*sources}:
            if isinstance(equation.operation.structure, Movement):
                sources.update(dict.fromkeys(results, sources[variable]))
            else:
                before = costs[sources[variable]]
                costs[sources[variable]] = (
                    None if operations is None or before is None else before + operations
                )
    return costs, total
