"""Products and sums described by letters for axes.

>>> einsum("ij,j->i", [[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0])
Tensor([21., 43.])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcgrad._core.specs import dtype_of, shape_of, spec_of, stand_in
from funcgrad._core.trace import bind
from funcgrad._core.users_values import REFUSALS, ArrayLike, explained, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives import einsum as es
from funcgrad._primitives.contraction import contract
from funcgrad.errors import ShapeError
from funcgrad.numpy.options import converted
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def einsum(*operands: ArrayLike, optimize: Any = None) -> Tensor:
    """Einstein's summation convention: products of any number of arguments, summed over indices.

    Parameters
    ----------
    *operands
        Subscripts such as "ij,jk->ik" and then as many arrays, or pairs of an array and the list of
        its indices (integers in 0 .. 51, and Ellipsis), then perhaps the list for the result. An
        index that an array repeats takes its diagonal; "..." stands for axes that broadcast, as
        does an index of size 1.
    optimize : optional
        A path from ``np.einsum_path``: a list of the positions to contract in each step. With any
        other value the function chooses an order, contracting two arguments at a time.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The subscripts are malformed or do not fit the arguments.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> a = fnp.matmul([[1.0], [2.0]], [[1.0, 3.0]])
    >>> fnp.einsum("ij->j", a), fnp.einsum("ii", a)
    (Tensor([3., 9.]), Tensor(7.0))
    >>> fnp.einsum(a, [0, 1], [1.0, 10.0], [1])
    Tensor([31., 62.])
    """
    if operands and isinstance(operands[0], str):
        subscripts: Sequence[Any] = operands[:1]
        arrays = operands[1:]
    else:
        arrays = operands[: len(operands) // 2 * 2 : 2]
        subscripts = (*operands[1::2], *operands[len(arrays) * 2 :])
    if not arrays:
        raise ShapeError("einsum: there have to be subscripts and at least one array.")
    values = [operand(array, "einsum") for array in arrays]
    path = _path(optimize)
    if len(values) == 2 and path is None and isinstance(subscripts[0], str):
        x, y = values
        if es.is_contraction(subscripts[0], shape_of(x), shape_of(y)):
            return wrap(bind(contract, (x, y), {"subscripts": subscripts[0]}))
    inputs, output = es.parse(subscripts, [shape_of(value) for value in values])
    if len(values) > 2:  # else intermediate products would be rounded to a narrower dtype
        kind = np.result_type(*map(dtype_of, values))
        values = [converted(value, kind, "einsum") for value in values]
    return wrap(es.einsum(values, inputs, output, path))


def einsum_path(
    *operands: ArrayLike, optimize: str | bool | Sequence[ArrayLike] = "greedy"
) -> tuple[list[Any], str]:
    """NumPy's order of contractions for these shapes, and a text that describes it.

    Parameters
    ----------
    *operands
        See ``einsum``; they may be traced.
    optimize : str, bool, or sequence
        NumPy's options.

    Returns
    -------
    path : list
        For ``optimize`` of ``einsum``.
    text : str

    Examples
    --------
    >>> import numpy as np
    >>> einsum_path("ij,jk,k->i", np.ones((2, 9)), np.ones((9, 9)), np.ones(9))[0]
    ['einsum_path', (1, 2), (0, 1)]
    """
    plain = [
        stand_in(spec_of(operand(entry, "einsum_path"))) if isinstance(entry, Tensor) else entry
        for entry in operands
    ]
    try:
        find: Any = np.einsum_path
        path, text = find(*plain, optimize=optimize)
    except REFUSALS as error:
        raise explained(error, "einsum_path") from error
    return path, text


def _path(optimize: Any) -> list[Any] | None:
    """The steps of a given path; NumPy's form begins with a word."""
    if not isinstance(optimize, (list, tuple)):
        return None
    steps = [step for step in optimize if isinstance(step, (tuple, list))]
    return steps or None
