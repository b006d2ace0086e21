"""Polynomials as values: NumPy's classes, as immutable pytrees.

>>> import funcgrad as fg
>>> p = Chebyshev([1.0, 2.0, 3.0])
>>> p(0.5), p.deriv().coef, fg.grad(p)(0.5)
(Tensor(0.5), Tensor([ 2., 12.]), Tensor(8.0))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, SupportsFloat, TypeAlias, TypeVar

from funcgrad._core.pytrees import pytree, static_field
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy import creation, joining, ranges, reductions, selection, shapes
from funcgrad.numpy.options import integer, natural
from funcgrad.numpy.polynomial.bases import Basis, coefficients, inexact, limited
from funcgrad.numpy.polynomial.chebyshev_points import chebinterpolate
from funcgrad.numpy.polynomial.recurrences import (
    CHEBYSHEV,
    HERMITE,
    HERMITE_E,
    LAGUERRE,
    LEGENDRE,
    POWER,
)
from funcgrad.tensor.tensor import ArrayLike, Tensor

S = TypeVar("S", bound="PolynomialSeries")
Interval: TypeAlias = ArrayLike | Sequence[ArrayLike]
Operand: TypeAlias = "ArrayLike | PolynomialSeries"

_ARRAYS: Final = ("coef", "domain", "window")


@pytree(init=False, eq=False)
class PolynomialSeries:
    """A polynomial in one of the six bases, as a value; NumPy's ``ABCPolyBase``.

    It is a pytree whose leaves are its arrays: pass it to transformed functions, and differentiate
    with respect to it. Operators combine polynomials of one class, domain and window, and take
    scalars; coefficients that are 0 stay, so that shapes do not depend on values.

    Parameters
    ----------
    coef : array_like, shape (n,)
        The coefficients, the lowest degree first.
    domain, window : array_like, shape (2,), optional
        Points of the domain are moved to the window before the polynomial is evaluated. By default
        both are the interval of the class.
    symbol : str
        The name of the variable.

    Raises
    ------
    ShapeError
        The coefficients have not one axis, or a domain has not two ends.
    """

    coef: Tensor
    domain: Tensor
    window: Tensor
    symbol: str = static_field()

    __array_ufunc__ = None
    functions: ClassVar[Basis] = Basis(POWER)
    basis_name: ClassVar[str | None] = None
    maxpower: ClassVar[int] = 100

    def __init__(
        self,
        coef: ArrayLike,
        domain: Interval | None = None,
        window: Interval | None = None,
        symbol: str = "x",
    ) -> None:
        name = type(self).__name__
        if not isinstance(symbol, str) or not symbol.isidentifier():
            raise ArgumentError(f"{name}: symbol has to be a name, as 'x', not {symbol!r}.")
        object.__setattr__(self, "coef", coefficients(coef, name))
        object.__setattr__(self, "domain", self._interval(domain, "domain"))
        object.__setattr__(self, "window", self._interval(window, "window"))
        object.__setattr__(self, "symbol", symbol)

    @classmethod
    def _interval(cls, ends: Interval | None, argument: str) -> Tensor:
        usual = ends is None or (isinstance(ends, list) and not ends)
        value = inexact(cls.functions.rule.interval if usual else ends, cls.__name__)
        if value.shape != (2,):
            raise ShapeError(
                f"{cls.__name__}: {argument} has to be a pair, not of shape {value.shape}."
            )
        return value

    def _like(self: S, coef: Tensor) -> S:
        return type(self)(coef, self.domain, self.window, self.symbol)

    # ------------------------------------------------------------------------------ evaluation

    def mapparms(self) -> tuple[Tensor, Tensor]:
        """The ``off`` and ``scl`` by which points go to the window: ``off + scl * x``."""
        return _line(self.domain, self.window)

    def __call__(self, arg: ArrayLike | PolynomialSeries) -> Any:
        """The values at points, or the polynomial of a polynomial."""
        off, scl = self.mapparms()
        if isinstance(arg, PolynomialSeries):
            inner = (scl * arg.coef).at[0].add(off)
            return arg._like(self.functions.composed(self.coef, arg.functions, inner))
        return self.functions.val(off + scl * inexact(arg, type(self).__name__), self.coef)

    def linspace(self, n: int = 100, domain: Interval | None = None) -> tuple[Tensor, Tensor]:
        """``n`` points of the domain, and the values there."""
        ends = self.domain if domain is None else self._interval(domain, "domain")
        x = ranges.linspace(ends[0], ends[1], limited(n, "linspace", "n"))
        return x, self(x)

    def degree(self) -> int:
        """The number of coefficients less one."""
        return len(self) - 1

    def __len__(self) -> int:
        return self.coef.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.coef)

    def __eq__(self, other: object) -> bool:
        """Whether another polynomial has this class, and equal arrays and symbols."""
        if type(other) is not type(self) or other.symbol != self.symbol:
            return False
        return all(_are_equal(getattr(self, word), getattr(other, word)) for word in _ARRAYS)

    def has_sametype(self, other: object) -> bool:
        """Whether another polynomial has this class."""
        return isinstance(other, type(self))

    def has_samecoef(self, other: PolynomialSeries) -> bool:
        """Whether another polynomial has as many coefficients, of equal values."""
        return _are_equal(self.coef, other.coef)

    def has_samedomain(self, other: PolynomialSeries) -> bool:
        """Whether another polynomial has an equal domain."""
        return _are_equal(self.domain, other.domain)

    def has_samewindow(self, other: PolynomialSeries) -> bool:
        """Whether another polynomial has an equal window."""
        return _are_equal(self.window, other.window)

    def copy(self: S) -> S:
        """The polynomial itself, which never changes."""
        return self

    # ------------------------------------------------------------------------------- operators

    def _other(self, other: Operand, operation: str) -> ArrayLike:
        if not isinstance(other, PolynomialSeries):
            return other
        if type(other) is not type(self) or other.symbol != self.symbol:
            raise ArgumentError(
                f"{operation}: a {type(self).__name__} of {self.symbol} and a"
                f" {type(other).__name__} of {other.symbol} are of two kinds. Convert one by"
                " convert(kind=...)."
            )
        for one, two in ((self.domain, other.domain), (self.window, other.window)):
            if one is not two and not bool(reductions.all(one == two)):
                raise ArgumentError(
                    f"{operation}: the domains or windows differ. Convert one by"
                    " convert(domain=..., window=...)."
                )
        return other.coef

    def __neg__(self: S) -> S:
        return self._like(-self.coef)

    def __pos__(self: S) -> S:
        return self

    def __add__(self: S, other: Operand) -> S:
        return self._like(self.functions.add(self.coef, self._other(other, "add")))

    __radd__ = __add__

    def __sub__(self: S, other: Operand) -> S:
        return self._like(self.functions.sub(self.coef, self._other(other, "sub")))

    def __rsub__(self: S, other: Operand) -> S:
        return self._like(self.functions.sub(self._other(other, "sub"), self.coef))

    def __mul__(self: S, other: Operand) -> S:
        return self._like(self.functions.mul(self.coef, self._other(other, "mul")))

    __rmul__ = __mul__

    def __truediv__(self: S, other: ArrayLike) -> S:
        if isinstance(other, PolynomialSeries) or shapes.ndim(other):
            raise ArgumentError(
                "truediv: a polynomial is divided by a scalar; use // and % for polynomials."
            )
        return self._like(self.coef / inexact(other, "truediv"))

    def __divmod__(self: S, other: Operand) -> tuple[S, S]:
        quotient, remainder = self.functions.div(self.coef, self._other(other, "div"))
        return self._like(quotient), self._like(remainder)

    def __floordiv__(self: S, other: Operand) -> S:
        return divmod(self, other)[0]

    def __mod__(self: S, other: Operand) -> S:
        return divmod(self, other)[1]

    def __rdivmod__(self: S, other: ArrayLike) -> tuple[S, S]:
        quotient, remainder = self.functions.div(other, self.coef)
        return self._like(quotient), self._like(remainder)

    def __rfloordiv__(self: S, other: ArrayLike) -> S:
        return divmod(other, self)[0]

    def __rmod__(self: S, other: ArrayLike) -> S:
        return divmod(other, self)[1]

    def __pow__(self: S, other: int) -> S:
        return self._like(self.functions.power(self.coef, other, self.maxpower))

    # --------------------------------------------------------------------------------- calculus

    def deriv(self: S, m: int = 1) -> S:
        """The derivative of order ``m``."""
        return self._like(self.functions.der(self.coef, m, self._in_precision(self.mapparms()[1])))

    def integ(self: S, m: int = 1, k: ArrayLike = (), lbnd: ArrayLike | None = None) -> S:
        """The antiderivative of order ``m`` that has the values ``k``, or 0, at ``lbnd``.

        Without ``lbnd`` this is the point that goes to 0 of the window.
        """
        off, scl = self.mapparms()
        low = 0.0 if lbnd is None else off + scl * inexact(lbnd, "integ")
        factor = self._in_precision(1.0 / scl)
        return self._like(self.functions.antiderivative(self.coef, m, k, low, factor))

    def _in_precision(self, factor: Tensor) -> Tensor:
        """A factor that leaves the precision of coefficients as it is, unless it is complex."""
        return factor if factor.dtype.kind == "c" else factor.astype(self.coef.dtype)

    def roots(self) -> Tensor:
        """The zeros, in the domain's coordinates."""
        off, scl = _line(self.window, self.domain)
        return off + scl * self.functions.roots(self.coef)

    # ----------------------------------------------------------------------- other coefficients

    def trim(self: S, tol: SupportsFloat = 0) -> S:
        """Leave out last coefficients whose sizes are at most ``tol``."""
        return self._like(self.functions.trim(self.coef, tol))

    def truncate(self: S, size: int) -> S:
        """Leave out coefficients from the place ``size`` on."""
        if integer(size, "truncate", "size") < 1:
            raise ArgumentError(f"truncate: size has to be at least 1, but is {size}.")
        return self._like(self.coef[:size])

    def cutdeg(self: S, deg: int) -> S:
        """Leave out coefficients of degrees above ``deg``."""
        return self.truncate(natural(deg, "cutdeg", "deg") + 1)

    def convert(
        self,
        domain: Interval | None = None,
        kind: type[S] | None = None,
        window: Interval | None = None,
    ) -> S:
        """Convert the polynomial to another class, domain or window.

        Parameters
        ----------
        domain, window : array_like, shape (2,), optional
            By default the intervals of ``kind``.
        kind : type, optional
            By default the class of the polynomial.
        """
        made: Any = type(self) if kind is None else kind
        return self(made.identity(domain, window, self.symbol))

    @classmethod
    def cast(
        cls: type[S],
        series: PolynomialSeries,
        domain: Interval | None = None,
        window: Interval | None = None,
    ) -> S:
        """Convert a polynomial to this class; see ``convert``."""
        return series.convert(domain, cls, window)

    # ------------------------------------------------------------------------------ constructors

    @classmethod
    def identity(
        cls: type[S],
        domain: Interval | None = None,
        window: Interval | None = None,
        symbol: str = "x",
    ) -> S:
        """The polynomial x."""
        ends = cls._interval(domain, "domain"), cls._interval(window, "window")
        off, scl = _line(ends[1], ends[0])
        return cls(cls.functions.line(off, scl), *ends, symbol)

    @classmethod
    def basis(
        cls: type[S],
        deg: int,
        domain: Interval | None = None,
        window: Interval | None = None,
        symbol: str = "x",
    ) -> S:
        """The polynomial of the basis of degree ``deg``."""
        place = limited(deg, "basis", "deg")
        return cls(creation.zeros(place + 1).at[place].set(1.0), domain, window, symbol)

    @classmethod
    def fromroots(
        cls: type[S],
        roots: ArrayLike,
        domain: Interval | None = (),
        window: Interval | None = None,
        symbol: str = "x",
    ) -> S:
        """The polynomial with given zeros, and 1 as the factor of the highest power of x.

        With ``domain=None`` it is the smallest interval that holds the zeros.
        """
        points = inexact(roots, "fromroots").reshape(-1)
        ends = _around(points) if domain is None else cls._interval(list(domain), "domain")
        off, scl = _line(ends, cls._interval(window, "window"))
        coef = cls.functions.fromroots(off + scl * points) / scl ** len(points)
        return cls(coef, ends, window, symbol)

    @classmethod
    def fit(
        cls: type[S],
        x: ArrayLike,
        y: ArrayLike,
        deg: int | Sequence[int],
        domain: Interval | None = None,
        rcond: SupportsFloat | None = None,
        full: bool = False,
        w: ArrayLike | None = None,
        window: Interval | None = None,
        symbol: str = "x",
    ) -> Any:
        """Fit a polynomial to samples by least squares.

        The domain is by default the smallest interval that holds ``x``, with ``domain=[]`` the
        interval of the class. With ``full`` a pair is returned: the polynomial, and the list of
        residuals, rank, singular values and ``rcond``.
        """
        points = inexact(x, "fit")
        ends = _around(points) if domain is None else cls._interval(domain, "domain")
        off, scl = _line(ends, cls._interval(window, "window"))
        fitted: Any = cls.functions.fit(off + scl * points, y, deg, rcond, full, w)
        coef, more = fitted if full else (fitted, None)
        series = cls(coef, ends, window, symbol)
        return (series, more) if full else series


def _are_equal(one: Tensor, other: Tensor) -> bool:
    return shapes.shape(one) == shapes.shape(other) and bool(reductions.all(one == other))


def _line(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    length = old[1] - old[0]
    return (old[1] * new[0] - old[0] * new[1]) / length, (new[1] - new[0]) / length


def _around(x: Tensor) -> Tensor:
    """The smallest interval that holds points; one of length 2 around a single point."""
    if not x.size:
        raise ShapeError("domain=None: a domain around points needs at least one point.")
    low, high = reductions.min(x.real), reductions.max(x.real)
    wider = selection.where(low == high, 1.0, 0.0)
    return joining.stack([low - wider, high + wider])


@pytree(init=False, eq=False)
class Polynomial(PolynomialSeries):
    """A polynomial by coefficients of powers of x.

    ``coef``, ``domain``, ``window`` and ``symbol`` are as in ``PolynomialSeries``.

    Examples
    --------
    >>> Polynomial([1.0, 0.0, 3.0])(2.0)
    Tensor(13.0)
    """

    functions: ClassVar[Basis] = Basis(POWER)


@pytree(init=False, eq=False)
class Chebyshev(PolynomialSeries):
    """A polynomial by coefficients of Chebyshev's polynomials of the first kind.

    ``coef``, ``domain``, ``window`` and ``symbol`` are as in ``PolynomialSeries``.

    Examples
    --------
    >>> Chebyshev([0.0, 0.0, 1.0])(2.0)
    Tensor(7.0)
    """

    functions: ClassVar[Basis] = Basis(CHEBYSHEV)
    basis_name: ClassVar[str | None] = "T"

    @classmethod
    def interpolate(
        cls: type[S],
        func: Callable[..., ArrayLike],
        deg: int,
        domain: Interval | None = None,
        args: Sequence[Any] = (),
    ) -> S:
        """The polynomial that interpolates a function at Chebyshev's points of the domain."""
        ends = cls._interval(domain, "domain")
        off, scl = _line(cls._interval(None, "window"), ends)
        return cls(chebinterpolate(lambda x: func(off + scl * x, *args), deg), ends)


@pytree(init=False, eq=False)
class Legendre(PolynomialSeries):
    """A polynomial by coefficients of Legendre's polynomials.

    ``coef``, ``domain``, ``window`` and ``symbol`` are as in ``PolynomialSeries``.

    Examples
    --------
    >>> Legendre([0.0, 0.0, 1.0])(2.0)
    Tensor(5.5)
    """

    functions: ClassVar[Basis] = Basis(LEGENDRE)
    basis_name: ClassVar[str | None] = "P"


@pytree(init=False, eq=False)
class Hermite(PolynomialSeries):
    """A polynomial by coefficients of Hermite's polynomials, of the weight ``exp(-x**2)``.

    ``coef``, ``domain``, ``window`` and ``symbol`` are as in ``PolynomialSeries``.

    Examples
    --------
    >>> Hermite([0.0, 0.0, 1.0])(2.0)
    Tensor(14.0)
    """

    functions: ClassVar[Basis] = Basis(HERMITE)
    basis_name: ClassVar[str | None] = "H"


@pytree(init=False, eq=False)
class HermiteE(PolynomialSeries):
    """A polynomial by coefficients of Hermite's polynomials, of the weight ``exp(-x**2 / 2)``.

    ``coef``, ``domain``, ``window`` and ``symbol`` are as in ``PolynomialSeries``.

    Examples
    --------
    >>> HermiteE([0.0, 0.0, 1.0])(2.0)
    Tensor(3.0)
    """

    functions: ClassVar[Basis] = Basis(HERMITE_E)
    basis_name: ClassVar[str | None] = "He"


@pytree(init=False, eq=False)
class Laguerre(PolynomialSeries):
    """A polynomial by coefficients of Laguerre's polynomials.

    ``coef``, ``domain``, ``window`` and ``symbol`` are as in ``PolynomialSeries``.

    Examples
    --------
    >>> Laguerre([0.0, 0.0, 1.0])(2.0)
    Tensor(-1.0)
    """

    functions: ClassVar[Basis] = Basis(LAGUERRE)
    basis_name: ClassVar[str | None] = "L"
