"""A scan as a Python loop: the way it runs outside of programs.

>>> import funcgrad.numpy as fnp
>>> carry = CarrySpecs.of("scan", "init", 1.0)
>>> slices = ScannedArrays("scan", fnp.arange(3.0))
>>> looped(LoopSteps("scan", range(3)), lambda c, x: (c + x, c * x), carry, slices)
(Tensor(4.0), Tensor([0., 1., 4.]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import index as as_index
from typing import Any

import numpy as np

from funcgrad._control.carry import (
    CarrySpecs,
    alike,
    described_spec,
    pair_of,
    placed,
    placed_values,
)
from funcgrad._control.values import LoopSteps, stacked
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec, shape_of
from funcgrad._core.trace import Value, concrete, device_below
from funcgrad._core.users_values import REFUSALS, explained
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.structural import reshape, view
from funcgrad._programs.equation import as_spec, spec_inside
from funcgrad._transforms.arguments import is_whole
from funcgrad._transforms.auxiliary import WithAux
from funcgrad.errors import ArgumentError, DtypeError, FuncgradError, ShapeError, TreeError
from funcgrad.tensor.tensor import Tensor, wrap


class ScannedArrays:
    """The arrays that a scan goes through: their leaves, and a slice of each as a tree."""

    __slots__ = ("length", "operation", "structure", "values")

    def __init__(self, operation: str, xs: Any, length: int | None = None) -> None:
        leaves, self.structure = pytrees.flatten(xs)
        self.operation = operation
        self.values = placed_values(operation, leaves, self.structure, lambda: "xs")
        self.length = self._length(length)

    def over(self, values: Sequence[Value], length: int) -> ScannedArrays:
        """Replace the arrays by others in the same tree."""
        return ScannedArrays(self.operation, self.tree(values), length)

    def between(self, start: int, stop: int) -> ScannedArrays:
        """The slices from one number to another."""
        key = Key((slice(start, stop),))
        return self.over([view(x, key=key) for x in self.values], stop - start)

    def folded(self, count: int, size: int) -> ScannedArrays:
        """The first ``count * size`` slices as ``count`` slices of ``size`` rows."""
        first = self.between(0, count * size).values
        folded = [reshape(x, shape=(count, size, *shape_of(x)[1:])) for x in first]
        return self.over(folded, count)

    def _length(self, length: int | None) -> int:
        if length is not None and not is_whole(length):
            raise placed(
                ArgumentError, f"{self.operation}: length has to be a whole number, got {length!r}."
            )
        count, origin = (None, "") if length is None else (as_index(length), "length")
        if count is not None and count < 0:
            raise placed(
                ArgumentError, f"{self.operation}: length is {count}; it cannot be negative."
            )
        for value, path in zip(self.values, self.structure.paths(), strict=True):
            shape = shape_of(value)
            if not shape:
                raise placed(
                    ShapeError,
                    f"{self.operation}: xs{path} is a single number, and has no axis to loop over."
                    " Close over values that all steps share.",
                )
            if count is None:
                count, origin = shape[0], f"xs{path}"
            elif shape[0] != count:
                raise placed(
                    ShapeError,
                    f"{self.operation}: the lengths differ: {origin} has {count}, and xs{path}"
                    f" of shape {shape} has {shape[0]} on axis 0.",
                )
        if count is None:
            remedy = (
                "Pass the number of steps as length=."
                if self.operation == "scan"
                else "xs has no array."
            )
            raise placed(
                ArgumentError, f"{self.operation}: there is nothing to loop over. {remedy}"
            )
        return count

    @property
    def specs(self) -> list[Spec]:
        """The spec of a slice of each array: without axis 0."""
        array_specs = [spec_inside(value) for value in self.values]
        return [Spec(spec.shape[1:], spec.dtype) for spec in array_specs]

    def tree(self, values: Sequence[Value]) -> Any:
        """Return the slices of one step as the tree that the user's function gets."""
        return pytrees.unflatten(self.structure, [wrap(value) for value in values])

    def check_place(self, *results: Any) -> None:
        """Refuse a user's arrays of the host if the results of a step are on a device.

        Their slices may be numbers, which an operation takes along.

        Raises
        ------
        DeviceError
            The user passed an array of the host.
        """
        if not any(type(concrete(value)) is np.ndarray for value in self.values):
            return
        for leaf in pytrees.flatten(results)[0]:
            device = device_below(leaf) if isinstance(leaf, Tensor) else None
            if device is not None:
                device.refuse_arguments(self.operation)

    def at(self, step: int) -> Any:
        """Return the slices of one step."""
        return self.tree([value[step] for value in self.values])

    def iterate(self, steps: Iterable[int]) -> Iterator[Any]:
        """Iterate over the slices of some steps."""
        if not self.values:
            tree = self.tree(())
            return (tree for _ in steps)
        if pytrees.unflatten(self.structure, self.values) is self.values[0]:
            (value,) = self.values
            return (wrap(value[step]) for step in steps)
        return map(self.at, steps)


def looped(
    steps: LoopSteps,
    f: Callable[[Any, Any], Any],
    carried: CarrySpecs,
    slices: ScannedArrays,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Run a scan of at least one step; return its last carry and its stacked results."""
    operation = steps.operation
    ys: list[Any] = []
    carry = carried.tree()
    for x in slices.iterate(steps):
        out = f(carry, x)
        if type(out) is not tuple or len(out) != 2:
            pair_of(operation, out)
        if not alike(out[0], carry):
            again = WithAux(lambda first, x=x: pair_of(operation, f(first, x)))
            again.aux = out[1]
            carry = carried.next(out[0], f" at step {steps.number}", not ys, again)
            ys.append(again.aux)
        else:
            carry, y = out
            ys.append(y)
        if len(ys) == 1:
            slices.check_place(carry, ys)
    if reverse:
        ys.reverse()
    return carry, _stacked(operation, ys)


def _stacked(operation: str, ys: Sequence[Any]) -> Any:
    """Stack the results of all steps, leaf by leaf, along a new axis 0."""
    last = ys[-1]
    if last is None and ys.count(None) == len(ys):
        return None
    leaves, structure = pytrees.flatten(last)
    columns: Sequence[Sequence[Any]]
    if len(leaves) == 1 and leaves[0] is last:
        columns = [ys]
    else:
        columns = [*zip(*[_leaves(operation, structure, y) for y in ys], strict=True)]
    try:
        stacked = [
            _column(operation, column, path)
            for column, path in zip(columns, structure.paths(), strict=True)
        ]
    except REFUSALS as error:  # such as more axes than NumPy allows
        raise explained(error, operation, *leaves) from error
    return pytrees.unflatten(structure, [wrap(value) for value in stacked])


def _leaves(operation: str, structure: Structure, y: Any) -> list[Any]:
    try:
        return pytrees.flatten_like(structure, y, f"{operation}: the result of a step")
    except FuncgradError as error:
        raise placed(TreeError, f"{error}. All steps have to return the same tree.") from None


def _column(operation: str, leaves: Sequence[Any], path: str) -> Value:
    """Stack the values of one leaf at all steps; check that they have one shape and dtype."""
    place = pytrees.structure(leaves[0])
    values = [
        concrete(leaf)
        if isinstance(leaf, Tensor)
        else placed_values(operation, [leaf], place, lambda: f"y{path}")[0]
        for leaf in leaves
    ]
    last = values[-1]
    odd = [k for k, value in enumerate(values) if not alike(value, last)]
    if odd:
        specs = [spec_inside(values[k]) for k in (*odd, -1)]
        wanted = next((spec for spec in reversed(specs) if not spec.weak), specs[-1])
        for spec in specs:
            if spec.shape != wanted.shape or (spec.dtype != wanted.dtype and not spec.weak):
                error_class = ShapeError if spec.shape != wanted.shape else DtypeError
                raise placed(
                    error_class,
                    f"{operation}: the results of the steps{path} have to have one shape and dtype,"
                    f" but some are {described_spec(spec)} and some {described_spec(wanted)}.",
                )
        values = [as_spec(value, wanted) for value in values]
    return stacked(values, spec_inside(values[-1]))
