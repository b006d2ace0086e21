"""``tanhsinh``: known integrals, SciPy's results, derivatives in every mode, batches, failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
from scipy.special import digamma, gamma

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DtypeError, FuncgradError, FunctionError, ShapeError
from funcgrad.integrate import tanhsinh
from tests.together import together

INF = np.inf

KNOWN: dict[str, tuple[Callable[[Any], Any], float, float, complex]] = {
    "smooth": (fnp.exp, 0.0, 1.0, np.e - 1.0),
    "root": (lambda x: 1.0 / fnp.sqrt(x), 0.0, 1.0, 2.0),
    "strong power": (lambda x: x**-0.9, 0.0, 1.0, 10.0),
    "logarithm": (lambda x: fnp.log(x) ** 2, 0.0, 1.0, 2.0),
    "backwards": (lambda x: fnp.log(x) ** 2, 1.0, 0.0, -2.0),
    "gamma": (lambda x: fnp.exp(-x) / fnp.sqrt(x), 0.0, INF, np.sqrt(np.pi)),
    "from infinity": (lambda x: fnp.exp(-x), INF, 0.0, -1.0),
    "below": (lambda x: 1.0 / (1.0 + x * x), -INF, 0.0, np.pi / 2.0),
    "both": (lambda x: fnp.exp(-x * x), -INF, INF, np.sqrt(np.pi)),
    "overflow far outside": (lambda x: fnp.exp(x) / (1 + fnp.exp(2 * x)), -INF, INF, np.pi / 2),
    "odd": (fnp.sin, -1.0, 1.0, 0.0),
    "complex": (lambda x: fnp.exp(1j * x), 0.0, 1.0, np.sin(1.0) + 1j * (1.0 - np.cos(1.0))),
    "zero": (lambda x: 0.0 * x, 0.0, 1.0, 0.0),
    "empty": (lambda x: 1.0 / x, 0.0, 0.0, 0.0),
}


@together("name", KNOWN)
def test_known_integrals(name: str) -> None:
    f, a, b, value = KNOWN[name]
    found = tanhsinh(f, a, b)
    assert bool(found.success)
    np.testing.assert_allclose(found.integral, value, rtol=1e-13, atol=1e-16)
    assert abs(complex(found.integral) - value) <= float(found.error) + 1e-14 * abs(value)


@together("name", ["strong power", "both"])
def test_limits_may_be_traced_and_infinite(name: str) -> None:
    f, a, b, value = KNOWN[name]
    staged = fg.jit(lambda a, b: tanhsinh(f, a, b))(a, b)
    np.testing.assert_allclose(staged.integral, value, rtol=1e-13)
    assert int(staged.nfev) == int(tanhsinh(f, a, b).nfev)


@together(
    "f, a, b, status",
    [
        (lambda x: 1.0 / x, -1.0, 1.0, -3),  # a pole at a node
        (lambda x: x * np.nan, 0.0, 1.0, -3),
        (lambda x: x, np.nan, 1.0, -3),
        (lambda x: fnp.sqrt(1.0 - x), 0.0, 2.0, -2),  # not real in the second half
        (lambda x: 1.0 / x, 0.0, 1.0, -2),
    ],
)
def test_failures_are_told(f: Any, a: float, b: float, status: int) -> None:
    for run in (tanhsinh, lambda f, a, b: fg.jit(lambda a, b: tanhsinh(f, a, b))(a, b)):
        found = run(f, a, b)
        assert (bool(found.success), int(found.status)) == (False, status)
        assert np.isnan(found.integral) == (status == -3)


def test_nothing_lies_between_equal_limits() -> None:
    for end in (2.0, np.inf, -np.inf):
        found = tanhsinh(lambda x: x, end, end)
        assert (bool(found.success), float(found.integral), float(found.error)) == (True, 0.0, 0.0)
        assert float(fg.grad(lambda c: tanhsinh(lambda x: c * x, end, end).integral)(2.0)) == 0.0  # noqa: B023
    assert float(tanhsinh(lambda x: -x, np.inf, np.inf, log=True).integral) == -np.inf


def test_levels_and_tolerances() -> None:
    def levels(**options: Any) -> list[int]:
        found = tanhsinh(lambda x: fnp.sin(30.0 * x), 0.0, 1.0, **options)
        return [int(found.status), int(found.maxlevel), int(found.nfev)]

    assert levels(maxlevel=1) == [-2, 1, 32]
    assert levels(minlevel=6) == [0, 6, 1024]
    assert levels(atol=10.0, minlevel=0) == [0, 1, 32]
    assert levels(rtol=0.1)[1] < levels()[1]
    single = tanhsinh(lambda x: 1.0 / fnp.sqrt(x), np.float32(0.0), np.float32(1.0))
    assert single.integral.dtype == np.float32
    assert bool(single.success)


@together("name", ["smooth", "root", "odd", "zero", "empty", "gamma"])
def test_no_error_is_small_enough_for_tolerances_of_zero(name: str) -> None:
    f, a, b, value = KNOWN[name]
    found = tanhsinh(f, a, b, atol=0.0, rtol=0.0, maxlevel=6)
    theirs = scipy.integrate.tanhsinh(
        lambda x: np.array(f(x)), a, b, atol=0.0, rtol=0.0, maxlevel=6
    )
    assert int(found.status) == int(theirs.status)
    assert int(found.maxlevel) == max(int(theirs.maxlevel), 0)
    np.testing.assert_allclose(found.integral, value, rtol=1e-13, atol=1e-16)
    logs = tanhsinh(lambda x: -x, 0.0, 1.0, log=True, rtol=-INF, maxlevel=4)
    assert (int(logs.status), int(logs.maxlevel)) == (-2, 4)


def test_as_scipy_with_arrays() -> None:
    rates = np.array([[1.0], [10.0]])
    ends = np.array([0.5, 1.0, 2.0])
    ours = tanhsinh(lambda x, c: fnp.sin(c * x), 0.0, ends, args=(rates,))
    theirs = scipy.integrate.tanhsinh(lambda x, c: np.sin(c * x), 0.0, ends, args=(rates,))
    np.testing.assert_allclose(ours.integral, theirs.integral, rtol=1e-13)
    whole = tanhsinh(
        lambda x: fnp.stack([x[0], fnp.sin(10.0 * x[1])]), np.zeros(2), 1.0, preserve_shape=True
    )
    np.testing.assert_allclose(whole.integral, [0.5, (1.0 - np.cos(10.0)) / 10.0], rtol=1e-13)
    assert int(whole.maxlevel[0]) < int(whole.maxlevel[1])


def test_logarithms() -> None:
    found = tanhsinh(lambda x: -(x**2) - 2000.0, -INF, INF, log=True, rtol=np.log(1e-10))
    np.testing.assert_allclose(found.integral, -2000.0 + 0.5 * np.log(np.pi), rtol=1e-14)
    assert float(found.error) < float(found.integral) + np.log(1e-10)

    def width(m: Any) -> Any:  # -log(m) / 2 and a constant
        return tanhsinh(lambda x: -m * x**2 - 2000.0, -INF, INF, log=True).integral

    for run in (fg.grad(width), fg.jit(fg.grad(width)), fg.jacfwd(width)):
        np.testing.assert_allclose(run(3.0), -1.0 / 6.0, rtol=1e-12)


def moment(p: Any, end: Any) -> Any:
    return tanhsinh(lambda x, p: x ** (p - 1.0) * fnp.exp(-x), 0.0, end, args=p).integral


def test_derivatives_in_every_mode() -> None:
    fg.testing.check_grads(moment, (1.5, 2.0))
    exact = gamma(0.5) * digamma(0.5)
    for run in (fg.grad(moment), fg.jit(fg.grad(moment)), fg.jacfwd(moment)):
        np.testing.assert_allclose(run(0.5, INF), exact, rtol=1e-13)
    np.testing.assert_allclose(fg.jit(fg.grad(moment, 1))(1.5, INF), 0.0)
    np.testing.assert_allclose(fg.grad(moment, 1)(1.5, 2.0), 2.0**0.5 * np.exp(-2.0), rtol=1e-14)
    second = fg.jit(fg.hessian(lambda p: moment(p[0], p[1])))(fg.tensor([1.5, 2.0]))
    there = 2.0**0.5 * np.exp(-2.0)
    np.testing.assert_allclose(second[1], [np.log(2.0) * there, there * (0.25 - 1.0)], rtol=1e-12)
    np.testing.assert_allclose(second[0, 1], second[1, 0], rtol=1e-12)


def test_batches_and_closed_values() -> None:
    powers = np.array([0.5, 1.0, 2.0])
    loop = [float(fg.grad(moment)(p, INF)) for p in powers]
    np.testing.assert_allclose(fg.vmap(fg.grad(moment), (0, None))(powers, INF), loop, rtol=1e-12)
    np.testing.assert_allclose(
        fg.jit(fg.vmap(fg.grad(moment), (0, None)))(powers, INF), loop, rtol=1e-12
    )
    joint = tanhsinh(lambda x, p: x ** (p - 1.0) * fnp.exp(-x), 0.0, INF, args=powers).integral
    np.testing.assert_allclose(joint, gamma(powers), rtol=1e-13)

    def closed(k: Any) -> Any:
        return tanhsinh(lambda x: fnp.exp(-k * x), 0.0, INF).integral

    np.testing.assert_allclose(fg.grad(closed)(2.0), -0.25, rtol=1e-13)
    np.testing.assert_allclose(fg.jit(fg.grad(fg.grad(closed)))(2.0), 0.25, rtol=1e-13)


REFUSED: dict[str, tuple[dict[str, Any], type[FuncgradError], str]] = {
    "callback": ({"callback": print}, ArgumentError, "callback is not supported"),
    "levels": ({"maxlevel": -1}, ArgumentError, "maxlevel has to be"),
    "minlevel": ({"minlevel": 0.5}, ArgumentError, "minlevel has to be"),
    "rtol": ({"rtol": -1.0}, ArgumentError, "rtol has to be a number >= 0"),
    "atol": ({"atol": "small"}, ArgumentError, "atol has to be a number >= 0"),
    "limit": ({"a": 1j}, DtypeError, "limits are real, got a of dtype complex128"),
    "shapes": ({"a": np.zeros(2), "b": np.ones(3)}, ShapeError, "do not broadcast"),
    "result": ({"f": lambda x: fnp.stack([x, x])}, ShapeError, "one number for each x"),
    "arguments": ({"args": (1.0, 2.0)}, FunctionError, "2 further arguments"),
}


@together("name", REFUSED)
def test_bad_input(name: str) -> None:
    options, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        tanhsinh(**{"f": fnp.exp, "a": 0.0, "b": 1.0, **options})
