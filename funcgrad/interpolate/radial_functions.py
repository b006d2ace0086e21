"""Interpolation of scattered data by radial basis functions.

>>> RBFInterpolator([[0.0], [1.0], [3.0]], [1.0, 2.0, 4.0])([[2.0]])
Tensor([3.])
"""

from __future__ import annotations

import itertools
import warnings
from math import comb
from types import MappingProxyType
from typing import Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._core.pytrees import pytree, static_field
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.interpolate.checked_samples import (
    all_hold,
    array_of,
    in_one_precision,
    method_of,
    real_array_of,
    require,
    where_valid,
)
from funcgrad.numpy.options import integer
from funcgrad.tensor.tensor import ArrayLike, Tensor

_NAME: Final = "RBFInterpolator"

_LEAST_DEGREES: Final = MappingProxyType(
    {"linear": 0, "multiquadric": 0, "thin_plate_spline": 1, "cubic": 1, "quintic": 2}
)
"""The least degree of polynomials with which the equations have one solution for all points."""

_KERNELS: Final = (
    "linear",
    "thin_plate_spline",
    "cubic",
    "quintic",
    "multiquadric",
    "inverse_multiquadric",
    "inverse_quadratic",
    "gaussian",
)


@pytree(init=False, eq=False)
class RBFInterpolator:
    """A sum of radial functions around data points, and a polynomial, through the data.

    It is a pytree: results are differentiable in the points of evaluation, the data points, the
    data, the smoothing and epsilon.

    Parameters
    ----------
    y : array_like, shape (n, d)
        The data points; real.
    d : array_like, shape (n, ...)
        The data; real or complex.
    neighbors : None
        Refused if given: all data points count.
    smoothing : array_like, scalar or of shape (n,)
        0: the function goes through the data; the larger, the smoother it is.
    kernel : str
        The function of ``r = epsilon * distance``: "linear" (-r), "thin_plate_spline"
        (r² log r), "cubic" (r³), "quintic" (-r⁵), "multiquadric" (-√(1 + r²)),
        "inverse_multiquadric" (1/√(1 + r²)), "inverse_quadratic" (1/(1 + r²)) or "gaussian"
        (exp(-r²)).
    epsilon : scalar, optional
        The factor of distances; 1 by default for the first four, the others need it.
    degree : int, optional
        The degree of the polynomial, or -1 for none; by default the least with which the equations
        have one solution, and at least 0.

    Attributes
    ----------
    shift, scale : Tensor, shape (d,)
        The middle and half the width of the data points, by which monomials are scaled.
    powers : tuple of tuple of int
        The exponents of the monomials.
    coefficients : Tensor
        The factors of the radial functions and of the monomials.

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The arrays do not fit each other, or an option is unknown or missing.
    MatrixError
        The equations are singular: two data points are equal, or all lie on a line or a surface.

    Warns
    -----
    UserWarning
        The degree is less than the least one of the kernel.

    Notes
    -----
    At a data point, where "linear" has a kink and "thin_plate_spline" no second derivative, the
    derivatives of its radial function count as 0. Source: G. Fasshauer, "Meshfree approximation
    methods with MATLAB", 2007.

    Examples
    --------
    >>> import funcgrad as fg
    >>> places = fg.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 2.0]])
    >>> plane = RBFInterpolator(places, places @ fg.tensor([1.0, 2.0]))
    >>> fg.grad(lambda at: plane(at[None])[0])(fg.tensor([0.3, 0.4]))
    Tensor([1., 2.])
    """

    y: Tensor
    d: Tensor
    smoothing: Tensor
    epsilon: Tensor
    shift: Tensor
    scale: Tensor
    coefficients: Tensor
    kernel: str = static_field()
    powers: tuple[tuple[int, ...], ...] = static_field()

    def __init__(
        self,
        y: ArrayLike,
        d: ArrayLike,
        neighbors: None = None,
        smoothing: ArrayLike = 0.0,
        kernel: str = "thin_plate_spline",
        epsilon: ArrayLike | None = None,
        degree: int | None = None,
    ) -> None:
        if neighbors is not None:
            raise placed(
                ArgumentError,
                f"{_NAME}: neighbors is not supported: which points are near depends on values,"
                " and the result would jump. Leave it out, or interpolate parts of the data.",
            )
        name = kernel.lower() if isinstance(kernel, str) else kernel
        name = method_of(_NAME, name, _KERNELS)
        places, data = in_one_precision(real_array_of(_NAME, "y", y), array_of(_NAME, "d", d))
        if places.ndim != 2 or not data.ndim or data.shape[0] != places.shape[0]:
            raise placed(
                ShapeError,
                f"{_NAME}: y has the shape (n, d), and the data (n, ...); the shapes are"
                f" {places.shape} and {data.shape}.",
            )
        if epsilon is None and name not in _KERNELS[:4]:
            raise placed(ArgumentError, f"{_NAME}: the kernel {name!r} needs an epsilon.")
        factor = real_array_of(_NAME, "epsilon", 1.0 if epsilon is None else epsilon)
        smooth = real_array_of(_NAME, "smoothing", smoothing)
        if factor.ndim or smooth.shape not in ((), (places.shape[0],)):
            raise placed(
                ShapeError,
                f"{_NAME}: epsilon is a scalar, smoothing a scalar or of shape"
                f" ({places.shape[0]},); the shapes are {factor.shape} and {smooth.shape}.",
            )
        factor, smooth = factor.astype(places.dtype), smooth.astype(places.dtype)
        powers = _powers(places.shape, name, degree)
        finite = require(
            fnp.all(fnp.isfinite(places)) & fnp.all(fnp.isfinite(data)),
            ArgumentError,
            f"{_NAME}: y and d have to be finite.",
        )
        low, high = fnp.min(places, axis=0), fnp.max(places, axis=0)
        half = (high - low) / 2.0
        fields = {
            "y": places,
            "d": data,
            "smoothing": smooth,
            "epsilon": factor,
            "shift": (high + low) / 2.0,
            "scale": fnp.where(half == 0.0, 1.0, half),
            "kernel": name,
            "powers": powers,
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)
        object.__setattr__(self, "coefficients", where_valid(all_hold(finite), self._solved()))

    def _basis(self, x: Tensor) -> Tensor:
        """The radial functions and the monomials at points, along the last axis."""
        radial = _radial(self.kernel, _squares(x * self.epsilon, self.y * self.epsilon))
        scaled = (x - self.shift) / self.scale
        monomials: list[Tensor] = []
        for powers in self.powers:
            column = fnp.ones(x.shape[0], x.dtype)
            for axis, power in enumerate(powers):
                if power:
                    column = column * scaled[:, axis] ** power
            monomials.append(column[:, None])
        return fnp.concatenate([radial, *monomials], axis=1)

    def _solved(self) -> Tensor:
        """The coefficients: the data at the data points, and no polynomial in the radial part."""
        count, extra = self.y.shape[0], len(self.powers)
        upper = self._basis(self.y)
        smooth = fnp.broadcast_to(self.smoothing, (count,))
        upper = upper + fnp.eye(count, count + extra, dtype=self.y.dtype) * smooth[:, None]
        below = fnp.concatenate(
            [upper[:, count:].T, fnp.zeros((extra, extra), self.y.dtype)], axis=1
        )
        data = fnp.reshape(self.d, (count, int(np.prod(self.d.shape[1:]))))
        right = fnp.concatenate([data, fnp.zeros((extra, data.shape[1]), data.dtype)])
        return fnp.linalg.solve(fnp.concatenate([upper, below]), right)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Evaluate at points.

        Parameters
        ----------
        x : array_like, shape (m, d)

        Returns
        -------
        Tensor, shape (m, ...)

        Raises
        ------
        ShapeError
            The points have another number of coordinates than the data points.
        """
        at = real_array_of(_NAME, "x", x)
        if at.ndim != 2 or at.shape[1] != self.y.shape[1]:
            raise placed(
                ShapeError,
                f"{_NAME}: x has the shape (m, {self.y.shape[1]}), one row a point; it is"
                f" {at.shape}.",
            )
        at, _ = in_one_precision(at, self.y)
        values = self._basis(at) @ self.coefficients
        return fnp.reshape(values, (at.shape[0], *self.d.shape[1:]))


def _powers(shape: tuple[int, ...], kernel: str, degree: int | None) -> tuple[tuple[int, ...], ...]:
    """The exponents of all monomials up to a degree, and a check of the degree."""
    least, (count, rank) = _LEAST_DEGREES.get(kernel, -1), shape
    highest = max(least, 0) if degree is None else integer(degree, _NAME, "degree")
    if highest < -1:
        raise placed(ArgumentError, f"{_NAME}: degree is -1, for no polynomial, or more.")
    if -1 < highest < least:
        warnings.warn(
            f"{_NAME}: the kernel {kernel!r} has one solution for all data from the degree {least}"
            f" on (or -1, without smoothing); with {highest} the equations may be singular.",
            UserWarning,
            stacklevel=3,
        )
    total = comb(highest + rank, rank)
    if total > count:
        raise placed(
            ShapeError,
            f"{_NAME}: a polynomial of degree {highest} in {rank} variables takes at least"
            f" {total} data points, not {count}.",
        )
    return tuple(
        tuple(chosen.count(axis) for axis in range(rank))
        for size in range(highest + 1)
        for chosen in itertools.combinations_with_replacement(range(rank), size)
    )


def _squares(x: Tensor, y: Tensor) -> Tensor:
    """The squares of all distances, added coordinate by coordinate, so that none cancels."""
    total = fnp.zeros((x.shape[0], y.shape[0]), x.dtype)
    for axis in range(x.shape[1]):
        total = total + fnp.square(x[:, axis, None] - y[:, axis])
    return total


def _radial(kernel: str, square: Tensor) -> Tensor:
    """A radial function of the square of the distance."""
    if kernel == "multiquadric":
        return -fnp.sqrt(1.0 + square)
    if kernel == "inverse_multiquadric":
        return 1.0 / fnp.sqrt(1.0 + square)
    if kernel == "inverse_quadratic":
        return 1.0 / (1.0 + square)
    if kernel == "gaussian":
        return fnp.exp(-square)
    # Powers and logarithms of 0 have infinite slopes; there the functions are constants.
    apart = fnp.where(square == 0.0, 1.0, square)
    if kernel == "linear":
        value = -fnp.sqrt(apart)
    elif kernel == "thin_plate_spline":
        value = 0.5 * apart * fnp.log(apart)
    elif kernel == "cubic":
        value = apart * fnp.sqrt(apart)
    else:
        value = -(apart * apart) * fnp.sqrt(apart)
    return fnp.where(square == 0.0, 0.0, value)
