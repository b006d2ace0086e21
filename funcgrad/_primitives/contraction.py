"""Contractions: sums over products of two arrays, and the fastest of them, ``matmul``.

Both are linear in each argument, and their transposes are contractions again.

>>> contract(np.ones((2, 3)), np.ones((2, 3)), subscripts="ij,ij->i")
array([3., 3.])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from funcgrad._core.primitive import Linear, OperandText, Primitive, Sample
from funcgrad._core.specs import Shape, Spec, shape_of
from funcgrad._core.structure.structures import LETTERS, OWNS, WRITES_INTO, Contraction
from funcgrad._core.trace import Raw, Value, bind2
from funcgrad._primitives.index_keys import index_text
from funcgrad._primitives.products import (
    compute,
    plan_product,
    product_text,
    split_subscripts,
    transposed_text,
)
from funcgrad._primitives.structural import reshape, swap_last_axes, transpose
from funcgrad.errors import ShapeError

# The general contraction.


def _contract(x: Raw, y: Raw, subscripts: str) -> Raw:
    x, y = np.asarray(x), np.asarray(y)
    is_complex = x.dtype.kind == "c" or y.dtype.kind == "c"
    product = plan_product(subscripts, x.shape, y.shape, is_complex)
    if product is not None:
        return compute(product, x, y)
    spread = _spread(subscripts)
    if spread is None:
        return np.einsum(subscripts, x, y)
    (axes, key), (other_axes, other_key) = spread
    # np.einsum would add the products to 0, which turns -0.0 into 0.0.
    return np.multiply(x.transpose(axes)[key], y.transpose(other_axes)[other_key], order="C")


def _spread(subscripts: str) -> tuple[tuple[tuple[int, ...], Any], ...] | None:
    """How both arguments, transposed and with new axes, broadcast; None if anything is summed."""
    first, second, out = split_subscripts(subscripts)
    if not set(first + second) <= set(out):
        return None
    return tuple(
        [
            (
                tuple([letters.index(c) for c in out if c in letters]),
                tuple([slice(None) if c in letters else None for c in out]) or (...,),
            )
            for letters in (first, second)
        ]
    )


def _contract_source(x: OperandText, y: OperandText, subscripts: str) -> str | None:
    is_complex = x.spec.dtype.kind == "c" or y.spec.dtype.kind == "c"
    product = plan_product(subscripts, x.spec.shape, y.spec.shape, is_complex)
    if product is not None:
        return product_text(product, str(x), str(y))
    spread = _spread(subscripts)
    if spread is None:
        return f"np.einsum({subscripts!r}, {x}, {y})"
    first, second = [
        f"{transposed_text(operand.array, axes)}[{index_text(key)}]"
        for operand, (axes, key) in zip((x, y), spread, strict=True)
    ]
    return f"np.multiply({first}, {second}, order='C')"


def _contract_result(x: Spec, y: Spec, subscripts: str) -> Spec:
    first, second, out = split_subscripts(subscripts)
    sizes: dict[str, int] = {}
    for letter, size in zip(first + second, x.shape + y.shape, strict=True):
        if sizes.setdefault(letter, size) != size:
            raise ShapeError(
                f"contract: {subscripts!r} gives the sizes {sizes[letter]} and {size} to the index"
                f" {letter!r}, for arguments of the shapes {x.shape} and {y.shape}."
            )
    return Spec(tuple([sizes[letter] for letter in out]), np.result_type(x.dtype, y.dtype))


def _contract_batch(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: Mapping[str, Any],
) -> Value:
    """One more letter."""
    first, second, out = split_subscripts(params["subscripts"])
    letter = next((c for c in LETTERS if c not in first + second), None)
    if letter is None:
        raise ShapeError("A contraction of more than 52 indices is not possible.")
    first, second = letter * batched[0] + first, letter * batched[1] + second
    return primitive(*args, subscripts=f"{first},{second}->{letter}{out}")


def _pull_first(ct: Value, x: Value, y: Value, subscripts: str) -> Value:
    first, second, out = split_subscripts(subscripts)
    return contract(ct, y, subscripts=f"{out},{second}->{first}")


def _pull_second(ct: Value, x: Value, y: Value, subscripts: str) -> Value:
    first, second, out = split_subscripts(subscripts)
    return contract(ct, x, subscripts=f"{out},{first}->{second}")


def _contract_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(23)
    for subscripts, first, second in (
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("ij,jk->ki", (20, 30), (30, 40)),
        ("kij,nkj->nki", (3, 4, 5), (6, 3, 5)),
        ("kij,nkj->nki", (5, 6, 7), (40, 5, 7)),
        ("jik,kj->ij", (9, 10, 11), (11, 9)),
        ("ij,ij->i", (40, 5), (40, 5)),
        ("ij,ji->", (3, 4), (4, 3)),
        ("i,j->ji", (200,), (100,)),
        ("ij,j->ij", (200, 4), (4,)),
        (",->", (), ()),
        (",i->i", (), (3,)),
        ("ij,jk->ik", (2, 0), (0, 3)),
        ("ij,jk->ik", (0, 2), (2, 3)),
    ):
        params = {"subscripts": subscripts}
        x, y = rng.standard_normal(first), rng.standard_normal(second)
        yield Sample((x, y), params)
        if x.size < 20:
            yield Sample((x + 1j * x[::-1] if first else x * 1j, y * (1 - 2j)), params)
            yield Sample((x, y * 1j), params)
    wide = rng.standard_normal((6, 8))
    yield Sample((wide[::-2, ::2], wide[:4, ::-1]), {"subscripts": "ij,jk->ik"})
    yield Sample((2.0, wide), {"subscripts": ",ij->ji"})


contract: Primitive = Primitive(
    "contract",
    _contract,
    _contract_result,
    Linear((_pull_first, _pull_second)),
    _contract_batch,
    _contract_samples,
    _contract_source,
    structure=Contraction(lambda x, y, subscripts: split_subscripts(subscripts)),
    traits=OWNS,
)
"""The product of two arrays, summed over the indices that the result lacks.

``subscripts`` is explicit, as in "ij,jk->ik"; no argument has an index twice, and each index of an
argument is also in the other argument or in the result. ``einsum`` brings any expression to this
form.
"""


# Matrix products.


def _merged_rows(x: Value, columns: int) -> Value:
    """A stack of matrices as one tall matrix."""
    shape = shape_of(x)
    rows = prod(shape[:-1])
    return x if len(shape) == 2 else reshape(x, shape=(rows, columns))


def _column(x: Value) -> Value:
    return reshape(x, shape=(*shape_of(x), 1))


def _pull_left(ct: Value, x: Value, y: Value) -> Value:
    x_shape, y_shape = shape_of(x), shape_of(y)
    # The hot case, without a detour.
    if type(y) is np.ndarray and len(x_shape) == len(y_shape) == 2:
        return np.matmul(ct, y.T) if type(ct) is np.ndarray else bind2(matmul, ct, y.T)
    if len(y_shape) == 1:
        return ct * y if len(x_shape) == 1 else _column(ct) * y
    if len(x_shape) == 1:
        if len(y_shape) == 2:
            return matmul(y, ct)
        return _across_stacks(ct, "m", y, "km", x_shape, "k")
    if len(y_shape) == 2:  # one large product, which reads the matrix once
        rows = matmul(_merged_rows(ct, y_shape[-1]), swap_last_axes(y))
        return rows if len(x_shape) == 2 else reshape(rows, shape=x_shape)
    if x_shape[:-2] == shape_of(ct)[:-2]:
        return matmul(ct, swap_last_axes(y))
    return _across_stacks(ct, "nm", y, "km", x_shape, "nk")


def _pull_right(ct: Value, x: Value, y: Value) -> Value:
    y_shape, x_shape = shape_of(y), shape_of(x)
    # The hot case, without a detour.
    if type(x) is np.ndarray and len(y_shape) == len(x_shape) == 2:
        return np.matmul(x.T, ct) if type(ct) is np.ndarray else bind2(matmul, x.T, ct)
    if len(y_shape) == 1:
        return ct * x if len(x_shape) == 1 else _pull_vector(ct, x)
    if len(x_shape) == 1:
        return _column(x) * reshape(ct, shape=(*shape_of(ct)[:-1], 1, y_shape[-1]))
    if len(y_shape) == 2:
        rows = _merged_rows(x, x_shape[-1])
        return matmul(swap_last_axes(rows), _merged_rows(ct, y_shape[-1]))
    if y_shape[:-2] == shape_of(ct)[:-2]:
        return matmul(swap_last_axes(x), ct)
    return _across_stacks(ct, "nm", x, "nk", y_shape, "km")


def _pull_vector(ct: Value, x: Value) -> Value:
    """For the vector on the right of a stack of matrices."""
    if len(shape_of(x)) > 2:
        x = _merged_rows(x, shape_of(x)[-1])
        ct = reshape(ct, shape=shape_of(x)[:1])
    return matmul(ct, x)


def _across_stacks(
    ct: Value, ct_core: str, other: Value, other_core: str, target_shape: Shape, target_core: str
) -> Value:
    """The cotangent of an argument (of the target's shape) that was repeated along stack axes.

    One contraction sums over those axes as it goes; a stack of products, summed afterwards, would
    hold the argument as often as it was repeated.
    """
    stack = shape_of(ct)[: len(shape_of(ct)) - len(ct_core)]
    letters = [c for c in LETTERS if c not in "nkm"][: len(stack)]

    def unrepeated(shape: Shape, core: str) -> tuple[list[int], str]:
        """The axes that are not repeated, and their letters."""
        lead = len(shape) - len(core)
        offset = len(stack) - lead
        axes = [i for i in range(lead) if shape[i] == stack[i + offset]]
        return axes, "".join(letters[i + offset] for i in axes) + core

    axes, subscripts = unrepeated(shape_of(other), other_core)
    shape = shape_of(other)
    dense = tuple([shape[i] for i in axes]) + shape[len(shape) - len(other_core) :]
    if dense != shape:
        other = reshape(other, shape=dense)
    target = unrepeated(target_shape, target_core)[1]
    g = contract(ct, other, subscripts=f"{''.join(letters)}{ct_core},{subscripts}->{target}")
    return g if shape_of(g) == target_shape else reshape(g, shape=target_shape)


def _matmul_result(x: Spec, y: Spec) -> Spec:
    row, column = x.shape[-2:-1], y.shape[-1:] if len(y.shape) > 1 else ()
    inner = y.shape[-2] if len(y.shape) > 1 else y.shape[0] if y.shape else -1
    if not x.shape or x.shape[-1] != inner:
        raise ShapeError(
            f"matmul: the shapes {x.shape} and {y.shape} do not fit: the last axis of the first has"
            " to be as long as the second-to-last (or only) axis of the second."
        )
    stack = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return Spec(stack + row + column, np.result_type(x.dtype, y.dtype))


def _matmul_batch(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: Mapping[str, Any],
) -> Value:
    """A stack with one more axis; shared matrices and vectors stay shared."""
    x, y = args
    x_shape, y_shape = shape_of(x)[batched[0] :], shape_of(y)[batched[1] :]
    if batched == (True, False) and len(x_shape) > 1 and len(y_shape) == 2:
        # One large product takes half of the time of many small ones.
        rows = matmul(reshape(x, shape=(prod((size, *x_shape[:-1])), x_shape[-1])), y)
        return reshape(rows, shape=(size, *x_shape[:-1], y_shape[-1]))
    if batched == (True, False) and (
        len(x_shape) >= len(y_shape) or (len(x_shape), len(y_shape)) == (1, 2)
    ):
        return matmul(x, y)
    if batched == (False, True):
        if len(y_shape) > 1 and (len(x_shape) == 1 or len(y_shape) >= len(x_shape)):
            return matmul(x, y)
        if len(y_shape) == 1 and len(x_shape) <= 2:
            return matmul(y, x if len(x_shape) == 1 else transpose(x, axes=(1, 0)))
    rank = max(len(x_shape), len(y_shape), 2)
    left = x_shape if len(x_shape) > 1 else (1, *x_shape)
    right = y_shape if len(y_shape) > 1 else (*y_shape, 1)
    if batched[0]:
        x = _aligned(x, left, size, rank)
    elif len(x_shape) == 1:
        x = reshape(x, shape=left)
    if batched[1]:
        y = _aligned(y, right, size, rank)
    elif len(y_shape) == 1:
        y = reshape(y, shape=right)
    out = matmul(x, y)
    if len(x_shape) > 1 and len(y_shape) > 1:
        return out
    shape = shape_of(out)
    core = shape[-2:-1] * (len(x_shape) > 1) + shape[-1:] * (len(y_shape) > 1)
    return reshape(out, shape=shape[:-2] + core)


def _aligned(x: Value, example: Shape, size: int, rank: int) -> Value:
    """A batch whose examples get ``rank`` axes, by axes of size 1 in front."""
    shape = (size,) + (1,) * (rank - len(example)) + example
    return x if shape_of(x) == shape else reshape(x, shape=shape)


def _matmul_letters(x: Spec, y: Spec) -> tuple[str, str, str]:
    ranks = [max(len(spec.shape) - 2, 0) for spec in (x, y)]
    stack = LETTERS[:26][: max(ranks)]
    lead = [stack[len(stack) - rank :] for rank in ranks]
    row, column = "I" * (len(x.shape) > 1), "J" * (len(y.shape) > 1)
    return f"{lead[0]}{row}K", f"{lead[1]}K{column}", f"{stack}{row}{column}"


def _matmul_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(29)
    for first, second in (
        ((2, 3), (3, 4)),
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((4, 2, 3), (3,)),
        ((3,), (4, 3, 2)),
        ((4, 2, 3), (3, 5)),
        ((2, 3), (4, 3, 5)),
        ((4, 2, 3), (4, 3, 2)),
        ((4, 1, 2, 3), (5, 3, 2)),
        ((1, 2, 3), (4, 3, 2)),
        ((2, 0), (0, 3)),
        ((0, 2), (2, 3)),
        ((0, 2, 3), (3,)),
        ((1, 2, 3), (0, 3, 2)),
    ):
        x, y = rng.standard_normal(first), rng.standard_normal(second)
        yield Sample((x, y))
        yield Sample((x + 1j * x[..., ::-1], y * (1 - 2j)))
    yield Sample((rng.standard_normal((1, 2, 3)) * 1j, rng.standard_normal((4, 3, 2))))
    wide = rng.standard_normal((6, 8))
    yield Sample((wide[::-2, ::2], wide[:4, ::-1]))


matmul: Primitive = Primitive(
    "matmul",
    np.matmul,
    _matmul_result,
    Linear((_pull_left, _pull_right)),
    _matmul_batch,
    _matmul_samples,
    structure=Contraction(_matmul_letters),
    traits=WRITES_INTO,
)
