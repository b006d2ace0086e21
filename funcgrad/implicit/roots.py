"""``custom_root``: find a root of an equation with any solver.

With f(x, p) = 0 the derivative of the root x follows from the implicit function theorem,
∂f/∂x dx = -∂f/∂p dp: a linear system at the root, however the root was found.

>>> import funcgrad as fg
>>> def cube_root(p):
...     newton = lambda f, x: fg.fori_loop(0, 30, lambda _, x: x - f(x) / fg.grad(f)(x), x)
...     return custom_root(lambda x: x**3 - p, 1.0, newton, lambda g, y: y / g(1.0))
>>> fg.value_and_grad(cube_root)(8.0)
(Tensor(2.0), Tensor(0.08333333))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias, overload

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.carried_types import AnyNumber, Containers, State
from funcgrad._control.carry import handed
from funcgrad._control.closures import with_closed_values
from funcgrad._core import pytrees
from funcgrad._core.trace import RAW, Value
from funcgrad._hooks.result_watch import watched
from funcgrad._primitives.structural import unfollowed
from funcgrad._programs.equation import spec_inside
from funcgrad._transforms.arguments import check_function, values_of
from funcgrad._transforms.composite import bind_composite
from funcgrad._transforms.factors import zeros_like
from funcgrad.implicit.direct import direct_solve, failing_as
from funcgrad.implicit.linear_solves import LinearSystem, filled, pushed
from funcgrad.implicit.reached import Reached, free_in, held
from funcgrad.implicit.solution_call import SolutionCall, SolutionSignature, solution_of
from funcgrad.implicit.unknowns import (
    AuxTree,
    Solve,
    Tree,
    Unknown,
    solution_and_aux,
    solved_or_nan,
)
from funcgrad.numpy.options import failed_as
from funcgrad.tensor.tensor import Tensor, wrap

RootSolver: TypeAlias = Callable[[Callable[[Any], Any], Any], Any]
"""``(function of pytrees, starting point) -> root``."""

Sides: TypeAlias = Callable[[Unknown, list[Value], Any], list[Value]]
"""``(unknown, solution, solver's result) -> sides`` of the elements; see ``active_bounds``."""


@overload
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: AnyNumber,
    solve: RootSolver,
    tangent_solve: Solve = direct_solve,
    has_aux: Literal[False] = False,
    *,
    failed: str = "raise",
) -> Tensor: ...
@overload
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: AnyNumber,
    solve: RootSolver,
    tangent_solve: Solve = direct_solve,
    *,
    has_aux: Literal[True],
    failed: str = "raise",
) -> tuple[Tensor, Any]: ...
@overload
def custom_root(
    f: Callable[[State], State],
    initial_guess: State | Containers,
    solve: RootSolver,
    tangent_solve: Solve = direct_solve,
    has_aux: Literal[False] = False,
    *,
    failed: str = "raise",
) -> State: ...
@overload
def custom_root(
    f: Callable[[State], State],
    initial_guess: State | Containers,
    solve: RootSolver,
    tangent_solve: Solve = direct_solve,
    *,
    has_aux: Literal[True],
    failed: str = "raise",
) -> tuple[State, Any]: ...
@overload
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Tree,
    solve: RootSolver,
    tangent_solve: Solve = direct_solve,
    has_aux: bool = False,
    *,
    failed: str = "raise",
) -> Any: ...
@watched
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Tree,
    solve: RootSolver,
    tangent_solve: Solve = direct_solve,
    has_aux: bool = False,
    *,
    failed: str = "raise",
) -> Any:
    """Find a root of a function with a solver of your choice, and differentiate the root.

    With f(x, p) = 0 the implicit function theorem gives ∂f/∂x dx = -∂f/∂p dp: one linear system,
    whatever the solver did. Use it for a solver that is written in funcgrad's functions, such as
    your own Newton iteration; with solvers of SciPy, ``fg.implicit.root`` is simpler.

    Parameters
    ----------
    f : callable
        A function of a pytree like ``initial_guess``, which returns a pytree like it. Derivatives
        flow into the values that it closes over.
    initial_guess : pytree of floating or complex arrays
        The starting point. The derivative with respect to it is 0.
    solve : callable
        ``solve(f, initial_guess)`` returns x with f(x) = 0, a pytree like ``initial_guess``. A
        solver written in funcgrad's functions is compiled and batched. Any other solver is called
        with NumPy arrays, for each example of a batch. It is first tried with tracers, and some of
        SciPy's solvers print a message then: prefer ``fg.implicit.root`` for them.
    tangent_solve : callable
        ``tangent_solve(g, y)`` returns x with g(x) = y. The linear function g is the derivative of
        ``f`` at the root, or its adjoint. By default it uses the matrix of g, which is sparse from
        200 unknowns on if its pattern is: see ``fg.implicit.direct_solve``. It may return a pair
        ``(x, info)``, as ``cg`` does: see ``custom_linear_solve``.
    has_aux : bool
        Whether ``solve`` returns a pair ``(x, aux)``. Then the pair is returned; ``aux`` is a
        pytree of arrays without derivatives.
    failed : {"raise", "nan"}
        The behaviour if the derivative is singular, or a solver reports a failure by an exception.
        "raise" raises an error (outside ``jit`` and ``vmap``); "nan" makes the root and all of its
        derivatives NaN. With ``has_aux`` an exception of ``solve`` is always raised, because
        ``aux`` is missing.

    Returns
    -------
    pytree
        The root, a pytree like ``initial_guess``; with ``has_aux`` the pair.

    Raises
    ------
    TreeError, ShapeError
        The result of ``f`` or of a solver is not like ``initial_guess``.
    DtypeError
        ``initial_guess`` is an integer, or it is real and the root is complex.
    MatrixError
        The derivative of ``f`` at the root is singular: the root has no derivative.
    ArgumentError
        ``failed`` is unknown.

    See Also
    --------
    fixed_point
    funcgrad.implicit : solutions as functions of parameters, with SciPy's solvers.

    Notes
    -----
    Derivatives of every order, in both modes, follow from the implicit function theorem. They are
    evaluated at the result of ``solve``, and are as accurate as this result. Nothing checks that
    the result is a root: ``solve`` has to check, and may raise an error or return NaN.

    If a transformation is running, ``f`` is staged to find the values that it closes over. A
    function that cannot be staged, because it branches on values, must not close over traced
    values: pass them as parameters of ``fg.implicit.root``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from scipy.optimize import brentq
    >>> def angle(eccentricity):  # Kepler's equation
    ...     f = lambda x: x - eccentricity * fg.numpy.sin(x) - 1.0
    ...     return fg.custom_root(f, 1.0, lambda f, x: brentq(f, 0.0, 3.0, xtol=1e-14))
    >>> fg.value_and_grad(angle)(0.5)
    (Tensor(1.49870113...), Tensor(1.0346672...))
    """
    name = "custom_root"
    for function in (f, solve, tangent_solve):
        check_function(name, function)

    def start(function: Callable[[Any], Any], x: Tree, _: Tree) -> Any:
        return solve(function, x)

    return root_of(
        name,
        f,
        initial_guess,
        (),
        start,
        tangent_solve,
        what="initial_guess",
        has_aux=has_aux,
        failed=failed_as(failed, name),
    )


def root_of(
    name: str,
    f: Callable[..., Any],
    init: Tree,
    params: tuple[Any, ...],
    solve: Callable[..., Any],
    tangent_solve: Solve,
    what: str = "init",
    equation: Callable[[Callable[[Any], Any]], Callable[[Any], Any]] | None = None,
    is_like_unknown: bool = True,
    symmetric: bool = False,
    has_aux: bool = False,
    failed: str = "raise",
    sides: Sides | None = None,
    tol: float | None = None,
) -> Any:
    """Find a root x of ``f(x, *params)``, with the derivatives of ``custom_root``.

    Parameters
    ----------
    solve : callable
        Called with the function of x, the start, and all other values that the function reads. With
        ``sides`` it returns a pair, whose second part is passed to ``sides``.
    sides, tol : callable and float, optional
        See ``Root``.
    equation : callable, optional
        Makes the function whose root is found from the function of x; by default it is the same.
    is_like_unknown : bool
        Whether the function has to return a tree like x.
    """
    unknown, guess = Unknown.read(name, what, init)
    leaves, structure = pytrees.flatten(params)
    param_values = handed(values_of(name, leaves, structure, lambda: "params"))
    count, form = len(guess), [unknown.structure]

    def flat(args: Sequence[Value]) -> list[Value]:
        more = pytrees.unflatten(structure, map(wrap, args[count:]))
        result = f(unknown.tree(args[:count]), *more)
        if is_like_unknown:
            return unknown.values(result, "the result of the function")
        out_leaves, out_form = pytrees.flatten(result)
        if form[0] != out_form:  # jit counts every assignment as a change
            form[0] = out_form
        return values_of(name, out_leaves, out_form, lambda: "the result of the function")

    closure = with_closed_values(
        name, flat, [*unknown.specs, *map(spec_inside, param_values)], [*guess, *param_values]
    )

    def function(more: Sequence[Value]) -> Callable[[Any], Any]:
        def of_unknown(x: Tree) -> Any:
            inner = unknown.values(x, "the argument of the function")
            outs = closure.run([*inner, *more[: len(param_values)]], more[len(param_values) :])
            return pytrees.unflatten(form[0], map(wrap, outs))

        return of_unknown

    aux = AuxTree() if has_aux else None
    tangents = failing_as(tangent_solve, failed)
    root = Root(
        unknown,
        function,
        solve,
        tangents,
        equation or same,
        symmetric,
        aux,
        failed=failed,
        sides=sides,
        tol=tol,
    )
    outs = solution_of(root.call(), [*param_values, *closure.values, *guess])
    solution = unknown.tree(outs[:count])
    return solution if aux is None else (solution, aux.tree(outs[count:]))


def same(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function: the equation is f(x) = 0."""
    return function


@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """A root of an equation; its parameters and the starting point are arguments.

    Attributes
    ----------
    unknown : Unknown
    function : callable
        ``(list of parameters) -> function of a pytree``.
    solve : callable
        ``(function of a pytree, starting point, parameters) -> root``.
    tangent_solve : callable
    equation : callable
        ``(function of a pytree) -> residual``, which is zero at the root.
    symmetric : bool
        Whether the derivative of the residual is symmetric.
    aux : AuxTree, optional
        The structure of the ``aux`` that the solver returns beside the root.
    key : object
        An object that marks calls for this root.
    failed : {"raise", "nan"}
        The behaviour if the solver fails.
    sides : callable, optional
        ``(unknown, solution, solver's result) -> sides`` of the elements (see ``active_bounds``).
        The sides are further results of the call.
    tol : float, optional
        The greatest allowed Newton step from the solution to the root, if a derivative is asked
        for.
    """

    unknown: Unknown
    function: Callable[[Sequence[Value]], Callable[[Any], Any]]
    solve: Callable[..., Any]
    tangent_solve: Solve
    equation: Callable[[Callable[[Any], Any]], Callable[[Any], Any]]
    symmetric: bool = False
    aux: AuxTree | None = None
    key: object = field(default_factory=object)
    failed: str = "raise"
    sides: Sides | None = None
    tol: float | None = None

    def call(self) -> SolutionCall:
        """Return the call that solves; its arguments are the parameters and the starting point."""
        specs, has_aux = self.unknown.specs, self.aux is not None
        results = specs if self.sides is None else specs * 2
        signature = SolutionSignature(self.unknown.operation, results, 0, has_aux)
        return SolutionCall(self._solved, signature, self.key, (self._rule, None))

    def _solved(self, values: Sequence[Value]) -> list[Value]:
        failed = self.failed if self.aux is None else "raise"
        outs = solved_or_nan(self.unknown, self._by_solver, values, failed)
        if self.sides is not None and len(outs) == len(self.unknown.specs):  # the solver failed
            return [*outs, *map(zeros_like, outs)]
        return outs

    def _by_solver(self, values: Sequence[Value]) -> list[Value]:
        unknown = self.unknown
        param_count = len(values) - len(unknown.specs)
        params = values[:param_count]
        returned = self.solve(self.function(params), unknown.tree(values[param_count:]), params)
        if self.sides is not None:
            x, told = returned
            solution = unknown.values(x, "the solution")
            return [*solution, *self.sides(unknown, solution, told)]
        if self.aux is None:
            return unknown.values(returned, "the solution")
        returned, aux = solution_and_aux(unknown.operation, returned)
        more = self.aux.values(unknown.operation, aux)
        return [*unknown.values(returned, "the solution"), *more]

    def _residual(self, x: Sequence[Value], params: Sequence[Value]) -> list[Value]:
        residual = self.equation(self.function(params))(self.unknown.tree(x))
        return self.unknown.values(residual, "the result of the function")

    def _rule(self, values: Sequence[Value]) -> list[Value]:
        half, count = len(values) // 2, len(self.unknown.specs)
        args, params = values[:half], values[: half - count]
        outs = bind_composite(self.call(), args)
        x, beside = outs[:count], outs[count:]
        moved = pushed(
            lambda parameters: self._residual(x, parameters), params, values[half:-count]
        )
        residual = [] if self.tol is None else self._residual(x, params)
        free = [] if self.sides is None else free_in(beside, residual)
        rhs = held([None if t is None else -t for t in moved], free)
        system, point = self._system(), [*x, *free, *params]
        tangents = system.tangents(x, rhs, point)
        if self.tol is not None and any(t is not None for t in rhs):
            fixed = [*held(residual, free), *point]
            still = [v if type(v) in RAW else unfollowed(v) for v in fixed]
            steps = system.tangents(x, still[:count], still[count:])
            reached = Reached(self.unknown, self.tol, x, args[half - count :], steps)
            tangents = reached.only(tangents, still[:count], self.failed)
        return [*outs, *tangents, *map(zeros_like, beside)]

    def _system(self) -> LinearSystem:
        """Return the linear system for tangents; its parameters are the root and the parameters.

        With sides, it is the system of the free elements.
        """
        solves = self.tangent_solve, self.tangent_solve, self.tangent_solve
        key = (self.key, "tangent")
        return LinearSystem(
            self.unknown, self._derivative, solves, self.symmetric, key=key, failed=self.failed
        )

    def _derivative(self, v: Sequence[Value], point: Sequence[Value]) -> list[Value]:
        count = len(self.unknown.specs)
        x, params = point[:count], point[count:]
        free: Sequence[Value] = []
        if self.sides is not None:
            free, params = params[:count], params[count:]
        moved = held(v, free)
        images = filled(pushed(lambda solution: self._residual(solution, params), x, moved), x)
        if not free:
            return images
        rows = zip(held(images, free), v, moved, strict=True)
        return [image + (whole - free_v) for image, whole, free_v in rows]
