"""How many threads a call uses, and that its results do not depend on it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends import thread_limits
from funcgrad._backends.thread_limits import LIMITS, automatic_threads
from funcgrad._core.trace import concrete
from funcgrad.errors import ArgumentError
from funcgrad.parallel import blas_threads
from tests.conformance import every_case, every_primitive, representatives
from tests.subjects import bits

pytest.importorskip("llvmlite")

from funcgrad._backends.native import function_site, loop_text, native_code, nest_ranges
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.native_code import BEST
from funcgrad._backends.native.native_module import NativeModule
from funcgrad._backends.native.thread_pool import has_threads
from tests.together import together

pytestmark = pytest.mark.skipif(not has_threads(), reason="the system has no such threads")

NUMBERS = (1, 2, 3, 8)


def wave(x: Any) -> Any:
    return fnp.sin(x) * fnp.exp(x), fnp.sum(fnp.tanh(x))


LARGE, SMALL = np.linspace(-2.0, 2.0, 600_001), np.linspace(-2.0, 2.0, 1_000)


@pytest.fixture
def best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the first code be the best, which threads share."""
    monkeypatch.setattr(native_code, "FIRST", BEST)
    monkeypatch.setattr(NativeModule, "short_text", NativeModule.text)
    monkeypatch.setenv("FUNCGRAD_CACHE", "0")


@pytest.fixture
def two(best: None) -> Iterator[None]:
    """Let calls use two threads, however many cores there are."""
    LIMITS.begin()
    before = int(LIMITS.words[0])
    LIMITS.words[0] = 2
    yield
    LIMITS.words[0] = before


def woken(call: Callable[[], Any]) -> int:
    """How often a call wakes threads."""
    before = int(LIMITS.words[2])
    call()
    return int(LIMITS.words[2]) - before


# ------------------------------------------------------------------------------ when threads share


@pytest.mark.usefixtures("two")
def test_large_steps_wake_threads_and_small_ones_do_not() -> None:
    f = fg.jit(wave, backend="native")
    assert woken(lambda: f(LARGE)) == 1
    assert [woken(lambda: f(SMALL)) for _ in range(50)] == [0] * 50
    one = fg.jit(wave, backend="native", threads=1)
    assert woken(lambda: one(LARGE)) == 0
    assert one.lower(LARGE).source == f.lower(LARGE).source
    for a, b in zip(f(LARGE), one(LARGE), strict=True):
        assert bits(a) == bits(b)


@pytest.mark.usefixtures("two")
def test_loops_over_examples_wake_threads_when_they_take_long() -> None:
    def root(x: Any) -> Any:
        return fg.while_loop(lambda y: abs(y * y - x) > 1e-9, lambda y: (y + x / y) / 2.0, x + 1.0)

    def slowly(x: Any) -> Any:
        def step(c: Any) -> Any:
            return c[0] + fnp.sin(c[0] * x) * 1e-3, c[1] + 1

        return fg.while_loop(lambda c: c[1] < 1_000 * x, step, (x, 0))[0]

    few, many = np.linspace(1.0, 2.0, 400), np.linspace(1.0, 2.0, 2_000)
    quick, slow = [fg.jit(fg.vmap(f), backend="native") for f in (root, slowly)]
    assert quick.lower(few).source.count("@share(ptr @") >= 1
    quick(few)
    assert min(woken(lambda: quick(few)) for _ in range(20)) == 0
    assert woken(lambda: slow(many)) == 1
    expected = bits(slow(many))
    LIMITS.words[0] = 1
    assert woken(lambda: slow(many)) == 0
    assert bits(slow(many)) == expected


@pytest.mark.usefixtures("two")
def test_workers_of_parallel_use_one_thread() -> None:
    f = fg.jit(wave, backend="native")
    asks = fg.jit(wave, backend="native", threads=3)
    for call in (f, asks):
        with blas_threads.one_thread():
            with blas_threads.one_thread():
                assert woken(lambda call=call: call(LARGE)) == 0  # type: ignore[misc]
            assert woken(lambda call=call: call(LARGE)) == 0  # type: ignore[misc]
        assert woken(lambda call=call: call(LARGE)) == 1  # type: ignore[misc]
    seen: list[int] = []

    def loss(w: Any, x: Any) -> Any:
        seen.append(int(LIMITS.words[1]))
        return fnp.sum(w * x)

    with ThreadPoolExecutor(2) as pool:
        fg.parallel.value_and_grad(loss, pool)(np.ones(3), [np.ones(3), np.ones(3)])
    assert seen
    assert int(LIMITS.words[1]) > 1


@pytest.mark.usefixtures("two")
def test_calls_from_many_threads_of_pythons() -> None:
    """Nobody waits for ever, and no more threads of the pool begin than one call may use."""
    f = fg.jit(wave, backend="native")
    expected = [bits(value) for value in f(LARGE)]
    tasks = "/proc/self/task"

    def work(_: int) -> bool:
        return all([bits(v) for v in f(LARGE)] == expected for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        pool.submit(f, SMALL).result()
        before = len(os.listdir(tasks)) if os.path.isdir(tasks) else 0
        assert all(pool.map(work, range(8)))
        after = len(os.listdir(tasks)) if os.path.isdir(tasks) else 0
    assert after - before <= 3  # the executor's


# ---------------------------------------------------------------------------------- the same bits


def assert_same_bits(f: Callable[..., Any], args: Sequence[Any], patch: pytest.MonkeyPatch) -> None:
    """Check a function that shares nothing against one that shares all it can, by any number."""
    program, values = fg.program(f)(*args), [concrete(leaf) for leaf in fg.tree.leaves(args)]
    prepared = NATIVE.prepare(program, False)

    def results(run: Callable[..., Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            outputs = run(*values)
        assert outputs is not None
        return [bits(output) for output in outputs]

    with patch.context() as alone:
        alone.setattr(function_site, "_WORTH_SHARING", 1 << 60)
        alone.setattr(loop_text, "_MUCH", 1 << 60)
        expected = results(NATIVE.compile(prepared).run)
    with patch.context() as eager:
        eager.setattr(function_site, "_WORTH_SHARING", 0)
        for limit in ("_FEW", "_LONG_PART", "_LONG_ROW"):
            eager.setattr(nest_ranges, limit, 0)
        eager.setattr(loop_text, "_MUCH", 0)
        eager.setattr(loop_text, "PATIENCE", 1)
        run = NATIVE.compile(prepared).run
    for number in NUMBERS:
        LIMITS.words[0] = number
        assert results(run) == expected, number


PRIMITIVES, AT_ONCE = every_primitive(), 12


@pytest.mark.slow
@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("start", range(0, len(PRIMITIVES), AT_ONCE))
def test_every_primitive_has_the_same_bits(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        form
        for primitive in PRIMITIVES[start : start + AT_ONCE]
        for case in list(representatives(every_case([primitive])))[:1]
        for form in (case, case.in_single_precision())
    ]

    def f(*groups: Any) -> Any:
        return [case.function()(*args) for case, args in zip(cases, groups, strict=True)]

    assert_same_bits(f, [tuple(case.args) for case in cases], monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("seed", range(24))
def test_random_programs_have_the_same_bits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.tools.fuzz.generate import SCOPE, generate
    from tests.tools.fuzz.syntax import function_of

    program = generate(np.random.default_rng(seed), lambda name: 1.0)
    f = function_of(program, SCOPE)
    try:
        fg.program(f)(*program.arguments)
    except fg.errors.FuncgradError:
        pytest.skip("it cannot be staged for these numbers")
    assert_same_bits(f, program.arguments, monkeypatch)


LOOPS: dict[str, Callable[..., Any]] = {
    "until": lambda x: fg.while_loop(lambda y: y < 50.0, lambda y: y * 1.5 + x, x),
    "branch": lambda x: fg.cond(x > 1.5, fnp.sin, lambda x: x * fnp.exp(x), x),
    "gradient": fg.grad(lambda x: fg.while_loop(lambda y: y < 9.0, lambda y: y * 1.5 + x, x)),
    "map": lambda x: fg.map(lambda y: fnp.sum(fnp.sin(y * fnp.arange(40.0))), x * fnp.ones(30)),
}


@pytest.mark.usefixtures("two")
@together("name", ["gradient", "map", "until", "branch"], quick=2)
def test_batched_loops_have_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same_bits(fg.vmap(LOOPS[name]), [np.linspace(1.0, 2.0, 1_234)], monkeypatch)
    if name == "map":
        assert_same_bits(LOOPS[name], [np.float64(1.25)], monkeypatch)


@pytest.mark.usefixtures("two")
def test_equal_nests_are_one_function_that_threads_share() -> None:
    def f(x: Any) -> Any:
        for _ in range(5):
            x = fnp.tanh(x * 3.0) - fnp.sum(x)
        return x

    jitted, one = [fg.jit(f, backend="native", threads=threads) for threads in (None, 1)]
    calls = re.findall(r"@share\(ptr (@\w+)", jitted.lower(LARGE).source)
    assert len(calls) >= 5
    assert len(set(calls)) < len(calls)
    assert bits(jitted(LARGE)) == bits(one(LARGE))


# ------------------------------------------------------------------------------------- interrupts


class EndlessError(Exception):
    """What a signal raises."""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no such signals")
@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("place", [0, 3_999])
def test_an_endless_example_is_interrupted(place: int) -> None:
    """Whoever runs it: the caller, or a thread of the pool."""

    def interrupt(*_: Any) -> None:
        raise EndlessError

    def f(x: Any) -> Any:
        return fg.while_loop(lambda c: c[1] < x, lambda c: (fnp.sin(c[0]), c[1] + 1.0), (x, 0.0))[0]

    jitted, x = fg.jit(fg.vmap(f), backend="native"), np.full(4_000, 1_000.0)
    expected = bits(jitted(x))
    for number in NUMBERS:
        LIMITS.words[0] = number
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            endless = x.copy()
            endless[place] = np.inf
            with pytest.raises(EndlessError):
                jitted(endless)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert bits(jitted(x)) == expected


# ------------------------------------------------------------------------ who says how many threads


def test_the_order_of_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_limits, "usable_cores", lambda: 4)
    assert automatic_threads({}) == 4
    assert automatic_threads({}, is_child=True) == 1
    assert automatic_threads({"OMP_NUM_THREADS": "2"}) == 2
    assert automatic_threads({"OMP_NUM_THREADS": "3,2"}) == 3
    assert automatic_threads({"OMP_NUM_THREADS": "64"}) == 4  # it limits
    for text in ("", "many", "-1", "0"):
        assert automatic_threads({"OMP_NUM_THREADS": text}) == 4
    both = {"OMP_NUM_THREADS": "2", "FUNCGRAD_THREADS": " 8 "}
    assert automatic_threads(both) == automatic_threads(both, is_child=True) == 8
    assert automatic_threads({"FUNCGRAD_THREADS": ""}) == 4
    for text in ("0", "-1", "two", "1.5", "²"):
        with pytest.raises(ArgumentError, match=r"FUNCGRAD_THREADS=.*is not a number of threads"):
            automatic_threads({"FUNCGRAD_THREADS": text})
        monkeypatch.setenv("FUNCGRAD_THREADS", text)
        with pytest.raises(ArgumentError, match="such as FUNCGRAD"):
            fg.jit(wave)


def test_cores_and_quotas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = tmp_path / "cgroup"

    def quota(line: str, **files: str) -> int:
        groups.write_text(line + "\n")
        root = tmp_path / f"root{len(list(tmp_path.iterdir()))}"
        for name, text in files.items():
            path = root / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return thread_limits._quota(str(groups), str(root))

    ever = thread_limits._EVER
    assert quota("0::/a/b") == ever
    assert quota("0::/a/b", cpu_dot_max="max 100000") == ever
    assert quota("0::/a/b", a__cpu_dot_max="250000 100000") == 2
    assert quota("0::/a/b", a__cpu_dot_max="300000 100000", a__b__cpu_dot_max="50000 100000") == 1
    v1 = {"cpu,cpuacct__x__cpu_dot_cfs_quota_us": "400000"}
    period = {"cpu,cpuacct__x__cpu_dot_cfs_period_us": "100000"}
    assert quota("4:cpu,cpuacct:/x", **v1, **period) == 4
    assert quota("4:memory:/x", **v1, **period) == ever
    monkeypatch.setattr(thread_limits, "_quota", lambda *_: 1)
    assert thread_limits.usable_cores() == 1
    monkeypatch.undo()
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
        assert thread_limits.usable_cores() == 1


PROGRAM = """
import os, sys, threading, time
import numpy as np
import funcgrad as fg
from funcgrad._backends.native.thread_pool import POOL
from funcgrad._backends.thread_limits import LIMITS

x = np.linspace(-2.0, 2.0, 600_001)

def woken(**options):
    f = fg.jit(lambda x: fg.numpy.sin(x) * fg.numpy.exp(x), backend="native", **options)
    before = LIMITS.words[2]
    ended = time.monotonic() + 60
    while not POOL._code and time.monotonic() < ended:
        f(x)
    for _ in range(20):
        f(x)
    while threading.active_count() > 1:
        time.sleep(0.001)
    f(x)
    return bool(LIMITS.words[2] > before)
"""


def outputs(text: str, **environment: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM + text]
    names = ("FUNCGRAD_THREADS", "OMP_NUM_THREADS")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**inherited, **environment},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"FUNCGRAD_THREADS": "1"}, ["False", "True"]),
        ({"FUNCGRAD_THREADS": "3", "OMP_NUM_THREADS": "1"}, ["True", "True"]),
        ({"OMP_NUM_THREADS": "1"}, ["False", "True"]),
    ],
)
def test_variables_decide_unless_the_argument_does(
    environment: dict[str, str], expected: list[str]
) -> None:
    assert outputs("print(woken(), woken(threads=2))", **environment) == expected


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_children_use_one_thread_unless_they_are_told_more() -> None:
    text = """
print(int(woken(threads=2)), flush=True)
LIMITS.words[0] = 2
child = os.fork()
if not child:
    print(int(woken()), int(woken(threads=2)), int(LIMITS.words[0]), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(int(woken()))
"""
    assert outputs(text) == ["1", "0", "1", "1", "1"]
    assert outputs(text, FUNCGRAD_THREADS="2") == ["1", "1", "1", "2", "1"]
    text = """
import multiprocessing
from funcgrad._backends.thread_limits import ThreadLimits

def threads():
    limits = ThreadLimits()
    limits.begin()
    return int(limits.words[0])

with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.apply(threads))
"""
    assert outputs(text) == ["1"]
    assert outputs(text, FUNCGRAD_THREADS="5") == ["5"]


def test_threads_of_python_that_end_leave_the_pool_in_order(two: None) -> None:
    f = fg.jit(wave, backend="native")
    expected = [bits(value) for value in f(LARGE)]
    for _ in range(5):
        thread = threading.Thread(target=f, args=(LARGE,))
        thread.start()
        thread.join()
        time.sleep(0.001)
        assert [bits(value) for value in f(LARGE)] == expected


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_child_forked_amid_shared_work_does_all_of_it() -> None:
    """A handler forks while a loop over examples is shared: the child has lost the others."""
    text = """
import signal

def f(x):
    return fg.while_loop(
        lambda c: c[1] < x, lambda c: (fg.numpy.sin(c[0]), c[1] + 1.0), (x, 0.0)
    )[0]

g, x = fg.jit(fg.vmap(f), backend="native", threads=2), np.full(4_000, 20_000.0)
ended = time.monotonic() + 60
while not POOL._code and time.monotonic() < ended:
    g(x / 1_000.0)
while threading.active_count() > 1:
    time.sleep(0.001)
expected, before, forks = np.asarray(g(x)).tobytes(), LIMITS.words[2], []
signal.signal(signal.SIGALRM, lambda *_: forks.append(os.fork()))
signal.setitimer(signal.ITIMER_REAL, 0.1)
is_same = np.asarray(g(x)).tobytes() == expected and np.asarray(g(x)).tobytes() == expected
if forks == [0]:
    os._exit(not is_same)
print(len(forks), is_same, os.waitpid(forks[0], 0)[1], bool(LIMITS.words[2] > before))
"""
    assert outputs(text) == ["1", "True", "0", "True"]
