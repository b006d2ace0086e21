"""Gathers and scatters say where elements are and go: by numbers that any compiler can read.

The subjects are discovered. At samples ``fg.testing.check_primitive`` tries index maps; here they
meet indices from the end, of every integer dtype, repeated, broadcast, empty and out of bounds.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad import extend
from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.structure.index_maps import IndexArray, Places, chosen_places
from funcgrad._core.structure.structures import Gather, Scatter
from funcgrad._primitives import blocks, indexing, scatter
from funcgrad._primitives.index_keys import Key
from funcgrad.errors import CheckError
from funcgrad.testing.operations import PROPERTIES
from funcgrad.testing.operations.cases import Case
from funcgrad.testing.operations.properties import AtSamples, Property
from tests.conformance import every_primitive
from tests.together import together

pytestmark = pytest.mark.usefixtures("quiet")

SUBJECTS = [each for each in every_primitive() if isinstance(each.structure, Gather | Scatter)]
BY_INDICES = [each for each in SUBJECTS if each is not scatter.replace]
OF_BLOCKS = (blocks.take_block, blocks.spread_block, blocks.put_block)
INTEGERS = (np.int8, np.uint8, np.int32, np.int64, np.uint64)
SPECIAL = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 2.0, 2.0, -1.0, 0.5, 3.0, 4.0, 1.0])


def property_of(primitive: Primitive) -> Property:
    (tried,) = [
        tried
        for tried in PROPERTIES
        if tried.name in ("structure: gather", "structure: scatter") and tried.applies(primitive)
    ]
    return tried


def keys() -> Iterator[tuple[tuple[Any, ...], int]]:
    """Index arrays into the shape (3, 4), and the first of their axes."""
    for dtype in INTEGERS:
        yield (np.array([2, 0, 2], dtype),), 0
        yield (np.array([[3], [0]], dtype),), 1
    yield (np.array([[-1], [0]]), np.array([3, -4, 3])), 0
    yield (np.int64(-3), np.array([0, 1])), 0
    yield (np.zeros((0, 2), int),), 1
    yield (np.intp(1),), 0


def starts() -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Starts of blocks of the shape (3, 4), or of a stack of three rows, and where they count."""
    for dtype, mode in product(INTEGERS, ("clip", "raise")):
        yield (dtype(1),), {"axes": (0,), "sizes": (2,), "mode": mode}
        yield (dtype(0), dtype(2)), {"axes": (1, 0), "sizes": (3, 1), "mode": mode}
        yield (np.array([2, 0, 1], dtype),), {"axes": (1,), "sizes": (2,), "mode": mode}
    for start in (-100, -2, 100):
        yield (np.int64(start),), {"axes": (1,), "sizes": (2,), "mode": "clip"}
    yield (np.int8(-3),), {"axes": (1,), "sizes": (2,), "mode": "raise"}
    yield (np.array([-1, 9, 0]),), {"axes": (1,), "sizes": (4,), "mode": "clip"}
    yield (np.intp(3),), {"axes": (0,), "sizes": (0,), "mode": "raise"}


def samples_of_blocks(primitive: Primitive) -> Iterator[Sample]:
    """Special numbers in blocks that begin at these starts."""
    for (firsts, params), dtype in product(starts(), (np.float64, np.float32, bool, complex)):
        x = SPECIAL.astype(dtype).reshape(3, 4)
        if primitive is blocks.take_block:
            yield Sample((x, *firsts), params)
            continue
        placed = {name: params[name] for name in ("axes", "mode")}
        updates = blocks.take_block.evaluate(x[::-1], *firsts, **params)
        if primitive is blocks.spread_block:
            yield Sample((updates, *firsts), {**placed, "shape": x.shape})
        else:
            yield Sample((x, updates, *firsts), placed)


def samples(primitive: Primitive) -> Iterator[Sample]:
    """Special numbers at these index arrays."""
    if primitive in OF_BLOCKS:
        yield from samples_of_blocks(primitive)
        return
    for (indices, axis), dtype in product(keys(), (np.float64, np.float32, np.int8, bool, complex)):
        x = np.nan_to_num(SPECIAL).astype(dtype) if dtype is np.int8 else SPECIAL.astype(dtype)
        x = x.reshape(3, 4)
        chosen = chosen_places(x.shape, *map(np.shape, indices), operand=0, axis=axis).shape
        updates = np.resize(x[::-1], chosen)
        params: dict[str, Any] = {"axis": axis, "unique": False}
        if isinstance(primitive.structure, Gather):
            yield Sample((x, *indices), params)
        elif primitive.structure.updates == 0:  # type: ignore[union-attr]
            yield Sample((updates, *indices), {**params, "shape": x.shape})
        else:
            yield Sample((x, updates, *indices), params)


def tried(primitive: Primitive, at: Iterator[Sample]) -> int:
    """Compare the places with evaluation; return at how many samples."""
    count = 0
    for number, sample in enumerate(at):
        check = property_of(primitive).tries
        assert isinstance(check, AtSamples)
        check.check(Case(primitive, number, sample))
        count += 1
    return count


@together("primitive", BY_INDICES, ids=str)
def test_places_are_where_evaluation_reads_or_writes(primitive: Primitive) -> None:
    assert tried(primitive, samples(primitive)) > 50


def test_a_key_is_a_box_of_places() -> None:
    x = SPECIAL.reshape(3, 4)
    for entries in ((1,), (slice(None, None, -2),), (..., -1), (None, 2, slice(3, 0, -1)), (...,)):
        u = np.arange(x[entries].size).reshape(np.shape(x[entries])) + 7.0
        (sample,) = [Sample((x, u), {"key": Key(entries)})]
        assert tried(scatter.replace, iter([sample]))


def test_all_gathers_and_scatters_are_tried() -> None:
    assert {each.name for each in SUBJECTS} >= {
        *("take_block", "spread_block", "put_block"),
        "gather",
        "deposit",
        "replace",
        "scatter_add",
        "scatter_set",
        "scatter_max",
        "scatter_min",
    }


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_out_of_bounds_is_an_error_of_both(index: int) -> None:
    sample = Sample((SPECIAL.reshape(3, 4), np.array([0, index])), {"axis": 0, "unique": False})
    with pytest.raises(IndexError):
        indexing.gather.evaluate(*sample.args, **sample.params)
    places = chosen_places((3, 4), (2,), operand=1)
    with pytest.raises(IndexError, match=f"index {index} is out of bounds"):
        places.at((1, 0), lambda operand, place: [0, index][place])


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_other_modes_are_those_of_take(mode: Any) -> None:
    integers = np.arange(-9, 9)
    index = IndexArray(0, (1,), 4, 1, mode)
    expected = np.take(np.arange(4), integers, mode=mode)
    assert [index.place(int(k)) for k in integers] == expected.tolist()


def test_beyond_the_ends_may_be_nothing() -> None:
    index = IndexArray(0, (1,), 4, 1, "fill")
    assert [index.place(k) for k in (-5, -4, 3, 4)] == [None, 0, 3, None]


# ------------------------------------------------------------------------------ of strangers


def clipped(x: tuple[int, ...], i: tuple[int, ...]) -> Places:
    """The first places along axis 0, with indices that stop at the ends."""
    places = chosen_places(x, i, operand=1)
    return places._replace(indices=(places.indices[0]._replace(mode="clip"),))


def of_stranger(places: Any) -> Primitive:
    return extend.Primitive(
        "take_clipped",
        lambda x, i: np.take(x, i, 0, mode="clip"),
        lambda x, i: extend.Spec((*i.shape, *x.shape[1:]), x.dtype),
        extend.DISCRETE,
        lambda *_: None,
        lambda: [Sample((SPECIAL.reshape(3, 4), np.array([[-2, 1], [5, 2]])))],
        structure=extend.Gather(places),
    )


DERIVED = [known.name for known in PROPERTIES if not known.name.startswith("structure")]


def test_strangers_are_checked_too() -> None:
    known = [name for name in DERIVED if name != "samples"]
    fg.testing.check_primitive(of_stranger(clipped), without=known)
    with pytest.raises(CheckError, match="structure: gather"):
        fg.testing.check_primitive(
            of_stranger(lambda x, i: chosen_places(x, i, operand=1)), without=known
        )


def unclipped(primitive: Primitive, *shapes: tuple[int, ...], **params: Any) -> Places:
    """The places of blocks, with an error beyond the ends."""
    structure: Any = primitive.structure
    return structure.places(*shapes, **{**params, "mode": "raise"})


WRONG = [
    (indexing.gather, lambda x, *i, axis, unique: chosen_places(x, *i, operand=1)),
    (indexing.gather, lambda x, *i, axis, unique: clipped(x, i[0])),
    (scatter.scatter_set, lambda x, u, *i, axis, unique: chosen_places(x, *i, operand=1)),
    (indexing.deposit, lambda x, *i, shape, axis, unique: chosen_places(x, *i, operand=1)),
    (blocks.take_block, lambda *shapes, **params: unclipped(blocks.take_block, *shapes, **params)),
    (blocks.put_block, lambda *shapes, **params: unclipped(blocks.put_block, *shapes, **params)),
]


NUMBERED = [f"{k} {primitive.name}" for k, (primitive, _) in enumerate(WRONG)]


@pytest.mark.parametrize(("primitive", "places"), WRONG, ids=NUMBERED)
def test_wrong_places_are_seen(primitive: Primitive, places: Any) -> None:
    structure: Any = primitive.structure
    wrong = replace(primitive, structure=replace(structure, places=places))
    with pytest.raises((CheckError, IndexError, ValueError)):
        tried(wrong, samples(primitive))


def test_a_wrong_fold_or_order_is_seen() -> None:
    for primitive, fold in [
        (scatter.scatter_add, None),
        (scatter.scatter_set, extend.folds.SUM),
        (scatter.scatter_max, extend.folds.LEAST),
        (scatter.scatter_min, extend.folds.SUM),
    ]:
        structure: Any = primitive.structure
        wrong = replace(primitive, structure=replace(structure, fold=fold))
        with pytest.raises(CheckError):
            tried(wrong, samples(primitive))
