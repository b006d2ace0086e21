"""``fnp.r_`` and ``fnp.c_`` beside NumPy's, on traced values, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, ShapeError
from tests.together import together

A, V = np.arange(6.0).reshape(2, 3), np.array([1, 2, 3], np.float32)
KEYS = [
    np.s_[V, 0.5],
    np.s_[V, np.float64(3)],
    np.s_[np.float32(1), 2.5],
    np.s_[True, [False]],
    np.s_[[1, 2], [3, 4]],
    np.s_[V, 0, 2:8:3],
    np.s_[0:1:5j, 3],
    np.s_[1:4],
    np.s_[:3],
    np.s_[A, A],
    np.s_["-1", A, A],
    np.s_["0,2", V, V],
    np.s_["0,2,0", V, V],
    np.s_["1,2,0", V, V],
    np.s_["0,3,1", A, A],
    np.s_["0,4,1", A, A],
    np.s_["0,4,-2", A, A],
    np.s_["-1,3,-1", V, 2:4],
    np.s_["-1,3,0", V, 2:5],
    np.s_["-1,3,1", V, 2:5],
]


@together("place", [*range(len(KEYS))])
def test_results_are_numpys(place: int) -> None:
    for ours, theirs in ((fnp.r_, np.r_), (fnp.c_, np.c_)):
        try:
            expected: Any = theirs[KEYS[place]]
        except ValueError:  # sizes that do not fit
            with pytest.raises(ShapeError):
                ours[KEYS[place]]
            continue
        result = ours[KEYS[place]]
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(result, expected)


def test_every_mode() -> None:
    def joined(x: Any, y: Any) -> Any:
        return (fnp.r_[x, 2.0, y[0], 0:1:3j] * fnp.c_[x, y].sum()).sum()

    def plain(x: Any, y: Any) -> Any:
        row = fnp.concatenate([x, [2.0], y[:1], [0.0, 0.5, 1.0]])
        return (row * fnp.stack([x, y], axis=-1).sum()).sum()

    x, y = fg.tensor([1.0, -2.0]), fg.tensor([0.5, 3.0])
    transformations: tuple[Callable[[Any], Any], ...] = (
        lambda f: f,
        lambda f: fg.grad(f, argnums=1),
        lambda f: fg.jacfwd(f),
        lambda f: fg.jit(fg.hessian(f)),
    )
    for transformed in transformations:
        np.testing.assert_allclose(transformed(joined)(x, y), transformed(plain)(x, y))
    rows = fnp.stack([x, y, x + y])
    np.testing.assert_allclose(
        fg.vmap(fg.grad(joined), in_axes=(0, None))(rows, y), [fg.grad(plain)(r, y) for r in rows]
    )
    ends = fg.grad(lambda a: (fnp.r_[0.0:a:5j] ** 2).sum())(2.0)  # the last value of a slice
    np.testing.assert_allclose(ends, 2 * 2.0 * np.sum(np.linspace(0, 1, 5) ** 2))


def test_what_is_refused() -> None:
    for text in ("r", "c", "0,2,1,4", "", "0;1"):
        with pytest.raises(ArgumentError, match=r"does not say how to join.*r_\['0,2', x, y\]"):
            fnp.r_[text, V]
    with pytest.raises(ShapeError):
        fnp.r_[A, A.T]
