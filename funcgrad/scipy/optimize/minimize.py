"""Minimize a function of a pytree, by SciPy's methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any, Final, TypeVar, overload

import numpy as np

import funcgrad.numpy as fnp
from funcgrad import sparse
from funcgrad._hints.lookup import answering
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.callables import Array
from funcgrad._transforms.jacobian import hessian, hvp, jacrev
from funcgrad._transforms.reverse import value_and_grad
from funcgrad.errors import ArgumentError
from funcgrad.implicit.active_bounds import sides
from funcgrad.numpy.options import mapping, real_number
from funcgrad.scipy.optimize.problem import (
    Found,
    Variables,
    Vector,
    check_call,
    limits_of,
    progress_bar,
    scipy_optimize,
)
from funcgrad.tensor.tensor import Tensor

_WITHOUT: Final = frozenset({"nelder-mead", "powell", "cobyla", "cobyqa"})
_HESSIAN: Final = frozenset({"dogleg", "trust-exact"})
_PRODUCTS: Final = frozenset({"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"})
"""SciPy's methods that use no derivative, the whole Hessian, or products with it. All others use
the gradient."""

_METHODS: Final = (
    *sorted(_WITHOUT | _HESSIAN | _PRODUCTS),
    "bfgs",
    "cg",
    "l-bfgs-b",
    "slsqp",
    "tnc",
)


Start = TypeVar("Start", bound=Any)


@overload
def minimize(
    fun: Callable[..., Any],
    x0: Array | list[float],
    args: tuple[Any, ...] = (),
    method: str | None = None,
    *,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[[Any], object] | None = None,
    options: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Found[Tensor]: ...
@overload
def minimize(
    fun: Callable[..., Any],
    x0: Start,
    args: tuple[Any, ...] = (),
    method: str | None = None,
    *,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[[Any], object] | None = None,
    options: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Found[Start]: ...
@answering
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    method: str | None = None,
    *,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[[Any], object] | None = None,
    options: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Any:
    """Minimize a function of a pytree by one of the methods of ``scipy.optimize.minimize``.

    The method gets the derivatives that it uses: the gradient, the Hessian (dogleg, trust-exact),
    or products with it (Newton-CG, trust-ncg, trust-krylov, trust-constr). With the option
    ``sparse_jacobian=True`` of trust-constr, the Hessian and the derivatives of constraints are
    sparse matrices.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns a real scalar. Pass ``fg.jit(fun)`` to compile it.
    x0 : pytree of real arrays or scalars
        The starting point. The method works in float64. A list of Python scalars is a vector, as in
        SciPy. If the arrays are on a device, ``fun`` is called there, and results are there, too.
    args : tuple
        Further arguments, held constant; an object that is not a tuple is a single argument.
    method : str, optional
        The name of one of SciPy's methods; by default BFGS, L-BFGS-B with bounds, and SLSQP with
        constraints.
    bounds : pytree prefix of pairs, optional
        For a leaf of ``x0``, or for all below a node, None or a pair ``(lower, upper)``. Each bound
        is a scalar, an array that broadcasts to the leaf, or None. If ``x0`` is a single array,
        SciPy's forms are accepted too: a pair for each element, or ``scipy.optimize.Bounds``.
    constraints : dict, scipy.optimize.NonlinearConstraint, or a sequence of these
        Constraints as in SciPy, with functions of the tree. Missing derivatives are computed. Also
        ``LinearConstraint``, for the vector of all elements in the order of ``fg.tree.ravel``.
    tol : float, optional
    callback : callable, optional
        A function called with the tree after each step; StopIteration stops the method.
    options : mapping, optional
        The options of the method.
    progress : bool
        Whether to show a bar with the number of steps and the value, by tqdm.

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's result, in which ``x`` and ``jac`` are trees like ``x0``; results about the Hessian
        refer to the vector of all elements. With ``bounds`` it has ``active_mask``, as
        ``least_squares`` does: for each element -1 at its lower bound, 1 at its upper bound, 2 if
        both are the same, and 0 between them.

    Raises
    ------
    MissingPackageError
        SciPy, or tqdm for the progress bar, is not installed.
    DtypeError
        A variable is complex or boolean.
    FunctionError
        ``fun`` is not a function: it may have been swapped with ``x0``.
    TreeError, ShapeError, ArgumentError
        The bounds do not fit, or ``x0`` has no elements.

    See Also
    --------
    funcgrad.optimize.minimize : A solver that compiles, batches and differentiates.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> def valley(p):
    ...     return 100.0 * (p["y"] - p["x"] ** 2) ** 2 + (1.0 - p["x"]) ** 2
    >>> found = minimize(valley, {"x": -1.0, "y": 2.0}, method="trust-exact")
    >>> fnp.round(found.x["x"], 6), fnp.round(found.x["y"], 6)
    (Tensor(1.0), Tensor(1.0))
    """
    check_function("minimize", fun)
    if callback is not None:
        check_function("minimize with callback", callback)
    more = args if isinstance(args, tuple) else (args,)  # as in SciPy
    check_call("minimize", fun, x0, more)
    solvers = scipy_optimize("minimize")
    variables = Variables.read(x0, "minimize")
    limits = limits_of(bounds, variables, "minimize")
    is_free = isinstance(constraints, Sequence) and not constraints
    name = _method(method, limits is not None, is_free)
    chosen = mapping(options, "minimize", "options")
    second = name == "trust-constr"
    is_sparse = second and bool(chosen.get("sparse_jacobian"))
    curved = _constraints(constraints, variables, solvers, second, is_sparse)
    latest = [np.nan]

    def value(vector: Vector) -> Any:
        return fun(variables.unravel(vector), *more)

    def noted(vector: Vector) -> Any:
        evaluation = objective(vector)
        latest[0] = evaluation[0] if isinstance(evaluation, tuple) else evaluation
        return evaluation

    objective, derivatives = _derived(value, variables.of_placed, name, is_sparse)
    with progress_bar(progress, "minimize") as tell:

        def step(vector: Vector, *_: object) -> None:
            tell(latest[0])
            if callback is not None:
                callback(variables.tree_of(vector))

        result = solvers.minimize(
            noted,
            variables.start,
            method=name,
            bounds=None if limits is None else solvers.Bounds(*limits),
            constraints=list(curved),
            tol=None if tol is None else real_number(tol, "minimize", "tol"),
            callback=step if progress or callback is not None else None,
            options=chosen,
            **derivatives,
        )
    if limits is not None and name != "trust-constr":  # it returns multipliers instead
        result.active_mask = np.asarray(sides(result.x, *limits), int)
    return _with_trees(result, variables)


def _with_trees(result: dict[str, Vector], variables: Variables) -> dict[str, Vector]:
    """SciPy's result, with trees in place of vectors."""
    result["x"] = variables.tree_of(result["x"])
    if "jac" in result and np.shape(result["jac"]) == variables.start.shape:
        result["jac"] = variables.tree_of(result["jac"])
    return result


def _method(method: str | None, is_bounded: bool, is_free: bool) -> str:
    """The name of one of SciPy's methods, in lower case; by default a suitable one."""
    if method is None:
        return ("l-bfgs-b" if is_bounded else "bfgs") if is_free else "slsqp"
    if not isinstance(method, str):
        raise ArgumentError(f"minimize: method is the name of one of SciPy's, not {method!r}.")
    name = method.lower()
    if name not in _METHODS:
        takes_steps = name in ("adam", "adamw", "sgd", "rmsprop", "adagrad", "lion", "lbfgs")
        more = f" fg.optim.{name} is an optimizer, which takes steps." if takes_steps else ""
        raise ArgumentError(
            f"minimize: unknown method {method!r}. SciPy's are {', '.join(_METHODS)}.{more}"
        )
    return name


def _derived(
    value: Callable[[Vector], Any],
    of_placed: Callable[[Callable[..., Any]], Callable[..., Any]],
    method: str,
    is_sparse: bool,
) -> tuple[Callable[[Vector], Any], dict[str, Any]]:
    """The function for a method, and the derivatives that it uses."""
    if method in _WITHOUT:
        cost_of = of_placed(value)
        return lambda vector: float(cost_of(vector)), {}
    derivatives: dict[str, Any] = {"jac": True}
    if method in _HESSIAN:
        derivatives["hess"] = _dense(of_placed(hessian(value)))
    if is_sparse:
        derivatives["hess"] = of_placed(sparse.hessian(value))
    elif method in _PRODUCTS:
        product = of_placed(lambda vector, direction: hvp(value, (vector,), (direction,)))
        derivatives["hessp"] = _dense(product)
    both = of_placed(value_and_grad(value))

    def objective(vector: Vector) -> tuple[float, Vector]:
        cost, slope = both(vector)
        return float(cost), np.array(slope)

    return objective, derivatives


def _constraints(
    constraints: Any,
    variables: Variables,
    solvers: ModuleType,
    with_hessians: bool,
    is_sparse: bool,
) -> Iterator[Any]:
    """Constraints of the vector, with the derivatives that the method uses."""
    is_one = isinstance(constraints, Mapping) or not isinstance(constraints, Sequence)
    constraint: Any
    for constraint in [constraints] if is_one else constraints:
        if isinstance(constraint, solvers.LinearConstraint):
            yield constraint
            continue
        if isinstance(constraint, solvers.NonlinearConstraint):
            function, limits, more = constraint.fun, (constraint.lb, constraint.ub), ()
        elif (
            isinstance(constraint, Mapping)
            and constraint.get("type") in _TYPES
            and "fun" in constraint
        ):
            function, limits = constraint["fun"], _TYPES[constraint["type"]]
            more = tuple(constraint.get("args", ()))
        else:
            raise ArgumentError(
                "minimize: a constraint has to be a dict with 'type', which is 'eq' or 'ineq', and"
                " 'fun', or a NonlinearConstraint or a LinearConstraint of SciPy's, not"
                f" {constraint!r}."
            )
        residual = partial(_residual, function, variables, more)
        slopes: Callable[..., Any] = jacrev(residual)
        curvature: Callable[..., Any] = hessian(partial(_weighted, residual))
        if is_sparse:
            slopes = sparse.jacobian(lambda vector, f=residual: fnp.atleast_1d(f(vector)))
            curvature = sparse.hessian(partial(_weighted, residual))
        convert = _unchanged if is_sparse else _dense
        second = {"hess": convert(variables.of_placed(curvature))} if with_hessians else {}
        yield solvers.NonlinearConstraint(
            _dense(variables.of_placed(residual)),
            *limits,
            jac=convert(variables.of_placed(slopes)),
            keep_feasible=getattr(constraint, "keep_feasible", False),
            **second,
        )


_TYPES: Final = MappingProxyType({"eq": (0.0, 0.0), "ineq": (0.0, np.inf)})


def _residual(
    function: Callable[..., Any], variables: Variables, more: tuple[Any, ...], vector: Vector
) -> Any:
    return function(variables.unravel(vector), *more)


def _weighted(residual: Callable[[Vector], Any], vector: Vector, weights: Vector) -> Any:
    """The sum of constraints times multipliers, whose Hessian the method asks for."""
    return (weights * residual(vector)).sum()


def _dense(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: np.array(function(*args))


def _unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
