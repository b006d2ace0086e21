"""The unknown of an equation: the structure and specs that solutions and residuals share.

>>> unknown, values = Unknown.read("custom_root", "initial_guess", {"x": 2.0})
>>> values, unknown.values({"x": 3.0}, "the solution")
([np.float64(2.0)], [np.float64(3.0)])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.linalg import LinAlgError

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.carry import placed
from funcgrad._control.choices import is_unknown
from funcgrad._control.values import strong
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec, dtype_of, is_inexact, shape_of
from funcgrad._core.trace import RAW, Value, concrete
from funcgrad._core.users_values import described
from funcgrad._programs.equation import as_spec, spec_inside
from funcgrad._transforms.arguments import values_of
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
from funcgrad.tensor.tensor import wrap

Tree: TypeAlias = Any
"""A pytree of arrays, as users pass it and get it back."""

Linear: TypeAlias = Callable[[Tree], Tree]
"""A linear function of pytrees."""

Solve: TypeAlias = Callable[[Linear, Tree], Tree]
"""``(linear function of pytrees, right-hand side) -> solution``."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The structure and specs of the pytree for which an equation is solved.

    Attributes
    ----------
    operation : str
        The name of the public function, for errors.
    structure : Structure
    specs : tuple of Spec
        The specs of the leaves; none is weak.
    """

    operation: str
    structure: Structure
    specs: tuple[Spec, ...]

    @classmethod
    def read(cls, operation: str, argument: str, tree: Tree) -> tuple[Unknown, list[Value]]:
        """Make the unknown from a tree such as the starting point; return it and the leaves.

        Raises
        ------
        DtypeError
            A leaf is an integer or a boolean.
        """
        leaves, structure = pytrees.flatten(tree)
        values = values_of(operation, leaves, structure, lambda: argument)
        for place, value in enumerate(values):
            if not is_inexact(dtype_of(value)):
                raise placed(
                    DtypeError,
                    f"{operation}: the dtype of {argument}{structure.paths()[place]} is"
                    f" {dtype_of(value)}, but the unknown of an equation has to be"
                    " floating-point. Pass 1.0 rather than 1, or x.astype(float).",
                )
        specs = tuple([strong(spec_inside(value)) for value in values])
        converted = [as_spec(value, spec) for value, spec in zip(values, specs, strict=True)]
        return cls(operation, structure, specs), converted

    def tree(self, values: Sequence[Value]) -> Any:
        """Make the pytree that users see, from values."""
        return pytrees.unflatten(self.structure, [wrap(value) for value in values])

    def missing(self) -> list[Value]:
        """Return NaN for every element of the unknown."""
        return [np.full(spec.shape, np.nan, spec.dtype)[()] for spec in self.specs]

    def values(self, tree: Tree, argument: str) -> list[Value]:
        """Check a tree against the unknown; return its leaves, in the dtypes of the unknown.

        Raises
        ------
        TreeError, ShapeError, DtypeError
            The tree has another structure or shape, or is complex while the unknown is real.
        """
        leaves = pytrees.flatten_like(self.structure, tree, f"{self.operation}: {argument}")
        values = values_of(self.operation, leaves, self.structure, lambda: argument)
        for place, (value, spec) in enumerate(zip(values, self.specs, strict=True)):
            name = f"{self.operation}: {argument}"
            if shape_of(value) != spec.shape:
                raise placed(
                    ShapeError,
                    f"{name}{self.structure.paths()[place]} has shape {shape_of(value)}, but"
                    f" has to have the shape of the unknown, {spec.shape}.",
                )
            if dtype_of(value).kind == "c" and spec.dtype.kind != "c":
                raise placed(
                    DtypeError,
                    f"{name}{self.structure.paths()[place]} is complex, but the unknown is"
                    f" {spec.dtype}. Start with complex numbers, as with x.astype(complex), or take"
                    " .real.",
                )
        return [as_spec(value, spec) for value, spec in zip(values, self.specs, strict=True)]

    def function(self, f: Callable[[Any], Any], argument: str) -> Callable[[Any], Any]:
        """Convert a function of lists of values to a function of pytrees, for users."""

        def called(tree: Tree) -> Any:
            return self.tree(f(self.values(tree, argument)))

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
    """The structure of ``aux``, the solver's second result; known after the solver has run."""

    __slots__ = ("_structure",)

    def values(self, operation: str, aux: Tree) -> list[Value]:
        """Flatten the ``aux`` that a solver has returned."""
        leaves, self._structure = pytrees.flatten(aux)
        return values_of(operation, leaves, self._structure, lambda: "aux")

    def tree(self, values: Sequence[Value]) -> Tree:
        """Make an ``aux`` of values."""
        return pytrees.unflatten(self._structure, map(wrap, values))


def converged_or_nan(x: Tree, converged: Tree, message: str, failed: str = "raise") -> Any:
    """Return a solution if the solver converged, else raise or return NaN.

    Raises
    ------
    ConvergenceError
        The solver has not converged. Inside ``jit``, or with ``failed="nan"``, the solution is NaN
        instead.
    """
    flag = concrete(fnp.asarray(converged))
    if failed == "raise" and not is_unknown(flag):
        if not bool(fnp.asarray(flag)):
            raise placed(ConvergenceError, message)
        return x
    return pytrees.map(lambda leaf: fnp.where(converged, leaf, np.nan), x)


def solved_or_nan(
    unknown: Unknown,
    solve: Callable[[Sequence[Value]], list[Value]],
    values: Sequence[Value],
    failed: str,
    right_hand_side: Sequence[Value] = (),
) -> list[Value]:
    """Solve; with ``failed="nan"`` return NaN if the solver raises a convergence error.

    Then a right-hand side with NaN is not passed to the solver, because solvers may refuse it.
    """
    if failed == "raise" or any(type(value) not in RAW for value in values):
        return solve(values)
    if any(bool(np.isnan(value).any()) for value in right_hand_side):
        return unknown.missing()
    try:
        return solve(values)
    except Exception as error:  # libraries have their own classes of errors
        if not _is_failure(error):
            raise
    return unknown.missing()


def _is_failure(error: BaseException) -> bool:
    """Whether an error reports a missing solution, rather than a wrong call.

    An error that a library raises on a tracer is a wrong call.
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
    """Multiply tangents by 1, or by NaN if the solution has NaN; so are cotangents."""
    flags = [fnp.any(fnp.isnan(wrap(x))) for x in solution]
    lost = fnp.any(fnp.stack(flags)) if flags else False
    factor = fnp.where(lost, np.nan, 1.0)
    return [concrete(wrap(t) * factor.astype(dtype_of(t))) for t in tangents]


def without_info(unknown: Unknown, solution: Tree, failed: str = "raise") -> Any:
    """Extract x if a linear solver returned a pair ``(x, info)``; otherwise return the solution.

    Raises
    ------
    ConvergenceError
        ``info`` is not 0. Inside ``jit``, or with ``failed="nan"``, the solution is NaN instead.
    """
    if not isinstance(solution, tuple) or len(solution) != 2:
        return solution
    if pytrees.structure(solution) == unknown.structure:
        return solution
    x, info = solution
    if pytrees.structure(x) != unknown.structure or np.shape(info):
        return solution
    return converged_or_nan(
        x,
        fnp.asarray(info) == 0,
        f"{unknown.operation}: the linear solver did not converge: its info is not 0. Allow more"
        " steps or a greater tolerance, or use a preconditioner or another solver.",
        failed,
    )
