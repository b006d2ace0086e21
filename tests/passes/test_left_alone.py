"""What the merging of products leaves alone: what would be wrong, and what gains nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.passes.facts import BLOCK_BYTES, bytes_of
from funcgrad.passes.product_sums import merge_sums_of_products
from funcgrad.passes.products import merge_products
from funcgrad.programs.program import Program
from tests.programs import assert_bits
from tests.transforms.support import numbers


def count(program: Program, name: str) -> int:
    return [equation.operation.name for equation in program.equations].count(name)


def with_dtypes(*dtypes: str) -> tuple[Any, ...]:
    return tuple(numbers(3, 3, seed=seed).astype(dtype) for seed, dtype in enumerate(dtypes))


def products(w: Any, *factors: Any) -> Any:
    return [fnp.sin(factor @ w) for factor in factors]


def sums(*factors: Any) -> Any:
    pairs = zip(factors, factors[1:] + factors[:1], strict=True)
    terms = [factor.T @ other for factor, other in pairs]
    return sum(terms[1:], terms[0])


@pytest.mark.parametrize("dtypes", ["iiii", "DDDD", "eeee", "fddd", "dfff", "fdfd"])
def test_products_of_other_and_of_mixed_dtypes(dtypes: str) -> None:
    args = with_dtypes(*dtypes)
    for f, change in ((products, merge_products), (sums, merge_sums_of_products)):
        program = fg.program(f)(*args)
        assert change(program) == program


def test_products_of_one_dtype_among_others() -> None:
    def f(w: Any, v: Any, *factors: Any) -> Any:
        narrow = [factor.astype("f") for factor in factors]
        return products(w, *factors), products(v, *narrow)

    w, v, *factors = with_dtypes("d", "f", "d", "f", "d", "f", "d")
    program = fg.program(f)(w, v, *factors)
    merged = merge_products(program).verify()
    assert count(program, "matmul") - count(merged, "matmul") == 2 + 4
    expected = fg.tree.leaves(program(w, v, *factors))
    for own, other in zip(fg.tree.leaves(merged(w, v, *factors)), expected, strict=True):
        assert own.dtype == other.dtype
        np.testing.assert_allclose(own, other, rtol=1e-4)


@pytest.mark.parametrize("shapes", [((3, 0), (4, 3)), ((0, 3), (4, 0)), ((3, 2), (0, 3))])
def test_products_without_elements(shapes: Any) -> None:
    (w, x) = np.ones(shapes[0]), np.ones(shapes[1])
    for f in (products, lambda w, *xs: sum([x @ w for x in xs[1:]], xs[0] @ w)):
        program = fg.program(f)(w, x, x + 1, x + 2, x + 3)
        for change in (merge_products, merge_sums_of_products):
            assert change(program) == program


def test_stacks_of_matrices_and_numbers() -> None:
    def f(w: Any, v: Any, *factors: Any) -> Any:
        return [factor @ w for factor in factors], [factor[0, 0] @ v for factor in factors]

    program = fg.program(f)(
        np.ones((3, 3)), np.ones(3), *[np.ones((2, 3, 3)) + k for k in range(4)]
    )
    assert merge_products(program) == program


def test_factors_that_are_given_are_no_rows_of_what_is_read_last() -> None:
    def f(stack: Any, *factors: Any) -> Any:
        return products(*factors), sums(*factors), fnp.cos(stack)[1]

    args = numbers(2, 3, 3), *[numbers(3, 3, seed=seed) for seed in range(7)]
    program = fg.program(f)(*args)
    expected = fg.tree.leaves(program(*args))
    for change in (merge_products, merge_sums_of_products):
        merged = change(program).verify()
        assert count(merged, "matmul") < count(program, "matmul")
        for own, other in zip(fg.tree.leaves(merged(*args)), expected, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-12)


def test_products_that_nothing_reads() -> None:
    def f(w: Any, *factors: Any) -> Any:
        made = [factor @ w for factor in factors]
        return made[:2]

    program = fg.program(f)(*with_dtypes(*"ddddd"))
    assert merge_products(program) == program


def test_a_product_that_a_guard_reads_is_there_before_what_follows() -> None:
    def f(w: Any, *factors: Any) -> Any:
        first, *others = [factor @ w for factor in factors]
        return first if first else others, [fnp.sin(each) for each in others]

    args = np.ones((3, 1)), *[numbers(3, seed=seed) for seed in range(4)]
    program = fg.program(f)(*args)
    merged = merge_products(program).verify()
    (guard,) = merged.guards
    assert count(merged, "matmul") == 2  # that of the guard, and the others
    assert_bits(merged(*args), program(*args))
    with pytest.raises(fg.errors.GuardError):
        merged(args[0], 0 * args[1], *args[2:])
    assert guard.use == program.guards[0].use


def test_not_more_products_are_joined_than_is_good_for_memory() -> None:
    def f(w: Any, xs: Any) -> Any:
        return [fnp.sin(x @ w) for x in xs]

    args = numbers(16, 16), numbers(1500, 2, 16)
    program = fg.program(f)(*args)
    merged = merge_products(program).verify()
    made = [e.results[0] for e in merged.equations if e.operation.name == "matmul"]
    assert 1 < len(made) < 10
    assert max(map(bytes_of, made)) <= BLOCK_BYTES


SUMS: dict[str, Callable[..., Any]] = {
    "two terms": lambda x, y: x.T @ y + y.T @ x,
    "terms that others read": lambda x, y: (lambda a, b, c: (a + b + c, a, b, c))(
        x.T @ y, y.T @ x, x.T @ x
    ),
    "a sum that others read": lambda x, y: (lambda a: (fnp.sin(a + y.T @ x), a))(x.T @ y + x),
    "broadcast": lambda x, y: x.T @ y + y[0] + x[0] + y[1, 0],
    "promoted": lambda x, y: (x.T @ y).astype("f") + y.T @ x + (x.T @ x).astype("f"),
    "numbers": lambda x, y: x[0] @ y[0] + x[1] @ y[1] + x[2] @ y[2],
    "products of numbers": lambda x, y: x * y + y * y + x * x,
    "columns of one": lambda x, y: x[:, :1] * y[0] + x[:, 1:2] * y[1] + x[:, 2:] * y[2],
    "sums of rows": lambda x, y: fnp.sum(x, axis=1) + fnp.sum(y, axis=1),
    "differences": lambda x, y: x.T @ y - y.T @ x - x.T @ x,
}


@pytest.mark.parametrize("f", SUMS.values(), ids=SUMS)
def test_sums_that_are_none_of_products(f: Any) -> None:
    program = fg.program(f)(numbers(3, 3), numbers(3, 3, seed=1))
    assert merge_sums_of_products(program) == program
