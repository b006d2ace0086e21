"""The parameters of distributions, passed in their order or by name.

>>> arguments("norm.pdf", ("loc", "scale"), (1.5,), {})
{'loc': 1.5}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from funcgrad.errors import MissingOptionError
from funcgrad.tensor.tensor import ArrayLike

_OPTIONAL: Final = frozenset({"loc", "scale"})


def arguments(
    operation: str,
    names: Sequence[str],
    positional: Sequence[ArrayLike],
    named: Mapping[str, ArrayLike],
) -> dict[str, ArrayLike]:
    """Parameters by their names; ``loc`` and ``scale`` may be absent.

    Raises
    ------
    MissingOptionError
        A parameter is missing, passed twice, or unknown.
    """
    values = dict(zip(names, positional, strict=False))
    values.update(named)
    wrong = len(values) < len(positional) + len(named) or (named and not named.keys() <= set(names))
    lacking = [name for name in names[len(positional) :] if name not in named]
    if wrong or not _OPTIONAL.issuperset(lacking):
        raise MissingOptionError(
            f"{operation}: the parameters are {', '.join(names)}; got {len(positional)} by position"
            f" and {', '.join(named) or 'none'} by name."
        )
    return values
