"""Integrals over several variables, and Gauss' rule with a fixed number of nodes.

>>> dblquad(lambda y, x: x * y, 0.0, 1.0, 0.0, lambda x: x)[0]
Tensor(0.125)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import count_of, placed
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.integrate.adaptive_integrals import quad
from funcgrad.integrate.limits import check_integrand, limits_of
from funcgrad.tensor.tensor import Tensor, wrap

_MOST_NODES: Final = 100_000
"""Nodes of Gauss' rule: eigenvalues of a matrix of this size, which fills 80 GB."""


@watched
def fixed_quad(
    func: Callable[..., Any], a: Any, b: Any, args: Any = (), n: int = 5
) -> tuple[Tensor, None]:
    """Integrate a function between finite limits by Gauss-Legendre quadrature with n nodes.

    Parameters
    ----------
    func : callable
        ``func(x, *args)`` gets all nodes as a vector of length n, and returns values with the nodes
        along the last axis.
    a, b : scalar
        The limits, finite and real.
    args : tuple
        Further arguments of ``func``; anything else than a tuple is one argument.
    n : int
        The number of nodes. Polynomials of degree 2 n - 1 are integrated exactly.

    Returns
    -------
    Tensor
        The integral, without the last axis.
    None
        As in SciPy, where an estimate of the error would be.

    Raises
    ------
    ShapeError
        The result of ``func`` does not have the nodes along its last axis.
    ArgumentError
        A limit is infinite or NaN, or n is not positive, or above 100,000.

    See Also
    --------
    quad : Chooses the number of nodes, and estimates the error.

    Examples
    --------
    >>> import funcgrad as fg
    >>> value, _ = fixed_quad(lambda x, k: x**k, 0.0, 1.0, args=(9.0,))
    >>> value
    Tensor(0.1)
    >>> fg.grad(lambda b: fixed_quad(lambda x: x**2, 0.0, b)[0])(3.0)
    Tensor(9.0)
    """
    name = "fixed_quad"
    more = check_integrand(name, func, 1, args)
    count = count_of(name, "n", n)
    if count > _MOST_NODES:
        raise placed(
            ArgumentError,
            f"{name}: n is at most {_MOST_NODES}, got {count}. Split the interval, or use"
            " fg.integrate.quad.",
        )
    limits, ends = limits_of(name, a, b, None)
    if limits.kind != "finite":
        raise placed(ArgumentError, f"{name}: the limits have to be finite. Use fg.integrate.quad.")
    low, high = map(wrap, ends)
    nodes, weights = (x.astype(limits.dtype) for x in np.polynomial.legendre.leggauss(count))
    half = 0.5 * (high - low)
    values = fnp.asarray(func(half * (1.0 + nodes) + low, *more))
    if not values.shape or values.shape[-1] != count:
        raise placed(
            ShapeError,
            f"{name}: func gets the {count} nodes as a vector and has to return values with the"
            f" nodes along the last axis, got shape {values.shape}. For a function of one number,"
            " pass fg.vmap(func).",
        )
    return half * fnp.sum(weights * values, -1), None


@watched
@answering
def nquad(
    func: Callable[..., Any], ranges: Sequence[Any], args: Any = (), opts: Any = None
) -> tuple[Any, Tensor]:
    """Integrate a function over several variables by nested integrals.

    Parameters
    ----------
    func : callable
        ``func(x0, x1, ..., *args)`` returns a number, an array or a pytree.
    ranges : sequence
        For each variable the pair of its limits, or a function that returns the pair:
        ``ranges[k](x[k+1], x[k+2], ..., *args)``. The integral over ``x0`` is the innermost.
    args : tuple
        Further arguments of ``func`` and of the ranges.
    opts : dict or sequence of dict, optional
        Options of ``quad``, for all variables or for each: ``epsabs``, ``epsrel``, ``limit``,
        ``points``, ``weight``, ``wvar``.

    Returns
    -------
    y : Tensor or pytree
        The integral, with the derivatives that ``quad`` has.
    abserr : Tensor
        An estimate of the error of the outermost integral.

    Raises
    ------
    ConvergenceError
        An integral misses its tolerance.
    ArgumentError
        ``ranges`` or ``opts`` do not fit.

    See Also
    --------
    quad, dblquad

    Examples
    --------
    The volume under a paraboloid over a triangle.

    >>> nquad(lambda x, y: x**2 + y**2, [lambda y: (0.0, 1.0 - y), (0.0, 1.0)])[0]
    Tensor(0.16666667)
    """
    name = "nquad"
    if not isinstance(ranges, Sequence) or not ranges:
        raise placed(
            ArgumentError, f"{name}: ranges has to list the limits of variables, got {ranges!r}."
        )
    spans = [*ranges]
    more = check_integrand(name, func, len(spans), args)
    options = opts if isinstance(opts, Sequence) else [{} if opts is None else opts] * len(spans)
    names = {"epsabs", "epsrel", "limit", "points", "weight", "wvar"}
    if not all(isinstance(chosen, dict) and names >= {*chosen} for chosen in options):
        raise placed(
            ArgumentError,
            f"{name}: opts is a dict of epsabs, epsrel, limit, points, weight and wvar, or a"
            f" dict for each range, got {opts!r}.",
        )
    if len(options) != len(spans):
        raise placed(
            ArgumentError,
            f"{name}: {len(options)} opts for {len(spans)} ranges; pass one for each.",
        )

    def over(level: int, outer: tuple[Any, ...]) -> tuple[Any, Tensor]:
        span = spans[level]
        pair = span(*outer, *more) if callable(span) else span
        if not isinstance(pair, (Sequence, np.ndarray, Tensor)) or len(pair) != 2:
            raise placed(
                ArgumentError,
                f"{name}: ranges[{level}] has to be a pair of limits or a function that returns a"
                f" pair, got {pair!r}.",
            )

        def inner(x: Tensor) -> Any:
            if not level:
                return func(x, *outer, *more)
            return over(level - 1, (x, *outer))[0]

        value, error = quad(inner, pair[0], pair[1], **options[level])
        return value, error

    return over(len(spans) - 1, ())


def dblquad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    gfun: Any,
    hfun: Any,
    args: Any = (),
    epsabs: float | None = None,
    epsrel: float | None = None,
) -> tuple[Any, Tensor]:
    """Integrate ``func(y, x)`` over x from a to b and over y from gfun(x) to hfun(x).

    Parameters
    ----------
    func : callable
        ``func(y, x, *args)``; y is the first argument.
    a, b : scalar
        The limits of x.
    gfun, hfun : callable or scalar
        The limits of y: functions of x, or constants.
    args : tuple
        Further arguments of ``func``.
    epsabs, epsrel : float, optional
        The tolerances of both integrals; see ``quad``.

    Returns
    -------
    y : Tensor or pytree
        The integral, with the derivatives that ``quad`` has.
    abserr : Tensor
        An estimate of the error of the outer integral.

    Raises
    ------
    ConvergenceError
        An integral misses its tolerance.

    See Also
    --------
    quad, nquad

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> circle = lambda x: fnp.sqrt(1.0 - x * x)
    >>> dblquad(lambda y, x: 1.0, -1.0, 1.0, lambda x: -circle(x), circle)[0]
    Tensor(3.14159265)
    """
    check_integrand("dblquad", func, 2, args)

    def span(x: Tensor, *_: Any) -> tuple[Any, Any]:
        return tuple([side(x) if callable(side) else side for side in (gfun, hfun)])

    options = {"epsabs": epsabs, "epsrel": epsrel}
    return nquad(func, [span, (a, b)], args, options)
