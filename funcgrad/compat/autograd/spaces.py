"""Vector spaces of values: autograd's ``vspace``, for tests and rules that are written with it.

>>> space = vspace({"a": np.ones(2), "b": 1.0})
>>> space.size, space.zeros()
(3, {'a': array([0., 0.]), 'b': np.float64(0.0)})
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec, spec_of
from funcgrad.compat.autograd.arrays import conjugated, plain
from funcgrad.errors import LeafError


class VSpace:
    """Arrays and containers like a value, as a real vector space; complex numbers count twice."""

    __slots__ = ("_specs", "_structure")
    _specs: tuple[Spec, ...]
    _structure: Structure

    def __init__(self, value: object) -> None:
        leaves, self._structure = pytrees.flatten(value)
        for leaf in leaves:
            is_array = hasattr(leaf, "dtype") or isinstance(leaf, float | complex)
            if not is_array:
                raise LeafError(
                    f"vspace: a {type(leaf).__name__} is in no vector space; arrays and"
                    " floating-point numbers are."
                )
        self._specs = tuple(
            Spec(spec.shape, spec.dtype) for spec in (spec_of(leaf) for leaf in leaves)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VSpace):
            return False
        return self._structure == other._structure and self._specs == other._specs

    def __hash__(self) -> int:
        return hash((self._structure, self._specs))

    def __repr__(self) -> str:
        return f"VSpace({', '.join(map(str, self._specs))})"

    @property
    def iscomplex(self) -> bool:
        """Whether there are complex numbers."""
        return any(spec.dtype.kind == "c" for spec in self._specs)

    @property
    def size(self) -> int:
        """The dimension over the real numbers."""
        return sum(
            int(np.prod(spec.shape)) * (2 if spec.dtype.kind == "c" else 1) for spec in self._specs
        )

    @property
    def shape(self) -> Any:
        """The shape of the array; of containers, the spaces of their leaves in their places."""
        if self._structure == pytrees.structure(0.0):
            return self._specs[0].shape
        return self._built([vspace(_filled(spec, 0.0)) for spec in self._specs])

    @property
    def dtype(self) -> Any:
        """The dtype, of an array's space."""
        (spec,) = self._specs
        return spec.dtype

    def _built(self, leaves: list[Any]) -> Any:
        return pytrees.unflatten(self._structure, leaves)

    def zeros(self) -> Any:
        """Make the zero."""
        return self._built([_filled(spec, 0.0) for spec in self._specs])

    def ones(self) -> Any:
        """Make the sum of the standard basis: of complex numbers, 1 + i."""
        one = {False: 1.0, True: 1.0 + 1.0j}
        return self._built([_filled(spec, one[spec.dtype.kind == "c"]) for spec in self._specs])

    def randn(self) -> Any:
        """Draw normal numbers by NumPy's global generator."""
        return self._built([_drawn(spec) for spec in self._specs])

    def standard_basis(self) -> Iterator[Any]:
        """Go through the vectors of the basis."""
        for k, spec in enumerate(self._specs):
            for place in np.ndindex(*spec.shape):
                for unit in (1.0, 1.0j) if spec.dtype.kind == "c" else (1.0,):
                    leaves = [np.zeros(other.shape, other.dtype) for other in self._specs]
                    leaves[k][place] = unit
                    yield self._built([leaf if leaf.ndim else leaf[()] for leaf in leaves])

    def add(self, x: object, y: object) -> Any:
        """Add."""
        return pytrees.map(lambda a, b: a + b, x, y)

    def scalar_mul(self, x: object, a: Any) -> Any:
        """Multiply by a real number."""
        return pytrees.map(lambda leaf: leaf * a, x)

    def inner_prod(self, x: object, y: object) -> Any:
        """The inner product, Re(conj(x) · y)."""
        pairs = zip(pytrees.leaves(x), pytrees.leaves(y), strict=True)
        products = [fnp.real(fnp.vdot(a, b)) for a, b in pairs]
        return plain(sum(products[1:], products[0]))

    def covector(self, x: object) -> Any:
        """The covector of a vector: its conjugate."""
        return conjugated(x)


def _filled(spec: Spec, value: complex) -> Any:
    array = np.full(spec.shape, value, spec.dtype)
    return array if array.ndim else array[()]


def _drawn(spec: Spec) -> Any:
    array = np.asarray(np.random.randn(*spec.shape))  # noqa: NPY002 - autograd's users seed it
    if spec.dtype.kind == "c":
        array = array + 1.0j * np.asarray(np.random.randn(*spec.shape))  # noqa: NPY002
    array = array.astype(spec.dtype)
    return array if array.ndim else array[()]


def vspace(value: object) -> VSpace:
    """Return the vector space of a value.

    Raises
    ------
    LeafError
        A leaf is no array and no floating-point number.
    """
    return VSpace(value)
