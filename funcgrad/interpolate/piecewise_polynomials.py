"""Piecewise polynomials: values, derivatives and integrals.

>>> import funcgrad as fg
>>> ramp = PPoly([[1.0, 0.0], [0.0, 1.0]], [0.0, 1.0, 2.0])  # x, then 1
>>> ramp([0.5, 1.5]), ramp.integrate(0.0, 2.0), fg.grad(ramp)(0.5)
(Tensor([0.5, 1. ]), Tensor(1.5), Tensor(1.0))
"""

from __future__ import annotations

from math import factorial, perm
from typing import TYPE_CHECKING, Literal

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._core.pytrees import pytree, static_field
from funcgrad._core.specs import normalize_axis
from funcgrad.errors import ShapeError
from funcgrad.interpolate.checked_samples import (
    Extrapolate,
    array_of,
    ascending,
    beside_rows,
    extrapolation,
    in_one_precision,
    moved_back,
    points_of,
    real_array_of,
    where_valid,
    within,
)
from funcgrad.interpolate.periods import in_period, periodic_part, real_limits
from funcgrad.numpy.options import integer, natural
from funcgrad.tensor.tensor import ArrayLike, Tensor

if TYPE_CHECKING:
    from funcgrad.interpolate.b_splines import BSpline


@pytree(init=False, eq=False)
class PPoly:
    """Polynomials on the intervals between breakpoints.

    It is a pytree whose leaves are ``c`` and ``x``: pass it to transformed functions, return it,
    differentiate with respect to it.

    Parameters
    ----------
    c : array_like, shape (k, m, ...)
        The coefficients, the highest power first: on interval i the value is the sum over j of
        ``c[j, i] * (t - x[i]) ** (k - 1 - j)``. Real or complex. With an ``axis``, its first two
        axes are ``axis`` and ``axis + 1``, as in SciPy.
    x : array_like, shape (m + 1,)
        The breakpoints, ascending.
    extrapolate : bool or "periodic", optional
        Whether the first and the last polynomial go on outside (also None), or values there are
        NaN, or the intervals repeat.
    axis : int
        The axis of results where the axes of the points of evaluation begin.

    Raises
    ------
    ShapeError
        ``c`` and ``x`` do not fit each other.
    ArgumentError
        The breakpoints do not ascend.

    Notes
    -----
    At a breakpoint derivatives with respect to points are those to its right, at the last one
    those to its left. Inside `jit` and `vmap`, where breakpoints are not known, ones that do not
    ascend give NaN.

    Examples
    --------
    >>> PPoly([[1.0], [0.0], [2.0]], [0.0, 1.0])(0.5)
    Tensor(2.25)
    """

    c: Tensor
    x: Tensor
    extrapolate: bool | Literal["periodic"] = static_field()
    axis: int = static_field()

    def __init__(
        self, c: ArrayLike, x: ArrayLike, extrapolate: Extrapolate = None, axis: int = 0
    ) -> None:
        points, values = in_one_precision(real_array_of("PPoly", "x", x), array_of("PPoly", "c", c))
        place = integer(axis, "PPoly", "axis")
        if values.ndim > 1:
            place = normalize_axis(place, values.ndim - 1, "PPoly")
            values = fnp.moveaxis(values, (place, place + 1), (0, 1))
        if values.ndim < 2 or points.shape != (values.shape[1] + 1,) or not values.shape[0]:
            raise placed(
                ShapeError,
                "PPoly: c has the shape (k, m, ...), for m intervals and k > 0 coefficients, and x"
                f" (m + 1,); the shapes are {values.shape} and {points.shape}.",
            )
        if points.shape[0] < 2:
            raise placed(ShapeError, "PPoly: needs at least 2 breakpoints.")
        valid = ascending("PPoly", "x", points)
        self._fill(where_valid(valid, values), points, extrapolate, place)

    def _fill(self, c: Tensor, x: Tensor, extrapolate: object, axis: int) -> None:
        """Set the fields, once."""
        goes_on = True if extrapolate is None else extrapolate
        for field, value in (
            ("c", c),
            ("x", x),
            ("extrapolate", extrapolation(type(self).__name__, goes_on)),
            ("axis", axis),
        ):
            object.__setattr__(self, field, value)

    @classmethod
    def _made(cls, c: Tensor, x: Tensor, extrapolate: object, axis: int) -> PPoly:
        """A piecewise polynomial of values that are known to fit."""
        made = object.__new__(PPoly)
        made._fill(c, x, extrapolate, axis)
        return made

    @classmethod
    def from_spline(cls, tck: BSpline, extrapolate: Extrapolate = None) -> PPoly:
        """The polynomials of a spline between its knots.

        Parameters
        ----------
        tck : BSpline
            With knots that ascend strictly within its base interval.
        extrapolate : bool or "periodic", optional
            By default as for the spline.

        Returns
        -------
        PPoly
            On the base interval of the spline.

        Examples
        --------
        >>> from funcgrad.interpolate import make_interp_spline
        >>> PPoly.from_spline(make_interp_spline([0.0, 1.0], [1.0, 3.0], k=1)).c
        Tensor([[2.],
                [1.]])
        """
        x = tck.t[tck.k : tck.t.shape[0] - tck.k]
        starts = [
            fnp.moveaxis(tck(x[:-1], nu, extrapolate=True), tck.axis, 0) / factorial(nu)
            for nu in reversed(range(tck.k + 1))
        ]
        goes_on = tck.extrapolate if extrapolate is None else extrapolate
        return cls._made(fnp.stack(starts), x, goes_on, tck.axis)

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: Extrapolate = None) -> Tensor:
        """Evaluate the polynomials, or a derivative of them.

        Parameters
        ----------
        x : array_like
            The points of evaluation; real.
        nu : int
            The order of the derivative.
        extrapolate : bool or "periodic", optional
            By default as for the instance.

        Returns
        -------
        Tensor
            The axes of ``x`` take the place of the interpolated axis.
        """
        name = type(self).__name__
        goes_on = self.extrapolate if extrapolate is None else extrapolation(name, extrapolate)
        at, knots = points_of(name, x, self.x)
        if goes_on == "periodic":
            at = in_period(at, knots[0], knots[-1])
        values = self._values(at, knots, natural(nu, name, "nu"))
        if goes_on is False:
            values = within(at, knots[0], knots[-1], values)
        return moved_back(values, at.ndim, self.axis)

    def _values(self, at: Tensor, knots: Tensor, nu: int) -> Tensor:
        """Horner's scheme, in the interval to the right of each point."""
        last = knots.shape[0] - 2
        degree = self.c.shape[0] - 1
        if nu > degree:
            shape = (*at.shape, *self.c.shape[2:])
            return fnp.broadcast_to(self._lifted(at * 0.0), shape).astype(self.c.dtype)
        place = fnp.clip(fnp.searchsorted(knots, at, side="right") - 1, 0, last)
        offset = self._lifted(at - fnp.take(knots, place))
        total: Tensor | None = None
        for row in range(degree + 1 - nu):
            power = degree - row
            term = fnp.take(self.c[row], place, axis=0)
            if nu:
                term = term * float(perm(power, nu))
            total = term if total is None else total * offset + term
        assert total is not None
        # A constant does not see a NaN among the points.
        return total + self._lifted(at * 0.0) if nu == degree else total

    def _lifted(self, at: Tensor) -> Tensor:
        """Points with axes of length 1 for the axes of the values."""
        return fnp.reshape(at, (*at.shape, *(1,) * (self.c.ndim - 2)))

    def derivative(self, nu: int = 1) -> PPoly:
        """The derivative of order ``nu``; a negative order is an antiderivative.

        Examples
        --------
        >>> PPoly([[1.0], [0.0], [2.0]], [0.0, 1.0]).derivative().c
        Tensor([[2.],
                [0.]])
        """
        order = integer(nu, "derivative", "nu")
        if order < 0:
            return self.antiderivative(-order)
        degree = self.c.shape[0] - 1
        if order > degree:
            return self._made(self.c[:1] * 0.0, self.x, self.extrapolate, self.axis)
        factors = np.array([perm(degree - row, order) for row in range(degree + 1 - order)])
        factors = factors.astype(self.x.dtype).reshape(-1, *(1,) * (self.c.ndim - 1))
        rows = self.c[: degree + 1 - order] * factors
        return self._made(rows, self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """The antiderivative of order ``nu``, continuous, and 0 at the first breakpoint.

        An antiderivative of periodic polynomials is not periodic; outside of the intervals it is
        NaN, as SciPy's.

        Examples
        --------
        >>> PPoly([[1.0, 2.0]], [0.0, 1.0, 2.0]).antiderivative()([1.0, 2.0])
        Tensor([1., 3.])
        """
        order = integer(nu, "antiderivative", "nu")
        if order < 0:
            return self.derivative(-order)
        rows = self.c
        widths = beside_rows(self.x[1:] - self.x[:-1], rows[0])
        for _ in range(order):
            count = rows.shape[0]
            divisors = np.arange(count, 0, -1).astype(self.x.dtype)
            rows = rows / divisors.reshape(-1, *(1,) * (rows.ndim - 1))
            area = fnp.zeros_like(rows[0])
            for row in range(count):
                area = (area + rows[row]) * widths
            starts = fnp.cumulative_sum(area, axis=0, include_initial=True)[:-1]
            rows = fnp.concatenate([rows, starts[None]])
        goes_on = False if order and self.extrapolate == "periodic" else self.extrapolate
        return self._made(rows, self.x, goes_on, self.axis)

    def integrate(self, a: ArrayLike, b: ArrayLike, extrapolate: Extrapolate = None) -> Tensor:
        """The integral from ``a`` to ``b``, differentiable in both.

        Parameters
        ----------
        a, b : array_like
            Real numbers; ``b`` may be less than ``a``.
        extrapolate : bool or "periodic", optional
            By default as for the instance. If it is False, an integral that leaves the intervals
            is NaN.

        Returns
        -------
        Tensor
            The integrals along the interpolated axis.

        Examples
        --------
        >>> PPoly([[1.0, 2.0]], [0.0, 1.0, 2.0], "periodic").integrate(1.0, 4.0)
        Tensor(5.0)
        """
        goes_on = extrapolation(
            "integrate", self.extrapolate if extrapolate is None else extrapolate
        )
        whole = self.antiderivative()
        start, end, knots = real_limits("integrate", a, b, self.x)
        if goes_on != "periodic":
            return whole(end, extrapolate=goes_on) - whole(start, extrapolate=goes_on)
        return periodic_part(whole, end, knots[0], knots[-1]) - periodic_part(
            whole, start, knots[0], knots[-1]
        )
