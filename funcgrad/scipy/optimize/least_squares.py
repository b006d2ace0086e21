"""Minimize the sum of squares of a function of a pytree, by SciPy's methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

import numpy as np

from funcgrad import tree
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.callables import Array
from funcgrad._transforms.jacobian import jacfwd, jacrev
from funcgrad.numpy.options import mapping, sequence
from funcgrad.scipy.optimize.problem import (
    Found,
    Variables,
    Vector,
    limits_of,
    progress_bar,
    scipy_optimize,
)
from funcgrad.sparse.jacobians import jacobian
from funcgrad.tensor.tensor import Tensor

Start = TypeVar("Start", bound=Any)


@overload
def least_squares(
    fun: Callable[..., Any],
    x0: Array | list[float],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    bounds: Any = None,
    progress: bool = False,
    **options: Any,
) -> Found[Tensor]: ...
@overload
def least_squares(
    fun: Callable[..., Any],
    x0: Start,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    bounds: Any = None,
    progress: bool = False,
    **options: Any,
) -> Found[Start]: ...
def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    bounds: Any = None,
    progress: bool = False,
    **options: Any,
) -> Any:
    """Minimize half the sum of squares of residuals by ``scipy.optimize.least_squares``.

    The Jacobian is computed in forward mode if there are at most as many variables as residuals,
    else in reverse mode. With ``tr_solver="lsmr"`` or ``jac_sparsity=`` it is a sparse matrix, of a
    few products: use this if each residual depends on few of many variables.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args, **kwargs)`` returns the residuals, a pytree of real arrays.
    x0 : pytree of real arrays or scalars
        The starting point. The method works in float64. A list of Python scalars is a vector, as in
        SciPy. If the arrays are on a device, ``fun`` is called there, and results are there, too.
    args : tuple
    kwargs : mapping, optional
        Further arguments, held constant.
    bounds : pytree prefix of pairs, optional
        See ``minimize``.
    progress : bool
        Whether to show a bar with the number of steps and half the sum of squares, by tqdm.
    **options
        Options of SciPy's function: ``method``, ``loss``, ``f_scale``, ``ftol``, ``x_scale``, ...
        ``jac_sparsity`` is a pattern for ``fg.sparse.jacobian``, which otherwise detects it.

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's result, in which ``x`` and ``grad`` are trees like ``x0``, and ``fun`` is a tree
        like the residuals. ``jac`` is the matrix for the vectors of both.

    Raises
    ------
    MissingPackageError
        SciPy, or tqdm for the progress bar, is not installed.
    DtypeError
        A variable is complex or boolean.
    TreeError, ShapeError, ArgumentError
        The bounds do not fit.

    See Also
    --------
    funcgrad.optimize.least_squares : A solver that compiles, batches and differentiates.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> times = fnp.linspace(0.0, 1.0, 20)
    >>> def residuals(p):
    ...     return p["scale"] * fnp.exp(-p["rate"] * times) - 2.0 * fnp.exp(-3.0 * times)
    >>> found = least_squares(residuals, {"rate": 1.0, "scale": 1.0})
    >>> fnp.round(found.x["rate"], 6), fnp.round(found.x["scale"], 6)
    (Tensor(3.0), Tensor(2.0))
    """
    check_function("least_squares", fun)
    solvers = scipy_optimize("least_squares")
    variables = Variables.read(x0, "least_squares")
    limits = limits_of(bounds, variables, "least_squares")
    more = sequence(args, "least_squares", "args")
    named = mapping(kwargs, "least_squares", "kwargs")
    residuals = WithAux(lambda vector: tree.ravel(fun(variables.unravel(vector), *more, **named)))
    values_at = variables.of_placed(residuals)
    pattern = options.pop("jac_sparsity", None)
    sparse_jacobian = None
    if pattern is not None or options.get("tr_solver") == "lsmr":
        sparse_jacobian = variables.of_placed(
            jacobian(lambda vector: residuals(vector), pattern=pattern)
        )
    with progress_bar(progress, "least_squares") as tell:

        def matrix(vector: Vector) -> Any:
            values = np.asarray(values_at(vector))
            tell(0.5 * float(values @ values))
            if sparse_jacobian is not None:
                return sparse_jacobian(vector)
            derivative = jacfwd if len(variables.start) <= len(values) else jacrev
            return np.array(variables.of_placed(derivative(residuals))(vector))

        result = solvers.least_squares(
            lambda vector: np.array(values_at(vector)),
            variables.start,
            jac=matrix,
            **({} if limits is None else {"bounds": limits}),
            **options,
        )
    values_at(result.x)
    result.x = variables.tree_of(result.x)
    result.grad = variables.tree_of(result.grad)
    result.fun = residuals.aux(variables.placed(result.fun))
    return result
