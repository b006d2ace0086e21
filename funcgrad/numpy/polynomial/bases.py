"""The functions of ``numpy.polynomial`` for any basis, as methods of a ``Basis`` with a table.

NumPy's names are these methods: ``chebval`` is ``Basis(CHEBYSHEV).val``. Coefficients are on the
first axis, the lowest degree first.

>>> from funcgrad.numpy.polynomial.recurrences import CHEBYSHEV
>>> Basis(CHEBYSHEV).mul([0.0, 1.0], [0.0, 1.0])
Tensor([0.5, 0. , 0.5])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from types import MappingProxyType
from typing import Any, Final, SupportsFloat

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.users_values import is_weak, operand
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy import (
    contraction,
    creation,
    exponential,
    joining,
    linalg,
    logic,
    manipulation,
    reductions,
    repeating,
    selection,
    sequences,
    sorting,
)
from funcgrad.numpy.options import integer, integers, natural, real_number
from funcgrad.numpy.polynomial.recurrences import POWER, Recurrence
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

Fit = Tensor | tuple[Tensor, list[Any]]


def inexact(x: ArrayLike, operation: str) -> Tensor:
    """An argument as an array of real or complex numbers; Python numbers stay weak."""
    raw = operand(x, operation)
    if is_weak(raw):
        return wrap(raw * 1.0)
    value = creation.asarray(raw)
    return value if value.dtype.kind in "fc" else value.astype(np.float64)


def coefficients(c: ArrayLike, operation: str, series: bool = True) -> Tensor:
    """Coefficients on the first axis, at least one; a scalar is a constant.

    Raises
    ------
    ShapeError
        There are none, or with ``series`` more axes than one.
    """
    value = inexact(c, operation)
    value = value if value.ndim else value.reshape(1)
    if not value.shape[0] or (series and value.ndim > 1):
        raise ShapeError(
            f"{operation}: coefficients have to be on {'one' if series else 'the first'} axis, and"
            f" at least one; the shape is {value.shape}."
        )
    return value


_MOST: Final = 100_000
"""The greatest degree or order: each is a step of Python's."""


def limited(x: object, operation: str, argument: str) -> int:
    """A degree or an order, not negative.

    Raises
    ------
    ArgumentError
        It is more than 100,000.
    """
    number = natural(x, operation, argument)
    if number > _MOST:
        raise ArgumentError(f"{operation}: {argument} is at most {_MOST:,}, but is {number:,}.")
    return number


def _without_zeros(c: Tensor, tol: float) -> Tensor:
    last = c.shape[0]
    while last > 1 and bool(abs(c[last - 1]) <= tol):
        last -= 1
    return c[:last]


_NUMPYS: Final = MappingProxyType(  # what is not called by the prefix and the method's name
    {"antiderivative": "{}int", "power": "{}pow", "from_powers": "poly2{}", "to_powers": "{}2poly"}
)


def _with_advice(basis: type[Basis]) -> type[Basis]:
    """Have calls that do not fit a method's parameters raise errors that name NumPy's function."""
    for name, method in [*vars(basis).items()]:
        if name[0] != "_" and callable(method):
            setattr(basis, name, _answering(method, _NUMPYS.get(name, f"{{}}{name}")))
    return basis


def _answering(method: Callable[..., Any], numpys: str) -> Callable[..., Any]:
    @wraps(method)
    def answered(basis: Basis, *args: object, **kwargs: object) -> Any:
        return answering(partial(method, basis), numpys.format(basis.rule.prefix))(*args, **kwargs)

    return answered


@_with_advice
@dataclass(frozen=True, slots=True)
class Basis:
    """The functions for polynomials in a basis."""

    rule: Recurrence

    def _named(self, name: str) -> str:
        return f"{self.rule.prefix}{name}"

    def _series(self, name: str, *several: ArrayLike) -> list[Tensor]:
        """Coefficients of several polynomials, filled up by zeros to one length."""
        values = [coefficients(c, self._named(name)) for c in several]
        size = max(c.shape[0] for c in values)
        return [repeating.pad(c, (0, size - c.shape[0])) for c in values]

    # ------------------------------------------------------------------------------- arithmetic

    def line(self, off: ArrayLike, scl: ArrayLike) -> Tensor:
        """The coefficients of ``off + scl * x``."""
        name = self._named("line")
        return joining.stack(self.rule.line_of(inexact(off, name), inexact(scl, name)))

    def add(self, c1: ArrayLike, c2: ArrayLike) -> Tensor:
        """The sum of two polynomials."""
        first, second = self._series("add", c1, c2)
        return first + second

    def sub(self, c1: ArrayLike, c2: ArrayLike) -> Tensor:
        """The difference of two polynomials."""
        first, second = self._series("sub", c1, c2)
        return first - second

    def mulx(self, c: ArrayLike) -> Tensor:
        """The product of a polynomial and x."""
        return self.rule.multiple.apply(coefficients(c, self._named("mulx")))

    def mul(self, c1: ArrayLike, c2: ArrayLike) -> Tensor:
        """The product of two polynomials."""
        name = self._named("mul")
        first, second = (coefficients(c, name) for c in (c1, c2))
        if self.rule is POWER:
            return sequences.convolve(first, second)
        start = repeating.pad(second, (0, first.shape[0] - 1))
        return first @ joining.stack(self.rule.expansion(self.rule, start, first.shape[0]))

    def div(self, c1: ArrayLike, c2: ArrayLike) -> tuple[Tensor, Tensor]:
        """The quotient and the remainder of two polynomials.

        The last coefficient of ``c2`` must not be 0. The remainder has one coefficient less than
        ``c2``, but at least one.
        """
        name = self._named("div")
        dividend, divisor = (coefficients(c, name) for c in (c1, c2))
        remainder, size = dividend, divisor.shape[0]
        steps = dividend.shape[0] - size + 1
        if steps < 1:
            return dividend[:1] * 0.0 + divisor[:1] * 0.0, dividend + divisor[0] * 0.0
        start = repeating.pad(divisor, (0, steps - 1))
        multiples = self.rule.expansion(self.rule, start, steps)
        quotient: list[Tensor] = []
        for k in reversed(range(steps)):
            multiple = multiples[k][: k + size]
            quotient.insert(0, remainder[-1] / multiple[-1])
            remainder = remainder[:-1] - quotient[0] * multiple[:-1]
        return joining.stack(quotient), remainder if size > 1 else quotient[0].reshape(1) * 0.0

    def power(self, c: ArrayLike, pow: int, maxpower: int | None = None) -> Tensor:
        """A power of a polynomial, of an exponent up to ``maxpower``."""
        name = self._named("pow")
        exponent, base = limited(pow, name, "pow"), coefficients(c, name)
        if maxpower is not None and exponent > natural(maxpower, name, "maxpower"):
            raise ArgumentError(f"{name}: pow={exponent} is more than maxpower={maxpower}.")
        power = creation.ones(1, base.dtype)
        for _ in range(exponent):
            power = self.mul(power, base)
        return power

    def trim(self, c: ArrayLike, tol: SupportsFloat = 0) -> Tensor:
        """The coefficients without the last ones whose sizes are at most ``tol``.

        Their number depends on values: examples of ``fg.vmap`` need results of one length.
        """
        name = self._named("trim")
        bound = real_number(tol, name, "tol")
        if bound < 0:
            raise ArgumentError(f"{name}: tol must not be negative, but is {bound}.")
        value = _without_zeros(coefficients(c, name), bound)
        return value * (abs(value) > bound) if value.shape[0] == 1 else value

    # -------------------------------------------------------------------- values and their tables

    def val(self, x: ArrayLike, c: ArrayLike, tensor: bool = True) -> Tensor:
        """The values of polynomials at points, by Clenshaw's recurrence.

        The coefficients are on the first axis of ``c``. With ``tensor`` each polynomial of several
        is evaluated at all points; otherwise they broadcast. At infinite points the highest degree
        decides, also where NumPy's value is NaN.
        """
        name = self._named("val")
        at, series = inexact(x, name), coefficients(c, name, series=False)
        if tensor:
            series = series.reshape(series.shape + (1,) * at.ndim)
        bands, is_infinite = self.rule.multiple.at, logic.isinf(at)
        if series.shape[0] == 1:
            return series[0] + 0.0 / (1.0 + abs(at))
        total, before = series[-1], None
        for n in reversed(range(series.shape[0] - 1)):
            up, same, _ = bands(n)
            factor = at if up == 1 and not same else (at - same) / up
            following, down = total, bands(n + 1)[2] / bands(n + 1)[0]
            total = series[n] + factor * total
            if before is not None and down:
                total = total - selection.where(is_infinite, 0.0, down * before)
            before = following
        return total

    def _several(self, name: str, points: Sequence[ArrayLike], c: ArrayLike, grid: bool) -> Tensor:
        name = self._named(name)
        places = [inexact(x, name) for x in points]
        value = coefficients(c, name, series=False)
        shapes = [x.shape for x in places]
        if value.ndim < len(places):
            raise ShapeError(
                f"{name}: coefficients need an axis for each variable, {len(places)}; the shape is"
                f" {value.shape}."
            )
        if not grid and len(set(shapes)) > 1:
            raise ShapeError(f"{name}: the points need one shape; the shapes are {shapes}.")
        for k, x in enumerate(places):
            value = self.val(x, value, tensor=grid or not k)
        return value

    def val2d(self, x: ArrayLike, y: ArrayLike, c: ArrayLike) -> Tensor:
        """The values of polynomials of two variables at points (x, y)."""
        return self._several("val2d", (x, y), c, False)

    def val3d(self, x: ArrayLike, y: ArrayLike, z: ArrayLike, c: ArrayLike) -> Tensor:
        """The values of polynomials of three variables at points (x, y, z)."""
        return self._several("val3d", (x, y, z), c, False)

    def valnd(self, pts: Sequence[ArrayLike], c: ArrayLike) -> Tensor:
        """The values of polynomials of several variables, whose places ``pts`` lists."""
        places = list(pts) if isinstance(pts, (tuple, list)) else list(creation.asarray(pts))
        if not places:
            raise ShapeError(f"{self._named('valnd')}: pts needs the places of a variable.")
        return self._several("valnd", places, c, False)

    def grid2d(self, x: ArrayLike, y: ArrayLike, c: ArrayLike) -> Tensor:
        """The values of polynomials of two variables on a grid."""
        return self._several("grid2d", (x, y), c, True)

    def grid3d(self, x: ArrayLike, y: ArrayLike, z: ArrayLike, c: ArrayLike) -> Tensor:
        """The values of polynomials of three variables on a grid."""
        return self._several("grid3d", (x, y, z), c, True)

    def vander(self, x: ArrayLike, deg: int) -> Tensor:
        """The values of the first ``deg + 1`` polynomials of the basis, on the last axis."""
        name = self._named("vander")
        at, count = inexact(x, name), limited(deg, name, "deg")
        at = at if at.ndim else at.reshape(1)
        terms = [at * 0.0 + 1.0]
        for n in range(count):
            up, same, down = self.rule.multiple.at(n)
            term = (at - same) * terms[-1] if same else at * terms[-1]
            term = term - down * terms[-2] if down else term
            terms.append(term if up == 1 else term / up)
        return joining.stack(terms, -1)

    def _vander(self, name: str, points: Sequence[ArrayLike], deg: Sequence[int]) -> Tensor:
        name = self._named(name)
        degrees = integers(deg, name, "deg")
        shapes = [inexact(x, name).shape for x in points]
        if len(degrees) != len(points) or len(set(shapes)) > 1:
            raise ShapeError(
                f"{name}: needs points of one shape, and a degree for each of {len(points)}"
                f" variables; the shapes are {shapes}, the degrees {degrees}."
            )
        table = self.vander(points[0], degrees[0])
        for x, degree in zip(points[1:], degrees[1:], strict=True):
            table = table[..., :, None] * self.vander(x, degree)[..., None, :]
            table = table.reshape((*table.shape[:-2], -1))
        return table

    def vander2d(self, x: ArrayLike, y: ArrayLike, deg: Sequence[int]) -> Tensor:
        """The products of the values of polynomials of x and of y, on the last axis."""
        return self._vander("vander2d", (x, y), deg)

    def vander3d(self, x: ArrayLike, y: ArrayLike, z: ArrayLike, deg: Sequence[int]) -> Tensor:
        """The products of the values of polynomials of x, y and z, on the last axis."""
        return self._vander("vander3d", (x, y, z), deg)

    def weight(self, x: ArrayLike) -> Tensor:
        """The weight under which the polynomials are orthogonal."""
        return self.rule.weight_at(inexact(x, self._named("weight")))

    def gauss(self, deg: int) -> tuple[Tensor, Tensor]:
        """The nodes and weights of Gauss's rule, exact for degrees up to ``2 deg - 1``."""
        name = self._named("gauss")
        if not limited(deg, name, "deg"):
            raise ShapeError(f"{name}: deg has to be at least 1.")
        x, w = self.rule.quadrature(deg)
        return creation.asarray(x), creation.asarray(w)

    # -------------------------------------------------------------------------------- calculus

    def der(self, c: ArrayLike, m: int = 1, scl: ArrayLike = 1, axis: int = 0) -> Tensor:
        """The derivative of order ``m`` with respect to x; ``scl`` multiplies at every order.

        The coefficients are on ``axis``.
        """
        name = self._named("der")
        value, order = coefficients(c, name, series=False), natural(m, name, "m")
        value = manipulation.moveaxis(value, integer(axis, name, "axis"), 0)
        for _ in range(min(order, value.shape[0])):
            size = value.shape[0]
            if size == 1:
                value = value * 0.0
                continue
            k, n = np.arange(size - 1)[:, None], np.arange(1, size)
            table = np.where(k < n, self.rule.slope(k, n), 0).astype(value.real.dtype)
            if np.count_nonzero(table) == size - 1:  # so that 0 does not meet infinite values
                factors = np.diagonal(table).reshape(-1, *(1,) * (value.ndim - 1))
                value = value[1:] * factors * inexact(scl, name)
            else:
                value = contraction.tensordot(table, value[1:], 1) * inexact(scl, name)
        return manipulation.moveaxis(value, 0, axis)

    def antiderivative(
        self,
        c: ArrayLike,
        m: int = 1,
        k: ArrayLike = (),
        lbnd: ArrayLike = 0,
        scl: ArrayLike = 1,
        axis: int = 0,
    ) -> Tensor:
        """The antiderivative of order ``m`` that has the values ``k``, or 0, at ``lbnd``.

        ``scl`` multiplies at every order, before a constant is added. The coefficients are on
        ``axis``.
        """
        name = self._named("int")
        value, order = coefficients(c, name, series=False), limited(m, name, "m")
        constants = inexact(k, name).reshape(-1)
        if constants.shape[0] > order:
            raise ShapeError(f"{name}: {constants.shape[0]} constants are more than m={order}.")
        place = integer(axis, name, "axis")
        value = manipulation.moveaxis(value, place, 0)
        low, factor = inexact(lbnd, name), inexact(scl, name)
        for number in range(order):
            value = self.rule.antiderivative.apply(value * factor)
            constant = constants[number] if number < constants.shape[0] else 0.0
            shift = constant - self.val(low, value)
            if shift.dtype.kind == "c":
                value = value.astype(np.result_type(value.dtype, shift.dtype))
            value = value.at[0].add(shift)
        return manipulation.moveaxis(value, 0, place)

    # ------------------------------------------------------------------------- zeros and fits

    def fromroots(self, roots: ArrayLike) -> Tensor:
        """The polynomial with given zeros, in which the highest power of x has the factor 1."""
        name = self._named("fromroots")
        points = inexact(roots, name).reshape(-1)
        factors = [self.line(-point, 1.0).astype(points.dtype) for point in points]
        while len(factors) > 1:
            pairs = zip(factors[::2], factors[1::2], strict=False)
            last = factors[-1:] if len(factors) % 2 else []
            factors = [self.mul(one, other) for one, other in pairs] + last
        return factors[0] if factors else creation.ones(1, points.dtype)

    def companion(self, c: ArrayLike) -> Tensor:
        """The matrix whose eigenvalues are the zeros; it is scaled as NumPy's."""
        name = self._named("companion")
        value = coefficients(c, name)
        size = value.shape[0] - 1
        if size < 1:
            raise ShapeError(f"{name}: a polynomial needs a degree of at least 1.")
        bands = [self.rule.multiple.at(n) for n in range(size)]
        ratios = [
            np.sqrt(bands[n + 1][2] / bands[n][0]) if bands[n + 1][2] else 1.0
            for n in range(size - 1)
        ]
        scales = 1 / np.cumprod([1.0, *ratios[::-1]])[::-1]
        matrix = np.diag([same for _, same, _ in bands])
        for n, ratio in enumerate(ratios):
            matrix[n + 1, n] = bands[n][0] * ratio
            matrix[n, n + 1] = bands[n + 1][2] / ratio
        column = value[:-1] / value[-1] * (scales * bands[-1][0]).astype(value.real.dtype)
        whole = creation.asarray(matrix.astype(value.real.dtype))
        return whole.astype(value.dtype).at[:, -1].add(-column)

    def roots(self, c: ArrayLike) -> Tensor:
        """The zeros of a polynomial, in ascending order: eigenvalues of its companion matrix.

        Last coefficients that are 0 are left out. The zeros are real if all are and the polynomial
        is; complex if values are not known. Zeros that are equal have no derivative.
        """
        name = self._named("roots")
        value = _without_zeros(coefficients(c, name), 0.0)
        if value.shape[0] == 1:
            return creation.zeros(0, value.dtype)
        matrix = self.companion(value)
        if value.shape[0] == 2:
            return matrix[0]
        zeros = sorting.sort(linalg.eigvals(matrix[::-1, ::-1]))
        is_real = value.dtype.kind == "f" and not bool(reductions.any(zeros.imag != 0))
        return zeros.real if is_real else zeros

    def fit(
        self,
        x: ArrayLike,
        y: ArrayLike,
        deg: int | Sequence[int],
        rcond: SupportsFloat | None = None,
        full: bool = False,
        w: ArrayLike | None = None,
    ) -> Fit:
        """Fit a polynomial to samples by least squares.

        ``deg`` is the degree, or a list of the degrees of all terms; ``w`` are the weights of
        residuals. ``full`` adds a list: residuals, rank, singular values and ``rcond``.
        """
        name = self._named("fit")
        at, samples = inexact(x, name), inexact(y, name)
        if at.ndim != 1 or not at.size or samples.ndim not in (1, 2) or len(at) != len(samples):
            raise ShapeError(
                f"{name}: x has to be 1-d and not empty, and y 1-d or 2-d of as many samples; the"
                f" shapes are {at.shape} and {samples.shape}."
            )
        listed = isinstance(deg, (list, tuple)) or bool(getattr(deg, "ndim", 0))
        degrees = (
            integers(deg, name, "deg") if listed else tuple(range(limited(deg, name, "deg") + 1))
        )
        if not degrees or min(degrees) < 0:
            raise ShapeError(f"{name}: degrees must not be negative, and at least one; got {deg}.")
        table = self.vander(at, max(degrees))[:, list(degrees)]
        if w is not None:
            weights = inexact(w, name)
            if weights.shape != at.shape:
                raise ShapeError(f"{name}: weights of the shape {weights.shape} do not fit x.")
            table = table * weights[:, None]
            samples = samples * (weights if samples.ndim == 1 else weights[:, None])
        precision = len(at) * float(np.finfo(at.dtype).eps)
        cutoff = precision if rcond is None else real_number(rcond, name, "rcond")
        scale = exponential.sqrt(reductions.sum(abs(table) ** 2, 0))
        scale = selection.where(scale == 0, 1.0, scale)
        solution, *others = linalg.lstsq(table / scale, samples, cutoff)
        solution = (solution.T / scale).T
        if listed:
            shape = (max(degrees) + 1, *solution.shape[1:])
            solution = creation.zeros(shape, solution.dtype).at[list(degrees)].set(solution)
        return (solution, [*others, cutoff]) if full else solution

    # ------------------------------------------------------------------------ between the bases

    def to_powers(self, c: ArrayLike) -> Tensor:
        """The coefficients of the powers of x, from those in this basis."""
        return self.in_basis(POWER, c, f"{self.rule.prefix}2poly")

    def from_powers(self, pol: ArrayLike) -> Tensor:
        """The coefficients in this basis, from the coefficients of powers of x."""
        return Basis(POWER).in_basis(self.rule, pol, f"poly2{self.rule.prefix}")

    def in_basis(self, target: Recurrence, c: ArrayLike, operation: str = "convert") -> Tensor:
        """The coefficients of a polynomial in another basis."""
        value = coefficients(c, operation)
        table = self.rule.conversion(target, value.shape[0])
        return creation.asarray(table.astype(value.real.dtype)) @ value

    def composed(self, c: Tensor, other: Basis, inner: Tensor) -> Tensor:
        """The coefficients, in another basis, of the polynomial of a polynomial ``inner``."""
        bands = self.rule.multiple.at
        total, before = c[-1:], None
        for n in reversed(range(c.shape[0] - 1)):
            up, same, _ = bands(n)
            factor = inner.at[0].add(-same) / up
            following, down = total, bands(n + 1)[2] / bands(n + 1)[0]
            total = other.add(other.mul(factor, total), c[n : n + 1])
            total = total if before is None or not down else other.sub(total, down * before)
            before = following
        return total
