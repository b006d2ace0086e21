"""Second derivatives of smooth functions of singular values and eigenvalues, at every rank and at
ties: in all orders of modes, against differences with 60 digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._primitives.determinants import cofactors, det
from funcgrad._primitives.value_slopes import slopes, weighted
from funcgrad.errors import DegenerateError
from funcgrad.scipy.linalg import subspace_angles
from tests.conformance import in_turn
from tests.together import together

Function = Callable[[Any], Any]


def drawn(seed: int, shape: tuple[int, ...], turn: complex = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + turn * rng.standard_normal(shape)


def with_values(s: Any, shape: tuple[int, int], turn: complex = 0) -> Any:
    """A matrix with some singular values."""
    u, v = [np.linalg.qr(drawn(n, (n, n), turn))[0] for n in shape]
    return u[:, : len(s)] * np.array(s) @ np.conj(v[:, : len(s)].T)


def with_eigenvalues(w: Any, turn: complex = 0) -> Any:
    v = np.linalg.qr(drawn(5, (len(w), len(w)), turn))[0]
    x = v * np.array(w) @ np.conj(v.T)
    return (x + np.conj(x.T)) / 2


def inner(x: Any, y: Any) -> float:
    return float(np.sum(np.conj(np.asarray(x)) * np.asarray(y)).real)


def in_every_order(f: Function, x: Any, d: Any, e: Any) -> dict[str, Callable[[], float]]:
    """The second derivative in two directions."""
    along = lambda x: fg.jvp(f, (x,), (d,))[1]  # noqa: E731 - three uses
    return {
        "forward over forward": lambda: float(fg.jvp(along, (x,), (e,))[1]),
        "forward over reverse": lambda: inner(fg.hvp(f, (x,), (d,)), e),
        "reverse over forward": lambda: inner(fg.grad(along)(x), e),
        "reverse over reverse": lambda: inner(fg.vjp(fg.grad(f), x)[1](d)[0], e),
        "jit": lambda: inner(fg.jit(lambda x: fg.hvp(f, (x,), (d,)))(x), e),
        "jit by NumPy": lambda: inner(
            fg.jit(lambda x: fg.vjp(fg.grad(f), x)[1](d)[0], backend="numpy")(x), e
        ),
        "vmap": lambda: inner(fg.vmap(lambda x: fg.hvp(f, (x,), (d,)))(np.stack([x + d, x]))[1], e),
    }


def exactly(f: Function, x: Any, d: Any, e: Any) -> float:
    with mpmath.workdps(60):
        a, b, c = [mpmath.matrix([[*map(mpmath.mpmathify, row)] for row in y]) for y in (x, d, e)]
        h = mpmath.mpf(10) ** -15

        def at(s: int, t: int) -> Any:
            return f(a + s * h * b + t * h * c)

        return float(mpmath.re((at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)) / (4 * h * h)))


def squares(a: Any) -> list[Any]:
    """The squares of the min(m, n) greatest singular values, in ascending order."""
    wide = a.transpose_conj() * a if a.cols <= a.rows else a * a.transpose_conj()
    return [abs(w) for w in mpmath.eighe(wide, eigvals_only=True)]


# A function of singular values, and of their squares with many digits.
EVEN: dict[str, tuple[Function, Function]] = {
    "the squares": (lambda s: fnp.sum(s**2), lambda q: sum(q)),
    "log det(I + A' A)": (
        lambda s: fnp.sum(fnp.log1p(s**2)),
        lambda q: sum(mpmath.log(1 + x) for x in q),
    ),
    "smoothed lengths": (
        lambda s: fnp.sum(fnp.sqrt(s**2 + 1)),
        lambda q: sum(mpmath.sqrt(1 + x) for x in q),
    ),
    "mixed": (
        lambda s: fnp.sum(s**2) ** 2 * fnp.sum(fnp.cos(s)),
        lambda q: sum(q) ** 2 * sum(mpmath.cos(mpmath.sqrt(x)) for x in q),
    ),
}
VALUES: dict[str, Function] = {
    "svdvals": fnp.linalg.svdvals,
    "svd(compute_uv=False)": lambda x: fnp.linalg.svd(x, compute_uv=False),
    "svd()[1]": lambda x: fnp.linalg.svd(x)[1],
    "svd(full_matrices=False)[1]": lambda x: fnp.linalg.svd(x, full_matrices=False)[1],
}
MATRICES: dict[str, Any] = {
    **{
        f"{shape} of rank {rank}": with_values(np.arange(rank, 0, -1.0), shape)
        for shape in ((3, 3), (3, 2), (2, 3))
        for rank in range(min(shape) + 1)
    },
    "diag(1, 0)": np.diag([1.0, 0.0]),
    "diag(1, 0, 0)": np.diag([1.0, 0.0, 0.0]),
    "the identity": np.eye(2),
    "a tie": with_values([2.0, 2.0, 1.0], (3, 3)),
    "a tie, oblong": with_values([1.5, 1.5], (2, 3)),
    "a tie, and a zero": with_values([2.0, 2.0], (3, 3)),
    "ties, and zeros": with_values([2.0, 2.0], (4, 5)),
    "three alike": with_values([2.0, 2.0, 2.0, 1.0], (4, 4)),
    "complex": with_values([2.0, 1.0, 0.5], (3, 3), 1j),
    "complex of rank 2": with_values([2.0, 1.0], (3, 3), 1j),
    "complex of rank 1": with_values([2.0], (2, 3), 1j),
    "complex tie": with_values([2.0, 2.0, 1.0], (3, 3), 1j),
}


def check(
    f: Function, exact: Function, x: Any, refusing: tuple[str, ...], hermitian: bool = False
) -> None:
    d, e = [drawn(seed, x.shape, 1j if np.iscomplexobj(x) else 0) for seed in (61, 62)]
    if hermitian:
        d, e = d + np.conj(d.T), e + np.conj(e.T)
    expected = exactly(exact, x, d, e)
    for order, way in in_every_order(f, x, d, e).items():
        try:
            found = way()
        except DegenerateError:
            assert order in refusing
            continue
        assert_allclose(found, expected, rtol=1e-7, atol=1e-8, err_msg=order)


# Without ties, and with one zero at most, of square matrices of real numbers.
APART = (
    *("(3, 3) of rank 3", "(3, 3) of rank 2", "(3, 2) of rank 2", "(2, 3) of rank 2"),
    *("complex", "diag(1, 0)"),
)

ORDERS = (
    "forward over forward",
    "forward over reverse",
    "reverse over forward",
    "reverse over reverse",
)


def composed(outer: Function, inner: Function) -> Function:
    return lambda x: outer(inner(x))


@pytest.mark.slow
@pytest.mark.parametrize("matrix", MATRICES)
def test_even_functions_of_singular_values(matrix: str) -> None:
    """Of each matrix two functions in turn; each function meets every way to the values."""
    x, turn = MATRICES[matrix], list(MATRICES).index(matrix)
    if matrix in APART:
        refusing: tuple[str, ...] = ()
    elif np.any(x):
        refusing = ORDERS[:1]
    else:  # of zeros alone the derivatives that tell the direction are 0
        refusing = (ORDERS[0], ORDERS[2])
    for place, (ours, exact) in enumerate(in_turn([*EVEN.values()], turn, 2)):
        (values,) = in_turn([*VALUES.values()], turn // 2 + place, 1)
        check(composed(ours, values), composed(exact, squares), x, refusing)


@pytest.mark.parametrize("matrix", ["diag(1, 0)", "(3, 3) of rank 1", "ties, and zeros"])
def test_an_even_function_of_singular_values(matrix: str) -> None:
    ours, exact = EVEN["smoothed lengths"]
    f = lambda x: ours(fnp.linalg.svdvals(x))  # noqa: E731
    check(f, lambda a: exact(squares(a)), MATRICES[matrix], ORDERS[:1])


SQUARED: dict[str, Any] = {
    "diag(1, 0)": np.diag([1.0, 0.0]),
    "zeros": np.zeros((2, 3)),
    "the identity": np.eye(3),
    "directions that leave slopes at rounding": np.eye(3, 4) * [1, 1, 0, 1],
    "one that rounds to zero": np.diag([1.0, 1e-17, 0.0]),
    "one that is near to zeros": with_values([1.0, 5e-15], (4, 4)),
    "two that are near to zeros": with_values([1.0, 5e-15, 6e-15], (5, 4)),
    "one that is near to a zero, oblong": with_values([1.0, 4e-15, 2e-15], (3, 12)),
    "a chain": np.diag(1 + 1.7e-14 * np.arange(4)),
}


@together("matrix", SQUARED)
def test_the_squares_have_a_constant_hessian(matrix: str) -> None:
    x = SQUARED[matrix]
    for values in (fnp.linalg.svdvals, lambda x: fnp.linalg.svd(x, compute_uv=False)):
        found = fg.hessian(lambda x, values=values: fnp.sum(values(x) ** 2))(x)
        assert_allclose(found.reshape(x.size, x.size), 2 * np.eye(x.size), atol=1e-12)


def test_eigenvalues_that_are_equal_by_others_between_them() -> None:
    x = np.diag(1 + 1.7e-14 * np.arange(4))
    d = drawn(7, (4, 4))
    found = fg.hvp(lambda x: fnp.sum(fnp.linalg.eigvalsh(x) ** 2), (x,), (d,))
    assert_allclose(found, d + d.T, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_second_derivatives_of_tiny_and_huge_matrices(scale: float) -> None:
    x, d, e = with_eigenvalues([2, 2, 1]), drawn(8, (3, 3)), drawn(9, (3, 3))

    def function(size: float) -> Function:
        return lambda x: fnp.sum(fnp.exp((fnp.linalg.svdvals(x) / size) ** 2))

    expected = in_every_order(function(1.0), x, d, e)["forward over reverse"]()
    ways = in_every_order(function(scale), x * scale, d, e)
    for order in ORDERS[1:]:
        assert_allclose(ways[order]() * scale * scale, expected, rtol=1e-9)


def test_curvature_that_cancels_is_no_kink() -> None:
    def f(x: Any) -> Any:  # where all are equal, the Hessian in them is a multiple of ones
        w = fnp.linalg.eigvalsh(x)
        return fnp.sum(fnp.exp(w)) * fnp.sum(fnp.cos(w))

    ones = np.eye(3).ravel()
    found = fg.hessian(f)(np.eye(3)).reshape(9, 9)
    assert_allclose(found, -2 * np.e * np.sin(1) * np.outer(ones, ones), atol=1e-12)


def ascending(a: Any) -> list[Any]:
    return sorted(mpmath.eighe((a + a.transpose_conj()) / 2, eigvals_only=True))


# A function of a matrix by eigenvalues, the same with many digits, and matrices.
SPECTRAL: dict[str, tuple[Function, Function, list[Any]]] = {
    "exponentials": (
        lambda x: fnp.sum(fnp.exp(fnp.linalg.eigvalsh(x))),
        lambda a: sum(map(mpmath.exp, ascending(a))),
        [np.eye(2), with_eigenvalues([1, 1, 3]), with_eigenvalues([0, 0, 0, 1], 1j)],
    ),
    "logarithms, with vectors": (
        lambda x: fnp.sum(fnp.log(fnp.linalg.eigh(x)[0])),
        lambda a: sum(map(mpmath.log, ascending(a))),
        [np.eye(2), with_eigenvalues([1, 1, 3], 1j)],
    ),
    "log det": (
        lambda x: fnp.sum(fnp.log(fnp.linalg.eigvalsh(x))),
        lambda a: sum(map(mpmath.log, ascending(a))),
        [np.eye(3), with_eigenvalues([2, 2, 3, 3])],
    ),
    "the greatest": (
        lambda x: fnp.linalg.eigvalsh(x)[-1],
        lambda a: ascending(a)[-1],
        [np.diag([1.0, 1.0, 3.0]), with_eigenvalues([1, 1, 3]), with_eigenvalues([1, 1, 3], 1j)],
    ),
    "the greatest, squared": (
        lambda x: fnp.linalg.eigvalsh(x)[-1] ** 2,
        lambda a: ascending(a)[-1] ** 2,
        [np.diag([1.0, 1.0, 3.0]), with_eigenvalues([1, 1, 1, 3])],
    ),
    "the 2-norm": (
        lambda x: fnp.linalg.norm(x, 2),
        lambda a: mpmath.sqrt(squares(a)[-1]),
        [np.diag([1.0, 1.0, 3.0]), with_eigenvalues([0, 0, 3])],
    ),
    "the nuclear norm": (
        lambda x: fnp.linalg.norm(x, "nuc"),
        lambda a: sum(map(mpmath.sqrt, squares(a))),
        [np.eye(2), with_values([1, 1, 1], (3, 3)), with_values([2, 2], (2, 3))],
    ),
    "squares of absolute values": (
        lambda x: fnp.sum(fnp.square(fnp.linalg.svd(x, compute_uv=False, hermitian=True))),
        lambda a: sum(w**2 for w in ascending(a)),
        [np.diag([2.0, 0.0]), np.diag([2.0, -2.0]), with_eigenvalues([0, 0, 1])],
    ),
}


@pytest.mark.parametrize("name", SPECTRAL)
def test_functions_of_equal_eigenvalues(name: str) -> None:
    f, exact, matrices = SPECTRAL[name]
    for x in matrices:
        check(f, exact, x, ORDERS[:1], hermitian=x.shape[0] == x.shape[1])


def test_first_derivatives_at_equal_eigenvalues() -> None:
    x, d = with_eigenvalues([1, 1, 3], 1j), drawn(6, (3, 3), 1j)
    w, v = np.linalg.eigh(x)
    gradient = v * np.exp(w) @ np.conj(v.T)
    for f in (
        lambda x: fnp.sum(fnp.exp(fnp.linalg.eigh(x)[0])),
        lambda x: fnp.sum(fnp.exp(fnp.linalg.eigvalsh(x))),
    ):
        for g in (f, fg.jit(f), fg.jit(f, backend="numpy"), lambda x, f=f: fg.vmap(f)(x[None])[0]):
            assert_allclose(fg.grad(g)(x), gradient, atol=1e-12)
            assert_allclose(fg.jvp(g, (x,), (d,))[1], inner(gradient, d), atol=1e-12)


@pytest.mark.parametrize("hermitian", [True, False])
def test_rules_of_slopes_and_of_weighted_vectors(hermitian: bool) -> None:
    x, told, d = (drawn(n, (3, 3)) for n in (31, 32, 33))
    how = {"hermitian": hermitian, "lower": True}
    count = np.zeros(())
    fg.testing.check_grads(lambda *x: slopes(x[0], x[1], count, x[2], **how), (x, told, d), order=1)
    how["least"] = False
    rule = lambda *x: weighted(x[0], x[1], count, x[2], **how)  # noqa: E731
    fg.testing.check_grads(rule, (x, told, d[0]), order=1)


@pytest.mark.parametrize("turn", [0, 1j])
def test_rules_of_cofactors(turn: complex) -> None:
    x = drawn(34, (3, 3), turn)
    fg.testing.check_grads(lambda x: cofactors(x, det(x)), (x,), order=1)


def test_what_cannot_be_known_is_refused() -> None:
    x, d = np.eye(2), np.array([[1.0, 2.0], [2.0, -1.0]])
    least = lambda x: fnp.linalg.eigvalsh(x)[0]  # noqa: E731 - not symmetric: no second derivative
    flat = lambda x: fnp.sum((fnp.linalg.eigvalsh(x) - 1) ** 2)  # noqa: E731 - of gradient 0
    for f, orders in ((least, ORDERS), (flat, (ORDERS[0], ORDERS[2]))):
        ways = in_every_order(f, x, d, d)
        for order in orders:
            with pytest.raises(DegenerateError):
                ways[order]()
    # Two pullbacks through one decomposition: which derivative belongs to which direction?

    def both(x: Any) -> Any:
        w, pull = fg.vjp(fnp.linalg.eigvalsh, x)
        return fnp.sum(pull(w**2)[0] * d) + fnp.sum(pull(w**3)[0] * d.T[::-1])

    with pytest.raises(DegenerateError):
        fg.grad(both)(x)


def test_the_direction_of_a_second_derivative_may_move() -> None:
    f = lambda x: fnp.sum(fnp.exp(fnp.linalg.eigvalsh(x)))  # noqa: E731
    x, d, e = with_eigenvalues([1, 1, 3]), drawn(6, (3, 3)), drawn(7, (3, 3))
    along = lambda d: fg.hvp(f, (x,), (d,))  # noqa: E731
    assert_allclose(fg.jvp(along, (d,), (e,))[1], along(e), atol=1e-12)
    assert_allclose(fg.jacfwd(along)(d), fg.hessian(f)(x), atol=1e-12)


def test_a_third_derivative_at_a_tie_is_refused() -> None:
    f = lambda x: fnp.sum(fnp.exp(fnp.linalg.eigvalsh(x)))  # noqa: E731
    d = np.array([[1.0, 2.0], [2.0, -1.0]])
    with pytest.raises(DegenerateError):
        fg.grad(lambda x: fnp.sum(fg.hvp(f, (x,), (d,)) * d))(np.eye(2))


@pytest.mark.slow
@pytest.mark.parametrize("values", [fnp.linalg.svdvals, lambda x: fnp.linalg.eigvalsh(x @ x.mT)])
@together("shape", [(3, 3), (3, 2), (2, 3)])
def test_third_derivatives_elsewhere_are_right(values: Any, shape: Any) -> None:
    f = lambda x: fnp.sum(fnp.sin(values(x)[:2]))  # noqa: E731
    fg.testing.check_grads(f, (drawn(3, shape),), order=3)


@pytest.mark.parametrize(
    "x", [np.diag([3.0, 0.0]), np.zeros((2, 2)), np.array([[1.0, 2.0], [2, 4]])]
)
def test_zeros_have_the_least_subgradient(x: Any) -> None:
    u, s, vh = np.linalg.svd(x)
    expected = u * (s > 1e-12) @ vh
    for f in (
        lambda x: fnp.sum(fnp.linalg.svdvals(x)),
        lambda x: fnp.sum(fnp.linalg.svd(x)[1]),
        lambda x: fnp.linalg.norm(x, "nuc"),
    ):
        assert_allclose(fg.grad(f)(x), expected, atol=1e-12)
    e = drawn(4, x.shape)
    for f in (
        *[lambda x, p=order: fnp.linalg.norm(x, p) for order in ("nuc", 2, -2)],
        lambda x: fnp.linalg.cond(x, -2),
    ):
        pushed = fg.jvp(f, (x,), (e,))[1]
        assert_allclose(pushed, inner(fg.grad(f)(x), e), atol=1e-12)


@pytest.mark.parametrize("matrix", ["diag(1, 0, 0)", "the identity", "ties, and zeros"])
def test_values_without_the_vectors_beside_them_have_tangents(matrix: str) -> None:
    x = MATRICES[matrix]
    e = drawn(6, x.shape)
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    expected = np.sum(u * np.sin(s) @ vh * e)
    f = lambda x: fnp.sum(fnp.cos(fnp.linalg.svd(x)[1]))  # noqa: E731
    for way in (f, fg.jit(f), lambda x: fg.vmap(f)(x[None])[0], fg.checkpoint(f)):
        assert_allclose(fg.jvp(way, (x,), (e,))[1], -expected, atol=1e-12)
    with pytest.raises(DegenerateError):
        fg.jvp(lambda x: fnp.linalg.svd(x), (x,), (e,))
    with pytest.raises(DegenerateError):
        fg.jvp(lambda x: fnp.sum(fnp.sin(fnp.linalg.svd(x)[0])), (x,), (e,))


@pytest.mark.parametrize("near", [True, False])
def test_planes_in_space_share_a_line(near: bool) -> None:
    a = drawn(1, (3, 2))
    b = a @ [[1.0, 0.3], [0.2, 2.0]] + 0.05 * drawn(2, (3, 2)) if near else drawn(3, (3, 2))

    def normal(x: Any) -> Any:
        i, j = ([x[k, c] for k in range(3)] for c in (0, 1))
        return [i[k - 2] * j[k - 1] - i[k - 1] * j[k - 2] for k in range(3)]

    def exact(x: Any) -> Any:
        first, second = normal(a), normal(x)
        length = [mpmath.sqrt(sum(c * c for c in v)) for v in (first, second)]
        cosine = sum(c * d for c, d in zip(first, second, strict=True)) / length[0] / length[1]
        return mpmath.acos(abs(cosine))

    f = lambda x: fnp.sum(subspace_angles(a, x))  # noqa: E731
    check(f, exact, b, ORDERS[:1])


@pytest.mark.parametrize("name", ["svdvals", "eigvalsh", "svd", "eigh"])
def test_programs_of_decompositions_can_be_saved(name: str) -> None:
    x = with_eigenvalues([1.0, 2.0, 2.0])
    f = lambda x: fg.tree.leaves(getattr(fnp.linalg, name)(x))  # noqa: E731
    g = lambda x: fg.hvp(lambda x: fnp.sum(fnp.linalg.svdvals(x) ** 3), (x,), (x,))  # noqa: E731
    for staged in (fg.program(f)(x), fg.program(g)(x)):
        loaded = fg.Program.from_json(staged.to_json())
        for ours, theirs in zip(fg.tree.leaves(loaded(x)), fg.tree.leaves(staged(x)), strict=True):
            assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
