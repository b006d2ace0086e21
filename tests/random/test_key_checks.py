"""Keys that are drawn from twice are found, with both lines; innocent programs are left alone."""

from __future__ import annotations

import asyncio
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import count
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, parallel, random
from funcgrad._hooks.key_uses import KEY_USES
from funcgrad.errors import ChunkError, KeyReuseError, KeyReuseWarning

KEY = random.key(3)
KEYS = random.split(KEY, 4)
HERE = r"test_key_checks\.py:\d+"
TWICE = rf"(\w+): the key was used before, by (\w+) at {HERE}, and is used again at {HERE}"


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    assert KEY_USES.get() is None


def drop(x: Any, key: Any) -> Any:
    return nn.dropout(x, 0.5, key=key)


# ------------------------------------------------------------------------------------------ reuse


def in_a_thread(f: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, f).result()


def in_an_example(key: Any) -> None:
    fg.vmap(lambda x: random.normal(key) + x)(np.ones(3))  # one use, for all examples
    random.normal(key)


def in_a_second_step(key: Any) -> None:
    fg.scan(lambda total, _: (total + random.normal(key), None), fg.tensor(0.0), length=2)


def in_a_backward_pass(key: Any) -> None:
    fg.grad(lambda x: x * random.normal(key) * fg.checkpoint(lambda y: drop(y, key))(x))(2.0)


JITTED = fg.jit(lambda x, key: x + random.normal(key))
KNOWING = fg.jit(lambda x: x + random.normal(KEY))
CALLING = fg.jit(lambda x: 2.0 * KNOWING(x))

REUSES: dict[str, Callable[[Any], Any]] = {
    "two draws": lambda key: random.normal(key) + random.uniform(key, 3),
    "equal keys": lambda key: random.normal(key) + random.bits(fg.tensor(np.array(key))).sum(),
    "a closure": lambda key: [random.normal(key), (lambda: random.normal(key))()],
    "two splits": lambda key: [random.split(key), random.split(key, 3)],
    "equal children": lambda key: [
        random.normal(random.fold_in(key, 1)),
        random.normal(random.fold_in(key, 1)),
    ],
    "a name": lambda key: [drop(np.ones(3), random.named(key, "a")) for _ in range(2)],
    "two rejections": lambda key: [random.gamma(key, 2.0), random.poisson(key, 4.0)],
    "a permutation": lambda key: [random.permutation(key, 5), random.randint(key, 5, 0, 9)],
    "two calls of jit": lambda key: [JITTED(1.0, key), JITTED(2.0, key)],
    "jit after a draw": lambda key: [random.normal(key), JITTED(1.0, key)],
    "a closure of jit": lambda _: [KNOWING(1.0), KNOWING(2.0)],
    "a function that calls such a one": lambda _: [CALLING(1.0), CALLING(2.0)],
    "within jit": lambda key: fg.jit(lambda k: random.normal(k) + random.uniform(k))(key),
    "the gradient of jit": lambda key: [fg.grad(JITTED)(1.0, key), JITTED(2.0, key)],
    "rows of vmap": lambda key: fg.vmap(random.normal)(fnp.stack([key, KEY, key])),
    "a row and a draw": lambda key: [fg.vmap(random.normal)(KEYS), random.normal(KEYS[2])],
    "nested rows": lambda key: fg.vmap(fg.vmap(random.normal))(fnp.stack([KEYS, KEYS])),
    "an example": in_an_example,
    "a loop": in_a_second_step,
    "a checkpoint": in_a_backward_pass,
    "a gradient": lambda key: [fg.grad(lambda x: x * random.normal(key))(2.0), random.normal(key)],
    "a branch": lambda key: [
        fg.cond(True, random.normal, random.uniform, key),
        random.uniform(key),
    ],
    "a generator": lambda _: [random.generator(0).normal(), random.generator(0).uniform()],
    "a thread": lambda key: [random.normal(key), in_a_thread(lambda: random.normal(key))],
    "two threads": lambda key: [in_a_thread(lambda: random.normal(key)) for _ in range(2)],
    "a thread of asyncio": lambda key: [
        asyncio.run(asyncio.to_thread(lambda: random.normal(key))) for _ in range(2)
    ],
    "a copied context": lambda key: [copy_context().run(random.normal, key), random.normal(key)],
    "a layer": lambda key: [nn.Linear.init(key, 2, 3), nn.Linear.init(key, 2, 3)],
    "two optimistic repetitions": lambda key: [
        random.normal(key),
        random.normal(random.again(key)),
        random.normal(key),
    ],
}


@pytest.mark.parametrize("name", REUSES)
def test_reuse_is_found_and_both_lines_are_named(name: str) -> None:
    JITTED(1.0, random.key(77))  # machine code is there before
    KNOWING(1.0)
    CALLING(1.0)
    with random.check_keys(), pytest.raises(KeyReuseError, match=TWICE):
        REUSES[name](KEY)
    REUSES[name](KEY) if name != "within jit" else None  # outside nothing is checked
    with random.check_keys():
        JITTED(1.0, KEY)


def test_the_lines_are_those_of_the_two_draws() -> None:
    with random.check_keys():
        random.normal(KEY)
        with pytest.raises(KeyReuseError) as caught:
            random.uniform(KEY, 3)
    first, second = (
        np.array([2, 4]) + test_the_lines_are_those_of_the_two_draws.__code__.co_firstlineno
    )
    assert f"by normal at test_key_checks.py:{first}, and is" in str(caught.value)
    assert f"again at test_key_checks.py:{second}:" in str(caught.value)
    assert "fg.random.again(key)" in str(caught.value)


# ------------------------------------------------------------------------------ innocent programs


def training() -> None:
    def loss(w: Any, x: Any, key: Any) -> Any:
        return fnp.sum((drop(x, key) @ w) ** 2)

    w, key = fnp.ones(3), random.key(5)
    for _ in range(3):
        key, data_key, drop_key = random.split(key, 3)
        w = w - 0.01 * fg.grad(loss)(w, random.normal(data_key, (2, 3)), drop_key)


def jitted_training() -> None:
    step = fg.jit(fg.value_and_grad(lambda w, key: fnp.sum(drop(w, key) ** 2)))
    for number in range(3):
        step(np.ones(4), random.fold_in(KEY, number))


def folded_steps() -> None:
    def step(carry: Any, number: Any) -> tuple[Any, Any]:
        key = random.fold_in(KEY, number)
        return carry + random.normal(key), random.uniform(random.named(key, "noise"))

    fg.scan(step, 0, np.arange(4))  # the first step runs twice: the carry becomes a float


def examples() -> None:
    fg.vmap(lambda key, x: x + random.normal(key))(KEYS, np.ones(4))
    fg.vmap(lambda x: x + random.normal(random.key(8)))(np.ones(3))


def chosen_branches() -> None:
    def draw(flag: Any, key: Any) -> Any:
        return fg.cond(flag, random.normal, random.uniform, key)

    fg.vmap(draw)(np.array([True, False, True, False]), KEYS)
    fg.vmap(draw, in_axes=(0, None))(np.array([True, False]), random.key(9))


def ended_loops() -> None:
    def draws(key: Any, count: Any) -> Any:
        def step(state: Any) -> Any:
            return state[0] + 1, state[1] + random.normal(random.fold_in(key, state[0]))

        return fg.while_loop(lambda state: state[0] < count, step, (0, 0.0))[1]

    fg.vmap(draws)(KEYS, np.arange(4))


def checkpoints() -> None:
    @fg.checkpoint
    def layer(x: Any, key: Any) -> Any:
        return fnp.sin(drop(x, key))

    def net(x: Any) -> Any:
        return fnp.sum(layer(layer(x, KEYS[0]), KEYS[1]))

    fg.grad(net)(np.ones(3))
    fg.hessian(lambda x: fnp.sum(layer(x, KEYS[2]) * random.normal(KEYS[3])))(np.ones(2))


def loops_backwards() -> None:
    def step(c: Any, key: Any) -> tuple[Any, None]:
        return c * random.uniform(key), None

    fg.grad(lambda x: fg.scan(step, x, KEYS, checkpoint_every=2)[0])(1.0)


def equations() -> None:
    rate = random.uniform(KEYS[0])

    def end(y: Any, derivative: str) -> Any:
        return fg.odeint(lambda y, t: -rate * y, y, [0.0, 0.5], derivative=derivative)[1]

    fg.grad(end)(1.0, "steps")
    fg.grad(end)(1.0, "adjoint")


def numerical_checks() -> None:
    fg.testing.check_grads(
        lambda x: x * random.normal(KEY) + random.exponential(KEYS[0], scale=x), (2.0,)
    )
    random.normal(KEY)


def generators() -> None:
    rng = random.generator(KEY)
    for _ in range(3):
        _, rng = rng.normal((2,))
        _, rng = rng.integers((2,), 0, 9)
    keys, rng = rng.spawn(2)
    for key in keys:
        random.generator(key).uniform()


def siblings() -> None:
    first, second = random.split(KEY)
    fnp.take(random.normal(second, (5,)), random.permutation(first, 5))


def ways_of_use() -> None:
    random.normal(KEY), random.split(KEY), random.gamma(KEY, 2.0), random.fold_in(KEY, 1)
    random.fold_in(KEY, 1)
    (
        random.normal(random.key(10), 0),
        random.normal(random.key(10), (2, 0)),
        random.normal(random.key(10)),
    )


def points() -> None:
    random.sobol(KEY, 2, 3), random.sobol(KEY, 2, 3, start=2), random.halton(KEY, 2, 3)


def repetitions() -> None:
    def noise(key: Any) -> Any:
        first, second = random.split(key)
        return random.normal(first) + drop(np.ones(2), random.fold_in(second, 1)).sum()

    for _ in range(2):
        noise(random.again(KEY))
    fg.vmap(lambda key: noise(random.again(key)))(KEYS)
    fg.vmap(lambda key: noise(random.again(key)))(KEYS)


def layers() -> None:
    model = nn.Sequential(nn.Linear.init(KEYS[0], 3, 4), nn.Dropout(0.5), nn.Dropout(0.2))
    fg.jit(fg.grad(lambda m, x: fnp.sum(m(x, key=KEYS[1]))))(model, np.ones((2, 3)))


INNOCENT = (
    training, jitted_training, folded_steps, examples, chosen_branches, ended_loops, checkpoints,
    loops_backwards, equations, numerical_checks, generators, siblings, ways_of_use, points,
    repetitions, layers,
)  # fmt: skip


@pytest.mark.parametrize("program", INNOCENT)
def test_innocent_programs_raise_nothing(program: Callable[[], None]) -> None:
    with random.check_keys():
        program()


def test_jit_within_and_after_the_check_gives_the_same_numbers() -> None:
    runs = count()  # nobody watches an iterator

    @fg.jit
    def noisy(key: Any) -> Any:
        next(runs)
        return random.normal(key, 3) * 2.0

    before = noisy(KEY)
    with random.check_keys():
        assert (noisy(KEY) == before).all()
        assert next(runs) == 2  # not staged: keys are known by their numbers
    assert (noisy(KEY) == before).all()
    assert next(runs) == 3  # and the machine code is still there


def test_functions_without_draws_stay_staged() -> None:
    runs = count()  # nobody watches an iterator

    @fg.jit
    def double(x: Any) -> Any:
        next(runs)
        return x * 2.0

    double(1.0)
    with random.check_keys():
        double(2.0)
    assert next(runs) == 1


def test_inner_checks_are_part_of_the_outer_one() -> None:
    with random.check_keys():
        with random.check_keys():
            random.normal(KEY)
        with pytest.raises(KeyReuseError):
            random.normal(KEY)


def test_checks_side_by_side_know_nothing_of_each_other() -> None:
    def alone() -> None:
        with random.check_keys():
            random.normal(KEY)

    threads = [threading.Thread(target=alone) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(alone) for _ in threads]:
            done.result()


def test_a_thread_that_outlives_the_check_is_free() -> None:
    with ThreadPoolExecutor(1) as pool:
        with random.check_keys():
            run = copy_context().run
            pool.submit(run, random.normal, KEY).result()
        pool.submit(run, random.normal, KEY).result()
        assert pool.submit(run, JITTED, 1.0, KEY).result() == 1.0 + random.normal(KEY)
        assert pool.submit(run, KEY_USES.get).result() is None


def test_a_thread_takes_part_if_it_has_the_context() -> None:
    # As `check_keys` says: Python decides whether a new thread has it.
    inherits = bool(getattr(sys.flags, "thread_inherit_context", False))
    caught: list[KeyReuseError] = []

    def draw() -> None:
        try:
            random.normal(KEY)
        except KeyReuseError as error:
            caught.append(error)

    with random.check_keys():
        random.normal(KEY)
        thread = threading.Thread(target=draw)
        thread.start()
        thread.join()
    assert bool(caught) is inherits


def test_threads_that_load_chunks_take_part() -> None:
    chunks = [lambda: random.normal(KEY, (3,)), lambda: random.uniform(KEY, (3,))]
    with ThreadPoolExecutor(2) as pool, random.check_keys():
        total = parallel.value_and_grad(lambda w, chunk: (w * chunk).sum(), pool)
        with pytest.raises(ChunkError, match=rf"KeyReuseError: {TWICE}"):
            total(2.0, chunks)


# --------------------------------------------------------------------------------------- programs


def test_a_program_that_draws_twice_from_one_variable_is_a_warning() -> None:
    def twice(key: Any) -> Any:
        return random.normal(key) + random.uniform(key, 3)

    lines = rf"twice uses one key twice, at {HERE} and at {HERE}"
    with pytest.warns(KeyReuseWarning, match=lines):
        fg.program(twice)(KEY)
    with pytest.warns(KeyReuseWarning, match=f"^jit: {lines}"):
        fg.jit(twice)(KEY)
    with pytest.warns(KeyReuseWarning, match="lambda"):
        fg.program(lambda key: fg.checkpoint(lambda: random.normal(key))() + random.uniform(key))(
            KEY
        )

    def outer(keys: Any) -> Any:
        return fg.scan(lambda c, k: (c + twice(k).sum(), None), 0.0, keys)[0]

    with pytest.warns(KeyReuseWarning, match="outer"):
        fg.program(outer)(KEYS)


def test_programs_that_draw_each_number_once_stage_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fg.program(lambda key: random.normal(key) + random.normal(random.again(key)))(KEY)
        fg.program(lambda key: random.normal(key) + random.gamma(key, random.split(key).sum()))(KEY)
        fg.program(lambda k: random.sobol(k, 2, 2) + random.sobol(k, 2, 2, start=2))(KEY)
        drawing = fg.checkpoint(lambda x, key: x * random.normal(key))
        fg.program(fg.grad(lambda x, key: drawing(fnp.sin(drawing(x, key[0])), key[1])))(2.0, KEYS)
        fg.jit(lambda flag, key: fg.cond(flag, random.normal, random.uniform, key))(True, KEY)


def test_a_function_that_runs_again_is_checked_only_if_keys_are() -> None:
    def twice(x: Any) -> Any:
        return fnp.exp(x) + random.normal(KEY) + random.normal(KEY)

    assert "digits are right" in str(fg.debug.digits(twice)(2.0))
    with random.check_keys(), pytest.raises(KeyReuseError):
        fg.debug.digits(twice)(2.0)
