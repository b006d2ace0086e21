"""Python numbers, also traced ones, give way to arrays' dtypes; arrays made of them do not.

The dtype of a result must not depend on whether a function was called on a number, on a tracer of
it, or inside of ``jit``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of
from funcgrad._core.users_values import is_weak
from funcgrad.errors import EscapedTracerError, FuncgradError
from tests.together import together

SINGLE = fg.tensor(np.ones(3, np.float32))
NUMBERS = (True, 2, 1.5, 1j)
FUNCTIONS = tuple(
    name
    for name in fnp.__all__
    if callable(getattr(fnp, name)) and not isinstance(getattr(fnp, name), type)
)
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "f(v)": lambda f, v: f(v),
    "f(v, v)": lambda f, v: f(v, v),
    "f(v, v, v)": lambda f, v: f(v, v, v),
    "f(3, v)": lambda f, v: f(3, v),
    "f(x, v)": lambda f, v: f(SINGLE, v),
    "f(v, x)": lambda f, v: f(v, SINGLE),
    "f(x, v, v)": lambda f, v: f(SINGLE, v, v),
    "f(mask, v, v)": lambda f, v: f(SINGLE > 0, v, v),
    "f(mask, x, v)": lambda f, v: f(SINGLE > 0, SINGLE, v),
    "f([x, v])": lambda f, v: f([SINGLE, v]),
    "f([x0, v])": lambda f, v: f([SINGLE[0], v]),
}


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def met(call: Callable[[], Any]) -> Any:
    """The dtype of float32 times a result."""
    result = fg.tree.leaves(call())[0]
    return dtype_of(result * SINGLE[0])


def ways(f: Callable[[Any], Any], v: Any) -> dict[str, Callable[[], Any]]:
    """The transformations that trace a number, or that use a program staged with it."""
    found: dict[str, Callable[[], Any]] = {"program": lambda: fg.program(f)(v)(v)}
    if isinstance(v, (float, complex)):
        found["vjp"] = lambda: fg.vjp(f, v)[0]
        found["jvp"] = lambda: fg.jvp(f, (v,), (v,))[0]
    return found


def test_there_are_subjects() -> None:
    assert len(FUNCTIONS) > 250


@together("name", FUNCTIONS)
def test_a_traced_number_promotes_as_the_number_does(name: str) -> None:
    for text, call in CALLS.items():
        for v in NUMBERS:

            def f(v: Any, call: Any = call) -> Any:
                return call(getattr(fnp, name), v)

            try:
                expected = met(lambda: f(v))  # noqa: B023
            except Exception:  # not what the function is for
                continue
            for way, traced in ways(f, v).items():
                try:
                    found = met(traced)
                except EscapedTracerError:
                    raise
                except (FuncgradError, TypeError):  # such as a shape that is followed
                    continue
                assert found == expected, (name, text, v, way)


MADE: dict[str, Callable[[Any, Any], Any]] = {
    "asarray": lambda np, v: np.asarray(v),
    "array": lambda np, v: np.array(v),
    "array of one": lambda np, v: np.array([v])[0],
    "array with axes": lambda np, v: np.array(v, ndmin=1),
    "copy": lambda np, v: np.copy(v),
    "full": lambda np, v: np.full((), v),
    "full_like": lambda np, v: np.full_like(v, v),
    "zeros_like": lambda np, v: np.zeros_like(v),
    "astype": lambda np, v: np.asarray(v).astype(np.asarray(v).dtype),
    "stack": lambda np, v: np.stack([v, v])[0],
    "hstack": lambda np, v: np.hstack([v, v])[0],
    "append": lambda np, v: np.append(v, v)[0],
    "atleast_1d": lambda np, v: np.atleast_1d(v)[0],
    "ravel": lambda np, v: np.ravel(v)[0],
    "reshape": lambda np, v: np.reshape(v, (1,))[0],
    "broadcast_to": lambda np, v: np.broadcast_to(v, (2,))[0],
    "transpose": lambda np, v: np.transpose(v),
    "where": lambda np, v: np.where(True, v, v),
    "maximum": lambda np, v: np.maximum(v, v),
    "sum": lambda np, v: np.sum(v),
    "linspace": lambda np, v: np.linspace(v, v, 3),
}
BESIDE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "operators": lambda np, x, v: x * v + v,
    "power": lambda np, x, v: x**v,
    "of a power": lambda np, x, v: v**x,
    "where": lambda np, x, v: np.where(x.real > 0, x, v),
    "maximum": lambda np, x, v: np.maximum(x, v),
    "clip": lambda np, x, v: np.clip(x, v, v),
    "full_like": lambda np, x, v: np.full_like(x, v.real),
    "stack": lambda np, x, v: np.stack([x[0], v]),
    "hstack": lambda np, x, v: np.hstack([x, v]),
    "append": lambda np, x, v: np.append(x, v),
}


def everywhere(f: Callable[[Any], Any], v: Any) -> dict[str, Any]:
    """The dtypes of results on a number, on a traced one, and on one in a closure."""
    x = np.ones(2)
    found = {name: way() for name, way in ways(f, v).items()}
    found["eager"] = f(v)
    found["jit"] = fg.jit(f)(v)
    found["jit around"] = fg.jit(lambda x: f(v))(x)
    found["vmap around"] = fg.vmap(lambda x: f(v))(x)
    found["grad around"] = fg.vjp(lambda x: f(v), x)[0]
    if isinstance(v, (float, complex)):
        found["jit in vjp"] = fg.vjp(fg.jit(f), v)[0]
        found["vjp in jit"] = fg.jit(lambda v: fg.vjp(f, v)[0])(v)
    return {name: dtype_of(value) for name, value in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
@together("v", NUMBERS, ids=lambda v: type(v).__name__)
def test_an_array_made_of_a_number_is_as_strong_as_numpy_s(name: str, v: Any) -> None:
    """A weak one would show beside either of two dtypes, which take turns with the others."""
    turn = [*MADE].index(name) + NUMBERS.index(v)
    for dtype in [(np.int8, np.float32), (np.float16, np.complex64)][turn % 2]:
        x: Any = np.ones((), dtype)
        expected = (x * MADE[name](np, v)).dtype

        def scaled(v: Any, x: Any = x) -> Any:
            return fg.tensor(x) * MADE[name](fnp, v)

        found = everywhere(scaled, v)
        assert {way: own for way, own in found.items() if own != expected} == {}, dtype


@pytest.mark.slow
@pytest.mark.parametrize("name", BESIDE)
@together("v", NUMBERS, ids=lambda v: type(v).__name__)
@together("dtype", [np.int8, np.float16, np.float32, np.complex64])
def test_a_number_gives_way_as_numpy_has_it(name: str, v: Any, dtype: Any) -> None:
    x = np.ones(2, dtype)
    try:
        expected = BESIDE[name](np, x, v).dtype
    except (TypeError, ValueError):  # NumPy refuses, such as the maximum of a truth value
        return
    found = everywhere(lambda v: BESIDE[name](fnp, fg.tensor(x), v), v)
    assert {way: own for way, own in found.items() if own != expected} == {}


@pytest.mark.parametrize("make", [fg.tensor, fnp.asarray, fnp.array, fnp.copy])
def test_what_is_made_of_a_traced_number_is_not_weak(make: Any) -> None:
    seen = []

    def f(v: Any) -> Any:
        seen.append((is_weak(v), is_weak(make(v))))
        return make(v) * v

    fg.program(f)(1.5)
    fg.grad(f)(1.5)
    assert seen == [(True, False), (True, False)]
    assert fg.grad(f)(1.5) == 3.0
    assert fg.hessian(f)(1.5) == 2.0


def test_an_array_stays_itself() -> None:
    x = fg.tensor([1.0, 2.0])
    assert fnp.asarray(x) is x
    assert fg.grad(lambda x: fnp.sum(x) if fnp.asarray(x) is x else fnp.sum(2 * x))(x)[0] == 1.0


@together("q", [1, 1.0, 0.3, True])
@together("f", [fnp.percentile, fnp.quantile])
def test_a_traced_order_of_a_quantile_gives_way(f: Any, q: Any) -> None:
    x = fg.tensor(np.array([1.0, 2.0, 4.0], np.float32))
    staged = fg.program(lambda q: f(x, q))(q)(q)
    # Of True it gives way in one only, as in NumPy from 2.4 on, and in both before.
    expected = "float64" if q is True and f is fnp.percentile else "float32"
    assert staged.dtype == f(x, q).dtype == expected
    assert staged == f(x, q)


def test_followed_numbers_that_are_parameters_are_looked_at() -> None:
    staged = fg.jit(lambda k: fnp.diagflat([1.0], k))
    assert staged(1).shape == (2, 2)
    assert staged(-2).shape == (3, 3)
    filled = fg.jit(lambda x, fill: fnp.nan_to_num(x, nan=fill))
    assert filled(np.nan, 2.0) == 2.0
    assert filled(np.nan, 3.0) == 3.0


LOOPS: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "fori_loop": lambda f, n: fg.fori_loop(0, n, lambda i, a: f(i), fnp.asarray(True)),
    "while_loop": lambda f, n: fg.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, f(c[0])), (0, fnp.asarray(True))
    )[1],
    "scan": lambda f, n: fg.scan(lambda i, _: (i + 1, f(i)), 0, length=n)[1][-1],
    "jit": lambda f, n: fg.jit(f)(n - 1),
    "jit by NumPy": lambda f, n: fg.jit(f, backend="numpy")(n - 1),
    "program": lambda f, n: fg.program(f)(n - 1)(n - 1),
    "grad": lambda f, n: fg.value_and_grad(lambda x: (x, f(x)), has_aux=True)(n - 1.0)[0][1],
    "jvp": lambda f, n: fg.jvp(f, (n - 1.0,), (1.0,))[0],
    "jit of a loop": lambda f, n: fg.jit(lambda k: LOOPS["while_loop"](f, k))(n),
    "jit of a loop by NumPy": lambda f, n: fg.jit(
        lambda k: LOOPS["while_loop"](f, k), backend="numpy"
    )(n),
    "vmap of a loop": lambda f, n: fg.vmap(lambda k: LOOPS["while_loop"](f, k))(np.array([1, n]))[
        1
    ],
}
LOGIC: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "not": (lambda i: ~(i == 2), False),
    "not not": (lambda i: ~~(i == 2), True),
    "not and": (lambda i: ~((i == 2) & (i > 0)), False),
    "and not": (lambda i: (i > 0) & ~(i > 1), False),
    "or not": (lambda i: (i > 2) | ~(i == 3), True),
    "xor not": (lambda i: (i == 2) ^ ~(i == 2), True),
    "not of a function": (lambda i: ~fnp.logical_not(i == 2), True),
}


@together("loop", LOOPS)
@together("name", LOGIC)
def test_logic_of_comparisons_of_numbers_gives_truth_values(loop: str, name: str) -> None:
    f, expected = LOGIC[name]
    found = LOOPS[loop](f, 3)
    assert (dtype_of(found), bool(found)) == (np.dtype(bool), expected)
    chosen = LOOPS[loop](lambda i: fnp.where(f(i), 1.0, 0.0) > 0.5, 3)
    assert bool(chosen) == expected


def test_counts_of_comparisons_are_python_s() -> None:
    def f(n: Any) -> Any:
        return (n > 1) + (n > 2) - (n > 3), -(n > 1), (n > 1) * (n > 2), sum([n > 1, n > 2])

    for way in (fg.jit(f), fg.jit(f, backend="numpy"), lambda n: fg.jvp(f, (n,), (1.0,))[0]):
        assert tuple(map(int, way(3.0))) == f(3.0) == (2, -1, 1, 2)
