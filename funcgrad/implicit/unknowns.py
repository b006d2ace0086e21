"""The unknown of an equation: a pytree. Solutions and residuals have its structure and specs.

>>> unknown, values = Unknown.of("custom_root", "initial_guess", {"x": 2.0})
>>> values, unknown.values({"x": 3.0}, "the solution")
([np.float64(2.0)], [np.float64(3.0)])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.linalg import LinAlgError

import funcgrad.numpy as fnp
from funcgrad import trees
from funcgrad.control.carry import placed
from funcgrad.control.choices import is_unknown
from funcgrad.control.values import as_spec, strong
from funcgrad.errors import (
    ConvergenceError,
    DegenerateError,
    DifferentiationError,
    DtypeError,
    FuncgradError,
    MatrixError,
    ShapeError,
    TracerError,
)
from funcgrad.programs.equation import spec_inside
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Spec, dtype_of, is_inexact, shape_of
from funcgrad.tensor import wrap
from funcgrad.trace import RAW, Value, concrete
from funcgrad.transforms.arguments import values_of
from funcgrad.trees import Structure
from funcgrad.users_values import described

Tree: TypeAlias = Any
"""A pytree of arrays, as users give and get it."""

Linear: TypeAlias = Callable[[Tree], Tree]
"""A linear function of pytrees."""

Solve: TypeAlias = Callable[[Linear, Tree], Tree]
"""From a linear function of pytrees and a right-hand side to the solution."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The kind of a pytree.

    Attributes
    ----------
    operation : str
        Who asks, for errors.
    structure : Structure
    specs : tuple of Spec
        Of its leaves; none is weak.
    """

    operation: str
    structure: Structure
    specs: tuple[Spec, ...]

    @classmethod
    def of(cls, operation: str, what: str, tree: Tree) -> tuple[Unknown, list[Value]]:
        """The kind of a tree, and its leaves.

        Raises
        ------
        DtypeError
            A leaf is an integer or a boolean.
        """
        leaves, structure = trees.flatten(tree)
        values = values_of(operation, leaves, structure, lambda: what)
        for place, value in enumerate(values):
            if not is_inexact(dtype_of(value)):
                raise DtypeError(
                    placed(
                        f"{operation}: {what}{structure.paths()[place]} is of dtype"
                        f" {dtype_of(value)}, in which no equation is solved. Pass floating-point"
                        " numbers: 1.0 rather than 1, x.astype(float)."
                    )
                )
        specs = tuple([strong(spec_inside(value)) for value in values])
        converted = [as_spec(value, spec) for value, spec in zip(values, specs, strict=True)]
        return cls(operation, structure, specs), converted

    def tree(self, values: Sequence[Value]) -> Any:
        """Values as the pytree that users see."""
        return trees.unflatten(self.structure, [wrap(value) for value in values])

    def missing(self) -> list[Value]:
        """NaN for each number."""
        return [np.full(spec.shape, np.nan, spec.dtype)[()] for spec in self.specs]

    def values(self, tree: Tree, what: str) -> list[Value]:
        """The leaves of another tree of this kind, in the dtypes of this one.

        Raises
        ------
        TreeError, ShapeError, DtypeError
            It is of another structure or shape, or complex where this is real.
        """
        leaves = trees.flatten_like(self.structure, tree, f"{self.operation}: {what}")
        values = values_of(self.operation, leaves, self.structure, lambda: what)
        for place, (value, spec) in enumerate(zip(values, self.specs, strict=True)):
            name = f"{self.operation}: {what}"
            if shape_of(value) != spec.shape:
                raise ShapeError(
                    placed(
                        f"{name}{self.structure.paths()[place]} has shape {shape_of(value)}, but"
                        f" has to have the shape of the unknown, {spec.shape}."
                    )
                )
            if dtype_of(value).kind == "c" and spec.dtype.kind != "c":
                raise DtypeError(
                    placed(
                        f"{name}{self.structure.paths()[place]} is complex, but the unknown is"
                        f" {spec.dtype}. Start with complex numbers, as by x.astype(complex), or"
                        " take .real."
                    )
                )
        return [as_spec(value, spec) for value, spec in zip(values, self.specs, strict=True)]

    def function(self, f: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
        """A function of values, whose results are of this kind, as one that users may call."""

        def called(tree: Tree) -> Any:
            return self.tree(f(self.values(tree, what)))

        return called


def solution_and_aux(operation: str, returned: Tree) -> tuple[Any, Any]:
    """Check that a solver with ``has_aux`` returned a pair, and return it."""
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise DifferentiationError(
            f"{operation}: with has_aux=True the solver has to return a pair (solution, aux), but"
            f" it returned {described(returned)}."
        )
    return returned[0], returned[1]


class AuxTree:
    """The tree of what a solver returns beside the solution, which is known when it has run."""

    __slots__ = ("_structure",)

    def values(self, operation: str, aux: Tree) -> list[Value]:
        """Flatten what a solver has returned."""
        leaves, self._structure = trees.flatten(aux)
        return values_of(operation, leaves, self._structure, lambda: "aux")

    def tree(self, values: Sequence[Value]) -> Tree:
        """Put values together to such a tree."""
        return trees.unflatten(self._structure, map(wrap, values))


def converged_or_nan(x: Tree, converged: Tree, message: str, failed: str = "raise") -> Any:
    """A solution, if it is one.

    Raises
    ------
    ConvergenceError
        It is known to be none. Where that is not known yet, or with ``failed="nan"``, what is none
        is NaN.
    """
    flag = concrete(fnp.asarray(converged))
    if failed == "raise" and not is_unknown(flag):
        if not bool(fnp.asarray(flag)):
            raise ConvergenceError(placed(message))
        return x
    return trees.map(lambda leaf: fnp.where(converged, leaf, np.nan), x)


def solved_or_nan(
    unknown: Unknown,
    solve: Callable[[Sequence[Value]], list[Value]],
    values: Sequence[Value],
    failed: str,
    right_hand_side: Sequence[Value] = (),
) -> list[Value]:
    """The values of a solution, or with ``failed="nan"`` NaN where a solver raises that it failed.

    A solver of another library is not asked for the solution of a right-hand side with NaN, which
    it may refuse.
    """
    if failed == "raise" or any(type(value) not in RAW for value in values):
        return solve(values)
    if any(bool(np.isnan(value).any()) for value in right_hand_side):
        return unknown.missing()
    try:
        return solve(values)
    except Exception as error:  # any, since libraries have classes of their own
        if not _is_failure(error):
            raise
    return unknown.missing()


def _is_failure(error: BaseException) -> bool:
    """Whether an error says that there is no solution, rather than that something is wrong.

    An error that a library raises since it met a traced value is of the second kind.
    """
    context = error.__context__
    while context is not None:
        if isinstance(context, TracerError):
            return False
        context = context.__context__
    if isinstance(error, FuncgradError):
        return isinstance(error, (ConvergenceError, DegenerateError, MatrixError))
    if isinstance(error, (RecursionError, NotImplementedError)):
        return False
    return isinstance(error, (LinAlgError, RuntimeError)) or type(error).__name__ == "NoConvergence"


def lost_with(solution: Sequence[Value], tangents: Sequence[Value]) -> list[Value]:
    """Tangents times 1, or times NaN where the solution has NaN: so cotangents are, too."""
    flags = [fnp.any(fnp.isnan(wrap(x))) for x in solution]
    lost = fnp.any(fnp.stack(flags)) if flags else False
    factor = fnp.where(lost, np.nan, 1.0)
    return [concrete(wrap(t) * factor.astype(dtype_of(t))) for t in tangents]


def without_info(unknown: Unknown, solution: Tree, failed: str = "raise") -> Any:
    """The solution in what a linear solver returned: itself, or a pair ``(x, info)``.

    Raises
    ------
    ConvergenceError
        ``info``, which is not 0, is known, and says that there is none. With ``failed="nan"``, and
        where it is not known, the solution is NaN.
    """
    if not isinstance(solution, tuple) or len(solution) != 2:
        return solution
    if trees.structure(solution) == unknown.structure:
        return solution
    x, info = solution
    if trees.structure(x) != unknown.structure or np.shape(info):
        return solution
    return converged_or_nan(
        x,
        fnp.asarray(info) == 0,
        f"{unknown.operation}: the linear solver has not come to its end: its info is not 0. Allow"
        " more steps or a greater tolerance, or use a preconditioner or another solver.",
        failed,
    )
