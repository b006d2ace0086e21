"""Optimizers in every floating dtype, for gradients of every magnitude, agree with float64.

Half precision has no number between 0 and 6e-8, and none above 65504: a mean of squares or a
divisor that is kept in it vanishes or overflows.
"""

import inspect
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
from funcgrad import optim
from funcgrad._core import pytrees
from tests.optim.subjects import RULES as OPTIMIZERS
from tests.together import together

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True},
    {"eps": 1e-6},
    {"eps_root": 1e-12},
    {"weight_decay": 1e-3},
)
CASES = {
    f"{name}-{'-'.join(options)}": (make, options)
    for name, make in OPTIMIZERS.items()
    for options in OPTIONS
    if set(options) <= set(inspect.signature(make).parameters)
    if not options or name in ("sgd", "adam", "adamw")  # the builder is one: the others follow
}
PAIRS = {
    f"{name}-{np.dtype(char)}": (make, options, np.dtype(char))
    for name, (make, options) in CASES.items()
    for char in ("efdFD" if make in (optim.sgd, optim.adam, optim.adamw) else "eF")
}
every_pair = together(("make", "options", "dtype"), PAIRS.values(), ids=PAIRS)


def magnitudes(dtype):
    """Zero, the tiniest numbers, usual ones, and the largest whose square is finite."""
    info = np.finfo(dtype)
    most = min(float(info.max), float(np.finfo(np.promote_types(dtype, "f")).max) ** 0.5 / 4)
    return [0.0, float(info.smallest_subnormal), float(info.tiny), 1e-5, 1e-3, 1.0, most]


def gradients(dtype):
    sizes = np.array(magnitudes(dtype))
    signed = np.concatenate([sizes, -sizes])
    return (signed * (1 - 1j) / 2 if dtype.kind == "c" else signed).astype(dtype)


def stepped(optimizer, params, grads, count, step=None):
    """The updates of several steps at one gradient, and the last state."""
    state, found = optimizer.init(params), []
    for _ in range(count):
        updates, state = (step or optimizer.update)(grads, state, params)
        found.append(updates)
    return found, state


@every_pair
def test_steps_are_those_of_double_precision(make, options, dtype):
    if make is optim.lion:
        pytest.skip("a sign does not fade away as its number does")
    raw = gradients(dtype)
    wide = np.promote_types(dtype, "d")
    params = np.linspace(-1, 1, raw.size).astype(dtype)
    optimizer = make(1e-2, **options)
    own, state = stepped(optimizer, fg.tensor(params), fg.tensor(raw), 3)
    expected, _ = stepped(optimizer, fg.tensor(params, wide), fg.tensor(raw, wide), 3)
    precision = np.finfo(dtype)
    # A mean of the least numbers there are is zero, which the quotient by eps makes visible.
    least = 10 * float(np.finfo(np.promote_types(dtype, "f")).tiny)
    for update, reference in zip(own, expected, strict=True):
        assert update.dtype == dtype
        with np.errstate(over="ignore", under="ignore"):
            rounded = np.asarray(reference).astype(dtype)
        assert_allclose(
            np.asarray(update).astype(wide),
            rounded.astype(wide),
            rtol=8 * max(float(precision.eps), 1e-15),
            atol=max(least, 4 * float(precision.smallest_subnormal)),
        )
    assert [leaf.dtype for leaf in pytrees.leaves(state)] == [
        leaf.dtype for leaf in pytrees.leaves(optimizer.init(fg.tensor(params)))
    ]


@every_pair
def test_greatest_gradients_give_no_nan(make, options, dtype):
    greatest = np.finfo(dtype).max / 8  # sums of a few of them are numbers still
    grads = fg.tensor(np.array([greatest, -greatest], dtype))
    with np.errstate(over="ignore"):  # their squares are infinite
        found, _ = stepped(make(1e-3, **options), fg.tensor(np.ones(2, dtype)), grads, 3)
    assert not any(np.isnan(np.asarray(update)).any() for update in found)


@pytest.mark.slow
@every_pair
def test_staged_steps_are_the_same(make, options, dtype):
    params, grads = fg.tensor(np.linspace(-1, 1, 14).astype(dtype)), fg.tensor(gradients(dtype))
    optimizer = make(1e-2, **options)
    eager, last = stepped(optimizer, params, grads, 3)
    staged, state = stepped(optimizer, params, grads, 3, fg.jit(optimizer.update))
    pairs = zip(pytrees.leaves((eager, last)), pytrees.leaves((staged, state)), strict=True)
    for first, second in pairs:
        assert first.dtype == second.dtype
        precision = float(np.finfo(first.dtype).eps) if first.dtype.kind in "fc" else 0.0
        assert_allclose(np.asarray(second), np.asarray(first), rtol=8 * precision, atol=1e-300)


@together("name", OPTIMIZERS)
def test_parameters_keep_half_precision_and_states_do_not(name):
    optimizer = OPTIMIZERS[name](1e-3)
    params = {"w": fg.tensor([1.0, 2.0], "float16")}
    updates, state = optimizer.update(params, optimizer.init(params), params)
    assert optim.apply_updates(params, updates)["w"].dtype == np.float16
    means = [leaf for leaf in pytrees.leaves(state) if leaf.dtype.kind == "f" and leaf.ndim]
    assert means
    assert all(leaf.dtype == np.float32 for leaf in means)
