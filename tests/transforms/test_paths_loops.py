"""A Python `while` over values of a batch under `jit`: one operation where its variables tell its
state, else unrolled or unstaged; always as the plain loop over the examples."""

import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._transforms import captured_loops, loop_forms
from funcgrad.errors import BatchWarning, EscapedTracerError
from tests.together import together
from tests.transforms.branching import looped
from tests.transforms.drawn_loops import BATCHES, LOOPS, function_of
from tests.transforms.support import assert_same, newton

X = np.array([3.0, 2.0, 0.5, 40.0, 1.25, 7.0])
jit = partial(fg.jit, backend="numpy")  # in a fraction of the time of machine code


def halved(x: Any) -> Any:
    while x > 1.0:
        x = x / 2
    return fnp.log(x) * x


def number_first(x: Any) -> Any:
    total = 0.0
    while x > 0.3:
        total = total + x
        x = x * 0.6
    return total


def two_branches(target: Any) -> Any:
    low, high = 0.0 * target, 1.0 + target
    while high - low > 1e-2:
        middle = (low + high) / 2
        if middle**3 + middle < target:
            low = middle
        else:
            high = middle
    return (low + high) * target


def broken(x: Any) -> Any:
    y = x
    while True:
        y = fnp.sin(y) * x
        if fnp.abs(y) < 0.9:
            break
        x = x * 0.9
    return y * x


def returned(x: Any) -> Any:
    while x > 1.0:
        x = x * 0.7
        if x < 1.2:
            return x * 100
        x = x - 0.1
    return x


def both_conditions(x: Any) -> Any:
    steps = 0.0 * x
    while x > 1.0 and steps < 3:
        x, steps = x / 2, steps + 1
    return x * steps


def nested(x: Any) -> Any:
    total = 0.0 * x
    while x > 0.5:
        y = x
        while y > 0.2:
            y = y * 0.5
            if y > 3 * total + 4:
                break
            total = total + y
        x = x - 0.7
    return total


def held_in_containers(x: Any) -> Any:
    state = [x, 1.0, {"a": x * x}]
    box = SimpleNamespace(y=x)
    while state[0] > 1:
        state = [state[0] / 2, state[1], {"a": state[2]["a"] + state[0]}]
        box.y = box.y * 0.9
    return state[2]["a"] * state[1] + box.y


def exchanged(x: Any) -> Any:
    a, b = x * 0, x * 0 + 1
    while b < x:
        a, b = b, a + b
    return a * x


def sometimes_alike(x: Any) -> Any:
    best = step = x
    while step > 0.2:
        step = step * 0.7
        if fnp.sin(step * 3) < fnp.sin(3 * best):
            best = step
    return best


def reset(x: Any) -> Any:
    y = z = x
    while z > 0.3:
        z = z * 0.8
        y = x if y < 1 else y * 0.6
    return y


def assigned_in_the_condition(x: Any) -> Any:
    while (excess := x * x - 2) > 0.01:
        x = x - excess / (2 * x)
    return excess + x


def between(x: Any) -> Any:
    while 1 < x * x < 2000:
        x = x * 0.8
    return x


def read_after_a_step(x: Any) -> Any:
    x = x + 1
    while x > 1:
        last = x * 3
        x = x / 2
    return last  # type: ignore[possibly-undefined]


def raised(x: Any) -> Any:
    while x > 1:
        x = x * 0.7
        if x > 1e6:
            raise ValueError("large")
    return x


def called(x: Any) -> Any:
    def third(y: Any) -> Any:
        while y > 1:
            y = y / 3
        return y

    return sum(third(x * k) for k in (1.0, 2.0, 3.0))


def vectors(x: Any) -> Any:
    v = fnp.stack([x, x * 2])
    while v.sum() > 1:
        v = v / 2 + v[::-1] * 0.1
    return v[0] - v[1] * 3


OPERATIONS = [
    halved,
    newton,
    number_first,
    two_branches,
    broken,
    returned,
    both_conditions,
    nested,
    held_in_containers,
    exchanged,
    sometimes_alike,
    reset,
    assigned_in_the_condition,
    between,
    read_after_a_step,
    raised,
    called,
    vectors,
]


def total(f: Any) -> Callable[[Any], Any]:
    return lambda xs: fnp.sum(fg.vmap(f)(xs))


@pytest.fixture
def no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("no_warnings")
@together("f", [*OPERATIONS[::2], *OPERATIONS[1::2]], quick=9)
def test_a_loop_is_one_operation(f: Any) -> None:
    staged = fg.program(fg.vmap(f))(X)
    assert "while_loop" in str(staged)  # in a loop over the examples
    values, slopes = looped(f, X), looped(fg.grad(f), X)
    jitted, inside, outside = (jit(g) for g in (fg.vmap(f), fg.vmap(fg.grad(f)), fg.grad(total(f))))
    for batch, value, slope in ((X, values, slopes), (X[::-1], values[::-1], slopes[::-1])):
        assert_same(jitted(batch.copy()), value, rtol=1e-9)
        assert_same(inside(batch.copy()), slope, rtol=1e-9)
        assert_same(outside(batch.copy()), slope, rtol=1e-9)
    assert jitted.stagings == 1


@pytest.mark.usefixtures("no_warnings")
@pytest.mark.parametrize("f", [newton, two_branches, returned])
def test_loops_in_every_place(f: Any) -> None:
    bends = looped(fg.grad(fg.grad(f)), X)
    slopes = looped(fg.grad(f), X)
    grid = X.reshape(2, 3)
    assert_same(jit(fg.vmap(fg.grad(fg.grad(f))))(X), bends, rtol=1e-7)
    assert_same(jit(fg.grad(lambda x: fnp.sum(fg.grad(total(f))(x))))(X), bends, rtol=1e-7)
    assert_same(jit(fg.vmap(fg.vmap(f)))(grid), looped(f, grid), rtol=1e-9)
    nested_slope = fg.grad(lambda x: fnp.sum(fg.vmap(fg.vmap(f))(x)))
    assert_same(jit(nested_slope)(grid), slopes.reshape(2, 3), rtol=1e-9)
    assert_same(jit(lambda x: fg.jvp(fg.vmap(f), (x,), (np.ones(6),))[1])(X), slopes, rtol=1e-9)
    assert_same(fg.jit(fg.vmap(fg.grad(f)))(X), slopes, rtol=1e-9)
    scanned = jit(lambda x: fg.scan(lambda c, _: (fg.vmap(f)(c) + 1, None), x, length=2)[0])
    assert_same(scanned(X), looped(f, looped(f, X) + 1) + 1, rtol=1e-9)


@pytest.mark.usefixtures("no_warnings")
def test_values_closed_over_keys_and_matrices() -> None:
    def around(s: Any) -> Any:
        def inner(y: Any) -> Any:
            while y > 1:
                y = y / (1 + s)
            return y

        return fg.vmap(inner)(X).sum()

    def plain(s: Any) -> Any:
        result: Any = 0
        for x in X:
            y = float(x)
            while y > 1:
                y = y / (1 + s)
            result = result + y
        return result

    scales = np.array([0.5, 1.5, 3.0])
    assert_same(jit(around)(0.5), plain(0.5))
    assert_same(jit(fg.vmap(fg.grad(around)))(scales), looped(fg.grad(plain), scales))

    def drawn(key: Any) -> Any:
        x = fg.random.uniform(key, ())
        while x < 2.0:
            key, sub = fg.random.split(key)
            x = x + fg.random.uniform(sub, ())
        return x

    keys = fg.random.split(fg.random.key(0), 6)
    assert_same(jit(fg.vmap(drawn))(keys), np.array([float(drawn(key)) for key in keys]))

    def inverted(m: Any) -> Any:  # singular matrices have no step
        while m[0, 0] > 1.5:
            m = fnp.linalg.inv(m) + m * 0.3
        return m.sum()

    matrices = np.array([3 * np.eye(2), np.eye(2), np.zeros((2, 2)), 7 * np.eye(2)])
    singles = [fg.tensor(m) for m in matrices]
    assert_same(jit(fg.vmap(inverted))(matrices), np.array([float(inverted(m)) for m in singles]))
    slopes = np.array([np.asarray(fg.grad(inverted)(m)) for m in singles])
    assert_same(jit(fg.vmap(fg.grad(inverted)))(matrices), slopes)


@pytest.mark.usefixtures("no_warnings")
def test_dtypes_of_loops() -> None:
    for dtype in ("f4", "f8"):
        out = jit(fg.vmap(number_first))(X.astype(dtype))
        assert out.dtype == np.dtype(dtype)
    assert jit(fg.vmap(newton))(X[:0]).shape == (0,)
    assert_same(jit(fg.vmap(newton))(X[:1]), looped(newton, X[:1]))


# ------------------------------------------------------------------------ loops that are left alone


def counted(x: Any) -> Any:
    n = 0
    while x > 1:
        x, n = x / 2, n + 1
    return x * n


def growing(x: Any) -> Any:
    values = [x]
    while values[-1] > 1:
        values.append(values[-1] / 2)
    return sum(values)


def within_for(x: Any) -> Any:
    result: Any = 0
    for k in range(2):
        y = x * (k + 1)
        while y > 1:
            y = y / 2
        result = result + y
    return result


def counted_in_an_object(x: Any) -> Any:
    box = SimpleNamespace(n=0)
    while x > 1:
        x = x / 2
        box.n += 1
    return x + box.n


def counted_in_a_closure(x: Any) -> Any:
    n = 0

    def half(y: Any) -> Any:
        nonlocal n
        n += 1
        return y / 2

    def run(half: Any, x: Any) -> Any:
        while x > 1:
            x = half(x)
        return x

    return run(half, x) + n


def iterated(x: Any) -> Any:
    factors = iter([0.5] * 20)
    while x > 1:
        x = x * next(factors)
    return x + sum(factors)


def alternating(x: Any) -> Any:
    flag = False
    while x > 1:
        x = x * (0.5 if flag else 0.9)
        flag = not flag
    return x


def generated(x: Any) -> Any:
    def values(x: Any) -> Any:
        while x > 1:
            x = x / 2
            yield x

    return sum(values(x), x)


LEFT_ALONE = {
    counted: "`n` is a Python number that changes",
    growing: "`values` is another object",
    within_for: "a `for` is around it",
    counted_in_an_object: "`box.n` is a Python number that changes",
    counted_in_a_closure: "`half.n` is a Python number that changes",
    iterated: "`factors` is another object",
    alternating: "`flag` is a Python number that changes",
    generated: "it is in a generator",
}


@pytest.mark.parametrize("f", LEFT_ALONE)
def test_a_loop_with_other_state_runs_unstaged_and_the_warning_says_why(f: Any) -> None:
    batch = np.append(X, 1e6)
    for g, expected in ((fg.vmap(f), f), (fg.vmap(fg.grad(f)), fg.grad(f))):
        jitted = jit(g)
        with pytest.warns(
            RuntimeWarning, match=r"test_paths_loops.py:\d+.*fg.while_loop"
        ) as caught:
            assert_same(jitted(batch), looped(expected, batch), rtol=1e-9)
        assert len(caught) == 1
        assert LEFT_ALONE[f] in str(caught[0].message)


def test_values_of_steps_that_leak_have_ended() -> None:
    leaked: list[Any] = []

    def f(x: Any) -> Any:
        while x > 1:
            x = x / 2
            leaked.append(x)
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert_same(jit(fg.vmap(f))(X), looped(f, X))
    staged = [x for x in leaked if type(x) is not fg.Tensor]
    assert staged
    for x in staged:
        with pytest.raises(EscapedTracerError):
            x + 1


def test_an_iterable_with_equal_items_is_no_while() -> None:
    def f(x: Any) -> Any:
        for _ in [None] * 3:
            if x < 1:
                break
            x = x * 0.5
        return x

    def by_map(x: Any) -> Any:
        held = [x]

        def step(_: Any) -> None:
            if held[0] > 1:
                held[0] = held[0] * 0.5

        list(map(step, [None] * 3))
        return held[0]

    for g in (f, by_map):
        assert_same(jit(fg.vmap(g))(X), looped(g, X))


# --------------------------------------------------------------------------------- random functions


def check(program: Any, rng: np.random.Generator) -> None:
    f = function_of(program)
    jitted, outside, inside = jit(fg.vmap(f)), jit(fg.grad(total(f))), jit(fg.vmap(fg.grad(f)))
    for _ in range(2):
        batch = rng.normal(size=5)
        slopes = looped(fg.grad(f), batch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # some have other state
            warnings.simplefilter("ignore", BatchWarning)
            assert_same(jitted(batch), looped(f, batch), rtol=1e-7)
            assert_same(outside(batch), slopes, rtol=1e-7)
            assert_same(inside(batch), slopes, rtol=1e-7)


@pytest.mark.parametrize("examples", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_random_loops_equal_the_plain_loop(examples: int) -> None:
    @settings(max_examples=examples)
    @given(LOOPS, BATCHES)
    def run(program: Any, rng: np.random.Generator) -> None:
        check(program, rng)

    run()


# --------------------------------------------------------------------------------- planted mistakes


def _first_way(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, ways, *others: function(self, ways[:1], *others)


def _wrong_truth(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda condition, wanted: function(condition, True)


def _no_state(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, states: function(self, states)[:1]


def _unchecked(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: None


@together(
    ("place", "name", "mistake", "f"),
    [
        (loop_forms.LoopForm, "_run", _first_way, two_branches),
        (loop_forms, "_truth", _wrong_truth, broken),
        (captured_loops.LoopCapture, "_changing", _no_state, exchanged),
        (captured_loops.LoopCapture, "_check_others", _unchecked, counted_in_an_object),
        (captured_loops.LoopCapture, "_check_others", _unchecked, alternating),
    ],
)
def test_a_mistake_is_seen(place: Any, name: str, mistake: Any, f: Any) -> None:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(place, name, mistake(getattr(place, name)))
        warnings.simplefilter("error")  # a loop that is left alone is a mistake, too
        with pytest.raises((AssertionError, RuntimeWarning)):
            assert_same(jit(fg.vmap(f))(X), looped(f, X))
