"""Arrays whose small last axes come apart give what they give together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.small_axes import small_axes_apart
from funcgrad._core.trace import concrete
from tests.backends.native.test_native import assert_same
from tests.together import together

DRAWS = np.random.default_rng(5)
POINTS, OTHERS = DRAWS.standard_normal((2, 100, 3))
TURNS = DRAWS.standard_normal((100, 4))
STACK, MATRICES = DRAWS.standard_normal((20, 100, 3)), DRAWS.standard_normal((100, 2, 3))
CORNERS = DRAWS.integers(100, size=(150, 3))
SPEEDS = np.array([0.5, -1.0, 2.0])


def turned(q: Any, x: Any) -> Any:
    """Points turned by quaternions."""
    q = q / fnp.sqrt(fnp.sum(q * q, axis=-1, keepdims=True))
    t = 2.0 * fnp.cross(q[:, :3], x)
    return x + q[:, 3:] * t + fnp.cross(q[:, :3], t)


def pulled(x: Any) -> Any:
    """The pull of all points on one another."""
    apart = x[:, None] - x
    return fnp.sum(apart / (fnp.sum(apart**2, axis=2, keepdims=True) + 0.1) ** 1.5, axis=0)


def area(x: Any) -> Any:
    """The area of triangles between points."""
    a, b, c = [x[CORNERS[:, k]] for k in range(3)]
    return fnp.sum(fnp.sqrt(fnp.sum(fnp.cross(b - a, c - a) ** 2, axis=1) + 1e-3))


def coloured(x: Any) -> Any:
    """Shares of three colours, the greatest and the least."""
    top, low = fnp.max(x, axis=-1, keepdims=True), fnp.min(x, axis=-1, keepdims=True)
    return fnp.concatenate([(x - low) / (top - low + 1.0), top, low[::-1]], axis=-1)


def moved(x: Any, y: Any) -> Any:
    """Rows in other orders, with zeros, and as other shapes."""
    pairs = fnp.stack([x[:, ::-1] * x[:, :1], fnp.roll(y, 1, axis=1)], axis=1)
    wide = fnp.pad(x, ((0, 0), (1, 2))) * y[:, 1:2]
    flat = (pairs.reshape(100, 6) + wide).reshape(100, 3, 2)
    return flat, fnp.swapaxes(flat, 1, 2) * x[:, None], fnp.sum(flat, axis=(0, 2))


def multiplied(x: Any, m: Any) -> Any:
    """Products with a matrix of each point, and of stacks of points with the same ones."""
    y = fnp.einsum("nij,nj->ni", m, x) * fnp.sum(m, axis=2)
    return y, fnp.einsum("nj,anj->an", x, STACK * SPEEDS)


def compared(x: Any, k: Any) -> Any:
    """Integers and truth values beside numbers."""
    return fnp.where(k % 2 == 0, x, k[:, :1]) * SPEEDS, fnp.any(k > 2, axis=1, keepdims=True) & (
        k < 5
    )


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "turned": (turned, (TURNS, POINTS)),
    "turned, float32": (turned, (TURNS.astype("f"), POINTS.astype("f"))),
    "turned, gradient": (fg.grad(lambda q, x: fnp.sum(turned(q, x) ** 3), (0, 1)), (TURNS, POINTS)),
    "pulled": (pulled, (POINTS,)),
    "pulled, tangent": (lambda x, v: fg.jvp(pulled, (x,), (v,)), (POINTS, OTHERS)),
    "area, gradient": (fg.grad(area), (POINTS,)),
    "area, gradients of a batch": (fg.vmap(fg.grad(area)), (STACK,)),
    "coloured": (coloured, (POINTS,)),
    "moved": (moved, (POINTS, OTHERS)),
    "multiplied": (multiplied, (POINTS, MATRICES)),
    "compared": (compared, (POINTS, DRAWS.integers(9, size=(100, 3)))),
    "Jacobians": (fg.vmap(fg.jacrev(lambda x: fnp.cross(x, SPEEDS) * fnp.sum(x * x))), (POINTS,)),
    "complex": (
        lambda x: fnp.cross(x * (1 + 2j), x[::-1]) / fnp.sum(x, 1, keepdims=True),
        (POINTS,),
    ),
}


def taken_apart(f: Callable[..., Any], *args: Any) -> bool:
    program = fg.program(f)(*args)
    taken = small_axes_apart(program).verify()
    assert (taken.names, taken.arguments, taken.result) == (
        program.names,
        program.arguments,
        program.result,
    )
    values = [concrete(leaf) for leaf in fg.tree.leaves((args, {}))]
    pairs = zip(program.evaluate(values), taken.evaluate(values), strict=True)
    for expected, actual in [(np.asarray(one), np.asarray(other)) for one, other in pairs]:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        close = 1e-4 if expected.dtype == np.float32 else 1e-12
        size = float(np.max(np.abs(expected)))
        np.testing.assert_allclose(actual, expected, rtol=close, atol=close * size)
    return taken is not program


@together("name", PROGRAMS)
def test_results_are_the_same_apart(name: str) -> None:
    f, args = PROGRAMS[name]
    taken_apart(f, *args)
    assert_same(f, *args)


@pytest.mark.parametrize("name", ["turned", "area, gradient", "coloured", "moved"])
def test_what_pays_comes_apart(name: str) -> None:
    f, args = PROGRAMS[name]
    assert taken_apart(f, *args)


def test_what_is_one_loop_stays_together() -> None:
    assert not taken_apart(lambda x, y: x * y + fnp.exp(x), POINTS, OTHERS)
    assert not taken_apart(lambda x: fnp.sum(x - fnp.mean(x, axis=(1, 2), keepdims=True)), STACK)
    assert not taken_apart(lambda x: x * fnp.sum(x, axis=1, keepdims=True), POINTS[:20])
