"""`fg.tree`: the public names, and `ravel` under every transformation."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import funcgrad as fg
from funcgrad import tree
from funcgrad._core import pytrees as trees
from funcgrad._primitives.elementwise import square
from funcgrad._primitives.reduction import reduce_sum
from funcgrad.errors import DtypeError, LeafError, ShapeError
from tests.together import together

NAMES = (
    "all flatten leaves leaves_with_path map map_with_path reduce structure transpose unflatten"
).split()


def params() -> dict[str, Any]:
    return {
        "w": fg.tensor([[1.0, 2.0], [3.0, 4.0]]),
        "b": (fg.tensor([5.0], "float32"), None),
        "scale": 6.0,
    }


def total(x: Any) -> Any:
    return reduce_sum(x, axis=tuple(range(x.ndim)), keepdims=False)


# ------------------------------------------------------------------------------------ public names


@together("name", NAMES)
def test_public_names_are_those_of_trees(name):
    assert getattr(tree, name) is getattr(trees, name)


def test_names_are_complete():
    choosing = "at check_shared combine partition select".split()
    counting = "cast count lerp norm ravel stack unstack vdot".split()
    assert set(tree.__all__) == {*NAMES, *choosing, *counting}


def test_flatten_and_map_over_tensors():
    found, form = tree.flatten(params())
    assert [leaf.shape if isinstance(leaf, fg.Tensor) else () for leaf in found] == [
        (1,),
        (),
        (2, 2),
    ]
    doubled = tree.map(lambda leaf: leaf * 2, tree.unflatten(form, found))
    assert doubled["w"].tolist() == [[2, 4], [6, 8]]
    assert tree.structure(doubled) == form
    assert tree.reduce(lambda count, leaf: count + np.size(leaf), doubled, 0) == 6
    assert tree.leaves_with_path(doubled)[0][0] == ("['b']", "[0]")


# ------------------------------------------------------------------------------------------- ravel


def test_ravel_lays_leaves_out_in_order():
    vector, unravel = tree.ravel(params())
    assert vector.tolist() == [5, 6, 1, 2, 3, 4]
    assert vector.dtype == np.float64
    again = unravel(vector)
    assert tree.structure(again) == tree.structure(params())
    assert again["w"].tolist() == [[1, 2], [3, 4]]


def test_unravel_restores_shapes_and_dtypes():
    source = (
        np.array([[1], [2]], np.float32),
        np.int8(3),
        True,
        2.5,
        np.array([1 + 2j]),
        np.zeros((0, 3), np.float16),
    )
    vector, unravel = tree.ravel(source)
    assert vector.dtype == np.complex128
    for leaf, original in zip(unravel(vector), source, strict=True):
        expected = np.asarray(original)
        assert isinstance(leaf, fg.Tensor)
        assert leaf.dtype == expected.dtype
        assert leaf.shape == expected.shape
        assert np.array_equal(np.asarray(leaf), expected)


@together(
    ("source", "dtype"),
    [
        ([np.ones(1, np.float32), np.ones(2, np.float32)], "float32"),
        ([np.ones(1, np.float32), 2.0], "float64"),
        ([1, 2], "int64"),
        ([True, False], "bool"),
        ([np.int64(1), np.float32(2)], "float64"),
        ([], "float64"),
        (None, "float64"),
    ],
)
def test_dtype_is_promoted(source, dtype):
    assert tree.ravel(source)[0].dtype == dtype


def test_empty_tree():
    vector, unravel = tree.ravel({"a": (), "b": None})
    assert vector.shape == (0,)
    assert unravel(vector) == {"a": (), "b": None}
    assert unravel([]) == {"a": (), "b": None}


def test_single_leaf_and_number():
    assert tree.ravel(2.0)[0].tolist() == [2.0]
    assert float(tree.ravel(2.0)[1]([3.0])) == 3.0
    x = fg.tensor([1.0, 2.0])
    assert tree.ravel(x)[1](x).tolist() == [1.0, 2.0]


def test_ravel_sees_arrays_as_they_are_now():
    source = np.ones(2)
    vector, _ = tree.ravel([source])
    source[:] = 7
    assert vector.tolist() == [1, 1]


@given(st.lists(st.integers(0, 4), max_size=9))
def test_round_trip_of_any_number_of_leaves(sizes):
    starts = np.cumsum([0, *sizes])
    source = [
        np.arange(start, start + size) + 0.5 for start, size in zip(starts, sizes, strict=False)
    ]
    vector, unravel = tree.ravel(source)
    assert vector.shape == (sum(sizes),)
    assert [leaf.tolist() for leaf in unravel(vector)] == [leaf.tolist() for leaf in source]


# ------------------------------------------------------------------------- ravel, transformed


def test_gradient_through_unravel():
    vector, unravel = tree.ravel(params())

    def loss(vector: Any) -> Any:
        parts = unravel(vector)
        return total(square(parts["w"])) * parts["scale"] + parts["b"][0][0] ** 3

    gradient = fg.grad(loss)(vector)
    assert gradient.tolist() == [75, 30, 12, 24, 36, 48]
    hessian = np.asarray(fg.hessian(loss)(vector))
    assert np.array_equal(hessian, hessian.T)
    assert hessian[2].tolist() == [0, 2, 12, 0, 0, 0]
    assert fg.jvp(loss, (vector,), (vector,))[1] == (gradient * vector).sum()


def test_gradient_through_ravel_has_the_dtypes_of_the_leaves():
    gradient = fg.grad(lambda p: total(square(tree.ravel(p)[0])))(params())
    assert gradient["w"].tolist() == [[2, 4], [6, 8]]
    assert gradient["b"][0].dtype == np.float32
    assert gradient["b"][0].tolist() == [10]
    assert gradient["scale"] == 12


def test_integer_leaves_have_no_derivative():
    vector, unravel = tree.ravel((1.5, 2))
    assert fg.grad(lambda v: unravel(v)[0] * unravel(v)[1])(vector).tolist() == [2, 0]


def test_batched():
    source = {"a": np.arange(6.0).reshape(3, 2), "b": np.arange(3.0)}
    _, unravel = tree.ravel({"a": np.zeros(2), "b": 0.0})
    rows = fg.vmap(lambda p: tree.ravel(p)[0])(source)
    assert rows.tolist() == [[0, 1, 0], [2, 3, 1], [4, 5, 2]]
    back = fg.vmap(unravel)(rows)
    assert np.array_equal(back["a"], source["a"])
    assert np.array_equal(back["b"], source["b"])
    squares = fg.vmap(fg.grad(lambda row: total(square(unravel(row)["a"]))))(rows)
    assert squares.tolist() == [[0, 2, 0], [4, 6, 0], [8, 10, 0]]


def test_masked_gradients_stay_absent_on_their_way_through_unravel():
    vector, unravel = tree.ravel((0.0, 1.0))

    def second_root(v: Any) -> Any:
        return unravel(v**0.5)[1]  # the slope at 0 is infinite, in the leaf that is left out

    gradient = fg.grad(second_root)(vector)
    assert gradient.tolist() == [0, 0.5]


# --------------------------------------------------------------------------------------- bad input


def test_unravel_checks_the_length():
    _, unravel = tree.ravel([1.0, 2.0])
    with pytest.raises(ShapeError, match=r"expected a vector of shape \(2,\).*shape \(3,\)"):
        unravel(np.zeros(3))
    with pytest.raises(ShapeError, match=r"shape \(2, 1\)"):
        unravel(np.zeros((2, 1)))


def test_unravel_checks_the_kind_of_dtype():
    _, unravel = tree.ravel([1.0, 2.0])
    with pytest.raises(DtypeError, match=r"expected a vector of dtype float64.*got complex128"):
        unravel(np.zeros(2, complex))
    assert unravel(np.zeros(2, np.float32))[0].dtype == np.float64
    assert unravel([1, 2])[0].dtype == np.float64


def test_ravel_names_a_leaf_that_is_no_array():
    with pytest.raises(LeafError, match=r"ravel: tree\['a'\]\[1\]: .*of type str"):
        tree.ravel({"a": (1.0, "text")})
