"""Functions of funcgrad in JAX, and JAX's in funcgrad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors, interop
from tests.interop.functions import (
    OURS,
    ROWS,
    X,
    check_complex,
    check_lifted,
    cube,
    loss,
    written_in,
)

jax: Any = pytest.importorskip("jax")

Y = np.array(X)


def of_arrays(f: Any) -> Any:
    return lambda a, x: loss(f)({"a": a}, x)


MODES: dict[str, Any] = {
    "value": lambda f: f({"a": 1.5}, Y),
    "jit": lambda f: jax.jit(f)({"a": 1.5}, Y),
    "grad": lambda f: jax.grad(of_arrays(f), argnums=(0, 1))(1.5, Y),
    "jit of grad": lambda f: jax.jit(jax.grad(of_arrays(f), argnums=(0, 1)))(1.5, Y),
    "jvp": lambda f: jax.jvp(of_arrays(f), (1.5, Y), (1.5, Y)),
    "linearize": lambda f: jax.linearize(lambda x: of_arrays(f)(1.5, x), Y)[1](Y),
    "hessian": lambda f: jax.hessian(of_arrays(f), argnums=1)(1.5, Y),
    "forward twice": lambda f: jax.jacfwd(jax.jacfwd(of_arrays(f), argnums=1), argnums=1)(1.5, Y),
    "reverse twice": lambda f: jax.jacrev(jax.jacrev(of_arrays(f), argnums=1), argnums=1)(1.5, Y),
    "vmap": lambda f: jax.vmap(of_arrays(f), in_axes=(None, 1))(1.5, ROWS.T),
    "jit of vmap of grad": lambda f: jax.jit(jax.vmap(jax.grad(of_arrays(f)), in_axes=(None, 0)))(
        1.5, ROWS
    ),
    "grad of vmap": lambda f: jax.grad(
        lambda a: jax.vmap(of_arrays(f), in_axes=(None, 0))(a, ROWS).sum()
    )(1.5),
    "scan": lambda f: jax.grad(
        lambda x: jax.lax.scan(lambda c, _: (f({"a": 1.5}, c)["y"], None), x, None, length=3)[
            0
        ].sum()
    )(jax.numpy.asarray(Y)),
}


@pytest.mark.parametrize("mode", MODES)
def test_wrapped(mode: str) -> None:
    with jax.enable_x64(True):
        actual = MODES[mode](interop.jax.wrap(OURS))
        expected = MODES[mode](written_in(jax.numpy))
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10), actual, expected)


def test_complex_numbers() -> None:
    z = np.array([1.0 + 2.0j, -0.5j])
    with jax.enable_x64(True):
        for f in (interop.jax.wrap(cube), cube):
            gradient = jax.grad(lambda z, f=f: (f(z).real * z.imag).sum())(jax.numpy.asarray(z))
            np.testing.assert_allclose(gradient, [14.0 - 13.0j, -0.125], rtol=1e-12)
    check_complex(interop.jax.lift(cube))


def test_without_float64_there_is_float32() -> None:
    f = interop.jax.wrap(lambda x: fnp.sum(x * fnp.arange(3.0)))
    with jax.enable_x64(False):
        gradient = jax.grad(f)(jax.numpy.ones(3))
        assert gradient.dtype == f(jax.numpy.ones(3)).dtype == np.float32
    assert gradient.tolist() == [0.0, 1.0, 2.0]


def test_a_function_may_put_arrays_on_a_device_of_xla() -> None:
    f = interop.jax.wrap(lambda x: fnp.sum(fnp.arange(3.0, device="xla:cpu:0") + 1.0) * x)
    assert float(jax.jit(jax.grad(f))(2.0)) == 6.0


@pytest.mark.parametrize("wide", [False, True])
def test_lifted(wide: bool) -> None:
    with jax.enable_x64(wide):
        check_lifted(interop.jax.lift(written_in(jax.numpy)))
        assert jax.numpy.ones(2).dtype == (np.float64 if wide else np.float32)


def test_lifted_in_wrapped() -> None:
    with jax.enable_x64(True):
        f = interop.jax.wrap(fg.grad(interop.jax.lift(jax.scipy.special.erf)))
        actual, expected = [jax.grad(g)(0.5) for g in (f, jax.grad(jax.scipy.special.erf))]
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_mistakes() -> None:
    for make in (interop.jax.wrap, interop.jax.lift):
        with pytest.raises(errors.FunctionError, match="expected a function"):
            make(3.0)  # type: ignore[arg-type]
