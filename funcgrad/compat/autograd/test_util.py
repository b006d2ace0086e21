"""``check_grads`` under autograd's name and with its arguments, by ``fg.testing.check_grads``.

>>> check_grads(np.sin)(np.array([0.3, 1.0]))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.compat.autograd.arrays import differentiable, plain
from funcgrad.compat.autograd.differential_operators import unary_to_nary
from funcgrad.compat.autograd.spaces import vspace
from funcgrad.testing import check_grads as _check_grads


@unary_to_nary
def check_grads(
    f: Callable[[Any], Any], x: Any, modes: Sequence[str] = ("fwd", "rev"), order: int = 2
) -> None:
    """``check_grads(f, argnum, modes, order)(*args)``: compare derivatives with differences.

    Raises
    ------
    AssertionError
        They differ.
    """
    _check_grads(lambda inner: f(plain(inner)), (differentiable(x),), order, modes)


def check_equivalent(x: Any, y: Any) -> None:
    """Check that two values have the same containers, shapes and dtypes, and equal elements.

    Raises
    ------
    AssertionError
        They differ.

    Examples
    --------
    >>> check_equivalent({"a": np.ones(2)}, {"a": np.ones(2)})
    """
    if vspace(x) != vspace(y):
        raise AssertionError(f"check_equivalent: the spaces differ: {vspace(x)}, {vspace(y)}.")
    for one, other in zip(pytrees.leaves(x), pytrees.leaves(y), strict=True):
        if not np.allclose(one, other, rtol=1e-6, atol=1e-6):
            raise AssertionError(f"check_equivalent: the values differ: {one}, {other}.")


def combo_check(fun: Callable[..., Any], *options: Any, **named: Any) -> Callable[..., None]:
    """Check a function at every combination of arguments.

    Parameters
    ----------
    fun : callable
    *options, **named
        Options of ``check_grads``.

    Returns
    -------
    callable
        Takes a sequence of values for each argument of ``fun``.

    Examples
    --------
    >>> combo_check(np.multiply, (0, 1), order=1)([1.0, 2.0], [3.0])
    """

    def checked(*args: Sequence[Any], **kwargs: Sequence[Any]) -> None:
        for values in product(*args):
            for chosen in product(*kwargs.values()):
                keywords = dict(zip(kwargs, chosen, strict=True))
                check_grads(fun, *options, **named)(*values, **keywords)

    return checked


def scalar_close(a: float, b: float) -> bool:
    """Whether two scalars agree to six digits, or are both nearly zero.

    Examples
    --------
    >>> scalar_close(1.0, 1.0 + 1e-9), scalar_close(1.0, 1.1)
    (True, False)
    """
    return bool(np.abs(a - b) < 1e-6 or np.abs(a - b) / np.abs(a + b) < 1e-6)


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
