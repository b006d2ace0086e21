"""Schedules: learning rates as functions of the number of earlier steps, as values that pickle.

A schedule is a function of the count of earlier steps; pass it as a learning rate. All use the
same words: the rate goes from ``start`` to ``end`` in ``steps`` steps, and stays there. Before that
the rate may rise to ``start`` for ``warmup`` steps; the first rate is above 0.

>>> from funcgrad import optim
>>> rate = optim.schedules.cosine(start=1.0, end=0.0, steps=4, warmup=1)
>>> [float(rate(count)) for count in range(6)]
[0.5, 1.0, 0.75, 0.25, 0.0, 0.0]
>>> rate
cosine(start=1.0, end=0.0, steps=4, warmup=1)
>>> optimizer = optim.adam(rate)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import funcgrad.numpy as fnp
from funcgrad._core.pytree_class import pytree, static_field
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.errors import ArgumentError, FunctionError
from funcgrad.optim.option_types import (
    Schedule,
    Size,
    Steps,
    StepsOrZero,
    check_option,
    check_steps,
)
from funcgrad.optim.schedule_parts import CheckedSchedule, Count, half_wave, rising, share_of_way
from funcgrad.optim.schedule_plots import plot
from funcgrad.tensor.tensor import Tensor

__all__ = [
    "constant",
    "cosine",
    "exponential",
    "inverse_sqrt",
    "join",
    "linear",
    "onecycle",
    "piecewise",
    "plot",
    "polynomial",
    "restarts",
    "warmup",
    "warmup_cosine",
]

__dir__ = __all__.copy  # completion shows the public names, without the modules


@pytree
class constant(CheckedSchedule):  # noqa: N801 - a function to its users
    """One rate for all steps, after a warmup.

    A warmup keeps the first steps short, while Adam's means are not yet known.

    Parameters
    ----------
    start : float or 0-d tensor
    warmup : int
        How many steps rise to ``start``.

    Examples
    --------
    >>> rate = constant(1.0, warmup=3)
    >>> [float(rate(count)) for count in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """

    start: Size
    warmup: StepsOrZero = static_field(default=0)

    def __call__(self, count: Count) -> Tensor:
        return rising(count, self.warmup, self.start, self.start)


@pytree
class polynomial(CheckedSchedule):  # noqa: N801 - a function to its users
    """A rate that goes to its end along a power of the steps that are left.

    A power above 1 falls quickly at first, and slowly near the end.

    Parameters
    ----------
    start, end : float or 0-d tensor
    steps : int
        The count at which the end is reached.
    power : float or 0-d tensor
        The power 1 is ``linear``.
    warmup : int
        How many of the steps rise to ``start``.

    Notes
    -----
    ``end + (start - end) (1 - count / steps) ** power``, as ``optax.polynomial_schedule``.

    Examples
    --------
    >>> polynomial(1.0, 0.0, steps=4, power=2)(2)
    Tensor(0.25)
    """

    start: Size
    end: Size
    steps: Steps = static_field()
    power: ArrayLike = 1.0
    warmup: StepsOrZero = static_field(default=0)

    def __call__(self, count: Count) -> Tensor:
        left = (1.0 - share_of_way(count, self.steps, self.warmup)) ** self.power
        after = self.end + (self.start - self.end) * left
        return rising(count, self.warmup, self.start, after)


@pytree
class linear(CheckedSchedule):  # noqa: N801 - a function to its users
    """A rate that goes to its end along a line.

    It is used to fine-tune models, and wherever the number of steps is known.

    Parameters
    ----------
    start, end, steps, warmup
        See ``polynomial``.

    Notes
    -----
    ``end + (start - end) (1 - count / steps)``, as ``optax.linear_schedule``.

    Examples
    --------
    >>> linear(1.0, 0.0, steps=4)(1)
    Tensor(0.75)
    """

    start: Size
    end: Size
    steps: Steps = static_field()
    warmup: StepsOrZero = static_field(default=0)

    def __call__(self, count: Count) -> Tensor:
        left = 1.0 - share_of_way(count, self.steps, self.warmup)
        after = self.end + (self.start - self.end) * left
        return rising(count, self.warmup, self.start, after)


@pytree
class cosine(CheckedSchedule):  # noqa: N801 - a function to its users
    """A rate that goes to its end along half a wave.

    Many steps have a high rate, and the last ones settle down: the usual choice for networks, with
    a warmup of some hundred steps.

    Parameters
    ----------
    start, end, steps, warmup
        See ``polynomial``.

    Notes
    -----
    ``end + (start - end) (1 + cos(pi count / steps)) / 2``.

    Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017, as
    ``optax.cosine_decay_schedule``.

    Examples
    --------
    >>> cosine(1.0, 0.0, steps=4)(2)
    Tensor(0.5)
    """

    start: Size
    end: Size
    steps: Steps = static_field()
    warmup: StepsOrZero = static_field(default=0)

    def __call__(self, count: Count) -> Tensor:
        wave = half_wave(share_of_way(count, self.steps, self.warmup))
        after = self.end + (self.start - self.end) * wave
        return rising(count, self.warmup, self.start, after)


@pytree
class exponential(CheckedSchedule):  # noqa: N801 - a function to its users
    """A rate that is multiplied by a factor in each ``steps`` steps.

    The rate never reaches an end, so a run may have any number of steps.

    Parameters
    ----------
    start, factor : float or 0-d tensor
    steps : int
        How many steps multiply the rate by ``factor``.
    staircase : bool
        Whether the rate changes only after each ``steps`` steps.
    warmup : int
        How many steps before rise to ``start``.

    Notes
    -----
    ``start * factor ** (count / steps)``, as ``optax.exponential_decay``.

    Examples
    --------
    >>> exponential(1.0, 0.25, steps=2)(1)
    Tensor(0.5)
    """

    start: Size
    factor: Size
    steps: Steps = static_field()
    staircase: bool = static_field(default=False)
    warmup: StepsOrZero = static_field(default=0)

    def __call__(self, count: Count) -> Tensor:
        times = fnp.maximum(count - self.warmup, 0) / self.steps
        times = fnp.floor(times) if self.staircase else times
        return rising(count, self.warmup, self.start, self.start * self.factor**times)


@pytree
class inverse_sqrt(CheckedSchedule):  # noqa: N801 - a function to its users
    """A rate that rises, and then falls as one over the root of the count.

    Transformers are trained so. The rate falls ever more slowly, so a run may have any number of
    steps.

    Parameters
    ----------
    start : float or 0-d tensor
        The greatest rate.
    warmup : int
        How many steps rise to it.

    Notes
    -----
    After the warmup the rate is ``start sqrt((warmup + 1) / (count + 1))``. Vaswani and others,
    "Attention is all you need", NeurIPS 2017, section 5.3.

    Examples
    --------
    >>> inverse_sqrt(1.0, warmup=3)(15)
    Tensor(0.5)
    """

    start: Size
    warmup: StepsOrZero = static_field()

    def __call__(self, count: Count) -> Tensor:
        after = self.start * fnp.sqrt((self.warmup + 1.0) / (count + 1.0))
        return rising(count, self.warmup, self.start, after)


@pytree
class onecycle(CheckedSchedule):  # noqa: N801 - a function to its users
    """A rate that rises along half a wave to a peak, and falls along another half wave.

    A high rate in the middle of a run speeds training up; it is used with momentum, for few epochs.

    Parameters
    ----------
    peak : float or 0-d tensor
    steps : int
        The count at which the end is reached.
    warmup : int, optional
        The count of the peak, 3 tenths of the steps by default.
    start, end : float or 0-d tensor, optional
        The first and the last rate, by default the peak over 25 and the first rate over 10,000.

    Notes
    -----
    Smith, Topin, "Super-convergence: very fast training of neural networks using large learning
    rates", 2017, as ``optax.cosine_onecycle_schedule``. PyTorch reaches the peak a step earlier.

    Examples
    --------
    >>> onecycle(1.0, steps=10)(3)
    Tensor(1.0)
    """

    peak: Size
    steps: int = static_field()
    warmup: Steps | None = static_field(default=None)
    start: Size | None = None
    end: Size | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_steps("schedules.onecycle", "steps", self.steps, least=2)

    def __call__(self, count: Count) -> Tensor:
        top = int(0.3 * self.steps) if self.warmup is None else self.warmup
        start = self.peak / 25.0 if self.start is None else self.start
        end = self.peak / 25.0 / 1e4 if self.end is None else self.end
        rise = self.peak + (start - self.peak) * half_wave(share_of_way(count, top, 0))
        fall = end + (self.peak - end) * half_wave(share_of_way(count, self.steps, top))
        return fnp.where(fnp.less(count, top), rise, fall)


@pytree
class warmup_cosine(CheckedSchedule):  # noqa: N801 - a function to its users
    """A rate that rises in a straight line, and then falls along half a wave, as in optax.

    The rates of ``optax.warmup_cosine_decay_schedule``, whose first one is ``start``; the warmup of
    ``cosine`` begins above 0.

    Parameters
    ----------
    peak : float or 0-d tensor
    steps, warmup : int
        The counts at which the end and the peak are reached.
    start, end : float or 0-d tensor
    exponent : float or 0-d tensor
        A power of the half wave.

    Examples
    --------
    >>> rate = warmup_cosine(1.0, steps=6, warmup=2)
    >>> [float(rate(count)) for count in (0, 1, 2, 4, 6)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    peak: Size
    steps: Steps = static_field()
    warmup: StepsOrZero = static_field()
    start: Size = 0.0
    end: Size = 0.0
    exponent: Size = 1.0

    def __call__(self, count: Count) -> Tensor:
        rise = self.start + (self.peak - self.start) * share_of_way(count, self.warmup, 0)
        wave = half_wave(share_of_way(count, self.steps, self.warmup)) ** self.exponent
        fall = self.end + (self.peak - self.end) * wave
        return fnp.where(fnp.less(count, self.warmup), rise, fall)


@pytree
class join(CheckedSchedule):  # noqa: N801 - a function to its users
    """One schedule after another; each counts from 0.

    Parameters
    ----------
    schedules : sequence of schedules
    boundaries : sequence of int
        The counts at which the second, the third and so on begin.

    Examples
    --------
    >>> rate = join([constant(1.0), linear(0.5, 0.0, steps=2)], [3])
    >>> [float(rate(count)) for count in (2, 3, 4)]
    [1.0, 0.5, 0.25]
    """

    schedules: Sequence[Any]
    boundaries: Sequence[int] = static_field()

    def __post_init__(self) -> None:
        if not isinstance(self.schedules, (list, tuple)) or not self.schedules:
            raise FunctionError(
                f"schedules.join: expected a list of schedules, got {self.schedules!r}."
            )
        for schedule in self.schedules:
            check_option("schedules.join", "schedules", "Schedule", schedule)
        bounds = tuple(self.boundaries)
        object.__setattr__(self, "boundaries", bounds)
        object.__setattr__(self, "schedules", tuple(self.schedules))
        if len(bounds) != len(self.schedules) - 1 or list(bounds) != sorted(set(bounds)):
            raise ArgumentError(
                f"schedules.join: {len(self.schedules)} schedules need"
                f" {len(self.schedules) - 1} boundaries that rise, got {bounds}."
            )

    def __call__(self, count: Count) -> Tensor:
        rate = fnp.asarray(self.schedules[0](count))
        for schedule, boundary in zip(self.schedules[1:], self.boundaries, strict=True):
            begun = schedule(fnp.maximum(count - boundary, 0))
            rate = fnp.where(fnp.less(count, boundary), rate, begun)
        return rate


@pytree
class restarts(CheckedSchedule):  # noqa: N801 - a function to its users
    """A schedule that begins anew after each ``steps`` steps.

    A rate that jumps up leads out of narrow minima: ``restarts(cosine(...), steps)`` is the SGDR
    of Loshchilov and Hutter.

    Parameters
    ----------
    schedule : schedule
    steps : int
        The length of a round.
    factor : float or 0-d tensor
        Each new round is multiplied by this factor.

    Examples
    --------
    >>> rate = restarts(linear(1.0, 0.0, steps=2), steps=2, factor=0.5)
    >>> [float(rate(count)) for count in range(4)]
    [1.0, 0.5, 0.5, 0.25]
    """

    schedule: Schedule
    steps: Steps = static_field()
    factor: Size = 1.0

    def __call__(self, count: Count) -> Tensor:
        return self.factor ** (count // self.steps) * self.schedule(count % self.steps)


@pytree
class warmup(CheckedSchedule):  # noqa: N801 - a function to its users
    """Steps that rise to the first rate of a schedule, and then the schedule.

    Parameters
    ----------
    schedule : schedule
    steps : int
        How many steps rise; the first has the rate ``schedule(0) / (steps + 1)``.

    Examples
    --------
    >>> rate = warmup(constant(1.0), steps=3)
    >>> [float(rate(count)) for count in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """

    schedule: Schedule
    steps: Steps = static_field()

    def __call__(self, count: Count) -> Tensor:
        after = self.schedule(fnp.maximum(count - self.steps, 0))
        return rising(count, self.steps, self.schedule(0), after)


@pytree
class piecewise(CheckedSchedule):  # noqa: N801 - a function to its users
    """A rate that changes at some counts, and is constant between them.

    Parameters
    ----------
    start : float or 0-d tensor
    rates : dict
        From counts to the rates that hold from then on.

    Notes
    -----
    ``optax.piecewise_constant_schedule`` takes factors instead of rates.

    Examples
    --------
    >>> rate = piecewise(1.0, {2: 0.5, 4: 0.25})
    >>> [float(rate(count)) for count in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    start: Size
    rates: Mapping[int, ArrayLike]

    def __post_init__(self) -> None:
        if not isinstance(self.rates, dict):
            raise ArgumentError(
                f"schedules.piecewise: rates has to be a dict from counts to rates, got"
                f" {self.rates!r}."
            )
        super().__post_init__()
        for boundary, rate in self.rates.items():
            check_option("schedules.piecewise", "a count in rates", "StepsOrZero", boundary)
            check_option("schedules.piecewise", "a rate in rates", "Size", rate)

    def __call__(self, count: Count) -> Tensor:
        rate = fnp.asarray(self.start) + 0.0 * count
        for boundary in sorted(self.rates):
            rate = fnp.where(fnp.less(count, boundary), rate, self.rates[boundary])
        return fnp.asarray(rate)


if not TYPE_CHECKING:  # last: dataclasses of Python 3.15 look for names in the module
    __getattr__ = _missing_from(__name__)
