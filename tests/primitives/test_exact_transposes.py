"""Linear operations and their transposes, as matrices of integers, for all shapes up to 3 x 3 x 3.

A linear function is known by its values at the unit vectors. Forward mode has to give the same
matrix, reverse mode its transpose, and all elements are small integers, so nothing is rounded and
equality is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Linear
from tests.conformance import every_primitive
from tests.together import together

pytestmark = pytest.mark.slow

SHAPES = [shape for rank in range(4) for shape in product((1, 2, 3), repeat=rank)]
Function = Callable[[Any], Any]


def whole(*shape: int) -> np.ndarray:
    """Small integers that differ along each axis."""
    return (np.arange(np.prod(shape, dtype=int)) * 7 % 5 - 2.0).reshape(shape)


def moves(shape: tuple[int, ...]) -> Iterator[Any]:  # lambdas with defaults have no type
    rank, size = len(shape), int(np.prod(shape))
    axes = range(rank)
    yield from (lambda x, p=p: fnp.transpose(x, p) for p in permutations(axes))
    yield from (
        lambda x, s=s: fnp.reshape(x, s)
        for s in product((1, 2, 3, 9, size), repeat=2)
        if np.prod(s) == size
    )
    yield lambda x: fnp.broadcast_to(x, (2, *shape))
    yield lambda x: fnp.stack([x, 2 * x], axis=-1)
    for k in axes:
        yield lambda x, k=k: fnp.flip(x, k)
        yield lambda x, k=k: fnp.roll(x, (1, -2), (k, 0))
        yield lambda x, k=k: fnp.concatenate([x, x, -x], axis=k)
        yield lambda x, k=k: fnp.repeat(x, 2, axis=k)
        yield lambda x, k=k: fnp.moveaxis(x, k, 0)
        yield lambda x, k=k: fnp.pad(x, [(1, 2) if axis == k else (0, 0) for axis in axes])
        yield lambda x, k=k: fnp.take(x, np.array([0, -1, 0]), axis=k)


def sums(shape: tuple[int, ...]) -> Iterator[Any]:  # lambdas with defaults have no type
    rank = len(shape)
    yield fnp.sum
    yield lambda x: fnp.conj(x) - fnp.real(x) * 3
    for k in range(rank):
        yield lambda x, k=k: fnp.sum(x, axis=k, keepdims=True)
        yield lambda x, k=k: fnp.cumsum(x, axis=k)
        yield lambda x, k=k: fnp.diff(x, axis=k, prepend=0)
        yield lambda x, k=k: fnp.tensordot(x, whole(shape[k], 2), axes=(k, 0))
        yield lambda x, k=k: fnp.apply_along_axis(lambda r: fnp.convolve(r, whole(3)), k, x)


def parts(shape: tuple[int, ...]) -> Iterator[Any]:  # lambdas with defaults have no type
    rank = len(shape)
    yield lambda x: x[..., None] * whole(*shape, 2)
    if rank:
        n = shape[0]
        index = np.array([0, n - 1, 0])
        yield lambda x: x[::-1]
        yield lambda x: x[index]
        yield lambda x: x[1:]
        yield lambda x: fnp.zeros((3, *shape[1:])).at[index % 3].add(x[index])
        yield lambda x: fnp.zeros((n + 1, *shape[1:])).at[:n].set(x)
        yield lambda x: x.at[0].set(2.0 * x[-1])
        yield lambda x: fg.scan(lambda c, a: (c + a, c - a), fnp.zeros(shape[1:]), x)
    if rank > 1:
        yield lambda x: fnp.tril(x) + 2 * fnp.triu(x, 1)
        yield lambda x: fnp.trace(x)
        yield lambda x: fnp.diagonal(x, 1)
        yield lambda x: fnp.swapaxes(x, 0, -1)
        yield lambda x: x @ whole(shape[-1], 2)
        yield lambda x: whole(2, shape[-2]) @ x
        yield lambda x: fnp.kron(x, whole(1, 2))
        yield lambda x: fnp.einsum("...ij->...ji", x)
    if rank == 3:
        yield lambda x: fnp.einsum("ijk,kl->jl", x, whole(shape[2], 2))
        yield lambda x: fg.nn.conv(x[None], whole(2, shape[0], 1, 1), padding="same")
        yield lambda x: fg.nn.avg_pool(x[None], (1, 1))


def linear(shape: tuple[int, ...]) -> list[Function]:
    """All linear functions that are tried for arrays of a shape."""
    return [*moves(shape), *sums(shape), *parts(shape)]


def matrices(f: Function, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The matrix by values at unit vectors, by forward mode, and transposed by reverse mode."""

    def flat(x: Any) -> Any:
        return fnp.concatenate([fnp.ravel(leaf) for leaf in fg.tree.leaves(f(x.reshape(shape)))])

    count = int(np.prod(shape))
    zero = np.zeros(count)
    columns = np.stack([np.asarray(flat(fg.tensor(unit))) for unit in np.eye(count)], axis=1)
    return columns, np.asarray(fg.jacfwd(flat)(zero)), np.asarray(fg.jacrev(flat)(zero))


def assert_exact(f: Function, shape: tuple[int, ...]) -> int:
    columns, forward, reverse = matrices(f, shape)
    assert np.array_equal(columns, np.rint(columns))
    np.testing.assert_array_equal(forward, columns)
    np.testing.assert_array_equal(reverse, columns)
    return columns.size


@together("shape", SHAPES, pieces=4)
def test_transposes_are_exact(shape: tuple[int, ...]) -> None:
    assert sum(assert_exact(f, shape) for f in linear(shape)) > 0


def test_most_linear_operations_are_met() -> None:
    """The functions above use these; transforms and sparse products have elements that round."""
    declared = {p.name for p in every_primitive() if isinstance(p.differential, Linear)}
    used: set[str] = set()
    for shape in ((3,), (2, 3), (3, 2, 3)):
        for f in linear(shape):
            for program in (fg.program(f), fg.program(fg.jacrev(f))):
                used |= {equation.operation.name for equation in program(whole(*shape)).equations}
    assert len(declared & used) >= 18, sorted(declared - used)


def test_a_wrong_transpose_is_seen() -> None:
    @fg.custom_vjp
    def turned(x: Any) -> Any:
        return x[::-1]

    turned.defvjp(lambda x: (x[::-1], None), lambda _, ct: (ct,))
    reverse = fg.jacrev(turned)(np.zeros(3))
    assert not np.array_equal(reverse, np.eye(3)[::-1])
