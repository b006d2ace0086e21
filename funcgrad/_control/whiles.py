"""``while_loop``, and ``fori_loop``, which counts.

>>> import funcgrad as fg
>>> fg.while_loop(lambda x: x < 100.0, lambda x: x * x, 2.0)
Tensor(256.0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final, overload

import numpy as np

from funcgrad._control.carried_types import (
    AnyNumber,
    Bound,
    Containers,
    NumberCondition,
    NumberCountedStep,
    NumberStep,
    State,
    Truth,
)
from funcgrad._control.carry import CarrySpecs, alike, count_of, single
from funcgrad._control.choices import few_rows, is_unknown, number_in, truth
from funcgrad._control.loop_operation import apply_loop
from funcgrad._control.scans import counted
from funcgrad._control.values import LoopSteps, closed_together, strong
from funcgrad._core import pytrees
from funcgrad._core.context import current, entered
from funcgrad._core.specs import Spec, dtype_of, stand_in
from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Value, concrete
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._primitives.logic import logical_and
from funcgrad._primitives.selection import where
from funcgrad._programs.equation import as_spec, spec_inside
from funcgrad._transforms.abstract_stager import running_stager, staged_body
from funcgrad._transforms.active_examples import active_mask, with_active
from funcgrad._transforms.answers import Rows
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.flat_functions import run_for_few
from funcgrad._transforms.stage import name_of
from funcgrad._transforms.stager import Stager
from funcgrad.tensor.tensor import Tensor, wrap

_INT64: Final = np.dtype(np.int64)


@overload
def while_loop(
    cond_fun: NumberCondition,
    body_fun: NumberStep,
    init_val: AnyNumber,
    checkpoints: int | None = None,
) -> Tensor: ...
@overload
def while_loop(
    cond_fun: Callable[[State], Truth],
    body_fun: Callable[[State], State],
    init_val: State | Containers,
    checkpoints: int | None = None,
) -> State: ...
@watched
@answering
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    checkpoints: int | None = None,
) -> Any:
    """Call a function repeatedly while a condition is true.

    Parameters
    ----------
    cond_fun : callable
        ``cond_fun(value)`` returns a single truth value.
    body_fun : callable
        ``body_fun(value)`` returns the next value, with the same structure, shapes and dtypes.
    init_val : pytree
        The first value. A Python number takes, from the start, the dtype that ``body_fun`` returns
        for it: the dtype of an array, or the same or a later type of int, float and complex.
    checkpoints : int, optional
        In a program, about how many values reverse mode stores at once; it recomputes the others.
        By default it stores all.

    Returns
    -------
    pytree
        The first value for which the condition is false.

    Raises
    ------
    ShapeError, DtypeError, TreeError
        The value changes its shape or dtype, or the condition is not a single truth value.
    ArgumentError
        ``checkpoints`` is less than 2.

    See Also
    --------
    fori_loop, scan

    Notes
    -----
    Outside ``jit`` this is Python's ``while``. In a program it is one operation, with derivatives
    of every order in both modes; reverse mode runs the loop once more. If the condition differs
    between the examples of ``vmap``, the loop runs until the condition is false for all of them. An
    example whose condition is false does not change any more: further steps affect neither its
    value nor its derivatives. Outside programs, when few examples of a large batch are left, the
    loop continues with these only. In machine code each example, or a block of examples, runs by
    itself.

    With ``c`` checkpoints and ``n`` steps reverse mode computes each step about log n / log c
    times.

    Examples
    --------
    >>> import funcgrad as fg
    >>> def root(x):  # by Newton's method
    ...     close = lambda y: abs(y * y - x) > 1e-12 * x
    ...     return fg.while_loop(close, lambda y: (y + x / y) / 2.0, x)
    >>> fg.jit(fg.grad(root))(2.0), fg.vmap(root)(fg.tensor([4.0, 9.0]))
    (Tensor(0.35355339), Tensor([2., 3.]))
    """
    for f in (cond_fun, body_fun):
        check_function("while_loop", f)
    if checkpoints is not None:
        checkpoints = count_of("while_loop", "checkpoints", checkpoints, 2)
    carried = CarrySpecs.of("while_loop", "init_val", init_val)
    stager = running_stager()
    if stager is not None:
        return _staged("while_loop", stager, cond_fun, body_fun, carried, checkpoints)
    return repeating(LoopSteps("while_loop", count()), cond_fun, body_fun, carried)


@overload
def fori_loop(
    lower: Bound, upper: Bound, body_fun: NumberCountedStep, init_val: AnyNumber
) -> Tensor: ...
@overload
def fori_loop(
    lower: Bound,
    upper: Bound,
    body_fun: Callable[[Any, State], State],
    init_val: State | Containers,
) -> State: ...
@watched
@answering
def fori_loop(
    lower: Bound, upper: Bound, body_fun: Callable[[Any, Any], Any], init_val: Any
) -> Any:
    """Loop over a range of integers, updating a value at each step.

    Parameters
    ----------
    lower, upper : array_like of int, shape ()
        The first integer, and the end of the range, which is excluded.
    body_fun : callable
        ``body_fun(i, value)`` returns the next value, with the same structure, shapes and dtypes.
        ``i`` is a tensor of the dtype that the bounds promote to; if both bounds are Python
        numbers, ``i`` promotes like a Python number.
    init_val : pytree
        The first value. A Python number takes, from the start, the dtype that ``body_fun`` returns
        for it: the dtype of an array, or the same or a later type of int, float and complex.

    Returns
    -------
    pytree
        The last value; ``init_val`` if ``upper`` is not greater than ``lower``.

    Raises
    ------
    ShapeError, DtypeError
        A bound is not a single integer.
    ShapeError, DtypeError, TreeError
        The value changes its structure, shape or dtype.

    See Also
    --------
    scan : also stacks a result of each step.

    Notes
    -----
    Bounds that are known when the function is staged make a ``scan``, others a ``while_loop``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.jit(lambda x: fg.fori_loop(0, 3, lambda i, y: y * x + i, 1.0))(2.0)
    Tensor(12.)
    """
    check_function("fori_loop", body_fun)
    bounds = {"lower": lower, "upper": upper}
    first, stop = [single("fori_loop", word, x, "integer") for word, x in bounds.items()]
    spec = _counter(spec_inside(first), spec_inside(stop))
    if is_unknown(first) or is_unknown(stop):
        return _counted(as_spec(first, spec), stop, body_fun, init_val)
    start, end = int(wrap(first)), int(wrap(stop))

    def step(carry: Any, _: object) -> Any:
        i, value = carry
        return (i + 1, body_fun(i, value)), None

    if running_stager() is None:
        carried = CarrySpecs.of("fori_loop", "init_val", init_val)
        return counting_up(LoopSteps("fori_loop", range(start, end)), spec, body_fun, carried)
    length = max(0, end - start)
    init = wrap(as_spec(start, spec)), init_val
    return counted(named_like(body_fun, step), init, length, "fori_loop")[1]


def _counter(lower: Spec, upper: Spec) -> Spec:
    """Return the spec of a counter between two bounds, whose dtype holds all its integers."""
    if lower.weak == upper.weak:
        dtype = np.promote_types(lower.dtype, upper.dtype)
        return Spec((), dtype if dtype.kind in "iu" else _INT64, lower.weak)
    return strong(upper if lower.weak else lower)


def counting_up(
    steps: LoopSteps, spec: Spec, body_fun: Callable[[Any, Any], Any], carried: CarrySpecs
) -> Any:
    """Run a ``fori_loop`` whose bounds are known."""
    value = carried.tree()
    is_first = True
    for number in steps:
        i = wrap(number if spec.weak else spec.dtype.type(number))
        new_value = body_fun(i, value)
        if not alike(new_value, value):
            again = partial(body_fun, i)
            new_value = carried.next(new_value, f" at i = {number}", is_first, again)
        value, is_first = new_value, False
    if is_first:
        return _without_steps(carried, lambda value: body_fun(wrap(stand_in(spec)), value))
    return value


def _without_steps(carried: CarrySpecs, body: Callable[[Any], Any]) -> Any:
    """Return the first value, with the dtypes that it would have after a step if they are known."""
    if not carried.gives_way:
        return carried.tree()
    trial = replace(carried, specs=[*carried.specs])
    try:
        trial.staged(None, _step(trial, body), (), carried.operation)
    except Exception:  # a body that does not run may be one that cannot be staged
        return carried.tree()
    return trial.tree()


def _counted(first: Value, stop: Value, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    def goes_on(carry: Any) -> Any:
        return carry[0] < wrap(stop)

    def step(carry: Any) -> Any:
        i, value = carry
        return i + 1, body_fun(i, value)

    return while_loop(goes_on, named_like(body_fun, step), (wrap(first), init_val))[1]


def repeating(
    steps: LoopSteps,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    carried: CarrySpecs,
) -> Any:
    """Run a ``while_loop`` as Python does."""
    value = carried.tree()
    for number in steps:
        goes_on = truth(steps.operation, "the result of cond_fun", cond_fun(value))
        if type(goes_on) is not np.bool_:
            if is_unknown(goes_on):
                return masked_steps(steps, cond_fun, body_fun, carried, value, goes_on)
            goes_on = bool(wrap(goes_on))
        if not goes_on:
            break
        new_value = body_fun(value)
        if not alike(new_value, value):
            new_value = carried.next(new_value, f" at step {number}", not number, body_fun)
        value = new_value
    return value if steps.number else _without_steps(carried, body_fun)


def masked_steps(
    steps: LoopSteps,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    carried: CarrySpecs,
    value: Any,
    active: Value,
    numbers: Sequence[bool] | None = None,
) -> Any:
    """Run the loop on from a step on a batch, in which it ends for each example by itself.

    ``numbers`` tells which leaves of the carry were Python numbers after the first step on a batch.
    """
    is_first = not steps.number
    active = active_mask(active)
    if not np.any(number_in(active)):
        return _without_steps(carried, body_fun) if is_first else value
    while np.any(number_in(active)):
        if numbers is not None:
            rows = few_rows(active, [spec.shape for spec in carried.specs])
            if rows is not None:
                left, old = (carried, numbers), carried.flatten(value, "")
                new = _steps_of_few(steps, cond_fun, body_fun, left, active, rows, old)
                pairs = zip(new, old, strict=True)
                return carried.tree([where(active, x, y) for x, y in pairs])
        with with_active(active):
            new_value = body_fun(value)
        if numbers is not None and any(numbers):
            # In a batch a Python number becomes an array, which may raise the precision of others.
            precise = [
                _as_precise(*pair)
                for pair in zip(carried.flatten(new_value, ""), carried.specs, strict=True)
            ]
            new_value = carried.tree(precise)
        new_value = carried.next(new_value, "", is_first, body_fun)
        is_first = False
        numbers = [spec.weak for spec in carried.specs] if numbers is None else numbers
        new, old = pytrees.leaves(new_value), carried.flatten(value, "")
        next_leaves = [where(active, concrete(x), y) for x, y in zip(new, old, strict=True)]
        value = carried.tree(next_leaves)
        carried.specs = [strong(spec) for spec in carried.specs]
        next(steps)
        more = truth(steps.operation, "the result of cond_fun", cond_fun(value))
        active = logical_and(active, more)
    return value


def _steps_of_few(
    steps: LoopSteps,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    left: tuple[CarrySpecs, Sequence[bool]],
    active: Value,
    rows: Rows,
    values: Sequence[Value],
) -> list[Value]:
    """Run a loop to its end for the few examples that are left; the results stand for all."""

    def run_on(some: Sequence[Value]) -> list[Value]:
        carried, numbers = left
        carried = replace(carried, specs=[*carried.specs])
        value = carried.tree(some)
        inner = LoopSteps(steps.operation, count(steps.number or 0))
        next(inner)  # the step at which the examples were left
        more = truth(inner.operation, "the result of cond_fun", cond_fun(value))
        ended = masked_steps(inner, cond_fun, body_fun, carried, value, more, numbers)
        return carried.flatten(ended, "")

    with entered(current()._replace(active_examples=None)):
        return run_for_few(run_on, active._trace, rows, values)


def _as_precise(value: Value, spec: Spec) -> Value:
    """Convert a value to the precision of a spec, if both are integers, floats or complex."""
    dtype = dtype_of(value)
    return value if dtype == spec.dtype or dtype.kind != spec.dtype.kind else as_spec(value, spec)


def _staged(
    operation: str,
    stager: Stager,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    carried: CarrySpecs,
    checkpoints: int | None,
) -> Any:
    def goes_on(values: Sequence[Value]) -> list[Value]:
        return [truth(operation, "the result of cond_fun", cond_fun(carried.tree(values)))]

    step = carried.staged(stager, _step(carried, body_fun), (), name_of(body_fun))
    place = f"fg.{operation}"
    test = staged_body(stager, place, goes_on, carried.specs, name_of(cond_fun))
    (body, cond), closed = closed_together([step, test], carried.specs)
    loop = Loop(body, len(closed), len(carried.values), condition=cond, checkpoints=checkpoints)
    return carried.tree(apply_loop([*closed, *carried.values], loop))


def _step(
    carried: CarrySpecs, body_fun: Callable[[Any], Any]
) -> Callable[[Sequence[Value]], list[Value]]:
    """Return the body as a function of lists of values, instead of pytrees."""
    return lambda values: carried.fit(carried.flatten(body_fun(carried.tree(values)), ""), "")[0]


def named_like(f: Callable[..., Any], made: Callable[..., Any]) -> Callable[..., Any]:
    """Name a function after the user's function that it calls, since programs show the name."""
    made.__name__ = name_of(f)
    return made
