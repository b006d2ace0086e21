"""A pool reuses an array when nobody else refers to it any more, and only then."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad import buffers
from funcgrad.buffers import BufferPool


def test_an_array_is_used_again_when_nobody_holds_it() -> None:
    pool, shape, dtype = BufferPool(), (1000,), np.dtype(float)
    address = pool.take(shape, dtype).ctypes.data
    assert pool.take(shape, dtype).ctypes.data == address
    assert len(pool.arrays) == 1


@pytest.mark.parametrize(
    "hold",
    [
        lambda array: array,
        lambda array: array[5:7],
        lambda array: array.reshape(10, 100).T,
        lambda array: memoryview(array),
        lambda array: np.frombuffer(array),
        lambda array: array.flat,
        lambda array: fg.tensor(np.asarray(array)),
        lambda array: {"in": [array]},
        lambda array: lambda: array,
    ],
)
def test_an_array_is_not_used_again_while_something_holds_it(hold: Any) -> None:
    pool, shape, dtype = BufferPool(), (1000,), np.dtype(float)
    array = pool.take(shape, dtype)
    address = array.ctypes.data
    holder = hold(array)
    if isinstance(holder, fg.Tensor):  # of what can be written to it has made a copy
        holder = array
    del array
    assert pool.take(shape, dtype).ctypes.data != address
    del holder


def test_without_the_global_lock_nothing_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_has_lock", lambda: False)
    pool, dtype = BufferPool(), np.dtype(float)
    first = pool.take((1000,), dtype)
    address = first.ctypes.data
    del first
    assert pool.take((1000,), dtype).ctypes.data != address


def test_what_nobody_holds_is_freed_before_there_is_more() -> None:
    pool = BufferPool()
    held = pool.take((100,), np.dtype(float))
    for size in (200, 300, 400):
        pool.take((size,), np.dtype(float))
        assert [array.size for array in pool.arrays] == [100, size]
    pool.take((400,), np.dtype(np.float32))
    assert [array.dtype.char for array in pool.arrays] == ["d", "f"]
    assert held.size == 100


def test_a_pool_remembers_few_arrays() -> None:
    pool = BufferPool()
    held = [pool.take((10,), np.dtype(float)) for _ in range(100)]
    assert len(pool.arrays) == buffers._MOST
    assert len({array.ctypes.data for array in held}) == 100


def test_a_trimmed_pool_holds_few_bytes() -> None:
    pool = BufferPool()
    sizes = [buffers._IDLE // 32] * 3 + [buffers._IDLE // 8]
    held = [pool.take((size,), np.dtype(float)) for size in sizes]
    pool.trim()
    assert len(pool.arrays) == 1
    held.append(pool.take((buffers._IDLE,), np.dtype(float)))
    pool.trim()
    assert pool.arrays == []


_FAULTS_OF_NEW_ARRAYS = """
import resource
import numpy as np
{first}
def work():
    arrays = [np.ones(2**17) for _ in range(16)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    work()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 10)
"""


def _faults(first: str) -> int:
    script = _FAULTS_OF_NEW_ARRAYS.format(first=first)
    limits = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    output = subprocess.check_output([sys.executable, "-c", script], env=limits, text=True)
    return int(output)


@pytest.mark.skipif(
    not platform.libc_ver()[0].startswith("glibc"), reason="allocator of another system"
)
def test_memory_that_is_freed_stays_with_the_process() -> None:
    pages = 16 * 2**17 * 8 // 4096
    assert _faults("") > pages // 2  # else there is nothing to gain
    assert _faults("import funcgrad") < pages // 20
