"""Numerical directional derivatives, independent of funcgrad's derivative rules.

Central differences of the function's values, extrapolated from two steps, work for every function.
If a real function also accepts complex arguments, and is analytic there, the complex step ``Im f(x
+ ihv) / h`` has no cancellation and is exact to rounding (Squire, Trapp, "Using complex variables
to estimate derivatives of real functions", SIAM Review 40, 1998). Whether it applies cannot be seen
from outside. So it is tried, and used if it agrees with the differences within their accuracy.

>>> from funcgrad.testing.subject import subject_of
>>> import numpy as np
>>> cubic = subject_of("check_grads", lambda x: x**3, (2.0,), None)
>>> estimate(cubic, [np.array(1.0)], None)
Estimate(values=[array(12.)], noise=[array(0.)], method='complex step', precision=2.2e-16)

Rounding errors are measured by computing results again with more rounding: a transformation changes
the result of every operation by some units in the last place, at random. The scatter of the
outcomes shows the rounding error, including cancellation and growth (Monte Carlo arithmetic:
Parker, "Monte Carlo arithmetic", University of California, 1997). Noise does not change the error
of a wrong rule.

>>> import numpy as np
>>> from funcgrad.numpy import cos
>>> rng = np.random.default_rng(0)
>>> with noise(rng) as follow:
...     moved = np.asarray(1 - cos(follow(np.array(1e-9))))
>>> 1e-17 < abs(moved) < 1e-14
np.True_
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Gather, Movement
from funcgrad._core.trace import Trace, Value, begin_level, bind, concrete
from funcgrad._transforms.tracer import Tracer
from funcgrad.tensor.tensor import wrap
from funcgrad.testing.subject import Array, Subject

_ULPS: Final = 2.0


class _NoisyTrace(Trace):
    """Changes results of operations in their last places."""

    __slots__ = ("_rng",)
    title = "a measurement of rounding"
    has_numbers = True

    def __init__(self, level: int, rng: np.random.Generator) -> None:
        super().__init__(level)
        self._rng = rng

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        values = [concrete(self.inner(arg)) for arg in args]
        is_copy = isinstance(primitive.structure, Movement | Gather)
        is_copy = is_copy or primitive.form == "selecting"
        if not is_copy and primitive.form != "elementwise":  # it sums rounded values
            values = [self._moved(value) for value in values]
        out = bind(primitive, tuple(values), params)
        if not is_copy:
            several = isinstance(out, tuple)
            out = tuple([self._moved(y) for y in out]) if several else self._moved(out)
        return Tracer.around(self, out)

    def _moved(self, value: Value) -> Value:
        array = np.asarray(value)
        if array.dtype.kind not in "fc":
            return value
        limits = np.finfo(array.dtype)
        factor = 1 + self._signed(array.shape) * _ULPS * limits.eps
        moved = (array * factor).astype(array.dtype)
        moved = moved + (self._signed(array.shape) * (array != 0) * limits.smallest_subnormal)
        moved = moved.astype(array.dtype)
        return moved.item() if type(value) in (float, complex) else moved[()]

    def _signed(self, shape: tuple[int, ...]) -> Any:
        """Draw values of either sign, of magnitudes that hardly cancel."""
        return self._rng.choice([-1.0, 1.0], shape) * self._rng.uniform(0.5, 1.0, shape)


@contextmanager
def noise(rng: np.random.Generator) -> Iterator[Callable[[Array], Any]]:
    """Yield a function that follows arrays; results of followed arrays get noise."""
    with begin_level() as level:
        trace = _NoisyTrace(level, rng)
        yield lambda array: Tracer.around(trace, array)


_DOUBLINGS: Final = 4
"""The longest step is the usual step, doubled this number of times."""

_STEPS: Final = 17
"""The number of steps, each half as long as the step before."""

_QUARTERINGS: Final = 13
"""How often a step is shortened to decide whether a point is at a kink."""

_REPETITIONS: Final = 4
_SCATTER: Final = 8.0

_LEAST_DIGITS: Final = 1e-2
"""A larger relative error indicates a jump."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A numerical derivative along a direction.

    Attributes
    ----------
    values : list of ndarray
        A derivative for each of the function's results.
    noise : list of ndarray
        The possible error of each element due to rounding of the function's values.
    method : str
    precision : float
        The machine epsilon of the coarsest dtype.
    """

    values: list[Any]
    noise: list[Any]
    method: str
    precision: float


def precision_of(subject: Subject) -> float:
    """Return the machine epsilon of the coarsest dtype among arguments and results."""
    dtypes = [x.dtype for x in subject.point] + [x.dtype for x in subject.values]
    return max(float(np.finfo(dtype).eps) for dtype in dtypes)


def step_of(subject: Subject, eps: float | None) -> float:
    """Return the user's step, or the step that balances truncation and rounding."""
    return float(np.cbrt(precision_of(subject))) if eps is None else eps


def estimate(subject: Subject, direction: Sequence[Array], eps: float | None) -> Estimate:
    """Estimate the derivative of a subject's results along a direction of its arguments.

    Parameters
    ----------
    subject : Subject
    direction : sequence of ndarray
        Arrays of the shapes and dtypes of the point.
    eps : float or None
        The step of the differences.
    """
    step, precision = step_of(subject, eps), precision_of(subject)
    near, size = _central(subject, direction, step)
    far, _ = _central(subject, direction, 2 * step)
    # The error of central differences is a series in step**2: this cancels its first term.
    extrapolated = [n + (n - f) / 3 for n, f in zip(near, far, strict=True)]
    values = [np.where(np.isfinite(e), e, n) for e, n in zip(extrapolated, near, strict=True)]
    noise = [8 * precision / step * s for s in size]
    doubt = [4 * abs(n - f) + e for n, f, e in zip(near, far, noise, strict=True)]
    exact = _complex_step(subject, direction, precision)
    if exact is not None and all(
        np.all(abs(c - v) <= d) for c, v, d in zip(exact, values, doubt, strict=True)
    ):
        return Estimate(exact, [np.zeros(c.shape) for c in exact], "complex step", precision)
    return Estimate(values, noise, f"central differences, step {step:.2g}", precision)


def refined(subject: Subject, direction: Sequence[Array]) -> Estimate:
    """Estimate the derivative with many steps, and its error from their agreement.

    Quotients of halved steps are extrapolated to ever higher order, and each element is taken from
    the extrapolations that differ least (Ridders, "Accurate computation of F'(x) and F'(x) F''(x)",
    Advances in Engineering Software 4, 1982). Two sequences of steps are used, because one may
    agree with itself by chance. It takes thirty times as long as ``estimate``, and succeeds where
    the step of ``estimate`` is too long for a function, or too short for its digits.

    Parameters
    ----------
    subject : Subject
    direction : sequence of ndarray
        Arrays of the shapes and dtypes of the point.
    """
    precision = precision_of(subject)
    longest = step_of(subject, None) * 2.0**_DOUBLINGS
    sequences = [
        [
            (step, *_central(subject, direction, step))
            for step in (first * longest * 0.5**k for k in range(_STEPS))
        ]
        for first in (1.0, 0.7)
    ]
    values, noise = [], []
    for k in range(len(subject.values)):
        (value, error), (other, doubt) = [
            _limit([(h, quotient[k], size[k]) for h, quotient, size in sequence], precision)
            for sequence in sequences
        ]
        with quiet():
            apart = np.maximum(np.minimum(error, doubt), abs(value - other))
        value = np.where(error <= doubt, value, other)
        values.append(value)
        noise.append(np.minimum(2 * apart, _bearable(value, subject)))
    method = f"central differences, steps {longest:.2g} to {sequences[1][-1][0]:.2g}"
    return Estimate(values, noise, method, precision)


def with_rounding(subject: Subject, direction: Sequence[Array], exact: Estimate) -> Estimate:
    """Estimate the error of a complex step by repeating it with more rounding."""
    repeated = []
    for seed in range(_REPETITIONS):
        with noise(np.random.default_rng(seed)) as follow:
            repeated.append(_complex_step(subject, direction, exact.precision, follow))
    errors = []
    for k, value in enumerate(exact.values):
        scatter = [abs(again[k] - value) for again in repeated if again is not None]
        error = _SCATTER * np.nan_to_num(np.max(scatter, axis=0, initial=0.0), posinf=0.0)
        errors.append(np.minimum(error, _bearable(value, subject)))
    return Estimate(exact.values, errors, exact.method, exact.precision)


def _bearable(value: Array, subject: Subject) -> Array:
    """Return the largest errors with which an estimate is still informative."""
    sizes = [abs(y[np.isfinite(y)]).max(initial=0.0) for y in subject.values]
    whole = relative_tolerance(precision_of(subject)) * max(sizes)
    return np.maximum(_LEAST_DIGITS * abs(value), whole)


def relative_tolerance(precision: float) -> float:
    """Return the relative tolerance of differences: they lose a third of the digits, or fewer."""
    return float(precision**0.38)


def _limit(table: Sequence[tuple[float, Array, Array]], precision: float) -> tuple[Array, Array]:
    """Extrapolate quotients to the step 0, with an error; the table has subtracted magnitudes."""
    roundings = [4 * precision / step * size for step, _, size in table]
    quotients = [quotient for _, quotient, _ in table]
    value, _ = _extrapolated(quotients, roundings)
    with quiet():  # short steps show how many digits values have
        scatter = [abs(quotient - value) * step for step, quotient, _ in table][-4:]
        digits = np.nan_to_num(np.max(scatter, axis=0), posinf=0.0)
    roundings = [r + digits / step for r, (step, _, _) in zip(roundings, table, strict=True)]
    return _extrapolated(quotients, roundings)


def _extrapolated(quotients: list[Array], roundings: list[Array]) -> tuple[Array, Array]:
    """Extrapolate to the step 0, with an error, element by element.

    A shorter step is taken if its error is smaller, or if it contradicts the longer steps.
    """
    best, least = quotients[0], np.full(quotients[0].shape, np.inf)
    row: list[Array] = []
    with quiet():
        for quotient, rounding in zip(quotients, roundings, strict=True):
            above, row = row, [quotient]
            value, possible = quotient, np.full(quotient.shape, np.inf)
            for j, former in enumerate(above, start=1):
                row.append(row[-1] + (row[-1] - former) / (4.0**j - 1))
                error = np.maximum(abs(row[-1] - row[-2]), abs(row[-1] - former))
                if j < len(above):
                    error = np.maximum(error, abs(row[-1] - above[j]))
                error = error + rounding
                better = error < possible
                value = np.where(better, row[-1], value)
                possible = np.where(better, error, possible)
            better = (possible < least) | (abs(value - best) > possible + least)
            best, least = np.where(better, value, best), np.where(better, possible, least)
    return best, least


def contract(numerical: Estimate, cts: Sequence[Array]) -> Estimate:
    """Return the inner product of an estimate with cotangents: the real part of <ct, value>."""
    value = sum(inner(ct, v) for ct, v in zip(cts, numerical.values, strict=True))
    noise = sum(float(np.sum(abs(ct) * n)) for ct, n in zip(cts, numerical.noise, strict=True))
    return Estimate([np.asarray(value)], [np.asarray(noise)], numerical.method, numerical.precision)


def inner(first: Array, second: Array) -> float:
    """Return the real inner product; a complex number counts as the pair of its parts."""
    return float(np.vdot(first.astype(complex), second.astype(complex)).real)


def one_sided(
    subject: Subject, direction: Sequence[Array], eps: float | None
) -> tuple[list[Array], list[Array]]:
    """Return the difference quotients against and along a direction; they differ at a kink."""
    step = step_of(subject, eps)
    behind, ahead = (_moved(subject, direction, t) for t in (-step, step))
    with quiet():
        left = [(v - b) / step for v, b in zip(subject.values, behind, strict=True)]
        right = [(a - v) / step for v, a in zip(subject.values, ahead, strict=True)]
    return left, right


def kink_of(
    subject: Subject, direction: Sequence[Array]
) -> tuple[int, tuple[int, ...], complex, complex] | None:
    """Find an element whose one-sided slopes differ, however short the steps are.

    Central differences do not show a symmetric kink, such as ``abs`` at 0.

    Returns
    -------
    tuple or None
        The index of a result, the index of an element, and the slopes on both sides.
    """
    precision, usual = precision_of(subject), step_of(subject, None)
    first = one_sided(subject, direction, usual)
    kinks: list[Any] = [True] * len(subject.values)
    for quarterings in range(_QUARTERINGS):
        step = usual / 4.0**quarterings
        for k, (left, right) in enumerate(zip(*one_sided(subject, direction, step), strict=True)):
            with quiet():
                gap, wide = abs(right - left), abs(first[1][k] - first[0][k])
                slopes = abs(left) + abs(right)
                rounding = 1e3 * precision * (abs(subject.values[k]) / step + slopes)
                is_seen = gap > np.maximum(rounding, _LEAST_DIGITS * slopes)
                is_lost = ~is_seen if quarterings > 2 else False  # in rounding
                kinks[k] = kinks[k] & (is_lost | (is_seen & (abs(gap - wide) < 0.2 * wide)))
        if not any(map(np.any, kinks)):
            return None
    result = [bool(np.any(places)) for places in kinks].index(True)
    index = np.unravel_index(int(np.argmax(kinks[result])), kinks[result].shape)
    slopes_there = [complex(side[result][index]) for side in first]
    return result, tuple(map(int, index)), slopes_there[0], slopes_there[1]


def _moved(subject: Subject, direction: Sequence[Array], amount: float) -> list[Array]:
    return subject.values_at(
        [
            np.asarray(x) + (amount * v).astype(v.dtype)
            for x, v in zip(subject.point, direction, strict=True)
        ]
    )


def _central(
    subject: Subject, direction: Sequence[Array], step: float
) -> tuple[list[Array], list[Array]]:
    """Return central differences, and the magnitudes of the subtracted values."""
    behind, ahead = (_moved(subject, direction, t) for t in (-step, step))
    with quiet():
        pairs = list(zip(ahead, behind, strict=True))
        return [(a - b) / (2 * step) for a, b in pairs], [
            np.maximum(abs(a), abs(b)).astype(float) for a, b in pairs
        ]


def _complex_step(
    subject: Subject,
    direction: Sequence[Array],
    precision: float,
    follow: Callable[[Array], Any] = wrap,
) -> list[Array] | None:
    """Differentiate with a step along the imaginary axis; None if the function raises an error."""
    if not subject.is_real() or any(x.dtype == np.float16 for x in subject.point):
        return None
    step = precision**1.5  # its square vanishes beside 1, and nothing underflows
    try:
        outs = subject.values_at(
            [
                follow(np.asarray(x) + (1j * step * v).astype(np.result_type(v, np.complex64)))
                for x, v in zip(subject.point, direction, strict=True)
            ]
        )
    except Exception:  # functions of real numbers may raise anything
        return None
    if [out.shape for out in outs] != [value.shape for value in subject.values]:
        return None
    return [np.asarray(out.imag / step) for out in outs]
