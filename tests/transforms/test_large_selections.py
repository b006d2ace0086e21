"""Cotangents of large selections are added up in place, and are what they are of small ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._transforms.masked import SPARING as LARGE
from funcgrad._transforms.masked import CotangentBuffer, Masked, buffered, selected
from tests.together import together

_rng = np.random.default_rng(0)
POINT = _rng.integers(-50, 50, (2 * LARGE, 1)) / 8
WIDE = _rng.integers(-50, 50, (2 * LARGE, 4)) / 8
MASK = POINT > 0

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "range": lambda x: fnp.max(x) - fnp.min(x),
    "range of rows": lambda x: fnp.sum(fnp.ptp(x.reshape(64, -1), axis=1)),
    "ties": lambda x: fnp.max(fnp.round(x) * 0 + fnp.minimum(x, 1.0)) + 3 * fnp.max(x),
    "choices": lambda x: fnp.sum(fnp.where(MASK, x, 0.0)) - 2 * fnp.sum(fnp.where(~MASK, x, 1.0)),
    "to another shape": lambda x: (
        fnp.sum(fnp.where(MASK, x, 0.0)) + fnp.sum(fnp.where(MASK, x, WIDE))
    ),
    "from another shape": lambda x: fnp.sum(fnp.where(MASK, x, WIDE)) + fnp.max(x),
    "with a whole": lambda x: fnp.max(x) + fnp.sum(x * WIDE) + fnp.min(x),
    "with slices": lambda x: fnp.max(x) + fnp.sum(x[5:] * 2.0) + x[3, 0] + fnp.min(x),
    "holes": lambda x: fnp.max(fnp.sqrt(x)) - fnp.min(fnp.sqrt(fnp.where(MASK, x, 2.0))),
    "holes of a part": lambda x: fnp.sum(fnp.where(MASK, fnp.log(fnp.abs(x)), 0.0)) + fnp.max(x),
    "of float32": lambda x: fnp.max(x.astype(np.float32)) + fnp.max(x) + fnp.min(x),
    "one value twice": lambda x: twice_chosen(fnp.where(MASK, x, 0.0)),
}


def twice_chosen(y: Any) -> Any:
    """Two sums of which each hands on what comes to both its parts."""
    total = y + y
    return fnp.max(total) + fnp.min(y + total) + fnp.max(y)


@together("name", FUNCTIONS)
def test_gradients_are_those_without_buffers(name: str) -> None:
    """A batch is followed, and nothing followed is written to."""
    f = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        found = np.asarray(fg.grad(f)(POINT))
        again = np.asarray(fg.grad(f)(POINT))
        batched = np.asarray(fg.vmap(fg.grad(f))(np.stack([POINT, POINT])))
        staged = np.asarray(fg.jit(fg.grad(f))(POINT))
    for other in (again, staged, batched[0], batched[1]):
        assert_array_equal(found, other)
    assert np.any(found)


def test_two_pullbacks_of_one_selection() -> None:
    _, pull = fg.vjp(lambda x: (fnp.max(x), fnp.min(x)), POINT)
    first = np.asarray(pull((1.0, 2.0))[0])
    second = np.asarray(pull((1.0, 2.0))[0])
    assert_array_equal(first, second)


def test_masks_of_others_stay() -> None:
    """As that of a ``where``, which the user's function has."""
    mask = MASK.copy()
    buffer = buffered(Masked(np.where(mask, POINT, 0), mask))
    assert type(buffer) is CotangentBuffer
    assert buffer.choose(~mask, np.float64(1.0), mask.shape)
    assert_array_equal(mask, MASK)
    assert_array_equal(buffer.finish(), np.where(MASK, POINT, 1.0))


@together("share", [0.0, 0.001, 0.5, 1.0])
@together("ct", [2.0, np.inf, np.nan, _rng.uniform(size=(2 * LARGE, 1)), WIDE])
def test_selected_is_where(share: float, ct: Any) -> None:
    mask = _rng.uniform(size=POINT.shape) < share
    assert_array_equal(selected(mask, np.asarray(ct)[()]), np.where(mask, ct, 0))
