"""Reductions and scans are told apart by their folds alone, which say what NumPy computes.

The subjects are discovered. At samples ``fg.testing.check_primitive`` tries folds; here they meet
NaN, infinities, ties, zeros of both signs, wrapped integers, empty arrays and every axis.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.structure import folds
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.structures import Reduction, Scan
from funcgrad._primitives import cumulative, reduction
from funcgrad._primitives.recurrence import recurrence
from funcgrad.errors import CheckError
from funcgrad.testing.operations import PROPERTIES
from funcgrad.testing.operations.cases import Case
from funcgrad.testing.operations.properties import AtSamples
from tests.conformance import every_primitive
from tests.together import together

pytestmark = pytest.mark.usefixtures("quiet")

(FOLDS,) = [tried for tried in PROPERTIES if tried.name == "structure: fold"]

SUBJECTS = [each for each in every_primitive() if isinstance(each.structure, Reduction | Scan)]
FOLDING = [each for each in SUBJECTS if FOLDS.applies(each)]


def numbers(char: str) -> Any:
    """Two rows of numbers of a dtype that are awkward."""
    dtype = np.dtype(char)
    if dtype.kind == "b":
        return np.array([[True, False, True], [False, False, False]])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([[limits.max, 3, limits.max], [limits.min, 0, 7]], dtype)
    line = [[0.0, -0.0, 2.0, 2.0], [np.inf, -np.inf, 1.0, 3.0], [np.nan, 5.0, np.nan, 7.0]]
    return np.array(line, dtype) * (1 if dtype.kind == "f" else dtype.type(1 - 2j))


def awkward(primitive: Primitive) -> Iterator[Sample]:
    """Samples with them, along every axis."""
    arity = len(next(iter(primitive.samples())).args)
    params = next(iter(primitive.samples())).params
    for char in "?bBiqQefdFD":
        x = numbers(char)
        if primitive is recurrence and x.dtype.kind not in "fc":
            continue
        x = x[:1] if primitive is recurrence else x  # beyond infinity it keeps to a law of its own
        for array in (x, x[:, ::-1], x[:0], x[:, :1]):
            for axis in range(2):
                along = {"axis": (axis,) if isinstance(params["axis"], tuple) else axis}
                for reverse in (False, True) if "reverse" in params else (None,):
                    turned = {} if reverse is None else {"reverse": reverse}
                    operands = (array, array + array)[:arity]
                    yield Sample(operands, {**params, **along, **turned})


def tried(primitive: Primitive) -> int:
    """Compare the fold with evaluation wherever that is defined; return at how many samples."""
    count = 0
    for number, sample in enumerate(awkward(primitive)):
        case = Case(primitive, number, sample)
        try:
            case.evaluate(*case.args)
        except (TypeError, ValueError):  # of no elements, or not of this dtype
            continue
        assert isinstance(FOLDS.tries, AtSamples)
        FOLDS.tries.check(case)
        count += 1
    return count


@together("primitive", FOLDING, ids=str)
def test_a_fold_says_what_is_evaluated(primitive: Primitive) -> None:
    assert tried(primitive) > 20


def test_every_reduction_and_scan_has_a_fold_or_a_body() -> None:
    assert {each.name for each in SUBJECTS if each not in FOLDING and each.body is None} == set()
    assert {"sum", "prod", "argmax", "any", "cumsum", "cumprod", "recurrence"} <= {
        each.name for each in FOLDING
    }


def test_scans_differ_by_what_they_accumulate() -> None:
    scans = [each.structure for each in FOLDING if isinstance(each.structure, Scan)]
    assert len({scan.fold for scan in scans}) == len(scans) == 4


LAST = Fold(
    lambda m, x, y: (m.where(y[0] >= x[0], y[0], x[0]), m.where(y[0] >= x[0], y[1], x[1])),
    None,
    lambda m, dtype, place, x: (x, place),
    lambda m, state: state[1],
)
WRONG = [
    (reduction.reduce_sum, replace(folds.SUM, identity=1)),
    (reduction.reduce_sum, replace(folds.SUM, start=lambda m, dtype, place, x: m.absolute(x))),
    (reduction.reduce_max, replace(folds.GREATEST, combine=lambda m, x, y: m.where(x > y, x, y))),
    (reduction.reduce_max, replace(folds.GREATEST, identity=0)),
    (reduction.position_of_max, LAST),
    (reduction.position_of_max, folds.FIRST_LEAST),
    (reduction.count_nonzero, replace(folds.COUNT, start=lambda m, dtype, place, x: x > 0)),
    (reduction.reduce_any, folds.ALL),
    (cumulative.reduce_prod, folds.SUM),
    (cumulative.cumulative_prod, folds.SUM),
    (cumulative.cumulative_sum, replace(folds.SUM, combine=lambda m, x, y: y)),
    (recurrence, replace(folds.LINEAR, combine=lambda m, x, y: (x[0] * y[0], x[0] * y[1] + x[1]))),
]


NUMBERED = [f"{k} {primitive.name}" for k, (primitive, _) in enumerate(WRONG)]


@together(("primitive", "fold"), WRONG, ids=NUMBERED)
def test_a_wrong_fold_is_seen(primitive: Primitive, fold: Fold) -> None:
    kind = type(primitive.structure)
    assert kind in (Reduction, Scan)
    with pytest.raises((CheckError, TypeError)):
        tried(replace(primitive, structure=kind(fold)))
