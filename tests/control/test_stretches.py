"""Compiled, the way back through a loop takes many steps at once, and is what steps are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.backends.numpy.prepare import prepared
from funcgrad.control.stretches import LENGTH
from tests.control.nests import held_back

COUNTS = [0, 1, LENGTH - 1, LENGTH, LENGTH + 1, 3 * LENGTH + 2]


def loop(step: Callable[[Any, Any], Any], **options: Any) -> Callable[..., Any]:
    """A loop of a number of steps that is an argument."""

    def f(x: Any, count: Any) -> Any:
        return fnp.sum(
            fg.while_loop(
                lambda c: c[0] < count, lambda c: (c[0] + 1, step(c[1], x)), (0, x), **options
            )[1]
        )

    return f


LOOPS = {
    "numbers": (loop(lambda c, x: fnp.sin(c) * x + 0.1), 0.9),
    "Python's numbers": (loop(lambda c, x: 0.9 * c * x + 0.1), 0.9),
    "arrays": (loop(lambda c, x: fnp.tanh(c) * x[::-1] + 0.1 * c), fg.tensor([0.9, 0.4])),
    "single precision": (
        loop(lambda c, x: fnp.sin(c) * x + 0.1),
        fnp.asarray(0.9, dtype="float32"),
    ),
    "complex": (loop(lambda c, x: abs(fnp.sin(c * 1j)) * x), 0.9),
    "a loop inside": (
        loop(lambda c, x: fg.while_loop(lambda y: y < 2.0, lambda y: 1.3 * y + abs(c), x)),
        fg.tensor(0.9),
    ),
    "a rule": (loop(lambda c, x: held_back(c) * x + 0.1), fg.tensor([0.9, 0.4])),
    "few states": (loop(lambda c, x: fnp.sin(c) * x + 0.1, checkpoints=3), 0.9),
}

ORDERS: dict[str, Callable[[Any], Any]] = {
    "reverse": fg.jacrev,
    "forward over reverse": lambda f: fg.jacfwd(fg.jacrev(f)),
    "reverse over reverse": lambda f: fg.jacrev(fg.jacrev(f)),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", LOOPS)
def test_stretches_are_what_steps_are(name: str, order: str) -> None:
    f, x = LOOPS[name]
    transformed = ORDERS[order](f)
    staged = fg.jit(transformed)
    precision = 1e-4 if name == "single precision" else 1e-9
    for count in COUNTS:
        expected, found = transformed(x, count), staged(x, count)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=precision, atol=1e-12, err_msg=str(count))


def test_a_batch_goes_in_stretches() -> None:
    f, _ = LOOPS["numbers"]
    xs, counts = fnp.linspace(0.5, 0.9, 4), fg.tensor([0, 3, LENGTH + 2, 2 * LENGTH])
    expected = [float(fg.grad(f)(x, count)) for x, count in zip(xs, counts, strict=True)]
    np.testing.assert_allclose(fg.jit(fg.vmap(fg.grad(f)))(xs, counts), expected, rtol=1e-10)


def test_a_compiler_is_given_the_programs_of_stretches() -> None:
    def runs(name: str) -> list[str]:
        f, x = LOOPS[name]
        program = prepared(fg.program(fg.grad(f))(x, 3))
        (unwind,) = [equation for equation in program.equations if equation.name == "unwind"]
        return [own for own, _ in unwind.params if own.startswith("stretch")]

    assert runs("numbers") == runs("Python's numbers") == ["stretch_0", "stretch_1"]
    assert runs("few states") == []
