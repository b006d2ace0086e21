"""Indexing and functional update: derivatives, batches and errors, key by key."""

from collections.abc import Callable
from operator import add, mul, sub, truediv
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    AxisError,
    BatchError,
    DtypeError,
    FuncgradError,
    ShapeError,
    TracerError,
)
from tests.together import together

SHAPES = st.lists(st.sampled_from([2, 3, 1, 0]), max_size=4).map(tuple)


@st.composite
def integer_arrays(draw: st.DrawFn, size: int, shape: tuple[int, ...]) -> Any:
    """Positions on an axis, with broadcastable shapes, in all forms that users write."""
    own = tuple(draw(st.sampled_from([n, 1])) for n in shape)
    count = int(np.prod(own))
    assume(size or not count)
    position = st.integers(-size, size - 1) if size else st.nothing()
    flat = draw(st.lists(position, min_size=count, max_size=count))
    array = np.array(flat, np.intp).reshape(own)
    forms: list[Callable[[Any], Any]] = [
        np.asarray,
        np.ndarray.tolist,
        lambda a: a.astype(np.int8),
        fg.tensor,
    ]
    return draw(st.sampled_from(forms))(array)


KINDS = ("slice", "int", "array", "mask", "None", "...", "bool", "stop")


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Any mixture that NumPy allows for a shape."""
    common = draw(st.sampled_from([(), (2,), (3, 2), (0,)]))
    entries: list[Any] = []
    axis, dots = 0, False
    while axis < len(shape) and len(entries) < 8:
        size = shape[axis]
        kind = draw(st.sampled_from(KINDS))
        if kind == "slice":
            bound = st.none() | st.integers(-size - 1, size + 1)
            step = st.sampled_from([None, 1, 2, -1, -2])
            entries.append(slice(draw(bound), draw(bound), draw(step)))
        elif kind == "int" and size:
            entries.append(draw(st.integers(-size, size - 1)))
        elif kind == "array":
            entries.append(draw(integer_arrays(size, common)))
        elif kind == "mask":
            depth = draw(st.integers(1, len(shape) - axis))
            own = shape[axis : axis + depth]
            bits = draw(
                st.lists(st.booleans(), min_size=int(np.prod(own)), max_size=int(np.prod(own)))
            )
            entries.append(np.array(bits, bool).reshape(own))
            axis += depth - 1
        elif kind == "None":
            entries.append(None)
            continue
        elif kind == "bool":
            entries.append(draw(st.booleans()))
            continue
        elif kind == "..." and not dots:
            dots = True
            axis += draw(st.integers(0, len(shape) - axis)) - 1
            entries.append(...)
        else:
            break
        axis += 1
    return entries[0] if len(entries) == 1 and draw(st.booleans()) else tuple(entries)


def bare(key: Any) -> Any:
    """A key without tensors, for NumPy."""
    if isinstance(key, tuple):
        return tuple(bare(entry) for entry in key)
    return np.asarray(key) if isinstance(key, fg.Tensor) else key


@given(st.data(), SHAPES)
def test_gradient_counts_how_often_an_element_is_chosen(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    x = np.arange(float(np.prod(shape))).reshape(shape)
    key = data.draw(keys(shape))
    numbers = np.arange(x.size).reshape(shape)
    try:
        chosen = numbers[bare(key)]
    except IndexError:
        assume(False)
        raise
    weight = np.random.default_rng(0).standard_normal(chosen.shape)
    expected = np.zeros(x.size)
    np.add.at(expected, np.ravel(chosen), np.ravel(weight))
    got = fg.grad(lambda x: (x[key] * weight).sum())(x)
    np.testing.assert_allclose(np.asarray(got), expected.reshape(shape))
    _, tangent = fg.jvp(lambda x: x[key], (x,), (x,))
    np.testing.assert_array_equal(np.asarray(tangent), x[bare(key)])


UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda old, new: new,
    "add": add,
    "subtract": sub,
    "multiply": mul,
    "divide": truediv,
    "power": pow,
    "min": min,
    "max": max,
}


def looped(name: str, x: Any, key: Any, u: Any) -> Any:
    """The meaning of an update: the elements are changed one after the other."""
    places = np.arange(x.size).reshape(x.shape)[bare(key)]
    out = x.copy().reshape(-1)
    values = np.broadcast_to(u, places.shape)
    for place, value in zip(np.ravel(places), np.ravel(values), strict=True):
        out[place] = UPDATES[name](out[place], value)
    return out.reshape(x.shape)


@pytest.mark.parametrize("name", UPDATES)
@settings(max_examples=20)
@given(data=st.data(), shape=st.lists(st.sampled_from([2, 3]), max_size=3).map(tuple))
def test_an_update_is_a_loop_over_the_elements(
    data: st.DataObject, name: str, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.uniform(0.5, 2, shape)
    key = data.draw(keys(shape))
    try:
        part = x[bare(key)].shape
    except IndexError:
        assume(False)
        raise
    u = rng.uniform(0.5, 2, tuple(data.draw(st.sampled_from([n, 1])) for n in part))

    def update(x: Any, u: Any) -> Any:
        return getattr(fnp.asarray(x).at[key], name)(u)

    np.testing.assert_allclose(np.asarray(update(x, u)), looped(name, x, key, u), rtol=1e-12)
    weight, dx, du = (rng.standard_normal(np.shape(a)) for a in (x, x, u))
    _, tangent = fg.jvp(update, (x, u), (dx, du))
    h = 1e-6
    above, below = (looped(name, x + s * dx, key, u + s * du) for s in (h, -h))
    np.testing.assert_allclose(np.asarray(tangent), (above - below) / (2 * h), atol=1e-7, rtol=1e-6)
    gx, gu = fg.grad(lambda x, u: (update(x, u) * weight).sum(), argnums=(0, 1))(x, u)
    pulled = (np.asarray(gx) * dx).sum() + (np.asarray(gu) * du).sum()
    np.testing.assert_allclose(pulled, (np.asarray(tangent) * weight).sum(), rtol=1e-9, atol=1e-12)


def test_a_replaced_element_has_no_gradient_even_where_it_is_undefined() -> None:
    x = fg.tensor([0.0, 4.0])
    gradient = fg.grad(lambda x: fnp.log(x).at[0].set(0.0).sum())(x)
    np.testing.assert_array_equal(np.asarray(gradient), [0.0, 0.25])
    gradient = fg.grad(lambda x: fnp.log(x)[1:].sum())(x)
    np.testing.assert_array_equal(np.asarray(gradient), [0.0, 0.25])
    gradient = fg.grad(lambda x: fnp.log(x)[np.array([1])].sum())(x)
    np.testing.assert_array_equal(np.asarray(gradient), [0.0, 0.25])


def test_of_several_replacements_only_the_last_has_a_gradient() -> None:
    x = fg.tensor([1.0, 2.0])
    gx, gu = fg.grad(lambda x, u: x.at[[0, 0, 0]].set(u).sum(), argnums=(0, 1))(x, fnp.ones(3))
    np.testing.assert_array_equal(np.asarray(gx), [0.0, 1.0])
    np.testing.assert_array_equal(np.asarray(gu), [0.0, 0.0, 1.0])


def test_a_product_over_duplicates_is_right_at_zeros_to_second_order() -> None:
    x = fg.tensor([2.0])

    def product(u: Any) -> Any:
        return x.at[[0, 0, 0]].multiply(u)[0]

    u = fg.tensor([0.0, 0.0, 5.0])
    np.testing.assert_array_equal(np.asarray(fg.grad(product)(u)), [0.0, 0.0, 0.0])
    expected = [[0.0, 10.0, 0.0], [10.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    np.testing.assert_array_equal(np.asarray(fg.hessian(product)(u)), expected)


@pytest.mark.parametrize(("name", "best"), [("max", 3.0), ("min", 3.0)])
def test_all_that_attain_an_extremum_share_its_gradient(name: str, best: float) -> None:
    worse = best - 1 if name == "max" else best + 1

    def extremum(x: Any, u: Any) -> Any:
        return getattr(x.at[[0, 0, 0, 1]], name)(u).sum()

    x, u = fg.tensor([best, best]), fg.tensor([best, worse, best, worse])
    gx, gu = fg.grad(extremum, argnums=(0, 1))(x, u)
    np.testing.assert_allclose(np.asarray(gx), [1 / 3, 1.0])
    np.testing.assert_allclose(np.asarray(gu), [1 / 3, 0.0, 1 / 3, 0.0])


@together("name", UPDATES)
@together("flags", [(0, 0, 0), (0, None, None), (None, 0, None), (None, None, 0)])
def test_updates_batch_over_arrays_values_and_indices(name: str, flags: tuple[Any, ...]) -> None:
    rng = np.random.default_rng(4)
    x, u = rng.uniform(0.5, 2, (5, 3, 2)), rng.uniform(0.5, 2, (5, 4, 2))
    i = rng.integers(-3, 3, (5, 4))
    full = [a if flag == 0 else a[0] for a, flag in zip((x, u, i), flags, strict=True)]

    def gradient(x: Any, u: Any, i: Any) -> Any:
        def loss(x: Any, u: Any) -> Any:
            return (getattr(fnp.asarray(x).at[i], name)(u) ** 2).sum()

        return fg.grad(loss, argnums=(0, 1))(x, u)

    got = fg.vmap(gradient, in_axes=flags)(*full)
    for example in range(5):
        args = [a[example] if flag == 0 else a for a, flag in zip(full, flags, strict=True)]
        for batched, single in zip(got, gradient(*args), strict=True):
            np.testing.assert_allclose(np.asarray(batched)[example], np.asarray(single), rtol=1e-12)


@together(
    "choose",
    [
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x[i, :, i],
        lambda x, i: x[0, :, i],
        lambda x, i: x[1:, None, i[0], ..., i],
        lambda x, i: fnp.take(x, i, axis=1),
    ],
)
def test_batched_indices_are_a_loop(choose: Callable[[Any, Any], Any]) -> None:
    x = np.random.default_rng(5).standard_normal((3, 3, 3))
    i = np.array([[0, 2], [1, 1], [-1, 0]])
    got = fg.vmap(choose, in_axes=(None, 0))(x, i)
    expected = np.stack([np.asarray(choose(fg.tensor(x), row)) for row in i])
    np.testing.assert_array_equal(np.asarray(got), expected)
    both = fg.vmap(choose)(np.stack([x, 2 * x, -x]), i)
    np.testing.assert_array_equal(
        np.asarray(both), expected * np.array([1, 2, -1]).reshape((3,) + (1,) * (expected.ndim - 1))
    )


@together(
    ("key", "error", "words"),
    [
        (3, AxisError, ["index 3", "axis 0", "size 3", "(3, 4)"]),
        ((0, -5), AxisError, ["index -5", "axis 1", "size 4"]),
        ((slice(None), [0, 4]), AxisError, ["index 4", "axis 1", "size 4"]),
        (([0, 1], 0, 0), AxisError, ["Too many", "3", "(3, 4)"]),
        ((..., ...), AxisError, ["one ellipsis"]),
        (([0, 1], [0, 1, 2]), ShapeError, ["(2,)", "(3,)"]),
        (np.ones(2, bool), ShapeError, ["mask", "(2,)", "(3, 4)"]),
        ([0.5], DtypeError, ["integers", "float64"]),
        (slice(0.5, None), DtypeError, ["slice", "float"]),
        (slice(None, None, 0), ShapeError, ["zero"]),
    ],
)
def test_a_wrong_key_is_explained(key: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        fg.tensor(np.zeros((3, 4)))[key]
    for word in words:
        assert word in str(caught.value)
    with pytest.raises(FuncgradError):
        fg.tensor(np.zeros((3, 4))).at[key].set(0.0)


def test_an_index_out_of_bounds_is_an_index_error_also_when_batched() -> None:
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        fg.vmap(lambda i: fg.tensor([1.0, 2.0])[i])(np.array([0, 7]))


def test_a_mask_or_a_slice_bound_of_a_batch_is_refused_with_advice() -> None:
    x = fg.tensor([1.0, 2.0])
    with pytest.raises(TracerError, match=r"fnp\.where"):
        fg.vmap(lambda row: row[row > 0])(np.ones((2, 3)))
    with pytest.raises(TracerError, match="concrete"):
        fg.vmap(lambda n: x[:n].sum(), branches=False)(np.array([1, 2]))
    with pytest.raises(BatchError, match="one shape"):
        fg.vmap(lambda n: x[:n])(np.array([1, 2]))
    sums = fg.vmap(lambda n: x[:n].sum())(np.array([1, 2]))
    np.testing.assert_array_equal(sums, [1.0, 3.0])
    with pytest.raises(TracerError, match="concrete"):
        fg.vmap(fnp.nonzero)(np.ones((2, 3)))


def test_masks_work_inside_grad_since_their_elements_are_known() -> None:
    gradient = fg.grad(lambda x: (x[x > 1] ** 2).sum())(fg.tensor([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(np.asarray(gradient), [0.0, 4.0, 6.0])


def test_updates_keep_the_dtype_and_refuse_to_lose_information() -> None:
    x = fnp.zeros(3, "float32")
    assert x.at[0].set(fg.tensor(1.0)).dtype == np.float32
    assert fnp.zeros(2, "complex128").at[0].add(1.0).dtype == np.complex128
    with pytest.raises(DtypeError, match=r"at\[...\].set.*float64.*int64"):
        fnp.arange(3).at[0].set(0.5)
    with pytest.raises(DtypeError, match="complex128"):
        x.at[0].add(1j)
    with pytest.raises(ShapeError, match=r"\(4,\).*\(3,\)"):
        x.at[:].set(np.zeros(4))


def test_the_index_array_is_taken_as_it_was() -> None:
    i = np.array([0, 1])
    _, pullback = fg.vjp(lambda x: x[i], fg.tensor([1.0, 2.0, 3.0]))
    i[:] = 2
    np.testing.assert_array_equal(np.asarray(pullback(np.ones(2))[0]), [1.0, 1.0, 0.0])


def test_indices_that_do_not_broadcast_are_caught_as_numpys_are() -> None:
    for x in (np.zeros((3, 4)), fg.tensor(np.zeros((3, 4)))):
        with pytest.raises(IndexError, match="shape mismatch"):
            x[[0, 1], [0, 1, 2]]
        with pytest.raises(IndexError, match="shape mismatch"):
            fg.tensor(x).at[[0, 1], [0, 1, 2]].set(1.0)


def test_positions_convert_in_both_directions() -> None:
    flat = np.array([0, 5, 3])
    parts = fnp.unravel_index(flat, (2, 3))
    for got, want in zip(parts, np.unravel_index(flat, (2, 3)), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)
    np.testing.assert_array_equal(np.asarray(fnp.ravel_multi_index(parts, (2, 3))), flat)
    with pytest.raises(AxisError, match="from 0 to 5"):
        fnp.unravel_index(6, (2, 3))


@together("key", [[0.5], 1.5, "a", {0}, np.ones(2, bool), ([0], {1})])
def test_what_is_no_index_is_caught_as_numpys_is(key: Any) -> None:
    with pytest.raises(IndexError) as caught:
        fg.tensor(np.zeros((3, 4)))[key]
    assert isinstance(caught.value, FuncgradError)


def test_powers_of_small_integers_do_not_lose_their_product() -> None:
    x = fg.tensor([3, 2], "int8").at[[0, 0]].power(np.array([16, 16], "int8"))
    expected = np.array([3, 2], "int8")
    np.power.at(expected, [0, 0], np.array([16, 16], "int8"))
    np.testing.assert_array_equal(np.asarray(x), expected)
    assert x.dtype == "int8"


@together("mode", ["raise", "wrap", "clip"])
@together("char", "bBhlL")
@together("size", [1, 5, 300])
def test_positions_of_small_integers_choose_from_long_axes(mode: Any, char: str, size: int) -> None:
    x, places = np.arange(size), np.array([0, 100, 127, 4], char)
    if mode == "raise":
        places = (places.astype(int) % size).astype(char)
    got = fnp.take(x, places, mode=mode)
    wide = places.astype(int)  # NumPy 2.0 takes no uint64
    np.testing.assert_array_equal(np.asarray(got), np.take(x, wide, mode=mode))
    empty = fnp.take(x[:0], places[:0], mode=mode)
    assert empty.shape == (0,)


@pytest.mark.parametrize("char", "bBhl")
def test_small_integers_name_places_on_long_axes_in_insert_and_delete(char: str) -> None:
    x, places = np.arange(300.0), np.array([100, 3], char)
    wide = places.astype(int)
    np.testing.assert_array_equal(np.asarray(fnp.insert(x, places, 1.0)), np.insert(x, wide, 1.0))
    np.testing.assert_array_equal(np.asarray(fnp.delete(x, places)), np.delete(x, wide))


@together("shape", [(1, 1), (1, 1, 1), (1, 1, 2), (1, 3)])
@together("obj", [0, [0], [0, 1], slice(0, 2)])
def test_inserted_values_may_have_more_axes_of_one_element(
    shape: tuple[int, ...], obj: Any
) -> None:
    x, values = np.arange(3.0), np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    try:
        expected = np.insert(x, obj, values, axis=0)
    except ValueError:
        with pytest.raises(ShapeError, match="insert"):
            fnp.insert(x, obj, values, axis=0)
        return
    np.testing.assert_array_equal(fnp.insert(x, obj, values, axis=0), expected)
    fg.testing.check_grads(
        lambda x, values: fnp.insert(x, obj, values, axis=0), (x, values), order=2
    )
