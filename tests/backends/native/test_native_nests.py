"""What becomes loop nests: parts of numbers, truth values, sums of products, pieces that meet."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.plan_steps import MatrixProduct, Nest
from funcgrad._backends.native.planner import plan_of
from tests.backends.native.other_machines import OTHERS, machine_code_of
from tests.backends.native.test_native import assert_same
from tests.together import together

pytest.importorskip("llvmlite")


def run_natively(f: Any, *args: Any) -> Any:
    """The result of machine code, in which nothing is called back."""
    jitted = fg.jit(f, backend="native")
    assert jitted.lower(*args).source.startswith("; called back: nothing")
    return jitted(*args)


def test_pieces_in_boxes_are_written_once() -> None:
    """Gradients of sums over neighbours, and results that lie in a stack at once."""

    def steps(f: Any, *args: Any) -> int:
        run_natively(f, *args)
        return len(plan_of(fg.jit(f, backend="native").lower(*args).optimized).steps)

    x = np.linspace(-1.0, 1.0, 30).reshape(5, 6)
    neighbours = lambda x: fnp.sum((x[1:, 1:] - x[:-1, :-1]) ** 3 * x[1:, :-1])  # noqa: E731
    assert steps(fg.grad(neighbours), x) == 1 + 8  # the pieces, and the boxes in which they meet
    joined = lambda x: fnp.concatenate([fnp.sin(x), x * x, fnp.stack([x[0], x[1]])])  # noqa: E731
    assert steps(joined, x) == 4  # sines and squares are stored in place
    assert steps(lambda x: fnp.stack([x[0, 0] * 2, fnp.sin(x[1, 1])]), x) == 1
    for f in (
        fg.grad(neighbours),
        joined,
        lambda x: fnp.stack([fnp.sin(x[0]), x[1] * x[2]], axis=-1),
        lambda x: fnp.pad(x * 2, 3) + fnp.pad(fnp.roll(x, (1, -2), (0, 1)), 3),
        lambda x: fnp.concatenate([x.T * 2, fnp.stack([x[:, 0]] * 5)]),
        lambda x: (y := fnp.sin(x), fnp.stack([y, y + y, x]), fnp.sum(y)),
        lambda x: fnp.concatenate([x * 2 > 1, x > 0]),
        lambda x: fnp.concatenate([fnp.floor(x).astype(int), fnp.exp(x)]),
        fg.grad(lambda x: fnp.sum(x[::2] * x[1:4]) + fnp.sum(x[::-1] * x[0])),
        fg.grad(lambda x: sum(x[k % 5, k % 6] ** 2 for k in range(20))),
        fg.hessian(lambda x: fnp.sum(fnp.diff(x[0]) ** 3)),
    ):
        assert_same(f, x)


def laplacian(u: Any) -> Any:
    shifted = [fnp.roll(u, step, axis) for axis in (0, 1) for step in (1, -1)]
    return shifted[0] + shifted[1] + shifted[2] + shifted[3] - 4 * u


def test_nests_over_moved_arrays_read_the_pieces() -> None:
    x = np.random.default_rng(3).normal(size=(40, 42))
    staged = fg.jit(laplacian, backend="native").lower(x).optimized
    assert [type(step).__name__ for step in plan_of(staged).steps] == ["Nest"] * 9
    assert len(plan_of(staged).lives) == 1  # only the result is written

    def padded(u: Any) -> Any:
        p = fnp.pad(u, ((1, 1), (2, 3)))
        return fnp.exp(p[2:, 2:-3] - p[:-2, 1:-4]) * p[1:-1, 3:-2]

    def with_border(u: Any) -> Any:
        p = fnp.concatenate([u[-1:] * 2, u, u[:1]])
        return p[2:] - 2 * u + p[:-2]

    for f in (
        laplacian,
        padded,
        with_border,
        lambda u: fnp.roll(u, 3, 0)[::-1] * u + fnp.roll(u, (5, 7), (0, 1)),
        lambda u: fnp.roll(fnp.roll(u, 1, 0), 1, 1) + fnp.roll(u, 1, 0) * u,
        lambda u: (y := fnp.roll(u, 2, 1), fnp.sin(y) + u),
        lambda u: fnp.sin(y := fnp.roll(u, 2, 1)) + fnp.sum(y * y),
        lambda u: fnp.roll(u.T, 1, 0) * fnp.roll(u, 1, 1).T,
        lambda u: fnp.where(fnp.roll(u > 0, 1, 0), u, fnp.roll(-u, 1, 0)),
        lambda u: fnp.roll(u, 1, 0).astype(fnp.float32) * 2 + u,
        lambda u: u * fnp.roll(u, 1) if fnp.roll(u, 1, 0)[0, 0] > 9 else fnp.roll(u, 1, 0) - u,
        lambda u: fnp.cos(fnp.roll(fnp.arange(1680).reshape(40, 42), 5, 0)) * u,
        lambda u: fg.scan(lambda v, _: (v + 0.1 * laplacian(v), None), u, None, length=5)[0],
    ):
        assert_same(f, x, exact=f in (laplacian, with_border))
    for f in (laplacian, padded, with_border):
        g = fg.grad(lambda u, f=f: fnp.sum(f(u) ** 2))
        assert_same(g, x)
        assert_same(lambda u, g=g: fg.jvp(g, (u,), (u,))[1] * fnp.roll(u, 1, 0), x)
    assert_same(
        lambda u: fnp.sin(fnp.roll(u, 1, 0)) - fnp.roll(u, (1, 2, 3), (0, 1, 2)),
        x.reshape(5, 8, 42),
    )


@together("char", "fdFD")
def test_windows_of_pieces_that_are_added_are_copied_as_numbers(char: str) -> None:
    """A copy of bits may read pieces that only move, but no sums."""
    a, b = np.random.default_rng(4).normal(size=(2, 30, 50)).astype(char)

    def added(a: Any, b: Any) -> Any:
        transposed = fg.linear_transpose(lambda x: (x[:30], x[20:]), np.zeros((50, 50), a.dtype))
        return transposed((a, b))[0]

    assert_same(lambda a, b: added(a, b)[:, 3:44], a, b)
    assert_same(lambda a, b: (added(a, b)[5:], added(b, a)[1:] * 2), a, b)
    assert_same(lambda a, b: fnp.pad(a, ((3, 4), (0, 0)))[1:], a, b)


@together("char", "?bBlfd")
def test_parts_of_real_numbers(char: str) -> None:
    x = np.array([0, 1, 3], char)
    for f in (fnp.real, fnp.imag):
        result = run_natively(f, x)
        assert result.dtype == f(x).dtype
        assert_array_equal(result, f(x))


@together("char", "efF")
@together("number", [0.1, 3, 0.1j])
def test_arguments_that_are_numbers_of_python_give_way(char: str, number: Any) -> None:
    if char == "F" or not isinstance(number, complex):
        x = np.random.default_rng(2).standard_normal(41).astype(char)
        for f in (lambda a, x: a - x, lambda a, x: x - (a + x)):
            assert_array_equal(run_natively(f, number, x), f(number, x))


def test_integers_beyond_64_bits_are_numbers_in_formulas() -> None:
    for f in (lambda x: x / 2**64, lambda x: x + 2**70, lambda x: x < 2**63):
        for x in (0.3 * 2.0**64, np.array([1, 2**63], np.float32)):
            assert_array_equal(run_natively(f, x), f(np.asarray(x)), strict=False)


def test_truth_values_of_python_count_as_in_python() -> None:
    x = np.array([1.5, -2.0])
    for f in (lambda x, b: (b + b) * x, lambda x, b: (b & b) * x, lambda x, b: (b ^ b) * x):
        assert_array_equal(fg.jit(f, backend="native")(x, True), f(x, True))


def test_truth_values_of_python_stay_truth_values_under_inversion() -> None:
    x = np.array([1.5, -2.0])
    for b in (True, False):  # of which Python makes the integers -2 and -1
        assert_array_equal(run_natively(lambda x, b: (~b) * x, x, b), (not b) * x)
        assert run_natively(lambda b: ~b, b).dtype == bool


def test_sums_of_products_that_read_each_number_once() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 70, 80))
    for subscripts in ("ij,ij->", "ij,ij->i", "ij,ij->j", "ij,ij->ji"):
        result = run_natively(lambda x, y, s=subscripts: fnp.einsum(s, x, y), x, y)
        np.testing.assert_allclose(result, np.einsum(subscripts, x, y), rtol=1e-12, atol=1e-12)


def test_operations_that_bodies_bring_are_written_too() -> None:
    x = np.random.default_rng(0).standard_normal((5, 6))
    result = run_natively(lambda x: (x - fnp.mean(x)) / fnp.std(x), x)  # of which std has a mean
    np.testing.assert_allclose(result, (x - x.mean()) / x.std(), rtol=1e-12)


def test_pieces_that_meet_are_added_in_order() -> None:
    x = np.random.default_rng(0).standard_normal(9)
    slope = fg.grad(lambda x: fnp.sum(x[1:] ** 2 * x[:-1] + x[::2].sum() * x[4]))
    np.testing.assert_allclose(run_natively(slope, x), slope(x), rtol=1e-13)
    result = run_natively(fg.grad(lambda x: x[0] * 2 + x[0] * 3 + x[5] * 4), x)
    assert_array_equal(result, [5, 0, 0, 0, 0, 4, 0, 0, 0])


@pytest.mark.parametrize("char", "FD")
def test_functions_of_complex_numbers(char: str) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(char)
    for f in (lambda x, y: fnp.exp(x * y) - x / y, lambda x, y: fnp.conj(x) * fnp.sqrt(y * y)):
        result = run_natively(f, x, y)
        assert result.dtype == np.dtype(char)
        np.testing.assert_allclose(result, f(x, y), rtol=1e-6 if char == "F" else 1e-12)


@together("char", "fDdFhq", quick=2)
@together(
    ("subscripts", "shape", "other"),
    [
        ("ij,jk->ik", (30, 40), (40, 50)),
        ("ij,kj->ki", (30, 40), (6, 40)),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("i,i->", (40,), (40,)),
        ("i,j->ij", (3,), (4,)),
        ("ij,ij->ji", (3, 4), (3, 4)),
        ("ij,jk->ik", (3, 0), (0, 5)),
    ],
)
def test_products_with_ones_are_sums(
    subscripts: str, shape: tuple[int, ...], other: tuple[int, ...], char: str
) -> None:
    x = (5 * np.random.default_rng(3).standard_normal(shape)).astype(char)
    y = (5 * np.random.default_rng(4).standard_normal(other)).astype(char)
    left, right = np.ones(shape, char), np.ones(other, char)
    for operand in (x, x[..., ::-1]):
        assert_same(lambda x: 2 * fnp.einsum(subscripts, x, right), operand)
        assert_same(lambda x: fnp.einsum(subscripts, x * x, right), operand)
    assert_same(lambda y: fnp.einsum(subscripts, left, y), y)
    program = NATIVE.prepare(fg.program(lambda x: fnp.einsum(subscripts, x, right))(x), False)
    assert not any(isinstance(step, MatrixProduct) for step in plan_of(program).steps)


@together(
    ("char", "widths"),
    [("f", (3, 16, 17)), ("f", (1, 4, 15, 21)), ("d", (2, 3, 5, 8, 17))]
    + [(c, (3, 17)) for c in "?ieFD"],
    quick=1,
)
def test_reductions_of_several_axes_of_pieces_are_numpys(char: str, widths: Any) -> None:
    """Of short rows, which are not side by side: their lanes are combined after all rows."""
    whole = np.random.default_rng(5).integers(-3, 4, (3, 6, 7, 21)).astype(char)
    for columns in widths:
        x = whole[..., :columns]
        for f in (
            lambda x: fnp.sum(x[:, ::-1, 1:-1], axis=(1, 2, 3)),
            lambda x: fnp.sum(x[:, 1:, ::2] * x[:, :-1, ::-2]),
            lambda x: fnp.sum(x[:, :, 1:-1], axis=(0, 3)),
            lambda x: fnp.max(fnp.abs(x[1:, ::-1, 1:]), axis=(1, 2, 3)),
            lambda x: fnp.any(x[:, 1:, ::3] != 0, axis=(1, 2, 3)),
        ):
            result, expected = np.asarray(run_natively(f, x)), np.asarray(f(x))
            assert result.dtype == expected.dtype
            close = 1e-5 if char in "efF" else 1e-11
            assert_allclose(result, expected, close, close * np.abs(expected).max(initial=1))
            for machine in OTHERS if columns == 17 or (char, columns) == ("d", 3) else ():
                (out,) = machine_code_of(f, x, machine=machine)
                assert_allclose(out, expected, 1e-5, 1e-5)
        assert_same(lambda x: fnp.sum(x[:, :0, 1:], axis=(1, 2, 3)), x)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_cheap_elements_of_large_arrays_are_computed_again(dtype: str) -> None:
    x = np.random.default_rng(3).standard_normal((300, 128)).astype(dtype)

    def standardized(x: Any) -> Any:
        y = x - fnp.mean(x, axis=0)
        return y / (fnp.sqrt(fnp.mean(fnp.abs(y) ** 2, axis=0)) + 1e-6)

    def stored(x: Any) -> Any:  # a result, and the operand of a product
        y = x - fnp.mean(x)
        return y, fnp.sum(y * y), y[::-1] * fnp.sum(y), fnp.transpose(y) @ y

    for f in (standardized, stored):
        results = fg.tree.leaves(fg.jit(f, backend="native")(x))
        for a, b in zip(results, fg.tree.leaves(f(x)), strict=True):
            np.testing.assert_allclose(a, b, 1e-4 if dtype == "f4" else 1e-12, 1e-4)
    plan = plan_of(NATIVE.prepare(fg.program(standardized)(x), False))
    large = [view for step in plan.steps if isinstance(step, Nest) for view in step.stores.values()]
    assert [view.shape for view in large].count(x.shape) == 1
