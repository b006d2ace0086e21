"""Random nests of loops and branches mean what Python's own loops and branches mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.control.nests import LIBRARY, PLAIN, Nest, function_of, nests

pytestmark = pytest.mark.slow

ALL = (0, 1, 2)
POINT = (fg.tensor([0.6, -0.4]), fg.tensor([0.3, 0.8]), fg.tensor(0.5))
DIRECTION = (fg.tensor([1.0, 2.0]), fg.tensor([-1.0, 0.5]), fg.tensor(0.7))


def same(actual: Any, expected: Any, what: str) -> None:
    """Check leaves to the precision that sums in another order have."""
    pairs = zip(fg.tree.leaves(actual), fg.tree.leaves(expected), strict=True)
    for own, other in pairs:
        assert own.dtype == other.dtype, what
        np.testing.assert_allclose(
            np.asarray(own), np.asarray(other), rtol=1e-9, atol=1e-10, err_msg=what
        )


TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "grad": lambda f: fg.grad(f, ALL),
    "jvp": lambda f: lambda *args: fg.jvp(f, args, DIRECTION),
    "linearize": lambda f: lambda *args: fg.linearize(f, *args)[1](*DIRECTION),
    "checkpoint": lambda f: fg.grad(fg.checkpoint(f), ALL),
    "reverse over reverse": lambda f: fg.jacrev(fg.grad(f, ALL), 1),
    "forward over reverse": lambda f: fg.jacfwd(fg.grad(f, ALL), 2),
    "reverse over forward": lambda f: fg.jacrev(fg.jacfwd(f, ALL), 2),
    "forward over forward": lambda f: fg.jacfwd(fg.jacfwd(f, ALL), 1),
}


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(nests(3))
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_a_nest_is_what_python_makes_of_it(name: str, nest: Nest) -> None:
    own, plain = function_of(nest, LIBRARY), function_of(nest, PLAIN)
    transform = TRANSFORMATIONS[name]
    expected = transform(plain)(*POINT)
    same(transform(own)(*POINT), expected, "eager")
    same(fg.jit(transform(own))(*POINT), expected, "staged")
    same(transform(fg.jit(own))(*POINT), expected, "of what is staged")


ROWS = fg.tensor([[0.3, 0.8], [-0.5, 0.2], [1.1, -0.7]])
NUMBERS = fg.tensor([-0.8, 0.5, 1.4])
BATCHES: dict[tuple[int | None, ...], tuple[Any, ...]] = {
    (0, 0, 0): (ROWS[::-1], ROWS, NUMBERS),
    (None, 0, None): (POINT[0], ROWS, POINT[2]),
    (0, None, 0): (ROWS, POINT[1], NUMBERS),
    (None, None, 0): (POINT[0], POINT[1], NUMBERS),
}


def one_by_one(f: Any, axes: Any) -> Any:
    """What ``vmap`` is, as a Python loop."""

    def looped(*args: Any) -> Any:
        rows = [
            f(*[x if axis is None else x[k] for x, axis in zip(args, axes, strict=True)])
            for k in range(3)
        ]
        return fg.tree.map(lambda *each: fnp.stack(each), *rows)

    return looped


def summed(f: Any) -> Any:
    return lambda *args: fnp.sum(fnp.cos(f(*args)))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(nests(3), st.sampled_from(list(BATCHES)))
def test_examples_of_a_batch_go_their_own_ways(nest: Nest, axes: Any) -> None:
    own, plain, args = function_of(nest, LIBRARY), function_of(nest, PLAIN), BATCHES[axes]
    expected = one_by_one(plain, axes)(*args)
    same(fg.vmap(own, axes)(*args), expected, "vmap")
    same(fg.jit(fg.vmap(own, axes))(*args), expected, "jit of vmap")
    same(fg.vmap(fg.jit(own), axes)(*args), expected, "vmap of jit")
    expected = fg.grad(summed(one_by_one(plain, axes)), ALL)(*args)
    same(fg.grad(summed(fg.vmap(own, axes)), ALL)(*args), expected, "grad of vmap")
    staged = fg.jit(fg.grad(summed(fg.vmap(own, axes)), ALL))
    same(staged(*args), expected, "jit of grad of vmap")
    expected = one_by_one(fg.grad(plain, ALL), axes)(*args)
    same(fg.vmap(fg.grad(own, ALL), axes)(*args), expected, "vmap of grad")
    same(fg.jit(fg.vmap(fg.grad(own, ALL), axes))(*args), expected, "jit of vmap of grad")


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(nests(2), st.sampled_from(list(BATCHES)))
def test_second_derivatives_of_a_batch(nest: Nest, axes: Any) -> None:
    own, plain, args = function_of(nest, LIBRARY), function_of(nest, PLAIN), BATCHES[axes]
    for second in (fg.jacfwd, fg.jacrev):
        expected = one_by_one(second(fg.grad(plain, 1), 0), axes)(*args)
        same(fg.vmap(second(fg.grad(own, 1), 0), axes)(*args), expected, "eager")
        same(fg.jit(fg.vmap(second(fg.grad(own, 1), 0), axes))(*args), expected, "staged")


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(nests(3, has_rules=False))  # which a file does not keep
def test_programs_of_nests_are_well_formed_and_can_be_saved(nest: Nest) -> None:
    for f in (function_of(nest, LIBRARY), fg.grad(function_of(nest, LIBRARY), ALL)):
        program = fg.program(f)(*POINT).verify()
        again = fg.Program.from_json(program.to_json())
        assert again == program
        assert again.fingerprint() == program.fingerprint()
        assert program.to_text() == again.to_text()
        assert program.to_dot()
        same(again(*POINT), f(*POINT), "saved")
