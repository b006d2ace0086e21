"""``scan``, and ``map``, which is a scan without a carry.

>>> import funcgrad as fg
>>> fg.scan(lambda total, x: (total + x, total), 0.0, fg.tensor([1.0, 2.0, 3.0]))
(Tensor(6.0), Tensor([0., 1., 3.]))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import isqrt
from typing import Any, overload

import numpy as np

from funcgrad._control.carried_types import AnyNumber, Containers, NumberScanned, State, Y
from funcgrad._control.carry import CarrySpecs, count_of, pair_of, placed_values
from funcgrad._control.loop_operation import apply_loop
from funcgrad._control.python_loops import ScannedArrays, looped
from funcgrad._control.values import LoopSteps
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import shape_of
from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Value, concrete
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.structural import reshape
from funcgrad._programs.extract import extract
from funcgrad._transforms.abstract_stager import running_stager
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.checkpoint import checkpoint
from funcgrad._transforms.stage import name_of
from funcgrad._transforms.stager import Stager
from funcgrad.tensor.tensor import Tensor, wrap


@overload
def scan(
    f: NumberScanned[AnyNumber],
    init: AnyNumber,
    xs: object = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    checkpoint_every: int | str | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def scan(
    f: NumberScanned[Y],
    init: AnyNumber,
    xs: object = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    checkpoint_every: int | str | None = None,
) -> tuple[Tensor, Y]: ...
@overload
def scan(
    f: Callable[[State, Any], tuple[State, AnyNumber]],
    init: State | Containers,
    xs: object = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    checkpoint_every: int | str | None = None,
) -> tuple[State, Tensor]: ...
@overload
def scan(
    f: Callable[[State, Any], tuple[State, Y]],
    init: State | Containers,
    xs: object = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    checkpoint_every: int | str | None = None,
) -> tuple[State, Y]: ...
@watched
@answering
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    checkpoint_every: int | str | None = None,
) -> tuple[Any, Any]:
    """Loop over the slices of arrays, carrying a value from step to step, and stack the results.

    Parameters
    ----------
    f : callable
        ``f(carry, x)`` gets the carry and one slice of each array. It returns a pair: the next
        carry, with the same structure, shapes and dtypes, and the result of this step, which may be
        None.
    init : pytree
        The first carry. A Python number takes, from the start, the dtype that ``f`` returns for it:
        the dtype of an array, or the same or a later type of int, float and complex.
    xs : pytree of arrays, optional
        Each step gets a slice along axis 0 of every leaf.
    length : int, optional
        The number of steps; needed only without ``xs``.
    reverse : bool
        Whether the last slice comes first. The results are in the order of the slices.
    unroll : int
        How many steps a backend may unroll; it does not change any result.
    checkpoint_every : int or "sqrt", optional
        Reverse mode stores the carry only every ``checkpoint_every`` steps, and recomputes the
        values in between when it needs them, so each step runs once more. ``"sqrt"`` is the square
        root of the number of steps, which needs the least memory.

    Returns
    -------
    carry : pytree
        The last carry.
    ys : pytree of arrays
        The results of all steps, stacked along axis 0.

    Raises
    ------
    FunctionError
        ``f`` does not return a pair.
    TreeError, ShapeError, DtypeError
        The shape or dtype of the carry, or of a step's result, changes; the lengths of ``xs``
        differ.
    ArgumentError
        There is neither a length nor an array, or a number is negative.

    See Also
    --------
    fori_loop, while_loop, map, associative_scan

    Notes
    -----
    Outside of ``jit`` this is a Python loop. In a program it is one operation: ``f`` is staged
    once, whatever the number of steps, and so cannot use values in Python. Reverse mode stores, for
    each step, the values that the backward loop reads; values that are the same at every step are
    computed once, before the loop.

    Examples
    --------
    >>> import funcgrad as fg
    >>> def total(a, xs):
    ...     carry, _ = fg.scan(lambda c, x: (a * c + x, None), 0.0, xs)
    ...     return carry
    >>> fg.jit(fg.grad(total))(0.5, fg.tensor([1.0, 2.0, 4.0]))
    Tensor(3.)
    """
    check_function("scan", f)
    slices = ScannedArrays("scan", xs, length)
    unroll = count_of("scan", "unroll", unroll)
    if checkpoint_every is not None:
        return _checkpointed(f, init, slices, reverse, unroll, checkpoint_every)
    return _scan("scan", f, init, slices, bool(reverse), unroll)


def counted(f: Callable[[Any, Any], Any], init: Any, length: int, operation: str) -> Any:
    """Run a scan without arrays in the name of another operation; return its last carry."""
    return _scan(operation, f, init, ScannedArrays(operation, None, length))[0]


def _scan(
    operation: str,
    f: Callable[[Any, Any], Any],
    init: Any,
    slices: ScannedArrays,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    carried = CarrySpecs.of(operation, "init", init)
    stager = running_stager()
    if stager is None and slices.length:
        numbers = range(slices.length)[:: -1 if reverse else 1]
        return looped(LoopSteps(operation, numbers), f, carried, slices, reverse)
    return _staged(stager, operation, f, carried, slices, reverse, unroll)


# ------------------------------------------------------------------------------------- as a program


def _staged(
    stager: Stager | None,
    operation: str,
    f: Callable[[Any, Any], Any],
    carried: CarrySpecs,
    slices: ScannedArrays,
    reverse: bool,
    unroll: int,
) -> tuple[Any, Any]:
    count = len(carried.values)

    def step(values: Sequence[Value]) -> tuple[list[Value], Structure]:
        out = f(carried.tree(values[:count]), slices.tree(values[count:]))
        carry, y = pair_of(operation, out)
        state, _ = carried.fit(carried.flatten(carry, ""), "")
        leaves, structure = pytrees.flatten(y)
        ys = placed_values(operation, leaves, structure, lambda: "what a step gives")
        return [*state, *ys], structure

    with_structure = WithAux(step)
    program, closed = carried.staged(stager, with_structure, slices.specs, name_of(f))
    inputs = range(len(program.inputs))
    order = [*inputs[count + len(slices.values) :], *inputs[: count + len(slices.values)]]
    body = extract(program, order, program.outputs)
    if slices.length:
        loop = Loop(body, len(closed), count, slices.length, reverse=reverse, unroll=unroll)
        outs = apply_loop([*closed, *carried.values, *slices.values], loop)
    else:
        rows = body.output_specs[count:]
        outs = [*carried.values, *[np.empty((0, *spec.shape), spec.dtype) for spec in rows]]
    ys = pytrees.unflatten(with_structure.aux, [wrap(y) for y in outs[count:]])
    return carried.tree(outs[:count]), ys


# --------------------------------------------------------------------------------- with less memory


def _checkpointed(
    f: Callable[[Any, Any], Any],
    init: Any,
    slices: ScannedArrays,
    reverse: bool,
    unroll: int,
    every: int | str,
) -> tuple[Any, Any]:
    """Run a scan of scans; reverse mode runs each inner scan again."""
    size = _chunk(every, slices.length)
    count = slices.length // size
    whole = count * size

    def chunk(carry: Any, xs: Any) -> Any:
        inner = ScannedArrays("scan", xs, size)
        return _scan("scan", f, carry, inner, reverse, unroll)

    def chunks(carry: Any) -> tuple[Any, Any]:
        folded = slices.folded(count, size)
        end, ys = _scan("scan", checkpoint(chunk), carry, folded, reverse)
        return end, pytrees.map(unfolded, ys)

    if whole == slices.length:
        return chunks(init)
    remainder = slices.between(whole, slices.length)
    if reverse:
        carry, last = _scan("scan", f, init, remainder, reverse, unroll)
        carry, first = chunks(carry)
    else:
        carry, first = chunks(init)
        carry, last = _scan("scan", f, carry, remainder, reverse, unroll)
    return carry, pytrees.map(concatenated, first, last)


def _chunk(every: int | str, length: int) -> int:
    if isinstance(every, str) and every == "sqrt":
        return max(1, isqrt(max(0, length - 1)) + 1)
    return max(1, min(count_of("scan", "checkpoint_every", every, other=" or 'sqrt'"), length))


def unfolded(y: Any) -> Any:
    """Merge the axes of chunks and of the steps in a chunk."""
    shape = shape_of(y)
    return wrap(reshape(concrete(y), shape=(shape[0] * shape[1], *shape[2:])))


def concatenated(first: Any, last: Any) -> Any:
    """Put two results together along axis 0."""
    return wrap(concatenate(concrete(first), concrete(last), axis=0))


# ---------------------------------------------------------------------------------- without a carry


@overload
def map(f: Callable[[Any], AnyNumber], xs: object, batch_size: int | None = None) -> Tensor: ...
@overload
def map(f: Callable[[Any], Y], xs: object, batch_size: int | None = None) -> Y: ...
@watched
@answering
def map(f: Callable[[Any], Any], xs: Any, batch_size: int | None = None) -> Any:
    """Apply a function to each slice of arrays, one after another, and stack the results.

    Parameters
    ----------
    f : callable
        Takes one slice of every leaf and returns a pytree.
    xs : pytree of arrays
        Slices are taken along axis 0.
    batch_size : int, optional
        The number of slices that run at once, by ``vmap``; the last batch may be smaller.

    Returns
    -------
    pytree of arrays
        The results of ``f``, stacked along axis 0.

    Raises
    ------
    ShapeError, DtypeError, TreeError
        As for ``scan``.
    ArgumentError
        ``batch_size`` is not a positive integer.

    See Also
    --------
    vmap : all slices at once, which is quicker and takes more memory.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.map(lambda x: fg.cond(x > 1, fg.numpy.log, lambda x: -x, x), fg.tensor([0.5, 1.0]))
    Tensor([-0.5, -1. ])
    """
    check_function("map", f)
    slices = ScannedArrays("map", xs, None)
    if batch_size is None:
        return mapped("map", f, slices)
    size = count_of("map", "batch_size", batch_size)
    count, left = divmod(slices.length, size)
    if not count:
        return mapped("map", f, slices) if not left else vmap(f)(slices.tree(slices.values))
    ys = pytrees.map(unfolded, mapped("map", vmap(f), slices.folded(count, size)))
    if not left:
        return ys
    remainder = slices.between(count * size, slices.length)
    last = vmap(f)(remainder.tree(remainder.values))
    return pytrees.map(concatenated, ys, last)


def mapped(operation: str, f: Callable[[Any], Any], slices: ScannedArrays) -> Any:
    """Call a function for each slice, and stack its results."""

    @wraps(f)
    def step(carry: Any, x: Any) -> Any:
        return carry, f(x)

    return _scan(operation, step, None, slices)[1]
