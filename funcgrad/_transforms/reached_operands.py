"""Which elements of the arguments of a product the present elements of a cotangent reach.

All others are absent, whatever values they are multiplied with. A mask is as small as it can be, so
that little work is done for it: it broadcasts to the shape of its argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape, Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import Contraction, Opaque, WindowProducts
from funcgrad._core.trace import Value
from funcgrad._primitives.reduction import reduce_any
from funcgrad._primitives.structural import cast, reshape, transpose
from funcgrad._transforms.masked import broadcast

_AXES: Final = MappingProxyType({"x": "nc", "k": "oc", "y": "no"})
"""The first axes of the arrays of a convolution, see ``WindowProducts``."""


def reached(
    product: Primitive,
    mask: Value,
    shape: Shape,
    primals: Sequence[Value],
    params: Mapping[str, Any],
) -> list[Value]:
    """For each argument of a product, a mask of the elements that present cotangents reach.

    ``mask`` holds where the cotangent of the result is present, and ``shape`` is the result's.
    """
    structure: Any = product.structure
    differential: Any = product.differential
    if 0 not in shape and isinstance(structure, Contraction):
        mask = _of_rank(mask, len(shape))
        specs = [Spec(shape_of(x), dtype_of(x)) for x in primals]
        *letters, out = structure.letters(*specs, **params)
        return [_present_along(mask, out, *place) for place in zip(letters, specs, strict=True)]
    windows = structure.windows if isinstance(structure, Opaque) else None
    form = None if windows is None else windows(**params)
    if form is not None and form.groups == 1 and 0 not in shape:
        cases = [*_in_windows(form, _of_rank(mask, len(shape)), shape, primals)]
    else:
        cases = [(broadcast(mask, shape), [shape_of(x) for x in primals])] * len(primals)
    return [
        route(cast(present, dtype=np.dtype(np.float64)), *map(np.ones, sizes), **params) != 0
        for route, (present, sizes) in zip(differential.routes(len(primals)), cases, strict=True)
    ]


def _of_rank(mask: Value, rank: int) -> Value:
    sizes = shape_of(mask)
    return mask if len(sizes) == rank else reshape(mask, shape=(1,) * (rank - len(sizes)) + sizes)


def _in_windows(
    form: WindowProducts, mask: Value, shape: Shape, primals: Sequence[Value]
) -> Iterator[tuple[Value, list[Shape]]]:
    """For each argument of a convolution, a mask, and shapes of arguments with the same windows.

    If the result lacks the axis of examples, filters or channels, all of them are reached alike:
    one stands for all. And one stands for those that the argument lacks.
    """
    *operands, result = [_AXES[name] for name in form.arrays]
    for target in operands:
        few = _any_along(mask, [axis for axis, name in enumerate(result) if name not in target])
        present = broadcast(few, (*shape_of(few)[:2], *shape[2:]))
        sizes = dict(zip(result, shape_of(few)[:2], strict=True))
        yield (
            present,
            [
                (*[sizes.get(name, 1) if axes is target else 1 for name in axes], *shape_of(x)[2:])
                for axes, x in zip(operands, primals, strict=True)
            ],
        )


def _any_along(mask: Value, axes: Sequence[int]) -> Value:
    """Where any element is present along axes, which then have size 1."""
    long = tuple([axis for axis in axes if shape_of(mask)[axis] != 1])
    return reduce_any(mask, axis=long, keepdims=True) if long else mask


def _present_along(mask: Value, letters: str, others: str, operand: Spec) -> Value:
    """Where any element is present along the axes that an operand of a contraction does not have.

    ``letters`` are the axes of the mask of the result, and ``others`` the axes of the operand,
    as for ``einsum``. The result broadcasts to the operand's shape.

    >>> mask = np.array([[True, False, False], [True, False, False]])
    >>> _present_along(mask, "ij", "jk", Spec((3, 5), np.dtype(float)))
    array([[ True],
           [False],
           [False]])
    """
    sizes = dict(zip(others, operand.shape, strict=True))
    mask = _any_along(mask, [k for k, letter in enumerate(letters) if sizes.get(letter, 1) == 1])
    present = dict(zip(letters, shape_of(mask), strict=True))
    shared = [letter for letter in letters if letter in sizes]
    order = tuple([shared.index(letter) for letter in others if letter in present])
    if order != tuple(range(len(order))):
        mask = reshape(mask, shape=tuple([present[letter] for letter in shared]))
        mask = transpose(mask, axes=order)
    along = tuple([present.get(letter, 1) for letter in others])
    return mask if shape_of(mask) == along else reshape(mask, shape=along)
