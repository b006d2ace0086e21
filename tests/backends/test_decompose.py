"""Operations that a compiler does not know are replaced by their bodies."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.decompose import decomposed
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import OPAQUE
from funcgrad._programs.algebra import body_of
from funcgrad._programs.program import Program
from funcgrad.extend import apply, elementwise
from tests.conformance import every_primitive
from tests.subjects import assert_bits
from tests.together import together

X = fg.tensor([-1.0, 0.5, 2.0])


def everything(primitive: Primitive) -> bool:
    return True


def names(program: Program) -> list[str]:
    return [equation.operation.name for equation in program.equations]


def test_a_program_of_what_is_there_is_itself() -> None:
    program = fg.program(lambda x: fnp.sin(x) * x)(X)
    assert decomposed(program, everything) is program
    program = fg.program(fg.nn.relu)(X)
    assert decomposed(program, lambda primitive: primitive.name != "relu") is program


def test_bodies_know_their_parameters() -> None:
    program = fg.program(lambda x: (x**2, x**2.0, x**3))(X)
    assert names(decomposed(program, everything)) == ["square", "power", "power"]


def test_bodies_are_taken_from_bodies() -> None:
    program = fg.program(lambda x: fnp.std(x))(X)
    assert names(decomposed(program, lambda primitive: primitive.name == "std")) == ["var", "sqrt"]
    taken = decomposed(program, everything)
    assert not {"std", "var", "mean"} & {*names(taken)}
    assert_bits(taken(X), program(X))


@together(
    "primitive",
    [each for each in every_primitive() if body_of(each) and any(each.samples())],
    ids=lambda each: each.name,
)
def test_nothing_with_a_body_is_left(primitive: Primitive) -> None:
    sample = next(iter(primitive.samples()))
    program = fg.program(lambda *args: apply(primitive, *args, **sample.params))(*sample.args)
    taken = {equation.operation for equation in decomposed(program, everything).equations}
    assert not {each.name for each in taken - {primitive} if body_of(each) is not None}


def test_a_body_that_stays_is_tried_once() -> None:
    tried = []

    def body(x: Any) -> Any:
        tried.append(x)
        return x if x > 0 else -x  # looks at a number

    stays = replace(elementwise("stays", np.positive, partials=None), structure=OPAQUE, body=body)
    outer = replace(stays, name="outer", body=lambda x: apply(stays, x))
    program = fg.program(lambda x: apply(outer, x))(2.0)
    assert names(decomposed(program, everything)) == ["stays"]
    assert len(tried) == 1


def test_equations_of_a_body_come_from_where_the_operation_does() -> None:
    program = fg.program(lambda x: fg.nn.sigmoid(x))(X)
    (line,) = {equation.source for equation in program.equations}
    assert {each.source for each in decomposed(program, everything).equations} == {line}


@pytest.mark.parametrize(
    "formula",
    [
        lambda m, x: m.where(m.isnan(x) if bool(m.isnan(x)) else True, x, x),  # looks at numbers
        lambda m, x: m.astype(x, np.dtype(np.float32)),  # has another dtype
    ],
)
def test_what_a_body_cannot_stand_for_stays(formula: Callable[..., Any]) -> None:
    odd = elementwise("odd", np.positive, formula=formula, partials=None)
    program = fg.program(lambda x: apply(odd, x))(2.0)
    assert names(decomposed(program, everything)) == ["odd"]
