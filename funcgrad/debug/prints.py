"""Print values while functions run, also in compiled code, loops and batches.

>>> import funcgrad as fg
>>> def halved(x):
...     print("half of {} is {half:.2f}", x, half=x / 2)
...     return x / 2
>>> fg.jit(halved)(5.0)
half of 5.0 is 2.50
Tensor(2.5)
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from inspect import currentframe
from itertools import product
from typing import Final

import numpy as np

from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.structure.structures import EFFECT, FOREIGN, Opaque
from funcgrad._core.trace import Raw, bind
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._transforms.abstract_stager import running_stager
from funcgrad.debug.checks import CHECK, result_of_check
from funcgrad.debug.contexts import context
from funcgrad.errors import ArgumentError


def print(text: str, *values: ArrayLike, **named: ArrayLike) -> None:
    """Print values each time a function runs, also inside ``jit``.

    Python's ``print`` inside ``jit`` prints once, while the function is staged, and shows no
    values. This function prints at every call.

    Parameters
    ----------
    text : str
        The text, with fields in braces as in ``str.format``: ``"{}"``, ``"{x}"``, ``"{x:.3f}"``.
    *values, **named : array_like
        The values, by position or by name.

    Raises
    ------
    ArgumentError
        The first argument is not a string, or its fields do not fit the values.

    Notes
    -----
    Without ``jit`` it prints at once, also values that are being differentiated. Under ``jit`` it
    is an operation of the program, which prints whenever it runs, in the order of the function. In
    a loop it adds the index of the step; in a batch it prints a line for each example, with its
    index. A program without results prints only while it is staged.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.debug as debug
    >>> debug.print("{} and {x:.2f}", 1, x=0.5)
    1 and 0.50
    >>> def add(total, x):
    ...     debug.print("total {}", total)
    ...     return total + x, None
    >>> fg.jit(lambda xs: fg.scan(add, 0.0, xs)[0])(fg.tensor([1.0, 2.0]))
    total 0.0 (step 0 of scan)
    total 1.0 (step 1 of scan)
    Tensor(3.0)
    """
    if not isinstance(text, str):
        raise ArgumentError(f"print: the first argument has to be a string, got {text!r}.")
    shown = [operand(value, "print") for value in (*values, *named.values())]
    try:
        text.format(*[0] * len(values), **dict.fromkeys(named, 0))
    except (IndexError, KeyError) as error:
        raise ArgumentError(
            f"print: the text {text!r} has a field without a value: {error}."
        ) from None
    except (ValueError, TypeError, AttributeError):  # a format that does not fit the value
        pass
    bind(PRINT, (True, False, *shown), {"text": text, "names": tuple(named), "examples": 0})


def _evaluate(
    x: Raw, quiet: Raw, *values: Raw, text: str, names: tuple[str, ...], examples: int
) -> Raw:
    if np.all(quiet):
        return x
    stager = running_stager()
    if stager is not None:  # all values are known, but the program shall print when it runs
        params = {"text": text, "names": names, "examples": examples}
        stager.process(PRINT, (True, quiet, *values), params)
        return x
    steps = [f"step {step} of {loop}" for loop, step in context(currentframe()).steps]
    count = len(values) - len(names)
    for example in product(*map(range, np.shape(quiet)[:examples])):
        if np.asarray(quiet)[example].all():
            continue
        parts = [np.asarray(value)[example][()] for value in values]
        line = text.format(*parts[:count], **dict(zip(names, parts[count:], strict=True)))
        where = [*steps, *[f"example {number}" for number in example]]
        builtins.print(line + (f" ({', '.join(where)})" if where else ""))  # noqa: T201
    return x


def _samples() -> Iterator[Sample]:
    params = {"text": "x is {x}", "names": ("x",), "examples": 0}
    for x in (np.array([1.5, -0.5]), np.float64(2.0), np.zeros((0, 2)), np.array([1.0 + 2.0j])):
        yield Sample((x, True, np.real(x)), params)


PRINT: Final = Primitive(
    "print",
    _evaluate,
    result_of_check,
    CHECK.differential,
    CHECK.batch,
    _samples,
    structure=Opaque(counted=0),
    traits=EFFECT | FOREIGN,
    label=lambda *, text, **others: f"print {text!r}",
)
"""``(x, quiet, *values) -> x``; prints unless ``quiet``."""
