"""Products that sum: NumPy's values, and derivatives for every combination of shapes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import AxisError, ShapeError

rng = np.random.default_rng(0)


def draw(*shape, imaginary=False):
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if imaginary else x


def assert_derivatives(f, *args, order=2):
    """Check that both modes and central differences agree, also for the gradient itself."""
    tangents = [np.asarray(rng.standard_normal(np.shape(x))) for x in args]
    out, tangent = fg.jvp(f, args, tuple(tangents))
    weights = np.asarray(rng.standard_normal(out.shape))
    step = 1e-6
    ahead, behind = (
        np.asarray(f(*[x + s * t for x, t in zip(args, tangents, strict=True)]))
        for s in (step, -step)
    )
    np.testing.assert_allclose(tangent, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-6)
    cotangents = fg.vjp(f, *args)[1](fg.tensor(weights))
    pulled = sum(np.sum(np.asarray(c) * t) for c, t in zip(cotangents, tangents, strict=True))
    np.testing.assert_allclose(pulled, np.sum(weights * np.asarray(tangent)), rtol=1e-8, atol=1e-9)
    if order > 1:

        def gradient(*xs):
            cts = fg.vjp(f, *xs)[1](fg.tensor(weights))
            return sum((fnp.sum(ct * ct) for ct in cts), fg.tensor(0.0))

        assert_derivatives(gradient, *args, order=order - 1)


def assert_maps(f, *args):
    """Check ``vmap`` of a function and of its gradient against loops, over any arguments."""
    for mapped in range(1, 2 ** len(args)):
        axes = tuple(0 if mapped >> k & 1 else None for k in range(len(args)))
        stacks = [
            x if axis is None else np.stack([x, 2 * x, x - 1])
            for x, axis in zip(args, axes, strict=True)
        ]

        def gradient(*xs):
            return fg.grad(lambda *ys: fnp.sum(f(*ys) ** 2), argnums=tuple(range(len(xs))))(*xs)

        for g in (lambda *xs: (f(*xs),), gradient):
            together = fg.vmap(g, in_axes=axes)(*stacks)
            for i in range(3):
                rows = [x if a is None else x[i] for x, a in zip(stacks, axes, strict=True)]
                for one, all_ in zip(g(*rows), together, strict=True):
                    np.testing.assert_allclose(np.asarray(all_)[i], one, rtol=1e-9, atol=1e-12)


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


@pytest.mark.parametrize(("first", "second"), MATRICES)
def test_matmul_in_every_shape(first, second):
    x, y = draw(*first), draw(*second)
    np.testing.assert_allclose(fnp.matmul(x, y), x @ y)
    assert_derivatives(fnp.matmul, x, y)
    assert_maps(fnp.matmul, x, y)


@given(
    st.sampled_from(MATRICES),
    st.sampled_from("?bifdFD"),
    st.sampled_from("?bifdFD"),
)
def test_matmul_promotes_as_numpy_does(shapes, first, second):
    x, y = (np.full(shape, 2).astype(d) for shape, d in zip(shapes, first + second, strict=True))
    product = fnp.matmul(x, y)
    assert product.dtype == (x @ y).dtype
    np.testing.assert_array_equal(product, x @ y)


def test_product_over_an_empty_axis_is_zero():
    np.testing.assert_array_equal(fnp.matmul(np.ones((2, 0)), np.ones((0, 3))), np.zeros((2, 3)))


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

X, Y = draw(2, 3, 4), draw(5, 4, 3)

RELATIVES: dict[str, tuple[Any, Any, Any, Any]] = {
    "dot": (np.dot, fnp.dot, X, Y),
    "dot with vector": (np.dot, fnp.dot, X, Y[0, :, 0]),
    "dot with number": (np.dot, fnp.dot, np.float64(2.0), X),
    "dot of vectors": (np.dot, fnp.dot, X[0, 0], X[1, 1]),
    "inner": (np.inner, fnp.inner, X, Y.transpose(0, 2, 1)),
    "inner with number": (np.inner, fnp.inner, X, np.float64(2.0)),
    "outer": (np.outer, fnp.outer, X[0], Y[0]),
    "vdot": (np.vdot, fnp.vdot, X[0], Y[0]),
    "vecdot": (np.vecdot, fnp.vecdot, X, X[0] + 1),
    "vecdot axis": (
        lambda x, y: np.vecdot(x.T, y.T).T,
        lambda x, y: fnp.vecdot(x, y, axis=0),
        X,
        X[:, :1],
    ),
    # NumPy has these two since version 2.2.
    "matvec": (lambda a, x: (a @ x[..., None])[..., 0], fnp.matvec, X, X[:, 0]),
    "matvec shared": (lambda a, x: (a @ x[..., None])[..., 0], fnp.matvec, X[0], X[:, 0]),
    "vecmat": (lambda x, a: (x.conj()[..., None, :] @ a)[..., 0, :], fnp.vecmat, X[:, :, 0], X),
    "kron": (np.kron, fnp.kron, X[0], Y[0, :2]),
    "kron of different rank": (np.kron, fnp.kron, X, Y[0, 0]),
    "cross": (np.cross, fnp.cross, Y[0], Y[1, 0]),
    "cross axes": (
        lambda x, y: np.cross(x, y, axisa=1, axisb=0, axisc=0),
        lambda x, y: fnp.cross(x, y, axisa=1, axisb=0, axisc=0),
        X,
        Y[:3, :2, :1],
    ),
    "tensordot": (np.tensordot, fnp.tensordot, X, X[0]),
    "tensordot pair": (
        lambda x, y: np.tensordot(x, y, axes=((1, -1), (2, 1))),
        lambda x, y: fnp.tensordot(x, y, axes=((1, -1), (2, 1))),
        X,
        Y,
    ),
    "tensordot one": (
        lambda x, y: np.tensordot(x, y, axes=(1, 2)),
        lambda x, y: fnp.tensordot(x, y, axes=(1, 2)),
        X,
        Y,
    ),
    "tensordot none": (
        lambda x, y: np.tensordot(x, y, axes=0),
        lambda x, y: fnp.tensordot(x, y, axes=0),
        X[0],
        Y[0],
    ),
}


@pytest.mark.parametrize("name", RELATIVES)
def test_relatives_of_matmul(name):
    theirs, ours, x, y = RELATIVES[name]
    expected = theirs(x, y)
    assert ours(x, y).shape == np.shape(expected)
    np.testing.assert_allclose(ours(x, y), expected)
    assert_derivatives(ours, x, y, order=1)
    assert_maps(ours, x, y)


@pytest.mark.parametrize("name", [name for name in RELATIVES if "number" not in name])
def test_relatives_of_matmul_on_complex_numbers(name):
    theirs, ours, x, y = RELATIVES[name]
    x, y = x * (1 - 2j), y + 1j * y[::-1]
    np.testing.assert_allclose(ours(x, y), theirs(x, y))


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda e: f"{e[0]} of {e[1:]}")
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

    assert_derivatives(product, *arrays, order=1 if sum(x.size for x in arrays) > 500 else 2)
    if len(arrays) < 3:
        assert_maps(product, *arrays)


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


@given(st.sampled_from(("ij,jk->ik", "ij->i", "ij,jk,kl->il", "ij,i")), st.sampled_from("?biefF"))
def test_einsum_keeps_dtypes(subscripts, dtype):
    shapes = {"ij": (2, 3), "jk": (3, 4), "kl": (4, 2), "i": (2,)}
    terms = subscripts.split("->")[0].split(",")
    arrays = [np.full(shapes[term], 100).astype(dtype) for term in terms]
    with np.errstate(over="ignore"):
        expected, result = np.einsum(subscripts, *arrays), fnp.einsum(subscripts, *arrays)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-2)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
