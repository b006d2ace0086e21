"""Programs of small arrays, element by element, give what the programs themselves give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.interface import Compiled, evaluated
from funcgrad._backends.native.element_programs import MOST, by_elements
from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import concrete
from funcgrad._programs.program import Program
from tests.conformance import every_case, every_primitive, representatives
from tests.together import together


class ElementBackend:
    """A backend that evaluates programs element by element."""

    name = "elements"

    def supports(self, program: Program) -> bool:
        """Support what closes over no tracer."""
        return program.is_raw and not program.guards

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """Leave a program as it is."""
        return program

    def compile(self, program: Program) -> Compiled:
        """Evaluate the program of elements."""
        return evaluated(by_elements(program).verify())

    def inspect(self, program: Program) -> str:
        """Show the program of elements."""
        return by_elements(program).to_text()


def assert_same(f: Any, *args: Any) -> Program:
    program = fg.program(f)(*args)
    values = [concrete(leaf) for leaf in fg.tree.leaves((args, {}))]
    apart = by_elements(program).verify()
    with np.errstate(all="ignore"):
        expected, actual = program.evaluate(values), apart.evaluate(values)
    for one, other in zip(actual, expected, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        size = np.abs(other[np.isfinite(other)]).max(initial=1) if other.dtype.kind in "fc" else 1
        close = 0.0 if other.dtype.kind not in "fc" else 50 * float(np.finfo(other.dtype).eps)
        np.testing.assert_allclose(one, other, close, close * float(size))
    return apart


@pytest.mark.slow
def test_every_kind_of_program_runs() -> None:
    fg.testing.check_backend(ElementBackend())


@together("primitive", every_primitive(), ids=str, pieces=4)
def test_every_primitive_is_evaluation_s(primitive: Primitive) -> None:
    for case in representatives(every_case([primitive])):
        assert_same(case.function(), *case.args)


def test_reductions_and_products_of_several_axes() -> None:
    x = np.arange(12.0).reshape(2, 3, 2) - 5.5
    for axis in (0, 1, 2, (0, 1), (0, 2), (-1, 0), None):
        for reduced in (fnp.sum, fnp.max, fnp.prod, fnp.mean, fnp.any):
            apart = assert_same(lambda x, r=reduced, a=axis: r(x, axis=a), x)
            assert not any(equation.name == "sum" for equation in apart.equations)
    for subscripts in ("ijk,kj->i", "ijk,kj->ji", "ijk,lj->kil", "ijk,jm->mki"):
        _, second = subscripts.partition("->")[0].split(",")
        sizes = {"i": 2, "j": 3, "k": 2, "l": 2, "m": 2}
        y = np.cos(np.arange(np.prod([sizes[k] for k in second]))).reshape(
            [sizes[k] for k in second]
        )
        assert_same(lambda x, y, s=subscripts: fnp.einsum(s, x, y), x, y)


def test_small_systems_are_eliminated_with_exchanged_rows() -> None:
    rng = np.random.default_rng(3)
    for n in range(1, 5):
        for a in (
            rng.standard_normal((n, n)),
            np.eye(n)[::-1] * 3.0,
            np.triu(np.ones((n, n)))[::-1],
        ):
            a = a.astype(np.float32 if n == 2 else float)
            apart = assert_same(lambda a: fnp.linalg.inv(a, failed="nan"), a)
            assert all(equation.name != "inv" for equation in apart.equations)
            b = rng.standard_normal((n, 2)).astype(a.dtype)
            assert_same(lambda a, b: fnp.linalg.solve(a, b, failed="nan"), a, b)


def test_systems_without_a_solution_are_nan_or_stay() -> None:
    singular = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [1.0, 0.0, 1.0]])
    for a in (singular, singular.T, np.zeros((3, 3)), np.diag([0.0, 1.0, 2.0])):
        assert_same(lambda a: fnp.linalg.inv(a, failed="nan"), a)
        assert_same(lambda a: fnp.linalg.solve(a, np.zeros(3), failed="nan"), a)
    apart = assert_same(fnp.linalg.inv, singular + np.eye(3))
    assert "inv" in [equation.name for equation in apart.equations]  # it may raise an error


def test_an_example_without_an_inverse_disturbs_no_other() -> None:
    def root(x: Any) -> Any:
        def step(c: Any) -> Any:
            matrix = fnp.stack([fnp.stack([2.0 * c[0], 0.0]), fnp.stack([c[1], c[0]])])
            return c - fnp.linalg.inv(matrix, failed="nan") @ (c[0] * c - x)

        return fg.while_loop(lambda c: fnp.sum(abs(c[0] * c - x)) > 1e-9, step, x)

    xs = np.random.default_rng(5).uniform(1.0, 2.0, (40, 2))
    run = fg.jit(fg.vmap(root), backend="native")
    usual = np.asarray(run(xs))
    xs[7] = 0.0, 1.0  # the matrix is singular
    xs[11] = np.nan
    others = np.delete(np.arange(40), (7, 11))
    assert np.isnan(np.asarray(run(xs))[[7, 11]]).any(1).all()
    np.testing.assert_array_equal(np.asarray(run(xs))[others], usual[others])
    order = np.random.default_rng(6).permutation(40)
    np.testing.assert_array_equal(np.asarray(run(xs[order])), np.asarray(run(xs))[order])


def test_large_arrays_stay() -> None:
    apart = assert_same(lambda x: fnp.sum(x * x[:2].sum()), np.ones(MOST + 1))
    assert [equation.name for equation in apart.equations].count("multiply") == 1


def test_loops_with_carries_of_one_shape_and_with_others() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            a, b, n, wide = c
            return (b + row, a * x, n + 1, wide + a[0]), (a[::-1], wide[:2] * n)

        first = (x, x + 1.0, 0, np.ones(MOST + 3))
        (a, b, n, wide), rows = fg.scan(step, first, np.arange(8.0).reshape(4, 2), reverse=True)
        c = fg.while_loop(lambda c: fnp.sum(c[1]) < 50.0, lambda c: (c[1], c[0] * 1.5 + b), (a, b))
        return a, b, n, wide, rows, c, fg.switch(n, [lambda a, b: a, lambda a, b: b], b, a)

    x = np.array([0.5, -0.25])
    assert_same(f, x)
    assert_same(fg.grad(lambda x: sum([fnp.sum(leaf) for leaf in fg.tree.leaves(f(x))])), x)
