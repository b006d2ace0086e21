"""Limits of an integral, and the variable in which its panels lie.

>>> import numpy as np
>>> limits, ends = limits_of("quad", 0.0, np.inf, None)
>>> x, slope = limits.point(fnp.asarray(0.5), [fnp.asarray(end) for end in ends])
>>> limits.kind, x, slope
('above', Tensor(1.0), Tensor(4.0))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.carry import placed
from funcgrad._control.choices import is_unknown, number_in
from funcgrad._core.trace import Value, concrete
from funcgrad._core.users_values import operand
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, ShapeError
from funcgrad.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Limits:
    """The kind of the limits, which decides on the variable of the panels.

    Attributes
    ----------
    kind : {"finite", "above", "below", "both"}
        Which limit is infinite, if any, when they are in ascending order.
    sign : float
        -1 if an infinite limit comes first that should come last.
    dtype : dtype
        The dtype of x.
    end_count, point_count : int
        The number of finite limits, and of points between them.
    """

    kind: str
    sign: float
    dtype: np.dtype[Any]
    end_count: int
    point_count: int

    @property
    def panel_count(self) -> int:
        """The number of panels before any is cut."""
        return self.point_count + (2 if self.kind == "both" else 1)

    @property
    def edges(self) -> tuple[float, ...]:
        """For each finite limit, the sign of the function's value there in the derivative."""
        signs = {"finite": (-1.0, 1.0), "above": (-1.0,), "below": (1.0,), "both": ()}
        return tuple([self.sign * sign for sign in signs[self.kind]])

    def example(self) -> Tensor:
        """Some value of x."""
        return fnp.zeros((), self.dtype)

    def borders(self, ends: Sequence[Tensor]) -> Tensor:
        """The ends of the first panels, in ascending or descending order, in the variable t."""
        if self.kind == "both":
            return fnp.asarray([-1.0, 0.0, 1.0], self.dtype)
        if self.kind != "finite":
            return fnp.asarray([0.0, 1.0], self.dtype)
        a, b, *points = ends
        inside = fnp.sort(fnp.stack(points)) if points else fnp.zeros((0,), self.dtype)
        inside = fnp.where(a <= b, inside, inside[::-1])
        return fnp.concatenate([a[None], inside, b[None]])

    def point(self, t: Tensor, ends: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
        """The place x of t, and dx/dt; None for 1."""
        if self.kind == "finite":
            return t, None
        if self.kind == "both":
            past = 1.0 - t * t
            return t / past, self.sign * (1.0 + t * t) / (past * past)
        away = (1.0 - t) / t
        x = ends[0] + away if self.kind == "above" else ends[0] - away
        return x, self.sign / (t * t)


def check_integrand(
    name: str, func: Callable[..., Any], variables: int, args: Any
) -> tuple[Any, ...]:
    """Check that a function takes the variables and further arguments; return those as a tuple.

    Raises
    ------
    FunctionError
        It does not.
    """
    check_function(name, func)
    more = args if isinstance(args, tuple) else (args,)  # as in SciPy
    try:
        signature(func).bind(*[0.0] * variables, *more)
    except TypeError as error:
        raise placed(
            FunctionError,
            f"{name}: func is called with {variables} variable{'s' * (variables > 1)} and"
            f" {len(more)} further argument{'s' * (len(more) != 1)}: {error}.",
        ) from None
    except ValueError:  # a function without a signature
        pass
    return more


def limits_of(
    name: str, a: Any, b: Any, points: Sequence[Any] | None
) -> tuple[Limits, list[Value]]:
    """Read the limits; also return the finite ones, and the points between them, as values.

    Raises
    ------
    ArgumentError, ShapeError, DtypeError
        A limit is not a real scalar or is NaN, or the points are not between finite limits.
    """
    if points is not None and not isinstance(points, (Sequence, np.ndarray, Tensor)):
        raise placed(ArgumentError, f"{name}: points has to be a sequence, got {points!r}.")
    named = {"a": a, "b": b}
    named |= {f"points[{k}]": point for k, point in enumerate(() if points is None else points)}
    values = {word: fnp.asarray(operand(x, f"{name}: {word}")) for word, x in named.items()}
    for word, value in values.items():
        if value.shape:
            raise placed(
                ShapeError,
                f"{name}: {word} has to be a single number, got shape {value.shape}. Map over"
                " arrays with fg.vmap.",
            )
    dtype = np.result_type(*[value.dtype for value in values.values()])
    dtype = dtype if dtype.kind in "fc" else np.dtype(float)
    if dtype.kind == "c":
        raise placed(DtypeError, f"{name}: limits are real, got {dtype}.")
    raws = [concrete(value.astype(dtype)) for value in values.values()]
    numbers = [None if is_unknown(raw) else float(number_in(raw)) for raw in raws]
    low, high, *inside = numbers
    for word, number in zip(values, numbers, strict=True):
        if number is not None and np.isnan(number):
            raise placed(ArgumentError, f"{name}: {word} is NaN.")
    if low == high and low in (-np.inf, np.inf):
        raise placed(ArgumentError, f"{name}: both limits are {low}.")
    kind, sign, ends = _kind(low, high, raws)
    if inside and kind != "finite":
        raise placed(
            ArgumentError,
            f"{name}: points need finite limits. Integrate up to a finite limit and from there on.",
        )
    if low is not None and high is not None:
        for word, number in zip([*values][2:], inside, strict=True):
            if number is not None and not min(low, high) <= number <= max(low, high):
                raise placed(
                    ArgumentError,
                    f"{name}: {word} is {number}, outside of the limits {low} and {high}.",
                )
    return Limits(kind, sign, dtype, len(ends), len(inside)), [*ends, *raws[2:]]


def _kind(
    low: float | None, high: float | None, raws: list[Value]
) -> tuple[str, float, list[Value]]:
    """Which limit is infinite; the sign; and the values of the finite limits."""
    first, last = (number if number in (-np.inf, np.inf) else 0.0 for number in (low, high))
    if first == last:
        return "finite", 1.0, raws[:2]
    if first and last:
        return "both", float(np.sign(last)), []
    if last:
        return ("above" if last > 0.0 else "below"), float(np.sign(last)), [raws[0]]
    return ("above" if first > 0.0 else "below"), -float(np.sign(first)), [raws[1]]
