"""The contract between the loop of adaptive steps and the methods that take a step.

The loop (``steps.py``) owns the time, the size of steps, and the solution at the ends of the last
step. A method tries one step: it gives the solution at the end, its error, and coefficients from
which it interpolates. A method holds no tensors: it is an option of a program.

>>> import funcgrad as fg
>>> settings = Settings(1e-3, 1e-6, 100, float("inf"))
>>> equation = equation_of(lambda y, t: [-y[0]], settings, np.dtype(float))
>>> equation.norm([fg.tensor(0.002)], equation.scale([fg.tensor(1.0)], [fg.tensor(0.5)]))
Tensor(1.998001998...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.users_line import warn_user
from funcgrad._transforms.stop import stop_gradient
from funcgrad.integrate.right_hand_side import real_dtype
from funcgrad.tensor.tensor import Tensor

Leaves: TypeAlias = list[Tensor]
RightHandSide: TypeAlias = Callable[[Leaves, Tensor], Leaves]
"""The slope of y at a time: ``f(y, t)``."""

LEAST_ALLOWED: Final = 1e-30
GREATEST_ERROR: Final = 1e10
"""Bounds that keep the scaled error finite if the allowed error is 0, and its square finite."""


class Settings(NamedTuple):
    """The accuracy of a solution, and the bounds of its steps. Hashable, without tensors.

    Attributes
    ----------
    rtol : float
    atol : float or tuple
        A number, or for each leaf of y a number or a nested tuple of its shape.
    max_steps : int
        The maximum number of steps for the whole solution, refused steps included.
    hmax : float
        The maximum size of a step.
    first : float, optional
        The size of the first step; without it the size follows from y, y' and y''.
    checkpoints : int, optional
        About how many steps reverse mode holds at once; without it all.
    """

    rtol: float
    atol: float | tuple[Any, ...]
    max_steps: int
    hmax: float
    first: float | None = None
    checkpoints: int | None = None


def resolved(name: str, rtol: float, y: Leaves) -> float:
    """The relative tolerance, but at least 10 epsilons of the dtype of y.

    Steps cannot reduce errors by rounding, so below it they only become shorter: a float32 solution
    with ``rtol=1e-12`` would take the greatest number of steps without being more accurate.
    """
    least = 10.0 * float(np.finfo(real_dtype(y)).eps) if y else 0.0
    if 0.0 < rtol < least:
        warn_user(
            f"{name}: rtol={rtol:.3g} is too small for the dtype of y. Setting rtol to"
            f" {least:.3g}, 10 times its epsilon.",
            UserWarning,
        )
    return max(rtol, least)


class Counts(NamedTuple):
    """The work of a solution or of a step.

    Attributes
    ----------
    nfev, njev, nlu : Tensor or int
        The evaluations of f, the evaluations of its Jacobian, and the factorizations of matrices.
    """

    nfev: Any
    njev: Any = 0
    nlu: Any = 0

    def plus(self, other: Counts) -> Counts:
        """Add the work of another step."""
        return Counts(*map(add, self, other))


class OdeEquation(NamedTuple):
    """A differential equation, as far as a method may use it.

    Attributes
    ----------
    f : callable
        ``f(y, t)``, from leaves to leaves. With a mass matrix: mass @ y' = f(y, t).
    jacobian : callable, optional
        ``jacobian(y, t)``: the derivative of f with respect to the elements of all leaves, as a
        tensor of shape (n, n) or a sparse matrix. None: a method differentiates f itself.
    mass : Tensor, optional
        A constant matrix of shape (n, n); None stands for the identity.
    settings : Settings
    dtype : dtype
        The dtype of times and of norms.
    """

    f: RightHandSide
    jacobian: Callable[[Leaves, Tensor], Any] | None
    mass: Any
    settings: Settings
    dtype: np.dtype[Any]

    def scale(self, before: Leaves, after: Leaves) -> Leaves:
        """The allowed error of each element: atol + rtol * max(|y before|, |y after|)."""
        scales = self._scales(*stop_gradient((before, after)))
        return [fnp.maximum(allowed, LEAST_ALLOWED) for allowed in scales]

    def norm(self, values: Leaves, scales: Leaves) -> Tensor:
        """The root mean square of all elements, each divided by its allowed error."""
        return self._norm(stop_gradient(values), scales)

    def error(self, values: Leaves, before: Leaves, after: Leaves) -> Tensor:
        """The norm of errors of a step from y before to y after."""
        values, before, after = stop_gradient((values, before, after))
        return self._norm(values, self._scales(before, after))  # leaf by leaf: faster in batches

    def _scales(self, before: Leaves, after: Leaves) -> Iterator[Tensor]:
        settings = self.settings
        for place, (a, b) in enumerate(zip(before, after, strict=True)):
            absolute: Any = settings.atol
            if isinstance(absolute, tuple):
                absolute = np.asarray(absolute[place], self.dtype)
            size = fnp.maximum(abs(a), abs(b)).astype(self.dtype)
            yield absolute + settings.rtol * size

    def _norm(self, values: Leaves, scales: Iterable[Tensor]) -> Tensor:
        total, count = fnp.zeros((), self.dtype), 0
        for value, allowed in zip(values, scales, strict=True):
            scaled = abs(value).astype(self.dtype) / fnp.maximum(allowed, LEAST_ALLOWED)
            total = total + fnp.sum(fnp.minimum(scaled, GREATEST_ERROR) ** 2)
            count += value.size
        return fnp.sqrt(total / max(count, 1))


def equation_of(
    f: RightHandSide,
    settings: Settings,
    dtype: np.dtype[Any],
    jacobian: Callable[[Leaves, Tensor], Any] | None = None,
    mass: Any = None,
) -> OdeEquation:
    """Describe a differential equation for methods."""
    return OdeEquation(f, jacobian, mass, settings, dtype)


class Attempt(NamedTuple):
    """One step that was tried.

    Attributes
    ----------
    new : list of Tensor
        The solution at the end of the step.
    error : Tensor
        The norm of its error, in units of the allowed error: above 1 the step is refused, and so
        it is if the norm is NaN or infinite.
    slope : list of Tensor
        f at the end of the step. With a mass matrix: the slope of y, if the method needs it.
    dense : iterable of lists of Tensor
        ``dense_count`` coefficients of the interpolation, each with leaves like y. The loop asks
        for them last: a generator lets a program compute them last, where batches run faster.
    memory, refused_memory : pytree of Tensor
        The next memory if the step is accepted, and if it is refused: of equal structures, shapes
        and dtypes.
    factor : Tensor, optional
        The size of the next step divided by the size of this one, accepted or refused. Without it,
        or if it is NaN, the loop chooses the size by its controller.
    counts : Counts, optional
        The work of this step; None for ``evaluations`` evaluations of f.
    """

    new: Leaves
    error: Tensor
    slope: Leaves
    dense: Iterable[Leaves]
    memory: Any = ()
    refused_memory: Any = ()
    factor: Tensor | None = None
    counts: Counts | None = None


class StepStart(NamedTuple):
    """Where a step begins.

    Attributes
    ----------
    y, slope : list of Tensor
        The solution, and f there.
    t, size : Tensor
        The time, and the size of the step.
    """

    y: Leaves
    slope: Leaves
    t: Tensor
    size: Tensor


class TakenStep(NamedTuple):
    """A step that was accepted.

    Attributes
    ----------
    old, new, slope, new_slope : list of Tensor
        The solution at both ends, and f there.
    dense : sequence of lists of Tensor
        The coefficients of the interpolation.
    size : Tensor
        With a sign.
    """

    old: Leaves
    new: Leaves
    slope: Leaves
    new_slope: Leaves
    dense: Sequence[Leaves]
    size: Tensor


class StepMethod(Protocol):
    """A method that takes a step: a frozen, hashable value without tensors."""

    @property
    def name(self) -> str:
        """The name that users pass."""
        ...

    @property
    def order(self) -> int:
        """The order of the error estimate: the controller takes its root of degree order + 1."""
        ...

    @property
    def dense_count(self) -> int:
        """The number of coefficients of the interpolation."""
        ...

    @property
    def evaluations(self) -> int | None:
        """The evaluations of f in each step; None if the method counts its work."""
        ...

    def begin(self, equation: OdeEquation, at: StepStart) -> tuple[Any, Counts]:
        """The first memory, from the start of the first step, whose size is not negative; and the
        work for it.
        """
        ...

    def attempt(self, equation: OdeEquation, at: StepStart, memory: Any) -> Attempt:
        """Try a step; its size has a sign."""
        ...

    def between(self, taken: TakenStep, theta: Tensor) -> Leaves:
        """Interpolate: the solution at t + theta * size, 0 <= theta <= 1."""
        ...


class Memoryless:
    """A base class of methods that carry nothing from step to step."""

    __slots__ = ()

    def begin(self, equation: OdeEquation, at: StepStart) -> tuple[tuple[()], Counts]:
        """No memory is needed."""
        return (), Counts(0)


def interpolated(taken: TakenStep, theta: Tensor) -> Leaves:
    """Interpolate by the cubic through both ends and their slopes, and further terms.

    Factors theta and 1 - theta alternate, so that further terms change neither ends nor slopes
    there: Hairer, Nørsett and Wanner, volume I, section II.6.
    """
    leaves = []
    for place, (a, b, k, last) in enumerate(
        zip(taken.old, taken.new, taken.slope, taken.new_slope, strict=True)
    ):
        real = real_dtype([a])
        share, complement, h = [x.astype(real) for x in (theta, 1 - theta, taken.size)]
        rise = b - a
        first = h * k - rise
        terms = [rise, first, rise - h * last - first, *[rows[place] for rows in taken.dense]]
        total = terms[-1] * (share if len(terms) % 2 else complement)
        for degree in range(len(terms) - 2, -1, -1):
            total = (terms[degree] + total) * (complement if degree % 2 else share)
        leaves.append(a + total)
    return leaves


def weighted(weights: Sequence[float], slopes: Sequence[Leaves], step: Tensor) -> Leaves:
    """Return the size of a step times a weighted sum of slopes, for each leaf."""
    sums = []
    for leaf_slopes in zip(*slopes, strict=True):
        terms = [weight * k for weight, k in zip(weights, leaf_slopes, strict=True) if weight]
        total = reduce(add, terms)
        sums.append(step.astype(real_dtype([total])) * total)
    return sums


def plus(y: Leaves, rises: Leaves) -> Leaves:
    """Add two states."""
    return [leaf + rise for leaf, rise in zip(y, rises, strict=True)]
