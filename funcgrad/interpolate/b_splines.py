"""B-splines: splines as sums of basis functions, which few knots support.

>>> import funcgrad as fg
>>> hat = BSpline.basis_element([0.0, 1.0, 2.0])
>>> hat([0.5, 1.0]), fg.grad(hat)(0.5)
(Tensor([0.5, 1. ]), Tensor(1.0))
"""

from __future__ import annotations

from typing import Literal

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._core.pytrees import pytree, static_field
from funcgrad._core.specs import normalize_axis
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.interpolate.checked_samples import (
    Extrapolate,
    array_of,
    beside_rows,
    extrapolation,
    in_one_precision,
    moved_back,
    points_of,
    real_array_of,
    require,
    where_valid,
    within,
)
from funcgrad.interpolate.periods import in_period, periodic_part, real_limits
from funcgrad.numpy.options import integer, natural
from funcgrad.tensor.tensor import ArrayLike, Tensor


def basis_values(t: Tensor, x: Tensor, place: Tensor, k: int, nu: int = 0) -> list[Tensor]:
    """The k + 1 basis functions that are not 0 at points, or their derivatives.

    Parameters
    ----------
    t, x : Tensor
        The knots, and the points.
    place : Tensor of int, in the shape of x
        The point lies between the knots ``place`` and ``place + 1``.
    k, nu : int
        The degree, and the order of the derivative.

    Returns
    -------
    list of Tensor
        The functions ``place - k`` to ``place``.

    Notes
    -----
    The degree is raised step by step, by Cox and de Boor's recurrence, in the last ``nu`` steps
    by its derivative. Only distances across the interval occur as divisors, which are not 0.
    """
    if nu > k:
        return [x * 0.0] * (k + 1)
    near = {step: fnp.take(t, place + step) for step in range(1 - k, k + 1)}
    values = [fnp.ones_like(x) + x * 0.0 if k == nu else fnp.ones_like(x)]
    for degree in range(1, k + 1):
        raised: list[Tensor | None] = [None] * (degree + 1)
        for number, value in enumerate(values):
            low, high = near[number + 1 - degree], near[number + 1]
            term = value / (high - low)
            if degree <= k - nu:
                falling, rising = (high - x) * term, (x - low) * term
            else:
                falling, rising = -degree * term, degree * term
            before = raised[number]
            raised[number] = falling if before is None else before + falling
            raised[number + 1] = rising
        values = [value for value in raised if value is not None]
    return values


def interval_of(t: Tensor, x: Tensor, k: int) -> Tensor:
    """The interval of each point: the one to its right, within the base interval.

    It is not empty, however many knots are equal at an end; only steps, of degree 0, have a value
    on an empty interval, the one of the last sample.
    """
    count = t.shape[0] - k - 1
    if k:
        x = fnp.clip(x, t[k], fnp.nextafter(t[count], -np.inf))
    return fnp.clip(fnp.searchsorted(t, x, side="right") - 1, k, count - 1)


@pytree(init=False, eq=False)
class BSpline:
    """A spline as a sum of coefficients times basis functions.

    It is a pytree whose leaves are ``t`` and ``c``; values are differentiable in the points, the
    knots and the coefficients.

    Parameters
    ----------
    t : array_like, shape (n + k + 1,)
        The knots, in ascending order; several may be equal.
    c : array_like, shape (..., n, ...)
        The coefficients; real or complex. More than n along the axis are not used.
    k : int
        The degree.
    extrapolate : bool or "periodic"
        Whether the first and the last polynomial go on outside of the base interval, from
        ``t[k]`` to ``t[n]``, or values there are NaN, or the spline repeats.
    axis : int
        The axis of ``c`` that belongs to the knots.

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The arrays do not fit each other, or the knots do not ascend.

    Notes
    -----
    At a knot derivatives with respect to points are those to its right. Source: C. de Boor, "A
    practical guide to splines", 1978, chapter X.

    Examples
    --------
    >>> BSpline([0.0, 0.0, 1.0, 2.0, 2.0], [1.0, 3.0, 2.0], 1)([0.5, 1.5])
    Tensor([2. , 2.5])
    """

    t: Tensor
    c: Tensor
    k: int = static_field()
    extrapolate: bool | Literal["periodic"] = static_field()
    axis: int = static_field()

    def __init__(
        self, t: ArrayLike, c: ArrayLike, k: int, extrapolate: Extrapolate = True, axis: int = 0
    ) -> None:
        name = "BSpline"
        degree = natural(k, name, "k")
        knots, values = in_one_precision(real_array_of(name, "t", t), array_of(name, "c", c))
        if knots.ndim != 1 or not values.ndim:
            raise placed(
                ShapeError,
                f"{name}: t is 1-d and c at least 1-d; their shapes are {knots.shape} and"
                f" {values.shape}.",
            )
        place = normalize_axis(integer(axis, name, "axis"), values.ndim, name)
        count = knots.shape[0] - degree - 1
        if count < degree + 1:
            raise placed(
                ShapeError,
                f"{name}: a spline of degree {degree} has at least {2 * degree + 2} knots, not"
                f" {knots.shape[0]}.",
            )
        if values.shape[place] < count:
            raise placed(
                ShapeError,
                f"{name}: {knots.shape[0]} knots and the degree {degree} take {count} coefficients"
                f" along axis {place}; the shape of c is {values.shape}.",
            )
        ordered = require(
            fnp.all(knots[1:] >= knots[:-1]) & (knots[degree] < knots[count]),
            ArgumentError,
            f"{name}: t has to ascend and to be finite, and t[k] < t[n], the ends of the base"
            " interval.",
        )
        coefficients = fnp.moveaxis(values, place, 0)[:count]
        kept_places = fnp.moveaxis(where_valid(ordered, coefficients), 0, place)
        self._fill(knots, kept_places, degree, True if extrapolate is None else extrapolate, place)

    def _fill(self, t: Tensor, c: Tensor, k: int, extrapolate: object, axis: int) -> None:
        """Set the fields, once."""
        for field, value in (
            ("t", t),
            ("c", c),
            ("k", k),
            ("extrapolate", extrapolation("BSpline", extrapolate)),
            ("axis", axis),
        ):
            object.__setattr__(self, field, value)

    @classmethod
    def _made(cls, t: Tensor, rows: Tensor, k: int, extrapolate: object, axis: int) -> BSpline:
        """A spline of coefficients along the first axis that are known to fit."""
        made = object.__new__(BSpline)
        made._fill(t, fnp.moveaxis(rows, 0, axis), k, extrapolate, axis)
        return made

    @property
    def _rows(self) -> Tensor:
        """The coefficients along the first axis."""
        return fnp.moveaxis(self.c, self.axis, 0)

    @property
    def tck(self) -> tuple[Tensor, Tensor, int]:
        """The knots, the coefficients and the degree."""
        return self.t, self.c, self.k

    @classmethod
    def basis_element(cls, t: ArrayLike, extrapolate: Extrapolate = True) -> BSpline:
        """A basis function, from its knots.

        Parameters
        ----------
        t : array_like, shape (k + 2,)
            The knots that support it.
        extrapolate : bool or "periodic"
            Whether the first and the last polynomial go on outside, or values there are NaN, or
            the function repeats.

        Examples
        --------
        >>> BSpline.basis_element([0.0, 1.0, 2.0, 3.0])(1.5)
        Tensor(0.75)
        """
        knots = real_array_of("basis_element", "t", t)
        if knots.ndim != 1 or knots.shape[0] < 2:
            raise placed(
                ShapeError, f"basis_element: t has at least 2 knots, not the shape {knots.shape}."
            )
        k = knots.shape[0] - 2
        around = [fnp.repeat(knots[:1] - 1.0, k), knots, fnp.repeat(knots[-1:] + 1.0, k)]
        unit = np.zeros(2 * k + 1)
        unit[k] = 1.0
        return cls(fnp.concatenate(around), unit, k, extrapolate)

    @classmethod
    def design_matrix(
        cls, x: ArrayLike, t: ArrayLike, k: int, extrapolate: Extrapolate = False
    ) -> Tensor:
        """The values of all basis functions at points.

        Parameters
        ----------
        x : array_like, shape (m,)
        t : array_like, shape (n + k + 1,)
            The knots.
        k : int
            The degree.
        extrapolate : bool or "periodic"
            Whether points may lie outside of the base interval; if not, their rows are NaN.

        Returns
        -------
        Tensor, shape (m, n)
            A dense matrix, unlike SciPy's; the spline of coefficients c has the values
            ``design_matrix(x, t, k) @ c``.

        Examples
        --------
        >>> BSpline.design_matrix([0.25, 1.0], [0.0, 0.0, 1.0, 1.0], 1)
        Tensor([[0.75, 0.25],
                [0.  , 1.  ]])
        """
        knots = real_array_of("design_matrix", "t", t)
        count = knots.shape[0] - natural(k, "design_matrix", "k") - 1 if knots.ndim == 1 else 0
        return cls(knots, np.eye(max(count, 0)), k, extrapolate)(x)

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: Extrapolate = None) -> Tensor:
        """Evaluate the spline, or a derivative of it.

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
            The axes of ``x`` take the place of the axis of the knots.
        """
        goes_on = self.extrapolate if extrapolate is None else extrapolation("BSpline", extrapolate)
        at, knots = points_of("BSpline", x, self.t)
        order, rows = natural(nu, "BSpline", "nu"), self._rows
        low, high = knots[self.k], knots[rows.shape[0]]
        if goes_on == "periodic":
            at = in_period(at, low, high)
        place = interval_of(knots, at, self.k)
        lifted = (*at.shape, *(1,) * (rows.ndim - 1))
        total: Tensor | None = None
        for number, value in enumerate(basis_values(knots, at, place, self.k, order)):
            term = fnp.take(rows, place + (number - self.k), axis=0) * fnp.reshape(value, lifted)
            total = term if total is None else total + term
        assert total is not None
        if goes_on is False:
            total = within(at, low, high, total)
        return moved_back(total, at.ndim, self.axis)

    def derivative(self, nu: int = 1) -> BSpline:
        """The derivative of order ``nu``, a spline of degree ``k - nu``.

        Where knots coincide so often that the spline jumps, the derivative leaves out the jump.

        Examples
        --------
        >>> BSpline([0.0, 0.0, 1.0, 2.0, 2.0], [1.0, 3.0, 2.0], 1).derivative()([0.5, 1.5])
        Tensor([ 2., -1.])
        """
        order = integer(nu, "derivative", "nu")
        if order < 0:
            return self.antiderivative(-order)
        t, rows, k = self.t, self._rows, self.k
        if order > k:
            zero = BSpline._made(t, rows, k, self.extrapolate, self.axis).derivative(k)
            return BSpline._made(zero.t, zero._rows * 0.0, 0, self.extrapolate, self.axis)
        for degree in range(k, k - order, -1):
            span = beside_rows(t[degree + 1 : -1] - t[1 : -degree - 1], rows)
            is_empty = span == 0.0
            steps = degree * (rows[1:] - rows[:-1]) / fnp.where(is_empty, 1.0, span)
            rows, t = fnp.where(is_empty, 0.0, steps), t[1:-1]
        return BSpline._made(t, rows, k - order, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> BSpline:
        """The antiderivative of order ``nu``, which is 0 at the first knot.

        An antiderivative of a periodic spline is not periodic; outside it is NaN, as SciPy's.

        Examples
        --------
        >>> BSpline([0.0, 1.0, 2.0], [1.0, 3.0], 0).antiderivative()([1.0, 2.0])
        Tensor([1., 4.])
        """
        order = integer(nu, "antiderivative", "nu")
        if order < 0:
            return self.derivative(-order)
        t, rows, k = self.t, self._rows, self.k
        for degree in range(k, k + order):
            span = beside_rows(t[degree + 1 :] - t[: -degree - 1], rows)
            areas = rows * span / (degree + 1.0)
            rows = fnp.cumulative_sum(areas, axis=0, include_initial=True)
            t = fnp.concatenate([t[:1], t, t[-1:]])
        goes_on = False if order and self.extrapolate == "periodic" else self.extrapolate
        return BSpline._made(t, rows, k + order, goes_on, self.axis)

    def integrate(self, a: ArrayLike, b: ArrayLike, extrapolate: Extrapolate = None) -> Tensor:
        """The integral from ``a`` to ``b``, differentiable in both.

        Parameters
        ----------
        a, b : array_like
            Real numbers; ``b`` may be less than ``a``.
        extrapolate : bool or "periodic", optional
            By default as for the instance. If it is False, the spline counts as 0 outside of the
            base interval.

        Examples
        --------
        >>> BSpline.basis_element([0.0, 1.0, 2.0], extrapolate=False).integrate(-1.0, 3.0)
        Tensor(1.0)
        """
        goes_on = extrapolation(
            "integrate", self.extrapolate if extrapolate is None else extrapolate
        )
        whole, count = self.antiderivative(), self._rows.shape[0]
        start, end, knots = real_limits("integrate", a, b, self.t)
        low, high = knots[self.k], knots[count]
        if goes_on == "periodic":
            return periodic_part(whole, end, low, high) - periodic_part(whole, start, low, high)
        if goes_on is False:
            start, end = (fnp.clip(limit, low, high) for limit in (start, end))
        return whole(end, extrapolate=True) - whole(start, extrapolate=True)
