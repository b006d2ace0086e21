"""Threads share work, and nothing but time tells how many there were."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.errors import ArgumentError
from tests.conformance import in_turn

pytest.importorskip("llvmlite")

from funcgrad._backends.native import function_site, nest_ranges, product_text
from funcgrad._backends.native.native_backend import EXACT, NATIVE
from funcgrad._backends.native.thread_pool import POOL, has_threads
from tests.in_threads import in_threads
from tests.together import together

pytestmark = pytest.mark.skipif(not has_threads(), reason="the system has no such threads")


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have threads share whatever comes apart."""
    monkeypatch.setattr(function_site, "_WORTH_SHARING", 0)
    for limit in ("_FEW", "_LONG_PART", "_LONG_ROW"):
        monkeypatch.setattr(nest_ranges, limit, 0)
    monkeypatch.setenv("FUNCGRAD_CACHE", "0")  # in which code is that shares less


@pytest.fixture
def own_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no large product to NumPy, as processors with narrow vectors do."""
    monkeypatch.setattr(product_text, "_MOST", dict.fromkeys((128, 256, 512), 1 << 29))


def bits(values: Any) -> list[bytes]:
    return [np.asarray(value).tobytes() for value in fg.tree.leaves(values)]


def shares(f: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """How often the code of a function calls for threads."""
    return f.lower(*args, **kwargs).source.count("call i32 @share(")  # type: ignore[attr-defined]


def agree(f: Callable[..., Any], *args: Any, exact: bool = False, least: int = 1) -> None:
    """Check that bits are the same for every number of threads, at both levels of code.

    And where nothing is shared.
    """
    jitted = partial(fg.jit, f, backend="native", exact=exact)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(function_site, "_WORTH_SHARING", 1 << 60)
        expected = bits(jitted()(*args))
    for threads in (1, 2, 3, 8):
        shared = jitted(threads=threads)
        assert shares(shared, *args) >= least
        for _ in range(3):
            assert bits(shared(*args)) == expected


DTYPES = ("float64", "float32", "float16", "complex128", "complex64", "int64", "int8", "bool")


def numbers(shape: tuple[int, ...], dtype: str = "float64") -> Any:
    values = np.random.default_rng(len(shape)).normal(scale=3.0, size=shape)
    return (values + 0.5j * values[::-1] if dtype.startswith("c") else values).astype(dtype)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("turn", [0, 1])
def test_elements_and_their_sums(dtype: str, turn: int) -> None:
    """A long array, and one of three short ones, which take turns."""
    (short,) = in_turn([64, 127, 1_000], DTYPES.index(dtype), 1)
    size = (short, 20_011)[turn]
    x = numbers((size,), dtype)
    agree(lambda x: (x * x + x, fnp.where(x == x[::-1], x, 0)), x)
    agree(lambda x: (x + x, fnp.sum(x * x), fnp.max(abs(x))), x, least=size > 20_000)
    if x.dtype.kind in "fc":
        agree(lambda x: fnp.exp(x) * fnp.sin(x), x)
        agree(lambda x: (fnp.sum(fnp.tanh(x)), fnp.prod(x)), x, least=size > 20_000)


BROADCASTS: dict[str, Callable[..., Any]] = {
    "elements": lambda m, b: (m - b) * 2.0,
    "transposed": lambda m, b: m.T * 2.0 + 1.0,
    "strided": lambda m, b: m[::2, ::-3] * 2.0,
    "whole sum": lambda m, b: fnp.sum((m - b) ** 2),
    "whole sums": lambda m, b: (fnp.sum(m * b), fnp.max(m - b), fnp.min(m + b), m + b),
    "sums of rows": lambda m, b: fnp.sum(m * fnp.exp(-abs(b)), 1),
    "sums of columns": lambda m, b: fnp.sum((m * b - 1.0) ** 2 * m, 0),
    "short sums of columns": lambda m, b: fnp.sum(m * b, 0),
    "sums of both": lambda m, b: (fnp.sum(m * b, 0), fnp.sum(m * b, 1)),
    "repeated": lambda m, b: fnp.broadcast_to(b, m.shape) + fnp.zeros_like(m),
    "joined": lambda m, b: fnp.concatenate([m * b, m + b]),
    "softmax": lambda m, b: fnp.exp(m - fnp.max(m, 1, keepdims=True)) / (1.0 + abs(b)),
}


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", BROADCASTS)
def test_nests_of_several_loops(name: str) -> None:
    """The first shape is that which threads share; two of the others take turns.

    Nests whose totals of columns lie in registers take less time than is worth sharing.
    """
    turn = list(BROADCASTS).index(name)
    others = in_turn([(37, 8), (3, 517), (517, 3), (2, 9001)], turn, 2)
    for shape in ((40, 33), *others):
        least = shape == (40, 33) and name not in {"sums of both", "short sums of columns"}
        agree(BROADCASTS[name], numbers(shape), numbers(shape[1:]), least=least)


@pytest.mark.slow
@pytest.mark.usefixtures("eager", "own_products")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_products_by_stacks_panels_and_rows(dtype: str) -> None:
    """Transposed operands take turns over sizes, all of them with the first."""
    sizes = ((90, 50, 700), (301, 400, 30), (40, 900, 513), (61, 7, 64))
    for turn, (rows, length, columns) in enumerate(sizes):
        x, y = numbers((rows, length), dtype), numbers((length, columns), dtype)
        ways: list[tuple[Callable[..., Any], Any, Any]] = [
            (lambda x, y: x @ y, x, y),
            (lambda x, y: x @ y.T, x, np.ascontiguousarray(y.T)),
            (lambda x, y: x.T @ y, np.ascontiguousarray(x.T), y),
        ]
        for way in in_turn(ways, turn, 1) if turn else ways:
            agree(*way)
    agree(lambda x: x @ x, numbers((1, 5, 1, 40, 40), dtype))
    agree(lambda x: x @ x, numbers((50, 3, 3), dtype))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_inner_loops_of_numpy(dtype: str) -> None:
    for size in (2_048, 5_001):
        x = numbers((size,), dtype)
        agree(lambda x: (fnp.sin(x), fnp.arctan2(x, x[0])), x, exact=True, least=2)
        exact = fg.jit(fnp.sin, backend="native", exact=True, threads=2)
        assert bits(exact(x)) == bits(np.sin(x))


@pytest.mark.usefixtures("eager")
def test_nothing_and_little() -> None:
    for shape in ((0,), (3, 0), (0, 5), (1,), (), (1, 1), (2,), (2, 2)):
        x = numbers(shape) if shape else np.float64(2.5)
        agree(
            lambda x: (fnp.sin(x) + x, fnp.sum(x), fnp.sum(x * 2.0, 0) if x.ndim else x), x, least=0
        )
    agree(lambda x, y: x @ y, np.ones((3, 0)), np.ones((0, 4)), least=0)
    agree(lambda x, y: x @ y, np.ones((0, 3)), np.ones((3, 4)), least=0)


def net(params: Any, x: Any, y: Any) -> Any:
    hidden = fnp.tanh(x @ params[0] + params[1])
    scores = hidden @ params[2]
    scores = scores - fnp.max(scores, 1, keepdims=True)
    return -fnp.mean(scores[fnp.arange(len(y)), y] - fnp.log(fnp.sum(fnp.exp(scores), 1)))


@pytest.mark.usefixtures("eager")
def test_gradients_loops_and_choices() -> None:
    params = [numbers((30, 64)) * 0.1, numbers((64,)), numbers((64, 10)) * 0.1]
    x, y = numbers((200, 30)), np.arange(200) % 10
    agree(fg.value_and_grad(net), params, x, y, least=4)

    def descent(params: Any) -> Any:
        def step(p: Any, _: Any) -> Any:
            slope = fg.grad(net)(p, x, y)
            return [a - 0.1 * b for a, b in zip(p, slope, strict=True)], fnp.sum(p[0] ** 2)

        return fg.scan(step, params, None, length=5)

    agree(descent, params, least=4)
    long = numbers((5_000,))
    agree(lambda x: fg.while_loop(lambda c: fnp.sum(c) < 1e6, lambda c: c * c + 1.0, x), long)
    agree(lambda x: fg.cond(x[0] > 0, fnp.sin, lambda x: x * fnp.sum(x), x), long)
    agree(fg.vmap(lambda x: fnp.partition(x, 0) * fnp.sum(x)), numbers((50, 100)))


@pytest.mark.usefixtures("eager")
@together("stride", [1, 2])
@together("groups", [2, 1], quick=1)
def test_convolutions_are_shared(stride: int, groups: int) -> None:
    x, k = numbers((3, 4, 9, 10)), numbers((6, 4 // groups, 3, 3))

    def f(x: Any, k: Any) -> Any:
        return fnp.sum(nn.conv(x, k, stride=stride, groups=groups, padding="same") ** 2)

    agree(fg.grad(f, argnums=(0, 1)), x, k, least=3)


@pytest.mark.usefixtures("own_products")
def test_work_is_shared_from_its_size_on() -> None:
    jitted = fg.jit(lambda x: fnp.sin(x) * fnp.exp(x) + 1.0, backend="native", threads=2)
    large = np.linspace(-3.0, 3.0, 500_000)
    assert shares(jitted, large) == 1
    assert shares(jitted, large[:1_000]) == 0
    one = fg.jit(lambda x: fnp.sin(x) * fnp.exp(x) + 1.0, backend="native", threads=1)
    assert one.lower(large).source == jitted.lower(large).source  # the number is read at the call
    assert bits(jitted(large)) == bits(one(large))
    product = fg.jit(lambda x: x @ x, backend="native", threads=2)
    assert shares(product, np.ones((400, 400))) == 1
    assert shares(product, np.ones((100, 100))) == 0


@pytest.mark.usefixtures("eager")
def test_errors_and_guards_between_shared_work() -> None:
    def failing(x: Any) -> Any:
        if np.asarray(x)[0] > 4.0:
            raise ValueError("too large")
        return np.array(x)

    checked = fg.extend.elementwise("checked_here", failing, partials=(lambda y, x: 1.0,))

    def f(x: Any) -> Any:
        y = fg.extend.apply(checked, x * 2.0) + 1.0
        return y * 2.0 if fnp.sum(y) > 0 else y - 1.0

    x = np.ones(30_000)
    agree(f, x)
    agree(f, -x)
    shared = fg.jit(f, backend="native", threads=2)
    for _ in range(4):
        assert bits(shared(x)) == bits(f(x))
        assert bits(shared(-x)) == bits(f(-x))
        with pytest.raises(ValueError, match="too large"):
            shared(3.0 * x)


class SharedInterruptError(Exception):
    """What a signal raises."""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no such signals")
def test_a_signal_ends_a_row_of_shared_work() -> None:
    def interrupt(*_: Any) -> None:
        raise SharedInterruptError

    def f(x: Any) -> Any:
        for k in range(40):
            x = fnp.sqrt(abs(x @ x)) + float(k)
        return x

    x = np.ones((300, 300))
    jitted = fg.jit(f, backend="native", threads=2)
    expected = bits(jitted(x))
    jitted(x)
    begin = time.perf_counter()
    jitted(x)
    whole = time.perf_counter() - begin
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, whole / 50)
        with pytest.raises(SharedInterruptError):
            jitted(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert bits(jitted(x)) == expected


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_many_threads_of_pythons_call_at_once() -> None:
    f = fg.jit(lambda x: (fnp.sin(x) * x, fnp.sum(x @ x)), backend="native", threads=3)
    arguments = [numbers((90, 90)) + k for k in range(6)]
    expected = [bits(f(x)) for x in arguments]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(100):
            if bits(f(arguments[k])) != expected[k]:
                wrong.append(k)

    in_threads(work, 6)
    assert not wrong


TASKS = "/proc/self/task"

PRELUDE = """
import os, sys, threading, time, warnings
import numpy as np
import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.thread_pool import POOL

TASKS = "/proc/self/task"
warnings.simplefilter("ignore", DeprecationWarning)  # newer versions tell of threads at forks
f = fg.jit(lambda x: (fnp.sin(x) * fnp.exp(x), fnp.sum(fnp.tanh(x))), backend="native", threads=2)
x = np.linspace(-2.0, 2.0, 300_001)
assert POOL._code is None
expected = [np.asarray(value).tobytes() for value in f(x)]
ended = time.monotonic() + 60
while POOL._code is None and time.monotonic() < ended:
    f(x)  # until its code is improved
while threading.active_count() > 1:
    time.sleep(0.001)
f(x)
assert POOL._code is not None
"""

FORKS = """
over = False

def work():
    while not over:
        f(x)

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for turn in range(30):
    time.sleep(0.001 * (turn % 7))
    child = os.fork()
    if not child:
        wrong = [k for k in range(3) if [np.asarray(v).tobytes() for v in f(x)] != expected]
        while threading.active_count() > 1:
            time.sleep(0.001)  # a thread that compiles
        ended = time.monotonic() + 5  # a thread that Python counts as ended ends a moment later
        while os.path.isdir(TASKS) and len(os.listdir(TASKS)) != 2 and time.monotonic() < ended:
            time.sleep(0.001)
        if os.path.isdir(TASKS) and len(os.listdir(TASKS)) != 2:
            wrong.append(4)
        if turn % 2:
            grandchild = os.fork()
            if not grandchild:
                os._exit([np.asarray(v).tobytes() for v in f(x)] != expected)
            wrong += [5] * (os.waitpid(grandchild, 0)[1] != 0)
        os._exit(sum([1 << k for k in wrong]))
    begin, waited = time.monotonic(), (0, 0)
    while not waited[0] and time.monotonic() < begin + 20:
        time.sleep(0.001)
        waited = os.waitpid(child, os.WNOHANG)
    if waited != (child, 0):
        print("turn", turn, "waited", waited, flush=True)
        os._exit(1)
over = True
print("done")
"""

ENDS = """
for _ in range(3):
    threading.Thread(target=lambda: [f(x) for _ in range(10**9)], daemon=True).start()
time.sleep(0.1)
print("done")
"""

STAYS = """
for _ in range(300):
    assert [np.asarray(value).tobytes() for value in f(x)] == expected
while threading.active_count() > 1:
    time.sleep(0.01)  # a thread that compiles
assert len(os.listdir(TASKS)) == 2
print("done")
"""


def runs(text: str) -> None:
    command = [sys.executable, "-c", PRELUDE + text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_child_has_a_pool_of_its_own() -> None:
    runs(FORKS)


def test_python_ends_while_threads_share_work() -> None:
    runs(ENDS)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir(TASKS), reason="threads cannot be counted")
def test_threads_begin_once() -> None:
    runs(STAYS)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True, np.True_, [2]])
def test_numbers_of_threads_are_checked(threads: Any) -> None:
    with pytest.raises(ArgumentError, match=r"jit: threads=.*such as threads=2"):
        fg.jit(fnp.sin, threads=threads)


def scaled(x: Any, n: int = 1) -> Any:
    return fnp.sin(x) * n


by_two = fg.jit(scaled, static_argnames="n", backend="native", threads=2)
late: Any = fg.jit(fnp.sin, backend="native", threads=np.int64(2))  # type: ignore[call-overload]  # it is an integer


class Model:
    """A class with a jitted method."""

    @partial(fg.jit, static_argnums=0, backend="native", threads=2)
    def apply(self, x: Any) -> Any:
        return scaled(x, 3)


def test_the_option_survives() -> None:
    x = np.linspace(0.0, 1.0, 500_000)
    same = fg.jit(scaled, static_argnames="n", backend="native", threads=2)
    f: Any
    for f in (by_two, pickle.loads(pickle.dumps(by_two)), pickle.loads(pickle.dumps(same))):
        assert (f.__name__, f.__wrapped__) == ("scaled", scaled)
        assert shares(f, x) == shares(f, x, n=3) == 1
        assert bits(f(x, n=3)) == bits(fg.jit(scaled, backend="native")(x, 3))
    assert shares(late, x) == 1
    assert shares(pickle.loads(pickle.dumps(fg.jit(fnp.sin, backend="native", threads=2))), x) == 1
    assert bits(Model().apply(x)) == bits(by_two(x, n=3))
    outer = fg.jit(lambda x: by_two(x) + 1.0, backend="native", threads=2)
    assert shares(outer, x) == 1
    plain = fg.jit(scaled, static_argnames="n", backend="native")
    gradients = [bits(fg.grad(lambda x, f=f: fnp.sum(f(x)))(x)) for f in (by_two, plain)]
    assert gradients[0] == gradients[1]
    rows = x.reshape(100, -1)
    assert bits(fg.vmap(by_two)(rows)) == bits(fg.vmap(plain)(rows))


def test_backends_are_the_same_for_the_same_number() -> None:
    assert NATIVE.with_threads(None) is NATIVE is not NATIVE.with_threads(1)
    two = NATIVE.with_threads(2)
    assert two is NATIVE.with_threads(2) is not NATIVE.with_threads(3)
    assert two.with_threads(None) is NATIVE
    assert pickle.loads(pickle.dumps(two)) is two
    assert pickle.loads(pickle.dumps(EXACT.with_threads(2))) is EXACT.with_threads(2)
    assert EXACT.with_threads(2).exact
    x = np.ones(500_000)
    assert shares(fg.jit(fnp.sin, backend=NATIVE, threads=2), x) == 1
    assert shares(fg.jit(fnp.sin, backend=two), x) == 1
    assert bits(fg.jit(fnp.sin, backend="numpy", threads=2)(x)) == bits(np.sin(x))
    runtime = NATIVE._runtime().code.addresses
    assert POOL.functions(NATIVE._tools, runtime) == POOL.functions(EXACT._tools, runtime)
