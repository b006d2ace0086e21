"""Tasks of workers: pure functions, which any executor may call again anywhere.

``run_chunks`` loads chunks, runs the staged program on each, and combines the results in the fixed
tree; ``combine_outcomes`` combines the results of two calls.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from multiprocessing import parent_process
from threading import current_thread, main_thread
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.choice import chosen_backend
from funcgrad._backends.devices.device import Device
from funcgrad._backends.interface import MISS, evaluated
from funcgrad._backends.numpy.backend import NUMPY
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import spec_of
from funcgrad._core.trace import Value, concrete
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.program import Program
from funcgrad._staging.entry import write_attempt
from funcgrad.errors import ChunkError
from funcgrad.parallel import probes
from funcgrad.parallel.blas_threads import one_thread
from funcgrad.parallel.chunks import raw_leaves
from funcgrad.parallel.messages import (
    Caller,
    ChunkProgram,
    Item,
    Outcome,
    StepCode,
    Unstaged,
    folded,
)
from funcgrad.parallel.shared_files import AbsentError, unpacked
from funcgrad.parallel.worker_store import CHUNKS, RECENT

Combine: TypeAlias = Callable[[Outcome, Outcome], Outcome]
Loaded: TypeAlias = tuple[Sequence[Value], Structure]
_SHARE: Final = 4
"""The part of a worker's memory for loaded chunks."""


class DeviceCopies:
    """A value that a step has sent, and its copies on devices, which are made when first used."""

    def __init__(self, value: object) -> None:
        self._value = value
        self._copies: dict[str, Any] = {}

    def on(self, device: Device) -> Any:
        """Return the value on a device; code stays on the host."""
        if device.name not in self._copies:
            self._copies[device.name] = _copied(self._value, device)
        return self._copies[device.name]


def _copied(value: object, device: Device) -> Any:
    if isinstance(value, (StepCode, Structure)):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)([_copied(leaf, device) for leaf in value])
    return device.place_array(value)


def run_chunks(
    caller: Caller,
    items: Sequence[Item],
    data: Sequence[object],
    code: object,
    arrays: Sequence[object],
    inputs: object,
    device: Device | None = None,
) -> Outcome:
    """Run the program on chunks, here or on a device, and combine the results.

    Chunks are leaves and structures, or None if the item has a source. The code, its large
    constants, chunks, and ``inputs`` (the leaves of parameters and arguments) may be shared files,
    or copies on devices.

    Raises
    ------
    WorkerError
        The versions or last bits of this worker differ from the caller's.
    ChunkError
        A chunk cannot be loaded, or the program failed on it.
    AbsentError
        A shared file cannot be read here.
    """
    probes.check_worker(caller)
    step, values, *constants = _received([code, inputs, *arrays], device)

    def outcomes() -> Iterator[Outcome]:
        for item, chunk in zip(items, data, strict=True):
            leaves, structure = _loaded(caller, item, chunk, device)
            yield _run_chunk(caller, item, structure, [*values, *leaves], step, constants, device)

    with nullcontext() if device else one_thread():
        return folded(outcomes(), combiner(caller, step, constants, device))


def combine_outcomes(
    left: Outcome, right: Outcome, caller: Caller, code: StepCode, arrays: Sequence[Value]
) -> Outcome:
    """Combine the results of two neighbouring groups."""
    with one_thread():
        return combiner(caller, code, arrays)(left, right)


def load_chunk(caller: Caller, item: Item, data: object, device: Device | None = None) -> Loaded:
    """Load the leaves and the structure of a chunk, on which the caller stages the function."""
    probes.check_worker(caller)
    return _loaded(caller, item, data, device)


def _received(values: Sequence[object], device: Device | None) -> list[Any]:
    """Return values that were sent, on the device if there is one."""
    if device is None:
        return unpacked(values)
    return [value.on(device) for value in values if isinstance(value, DeviceCopies)]


# --------------------------------------------------------------------------------------- one chunk


def _loaded(caller: Caller, item: Item, data: object, device: Device | None) -> Loaded:
    """Return the leaves and the structure of a chunk, from the sent data or from its source."""
    source = item.source
    try:
        if source is None:
            (chunk,) = _received([data], device)
            return chunk if type(chunk) is tuple else raw_leaves(caller.operation, chunk)

        def load() -> Any:
            # Keep the source, too, so that its ``id`` stays unique.
            leaves, structure = raw_leaves(caller.operation, source.load(), device is not None)
            return leaves if device is None else _copied(leaves, device), structure, source

        limit = RECENT.recall("limit", _memory_share) if caller.keep is None else caller.keep
        store = CHUNKS if caller.store is None else caller.store
        key = source.state() if device is None else f"{device.name} {source.state()}"
        leaves, structure, _ = store.chunk(key, caller.run, limit, load)
    except AbsentError:
        raise
    except BaseException as error:
        raise _failure(caller, item, "cannot be loaded", error, device) from error
    return leaves, structure


def _memory_share() -> int:
    """Return a part of this worker's memory: Dask's limit, or the memory for each processor."""
    worker = probes.dask_worker()
    limit = None if worker is None else worker.memory_manager.memory_limit
    if limit:
        return int(limit) // _SHARE
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        pages = 2**32
    return pages // (os.cpu_count() or 1) // _SHARE


def _run_chunk(
    caller: Caller,
    item: Item,
    structure: Structure,
    values: Sequence[Value],
    code: StepCode,
    constants: Sequence[Value],
    device: Device | None,
) -> Outcome:
    by_digest = dict(zip(code.arrays, constants, strict=True))
    try:
        for program in code.programs:
            count = len(program.specs)
            specs = tuple([spec_of(leaf) for leaf in values[len(values) - count :]])
            if program.structure == structure and program.specs == specs:
                outs = _attempt(program, caller.backend, by_digest, device)(*values)
                if outs is not MISS:
                    return tuple([_scaled(out, item.weight, code.dtype, device) for out in outs])
    except BaseException as error:
        reason = "has values that the function refuses"
        if isinstance(error, MemoryError):
            reason = "needs more memory than there is: cut smaller chunks"
        raise _failure(caller, item, reason, error, device) from error
    return Unstaged((item.index,))


def _failure(
    caller: Caller, item: Item, reason: str, error: BaseException, device: Device | None
) -> ChunkError:
    """Return the error that reports an error in a worker to the caller.

    An exit in a worker does not end the caller. An interrupt in the main thread of the caller's own
    process is raised, because there the caller runs the tasks.
    """
    is_main = current_thread() is main_thread() and parent_process() is None
    if isinstance(error, KeyboardInterrupt) and is_main:
        raise error
    lines = "".join(traceback.format_exception(error))
    return ChunkError(
        f"{caller.operation}: chunk {item.index} {reason}: {type(error).__name__}: {error}\n\nIn"
        f" the worker {device or probes.worker_name()}:\n{lines}",
        item.index,
    )


def _scaled(value: Value, weight: float | None, dtype: str | None, device: Device | None) -> Value:
    """Convert a result to the dtype of sums, and multiply it by the weight of its chunk."""
    array: Any = np.asarray(concrete(value)) if device is None else device.place(value)
    if dtype is not None:
        array = array.astype(np.result_type(array.dtype, dtype), copy=False)
    if weight is not None:  # in float64: small dtypes cannot represent every weight
        with np.errstate(all="ignore"):
            array = (array * np.float64(weight)).astype(array.dtype)
    return array if device else np.asarray(array)[()]


# ---------------------------------------------------------------------------------------- programs


def combiner(
    caller: Caller, code: StepCode, constants: Sequence[Value], device: Device | None = None
) -> Combine:
    """Return the function that combines two results; chunks without a program are listed."""
    attempt: Callable[..., Any] = _sums
    if code.combine is not None:
        by_digest = dict(zip(code.arrays, constants, strict=True))
        attempt = _attempt(code.combine, caller.backend, by_digest, device)

    def combine(left: Outcome, right: Outcome) -> Outcome:
        if isinstance(left, Unstaged) or isinstance(right, Unstaged):
            missing = [side.indices for side in (left, right) if isinstance(side, Unstaged)]
            return Unstaged(sum(missing, ()))
        if device is not None:
            return tuple([device.place(out) for out in attempt(*left, *right)])
        return tuple([np.asarray(concrete(out))[()] for out in attempt(*left, *right)])

    return combine


def _sums(*values: Value) -> list[Value]:
    half = len(values) // 2
    with np.errstate(all="ignore"):
        return [np.add(x, y) for x, y in zip(values[:half], values[half:], strict=True)]


def _attempt(
    program: ChunkProgram, backend: str, by_digest: Mapping[str, Value], device: Device | None
) -> Callable[..., Any]:
    """Return the compiled program: ``inputs -> outputs``, or MISS."""
    constants = [by_digest[digest] for digest in program.arrays]
    if device is not None:
        read = RECENT.recall(program.text, lambda: optimize(Program.from_json(program.text), False))
        return lambda *values: device.attempt(read, [*values, *constants]) or MISS
    run = RECENT.recall((program.text, backend), lambda: _compiled(program.text, backend))
    return lambda *values: run(*values, *constants, ())


def _compiled(text: str, name: str) -> Callable[..., Any]:
    program = optimize(Program.from_json(text), False)
    for backend in (chosen_backend(name, "parallel"), NUMPY):
        if backend.supports(program):
            prepared = backend.prepare(program, False)
            return write_attempt(prepared, backend.compile(prepared), None)
    return write_attempt(program, evaluated(program), None)
