"""A backend may flatten a call's arguments, and wrap its results, with code of its own."""

from __future__ import annotations

import gc
import warnings
import weakref
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.interface import MISS, Compiled, evaluated
from funcgrad._core import pytrees
from funcgrad._programs.program import Program
from funcgrad._staging.jit import JitWarning
from funcgrad.errors import ArgumentError
from funcgrad.tensor.tensor import Tensor

X = fg.tensor([1.0, 2.0, 3.0])


@dataclass
class Direct:
    """A backend whose entries take tensors by position; it counts hits, misses and runs."""

    name: str = "direct"
    hits: int = 0
    misses: int = 0
    runs: int = 0
    failing: bool = False
    refs: list[Any] = field(default_factory=list)

    def supports(self, program: Program) -> bool:
        return True

    def prepare(self, program: Program, relaxed: bool) -> Program:
        return program

    def inspect(self, program: Program) -> str:
        return program.to_text()

    def compile(self, program: Program) -> Compiled:
        plain = evaluated(program).run

        def run(*values: Any) -> Any:
            self.runs += 1
            return plain(*values)

        def entry(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            outs = None
            if self.failing:
                raise FloatingPointError("in the entry")
            if not kwargs and fits(args):
                outs = plain(*[arg._value for arg in args])
            if outs is None:
                self.misses += 1
                return MISS
            self.hits += 1
            return pytrees.unflatten(program.result, [made(out) for out in outs])

        def fits(args: tuple[Any, ...]) -> bool:
            return len(args) == len(program.inputs) and all(
                type(arg) is Tensor and (arg.shape, arg.dtype) == (spec.shape, spec.dtype)
                for arg, spec in zip(args, program.inputs, strict=True)
            )

        self.refs.append(weakref.ref(entry))
        return Compiled(run, entry=entry)


def made(out: Any) -> Tensor:
    return fg.tensor(out)


@pytest.fixture
def direct() -> Direct:
    return Direct()


def test_an_entry_is_asked_from_the_third_call_on_and_no_other_then(direct: Direct) -> None:
    f = fg.jit(lambda x, y: {"sum": x + y, "rest": (x * y, None)}, backend=direct)
    f(X, X)
    expected = f(X, X)
    assert (direct.hits, direct.runs) == (0, 2)
    for k in range(3):
        found = f(X, X)
        assert found.keys() == expected.keys()
        assert type(found["sum"]) is Tensor
        assert_array_equal(found["rest"][0], expected["rest"][0])
        assert (direct.hits, direct.runs) == (k + 1, 2)


def test_what_an_entry_misses_goes_the_way_of_all_others(direct: Direct) -> None:
    f = fg.jit(lambda x: x * 2.0, backend=direct)
    f(X)
    f(X)
    assert_array_equal(f(np.array([1.0, 2.0, 3.0])), [2.0, 4.0, 6.0])
    assert_array_equal(f(x=X), [2.0, 4.0, 6.0])
    assert_array_equal(f(X[:2]), [2.0, 4.0])
    assert f(2.0) == 4.0
    assert_array_equal(f(fg.tensor(np.ones(1, np.float32))), np.full(1, 2.0, np.float32))
    assert direct.hits == 0
    f(X)
    before = direct.hits, direct.runs
    assert_array_equal(f(X), [2.0, 4.0, 6.0])  # though others have been written since
    assert (direct.hits, direct.runs) == (before[0] + 1, before[1])


def test_an_entry_is_not_asked_where_there_are_static_arguments(direct: Direct) -> None:
    f: Any = fg.jit(lambda n, x: x * n, static_argnums=0, backend=direct)
    for n in (2, 3, 2, 3):
        assert_array_equal(f(n, X), np.asarray(X) * n)
    assert (direct.hits, direct.misses) == (0, 0)
    with pytest.raises(ArgumentError, match="cannot be hashed"):
        f(X)


def test_what_changes_outside_is_noticed(direct: Direct) -> None:
    outside = SimpleNamespace(factor=2.0)
    f = fg.jit(lambda x: x * outside.factor, backend=direct)
    for factor in (2.0, 3.0, 2.0, 5.0):
        outside.factor = factor
        for _ in range(3):
            assert_array_equal(f(X), np.asarray(X) * factor)
    assert direct.hits == 4


def test_a_function_that_ran_between_its_changes_was_of_use(direct: Direct) -> None:
    outside = SimpleNamespace(factor=0.0)
    f = fg.jit(lambda x: x * outside.factor, backend=direct)
    with warnings.catch_warnings():
        warnings.simplefilter("error", JitWarning)
        for k in range(8):
            outside.factor = float(k)
            f(X)
            f(X)


def test_each_way_through_a_function_has_its_entry(direct: Direct) -> None:
    f = fg.jit(lambda x: x * 2.0 if x > 0 else -x, backend=direct)
    for number in (3.0, -3.0, 4.0, -4.0, 5.0):
        assert f(fg.tensor(number)) == (2.0 * number if number > 0 else -number)
    assert direct.hits == 2


def test_an_entry_that_raises_costs_no_result(direct: Direct) -> None:
    f = fg.jit(lambda x: fnp.log(x), backend=direct)
    f(X)
    f(X)
    direct.failing = True
    assert_array_equal(f(X), np.log([1.0, 2.0, 3.0]))


def test_other_transformations_have_the_program(direct: Direct) -> None:
    f = fg.jit(lambda x: fnp.sum(x * x), backend=direct)
    f(X)
    f(X)
    hits = direct.hits
    assert_array_equal(fg.grad(f)(X), [2.0, 4.0, 6.0])
    assert_array_equal(fg.vmap(f)(fg.tensor([[1.0, 2.0], [3.0, 4.0]])), [5.0, 25.0])
    assert direct.hits == hits
    assert_array_equal(fg.jit(fg.grad(f), backend=direct)(X), [2.0, 4.0, 6.0])


def test_entries_go_with_the_function(direct: Direct) -> None:
    f = fg.jit(lambda x: x * 2.0, backend=direct)
    for _ in range(3):
        f(X)
    gc.collect()
    gc.disable()
    try:
        del f
        assert direct.hits == 1
        assert not any(ref() for ref in direct.refs)
    finally:
        gc.enable()
