"""Vector spaces of values: autograd's ``vspace``, for tests and rules that use it.

>>> space = vspace({"a": np.ones(2), "b": 1.0})
>>> space.size, space.zeros()
(3, {'a': array([0., 0.]), 'b': np.float64(0.0)})
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec, spec_of
from funcgrad.compat.autograd.arrays import conjugated, plain
from funcgrad.errors import LeafError


@dataclass(frozen=True, slots=True)
class VSpace:
    """Arrays and containers like a value, as a real vector space; complex numbers count twice."""

    _structure: Structure
    _specs: tuple[Spec, ...]

    def __repr__(self) -> str:
        return f"VSpace({', '.join(map(str, self._specs))})"

    @property
    def iscomplex(self) -> bool:
        """Whether an array is complex."""
        return any(spec.dtype.kind == "c" for spec in self._specs)

    @property
    def size(self) -> int:
        """The dimension over the real numbers."""
        return sum(int(np.prod(spec.shape)) * len(_units(spec)) for spec in self._specs)

    @property
    def shape(self) -> Any:
        """The shape of the array; for containers, the spaces of their leaves."""
        if self._structure == pytrees.structure(0.0):
            return self._specs[0].shape
        spaces = [VSpace(pytrees.structure(0.0), (spec,)) for spec in self._specs]
        return pytrees.unflatten(self._structure, spaces)

    @property
    def dtype(self) -> Any:
        """The dtype of the array."""
        (spec,) = self._specs
        return spec.dtype

    def _built(self, arrays: Iterable[Any]) -> Any:
        numbers = [array if array.ndim else array[()] for array in arrays]
        return pytrees.unflatten(self._structure, numbers)

    def zeros(self) -> Any:
        """Make the zero vector."""
        return self._built(np.zeros(spec.shape, spec.dtype) for spec in self._specs)

    def ones(self) -> Any:
        """Make the sum of the standard basis: ones, or 1 + i if complex."""
        return self._built(
            np.full(spec.shape, sum(_units(spec)), spec.dtype) for spec in self._specs
        )

    def randn(self) -> Any:
        """Draw normal values from NumPy's global generator, which users of autograd seed."""
        return self._built(
            np.asarray(
                sum(np.random.randn(*spec.shape) * unit for unit in _units(spec)),  # noqa: NPY002
                spec.dtype,
            )
            for spec in self._specs
        )

    def standard_basis(self) -> Iterator[Any]:
        """Yield the vectors of the basis."""
        for k, spec in enumerate(self._specs):
            for place in np.ndindex(*spec.shape):
                for unit in _units(spec):
                    arrays = [np.zeros(other.shape, other.dtype) for other in self._specs]
                    arrays[k][place] = unit
                    yield self._built(arrays)

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


def _units(spec: Spec) -> tuple[complex, ...]:
    return (1.0, 1.0j) if spec.dtype.kind == "c" else (1.0,)


def vspace(value: object) -> VSpace:
    """Return the vector space of a value.

    Raises
    ------
    LeafError
        A leaf is neither an array nor a floating-point number.
    """
    leaves, structure = pytrees.flatten(value)
    for leaf in leaves:
        if not hasattr(leaf, "dtype") and not isinstance(leaf, float | complex):
            raise LeafError(
                f"vspace: a {type(leaf).__name__} is in no vector space; arrays and"
                " floating-point numbers are."
            )
    specs = map(spec_of, leaves)
    return VSpace(structure, tuple(Spec(spec.shape, spec.dtype) for spec in specs))
