"""``stop_gradient``: a value without its derivative."""

from __future__ import annotations

from typing import TypeVar

from funcgrad._core import pytrees
from funcgrad._primitives.structural import unfollowed
from funcgrad.tensor.tensor import apply

T = TypeVar("T")


def stop_gradient(tree: T) -> T:
    """Treat the values of a tree as constants in every derivative.

    Use it for targets that are computed from the parameters, or to keep part of a loss from
    training part of a model.

    Parameters
    ----------
    tree : pytree of array_like

    Returns
    -------
    pytree of Tensor

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda x: x * fg.stop_gradient(x))(3.0)
    Tensor(3.0)
    """
    return pytrees.map(lambda leaf: apply(unfollowed, leaf), tree)
