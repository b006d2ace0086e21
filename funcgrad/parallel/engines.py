"""Engines: an executor with what a step needs of it; here that of executors in general.

An engine carries values to workers (``share``), runs tasks (``one``, ``stream``), and combines the
results of chunks (``total``). Dask's, in ``dask_engine.py``, does the last in its workers.
"""

from __future__ import annotations

import concurrent.futures
import os
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future
from contextlib import suppress
from dataclasses import replace
from shutil import rmtree
from time import monotonic
from typing import Any, Final, Protocol, TypeVar
from uuid import uuid4

from funcgrad.errors import FuncgradError, WorkerError
from funcgrad.parallel.folding import GrowingFold
from funcgrad.parallel.messages import AbsentParcels, Caller, Item, Partial
from funcgrad.parallel.parcels import Parcel, write_parcel
from funcgrad.parallel.waiting import wait_until
from funcgrad.parallel.worker_tasks import Combine, Outcome, load_chunk, run_chunks
from funcgrad.quick_dataclasses import dataclass

T = TypeVar("T")
_TASKS_PER_WORKER: Final = 8
_GLANCE: Final = 0.5
"""Seconds between looks at whether tasks were cancelled."""


class LostError(Exception):
    """Values that a step had sent are gone with a worker; the step can be repeated."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The values that all chunks of a step have in common, as an engine carries them.

    Attributes
    ----------
    code : object
    inputs : tuple
        The leaves of the parameters, and of further arguments.
    digests : tuple of str
    arrays : tuple
        Large constants of the programs, under these digests.
    combine : callable
        Makes one result of two, in the caller.
    """

    code: Any
    inputs: tuple[Any, ...]
    digests: tuple[str, ...]
    arrays: tuple[Any, ...]
    combine: Combine


class Engine(Protocol):
    """An executor, as the functions of this package use it."""

    @property
    def shipped(self) -> bool:
        """Whether workers are other processes."""
        ...

    def share(self, value: Any, key: Callable[[], str] | None) -> Any:
        """Make a value ready to be sent; one with a key of its content is sent once."""
        ...

    def share_remote(self, delayed: Any, is_bag: bool) -> Any:
        """Make a block that the workers hold ready to be used."""
        ...

    def end_step(self) -> None:
        """Forget what was shared without a key, and what this step has not used."""
        ...

    def forget(self) -> None:
        """Forget all that was shared, since some of it is lost."""
        ...

    def total(
        self, caller: Caller, items: Sequence[Item], data: Sequence[Any], sent: Sent
    ) -> Outcome:
        """Run the program on chunks, and combine the results in the fixed tree."""
        ...

    def load(self, caller: Caller, item: Item, data: Any) -> Any:
        """Load a chunk in a worker; return its leaves and its structure."""
        ...

    def stream(
        self, caller: Caller, items: Sequence[Item], data: Sequence[Any], sent: Sent
    ) -> Iterator[tuple[int, Outcome]]:
        """Run the program on chunks; yield positions and results in their order."""
        ...


class ExecutorEngine:
    """Threads, processes and what else has the interface of ``concurrent.futures.Executor``.

    To threads values are passed as they are. To processes they go as parcels: files, which are
    written once. Chunks go to them in aligned groups of 1, 2, 4 …, about eight for a worker, whose
    results are combined before they travel.
    """

    def __init__(self, operation: str, executor: Any, shipped: bool, timeout: float | None) -> None:
        self._operation, self._executor, self._timeout = operation, executor, timeout
        self.shipped = shipped
        self._parcels: dict[str, Parcel] = {}
        self._used: set[str] = set()
        self._folder = tempfile.mkdtemp(prefix="funcgrad-parallel-") if shipped else ""
        if shipped:
            weakref.finalize(self, rmtree, self._folder, ignore_errors=True)

    # What is sent.

    def share(self, value: Any, key: Callable[[], str] | None) -> Any:
        """Write a parcel, or pass the value to threads as it is."""
        if not self.shipped:
            return value
        name = uuid4().hex if key is None else key()
        self._used.add(name)
        if name not in self._parcels:
            path = os.path.join(self._folder, name)
            write_parcel(path, value)
            self._parcels[name] = Parcel(name, path)
        if key is None:
            self._used.discard(name)
        return self._parcels[name]

    def share_remote(self, delayed: Any, is_bag: bool) -> Any:
        """Compute a block of Dask's here, since the workers cannot."""
        raise WorkerError(
            f"{self._operation}: the Dask collection is held by a cluster's workers. Pass that"
            " cluster's client as the executor, or a collection that is not persisted."
        )

    def end_step(self) -> None:
        """Remove the files that the step has not used, and those of its parameters."""
        for name in self._parcels.keys() - self._used:
            with suppress(OSError):  # elsewhere than on POSIX a file that is mapped stays
                os.unlink(self._parcels[name].path)
            del self._parcels[name]
        self._used = set()

    def forget(self) -> None:
        """Do nothing: files are not lost."""

    # Tasks.

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        """Submit a task.

        Raises
        ------
        WorkerError
            The executor takes no more tasks.
        """
        try:
            return self._executor.submit(function, *args)  # type: ignore[no-any-return]
        except RuntimeError as error:  # shut down, or broken
            raise self._broken(error) from error

    def _broken(self, error: BaseException) -> WorkerError:
        return WorkerError(
            f"{self._operation}: the executor {type(self._executor).__name__} takes no more tasks,"
            f" or a worker of it has died: {error} The arguments are as they were: call it again"
            " with a new executor. Dask's replaces workers that die."
        )

    def _result(self, future: Future[T]) -> T:
        try:
            return future.result()
        except FuncgradError:
            raise
        except (BrokenExecutor, CancelledError) as error:
            raise self._broken(error) from error
        except Exception as error:  # as when a worker lacks a module
            raise WorkerError(
                f"{self._operation}: a task failed outside of the function,"
                f" {type(error).__name__}: {error}. Each worker needs funcgrad, and the modules"
                " that chunks are loaded with."
            ) from error

    def _wait(self, futures: Sequence[Future[Any]]) -> set[Future[Any]]:
        """Wait for the first of some tasks."""
        done: set[Future[Any]] = set()

        def poll(seconds: float) -> bool:
            end = monotonic() + seconds
            while not done and (left := end - monotonic()) >= 0:
                concurrent.futures.wait(futures, min(left, _GLANCE), FIRST_COMPLETED)
                # Those too that a shutdown has cancelled, which nobody waits for successfully.
                done.update([future for future in futures if future.done()])
            return bool(done)

        wait_until(poll, lambda: f"{len(futures)} tasks", self._operation, self._timeout)
        return done

    def _one(self, function: Callable[..., T], *args: Any) -> T:
        future = self.submit(function, *args)
        try:
            self._wait([future])
            return self._result(future)
        finally:
            future.cancel()

    def load(self, caller: Caller, item: Item, data: Any) -> Any:
        """Load a chunk in a worker."""
        loaded = self._one(load_chunk, caller, item, data)
        if isinstance(loaded, AbsentParcels):
            loaded = self._one(load_chunk, caller, item, *self._filled([data], loaded))
        return loaded

    def _filled(self, values: Sequence[Any], absent: AbsentParcels) -> list[Any]:
        """Put the bytes into parcels that a worker could not read."""
        filled = []
        for value in values:
            if isinstance(value, Parcel) and value.key in absent.keys:
                with open(value.path, "rb") as file:
                    value = replace(value, content=file.read())
            filled.append(value)
        return filled

    def _start(
        self,
        caller: Caller,
        items: Sequence[Item],
        data: Sequence[Any],
        sent: Sent,
        absent: AbsentParcels | None = None,
    ) -> Future[Outcome]:
        fill = self._filled if absent is not None else lambda values, _: list(values)
        missing: Any = absent
        started: Future[Outcome] = self.submit(
            run_chunks,
            caller,
            items,
            fill(data, missing),
            *fill([sent.code], missing),
            fill(sent.inputs, missing),
            sent.digests,
            fill(sent.arrays, missing),
        )
        return started

    def total(
        self, caller: Caller, items: Sequence[Item], data: Sequence[Any], sent: Sent
    ) -> Outcome:
        """Run groups of chunks, and combine their results here as they come."""
        groups = aligned_groups(len(items), self._workers())
        fold: GrowingFold[Partial] = GrowingFold(len(groups), sent.combine)
        pending: dict[Future[Outcome], int] = {}
        try:
            for number, group in enumerate(groups):
                pending[self._start(caller, items[group], data[group], sent)] = number
            while pending:
                for future in self._wait(list(pending)):
                    number = pending.pop(future)
                    outcome: Outcome = self._result(future)
                    if isinstance(outcome, AbsentParcels):
                        group = groups[number]
                        again = self._start(caller, items[group], data[group], sent, outcome)
                        pending[again] = number
                    elif isinstance(outcome, Partial):
                        fold.put(number, outcome)
                    else:
                        return outcome
            return fold.total
        finally:
            for future in pending:
                future.cancel()

    def _workers(self) -> int:
        """How many workers there are, as far as the executor says so."""
        for name in ("_max_workers", "num_workers"):
            number = getattr(self._executor, name, None)
            if isinstance(number, int) and number > 0:
                return number
        return os.cpu_count() or 1

    def stream(
        self, caller: Caller, items: Sequence[Item], data: Sequence[Any], sent: Sent
    ) -> Iterator[tuple[int, Outcome]]:
        """Have a few chunks more under way than there are workers; yield results in order."""
        ahead = 2 * self._workers() + 1
        running: deque[tuple[int, Future[Outcome]]] = deque()
        waiting = deque(range(len(items)))
        try:
            while waiting or running:
                while waiting and len(running) < ahead:
                    k = waiting.popleft()
                    running.append((k, self._start(caller, [items[k]], [data[k]], sent)))
                position, future = running.popleft()
                outcome = self._waited(future)
                if isinstance(outcome, AbsentParcels):
                    again = [items[position]], [data[position]], sent, outcome
                    outcome = self._waited(self._start(caller, *again))
                yield position, outcome
        finally:
            for _, future in running:
                future.cancel()

    def _waited(self, future: Future[T]) -> T:
        try:
            self._wait([future])
        except BaseException:
            future.cancel()
            raise
        return self._result(future)


def aligned_groups(count: int, workers: int) -> list[slice]:
    """The chunks that go to a worker together, which are a power of two, about eight times each.

    >>> aligned_groups(40, 2)
    [slice(0, 2, None), slice(2, 4, None), ...]
    """
    share = max(1, count // (_TASKS_PER_WORKER * workers))
    size = 1 << (share.bit_length() - 1)
    return [slice(k, k + size) for k in range(0, count, size)]


def in_process(executor: Executor) -> bool:
    """Whether an executor's workers are threads of this interpreter."""
    interpreters: Any = getattr(concurrent.futures, "InterpreterPoolExecutor", ())
    threads = concurrent.futures.ThreadPoolExecutor
    return isinstance(executor, threads) and not isinstance(executor, interpreters)
