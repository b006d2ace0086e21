"""Batching: ``vmap``.

>>> import funcgrad as fg
>>> fg.vmap(lambda x, y: x * y, in_axes=(0, None))(fg.tensor([1.0, 2.0]), 10.0)
Tensor([10., 20.])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from operator import index
from typing import Any, ParamSpec, overload

import numpy as np

from funcgrad._base.users_line import warn_user
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import shape_of
from funcgrad._core.trace import Value, begin_level
from funcgrad._hints.lookup import decorating
from funcgrad._primitives.structural import move_axis
from funcgrad._transforms.arguments import (
    call_values,
    check_function,
    forgotten,
    is_whole,
    leaf_name,
    values_of,
)
from funcgrad._transforms.batch_runs import Batch, RunOutcome, axes_of_results, placed_tree
from funcgrad._transforms.batcher import REFUSES, SELECTS, Batcher
from funcgrad._transforms.callables import Axes
from funcgrad._transforms.paths import MANY_PATHS, Group
from funcgrad._transforms.transformed import Watched
from funcgrad.errors import ArgumentError, BatchError, BatchWarning, FuncgradError
from funcgrad.tensor.tensor import wrap

P = ParamSpec("P")  # named once only: so mypy knows the type of a lambda handed through


# What a lambda returns follows from its arguments' types, which are said where the batched function
# is called. A signature can only guess them: of tensors, pyright refuses `lambda line: line.slope`,
# and mypy finds the overloads ambiguous, which is Any and in strict code an error.
@overload
def vmap(
    f: Callable[P, Any],
    in_axes: Axes = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    branches: bool = True,
    batch_size: int | None = None,
) -> Callable[..., Any]: ...
@overload
def vmap(
    *,
    in_axes: Axes = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    branches: bool = True,
    batch_size: int | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
@decorating
def vmap(
    f: Callable[P, Any],
    in_axes: Axes = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    branches: bool = True,
    batch_size: int | None = None,
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
    branches : bool
        Whether ``f`` may use values of single examples in Python, as in ``if``, ``while``,
        ``int(t)`` or ``float(t)``. If false, ``f`` runs once, and such a use is an error.
    batch_size : int, optional
        The number of examples that run at once: larger batches run in blocks, one after another,
        so that memory holds the intermediate values of one block; the last one may be smaller. In
        a program the blocks are a loop. By default all examples run at once.

    Returns
    -------
    callable
        A function with the signature of ``f``.

    Raises
    ------
    BatchError
        Batch sizes differ, an axis is out of bounds, or nothing is mapped. The results of two
        examples have other trees or shapes. ``f`` swallowed the exception that abandons a run.
    ArgumentError
        ``batch_size`` is not a positive integer.
    TracerError
        ``f`` needs the value of a single example for something that is not control flow, or at all
        if ``branches`` is false.

    Warns
    -----
    BatchWarning
        A call took more than 256 paths, so it is as slow as a loop over the examples.

    See Also
    --------
    funcgrad.debug.paths : the paths that a batch takes.

    Notes
    -----
    If the condition of an ``if`` differs between the examples of a batch, the run continues with
    the largest group of examples that agree, and ``f`` runs again, from its start, for each other
    group. So ``f`` runs once for each path, and its side effects, such as printing, happen in every
    run. An operation that raises an error for some examples splits the batch as well. The results
    are joined in the examples' order; their dtypes promote, and Python numbers give way. If a run
    that splits cannot continue, as inside a branch of ``cond``, an exception abandons it; ``f``
    must not swallow this exception with a bare ``except``.

    Under ``jit``, a ``while`` whose state is in the function's variables becomes one operation, and
    up to 16 paths of truth values become one program: the operations of each path run on all
    examples, and each example gets the result and the derivatives of its path only. Functions with
    more paths, such as a loop that counts in a Python number, run without being staged, with a
    warning.

    Examples
    --------
    >>> import funcgrad as fg
    >>> rows = fg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fg.vmap(lambda row: row[0] * row[1])(rows)
    Tensor([ 2., 12.])
    >>> fg.vmap(fg.grad(lambda w, x: (w * x) ** 2), in_axes=(None, 0))(2.0, rows[0])
    Tensor([ 4., 16.])

    Python's control flow is followed for each example:

    >>> def steps(x):
    ...     count = 0
    ...     while x > 1.0:
    ...         x, count = x / 2, count + 1
    ...     return count
    >>> fg.vmap(steps)(fg.tensor([0.5, 3.0, 100.0]))
    Tensor([0, 2, 7])
    """
    check_function("vmap", f)
    check_in_axes(in_axes)

    check_batch_size("vmap", batch_size)
    options = in_axes, out_axes, axis_size, branches
    call = batched(f, *options) if batch_size is None else _in_blocks(f, *options, batch_size)
    return Watched(call, "vmap", (vmap, (f, *options, batch_size)))


def batched(
    f: Callable[..., Any],
    in_axes: Axes,
    out_axes: Any = 0,
    axis_size: int | None = None,
    branches: bool = True,
    report: Callable[[list[Group]], None] | None = None,
) -> Callable[..., Any]:
    """The function that ``vmap`` makes; it calls ``report`` with the paths of a batch."""
    warn = _warning_of_many_paths(f)
    follows = SELECTS if branches else REFUSES

    def call(*args: Any, **kwargs: Any) -> Any:
        values, structure, axes, size = _examples(f, in_axes, axis_size, args, kwargs)
        with begin_level() as level:
            batcher = Batcher(level, size, follows)
            followed = [
                value if axis is None else batcher.follow(move_axis(value, axis, 0))
                for value, axis in zip(values, axes, strict=True)
            ]
            error = None
            try:
                inner_args, inner_kwargs = pytrees.unflatten(
                    structure, [wrap(value) for value in followed]
                )
                out = f(*inner_args, **inner_kwargs)
            except BaseException as raised:
                if batcher.runs_once:
                    raise
                error = raised
                out = None
            finally:
                batcher.close()
            if batcher.runs_once:
                if report is not None:
                    report([Group(np.arange(size))])
                return _results(batcher, out, out_axes)
        mapped = [axis is not None for axis in axes]
        inside = [
            value._value if flag else value for value, flag in zip(followed, mapped, strict=True)
        ]
        batch = Batch(f, inside, mapped, structure, size)
        return batch.call(RunOutcome(batcher, out, error), out_axes, warn, report)

    return call


def _examples(
    f: Callable[..., Any],
    in_axes: Axes,
    axis_size: int | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> tuple[list[Value], Structure, list[int | None], int]:
    """The leaves of a batch's arguments, their structure and axes, and the number of examples."""
    leaves, structure = pytrees.flatten((args, kwargs))
    axes = _in_axes(in_axes, args, kwargs, structure)
    name = partial(leaf_name, f)
    values = call_values("vmap", f, leaves, structure)
    axes = [
        _normal(axis, value, structure, k, name)
        for k, (axis, value) in enumerate(zip(axes, values, strict=True))
    ]
    return values, structure, axes, _size(values, axes, axis_size, structure, name)


def _in_blocks(
    f: Callable[..., Any],
    in_axes: Axes,
    out_axes: object,
    axis_size: int | None,
    branches: bool,
    batch_size: int,
) -> Callable[..., Any]:
    """``batched`` for blocks of so many examples."""
    whole = batched(f, in_axes, out_axes, axis_size, branches)

    def call(*args: object, **kwargs: object) -> Any:
        from funcgrad._control.batch_blocks import in_blocks  # loops are made of batches

        values, structure, axes, size = _examples(f, in_axes, axis_size, args, kwargs)
        mapped = {k: axis for k, axis in enumerate(axes) if axis is not None}
        if size <= batch_size or not mapped:
            return whole(*args, **kwargs)

        @wraps(f)
        def example(leaves: Sequence[Any]) -> Any:
            followed: list[Any] = [wrap(value) for value in values]
            for k, leaf in zip(mapped, leaves, strict=True):
                followed[k] = leaf
            inner_args, inner_kwargs = pytrees.unflatten(structure, followed)
            return f(*inner_args, **inner_kwargs)

        run = batched(example, 0, pytrees.map(lambda _: 0, out_axes), None, branches)
        arrays = [move_axis(values[k], axis, 0) for k, axis in mapped.items()]

        def carry_batch(results: Structure) -> list[bool]:
            return [axis is not None for axis in axes_of_results(out_axes, results)]

        parts, results = in_blocks(run, arrays, batch_size, carry_batch)
        return placed_tree(parts, results, out_axes, size)

    return call


def check_batch_size(operation: str, batch_size: int | None) -> None:
    """Check that a number of examples is a positive integer or None."""
    if batch_size is not None and not (is_whole(batch_size) and index(batch_size) > 0):
        raise ArgumentError(
            f"{operation}: batch_size has to be a positive integer or None, not {batch_size!r}."
        )


def _warning_of_many_paths(f: Callable[..., Any]) -> Callable[[str], None]:
    """A function that warns, once, of the line at which most paths of a function part."""
    warned: list[None] = []

    def warn(line: str) -> None:
        if not warned:
            warned.append(None)
            name = getattr(f, "__name__", type(f).__name__)
            warn_user(
                f"vmap: {name} took more than {MANY_PATHS} paths over a batch, which is as slow as"
                f" a loop over the examples. Most often the batch splits at {line}: choose there"
                " with fnp.where or fg.cond, or loop with fg.while_loop.",
                BatchWarning,
            )

    return warn


def check_in_axes(in_axes: object) -> None:
    """Check that ``in_axes`` consists of axes."""
    for axis in pytrees.leaves(in_axes):
        if not is_whole(axis):
            what = "in_axes has to be an integer, None, or a tree of them"
            raise BatchError(forgotten("vmap", what, axis))


def _in_axes(
    in_axes: Any, args: Sequence[Any], kwargs: Mapping[str, Any], structure: Structure
) -> list[Any]:
    """One axis for each leaf of the arguments ``(args, kwargs)``, whose structure is known."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise BatchError(
            f"vmap: in_axes has {len(in_axes)} entries, but the function was called with"
            f" {len(args)} positional argument(s); there has to be one for each."
        )
    try:
        # The tokens of `args` lie between the pair's and those of `kwargs`, here one.
        tree = tuple(args) if kwargs else Structure(structure.tokens[1:-1])
        axes = pytrees.broadcast_prefix(in_axes, tree, "in_axes")
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
        raise BatchError(f"vmap: axis_size is {size!r}; it has to be a non-negative integer.")
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
            " argument, or pass the size of the batch as axis_size."
        )
    return size


def _results(batcher: Batcher, out: Any, out_axes: Any) -> Any:
    leaves, structure = pytrees.flatten(out)
    values = values_of("vmap", leaves, structure, lambda: "the function's result")
    return placed_tree(map(batcher.parts, values), structure, out_axes, batcher.size)
