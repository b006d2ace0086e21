"""Properties of a declaration: samples, results, and evaluation without side effects."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Final

import numpy as np

from funcgrad._core.primitive import DISCRETE, Linear, Partials, Primitive, Sample
from funcgrad._core.specs import Spec, is_inexact, spec_of
from funcgrad._core.structure.structures import Control
from funcgrad._primitives.elementwise_rules import batch_elementwise
from funcgrad.errors import CheckError
from funcgrad.tensor.tensor import apply
from funcgrad.testing.operations.agreement import (
    differences,
    directions,
    require,
    require_all_near,
    require_bits,
)
from funcgrad.testing.operations.cases import LOWER, Case, cases_of
from funcgrad.testing.operations.properties import AtOnce, AtSamples, Property


def is_elementwise(primitive: Primitive) -> bool:
    """Whether arguments broadcast, and a batch is one more axis."""
    return primitive.batch is batch_elementwise


def is_differentiated(primitive: Primitive) -> bool:
    """Whether any derivative is declared."""
    return primitive.differential is not DISCRETE


# ------------------------------------------------------------------------------ samples


def _samples(primitive: Primitive) -> None:
    samples = list(primitive.samples())
    require(samples, "it is empty")
    for number, sample in enumerate(samples):
        right = isinstance(sample, Sample) and isinstance(sample.args, tuple)
        require(right, f"sample {number} is {sample!r}, no Sample of a tuple of arguments")
        try:
            hash(tuple(sample.params.items()))
        except TypeError as error:
            raise CheckError(
                f"sample {number}: a parameter cannot be a key, since {error}"
            ) from None


def _arity(primitive: Primitive) -> None:
    differential = primitive.differential
    for case in cases_of(primitive):
        count = len(case.args)
        if isinstance(differential, Partials):
            name, said = "factors", len(differential.factors)
        elif isinstance(differential, Linear):
            name, said = "transposes", len(differential.routes(count))
        else:
            return
        require(said == count, f"{case.described()}: there are {said} {name} for {count} arguments")


def _some_are_smooth(primitive: Primitive) -> None:
    require(any(case.is_smooth for case in cases_of(primitive)), "none is")


def _kinds_of_samples(primitive: Primitive) -> None:
    shapes = [[np.shape(arg) for arg in sample.args] for sample in primitive.samples()]
    wanted = {
        "empty": any(0 in shape for sample in shapes for shape in sample),
        "0-d": any(all(shape == () for shape in sample) for sample in shapes),
        "broadcast": len(shapes[0]) == 1 or any(len(set(sample)) > 1 for sample in shapes),
    }
    lacking = [name for name, present in wanted.items() if not present]
    require(not lacking, f"no sample is {' or '.join(lacking)}")


def _parameters_of_reductions(case: Case) -> None:
    axis = case.sample.params.get("axis")
    right = isinstance(axis, tuple) and all(type(a) is int and a >= 0 for a in axis)
    require(right, f"axis is {axis!r}; it has to be a tuple of non-negative axes, such as (0,)")
    keepdims = case.sample.params.get("keepdims")
    require(isinstance(keepdims, bool), f"keepdims is {keepdims!r}, neither True nor False")


def _reduces(primitive: Primitive) -> bool:
    return isinstance(primitive.differential, Partials) and primitive.differential.reduces


# ------------------------------------------------------------------------------ results


def require_said(case: Case) -> None:
    """Compare the specs of ``result`` with the results of ``evaluate``."""
    specs = [spec_of(arg) for arg in case.args]
    said = case.primitive.results(*specs, **case.sample.params)
    values = case.values()
    require(
        [(spec.shape, spec.dtype) for spec in said] == [(x.shape, x.dtype) for x in values],
        f"result says {_specs(said)}, evaluate returns {_specs([spec_of(x) for x in values])}",
    )


def _specs(specs: Sequence[Spec]) -> str:
    return ", ".join(f"{spec.dtype} {spec.shape}" for spec in specs) or "nothing"


def _said_in_single_precision(case: Case) -> None:
    require_said(case.in_single_precision())


def takes_other_dtypes(primitive: Primitive) -> bool:
    """Whether samples may be cast; programs inside an operation are made for their dtypes."""
    return not isinstance(primitive.structure, Control)


def _half_precision(case: Case) -> None:
    half = {low: low for low in LOWER.values()} | {np.dtype("d"): np.dtype("e")}
    low = case.cast_to(half)
    if not low.is_refused:
        require_said(low)
        return
    try:
        apply(low.primitive, *low.args, **low.sample.params)
    except TypeError as error:
        require("float16" in str(error), f"the error does not name float16: {error}")
    else:
        raise CheckError("evaluate refuses float16, applying the operation does not")


# ------------------------------------------------------------------------------ evaluation


def _leaves_nothing(case: Case) -> None:
    before = [np.array(arg) for arg in case.args]
    args = list(case.args)
    arrays = [weakref.ref(arg) for arg in args if isinstance(arg, np.ndarray)]
    is_on = gc.isenabled()
    gc.disable()
    try:
        value = case.evaluate(*args)  # the arguments are read-only: writing is an error
        args.clear()
        del value
        lives = [k for k, array in enumerate(arrays) if array() is not None]
        require(not lives, f"array {lives} of the arguments is still referenced after the call")
    finally:
        if is_on:
            gc.enable()
    for k, (arg, copy) in enumerate(zip(case.args, before, strict=True)):
        require_bits(arg, copy, f"argument {k} after the call")


def _gives_the_same_again(case: Case) -> None:
    for one, other in zip(case.values(), case.values(), strict=True):
        require_bits(one, other, "the second call")


def _is_locally_constant(case: Case) -> None:
    varied = [k for k, arg in enumerate(case.args) if is_inexact(np.asarray(arg).dtype)]
    if not varied or not case.followed:
        return
    point = case.point(varied)
    slopes, tolerance = differences(
        lambda *chosen: case.results_at(varied, chosen), point, directions(case.rng(), point)
    )
    require_all_near(slopes, [np.zeros(x.shape) for x in slopes], tolerance, "differences")


DECLARATIONS: Final = (
    Property(
        "samples",
        "An operation has samples, whose parameters can be keys.",
        "Give samples: a function that yields Sample(arguments, parameters); see extend.reals.",
        AtOnce(_samples),
    ),
    Property(
        "arity",
        "A differential has a factor or a transpose for each argument, or None.",
        "See differential: its tuple has the length of the arguments.",
        AtOnce(_arity),
    ),
    Property(
        "smooth samples",
        "Some samples are smooth where a derivative is declared.",
        "Add samples with smooth=True in floats, away from kinks, infinities and edges.",
        AtOnce(_some_are_smooth),
        is_differentiated,
    ),
    Property(
        "kinds of samples",
        "Samples of an elementwise operation include 0-d, empty and broadcast ones.",
        "Use extend.reals or extend.complexes, which bring them.",
        AtOnce(_kinds_of_samples),
        is_elementwise,
    ),
    Property(
        "reduction's parameters",
        "A reduction takes axis as a tuple of non-negative axes, and keepdims as a bool.",
        "Normalize axis in the function that users call: (0,) rather than 0.",
        AtSamples(_parameters_of_reductions),
        _reduces,
    ),
    Property(
        "results",
        "The specs of `result` are the specs of the values that `evaluate` returns.",
        "See result: one Spec of shape and dtype for each value, for all dtypes and parameters.",
        AtSamples(require_said, by_kind=True),
    ),
    Property(
        "results in single precision",
        "The specs of `result` are the specs of values in float32 and complex64, too.",
        "See result: the dtype follows the arguments. And evaluate: it must not use float64.",
        AtSamples(_said_in_single_precision, by_kind=True),
        takes_other_dtypes,
    ),
    Property(
        "results in half precision",
        "The specs of `result` are the specs of values in float16, or float16 is refused by name.",
        "See result, and evaluate: it must not use a wider dtype.",
        AtSamples(_half_precision, lambda case: case.number == 0),
        takes_other_dtypes,
    ),
    Property(
        "evaluate leaves nothing",
        "Arguments are neither written nor held by `evaluate`.",
        "See evaluate: write into new arrays only, and store nothing outside.",
        AtSamples(_leaves_nothing, by_kind=True),
    ),
    Property(
        "evaluate repeats itself",
        "Two evaluations give the same value.",
        "See evaluate: randomness comes from an argument, and it keeps no state.",
        AtSamples(_gives_the_same_again, by_kind=True),
    ),
    Property(
        "constant where discrete",
        "A discrete operation does not change with its arguments at smooth samples.",
        "See differential: declare a derivative instead of DISCRETE, or smooth=False there.",
        AtSamples(_is_locally_constant, lambda case: case.sample.smooth),
        lambda primitive: not is_differentiated(primitive),
    ),
)
