"""Where a NaN goes is where the structure of an operation says, for every operation and sample."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Opaque
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.cumulative import cumulative_sum
from funcgrad._primitives.reduction import reduce_sum
from funcgrad.debug.elements import relation
from tests.conformance import every_primitive
from tests.together import together

MOST = 6  # samples of an operation
PLACES = 3  # elements of an operand that become NaN


def is_nan(x: Any) -> Any:
    return np.isnan(x) if np.asarray(x).dtype.kind in "fc" else np.zeros(np.shape(x), bool)


def poisoned(x: Any, place: int) -> Any:
    array = np.array(x)
    array.reshape(-1)[place] = np.nan
    return array[()]


@pytest.mark.slow
@together("primitive", every_primitive(), ids=lambda primitive: primitive.name)
def test_a_nan_goes_where_the_structure_says(primitive: Primitive) -> None:
    rng = np.random.default_rng(5)
    for sample in [*primitive.samples()][:MOST]:
        for k, x in enumerate(sample.args):
            if type(x) is float or np.asarray(x).dtype.kind not in "fc" or not np.size(x):
                continue
            for place in rng.integers(np.size(x), size=PLACES):
                args = [*sample.args[:k], poisoned(x, place), *sample.args[k + 1 :]]
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    try:
                        before = primitive.evaluate(*sample.args, **sample.params)
                        out = primitive.evaluate(*args, **sample.params)
                    except (ValueError, ArithmeticError):
                        continue  # an operation may refuse NaN
                links = relation(primitive, args, sample.params, np.shape(out))
                one = np.zeros(np.shape(x), bool)
                one.reshape(-1)[place] = True
                masks = [one if j == k else np.zeros(np.shape(y), bool) for j, y in enumerate(args)]
                spoilt = is_nan(out) & ~is_nan(before)
                forward = links.forward(masks)
                assert not np.any(spoilt & ~forward)
                if spoilt.any():  # and back
                    assert links.backward(np.asarray(spoilt))[k][one].all()


def test_most_operations_say_where_elements_come_from() -> None:
    coarse = [p.name for p in every_primitive() if type(p.structure) is Opaque]
    assert len(coarse) < len(every_primitive()) / 4


def test_rows_of_products_come_from_rows() -> None:
    x, y = np.ones((2, 3)), np.ones((3, 4))
    links = relation(matmul, [x, y], {}, (2, 4))
    first, second = links.backward(np.eye(2, 4, dtype=bool))
    np.testing.assert_array_equal(first, np.ones((2, 3), bool))
    np.testing.assert_array_equal(second, [[True, True, False, False]] * 3)
    reached = links.forward([np.eye(2, 3, dtype=bool)[:1].repeat(2, 0) & [[True], [False]], y > 1])
    np.testing.assert_array_equal(reached, [[True] * 4, [False] * 4])


def test_running_sums_come_from_what_is_before() -> None:
    x = np.ones(4)
    third = np.array([False, False, True, False])
    for reverse, before in ((False, [True, True, True, False]), (True, [False, False, True, True])):
        links = relation(cumulative_sum, [x], {"axis": 0, "reverse": reverse}, (4,))
        np.testing.assert_array_equal(links.backward(third)[0], before)


def test_parameters_that_do_not_fit_make_a_coarse_relation() -> None:
    links = relation(reduce_sum, [fnp.ones(3)], {}, ())
    assert links.backward(np.array(True))[0].all()
