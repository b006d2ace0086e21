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


@fg.custom_vjp
def _two(x: Any) -> Any:
    return 2 * x, x**2


def _backward(x: Any, cts: Any) -> Any:
    return (2 * cts[0] + 2 * x * cts[1],)


_two.defvjp(lambda x: ((2 * x, x**2), x), _backward)


def _one_used(x: Any, y: Any) -> Any:
    return x**2, fnp.floor(y)


def _marked(x: Any) -> Any:
    fg.probe(2 * x, "unused")
    return fnp.sum(x)


ZEROS: dict[str, Callable[[Any], Any]] = {
    "pullback": lambda x: fg.vjp(lambda x, y: 2 * x, x, x)[1](x),
    "pullback of a batch": lambda x: fg.vmap(fg.vjp(lambda x, y: 2 * x, x, x)[1])(x * x[:, None]),
    "pushforward": lambda x: fg.linearize(_one_used, x, x)[1](x, x),
    "jacrev": lambda x: fg.jacrev(_one_used, (0, 1))(x, x),
    "hessian": lambda x: fg.hessian(lambda x, y: fnp.sum(x**2 + y), (0, 1))(x, x),
    "jacobians in parts": lambda x: [
        jacobian(_one_used, (0, 1), batch_size=2)(x, x) for jacobian in (fg.jacfwd, fg.jacrev)
    ],
    "custom_vjp": lambda x: (
        fg.grad(lambda x: fnp.sum(_two(x)[1]))(x),
        fg.jvp(_two, (x,), (x,)),
        fg.vmap(fg.grad(lambda x: _two(x)[1]))(x),
    ),
    "probe": lambda x: fg.grad(_marked, probes=("unused",))(x),
}
"""Derivatives that are zero, whose memory no operation on the arguments makes."""

POSITIONS: dict[str, Callable[[Any], Any]] = {
    "unique": lambda x: fnp.unique(x, True, True, True),
    "unique_all": lambda x: (fnp.unique_all(x), fnp.unique_counts(x), fnp.unique_inverse(x)),
    "intersect1d": lambda x: fnp.intersect1d(x, x, return_indices=True),
    "nonzero": lambda x: (fnp.nonzero(x), fnp.argwhere(x), fnp.flatnonzero(x), fnp.where(x > 1)),
    "bincount": lambda x: fnp.bincount(fnp.astype(x, int)),
}


def _times(x: Any) -> Any:
    at = [0.5, 1.0]
    sol = fg.integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), x, t_eval=at)
    key = fg.put(fg.random.key(0), x.device)
    noisy = fg.integrate.solve_sde(
        lambda t, y: -y, lambda t, y: y, (0.0, 1.0), x, key, steps=4, t_eval=at
    )
    return sol.t, sol.y, noisy.t, noisy.y


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "times": _times,
    **ZEROS,
    **POSITIONS,
    "several arrays": lambda x: (
        fnp.broadcast_arrays(2.0, x),
        fnp.meshgrid([1, 2], x, 3.0),
        fnp.polydiv([1.0, 2.0], x),
    ),
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


def test_arrays_of_the_host_are_not_copied_silently() -> None:
    x = fg.put(X, FakeDevice("fake:refused"))
    for f in (fnp.polynomial.legendre.legval, fnp.broadcast_arrays, fnp.meshgrid):
        with pytest.raises(DeviceError, match=f"{f.__name__}.*on the host"):
            f(x, X)


LOOKS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "cond": (1, lambda x: fg.cond(x[0] > 0, fnp.sin, fnp.cos, x)),
    "switch": (1, lambda x: fg.switch(fnp.argmax(x), [fnp.sin, fnp.cos], x)),
    "while_loop": (4, lambda x: fg.while_loop(lambda x: x[0] < 4, lambda x: 2 * x, x)),
    "fori_loop": (1, lambda x: fg.fori_loop(0, fnp.argmax(x), lambda i, x: x + i, x)),
    "if of a batch": (2, lambda x: fg.vmap(lambda x: fnp.sin(x) if x > 1 else 2 * x)(x)),
}
"""With how often numbers are copied to the host: once for each decision."""


@together("name", LOOKS)
def test_a_decision_copies_once(name: str) -> None:
    device = FakeDevice(f"fake:looks {name}")
    x, (count, f) = fg.put(X, device), LOOKS[name]
    result = f(x)
    assert device.counts.gets == count
    np.testing.assert_allclose(result, f(fg.tensor(X)), 1e-12)
