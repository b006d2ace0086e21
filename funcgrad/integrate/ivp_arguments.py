"""Arguments of ``solve_ivp``: the equation, the span, the options; checked, as one value.

>>> span, times = times_within((0.0, 1.0), [0.5], np.dtype(float))
>>> span, times
((Tensor(0.0), Tensor(1.0)), Tensor([0.5]))
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import count_of, placed
from funcgrad._core import pytrees
from funcgrad._core.specs import dtype_of
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import described, operand
from funcgrad.errors import ArgumentError, DtypeError, ShapeError, TreeError
from funcgrad.integrate.backward_differences import BDF
from funcgrad.integrate.explicit_pairs import RK45, TSIT5
from funcgrad.integrate.leapfrog import LEAPFROG
from funcgrad.integrate.order_eight import DOP853
from funcgrad.integrate.radau_collocation import Radau
from funcgrad.integrate.right_hand_side import System, times_of
from funcgrad.integrate.rosenbrock import Rodas5P
from funcgrad.integrate.singly_implicit import Kvaerno5
from funcgrad.integrate.step_methods import Settings, StepMethod, resolved
from funcgrad.tensor.tensor import Tensor, wrap
from funcgrad.tree.vectors import scalars_as_vector

METHODS: Final[Mapping[str, StepMethod]] = MappingProxyType(
    {
        method.name: method
        for method in (RK45, DOP853, TSIT5, LEAPFROG, Kvaerno5(), Rodas5P(), Radau(), BDF())
    }
)
"""The methods by the names that users pass."""


def start_of(y0: Any) -> Any:
    """The start; a list of scalars, also of traced ones, becomes a vector, as in SciPy."""
    if isinstance(y0, list) and all(isinstance(x, Real | complex) for x in y0):
        return np.asarray(y0)
    return scalars_as_vector(y0)


def arguments_of(args: Any) -> tuple[Any, ...]:
    """The arguments as a tuple; anything else than a tuple is one argument."""
    if args is None:
        return ()
    return args if isinstance(args, tuple) else (args,)


def method_of(method: Any) -> StepMethod:
    """The method of a name.

    Raises
    ------
    ArgumentError
        The name is unknown.
    """
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]
    names = ", ".join(map(repr, METHODS))
    raise placed(ArgumentError, f"solve_ivp: method has to be one of {names}, got {method!r}.")


def times_within(
    t_span: Any, t_eval: Any, precision: np.dtype[Any]
) -> tuple[tuple[Tensor, Tensor], Tensor | None]:
    """Check the span and the times within it.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError
        The span is not a pair of real numbers, or the times are not within it, in its order.
    """
    is_pair = isinstance(t_span, Tensor | np.ndarray) and np.shape(t_span) == (2,)
    if not is_pair and not (isinstance(t_span, tuple | list) and len(t_span) == 2):
        raise placed(
            ShapeError, f"solve_ivp: t_span has to be a pair (t0, t1), got {described(t_span)}."
        )
    ends = [wrap(operand(end, "solve_ivp: t_span")) for end in t_span]
    for end in ends:
        if end.shape or end.dtype.kind not in "biuf":
            raise placed(
                DtypeError if not end.shape else ShapeError,
                "solve_ivp: t_span has to hold two real numbers, got"
                f" {end.dtype} of shape {end.shape}.",
            )
    times = None if t_eval is None else times_of(t_eval, "solve_ivp", "t_eval")
    kinds = [end.dtype if end.dtype.kind == "f" else np.dtype(float) for end in ends]
    if all(isinstance(concrete(end), float | int) for end in ends):
        kinds = []
    if times is not None and not isinstance(t_eval, list | tuple):
        kinds.append(times.dtype)
    dtype = np.result_type(np.float64 if not kinds else np.float32, precision, *kinds)
    first, last = [fnp.asarray(end).astype(dtype) for end in ends]
    times = None if times is None else times.astype(dtype)
    _check_times(first, last, times)
    return (first, last), times


def _check_times(first: Tensor, last: Tensor, times: Tensor | None) -> None:
    values = [concrete(x) for x in (first, last, *([] if times is None else [times]))]
    if any(type(value) not in RAW for value in values):
        return
    a, b, *others = [np.asarray(value) for value in values]
    if not (np.isfinite(a) and np.isfinite(b)):
        raise placed(ArgumentError, f"solve_ivp: t_span has to be finite, got ({a}, {b}).")
    for t in others:
        low, high = min(a, b), max(a, b)
        outside = ~((t >= low) & (t <= high))
        if outside.any():
            raise placed(
                ArgumentError,
                f"solve_ivp: t_eval holds {t[outside][0]:.6g}, which is not within t_span"
                f" ({a:.6g}, {b:.6g}).",
            )
        if (np.diff(t) * (-1 if b < a else 1) < 0).any():
            raise placed(
                ArgumentError,
                "solve_ivp: t_eval is not in the order of t_span. Sort it; if t1 < t0, in"
                " descending order.",
            )


def check_method(method: StepMethod, system: System, settings: Settings) -> Settings:
    """Check that a method can solve an equation; leapfrog gets the size of its steps.

    Raises
    ------
    ArgumentError, TreeError
        The method does not fit.
    """
    if method.name != "leapfrog":
        return settings
    size = min(settings.hmax, settings.first or np.inf)
    if size == np.inf:
        raise placed(
            ArgumentError, "solve_ivp: leapfrog takes steps of one size: pass it as first_step."
        )
    shapes = [(leaf.shape, leaf.dtype) for leaf in system.start]
    half = len(shapes) // 2
    children = system.tree(system.start)
    is_pair = isinstance(children, tuple | list) and len(children) == 2
    if not is_pair or not half or shapes[:half] != shapes[half:]:
        raise placed(
            TreeError,
            "solve_ivp: leapfrog solves for places and momenta: y0 has to be a pair (q, p) of like"
            f" trees, and fun has to return (dq/dt, dp/dt); got y0 = {described(children)}.",
        )
    return settings._replace(first=size)


def settings_of(
    rtol: Any, atol: Any, max_step: Any, first_step: Any, max_steps: Any, system: System
) -> Settings:
    """Check the accuracy and the bounds of steps.

    Raises
    ------
    ArgumentError
        A value is not allowed.
    """
    relative = _number_at_least("rtol", rtol, 0.0)
    absolute = _absolute(atol, system)
    if not relative and not np.max(np.asarray(pytrees.leaves(absolute), float), initial=0.0):
        raise placed(
            ArgumentError, "solve_ivp: rtol and atol are both 0; no solution is that exact."
        )
    longest = _number_at_least("max_step", max_step, 0.0, positive=True)
    first = None
    if first_step is not None:
        first = _number_at_least("first_step", first_step, 0.0, positive=True)
    most = 10_000 if max_steps is None else count_of("solve_ivp", "max_steps", max_steps)
    relative = resolved("solve_ivp", relative, system.start)
    return Settings(relative, absolute, most, longest, first)


def _number_at_least(name: str, value: Any, least: float, positive: bool = False) -> float:
    """Check an option that is one number.

    Raises
    ------
    ArgumentError
        It is not a number, or too small.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not number >= least or (positive and not number):
        bound = "> 0" if positive else ">= 0"
        raise placed(ArgumentError, f"solve_ivp: {name} has to be a number {bound}, got {value!r}.")
    return number


def _absolute(atol: Any, system: System) -> Any:
    """The absolute tolerance: a number, or nested tuples for each leaf of y."""
    if isinstance(atol, int | float | np.number):
        return _number_at_least("atol", atol, 0.0)
    if isinstance(atol, list):
        atol = fnp.asarray(atol)
    try:
        leaves = pytrees.broadcast_prefix(atol, system.state, "atol")
    except TreeError as error:
        raise placed(TreeError, f"solve_ivp: atol does not fit y0: {error}") from None
    sizes = []
    for leaf, y in zip(leaves, system.start, strict=True):
        raw = concrete(operand(leaf, "solve_ivp: atol"))
        if type(raw) not in RAW and raw._trace.is_remote:
            raw = raw._reveal("atol", exact=True)
        known = type(raw) in RAW and dtype_of(raw).kind in "biuf"
        if not known or not np.all(np.asarray(raw) >= 0.0):
            raise placed(
                ArgumentError, f"solve_ivp: atol has to hold known values >= 0, got {leaf!r}."
            )
        array = np.asarray(raw, float)
        if array.shape and array.shape != y.shape:
            raise placed(
                ShapeError,
                f"solve_ivp: atol of shape {array.shape} does not fit y0 of shape {y.shape}.",
            )
        sizes.append(_nested(array.tolist()))
    return tuple(sizes)


def _nested(value: Any) -> Any:
    return tuple([_nested(x) for x in value]) if isinstance(value, list) else value
