"""Tasks of workers: functions of values alone, which any executor may call again anywhere.

``run_chunks`` loads chunks, runs the staged program on each, and combines the results in the fixed
tree; ``combine_partials`` goes on with the results of several calls.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad.backends.choice import chosen_backend
from funcgrad.backends.interface import MISS, evaluated
from funcgrad.backends.numpy.backend import NUMPY
from funcgrad.errors import ChunkError
from funcgrad.parallel import probes
from funcgrad.parallel.blas_threads import one_thread
from funcgrad.parallel.chunks import raw_leaves
from funcgrad.parallel.folding import GrowingFold, folded
from funcgrad.parallel.messages import (
    AbsentParcels,
    Caller,
    ChunkProgram,
    Item,
    Partial,
    StepCode,
    Unstaged,
)
from funcgrad.parallel.parcels import AbsentError, opened
from funcgrad.parallel.worker_store import STORE
from funcgrad.passes.pipeline import optimize
from funcgrad.programs.program import Program
from funcgrad.shape import spec_of
from funcgrad.staging.entry import write_attempt
from funcgrad.trace import concrete

Outcome: TypeAlias = "Partial | Unstaged | AbsentParcels"
Combine: TypeAlias = Callable[[Partial, Partial], Partial]
_SHARE: Final = 4
"""Loaded chunks may take this part of a worker's memory."""


def run_chunks(
    caller: Caller,
    items: Sequence[Item],
    data: Sequence[Any],
    code: Any,
    inputs: Sequence[Any],
    digests: Sequence[str],
    arrays: Sequence[Any],
) -> Outcome:
    """Run the program on chunks, and combine the results.

    Raises
    ------
    WorkerError
        This worker does not agree with the caller.
    ChunkError
        A chunk cannot be loaded, or the program failed on it.
    """
    probes.admit(caller)
    try:
        code, *inputs = opened([code, *inputs])
        constants = dict(zip(digests, opened(arrays), strict=True))
        chunks = [None if x is None else opened([x])[0] for x in data]
    except AbsentError as error:
        return AbsentParcels(error.args)
    values = [value for leaves in inputs for value in leaves]
    fold = GrowingFold(len(items), combiner(caller, code, constants))
    with one_thread():
        for position, (item, chunk) in enumerate(zip(items, chunks, strict=True)):
            outcome = _run_chunk(caller, item, chunk, code, values, constants)
            if not isinstance(outcome, Partial):
                return outcome
            fold.put(position, outcome)
        return fold.total


def combine_partials(
    caller: Caller,
    partials: Sequence[Outcome],
    code: Any,
    digests: Sequence[str],
    arrays: Sequence[Any],
) -> Outcome:
    """Combine results of neighbours; if one of them lacks something, the answer is that."""
    whole = [outcome for outcome in partials if isinstance(outcome, Partial)]
    if len(whole) < len(partials):
        return next(outcome for outcome in partials if not isinstance(outcome, Partial))
    return folded(whole, combiner(caller, code, dict(zip(digests, arrays, strict=True))))


def load_chunk(caller: Caller, item: Item, data: Any) -> Any:
    """Load a chunk for the caller, who stages the function on it: its leaves and structure."""
    probes.admit(caller)
    try:
        leaves, structure = _loaded(caller, item, None if data is None else opened([data])[0])
    except AbsentError as error:
        return AbsentParcels(error.args)
    except Exception as error:
        raise _failure(caller, item, "cannot be loaded", error) from error
    return leaves, structure


# --------------------------------------------------------------------------------------- one chunk


def _run_chunk(
    caller: Caller,
    item: Item,
    chunk: Any,
    code: StepCode,
    inputs: Sequence[Any],
    constants: Mapping[str, Any],
) -> Partial | Unstaged:
    try:
        leaves, structure = _loaded(caller, item, chunk)
    except Exception as error:
        raise _failure(caller, item, "cannot be loaded", error) from error
    specs = tuple([spec_of(leaf) for leaf in leaves])
    try:
        for program in code.programs:
            if program.structure == structure and program.specs == specs:
                arrays = [constants[digest] for digest in program.arrays]
                outs = _attempt(program, caller.backend)(*inputs, *leaves, *arrays, ())
                if outs is not MISS:
                    values = [_scaled(concrete(out), item.weight, code.dtype) for out in outs]
                    return Partial(tuple(values), ((item.index, probes.worker_name()),))
    except Exception as error:
        raise _failure(caller, item, "has numbers that the function refuses", error) from error
    return Unstaged(item.index)


def _loaded(caller: Caller, item: Item, data: Any) -> Any:
    """The leaves and the structure of a chunk, from what was sent, or from its source."""
    if item.source is None:
        return data if type(data) is tuple else raw_leaves(caller.operation, data)

    def load() -> Any:
        # The source as well: while it lives no other has its ``id``.
        return *raw_leaves(caller.operation, item.source.load()), item.source

    limit = STORE.answer("limit", _memory_share) if caller.keep is None else caller.keep
    key = f"{item.source.key} {item.source.state()}"
    return STORE.chunk(key, item.run, limit, load)[:2]


def _memory_share() -> int:
    """A part of the memory that this worker may use: Dask's limit, or that of a processor."""
    distributed: Any = sys.modules.get("distributed")
    if distributed is not None:
        try:
            limit = distributed.get_worker().memory_manager.memory_limit
            if limit:
                return int(limit) // _SHARE
        except ValueError:  # this is no worker of Dask's
            pass
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # as on Windows
        pages = 2**32
    return pages // (os.cpu_count() or 1) // _SHARE


def _failure(caller: Caller, item: Item, what: str, error: Exception) -> ChunkError:
    lines = "".join(traceback.format_exception(error))
    return ChunkError(
        f"{caller.operation}: chunk {item.index} {what}: {type(error).__name__}: {error}\n\nIn the"
        f" worker {probes.worker_name()}:\n{lines}",
        item.index,
    )


def _scaled(value: Any, weight: float | None, dtype: str | None) -> Any:
    """A result as an array of the dtype of sums, times the weight of its chunk."""
    array = np.asarray(value)
    if dtype is not None:
        array = array.astype(np.result_type(array.dtype, dtype), copy=False)
    return array[()] if weight is None else array * array.dtype.type(weight)


# ---------------------------------------------------------------------------------------- programs


def combiner(caller: Caller, code: StepCode, constants: Mapping[str, Any]) -> Combine:
    """The function that makes one result of two."""
    program = code.combine
    if program is None:
        return _sum
    attempt = _attempt(program, caller.backend)
    arrays = [constants[digest] for digest in program.arrays]

    def combine(left: Partial, right: Partial) -> Partial:
        outs = attempt(*left.values, *right.values, *arrays, ())
        return Partial(
            tuple([np.asarray(concrete(out))[()] for out in outs]), left.places + right.places
        )

    return combine


def _sum(left: Partial, right: Partial) -> Partial:
    with np.errstate(all="ignore"):
        sums = [np.add(x, y) for x, y in zip(left.values, right.values, strict=True)]
    return Partial(tuple(sums), left.places + right.places)


def _attempt(program: ChunkProgram, backend: str) -> Callable[..., Any]:
    """The compiled program: from raw inputs and a last ``()`` to its outputs, or MISS."""
    return STORE.program((program.fingerprint, backend), lambda: _compiled(program.text, backend))


def _compiled(text: str, name: str) -> Callable[..., Any]:
    program = optimize(Program.from_json(text), False)
    for backend in (chosen_backend(name, "parallel"), NUMPY):
        if backend.supports(program):
            prepared = backend.prepare(program, False)
            return write_attempt(prepared, backend.compile(prepared), None)
    return write_attempt(program, evaluated(program), None)
