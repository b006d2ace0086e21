"""One function in the words of funcgrad and of another library, and losses of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp


def written_in(library: Any) -> Callable[..., Any]:
    """A function of a tree and an array, with several results, one of which is an integer."""

    def function(p: Any, x: Any) -> Any:
        y = library.sin(p["a"] * x)
        return {"y": y, "s": (p["a"] * x**3).sum(), "n": library.argmax(x)}

    return function


OURS = written_in(fnp)
P = {"a": fg.tensor(1.5)}
X = fg.tensor([0.3, 1.0, 2.0])
ROWS = np.array([[0.3, 1.0, 2.0], [1.0, -1.0, 0.5]])


def loss(f: Any) -> Callable[..., Any]:
    def value(p: Any, x: Any) -> Any:
        out = f(p, x)
        return (out["y"] ** 2).sum() + out["s"] * p["a"]

    return value


LIFTED: dict[str, Any] = {
    "value": lambda f: f(P, X),
    "gradient": lambda f: fg.grad(loss(f), argnums=(0, 1))(P, X),
    "jvp": lambda f: fg.jvp(loss(f), (P, X), (P, X))[1],
    "jit of gradient": lambda f: fg.jit(fg.grad(loss(f)))(P, X),
    "gradient of jit": lambda f: fg.grad(loss(fg.jit(f)))(P, X),
    "Hessian": lambda f: fg.jit(fg.hessian(loss(f), argnums=1))(P, X),
    "reverse twice": lambda f: fg.jacrev(fg.grad(loss(f), argnums=1), argnums=1)(P, X),
    "batch of gradients": lambda f: fg.vmap(fg.grad(loss(f)), in_axes=(None, 0))(P, ROWS),
    "gradient of a batch": lambda f: fg.grad(
        lambda p: fnp.sum(fg.vmap(loss(f), in_axes=(None, 0))(p, ROWS))
    )(P),
}
"""What is done with a lifted function."""


def check_lifted(f: Any) -> None:
    for name, mode in LIFTED.items():
        try:
            fg.testing.assert_trees_close(mode(f), mode(OURS), rtol=1e-10, atol=1e-12)
        except Exception as error:
            raise AssertionError(f"{name}: {error}") from error


def cube(z: Any) -> Any:
    """A function that is not analytic, so the convention for complex gradients counts."""
    return z * z * z.conj()


def check_complex(lifted: Any) -> None:
    z = fg.tensor([1.0 + 2.0j, -0.5j])

    def value(f: Any) -> Any:
        return lambda z: fnp.sum(fnp.real(f(z)) * fnp.imag(z))

    fg.testing.assert_trees_close(fg.grad(value(lifted))(z), fg.grad(value(cube))(z), rtol=1e-12)
    ours, theirs = [fg.jvp(value(f), (z,), (z * 1j,)) for f in (cube, lifted)]
    fg.testing.assert_trees_close(theirs, ours, rtol=1e-12)
