"""Samples of reductions, over shapes and axes.

>>> len(list(numbers(empty=False, imaginary=False)()))
20
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

import numpy as np

from funcgrad._core.primitive import Sample


def numbers(
    *, empty: bool = True, imaginary: bool = True, ties: bool = False, **params: Hashable
) -> Callable[[], Iterator[Sample]]:
    """Samples over shapes and axes.

    Parameters
    ----------
    empty : bool
        Whether the operation has a value for empty arrays.
    imaginary : bool
        Whether complex numbers are among the samples.
    ties : bool
        Whether equal elements, infinities and NaN make the operation not differentiable.
    **params
        Further parameters of the operation.

    Returns
    -------
    callable
        A function without arguments that yields the samples.

    Examples
    --------
    >>> {len(sample.params["axis"]) for sample in numbers()()}
    {0, 1, 2}
    """

    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(5)
        axes = {(4,): (0,), (3, 4): (1,), (2, 3, 4): (2, 0), (): (), (0, 3): (1,)}
        for shape, axis in (*axes.items(), ((3, 4), (0, 1)), ((3, 4), ())):
            for keepdims in (False, True):
                x = rng.uniform(-3, 3, shape)
                yield Sample((x,), {"axis": axis, "keepdims": keepdims, **params})
        over_rows = {"axis": (1,), "keepdims": False, **params}
        yield Sample((rng.uniform(-3, 3, (6, 8))[::2, ::-2],), over_rows)
        yield Sample((1.5,), {**over_rows, "axis": ()})
        yield Sample((np.arange(6).reshape(2, 3),), over_rows)
        yield Sample((np.arange(6).reshape(2, 3) > 2,), over_rows)
        if empty:
            yield Sample((np.zeros((3, 0)),), over_rows)
            yield Sample((np.zeros((3, 0)),), {**over_rows, "axis": (0, 1)})
        if imaginary:
            x = rng.uniform(-3, 3, (3, 4)) + 1j * rng.uniform(-3, 3, (3, 4))
            yield Sample((x,), over_rows)
            yield Sample((x,), {**over_rows, "axis": (0, 1), "keepdims": True})
        rows = np.array([[1.0, 2, 2], [0, 0, 0], [-np.inf, 1, np.inf], [np.nan, 2, -np.inf]])
        yield Sample((rows[:2],), over_rows, smooth=not ties)
        yield Sample((rows[2:],), over_rows, smooth=False)

    return samples
