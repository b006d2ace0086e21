"""Invalid options of distributions, activations and losses raise intended errors."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad.errors import DtypeError, FuncgradError, LeafError
from tests.together import together

KEY = fg.random.key(0)
LIBRARY: Any = fg  # so that types do not stand in the way of wrong ones


@together(
    "call",
    [
        lambda: fg.random.bernoulli(KEY, 1j),
        lambda: fg.random.normal(KEY, 2, scale=1j),
        lambda: fg.random.uniform(KEY, 2, minval=1j),
        lambda: fg.random.truncated_normal(KEY, 1j, 2.0),
        lambda: fg.random.normal(KEY, 2, np),  # type: ignore[arg-type]
        lambda: fg.nn.he_normal(KEY, (2, 3), np),  # type: ignore[arg-type]
        lambda: fg.nn.one_hot([1], "3"),  # type: ignore[arg-type]
        lambda: fg.nn.one_hot([1], 3, "no such"),
        lambda: fg.numpy.zeros(2, np),  # type: ignore[arg-type]
    ],
)
@pytest.mark.filterwarnings("ignore:in the future the `.dtype`:DeprecationWarning")  # NumPy 2.2's
def test_wrong_kinds(call: Any) -> None:
    with pytest.raises(DtypeError):
        call()


@together("odd", [None, {1}, {}, Decimal(1), object(), len, int, ..., slice(1)])
def test_slopes_that_are_no_numbers(odd: Any) -> None:
    with pytest.raises(LeafError, match="leaky_relu: expected an array or a number"):
        fg.nn.leaky_relu([1.0, -1.0], odd)
    with pytest.raises(LeafError, match="elu: expected an array or a number"):
        fg.nn.elu([1.0, -1.0], odd)


@together(
    ("call", "kind", "words"),
    [
        (lambda: LIBRARY.grad(abs, probes="h"), TypeError, "probes has to be a tuple of names"),
        (lambda: LIBRARY.grad(abs, probes=(1,)), TypeError, "probes has to be a tuple of names"),
        (lambda: LIBRARY.custom_jvp(abs, 0), TypeError, "nondiff_argnums has to be a tuple"),
        (lambda: LIBRARY.custom_vjp(abs, (0.5,)), TypeError, "nondiff_argnums has to be a tuple"),
        (
            lambda: LIBRARY.custom_vjp(abs, forward="rule"),
            ValueError,
            "custom_vjp: forward has to be 'transpose' or 'through', got 'rule'",
        ),
        (lambda: LIBRARY.custom_vjp(abs, forward=[]), ValueError, "forward has to be"),
        (lambda: LIBRARY.pytree(3.0), TypeError, "pytree: expected a class, got float"),
        (lambda: LIBRARY.tree.map(3, [1]), TypeError, "map: expected a function, got int"),
        (
            lambda: LIBRARY.tree.map_with_path(3, [1]),
            TypeError,
            "map_with_path: expected a function",
        ),
        (lambda: LIBRARY.tree.reduce(3, [1]), TypeError, "reduce: expected a function, got int"),
        (lambda: LIBRARY.tree.leaves([1], 3), TypeError, "is_leaf: expected a function, got int"),
        (lambda: LIBRARY.tree.unflatten([1], [1]), ValueError, "has to be a structure"),
        (lambda: LIBRARY.tree.unflatten(fg.tree.structure(1), 3), ValueError, "a list of leaves"),
        (lambda: LIBRARY.nn.zeros(None, 2**62), ValueError, "zeros.*too large"),
        (lambda: LIBRARY.nn.one_hot([1], 2**62), ValueError, "one_hot.*too large"),
        (
            lambda: LIBRARY.testing.check_jvp(abs, (2.0,), atol="1"),
            TypeError,
            "atol has to be a real",
        ),
        (lambda: LIBRARY.testing.check_vjp(abs, (2.0,), eps=1j), TypeError, "eps has to be a real"),
        (
            lambda: LIBRARY.testing.check_jvp(abs, (2.0,), kwargs=3),
            ValueError,
            "kwargs has to be a dict",
        ),
        (lambda: LIBRARY.testing.check_jvp(abs, (2.0,), seed=-1), ValueError, "seed has to be"),
        (lambda: LIBRARY.testing.check_grads(abs, (2.0,), 99), ValueError, "from 1 to 10, got 99"),
        (
            lambda: LIBRARY.testing.check_grads(abs, (2.0,), modes=[[]]),
            ValueError,
            "modes has to be",
        ),
    ],
)
def test_words(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(FuncgradError, match=words) as caught:
        call()
    assert isinstance(caught.value, kind)


def test_a_jitted_function_of_integers_refuses_what_arrays_cannot_hold() -> None:
    f = fg.jit(lambda x: x + 1)
    f(2)  # so that there is a program for integers
    with pytest.raises(FuncgradError, match=r"jit: x: the integer 1000.* has more than 64 bits"):
        f(10**30)
