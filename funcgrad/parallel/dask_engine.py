"""The engine of Dask: chunks are tasks, workers combine results, and dead workers are replaced.

Parameters are sent to one worker; the others fetch them from it and from each other. If a worker
dies, values that were sent to it are lost (computed values are not): then the step is repeated.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final, TypeVar
from uuid import uuid4

from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from funcgrad.errors import FuncgradError, WorkerError
from funcgrad.parallel.engines import AnyExecutor, ExecutorEngine, KilledError, LostError, Terms
from funcgrad.parallel.messages import Outcome, folded
from funcgrad.parallel.sources import stacked
from funcgrad.parallel.waiting import Deadline, in_thread
from funcgrad.parallel.worker_tasks import Combine, combine_outcomes

T = TypeVar("T")
_MOST_LOSSES: Final = 2
"""After this many losses in one step, values are sent as tasks through the scheduler, which can
send them again. So a chunk that kills its workers is found, rather than the values that it loses.
"""
_GLANCE: Final = 0.5
"""Seconds between checks of the client's connection."""


class DaskEngine(ExecutorEngine):
    """A client of a Dask cluster, or its executor.

    This thread never waits for an answer of the cluster, because a stopped scheduler does not
    answer.
    """

    def __init__(self, operation: str, executor: AnyExecutor, client: AnyExecutor) -> None:
        super().__init__(operation, executor)
        self._client: Any = client
        self._options: dict[str, Any] = getattr(executor, "_kwargs", {})  # of get_executor()
        self._turn = 0
        self._misses = 0  # failed attempts in a row to reach a worker directly

    # Sending.

    def carried(self, value: object, waiting: Deadline, losses: int) -> object:
        """Send a value to one worker, each time to another.

        Raises
        ------
        LostError
            The worker died.
        """
        if losses >= _MOST_LOSSES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # Dask warns about large values
                return self.submit(None, _unchanged, value)
        workers = self.places(waiting)
        self._turn += 1
        worker = workers[self._turn % len(workers)]
        for direct in (True, False) if self._misses < _MOST_LOSSES else (False,):
            # Sent directly, it travels once; if workers are out of reach, it goes through the
            # scheduler. The worker has just died, or the client is closed.
            with suppress(OSError, CancelledError, KeyError, AttributeError):
                (future,) = self._asked(
                    lambda direct=direct: self._client.scatter(  # type: ignore[misc]  # a default, bound now
                        [value], workers=[worker], hash=False, direct=direct, timeout=3
                    ),
                    f"{worker} to take data",
                    waiting,
                )
                self._misses = 0 if direct else self._misses
                return future
            self._misses += direct
        raise LostError

    def remote(self, delayed: object, is_bag: bool) -> object:
        """Return a block, which stays where it is."""
        future = self._client.compute(delayed)
        return self.submit(None, stacked, future) if is_bag else future

    def places(self, waiting: Deadline) -> Sequence[str]:
        """Return the addresses of the workers, one for each thread; wait for a first worker."""

        def ask() -> list[str]:
            self._client.wait_for_workers(1)
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
            return [place for place in sorted(workers) for _ in range(workers[place]["nthreads"])]

        while True:
            self.recover(waiting)  # raises if the client is closed
            with suppress(OSError, CancelledError, TimeoutError):
                if known := self._asked(ask, "a worker", waiting):
                    return known

    def recover(self, waiting: Deadline) -> None:
        """Wait until the scheduler is connected."""

        def poll(seconds: float) -> bool:
            end = monotonic() + seconds
            while not self._is_connected() and monotonic() < end:
                sleep(0.05)
            return self._is_connected()

        waiting.until(poll, lambda: self._address)

    def _is_connected(self) -> bool:
        """Whether the client is connected now; raise WorkerError if the connection is lost."""
        if self._client.status in ("closed", "closing"):
            raise self._gone()
        return bool(self._client.status == "running")

    def _asked(self, ask: Callable[[], T], event: str, waiting: Deadline) -> T:
        """Call a function that may never return."""
        answer = in_thread(ask)

        def poll(seconds: float) -> bool:
            end = monotonic() + seconds
            while not answer.done() and monotonic() < end:
                wait([answer], max(0.0, min(_GLANCE, end - monotonic())))
                if not answer.done():
                    self._is_connected()
            return answer.done()

        waiting.until(poll, lambda: f"{event}; {self._address}{self._count()}")
        return answer.result()

    @property
    def _address(self) -> str:
        scheduler = self._client.scheduler
        return f"the cluster at {scheduler.address if scheduler is not None else 'no address'}"

    def _count(self) -> str:
        """Return the number of workers in words, or that the cluster does not answer."""
        answer = in_thread(lambda: len(self._client.scheduler_info(n_workers=-1)["workers"]))
        wait([answer], _GLANCE)
        known = answer.done() and answer.exception() is None
        return f" has {answer.result()} workers" if known else " does not answer"

    def _gone(self) -> WorkerError:
        return WorkerError(
            f"{self._operation}: the connection to {self._address} or its scheduler is lost."
            " The arguments are unchanged: start a cluster, and continue with them or from the last"
            " checkpoint."
        )

    # Tasks.

    def submit(self, place: str | None, function: Callable[..., T], *args: object) -> Future[T]:
        """Submit a task; another worker takes it if the chosen one is gone or busy."""
        free = place is None or "workers" in self._options  # the user's choice
        known = {} if free else {"workers": [place], "allow_other_workers": True}
        key = f"funcgrad-{function.__name__.strip('_')}-{uuid4().hex}"
        options = {**known, **self._options, "key": key, "pure": False}
        try:
            future: Future[T] = self._client.submit(function, *args, **options)
        except (OSError, CancelledError, RuntimeError) as error:  # the client is closed
            raise self._gone() from error
        return future

    def result(self, task: Future[T], waiting: Deadline) -> T:
        """Wait for a task, and return its result."""
        try:
            return self._asked(task.result, "a task", waiting)
        except FuncgradError:
            raise
        except KilledWorker as error:
            raise KilledError(f"the last at {error.last_worker.address}") from error
        except (FutureCancelledError, CancelledError, OSError) as error:
            raise LostError from error
        except Exception as error:
            raise self._failed(error) from error

    def total(
        self, tasks: list[Future[Outcome]], combine: Combine, terms: Terms, waiting: Deadline
    ) -> Outcome:
        """Combine the results of tasks by further tasks in the cluster."""

        def combined(left: Future[Outcome], right: Future[Outcome]) -> Future[Outcome]:
            return self.submit(None, combine_outcomes, left, right, *terms)

        tasks[:] = [folded(tasks, combined)]  # workers drop results that only these tasks held
        return self.result(tasks[0], waiting)

    def cancel(self, tasks: Sequence[Future[Any]]) -> None:
        """Cancel all tasks."""
        undone = [task for task in tasks if not task.done()]
        if undone and self._client.status == "running":
            with suppress(OSError, CancelledError):
                wait([in_thread(lambda: self._client.cancel(undone, force=True))], 5.0)


def _unchanged(value: T) -> T:
    return value
