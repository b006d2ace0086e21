"""Engines adapt executors to the needs of a step; this is the engine of general executors.

An engine sends values to workers, runs tasks there, waits for them, and combines their results. The
engine of Dask (``dask_engine.py``) combines results in the workers.
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

from funcgrad._core.trace import Value
from funcgrad._hooks.key_uses import current_uses
from funcgrad.errors import FuncgradError, WorkerError
from funcgrad.parallel.chunks import HeldChunk, digest_of
from funcgrad.parallel.messages import Caller, Outcome, StepCode, folded
from funcgrad.parallel.shared_files import AbsentError, SharedFile
from funcgrad.parallel.sources import ChunkSource
from funcgrad.parallel.waiting import Deadline
from funcgrad.parallel.worker_store import ChunkStore
from funcgrad.parallel.worker_tasks import Combine, combiner

T = TypeVar("T")
Terms: TypeAlias = tuple[Caller, object, list[object]]
"""The values that workers need to combine results: the caller, the code and its large constants."""
_TASKS_PER_WORKER: Final = 8
_GLANCE: Final = 0.5
"""Seconds between checks for cancelled tasks."""


class AnyExecutor(Protocol):
    """An object that runs functions elsewhere, as executors and clients of Dask do."""

    @property
    def submit(self) -> Callable[..., Any]:
        """Return the method that takes a function and its arguments, and returns a future."""
        ...


class LostError(Exception):
    """Values that a step had sent are lost; the step can be repeated."""


class KilledError(Exception):
    """A task was lost with each worker that had it."""


class ExecutorEngine:
    """Threads, processes and other executors like ``concurrent.futures.Executor``.

    Workers are threads, which get values directly and keep chunks in ``store``; or they are
    processes, to which values are ``shipped`` in shared files.

    Attributes
    ----------
    takes_residents : bool
        Whether parameters and chunks may be on a device.
    """

    takes_residents = False

    def __init__(self, operation: str, executor: AnyExecutor) -> None:
        self._operation, self._executor = operation, executor
        self.shipped = not isinstance(executor, ThreadPoolExecutor)
        self.store = None if self.shipped else ChunkStore()
        self._reads_files = True

    # Sending.

    def carried(self, value: object, waiting: Deadline, losses: int) -> object:
        """Turn a value into an argument of tasks; it exists while the result lives."""
        return SharedFile(value, self._reads_files) if self.shipped else value

    def remote(self, delayed: object, is_bag: bool) -> object:
        """Turn a block that a Dask cluster holds into an argument of tasks."""
        raise WorkerError(
            f"{self._operation}: the Dask collection is held by a cluster's workers. Pass that"
            " cluster's client as the executor, or a collection that is not persisted."
        )

    def recover(self, waiting: Deadline) -> None:
        """Prepare to repeat a step."""

    def content_of(self, chunk: HeldChunk) -> object:
        """Return a name for the data of a chunk, by which they are sent once; None for threads."""
        if not self.shipped:
            return None
        return tuple(map(id, chunk.leaves)) if chunk.constant else digest_of(chunk.leaves)

    def alike(self, values: Sequence[Value]) -> Sequence[Value]:
        """Return values on which the function can be staged: all of them in one place."""
        return values

    def delivered(self, value: Value, inputs: Sequence[Value]) -> Value:
        """Return a result in the place where the caller expects it."""
        return value

    # Tasks.

    def places(self, waiting: Deadline) -> Sequence[str | None]:
        """Return the workers, one for each thread; None if a worker cannot be chosen."""
        for name in ("_max_workers", "num_workers"):
            number = getattr(self._executor, name, None)
            if isinstance(number, int) and number > 0:
                return [None] * number
        return [None] * (os.cpu_count() or 1)

    def group_size(self, chunks: Sequence[object], size: int) -> int:
        """Return how many chunks a task may have, at most ``size``."""
        return size

    def place_of(self, chunk: object, index: int, place: str | None) -> str | None:
        """Return the worker for a chunk; None if the chunk decides, since a worker has the data."""
        return place if isinstance(chunk, ChunkSource) else None

    def submit(self, place: str | None, function: Callable[..., T], *args: object) -> Future[T]:
        """Submit a task, if possible to a chosen worker.

        Raises
        ------
        WorkerError
            The executor does not accept tasks any more.
        """
        return self._submitted(self._executor, function, *args)

    def _submitted(
        self, executor: AnyExecutor, function: Callable[..., T], *args: object
    ) -> Future[T]:
        task: Callable[..., T] = function
        if not self.shipped and current_uses() is not None:  # check the use of keys in threads, too
            task = partial(copy_context().run, function)
        if _runs_here(executor):
            return _ended_future(function, *args)
        try:
            future: Future[T] = executor.submit(task, *args)
        except RuntimeError as error:  # shut down, or broken
            raise self._broken(error) from error
        return future

    def _broken(self, error: BaseException) -> WorkerError:
        return WorkerError(
            f"{self._operation}: the executor {type(self._executor).__name__} accepts no more"
            f" tasks, or one of its workers has died: {error} The arguments are unchanged: call it"
            " again with a new executor. Dask replaces workers that die."
        )

    def result(self, task: Future[T], waiting: Deadline) -> T:
        """Wait for a task, and return its result.

        Raises
        ------
        LostError, KilledError
            A value that the task needs is lost; the task kills its workers.
        ChunkError, WorkerError
            It failed.
        """
        self._ended([task], waiting)
        return self._value(task)

    def _ended(self, tasks: Sequence[Future[Any]], waiting: Deadline) -> list[Future[Any]]:
        """Wait for the first of some tasks; return the tasks that have ended."""
        ended: list[Future[Any]] = []

        def poll(seconds: float) -> bool:
            end = monotonic() + seconds
            while not ended and (left := end - monotonic()) >= 0:
                concurrent.futures.wait(tasks, min(left, _GLANCE), FIRST_COMPLETED)
                # Include tasks that a shutdown has cancelled; waiting does not report them.
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
            if task.exception() is not error:  # an interrupt of the caller
                raise
            raise self._failed(error) from error

    def _failed(self, error: BaseException) -> WorkerError:
        """Return the error of a task that failed outside the function (a missing module)."""
        return WorkerError(
            f"{self._operation}: a task failed outside the function, {type(error).__name__}:"
            f" {error}. Each worker needs funcgrad, and the modules that load chunks."
        )

    def total(
        self, tasks: list[Future[Outcome]], combine: Combine, terms: Terms, waiting: Deadline
    ) -> Outcome:
        """Combine the results of tasks in the fixed tree, as soon as they come.

        The list is emptied, so that each result is dropped once it is combined. After a failure the
        remaining tasks in the list are to be cancelled.
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

    def combiner(self, caller: Caller, code: StepCode, constants: Sequence[Value]) -> Combine:
        """Return the function that combines two results in this process."""
        return combiner(caller, code, constants)

    def cancel(self, tasks: Sequence[Future[Any]]) -> None:
        """Cancel all tasks, as far as the executor can."""
        for task in tasks:
            task.cancel()


def _runs_here(executor: object) -> bool:
    """Whether this thread or process is a worker of the executor, perhaps the only one.

    Then tasks run in this thread: if all workers waited for tasks, no worker would run them. A
    thread has the executor's name before the executor lists the thread. A forked process has a copy
    of the executor, whose queue knows the process that made it.
    """
    queue = getattr(executor, "_call_queue", None)
    if getattr(queue, "_opid", os.getpid()) != os.getpid():
        return True
    prefix = getattr(executor, "_thread_name_prefix", None)
    return isinstance(prefix, str) and current_thread().name.startswith(f"{prefix}_")


def _ended_future(function: Callable[..., T], *args: object) -> Future[T]:
    """Call a function, and return a finished future."""
    future: Future[T] = Future()
    try:
        future.set_result(function(*args))
    except Exception as error:
        future.set_exception(error)
    return future


def aligned_size(count: int, workers: int) -> int:
    """The size of groups of chunks: a power of two, with about eight groups for each worker.

    >>> aligned_size(40, 2)
    2
    """
    share = max(1, count // (_TASKS_PER_WORKER * workers))
    return 1 << (share.bit_length() - 1)
