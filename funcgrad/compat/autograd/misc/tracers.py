"""``const_graph``: a function that is traced once.

>>> area = const_graph(lambda a, b: a * b, 2.0)
>>> area(3.0)
6.0
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad._staging.jit import jit
from funcgrad.compat.autograd.arrays import plain


def const_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Fix the first arguments of a function, and compile it by ``fg.jit``.

    Python's code runs again only where shapes, or numbers that it looked at, have changed.
    """
    compiled = jit(partial(fun, *args, **kwargs))

    @wraps(fun)
    def called(*values: object) -> Any:
        return plain(compiled(*values))

    return called


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
