"""Contractions are planned as one product of matrices, and give what ``einsum`` does.

The text of a contraction has the bits, and the layout in memory, of the operation's own result.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcgrad as fg
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._primitives.contraction import contract
from funcgrad._primitives.products import compute, plan_product
from funcgrad.tensor.tensor import apply
from tests.together import together

rng = np.random.default_rng(0)


def assert_written(subscripts: str, x: Any, y: Any, line: str | None = None) -> None:
    """Check that a contraction's text gives its result; and the text, if ``line`` is given."""
    program = fg.program(lambda x, y: apply(contract, x, y, subscripts=subscripts))(x, y)
    (found,), (expected,) = compile_program(program)(x, y), program.evaluate([x, y])
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    assert found.strides == expected.strides
    assert found.tobytes() == expected.tobytes()
    if line is not None:
        assert f"    a = {line}\n" in program.to_numpy_source()


@pytest.mark.parametrize(
    ("subscripts", "first", "second"),
    [
        ("ij,jk->ki", (30, 40), (40, 50)),
        ("ij,ik->jk", (128, 64), (128, 10)),
        ("ij,j->i", (1000, 50), (50,)),
        ("i,ij->j", (1000,), (1000, 50)),
        ("ij,ij->", (100, 100), (100, 100)),
        ("bij,bkj->bik", (5, 30, 20), (5, 40, 20)),
        ("nhc,cd->nhd", (4, 50, 8), (8, 9)),
        ("nk,nk->n", (300, 40), (300, 40)),
        ("nij,nj->ni", (9, 30, 20), (9, 20)),
        ("kij,nkj->nki", (5, 6, 7), (40, 5, 7)),
    ],
)
def test_a_contraction_is_one_product(
    subscripts: str, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    product = plan_product(subscripts, first, second, is_complex=False)
    assert product is not None
    x, y = rng.standard_normal(first), rng.standard_normal(second)
    found = compute(product, x, y)
    np.testing.assert_allclose(found, np.einsum(subscripts, x, y), atol=1e-12)


@together(
    ("subscripts", "first", "second", "line"),
    [
        ("ij,jk->ik", (3, 4), (4, 5), "x @ y"),
        ("ij,jk->ki", (3, 4), (4, 5), "y.T @ x.T"),
        ("ij,j->i", (1000, 50), (50,), "x @ y"),
        ("ij,ij->", (100, 100), (100, 100), "x.reshape(10000,) @ y.reshape(10000,)"),
        ("bij,bkj->bik", (5, 30, 20), (5, 40, 20), "x @ y.transpose(0, 2, 1)"),
        ("nhc,cd->nhd", (4, 50, 8), (8, 9), "(x.reshape(200, 8) @ y).reshape(4, 50, 9)"),
        ("nk,nk->n", (300, 40), (300, 40), "vecdot(x, y)"),
        (
            "kij,nkj->nki",
            (5, 6, 7),
            (40, 5, 7),
            "contract.evaluate(x, y, subscripts='kij,nkj->nki')",
        ),
        ("ij,ijk->ik", (4, 5), (4, 5, 6), "einsum('ij,ijk->ik', x, y)"),
        ("i,j->ji", (200,), (100,), "multiply(x[None, :], y[:, None], order='C')"),
        ("i,->i", (3,), (), "multiply(x[:], asarray(y)[None], order='C')"),
    ],
)
def test_a_contraction_is_written_as_what_computes_it(
    subscripts: str, first: tuple[int, ...], second: tuple[int, ...], line: str
) -> None:
    x, y = np.asarray(rng.standard_normal(first)), np.asarray(rng.standard_normal(second))
    assert_written(subscripts, x, y, line)


@pytest.mark.parametrize(("first", "second"), [("f", "d"), ("i", "d"), ("i", "i"), ("f", "D")])
def test_dtypes_are_promoted(first: str, second: str) -> None:
    x, y = np.arange(200).reshape(10, 20), np.arange(600).reshape(20, 30)
    for subscripts in ("ij,jk->ki", "ij,jk->ik"):
        assert_written(subscripts, x.astype(first), y.astype(second))


@pytest.mark.parametrize("out", ["nki", "nik", "kni", "kin", "ink", "ikn"])
def test_results_lie_in_memory_in_order_where_blas_can_write_so(out: str) -> None:
    x, y = rng.standard_normal((5, 6, 7)), rng.standard_normal((40, 5, 7))
    found = contract.evaluate(x, y, subscripts=f"kij,nkj->{out}")
    np.testing.assert_allclose(found, np.einsum(f"kij,nkj->{out}", x, y))
    assert found.flags.c_contiguous == (out[-1] != "k")


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
@settings(max_examples=80, deadline=None)
def test_every_contraction_is_that_of_einsum(case: tuple[str, Any, Any]) -> None:
    subscripts, x, y = case
    assert_written(subscripts, x, y)
    tolerance = 1e-3 if x.dtype.char == "f" else 1e-9
    np.testing.assert_allclose(
        contract.evaluate(x, y, subscripts=subscripts),
        np.einsum(subscripts, x, y),
        rtol=tolerance,
        atol=tolerance,
    )


def test_complex_rows_are_not_conjugated() -> None:
    x = rng.standard_normal((300, 40)) + 1j
    assert plan_product("nk,nk->n", x.shape, x.shape, is_complex=True) is None
    np.testing.assert_allclose(contract.evaluate(x, x, subscripts="nk,nk->n"), np.sum(x * x, 1))
