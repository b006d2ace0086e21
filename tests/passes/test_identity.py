"""Products with identity matrices become copies, to the last bit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._passes.identity import copy_products_with_identities
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.program import Program
from tests.subjects import assert_bits
from tests.together import together
from tests.transforms.support import numbers

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def count(program: Program, name: str) -> int:
    return [equation.operation.name for equation in program.equations].count(name)


def identity(n: int, dtype: Any = np.float64) -> Any:
    return np.eye(n, dtype=dtype)


def times_identity(x: Any) -> Any:
    return fnp.asarray(identity(x.shape[-2], x.dtype)) @ x


def identity_times(x: Any) -> Any:
    return x @ fnp.asarray(identity(x.shape[-1], x.dtype))


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "from the left": (times_identity, (64, 100)),
    "from the right": (identity_times, (100, 64)),
    "of a stack": (times_identity, (3, 64, 100)),
    "of a transposition": (lambda x: times_identity(x.T), (200, 64)),
    "of a transposition from the right": (lambda x: identity_times(x.T), (64, 200)),
}
by_product = pytest.mark.parametrize(("f", "shape"), PRODUCTS.values(), ids=PRODUCTS)


def placed(x: Any, *special: float) -> Any:
    """An array with some numbers, each in a row and a column of its own."""
    x = np.array(x)
    for k, number in enumerate(special):
        x[..., 3 * k + 1, 5 * k + 2] = number
    return x


@DTYPES
@by_product
def test_a_product_is_a_copy_with_the_same_bits(f: Any, shape: Any, dtype: Any) -> None:
    x = numbers(*shape, seed=1).astype(dtype)
    staged = fg.program(f)(x)
    copied = copy_products_with_identities(staged).verify()
    assert count(copied, "identity_product") == 1
    assert count(copied, "matmul") == 0
    assert len(copied.equations) == len(staged.equations)
    assert copy_products_with_identities(copied) == copied
    small = np.finfo(dtype).smallest_subnormal
    for given in (
        x,
        np.full(shape, -0.0, dtype),
        -np.abs(placed(x, 0.0, -0.0, small, np.finfo(dtype).max)),
        placed(x, np.inf),
        placed(x, np.nan, -np.inf, -0.0, np.inf),
        np.full(shape, np.inf, dtype),
    ):
        assert_bits(copied(given), staged(given))
        (compiled,) = compile_program(copied)(given)
        assert_bits(compiled, np.asarray(staged(given)))
        assert compiled.flags.c_contiguous


@DTYPES
def test_nothing_else_is_a_copy(dtype: Any) -> None:
    x = numbers(64, 100).astype(dtype)
    off_by_one, scaled, row = (identity(64, dtype) for _ in range(3))
    off_by_one[3, 4] = 1.0
    scaled[5, 5] = 2.0
    row[7, 7] = 0.0
    for matrix in (off_by_one, scaled, row, identity(64, dtype)[::-1].copy()):
        staged = fg.program(lambda x, matrix=matrix: fnp.asarray(matrix) @ x)(x)
        assert copy_products_with_identities(staged) is staged
    given = fg.program(lambda a, x: a @ x)(identity(64, dtype), x)
    assert copy_products_with_identities(given) is given


@together(
    ("f", "shape"),
    [
        (times_identity, (8, 10_000)),
        (times_identity, (64, 10)),
        (lambda x: times_identity(x.T), (5000, 32)),
        (lambda x: fnp.asarray(identity(1000)) @ x, (1000,)),
        (lambda x: fnp.asarray(identity(64)) @ x.astype(np.float32), (64, 100)),
        (lambda x: fnp.asarray(identity(64)) @ (x * 1j), (64, 100)),
    ],
    ids=["few rows", "little", "few rows to turn", "a vector", "promoted", "complex"],
)
def test_where_a_product_is_as_quick_it_stays(f: Any, shape: Any) -> None:
    staged = fg.program(f)(np.ones(shape))
    assert count(copy_products_with_identities(staged), "matmul") == 1


# ------------------------------------------------------------------------------- derivatives


def loss(w: Any, x: Any, y: Any) -> Any:
    return fnp.mean(fnp.log1p(fnp.exp(-y * (x @ w))))


def layers(v: Any, w: Any) -> Any:
    return fnp.tanh(fnp.tanh(v @ w) @ w.T)


DERIVATIVES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "forward over reverse": (fg.hessian(loss), (numbers(50), numbers(300, 50), numbers(300))),
    "reverse over reverse": (
        fg.jacrev(fg.jacrev(loss)),
        (numbers(50), numbers(300, 50), numbers(300)),
    ),
    "forward, of layers": (fg.jacfwd(layers), (numbers(80), numbers(80, 120))),
    "reverse, of a product": (fg.jacrev(lambda v, w: w @ v), (numbers(100), numbers(80, 100))),
}


@DTYPES
@together(("f", "args"), DERIVATIVES.values(), ids=DERIVATIVES)
def test_derivatives_in_all_directions_start_from_a_copy(f: Any, args: Any, dtype: Any) -> None:
    args = [arg.astype(dtype) for arg in args]
    staged = fg.program(f)(*args)
    copied = copy_products_with_identities(staged)
    assert count(copied, "identity_product") == 1
    assert_bits(copied(*args), staged(*args))
    rows = placed(args[1], -0.0, np.inf, np.nan)
    given = args[0], rows, *args[2:]
    assert_bits(copied(*given), staged(*given))


def test_a_jitted_hessian_copies() -> None:
    args = numbers(50), numbers(1000, 50), numbers(1000)
    optimized = optimize(fg.program(fg.hessian(loss))(*args))
    assert optimize(optimized) == optimized
    assert count(optimized, "identity_product") == 1
    assert "identity_product.evaluate(" in optimized.to_numpy_source()
    run = compile_program(optimized)
    rows = placed(args[1], -0.0, np.inf)
    for x in (args[1], rows, args[1]):
        (result,) = run(args[0], x, args[2])
        assert_bits(result, np.asarray(optimized(args[0], x, args[2])))


def test_derivatives_of_such_programs_are_those_of_the_function() -> None:
    f, (w, x, y) = DERIVATIVES["forward over reverse"]
    copied = copy_products_with_identities(optimize(fg.program(f)(w, x, y)))
    assert count(copied, "identity_product") == 1
    assert_allclose(fg.jit(f)(w, x, y), f(w, x, y), rtol=1e-12, atol=1e-15)

    def curvature(f: Any) -> Any:
        return lambda x: fnp.sum(fnp.sin(100 * f(w, x, y)))

    for g in (copied, fg.jit(f)):
        slope = fg.grad(curvature(g))(x)
        assert_allclose(slope, fg.grad(curvature(f))(x), rtol=1e-9, atol=1e-12)
        _, push = fg.jvp(curvature(g), (x,), (y[:, None] * x,))
        assert_allclose(push, fnp.sum(slope * (y[:, None] * x)), rtol=1e-9)
    batch = fnp.stack([x, x + 1.0])
    assert_allclose(
        fg.vmap(lambda x: copied(w, x, y))(batch)[1], f(w, x + 1.0, y), rtol=1e-9, atol=1e-12
    )


def test_a_longer_matrix_with_ones_on_its_diagonal_is_no_identity() -> None:
    program = fg.program(lambda x: x @ fnp.asarray(np.eye(64, 80)))(np.ones((100, 64)))
    assert copy_products_with_identities(program) is program
