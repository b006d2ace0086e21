"""Functions of autograd's ``numpy`` that NumPy lacks, or has in another form.

>>> import funcgrad.compat.autograd.numpy as np
>>> from funcgrad.compat.autograd import grad
>>> grad(lambda x: np.sum(np.r_[x, 1.0:3.0] ** 2))(3.0)
np.float64(6.0)
>>> grad(np.linalg.det)(2.0 * np.eye(2))
array([[2., 0.],
       [0., 2.]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import shape_of
from funcgrad.compat.autograd.arrays import holds_tensor, plain, trace_of
from funcgrad.compat.autograd.lazy_modules import mirrored
from funcgrad.errors import ArgumentError
from funcgrad.tensor.tensor import ArrayLike, Tensor

Triangle = Literal["L", "U", "l", "u"]
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Joined:
    """``np.r_[x, y, 1:3]`` or ``np.c_[x, y]``: join arrays and scalars along an axis."""

    _name: str
    _axis: int

    def __getitem__(self, key: object) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if not holds_tensor(items):
            return getattr(np, self._name)[key]
        if any(isinstance(item, str) for item in items):
            raise ArgumentError(
                f"np.{self._name}: a text in the brackets is not available for traced values. Write"
                " np.concatenate(parts, axis)."
            )
        return fnp.concatenate([self._array(item) for item in items], axis=self._axis)

    def _array(self, item: Any) -> Tensor:
        values = np.r_[item] if isinstance(item, slice) else item
        array = fnp.atleast_1d(fnp.asarray(values))
        return array[:, None] if self._axis == -1 and array.ndim == 1 else array


r_: Final = Joined("r_", 0)
c_: Final = Joined("c_", -1)


def where(condition: ArrayLike, x: ArrayLike = _ABSENT, y: ArrayLike = _ABSENT) -> Any:
    """Choose elements of ``x`` and ``y``; for Python scalars and lists return NumPy's result.

    Raises
    ------
    ArgumentError
        One of ``x`` and ``y`` is missing.

    >>> where(True, 1, 2), where(condition=[True, False], x=np.zeros(2), y=1.0)
    (1, array([0., 1.]))
    """
    if (x is _ABSENT) != (y is _ABSENT):
        raise ArgumentError("where: pass both x and y, or neither of them.")
    options = () if x is _ABSENT else (x, y)
    out = mirrored("numpy", "where")(condition, *options)
    is_python = options and not any(map(_holds_array, (condition, x, y)))
    return out.tolist() if is_python and isinstance(out, np.ndarray) else out


def _holds_array(x: object) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_holds_array, x))
    return isinstance(x, np.ndarray | np.generic | Tensor)


def make_diagonal(D: ArrayLike, offset: int = 0, axis1: int = -1, axis2: int = -2) -> Any:
    """Make matrices whose diagonals are the vectors along the last axis.

    Raises
    ------
    ArgumentError
        The options are not ``offset=0, axis1=-1, axis2=-2``; autograd has no others either.

    >>> make_diagonal(np.array([1.0, 2.0]))
    array([[1., 0.],
           [0., 2.]])
    """
    if (offset, axis1, axis2) != (0, -1, -2):
        raise ArgumentError(
            "make_diagonal: the options have to be offset=0, axis1=-1, axis2=-2, got"
            f" {offset}, {axis1}, {axis2}."
        )
    vectors = fnp.asarray(D)
    return plain(vectors[..., None] * fnp.eye(vectors.shape[-1], dtype=vectors.dtype))


def eigh(a: ArrayLike, UPLO: Triangle = "L") -> Any:
    """Compute eigenvalues and eigenvectors of symmetric matrices from one triangle.

    Derivatives go to that triangle, as in autograd; ``fnp.linalg.eigh`` shares them among both.
    """
    return np.linalg.eigh(a, UPLO) if trace_of(a) is None else plain(fnp.linalg.eigh(a, UPLO))


def eigvalsh(a: ArrayLike, UPLO: Triangle = "L") -> Any:
    """Compute eigenvalues of symmetric matrices from one triangle: see ``eigh``."""
    if trace_of(a) is None:
        return np.linalg.eigvalsh(a, UPLO)
    return plain(fnp.linalg.eigvalsh(a, UPLO))


def unbroadcast(x: ArrayLike, target: ArrayLike) -> Any:
    """Sum a cotangent over the axes along which an argument was broadcast.

    Parameters
    ----------
    x : array
        An array of the shape to which ``target`` was broadcast.
    target : array_like
        The argument.
    """
    shape, size = shape_of(target), shape_of(x)
    extra = len(size) - len(shape)
    axes = (*range(extra), *(k + extra for k, n in enumerate(shape) if n != size[k + extra]))
    out = np.reshape(np.sum(x, axis=axes), shape) if axes else x
    return plain(out)


def unbroadcast_f(target: ArrayLike, f: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function whose results are summed to the shape of an argument.

    >>> unbroadcast_f(np.ones(2), lambda g: 3.0 * g)(np.ones((4, 2)))
    array([12., 12.])
    """
    return lambda g: unbroadcast(f(g), target)
