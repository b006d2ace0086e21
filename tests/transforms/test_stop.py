"""stop_gradient: what a user may rely on."""

from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together
from tests.transforms.support import Point, assert_same, numbers


def test_it_is_the_identity_on_values() -> None:
    x = numbers(3)
    out = fg.stop_gradient({"a": x, "b": Point(1.0, None), "c": [True, 3]})
    assert_same(out, {"a": x, "b": Point(1.0, None), "c": [True, 3]})


@together("dtype", ["?", "b", "l", "e", "f", "d", "F", "D"])
def test_every_dtype(dtype: str) -> None:
    x = np.arange(3).astype(dtype)
    assert_same(fg.stop_gradient(x), x)


def derivatives(f: Any, x: Any) -> list[Any]:
    return [
        fg.grad(f)(x),
        fg.jvp(f, (x,), (1.0,))[1],
        fg.linearize(f, x)[1](1.0),
        fg.jacfwd(f)(x),
        fg.vmap(fg.grad(f))(fg.tensor([x]))[0],
        fg.grad(lambda x: fg.checkpoint(f)(x))(x),
    ]


def test_every_derivative_takes_it_for_a_constant() -> None:
    for found in derivatives(lambda x: x * fg.stop_gradient(x * x), 3.0):
        assert_same(found, 9.0)


def test_it_stops_all_orders() -> None:
    f = fg.grad(lambda x: fg.stop_gradient(x) * x**2)  # 2 c x
    for found in derivatives(f, 3.0):
        assert_same(found, 6.0)


def test_it_stops_outer_tracers_too() -> None:
    def f(x):
        return fg.grad(lambda y: y * fg.stop_gradient(x) * x)(x)

    assert_same(fg.grad(f)(3.0), 3.0)


def test_inside_a_gradient_it_gives_an_ordinary_tensor() -> None:
    kept = []

    def f(x):
        kept.append(fg.stop_gradient(x))
        return x * float(kept[-1])

    assert_same(fg.grad(f)(3.0), 3.0)
    assert_same(kept[0] + 1, 4.0)


def test_inside_vmap_it_stays_one_example() -> None:
    x = numbers(3)
    assert_same(fg.vmap(lambda v: v - fg.stop_gradient(fnp.sin(v)))(x), x - np.sin(x))
