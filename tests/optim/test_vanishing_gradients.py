"""Derivatives of steps of optimizers where gradients are 0, as of unused rows and dead units."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optim
from tests.optim.subjects import CHANGES, RULES, WRAPPED, named
from tests.together import together


def _of_adam(wrap: Callable[..., Any]) -> Any:
    return wrap(optim.adam(0.01))


def _then_sgd(change: Callable[[], Any]) -> Any:
    return optim.chain(change(), optim.sgd(0.1))


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    **{name: partial(make, 0.01) for name, make in RULES.items()},
    **{f"{name} of adam": partial(_of_adam, wrap) for name, wrap in WRAPPED.items()},
    **{f"{name}, then sgd": partial(_then_sgd, change) for name, change in CHANGES.items()},
    "adam with amsgrad": lambda: optim.adam(0.01, amsgrad=True),
    "adabelief without eps_root": lambda: optim.adabelief(0.01, eps_root=0.0),
    "rmsprop as PyTorch's": lambda: optim.rmsprop(0.01, eps_in_sqrt=False, centered=True),
    "adadelta without eps": lambda: optim.adadelta(1.0, eps=1e-300),
}
# The fifth mean square of gradients is the first by which radam divides.
STEPS = 6


@together("name", OPTIMIZERS)
def test_steps_have_derivatives_where_a_gradient_is_zero(name: str) -> None:
    optimizer = OPTIMIZERS[name]()
    start = {"w": fg.tensor([[1.0, 2.0], [0.5, -1.0]]), "b": fg.tensor([0.0, 0.0])}

    def trained(t: Any) -> Any:
        def loss(p: Any) -> Any:  # the second row is not used, and b is where its gradient is 0
            return t * (fnp.sum(p["w"][0] ** 2) + fnp.sum(p["b"] ** 2)) + fnp.sum(0 * p["w"][1])

        params, state = start, optimizer.init(start)
        for _ in range(STEPS):
            chosen = named(optimizer, loss, params)
            params, state = optimizer.step(fg.grad(loss)(params), state, params, **chosen)
        return fnp.sum(params["w"][0] ** 2) + fnp.sum(params["w"]) + fnp.sum(params["b"])

    expected = (trained(1 + 1e-5) - trained(1 - 1e-5)) / 2e-5
    for slope in (fg.grad(trained)(1.0), fg.jvp(trained, (1.0,), (1.0,))[1]):
        assert_allclose(slope, expected, rtol=1e-3, atol=1e-6)


@together("make", [optim.adam, optim.adamw, optim.nadam, optim.radam, optim.lamb])
@together("dtype", ["float32", "float64"])
def test_a_step_by_its_gradient_at_zero(make: Any, dtype: str) -> None:
    optimizer = make(0.1, eps=1e-3)

    def after(g: Any) -> Any:
        params = fg.tensor(np.array([1.0, 2.0], g.dtype))
        state = optimizer.init(params)
        for _ in range(STEPS):
            params, state = optimizer.step(g, state, params)
        return params

    zero = fg.tensor(np.array([0.0, 1.0], dtype))
    step = np.array([1e-6, 0.0])  # float64, as the differences are then
    expected = (after(zero + step) - after(zero - step)) / 2e-6
    forwards, backwards = fg.jacfwd(after)(zero), fg.jacrev(after)(zero)
    assert_allclose(forwards[:, 0], expected, rtol=2e-2, atol=1e-3)
    assert_allclose(forwards, backwards, rtol=1e-4, atol=1e-6)
    assert_allclose(fg.jit(fg.jacfwd(after))(zero), forwards, rtol=1e-4, atol=1e-6)
