"""A jitted function as an object: pickled, copied, printed; and calls that are broken off."""

import copy
import pickle
import signal
import threading
from contextvars import copy_context

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError


@fg.jit
def doubled(x):
    return 2 * x


def tripled(x, n):
    return 3 * x * n


class Model:
    @fg.jit
    def identity(self, x):
        return x


def test_a_decorated_function_is_pickled_by_name():
    for function in (doubled, Model.identity):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is copy.copy(function) is function


def test_any_other_is_pickled_with_its_function():
    staged = fg.jit(tripled, static_argnames="n")
    staged(1.0, 2)
    for other in (pickle.loads(pickle.dumps(staged)), copy.deepcopy({"f": staged})["f"]):
        assert float(other(2.0, 3)) == float(other(2.0, n=3)) == 18.0
        assert other is not staged


def test_it_prints_as_what_it_was_made_of():
    assert repr(doubled).startswith("jit(<function doubled at ")


class Interrupt(BaseException):
    """An exception like KeyboardInterrupt, which itself would end the tests if it came late."""


def generator(x):
    yield x


async def coroutine(x):
    return x


async def asynchronous(x):
    yield x


@pytest.mark.parametrize("f", [generator, coroutine, asynchronous])
def test_functions_that_only_begin_to_run_are_refused(f):
    with pytest.raises(ArgumentError, match="generator function or a coroutine"):
        fg.jit(f)


@pytest.fixture
def interrupted_after():
    """Call a function again and again, until a timer interrupts it."""
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        pytest.skip("needs a timer that interrupts")

    def interrupt(*_):
        raise Interrupt

    def call(seconds, f, *args):
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            while True:
                copy_context().run(f, *args)  # it may leave a variable of the context set
        except Interrupt:
            pass

    before = signal.signal(signal.SIGALRM, interrupt)
    yield call
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_an_interrupt_leaves_nothing_behind(interrupted_after):
    staged, x = fg.jit(lambda x: fnp.sum(x * x)), np.ones(3)
    staged(x)
    modes = np.geterr()
    for step in range(300):
        interrupted_after(1e-4 + 1e-6 * step, staged, x)
        assert np.geterr() == modes
    assert float(staged(x)) == 3.0


# A generator that an interrupt meets is closed by the collector, in whichever context that runs.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_first_call_that_is_interrupted_leaves_no_lock(interrupted_after):
    x = np.ones(3)
    for step in range(200):
        staged = fg.jit(lambda x: fnp.sum(x * x), backend="numpy")
        interrupted_after(1e-5 + 2e-6 * step, staged, x)
        assert float(staged(x)) == 3.0  # it would wait for ever
