"""Engines: an executor with what a step needs of it; here that of executors in general.

An engine carries values to workers, runs tasks there, waits for them, and combines their results.
Dask's, in ``dask_engine.py``, does the last in its workers.
"""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Future,
    ThreadPoolExecutor,
)
from contextvars import copy_context
from functools import partial
from threading import current_thread
from time import monotonic
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from funcgrad._hooks.key_uses import current_uses
from funcgrad.errors import FuncgradError, WorkerError
from funcgrad.parallel.messages import Caller, Outcome, folded
from funcgrad.parallel.shared_files import AbsentError, Parcel
from funcgrad.parallel.waiting import Patience
from funcgrad.parallel.worker_store import ChunkStore
from funcgrad.parallel.worker_tasks import Combine

T = TypeVar("T")
Terms: TypeAlias = tuple[Caller, object, list[object]]
"""The things that workers need to combine results: the caller, the code and its large constants."""
_TASKS_PER_WORKER: Final = 8
_GLANCE: Final = 0.5
"""Seconds between looks at whether tasks were cancelled."""


class AnyExecutor(Protocol):
    """An object that runs functions elsewhere, as executors and clients of Dask do."""

    @property
    def submit(self) -> Callable[..., Any]:
        """The method that takes a function and its arguments, and returns a future."""
        ...


class LostError(Exception):
    """Values that a step had sent are not there for a worker; the step can be repeated."""


class KilledError(Exception):
    """A task was lost with each worker that had it."""


class ExecutorEngine:
    """Threads, processes and what else has the interface of ``concurrent.futures.Executor``.

    Workers are threads, which get values as they are and keep chunks in ``store``; or they are
    processes, to which values are ``shipped`` as parcels.
    """

    def __init__(self, operation: str, executor: AnyExecutor) -> None:
        self._operation, self._executor = operation, executor
        self.shipped = not isinstance(executor, ThreadPoolExecutor)
        self.store = None if self.shipped else ChunkStore()
        self._reads_files = True

    # What is sent.

    def carried(self, value: object, waiting: Patience, losses: int) -> object:
        """Make a value ready to be an argument of tasks; it is there while the result lives."""
        return Parcel(value, self._reads_files) if self.shipped else value

    def remote(self, delayed: object, is_bag: bool) -> object:
        """Make a block that a cluster of Dask's holds an argument of tasks."""
        raise WorkerError(
            f"{self._operation}: the Dask collection is held by a cluster's workers. Pass that"
            " cluster's client as the executor, or a collection that is not persisted."
        )

    def recover(self, waiting: Patience) -> None:
        """Get ready to repeat a step."""

    # Tasks.

    def places(self, waiting: Patience) -> Sequence[str | None]:
        """The workers, one for each thread; None where there is no choice between them."""
        for name in ("_max_workers", "num_workers"):
            number = getattr(self._executor, name, None)
            if isinstance(number, int) and number > 0:
                return [None] * number
        return [None] * (os.cpu_count() or 1)

    def submit(self, place: str | None, function: Callable[..., T], *args: object) -> Future[T]:
        """Submit a task, to one worker rather than to others.

        Raises
        ------
        WorkerError
            The executor takes no more tasks.
        """
        task: Callable[..., T] = function
        if not self.shipped and current_uses() is not None:  # keys are checked, in threads too
            task = partial(copy_context().run, function)
        if _runs_here(self._executor):
            return _ended_future(function, *args)
        try:
            future: Future[T] = self._executor.submit(task, *args)
        except RuntimeError as error:  # shut down, or broken
            raise self._broken(error) from error
        return future

    def _broken(self, error: BaseException) -> WorkerError:
        return WorkerError(
            f"{self._operation}: the executor {type(self._executor).__name__} takes no more tasks,"
            f" or a worker of it has died: {error} The arguments are as they were: call it again"
            " with a new executor. Dask's replaces workers that die."
        )

    def result(self, task: Future[T], waiting: Patience) -> T:
        """Wait for a task, and return its result.

        Raises
        ------
        LostError, KilledError
            Something that the task needs is not there; it kills its workers.
        ChunkError, WorkerError
            It failed.
        """
        self._ended([task], waiting)
        return self._value(task)

    def _ended(self, tasks: Sequence[Future[Any]], waiting: Patience) -> list[Future[Any]]:
        """Wait for the first of some tasks; list those that have ended."""
        ended: list[Future[Any]] = []

        def poll(seconds: float) -> bool:
            end = monotonic() + seconds
            while not ended and (left := end - monotonic()) >= 0:
                concurrent.futures.wait(tasks, min(left, _GLANCE), FIRST_COMPLETED)
                # Those too that a shutdown has cancelled, which nobody waits for successfully.
                ended.extend([task for task in tasks if task.done()])
            return bool(ended)

        waiting.until(poll, lambda: f"{len(tasks)} tasks")
        return ended

    def _value(self, task: Future[T]) -> T:
        try:
            return task.result()
        except FuncgradError:
            raise
        except AbsentError as error:
            self._reads_files = False
            raise LostError from error
        except (BrokenExecutor, CancelledError) as error:
            raise self._broken(error) from error
        except BaseException as error:
            if task.exception() is not error:  # an interrupt of the caller's
                raise
            raise self._failed(error) from error

    def _failed(self, error: BaseException) -> WorkerError:
        """The error for a task that failed by itself, as when a worker lacks a module."""
        return WorkerError(
            f"{self._operation}: a task failed outside of the function, {type(error).__name__}:"
            f" {error}. Each worker needs funcgrad, and the modules that chunks are loaded with."
        )

    def total(
        self, tasks: list[Future[Outcome]], combine: Combine, terms: Terms, waiting: Patience
    ) -> Outcome:
        """Combine the results of tasks in the fixed tree; here, as soon as they come.

        The list is emptied, so that each result is dropped once it is combined; what is in it at
        the end is to be cancelled if something failed.
        """
        count, results = len(tasks), dict[int, Outcome]()
        numbers = {task: number for number, task in enumerate(tasks)}

        def ordered() -> Iterator[Outcome]:
            for number in range(count):
                while number not in results:
                    for task in self._ended(tasks, waiting):
                        tasks.remove(task)
                        results[numbers.pop(task)] = self._value(task)
                yield results.pop(number)

        return folded(ordered(), combine)

    def cancel(self, tasks: Sequence[Future[Any]]) -> None:
        """Leave nothing running, as far as the executor can."""
        for task in tasks:
            task.cancel()


def _runs_here(executor: object) -> bool:
    """Whether this thread or process is a worker of the executor, which may have no other.

    Tasks run in it then: if all workers waited for tasks, nobody would run these. A thread has the
    executor's name before the executor lists it. A forked process has a copy of the executor, whose
    queue knows the process that made it.
    """
    queue = getattr(executor, "_call_queue", None)
    if getattr(queue, "_opid", os.getpid()) != os.getpid():
        return True
    prefix = getattr(executor, "_thread_name_prefix", None)
    return isinstance(prefix, str) and current_thread().name.startswith(f"{prefix}_")


def _ended_future(function: Callable[..., T], *args: object) -> Future[T]:
    """Call a function, and make the future of its result."""
    future: Future[T] = Future()
    try:
        future.set_result(function(*args))
    except Exception as error:
        future.set_exception(error)
    return future


def aligned_groups(count: int, workers: int) -> list[slice]:
    """The chunks that go to a worker together, which are a power of two, about eight times each.

    >>> aligned_groups(40, 2)
    [slice(0, 2, None), slice(2, 4, None), ...]
    """
    share = max(1, count // (_TASKS_PER_WORKER * workers))
    size = 1 << (share.bit_length() - 1)
    return [slice(k, k + size) for k in range(0, count, size)]
