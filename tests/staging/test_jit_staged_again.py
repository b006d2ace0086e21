"""A jitted function is staged again when what it reads has changed, and only then."""

import threading
from io import StringIO
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._staging.capture import Capture
from funcgrad._staging.jit import JitWarning
from tests.staging.changes import Bag, check, sets, stagings

pytestmark = pytest.mark.filterwarnings("error::funcgrad._staging.jit.JitWarning")


# What is not read may change.


def test_a_trainer_is_staged_once():
    class Base:
        def __init__(self):
            self.history, self.rate = [], 0.5

        def step(self, weights):
            return fg.tree.map(lambda w: w - self.rate * w, weights)

    class Trainer(Base):
        def __init__(self):
            super().__init__()
            self.weights, self.count = {"w": fg.tensor(np.ones(3))}, 0
            self.size = len(self.weights)

        def step(self, weights):
            log.write("|")
            return super().step(weights)

        def train(self, steps):
            for _ in range(steps):
                self.weights = staged(self.weights)
                self.history.append(float(fnp.sum(self.weights["w"])))
                self.count += 1

    log, trainer = StringIO(), Trainer()
    staged = fg.jit(trainer.step)
    trainer.train(4)
    assert trainer.history == [1.5, 0.75, 0.375, 0.1875]
    assert log.getvalue() == "|"
    trainer.rate = 1.0
    trainer.train(1)
    assert trainer.history[-1] == 0.0


def test_memory_that_a_gradient_keeps_for_its_next_call_does_not_matter():
    log, x = StringIO(), fg.tensor(np.ones(2**16))

    def f(x):
        log.write("|")
        return fnp.sum(fnp.square(x) * x)

    gradient = fg.grad(f)
    staged = fg.jit(gradient)
    for _ in range(4):
        log.truncate(0)
        gradient(x)
        log.truncate(0)
        staged(x)
    assert not log.getvalue()


def test_a_global_with_the_name_of_an_attribute_does_not_matter():
    space: dict[str, Any] = {"Bag": Bag, "weights": 0.0, "log": StringIO()}
    text = "def f(x):\n    log.write('|')\n    return Bag(weights=x).weights * 2.0"
    exec(text, space)
    staged = fg.jit(space["f"])
    for number in range(3):
        space["weights"] = float(number)
        assert float(staged(1.0)) == 2.0
    assert space["log"].getvalue() == "|"


def test_a_number_that_is_bound_anew_and_is_the_same_is_no_change():
    bag = Bag(rate=0.1, name="a", table={"k": 1.5})
    again = (lambda: bag.__dict__.update(rate=float("0.1"), table={**bag.table})), lambda: None
    assert stagings(lambda x: x * bag.rate, *again) == 1
    assert stagings(lambda x: x * bag.rate, sets(bag, "rate", 0.2)) == 2
    zero = Bag(value=0.0)
    check(lambda x: fnp.copysign(x, zero.value), sets(zero, "value", -0.0))


# While it is staged.


def test_a_change_by_another_thread_while_the_function_is_staged_is_noticed():
    table, begun, changed = {"scale": 1.0}, threading.Event(), threading.Event()

    def f(x):
        scale = table["scale"]
        begun.set()
        changed.wait(10.0)
        return x * scale

    def change():
        begun.wait(10.0)
        table["scale"] = 2.0
        changed.set()

    thread = threading.Thread(target=change)
    thread.start()
    staged = fg.jit(f)
    staged(1.0)
    thread.join()
    assert float(staged(1.0)) == 2.0


def test_a_function_that_counts_its_calls_is_staged_and_counts_stagings():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * 2

    staged = fg.jit(f)
    for _ in range(20):
        assert float(staged(3.0)) == 6.0
    assert count < 20


def draws():
    generator, state = np.random.default_rng(0), np.random.RandomState(0)
    yield lambda x: x + generator.normal()
    yield lambda x: x + state.normal()
    yield lambda x: x + np.random.normal()  # noqa: NPY002 - what many write


@pytest.mark.parametrize("f", [*draws()])
def test_random_numbers_from_outside_are_drawn_in_each_call(f):
    staged = fg.jit(f)
    with pytest.warns(JitWarning, match="draws random numbers"):
        first = float(staged(0.0))
    assert len({first, float(staged(0.0)), float(staged(0.0))}) == 3


def test_a_generator_that_is_not_drawn_from_does_not_matter():
    generator = np.random.default_rng(0)
    bag = Bag(generator=generator, scale=2.0)
    check(lambda x: x * bag.scale if bag.generator is generator else x)


def test_what_cannot_be_looked_at_is_not_staged():
    class Stubborn:
        __slots__ = ("value",)

        def __getattribute__(self, name):
            raise RuntimeError(name)

    stubborn = Stubborn()
    assert not Capture(stubborn).complete
    staged = fg.jit(lambda x: x * 2 if stubborn is not None else x)
    with pytest.warns(JitWarning, match="may read more"):
        assert float(staged(1.0)) == 2.0


def test_a_function_that_can_reach_itself_is_staged_once() -> None:
    class Doubling:
        def __init__(self) -> None:
            self.double = fg.jit(self._double)

        def _double(self, x: Any) -> Any:
            return x * 2.0

    doubling = Doubling()
    for _ in range(3):
        assert doubling.double(np.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert doubling.double.stagings == 1
