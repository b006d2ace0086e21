"""What goes wrong has a cause and a remedy in words, and leaves the next call as good as before."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from threading import Event
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import parallel
from funcgrad.errors import (
    ArgumentError,
    ChunkError,
    DifferentiationError,
    FunctionError,
    ShapeError,
    TracerError,
    TreeError,
    WorkerError,
)
from funcgrad.parallel import blas_threads, plans, probes, waiting
from tests.parallel.losses import (
    bits,
    data,
    deadly_rows,
    failing_rows,
    loaders,
    loss,
    params,
    rows_of,
)


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


def processes(workers: int = 1, **options: Any) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=get_context("forkserver"), **options)


# ------------------------------------------------------------------------------------- executors


@pytest.mark.parametrize(
    "executor", [None, 2, "tcp://127.0.0.1:8786", ThreadPoolExecutor, [np.ones(3)]]
)
@pytest.mark.parametrize("name", ["grad", "value_and_grad", "hvp", "jacobian", "map"])
def test_no_executor(name, executor):
    with pytest.raises(ArgumentError, match=rf"parallel\.{name}: executor=.* is not an executor"):
        getattr(parallel, name)(loss, executor)


def test_data_in_place_of_an_executor():
    called: Any = parallel.map
    with pytest.raises(ArgumentError, match=r"data follow .* parallel\.map\(\.\.\., executor\)"):
        called(loss, [np.ones(3)], ThreadPoolExecutor(1))


def test_an_executor_that_is_shut_down():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(WorkerError, match=r"ThreadPoolExecutor accepts no more tasks"):
        parallel.grad(loss, executor)(params(), [rows_of(0)])


def exits() -> Any:
    raise SystemExit(3)


def interrupts() -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("loader", [exits, interrupts])
def test_a_chunk_that_ends_its_worker_does_not_end_the_caller(loader, threads):
    with processes() as pool:
        for executor in (threads, pool):
            f = parallel.grad(loss, executor, timeout=60)
            for chunks in ([loader], [rows_of(0), loader]):
                with pytest.raises(ChunkError, match=r"cannot be loaded: (System|Keyboard)"):
                    f(params(), chunks)
            f(params(), loaders(1))


def test_an_interrupt_of_a_caller_who_runs_tasks_is_one():
    class Here:
        def submit(self, function, *args):
            future: Any = Future()
            future.set_result(function(*args))
            return future

    with pytest.raises(KeyboardInterrupt):
        parallel.grad(loss, Here())(params(), [interrupts])


def test_a_worker_may_use_its_own_pool():
    with ThreadPoolExecutor(1) as executor:
        inner = parallel.map(lambda x: x * 2.0, executor, timeout=20)
        outer = parallel.map(lambda x: x + 1.0, executor, timeout=20)
        (actual,) = outer([lambda: np.array([*map(float, inner([1.0, 2.0]))])])
        assert actual.tolist() == [3.0, 5.0]
        nested = executor.submit(lambda: [float(x) for x in inner([1.0, 2.0])])
        assert nested.result(30) == [2.0, 4.0]


FORKED = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import numpy as np
import funcgrad as fg

pool = ProcessPoolExecutor(1, mp_context=get_context("fork"))

def twice(x):
    return x * 2.0

def more(x):
    return x + 1.0

inner = fg.parallel.map(twice, pool, timeout=20)
outer = fg.parallel.map(more, pool, timeout=40)

def load():
    return np.array([*map(float, inner([1.0, 2.0]))])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_worker_may_use_its_copy_of_the_pool(tmp_path):
    (tmp_path / "pools.py").write_text(FORKED)
    text = f"import sys; sys.path.append({str(tmp_path)!r}); import pools"
    text += "; print([out.tolist() for out in pools.outer([pools.load])])"
    command = [sys.executable, "-W", "ignore", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "[[3.0, 5.0]]\n", done.stderr


def test_a_chunk_that_raises_has_its_index_and_the_users_traceback(threads):
    f = parallel.grad(loss, threads)
    chunks = [partial(failing_rows, number) for number in range(6)]
    with processes() as pool:
        for g in (f, parallel.grad(loss, pool)):
            with pytest.raises(ChunkError, match="chunk 3 cannot be loaded: KeyError") as caught:
                g(params(), chunks)
            assert caught.value.index == 3
            assert "in failing_rows" in str(caught.value)
    assert len(bits(f(params(), loaders(3)))) == 2


def test_a_worker_that_dies_breaks_a_pool_of_processes():
    with processes() as pool:
        f = parallel.grad(loss, pool)
        with pytest.raises(WorkerError, match=r"one of its workers has died.*unchanged"):
            f(params(), [partial(deadly_rows, number) for number in range(3)])


def test_numbers_that_an_operation_refuses(threads):
    f = parallel.grad(lambda w, x: fnp.linalg.cholesky(x * w).sum(), threads, "sum")
    with pytest.raises(ChunkError, match=r"chunk 1 has values .*MatrixError") as caught:
        f(1.0, [np.eye(2), -np.eye(2)])
    assert caught.value.index == 1


def test_nothing_is_left_running_after_a_failure():
    started: list[int] = []
    release = Event()

    def load(number: int) -> Any:
        started.append(number)
        if number == 1:
            raise ValueError("bad")
        release.wait(10)
        return rows_of(number)

    def loading(number: int) -> Any:
        return partial(load, number)

    with ThreadPoolExecutor(2) as executor:
        f = parallel.grad(loss, executor)
        f(params(), [rows_of(0)])
        with pytest.raises(ChunkError):
            f(params(), [loading(number) for number in range(30)])
        release.set()
    assert len(started) <= 4


def test_the_executors_own_cancellation_is_told():
    with ThreadPoolExecutor(1) as executor:
        f = parallel.grad(loss, executor)
        f(params(), [rows_of(0)])
        gate = Event()

        def slow() -> Any:
            executor.shutdown(wait=False, cancel_futures=True)
            gate.wait(1)
            return rows_of(1)

        with pytest.raises(WorkerError, match="no more tasks"):
            f(params(), [slow, *loaders(3)])


# -------------------------------------------------------------------------------------- functions


def test_a_loss_that_returns_a_batch(threads):
    with pytest.raises(DifferentiationError, match=r"has to return one number") as caught:
        parallel.grad(lambda p, c: c["x"] @ p["w"], threads)(params(), [rows_of(0)])
    assert "staged it for chunk 0" in caught.value.__notes__[0]


def test_chunks_of_unequal_structure(threads):
    chunks = [rows_of(0), {"x": rows_of(1)["x"]}]
    with pytest.raises(TreeError, match=r"chunk 1 is .*All chunks have to have one structure"):
        parallel.grad(loss, threads)(params(), chunks)
    loading = [partial(rows_of, 0), lambda: rows_of(1)["x"]]
    with pytest.raises(TreeError, match=r"chunk 1 is .*All chunks have to have one structure"):
        parallel.grad(loss, threads)(params(), loading)


def test_results_that_cannot_be_combined(threads):
    double = parallel.reduce(lambda x: x * 2, lambda a, b: a + b, threads)
    with pytest.raises(ShapeError, match=r"results for chunk 1 are float64\[3\], but"):
        double([np.ones(2), np.ones(3)])
    with pytest.raises(ShapeError, match=r"combine turns two results of .* into float64\[4\]"):
        parallel.reduce(lambda x: x * 2, lambda a, b: fnp.concatenate([a, b]), threads)(
            [np.ones(2), np.ones(2)]
        )
    total = parallel.reduce(lambda x: x * 2, lambda a, b: a + b, threads)
    with pytest.raises(ShapeError, match=r"for chunk 1 are float32\[2\], but .*float64\[2\]"):
        total([np.ones(2), np.ones(2, np.float32)])
    with pytest.raises(TreeError, match=r"combine's result"):
        parallel.reduce(lambda x: x * 2, lambda a, b: (a, b), threads)([np.ones(2), np.ones(2)])
    with pytest.raises(ArgumentError, match=r"combine branches on a value"):
        parallel.reduce(lambda x: x * 2, lambda a, b: a if a > b else b, threads)([1.0, 2.0])


def test_a_jacobian_needs_rows(threads):
    with pytest.raises(ShapeError, match=r"parallel\.jacobian: the function returns a number"):
        parallel.jacobian(loss, threads)(params(), [rows_of(0)])


def test_functions_that_are_none(threads):
    number: Any = 3.0
    with pytest.raises(FunctionError, match=r"parallel\.grad: expected a function"):
        parallel.grad(number, threads)
    with pytest.raises(FunctionError, match=r"parallel\.reduce: expected a function"):
        parallel.reduce(loss, number, threads)


def test_a_function_that_cannot_be_sent(tmp_path):
    with open(tmp_path / "file", "w") as file, processes() as pool:
        chunks = [partial(rows_of, 0), lambda: file.read()]
        with pytest.raises(
            ArgumentError, match=r"chunks\[1\]: the function .*cannot be sent.*open"
        ):
            parallel.grad(loss, pool)(params(), chunks)


def test_a_loss_with_an_open_file_need_not_be_sent(tmp_path):
    with open(tmp_path / "file", "w") as file, processes() as pool:

        def writing(w, chunk):
            file.write("staged")
            return (w * chunk).sum()

        assert float(parallel.grad(writing, pool, "sum")(1.0, [np.ones(3)])) == 3.0


def test_random_numbers_of_a_hidden_generator(threads):
    generator = np.random.default_rng(0)
    with pytest.raises(ArgumentError, match=r"draws random numbers from an outside generator"):
        parallel.grad(lambda w, x: w * generator.normal() * x, threads)(1.0, [1.0])


def test_a_transformation_around_the_call(threads):
    chunks = [rows_of(0)]
    f = parallel.value_and_grad(loss, threads)
    with pytest.raises(TracerError, match=r"traced by a transformation around the call"):
        fg.grad(lambda p: f(p, chunks)[0])(params())


def test_too_many_paths(threads, monkeypatch):
    monkeypatch.setattr(plans, "_MOST_PROGRAMS", 4)

    def branching(w, x):
        return w * float(x)

    with pytest.raises(ArgumentError, match=r"4 different paths.*fnp\.where"):
        parallel.grad(branching, threads)(1.0, [np.float64(k) for k in range(8)])


def test_data_that_are_others_each_time(threads, monkeypatch):
    monkeypatch.setattr(plans, "_MOST_PROGRAMS", 4)
    numbers = iter(range(100))

    def load() -> Any:
        return np.float64(next(numbers))

    with pytest.raises(ArgumentError, match=r"4 different paths"):
        parallel.grad(lambda w, x: w * float(x), threads, keep=0)(1.0, [load])


# ---------------------------------------------------------------------------------------- options


@pytest.mark.parametrize("reduce", ["max", None, 3, [], [np.nan], [1.0, -1.0]])
def test_wrong_reductions(reduce, threads):
    with pytest.raises(ArgumentError, match=r"reduce has to be|weights of chunks have to be"):
        parallel.grad(loss, threads, reduce)


def test_too_few_weights(threads):
    with pytest.raises(ArgumentError, match=r"there are 2 weights and 3 chunks"):
        parallel.grad(loss, threads, [1, 2])(params(), loaders(3))


@pytest.mark.parametrize(
    "option", [{"dtype": "int8"}, {"dtype": "f65"}, {"keep": -1}, {"timeout": 0}, {"timeout": "1"}]
)
def test_wrong_options(option, threads):
    (name,) = option
    with pytest.raises(ArgumentError, match=rf"parallel\.value_and_grad: {name}"):
        parallel.value_and_grad(loss, threads, **option)


def test_batches_of_no_size(threads):
    with pytest.raises(ArgumentError, match=r"size has to be an integer >= 1"):
        parallel.map(loss, threads, batch_size=0)


# ---------------------------------------------------------------------------------------- waiting


def test_a_step_that_takes_too_long_is_given_up(threads):
    def slow() -> Any:
        time.sleep(0.5)
        return rows_of(0)

    f = parallel.grad(loss, threads, timeout=0.1)
    with pytest.raises(WorkerError, match=r"has not ended in 0\.1 s, and waits for 1 tasks"):
        f(params(), [slow])


def test_the_time_is_that_of_the_whole_step():
    def slow(number: int) -> Any:
        time.sleep(0.15)
        return rows_of(number)

    with ThreadPoolExecutor(1) as executor:
        f = parallel.grad(loss, executor, timeout=0.4, keep=0)
        with pytest.raises(WorkerError, match=r"the step has not ended in 0\.4 s"):
            f(params(), [partial(slow, number) for number in range(6)])


def test_waiting_says_for_what(caplog):
    calls = iter([False, False, True])
    wait = waiting.Deadline("parallel.grad", None, seconds=0.01)
    wait.until(lambda seconds: next(calls), lambda: "three tasks")
    assert [record.getMessage() for record in caplog.records] == [
        "parallel.grad: for 0 s waiting for three tasks"
    ] * 2


# -------------------------------------------------------------------------------------- strangers


def _another_exponential() -> None:
    """Patch a worker: as if its processor had another exponential."""
    exp = np.exp
    np.exp = lambda x: exp(x) * (1 + 2**-52)  # type: ignore[assignment]


def _another_numpy() -> None:
    vars(np)["__version__"] = "1.99.0"


def test_a_worker_with_other_bits_is_named_and_refused():
    with processes(initializer=_another_exponential) as pool:
        with pytest.raises(
            WorkerError, match=r"the worker .*:\d+ computes .*allow_other_bits=True"
        ):
            parallel.grad(loss, pool)(params(), [rows_of(0)])
        accepted = parallel.grad(loss, pool, allow_other_bits=True)(params(), [rows_of(0)])
        assert len(bits(accepted)) == 2


def test_a_worker_with_another_version_is_refused_with_both():
    versions = rf"the caller has NumPy {np.__version__} and the worker 1\.99\.0, at"
    with processes(initializer=_another_numpy) as pool:
        cases: list[dict[str, Any]] = [{}, {"allow_other_bits": True}]
        for options in cases:
            with pytest.raises(WorkerError, match=versions):
                parallel.grad(loss, pool, **options)(params(), [rows_of(0)])


def test_the_probe_sees_the_last_bit_of_each_function(monkeypatch):
    right = probes._answer()
    for name in ("exp", "log"):
        with monkeypatch.context() as patched:
            original = getattr(np, name)

            def nudged(x, original=original):
                return np.nextafter(original(x), x.dtype.type(9e9))

            patched.setattr(np, name, nudged)
            assert probes._answer() != right
    assert probes._answer() == right


def test_products_have_one_thread_while_workers_run():
    known = blas_threads._functions()
    if known is None:
        pytest.skip("a library of linear algebra whose threads are not known")
    read, write = known
    before = read()
    write(2)
    try:
        with blas_threads.one_thread():
            with blas_threads.one_thread():
                assert read() == 1
            assert read() == 1
        assert read() == 2
        with pytest.raises(ZeroDivisionError), blas_threads.one_thread():
            raise ZeroDivisionError
        assert read() == 2
    finally:
        write(before)


def test_step_after_a_failed_step_has_the_same_bits(threads):
    f = parallel.grad(loss, threads)
    chunks = parallel.slices(data(), 40)
    before = bits(f(params(), chunks))
    with pytest.raises(ChunkError):
        f(params(), [partial(failing_rows, 3)] * 3)
    assert bits(f(params(), chunks)) == before
