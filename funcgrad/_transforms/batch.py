"""Batching: ``vmap``.

>>> import funcgrad as fg
>>> fg.vmap(lambda x, y: x * y, in_axes=(0, None))(fg.tensor([1.0, 2.0]), 10.0)
Tensor([10., 20.])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import index
from typing import Any, NamedTuple, ParamSpec

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.users_line import warn_user
from funcgrad._core import pytrees
from funcgrad._core.context import current, entered
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import Value, begin_level
from funcgrad._hints.lookup import answering
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.reduction import reduce_any
from funcgrad._primitives.structural import move_axis
from funcgrad._transforms.answers import Division, Rows
from funcgrad._transforms.arguments import (
    call_values,
    check_function,
    forgotten,
    is_whole,
    leaf_name,
    values_of,
)
from funcgrad._transforms.batcher import REFUSES, SELECTS, Batcher, examples_at
from funcgrad._transforms.callables import Axes
from funcgrad._transforms.paths import MANY_PATHS, Group, Part, Path, explored, joined, selected
from funcgrad._transforms.selection import MOST_PATHS, Selection
from funcgrad._transforms.transformed import Watched
from funcgrad.errors import BatchError, BatchWarning, FuncgradError
from funcgrad.tensor.tensor import wrap

P = ParamSpec("P")  # named once only: so mypy knows the type of a lambda handed through


# What a lambda returns follows from its arguments' types, which are said where the batched function
# is called. A signature can only guess them: of tensors, pyright refuses `lambda line: line.slope`,
# and mypy finds the overloads ambiguous, which is Any and in strict code an error.
@answering
def vmap(
    f: Callable[P, Any],
    in_axes: Axes = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    branches: bool = True,
) -> Callable[..., Any]:
    """Map a function over an axis of its arguments, without a loop.

    Write ``f`` for one example; ``vmap(f)`` runs each operation once for the whole batch.

    Parameters
    ----------
    f : callable
        Takes and returns pytrees of arrays.
    in_axes : int, None, or pytree prefix of them
        Which axis of each argument to map over; None for an argument that all examples share. A
        tuple has an entry for each positional argument. An entry may be a tree with the argument's
        structure, or a prefix of such a tree. Negative axes count from the back. Arguments passed
        by keyword are mapped over axis 0.
    out_axes : int, None, or pytree prefix of them
        The axis of each result that holds the batch; None for a result that does not depend on the
        batch.
    axis_size : int, optional
        The size of the batch; needed only if no argument is mapped.

    Returns
    -------
    callable
        A function with the signature of ``f``.

    Raises
    ------
    BatchError
        Batch sizes differ, an axis is out of bounds, or nothing is mapped.
    TracerError
        ``f`` needs the value of a single example, for instance in an ``if``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> rows = fg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fg.vmap(lambda row: row[0] * row[1])(rows)
    Tensor([ 2., 12.])
    >>> fg.vmap(fg.grad(lambda w, x: (w * x) ** 2), in_axes=(None, 0))(2.0, rows[0])
    Tensor([ 4., 16.])
    """
    check_function("vmap", f)
    _check_in_axes(in_axes)

    warned: list[None] = []

    def warn(line: str) -> None:
        if not warned:
            warned.append(None)
            name = getattr(f, "__name__", type(f).__name__)
            warn_user(
                f"vmap: {name} took more than {MANY_PATHS} paths over a batch, which is as slow as"
                f" a loop over the examples. Most divisions are at {line}: choose there with"
                " fnp.where or fg.cond, or loop with fg.while_loop.",
                BatchWarning,
            )

    follows = SELECTS if branches else REFUSES

    def batched(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = pytrees.flatten((args, kwargs))
        axes = _in_axes(in_axes, args, kwargs)
        name = partial(leaf_name, f)
        values = call_values("vmap", f, leaves, structure)
        axes = [
            _normal(axis, value, structure, k, name)
            for k, (axis, value) in enumerate(zip(axes, values, strict=True))
        ]
        size = _size(values, axes, axis_size, structure, name)
        with begin_level() as level:
            batcher = Batcher(level, size, follows)
            error = None
            try:
                followed = [
                    value if axis is None else batcher.follow(move_axis(value, axis, 0))
                    for value, axis in zip(values, axes, strict=True)
                ]
                inner_args, inner_kwargs = pytrees.unflatten(
                    structure, [wrap(value) for value in followed]
                )
                call: Callable[..., Any] = f
                out = call(*inner_args, **inner_kwargs)
            except BaseException as raised:
                if batcher.runs_once:
                    raise
                error = raised
                out = None
            finally:
                batcher.close()
            if batcher.division is None and batcher.selection is None:
                return _results(batcher, out, out_axes)
        mapped = [axis is not None for axis in axes]
        inside = [batcher.parts(value)[0] for value in followed]
        batch = _Batch(f, inside, mapped, structure, size)
        return batch.call(_Outcome(batcher, out, error), out_axes, warn)

    return Watched(batched, "vmap", (vmap, (f, in_axes, out_axes, axis_size, branches)))


class _Outcome(NamedTuple):
    """What a run of the function returned, and the trace that it ran under."""

    batcher: Batcher
    out: Any
    error: BaseException | None


@dataclass(slots=True, eq=False)
class _Batch:
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

    def call(self, first: _Outcome, out_axes: Any, warn: Callable[[str], None]) -> Any:
        """The function's results as trees, after the first run was not the only one."""
        division = first.batcher.division
        if division is None:
            parts, structure = self._selected(first)
        elif not self.size:
            division.check_arrival(first.error)
            parts, structure = self._of_no_example()
        else:
            division.check_arrival(first.error)
            paths = self.divided(division, warn)
            structure = _one_structure(paths)
            parts = joined([Path(path.group, path.outcome[0]) for path in paths], self.size)
        return _placed_tree(parts, structure, out_axes, self.size)

    def _run(self, rows: Rows | None = None, selection: Selection | None = None) -> _Outcome:
        """Run the function once more: on some examples, or on all along one path."""
        context = current()
        if context.probes is None:
            return self._run_along(rows, selection)
        with entered(context._replace(probes=context.probes.along_path(rows, self.size))):
            return self._run_along(rows, selection)

    def _run_along(self, rows: Rows | None, selection: Selection | None) -> _Outcome:
        out = error = None
        values, size = self.values, self.size
        if rows is not None:
            size = len(rows)
            pairs = zip(values, self.mapped, strict=True)
            values = [examples_at(value, rows) if flag else value for value, flag in pairs]
        with begin_level() as level:
            batcher = Batcher(level, size, SELECTS)
            batcher.selection = selection
            try:
                followed = [
                    wrap(batcher.follow(value) if flag else value)
                    for value, flag in zip(values, self.mapped, strict=True)
                ]
                args, kwargs = pytrees.unflatten(self.structure, followed)
                out = self.f(*args, **kwargs)
            except BaseException as raised:
                if batcher.runs_once:
                    raise
                error = raised
            finally:
                batcher.close()
        if batcher.division is not None:
            batcher.division.check_arrival(error)
        return _Outcome(batcher, out, error)

    def divided(
        self, division: Division, warn: Callable[[str], None] | None
    ) -> list[Path[tuple[list[Part], Structure]]]:
        """The results along each path, after the run on the whole batch was abandoned."""

        def run(rows: Rows) -> tuple[tuple[list[Part], Structure] | None, Division | None]:
            ran = self._run(rows)
            if ran.batcher.division is not None:
                return None, ran.batcher.division
            return _parts(ran), None

        return explored(Group(np.arange(self.size)), division, run, warn)

    def _of_no_example(self) -> tuple[list[Part], Structure]:
        """The results for an empty batch: those of an example of ones, left out."""
        ones = [
            np.ones((1, *shape_of(value)[1:]), dtype_of(value)) if flag else value
            for value, flag in zip(self.values, self.mapped, strict=True)
        ]
        parts, structure = _parts(replace(self, values=ones, size=1)._run())
        none = np.arange(0)
        return [(examples_at(x, none) if flag else x, flag) for x, flag in parts], structure

    def _selected(self, first: _Outcome) -> tuple[list[Part], Structure]:
        """The results of a program: those of all paths, selected by who takes them."""
        paths: list[Path[tuple[list[Part], Structure]]] = []
        masks: list[Value] = []
        failures: list[tuple[Selection, Exception]] = []
        ran, waiting = first, []
        while True:
            selection: Any = ran.batcher.selection
            if selection.refused is not None:
                raise selection.refused
            waiting += selection.others
            if isinstance(ran.error, Exception):
                failures.append((selection, ran.error))
            elif ran.error is not None:
                raise ran.error
            else:
                answers = "; ".join(f"{line}: {answer}" for line, answer in selection.answers)
                paths.append(Path(Group(np.arange(0), answers), _parts(ran)))
                masks.append(selection.mask)
            if len(paths) + len(failures) + len(waiting) > MOST_PATHS:
                raise selection.too_many()
            if not waiting:
                break
            ran = self._run(selection=Selection(waiting.pop()))
        for selection, error in failures:
            # A guard of the program: it does not hold for a batch with an example on this path.
            if not paths or bool(wrap(reduce_any(selection.mask, axis=(0,), keepdims=False))):
                raise error
        structure = _one_structure(paths)
        parts = selected([Path(path.group, path.outcome[0]) for path in paths], masks, self.size)
        return parts, structure


def _parts(ran: _Outcome) -> tuple[list[Part], Structure]:
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
                "vmap: the results for the examples have to be of one structure, but it is"
                f" {structure} for {group}, and {other_structure} for {other}."
            )
    return structure


def _check_in_axes(in_axes: object) -> None:
    """Check that ``in_axes`` consists of axes."""
    for axis in pytrees.leaves(in_axes):
        if not is_whole(axis):
            what = "in_axes has to be an integer, None, or a tree of them"
            raise BatchError(forgotten("vmap", what, axis))


def _in_axes(in_axes: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """One axis for each leaf of the arguments."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise BatchError(
            f"vmap: in_axes has {len(in_axes)} entries, but the function was called with"
            f" {len(args)} positional argument(s); there has to be one for each."
        )
    try:
        axes = pytrees.broadcast_prefix(in_axes, tuple(args), "in_axes")
    except FuncgradError as error:
        raise BatchError(f"vmap: in_axes does not fit the arguments: {error}") from None
    return axes + [0] * len(pytrees.leaves(dict(kwargs))) if kwargs else axes


def _normal(
    axis: Any, value: Value, structure: Structure, leaf: int, name: Callable[[Structure, int], str]
) -> int | None:
    if axis is None:
        return None
    rank = len(shape_of(value))
    number = index(axis)
    if not -rank <= number < rank:
        raise BatchError(
            f"vmap: in_axes says axis {number} for {name(structure, leaf)}, whose shape is"
            f" {shape_of(value)}. Use None for an argument that is not mapped."
        )
    return number % rank


def _size(
    values: Sequence[Value],
    axes: Sequence[int | None],
    axis_size: int | None,
    structure: Structure,
    name: Callable[[Structure, int], str],
) -> int:
    size, origin = axis_size, -1
    if size is not None and (not isinstance(size, (int, np.integer)) or size < 0):
        raise BatchError(f"vmap: axis_size is {size!r}; it has to be an integer from 0 upwards.")
    for leaf, (value, axis) in enumerate(zip(values, axes, strict=True)):
        if axis is None:
            continue
        length = shape_of(value)[axis]
        if size is None:
            size, origin = length, leaf
        elif length != size:
            first = name(structure, origin) if origin >= 0 else "axis_size"
            raise BatchError(
                f"vmap: the batch sizes differ: {first} has {size}, but {name(structure, leaf)} of"
                f" shape {shape_of(value)} has {length} on axis {axis}."
            )
    if size is None:
        raise BatchError(
            "vmap: nothing is mapped: every in_axes is None, or there is no argument. Map an"
            " argument, or say how large the batch is with axis_size."
        )
    return size


def _results(batcher: Batcher, out: Any, out_axes: Any) -> Any:
    leaves, structure = pytrees.flatten(out)
    values = values_of("vmap", leaves, structure, lambda: "the function's result")
    parts = [batcher.parts(value) for value in values]
    return _placed_tree(parts, structure, out_axes, batcher.size)


def _placed_tree(parts: Sequence[Part], structure: Structure, out_axes: Any, size: int) -> Any:
    """The results as trees, with the batch on the axes that the user chose."""
    try:
        axes = pytrees.broadcast_prefix(out_axes, structure, "out_axes")
    except FuncgradError as error:
        raise BatchError(f"vmap: out_axes does not fit the function's result: {error}") from None
    placed = [
        wrap(_placed(part, axis, structure, leaf, size))
        for leaf, (part, axis) in enumerate(zip(parts, axes, strict=True))
    ]
    return pytrees.unflatten(structure, placed)


def _placed(part: Part, axis: object, structure: Structure, leaf: int, size: int) -> Value:
    data, flag = part
    if axis is None:
        if flag:
            raise BatchError(
                f"vmap: out_axes is None for the result{structure.paths()[leaf]}, but it depends on"
                " the batch; give the axis that the batch shall have."
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
