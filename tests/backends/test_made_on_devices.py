"""Arrays that functions of funcgrad make for themselves are on the device of the arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DeviceError
from tests.backends.fake_device import FakeDevice
from tests.together import together

X = np.array([0.5, 1.25, 2.0])


def _by_lbfgs(x: Any, staged: bool) -> Any:
    rule: Any = fg.optim.lbfgs()
    target = x + 1.0

    def loss(p: Any) -> Any:
        return fnp.sum((p - target) ** 4)

    def step(p: Any, state: Any) -> Any:
        value, slope = fg.value_and_grad(loss)(p)
        updates, state = rule.update(slope, state, p, value=value, objective=loss)
        return fg.optim.apply_updates(p, updates), state

    run, p, state = fg.jit(step) if staged else step, x, rule.init(x)
    for _ in range(3):
        p, state = run(p, state)
    return p, state.memory


def _carried(x: Any) -> Any:
    draw = fg.nn.GRUCell.init(fg.random.key(1), 3, 2)
    cell = fg.put(draw, x.device)
    carry = cell.carry((1,))
    return carry, cell(carry, x[None])


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "lbfgs": lambda x: _by_lbfgs(x, False),
    "lbfgs, staged": lambda x: _by_lbfgs(x, True),
    "carry": _carried,
    "weights of a density": lambda x: fg.scipy.stats.gaussian_kde(x)(x),
    "lists of coefficients": lambda x: (
        fnp.polynomial.legendre.legval(x, [1.0, 2.0, 3.0]),
        fnp.polynomial.chebyshev.chebval(x, [[1.0, 2.0], [0.5, 3.0]]),
        fnp.polynomial.polynomial.polyval(x, [1.0]),
    ),
}


@together("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_results_are_on_the_device_and_as_on_the_host(f: Callable[[Any], Any]) -> None:
    device = FakeDevice("fake:made")
    expected, leaves = fg.tree.leaves(f(fg.tensor(X))), fg.tree.leaves(f(fg.put(X, device)))
    for leaf, wanted in zip(leaves, expected, strict=True):
        assert leaf.device == device.name
        np.testing.assert_allclose(leaf, wanted, 1e-9, 1e-12)


def test_arrays_of_coefficients_are_not_copied_silently() -> None:
    x = fg.put(X, FakeDevice("fake:coefficients"))
    with pytest.raises(DeviceError, match="on the host"):
        fnp.polynomial.legendre.legval(x, X)
