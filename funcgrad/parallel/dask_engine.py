"""The engine of Dask: chunks as tasks, results combined by the workers, dead workers replaced.

Parameters are sent to one worker; the others fetch them from it and from one another. What a worker
held that was sent, and not computed, is lost when it dies: then the step is repeated.
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
from funcgrad.parallel.waiting import Patience, in_thread
from funcgrad.parallel.worker_tasks import Combine, combine_outcomes

T = TypeVar("T")
_MOST_LOSSES: Final = 2
"""After so many in one step values are sent as tasks: by way of the scheduler, which can send them
again, so that a chunk that kills its workers is found, and not what is lost with them."""
_GLANCE: Final = 0.5
"""Seconds between looks at whether the client is still connected."""


class DaskEngine(ExecutorEngine):
    """A client of a Dask cluster, or its executor.

    Nothing is asked of the cluster in this thread: a scheduler that has stopped answers never.
    """

    def __init__(self, operation: str, executor: AnyExecutor, client: AnyExecutor) -> None:
        super().__init__(operation, executor)
        self._client: Any = client
        self._options: dict[str, Any] = getattr(executor, "_kwargs", {})  # of get_executor()
        self._turn = 0
        self._misses = 0  # attempts, one after the other, to reach a worker directly

    # What is sent.

    def carried(self, value: object, waiting: Patience, losses: int) -> object:
        """Send a value to one worker, another one each time.

        Raises
        ------
        LostError
            The worker died meanwhile.
        """
        if losses >= _MOST_LOSSES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # Dask's, that it is large
                return self.submit(None, _unchanged, value)
        workers = self.places(waiting)
        self._turn += 1
        worker = workers[self._turn % len(workers)]
        for direct in (True, False) if self._misses < _MOST_LOSSES else (False,):
            # Directly it travels once; by way of the scheduler where workers are out of reach.
            # What is raised when the worker has just died, or the client is closed.
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
        """Take a block where it is."""
        future = self._client.compute(delayed)
        return self.submit(None, stacked, future) if is_bag else future

    def places(self, waiting: Patience) -> Sequence[str]:
        """The addresses of the workers, one for each thread, once there is a worker."""

        def ask() -> list[str]:
            self._client.wait_for_workers(1)
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
            return [place for place in sorted(workers) for _ in range(workers[place]["nthreads"])]

        while True:
            self.recover(waiting)  # which raises where the client is closed
            with suppress(OSError, CancelledError, TimeoutError):
                if known := self._asked(ask, "a worker", waiting):
                    return known

    def recover(self, waiting: Patience) -> None:
        """Wait until the scheduler is there, if it is not."""

        def poll(seconds: float) -> bool:
            end = monotonic() + seconds
            while not self._is_connected() and monotonic() < end:
                sleep(0.05)
            return self._is_connected()

        waiting.until(poll, lambda: self._address)

    def _is_connected(self) -> bool:
        """Whether there is a connection, now; raise WorkerError if it does not come back."""
        if self._client.status in ("closed", "closing"):
            raise self._gone()
        return bool(self._client.status == "running")

    def _asked(self, ask: Callable[[], T], what: str, waiting: Patience) -> T:
        """Call what may never return."""
        answer = in_thread(ask)

        def poll(seconds: float) -> bool:
            end = monotonic() + seconds
            while not answer.done() and monotonic() < end:
                wait([answer], max(0.0, min(_GLANCE, end - monotonic())))
                if not answer.done():
                    self._is_connected()
            return answer.done()

        waiting.until(poll, lambda: f"{what}; {self._address}{self._count()}")
        return answer.result()

    @property
    def _address(self) -> str:
        scheduler = self._client.scheduler
        return f"the cluster at {scheduler.address if scheduler is not None else 'no address'}"

    def _count(self) -> str:
        """Say how many workers there are, or that nobody answers."""
        answer = in_thread(lambda: len(self._client.scheduler_info(n_workers=-1)["workers"]))
        wait([answer], _GLANCE)
        known = answer.done() and answer.exception() is None
        return f" has {answer.result()} workers" if known else " does not answer"

    def _gone(self) -> WorkerError:
        return WorkerError(
            f"{self._operation}: the connection to {self._address} is gone, or its scheduler is."
            " The arguments are as they were: start a cluster, and go on with them or from the last"
            " checkpoint."
        )

    # Tasks.

    def submit(self, place: str | None, function: Callable[..., T], *args: object) -> Future[T]:
        """Submit a task; another worker takes it if the one it is for is gone, or busy."""
        free = place is None or "workers" in self._options  # which the user has chosen
        known = {} if free else {"workers": [place], "allow_other_workers": True}
        key = f"funcgrad-{function.__name__.strip('_')}-{uuid4().hex}"
        options = {**known, **self._options, "key": key, "pure": False}
        try:
            future: Future[T] = self._client.submit(function, *args, **options)
        except (OSError, CancelledError, RuntimeError) as error:  # the client is closed
            raise self._gone() from error
        return future

    def result(self, task: Future[T], waiting: Patience) -> T:
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
        self, tasks: list[Future[Outcome]], combine: Combine, terms: Terms, waiting: Patience
    ) -> Outcome:
        """Combine the results of tasks by tasks, which wait in the cluster for one another."""

        def combined(left: Future[Outcome], right: Future[Outcome]) -> Future[Outcome]:
            return self.submit(None, combine_outcomes, left, right, *terms)

        tasks[:] = [folded(tasks, combined)]  # workers drop what only the others would have held
        return self.result(tasks[0], waiting)

    def cancel(self, tasks: Sequence[Future[Any]]) -> None:
        """Leave nothing running."""
        undone = [task for task in tasks if not task.done()]
        if undone and self._client.status == "running":
            with suppress(OSError, CancelledError):
                wait([in_thread(lambda: self._client.cancel(undone, force=True))], 5.0)


def _unchanged(value: T) -> T:
    return value
