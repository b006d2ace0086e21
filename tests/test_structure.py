"""Primitives' declarations of structure and traits are true at every sample.

The subjects are discovered; see ``tests/conformance.py``. Each check is shown to find a mistake.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import funcgrad._core.structure.structures as st
from funcgrad._core.primitive import DISCRETE, Primitive, Sample
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._core.structure.folds import SUM
from funcgrad._core.structure.index_maps import Places
from funcgrad._primitives import (
    cholesky,
    contraction,
    convolution,
    cumulative,
    determinants,
    eigen,
    elementwise,
    fft,
    linear_systems,
    logic,
    matrices,
    powers,
    pseudoinverses,
    reduction,
    sorting,
    structural,
)
from funcgrad.errors import CheckError
from funcgrad.testing.operations import PROPERTIES
from funcgrad.testing.operations.cases import cases_of
from funcgrad.testing.operations.element_maps import ELEMENT_MAPS, samples_with_rows_last
from funcgrad.testing.operations.properties import Property
from funcgrad.testing.operations.special_numbers import TRAIT_LAWS
from tests.conformance import assert_properties, by_quick_properties, every_primitive, strangers
from tests.together import together

pytestmark = pytest.mark.usefixtures("quiet")

PRIMITIVES = (*every_primitive(), *strangers())  # those with one result


@together("tried", [*ELEMENT_MAPS, *TRAIT_LAWS], ids=str)
def test_some_operations_have_it(tried: Property) -> None:
    assert any(map(tried.applies, PRIMITIVES))


@by_quick_properties(PRIMITIVES, [*ELEMENT_MAPS, *TRAIT_LAWS])
def test_it_holds(primitive: Primitive, properties: Sequence[Property]) -> None:
    assert_properties(primitive, properties)


def test_movements_within_rows_are_among_the_samples() -> None:
    movements = [each for each in PRIMITIVES if isinstance(each.structure, st.Movement)]
    names = {each.name for each in movements if [*samples_with_rows_last(each)]}
    assert names >= {"reshape", "transpose", "flip", "roll", "view", "place", "assemble"}
    assert names >= {"broadcast_to", "concatenate", "stack"}


# ------------------------------------------------------------------------------------ what is wrong


def rows(*arrays: Any, **params: Any) -> Callable[[], list[Sample]]:
    return lambda: [Sample(arrays, params)]


SWAPPED = st.Contraction(lambda x, y: ("JK"[-len(x.shape) :], "KI"[: len(y.shape)], "IJ"))
X = np.arange(1.0, 7.0).reshape(2, 3)
TURNED = Primitive("turned", np.transpose, lambda x: x, DISCRETE, lambda *_: None, rows(X))
WHOLE = Primitive("whole", lambda x: x - x.mean(), lambda x: x, DISCRETE, lambda *_: 0, rows(X))


TURNED_PLACES = lambda x: Places(x, 5, (-3, -1))  # noqa: E731
SUMMED = st.Reduction(SUM)
UPPER = st.Factored(
    lambda **params: Factorization(Factors.TRIANGLE, FromFactors.SOLUTIONS, lower=False), (2, 2)
)
UPPER_ROOT = st.Factored(
    lambda **params: Factorization(Factors.SQUARE_ROOT, FromFactors.FACTOR, lower=False), (2,)
)
DETERMINANTS = st.Factored(
    lambda **params: Factorization(Factors.ELIMINATION, FromFactors.DETERMINANT), (2,)
)


def _unscaled(*operand: Any, **params: Any) -> st.AlongAxis | None:
    structure = fft.real_inverse_fourier.structure
    assert isinstance(structure, st.Opaque)
    assert structure.along is not None
    loop = structure.along(*operand, **params)
    return loop and loop._replace(number=1)


UNSCALED = st.Opaque(along=_unscaled)
ORDERED_WINDOWS = st.Opaque(windows=lambda **params: st.WindowProducts("kxy", **params))
UPWARDS = st.Opaque(orders=lambda axis, descending: st.Ordering(axis, False, places=False))
UNSCALED_PART = st.Opaque(arrays=lambda m, w, n: (n - m.conj(m.swapaxes(n, -1, -2)), None))
FLAGGED = st.Opaque(arrays=lambda m, x, rcond, hermitian: (m.linalg.pinv(x, rcond), x != 0))
EARLY = st.Movement(
    lambda result, x, axis: [(result, x)], rows_last=lambda x, axis: {"axis": axis} if x else None
)


@together(
    ("name", "wrong"),
    [
        ("structure: memory of its own", TURNED),
        ("structure: memory of its own", structural.view),
        ("structure: cores", replace(matrices.hermitian, structure=matrices.of_stacks(1))),
        ("structure: cores", replace(WHOLE, structure=matrices.of_stacks(1))),
        ("structure: views", replace(elementwise.negative, structure=st.Elementwise(is_view=True))),
        ("structure: elementwise", WHOLE),
        ("structure: ufunc", replace(reduction.reduce_max, structure=st.Reduction(SUM))),
        ("structure: index map", replace(structural.flip, evaluate=lambda x, axis: x)),
        ("structure: index map", replace(structural.transpose, evaluate=lambda x, axes: x.T)),
        ("structure: index map", replace(structural.place, structure=structural.flip.structure)),
        ("structure: rows last", replace(structural.flip, structure=EARLY)),
        ("structure: fold", replace(reduction.count_nonzero, structure=st.Reduction(SUM))),
        ("structure: gather", replace(WHOLE, structure=st.Gather(TURNED_PLACES))),
        ("structure: scatter", replace(WHOLE, structure=st.Scatter(TURNED_PLACES))),
        ("structure: scan", replace(WHOLE, samples=rows(X, axis=1), evaluate=lambda x, axis: x.T)),
        ("structure: scan", cumulative.pulled_products),
        (
            "structure: products of windows",
            replace(convolution.convolve, structure=ORDERED_WINDOWS),
        ),
        ("structure: order", replace(sorting.sort, structure=UPWARDS)),
        ("structure: arrays", replace(eigen.skew_part, structure=UNSCALED_PART)),
        ("structure: arrays", replace(pseudoinverses.pinv, structure=FLAGGED)),
        ("structure: along an axis", replace(fft.real_inverse_fourier, structure=UNSCALED)),
        ("structure: factors", replace(linear_systems.solve, structure=UPPER)),
        ("structure: factors", replace(linear_systems.triangular_solve, structure=UPPER)),
        ("structure: factors", replace(cholesky.cholesky, structure=UPPER_ROOT)),
        ("structure: factors", replace(determinants.slogdet, structure=DETERMINANTS)),
        ("structure: letters", replace(contraction.matmul, structure=SWAPPED)),
        ("trait: PRODUCT", elementwise.divide),
        ("trait: CONVERTS", elementwise.negative),
        ("trait: COMMUTATIVE", elementwise.subtract),
        ("trait: COMMUTATIVE", logic.less),
        ("trait: ROUNDED_ONCE", powers.power),
        ("trait: ROUNDED_ONCE", elementwise.log),
        ("trait: JUMPS", elementwise.negative),
        ("trait: WRITES_INTO", replace(structural.flip, evaluate=lambda x, axis, out=None: x)),
    ],
)
def test_what_is_wrong_is_seen(name: str, wrong: Primitive) -> None:
    (tried,) = [tried for tried in PROPERTIES if tried.name == name]
    assert tried.failures(wrong, list(cases_of(wrong)))
    with pytest.raises(CheckError, match=name):
        assert_properties(wrong, [tried])
