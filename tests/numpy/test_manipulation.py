"""Functions of shapes, axes and repetition: errors, and what values do not show."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import AxisError, DtypeError, FuncgradError, ShapeError
from tests.together import together

A, B, V = (2, 3), (2, 3, 4), (5,)

# name, shapes of the array arguments, the call with a namespace and the arrays.
Call = Callable[..., Any]


@together(
    ("call", "error", "words"),
    [
        (lambda x: fnp.reshape(x, (4, 2)), ShapeError, ["6 elements", "(2, 3)", "(4, 2)"]),
        (lambda x: fnp.reshape(x, (-1, -1)), ShapeError, ["reshape"]),
        (lambda x: fnp.reshape(x, "ab"), ShapeError, ["reshape", "'ab'"]),  # type: ignore[arg-type]
        (lambda x: fnp.reshape(x, 6, order="A"), FuncgradError, ["order"]),
        (lambda x: fnp.squeeze(x, axis=0), ShapeError, ["squeeze", "size 2"]),
        (lambda x: fnp.transpose(x, (0, 0)), ShapeError, ["twice"]),
        (lambda x: fnp.permute_dims(x, (0,)), ShapeError, ["1 axes"]),
        (lambda x: fnp.swapaxes(x, 0, 2), AxisError, ["axis 2"]),
        (lambda x: fnp.broadcast_to(x, (3,)), ShapeError, ["broadcast_to", "(2, 3)", "(3,)"]),
        (lambda x: fnp.broadcast_to(x, (2, 4)), ShapeError, ["(2, 3)", "(2, 4)"]),
        (lambda x: fnp.concatenate([x, x.T]), ShapeError, ["(2, 3)", "(3, 2)"]),
        (lambda x: fnp.concatenate([1.0, 2.0]), ShapeError, ["0-d", "stack"]),
        (lambda x: fnp.concatenate([]), ShapeError, ["nothing"]),
        (lambda x: fnp.concatenate(x.tolist()[0][0]), FuncgradError, ["sequence"]),
        (lambda x: fnp.stack([x, x[0]]), ShapeError, ["(2, 3)", "(3,)"]),
        (lambda x: fnp.split(x, 2, axis=1), ShapeError, ["size 3", "2 equal parts"]),
        (lambda x: fnp.array_split(x, 0), ShapeError, ["positive"]),
        (lambda x: fnp.repeat(x, [1, 2], axis=1), ShapeError, ["size 3"]),
        (lambda x: fnp.repeat(x, -1), ShapeError, ["negative"]),
        (lambda x: fnp.pad(x, (1, 2, 3)), ShapeError, ["pad_width"]),
        (lambda x: fnp.pad(x, -1), ShapeError, ["negative"]),
        (lambda x: fnp.pad(x, 1, mode="mean"), FuncgradError, ["'mean'"]),
        (lambda x: fnp.diag(x[None]), ShapeError, ["(1, 2, 3)"]),
        (lambda x: fnp.roll(x, (1, 2, 3), (0, 1)), ShapeError, ["3 shifts", "2 axes"]),
        (lambda x: fnp.zeros("ab"), ShapeError, ["zeros"]),  # type: ignore[arg-type]
        (lambda x: fnp.zeros(-1), ShapeError, ["zeros"]),
        (lambda x: fnp.zeros(2, "U3"), DtypeError, ["zeros"]),
        (lambda x: fnp.linspace(0.0, 1.0, -1), ShapeError, ["-1"]),
        (lambda x: fnp.delete(x, 9, axis=1), ShapeError, ["delete"]),
    ],
)
def test_bad_arguments_are_explained(call: Call, error: type[Exception], words: Any) -> None:
    with pytest.raises(error) as caught:
        call(fg.tensor(np.ones((2, 3))))
    for word in words:
        assert word in str(caught.value)


def test_a_shape_that_depends_on_a_batch_is_refused() -> None:
    with pytest.raises(FuncgradError, match="concrete"):
        fg.vmap(lambda n: fnp.arange(n))(np.array([1, 2]))
    with pytest.raises(FuncgradError, match="concrete"):
        fg.vmap(lambda n: fnp.repeat(np.ones(2), n))(np.array([1, 2]))


def test_linspace_ends_exactly_and_differentiates_in_both_ends() -> None:
    assert float(fnp.linspace(0.1, 0.7, 50)[-1]) == 0.7
    _, step = fnp.linspace(0.0, 1.0, 5, retstep=True)
    assert float(step) == 0.25
    da, db = fg.grad(lambda a, b: fnp.linspace(a, b, 5)[1], argnums=(0, 1))(0.0, 1.0)
    assert (float(da), float(db)) == (0.75, 0.25)


def test_a_triangle_hides_what_is_undefined_outside_it() -> None:
    x = fg.tensor([[1.0, 0.0], [4.0, 1.0]])
    gradient = fg.grad(lambda x: fnp.tril(fnp.log(x)).sum())(x)
    np.testing.assert_array_equal(np.asarray(gradient), [[1.0, 0.0], [0.25, 1.0]])


def test_constants_of_padding_have_gradients() -> None:
    gradient = fg.grad(lambda c: fnp.pad(np.ones((2, 2)), 1, constant_values=c).sum())(3.0)
    assert float(gradient) == 12.0


def test_casts_pass_derivatives_between_inexact_dtypes_only() -> None:
    x = fg.tensor([1.5, 2.5])
    assert fg.grad(lambda x: fnp.astype(x, "float32").sum())(x).dtype == np.float64
    assert np.asarray(fg.grad(lambda x: fnp.astype(x, "int64").sum() * x[0])(x)).tolist() == [3, 0]
    assert fnp.astype(fg.tensor([1 + 2j]), "float64").tolist() == [1.0]


def test_views_share_their_memory() -> None:
    x = fg.tensor(np.ones((4, 4)))
    for view in (x.T, x[1:, ::2], fnp.reshape(x, -1), fnp.flip(x), fnp.squeeze(x[None])):
        assert np.shares_memory(np.asarray(view), np.asarray(x))


def test_broadcast_arrays_and_unstack_return_tuples() -> None:
    x, y = fnp.broadcast_arrays(np.ones((2, 1)), np.ones(3))
    assert x.shape == y.shape == (2, 3)
    rows = fnp.unstack(np.arange(6).reshape(2, 3), axis=1)
    np.testing.assert_array_equal(np.stack([np.asarray(r) for r in rows]), [[0, 3], [1, 4], [2, 5]])


def test_a_large_broadcast_array_takes_no_memory() -> None:
    """128 GiB of numbers, which are one number."""
    side = 2**17
    whole = fnp.broadcast_to(fg.tensor(1.5), (side, side))
    assert whole.shape == (side, side)
    assert (float(whole[5, -1]), float(fnp.sum(whole[:2, :3]))) == (1.5, 9.0)
    first, _ = fnp.broadcast_arrays(np.ones(side), np.ones((side, 1)))
    assert first.shape == (side, side)
    assert first.dtype == np.float64
    row = np.array([1.0, 2.0])
    rows = fnp.broadcast_to(row, (side, 2))
    row[0] = 7.0  # of whose array the view is not one
    assert rows[0].tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(rows)[0] = 0.0
    copy = fg.tensor(np.tile([1.0, 2.0], (side, 1)))
    for f in (
        lambda x: fnp.sum(x * x),
        lambda x: fnp.sort(x, axis=0)[3],
        lambda x: x.at[1].set(0.0),
    ):
        for run in (f, fg.jit(f), fg.jit(f, backend="numpy")):
            np.testing.assert_array_equal(run(rows), run(copy))
    np.testing.assert_array_equal(fg.grad(lambda x: fnp.sum(x * x))(rows), 2.0 * copy)
