"""Loops and branches in compiled text give the same bits as their evaluation."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from funcgrad._backends.numpy import plan
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._backends.numpy.loops import DEEPEST
from funcgrad._backends.numpy.prepare import prepared
from funcgrad._backends.numpy.writer import numpy_source
from funcgrad._passes.pipeline import optimize
from funcgrad.errors import GuardError
from tests.control.nests import LIBRARY, function_of, nests
from tests.strangers.iteration import iterate, iterated
from tests.subjects import assert_bits
from tests.together import together


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def check(program: fg.Program, *args: Any) -> str:
    """Compare the compiled program with the evaluated one; returns its text."""
    before = [np.array(arg) for arg in args]
    for each in (program, prepared(optimize(program))):
        expected = each.evaluate(args)
        run = compile_program(each)
        first = run(*args)
        assert_bits([*first], [*expected])
        held = [np.array(out) for out in first]
        assert_bits([*run(*args)], [*expected])
        assert_bits([np.array(out) for out in first], held)
        assert_bits([np.array(arg) for arg in args], before)
        plain = numpy_source(each, floats=False)
        assert plain.text
    return prepared(optimize(program)).to_numpy_source()


def staged(f: Callable[..., Any], *args: Any) -> str:
    return check(fg.program(f)(*args), *args)


V, U = np.array([0.5, -1.25, 2.0]), np.array([-0.75, 0.125, 1.5])
XS = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
S = np.float64(0.7)


STEPS: tuple[Callable[..., Any], ...] = (
    lambda v, u, s, n, x: (u, v, s, n),
    lambda v, u, s, n, x: (v, v, s, n),
    lambda v, u, s, n, x: (v * 0.5 + x, v, s, n + 1),
    lambda v, u, s, n, x: (fnp.sin(v), fnp.sin(u), s * 0.9 + 0.1, n),
    lambda v, u, s, n, x: (x, v + u, s, n),
    lambda v, u, s, n, x: (v[::-1], u - v, s, n),
    lambda v, u, s, n, x: (v[::-1] * v, u, fnp.maximum(s, v[0]), n),
    lambda v, u, s, n, x: (v * u, v - u, s * s - 0.3, n * 3 - 1),
    lambda v, u, s, n, x: (fnp.where(s > 0.5, v, u), u + 0.25 * n, s / (n + 2), n),
    lambda v, u, s, n, x: (fnp.tanh(v * s), fnp.tanh(v * s), fnp.where(s > 0, s, -s), n),
    lambda v, u, s, n, x: (fnp.asarray([1.0, 2.0, 3.0]), v, s + fnp.sum(x), n),
    lambda v, u, s, n, x: fg.cond(
        s > 0.2, lambda v, u: (u * 0.9, v, s, n), lambda v, u: (v, v, s + 1.0, n), v, u
    ),
    lambda v, u, s, n, x: (
        *fg.fori_loop(0, 2, lambda i, c: (c[1], c[0] * 0.5 + x * i), (v, u)),
        s,
        n,
    ),
)
GIVEN: tuple[Callable[..., Any], ...] = (
    lambda state, x: None,
    lambda state, x: state[0],
    lambda state, x: (state[0], state[0], state[1][::-1]),
    lambda state, x: (state[2], state[2] > 0.4, x),
    lambda state, x: (x * state[1], state[3]),
)


def random_loop(seed: int) -> Callable[..., Any]:
    """A scan over steps that pass on, mix and keep the values that they carry."""
    random = Random(seed)
    chosen: Any = random.choices(STEPS, k=random.randint(1, 4))
    before, after = random.choice(GIVEN), random.choice(GIVEN)
    reverse, length = random.random() < 0.5, random.choice((0, 1, 2, 4))

    def f(v: Any, u: Any, s: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            ys = before(state, x)
            for own in chosen:
                state = own(*state, x)
            return state, (ys, after(state, x))

        return fg.scan(step, (v, u, s, 0), xs[:length], reverse=reverse)

    return f


@together("seed", [*range(40), 1079])
def test_random_loops_have_the_bits_of_evaluation(seed: int) -> None:
    text = staged(random_loop(seed), V, U, S, XS)
    assert "scan" not in text


def test_carries_that_are_one_array() -> None:
    for f in map(random_loop, range(12)):
        staged(lambda v, s, xs, f=f: f(v, v, s, xs), V, S, XS)
        staged(lambda s, xs, f=f: f(xs[0], xs[0], s, xs), S, XS)
        staged(lambda s, xs, f=f: f(V, V, s, xs), S, XS)


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(nests(2))
def test_nests_and_their_derivatives_have_the_bits_of_evaluation(nest: Any) -> None:
    point = (np.array([0.6, -0.4]), np.array([0.3, 0.8]), np.float64(0.5))
    f = function_of(nest, LIBRARY)
    staged(f, *point)
    staged(fg.grad(f, (0, 1, 2)), *point)


# ------------------------------------------------------------------------------------ memory


def lines_of(text: str) -> list[str]:
    """The lines inside the first loop."""
    found = text.split("\n")
    start = next(k for k, line in enumerate(found) if line.strip().startswith(("for ", "while ")))
    depth = len(found[start]) - len(found[start].lstrip())
    inside = []
    for line in found[start + 1 :]:
        if len(line) - len(line.lstrip()) <= depth:
            break
        inside.append(line.strip())
    return inside


def test_a_step_takes_no_memory() -> None:
    def f(c: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            y = fnp.tanh(0.9 * c[::-1] + x)
            return y * c, c * x

        return fg.scan(step, c, xs)

    text = staged(f, V, XS)
    for line in lines_of(text):
        into_place = r"(\w+) = \w+\(.*, \1\)|\w+\(.*, \w+\)|\w+ [*+]= \w+|\w+\[step\] = \w+"
        assert re.fullmatch(rf"{into_place}|.*\[::-1\]|(\w+), (\w+) = \3, \2|del \w+", line), line


def test_products_of_a_loop_are_written_into_one_array() -> None:
    def f(c: Any, w: Any, xs: Any) -> Any:
        return fg.scan(lambda c, x: (fnp.tanh(c @ w) + x, None), c, xs)[0]

    rng = np.random.default_rng(0)
    c, w, xs = (rng.standard_normal(shape) for shape in ((4, 3), (3, 3), (5, 4, 3)))
    assert re.search(r"(\w+) = matmul\(\w+, w, \1\)", staged(f, c, w, xs))


def test_functions_of_users_may_keep_what_they_get() -> None:
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x)
        return np.sum(x)

    total = extend.foreign(keep, extend.Spec((), np.dtype(np.float64)))

    def inner(c: Any, _: Any) -> Any:
        doubled = c * 2.0
        repeated = fg.fori_loop(0, 2, lambda _, s: s + total(doubled + s), 0.0)
        return doubled * 0.5 + 1.0, total(doubled) + repeated

    def f(v: Any) -> Any:
        return fg.scan(inner, v, None, length=3)

    f(V)
    expected = [x.copy() for x in kept]
    kept.clear()
    fg.jit(f, backend="numpy")(V)
    for x in expected:
        assert any(np.array_equal(x, other) for other in kept)


def test_planted_mistakes_of_memory_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> bool:
        for f in map(random_loop, range(40)):
            try:
                staged(f, V, U, S, XS)
                staged(lambda v, s, xs, f=f: f(v, v, s, xs), V, S, XS)
            except AssertionError:
                return True
        return False

    def without_aliases(program: Any) -> Any:
        return [(variable,) for variable in range(len(program.specs()))]

    assert not seen()
    monkeypatch.setattr(plan, "aliases", without_aliases)
    assert seen()


def test_two_arrays_that_change_places_are_never_copied() -> None:
    text = staged(
        lambda v, u: fg.scan(lambda c, _: ((c[1], c[0]), None), (v, u), None, length=3)[0], V, U
    )
    (line,) = lines_of(text)
    left, right = line.split(" = ")
    assert left.split(", ") == right.split(", ")[::-1]


def test_what_is_carried_for_nobody_goes() -> None:
    def f(v: Any) -> Any:
        return fg.fori_loop(0, 3, lambda i, c: c * 2.0, v)

    assert len(lines_of(staged(f, V))) == 1

    def g(v: Any, xs: Any) -> Any:
        (v, _), _ = fg.scan(lambda c, x: ((c[0] * 2.0, c[1] + fnp.sin(x)), c[1]), (v, v), xs)
        return v

    assert "sin" not in staged(g, V, XS)
    assert "sin" in staged(
        lambda v, xs: g(v, xs) + fg.scan(lambda c, x: (fnp.sin(c), None), v, xs)[0], V, XS
    )


def test_stacks_that_are_carried_are_not_written_over() -> None:
    def f(c: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            y = fnp.exp(c - x)
            return y, y

        return fg.scan(step, c, xs)

    staged(f, V, XS)
    last, rows = fg.jit(f)(V, XS)
    assert not np.may_share_memory(np.asarray(last), np.asarray(rows))


# ------------------------------------------------------------------------------------ numbers


@together(
    "start",
    [
        2.5,
        3,
        True,
        np.float64(-0.0),
        np.array(1.5),
        np.float32(0.1),
        np.float16(0.1),
        np.int64(3),
        np.int8(100),
        np.complex128(1 + 2j),
        np.bool_(True),
        np.uint8(200),
    ],
    ids=lambda value: f"{type(value).__name__}-{np.asarray(value).dtype}",
)
def test_numbers_of_every_dtype_are_carried(start: Any) -> None:
    def twice(c: Any) -> Any:
        return fnp.logical_not(c) if np.asarray(start).dtype == bool else c * c + c

    def scanned(c: Any, xs: Any) -> Any:
        return fg.scan(lambda c, x: (twice(c), (c, fnp.asarray(x).astype(int))), c, xs)

    for length in (0, 1, 4):
        staged(scanned, start, XS[:length, 0])
    staged(
        lambda c: fg.while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 1, twice(v[1])), (0, c)),
        start,
    )
    staged(lambda c, flag: fg.cond(flag, twice, lambda c: c, c), start, np.bool_(True))
    staged(lambda c, flag: fg.cond(flag, twice, lambda c: c, c), start, np.bool_(False))


def test_numbers_that_branches_read_stay_what_they_are() -> None:
    def f(x: Any, y: Any) -> Any:
        z = fnp.sin(y)
        found = fg.cond(
            x > 0,
            lambda z, one: (z * z - one / z * 0.5, z),
            lambda z, one: (z + one, one),
            z,
            np.float64(1.0),
        )
        return *found, z, y

    for x in (1.0, -1.0):
        staged(f, np.float64(x), np.float64(0.3))
        staged(lambda x, ys: fg.scan(lambda c, y: (f(c, y)[0], f(c, y)), x, ys), np.float64(x), V)
        for own in (
            fg.grad(fg.grad(lambda x, y: f(x, y)[0], 1), 1),
            fg.grad(lambda x, y: f(x, y)[0], 1),
        ):
            staged(own, np.float64(x), np.float64(0.3))


def test_whole_python_numbers_wrap_around_as_numpys() -> None:
    for start in (2, 2**62, -(2**62), 2**63 - 1, -(2**63)):
        staged(lambda n: fg.fori_loop(0, 3, lambda i, c: c * 3 - i, n), start)
        staged(lambda n, x: fg.fori_loop(0, 2, lambda i, c: c + 0.5 * (n + i), x), start, 1.5)
        staged(lambda n, x: fg.fori_loop(0, 2, lambda i, c: (c * 1.5 < n + i) * c, x), start, 1e18)


def test_numbers_stay_pythons_from_step_to_step() -> None:
    def f(y: Any, xs: Any) -> Any:
        return fg.scan(lambda y, x: (y * 0.9 + fnp.sin(x) * y, y * x), y, xs)

    text = staged(f, S, XS[:, 0])
    assert "memoryview" in text
    assert not [line for line in lines_of(text) if "float64(" in line]
    for own in (XS[:, 1], XS[::-1, 1], np.asfortranarray(XS)[:, 2]):
        check(fg.program(f)(S, XS[:, 0]), S, own)
    read_only = XS[:, 0].copy()
    read_only.flags.writeable = False
    check(fg.program(f)(S, XS[:, 0]), S, read_only)


def test_errors_are_treated_as_numpy_is_told() -> None:
    f = fg.program(lambda y: fg.fori_loop(0, 3, lambda i, y: 1.0 / (y - y) + y * 2.0, y))(S)
    run = compile_program(f)
    with np.errstate(all="ignore"):
        assert_bits(run(S)[0], f.evaluate([S])[0])
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        run(S)


# ------------------------------------------------------------------------------------ the rest


def test_loops_of_arrays_beyond_the_cache() -> None:
    v = np.linspace(-1.0, 1.0, 60_000)

    def f(v: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            a, b = c
            return (fnp.sin(a) * b + fnp.cos(b), a * fnp.exp(-a * a)), a - b

        (a, b), ys = fg.scan(step, (v, v * 2.0), None, length=3)
        return a, b, ys

    staged(f, v)
    run = compile_program(prepared(optimize(fg.program(f)(v))))
    first = run(v)
    kept = [out.copy() for out in first]
    run(v * 0.5)
    assert_bits([*first], kept)


def test_a_guard_inside_raises() -> None:
    def step(x: Any) -> Any:
        return (x * 0.5 if x[0] > 1.0 else x * 2.0,)

    body = fg.program(step)(np.array([3.0]))
    run = compile_program(
        fg.program(lambda x: extend.apply_several(iterate, x, body=body, times=2))(np.array([9.0]))
    )
    assert_bits(run(np.array([9.0]))[0], np.array([2.25]))
    with pytest.raises(GuardError, match="would take another path"):
        run(np.array([1.5]))


def test_a_strangers_loop_is_written_out() -> None:
    text = staged(lambda x, y: iterated(lambda x, y: (fnp.sin(y) * 0.9, x * y), 3, x, y), V, U)
    assert "iterate" not in text
    assert "for " in text
    staged(lambda x, y: iterated(lambda x, y: (y, x), 0, x, y), V, U)


def test_deep_nests_are_called() -> None:
    def nested(depth: int, v: Any) -> Any:
        if not depth:
            return fnp.sin(v) * 0.9
        return fg.fori_loop(0, 1, lambda i, c: nested(depth - 1, c), v)

    text = staged(lambda v: nested(DEEPEST + 2, v), V)
    assert text.count("for ") == DEEPEST
    assert "evaluate(" in text


def test_many_threads_run_one_loop() -> None:
    f = fg.jit(random_loop(7))
    args = [(V * k, U + k, S, XS * k) for k in range(8)]
    expected = [fg.tree.leaves(f(*each)) for each in args]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            found = pool.map(lambda each: fg.tree.leaves(f(*each)), args)
            for own, other in zip(found, expected, strict=True):
                assert_bits([np.asarray(x) for x in own], [np.asarray(x) for x in other])
