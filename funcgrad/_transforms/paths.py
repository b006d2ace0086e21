"""A batch along several paths: which examples take each, and their results put together.

A function that looks at its examples in Python runs once for each path that they take. Where they
give different answers, a run goes on with the largest group of one answer, and the other groups
wait: the function runs for them from the start. Errors are raised in the order of the examples, as
a loop over them would.

>>> import funcgrad as fg
>>> def halved(x):
...     while x > 1.0:
...         x = x / 2
...     return x
>>> fg.vmap(halved)(fg.tensor([0.5, 6.0, 2.0]))
Tensor([0.5 , 0.75, 1.  ])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import NUMBERS, RAW, Value
from funcgrad._core.users_values import is_weak
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.stand_in_examples import chosen_examples
from funcgrad._primitives.structural import cast
from funcgrad._transforms.active_examples import examples_at
from funcgrad._transforms.answers import Division, Rows
from funcgrad._transforms.batcher import Batcher
from funcgrad.errors import BatchError

R = TypeVar("R")

MANY_PATHS: Final = 256
"""From so many paths on, a batch is about as slow as a loop over its examples."""

_SHOWN: Final = 8

Part: TypeAlias = tuple[Value, bool]
"""A value, and whether it has the batch on axis 0; the value None is absent."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Examples that have given the same answers so far.

    Attributes
    ----------
    rows : Rows
        Their positions in the whole batch.
    line : str
        Where they were divided from the others last; empty for the whole batch.
    answer : object
        The answer that they gave there.
    before : Group or None
        The group that was divided.
    """

    rows: Rows
    line: str = ""
    answer: object = None
    before: Group | None = None

    def answers(self) -> list[tuple[str, object]]:
        """The lines at which they were divided from others, each with their answer."""
        answers: list[tuple[str, object]] = []
        group: Group | None = self
        while group is not None and group.line:
            answers.append((group.line, group.answer))
            group = group.before
        return answers[::-1]

    def __str__(self) -> str:
        """The examples and their answers, shortened."""
        shown = ", ".join(map(str, self.rows[:_SHOWN].tolist()))
        more = f", ... ({len(self.rows)} in all)" if len(self.rows) > _SHOWN else ""
        answers = self.answers()
        texts = [f"{line}: {answer!r}" for line, answer in answers[-_SHOWN:]]
        if len(answers) > _SHOWN:
            texts.insert(0, f"{len(answers) - _SHOWN} answers before")
        word = "example" if len(self.rows) == 1 else "examples"
        return f"{word} {shown}{more} ({'; '.join(texts) or 'no answers'})"

    def divided(self, division: Division) -> list[Group]:
        """The groups into which the examples divide."""
        return [
            Group(self.rows[rows], division.line, answer, self) for answer, rows in division.groups
        ]


class Path(NamedTuple, Generic[R]):
    """A group of examples that went through the function together, and its outcome for them."""

    group: Group
    outcome: R


def explored(
    whole: Group,
    batcher: Batcher,
    outcome: Any,
    run: Callable[[Rows], tuple[Batcher, Any]],
    warn: Callable[[str], None] | None = None,
) -> list[Path[Any]]:
    """Run a function for each path, after a first run on the whole batch, which divided it.

    The first run had a trace and an outcome. ``run`` runs the function for some examples, and
    returns the trace and the outcome, which is an exception if the function raised one. ``warn`` is
    called once, with the line that divides most, when there are many paths. The paths are in the
    order of their first examples.
    """
    paths: list[Path[Any]] = []
    lines: Counter[str] = Counter()
    waiting: list[tuple[int, Group]] = []
    failed: Path[Exception] | None = None
    group: Group = whole
    while True:
        ended = _through(group, batcher, waiting, lines)
        if ended is not None and isinstance(outcome, Exception):
            if failed is None or ended.rows[0] < failed.group.rows[0]:
                failed = Path(ended, outcome)
        elif ended is not None:
            paths.append(Path(ended, outcome))
            if len(paths) == MANY_PATHS + 1 and warn is not None:
                warn(lines.most_common(1)[0][0])
        if failed is not None and (not waiting or waiting[0][0] > failed.group.rows[0]):
            failed.outcome.add_note(f"In vmap, for {failed.group}.")
            raise failed.outcome
        if not waiting:
            return sorted(paths, key=lambda path: int(path.group.rows[0]))
        _, group = heappop(waiting)
        batcher, outcome = run(group.rows)


def _through(
    group: Group, batcher: Batcher, waiting: list[tuple[int, Group]], lines: Counter[str]
) -> Group | None:
    """The examples with which a run on a group ended; None if it was abandoned. Others wait."""
    abandoned = () if batcher.division is None else (batcher.division,)
    for division in (*batcher.divisions, *abandoned):
        lines[division.line] += len(division.groups) - 1
        groups = group.divided(division)
        for place, one in enumerate(groups):
            if place != division.largest:
                heappush(waiting, (int(one.rows[0]), one))
        if division.largest < 0:
            return None
        group = groups[division.largest]
    return group


# ---------------------------------------------------------------------------------------- results


def joined(paths: Sequence[Path[Sequence[Part]]], size: int) -> list[Part]:
    """The results of a whole batch, from the results along each path, leaf by leaf."""
    order = np.concatenate([path.group.rows for path in paths])
    back: Rows | None = np.argsort(order, kind="stable")
    if np.array_equal(order, np.arange(size)):
        back = None
    columns = zip(*[path.outcome for path in paths], strict=True)
    return [_joined(paths, [*column], back) for column in columns]


def _joined(paths: Sequence[Path[Sequence[Part]]], parts: list[Part], back: Rows | None) -> Part:
    if _same_for_all(parts):
        return parts[0][0], False
    fitted = alike(parts, [path.group for path in paths])
    pieces = [
        value if flag else broadcast_to(value, shape=(len(path.group.rows), *shape_of(value)))
        for (value, flag), path in zip(fitted, paths, strict=True)
    ]
    whole = concatenate(*pieces, axis=0)
    return (whole if back is None else examples_at(whole, back)), True


def selected(
    paths: Sequence[Path[Sequence[Part]]], masks: Sequence[Value], size: int
) -> list[Part]:
    """The results of a whole batch, from results of all examples along each path, by masks."""
    results: list[Part] = []
    for column in zip(*[path.outcome for path in paths], strict=True):
        parts = [*column]
        if _same_for_all(parts):
            results.append((parts[0][0], False))
            continue
        fitted = alike(parts, [path.group for path in paths])
        wholes = [
            value if flag else broadcast_to(value, shape=(size, *shape_of(value)))
            for value, flag in fitted
        ]
        chosen = wholes[-1]
        for mask, whole in zip(masks[-2::-1], wholes[-2::-1], strict=True):
            chosen = chosen_examples(mask, whole, chosen)
        results.append((chosen, True))
    return results


def _same_for_all(parts: Sequence[Part]) -> bool:
    """Whether a result is one value, which no example of any path changes."""
    first, _ = parts[0]
    if any(flag for _, flag in parts):
        return False
    if all(value is first for value, _ in parts):
        return True
    if any(value is None or type(value) not in RAW for value, _ in parts):
        return False
    return all(
        type(value) is type(first)
        and dtype_of(value) == dtype_of(first)
        and np.asarray(value).tobytes() == np.asarray(first).tobytes()
        and shape_of(value) == shape_of(first)
        for value, _ in parts
    )


def _with_zeros(parts: Sequence[Part]) -> Sequence[Part]:
    """Replace absent values, as rules return them for derivatives of zero, by zeros."""
    if all(value is not None for value, _ in parts):
        return parts
    like, flag = next((value, flag) for value, flag in parts if value is not None)
    zeros = np.zeros(shape_of(like)[flag:], dtype_of(like)), False
    return [zeros if value is None else (value, flag) for value, flag in parts]


def alike(parts: Sequence[Part], groups: Sequence[Group]) -> list[Part]:
    """Values of one shape and dtype: dtypes promote, and Python numbers give way.

    Raises
    ------
    BatchError
        Their shapes differ.
    """
    parts = _with_zeros(parts)
    shapes = [shape_of(value)[flag:] for value, flag in parts]
    for group, shape in zip(groups, shapes, strict=True):
        if shape != shapes[0]:
            raise BatchError(
                f"vmap: the results of all examples need one shape, but it is {shapes[0]} for"
                f" {groups[0]}, and {shape} for {group}. Pad them to one shape, or loop over the"
                " examples in Python."
            )
    strong = {dtype_of(value) for value, _ in parts if not is_weak(value)}
    weak = {dtype_of(value) for value, _ in parts if is_weak(value)}
    dtype = np.result_type(*strong, *[kind.type(0).item() for kind in weak])
    return [
        (
            value
            if dtype_of(value) == dtype and type(value) not in NUMBERS
            else cast(value, dtype=dtype),
            flag,
        )
        for value, flag in parts
    ]
