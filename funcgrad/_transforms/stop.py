"""``stop_gradient``: a value without its derivative."""

from __future__ import annotations

from typing import TypeVar

from funcgrad._core import pytrees
from funcgrad._primitives.structural import unfollowed
from funcgrad.tensor.tensor import apply

T = TypeVar("T")


def stop_gradient(tree: T) -> T:
    """A tree whose numbers count as constants in every derivative.

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
