"""The engine of Dask: chunks as tasks, results combined by the workers, dead workers replaced.

Parameters are sent to one worker; the others fetch them from it and from one another. What a worker
held that was sent, and not computed, is lost when it dies: then the step is repeated.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final
from uuid import uuid4

import distributed
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from funcgrad.errors import ChunkError, FuncgradError, WorkerError
from funcgrad.parallel.engines import LostError, Sent, aligned_groups
from funcgrad.parallel.messages import Caller, Item, Partial
from funcgrad.parallel.sources import stacked
from funcgrad.parallel.waiting import wait_until
from funcgrad.parallel.worker_tasks import Outcome, combine_partials, load_chunk, run_chunks

_FAN_IN: Final = 4
"""A task combines the results of four neighbours: two levels of the tree."""
_MOST_LOSSES: Final = 2
"""After so many in one step values are sent as tasks: by way of the scheduler, which can send them
again, so that a chunk that kills its workers is found, and not what is lost with them."""
_AHEAD: Final = 3
"""Results that are streamed are computed this many for each thread ahead of their use."""


class DaskEngine:
    """A client of a Dask cluster."""

    def __init__(self, operation: str, client: Any, timeout: float | None) -> None:
        self.shipped = True
        self._operation, self._client, self._timeout = operation, client, timeout
        self._futures: dict[str, Any] = {}
        self._used: set[str] = set()
        self._places: dict[str, str] = {}
        self._turn = 0
        self._reaches_workers = True
        self._losses = 0

    # What is sent.

    def share(self, value: Any, key: Callable[[], str] | None) -> Any:
        """Send a value to one worker, another one each time."""
        if key is None:
            return self._scatter(value)
        name = key()
        self._used.add(name)
        if name not in self._futures:
            self._futures[name] = self._scatter(value)
        return self._futures[name]

    def _scatter(self, value: Any) -> Any:
        """Send a value.

        Raises
        ------
        LostError
            The worker died meanwhile.
        """
        if self._losses >= _MOST_LOSSES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # Dask's, that it is large
                return self._submit("value", _unchanged, value)
        workers = self._workers()
        self._turn += 1
        worker = workers[self._turn % len(workers)]
        for direct in (True, False) if self._reaches_workers else (False,):
            # Directly it travels once; by way of the scheduler where workers are out of reach.
            # What is raised when the worker has just died, or the client is closed.
            with suppress(OSError, CancelledError, KeyError, AttributeError):
                (future,) = self._client.scatter(
                    [value], workers=[worker], hash=False, direct=direct, timeout=3
                )
                self._reaches_workers = direct
                return future
        raise LostError

    def _workers(self) -> list[str]:
        """The addresses of the workers, once there is one."""
        known: list[str] = []

        def poll(seconds: float) -> bool:
            if self._client.status in ("closed", "closing"):
                raise self._gone()
            end = monotonic() + seconds
            with suppress(OSError, CancelledError):
                while not known and monotonic() < end:
                    known[:] = sorted(self._client.scheduler_info(n_workers=-1)["workers"])
                    if not known:
                        sleep(0.05)
            return bool(known)

        address = self._address
        wait_until(poll, lambda: f"a worker of {address}", self._operation, self._timeout)
        return known

    @property
    def _address(self) -> str:
        scheduler = self._client.scheduler
        return f"the cluster at {scheduler.address if scheduler is not None else 'no address'}"

    def _gone(self) -> WorkerError:
        return WorkerError(
            f"{self._operation}: the connection to {self._address} is gone, or its scheduler is."
            " The arguments are as they were: start a cluster, and go on with them or from the last"
            " checkpoint."
        )

    def share_remote(self, delayed: Any, is_bag: bool) -> Any:
        """Take a block where it is."""
        future = self._client.compute(delayed)
        return self._client.submit(stacked, future, pure=False) if is_bag else future

    def end_step(self) -> None:
        """Release what this step has not used."""
        for name in self._futures.keys() - self._used:
            del self._futures[name]
        self._used = set()
        self._losses = 0

    def forget(self) -> None:
        """Send everything again; wait until the scheduler is there, if it is not."""
        self._futures = {}
        self._losses += 1
        address = self._address

        def poll(seconds: float) -> bool:
            end = monotonic() + seconds
            while self._client.status != "running" and monotonic() < end:
                if self._client.status in ("closed", "closing"):
                    raise self._gone()
                sleep(0.05)
            return bool(self._client.status == "running")

        wait_until(poll, lambda: address, self._operation, self._timeout)

    # Tasks.

    def _submit(self, kind: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        key = f"funcgrad-{kind}-{uuid4().hex}"
        try:
            return self._client.submit(function, *args, key=key, pure=False, **options)
        except (OSError, CancelledError, RuntimeError) as error:  # the client is closed
            raise self._gone() from error

    def _wait(self, future: Any, others: Sequence[Any]) -> Any:
        """Wait for a task and return its result.

        Raises
        ------
        LostError
            Something that the task needs is gone.
        ChunkError, WorkerError
            It failed.
        """

        def poll(seconds: float) -> bool:
            with suppress(CancelledError):
                try:
                    distributed.wait([future], timeout=seconds)
                except TimeoutError:
                    return False
            return True

        def what() -> str:
            left = sum(not other.done() for other in others)
            count = len(self._client.scheduler_info(n_workers=-1)["workers"])
            return f"{left} of {len(others)} tasks; {self._address} has {count} workers"

        wait_until(poll, what, self._operation, self._timeout)
        try:
            return future.result()
        except (FuncgradError, KilledWorker):
            raise
        except (FutureCancelledError, CancelledError) as error:
            raise LostError from error
        except OSError as error:
            raise LostError from error
        except Exception as error:
            raise WorkerError(
                f"{self._operation}: a task failed outside of the function,"
                f" {type(error).__name__}: {error}. Each worker needs funcgrad, and the modules"
                " that chunks are loaded with."
            ) from error

    def load(self, caller: Caller, item: Item, data: Any) -> Any:
        """Load a chunk in a worker."""
        future = self._submit("load", load_chunk, caller, item, data)
        try:
            return self._wait(future, [future])
        except KilledWorker as error:
            raise self._killing(item, error) from error
        finally:
            future.cancel()

    def _start(
        self,
        caller: Caller,
        items: Sequence[Item],
        data: Sequence[Any],
        sent: Sent,
        hint: str | None = None,
    ) -> Any:
        # Another worker takes it if this one is gone.
        options: Any = {} if hint is None else {"workers": [hint], "allow_other_workers": True}
        shared = [sent.code, list(sent.inputs), list(sent.digests), list(sent.arrays)]
        return self._submit(
            "chunks", run_chunks, caller, list(items), list(data), *shared, **options
        )

    def _hints(self, firsts: Sequence[Item], workers: Sequence[str]) -> list[str | None]:
        """The worker that keeps each chunk, for no more of them than are a worker's share."""
        share = -(-len(firsts) // len(workers))
        taken: Counter[str] = Counter()
        hints: list[str | None] = []
        for item in firsts:
            place = self._places.get(item.source.key) if item.source is not None else None
            if place is None or place not in workers or taken[place] >= share:
                hints.append(None)
                continue
            taken[place] += 1
            hints.append(place)
        return hints

    def total(
        self, caller: Caller, items: Sequence[Item], data: Sequence[Any], sent: Sent
    ) -> Outcome:
        """Run chunks as tasks, and combine their results by tasks."""
        tasks = []
        try:
            workers = self._workers()
            groups = aligned_groups(len(items), len(workers))
            hints = self._hints([items[group.start] for group in groups], workers)
            for group, hint in zip(groups, hints, strict=True):
                tasks.append(self._start(caller, items[group], data[group], sent, hint))
            level = list(tasks)
            shared = [sent.code, list(sent.digests), list(sent.arrays)]
            while len(level) > 1:
                fours = [level[k : k + _FAN_IN] for k in range(0, len(level), _FAN_IN)]
                level = [
                    self._submit("combine", combine_partials, caller, four, *shared)
                    for four in fours
                ]
                tasks += level
            outcome: Outcome = self._wait(level[0], tasks)
        except KilledWorker as error:
            self._cancel(tasks)
            self._blame(caller, items, data, sent)
            raise LostError from error
        except BaseException:
            self._cancel(tasks)
            raise
        if isinstance(outcome, Partial):
            by_index = {item.index: item.source for item in items if item.source is not None}
            self._places = {
                by_index[index].key: place for index, place in outcome.places if index in by_index
            }
        return outcome

    def _blame(
        self, caller: Caller, items: Sequence[Item], data: Sequence[Any], sent: Sent
    ) -> None:
        """Run chunk by chunk, to find the one that kills its workers; Dask blames bystanders too.

        Raises
        ------
        ChunkError
            It is found.
        LostError
            What the step had sent is lost.
        """
        for item, chunk in zip(items, data, strict=True):
            future = self._start(caller, [item], [chunk], sent)
            try:
                self._wait(future, [future])
            except KilledWorker as error:
                raise self._killing(item, error) from error
            finally:
                future.cancel()

    def _killing(self, item: Item, error: Any) -> ChunkError:
        return ChunkError(
            f"{self._operation}: chunk {item.index} was lost with each worker that had it, the last"
            f" at {error.last_worker.address}. It may need more memory than a worker has: cut"
            " smaller chunks, or look at the workers' logs.",
            item.index,
        )

    def _cancel(self, tasks: Sequence[Any]) -> None:
        """Leave nothing running."""
        if self._client.status == "running":
            with suppress(OSError, CancelledError):
                self._client.cancel(list(tasks), force=True)

    def stream(
        self, caller: Caller, items: Sequence[Item], data: Sequence[Any], sent: Sent
    ) -> Iterator[tuple[int, Outcome]]:
        """Have a few chunks more under way than there are threads; yield results in order."""
        ahead = _AHEAD * max(1, sum(self._client.nthreads().values()))
        running: list[Any] = []
        try:
            for k in range(len(items)):
                for later in range(k + len(running), min(k + ahead, len(items))):
                    running.append(self._start(caller, [items[later]], [data[later]], sent))
                try:
                    outcome = self._wait(running[0], running)
                except KilledWorker as error:
                    self._blame(caller, items[k : k + 1], [data[k]], sent)
                    raise LostError from error
                running.pop(0)
                yield k, outcome
        finally:
            self._cancel(running)


def _unchanged(value: Any) -> Any:
    return value
