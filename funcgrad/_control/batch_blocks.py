"""A batch in blocks of examples, one after another: memory holds one block at a time.

>>> import funcgrad as fg
>>> blocks = []
>>> def square(x):
...     blocks.append(x)
...     return x * x
>>> fg.vmap(square, batch_size=2)(fg.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
Tensor([ 1.,  4.,  9., 16., 25.])
>>> len(blocks)
3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcgrad._control.python_loops import ScannedArrays
from funcgrad._control.scans import concatenated, mapped, unfolded
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.trace import Value, concrete
from funcgrad.tensor.tensor import wrap


def in_blocks(
    run: Callable[[list[Any]], Any],
    arrays: Sequence[Value],
    size: int,
    carry_batch: Callable[[Structure], Sequence[bool]],
) -> tuple[list[tuple[Value, bool]], Structure]:
    """Run a batched function on blocks of arrays along axis 0, and put its results together.

    ``carry_batch`` tells from the structure of the results which leaves have the block on axis 0;
    others are equal for all blocks. Results are values, each with this flag, and their structure.
    """
    slices = ScannedArrays("vmap", [wrap(array) for array in arrays])
    count, left = divmod(slices.length, size)
    leaves, structure = pytrees.flatten(mapped("vmap", run, slices.folded(count, size)))
    flags = carry_batch(structure)
    wholes = [unfolded(y) if flag else y[0] for y, flag in zip(leaves, flags, strict=True)]
    if left:
        remainder = slices.between(count * size, slices.length)
        last = run(remainder.tree(remainder.values))
        ends = pytrees.flatten_like(structure, last, "the result for the last block")
        triples = zip(wholes, ends, flags, strict=True)
        wholes = [concatenated(y, end) if flag else y for y, end, flag in triples]
    return [(concrete(y), flag) for y, flag in zip(wholes, flags, strict=True)], structure
