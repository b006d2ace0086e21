"""A step: stage what chunks ask for, send, run, and begin again where something was lost.

A step is all or nothing. It returns the results of all chunks or raises, and changes nothing that
the caller has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from funcgrad import trees
from funcgrad.errors import ArgumentError, WorkerError
from funcgrad.parallel.chunks import (
    Chunk,
    HeldChunk,
    RemoteChunk,
    chunk_list,
    dumps,
    raw_leaves,
    run_key,
)
from funcgrad.parallel.engines import Engine, ExecutorEngine, LostError, Sent, in_process
from funcgrad.parallel.messages import Caller, Item, Partial, StepCode, Unstaged
from funcgrad.parallel.plans import StagingPlan, combination, digest_of
from funcgrad.parallel.probes import caller
from funcgrad.parallel.worker_tasks import combiner
from funcgrad.process_locks import ProcessLock
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import spec_of
from funcgrad.trace import Value
from funcgrad.transforms.arguments import check_function
from funcgrad.trees import Structure

_MOST_PLANS: Final = 16
_MOST_REPEATS: Final = 1000


@dataclass(frozen=True, slots=True)
class StepSettings:
    """The options of a function of this package.

    Attributes
    ----------
    executor : object
    dtype : str or None
        The dtype of sums.
    keep : int or None
    timeout : float or None
    allow_strangers : bool
    """

    executor: Any
    dtype: str | None
    keep: int | None
    timeout: float | None
    allow_strangers: bool


def options(
    operation: str,
    executor: Any,
    dtype: Any,
    keep: int | None,
    timeout: float | None,
    allow_strangers: bool,
) -> StepSettings:
    """Check options.

    Raises
    ------
    ArgumentError
        One of them is not allowed.
    """
    name = None
    if dtype is not None:
        try:
            name = np.dtype(dtype).name
        except (TypeError, ValueError):
            name = ""
        if name not in ("float32", "float64", "complex64", "complex128"):
            raise ArgumentError(
                f"{operation}: dtype={dtype!r} is no dtype for sums: 'float64' or None."
            )
    if keep is not None and (type(keep) is not int or keep < 0):
        raise ArgumentError(f"{operation}: keep has to be a number of bytes, got {keep!r}.")
    if timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):
        raise ArgumentError(f"{operation}: timeout has to be a number of seconds, got {timeout!r}.")
    return StepSettings(executor, name, keep, timeout, allow_strangers)


def _engine_of(operation: str, executor: Any, timeout: float | None) -> Engine:
    """Make the engine of an executor.

    Raises
    ------
    ArgumentError
        It is none.
    """
    if type(executor).__module__.partition(".")[0] == "distributed":
        from funcgrad.parallel.dask_engine import DaskEngine

        client = getattr(executor, "_client", executor)  # that of a ClientExecutor
        if hasattr(client, "scatter") and not client.asynchronous:
            return DaskEngine(operation, client, timeout)
    if not callable(getattr(executor, "submit", None)) or isinstance(executor, type):
        raise ArgumentError(
            f"{operation}: executor={executor!r:.80} is no executor. Pass a ThreadPoolExecutor or"
            " ProcessPoolExecutor of concurrent.futures, a client of Dask that is not asynchronous,"
            " or another object with their method submit."
        )
    return ExecutorEngine(operation, executor, not in_process(executor), timeout)


class Steps:
    """The steps of one function on one executor.

    Parameters
    ----------
    operation : str
        The function that the user called.
    f : callable
        ``(params, args, chunk) -> pytree``, the work on a chunk.
    roots : sequence of callable
        The user's functions in it.
    settings : StepSettings
    combine : callable, optional
        Makes one result of two; a sum if there is none.
    alike : bool
        Whether the results of all chunks are combined, and so have the same shapes.
    """

    def __init__(
        self,
        operation: str,
        f: Callable[[Any, Any, Any], Any],
        roots: Sequence[Callable[..., Any]],
        settings: StepSettings,
        combine: Callable[[Any, Any], Any] | None = None,
        alike: bool = True,
    ) -> None:
        for root in roots:
            check_function(operation, root)
        self._operation, self._f, self._roots = operation, f, roots
        self._settings, self._combine, self._alike = settings, combine, alike
        self._engine = _engine_of(operation, settings.executor, settings.timeout)
        self._lock = ProcessLock()
        self._plans: dict[Hashable, StagingPlan] = {}
        self._digests: dict[tuple[int, ...], tuple[Any, str]] = {}
        self._used_digests: dict[tuple[int, ...], tuple[Any, str]] = {}

    # Public to the modules of this package.

    def total(
        self, params: Any, args: tuple[Any, ...], chunks: Any, weights: Sequence[float] | None
    ) -> tuple[Partial, StagingPlan, int]:
        """Combine the results of all chunks; also return their number."""
        with self._lock.here:
            step = _Step(self, params, args, chunks, weights)
            try:
                return step.total(), step.plan, len(step.items)
            finally:
                self.end()

    def results(
        self, params: Any, args: tuple[Any, ...], chunks: Any
    ) -> Iterator[tuple[int, Any, int]]:
        """Yield the result of each chunk in order: its position, its tree, and how many come."""
        step = _Step(self, params, args, chunks, None)
        try:
            for position, partial in step.stream():
                structure = step.plan.structure
                assert structure is not None  # the plan is staged when there is a result
                yield position, trees.unflatten(structure, partial.values), len(step.items)
        finally:
            self.end()

    # For _Step.

    @property
    def engine(self) -> Engine:
        """The engine of the executor."""
        return self._engine

    def caller(self) -> Caller:
        """Describe this process, for workers to compare with."""
        settings = self._settings
        return caller(self._operation, settings.allow_strangers, settings.keep)

    def plan(self, params: Any, args: tuple[Any, ...]) -> StagingPlan:
        """The plan for parameters of this kind; a new one when something outside has changed."""
        leaves, structure = raw_leaves(self._operation, (params, args))
        key = structure, tuple([spec_of(leaf) for leaf in leaves])
        plan = self._plans.get(key)
        if plan is None or not plan.unchanged():
            plan = StagingPlan(self._operation, self._f, self._roots, structure, self._alike)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def code(self, plan: StagingPlan) -> StepCode:
        """All that workers need to run a plan."""
        combine = None
        if self._combine is not None:
            combine = plan.combination(
                lambda: combination(self._operation, self._user_combine, plan, plan.arrays)
            )
        return StepCode(plan.programs, combine, self._settings.dtype)

    def _user_combine(self, left: Any, right: Any) -> Any:
        assert self._combine is not None  # asked for only where there is one
        return self._combine(left, right)

    def chunks(self, chunks: Any) -> list[Chunk]:
        """Read what the user passed as chunks."""
        return chunk_list(self._operation, chunks, self._engine.shipped)

    def held_key(self, chunk: HeldChunk) -> str:
        """A name for a chunk's content; that of tensors is computed once while they are in use."""
        if not chunk.constant:
            return f"{digest_of(chunk.leaves)} {chunk.structure!r}"
        place = tuple(map(id, chunk.leaves))
        known = self._digests.get(place)
        if known is None:  # the leaves are held too: while they live no others have their ids
            known = chunk.leaves, f"{digest_of(chunk.leaves)} {chunk.structure!r}"
        self._used_digests[place] = known
        return known[1]

    def end(self) -> None:
        """End a step: what it has not used is forgotten."""
        self._digests, self._used_digests = self._used_digests, {}
        self._engine.end_step()

    def lost_too_often(self) -> WorkerError:
        """The error after very many repetitions."""
        return WorkerError(
            f"{self._operation}: workers were lost {_MOST_REPEATS} times during one step, and with"
            " them what they held. Look at the workers' logs."
        )


class _Step:
    """One step: its parameters, its chunks, and the plan that grows while it runs."""

    def __init__(
        self,
        steps: Steps,
        params: Any,
        args: tuple[Any, ...],
        chunks: Any,
        weights: Sequence[float] | None,
    ) -> None:
        self._steps, self._engine = steps, steps.engine
        self._chunks = steps.chunks(chunks)
        self.plan = steps.plan(params, args)
        self._caller = steps.caller()
        operation = self._caller.operation
        self._inputs = [raw_leaves(operation, tree)[0] for tree in (params, args)]
        if weights is not None and len(weights) != len(self._chunks):
            raise ArgumentError(
                f"{operation}: there are {len(weights)} weights and {len(self._chunks)} chunks."
            )
        self.items = self._made_items(weights)

    def _made_items(self, weights: Sequence[float] | None) -> list[Item]:
        sources = [
            None if isinstance(chunk, (HeldChunk, RemoteChunk)) else chunk for chunk in self._chunks
        ]
        run = run_key(["" if source is None else source.key for source in sources])
        return [
            Item(index, None if weights is None else float(weights[index]), source, run)
            for index, source in enumerate(sources)
        ]

    # Sending.

    def _data(self, index: int) -> Any:
        """A chunk as its task receives it; None if the worker loads it."""
        chunk = self._chunks[index]
        if isinstance(chunk, HeldChunk):
            value = list(chunk.leaves), chunk.structure
            return self._engine.share(value, lambda: self._steps.held_key(chunk))
        if isinstance(chunk, RemoteChunk):
            return self._engine.share_remote(chunk.delayed, chunk.is_bag)
        return None

    def _sent(self) -> Sent:
        """Send what all chunks have in common: what is new of it."""
        code, share = self._steps.code(self.plan), self._engine.share
        name = "code " + blake2b(dumps(code), digest_size=16).hexdigest()
        digests = tuple(self.plan.arrays)
        params, args = self._inputs
        return Sent(
            share(code, lambda: name),
            (share(params, None), share(args, lambda: digest_of(args) + " arguments")),
            digests,
            tuple([share(self.plan.arrays[digest], lambda key=digest: key) for digest in digests]),  # type: ignore[misc]  # a default, bound now
            combiner(self._caller, code, self.plan.arrays),
        )

    # Staging.

    def _stage(self, index: int) -> None:
        """Stage the function on a chunk, which a worker loads unless it is here."""
        chunk = self._chunks[index]
        if isinstance(chunk, HeldChunk):
            leaves: list[Value] = list(chunk.leaves)
            structure: Structure = chunk.structure
        else:
            leaves, structure = self._engine.load(
                self._caller, self.items[index], self._data(index)
            )
        self.plan.stage(index, [*self._inputs[0], *self._inputs[1]], leaves, structure)

    def _prepare(self) -> None:
        """Stage the function on the first chunk, and on those here that differ from it."""
        if not self.plan.programs:
            self._stage(0)
        for index, chunk in enumerate(self._chunks):
            if isinstance(chunk, HeldChunk) and not self.plan.knows(chunk.structure, chunk.leaves):
                self._stage(index)

    # Running.

    def _repeated(self, attempt: Callable[[], Any]) -> Any:
        """Attempt something again when what it had sent is lost."""
        for _ in range(_MOST_REPEATS):
            try:
                return attempt()
            except LostError:
                self._engine.forget()
        raise self._steps.lost_too_often()

    def total(self) -> Partial:
        """Combine the results of all chunks."""

        def attempt() -> Any:
            self._prepare()
            sent = self._sent()
            data = [self._data(index) for index in range(len(self.items))]
            return self._engine.total(self._caller, self.items, data, sent)

        while True:
            outcome = self._repeated(attempt)
            if isinstance(outcome, Partial):
                return outcome
            self._repeated(partial(self._stage, outcome.index))

    def stream(self) -> Iterator[tuple[int, Partial]]:
        """Yield the results of the chunks in order."""
        self._repeated(self._prepare)
        done = 0
        for _ in range(_MOST_REPEATS):
            try:
                sent = self._sent()
                data = _Late(len(self.items) - done, lambda k, start=done: self._data(start + k))  # type: ignore[misc]  # a default, bound now
                for _, outcome in self._engine.stream(self._caller, self.items[done:], data, sent):
                    if isinstance(outcome, Unstaged):
                        self._stage(outcome.index)
                        break
                    yield done, outcome  # type: ignore[misc]  # what is absent was sent
                    done += 1
                else:
                    return
            except LostError:
                self._engine.forget()
        raise self._steps.lost_too_often()


class _Late(Sequence[Any]):
    """A sequence whose members are made when they are asked for: chunks that are sent late."""

    def __init__(self, length: int, make: Callable[[int], Any]) -> None:
        self._length, self._make = length, make

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        return self._make(index)
