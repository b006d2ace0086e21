"""Check users' conditions while functions run, also in compiled code, loops and batches.

>>> import funcgrad as fg
>>> def root(x):
...     check(x >= 0, "x is negative", x=x)
...     return fg.numpy.sqrt(x)
>>> fg.jit(root)(4.0)
Tensor(2.0)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from inspect import currentframe
from typing import Any, Final

import numpy as np

from funcgrad._base.users_line import users_line
from funcgrad._core.primitive import Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import EFFECT, Opaque
from funcgrad._core.trace import RAW, Raw, Value, bind
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._transforms.abstract_stager import running_stager
from funcgrad._transforms.factors import zeros_like
from funcgrad.debug.contexts import context
from funcgrad.errors import ArgumentError, ConditionError, DtypeError


def check(condition: ArrayLike, message: str, **values: ArrayLike) -> None:
    """Raise an error if a condition does not hold: an ``assert`` that works inside ``jit``.

    Use it for values that must be positive, finite, normalized or in range, wherever the code runs.

    Parameters
    ----------
    condition : array_like of bool
        The condition; it has to be true for all elements.
    message : str
        The text of the error.
    **values : array_like
        Values to show in the error. If a value has the shape of the condition, its first element
        that violates the condition is shown.

    Raises
    ------
    ConditionError
        The condition does not hold. The error shows the values, and in a batch the first such
        example, in a loop the step.
    DtypeError
        The condition is not boolean.
    ArgumentError
        The message is not a string.

    Notes
    -----
    Without ``jit`` the error is raised at once. Under ``jit`` the check is an operation of the
    program and raises when it runs, on every backend. A check in a branch runs if the branch runs;
    in a batch it checks the examples that take the branch. A program without results checks only
    while it is staged. With ``python -O`` nothing is checked, as with ``assert``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.debug as debug
    >>> debug.check(fg.tensor(2.0) > 0, "it is not positive")
    >>> def logarithms(x):
    ...     debug.check(x > 0, "x is not positive", x=x)
    ...     return fg.numpy.log(x)
    >>> fg.vmap(logarithms)(fg.tensor([1.0, -2.0]))
    Traceback (most recent call last):
        ...
    funcgrad.errors.ConditionError: x is not positive: x = -2.0, example 1 (at <doctest ...>:2).
    """
    _check(condition, message, values)


def check_argument(condition: ArrayLike, message: str, **values: ArrayLike) -> None:
    """Check an argument of a function of funcgrad, as ``check`` does; XLA's devices leave it out,
    since each call would wait for them.

    Raises
    ------
    ConditionError
        The condition does not hold.
    """
    _check(condition, message, values, of_argument=True)


def _check(
    condition: ArrayLike, message: str, values: Mapping[str, ArrayLike], of_argument: bool = False
) -> None:
    if not __debug__:
        return
    if not isinstance(message, str):
        raise ArgumentError(f"check: the message is {message!r}; it has to be a string.")
    ok = operand(condition, "check")
    if dtype_of(ok).kind != "b":
        raise DtypeError(
            f"check: the condition has dtype {dtype_of(ok)}; it has to be a truth value, or an"
            " array of them. Compare it, as in x > 0."
        )
    shown = [operand(value, f"check: {name}") for name, value in values.items()]
    params = {
        "message": message,
        "names": tuple(values),
        "examples": 0,
        "line": users_line(),
        "of_argument": of_argument,
    }
    stager = running_stager()
    if stager is not None and type(ok) in RAW and not np.all(ok):
        stager.process(CHECK, (True, ok, *shown), params)  # of the branch being staged
        return
    bind(CHECK, (True, ok, *shown), params)


def _evaluate(
    x: Raw,
    ok: Raw,
    *values: Raw,
    message: str,
    names: tuple[str, ...],
    examples: int,
    line: str,
    of_argument: bool = False,
) -> Raw:
    if np.all(ok):
        return x
    holds = np.asarray(ok)
    place = tuple(int(k) for k in np.unravel_index(int(np.argmin(holds)), holds.shape))
    shape, of = holds.shape[examples:], place[:examples]
    parts = []
    for name, value in zip(names, values, strict=True):
        array = np.asarray(value)[of]
        number = array[place[examples:]] if array.shape == shape else array
        parts.append(f"{name} = {_text(number)}")
    if shape:
        parts.append(f"at {list(place[examples:])}")
    parts += [f"example {example}" for example in of]
    parts += [f"step {step} of {loop}" for loop, step in context(currentframe()).steps]
    told = f": {', '.join(parts)}" if parts else ""
    raise ConditionError(f"{message}{told}{f' (at {line})' if line else ''}.")


def _text(value: np.ndarray[Any, Any]) -> str:
    if value.ndim == 0:
        return repr(value.item())
    return np.array2string(value, threshold=6, edgeitems=2, separator=", ").replace("\n", "")


def _batch(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: Sequence[bool],
    params: Mapping[str, Any],
) -> Value:
    """Move the batch axis of all operands to axis 0."""
    whole = [
        x if flag else broadcast_to(x, shape=(size, *shape_of(x)))
        for x, flag in zip(args, batched, strict=True)
    ]
    return bind(primitive, tuple(whole), {**params, "examples": params["examples"] + 1})


def _samples() -> Iterator[Sample]:
    params = {"message": "it is negative", "names": ("x",), "examples": 0, "line": ""}
    for x in (np.array([1.5, -0.5]), np.float64(2.0), np.zeros((0, 2)), np.array([1.0 + 2.0j])):
        yield Sample((x, np.isfinite(x), np.real(x)), params)
    yield Sample((np.array([1.5, 2.5]), True), {**params, "names": ()})


def result_of_check(x: Spec, *others: Spec, **params: Hashable) -> Spec:
    """Return the spec of the first operand, which passes through."""
    return x


CHECK: Final = Primitive(
    "check",
    _evaluate,
    result_of_check,
    Linearized(
        lambda tangents, out, *args, **params: tangents[0],
        lambda ct, out, x, *others, **params: (ct, *map(zeros_like, others)),
    ),
    _batch,
    _samples,
    structure=Opaque(counted=0),
    traits=EFFECT,
    label=lambda *, message, **others: f"check {message!r}",
)
"""``(x, condition, *values) -> x`` if the condition holds; otherwise it raises."""
