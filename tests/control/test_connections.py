"""Which results depend on followed inputs, read from a program, is what recording finds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._control.spread import connected
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec, is_inexact, stand_in
from funcgrad._programs.program import Program
from funcgrad._transforms.layout import present
from funcgrad._transforms.with_derivative import with_pullback, with_pushforward
from tests.conformance import every_primitive, strangers
from tests.control.nests import LIBRARY, Nest, function_of, nests
from tests.together import together

OPERATIONS = [
    op for several in (False, True) for f in (every_primitive, strangers) for op in f(several)
]


def recorded(program: Program, flags: list[bool]) -> list[bool]:
    """Which results depend on inputs, by recording."""
    args, cts = [stand_in(spec) for spec in program.inputs], [None] * len(program.outputs)
    both = with_pullback(program, flags, args, cts, numbers=False)
    return [k in both.connected for k in range(len(program.outputs))]


def pushed(program: Program, flags: list[bool]) -> list[bool]:
    """Which results have tangents, by pushing some through."""
    args = [stand_in(spec) for spec in program.inputs]
    specs = [Spec(spec.shape, spec.dtype) for spec in program.inputs]
    tangents = [stand_in(spec) if flag else None for spec, flag in zip(specs, flags, strict=True)]
    return present(with_pushforward(program, args, tangents, numbers=False).layout)


def check(program: Program, flags: list[bool]) -> None:
    """Compare what is read with what is tried: all of it, or a part where nobody can be sure."""
    for forward, tried in ((False, recorded), (True, pushed)):
        flags_read, is_all = connected(program, flags, forward)
        flags_tried = tried(program, flags)
        if is_all:
            assert flags_read == flags_tried, program
        else:
            assert [*map(max, flags_read, flags_tried)] == flags_tried, program


def choices(program: Program) -> Iterator[list[bool]]:
    """Flags for the inexact inputs: each alone, and all."""
    inexact = [is_inexact(spec.dtype) for spec in program.inputs]
    for k, flag in enumerate(inexact):
        if flag:
            yield [place == k for place in range(len(inexact))]
    yield inexact


@pytest.mark.slow
@together("primitive", OPERATIONS, ids=lambda each: each.name)
def test_operations(primitive: Primitive) -> None:
    for sample in list(primitive.samples())[:2]:
        program = fg.program(partial(primitive, **sample.params))(*sample.args)
        for flags in choices(program):
            check(program, flags)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(nests(2), st.sampled_from([False, True]))
def test_loops_and_branches(nest: Nest, is_gradient: bool) -> None:
    f = function_of(nest, LIBRARY)
    function = fg.grad(f, (0, 1, 2)) if is_gradient else f
    program = fg.program(function)(fnp.ones(2), fnp.ones(2), fg.tensor(0.5))
    for flags in choices(program):
        check(program, flags)


def test_a_part_that_is_overwritten_depends_on_the_start_only_where_there_may_be_no_step() -> None:
    def scanned(x: Any, y: Any) -> Any:
        return fg.scan(lambda c, _: (y, None), x, length=2)[0]

    def repeated(x: Any, y: Any) -> Any:
        return fg.while_loop(lambda c: c > y, lambda c: y * 1.0, x)

    for f, flags in ((scanned, [False]), (repeated, [True])):
        program = fg.program(f)(fg.tensor(3.0), fg.tensor(2.0))
        assert connected(program, [True, False]) == (flags, False)
        check(program, [True, False])
