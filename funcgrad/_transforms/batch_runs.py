"""The runs of a batched function that a first run did not settle, and its results as trees.

A ``Batch`` is a function with the arguments of a batch. Where its first run was abandoned, it runs
for the examples of each path (``paths.py``); where it was staged, for all examples along each path.

>>> import funcgrad as fg
>>> fg.vmap(lambda x: x if x > 0 else -x)(fg.tensor([1.0, -2.0]))
Tensor([1., 2.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.context import current, entered
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import Value, begin_level, running_traces
from funcgrad._hooks.key_uses import repetition
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.reduction import reduce_any
from funcgrad._primitives.structural import move_axis
from funcgrad._transforms.active_examples import examples_at
from funcgrad._transforms.answers import Rows, Stopped
from funcgrad._transforms.arguments import values_of
from funcgrad._transforms.batcher import SELECTS, Batcher
from funcgrad._transforms.masked_paths import MaskedPath
from funcgrad._transforms.paths import Group, Part, Path, explored, joined, selected
from funcgrad._transforms.staged_paths import MOST_PATHS, MOST_RUNS, Scripts, StagedPath
from funcgrad.errors import BatchError, FuncgradError, GuardError
from funcgrad.tensor.tensor import wrap


class RunOutcome(NamedTuple):
    """The result or the exception of a run of the function, and the trace that it ran under."""

    batcher: Batcher
    out: Any
    error: BaseException | None


@dataclass(slots=True, eq=False)
class Batch:
    """A function with the arguments of a batch.

    Attributes
    ----------
    f : callable
    values : list of values
        The leaves of the arguments, with the batch on axis 0 of those that are ``mapped``.
    mapped : list of bool
    structure : Structure
    size : int
    """

    f: Callable[..., Any]
    values: list[Value]
    mapped: list[bool]
    structure: Structure
    size: int

    def call(
        self,
        first: RunOutcome,
        out_axes: Any,
        warn: Callable[[str], None],
        report: Callable[[list[Group]], None] | None = None,
    ) -> Any:
        """The function's results as trees, after the first run was not the only one."""
        batcher, masked = first.batcher, None
        if batcher.masked is not None and report is None:
            masked = self._masked(first)
        if batcher.masked is not None and masked is None:
            first = self._again(masked=MaskedPath(0))
            batcher = first.batcher
        if masked is not None:
            parts, structure = masked
        elif batcher.path is not None:
            parts, structure = self._selected(first)
        elif not self.size:
            _outcome(first)
            parts, structure = self._of_no_example()
        else:
            whole = Group(np.arange(self.size))
            paths = explored(whole, batcher, _outcome(first), self._outcome_for, warn)
            if report is not None:
                report([path.group for path in paths])
            structure = _one_structure(paths)
            parts = joined([Path(path.group, path.outcome[0]) for path in paths], self.size)
        return placed_tree(parts, structure, out_axes, self.size)

    def _outcome_for(self, rows: Rows) -> tuple[Batcher, Any]:
        """Run the function on some examples; return its trace, and its results or exception."""
        ran = self._again(rows)
        return ran.batcher, _outcome(ran)

    def _again(self, rows: Rows | None = None, masked: MaskedPath | None = None) -> RunOutcome:
        """Run the function on some examples, or on all along one path of an evaluated batch."""
        with repetition():
            return self._run(rows, None, masked)

    def _run(
        self,
        rows: Rows | None = None,
        path: StagedPath | None = None,
        masked: MaskedPath | None = None,
    ) -> RunOutcome:
        """Run the function once more: on some examples, or on all along one path."""
        context = current()
        if context.probes is None:
            return self._run_along(rows, path, masked)
        with entered(context._replace(probes=context.probes.along_path(rows, self.size))):
            return self._run_along(rows, path, masked)

    def _run_along(
        self, rows: Rows | None, path: StagedPath | None, masked: MaskedPath | None
    ) -> RunOutcome:
        out = error = None
        values, size = self.values, self.size
        if rows is not None:
            size = len(rows)
            pairs = zip(values, self.mapped, strict=True)
            values = [examples_at(value, rows) if flag else value for value, flag in pairs]
        with begin_level() as level:
            batcher = Batcher(level, size, SELECTS)
            batcher.masked = masked
            if path is not None:
                batcher.follow_path(path)
            try:
                followed = [
                    wrap(batcher.follow(value) if flag else value)
                    for value, flag in zip(values, self.mapped, strict=True)
                ]
                args, kwargs = pytrees.unflatten(self.structure, followed)
                out = self.f(*args, **kwargs)
            except BaseException as raised:
                error = raised
            finally:
                batcher.close()
        return RunOutcome(batcher, out, error)

    def _of_no_example(self) -> tuple[list[Part], Structure]:
        """The results for an empty batch: of the results for an example of ones, no row."""
        ones = [
            np.ones((1, *shape_of(value)[1:]), dtype_of(value)) if flag else value
            for value, flag in zip(self.values, self.mapped, strict=True)
        ]
        ran = replace(self, values=ones, size=1)._run()
        if ran.error is not None:
            raise ran.error
        parts, structure = _parts(ran)
        none = np.arange(0)
        return [(examples_at(x, none) if flag else x, flag) for x, flag in parts], structure

    def _masked(self, first: RunOutcome) -> tuple[list[Part], Structure] | None:
        """The results for all pairs of examples of nested batches, from those along each path.

        None if the batch has to be divided after all: an error is for those who take its path.
        """
        paths: list[Path[tuple[list[Part], Structure]]] = []
        masks: list[Value] = []
        ran, waiting = first, []
        while True:
            path: Any = ran.batcher.masked
            abandoned = ran.batcher.division is not None
            if ran.error is not None and not abandoned and not isinstance(ran.error, Exception):
                raise ran.error
            if ran.error is not None or abandoned or path.refused:
                return None
            waiting += path.others
            answers = "; ".join(f"{line}: {answer}" for line, answer in path.answers)
            paths.append(Path(Group(np.arange(0), answers), _parts(ran)))
            masks.append(path.mask)
            if len(paths) + len(waiting) > path.most:
                return None
            if not waiting:
                break
            ran = self._again(masked=MaskedPath(path.most, waiting.pop()))
        try:
            structure = _one_structure(paths)
            parts = selected([Path(x.group, x.outcome[0]) for x in paths], masks, self.size)
        except BatchError:  # which names the examples, where they are divided
            return None
        return parts, structure

    def _selected(self, first: RunOutcome) -> tuple[list[Part], Structure]:
        """The results of a program: the function runs along all paths, and masks select."""
        from funcgrad._transforms.captured_loops import learn

        scripts, ran = Scripts(), first
        while True:
            path: Any = ran.batcher.path
            path.loops.runs += 1
            if path.refused is not None:
                raise path.refused
            outcome, error = None, ran.error
            if error is None and not path.captures:
                try:
                    outcome = _parts(ran)
                    for value, _ in outcome[0]:
                        shape_of(value)  # which a loop's results may not contain
                except Stopped as lost:
                    error = lost
            path.has_ended = True
            if path.stopped is not None or path.captures:
                learn(path, scripts, error)
            else:
                scripts.waiting.pop()
                scripts.waiting += path.scope.others
                if error is not None and not isinstance(error, Exception):
                    raise error
                longest = 10 * path.operations + 10_000  # another path is of no other order
                path.loops.most_operations = min(path.loops.most_operations, longest)
                scripts.done.append((tuple(path.scope.answers), (path, outcome, error)))
            too_many = len(scripts.done) + len(scripts.waiting) > MOST_PATHS
            if too_many or path.loops.runs > MOST_RUNS:
                raise path.too_many()
            if not scripts.waiting:
                break
            ran = self._run(path=StagedPath(scripts.waiting[-1], path.loops))
        paths: list[Path[tuple[list[Part], Structure]]] = []
        masks: list[Value] = []
        failures: list[tuple[StagedPath, Exception]] = []
        for _, (path, outcome, error) in scripts.done:
            if error is not None:
                failures.append((path, error))
                continue
            answers = "; ".join(f"{line}: {answer}" for line, answer in path.lines)
            paths.append(Path(Group(np.arange(0), answers), outcome))
            masks.append(path.mask)
        for path, error in failures:
            if isinstance(error, GuardError):
                raise path.refuse(
                    "calls a function with a rule that closes over values, and looks in it at"
                    " values of the examples"
                )
            # A guard of the program: it does not hold for a batch with an example on this path.
            if not paths or bool(wrap(reduce_any(path.mask, axis=(0,), keepdims=False))):
                raise error
            for trace in running_traces():
                caught: Any = getattr(trace, "errors", None)  # of a stager
                if caught is not None:
                    caught.forget(error)
        structure = _one_structure(paths)
        parts = selected([Path(path.group, path.outcome[0]) for path in paths], masks, self.size)
        return parts, structure


def _outcome(ran: RunOutcome) -> Any:
    """The results of a run on some examples, or its exception; None if it was abandoned."""
    if ran.batcher.division is not None:
        ran.batcher.division.check_arrival(ran.error)
        return None
    if ran.error is None:
        return _parts(ran)
    if not isinstance(ran.error, Exception):
        raise ran.error
    return ran.error


def _parts(ran: RunOutcome) -> tuple[list[Part], Structure]:
    """The results of a run as values from outside the batch, and their structure."""
    leaves, structure = pytrees.flatten(ran.out)
    values = values_of("vmap", leaves, structure, lambda: "the function's result")
    return [ran.batcher.parts(value) for value in values], structure


def _one_structure(paths: Sequence[Path[tuple[list[Part], Structure]]]) -> Structure:
    """The structure of the results along all paths.

    Raises
    ------
    BatchError
        The structures differ.
    """
    (group, (_, structure)), *others = paths
    for other, (_, other_structure) in others:
        if other_structure != structure:
            raise BatchError(
                f"vmap: the results of all examples need one structure, but it is {structure} for"
                f" {group}, and {other_structure} for {other}. Return one structure from all"
                " branches."
            )
    return structure


def axes_of_results(out_axes: object, structure: Structure) -> list[Any]:
    """The axis of each result that the user chose."""
    try:
        return pytrees.broadcast_prefix(out_axes, structure, "out_axes")
    except FuncgradError as error:
        raise BatchError(f"vmap: out_axes does not fit the function's result: {error}") from None


def placed_tree(parts: Iterable[Part], structure: Structure, out_axes: Any, size: int) -> Any:
    """The results as trees, with the batch on the axes that the user chose."""
    axes = axes_of_results(out_axes, structure)
    placed = [
        wrap(_placed(value, axis, structure, leaf, size))
        for leaf, (value, axis) in enumerate(zip(parts, axes, strict=True))
    ]
    return pytrees.unflatten(structure, placed)


def _placed(value: Part, axis: object, structure: Structure, leaf: int, size: int) -> Value:
    data, flag = value
    if axis is None:
        if flag:
            raise BatchError(
                f"vmap: out_axes is None for the result{structure.paths()[leaf]}, but it depends on"
                " the batch; pass the axis that holds the batch."
            )
        return data
    data = data if flag else broadcast_to(data, shape=(size, *shape_of(data)))
    rank = len(shape_of(data))
    if not isinstance(axis, (int, np.integer)) or not -rank <= axis < rank:
        raise BatchError(
            f"vmap: out_axes is {axis!r} for the result{structure.paths()[leaf]}, which with the"
            f" batch has {rank} axes."
        )
    return move_axis(data, 0, int(axis) % rank)
