"""Contractions and other composite operations are planned when a program is compiled.

Results of the text have the bits, and the layout in memory, of the operations' own results.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._primitives.contraction import contract
from funcgrad._primitives.products import plan_product
from funcgrad.tensor.tensor import apply
from tests.together import together

rng = np.random.default_rng(0)


def body(program: fg.Program) -> list[str]:
    """The lines of the function, without the line that returns its result."""
    _, _, function = program.to_numpy_source().partition("):\n")
    return [line.strip() for line in function.splitlines()[:-1]]


def line_of(subscripts: str, *shapes: tuple[int, ...]) -> str:
    def product(x: Any, y: Any) -> Any:
        return apply(contract, x, y, subscripts=subscripts)

    return "; ".join(body(fg.program(product)(*map(np.ones, shapes))))


def assert_alike(own: Any, other: Any) -> None:
    assert type(own) is type(other)
    assert own.dtype == other.dtype
    assert own.shape == other.shape
    assert own.strides == other.strides
    assert own.tobytes() == other.tobytes()


def assert_written(f: Any, *args: Any) -> None:
    """Check that the text of a function gives the results of its operations."""
    program = fg.program(f)(*args)
    expected = program.evaluate(args)
    found = compile_program(program)(*args)
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        assert_alike(own, other)
    assert not [line for line in body(program) if ".evaluate(" in line]


# What the text of a contraction looks like.


@together(
    ("subscripts", "first", "second", "line"),
    [
        ("ij,jk->ik", (3, 4), (4, 5), "a = x @ y"),
        ("ij,jk->ki", (3, 4), (4, 5), "a = y.T @ x.T"),
        ("ij,ik->jk", (128, 64), (128, 10), "a = x.T @ y"),
        ("ij,kj->ki", (128, 64), (10, 64), "a = y @ x.T"),
        ("ij,j->i", (1000, 50), (50,), "a = x @ y"),
        ("i,ij->j", (1000,), (1000, 50), "a = y.T @ x"),
        ("ij,ij->", (100, 100), (100, 100), "a = x.reshape(10000) @ y.reshape(10000)"),
        ("bij,bkj->bik", (5, 30, 20), (5, 40, 20), "a = x @ y.mT"),
        ("nhc,cd->nhd", (4, 50, 8), (8, 9), "a = (x.reshape(200, 8) @ y).reshape(4, 50, 9)"),
        ("nk,nk->n", (300, 40), (300, 40), "a = vecdot(x, y)"),
        ("nij,nj->ni", (9, 30, 20), (9, 20), "a = (x @ y.reshape(9, 20, 1)).reshape(9, 30)"),
        (
            "kij,nkj->nki",
            (5, 6, 7),
            (40, 5, 7),
            "a = empty((40, 5, 6), float64);"
            " matmul(y.transpose(1, 0, 2), x.mT, a.transpose(1, 0, 2))",
        ),
        ("i,j->ji", (200,), (100,), "a = multiply(x[None, :], y[:, None], order='C')"),
    ],
)
def test_a_contraction_is_written_as_one_product(
    subscripts: str, first: tuple[int, ...], second: tuple[int, ...], line: str
) -> None:
    assert line_of(subscripts, first, second) == line


@together("out", ["nki", "nik", "kni", "kin", "ink", "ikn"])
def test_results_lie_in_memory_in_order_where_blas_can_write_so(out: str) -> None:
    x, y = rng.standard_normal((5, 6, 7)), rng.standard_normal((40, 5, 7))
    found = contract.evaluate(x, y, subscripts=f"kij,nkj->{out}")
    np.testing.assert_allclose(found, np.einsum(f"kij,nkj->{out}", x, y))
    assert found.flags.c_contiguous == (out[-1] != "k")


# What it computes.


@st.composite
def contractions(draw: st.DrawFn) -> tuple[str, Any, Any]:
    """Subscripts and arrays, of any layout in memory."""
    groups = [draw(st.integers(0, most)) for most in (2, 2, 2, 2)]
    batch, rows, columns, summed = (
        letters[:count] for letters, count in zip(("ab", "ij", "kl", "st"), groups, strict=True)
    )
    size = st.sampled_from((1, 2, 3, 5, 9) if sum(groups) > 3 else (0, 1, 7, 40))
    sizes = {letter: draw(size) for letter in batch + rows + columns + summed}
    dtype = draw(st.sampled_from(("f", "d", "D")))

    def operand(letters: str) -> tuple[str, Any]:
        order = "".join(draw(st.permutations(letters)))
        x = rng.standard_normal([sizes[c] for c in order]).astype(dtype)
        if draw(st.booleans()):
            stored = draw(st.permutations(range(x.ndim)))
            x = np.array(x.transpose(stored), order="C").transpose(np.argsort(stored))
        return order, x

    first, x = operand(batch + rows + summed)
    second, y = operand(batch + columns + summed)
    out = "".join(draw(st.permutations(batch + rows + columns)))
    return f"{first},{second}->{out}", x, y


@given(contractions())
@settings(max_examples=150, deadline=None)
def test_every_contraction_is_the_same_written_down(case: tuple[str, Any, Any]) -> None:
    subscripts, x, y = case
    assert_written(lambda x, y: apply(contract, x, y, subscripts=subscripts), x, y)
    tolerance = 1e-3 if x.dtype.char == "f" else 1e-9
    np.testing.assert_allclose(
        contract.evaluate(x, y, subscripts=subscripts),
        np.einsum(subscripts, x, y),
        rtol=tolerance,
        atol=tolerance,
    )


@pytest.mark.parametrize(("first", "second"), [("f", "d"), ("i", "d"), ("i", "i"), ("f", "D")])
def test_dtypes_are_promoted(first: str, second: str) -> None:
    x, y = np.arange(200).reshape(10, 20), np.arange(600).reshape(20, 30)
    for subscripts in ("ij,jk->ki", "ij,jk->ik"):
        args = x.astype(first), y.astype(second)
        assert_written(lambda x, y, s=subscripts: apply(contract, x, y, subscripts=s), *args)
        assert_written(
            lambda x, y, s=subscripts: apply(contract, x, y, subscripts=f"b{s[:3]}b{s[3:]}b"),
            *[np.stack([arg, arg + 1]) for arg in args],
        )


def test_numbers_are_products_too() -> None:
    y = rng.standard_normal((200, 100))
    assert_written(lambda y: apply(contract, 2.0, y, subscripts=",ij->ji"), y)


def test_complex_rows_are_not_conjugated() -> None:
    x = rng.standard_normal((300, 40)) + 1j
    assert plan_product("nk,nk->n", x.shape, x.shape, is_complex=True) is None
    np.testing.assert_allclose(contract.evaluate(x, x, subscripts="nk,nk->n"), np.sum(x * x, 1))


# Other operations.


def turned(x: Any) -> Any:
    """The same numbers, with the axes in reverse order in memory."""
    return np.asfortranarray(x)


@together("keepdims", [False, True])
@together("shape", [(100, 10), (64, 1), (64, 2), (8, 9, 25), (100, 33), (100, 200)])
@together("reduce", [fnp.sum, fnp.max, fnp.min, fnp.count_nonzero])
def test_many_short_rows_are_reduced_alike(
    reduce: Any, shape: tuple[int, ...], keepdims: bool
) -> None:
    for dtype in ("f", "d", "i", "?"):
        if dtype == "?" and reduce in (fnp.max, fnp.min):
            continue
        x = (rng.standard_normal(shape) * 3).astype(dtype)
        for each in (x, turned(x), x[..., ::-1]):
            program = fg.program(lambda x: reduce(x, axis=-1, keepdims=keepdims))(each)
            (found,) = compile_program(program)(each)
            (expected,) = program.evaluate([each])
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape
            assert found.tobytes() == expected.tobytes()
            assert not [line for line in body(program) if "(axis" in line]


INDICES = np.array([[2, 0], [2, -1]])


@together(
    "f",
    [
        lambda x: fg.grad(lambda x: fnp.sum(x[:, INDICES] ** 2))(x),
        lambda x: x.at[INDICES].add(2.0),
        lambda x: x.at[:, INDICES].set(x[:, INDICES] * 2),
        lambda x: fnp.roll(x, 2, axis=1),
        lambda x: fnp.roll(x, -5, axis=0),
        lambda x: fnp.roll(x, (1, 2), axis=(0, 1)),
        lambda x: fnp.stack([x, x + 1], axis=0),
        lambda x: fnp.stack([x, 2 * x], axis=1),
        lambda x: fnp.stack([x[0, 0], 2.0]),
        lambda x: fnp.sort(x, axis=0),
        lambda x: fnp.argsort(x, axis=1, stable=True),
        lambda x: fg.grad(lambda x: fnp.sum(fnp.cumulative_sum(x, axis=1) ** 2))(x),
        lambda x: fg.nn.softplus(x),
    ],
)
def test_operations_without_a_function_of_numpy_are_written_out(f: Any) -> None:
    x = rng.standard_normal((4, 5))
    for each in (x, turned(x), x.astype("f")):
        program = fg.program(f)(each)
        for own, other in zip(
            compile_program(program)(each), program.evaluate([each]), strict=True
        ):
            assert own.dtype == other.dtype
            assert own.shape == other.shape
            assert own.tobytes() == other.tobytes()
        assert not [line for line in body(program) if ".evaluate(" in line]
