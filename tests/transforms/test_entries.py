"""Entries: records with a method for each direction.

Cotangents may be smaller than what they belong to: of fewer axes, or of size 1 along some.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._transforms.composite import CompositeEntry
from funcgrad._transforms.entries import Entry, keep
from funcgrad._transforms.masked import SPARING as LARGE
from tests.together import together

X = np.random.default_rng(5).uniform(0.5, 1.5, (3, 3, 3, 3))  # equal sizes: no axis is told by its
WEIGHTS = np.array([1.0, 10.0, 100.0])
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": fnp.sum,
    "mean": fnp.mean,
    "max": fnp.max,
    "min": fnp.min,
    "prod": fnp.prod,
    "logsumexp": fnp.logsumexp,
    "var": fnp.var,
}
AXES = [0, 1, 2, 3, (0, 1), (0, 2), (1, 3), (0, 3), (2, 3)]


# The cotangent of a product with WEIGHTS, of which all elements are added up, is WEIGHTS alone.


@together("axis", AXES, ids=str)
@together("name", REDUCTIONS)
def test_a_cotangent_of_fewer_axes_goes_through_a_reduction(name: str, axis: Any) -> None:
    reduce = REDUCTIONS[name]

    def small(x: Any) -> Any:
        return fnp.sum(reduce(x, axis=axis) * WEIGHTS)

    def whole(x: Any) -> Any:
        y = reduce(x, axis=axis)
        return fnp.sum(y * np.broadcast_to(WEIGHTS, y.shape))

    assert_allclose(fg.grad(small)(X), fg.grad(whole)(X), rtol=1e-13)
    assert_allclose(fg.jit(fg.grad(small))(X), fg.grad(whole)(X), rtol=1e-13)
    _, tangent = fg.jvp(small, (X,), (X**2,))
    assert_allclose(np.sum(np.asarray(fg.grad(small)(X)) * X**2), tangent, rtol=1e-12)


@together("axis", AXES, ids=str)
def test_it_does_so_under_other_transformations(axis: Any) -> None:
    def small(x: Any) -> Any:
        return fnp.sum(fnp.sum(x * x * x, axis=axis) * WEIGHTS)

    def whole(x: Any) -> Any:
        y = fnp.sum(x * x * x, axis=axis)
        return fnp.sum(y * np.broadcast_to(WEIGHTS, y.shape))

    around: dict[str, Callable[[Any], Any]] = {
        "grad": lambda f: fg.grad(lambda x: fnp.sum(fg.grad(f)(x) * X))(X),
        "vmap": lambda f: fg.vmap(fg.grad(f))(np.stack([X, 2 * X])),
        "jvp": lambda f: fg.jvp(fg.grad(f), (X,), (X,))[1],
    }
    for transform in around.values():
        assert_allclose(transform(small), transform(whole), rtol=1e-12)


@together("axis", AXES, ids=str)
def test_it_does_so_with_gaps(axis: Any) -> None:
    chosen = np.array([True, False, True])

    def small(x: Any) -> Any:
        return fnp.sum(fnp.where(chosen, fnp.sum(x, axis=axis), 0.0) * WEIGHTS)

    def whole(x: Any) -> Any:
        return fnp.sum(fnp.sum(x, axis=axis) * np.where(chosen, WEIGHTS, 0.0))

    assert_allclose(fg.grad(small)(X), fg.grad(whole)(X), rtol=1e-13)


def test_sizes_that_differ() -> None:
    x = np.ones((2, 3, 4))
    slope = fg.grad(lambda x: fnp.sum(fnp.sum(x, axis=1) * np.arange(4.0)))(x)
    assert_allclose(slope, np.broadcast_to(np.arange(4.0), x.shape))


@together(
    ("shape", "axis", "kept"),
    [
        ((4,), (1,), (1, 1, 4)),  # of an output (2, 4)
        ((2, 4), (1,), (2, 1, 4)),
        ((1, 4), (1,), (1, 1, 4)),
        ((3,), (2,), (1, 3, 1)),
        ((3,), (0,), (1, 1, 3)),
        ((4,), (0, 1), (1, 1, 4)),
    ],
)
def test_reduced_axes_come_back_in_their_places(shape: Any, axis: Any, kept: Any) -> None:
    wide = (2, 3, 4)
    ct = np.arange(float(np.prod(shape))).reshape(shape)
    found = keep(ct, wide, {"axis": axis, "keepdims": False})
    assert found.shape == kept
    assert_allclose(found.ravel(), ct.ravel())


def test_what_has_its_axes_is_left_as_it_is() -> None:
    ct = np.ones((2, 1, 4))
    assert keep(ct, (2, 3, 4), {"axis": (1,), "keepdims": True}) is ct
    assert keep(2.0, (2, 3, 4), {"axis": (1,), "keepdims": False}) == 2.0


# --------------------------------------------------------------------------------------- the kinds


def subclasses(of: type[Entry]) -> Iterator[type[Entry]]:
    for kind in of.__subclasses__():
        if getattr(sys.modules[kind.__module__], kind.__name__) is kind:  # else without its slots
            yield kind
            yield from subclasses(kind)


KINDS = {kind.__name__: kind for kind in subclasses(Entry)}


def test_there_are_kinds_of_entries_for_calls_too() -> None:
    assert CompositeEntry in KINDS.values()
    assert len(KINDS) > 10


@together("kind", KINDS.values(), ids=KINDS)
def test_an_entry_is_slotted(kind: type[Entry]) -> None:
    """A dictionary for each would double what a record takes."""
    assert not hasattr(object.__new__(kind), "__dict__")


LEAVES = {name: kind for name, kind in KINDS.items() if not kind.__subclasses__()}


@together("kind", LEAVES.values(), ids=LEAVES)
def test_an_entry_has_both_directions(kind: type[Entry]) -> None:
    assert kind.push is not Entry.push
    assert kind.pull is not Entry.pull or kind.pull_from is not Entry.pull_from


# --------------------------------------------------- sums of which shapes and dtypes alone are kept

NARROW, WIDE = np.ones(2 * LARGE, np.float32), np.linspace(-1.0, 1.0, 2 * LARGE)
CHOSEN = np.arange(2 * LARGE) % 3 == 0
SUMS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x + WIDE,
    "difference": lambda x: WIDE - x,
    "with a number": lambda x: x - 2.0,
    "of one row": lambda x: x[:1] + WIDE,
    "complex": lambda x: x + 1j * WIDE,
}


@together("name", SUMS)
@together("x", [NARROW, WIDE], ids=["narrow", "wide"])
def test_large_sums_of_two_precisions(name: str, x: Any) -> None:
    """With gaps in the cotangent, and with tangents, as where everything is kept."""
    f = SUMS[name]

    def loss(x: Any) -> Any:
        return fnp.sum(fnp.real(fnp.where(CHOSEN, f(x), 0.0)) * WIDE)

    def by_batches(x: Any) -> Any:  # where arrays are followed, and nothing is left out
        return fg.vmap(fg.grad(loss))(x[None])[0]

    found = fg.grad(loss)(x)
    assert found.dtype == x.dtype
    assert_allclose(found, by_batches(x), rtol=1e-6)
    _, push = fg.linearize(loss, x)
    tangent = np.linspace(0.5, 2.0, x.size).astype(x.dtype)
    assert_allclose(push(tangent), np.sum(np.asarray(found) * tangent, dtype=float), rtol=1e-4)
