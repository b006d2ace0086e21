"""Errors of compiled programs are the errors of the function without ``jit``."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import FuncgradError
from tests.together import together

X = fg.tensor(np.arange(3.0))

# A function of x and integers, integers with which it is staged, and others which it refuses.
REFUSED: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "gather": (lambda x, i: x[i] * 2.0, 1, 10),
    "take": (lambda x, i: fnp.take(x, i), [1], [-7]),
    "take_along_axis": (lambda x, i: fnp.take_along_axis(x, i, 0), [1], [10]),
    "scatter_set": (lambda x, i: x.at[i].set(0.0), 1, 10),
    "scatter_add": (lambda x, i: x.at[i].add(x[0]), 1, 10),
    "power": (lambda x, i: i ** (i - 3) * x, [4], [1]),
}

WAYS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "jit": fg.jit,
    "jit in jit": lambda f: fg.jit(fg.jit(f)),
    "jit of jvp": lambda f: fg.jit(lambda x, i: fg.jvp(lambda x: f(x, i), (x,), (x,))[1]),
    "jvp of jit": lambda f: _jvp_of(fg.jit(f)),
    "grad of jit": lambda f: _grad_of(fg.jit(f)),
    "vmap of jit": lambda f: fg.vmap(fg.jit(f), (None, 0)),
}


def _jvp_of(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, i: fg.jvp(lambda x: f(x, i), (x,), (x,))


def _grad_of(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, i: fg.grad(lambda x: fnp.sum(f(x, i)))(x)


@together("way", WAYS)
@together("name", REFUSED)
def test_a_compiled_program_refuses_as_the_function_does(name: str, way: str) -> None:
    f, staged_with, refused = REFUSED[name]
    batch = [1] if way == "vmap of jit" else []
    first = fg.tensor(np.broadcast_to(staged_with, batch + list(np.shape(staged_with))))
    other = fg.tensor(np.broadcast_to(refused, batch + list(np.shape(refused))))
    with pytest.raises(FuncgradError) as eager:
        f(X, fg.tensor(refused))
    jitted = WAYS[way](f)
    expected = np.asarray(fg.tree.leaves(jitted(X, first))[0])
    with pytest.raises(type(eager.value)) as compiled:
        jitted(X, other)
    assert type(compiled.value) is type(eager.value)
    told = str(compiled.value)
    # The operation with its arguments, or the tensor and its shape.
    assert "64[" in told or "a tensor of the shape (3,)" in told, told
    np.testing.assert_array_equal(fg.tree.leaves(jitted(X, first))[0], expected)


def test_the_operation_and_its_arguments_are_named() -> None:
    jitted = fg.jit(lambda x, i: fnp.sin(x)[i] + fnp.cos(x)[1])
    jitted(X, fg.tensor(1))
    with pytest.raises(IndexError, match=r"gather\(float64\[3\], int64\[\].*index 10 is out of"):
        jitted(X, fg.tensor(10))
    program = fg.program(lambda i, j: i**j)(fg.tensor(2), fg.tensor(1))
    with pytest.raises(ValueError, match=r"power\(int64\[\], int64\[\]\).*negative integer powers"):
        program(fg.tensor(2), fg.tensor(-1))


def test_a_function_catches_what_its_program_raises() -> None:
    class OutsideError(Exception):
        pass

    def filled(x: Any, i: Any) -> Any:
        try:
            return x.at[i].add(1.0)
        except IndexError:
            return x.at[0].add(-1.0)

    def told(x: Any, i: Any) -> Any:
        try:
            return x[i]
        except IndexError:
            pass
        raise OutsideError

    for backend in ("numpy", "native"):
        jitted, jitted_told = (fg.jit(f, backend=backend) for f in (filled, told))
        jitted(X, 1), jitted_told(X, 1)
        np.testing.assert_array_equal(jitted(np.asarray(X), 7), filled(X, 7))
        np.testing.assert_array_equal(jitted(X, 1), filled(X, 1))
        with pytest.raises(OutsideError):
            jitted_told(X, 7)


def test_an_error_that_the_shapes_tell_may_be_caught_in_a_program() -> None:
    def first_of(x: Any) -> Any:
        try:
            return x[7]
        except IndexError:
            return x[0]

    jitted = fg.jit(first_of)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(jitted(X)) == float(X[0])
        assert float(jitted(X + 1)) == float(X[0] + 1)
        assert float(fg.program(first_of)(X)(X + 1)) == float(X[0] + 1)
    assert jitted.stagings == 1


def test_an_error_of_the_function_itself_runs_it_no_second_time() -> None:
    runs = [0]

    def failing(x: Any, i: Any) -> Any:
        runs[0] += 1
        return x[i]

    def around(f: Any) -> Any:
        return fg.jit(lambda x, i: f(x, i))

    with pytest.raises(IndexError):
        around(around(around(around(fg.jit(failing)))))(X, 7)
    assert runs[0] <= 2**5
