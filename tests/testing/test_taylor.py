"""``laws.taylor`` has no false verdict on smooth functions of any scale, and names wrong orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import CheckError
from funcgrad.testing.laws import taylor
from tests.together import together

SMOOTH: dict[str, Any] = {
    "sin": fnp.sin,
    "exp": fnp.exp,
    "tanh": fnp.tanh,
    "cube": lambda x: x**3,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "log": lambda x: fnp.log(abs(x)),
    "root": lambda x: fnp.sqrt(abs(x)),
    "identity": lambda x: x,
    "constant": lambda x: 0 * x + 3,
    "oscillation": lambda x: fnp.sin(1000 * x),
    "bell": lambda x: fnp.exp(-x * x),
    "cancellation": lambda x: (x + 1e8) - 1e8,
    "small beside large": lambda x: fnp.exp(x) - fnp.exp(x) + x,
    "versine": lambda x: 1 - fnp.cos(x),
    "nearly a kink": lambda x: fnp.sqrt(x * x + 1e-16),
    "fifth power": lambda x: (x - 1) ** 5,
    "expanded fifth power": lambda x: x**5 - 5 * x**4 + 10 * x**3 - 10 * x**2 + 5 * x - 1,
    "softmax": fg.nn.softmax,
    "dot": lambda x: x @ x,
    "of many scales": lambda x: (x * 1e-100, fnp.sum(x) * 1e50),
}
SCALES = (1e-100, 1e-30, 1e-8, 1e-3, 1.0, 10.0, 1e5, 1e20, 1e100)


def point_of(scale: float, seed: int) -> fg.Tensor:
    rng = np.random.default_rng(seed)
    return fg.tensor(rng.uniform(0.3, 2, 3) * rng.choice([-1, 1], 3) * scale)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_of_every_scale_pass(name):
    for scale in SCALES:
        for seed in range(2):
            taylor(SMOOTH[name], (point_of(scale, seed),), seed=seed)
    for dtype in ("float32", "float16"):
        taylor(SMOOTH[name], (point_of(1.0, 0).astype(dtype),))


def wrong_in_first(f: Any, factor: float) -> Any:
    wrong = fg.custom_jvp(f)
    wrong.defjvp(lambda primals, tangents: (f(*primals), factor * fg.jvp(f, primals, tangents)[1]))
    return wrong


def wrong_in_second(f: Any, factor: float) -> Any:
    """The first derivative is right; the derivative of its rule in x is off by a factor."""

    def slope(x, v):
        return fg.jvp(f, (x,), (v,))[1]

    rule = fg.custom_jvp(slope)

    @rule.defjvp
    def _(primals, tangents):
        (x, v), (dx, dv) = primals, tangents
        return slope(x, v), factor * fg.jvp(lambda x: slope(x, v), (x,), (dx,))[1] + slope(x, dv)

    wrong = fg.custom_jvp(f)
    wrong.defjvp(lambda primals, tangents: (f(*primals), rule(primals[0], tangents[0])))
    return wrong


@pytest.mark.slow
@together("name", ["sin", "exp", "tanh", "cube", "square", "reciprocal", "log"])
@together("factor", [-1, 2, 1.01, 1.0001, 1 + 1e-6])
def test_a_first_derivative_that_is_off_by_little_is_found(name, factor):
    for scale in (1e-8, 1.0):
        point = abs(point_of(scale, 0))
        with pytest.raises(CheckError, match=r"is wrong for .* \(order 1\)"):
            taylor(wrong_in_first(SMOOTH[name], factor), (point,))


@pytest.mark.parametrize("scale", [1e-100, 1e20, 1e100])
def test_they_are_found_at_extreme_scales(scale):
    with pytest.raises(CheckError, match="order 1"):
        taylor(wrong_in_first(lambda x: x * fnp.log(abs(x)), 1.001), (point_of(scale, 0),))


@together("name", ["sin", "exp", "tanh", "cube", "square", "reciprocal", "log"])
@together("factor", [1.1, -1, 2], quick=1)
def test_a_wrong_second_derivative_is_told_from_a_wrong_first(name, factor):
    point = abs(point_of(1.0, 0))
    wrong = wrong_in_second(SMOOTH[name], factor)
    with pytest.raises(CheckError, match=r"\(order 2\).* like h\^2\.[0-9]+, not like h\^3"):
        taylor(wrong, (point,))
    taylor(wrong, (point,), order=1)


def test_a_mistake_in_reverse_mode_alone_is_found():
    halved = fg.custom_vjp(lambda x: fnp.sin(x))
    halved.defvjp(lambda x: (fnp.sin(x), x), lambda x, ct: (0.5 * ct * fnp.cos(x),))
    with pytest.raises(CheckError, match="order 1"):
        taylor(halved, (0.5,))


def complex_rule(value, slope):
    """A function of complex numbers whose rule is ``slope``, which is linear in the tangent."""
    f = fg.custom_jvp(value)
    f.defjvp(lambda primals, tangents: (value(*primals), slope(*primals, *tangents)))
    return f


def squared_length(z):
    return fnp.sum(fnp.real(z) ** 2 + fnp.imag(z) ** 2)


WRONG_COMPLEX = {
    "without the conjugate": (squared_length, lambda z, t: 2 * fnp.sum(fnp.real(z * t))),
    "real part alone": (squared_length, lambda z, t: 2 * fnp.sum(fnp.real(z) * fnp.real(t))),
    "imaginary part alone": (squared_length, lambda z, t: 2 * fnp.sum(z.imag * t.imag)),
    "a conjugate too many": (lambda z: z * z, lambda z, t: 2 * z * fnp.conj(t)),
    "turned": (lambda z: z * z, lambda z, t: 2j * z * t),
    "a neighbour's": (squared_length, lambda z, t: 2 * fnp.sum(z.real * t.imag + z.imag * t.real)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG_COMPLEX)
def test_wrong_rules_of_complex_functions_are_found_at_every_size(name):
    value, slope = WRONG_COMPLEX[name]
    for size in (1, 2, 3, 5, 9):
        rng = np.random.default_rng(size)
        for z in (np.zeros(size, complex), rng.normal(size=size) + 1j * rng.normal(size=size)):
            with pytest.raises(CheckError, match="is wrong"):
                taylor(complex_rule(value, slope), (z,))
            right = complex_rule(value, lambda z, t, value=value: fg.jvp(value, (z,), (t,))[1])
            taylor(right, (z,))


def test_mistakes_that_are_opposite_in_two_elements_do_not_cancel():
    swapped = fg.custom_jvp(lambda x: fnp.sum(x * x))
    swapped.defjvp(lambda p, t: (swapped(*p), 2 * fnp.sum(p[0][::-1] * t[0])))
    for seed in range(12):
        with pytest.raises(CheckError, match="order 1"):
            taylor(swapped, (fg.tensor([1.0, 1.5]),), seed=seed)


def test_steps_that_leave_the_domain_are_no_failure():
    spd = fg.tensor([[2.0, 0.5], [0.5, 1.0]])
    taylor(lambda a: fnp.linalg.cholesky((a + a.T) / 2), (spd,))
    taylor(fnp.log, (1e-12,))
    taylor(fnp.arcsin, (1 - 1e-9,))


def test_a_kink_that_is_farther_than_the_last_steps_does_no_harm():
    taylor(lambda x: abs(x - 0.5), (fg.tensor([0.5 + 1e-3, -2.0]),))
    relu = fg.nn.relu
    taylor(lambda x: 5 * relu(x - 0.05) - 4 * relu(x - 0.0625), (0.0,))  # x from 1/16 on
    taylor(lambda x: x * x + 5 * relu(x - 0.05) - 4 * relu(x - 0.0625), (0.0,))
