"""``would_notice`` plants mistakes in the rules that a function uses, and changes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._primitives.elementwise import multiply
from funcgrad.errors import ArgumentError, DifferentiationError, FunctionError
from funcgrad.testing import laws, would_notice

X = fg.tensor([0.5, 1.25])
A = fg.tensor([[2.0, 0.5], [0.25, 1.0]])

softcube = fg.custom_vjp(lambda x: x * x * x)
softcube.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x * x * ct,))


cosine = fg.jit(fnp.cos)


def everything(x, a):
    y = fnp.tanh(a @ x) / fnp.sum(x)
    c, _ = fg.scan(lambda c, r: (fnp.sin(c * r), None), 1.0, x)
    z = cosine(x) + fg.checkpoint(fnp.exp)(x) + softcube(x)
    return fnp.sum(fnp.linalg.solve(a, y)) * c + fnp.sum(z)


@pytest.mark.slow
def test_a_good_test_misses_nothing():
    def along_a_line(f):
        return lambda t: f(X + t * X[::-1], A + t * A**2)

    right = along_a_line(everything)
    slope = (right(0.25 + 1e-5) - right(0.25 - 1e-5)) / 2e-5

    def good(f):
        np.testing.assert_allclose(fg.grad(along_a_line(f))(0.25), slope, rtol=1e-7)
        np.testing.assert_allclose(fg.jvp(along_a_line(f), (0.25,), (1.0,))[1], slope, rtol=1e-7)

    notice = would_notice(good, everything, X, A)
    assert notice.missed == ()
    operations = {mistake.operation for mistake in notice.noticed}
    assert {"matmul", "tanh", "divide", "sum", "sin", "cos", "exp", "solve"} <= operations
    assert any("lambda" in name for name in operations)  # the custom rule, as an operation
    kinds = {mistake.kind for mistake in notice.noticed}
    assert {"sign", "factor", "wrong axis", "missing term 0", "swapped arguments"} <= kinds
    assert repr(notice).endswith(
        f"{len(notice.noticed)} of {len(notice.noticed)} mistakes are noticed."
    )


def test_a_weak_test_is_told_what_it_misses():
    def weak(f):
        assert fg.grad(f)(X)[0] > 0

    notice = would_notice(weak, lambda x: fnp.sum(fnp.exp(x) * x), X)
    missed = {(mistake.operation, mistake.kind) for mistake in notice.missed}
    assert ("exp", "factor") in missed
    assert ("sum", "sign") in {(mistake.operation, mistake.kind) for mistake in notice.noticed}
    assert "These are not:" in repr(notice)
    assert "test_would_notice.py" in repr(notice)


def test_a_test_of_one_mode_misses_mistakes_of_both():
    notice = would_notice(lambda f: laws.modes_agree(f, (X,)), fnp.sin, X)
    assert {mistake.kind for mistake in notice.noticed} == {"factor, in reverse mode only"}
    assert {"sign", "factor"} <= {mistake.kind for mistake in notice.missed}


def test_nothing_is_changed():
    before = multiply.differential, fg.grad(lambda x: fnp.sum(x * x))(X).tolist()

    def check(f):
        assert fg.grad(lambda x: fnp.sum(x * x))(X).tolist() == before[1]

    would_notice(check, lambda x: fnp.sum(x * x), X)
    assert multiply.differential is before[0]
    assert fg.grad(lambda x: fnp.sum(x * x))(X).tolist() == before[1]


def test_the_mistaken_functions_work_in_every_mode():
    def check(f):
        laws.vmap_is_loop(f, (X,))
        laws.jit_is_eager(f, (X,))
        laws.hessian_symmetric(f, (X,))

    notice = would_notice(check, lambda x: fnp.sin(x[0]) * x[1], X)
    assert len(notice.noticed) + len(notice.missed) > 5


def test_bad_calls_are_explained():
    with pytest.raises(FunctionError):
        would_notice(3, fnp.sin, X)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="the test fails for sin as it is: ZeroDivisionError"):
        would_notice(lambda f: 1 / 0, fnp.sin, X)
    with pytest.raises(ArgumentError, match="uses no operation that has a derivative"):
        would_notice(lambda f: None, lambda x: x, X)
    with pytest.raises(DifferentiationError, match="nothing to differentiate"):
        would_notice(lambda f: None, lambda x: x * 2, np.array([1, 2]))
