"""Products that sum: every mode for every combination of shapes, and errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import AxisError, ShapeError
from tests.every_mode import assert_every_mode
from tests.together import together

rng = np.random.default_rng(0)


def draw(*shape, imaginary=False):
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if imaginary else x


# ----------------------------------------------------------------------------------------- matmul

MATRICES = (
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((4, 2, 3), (3,)),
    ((3,), (4, 3, 2)),
    ((4, 2, 3), (3, 5)),
    ((2, 3), (4, 3, 5)),
    ((4, 2, 3), (4, 3, 2)),
    ((4, 1, 2, 3), (5, 3, 2)),
    ((1, 2, 3), (4, 3, 2)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 2)),
)


@together(("first", "second"), MATRICES)
def test_matmul_in_every_shape(first, second):
    assert_every_mode(fnp.matmul, draw(*first), draw(*second))


@pytest.mark.parametrize(("first", "second"), [((), (3,)), ((2, 3), (4, 2)), ((3,), (2,))])
def test_matmul_says_what_does_not_fit(first, second):
    with pytest.raises(ShapeError, match="matmul"):
        fnp.matmul(np.ones(first), np.ones(second))


def test_gradient_of_a_complex_product_descends():
    x, y = draw(2, 3, imaginary=True), draw(3, 4, imaginary=True)

    def loss(x, y):
        return fnp.sum(fnp.abs(x @ y) ** 2)

    gx, gy = fg.grad(loss, argnums=(0, 1))(x, y)
    np.testing.assert_allclose(gx, 2 * (x @ y) @ y.conj().T)
    np.testing.assert_allclose(gy, 2 * x.conj().T @ (x @ y))


def test_real_arguments_of_complex_products_have_real_gradients():
    x, y = draw(2, 3), draw(3, 4, imaginary=True)
    gradient = fg.grad(lambda x: fnp.sum(fnp.abs(x @ y) ** 2))(x)
    assert gradient.dtype == np.float64
    np.testing.assert_allclose(gradient, (2 * (x @ y) @ y.conj().T).real)


def test_single_precision_stays():
    x, y = draw(2, 3).astype(np.float32), draw(3, 4).astype(np.float32)
    gradients = fg.grad(lambda x, y: fnp.sum(x @ y), argnums=(0, 1))(x, y)
    assert [g.dtype for g in gradients] == [np.float32, np.float32]


def test_matrix_repeated_over_a_stack_is_pulled_back_without_a_stack_of_products():
    w, x = draw(200, 200), draw(5000, 200, 1)
    _, pull = fg.vjp(fnp.matmul, w, x)
    ct = np.ones((5000, 200, 1))
    pulled, _ = pull(fg.tensor(ct))  # a stack of products would take 1.6 GB
    np.testing.assert_allclose(pulled, np.einsum("bij,bkj->ik", ct, x, optimize=True))


# -------------------------------------------------------------------------------------- relatives


@together(
    ("function", "first", "second"),
    [
        (fnp.dot, (2, 3), (2, 3)),
        (fnp.dot, (2, 2, 3), (2, 2, 3)),
        (fnp.inner, (2, 3), (2, 4)),
        (fnp.tensordot, (2, 3), (3, 2)),
        (fnp.vdot, (2,), (3,)),
        (fnp.vecdot, (2, 3), (2, 1)),
        (fnp.vecdot, (2, 3), (4, 3)),
        (fnp.matvec, (2, 3), (2,)),
        (fnp.matvec, (3,), (3,)),
        (fnp.vecmat, (3,), (2, 3)),
        (fnp.cross, (2,), (3,)),
    ],
)
def test_shapes_that_do_not_fit(function, first, second):
    with pytest.raises(ShapeError, match=function.__name__):
        function(np.ones(first), np.ones(second))


@pytest.mark.parametrize("axes", [3, -1, ((0,), (0, 1)), (0, 1, 2)])
def test_tensordot_axes_that_make_no_sense(axes):
    with pytest.raises(ShapeError, match="tensordot"):
        fnp.tensordot(np.ones((2, 2)), np.ones((2, 2)), axes=axes)


def test_axes_out_of_bounds():
    with pytest.raises(AxisError, match="vecdot"):
        fnp.vecdot([1.0], [1.0], axis=1)
    with pytest.raises(AxisError, match="tensordot"):
        fnp.tensordot(np.ones((2, 2)), np.ones((2, 2)), axes=(2, 0))


# ----------------------------------------------------------------------------------------- einsum

EXPRESSIONS = (
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("ij->ji", (2, 3)),
    ("ba", (2, 3)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("iij->j", (2, 2, 3)),
    ("iii->i", (3, 3, 3)),
    ("iijj->ij", (2, 2, 3, 3)),
    ("ijij->ji", (2, 3, 2, 3)),
    ("...ii->...i", (2, 3, 3)),
    ("i...->...", (2, 3)),
    ("->", ()),
    (",", (), ()),
    (",ij->ji", (), (2, 3)),
    ("i,i", (3,), (3,)),
    ("i,i->i", (3,), (3,)),
    ("i,j", (2,), (3,)),
    ("A,a", (2,), (3,)),
    (" i j , j k -> i k ", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,jk->ki", (20, 30), (30, 40)),
    ("kij,nkj->nki", (5, 6, 7), (40, 5, 7)),
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("ij,ij->ij", (2, 1), (1, 3)),
    ("...i,i", (2, 3), (3,)),
    ("...,...", (2, 3), (3,)),
    ("ij...,jk...", (2, 3, 1), (3, 4, 5)),
    ("...ij,...jk->...ik", (5, 1, 2, 3), (4, 3, 2)),
    ("ij,kl->k", (2, 3), (4, 5)),
    ("ii,i->i", (3, 3), (3,)),
    ("iij,ji->i", (2, 2, 3), (3, 2)),
    ("i,i->", (0,), (0,)),
    ("ij,jk->ik", (2, 0), (0, 3)),
    ("i,j,k", (2,), (3,), (4,)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,jk,ki", (2, 3), (3, 4), (4, 2)),
    ("ij,ij,ij->i", (2, 3), (2, 3), (2, 3)),
    ("bi,bij,bj->b", (4, 2), (4, 2, 3), (4, 3)),
    ("i,i,i,i", (3,), (3,), (3,), (3,)),
    ("ik,jkl,il->ij", (2, 3), (4, 3, 5), (2, 5)),
)


@together("expression", EXPRESSIONS, ids=lambda e: f"{e[0]} of {e[1:]}")
def test_einsum(expression):
    subscripts, *shapes = expression
    for imaginary in (False, True):
        arrays = [np.asarray(draw(*shape, imaginary=imaginary)) for shape in shapes]
        expected = np.einsum(subscripts, *arrays)
        result = fnp.einsum(subscripts, *arrays)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)
    arrays = [np.asarray(draw(*shape)) for shape in shapes]

    def product(*xs):
        return fnp.einsum(subscripts, *xs)

    assert_every_mode(product, *arrays, order=1 if sum(x.size for x in arrays) > 500 else 2)


@st.composite
def expressions(draw):
    """Two or three operands with indices out of five, and a result with some of them."""
    sizes = {letter: draw(st.integers(1, 3)) for letter in "abcde"}
    terms = draw(st.lists(st.text("abcde", min_size=0, max_size=4), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    result = "".join(draw(st.lists(st.sampled_from(used), unique=True)) if used else [])
    return f"{','.join(terms)}->{result}", [tuple(sizes[c] for c in term) for term in terms]


@given(expressions())
def test_einsum_of_any_expression(expression):
    subscripts, shapes = expression
    source = np.random.default_rng(1)
    arrays = [np.asarray(source.integers(-3, 4, shape)) * 1.0 for shape in shapes]
    expected = np.einsum(subscripts, *arrays)
    np.testing.assert_allclose(fnp.einsum(subscripts, *arrays), expected, atol=1e-12)
    # Linear in each operand: the pullback's adjoint is the operation itself.
    weights = np.asarray(source.standard_normal(expected.shape))
    cotangents = fg.vjp(lambda *xs: fnp.einsum(subscripts, *xs), *arrays)[1](fg.tensor(weights))
    for ct, x in zip(cotangents, arrays, strict=True):
        np.testing.assert_allclose(
            np.sum(np.asarray(ct) * x), np.sum(weights * expected), rtol=1e-9, atol=1e-9
        )


def test_einsum_with_lists_of_indices():
    x, y = draw(2, 3), draw(3, 4)
    np.testing.assert_allclose(fnp.einsum(x, [0, 1], y, [1, 2]), x @ y)
    np.testing.assert_allclose(fnp.einsum(x, [0, 1], y, [1, 2], [2, 0]), (x @ y).T)
    np.testing.assert_allclose(fnp.einsum(x, [..., 30], [30, ...]), x.T)


def test_einsum_follows_a_path():
    arrays = [draw(2, 3), draw(3, 4), draw(4, 5)]
    expected = np.einsum("ij,jk,kl->il", *arrays)
    for path in (["einsum_path", (1, 2), (0, 1)], [(0, 1, 2)], "greedy", True, False):
        result = fnp.einsum("ij,jk,kl->il", *arrays, optimize=path)
        np.testing.assert_allclose(result, expected)


@together(
    ("subscripts", "shapes", "dtypes"),
    [
        ("ab,a->", ((2, 3), (2,)), "?d"),
        ("ab,a->", ((2, 3), (2,)), "bf"),
        ("ab,a->", ((2, 3), (2,)), "ef"),
        ("ab,a->", ((2, 3), (2,)), "?F"),
        ("aa,b->", ((2, 2), (3,)), "il"),
        ("ab,ab->b", ((3, 1), (1, 2)), "?d"),
        ("a,a,a->", ((3,), (3,), (3,)), "eef"),
    ],
)
def test_sums_of_one_operand_are_in_the_precision_of_all(subscripts, shapes, dtypes):
    large = {"?": 1, "b": 100, "e": 60_000, "i": 2**31 - 1}
    arrays = [np.full(s, large.get(c, 1), c) for s, c in zip(shapes, dtypes, strict=True)]
    expected = np.einsum(subscripts, *arrays)
    for function in (fnp.einsum, fg.jit(fnp.einsum, static_argnums=0)):
        result = function(subscripts, *arrays)
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected)


def test_integers_do_not_wrap_around_before_a_float_factor():
    x = np.array([100], np.int8)
    assert fnp.einsum("i,i,i", x, x, np.array([0.5])).item() == 5000


@together(
    ("subscripts", "shapes"),
    [
        ("ij->ijj", [(2, 2)]),
        ("ij->k", [(2, 2)]),
        ("ij,jk->", [(2, 2)]),
        ("i.j", [(2, 2)]),
        ("i+j", [(2, 2)]),
        ("ijk", [(2, 2)]),
        ("i", [(2, 2)]),
        ("...i...j", [(2, 2)]),
        ("...ij->ij", [(2, 2, 2)]),
        ("ii", [(2, 3)]),
        ("ii", [(1, 3)]),
        ("ij,jk->ik", [(2, 3), (4, 2)]),
        ("...,...", [(2,), (3,)]),
    ],
)
def test_einsum_says_what_is_wrong(subscripts, shapes):
    with pytest.raises(ShapeError, match="einsum"):
        fnp.einsum(subscripts, *[np.ones(shape) for shape in shapes])


def test_einsum_without_arrays():
    with pytest.raises(ShapeError, match="at least one"):
        fnp.einsum("ij")


def test_einsum_rejects_unknown_indices():
    with pytest.raises(ShapeError, match="in 0"):
        fnp.einsum(np.ones(2), [52])


def test_a_diagonal_leaves_the_other_elements_out():
    def loss(x):
        return fnp.einsum("ii", fnp.log(x))

    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(fg.grad(loss)(x), [[1.0, 0.0], [0.0, 0.5]])


@together("way", ["eager", "jit", "jit by NumPy", "vmap"])
@together(
    "f",
    [
        lambda np, x, y: np.outer(x, y),
        lambda np, x, y: np.diag(x),
        lambda np, x, y: np.diagflat(x, -1),
    ],
    ids=["outer", "diag", "diagflat"],
)
def test_negative_zeros_keep_their_signs(f: Any, way: str) -> None:
    x, y = np.array([-0.0, 1.0, 0.0]), np.array([3.0, -0.0, -2.0])
    ways = {
        "eager": lambda: f(fnp, fg.tensor(x), y),
        "jit": lambda: fg.jit(lambda x, y: f(fnp, x, y))(x, y),
        "jit by NumPy": lambda: fg.jit(lambda x, y: f(fnp, x, y), backend="numpy")(x, y),
        "vmap": lambda: fg.vmap(lambda x, y: f(fnp, x, y))(x[None], y[None])[0],
    }
    found, expected = np.asarray(ways[way]()), f(np, x, y)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("subscripts", ["i,j->ij", "i,j->ji", "i,i->i", "ki,kj->kij"])
def test_products_that_nothing_sums_are_products(subscripts: str) -> None:
    # np.einsum adds each to 0, which makes 0.0 of -0.0.
    x, y = np.array([-0.0, 1.0, 0.0]), np.array([3.0, -0.0, -2.0])
    x, y = (x[None], y[None]) if "k" in subscripts else (x, y)
    columns = x if "i,i" in subscripts else x[..., :, None]
    expected = columns * (y if "i,i" in subscripts else y[..., None, :])
    expected = expected.T if "ji" in subscripts else expected
    calls = [lambda x, y: fnp.einsum(subscripts, x, y)]
    calls += [lambda x, y: fnp.tensordot(x, y, 0)] if subscripts == "i,j->ij" else []
    for f in calls:
        for found in (f(x, y), fg.jit(f)(x, y), fg.jit(f, backend="numpy")(x, y)):
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
            np.testing.assert_array_equal(found, expected)
