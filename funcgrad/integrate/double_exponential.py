"""``tanhsinh``: integrals whose integrand may be singular at the ends, by double exponentials.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def beta(p):
...     return tanhsinh(lambda x, p: x ** (p - 1.0), 0.0, 1.0, args=(p,)).integral
>>> beta(0.5), fg.grad(beta)(0.5)
(Tensor(2.0...), Tensor(-4.0...))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import ignoring
from funcgrad._control.carry import count_of, handed, placed
from funcgrad._control.closures import with_closed_values
from funcgrad._control.whiles import while_loop
from funcgrad._core import pytrees
from funcgrad._core.pytrees import pytree
from funcgrad._core.trace import RAW, Value, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._primitives.structural import unfollowed
from funcgrad._programs.equation import spec_inside
from funcgrad._transforms.batch import vmap
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.integrate.adaptive_integrals import beyond
from funcgrad.integrate.double_exponential_nodes import (
    FEWEST,
    NodeSums,
    is_lost,
    nodes_at,
    places_of,
    summed,
    width_of,
    with_level,
)
from funcgrad.integrate.limits import check_integrand
from funcgrad.tensor.tensor import Tensor, wrap

CONVERGED: Final = 0
TOO_MANY_LEVELS: Final = -2
NOT_FINITE: Final = -3
_RUNNING: Final = 1


@pytree(slots=True)
class TanhSinhResult:
    """An integral, with SciPy's names; all are arrays of the shape of the limits and arguments.

    Attributes
    ----------
    success : Tensor of bool
        Whether the error is below the tolerance.
    status : Tensor of int
        0: it is; -2: not at the last level; -3: the integrand is not finite between the limits.
    integral : Tensor
        The integral, or its logarithm.
    error : Tensor
        An estimate of the absolute error, or its logarithm. It has no derivative.
    maxlevel : Tensor of int
        The last level.
    nfev : Tensor of int
        The number of points at which the integrand was evaluated.
    """

    success: Tensor
    status: Tensor
    integral: Tensor
    error: Tensor
    maxlevel: Tensor
    nfev: Tensor


@watched
@answering
def tanhsinh(
    f: Callable[..., Any],
    a: ArrayLike,
    b: ArrayLike,
    *,
    args: object = (),
    log: bool = False,
    maxlevel: int | None = None,
    minlevel: int = 2,
    atol: float | None = None,
    rtol: float | None = None,
    preserve_shape: bool = False,
    callback: None = None,
) -> TanhSinhResult:
    """Integrate a function that may be singular at the limits, by the tanh-sinh rule.

    Each level halves the distance of the nodes, and about doubles the number of digits. It is the
    method for powers and logarithms at the limits, and for many digits of smooth functions; peaks
    and kinks between the limits are for ``quad``. It works inside ``jit`` and ``vmap``.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` returns a number, real or complex. It is called with many nodes at once, by
        ``vmap``, so ``x`` and each of ``args`` are scalars inside; with ``preserve_shape`` they
        have the shape of all arguments, and so has the result.
    a, b : array_like of float
        The limits, which may be infinite, and traced; ``b`` may be less than ``a``.
    args : tuple of array_like
        Further arguments of ``f``; anything else than a tuple is one argument. They broadcast with
        the limits, and each element is an integral of its own.
    log : bool
        Whether ``f`` returns the logarithm of the integrand, and the result is the logarithm of the
        integral. Then ``atol`` and ``rtol`` are logarithms, too.
    maxlevel : int, optional
        The last level, 10 by default: there are 16 * 2**maxlevel nodes.
    minlevel : int
        The first level at which the error is compared with the tolerance.
    atol, rtol : float, optional
        The error may be ``max(atol, rtol * abs(integral))``; by default 0, and epsilon**0.75,
        1.8e-12 in float64. An error by rounding of the sum is accepted as well, also for a
        function that is 0, where SciPy's status is -2. If both are 0, no error is small enough:
        all levels run, and the status is -2, as in SciPy.
    preserve_shape : bool
        Whether ``f`` takes and returns all elements at once.
    callback : None
        For SciPy's signature; a function is refused.

    Returns
    -------
    TanhSinhResult
        As in SciPy, a failure is not an error: look at ``success``.

    Raises
    ------
    FunctionError, ArgumentError, ShapeError, DtypeError
        ``f`` does not take these arguments or return a number, a limit is not real, shapes do not
        broadcast, or an option is not allowed.

    See Also
    --------
    quad : Adaptive panels, for functions that are not smooth between the limits.

    Notes
    -----
    Between finite limits the distance of a node from the closer limit is exact, so singularities
    lose no digits at a limit of 0. Nodes that round to a limit, and the outermost ones at which the
    integrand is not finite, are left out. The estimate of the error is the greatest of a power of
    the last change, by the rate of convergence and at most 1.7, the outermost terms, and rounding.
    Sources: Takahasi and Mori, "Double exponential formulas for numerical integration", Publ. RIMS
    9, 1974; Bailey, Jeyabalan and Li, "A comparison of three high-precision quadrature schemes",
    Experimental Mathematics 14, 2005.

    The derivative is the integral of the derivative of ``f`` over the same nodes, and by Leibniz'
    rule ``f(b)`` and ``-f(a)`` for finite limits, as for ``quad``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> tanhsinh(lambda x: fnp.log(x) ** 2, 0.0, 1.0).integral
    Tensor(2.0)
    >>> rates = fg.tensor([0.5, 1.0, 2.0])
    >>> tanhsinh(lambda x, c: fnp.exp(-c * x) / fnp.sqrt(x), 0.0, fnp.inf, args=rates).integral
    Tensor([2.50662827, 1.77245385, 1.25331414])
    """
    name = "tanhsinh"
    more = check_integrand(name, f, 1, args)
    if callback is not None:
        raise placed(
            ArgumentError,
            f"{name}: callback is not supported, because the loop is one program. Compare the"
            " results of several values of maxlevel.",
        )
    most = 10 if maxlevel is None else count_of(name, "maxlevel", maxlevel, 0)
    least = min(count_of(name, "minlevel", minlevel, 0), most)
    limits = [_real(name, word, x) for word, x in (("a", a), ("b", b))]
    inputs = [*limits, *[wrap(operand(x, f"{name}: args")) for x in more]]
    try:
        shape = np.broadcast_shapes(*[x.shape for x in inputs])
    except ValueError:
        shapes = ", ".join(str(x.shape) for x in inputs)
        raise placed(
            ShapeError, f"{name}: the limits and args do not broadcast: shapes {shapes}."
        ) from None
    dtype = np.result_type(*[x.dtype for x in limits], np.float32)
    precision = float(np.finfo(dtype).eps)
    tolerances = (
        _tolerance(name, "atol", atol, 0.0, log),
        _tolerance(name, "rtol", rtol, precision**0.75, log),
    )
    if not any(tolerances):
        least = most + 1  # as in SciPy, whose errors have to be less than a tolerance
    first, last, *others = [fnp.broadcast_to(x, shape) for x in inputs]
    first, last = first.astype(dtype), last.astype(dtype)
    rule = _Rule(f, bool(log), least, most, tolerances, () if not preserve_shape else shape)
    if preserve_shape or not shape:
        return rule.result(first, last, *others)
    flat = [fnp.reshape(x, (-1,)) for x in (first, last, *others)]
    results: TanhSinhResult = vmap(rule.result)(*flat)
    return pytrees.map(lambda x: fnp.reshape(x, shape), results)


def _real(name: str, word: str, limit: ArrayLike) -> Tensor:
    """A limit, as a real floating-point tensor."""
    value = fnp.asarray(operand(limit, f"{name}: {word}"))
    if value.dtype.kind not in "biuf":
        raise placed(DtypeError, f"{name}: limits are real, got {word} of dtype {value.dtype}.")
    return value if value.dtype.kind == "f" else value.astype(float)


def _tolerance(name: str, word: str, value: object, default: float, log: bool) -> float:
    """A tolerance; the user gives its logarithm with ``log``."""
    if value is None:
        return default
    try:
        number = float(value)  # type: ignore[arg-type]  # others are refused
    except (TypeError, ValueError):
        number = np.nan
    number = float(np.exp(number)) if log else number
    if not 0.0 <= number < np.inf:
        bound = "the logarithm of a number" if log else "a number"
        raise placed(
            ArgumentError, f"{name}: {word} has to be {bound} >= 0 and finite, got {value!r}."
        )
    return number


class _Refinement(NamedTuple):
    """The state after a level."""

    level: Tensor
    sums: NodeSums
    before: Tensor
    integral: Tensor
    error: Tensor
    last: Tensor
    status: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Rule:
    """An integrand and the options of its integral.

    Attributes
    ----------
    f : callable
    log : bool
    least, most : int
        The first level at which the error may be small enough, and the last one.
    tolerances : tuple of float
        The absolute and the relative tolerance.
    shape : tuple of int
        The shape of x, and of the result.
    """

    f: Callable[..., Any]
    log: bool
    least: int
    most: int
    tolerances: tuple[float, float]
    shape: tuple[int, ...]

    def result(self, a: Tensor, b: Tensor, *args: Tensor) -> TanhSinhResult:
        """Integrate over levels without derivatives, and then over the last level with them."""
        ends, params = [*map(concrete, (a, b))], handed([*map(concrete, args)])
        closure = with_closed_values(
            "tanhsinh", self._flat, [*map(spec_inside, (ends[0], *params))], [ends[0], *params]
        )
        count, values = len(params), [*params, *closure.values]

        def at(x: Tensor, values: Sequence[Value]) -> Tensor:
            (value,) = closure.run([concrete(x), *values[:count]], values[count:])
            value = wrap(value)
            return value if value.dtype.kind in "fc" else value.astype(x.dtype)

        low, high = [wrap(unfollowed(end)) for end in ends]
        still = [unfollowed(value) for value in values]
        with ignoring():
            shift = self._shift(low, high, lambda x: at(x, still))
            shifted = self._without_logarithm(at, shift)
            ended = self._levels(low, high, lambda x: shifted(x, still), shift)
            integral = ended.integral
            if not all(type(value) in RAW for value in (*ends, *values)):
                final = fnp.max(ended.last)
                sums = NodeSums(*ended.sums)
                total = summed(low, high, lambda x: shifted(x, values), final, sums)
                integral = width_of(low.dtype, final) * total
                for sign, end in ((-1.0, ends[0]), (1.0, ends[1])):
                    if type(end) not in RAW:
                        integral = integral + sign * _moved(wrap(end), shifted, values)
            integral = fnp.where(ended.status == NOT_FINITE, np.nan, integral)
            empty = (low == high) & fnp.isinf(low)  # its nodes are not finite
            integral, error = (fnp.where(empty, 0.0, x) for x in (integral, ended.error))
            if self.log:
                integral, error = fnp.log(integral) + shift, fnp.log(error) + shift
        nodes = FEWEST * 2**ended.last
        converged = ended.status == CONVERGED
        return TanhSinhResult(converged, ended.status, integral, error, ended.last, nodes)

    def _flat(self, values: Sequence[Value]) -> list[Value]:
        """The user's function of x and the arguments, checked."""
        result = fnp.asarray(operand(self.f(*map(wrap, values)), "tanhsinh: the function's result"))
        if result.shape != self.shape:
            raise placed(
                ShapeError,
                f"tanhsinh: f has to return one number for each x, of shape {self.shape}, got shape"
                f" {result.shape}.",
            )
        return [concrete(result)]

    def _shift(self, a: Tensor, b: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        """The greatest logarithm at the nodes of a level, which is subtracted from all; else 0."""
        if not self.log:
            return fnp.zeros((), a.dtype)
        x, weights, inside = nodes_at(places_of(a.dtype, fnp.asarray(3), fnp.arange(128)), a, b)
        logs = fnp.real(vmap(f)(x)) + fnp.log(abs(weights))
        greatest = fnp.max(fnp.where(inside & fnp.isfinite(logs), logs, -np.inf), axis=0)
        return fnp.where(fnp.isfinite(greatest), greatest, 0.0).astype(a.dtype)

    def _without_logarithm(
        self, at: Callable[..., Tensor], shift: Tensor
    ) -> Callable[[Tensor, Sequence[Value]], Tensor]:
        if not self.log:
            return at
        return lambda x, values: fnp.exp(at(x, values) - shift)

    def _levels(
        self, a: Tensor, b: Tensor, f: Callable[[Tensor], Tensor], shift: Tensor
    ) -> _Refinement:
        """Halve the distance of the nodes until the error is below the tolerance."""
        absolute = self.tolerances[0] * fnp.exp(-shift)
        zero = fnp.zeros(self.shape, a.dtype)
        none = fnp.zeros(self.shape, f(zero).dtype)
        running = fnp.full(self.shape, _RUNNING)
        sums = NodeSums(
            none, zero, zero + np.inf, zero - np.inf, zero, zero, zero - np.inf, zero + np.inf
        )
        start = _Refinement(fnp.asarray(0), sums, none, none, zero, running - running, running)

        def goes_on(state: tuple[Any, ...]) -> Tensor:
            return fnp.any(_Refinement(*state).status == _RUNNING)

        def refined(state: tuple[Any, ...]) -> tuple[Any, ...]:
            now = _Refinement(*state)
            sums = with_level(NodeSums(*now.sums), a, b, f, now.level)
            width = width_of(a.dtype, now.level)
            integral = width * sums.total
            error = _error(sums, width, now)
            rounding = 10.0 * float(np.finfo(a.dtype).eps) * width * sums.size
            allowed = fnp.maximum(absolute, self.tolerances[1] * abs(integral))
            close = error <= fnp.maximum(allowed, rounding)
            close = close & (now.level >= max(self.least, 1))
            status = fnp.where(now.level >= self.most, TOO_MANY_LEVELS, _RUNNING)
            status = fnp.where(close, CONVERGED, status)
            status = fnp.where(is_lost(sums, integral), NOT_FINITE, status)
            status = fnp.where(a == b, CONVERGED, status)
            status = fnp.where(fnp.isnan(a) | fnp.isnan(b), NOT_FINITE, status)
            runs = now.status == _RUNNING
            return (
                now.level + 1,
                sums,
                fnp.where(runs, now.integral, now.before),
                fnp.where(runs, integral, now.integral),
                fnp.where(runs, error, now.error),
                fnp.where(runs, now.level, now.last),
                fnp.where(runs, status, now.status),
            )

        return _Refinement(*while_loop(goes_on, refined, tuple(start)))


def _error(sums: NodeSums, width: Tensor, now: _Refinement) -> Tensor:
    """The error of a level, from the last changes, the outermost terms, and rounding."""
    size = fnp.where(sums.size > 0.0, width * sums.size, 1.0)
    integral = width * sums.total
    eps = float(np.finfo(size.dtype).eps)
    first, second = (
        fnp.clip(abs(integral - other) / size, eps, 1.0) for other in (now.integral, now.before)
    )
    power = fnp.log(first) / fnp.minimum(fnp.log(second), -1e-3)
    quadratic = first ** fnp.clip(power, 1.0, 1.7)
    change = fnp.where(now.level >= 2, quadratic, first)
    outermost = width * (sums.low_term + sums.high_term)
    error = fnp.maximum(fnp.maximum(change, eps) * size, outermost)
    return fnp.where(sums.size > 0.0, error, 0.0).astype(size.dtype)


def _moved(
    end: Tensor, f: Callable[[Tensor, Sequence[Value]], Tensor], values: Sequence[Value]
) -> Tensor:
    """0, with the derivatives of the integral up to a limit; an infinite limit has none."""
    finite = fnp.isfinite(end)
    (moved,) = beyond(lambda x, values: [f(x, values)], fnp.where(finite, end, 0.0), values)
    return fnp.where(finite, moved, 0.0)
