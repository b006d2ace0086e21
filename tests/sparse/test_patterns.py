"""Patterns never lack an element, and are exact where programs are: against numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, sparse
from funcgrad.sparse import dependence
from funcgrad.sparse.compression import compression
from funcgrad.sparse.patterns import Pattern
from tests.together import together


def nonzeros(f: Callable[..., Any], x: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which elements of the Jacobian are not zero at a point, by its dense form."""
    matrix = np.asarray(fg.jacfwd(f)(x))
    return (matrix != 0).reshape(-1, np.size(x))


def found(f: Callable[..., Any], x: Any, **options: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return sparse.pattern(f, **options)(x).matrix.toarray()


STENCIL = np.diag(np.ones(5)) + np.diag(np.ones(4), 1)
MASK = np.array([1.0, 0.0, 1.0, 0.0, 2.0])
TABLE = np.array([4, 0, 0])
KERNEL = np.array([[[1.0, 0.0, -1.0]]])
SIGNAL = np.array([[[1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 1.0]]])
OPERATOR = sparse.from_scipy(scipy.sparse.csr_array(STENCIL))
CORNER = sparse.array(np.ones(5), [3, 0, 1, 2, 4], np.arange(6), (5, 5))


def scanned(x: Any) -> Any:
    def step(carry: Any, k: Any) -> Any:
        return carry + x[k], carry * x[0]

    return fg.scan(step, x[1], fnp.arange(3))[1]


def repeated(x: Any) -> Any:
    def step(carry: Any) -> Any:
        return carry[0] + 1, fnp.roll(carry[1], 1) * carry[1]

    return fg.while_loop(lambda carry: carry[0] < 2, step, (0, x))[1]


EXACT: dict[str, Callable[[Any], Any]] = {
    "product with a known stencil": lambda x: STENCIL @ x,
    "stencil on the right": lambda x: x @ STENCIL,
    "known mask": lambda x: MASK * x,
    "known condition": lambda x: fnp.where(MASK > 0, x, x[::-1]),
    "known places": lambda x: x[TABLE] * 2.0,
    "written places": lambda x: x.at[TABLE[:2]].set(x[2] * x[3]),
    "added places": lambda x: x.at[TABLE].add(x[:3]),
    "roll": lambda x: fnp.roll(x, 2) * x,
    "pad": lambda x: fnp.pad(x, 2),
    "concatenate": lambda x: fnp.concatenate([x[:2], x**2, x[-1:]]),
    "cumulative sum": fnp.cumsum,
    "reversed cumulative sum": lambda x: fnp.cumsum(x[::-1])[::-1],
    "sum along an axis": lambda x: fnp.sum(fnp.outer(x, x) * STENCIL, axis=0),
    "outer": lambda x: fnp.outer(x[:2], x[2:]),
    "integers": lambda x: x * fnp.floor(x[0]),
    "scan": scanned,
    "while": repeated,
    "cond of a known value": lambda x: fg.cond(MASK[0] > 0, lambda: x, lambda: x[::-1]),
    "checkpoint": fg.checkpoint(lambda x: x[1:] * x[:-1]),
    "stop": lambda x: x * fg.stop_gradient(x[0]),
    "sort": lambda x: fnp.sort(x.reshape(5, 1), axis=1)[:, 0],
    "norm": lambda x: fnp.linalg.norm(x.reshape(5, 1), axis=1),
    "jit": fg.jit(lambda x: x[1:] * x[:-1]),
    "nothing": lambda x: fnp.ones(3) + 0 * x[:3].astype(int),
    "empty": lambda x: x[:0],
    "convolution": lambda x: nn.conv(x.reshape(1, 1, 5), KERNEL, padding="SAME").reshape(-1),
    "sums of windows": lambda x: nn.avg_pool(x, (2,), stride=1).reshape(-1),
    "greatest of windows": lambda x: nn.max_pool(x, (1,), stride=2).reshape(-1),
    "kernel of a convolution": lambda x: nn.conv(SIGNAL, x.reshape(1, 1, 5)).reshape(-1),
    "transposed convolution": lambda x: nn.conv_transpose(x.reshape(1, 1, 5), KERNEL).reshape(-1),
    "sparse array": lambda x: OPERATOR @ x,
    "transposed sparse array": lambda x: x @ OPERATOR,
    "nonzeros of a sparse array": lambda x: sparse.SparseArray(x, CORNER.pattern) @ MASK,
}


@together("name", EXACT)
def test_it_is_exact(name: str) -> None:
    x = np.array([1.5, -0.5, 2.5, 3.5, -1.25])
    f = EXACT[name]
    assert found(f, x).tolist() == nonzeros(f, x).tolist()


LOCAL: dict[str, Callable[[Any], Any]] = {
    "where": lambda x: fnp.where(x > 0, x, x[::-1]),
    "maximum": lambda x: fnp.maximum(x, x[::-1]),
    "max": lambda x: fnp.max(fnp.outer(x, x[:2]), axis=0),
    "cond": lambda x: fg.cond(x[0] > 0, lambda x: x, lambda x: x[::-1], x),
    "while": lambda x: fg.while_loop(lambda c: c[0] < 4, lambda c: fnp.roll(c, 1) * c + 0.5, x),
    "index": lambda x: x[fnp.argsort(x)],
    "relu": lambda x: fg.nn.relu(x) * 2.0,
}


@pytest.mark.parametrize("name", LOCAL)
def test_local_patterns_follow_the_numbers(name: str) -> None:
    x, f = np.array([1.5, -0.5, 2.5, 3.5, -1.25]), LOCAL[name]
    at_point, everywhere = nonzeros(f, x), found(f, x)
    assert found(f, x, local=True).tolist() == at_point.tolist()
    assert not (at_point & ~everywhere).any()
    assert everywhere.sum() > at_point.sum()


def test_a_local_pattern_needs_numbers() -> None:
    with pytest.raises(fg.errors.TracerError, match=r"sparse\.pattern: local=True reads"):
        fg.jit(lambda x: sparse.pattern(fnp.sin, local=True)(x).nnz * x)(fnp.ones(2))


# --------------------------------------------------------------------------- drawn programs


def steps() -> st.SearchStrategy[Callable[[Any], Any]]:
    """A step of a program on six elements."""
    shifts = st.integers(-3, 3)
    places = st.lists(st.integers(-6, 5), min_size=6, max_size=6)
    return st.one_of(
        shifts.map(lambda k: lambda x: fnp.roll(x, k) * x),
        places.map(lambda k: lambda x: x[np.array(k)] + 1.0),
        places.map(lambda k: lambda x: x.at[np.array(k)].add(x)),
        places.map(lambda k: lambda x: fnp.where(np.array(k) > 0, x, x[::-1])),
        shifts.map(lambda k: lambda x: fg.cond(x[k] > 1, lambda x: x * x[0], lambda x: x, x)),
        shifts.map(
            lambda k: lambda x: fg.scan(lambda c, y: (c * y, c + y), x[k], x, reverse=k > 0)[1]
        ),
        st.just(lambda x: fnp.sort(x)),
        st.just(lambda x: (np.tri(6) - np.eye(6)) @ x),
        st.just(lambda x: fnp.maximum(x, x.reshape(2, 3).sum(axis=1)[0])),
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(steps(), min_size=1, max_size=4), st.integers(0, 10**6))
def test_drawn_programs_lack_nothing(program: list[Callable[[Any], Any]], seed: int) -> None:
    x = np.random.default_rng(seed).normal(1, 1, 6)

    def f(x: Any) -> Any:
        for step in program:
            x = step(x)
        return x

    at_point = nonzeros(f, x) & ~np.isnan(np.asarray(fg.jacfwd(f)(x)))
    assert not (at_point & ~found(f, x)).any()
    assert not (at_point & ~found(f, x, local=True)).any()


MUTATED = {
    "elementwise_rows": "jit",
    "reduction_rows": "sum along an axis",
    "scan_rows": "cumulative sum",
    "moved_rows": "concatenate",
    "added_rows": "transposed",
    "contraction_rows": "product with a known stencil",
    "gathered_rows": "known places",
    "scattered_rows": "added places",
    "lettered_rows": "norm",
    "along_rows": "transform",
    "term_rows": "convolution",
    "united": "cond",
    "stacked": "scan",
}
"""For each rule a function by whose pattern its mistakes are seen."""


@pytest.mark.parametrize("rule", MUTATED)
def test_a_rule_that_lacks_elements_would_be_seen(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = {
        **EXACT,
        "transposed": lambda x: fg.vjp(lambda y: fnp.concatenate([y[:2], y[:3]]), x)[1](x)[0],
        "transform": lambda x: fnp.fft.fft(x + 0j).real,
        "cond": lambda x: fg.cond(x[0] > 9, lambda x: x, lambda x: x[::-1], x),
    }[MUTATED[rule]]
    x = np.array([1.5, -0.5, 2.5, 3.5, -1.25])
    at_point = nonzeros(f, x)
    assert not (at_point & ~found(f, x)).any()
    right: Any = getattr(dependence, rule)

    def mutated(*args: Any) -> Any:
        rows = right(*args)
        if not scipy.sparse.issparse(rows):
            return rows
        dense = rows.toarray()
        dense[np.flatnonzero(dense.any(axis=1))[-1]] = False  # as if it depended on nothing
        return scipy.sparse.csr_array(dense)

    monkeypatch.setattr(dependence, rule, mutated)
    assert (at_point & ~found(f, x)).any()


# ------------------------------------------------------------------------ published patterns


def brusselator(n: int) -> Callable[[Any], Any]:
    def laplacian(a: Any) -> Any:
        across = fnp.roll(a, 1, 1) + fnp.roll(a, -1, 1)
        return fnp.roll(a, 1, 0) + fnp.roll(a, -1, 0) + across - 4 * a

    def f(w: Any) -> Any:
        u, v = w[0], w[1]
        reaction = u * u * v
        return fnp.stack([1 + reaction - 4.4 * u + laplacian(u), 3.4 * u - reaction + laplacian(v)])

    return f


def arrow(x: Any) -> Any:
    return fnp.concatenate([fnp.sum(x, keepdims=True), x[1:] * x[0]])


def lotka(a: Any) -> Any:
    """Lotka and Volterra's hares and lynxes, which wander over a grid with walls."""
    h, c = a

    def spread(x: Any) -> Any:
        wide = fnp.pad(x, 1, mode="edge")
        return wide[1:-1, 2:] + wide[1:-1, :-2] + wide[2:, 1:-1] + wide[:-2, 1:-1] - 4 * x

    return fnp.stack([h - h * c + spread(h), h * c - c + 2 * spread(c)])


def beam(z: Any) -> Any:
    """The constraints of the clamped beam of the COPS set, clnlbeam."""
    t, x, u = z
    h = 1 / (len(t) - 1)
    return fnp.concatenate(
        [
            x[1:] - x[:-1] - h / 2 * (fnp.sin(t[1:]) + fnp.sin(t[:-1])),
            t[1:] - t[:-1] - h / 2 * (u[1:] + u[:-1]),
        ]
    )


def bending(z: Any) -> Any:
    """The objective of clnlbeam."""
    t, _, u = z
    h, load = 1 / (len(t) - 1), 350.0
    bent = load * (fnp.cos(t[1:]) + fnp.cos(t[:-1]))
    return h / 2 * fnp.sum(u[1:] ** 2 + u[:-1] ** 2 + bent)


def bordered(z: Any) -> Any:
    """Six dense blocks of three, with two rows and two columns beside them."""
    blocks, border = z[:18].reshape(6, 3), z[18:]
    inner = fnp.sin(blocks.sum(axis=1, keepdims=True)) * blocks + border.sum() ** 2
    return fnp.concatenate([inner.reshape(-1), border * fnp.sum(z**2)])


def rosenbrock(x: Any) -> Any:
    return fnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


PUBLISHED: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], int, tuple[int, int]]] = {
    # function, shape of x, nonzeros, forward and reverse products
    "Brusselator in two dimensions": (brusselator(32), (2, 32, 32), 6 * 2048, (0, 0)),
    "Lotka and Volterra on a grid": (lotka, (2, 9, 7), 2 * (6 * 63 - 2 * (9 + 7)), (0, 0)),
    "constraints of clnlbeam": (beam, (3, 21), 8 * 20, (4, 0)),
    "bordered blocks": (bordered, (20,), 6 * 9 + 2 * 36 + 4, (5, 2)),
    "arrow": (arrow, (50,), 50 + 2 * 49, (2, 1)),
    "second difference": (lambda x: x[2:] - 2 * x[1:-1] + x[:-2], (40,), 3 * 38, (3, 0)),
    "network of each example": (
        lambda x: fnp.tanh(x @ np.ones((3, 4))) @ np.ones((4, 2)),
        (10, 3),
        10 * 3 * 2,
        (3, 0),
    ),
    "interpolations": (
        lambda y: fg.vmap(lambda t: fnp.interp(t, np.arange(9.0), y))(np.array([0.5, 3.5, 7.25])),
        (9,),
        3 * 2,
        (0, 1),
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_patterns(name: str) -> None:
    f, shape, nnz, products = PUBLISHED[name]
    pattern = sparse.pattern(f)(np.ones(shape))
    assert pattern.nnz == nnz
    assert not pattern.dense_from
    how = compression(pattern)
    if products != (0, 0):
        assert (how.forward_count, how.reverse_count) == products
    else:
        assert how.count <= 13
    x = np.random.default_rng(0).uniform(0.5, 1.5, shape)
    dense = np.asarray(fg.jacfwd(f)(x)).reshape(-1, x.size)
    matrix = sparse.jacobian(f)(x).toarray()
    np.testing.assert_allclose(matrix, dense, rtol=1e-13, atol=1e-13)


HESSIANS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], int, int]] = {
    # function, shape of x, nonzeros, products
    "chained Rosenbrock": (rosenbrock, (50,), 3 * 50 - 2, 3),
    "objective of clnlbeam": (bending, (3, 21), 2 * 21, 1),
    "Lagrangian of clnlbeam": (
        lambda z: bending(z) + fnp.arange(1.0, 41.0) @ beam(z),
        (3, 21),
        2 * 21,
        1,
    ),
    "arrow": (lambda x: x[0] * fnp.sum(x**2), (30,), 30 + 2 * 29, 2),
    "pairs that overlap": (lambda x: fnp.sum((x[2:] * x[1:-1] * x[:-2]) ** 2), (30,), 144, 5),
}


@pytest.mark.parametrize("name", HESSIANS)
def test_published_hessians(name: str) -> None:
    f, shape, nnz, products = HESSIANS[name]
    x = np.random.default_rng(0).uniform(0.5, 1.5, shape)
    hessian = sparse.hessian(f)
    matrix = hessian(x)
    assert matrix.nnz == nnz
    assert hessian.products(x) == (products, 0)
    dense = np.asarray(fg.hessian(f)(x)).reshape(x.size, x.size)
    np.testing.assert_allclose(matrix.toarray(), dense, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------- the record


def test_blocks_are_named() -> None:
    def f(params: Any, x: Any) -> Any:
        return {"loss": (params["w"] @ x).sum(), "rest": (params["b"] * 2.0,)}

    params = {"w": np.ones((2, 3)), "b": np.ones(3)}
    pattern = sparse.pattern(f)(params, np.ones(3))
    assert [leaf.name for leaf in pattern.rows] == ["loss", "rest[0]"]
    assert pattern.blocks["loss"]["params['w']"].nnz == 6
    assert pattern.blocks["loss"]["params['b']"].nnz == 0
    assert pattern.blocks["rest[0]"]["params['b']"].toarray().tolist() == np.eye(3).tolist()


def test_operations_without_a_structure_are_named() -> None:
    shift = fg.extend.foreign(lambda x: x + 1.0, lambda x: x, vjp=lambda p, out, ct: (ct,))
    pattern = sparse.pattern(lambda x: shift(x) * x)(np.ones(3))
    assert pattern.nnz == 9
    (dense,) = pattern.dense_from
    assert "test_patterns.py" in dense.source
    assert "dense from" in repr(pattern)


def test_patterns_are_values(tmp_path: Any) -> None:
    pattern = sparse.pattern(lambda x: x[1:] * x[:-1])(np.ones(4))
    same = Pattern.of(np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]))
    assert pattern == same
    assert hash(pattern) == hash(same)
    assert pattern != pattern.transposed
    assert (pattern | pattern) == pattern
    assert fg.tree.leaves(pattern) == []
    pattern.save(tmp_path / "pattern.npz")
    loaded = Pattern.load(tmp_path / "pattern.npz")
    assert loaded == pattern
    assert loaded.columns[0].name == "x"
    assert repr(pattern).startswith("Pattern: 3 rows, 4 columns, 6 nonzeros (50 %)\n⠙⠦")
    with pytest.raises(ValueError, match="read-only"):
        pattern.indices[0] = 3


def test_wrong_calls_say_so() -> None:
    with pytest.raises(fg.errors.FunctionError, match=r"sparse\.pattern: expected a function"):
        sparse.pattern(3.0)  # type: ignore[arg-type]
    with pytest.raises(fg.errors.DifferentiationError, match="dtype int64"):
        sparse.pattern(lambda x: x)(np.arange(3))
    with pytest.raises(fg.errors.ShapeError, match="expected a matrix"):
        Pattern.of(np.ones(3))
    with pytest.raises(fg.errors.ShapeError, match="have no union"):
        Pattern.of(np.eye(2)) | Pattern.of(np.eye(3))
    with pytest.raises(fg.errors.ArgumentError, match="symmetric"):
        Pattern.of(np.tri(2)).colors("star")
    with pytest.raises(fg.errors.ArgumentError, match="'column', 'row' or 'star'"):
        Pattern.of(np.eye(2)).colors("rows")


def test_scipy_is_used_as_it_stores() -> None:
    doubled = scipy.sparse.coo_array(([1.0, 1.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert Pattern.of(doubled).matrix.toarray().tolist() == [[False, True], [True, False]]
