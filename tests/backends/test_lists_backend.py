"""The backend over lists needs declarations only, and names the operations that lack them."""

from typing import Any

import numpy as np
import pytest

from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import (
    Contraction,
    Elementwise,
    Gather,
    Movement,
    Reduction,
    Scan,
    Scatter,
)
from funcgrad._core.trace import bind
from funcgrad._programs.equation import Equation
from funcgrad._transforms.stage import program
from funcgrad.testing.operations.agreement import require_near, require_specs
from tests.backends.lists_backend import Held, ListsBackend, listed, raw
from tests.conformance import every_primitive, strangers
from tests.together import together

pytestmark = pytest.mark.usefixtures("quiet")

PRIMITIVES = (*every_primitive(), *strangers())  # those with one result


class WithoutEvaluate(ListsBackend):
    """A variant that never calls ``evaluate`` of an operation."""

    def evaluated(self, equation: Equation, operands: list[Held]) -> list[Held]:
        raise AssertionError(f"{equation.name} does not say what its elements are")


def is_said(primitive: Primitive) -> bool:
    """Whether a declaration determines the elements of the result."""
    structure = primitive.structure
    if isinstance(structure, Elementwise):
        return structure.formula is not None
    return isinstance(structure, Contraction | Gather | Movement | Reduction | Scan | Scatter)


SAID = [each for each in PRIMITIVES if is_said(each)]


@together("primitive", SAID, ids=str)
def test_declarations_say_what_elements_are(primitive: Primitive) -> None:
    backend = WithoutEvaluate()
    for sample in primitive.samples():
        args = [np.asarray(arg) for arg in sample.args]

        def f(*xs: Any, sample: Any = sample) -> Any:
            return bind(primitive, xs, dict(sample.params))

        prepared = backend.prepare(program(f)(*args), relaxed=False)
        (out,) = map(raw, backend.outputs(prepared, [listed(arg) for arg in args]))
        expected = primitive.evaluate(*args, **sample.params)
        require_specs([out], [expected], f"{primitive.name} over lists")
        half = {"e": 1e-2, "f": 1e-5, "F": 1e-5}.get(np.asarray(expected).dtype.char, 1e-12)
        require_near(out, expected, half, f"{primitive.name} over lists")


def test_nearly_half_of_all_operations_are_said() -> None:
    assert len(SAID) >= 0.46 * len(PRIMITIVES)
