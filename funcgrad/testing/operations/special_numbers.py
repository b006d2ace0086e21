"""Zeros, infinities, NaN, empty and 0-d arrays instead of a sample's arguments, if allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.specs import is_inexact
from funcgrad._core.trace import Value
from funcgrad._staging.jit import jit
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.errors import CheckError
from funcgrad.testing.operations.agreement import (
    ROUNDING,
    batch_of,
    loop,
    require_bits,
    require_near,
    require_specs,
)
from funcgrad.testing.operations.cases import Case, cases_of
from funcgrad.testing.operations.declarations import (
    is_elementwise,
    require_said,
    takes_other_dtypes,
)
from funcgrad.testing.operations.properties import AtOnce, Property

_SPECIAL: Final = (0.0, -0.0, np.inf, -np.inf, np.nan)


def _first_smooth(primitive: Primitive) -> Iterator[Case]:
    """Yield the first smooth sample of each dtype."""
    seen = set()
    for case in cases_of(primitive):
        dtypes = tuple([np.asarray(arg).dtype for arg in case.args])
        if case.sample.smooth and dtypes not in seen and all(map(np.size, case.args)):
            seen.add(dtypes)
            yield case


def _specials(primitive: Primitive) -> Iterator[Case]:
    """Replace all elements of one argument of a sample by a special value, in turn."""
    for case in _first_smooth(primitive):
        for k, arg in enumerate(case.sample.args):
            array = np.asarray(arg)
            if is_inexact(array.dtype):
                for number in _SPECIAL:
                    whole = np.full_like(array, number)
                    changed = [whole if j == k else x for j, x in enumerate(case.sample.args)]
                    yield case.at(Sample(tuple(changed), case.sample.params, False))


def _shapes(primitive: Primitive) -> Iterator[Case]:
    """Cut the arguments of an element-wise operation to one element, and to none."""
    for case in _first_smooth(primitive):
        columns = [column.ravel() for column in np.broadcast_arrays(*case.sample.args)]
        for args in (tuple([x[0] for x in columns]), tuple([x[:0] for x in columns])):
            yield case.at(Sample(args, case.sample.params))


def _at_all(cases: Callable[[Primitive], Iterator[Case]], check: Callable[[Case], None]) -> AtOnce:
    """Make a check of cases that are made of samples; failures name the sample."""

    def tried(primitive: Primitive) -> None:
        failures = []
        for case in cases(primitive):
            try:
                check(case)
            except CheckError as error:
                numbers = ", ".join(_shown(arg) for arg in case.sample.args)
                failures.append(f"at {numbers}, made of sample {case.number}: {error}")
        if failures:
            raise CheckError("; ".join(failures[:3]) + _and_more(len(failures) - 3))

    return AtOnce(tried)


def _and_more(count: int) -> str:
    return f"; and {count} more" if count > 0 else ""


def _shown(arg: Value) -> str:
    array = np.asarray(arg)
    if array.size and np.all((array == array.flat[0]) | (array != array)):
        return f"{array.flat[0]} everywhere"
    return f"an array of {array.shape}" if array.ndim else str(array)


def _is_one_value(case: Case) -> None:
    """Compare declared, batched and compiled results with evaluation, if it succeeds."""
    try:
        values = case.values()
    except (ValueError, ArithmeticError, TypeError, IndexError, Warning):
        return  # the operation refuses these arguments
    require_said(case)
    outs = {"compiled": jit(case.function(), backend="numpy")(*case.args)}
    if case.args:
        args = [batch_of(x, 1) for x in case.args]
        expected = loop(case, args, (True,) * len(args), 1)
        batched = vmap(case.function())(*args)
        for out, value in zip(_listed(batched), expected, strict=True):
            require_specs([out], [value], "in a batch")
            require_near(out, value, ROUNDING[8], "in a batch")  # complex products round unevenly
    for name, out in outs.items():
        for one, value in zip(_listed(out), values, strict=True):
            require_bits(one, value, name)


def _listed(outs: Value) -> tuple[Value, ...]:
    return outs if isinstance(outs, tuple) else (outs,)


def _derivative_is_a_number(case: Case) -> None:
    """Check that a derivative is not NaN if arguments and values are numbers."""
    with suppress(ValueError, ArithmeticError, TypeError, Warning):  # refused arguments
        values = case.values()
        _require_numbers(case, values)


def _require_numbers(case: Case, values: Sequence[Value]) -> None:
    finite = all(np.all(np.isfinite(x)) for x in (*case.args, *values))
    for k in case.differentiable:
        f, (x,) = case.followed_function((k,)), case.point((k,))
        if np.iscomplexobj(x):
            continue  # limits differ between directions
        tangents = [np.asarray(t) for t in jvp(f, (x,), (np.ones_like(x),))[1]]
        cts = tuple([np.ones_like(values[j]) for j in case.followed])
        pulled = np.asarray(vjp(f, x)[1](cts)[0])
        if finite:
            for name, slopes in (("forward", tangents), ("reverse", [pulled])):
                if any(np.any(slope != slope) for slope in slopes):
                    raise CheckError(f"NaN in {name} mode along argument {k}, of a finite value")


SPECIAL_NUMBERS: Final = (
    Property(
        "special numbers",
        "Zeros, infinities and NaN have one value: evaluated, batched and compiled.",
        "See formula, source and body, and batch.",
        _at_all(_specials, _is_one_value),
        takes_other_dtypes,
    ),
    Property(
        "empty and 0-d",
        "An elementwise operation takes 0-d and empty arrays.",
        "See evaluate, and samples.",
        _at_all(_shapes, _is_one_value),
        is_elementwise,
    ),
    Property(
        "derivatives at zero",
        "A derivative is a number if arguments and value are: 0 where any subgradient is allowed.",
        "See differential: for example x / fnp.where(y == 0, 1.0, y) instead of x / y.",
        _at_all(_specials, _derivative_is_a_number),
        lambda primitive: is_elementwise(primitive) or primitive.form == "reducing",
    ),
)
