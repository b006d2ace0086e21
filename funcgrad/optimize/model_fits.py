"""``curve_fit``: the parameters of a model, and how uncertain they are.

>>> import numpy as np
>>> x = np.array([0.0, 1.0, 2.0, 3.0])
>>> popt, pcov = curve_fit(lambda x, slope, start: slope * x + start, x, [1.0, 2.9, 5.1, 7.0])
>>> popt, np.sqrt(np.diagonal(pcov))
(Tensor([2.02, 0.97]), Tensor([0.04242641, 0.07937254]))
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.batch import vmap
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.optimize.fits import least_squares
from funcgrad.optimize.robust_losses import cost_of, weighted
from funcgrad.optimize.solver_arguments import bounds_of, residuals_of
from funcgrad.optimize.solver_tasks import prompt_result
from funcgrad.scipy.linalg.triangular_systems import solve_triangular
from funcgrad.scipy.optimize.problem import check_call
from funcgrad.sparse.sparse_arrays import SparseArray
from funcgrad.tensor.tensor import Tensor


@watched
def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    *,
    bounds: Any = None,
    jac: Any = None,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """Fit the parameters of a model to data by least squares.

    The parameters and their covariance are differentiable with respect to the data, and the fit
    works under ``jit`` and ``vmap``; see ``least_squares``.

    Parameters
    ----------
    f : callable
        ``f(xdata, *parameters)`` returns an array like ``ydata``.
    xdata : pytree
        The points at which ``ydata`` was measured, in any form that ``f`` takes.
    ydata : array_like
        The measurements.
    p0 : array_like of shape (n,), optional
        The starting point. By default each parameter starts at 1, or at the nearest bound if 1 is
        outside the bounds.
    sigma : array_like, optional
        The standard deviations of the measurements, of the shape of ``ydata``; or their covariance,
        of shape (m, m) for m measurements.
    absolute_sigma : bool
        Whether ``sigma`` has the units of ``ydata``. By default only its ratios count, and the
        scatter of the residuals gives the scale of the covariance.
    bounds : pair, optional
        ``(lower, upper)``; each is a number or an array of shape (n,).
    jac : callable, optional
        ``jac(xdata, *parameters)``, as in SciPy: the derivatives of ``f``, of shape (m, n). By
        default they are computed exactly.
    **options
        Options of ``least_squares``: ``method``, ``loss``, ``xtol``, ``failed``, ...

    Returns
    -------
    popt : Tensor of shape (n,)
        The parameters.
    pcov : Tensor of shape (n, n)
        Their covariance; the square roots of its diagonal are the standard errors. It is infinite
        where the data do not determine it, and where measurements are too few for the scatter.

    Raises
    ------
    ConvergenceError
        The fit did not succeed.
    ShapeError, ArgumentError
        ``sigma`` does not fit, or the number of parameters is not known.

    Notes
    -----
    The covariance is (JᵀJ)⁻¹ with the Jacobian J at the solution, as if the model were linear.
    With a robust ``loss``, J is scaled as in SciPy: JᵀJ approximates the Hessian of the cost, and
    the cost gives the scale.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> t = np.linspace(0.0, 2.0, 30)
    >>> data = 2.0 * np.exp(-1.5 * t) + 0.01 * np.cos(40.0 * t)
    >>> popt, pcov = curve_fit(lambda t, a, k: a * fnp.exp(-k * t), t, data)
    >>> np.round(popt, 2), np.round(fnp.sqrt(fnp.diagonal(pcov)), 4)
    (Tensor([2. , 1.5]), Tensor([0.0043, 0.0049]))
    """
    name = "curve_fit"
    check_function(name, f)
    y = fnp.asarray(ydata)
    xdata = fnp.asarray(xdata) if isinstance(xdata, list) else xdata  # as in SciPy
    start = fnp.ones(_parameter_count(f)) if p0 is None else fnp.ravel(fnp.asarray(p0))
    limits = None if p0 is not None else bounds_of(bounds, start, name)
    start = start if limits is None else fnp.clip(start, *limits)
    if start.dtype.kind in "iub":
        start = start.astype(float)
    weigh = _weighing(sigma, y)
    size = len(start)
    check_call(name, f, xdata, (start,) * size)

    def residuals(parameters: Tensor, places: Any, measured: Tensor) -> Tensor:
        model = f(places, *[parameters[k] for k in range(size)])
        return weigh(fnp.ravel(model - measured))

    def weighed(parameters: Tensor, places: Any, _: Any) -> Tensor:
        rows = fnp.asarray(jac(places, *[parameters[k] for k in range(size)]))
        if rows.shape != (y.size, size):
            raise placed(
                ShapeError,
                f"{name}: jac has to return the derivatives of f, of shape {(y.size, size)}, but"
                f" returned shape {rows.shape}.",
            )
        return vmap(weigh, in_axes=1, out_axes=1)(rows)

    options["jac"] = weighed if callable(jac) else jac
    fit = least_squares(residuals, start, args=(xdata, y), bounds=bounds, **options)
    jacobian = fit.jac.toarray() if isinstance(fit.jac, SparseArray) else fit.jac
    limit = fnp.asarray(options.get("f_scale", 1.0)).astype(jacobian.dtype)
    values = [jacobian, residuals_of(fit.fun, name), limit]
    loss = options.get("loss", "linear")
    return fit.x, prompt_result(_covariance, values, loss, bool(absolute_sigma))


def _parameter_count(f: Callable[..., Any]) -> int:
    try:
        parameters = list(signature(f).parameters.values())
    except ValueError:
        parameters = []
    plain = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    if len(parameters) < 2 or any(parameter.kind not in plain for parameter in parameters):
        raise placed(
            ArgumentError,
            "curve_fit: the number of parameters does not follow from the signature of f. Pass p0,"
            " the first guess of the parameters.",
        )
    return len(parameters) - 1


def _weighing(sigma: Any, y: Tensor) -> Callable[[Tensor], Tensor]:
    """Divide residuals by their standard deviations, as a vector or by a covariance."""
    if sigma is None:
        return lambda residuals: residuals
    deviations = fnp.asarray(sigma)
    if deviations.size == y.size or not deviations.shape:
        flat = fnp.ravel(deviations)
        return lambda residuals: residuals / flat
    if deviations.shape != (y.size, y.size):
        raise placed(
            ShapeError,
            f"curve_fit: sigma has shape {deviations.shape}, but has to have the shape of ydata,"
            f" {y.shape}, or to be a covariance of shape {(y.size, y.size)}.",
        )
    factor = fnp.linalg.cholesky(deviations)
    return lambda residuals: solve_triangular(factor, residuals, lower=True)


def _covariance(
    jacobian: Tensor, residuals: Tensor, f_scale: Tensor, loss: str, absolute_sigma: bool
) -> Tensor:
    """The covariance of the parameters."""
    count, size = jacobian.shape
    least = float(np.finfo(jacobian.dtype).eps)  # as in SciPy: outliers say nothing
    jacobian = weighted(residuals, jacobian, loss, f_scale, least)[1]
    covariance = _inverse(jacobian.T @ jacobian)
    if absolute_sigma:
        return covariance
    if count <= size:
        return fnp.full_like(covariance, np.inf)
    scale = 2.0 * cost_of(residuals, loss, f_scale) / (count - size)
    return fnp.where(fnp.isfinite(scale), covariance * scale, np.inf)


def _inverse(matrix: Tensor) -> Tensor:
    """The inverse of a symmetric matrix, infinite if it is singular."""
    diagonal = fnp.sqrt(fnp.diagonal(matrix))
    units = fnp.where(diagonal > 0.0, diagonal, 1.0)
    scaled = matrix / (units[:, None] * units)
    inverse = fnp.linalg.inv(scaled, failed="nan") / (units[:, None] * units)
    return fnp.where(fnp.all(fnp.isfinite(inverse)), inverse, np.inf)
