"""vmap: what a user may rely on."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together
from tests.transforms.support import Layer, Point, assert_same, numbers

# --------------------------------------------------------------------------------- in_axes


def test_maps_all_arguments_over_axis_0_by_default() -> None:
    x, y = numbers(4, 3), numbers(4, seed=1)
    assert_same(fg.vmap(lambda x, y: x * y)(x, y), x * y[:, None])


@together("axis", [0, 1, 2, -1, -2, -3, np.int64(1)])
def test_every_axis_in_and_out(axis: Any) -> None:
    x = numbers(2, 3, 4)
    assert_same(fg.vmap(lambda v: v * 2, in_axes=axis, out_axes=axis)(x), x * 2)
    assert_same(fg.vmap(lambda v: v, in_axes=axis)(x), np.moveaxis(x, axis, 0))
    assert_same(fg.vmap(lambda v: v, out_axes=axis)(x), np.moveaxis(x, 0, axis))


def test_the_function_sees_one_example() -> None:
    def f(x, shared):
        assert (x.shape, x.ndim, x.size, len(x)) == ((4,), 1, 4, 4)
        assert isinstance(x, fg.Tensor)
        assert x.dtype == np.float32
        assert (x.itemsize, x.nbytes) == (4, 16)
        assert shared.shape == (3, 4)
        return shared @ x

    x = numbers(3, 4).astype("f")
    assert_same(fg.vmap(f, in_axes=(0, None))(x, x), x @ x.T, rtol=1e-5)


def test_none_is_shared() -> None:
    x, y = numbers(3), numbers(2, seed=1)
    outer = fg.vmap(fg.vmap(lambda a, b: a - b, in_axes=(None, 0)), in_axes=(0, None))
    assert_same(outer(x, y), x[:, None] - y)


@pytest.mark.parametrize(
    "in_axes", [({"w": 0, "b": None}, 1), [{"w": 0, "b": None}, 1], ({"w": 0, "b": None}, {"x": 1})]
)
def test_in_axes_are_prefixes(in_axes: Any) -> None:
    w, b, x = numbers(4, 3), numbers(), numbers(3, 4, seed=2)
    out = fg.vmap(lambda p, d: p["w"] @ d["x"] + p["b"], in_axes=in_axes)(
        {"w": w, "b": b}, {"x": x}
    )
    assert_same(out, np.einsum("ij,ji->i", w, x) + b)


def test_prefixes_of_dataclasses_and_namedtuples() -> None:
    layer = Layer(numbers(4, 3), numbers(3))
    point = Point(numbers(4, 3), (numbers(4), None))

    def f(layer, point):
        assert layer.weight.shape == layer.bias.shape == point.x.shape == (3,)
        assert point.y[1] is None
        return fnp.sum(layer.weight * layer.bias * point.x) + point.y[0]

    expected = np.sum(layer.weight * layer.bias * point.x, 1) + point.y[0]
    assert_same(fg.vmap(f, in_axes=(Layer(0, None), 0))(layer, point), expected)


def test_keyword_arguments_are_mapped_over_axis_0() -> None:
    x, y = numbers(3), numbers(3, 2, seed=1)
    assert_same(fg.vmap(lambda x, *, y: x * y, in_axes=0)(x, y=y), x[:, None] * y)
    assert_same(fg.vmap(lambda x, *, y: x * y[0], in_axes=(None,))(2.0, y=(x,)), 2 * x)


def test_python_numbers_and_lists_of_axes() -> None:
    assert_same(fg.vmap(lambda x, n: x * n, in_axes=[0, None])(numbers(3), 2), numbers(3) * 2)
    x = np.array([1, 2], np.float32)
    assert fg.vmap(lambda x, n: x * n, in_axes=(0, None))(x, 2.5).dtype == np.float32


def test_shared_integers_can_count_and_index() -> None:
    def f(x, n):
        return sum(x[k] for k in range(n))

    assert_same(fg.vmap(f, in_axes=(0, None))(numbers(3, 4), 2), numbers(3, 4)[:, :2].sum(1))


# --------------------------------------------------------------------------------- out_axes


def test_out_axes_are_prefixes() -> None:
    x = numbers(4, 2, 3)

    def f(v):
        return {"a": v, "b": (v.sum(), 5.0), "c": Point(v, v)}

    out = fg.vmap(f, out_axes={"a": -1, "b": (0, None), "c": 1})(x)
    moved = np.moveaxis(x, 0, 1)
    expected = {"a": np.moveaxis(x, 0, -1), "b": (x.sum((1, 2)), 5.0), "c": Point(moved, moved)}
    assert_same(out, expected)


def test_results_that_do_not_depend_on_the_batch_are_repeated() -> None:
    out = fg.vmap(lambda x: (x, 2.0, fnp.ones(2)))(numbers(3))
    assert_same(out, (numbers(3), np.full(3, 2.0), np.ones((3, 2))))
    out = fg.vmap(lambda x: fnp.ones(2), out_axes=-1)(numbers(3))
    assert_same(out, np.ones((2, 3)))


@pytest.mark.parametrize("empty", [(), None, {}, []])
def test_functions_without_results(empty: Any) -> None:
    assert fg.vmap(lambda x: empty)(numbers(3)) == empty


# --------------------------------------------------------------------------------- sizes


def test_axis_size_maps_a_function_of_nothing() -> None:
    assert_same(fg.vmap(lambda: 1.5, axis_size=3)(), np.full(3, 1.5))
    assert_same(
        fg.vmap(lambda x: x, in_axes=None, axis_size=2)(numbers(3)), numbers(3)[None] * [[1], [1]]
    )
    assert_same(fg.vmap(lambda x: x, axis_size=3)(numbers(3)), numbers(3))


def test_batches_of_no_examples_and_of_one() -> None:
    assert_same(fg.vmap(lambda x: x @ x)(numbers(0, 3)), np.zeros(0))
    assert_same(fg.vmap(fg.grad(lambda x: fnp.sum(x * x)))(numbers(0, 3)), np.zeros((0, 3)))
    assert_same(fg.vmap(lambda x: x @ x)(numbers(1, 3)), np.sum(numbers(1, 3) ** 2, 1))


@together("dtype", ["?", "b", "B", "l", "e", "f", "d", "F", "D"])
def test_every_dtype(dtype: str) -> None:
    x = np.arange(6).reshape(3, 2).astype(dtype)
    assert_same(fg.vmap(lambda v: (v, v == v[0]))(x), (x, x == x[:, :1]))


# --------------------------------------------------------------------------------- operations


def test_operators_of_examples_of_different_ranks_line_up() -> None:
    x, y, shared = numbers(4, 3), numbers(4, seed=1), numbers(2, 3, seed=2)

    def f(x, y):
        return x * y + shared, shared - x, y**2, x[..., None] @ x[None], x @ x

    expected = [f(x[k], y[k]) for k in range(4)]
    assert_same(fg.vmap(f)(x, y), tuple(np.stack(parts) for parts in zip(*expected, strict=True)))


def test_indexing_with_a_batch() -> None:
    table, index = numbers(5, 3), np.array([4, 0, 0, 2])
    assert_same(fg.vmap(lambda i: fg.tensor(table)[i])(index), table[index])
    assert_same(fg.vmap(lambda row, i: row[i])(table[:4], index % 3), table[range(4), index % 3])


def test_iteration_and_stacking() -> None:
    x = numbers(4, 3)
    assert_same(fg.vmap(lambda v: fg.tensor([a * a for a in v]))(x), x * x)


def test_a_choice_for_each_example() -> None:
    x = numbers(5)
    assert_same(fg.vmap(lambda v: fnp.where(v > 0, v, -v))(x), abs(x))


def test_plain_numpy_functions() -> None:
    x = numbers(4, 3)
    assert_same(fg.vmap(lambda v: np.sum(np.exp(v)) / np.max(v))(x), np.exp(x).sum(1) / x.max(1))


def test_an_example_can_be_printed() -> None:
    texts = []

    def f(x):
        texts.extend([repr(x), str(x), f"{x}"])
        return x

    fg.vmap(f)(np.array([1.0, 2.0]))
    assert texts == ["Traced(float64[], in vmap over 2)"] * 3


# --------------------------------------------------------------------------------- composition


def test_nested_maps_with_mixed_axes() -> None:
    x, y = numbers(2, 3, 4), numbers(4, 2, seed=1)

    def f(a, b):
        return fg.vmap(lambda v, w: v * w, in_axes=(0, None), out_axes=1)(a, b)

    out = fg.vmap(f, in_axes=(1, None), out_axes=2)(x, y[:, 0])
    assert_same(out, np.einsum("kij,j->jki", x, y[:, 0]))


def test_vmap_equals_a_loop_of_gradients_of_closures() -> None:
    weights, x = numbers(3), numbers(5, 3, seed=1)

    def outer(w):
        return fnp.sum(fg.vmap(lambda row: fnp.sin(row @ w))(x))

    assert_same(fg.grad(outer)(weights), np.cos(x @ weights) @ x)


def test_vmap_of_hessian_and_of_jacobians() -> None:
    x = numbers(4, 3)

    def f(v):
        return fnp.sum(v**3) + v[0] * v[1]

    hessians = fg.vmap(fg.hessian(f))(x)
    cross = np.zeros((3, 3))
    cross[0, 1] = cross[1, 0] = 1
    assert_same(hessians, np.stack([np.diag(6 * row) + cross for row in x]))
    for jacobian in (fg.jacfwd, fg.jacrev):
        assert_same(
            fg.vmap(jacobian(lambda v: v[::-1] ** 2))(x),
            np.stack([np.diag(2 * row[::-1])[:, ::-1] for row in x]),
        )


def test_vmap_of_vmap_of_grad_of_vmap() -> None:
    x = numbers(2, 3, 4)

    def f(row):
        return fnp.sum(fg.vmap(lambda v: v**3)(row))

    assert_same(fg.vmap(fg.vmap(fg.grad(f)))(x), 3 * x**2)


def test_jvp_and_grad_through_vmap_are_vmap_of_jvp_and_grad() -> None:
    x, t = numbers(4, 3), numbers(4, 3, seed=1)

    def f(v):
        return fnp.sum(fnp.exp(v)) * v

    through = fg.jvp(fg.vmap(f), (x,), (t,))
    of = fg.vmap(lambda v, w: fg.jvp(f, (v,), (w,)))(x, t)
    assert_same(through, tuple(np.asarray(leaf) for leaf in of))


def test_a_tangent_may_be_batched_where_the_primal_is_not() -> None:
    x = numbers(3)
    out, tangent = fg.vmap(lambda t: fg.jvp(lambda v: v**2, (x,), (t,)))(np.eye(3))
    assert_same(out, np.stack([x**2] * 3))
    assert_same(tangent, np.diag(2 * x))


def test_the_name_and_docstring_are_the_function_s() -> None:
    def scale(x):
        """Twice."""
        return 2 * x

    assert fg.vmap(scale).__name__ == "scale"
    assert fg.vmap(scale).__doc__ == "Twice."
