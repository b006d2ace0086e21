"""Bodies take the place of operations that a compiler lacks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.backends.decompose import decomposed
from funcgrad.extend import apply, elementwise
from funcgrad.primitive import Primitive
from funcgrad.programs.program import Program

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
