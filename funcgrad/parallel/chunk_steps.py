"""A step: stage the function for the chunks, send, run, and repeat after losses.

A step is all or nothing: it returns the results of all chunks or raises, and changes nothing of the
caller's.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from hashlib import blake2b
from typing import Any, Final, TypeVar, cast

from funcgrad._backends.devices.device import Device
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import spec_of
from funcgrad._core.trace import Value
from funcgrad._staging.static_arguments import parts_of
from funcgrad.errors import ArgumentError, ChunkError, WorkerError
from funcgrad.parallel.chunks import HeldChunk, RemoteChunk, chunk_list, raw_leaves
from funcgrad.parallel.device_engine import DeviceEngine
from funcgrad.parallel.engines import ExecutorEngine, KilledError, LostError, aligned_size
from funcgrad.parallel.messages import ChunkProgram, Item, Outcome, Unstaged, folded
from funcgrad.parallel.plans import Job, StagingPlan
from funcgrad.parallel.probes import caller
from funcgrad.parallel.waiting import Deadline
from funcgrad.parallel.worker_tasks import load_chunk, run_chunks

T = TypeVar("T")
_MOST_PLANS: Final = 16
_MOST_REPEATS: Final = 1000
_AHEAD: Final = 3
"""The number of streamed results for each worker that are computed ahead of their use."""


def _engine_of(job: Job) -> ExecutorEngine:
    """Make the engine of an executor, or of devices.

    Raises
    ------
    ArgumentError
        The object is not an executor, and not a list of devices.
    """
    operation, executor = job.operation, cast("Any", job.executor)
    devices = [job.executor] if isinstance(job.executor, Device) else job.executor
    are_data = isinstance(devices, (list, tuple)) and any(hasattr(x, "shape") for x in devices)
    if isinstance(devices, (list, tuple)) and devices and not are_data:
        return DeviceEngine(operation, devices, job.allow_other_bits)
    distributed: Any = sys.modules.get("distributed")
    client: Any = getattr(executor, "_client", executor)  # of a ClientExecutor
    if distributed is not None and isinstance(client, distributed.Client):
        from funcgrad.parallel.dask_engine import DaskEngine

        if not client.asynchronous:
            return DaskEngine(operation, executor, client)
    elif callable(getattr(executor, "submit", None)) and not isinstance(executor, type):
        return ExecutorEngine(operation, executor)
    raise ArgumentError(
        f"{operation}: executor={executor!r:.80} is not an executor. Pass a ThreadPoolExecutor or"
        " ProcessPoolExecutor of concurrent.futures, a synchronous client of Dask, another object"
        " with their method submit, or a list of devices of fg.devices(). The data follow in a"
        f" second call: {operation}(..., executor)(...)."
    )


class Steps:
    """The steps of one function on one executor, and the values that the next step reuses.

    These values are ``sent``: everything that the latest step has sent, by keys of the content.
    """

    def __init__(self, job: Job) -> None:
        job.check()
        self.job, self.engine = job, _engine_of(job)
        self.sent: dict[Hashable, tuple[object, object]] = {}
        self._plans: dict[Hashable, StagingPlan] = {}

    def step(
        self,
        params: object,
        args: tuple[object, ...],
        chunks: object,
        weights: Sequence[float] | None = None,
    ) -> ChunkStep:
        """Start a step."""
        return ChunkStep(self, params, args, chunks, weights)

    def plan(self, leaves: Sequence[Value], structure: Structure) -> StagingPlan:
        """Return the plan for parameters of this kind; a new plan after an outside value has
        changed.
        """
        key = structure, parts_of(structure), tuple([spec_of(leaf) for leaf in leaves])
        plan = self._plans.get(key)
        if plan is None or not plan.unchanged():
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = StagingPlan(self.job, structure)
        return plan


class ChunkStep:
    """One step: its parameters, its chunks, and the plan that grows while it runs."""

    def __init__(
        self,
        steps: Steps,
        params: object,
        args: tuple[object, ...],
        chunks: object,
        weights: Sequence[float] | None,
    ) -> None:
        operation, job = steps.job.operation, steps.job
        self._steps, self._engine = steps, steps.engine
        residents = self._engine.takes_residents
        self._chunks = chunk_list(operation, chunks, self._engine.shipped, residents)
        self._inputs, structure = raw_leaves(operation, (params, args), residents)
        self.plan = steps.plan(self._inputs, structure)
        self.count = len(self._chunks)
        if weights is not None and len(weights) != self.count:
            raise ArgumentError(
                f"{operation}: there are {len(weights)} weights and {self.count} chunks."
            )
        self._items = [
            Item(
                index,
                None if weights is None else weights[index],
                None if isinstance(chunk, (HeldChunk, RemoteChunk)) else chunk,
            )
            for index, chunk in enumerate(self._chunks)
        ]
        keys = [item.source.key for item in self._items if item.source is not None]
        run = blake2b("\n".join(keys).encode(), digest_size=16).hexdigest()
        any_bits = job.allow_other_bits or residents
        self._caller = caller(operation, any_bits, job.keep, run, self._engine.store)
        self.sent: dict[Hashable, tuple[object, object]] = {}
        self._sent_inputs: object = None
        self._tried: Sequence[ChunkProgram] = ()
        self._losses = 0
        self._wait()

    def _wait(self) -> None:
        """Start the clock of the step, or of the next result."""
        self._waiting = Deadline(self._caller.operation, self._steps.job.timeout)

    # Sending.

    def _share(self, key: Hashable, value: object) -> object:
        """Send a value, unless this step or the previous one has sent it under this key."""
        known = self.sent.get(key) or self._steps.sent.get(key)
        if known is None:  # keep the value, so that its ``id`` stays unique
            known = self._engine.carried(value, self._waiting, self._losses), value
        self.sent[key] = known
        return known[0]

    def _data(self, index: int) -> object:
        """Return a chunk as its task receives it; None if the worker loads it."""
        chunk = self._chunks[index]
        if isinstance(chunk, RemoteChunk):
            return self._engine.remote(chunk.delayed, chunk.is_bag)
        if not isinstance(chunk, HeldChunk):
            return None
        value = list(chunk.leaves), chunk.structure
        content = self._engine.content_of(chunk)
        if content is None:
            return self._engine.carried(value, self._waiting, self._losses)
        return self._share((content, chunk.structure), value)

    def _code(self) -> tuple[object, list[object]]:
        """Return the programs and their large constants, as tasks receive them."""
        code = self.plan.code()
        self._tried = code.programs
        arrays = [self._share(digest, self.plan.arrays[digest]) for digest in code.arrays]
        return self._share(("code", id(code)), code), arrays

    def _start(self, indices: slice, place: str | None = None) -> Future[Outcome]:
        """Submit the work on some chunks."""
        if self._sent_inputs is None:
            self._sent_inputs = self._engine.carried(self._inputs, self._waiting, self._losses)
        items = self._items[indices]
        data = [self._data(item.index) for item in items]
        first = items[0].index
        return self._engine.submit(
            self._engine.place_of(self._chunks[first], first, place),
            run_chunks,
            self._caller,
            items,
            data,
            *self._code(),
            self._sent_inputs,
        )

    # Staging.

    def _stage(self, index: int) -> None:
        """Stage the function on a chunk; if the chunk is not here, a worker loads it."""
        chunk = self._chunks[index]
        if isinstance(chunk, HeldChunk):
            leaves: Sequence[Value] = chunk.leaves
            structure: Structure = chunk.structure
        else:
            load = self._engine.submit(
                None, load_chunk, self._caller, self._items[index], self._data(index)
            )
            leaves, structure = self._ended(load, index)
        values = self._engine.alike([*self._inputs, *leaves])
        count = len(self._inputs)
        self.plan.stage(index, values[:count], values[count:], structure, self._tried)

    def _prepare(self) -> None:
        """Stage the function on the first chunk, and on other chunks here of another kind."""
        if self.plan.structure is None:
            self._stage(0)
        for index, chunk in enumerate(self._chunks):
            if isinstance(chunk, HeldChunk) and not self.plan.knows(chunk.structure, chunk.leaves):
                self._stage(index)

    # Running.

    def _ended(self, task: Future[T], index: int) -> T:
        """Wait for a task with one chunk, and return its result."""
        try:
            return self._engine.result(task, self._waiting)
        except KilledError as error:
            raise ChunkError(
                f"{self._caller.operation}: chunk {index} was lost with each worker that held it,"
                f" {error}. It may need more memory than a worker has: cut smaller chunks, or look"
                " at the workers' logs.",
                index,
            ) from error
        finally:
            if not task.done():
                self._engine.cancel([task])

    def _repeated(self, attempt: Callable[[], T]) -> T:
        """Run a function, and repeat it if values that it had sent are lost."""
        for _ in range(_MOST_REPEATS):
            try:
                return attempt()
            except LostError:
                self.sent, self._steps.sent, self._sent_inputs = {}, {}, None
                self._losses += 1
                self._engine.recover(self._waiting)
        raise WorkerError(
            f"{self._caller.operation}: workers died {_MOST_REPEATS} times during one step, and"
            " the values that they held were lost. Look at the workers' logs."
        )

    def total(self) -> tuple[Value, ...]:
        """Combine the results of all chunks."""
        self._repeated(self._prepare)
        while isinstance(outcome := self._repeated(self._combined), Unstaged):
            for index in outcome.indices:
                self._repeated(partial(self._stage, index))
        self._steps.sent = self.sent
        return outcome

    def _combined(self) -> Outcome:
        engine, waiting = self._engine, self._waiting
        places = engine.places(waiting)
        size = engine.group_size(self._chunks, aligned_size(self.count, len(places)))
        groups = [slice(k, k + size) for k in range(0, self.count, size)]
        tasks: list[Future[Outcome]] = []
        combine = engine.combiner(self._caller, self.plan.code(), list(self.plan.arrays.values()))
        try:
            for number, group in enumerate(groups):
                # Neighbouring groups go to one worker, and to the same worker in each step.
                tasks.append(self._start(group, places[number * len(places) // len(groups)]))
            return engine.total(tasks, combine, (self._caller, *self._code()), waiting)
        except KilledError:
            engine.cancel(tasks)
            return folded(map(self._alone, range(self.count)), combine)
        except BaseException:
            engine.cancel(tasks)
            raise

    def _alone(self, index: int) -> Outcome:
        """Run one chunk by itself: if it kills its worker, no other chunk is lost."""
        return self._ended(self._start(slice(index, index + 1)), index)

    def delivered(self, value: Value) -> Value:
        """Return a result in the place where the parameters are."""
        return self._engine.delivered(value, self._inputs)

    def stream(self) -> Iterator[tuple[Value, ...]]:
        """Yield the results of the chunks in order; a few are computed ahead."""
        self._repeated(self._prepare)
        running: deque[Future[Outcome]] = deque()
        ahead = _AHEAD * len(self._engine.places(self._waiting))
        try:
            for index in range(self.count):
                outcome = self._repeated(partial(self._next, index, running, ahead))
                while isinstance(outcome, Unstaged):
                    self._repeated(partial(self._stage, index))
                    outcome = self._repeated(partial(self._alone, index))
                yield outcome
                self._wait()
            self._steps.sent = self.sent
        finally:
            self._engine.cancel(running)

    def _next(self, index: int, running: deque[Future[Outcome]], ahead: int) -> Outcome:
        """Start tasks for a chunk and the chunks after it, and wait for the first result."""
        try:
            for k in range(index + len(running), min(index + ahead, self.count)):
                running.append(self._start(slice(k, k + 1)))
            outcome = self._engine.result(running[0], self._waiting)
            running.popleft()
            return outcome
        except (LostError, KilledError) as error:
            self._engine.cancel(running)
            running.clear()
            if isinstance(error, LostError):
                raise
            return self._alone(index)
