"""A linear movement: an array turned by right angles in the plane of two axes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import funcgrad as fg
from funcgrad import extend


def _turned(shape: tuple[int, ...], turns: int, axes: tuple[int, int]) -> tuple[int, ...]:
    sizes = list(shape)
    if turns % 2:
        first, second = axes
        sizes[first], sizes[second] = sizes[second], sizes[first]
    return tuple(sizes)


def _rows_last(shape: tuple[int, ...], turns: int, axes: tuple[int, int]) -> dict[str, Any] | None:
    """The parameters if axis 0 moves behind the others, whose numbers then fall by one."""
    return None if 0 in axes else {"turns": turns, "axes": (axes[0] - 1, axes[1] - 1)}


def _samples() -> Iterator[extend.Sample]:
    rng = np.random.default_rng(4)
    for shape, axes in (((2, 3), (0, 1)), ((2, 3, 4), (2, 0)), ((0, 3), (1, 0))):
        for turns in (0, 1, 2, -1):
            yield extend.Sample((rng.standard_normal(shape),), {"turns": turns, "axes": axes})
    yield extend.Sample((rng.standard_normal((4, 6))[::-2, ::3],), {"turns": 1, "axes": (0, 1)})
    yield extend.Sample((rng.standard_normal((2, 3, 4)),), {"turns": 1, "axes": (1, 2)})
    yield extend.Sample((1j * rng.standard_normal((2, 3)),), {"turns": 1, "axes": (0, 1)})


turn: extend.Primitive = extend.movement(
    "turn",
    lambda x, turns, axes: np.rot90(x, turns, axes),
    shape=_turned,
    transpose=lambda ct, x, turns, axes: turn(ct, turns=-turns, axes=axes),
    batch=lambda shape, size, turns, axes: {"turns": turns, "axes": tuple(a + 1 for a in axes)},
    samples=_samples,
    is_view=True,
    rows_last=_rows_last,
)


def rotated(x: Any, turns: int = 1) -> fg.Tensor:
    """The operation as users call it."""
    return extend.apply(turn, x, turns=turns, axes=(0, 1))
