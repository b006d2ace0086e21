"""Values in loops and branches are tensors, weak where a Python number was given, in every mode.

What comes back is of one kind: eagerly, staged, inside of transformations, after no step at all.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement, permutations
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of
from funcgrad._core.users_values import is_weak
from funcgrad.errors import DtypeError
from tests.conformance import in_turn
from tests.together import together

SINGLE = fg.tensor(np.float32(0.5))
SMALL = fg.tensor(np.int8(3))
STARTS: dict[str, Any] = {
    "bool": False,
    "int": 2,
    "float": -1.5,
    "complex": 1j,
    "int8": SMALL,
    "float32": SINGLE,
}
BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda c, i: c,
    "sum": lambda c, i: c + i,
    "half": lambda c, i: c * 0.5,
    "power": lambda c, i: c ** (1 / 3),
    "not": lambda c, i: ~c,
    "compared": lambda c, i: c == i,
    "a truth value": lambda c, i: True,
    "an int": lambda c, i: 3,
    "a float": lambda c, i: 2.5,
    "a complex number": lambda c, i: 1j,
    "a weak one of others": lambda c, i: i * 0.5,
    "single": lambda c, i: c * SINGLE,
    "small": lambda c, i: c + SMALL,
    "double": lambda c, i: c * fg.tensor(0.5),
    "method": lambda c, i: c.real,
}


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def kind(value: Any) -> tuple[type, Any, bool]:
    return type(value), dtype_of(value), is_weak(value)


def same(found: Any, expected: Any, way: str) -> None:
    for a, b in zip(fg.tree.leaves(found), fg.tree.leaves(expected), strict=True):
        assert kind(a) == kind(b), way
        np.testing.assert_array_equal(a, b, err_msg=way)


def ways(f: Callable[..., Any], *args: Any) -> dict[str, Callable[[], Any]]:
    """Ways to compute a function of the given arguments, with arguments and with closures."""
    return {
        "jit": lambda: fg.jit(f)(*args),
        "jit of a closure": lambda: fg.jit(lambda: f(*args))(),
        "program": lambda: fg.program(f)(*args)(*args),
        "inside of grad": lambda: fg.vjp(lambda _: f(*args), 1.0)[0],
        "inside of jvp": lambda: fg.jvp(lambda _: f(*args), (1.0,), (1.0,))[0],
    }


def agree(f: Callable[..., Any], *args: Any, turn: int | None = None) -> None:
    """Compare all ways, or one of them in turn, with evaluation; where that is refused, it is in
    all programs."""
    try:
        expected = f(*args)
    except (DtypeError, TypeError):
        with pytest.raises((DtypeError, TypeError)):
            fg.jit(f)(*args)
        return
    tried = [*ways(f, *args).items()]
    for way, run in tried if turn is None else in_turn(tried, turn, 1):
        same(run(), expected, way)


def loops(body: Callable[[Any, Any], Any], steps: int) -> dict[str, Callable[[Any], Any]]:
    return {
        "fori_loop": lambda init: fg.fori_loop(0, steps, lambda i, c: body(c, i), init),
        "while_loop": lambda init: fg.while_loop(
            lambda c: c[1] < steps, lambda c: (body(*c), c[1] + 1), (init, 0)
        )[0],
        "scan": lambda init: fg.scan(
            lambda c, i: ((body(c[0], c[1]), c[1] + 1), c[0]), (init, 0), length=steps
        ),
    }


@pytest.mark.slow
@together("steps", [0, 1, 3])
@pytest.mark.parametrize("name", BODIES)
@together("start", STARTS)
def test_a_loop_means_the_same_in_every_mode(start: str, name: str, steps: int) -> None:
    turn = [*BODIES].index(name) + [*STARTS].index(start) + steps
    for place, (way, loop) in enumerate(loops(BODIES[name], steps).items()):
        if not steps:
            try:
                loops(BODIES[name], 1)[way](STARTS[start])
            except (DtypeError, TypeError):  # which programs refuse, and what does not run cannot
                continue
        agree(loop, STARTS[start], turn=turn + 3 * place)


@together("name", BODIES)
@together("start", STARTS)
def test_a_result_is_of_one_kind_whether_there_were_steps_or_not(start: str, name: str) -> None:
    for without, once in zip(
        loops(BODIES[name], 0).values(), loops(BODIES[name], 1).values(), strict=True
    ):
        try:
            expected = once(STARTS[start])
        except (DtypeError, TypeError):
            continue
        found = without(STARTS[start])
        assert [*map(kind, fg.tree.leaves(found))] == [*map(kind, fg.tree.leaves(expected))]


@pytest.mark.slow
@pytest.mark.parametrize("start", ["bool", "int", "float", "float32"])
@together("names", [*combinations_with_replacement(BODIES, 2)])
def test_a_branch_means_the_same_in_every_mode(start: str, names: tuple[str, str]) -> None:
    turn = sum([[*BODIES].index(name) for name in names]) + [*STARTS].index(start)
    if turn % 2:
        return  # other starts are for this pair
    first, second = [BODIES[name] for name in names]

    def f(p: Any, c: Any) -> Any:
        return fg.cond(p, lambda c: first(c, 1), lambda c: second(c, 1), c)

    for p in (True, False):
        try:
            fg.jit(f)(p, STARTS[start])
        except (DtypeError, TypeError):  # the branches disagree
            continue
        agree(f, p, STARTS[start], turn=turn + p)


RESULTS: dict[str, Any] = {"int": 1, "float": 2.5, "float32": SINGLE, "bool": True}


@together("names", [*permutations(RESULTS, 3)], ids="-".join)
def test_the_order_of_branches_is_of_no_importance(names: tuple[str, ...]) -> None:
    values = [RESULTS[name] for name in names]
    expected = np.result_type(
        *[v if name != "float32" else np.float32 for name, v in zip(names, values, strict=True)]
    )
    for k in range(3):
        agree(lambda k: fg.switch(k, [lambda v=v: v for v in values]), k)
        found = fg.switch(k, [lambda v=v: v for v in values])
        assert found.dtype == expected
        assert is_weak(found) == ("float32" not in names)
        assert found == values[k]
    batch = fg.vmap(lambda k: fg.switch(k, [lambda v=v: v for v in values]))(fnp.arange(3))
    assert batch.dtype == expected
    np.testing.assert_array_equal(batch, np.array(values, expected))


SMOOTH: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "relu": fg.nn.relu,
    "half": lambda x: x * 0.5,
    "a number": lambda x: 1.0,
    "an int": lambda x: 1,
    "an array": lambda x: fg.tensor(2.0),
    "double": lambda x: x * fg.tensor(0.5),
    "sine": fnp.sin,
    "square": lambda x: x * x,
}


def gradients_agree(f: Callable[[Any], Any], turn: int) -> None:
    points = (1.0, -1.0)
    gradients = (fg.grad(f), fg.grad(fg.grad(f)), lambda x: fg.jvp(f, (x,), (1.0,))[1])
    for number, g in enumerate(gradients, start=turn):
        expected = [g(x) for x in points]
        for x, value in zip(points, expected, strict=True):
            found = fg.jit(g)(x)
            np.testing.assert_allclose(found, value, rtol=1e-14)
            assert found.dtype == value.dtype
        batches: list[Any] = [fg.vmap(g), fg.jit(fg.vmap(g)), fg.vmap(fg.jit(g))]
        for batch in in_turn(batches, number, 1):
            found = batch(fnp.asarray(points))
            np.testing.assert_allclose(found, fnp.stack(expected), rtol=1e-14)
            assert found.dtype == expected[0].dtype


@pytest.mark.slow
@together("names", [*combinations_with_replacement(SMOOTH, 2)], ids="-".join)
def test_gradients_of_branches_that_return_numbers(names: tuple[str, str]) -> None:
    first, second = [SMOOTH[name] for name in names]
    turn = sum([[*SMOOTH].index(name) for name in names])
    gradients_agree(lambda x: fg.cond(x > 0, first, second, x) * 1.0, turn)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["x", "number", "int"])
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_of_loops_that_carry_numbers(name: str, start: str) -> None:
    def f(x: Any) -> Any:
        init = {"x": x, "number": 0.5, "int": 2}[start]
        total, last, _ = fg.fori_loop(
            0, 2, lambda i, c: (c[0] * x + i, SMOOTH[name](c[0]), c[1]), (init, init, init)
        )
        return total + last

    gradients_agree(f, [*SMOOTH].index(name) + len(start))


def test_what_a_body_gets_is_a_tensor() -> None:
    seen: list[Any] = []

    def see(*values: Any) -> Any:
        seen.extend(fg.tree.leaves(values))
        return values[-1]

    fg.cond(True, see, see, 2, [1.5, True], np.ones(2), {"k": np.float32(1)})
    fg.switch(0, [see], 1)
    fg.switch(5, [see, see], 1)
    fg.fori_loop(0, 1, see, (2, True, None, np.zeros(2)))
    fg.while_loop(lambda c: see(c)[0] < 1, lambda c: (c[0] + 1, see(c)[1]), (0, False))
    fg.scan(lambda c, x: (see(c), see(x)), (1, True), (np.ones(2), (np.ones((2, 1)),)))
    fg.map(see, np.ones(2))
    fg.associative_scan(lambda a, b: see(a, b) + a, np.ones(4))
    assert len(seen) > 30
    assert {isinstance(value, fg.Tensor) for value in seen} == {True}


@together(
    ("lower", "upper", "dtype", "weak"),
    [
        (0, 2, np.int64, True),
        (np.int8(0), 2, np.int8, False),
        (0, np.int16(2), np.int16, False),
        (np.uint8(254), np.int64(256), np.int64, False),
        (np.uint64(0), np.int8(2), np.int64, False),
        (np.uint8(0), np.int8(2), np.int16, False),
    ],
)
def test_the_integers_of_a_loop_have_the_dtype_of_its_bounds(
    lower: Any, upper: Any, dtype: Any, weak: bool
) -> None:
    seen = []

    def body(i: Any, c: Any) -> Any:
        seen.append((i.dtype, is_weak(i)))
        return c + i.astype(float)

    def f(lower: Any, upper: Any) -> Any:
        return fg.fori_loop(lower, upper, body, 0.0)

    expected = float(sum(range(int(lower), int(upper))))
    assert f(lower, upper) == expected
    assert fg.jit(lambda: f(lower, upper))() == expected  # a scan
    assert fg.jit(f)(lower, upper) == expected  # a while loop
    assert {*seen} == {(np.dtype(dtype), weak)}


def test_numbers_may_be_looked_at_where_nothing_is_staged() -> None:
    def body(i: Any, c: Any) -> Any:
        table, total = c
        steps = range(i)
        chosen = [10.0, 20.0, 30.0][i]
        if i == 1 and total > 5:
            total = total + int(total) + float(i) + len(steps)
        return table.at[i].set(chosen), total + chosen

    table, total = fg.fori_loop(0, 3, body, (fnp.zeros(3), 0.0))
    np.testing.assert_array_equal(table, [10.0, 20.0, 30.0])
    assert total == 60.0 + 10 + 1.0 + 1


def test_a_loop_without_steps_keeps_its_start_where_its_body_cannot_be_staged() -> None:
    found = fg.fori_loop(0, 0, lambda i, c: c if c > 1 else c * SINGLE, 1.0)
    assert found == 1.0
    assert is_weak(found)
    found = fg.while_loop(lambda c: c < 0, lambda c: c if c > 1 else c * SINGLE, 1.0)
    assert found == 1.0
    assert is_weak(found)


def test_a_branch_that_does_not_run_is_asked_for_its_kind_only() -> None:
    """What it would raise, and trees that differ, are of no importance; recursion ends."""

    def refuses() -> Any:
        raise ValueError

    assert fg.cond(True, lambda: 1.0, refuses) == 1.0
    assert fg.cond(True, lambda: 1.0, lambda: (1, 2)) == 1.0

    def count(n: Any) -> Any:
        return fg.cond(n < 2, lambda: 1, lambda: count(n - 1) + count(n - 2))

    assert count(10) == 89

    def fall(n: Any) -> Any:
        return fg.cond(n < 2, lambda n: 1, lambda n: n * fall(n - 1), n)

    assert fall(5) == 120


def test_probes_of_a_first_step_that_runs_again() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            return fg.probe(c * y * x, f"at {float(y)}"), None

        return fg.scan(step, 2.0, fnp.asarray([3.0, 5.0], np.float32))[0] * fg.tensor(1.0)

    gradient, found = fg.grad(f, probes=("at 3.0", "at 5.0"))(fg.tensor(1.0))
    assert gradient == 60.0
    assert {name: (float(g), g.dtype) for name, g in found.items()} == {
        "at 3.0": (5.0, np.float64),
        "at 5.0": (1.0, np.float64),
    }


def test_a_loop_of_steps_that_change_nothing_is_compiled() -> None:
    f = fg.jit(lambda x: fg.fori_loop(0, 3, lambda i, c: c, x))
    assert f(2.0) == 2.0
    assert not f.failures
    g = fg.jit(lambda n, x: fg.fori_loop(0, n, lambda i, c: c, x))
    assert g(3, 2.0) == 2.0


def test_equations_and_slopes_get_tensors() -> None:
    def slope(y: Any, t: Any, k: Any, up: Any) -> Any:
        return fnp.where(~up, -1.0, 1.0) * y * k.astype(float)

    assert fg.odeint(slope, 1.0, [0.0, 1.0], 2, True)[1] == pytest.approx(np.exp(2.0), rel=1e-6)

    def move(x: Any, k: Any, up: Any) -> Any:
        return fnp.where(~up, -1.0, 1.0) * (0.5 * x + k.astype(float))

    assert fg.fixed_point(move, 1.0, 2, True) == pytest.approx(4.0)


def test_a_tensor_of_one_integer_is_a_basic_index() -> None:
    x = fnp.arange(12.0).reshape(3, 4)
    program = fg.program(lambda x: x[fg.tensor(1), 2:])(x)
    assert program.to_text(sources=False) == fg.program(lambda x: x[1, 2:])(x).to_text(
        sources=False
    )
    np.testing.assert_array_equal(x[fg.tensor(np.int8(-1))], x[-1])


@pytest.mark.parametrize("number", [2, 2.0])
def test_branches_of_a_number_that_is_known_are_compiled(number: Any) -> None:
    def f(x: Any) -> Any:
        return x * fg.cond(fnp.sum(x) > 0.5, lambda k: k, lambda k: k * 2.5, number)

    staged = fg.jit(f)
    for x in (fnp.ones(3), -fnp.ones(3)):
        np.testing.assert_array_equal(staged(x), f(x))
    assert not staged.failures
