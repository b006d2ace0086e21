"""``custom_linear_solve``: solve a linear system with any solver.

With A x = b the tangent of x solves A dx = db - dA x, and the cotangent of b solves the adjoint
system: the solver itself is not differentiated.

>>> import funcgrad as fg
>>> def solution(a, b):
...     return custom_linear_solve(lambda x: a * x, b, lambda matvec, b: b / matvec(1.0))
>>> fg.grad(solution, argnums=(0, 1))(2.0, 6.0)
(Tensor(-1.5), Tensor(0.5))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.closures import with_closed_values
from funcgrad._core.specs import dtype_of, is_inexact
from funcgrad._core.trace import Value, concrete
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.composite import bind_composite
from funcgrad._transforms.factors import fit_tangent, zeros_like
from funcgrad._transforms.flat_functions import push_values
from funcgrad._transforms.linear import linear_transpose
from funcgrad.errors import DifferentiationError
from funcgrad.implicit.direct import failing_as
from funcgrad.implicit.solution_call import SolutionCall, SolutionSignature, solution_of
from funcgrad.implicit.unknowns import (
    AuxTree,
    Solve,
    Tree,
    Unknown,
    lost_with,
    solution_and_aux,
    solved_or_nan,
    without_info,
)
from funcgrad.numpy.options import failed_as
from funcgrad.tensor.tensor import wrap

FlatMap: TypeAlias = Callable[[Sequence[Value]], Sequence[Value]]


@watched
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Tree,
    solve: Solve,
    transpose_solve: Solve | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
    *,
    failed: str = "raise",
) -> Any:
    """Solve a linear system with a solver of your choice, and differentiate the solution.

    Use it if you have a fast solver for A (banded, FFT, iterative, SciPy's). With A x = b the
    tangent of x solves A dx = db - dA x, and reverse mode solves the adjoint system; the steps of
    the solver are not differentiated. For ready-made solvers see ``funcgrad.scipy.sparse.linalg``.

    Parameters
    ----------
    matvec : callable
        The linear function that maps x to A x, both pytrees like ``b``. Derivatives flow into the
        values that it closes over.
    b : pytree of floating or complex arrays
        The right-hand side.
    solve : callable
        ``solve(matvec, b)`` returns the solution, a pytree like ``b``. A solver written in
        funcgrad's functions is compiled and batched. Any other solver is called with NumPy arrays,
        for each example of a batch. It may also return a pair ``(solution, info)``, as ``cg`` and
        SciPy's solvers do: if ``info`` is not 0, a ``ConvergenceError`` is raised, or inside
        ``jit`` the solution is NaN.
    transpose_solve : callable, optional
        ``transpose_solve(vecmat, b)`` solves the adjoint system; ``vecmat`` is the adjoint of
        ``matvec``. By default ``solve`` solves it.
    symmetric : bool
        Whether A is symmetric (complex: Hermitian); then ``solve`` gets ``matvec`` for both
        systems.
    has_aux : bool
        Whether ``solve`` returns a pair ``(solution, aux)``. Then the pair is returned; ``aux`` is
        a pytree of arrays without derivatives.
    failed : {"raise", "nan"}
        The behaviour if a solver reports a failure, by ``info`` or by an exception (singular
        matrix, no convergence). "raise" raises an error (outside ``jit`` and ``vmap``); "nan" makes
        the solution and all of its derivatives NaN. With ``has_aux`` an exception of ``solve`` is
        always raised, because ``aux`` is missing.

    Returns
    -------
    pytree
        The solution x of A x = b, a pytree like ``b``; with ``has_aux`` the pair.

    Raises
    ------
    TreeError, ShapeError
        The result of ``matvec`` or of the solver is not like ``b``.
    DtypeError
        ``b`` is an integer, or the solution is complex and ``b`` real.
    DifferentiationError
        ``matvec`` is not linear, and its adjoint is needed.
    ConvergenceError
        ``info`` is not 0, and ``failed`` is "raise".
    ArgumentError
        ``failed`` is unknown.

    See Also
    --------
    custom_root : solves nonlinear equations.
    funcgrad.scipy.sparse.linalg : solvers built on this function.

    Notes
    -----
    Both modes call the same solver, so derivatives are as accurate as the solver. The adjoint is
    the conjugate transpose (under the inner product Re<u, v>). Values that the solver closes over,
    such as a preconditioner or a starting point, have no derivative.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def solve(matvec, b):  # A is diagonal
    ...     return b / matvec(fnp.ones(2))
    >>> def solution(a):
    ...     return fg.custom_linear_solve(lambda x: a * x, fnp.ones(2), solve, symmetric=True)
    >>> fg.grad(lambda a: solution(a).sum())(fg.tensor([2.0, 4.0]))
    Tensor([-0.25  , -0.0625])
    """
    name = "custom_linear_solve"
    for function in (matvec, solve, *([] if transpose_solve is None else [transpose_solve])):
        check_function(name, function)
    failed = failed_as(failed, name)
    ahead = failing_as(solve, failed)
    back = ahead if transpose_solve is None else failing_as(transpose_solve, failed)
    solves = (ahead, ahead, back)
    return linear_solution(name, matvec, b, solves, symmetric, has_aux, failed)


def linear_solution(
    name: str,
    matvec: Callable[[Any], Any],
    b: Tree,
    solves: tuple[Solve, Solve, Solve],
    symmetric: bool = False,
    has_aux: bool = False,
    failed: str = "raise",
) -> Any:
    """Solve as ``custom_linear_solve`` does, with solvers for values, tangents and cotangents."""
    unknown, values = Unknown.read(name, "b", b)

    def flat(x: Sequence[Value]) -> list[Value]:
        return unknown.values(matvec(unknown.tree(x)), "the result of matvec")

    closure = with_closed_values(name, flat, unknown.specs, values)
    aux = AuxTree() if has_aux else None
    system = LinearSystem(unknown, closure.run, solves, symmetric, aux, failed=failed)
    outs = solution_of(system.call(), [*values, *closure.values])
    count = len(values)
    solution = unknown.tree(outs[:count])
    return solution if aux is None else (solution, aux.tree(outs[count:]))


@dataclass(frozen=True, slots=True, eq=False)
class LinearSystem:
    """Systems A x = b with one A; b and the parameters of A are arguments.

    Attributes
    ----------
    unknown : Unknown
        The structure and specs of x and b.
    matvec : callable
        ``(x, parameters) -> A x``, for lists of values.
    solves : tuple of three callables
        The solvers for the solution, for tangents, and for cotangents (the adjoint system).
    symmetric : bool
        Whether A is symmetric; then the solver for tangents also solves for cotangents.
    aux : AuxTree, optional
        The structure of the ``aux`` that the first solver returns beside the solution.
    role : int
        The index of the solver in use.
    key : object
        An object that marks systems with the same A.
    failed : {"raise", "nan"}
        The behaviour if a solver fails.
    """

    unknown: Unknown
    matvec: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]
    solves: tuple[Solve, Solve, Solve]
    symmetric: bool = False
    aux: AuxTree | None = None
    role: int = 0
    key: object = field(default_factory=object)
    failed: str = "raise"

    def call(self) -> SolutionCall:
        """Return the call that solves; its arguments are right-hand sides and parameters."""
        has_aux = self.aux is not None and not self.role
        specs = self.unknown.specs
        signature = SolutionSignature(self.unknown.operation, specs, len(specs), has_aux)
        is_first = not self.role and (has_aux or self.solves[0] is not self.solves[1])
        origin = self.key, 0 if is_first else max(self.role, 1)
        return SolutionCall(self._solved, signature, origin, (self._rule, self._transposed))

    def _in_role(self, role: int) -> SolutionCall:
        return replace(self, role=role).call()

    def _split(self, values: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        count = len(self.unknown.specs)
        return [*values[:count]], [*values[count:]]

    def _map(self, params: Sequence[Value]) -> FlatMap:
        """Return the linear function whose system is solved in this role."""
        linear = partial(self._applied, params)
        return self._adjoint(linear) if self.role == 2 else linear

    def _applied(self, params: Sequence[Value], x: Sequence[Value]) -> Sequence[Value]:
        return self.matvec(x, params)

    def _adjoint(self, linear: FlatMap) -> FlatMap:
        zeros = [np.zeros(spec.shape, spec.dtype)[()] for spec in self.unknown.specs]

        def function(*x: Tree) -> tuple[Any, ...]:
            return tuple(map(wrap, linear([*map(concrete, x)])))

        try:
            transposed = linear_transpose(function, *zeros)
        except DifferentiationError as error:
            reason = str(error).removeprefix("linear_transpose: ")
            raise DifferentiationError(
                f"{self.unknown.operation}: reverse mode solves the adjoint system, so matvec has"
                f" to be linear, but {reason}"
            ) from error
        return lambda cts: [*map(concrete, transposed(tuple(map(wrap, cts))))]

    def _solved(self, values: Sequence[Value]) -> list[Value]:
        b = values[: len(self.unknown.specs)]
        failed = self.failed if self.role or self.aux is None else "raise"
        return solved_or_nan(self.unknown, self._by_solver, values, failed, b)

    def _by_solver(self, values: Sequence[Value]) -> list[Value]:
        unknown = self.unknown
        b, params = self._split(values)
        matvec = unknown.function(self._map(params), "the argument of matvec")
        returned = self.solves[self.role](matvec, unknown.tree(b))
        if self.aux is None:
            return unknown.values(without_info(unknown, returned, self.failed), "the solution")
        returned, aux = solution_and_aux(unknown.operation, returned)
        solution = unknown.values(returned, "the solution")
        if self.role:
            return solution
        return [*solution, *self.aux.values(unknown.operation, aux)]

    def _rule(self, values: Sequence[Value]) -> list[Value]:
        half = len(values) // 2
        outs = bind_composite(self.call(), values[:half])
        (_, params), (db, dparams) = self._split(values[:half]), self._split(values[half:])
        x, aux = self._split(outs)
        moved = pushed(lambda parameters: self._map(parameters)(x), params, dparams)
        rhs = [_minus(t, m) for t, m in zip(db, moved, strict=True)]
        return [*outs, *self.tangents(x, rhs, params), *map(zeros_like, aux)]

    def tangents(
        self, x: Sequence[Value], rhs: Sequence[Value], params: Sequence[Value]
    ) -> list[Value]:
        """Solve for the tangents of x; zeros if the whole right-hand side is None."""
        if all(tangent is None for tangent in rhs):
            return [*map(zeros_like, x)]
        call, right = self._in_role(self.role or 1), filled(rhs, x)
        if self.failed == "nan":
            return lost_with(x, bind_composite(call, [*lost_with(x, right), *params]))
        return list(bind_composite(call, [*right, *params]))

    def _transposed(self, values: Sequence[Value]) -> list[Value]:
        """Solve the adjoint system; the arguments are parameters, then cotangents."""
        param_count = len(values) - len(self.unknown.specs)
        role = 1 if self.symmetric or self.role == 2 else 2
        return bind_composite(self._in_role(role), [*values[param_count:], *values[:param_count]])


def pushed(function: FlatMap, args: Sequence[Value], tangents: Sequence[Value]) -> list[Value]:
    """Return the tangents of a function's results, None for zero; integer arguments have none."""
    pairs = zip(args, tangents, strict=True)
    inexact_tangents = [t if is_inexact(dtype_of(x)) else None for x, t in pairs]
    return push_values(function, args, inexact_tangents)


def filled(tangents: Sequence[Value], primals: Sequence[Value]) -> list[Value]:
    """Convert tangents to arrays: zeros for None."""
    return [
        zeros_like(x) if t is None else fit_tangent(t, x)
        for t, x in zip(tangents, primals, strict=True)
    ]


def _minus(first: Value, second: Value) -> Value:
    """Subtract two tangents; each may be None."""
    if second is None:
        return first
    return -second if first is None else first - second
