"""Formulas have the bits of the operations' evaluation, and use intrinsics alone.

The subjects are discovered; see ``tests/conformance.py``. Each check is shown to find a mistake.
"""

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from funcgrad._core import intrinsics
from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.structure.structures import Elementwise, Opaque
from funcgrad._primitives import reduction, special_functions
from funcgrad._programs.algebra import FUNCTIONS, body_of
from funcgrad.errors import CheckError
from funcgrad.extend import elementwise
from funcgrad.testing.operations.properties import Property
from funcgrad.testing.operations.stages import WRITTEN_FORMULAS, formula_of
from tests.conformance import assert_properties, by_quick_properties, every_primitive, strangers
from tests.together import together

pytestmark = pytest.mark.usefixtures("quiet")

PRIMITIVES = (*every_primitive(), *strangers())  # those with one result


WITH_FORMULA = [each for each in PRIMITIVES if formula_of(each)]


@by_quick_properties(PRIMITIVES, WRITTEN_FORMULAS)
def test_it_says_what_is_evaluated(primitive: Primitive, properties: Sequence[Property]) -> None:
    assert_properties(primitive, properties)


def assert_known(primitive: Primitive) -> None:
    """A compiler can tell what an element is, without a name of NumPy's: by a formula."""
    assert formula_of(primitive), primitive.name


def of_scipy() -> list[Primitive]:
    """What SciPy evaluates, or NumPy as SciPy would: of that nobody has formulas."""
    modules = pkgutil.walk_packages(special_functions.__path__, f"{special_functions.__name__}.")
    return [each for module in modules for each in vars(import_module(module.name)).values()]


def test_of_every_elementwise_operation_it_is_known_what_an_element_is() -> None:
    # Strangers may give a function alone.
    known = [each for each in every_primitive() if isinstance(each.structure, Elementwise)]
    for primitive in known:
        if primitive not in of_scipy() or primitive in WITH_FORMULA:
            assert_known(primitive)


# ------------------------------------------------------------------------------ primitives


def test_algebras_have_the_same_intrinsics() -> None:
    assert {*intrinsics.__all__} == FUNCTIONS.keys()


def is_basic(primitive: Primitive) -> bool:
    return isinstance(primitive.structure, Elementwise) and primitive.structure.basic


WITH_BODY = [each for each in PRIMITIVES if body_of(each)]


def test_whatever_has_a_formula_has_a_body_unless_it_is_an_intrinsic() -> None:
    without = {each for each in WITH_FORMULA if each not in WITH_BODY}
    assert without == {each for each in WITH_FORMULA if is_basic(each)}
    assert without >= {each for each in FUNCTIONS.values() if isinstance(each, Primitive)}


def writes_a_sample(primitive: Primitive) -> bool:
    body, samples = primitive.body, primitive.samples()
    assert body is not None
    return any(body(*one.args, **one.params) is not NotImplemented for one in samples)


def test_every_body_computes_some_samples() -> None:
    declared = [each for each in PRIMITIVES if each.body]
    assert [each.name for each in declared if not writes_a_sample(each)] == []
    assert not writes_a_sample(replace(reduction.reduce_mean, body=lambda *_, **__: NotImplemented))


def test_exact_bodies_have_the_bits_of_evaluation() -> None:
    for each in WITH_BODY:
        if not isinstance(each.structure, Opaque) or not each.structure.exact_body:
            continue
        body = body_of(each)
        for one in each.samples():
            if not any(map(np.iscomplexobj, one.args)):
                assert body is not None
                results = body(*one.args, **one.params), each.evaluate(*one.args, **one.params)
                assert len({np.asarray(result).tobytes() for result in results}) == 1


# ------------------------------------------------------------------------------ what is wrong


def wrong(formula: Callable[..., Any]) -> Primitive:
    """The absolute value, with a formula for something else."""
    x = np.array([0.0, -0.0, -1.0, 0.1, np.nan])
    return elementwise(
        "wrong", np.absolute, formula=formula, partials=None, samples=lambda: [Sample((x,))]
    )


VALUES, COMPILED, BODY = WRITTEN_FORMULAS


def test_a_right_formula_passes() -> None:
    right = wrong(lambda m, x: m.absolute(x))
    assert_properties(right, WRITTEN_FORMULAS)
    assert_known(right)


@together(
    ("tried", "formula"),
    [
        (VALUES, lambda m, x: x),
        (VALUES, lambda m, x: m.absolute(x) * (1 + 2.0**-52)),
        (VALUES, lambda m, x: m.where(x < 0, -x, x)),  # -0.0
        (VALUES, lambda m, x: m.astype(m.absolute(x), np.dtype(np.float32))),
        (COMPILED, lambda m, x: np.absolute(x)),  # of NumPy, not of the algebra
        (COMPILED, lambda m, x: m.fabs(x)),  # no intrinsic
        (COMPILED, lambda m, x: x if x > 0 else -x),  # looks at a number
        (COMPILED, lambda m, x: m.absolute(x).sum()),  # not elementwise
        (COMPILED, lambda m, x: 1.0),  # a number that was known before
        (BODY, lambda m, x: m.where(x < 0, -x, x)),
        (BODY, lambda m, x: m.absolute(x) + 1e-300),
    ],
)
def test_a_wrong_formula_is_seen(tried: Property, formula: Callable[..., Any]) -> None:
    with pytest.raises(CheckError, match=tried.name):
        assert_properties(wrong(formula), [tried])


def test_a_wrong_body_is_seen() -> None:
    assert_properties(reduction.reduce_mean, [BODY])
    for body in (reduction.reduce_sum, reduction.reduce_mean):  # the last of which says nothing
        with pytest.raises(CheckError, match="body"):
            assert_properties(replace(reduction.reduce_mean, body=body), [BODY])


def test_an_operation_without_a_formula_is_seen() -> None:
    with pytest.raises(AssertionError, match="wrong"):
        assert_known(replace(wrong(lambda m, x: x), structure=Elementwise()))


def test_to_say_neither_what_is_evaluated_nor_by_what_formula_is_an_error() -> None:
    with pytest.raises(TypeError, match="nothing has neither a function nor a formula"):
        elementwise("nothing", partials=None)


def test_a_formula_that_calls_another_function_says_what_to_write() -> None:
    with pytest.raises(AttributeError, match=r"m\.abs: .* Write m\.absolute\(x\)"):
        elementwise("far", formula=lambda m, x: m.abs(x) - 1, partials=(None,))(2.0)
    lacking: Any = intrinsics
    with pytest.raises(AttributeError, match=r"m\.cbrtt: a formula has operators and 55 functions"):
        lacking.cbrtt(2.0)
    assert not hasattr(intrinsics, "__wrapped__")
