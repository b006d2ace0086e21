"""The errors of the commonest mistakes name the mistake, and say what to write instead."""

from __future__ import annotations

import dataclasses
import traceback
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DifferentiationError, LeafError, TracerError, TreeError
from tests.together import together

# ------------------------------------------------------------- arrays that hold no traced value


def assigns_a_number(x: Any) -> Any:
    out = np.zeros(3)
    out[0] = x[0]
    return out.sum()


def assigns_a_row(x: Any) -> Any:
    out = np.zeros((2, 3))
    out[0] = x
    return out.sum()


def assigns_a_slice(x: Any) -> Any:
    out = np.zeros(3)
    out[:] = x
    return out.sum()


def makes_an_array(x: Any) -> Any:
    return np.array([x, x * x]).sum()


def makes_an_array_of_numbers(x: Any) -> Any:
    return np.array([x[0], 1.0, x[1]]).sum()


def fills_an_array(x: Any) -> Any:
    return np.full(3, x[0]).sum()


def takes_the_mean_of_a_list(x: Any) -> Any:
    return np.mean([x[0], x[1]])


HELD = (
    assigns_a_number,
    assigns_a_row,
    assigns_a_slice,
    makes_an_array,
    makes_an_array_of_numbers,
    fills_an_array,
    takes_the_mean_of_a_list,
)

TRANSFORMS: dict[str, Any] = {
    "grad": lambda f: fg.grad(f)(np.ones(3)),
    "jvp": lambda f: fg.jvp(f, (np.ones(3),), (np.ones(3),)),
    "vmap": lambda f: fg.vmap(f, branches=False)(np.ones((2, 3))),
    "vmap of grad": lambda f: fg.vmap(fg.grad(f))(np.ones((2, 3))),
    "jit of grad": lambda f: fg.jit(fg.grad(f))(np.ones(3)),
    "checkpoint": lambda f: fg.grad(fg.checkpoint(f))(np.ones(3)),
}


@together("transform", TRANSFORMS)
@together("f", HELD)
def test_an_array_that_is_to_hold_a_traced_value(f: Any, transform: str) -> None:
    with pytest.raises(TracerError) as caught:
        TRANSFORMS[transform](f)
    last = traceback.format_exception(caught.value)[-1]
    for words in ("fnp.stack", "fnp.full", ".at[i].set(t)"):
        assert words in last
    code = f.__code__
    lines = range(code.co_firstlineno + 1, code.co_firstlineno + 4)
    assert caught.value.line in [f"test_messages.py:{line}" for line in lines]


def test_what_the_words_say_works() -> None:
    def f(x: Any) -> Any:
        out = fnp.zeros(3)
        out = out.at[0].set(x[0])
        return (fnp.stack([x, out]) * fnp.full(3, x[1])).sum() + fnp.mean([x[0], x[1]])

    found = fg.grad(f)(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found, [4.5, 9.5, 2.0])


def test_a_users_own_error_about_a_tracer_is_the_users() -> None:
    def f(x: Any) -> Any:
        try:
            return float(x)
        except TracerError as error:
            raise ValueError("mine") from error

    with pytest.raises(ValueError, match=r"^mine$"):
        fg.grad(f)(1.0)


# --------------------------------------------------------------------------- the user's line


def test_the_line_is_the_users_with_numpy_between() -> None:
    def f(x: Any) -> Any:
        return np.vectorize(lambda v: v * v)(x).sum()

    with pytest.raises(TracerError) as caught:
        fg.grad(f)(np.ones(3))
    assert caught.value.line == f"test_messages.py:{f.__code__.co_firstlineno + 1}"


def test_the_line_is_the_users_with_scipy_between() -> None:
    stats = pytest.importorskip("scipy.stats")

    def f(x: Any) -> Any:
        return stats.norm.logpdf(x)

    with pytest.raises(TracerError) as caught:
        fg.grad(f)(2.0)
    assert caught.value.line == f"test_messages.py:{f.__code__.co_firstlineno + 1}"


# ----------------------------------------------------------------------- objects as parameters


class Plain:
    def __init__(self) -> None:
        self.weight = 1.0


@dataclasses.dataclass
class Mutable:
    weight: float


@together(
    ("parameters", "words"),
    [
        (Plain(), "Make Plain a pytree: @fg.pytree above a class"),
        (Mutable(1.0), "Write @fg.pytree instead of @dataclass above the class Mutable"),
        ("text", "Keep objects that are not arrays out of the tree"),
    ],
    ids=["plain", "dataclass", "text"],
)
@together("around", [lambda p: p, lambda p: {"a": [p]}], ids=["bare", "inside"])
def test_an_object_as_a_parameter(parameters: Any, words: str, around: Any) -> None:
    calls: dict[str, Any] = {
        "grad": lambda p: fg.grad(lambda p: 1.0)(p),
        "jit": lambda p: fg.jit(lambda p: 1.0)(p),
        "vmap": lambda p: fg.vmap(lambda p: 1.0)(p),
        "jvp": lambda p: fg.jvp(lambda p: 1.0, (p,), (p,)),
        "adam.init": lambda p: fg.optim.adam(1e-3).init(p),
        "adam.update": lambda p: fg.optim.adam(1e-3).update(
            p, fg.optim.adam(1e-3).init(around(1.0)), around(1.0)
        ),
    }
    for name, call in calls.items():
        with pytest.raises(LeafError) as caught:
            call(around(parameters))
        assert str(caught.value).startswith(name + ": ")
        assert words.lower() in str(caught.value).lower()


# ------------------------------------------------------------------------- optimizers, scalars


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_errors_of_optimizers_name_the_operation(name: str) -> None:
    optimizer = getattr(fg.optim, name)(1e-3)
    params = {"a": np.ones(2)}
    state = optimizer.init(params)
    with pytest.raises(TreeError, match=rf"^{name}\.update: grads: expected a dict with keys"):
        optimizer.update({"b": np.ones(2)}, state, params)
    with pytest.raises(TreeError, match=r"^apply_updates: updates: expected a dict with keys"):
        fg.optim.apply_updates(params, {"b": np.ones(2)})


@together("f", [lambda x: x, lambda x: (x, x), lambda x: None, lambda x: "text"])
@together("transform", [fg.grad, fg.value_and_grad])
def test_what_is_not_a_scalar_is_called_so(transform: Any, f: Any) -> None:
    with pytest.raises(DifferentiationError, match=r"has to return one number, .*not a scalar"):
        transform(f)(np.ones(3))
