"""Cubic splines: polynomials of degree 3 through samples, with two continuous derivatives.

>>> import funcgrad as fg
>>> CubicSpline([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])(fg.tensor([0.5, 3.0]))
Tensor([0.25, 9.  ])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._core.pytrees import pytree
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.interpolate.checked_samples import (
    Extrapolate,
    Samples,
    all_hold,
    array_of,
    beside_rows,
    in_one_precision,
    read_samples,
    require,
    where_valid,
)
from funcgrad.interpolate.cyclic_bands import solve_cyclic, solve_rows
from funcgrad.interpolate.piecewise_polynomials import PPoly
from funcgrad.tensor.tensor import ArrayLike, Tensor

Side: TypeAlias = str | tuple[int, ArrayLike]
"""A boundary condition: its name, or the order of a derivative and its value."""

_Solve: TypeAlias = Callable[[Tensor, int, Tensor], Tensor]

_NAMED: Final = ("not-a-knot", "clamped", "natural")


def hermite_rows(x: Tensor, y: Tensor, slopes: Tensor) -> Tensor:
    """The coefficients of cubic polynomials with these values and slopes at the breakpoints."""
    width = beside_rows(x[1:] - x[:-1], y)
    secant = (y[1:] - y[:-1]) / width
    bend = (slopes[:-1] + slopes[1:] - 2.0 * secant) / width
    return fnp.stack([bend / width, (secant - slopes[:-1]) / width - bend, slopes[:-1], y[:-1]])


@pytree(init=False, eq=False)
class CubicHermiteSpline(PPoly):
    """Cubic polynomials with given values and slopes at the breakpoints.

    Parameters
    ----------
    x : array_like, shape (n,)
        The points of the samples, ascending; at least 2.
    y, dydx : array_like, shape (..., n, ...)
        The values and the slopes; real or complex.
    axis : int
        The axis of ``y`` along which the points lie.
    extrapolate : bool or "periodic", optional
        As for `PPoly`.

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The arrays do not fit each other, the points do not ascend, or a value is not finite.

    Examples
    --------
    >>> CubicHermiteSpline([0.0, 1.0], [0.0, 1.0], [0.0, 0.0])(0.5)
    Tensor(0.5)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        dydx: ArrayLike,
        axis: int = 0,
        extrapolate: Extrapolate = None,
    ) -> None:
        name = "CubicHermiteSpline"
        samples = read_samples(name, x, y, axis, dydx)
        slopes, _ = in_one_precision(array_of(name, "dydx", dydx), samples.y)
        values = fnp.moveaxis(samples.y, 0, samples.axis)
        if slopes.shape != values.shape:
            raise placed(
                ShapeError,
                f"{name}: y and dydx have to be of one shape, not {values.shape} and"
                f" {slopes.shape}.",
            )
        finite = require(
            fnp.all(fnp.isfinite(slopes)), ArgumentError, f"{name}: dydx has to be finite."
        )
        valid = all_hold(samples.valid, finite)
        rows = hermite_rows(samples.x, samples.y, fnp.moveaxis(slopes, samples.axis, 0))
        self._fill(where_valid(valid, rows), samples.x, extrapolate, samples.axis)


@pytree(init=False, eq=False)
class CubicSpline(PPoly):
    """The cubic spline through samples.

    It is a pytree whose leaves are its coefficients ``c`` and its breakpoints ``x``. Values are
    differentiable in the points of evaluation, and in ``x`` and ``y``, to every order and in both
    modes.

    Parameters
    ----------
    x : array_like, shape (n,)
        The points of the samples, ascending; at least 2.
    y : array_like, shape (..., n, ...)
        The samples; real or complex, finite.
    axis : int
        The axis of ``y`` along which the points lie.
    bc_type : str or pair
        One condition for both ends, or a pair of conditions. "not-a-knot": the first two
        polynomials are one; "natural": the second derivative is 0; "clamped": the first
        derivative is 0; ``(order, value)``: the first or second derivative is ``value``, in the
        shape of ``y`` without the axis. "periodic", for both ends: two derivatives agree, and the
        first and the last sample have to.
    extrapolate : bool or "periodic", optional
        As for `PPoly`; by default "periodic" for a periodic spline, else True.

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The arrays do not fit each other, the points do not ascend, a value is not finite, the
        first and the last sample of a periodic spline differ, or a condition is unknown.

    See Also
    --------
    PchipInterpolator, Akima1DInterpolator : Curves that do not overshoot.
    make_interp_spline : Splines of other degrees.

    Notes
    -----
    The slopes at the points solve a tridiagonal system, in O(n). Source: C. de Boor, "A practical
    guide to splines", 1978, chapter IV. Inside `jit` and `vmap`, where samples are not known,
    samples that would raise an error give NaN.

    Examples
    --------
    >>> import funcgrad as fg
    >>> x, y = fg.tensor([0.0, 1.0, 2.0, 3.0]), fg.tensor([0.0, 1.0, 8.0, 27.0])
    >>> spline = CubicSpline(x, y)
    >>> spline(1.5), spline(1.5, 1), spline.integrate(0.0, 2.0)
    (Tensor(3.375), Tensor(6.75), Tensor(4.0))
    >>> fg.grad(lambda y: CubicSpline(x, y)(1.5))(y)
    Tensor([-0.0625,  0.5625,  0.5625, -0.0625])
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        bc_type: str | tuple[Side, Side] = "not-a-knot",
        extrapolate: Extrapolate = None,
    ) -> None:
        sides = _sides(bc_type)
        given_values = [side[1] for side in sides if not isinstance(side, str)]
        samples = read_samples("CubicSpline", x, y, axis, *given_values)
        valid, is_periodic = samples.valid, sides[0] == "periodic"
        if is_periodic:
            valid = all_hold(valid, same_ends("CubicSpline", samples.y))
            slopes = _periodic_slopes(samples)
        else:
            slopes = _slopes(samples, [_condition(side, samples) for side in sides])
        rows = hermite_rows(samples.x, samples.y, slopes)
        goes_on = ("periodic" if is_periodic else True) if extrapolate is None else extrapolate
        self._fill(where_valid(valid, rows), samples.x, goes_on, samples.axis)


def same_ends(name: str, y: Tensor) -> Tensor | None:
    """Check that periodic samples end as they begin.

    Raises
    ------
    ArgumentError
        They do not.
    """
    gap = fnp.finfo(y.dtype).eps * 4.0
    return require(
        fnp.all(fnp.abs(y[-1] - y[0]) <= gap * (1.0 + fnp.abs(y[0]))),
        ArgumentError,
        f"{name}: the first and the last sample have to be equal for bc_type='periodic'.",
    )


def _sides(bc_type: object) -> list[Side]:
    """The conditions at both ends."""
    if isinstance(bc_type, str):
        bc_type = (bc_type, bc_type)
    elif isinstance(bc_type, tuple | list) and "periodic" in [
        side for side in bc_type if isinstance(side, str)
    ]:
        raise placed(
            ArgumentError,
            "CubicSpline: 'periodic' is a condition of both ends: bc_type='periodic'.",
        )
    if not isinstance(bc_type, tuple | list) or len(bc_type) != 2:
        raise placed(
            ArgumentError,
            "CubicSpline: bc_type is a word, or a pair of conditions for the start and the end,"
            f" not {bc_type!r}.",
        )
    sides: list[Side] = []
    for side in bc_type:
        if isinstance(side, str):
            if side not in (*_NAMED, "periodic"):
                raise placed(
                    ArgumentError,
                    f"CubicSpline: bc_type has the conditions {', '.join(_NAMED)}, periodic, or"
                    f" (order, value), not {side!r}.",
                )
            sides.append(side)
        elif isinstance(side, tuple | list) and len(side) == 2 and side[0] in (1, 2):
            sides.append((int(side[0]), side[1]))
        else:
            raise placed(
                ArgumentError,
                "CubicSpline: a derivative at an end is given as (order, value), of order 1 or 2,"
                f" not {side!r}.",
            )
    return sides


def _condition(side: Side, samples: Samples) -> str | tuple[int, Tensor]:
    """A condition with a value in the shape of a sample."""
    shape = samples.y.shape[1:]
    if side == "not-a-knot":
        return "not-a-knot"
    if isinstance(side, str):
        return 1 if side == "clamped" else 2, fnp.zeros(shape, samples.y.dtype)
    value = array_of("CubicSpline", "the derivative at an end", side[1])
    if value.shape != shape:
        raise placed(
            ShapeError,
            f"CubicSpline: the derivative at an end has the shape {value.shape}, and a sample"
            f" {shape}.",
        )
    return side[0], value.astype(samples.y.dtype)


def _slopes(samples: Samples, sides: list[str | tuple[int, Tensor]]) -> Tensor:
    """The slopes at the points: continuous second derivatives, and a condition at both ends."""
    x, y = samples.x, samples.y
    width = x[1:] - x[:-1]
    wide = beside_rows(width, y)
    secant = (y[1:] - y[:-1]) / wide
    count = x.shape[0]
    if count == 2:
        sides = [(1, secant[0]) if side == "not-a-knot" else side for side in sides]
    elif count == 3 and sides == ["not-a-knot"] * 2:
        # Both conditions say the same: one parabola through three points.
        middle = (wide[:1] * secant[1:] + wide[1:] * secant[:1]) / (wide[:1] + wide[1:])
        return fnp.concatenate([2.0 * secant[:1] - middle, middle, 2.0 * secant[1:] - middle])
    first = _end_row(sides[0], width[:2], secant[:2], 1.0)
    last = _end_row(sides[1], width[::-1][:2], secant[::-1][:2], -1.0)
    inner = 3.0 * (wide[1:] * secant[:-1] + wide[:-1] * secant[1:])
    right = fnp.concatenate([first[2][None], inner, last[2][None]])
    zero = fnp.zeros(1, x.dtype)
    rows = fnp.stack(
        [
            fnp.concatenate([zero, width[1:], last[1]]),
            fnp.concatenate([first[0], 2.0 * (width[:-1] + width[1:]), last[0]]),
            fnp.concatenate([first[1], width[:-1], zero]),
        ]
    )
    return _solved(solve_rows, rows, right)


def _solved(solve: _Solve, rows: Tensor, right: Tensor) -> Tensor:
    columns = fnp.reshape(right, (right.shape[0], int(np.prod(right.shape[1:]))))
    return fnp.reshape(solve(rows, 1, columns), right.shape)


def _end_row(
    side: str | tuple[int, Tensor], width: Tensor, secant: Tensor, direction: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The equation of a condition, from its end inwards: two elements, and the right side."""
    near = width[:1]
    if isinstance(side, str):
        far, both = width[1:2], width[:1] + width[1:2]
        total = (near + 2.0 * both) * far * secant[0] + near**2 * secant[1]
        return far, both, fnp.reshape(total / both, secant.shape[1:])
    order, value = side
    if order == 1:
        return fnp.ones(1, near.dtype), fnp.zeros(1, near.dtype), value
    width_0 = width[0]
    total = 3.0 * width_0 * secant[0] - (0.5 * direction) * value * width_0**2
    return 2.0 * near, near, total


def _periodic_slopes(samples: Samples) -> Tensor:
    """The slopes of a periodic spline; the last is the first."""
    x, y = samples.x, samples.y
    width = x[1:] - x[:-1]
    wide = beside_rows(width, y)
    secant = (y[1:] - y[:-1]) / wide
    if x.shape[0] == 2:
        return fnp.concatenate([secant, secant])
    before, wide_before = fnp.roll(width, 1), fnp.roll(wide, 1, axis=0)
    right = 3.0 * (wide * fnp.roll(secant, 1, axis=0) + wide_before * secant)
    rows = fnp.stack([width, 2.0 * (before + width), before])
    slopes = _solved(solve_cyclic, rows, right)
    return fnp.concatenate([slopes, slopes[:1]])
