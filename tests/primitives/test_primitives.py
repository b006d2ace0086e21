"""Every primitive keeps its word, at every one of its samples.

The subjects are discovered; see ``tests/conformance.py``. Structures and traits are tried in
``tests/test_structure.py``, formulas in ``tests/test_intrinsics.py``, and operations of strangers
in ``tests/test_check_primitive.py``.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from funcgrad._backends import choice
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec
from funcgrad.testing.operations import PROPERTIES
from funcgrad.testing.operations.element_maps import ELEMENT_MAPS
from funcgrad.testing.operations.properties import Property
from funcgrad.testing.operations.special_numbers import TRAIT_LAWS
from funcgrad.testing.operations.stages import WRITTEN_FORMULAS
from tests.conformance import (
    assert_properties,
    by_properties,
    by_quick_properties,
    every_case,
    every_primitive,
    strangers,
)

pytestmark = pytest.mark.usefixtures("quiet")

PRIMITIVES = (*every_primitive(), *every_primitive(several=True))
ELSEWHERE = (*ELEMENT_MAPS, *TRAIT_LAWS, *WRITTEN_FORMULAS)

# Constant for derivatives on purpose, although their values are not.
HELD_CONSTANT = frozenset({"constant_max", "stop_gradient"})

# Its job is to declare an argument constant, for which any sample would do.
WITHOUT_SAMPLES = frozenset({"stop_gradient"})

# Zero is the end of a parameter's range, or a pole of the derivative.
POLES_AT_ZERO = frozenset(
    "betainc betaincc gammainc gammaincc iv_in_order jv_in_order voigt_profile".split()
)

# SciPy's function does not come back from an infinite argument.
ENDLESS_AT_INFINITY = frozenset({"hyp1f1"})

# Which of equal elements comes first is not said: machine code sorts short lines.
OF_ANY_ORDER = frozenset({"argpartition"})

EXCUSED = {
    "special numbers": ENDLESS_AT_INFINITY | OF_ANY_ORDER,
    "derivatives at zero": POLES_AT_ZERO | ENDLESS_AT_INFINITY,
    "samples": WITHOUT_SAMPLES,
    "kinds of samples": WITHOUT_SAMPLES,
    "constant where discrete": HELD_CONSTANT,
}


def test_there_are_subjects() -> None:
    assert len(PRIMITIVES) > 100
    assert sum(case.is_smooth for case in every_case(PRIMITIVES[::5])) > 300


def test_names_are_unique() -> None:
    counts = Counter(primitive.name for primitive in (*every_primitive(), *strangers()))
    assert [name for name, count in counts.items() if count > 1] == []


@by_properties(PRIMITIVES, [tried for tried in PROPERTIES if tried not in ELSEWHERE])
def test_it_keeps_its_word(primitive: Primitive, properties: Sequence[Property]) -> None:
    excused = [name for name, several in EXCUSED.items() if primitive.name in several]
    assert_properties(primitive, [tried for tried in properties if tried.name not in excused])


@by_quick_properties(PRIMITIVES, [tried for tried in PROPERTIES if tried.name == "compiled"])
def test_numpys_backend_compiles_it(
    primitive: Primitive, properties: Sequence[Property], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick tests of machine code compile every operation by the other backend."""
    monkeypatch.setattr(choice, "DEFAULT", "numpy")
    assert_properties(primitive, properties)


def test_python_numbers_give_way() -> None:
    spec = Spec((), np.dtype(float), weak=True)
    add = next(p for p in PRIMITIVES if p.name == "add")
    assert add.result(spec, Spec((2,), np.dtype("f"))) == Spec((2,), np.dtype("f"))
