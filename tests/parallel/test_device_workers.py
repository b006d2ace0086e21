"""A worker for each device: the same results on any number of devices, and copies only as asked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import parallel
from funcgrad.errors import ArgumentError, ChunkError, DeviceError, ShapeError
from tests.backends.fake_device import FakeDevice
from tests.parallel.losses import bits, data, loss, params
from tests.together import together


def _devices(count: int, name: str = "fake") -> list[FakeDevice]:
    return [FakeDevice(f"{name}:{k}") for k in range(count)]


def _branching(w: Any, x: Any) -> Any:
    return fnp.sum(w * x) if fnp.sum(x) > 1.0 else fnp.sum(w - x)


TABLE = np.arange(2000.0)
PIECES = [np.ones(1), np.arange(3.0), np.zeros(2), np.full(3, 0.25), np.ones(4)]
ROWS = parallel.slices(np.arange(12.0).reshape(6, 2), 2)

CALLS: dict[str, Callable[[Any], Any]] = {
    "value_and_grad": lambda workers: parallel.value_and_grad(loss, workers)(
        params(), parallel.slices(data(), 13)
    ),
    "weights, float64": lambda workers: parallel.value_and_grad(
        loss, workers, [1.0, 2.5, 1.0, 3.0], dtype="float64"
    )(params(), parallel.slices(data(), 50)),
    "float32": lambda workers: parallel.grad(lambda w, x: fnp.sum(fnp.sin(w * x)), workers, "sum")(
        np.float32(2.0), [np.full(3, k, np.float32) for k in range(5)]
    ),
    "further arguments": lambda workers: parallel.grad(lambda w, x, k: fnp.sum(w * x) * k, workers)(
        2.0, PIECES, 3.0
    ),
    "a branch": lambda workers: parallel.grad(_branching, workers, "sum")(2.0, PIECES),
    "hvp": lambda workers: parallel.hvp(lambda w, x: fnp.sum(w**3 * x), workers, "sum")(
        2.0, 1.0, PIECES
    ),
    "jacobian": lambda workers: parallel.jacobian(lambda w, x: x @ w, workers)(np.ones(2), ROWS),
    "map": lambda workers: list(parallel.map(lambda x: x * 2.0, workers)(PIECES)),
    "map in batches": lambda workers: list(
        parallel.map(fnp.linalg.norm, workers, batch_size=2)(np.ones((5, 2)))
    ),
    "reduce": lambda workers: parallel.reduce(
        fnp.max, lambda a, b: fnp.maximum(a, b) + TABLE[0], workers
    )(PIECES),
    "large constants": lambda workers: parallel.grad(
        lambda w, x: w * fnp.sum(TABLE) * fnp.sum(x), workers
    )(1.0, PIECES),
    "functions that load": lambda workers: parallel.grad(lambda w, x: fnp.sum(w * x), workers)(
        2.0, [lambda k=k: np.full(3, float(k)) for k in range(5)]
    ),
}


@together("call", CALLS.values(), ids=CALLS)
def test_results_are_those_of_threads_on_any_number_of_devices(call: Callable[[Any], Any]) -> None:
    with ThreadPoolExecutor(2) as executor:
        expected = call(executor)
    results = [fg.get(call(_devices(count))) for count in (1, 2, 3)]
    for got, wanted in zip(fg.tree.leaves(results[0]), fg.tree.leaves(expected), strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(got, wanted, 1e-6 if got.dtype == np.float32 else 1e-13)
    assert bits(results[0]) == bits(results[1]) == bits(results[2])


def test_results_are_where_the_parameters_are() -> None:
    first, second = _devices(2)
    f = parallel.value_and_grad(lambda w, x: fnp.sum((w * x) ** 2), [first, second])
    chunks = [np.ones(3), np.arange(3.0)]
    assert f(np.ones(3), chunks)[1].device == "cpu"
    value, gradient = f(fg.put(np.ones(3), second), chunks)
    assert value.device == gradient.device == second.name
    rows = parallel.jacobian(lambda w, x: w * x, [first, second])
    assert rows(fg.put(2.0, first), chunks).device == first.name
    places = [y.device for y in parallel.map(lambda x: x * 2.0, [first, second])(chunks)]
    assert places == [first.name, second.name]


def test_chunks_run_on_their_devices_and_are_copied_once() -> None:
    devices = _devices(2, "fake:counted")
    w = fg.put(np.ones(3), devices[0])
    pieces = [np.full((4, 3), float(k)) for k in range(4)]
    there = [fg.put(piece, devices[k // 2]) for k, piece in enumerate(pieces)]
    f = parallel.grad(lambda w, x: fnp.sum((x @ w) ** 2), devices)
    expected = bits(fg.get(f(w, there)))
    for chunks in (there, [*map(fg.tensor, pieces)], [lambda x=x: x for x in pieces]):
        assert bits(fg.get(f(w, chunks))) == expected
        before = [(device.counts.puts, device.counts.gets) for device in devices]
        for _ in range(3):
            f(w, chunks)
        after = [(device.counts.puts, device.counts.gets) for device in devices]
        # at each step w goes to the second device, and the second device's sum comes back
        assert np.subtract(after, before).tolist() == [[3, 3], [3, 3]]


def test_training_on_two_devices() -> None:
    devices, chunks = _devices(2), parallel.slices(fg.tree.map(fg.tensor, data()), 50)
    step, rule = parallel.value_and_grad(loss, devices), fg.optim.adam(0.1)
    results = []
    for start in (params(), fg.put(params(), devices[1])):
        w, state = start, rule.init(start)
        for _ in range(4):
            _, gradient = step(w, chunks)
            updates, state = rule.update(gradient, state, w)
            w = fg.optim.apply_updates(w, updates)
        results.append(bits(fg.get(w)))
    assert results[0] == results[1]


def test_threads_may_call_one_function() -> None:
    devices = _devices(2)
    f, outs = parallel.grad(lambda w, x: fnp.sum(w * w * x), devices, "sum"), {}

    def work(k: int) -> None:
        outs[k] = [float(f(float(k), PIECES)) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum(float(np.sum(piece)) for piece in PIECES)
    np.testing.assert_allclose(
        [outs[k] for k in range(4)], [[2.0 * k * total] * 5 for k in range(4)]
    )


class _Full(FakeDevice):
    def compile(self, program: Any) -> Any:
        raise MemoryError("RESOURCE_EXHAUSTED: planted")


def _refused() -> list[tuple[Callable[[], object], type[Exception], str]]:
    first, second = _devices(2)
    w, elsewhere = fg.put(np.ones(3), first), fg.put(np.ones(3), FakeDevice("fake:9"))

    def grad(f: Callable[..., Any], *workers: Any, **options: Any) -> Any:
        return parallel.grad(f, [*workers], **options)

    def product(w: Any, x: Any) -> Any:
        return fnp.sum(w * x)

    def load() -> Any:
        raise OSError("planted")

    full = _Full("fake:full")
    return [
        (lambda: grad(product, first, first), ArgumentError, "fake:0 is twice"),
        (lambda: grad(product, "cpu"), ArgumentError, "cpu is the host"),
        (lambda: parallel.grad(product, "cpu"), ArgumentError, "list of devices"),
        (lambda: parallel.grad(product, []), ArgumentError, "list of devices"),
        (lambda: grad(product, "nowhere:0"), DeviceError, "no device 'nowhere:0'"),
        (lambda: grad(product, first, FakeDevice("other:0")), ArgumentError, "last bits"),
        (lambda: grad(product, first)(w, [elsewhere]), DeviceError, "chunk 0 is on fake:9.*fake:0"),
        (
            lambda: parallel.grad(product, ThreadPoolExecutor(1))(w, PIECES),
            DeviceError,
            "Pass devices",
        ),
        (lambda: grad(product, first, second)(1.0, [load]), ChunkError, "fake:0:\n.*OSError"),
        (lambda: grad(product, first, full)(1.0, PIECES), ChunkError, "more memory.*cut smaller"),
        (lambda: grad(lambda w, x: w @ x, first)(np.ones(2), [np.ones(3)]), ShapeError, "matmul"),
    ]


def test_mistakes_are_refused() -> None:
    for call, kind, text in _refused():
        with pytest.raises(kind, match=f"(?s){text}"):
            call()


_ON_XLA = """
import numpy as np, funcgrad as fg
devices = fg.devices()[1:]
assert len(devices) == 8, devices
chunks = [np.arange(3.0) + k for k in range(13)]
f = lambda w, x: ((w * x) ** 2).sum()
results = []
for workers in (devices, devices[:1], devices[3:6], ["xla:cpu:1", "xla:cpu:0"]):
    step = fg.parallel.value_and_grad(f, workers)
    for w in (np.ones(3), fg.put(np.ones(3), devices[1])):
        for some in (chunks, [fg.put(x, workers[k % len(workers)]) for k, x in enumerate(chunks)]):
            out = fg.get(step(w, some))
            results.append(b"".join(np.asarray(leaf).tobytes() for leaf in out))
assert len({*results}) == 1, results
np.testing.assert_allclose(out[0], np.mean([np.sum(x**2) for x in chunks]))
"""


@pytest.mark.slow
def test_eight_devices_of_xla() -> None:
    pytest.importorskip("jax")
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    subprocess.run([sys.executable, "-c", _ON_XLA], check=True, env={**os.environ, **flags})
