"""Threads that wait in machine code for a part of a program's work.

``share(function, environment, count, grain, threads)`` calls ``function(begin, end, who,
environment)`` for ranges that cover ``count`` places. Whoever is free takes the next range of
``grain`` places: the caller, who is number 0, and up to ``threads - 1`` threads of the pool, which
begin when they are first needed and sleep between their turns. None of them touches Python. While
one call is shared, others run in one thread.

There is one pool a process. A forked child has none of its parent's threads and begins anew, and
when Python ends the threads sleep on, in code that is never freed.
"""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

from funcgrad._backends.native.processor import Code, Toolchain

_OF_THREADS: Final = (
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
@lock = internal global [128 x i8] zeroinitializer, align 128
@work = internal global [128 x i8] zeroinitializer, align 128  ; a condition: there is work
@done = internal global [128 x i8] zeroinitializer, align 128  ; a condition: it is done
@begun = internal global i64 0  ; how many threads have begun
@busy = internal global i64 0  ; whether work is shared
@tickets = internal global i64 0  ; how many more threads may join
@active = internal global i64 0  ; how many have
@function = internal global ptr null
@environment = internal global ptr null
@count = internal global i64 0  ; of places
@grain = internal global i64 0  ; of places in a range
@next = internal global [16 x i64] zeroinitializer, align 128  ; a place, in a cache line of its own

; Begin a new pool: of a process, or of a child, which has none of its parent's threads.
define void @renew() nounwind {
  %a = call ptr @memset(ptr @lock, i32 0, i64 128)
  %b = call ptr @memset(ptr @work, i32 0, i64 128)
  %c = call ptr @memset(ptr @done, i32 0, i64 128)
  %d = call i32 @pthread_mutex_init(ptr @lock, ptr null)
  %e = call i32 @pthread_cond_init(ptr @work, ptr null)
  %f = call i32 @pthread_cond_init(ptr @done, ptr null)
  store i64 0, ptr @begun
  store i64 0, ptr @busy
  store i64 0, ptr @tickets
  store i64 0, ptr @active
  ret void
}

; Do ranges until none are left.
define internal void @take_part(ptr %function, ptr %environment, i64 %count, i64 %grain, i64 %who)
    nounwind {
entry:
  br label %next
next:
  %begin = atomicrmw add ptr @next, i64 %grain monotonic
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
define internal ptr @help(ptr %unused) nounwind {
entry:
  %all = alloca [16 x i64]
  %first = call ptr @memset(ptr %all, i32 255, i64 128)
  %blocked = call i32 @pthread_sigmask(i32 SIG_BLOCK, ptr %all, ptr null)
  %a = call i32 @pthread_mutex_lock(ptr @lock)
  br label %look
look:
  %tickets = load i64, ptr @tickets
  %may_join = icmp sgt i64 %tickets, 0
  br i1 %may_join, label %join, label %wait
wait:
  %b = call i32 @pthread_cond_wait(ptr @work, ptr @lock)
  br label %look
join:
  %fewer = sub i64 %tickets, 1
  store i64 %fewer, ptr @tickets
  %before = load i64, ptr @active
  %joined = add i64 %before, 1
  store atomic i64 %joined, ptr @active monotonic, align 8
  %function = load ptr, ptr @function
  %environment = load ptr, ptr @environment
  %count = load i64, ptr @count
  %grain = load i64, ptr @grain
  %c = call i32 @pthread_mutex_unlock(ptr @lock)
  call void @take_part(ptr %function, ptr %environment, i64 %count, i64 %grain, i64 %tickets)
  %d = call i32 @pthread_mutex_lock(ptr @lock)
  %active = load i64, ptr @active
  %left = sub i64 %active, 1
  store atomic i64 %left, ptr @active monotonic, align 8
  %is_last = icmp eq i64 %left, 0
  br i1 %is_last, label %tell, label %look
tell:
  %e = call i32 @pthread_cond_signal(ptr @done)
  br label %look
}

define void @share(ptr %function, ptr %environment, i64 %count, i64 %grain, i64 %threads) nounwind {
entry:
  %thread = alloca ptr
  %wanted = sub i64 %threads, 1
  %a = call i32 @pthread_mutex_lock(ptr @lock)
  %busy = load i64, ptr @busy
  %is_busy = icmp ne i64 %busy, 0
  br i1 %is_busy, label %by_itself, label %begin_threads
by_itself:
  %b = call i32 @pthread_mutex_unlock(ptr @lock)
  call void %function(i64 0, i64 %count, i64 0, ptr %environment)
  ret void
begin_threads:
  %begun = load i64, ptr @begun
  %enough = icmp sge i64 %begun, %wanted
  br i1 %enough, label %post, label %begin_thread
begin_thread:
  %refused = call i32 @pthread_create(ptr %thread, ptr null, ptr @help, ptr null)
  %has_begun = icmp eq i32 %refused, 0
  br i1 %has_begun, label %one_more, label %post
one_more:
  %handle = load ptr, ptr %thread
  %c = call i32 @pthread_detach(ptr %handle)
  %one_more_begun = add i64 %begun, 1
  store i64 %one_more_begun, ptr @begun
  br label %begin_threads
post:
  %there = load i64, ptr @begun
  %tickets = call i64 @llvm.smin.i64(i64 %there, i64 %wanted)
  store i64 1, ptr @busy
  store ptr %function, ptr @function
  store ptr %environment, ptr @environment
  store i64 %count, ptr @count
  store i64 %grain, ptr @grain
  store i64 0, ptr @next
  store i64 %tickets, ptr @tickets
  %e = call i32 @pthread_mutex_unlock(ptr @lock)  ; first, as those that wake up want the lock
  br label %wake
wake:
  %woken = phi i64 [0, %post], [%woken_after, %wake_one]
  %sleeps = icmp slt i64 %woken, %tickets
  br i1 %sleeps, label %wake_one, label %awake
wake_one:
  %d = call i32 @pthread_cond_signal(ptr @work)
  %woken_after = add i64 %woken, 1
  br label %wake
awake:
  call void @take_part(ptr %function, ptr %environment, i64 %count, i64 %grain, i64 0)
  br label %linger
linger:  ; some microseconds, since others do their last range
  %turn = phi i64 [0, %awake], [%turn_after, %linger_on]
  %others = load atomic i64, ptr @active monotonic, align 8
  %no_others = icmp eq i64 %others, 0
  %long = icmp sge i64 %turn, 10000
  %lingered = or i1 %no_others, %long
  br i1 %lingered, label %close, label %linger_on
linger_on:
  %turn_after = add i64 %turn, 1
  br label %linger
close:
  %f = call i32 @pthread_mutex_lock(ptr @lock)
  store i64 0, ptr @tickets
  br label %look
look:
  %active = load i64, ptr @active
  %works = icmp sgt i64 %active, 0
  br i1 %works, label %wait, label %over
wait:
  %g = call i32 @pthread_cond_wait(ptr @done, ptr @lock)
  br label %look
over:
  store i64 0, ptr @busy
  %h = call i32 @pthread_mutex_unlock(ptr @lock)
  ret void
}

declare i64 @llvm.smin.i64(i64, i64)
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
            renew = ctypes.CFUNCTYPE(None)(code.addresses["renew"])
            renew()
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=renew)
            self._code = code
        return self._code


def has_threads() -> bool:
    """Whether the system has the threads that a pool needs."""
    return all(hasattr(ctypes.pythonapi, name) for name in _OF_THREADS)


POOL: Final = ThreadPool()
