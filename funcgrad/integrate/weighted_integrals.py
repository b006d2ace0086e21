"""Integrals with a weight that oscillates, or is infinite at the limits or at a point between them.

>>> import funcgrad as fg
>>> value, error = fg.integrate.quad(lambda x: 1.0 / x, 1.0, fnp.inf, weight="sin", wvar=2.0)
>>> value
Tensor(-0.034...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import ceil
from operator import add
from typing import Any, Final, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._control.choices import is_unknown, number_in
from funcgrad._core import pytrees
from funcgrad._core.trace import concrete
from funcgrad._core.users_values import operand
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError
from funcgrad.tensor.tensor import Tensor

Outcome: TypeAlias = tuple[Any, Tensor, dict[str, Any]]
"""An integral, its error, and the dict of ``full_output``."""
Integrand: TypeAlias = Callable[..., Any]
Integrate: TypeAlias = Callable[..., Outcome]
"""``integrate(func, a, b, args, points)`` without a weight."""
Ends: TypeAlias = tuple[Tensor, Tensor]
Shares: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
Further: TypeAlias = tuple[object, ...]
"""The further arguments of an integrand."""

WEIGHTS: Final = ("cos", "sin", "alg", "alg-loga", "alg-logb", "alg-log", "cauchy")
ANGLE: Final = 12.0  # so much a wave turns in a first panel, which has 21 nodes
MOST_PANELS: Final = 1000
TERMS: Final = (20, 28)
"""Numbers of half waves whose sums are extrapolated. The error falls by 5.8 with each."""


def weighted_integral(
    integrate: Integrate,
    func: Integrand,
    ends: tuple[object, object],
    more: Further,
    weight: object,
    wvar: object,
) -> Outcome:
    """Integrate ``weight(x) * func(x, *more)`` between two limits.

    Raises
    ------
    ArgumentError
        The weight is unknown, does not fit the limits, or its parameters are not allowed.
    """
    if not isinstance(weight, str) or weight not in WEIGHTS:
        raise placed(ArgumentError, f"quad: weight has to be one of {WEIGHTS}, got {weight!r}.")
    count = 2 if weight.startswith("alg") else 1
    numbers = [*wvar] if isinstance(wvar, tuple | list) else [wvar]
    if wvar is None or len(numbers) != count:
        wanted = "the two exponents" if count == 2 else "one number"
        raise placed(ArgumentError, f"quad: wvar has to be {wanted} of {weight!r}, got {wvar!r}.")
    values = [fnp.asarray(operand(x, "quad: wvar")) for x in numbers]
    a, b = (fnp.asarray(operand(x, "quad: a limit")) for x in ends)
    low, high = _number(a), _number(b)
    if weight in ("cos", "sin") and high == np.inf and low != -np.inf:
        return _over_waves(integrate, func, a, values[0], more, weight)
    if np.inf in (abs(x) for x in (low, high) if x is not None):
        raise placed(
            ArgumentError,
            f"quad: weight={weight!r} needs finite limits; 'cos' and 'sin' allow b = inf.",
        )
    if weight == "cauchy":
        return _around_pole(integrate, func, (a, b), values[0], more)
    if weight in ("cos", "sin"):
        return _oscillating(integrate, func, (a, b), values[0], more, weight)
    return _at_ends(integrate, func, (a, b), values, more, weight)


def _number(x: Tensor) -> float | None:
    raw = concrete(x)
    return None if is_unknown(raw) else float(number_in(raw))


def _times(weight: Tensor, value: object) -> object:
    return pytrees.map(lambda leaf: weight * leaf, value)


def _total(outcomes: Sequence[Outcome]) -> Outcome:
    """The sum of integrals."""
    values, errors, reports = zip(*outcomes, strict=True)
    value = pytrees.map(lambda *leaves: reduce(add, leaves), *values)
    counts = {word: sum(report[word] for report in reports) for word in ("neval", "last")}
    status = reports[0]["status"]
    for report in reports[1:]:
        status = fnp.minimum(status, report["status"])
    return value, reduce(add, errors), {**counts, "status": status}


def _wave(weight: str, angle: Tensor) -> Tensor:
    return fnp.cos(angle) if weight == "cos" else fnp.sin(angle)


def _oscillating(
    integrate: Integrate, func: Integrand, ends: Ends, omega: Tensor, more: Further, weight: str
) -> Outcome:
    """The weight cos(omega x) or sin(omega x); the first panels hold a few waves, if known."""
    a, b, number = *map(_number, ends), _number(omega)
    points = None
    if a is not None and b is not None and number is not None and a < b:
        count = min(ceil(abs(number * (b - a)) / ANGLE), MOST_PANELS)
        points = np.linspace(a, b, count + 1)[1:-1] if count > 1 else None

    def product(x: Tensor, omega: Tensor, *more: object) -> object:
        return _times(_wave(weight, omega * x), func(x, *more))

    return integrate(product, *ends, (omega, *more), points)


def _over_waves(
    integrate: Integrate, func: Integrand, a: Tensor, omega: Tensor, more: Further, weight: str
) -> Outcome:
    """An oscillating weight up to infinity, from zero to zero of the wave.

    The integrals between zeros have alternating signs, and their sum is extrapolated. Source: H.
    Cohen, F. Rodriguez Villegas, D. Zagier, "Convergence acceleration of alternating series",
    Experimental Mathematics 9, 2000, algorithm 1.
    """
    half = np.pi / fnp.abs(omega)
    shift = 0.5 if weight == "cos" else 0.0
    first = stop_gradient(fnp.ceil(a / half - shift)) + shift
    numbers = first + np.arange(TERMS[-1] + 1)

    def between(low: Tensor, high: Tensor, omega: Tensor, more: Further) -> Outcome:
        return _oscillating(integrate, func, (low, high), omega, more, weight)

    start = between(a, first * half, omega, more)
    axes = 0, 0, None, None
    zeros = numbers * half
    terms, errors, reports = vmap(between, in_axes=axes)(zeros[:-1], zeros[1:], omega, more)
    fewer, shares = (_alternating_shares(count, TERMS[-1]) for count in TERMS)

    def summed(leaf: Tensor, by: Shares) -> Tensor:
        return fnp.tensordot(fnp.asarray(by, leaf.real.dtype), leaf, 1)

    changes = pytrees.leaves(
        pytrees.map(lambda x: fnp.max(fnp.abs(summed(x, shares - fewer)), initial=0.0), terms)
    )
    error = stop_gradient(reduce(add, changes, fnp.sum(fnp.abs(shares) * errors)))
    report = {"neval": fnp.sum(reports["neval"]), "last": fnp.sum(reports["last"])}
    report["status"] = fnp.min(reports["status"])
    return _total([start, (pytrees.map(lambda x: summed(x, shares), terms), error, report)])


def _alternating_shares(count: int, length: int) -> Shares:
    """The shares of the first terms in the extrapolated sum of an alternating series."""
    most = (3.0 + np.sqrt(8.0)) ** count
    most = (most + 1.0 / most) / 2.0
    b, c, shares = -1.0, -most, np.zeros(length)
    for k in range(count):
        c = b - c
        shares[k] = c / most * (-1.0) ** k  # the terms have their signs
        b = (k + count) * (k - count) * b / ((k + 0.5) * (k + 1.0))
    return shares


def _at_ends(
    integrate: Integrate,
    func: Integrand,
    ends: Ends,
    exponents: Sequence[Tensor],
    more: Further,
    weight: str,
) -> Outcome:
    """The weight (x - a)**alpha * (b - x)**beta, perhaps times logarithms.

    Each half is integrated over a power of the distance from its end, in which a weight that is
    infinite there becomes constant.
    """
    a, b = _number(ends[0]), _number(ends[1])
    if a is not None and b is not None and not a < b:
        raise placed(ArgumentError, f"quad: weight={weight!r} needs a < b, got {a} and {b}.")
    exponents = tuple(exponents)
    for word, exponent in zip(("alpha", "beta"), map(_number, exponents), strict=True):
        if exponent is not None and not exponent > -1.0:
            raise placed(ArgumentError, f"quad: {word} has to be greater than -1, got {exponent}.")
    outcomes = []
    for side, (near, far) in enumerate((exponents, exponents[::-1])):
        power = stop_gradient(1.0 / (1.0 + fnp.minimum(near, 0.0)))
        logs = (
            weight in ("alg-log", ("alg-loga", "alg-logb")[side]),
            weight in ("alg-log", ("alg-logb", "alg-loga")[side]),
        )

        def product(
            v: Tensor,
            end: Tensor,
            width: Tensor,
            powers: tuple[Tensor, Tensor, Tensor],
            *more: object,
            side: int = side,
            logs: tuple[bool, bool] = logs,
        ) -> object:
            power, near, far = powers
            away = v**power
            other = width - away
            scale = power * v ** (power * (near + 1.0) - 1.0) * other**far
            scale = scale * power * fnp.log(v) if logs[0] else scale
            scale = scale * fnp.log(other) if logs[1] else scale
            return _times(scale, func(end - away if side else end + away, *more))

        width = ends[1] - ends[0]
        args = (ends[side], width, (power, near, far), *more)
        outcomes.append(integrate(product, 0.0, (0.5 * width) ** (1.0 / power), args, None))
    return _total(outcomes)


def _around_pole(
    integrate: Integrate, func: Integrand, ends: Ends, pole: Tensor, more: Further
) -> Outcome:
    """The weight 1 / (x - pole): the principal value.

    Around the pole both sides are integrated together, as differences.
    """
    a, b = ends
    known = [_number(x) for x in (a, pole, b)]
    if None not in known and not (known[0] < known[1] < known[2]):  # type: ignore[operator]
        raise placed(
            ArgumentError, f"quad: weight='cauchy' needs a < wvar < b, got {known} as a, wvar, b."
        )
    near = fnp.minimum(pole - a, b - pole)

    def both(t: Tensor, pole: Tensor, *more: object) -> object:
        after, before = func(pole + t, *more), func(pole - t, *more)
        return pytrees.map(lambda x, y: (x - y) / t, after, before)

    def beside(x: Tensor, pole: Tensor, *more: object) -> object:
        return _times(1.0 / (x - pole), func(x, *more))

    args = (pole, *more)
    spans = (both, fnp.zeros_like(near), near), (beside, a, pole - near), (beside, pole + near, b)
    return _total([integrate(f, low, high, args, None) for f, low, high in spans])
