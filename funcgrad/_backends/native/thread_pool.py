"""Threads that wait in machine code for a part of a program's work.

``share(function, environment, count, grain, threads)`` calls ``function(begin, end, who,
environment)`` for ranges that cover ``count`` places. Whoever is free takes the next range of
``grain`` places: the caller, who is number 0, and up to ``threads - 1`` threads of the pool, which
begin when they are first needed and sleep between their turns. None of them touches Python. While
one call is shared, others run in one thread.

There is one pool a process. A forked child has none of its parent's threads and a new pool, and
when Python ends the threads sleep on, in code that is never freed.
"""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

from funcgrad._backends.native.processor import Code, Toolchain

_OF_THREADS: Final = (
    "calloc",
    "memset",
    "pthread_cond_init",
    "pthread_cond_signal",
    "pthread_cond_wait",
    "pthread_create",
    "pthread_detach",
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_sigmask",
)

_TEXT: Final = """
%Pool = type { [128 x i8], [128 x i8], [128 x i8], i64, i64, i64, i64, ptr, ptr, i64, i64,
  [128 x i8], i64, [128 x i8] }
; 0 a lock; conditions: 1 there is work, 2 it is done; 3 threads that have begun, 4 whether work is
; shared, 5 how many more threads may join, 6 how many have; 7 the function, 8 its environment,
; 9 the count of places, 10 of a range; 12 the next place, on a line of the cache of its own

@pool = internal global ptr null

; Begin a new pool, in memory that only this process has.
define i32 @renew() nounwind {
  %size = getelementptr %Pool, ptr null, i64 1
  %bytes = ptrtoint ptr %size to i64
  %pool = call ptr @calloc(i64 1, i64 %bytes)
  store ptr %pool, ptr @pool
  %there = icmp ne ptr %pool, null
  br i1 %there, label %begin, label %refused
begin:
  %work = getelementptr %Pool, ptr %pool, i64 0, i32 1
  %done = getelementptr %Pool, ptr %pool, i64 0, i32 2
  %a = call i32 @pthread_mutex_init(ptr %pool, ptr null)
  %b = call i32 @pthread_cond_init(ptr %work, ptr null)
  %c = call i32 @pthread_cond_init(ptr %done, ptr null)
  ret i32 0
refused:
  ret i32 1
}

; Do ranges until none are left.
define internal void @take_part(ptr %pool, ptr %function, ptr %environment, i64 %count, i64 %grain,
    i64 %who) nounwind {
entry:
  %place = getelementptr %Pool, ptr %pool, i64 0, i32 12
  br label %next
next:
  %begin = atomicrmw add ptr %place, i64 %grain monotonic
  %more = icmp slt i64 %begin, %count
  br i1 %more, label %range, label %over
range:
  %full = add i64 %begin, %grain
  %end = call i64 @llvm.smin.i64(i64 %full, i64 %count)
  call void %function(i64 %begin, i64 %end, i64 %who, ptr %environment)
  br label %next
over:
  ret void
}

; The endless loop of a thread of the pool. Signals are for Python's threads.
define internal ptr @help(ptr %pool) nounwind {
entry:
  %all = alloca [16 x i64]
  %first = call ptr @memset(ptr %all, i32 255, i64 128)
  %blocked = call i32 @pthread_sigmask(i32 SIG_BLOCK, ptr %all, ptr null)
  %work = getelementptr %Pool, ptr %pool, i64 0, i32 1
  %done = getelementptr %Pool, ptr %pool, i64 0, i32 2
  %tickets_place = getelementptr %Pool, ptr %pool, i64 0, i32 5
  %active_place = getelementptr %Pool, ptr %pool, i64 0, i32 6
  %function_place = getelementptr %Pool, ptr %pool, i64 0, i32 7
  %environment_place = getelementptr %Pool, ptr %pool, i64 0, i32 8
  %count_place = getelementptr %Pool, ptr %pool, i64 0, i32 9
  %grain_place = getelementptr %Pool, ptr %pool, i64 0, i32 10
  %a = call i32 @pthread_mutex_lock(ptr %pool)
  br label %look
look:
  %tickets = load i64, ptr %tickets_place
  %may_join = icmp sgt i64 %tickets, 0
  br i1 %may_join, label %join, label %wait
wait:
  %b = call i32 @pthread_cond_wait(ptr %work, ptr %pool)
  br label %look
join:
  %fewer = sub i64 %tickets, 1
  store i64 %fewer, ptr %tickets_place
  %before = load i64, ptr %active_place
  %joined = add i64 %before, 1
  store atomic i64 %joined, ptr %active_place monotonic, align 8
  %function = load ptr, ptr %function_place
  %environment = load ptr, ptr %environment_place
  %count = load i64, ptr %count_place
  %grain = load i64, ptr %grain_place
  %c = call i32 @pthread_mutex_unlock(ptr %pool)
  call void @take_part(ptr %pool, ptr %function, ptr %environment, i64 %count, i64 %grain,
    i64 %tickets)
  %d = call i32 @pthread_mutex_lock(ptr %pool)
  %active = load i64, ptr %active_place
  %left = sub i64 %active, 1
  store atomic i64 %left, ptr %active_place monotonic, align 8
  %is_last = icmp eq i64 %left, 0
  br i1 %is_last, label %tell, label %look
tell:
  %e = call i32 @pthread_cond_signal(ptr %done)
  br label %look
}

define void @share(ptr %function, ptr %environment, i64 %count, i64 %grain, i64 %threads) nounwind {
entry:
  %thread = alloca ptr
  %pool = load ptr, ptr @pool
  %none = icmp eq ptr %pool, null  ; a child had no memory for one
  br i1 %none, label %without, label %with
without:
  call void %function(i64 0, i64 %count, i64 0, ptr %environment)
  ret void
with:
  %work = getelementptr %Pool, ptr %pool, i64 0, i32 1
  %done = getelementptr %Pool, ptr %pool, i64 0, i32 2
  %begun_place = getelementptr %Pool, ptr %pool, i64 0, i32 3
  %busy_place = getelementptr %Pool, ptr %pool, i64 0, i32 4
  %tickets_place = getelementptr %Pool, ptr %pool, i64 0, i32 5
  %active_place = getelementptr %Pool, ptr %pool, i64 0, i32 6
  %function_place = getelementptr %Pool, ptr %pool, i64 0, i32 7
  %environment_place = getelementptr %Pool, ptr %pool, i64 0, i32 8
  %count_place = getelementptr %Pool, ptr %pool, i64 0, i32 9
  %grain_place = getelementptr %Pool, ptr %pool, i64 0, i32 10
  %next_place = getelementptr %Pool, ptr %pool, i64 0, i32 12
  %wanted = sub i64 %threads, 1
  %a = call i32 @pthread_mutex_lock(ptr %pool)
  %busy = load i64, ptr %busy_place
  %is_busy = icmp ne i64 %busy, 0
  br i1 %is_busy, label %by_itself, label %begin_threads
by_itself:
  %b = call i32 @pthread_mutex_unlock(ptr %pool)
  call void %function(i64 0, i64 %count, i64 0, ptr %environment)
  ret void
begin_threads:
  %begun = load i64, ptr %begun_place
  %enough = icmp sge i64 %begun, %wanted
  br i1 %enough, label %post, label %begin_thread
begin_thread:
  %refused = call i32 @pthread_create(ptr %thread, ptr null, ptr @help, ptr %pool)
  %has_begun = icmp eq i32 %refused, 0
  br i1 %has_begun, label %one_more, label %post
one_more:
  %handle = load ptr, ptr %thread
  %c = call i32 @pthread_detach(ptr %handle)
  %one_more_begun = add i64 %begun, 1
  store i64 %one_more_begun, ptr %begun_place
  br label %begin_threads
post:
  %there = load i64, ptr %begun_place
  %tickets = call i64 @llvm.smin.i64(i64 %there, i64 %wanted)
  store i64 1, ptr %busy_place
  store ptr %function, ptr %function_place
  store ptr %environment, ptr %environment_place
  store i64 %count, ptr %count_place
  store i64 %grain, ptr %grain_place
  store i64 0, ptr %next_place
  store i64 %tickets, ptr %tickets_place
  %e = call i32 @pthread_mutex_unlock(ptr %pool)  ; first, as those that wake up want the lock
  br label %wake
wake:
  %woken = phi i64 [0, %post], [%woken_after, %wake_one]
  %sleeps = icmp slt i64 %woken, %tickets
  br i1 %sleeps, label %wake_one, label %awake
wake_one:
  %d = call i32 @pthread_cond_signal(ptr %work)
  %woken_after = add i64 %woken, 1
  br label %wake
awake:
  call void @take_part(ptr %pool, ptr %function, ptr %environment, i64 %count, i64 %grain, i64 0)
  br label %linger
linger:  ; some microseconds, since others do their last range
  %turn = phi i64 [0, %awake], [%turn_after, %linger_on]
  %others = load atomic i64, ptr %active_place monotonic, align 8
  %no_others = icmp eq i64 %others, 0
  %long = icmp sge i64 %turn, 10000
  %lingered = or i1 %no_others, %long
  br i1 %lingered, label %close, label %linger_on
linger_on:
  %turn_after = add i64 %turn, 1
  br label %linger
close:
  %f = call i32 @pthread_mutex_lock(ptr %pool)
  store i64 0, ptr %tickets_place
  br label %look
look:
  %active = load i64, ptr %active_place
  %works = icmp sgt i64 %active, 0
  br i1 %works, label %wait, label %over
wait:
  %g = call i32 @pthread_cond_wait(ptr %done, ptr %pool)
  br label %look
over:
  store i64 0, ptr %busy_place
  %h = call i32 @pthread_mutex_unlock(ptr %pool)
  ret void
}

declare i64 @llvm.smin.i64(i64, i64)
declare ptr @calloc(i64, i64)
declare ptr @memset(ptr, i32, i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
"""


class ThreadPool:
    """The pool of this process, whose code is made when it is first asked for."""

    def __init__(self) -> None:
        self._code: Code | None = None

    def share(self, tools: Toolchain) -> int:
        """The address of ``share``."""
        code = self._code or tools.alone(lambda: self._make(tools))
        return code.addresses["share"]

    def _make(self, tools: Toolchain) -> Code:
        if self._code is None:
            library = ctypes.pythonapi
            symbols = {
                name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
                for name in _OF_THREADS
            }
            text = _TEXT.replace("SIG_BLOCK", str(int(signal.SIG_BLOCK)))
            code = tools.linked([tools.object_code(text, 2)], symbols, ["share", "renew"])
            library.Py_IncRef(ctypes.py_object(code))  # threads sleep in it to the end
            renew = ctypes.CFUNCTYPE(ctypes.c_int)(code.addresses["renew"])
            renew()
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=renew)
            self._code = code
        return self._code


def has_threads() -> bool:
    """Whether the system has the threads that a pool needs."""
    return all(hasattr(ctypes.pythonapi, name) for name in _OF_THREADS)


POOL: Final = ThreadPool()
