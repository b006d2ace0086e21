"""``assert_trees_close`` compares pytrees; ``max_variants`` counts how often ``jit`` stages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from funcgrad._base.floating_errors import quiet
from funcgrad._core import pytrees
from funcgrad._core.users_values import operand
from funcgrad._staging.jit import Jitted
from funcgrad.errors import ArgumentError, CheckError, FunctionError
from funcgrad.numpy.options import natural, real_number
from funcgrad.tensor.tensor import wrap
from funcgrad.testing.report import number
from funcgrad.testing.subject import Pytree

_SHOWN: Final = 8


def assert_trees_close(
    actual: Pytree, expected: Pytree, rtol: float = 1e-7, atol: float = 0.0
) -> None:
    """Check that two pytrees have the same structure, and arrays that are close.

    Use it instead of ``numpy.testing.assert_allclose`` for trees: models, gradients, states.

    Parameters
    ----------
    actual, expected : pytrees
    rtol, atol : float
        Elements may differ by ``atol + rtol * abs(expected)``, as in
        ``numpy.testing.assert_allclose``. NaN equals NaN.

    Raises
    ------
    CheckError
        The trees differ (an ``AssertionError``). The message has the path of each leaf that differs
        in shape, dtype or values, and its worst element.
    ArgumentError
        A tolerance is negative or NaN.

    Examples
    --------
    >>> assert_trees_close({"a": 1.0, "b": [2.0]}, {"a": 1.0, "b": [2.0 + 1e-9]})
    >>> assert_trees_close({"a": 1.0, "b": [2.0]}, {"a": 1.0, "b": [2.5]})
    Traceback (most recent call last):
        ...
    funcgrad.errors.CheckError: assert_trees_close: 1 of 2 leaves differs.
      ['b'][0]  2 and 2.5 differ by 0.5, more than 2.5e-07
    """
    name = "assert_trees_close"
    limits = [real_number(rtol, name, "rtol"), real_number(atol, name, "atol")]
    for option, limit in zip(("rtol", "atol"), limits, strict=True):
        if not limit >= 0:
            raise ArgumentError(f"{name}: {option} has to be at least 0, got {limit!r}.")
    leaves, structure = pytrees.flatten(actual)
    others, structure_of_expected = pytrees.flatten(expected)
    if structure != structure_of_expected:
        raise CheckError(
            f"{name}: the structures differ.\n  actual    {structure}\n"
            f"  expected  {structure_of_expected}"
        )
    differences = []
    for path, one, other in zip(structure.paths(), leaves, others, strict=True):
        values = [np.asarray(wrap(operand(leaf, f"{name}: {path}"))) for leaf in (one, other)]
        text = _difference(values[0], values[1], limits[0], limits[1])
        if text:
            differences.append(f"  {path or 'the array'}  {text}")
    if differences:
        verb = "leaf differs" if len(leaves) == 1 else "leaves differ"
        verb = "leaves differs" if len(differences) == 1 < len(leaves) else verb
        shown = differences[:_SHOWN]
        if len(differences) > _SHOWN:
            shown.append(f"  and {len(differences) - _SHOWN} more")
        heading = f"{name}: {len(differences)} of {len(leaves)} {verb}."
        raise CheckError("\n".join([heading, *shown]))


def _difference(
    one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], rtol: float, atol: float
) -> str:
    """Describe how two arrays differ; empty if they do not."""
    if one.shape != other.shape:
        return f"has shape {one.shape}, expected {other.shape}"
    if one.dtype != other.dtype:
        return f"has dtype {one.dtype}, expected {other.dtype}"
    if not one.size:
        return ""
    with quiet():
        wide = [x.astype(complex if x.dtype.kind in "fc" else object) for x in (one, other)]
        same = (one == other) | ((one != one) & (other != other))
        error = np.where(same, 0.0, np.asarray(abs(wide[0] - wide[1]), float))
        allowed = atol + rtol * np.asarray(abs(wide[1]), float)
        finite = np.isfinite(error) & np.isfinite(allowed)
        wrong = ~same & ~(finite & (error <= allowed))
    if not wrong.any():
        return ""
    ratio = np.where(wrong, np.nan_to_num(error, nan=np.inf), -1.0)
    index = np.unravel_index(int(np.argmax(ratio)), one.shape)
    place = f"at {list(map(int, index))}: " if index else ""
    count = f"; {int(wrong.sum())} of {one.size} elements do" if one.size > 1 else ""
    numbers = f"{number(one[index].item())} and {number(other[index].item())}"
    size = f"differ by {error[index]:.3g}, more than {allowed[index]:.3g}"
    return f"{place}{numbers} {size}{count}"


@contextmanager
def max_variants(f: object, n: int) -> Iterator[None]:
    """Check that a jitted function is staged at most ``n`` times within this context.

    Use it to protect a program against slow recompilation, such as a training loop whose last batch
    has another shape.

    Parameters
    ----------
    f : jitted function
    n : int
        The maximum; 0 if the function was called before with the same shapes and dtypes.

    Yields
    ------
    None

    Raises
    ------
    CheckError
        The function was staged more often: shapes or dtypes of arguments change, an ``if`` tests
        values, or an outside value changes.
    FunctionError
        ``f`` is not a jitted function.
    ShapeError
        ``n`` is negative.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import numpy as np
    >>> f = fg.jit(lambda x: fg.numpy.sum(x * x))
    >>> with max_variants(f, 1):
    ...     for step in range(3):
    ...         y = f(np.full(2, float(step)))
    >>> with max_variants(f, 1):
    ...     for step in range(3):
    ...         y = f(np.ones(3 + step))
    Traceback (most recent call last):
        ...
    funcgrad.errors.CheckError: max_variants: <lambda> was staged 3 times, more than once.
    ...
    """
    if not isinstance(f, Jitted):
        raise FunctionError(
            f"max_variants: f has to be a jitted function, got a {type(f).__name__}. Write"
            " f = fg.jit(f) before."
        )
    most = natural(n, "max_variants", "n")
    before = f.stagings
    yield
    count = f.stagings - before
    if count > most:
        raise CheckError(
            f"max_variants: {f.__name__} was staged {_times(count)}, more than {_times(most)}.\n"
            "It is staged for each combination of structures, shapes, dtypes and static arguments,"
            " for each path through its control flow, and when an outside value that it reads has"
            " changed."
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
