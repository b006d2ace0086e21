"""Functions that SciPy evaluates: machine code calls the inner loops of SciPy's ufuncs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Elementwise
from tests.backends.native.other_machines import machine_code_of
from tests.conformance import every_primitive

pytest.importorskip("llvmlite")
special = pytest.importorskip("scipy.special")
functions = fg.scipy.special


def _has_ufunc(primitive: Primitive) -> bool:
    structure = primitive.structure
    return isinstance(structure, Elementwise) and bool(structure.ufunc)


def _first_line(f: Any, *args: Any) -> str:
    return str(fg.jit(f, backend="native").lower(*args).source.splitlines()[0])


@pytest.mark.slow
def test_every_function_has_scipys_bits() -> None:
    tried = 0
    for primitive in filter(_has_ufunc, every_primitive()):
        for sample in primitive.samples():
            with np.errstate(all="ignore"):
                expected = np.asarray(primitive.evaluate(*sample.args, **sample.params))

            def f(*args: Any) -> Any:
                return primitive(*args, **sample.params)  # noqa: B023 - called here

            (out,) = machine_code_of(f, *sample.args)
            assert out.dtype == expected.dtype, primitive.name
            np.testing.assert_array_equal(out, expected, err_msg=primitive.name)
            tried += 1
    assert tried > 300


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_operands_of_several_shapes_and_kinds(dtype: str) -> None:
    x = np.linspace(0.1, 0.9, 12).reshape(4, 3).astype(dtype)
    row, integers = x[:1] + x.dtype.type(1), np.arange(1, 13).reshape(4, 3)
    wide = np.empty((8, 3), dtype)
    wide[::2] = x
    for f in (
        lambda: functions.betainc(row, x, 0.25 * x),
        lambda: functions.betainc(2.0, 3.0, x.T),
        lambda: functions.gammainc(integers, x.astype(float)),
        lambda: functions.gammaln(wide[::2]),
        lambda: functions.gammaln(integers),
        lambda: functions.hyp2f1(1, 2.0, row, x),
        lambda: functions.gammaln(x[0, 0]),
    ):
        out, expected = fg.jit(f, backend="native")(), f()
        assert out.dtype == expected.dtype
        np.testing.assert_array_equal(out, expected)

    def g(x: Any, row: Any, k: Any) -> Any:
        return functions.betainc(row, k, x) + functions.gammaln(x[::-1])

    np.testing.assert_array_equal(
        fg.jit(g, backend="native")(x, row, integers), g(x, row, integers)
    )
    assert _first_line(g, x, row, integers) == "; called back: nothing"


def test_loops_batches_and_derivatives() -> None:
    def likelihood(a: Any, x: Any) -> Any:
        return fnp.sum(a * fnp.log(x) - functions.gammaln(a) + functions.log_ndtr(x))

    x = np.linspace(0.5, 3.0, 7)
    for f in (
        fg.value_and_grad(likelihood),
        lambda a, x: fg.scan(lambda c, t: (functions.gammaln(t + 0.1 * c), c), a, x),
        lambda a, x: fg.vmap(fg.grad(likelihood), (0, None))(a + x, x),
        lambda a, x: fg.while_loop(lambda c: c < 9.0, lambda c: c + functions.i0(c), a),
    ):
        out, expected = fg.jit(f, backend="native")(1.5, x), f(1.5, x)
        for a, b in zip(fg.tree.leaves(out), fg.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
        assert _first_line(f, 1.5, x) == "; called back: nothing"


def test_errors_that_users_ask_scipy_for_are_raised() -> None:
    run = fg.jit(lambda x: 2.0 * functions.gammaln(x), backend="native")
    assert run(np.zeros(3))[0] == np.inf
    with special.errstate(all="raise"):
        for size in (3, 100_000):
            with pytest.raises(special.SpecialFunctionError):
                run(np.zeros(size))
    np.testing.assert_array_equal(run(np.ones(3)), np.zeros(3))


def test_threads_may_call_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    run = fg.jit(lambda x: fnp.sum(functions.gammaln(x)), backend="native")
    x = np.linspace(0.5, 9.0, 50_000)
    expected = run(x)
    with ThreadPoolExecutor(4) as pool:
        assert all(out == expected for out in pool.map(run, [x] * 20))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
def test_polygamma_by_the_loop_of_zeta(dtype: str) -> None:
    x = np.array([0.0, 1.0, 2.5, 20.0, 5e4, -1.5, np.inf, np.nan])
    x = np.arange(1, 9).astype(dtype) if dtype == "i4" else x.astype(dtype)
    orders = np.arange(6)[:, None]

    def slopes(x: Any) -> Any:
        return fg.grad(lambda x: fnp.sum(functions.digamma(x)))(x)

    for f in (lambda x: functions.polygamma(orders, x), *([] if dtype == "i4" else [slopes])):
        out, expected = fg.jit(f, backend="native")(x), f(x)
        assert out.dtype == expected.dtype
        np.testing.assert_array_equal(out, expected)
        if hasattr(special._ufuncs, "_zeta"):
            assert _first_line(f, x) == "; called back: nothing"
