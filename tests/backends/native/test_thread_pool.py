"""The pool of threads by itself: each place is done once, whoever does it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from funcgrad._backends.native import pool_text
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.thread_pool import ThreadPool, has_threads

pytestmark = pytest.mark.skipif(not has_threads(), reason="the system has no such threads")

NUMBERS = (1, 2, 3, 8)

WORK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)


def share(pool: ThreadPool, work: Any, count: int, ranges: int, threads: int) -> int:
    """Call ``share`` for a function of Python's."""
    assert pool._code is not None
    words, address, number = np.array([threads], np.int64), ctypes.c_void_p, ctypes.c_int64
    kinds = address, number, number, address, number, address, number
    call = ctypes.CFUNCTYPE(ctypes.c_int, WORK, *kinds)(pool._code.addresses["share"])
    return int(call(WORK(work), None, count, ranges, None, 64, words.ctypes.data, 0))


def pool_of(text: str, monkeypatch: pytest.MonkeyPatch) -> ThreadPool:
    """A pool whose code is made from some text; its threads sleep on."""
    NATIVE.check_machine()
    runtime = NATIVE._runtime().code.addresses
    pool = ThreadPool()
    with monkeypatch.context() as patch:
        patch.setattr(pool_text, "POOL", text)
        pool.functions(NATIVE._tools, runtime)
    return pool


def misses(pool: ThreadPool) -> list[tuple[int, int, int]]:
    """The ways to divide places by which one is not done exactly once."""
    wrong = []
    for count in (1, 2, 7, 64, 1_001):
        for ranges in (1, 8):
            for threads in NUMBERS:
                done = np.zeros(count + 10, np.int64)

                def work(begin: int, end: int, *_: Any, done: Any = done) -> int:
                    for place in range(begin, end):
                        done[place] += 1
                    return 0

                assert share(pool, work, count, ranges, threads) == 0
                if list(done) != [1] * count + [0] * 10:
                    wrong.append((count, ranges, threads))
    return wrong


def test_each_place_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert misses(pool_of(pool_text.POOL, monkeypatch)) == []


def test_pieces_that_overlap_or_lack_a_place_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = "  %full = add i64 %begin, %grain\n"
    for change in ("1", "-1"):
        wrong = f"  %right = add i64 %begin, %grain\n  %full = add i64 %right, {change}\n"
        assert pool_text.POOL.count(right) == 1
        pool = pool_of(pool_text.POOL.replace(right, wrong), monkeypatch)
        assert len(misses(pool)) > 4, change


def test_a_status_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, done = pool_of(pool_text.POOL, monkeypatch), list[int]()

    def work(begin: int, *_: Any) -> int:
        done.append(begin)
        return 4 * (begin >= 50)

    for threads in NUMBERS:
        done.clear()
        if threads == 1:
            assert share(pool, work, 1_000, 8, threads) == 0  # in one range, from 0 on
        else:
            assert share(pool, work, 1_000, 100, threads) == 4
            assert len(done) < 300
    assert misses(pool) == []


def test_work_inside_of_shared_work_is_done_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, inner = pool_of(pool_text.POOL, monkeypatch), list[tuple[int, int]]()

    def inside(begin: int, end: int, *_: Any) -> int:
        inner.append((begin, end))
        return 0

    def work(begin: int, end: int, *_: Any) -> int:
        return share(pool, inside, 100, 8, 4)

    assert share(pool, work, 10, 8, 3) == 0
    assert inner == [(0, 100)] * 10
    assert misses(pool) == []
