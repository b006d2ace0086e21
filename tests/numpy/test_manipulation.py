"""Functions of shapes, axes and repetition agree with NumPy, and are linear in both modes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import AxisError, DtypeError, FuncgradError, ShapeError
from tests.every_mode import assert_every_mode

RNG_SEED = 8


def draw(*shape: int) -> Any:
    return np.random.default_rng(RNG_SEED).standard_normal(shape)


A, B, V = (2, 3), (2, 3, 4), (5,)

# name, shapes of the array arguments, the call with a namespace and the arrays.
Call = Callable[..., Any]
CASES: tuple[tuple[str, tuple[tuple[int, ...], ...], Call], ...] = (
    ("reshape", (B,), lambda np, x: np.reshape(x, (4, -1))),
    ("reshape to 0-d", ((1, 1),), lambda np, x: np.reshape(x, ())),
    ("reshape empty", ((0, 3),), lambda np, x: np.reshape(x, (3, -1, 2))),
    ("ravel", (B,), lambda np, x: np.ravel(x)),
    ("squeeze", ((1, 2, 1),), lambda np, x: np.squeeze(x)),
    ("squeeze one", ((1, 2, 1),), lambda np, x: np.squeeze(x, axis=-1)),
    ("squeeze both", ((1, 2, 1),), lambda np, x: np.squeeze(x, axis=(0, -1))),
    ("expand_dims", (A,), lambda np, x: np.expand_dims(x, axis=1)),
    ("expand_dims several", (A,), lambda np, x: np.expand_dims(x, axis=(0, -1))),
    ("atleast_1d", ((),), lambda np, x: np.atleast_1d(x)),
    ("atleast_2d", (V,), lambda np, x: np.atleast_2d(x)),
    ("atleast_3d 0", ((),), lambda np, x: np.atleast_3d(x)),
    ("atleast_3d 1", (V,), lambda np, x: np.atleast_3d(x)),
    ("atleast_3d 2", (A,), lambda np, x: np.atleast_3d(x)),
    ("broadcast_to", ((3, 1),), lambda np, x: np.broadcast_to(x, (2, 3, 4))),
    ("transpose", (B,), lambda np, x: np.transpose(x)),
    ("transpose axes", (B,), lambda np, x: np.transpose(x, (1, -1, 0))),
    ("permute_dims", (B,), lambda np, x: np.permute_dims(x, (2, 0, 1))),
    ("matrix_transpose", (B,), lambda np, x: np.matrix_transpose(x)),
    ("swapaxes", (B,), lambda np, x: np.swapaxes(x, 0, -1)),
    ("moveaxis", (B,), lambda np, x: np.moveaxis(x, 0, -1)),
    ("moveaxis several", (B,), lambda np, x: np.moveaxis(x, (0, 1), (-1, 0))),
    ("rollaxis", (B,), lambda np, x: np.rollaxis(x, 2)),
    ("rollaxis to the end", (B,), lambda np, x: np.rollaxis(x, 0, 3)),
    ("flip", (B,), lambda np, x: np.flip(x)),
    ("flip one", (B,), lambda np, x: np.flip(x, 1)),
    ("fliplr", (A,), lambda np, x: np.fliplr(x)),
    ("flipud", (A,), lambda np, x: np.flipud(x)),
    *((f"rot90 {k}", (B,), lambda np, x, k=k: np.rot90(x, k, (1, 2))) for k in (-1, 0, 1, 2, 3)),
    ("roll", (A,), lambda np, x: np.roll(x, 2)),
    ("roll flat by several", (A,), lambda np, x: np.roll(x, (1, 1))),
    ("roll axis", (A,), lambda np, x: np.roll(x, -4, 1)),
    ("roll axes", (A,), lambda np, x: np.roll(x, (1, 2), (0, 1))),
    ("roll all by one", (A,), lambda np, x: np.roll(x, 1, (0, 1))),
    ("roll one by several", (A,), lambda np, x: np.roll(x, (1, 1), 1)),
    ("concatenate", (A, (2, 1)), lambda np, x, y: np.concatenate([x, y], axis=1)),
    ("concatenate flat", (A, V), lambda np, x, y: np.concatenate([x, y], axis=None)),
    ("concat", (V, V), lambda np, x, y: np.concat((x, y))),
    ("stack", (A, A), lambda np, x, y: np.stack([x, y, x], axis=-1)),
    ("stack scalars", ((), ()), lambda np, x, y: np.stack([x, y])),
    ("vstack", (V, (2, 5)), lambda np, x, y: np.vstack([x, y])),
    ("hstack", (A, (2, 1)), lambda np, x, y: np.hstack([x, y])),
    ("hstack 1-d", (V, ()), lambda np, x, y: np.hstack([x, y])),
    ("dstack", (A, A), lambda np, x, y: np.dstack([x, y])),
    ("column_stack", (V, (5, 2)), lambda np, x, y: np.column_stack([x, y])),
    ("block", (A, (2, 2)), lambda np, x, y: np.block([[x, y], [np.ones((1, 5))]])),
    ("block 3-d", (B, (4,)), lambda np, x, y: np.block([x, np.zeros((2, 3, 1))])),
    ("append", (A, V), lambda np, x, y: np.append(x, y)),
    ("append axis", (A, (1, 3)), lambda np, x, y: np.append(x, y, axis=0)),
    ("split", (B,), lambda np, x: np.split(x, 2, axis=2)[1]),
    ("split at", (V,), lambda np, x: np.split(x, [1, 3, 9])[1]),
    ("split behind", (V,), lambda np, x: np.split(x, [1, 3, 9])[3]),
    ("array_split", (V,), lambda np, x: np.array_split(x, 3)[0]),
    ("hsplit", (A,), lambda np, x: np.hsplit(x, 3)[2]),
    ("vsplit", (A,), lambda np, x: np.vsplit(x, 2)[1]),
    ("dsplit", (B,), lambda np, x: np.dsplit(x, [1])[1]),
    ("tile", (A,), lambda np, x: np.tile(x, 2)),
    ("tile more", (A,), lambda np, x: np.tile(x, (2, 1, 2))),
    ("tile 0-d", ((),), lambda np, x: np.tile(x, (2, 2))),
    ("repeat", (A,), lambda np, x: np.repeat(x, 2)),
    ("repeat axis", (A,), lambda np, x: np.repeat(x, 3, axis=1)),
    ("repeat each", (A,), lambda np, x: np.repeat(x, [2, 0, 1], axis=1)),
    ("resize", (A,), lambda np, x: np.resize(x, (2, 4))),
    ("resize smaller", (A,), lambda np, x: np.resize(x, 4)),
    ("pad", (A,), lambda np, x: np.pad(x, 1)),
    ("pad pair", (A,), lambda np, x: np.pad(x, (1, 2))),
    ("pad pairs", (A,), lambda np, x: np.pad(x, ((1, 0), (0, 2)))),
    ("pad number", (A,), lambda np, x: np.pad(x, 1, constant_values=3.0)),
    ("pad numbers", (A,), lambda np, x: np.pad(x, 2, constant_values=((1.0, 2.0), (3.0, 4.0)))),
    *(
        (f"pad {mode}", (A,), lambda np, x, mode=mode: np.pad(x, ((1, 0), (2, 2)), mode=mode))
        for mode in ("edge", "reflect", "symmetric", "wrap")
    ),
    ("pad far", (A,), lambda np, x: np.pad(x, 7, mode="reflect")),
    ("delete", (A,), lambda np, x: np.delete(x, 1)),
    ("delete several", (A,), lambda np, x: np.delete(x, [0, -1], axis=1)),
    ("delete slice", (A,), lambda np, x: np.delete(x, slice(None, None, 2), axis=1)),
    ("insert", (V, ()), lambda np, x, y: np.insert(x, 2, y)),
    ("insert row", (A, (3,)), lambda np, x, y: np.insert(x, 1, y, axis=0)),
    ("insert column", (A, (2,)), lambda np, x, y: np.insert(x, -1, y, axis=1)),
    ("insert columns", (A, (2, 2)), lambda np, x, y: np.insert(x, [0, 2], y, axis=1)),
    ("insert many at one", (V, (3,)), lambda np, x, y: np.insert(x, 1, y)),
    ("insert equal places", (V, (3,)), lambda np, x, y: np.insert(x, [1, 1, 4], y)),
    ("insert slice", (V, ()), lambda np, x, y: np.insert(x, slice(0, 5, 2), y)),
    ("diagonal", (B,), lambda np, x: np.diagonal(x, 1, 1, 2)),
    ("diagonal below", (B,), lambda np, x: np.diagonal(x, -1, -1, 0)),
    ("diagonal outside", (A,), lambda np, x: np.diagonal(x, 7)),
    ("diag of matrix", (A,), lambda np, x: np.diag(x, -1)),
    ("diag of vector", (V,), lambda np, x: np.diag(x, 2)),
    ("diagflat", (A,), lambda np, x: np.diagflat(x, -1)),
    ("trace", (B,), lambda np, x: np.trace(x, 1, 1, 2)),
    ("tril", (B,), lambda np, x: np.tril(x, 1)),
    ("triu", (B,), lambda np, x: np.triu(x, -1)),
    ("triu of vector", (V,), lambda np, x: np.triu(x)),
    ("meshgrid", (V, (2,)), lambda np, x, y: np.meshgrid(x, y)[0]),
    ("meshgrid ij", (V, (2,)), lambda np, x, y: np.meshgrid(x, y, indexing="ij")[1]),
    ("meshgrid sparse", (V, (2,)), lambda np, x, y: np.meshgrid(x, y, sparse=True)[1]),
    ("linspace", ((), (2,)), lambda np, x, y: np.linspace(x, y, 4)),
    ("linspace open", ((), ()), lambda np, x, y: np.linspace(x, y, 3, endpoint=False)),
    ("linspace axis", (A, A), lambda np, x, y: np.linspace(x, y, 3, axis=-1)),
    ("linspace one", ((), ()), lambda np, x, y: np.linspace(x, y, 1)),
    ("linspace none", ((), ()), lambda np, x, y: np.linspace(x, y, 0)),
    ("full", ((3,),), lambda np, x: np.full((2, 3), x)),
    ("astype", (A,), lambda np, x: np.astype(np.asarray(x), "complex128").real),
)

IDS = [name for name, _, _ in CASES]


@pytest.mark.parametrize(("name", "shapes", "call"), CASES, ids=IDS)
def test_result_is_numpys(name: str, shapes: Any, call: Call) -> None:
    for kind in (np.float64, np.float32, np.int64):
        xs = [(10 * draw(*shape)).astype(kind) for shape in shapes]
        expected = call(np, *xs)
        got = call(fnp, *xs)
        assert got.shape == expected.shape
        # NumPy multiplies in another order where a step is zero.
        rtol = 1e-6 * (kind is np.float32) + 1e-15 if "linspace" in name else 0
        np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol)
        assert got.dtype == expected.dtype


@pytest.mark.parametrize(("name", "shapes", "call"), CASES, ids=IDS)
def test_every_mode(name: str, shapes: Any, call: Call) -> None:
    assert_every_mode(lambda *xs: call(fnp, *xs), *[draw(*shape) for shape in shapes], order=1)


@pytest.mark.parametrize(
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


@given(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from([-2, -1, 1, 3]))
def test_arange_is_numpys(start: int, stop: int, step: int) -> None:
    for kind in (int, float):
        bounds = kind(start), kind(stop), kind(step)
        np.testing.assert_array_equal(np.asarray(fnp.arange(*bounds)), np.arange(*bounds))
    assert fnp.arange(3).dtype == np.int64
    assert fnp.arange(3.0).dtype == np.float64


def test_creation_is_numpys() -> None:
    calls: tuple[Call, ...] = (
        lambda np: np.zeros((2, 3)),
        lambda np: np.ones(2, "int8"),
        lambda np: np.full((), 3),
        lambda np: np.eye(2, 3, 1),
        lambda np: np.identity(2),
        lambda np: np.tri(3, 2, -1),
        lambda np: np.zeros_like(np.asarray([1, 2])),
        lambda np: np.ones_like(np.asarray([1, 2]), dtype="float32"),
        lambda np: np.full_like(np.asarray([1.0, 2.0]), 3),
        lambda np: np.indices((2, 3)),
        lambda np: np.fromfunction(lambda i, j: i - j, (2, 2)),
        lambda np: np.logspace(0.0, 2.0, 5),
        lambda np: np.geomspace(1.0, 16.0, 5),
        lambda np: np.linspace(0, 3, 7, dtype="int64"),
        lambda np: np.array([1, 2], ndmin=3),
        lambda np: np.asarray([[1.0], [2.0]]),
        lambda np: np.vander(np.asarray([2.0, 3.0]), 3),
        lambda np: np.stack(np.tril_indices(3, -1)),
        lambda np: np.stack(np.triu_indices(3, 1, 4)),
        lambda np: np.stack(np.diag_indices(3)),
    )
    for call in calls:
        expected, got = call(np), call(fnp)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-15)


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
