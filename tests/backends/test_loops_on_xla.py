"""XLA takes the same steps on the way back, also where these depend on rounding errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import integrate
from tests.together import together

pytest.importorskip("jax")

DEVICE: Final = "xla:cpu:0"
pytestmark = pytest.mark.filterwarnings("ignore::funcgrad.errors.DeviceWarning")


def noisy(x: Any, steps: int = 40) -> Any:
    """A multiple of ``x`` that rounding errors choose: its slope is its value over ``x``."""

    def step(carry: Any) -> Any:
        k, y, z, total = carry
        z = fnp.sin(3.7 * z + 0.1 * y)
        noise = (x * z + 0.3) - 0.3 - x * z
        return k + 1, y + noise * 1e8, z, total + fnp.where(noise > 0, 1.0, 2.0) * x

    return fg.while_loop(lambda carry: carry[0] < steps, step, (0, 1.0, 0.4, 0.0 * x))[3]


def scanned(x: Any, **options: Any) -> Any:
    factors = fg.stop_gradient(fnp.stack([x, x / 5, x / 3, x / 7]))
    return fg.scan(lambda c, k: (c + noisy(x * (1 + k)), None), 0.0 * x, factors, **options)[0]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "a loop": noisy,
    "loops in a scan": scanned,
    "loops in a scan of scans": partial(scanned, checkpoint_every=2),
    "a checkpointed loop": fg.checkpoint(noisy),
}

FORMS: dict[str, Callable[[Callable[..., Any], float], Any]] = {
    "jit of grad": lambda f, x: fg.jit(fg.value_and_grad(f), backend="xla")(x),
    "grad of jit": lambda f, x: fg.value_and_grad(fg.jit(f, backend="xla"))(x),
    "on the device": lambda f, x: fg.value_and_grad(f)(fg.put(x, DEVICE)),
    "jit on the device": lambda f, x: fg.jit(fg.value_and_grad(f))(fg.put(x, DEVICE)),
    "grad of jit on the device": lambda f, x: fg.value_and_grad(fg.jit(f))(fg.put(x, DEVICE)),
    "a batch": lambda f, x: [
        rows[1] for rows in fg.jit(fg.vmap(fg.value_and_grad(f)), backend="xla")(np.array([0.5, x]))
    ],
    "forward mode": lambda f, x: fg.jit(lambda x: fg.jvp(f, (x,), (1.0,)), backend="xla")(x),
}


@together("form", FORMS)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n != "a loop" else []) for n in FUNCTIONS]
)
def test_the_way_back_takes_the_steps_of_the_value(name: str, form: str) -> None:
    x = 0.7312
    value, slope = FORMS[form](FUNCTIONS[name], x)
    np.testing.assert_allclose(float(slope), float(value) / x, rtol=1e-12)


def solved(a: Any, **options: Any) -> Any:
    """The line ``a t``; the estimated error of each step is a rounding error."""
    options = {"rtol": 1e-9, "atol": 1e-9, **options}
    start = fnp.stack([0.0 * a])
    return integrate.solve_ivp(
        lambda t, y: fnp.stack([a + 0.0 * y[0]]), (0.0, 3.5), start, **options
    )


def at_three(a: Any, **options: Any) -> Any:
    return solved(a, t_eval=np.array([3.0]), **options).y[0, 0]


def met(a: Any) -> Any:
    def event(t: Any, y: Any) -> Any:
        return y[0] - 2.0

    return solved(a, events=event, max_steps=64).t_events[0][0]


def line_of_odeint(a: Any) -> Any:
    return fg.odeint(lambda y, t: a + 0.0 * y, 0.0 * a, np.array([0.0, 3.0]), rtol=1e-13)[-1]


SOLVERS: dict[str, tuple[Callable[..., Any], Callable[[float], float]]] = {
    **{
        method: (partial(at_three, method=method), lambda a: 3.0)
        for method in ("Rodas5P", "RK45", "DOP853", "Radau", "BDF")
    },
    "dense output": (
        lambda a: solved(a, dense_output=True, max_steps=64).sol(3.0)[0],
        lambda a: 3.0,
    ),
    "an event": (met, lambda a: -2.0 / a**2),
    "odeint": (line_of_odeint, lambda a: 3.0),
    "quad": (lambda a: integrate.quad(lambda t: a + 0.0 * t, 0.0, 3.0)[0], lambda a: 3.0),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n != "Rodas5P" else []) for n in SOLVERS]
)
def test_gradients_where_errors_are_rounding_errors(name: str) -> None:
    f, slope = SOLVERS[name]
    a = 1.25
    backwards = fg.jit(fg.grad(f), backend="xla")(a)
    np.testing.assert_allclose(float(backwards), slope(a), rtol=1e-11)
    forwards = fg.jit(lambda a: fg.jvp(f, (a,), (1.0,))[1], backend="xla")(a)
    np.testing.assert_allclose(float(forwards), slope(a), rtol=1e-11)
    np.testing.assert_allclose(float(fg.grad(f)(fg.put(a, DEVICE))), slope(a), rtol=1e-11)
