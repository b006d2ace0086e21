"""Linear equations with few diagonals, which may go on at the other end (periodic splines).

A matrix is given by rows: ``rows[d, i]`` is the element (i, i + d - before).

>>> import numpy as np
>>> ones, twos = np.ones(4), np.full(4, 4.0)
>>> solve_cyclic(fnp.stack([ones, twos, ones]), 1, fnp.asarray(np.full((4, 1), 6.0)))[:, 0]
Tensor([1., 1., 1., 1.])
"""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.users_values import operand
from funcgrad._primitives.banded_systems import banded_solve, shifted
from funcgrad.tensor.tensor import Tensor, wrap


def solve_rows(rows: Tensor, before: int, right: Tensor) -> Tensor:
    """Solve equations with a banded matrix in O(n); singular ones give NaN.

    Parameters
    ----------
    rows : Tensor, shape (d, n)
        The elements of row i from column ``i - before`` on. Those outside of the matrix are not
        read.
    before : int
        The number of diagonals below the main one.
    right : Tensor, shape (n, k)
    """
    after = rows.shape[0] - 1 - before
    bands = fnp.concatenate(
        [
            wrap(shifted(operand(rows[d : d + 1], "solve_rows"), d - before))
            for d in reversed(range(before + after + 1))
        ]
    )
    return solve_bands(bands, before, after, right)


def solve_bands(bands: Tensor, lower: int, upper: int, right: Tensor) -> Tensor:
    """Solve equations with a matrix that is stored by diagonals, as SciPy's solve_banded."""
    common = np.result_type(bands.dtype, right.dtype)
    return wrap(
        banded_solve(
            operand(bands.astype(common), "solve_banded"),
            operand(right.astype(common), "solve_banded"),
            lower=lower,
            upper=upper,
            failed="nan",
        )
    )


def solve_cyclic(rows: Tensor, before: int, right: Tensor) -> Tensor:
    """Solve equations whose diagonals go on at the other end: column n is column 0.

    The last unknowns, which all the elements beyond the ends belong to, are eliminated first: the
    others follow from banded equations with a few more right sides. This takes O(n).
    """
    width, count = rows.shape
    number = np.arange(count)
    line, diagonal = (grid.ravel() for grid in np.meshgrid(number, np.arange(width)))
    column = (line + diagonal - before) % count
    border = max(before, width - 1 - before)
    if count <= 2 * border + 1:
        square = fnp.zeros((count, count), rows.dtype).at[line, column].add(rows[diagonal, line])
        return fnp.linalg.solve(square, right, failed="nan")
    inner = count - border

    def block(keep: np.ndarray[tuple[int], np.dtype[np.bool_]], down: int, over: int) -> Tensor:
        """A dense part of the matrix, of its elements in one corner."""
        places = (line[keep] - down, column[keep] - over)
        shape = (border if down else inner, border if over else inner)
        empty = fnp.zeros(shape, rows.dtype)
        return empty.at[places].add(rows[diagonal[keep], line[keep]])

    low, far = line >= inner, column >= inner
    beside, below, corner = (
        block(~low & far, 0, inner),
        block(low & ~far, inner, 0),
        block(low & far, inner, inner),
    )
    both = fnp.concatenate([right[:inner], beside.astype(right.dtype)], axis=1)
    solved = solve_rows(rows[:, :inner], before, both)
    first, change = solved[:, : right.shape[1]], solved[:, right.shape[1] :]
    last = fnp.linalg.solve(corner - below @ change, right[inner:] - below @ first, failed="nan")
    return fnp.concatenate([first - change @ last, last])
