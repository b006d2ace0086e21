"""A real Dask cluster: the same bits, whoever computes and whoever dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import parallel
from funcgrad.errors import ArgumentError, ChunkError, WorkerError
from tests.parallel.losses import (
    bits,
    cluster,
    data,
    deadly_rows,
    failing_rows,
    loaders,
    logged_rows,
    loss,
    params,
    plain,
    rows_of,
    slow_rows,
)

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster(2) as made:
        yield made


def expected(chunks: list[Any]) -> list[bytes]:
    return bits(plain(fg.value_and_grad(loss), chunks, params()))


def kill(client: Any, number: int = 0) -> None:
    """Kill a worker, whose nanny starts another one."""
    pids = client.run(os.getpid)
    os.kill(pids[sorted(pids)[number]], signal.SIGKILL)


# ------------------------------------------------------------------------------------------ values


@pytest.mark.parametrize("size", [67, 13])
def test_a_step_has_the_bits_of_the_plain_loop(size, client):
    chunks = parallel.slices(data(), size)
    for executor in (client, client.get_executor()):
        assert bits(parallel.value_and_grad(loss, executor)(params(), chunks)) == expected(chunks)


def test_the_options_of_the_executor_hold(client):
    one = min(client.run(os.getpid))
    pids = parallel.map(lambda chunk: chunk, client.get_executor(workers=[one]), keep=0)
    known = {int(pid) for pid in pids([os.getpid] * 8)}
    assert known == {client.run(os.getpid)[one]}


def test_functions_of_main_and_closures(client):
    scale = np.arange(1000.0)

    def scaled(w, chunk):
        return (w * chunk * scale).sum()

    scaled.__module__ = "__main__"
    f = parallel.grad(scaled, client, "sum")
    assert float(f(1.0, [np.ones(1000), lambda: 2.0 * np.ones(1000)])) == 3 * 499500


def test_the_other_functions(client):
    chunks = parallel.slices(data(), 45)
    tangents = {"w": np.arange(7.0), "b": 1.0}

    def product(p, chunk):
        return fg.hvp(lambda p: loss(p, chunk), (p,), (tangents,))

    result = parallel.hvp(loss, client)(params(), tangents, chunks)
    assert bits(result) == bits(plain(product, chunks, params()))
    jacobian = parallel.jacobian(lambda w, chunk: chunk["x"] @ w, client)
    assert np.array_equal(jacobian(np.ones(7), chunks), data()["x"])
    products = parallel.reduce(lambda m: m, lambda a, b: a @ b, client)
    matrices = list(np.random.default_rng(0).normal(size=(21, 3, 3)))
    np.testing.assert_allclose(products(matrices), np.linalg.multi_dot(matrices))
    squares = parallel.map(lambda x: x * x, client, batch_size=4)
    assert np.concatenate(list(squares(np.arange(30.0)))).tolist() == [k * k for k in range(30)]
    some = parallel.map(lambda chunk: chunk["y"].sum(), client)(loaders(40))
    assert float(next(some)) == pytest.approx(rows_of(0)["y"].sum())
    some.close()


def test_a_loss_may_branch(client):
    chunks = [np.array(x) for x in (1.0, -2.0, 3.0, -4.0)]

    def branching(w, x):
        return w * x if x > 0 else w**2 * x

    f = parallel.value_and_grad(branching, client)
    loading = [partial(np.array, float(x)) for x in chunks]
    assert bits(f(np.array(2.0), loading)) == bits(
        plain(fg.value_and_grad(branching), chunks, np.array(2.0))
    )


def test_each_chunk_is_loaded_once(client, tmp_path):
    chunks = [partial(logged_rows, str(tmp_path), number) for number in range(8)]
    f = parallel.value_and_grad(loss, client)
    for _ in range(5):
        assert bits(f(params(), chunks)) == expected([rows_of(k) for k in range(8)])
    loads = [path.name.partition("-")[0] for path in tmp_path.iterdir()]
    assert set(loads) == set("01234567")
    assert len(loads) <= 12  # a chunk goes again to the worker that keeps it, while it is idle


def test_collections_of_dask_lazy_and_persisted(client):
    import dask.array
    import dask.bag

    x = np.arange(24.0).reshape(8, 3)

    def square(w, chunk):
        return ((chunk @ w) ** 2).sum()

    chunks = [x[:3], x[3:6], x[6:]]
    expected_bits = bits(
        fg.tree.map(lambda a: np.asarray(a) * 3, plain(fg.grad(square), chunks, np.ones(3)))
    )
    array = dask.array.from_array(x, chunks=(3, 2)) + 0.0
    f = parallel.grad(square, client, "sum")
    assert bits(f(np.ones(3), array)) == expected_bits
    assert bits(f(np.ones(3), client.persist(array))) == expected_bits
    bag = dask.bag.from_sequence(list(x), npartitions=3)
    assert bits(f(np.ones(3), bag)) == expected_bits
    assert bits(f(np.ones(3), client.persist(bag))) == expected_bits


# --------------------------------------------------------------------------------------- the wire


def _count_bytes() -> tuple[int, int]:
    """Have this process count the bytes that it writes to others; return it and their number."""
    from distributed.comm import tcp

    known: Any = tcp.TCP
    if not hasattr(known, "counted"):
        known.counted, write = 0, known.write

        async def counting(self: Any, *args: Any, **options: Any) -> Any:
            size = await write(self, *args, **options)
            known.counted += size
            return size

        known.write = counting
    return os.getpid(), int(known.counted)


def test_parameters_go_once_to_each_worker(client):
    w = np.ones(2_000_000)
    f = parallel.grad(lambda w, x: (w[0] * x) ** 2, client)
    g = parallel.reduce(lambda c, w: (w * c["y"][0]).sum(), lambda a, b: a + b, client, keep=0)
    chunks = [partial(slow_rows, 0.1, number) for number in range(16)]  # both workers have some
    g(chunks, 2 * w)  # the program is there

    def counted() -> int:  # the scheduler is in this process
        others = client.run(_count_bytes).values()
        return sum(dict([*others, _count_bytes()]).values())

    for factor in (3, 4):
        before = counted()
        g(chunks, factor * w)
        assert w.nbytes * 2 <= counted() - before <= 1.05 * w.nbytes * 2
    assert f(w, [np.float64(1.0)]).shape == w.shape


def test_a_worker_out_of_reach_once_is_tried_again_and_twice_is_not(client, monkeypatch):
    scatter, routes, lost = client.scatter, [], [True, False, True, True]

    def scattering(*args, direct, **options):
        routes.append(direct)
        if direct and lost.pop(0):
            raise OSError("out of reach")
        return scatter(*args, direct=direct, **options)

    f = parallel.grad(lambda w, x: w * x, client)
    f(1.0, [1.0])
    monkeypatch.setattr(client, "scatter", scattering)
    for _ in range(5):
        assert float(f(1.0, [1.0])) == 1.0
    assert routes == [True, False, True, True, False, True, False, False]


# ----------------------------------------------------------------------------------------- deaths


def test_a_chunk_that_raises(client):
    chunks = [partial(failing_rows, number) for number in range(6)]
    with pytest.raises(ChunkError, match="chunk 3 cannot be loaded: KeyError") as caught:
        parallel.grad(loss, client)(params(), chunks)
    assert caught.value.index == 3
    assert "in failing_rows" in str(caught.value)


def test_a_worker_that_dies_costs_time_alone(client):
    chunks = [partial(slow_rows, 0.1, number) for number in range(12)]
    f = parallel.value_and_grad(loss, client, keep=0)
    right = expected([rows_of(k) for k in range(12)])
    for seconds in (0.05, 0.4):
        killer = threading.Timer(seconds, kill, (client, 0))
        killer.start()
        assert bits(f(params(), chunks)) == right
        killer.join()


def test_a_chunk_that_kills_its_workers_is_named(client, monkeypatch):
    # Three by default: each takes seconds.
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    chunks = [partial(deadly_rows, number) for number in range(4)]
    f = parallel.grad(loss, client)
    with pytest.raises(ChunkError, match="chunk 2 was lost with each worker") as caught:
        f(params(), chunks)
    assert caught.value.index == 2
    assert len(bits(f(params(), loaders(3)))) == 2


def test_nothing_is_left_running_after_an_interrupt(client):
    chunks = [partial(slow_rows, 0.2, number) for number in range(60)]
    f = parallel.grad(loss, client, keep=0)
    f(params(), chunks[:1])
    ended = threading.Event()

    def interrupt() -> None:
        while not ended.wait(1.0):  # again: Python loses an interrupt that meets a finalizer
            signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # xdist ignores interrupts
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            f(params(), chunks)
    finally:
        ended.set()
        thread.join()
        signal.signal(signal.SIGINT, usual)
    deadline = time.monotonic() + 5
    while any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.processing().values())


def test_no_worker_is_waited_for_until_the_time_is_over():
    with cluster(0) as client:
        f = parallel.grad(loss, client, timeout=0.5)
        with pytest.raises(WorkerError, match=r"the cluster at tcp://.* has 0 workers"):
            f(params(), loaders(2))


def test_a_client_that_is_closed(client):
    from distributed import Client

    with Client(client.scheduler.address) as other:
        f = parallel.grad(loss, other)
        f(params(), loaders(2))
    with pytest.raises(WorkerError, match=r"connection to the cluster at .* is lost"):
        f(params(), loaders(2))


def test_an_asynchronous_client_is_no_executor():
    class Asynchronous:
        asynchronous = True

    Asynchronous.__module__ = "distributed.client"
    client: Any = Asynchronous()
    with pytest.raises(ArgumentError, match="a synchronous client"):
        parallel.grad(loss, client)


# ----------------------------------------------------------------------------------------- memory


def _large_rows(number: int) -> Any:
    return np.full(1_250_000, float(number))  # 10 MB


def test_data_of_three_times_a_workers_memory(tmp_path):
    from tests.parallel.soak import memory_limit

    limit = memory_limit() + 100_000_000
    count = int(3 * limit / 10_000_000)
    mean_of_squares = parallel.reduce
    with cluster(1, memory_limit=limit, local_directory=str(tmp_path)) as client:
        total = mean_of_squares(lambda x: fnp.mean(x * x), lambda a, b: a + b, client)
        pid = client.run(os.getpid)
        result = total([partial(_large_rows, number) for number in range(count)])
        assert client.run(os.getpid) == pid  # the worker was not killed for its memory
    assert float(result) == sum(number**2 for number in range(count))


# ---------------------------------------------------------------- the commands, and the scheduler


def test_training_goes_on_after_the_death_of_the_scheduler(tmp_path):
    import dask
    from distributed import Client

    from tests.parallel.soak import commanded_cluster, train

    whole = train(str(tmp_path / "whole"), None, steps=12)
    folder = tmp_path / "run"
    folder.mkdir()
    short = {"distributed.comm.timeouts.connect": "3s"}  # to wait for a scheduler that is gone
    with commanded_cluster(1) as (address, scheduler), dask.config.set(short):

        def watch() -> None:
            deadline = time.monotonic() + 300  # on a machine that is busy
            while len(list(folder.glob("step-*"))) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            scheduler.kill()

        killer = threading.Thread(target=watch)
        killer.start()
        with pytest.raises(WorkerError, match=r"is lost.*from the last checkpoint"):
            train(str(folder), address, steps=12, pause=0.05)
        killer.join()
    done = fg.io.Checkpoints(folder).steps()[-1]
    assert 0 < done < 12
    with commanded_cluster(1) as (address, scheduler):
        assert train(str(folder), address, steps=12) == whole
        with Client(address) as client:
            scheduler.send_signal(signal.SIGSTOP)
            try:
                with pytest.raises(WorkerError, match=r"not ended in 1 s.*does not answer"):
                    parallel.grad(loss, client, timeout=1)(params(), loaders(2))
            finally:
                scheduler.send_signal(signal.SIGCONT)
