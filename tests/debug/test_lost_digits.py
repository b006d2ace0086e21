"""``digits`` names the operations that lose digits, and counts them right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import debug
from funcgrad.errors import FunctionError


def cancelling(x: Any) -> Any:
    return fnp.sqrt(x + 1.0) - fnp.sqrt(x)


def line_of(function: Any, offset: int) -> str:
    return f"test_lost_digits.py:{function.__code__.co_firstlineno + offset}"


@pytest.mark.parametrize(("dtype", "x"), [(np.float32, 1e5), (np.float64, 1e12)])
def test_a_cancellation_is_named_and_counted(dtype: Any, x: float) -> None:
    lost = debug.digits(cancelling)(dtype(x))
    (worst, *_) = lost.losses
    assert (worst.operation, worst.line) == ("subtract", line_of(cancelling, 1))
    exact = 1.0 / (np.sqrt(np.longdouble(x) + 1) + np.sqrt(np.longdouble(x)))
    found = np.longdouble(cancelling(dtype(x)))
    right = float(-np.log10(abs(found - exact) / exact))
    ((path, counted),) = lost.digits
    assert path == ""
    assert counted == pytest.approx(right, abs=0.1)
    assert worst.digits == pytest.approx(right, abs=0.1)
    assert worst.lost > 3.0
    assert "subtract at test_lost_digits.py" in repr(lost)


@pytest.mark.parametrize("kind", [float, complex, np.float64])
def test_an_argument_of_pythons_is_followed_too(kind: type[Any]) -> None:
    def f(x: Any) -> Any:
        return (1 - fnp.cos(x)) / x**2

    (loss,) = debug.digits(f)(kind(1e-4)).losses
    assert loss.operation == "subtract"
    assert 7 < loss.digits < 9
    assert "-0.0" not in repr(debug.digits(lambda x: fg.jvp(f, (x,), (1 + 0 * x,))[1])(kind(1e-4)))


def test_a_stable_function_loses_nothing() -> None:
    lost = debug.digits(lambda x: 1.0 / (fnp.sqrt(x + 1.0) + fnp.sqrt(x)))(np.float32(1e5))
    assert lost.losses == ()
    assert lost.digits[0][1] > 6.5


@pytest.mark.parametrize("way", [fg.jit, fg.checkpoint, lambda f: lambda x: fg.vmap(f)(x)])
def test_ways_that_are_opened(way: Any) -> None:
    x = np.array([1e5, 2e5], np.float32)
    assert debug.digits(way(cancelling))(x).losses[0].operation == "subtract"


def test_derivatives_loops_and_trees() -> None:
    def f(p: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return (c + 1e4) - 1e4, None

        return fg.scan(step, p["x"], None, length=3)[0]

    x = np.float32(0.123456)
    lost = debug.digits(f)({"x": x})
    assert lost.losses[0].operation == "subtract"
    assert lost.losses[0].steps[0][0] == "scan"
    gradient = debug.digits(fg.grad(lambda x: fnp.log(1.0 - fnp.cos(x))))(np.float32(1e-2))
    assert gradient.losses
    assert line_of(test_derivatives_loops_and_trees, 11) in {loss.line for loss in gradient.losses}


def test_what_has_no_higher_precision_counts_as_exact() -> None:
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    lost = debug.digits(lambda a: fnp.linalg.eigvalsh(a) + fnp.linalg.inv(a)[0])(a)
    assert lost.losses == ()
    assert debug.digits(lambda x: x + 1)(np.arange(3)).digits == ()


def test_infinities_are_no_loss() -> None:
    lost = debug.digits(lambda x: fnp.exp(x) * 0.0 + fnp.arctan(1.0 / x))(np.array([0.0, 1e3]))
    assert all(np.isfinite(loss.lost) for loss in lost.losses)


def test_a_wrong_argument_is_explained() -> None:
    with pytest.raises(FunctionError, match="digits"):
        debug.digits(3.0)  # type: ignore[arg-type]


def test_the_greatest_loss_comes_first() -> None:
    def both(x: Any) -> Any:
        little = (x * 1e-3 + 1.0) - 1.0
        return little, 1.0 - fnp.cos(x)

    first, second = debug.digits(both)(1e-5).losses
    assert (first.line, second.line) == (line_of(both, 2), line_of(both, 1))
    assert first.lost > second.lost
