"""Whatever operation on stacks of matrices it is: an example that was rejected adds no derivative.

The operations are discovered, by the ``cores`` of their structures. Each is tried at a sample, of
which a batch has the second example spoiled, so that the operation has no result for it, or one of
NaN; ``where`` does not choose it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import is_inexact
from funcgrad.errors import FuncgradError
from funcgrad.tensor.tensor import apply
from funcgrad.testing.operations.agreement import direction
from funcgrad.testing.operations.cases import Case, cases_of
from tests.conformance import every_primitive

Function = Callable[..., Any]

OPERATIONS = [
    operation
    for operation in (*every_primitive(), *every_primitive(several=True))
    if operation.cores
]

EXCLUDED = {"polynomial_zeros": "NumPy refuses NaN, and there is no failed='nan' to say otherwise"}

SPOILED = {
    "NaN": lambda x, scale: x * fnp.sqrt(scale),  # of a negative number
    "zeros": lambda x, scale: x * fnp.where(scale < 0.0, 0.0, 1.0) * abs(scale) ** 0.5,
}
SCALES = np.array([1.0, -1.0, 1.0])


def function(case: Case, spoil: Function, batched: tuple[int, ...]) -> Function:
    """What some arguments make of what examples share, where one example is rejected."""
    params = dict(case.sample.params)
    try:
        case.primitive.evaluate(*case.args, **params, failed="nan")
        params["failed"] = "nan"
    except TypeError:
        pass  # it never fails
    steps = {k: direction(case.rng(), case.args[k]) * 0.1 for k in case.differentiable}

    def of_example(shared: Any, scale: Any) -> Any:
        args = list(case.args)
        for k in case.differentiable:
            moved = args[k] * (1.0 + shared * 0.1) + steps[k] * shared**2
            args[k] = spoil(moved, scale) if k in batched else moved
        outs = apply(case.primitive, *args, **params)
        total = fnp.zeros(())
        for out in outs if isinstance(outs, tuple) else (outs,):
            if is_inexact(out.dtype):
                total = total + fnp.sum(fnp.sin(fnp.real(out)) + fnp.imag(out) ** 2)
        return fnp.where(scale > 0.0, total, 3.0)

    return of_example


def of_batch(f: Function) -> Function:
    return lambda shared: fnp.sum(fg.vmap(f, in_axes=(None, 0))(shared, SCALES))


def by_one(f: Function) -> Function:
    """The same where each example's derivative is taken by itself."""

    def total(shared: Any) -> Any:
        slopes = fg.vmap(lambda x, scale: fg.grad(f)(x, scale), in_axes=(None, 0))(shared, SCALES)
        return fnp.sum(fnp.sin(slopes))

    return total


def slopes_of_the_others(f: Function) -> Function:
    return lambda shared: 2.0 * fnp.sin(fg.grad(f)(shared, 1.0)) + np.sin(0.0)


def of_the_others(f: Function) -> Function:
    return lambda shared: 2.0 * f(shared, 1.0) + 3.0


DERIVATIVES: dict[str, Function] = {
    "grad": fg.grad,
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (1.0,))[1],
    "jit of grad": lambda f: fg.jit(fg.grad(f)),
    "grad of grad": lambda f: fg.grad(fg.grad(f)),
    "grad of jvp": lambda f: fg.grad(lambda x: fg.jvp(f, (x,), (1.0,))[1]),
    "jvp of grad": lambda f: lambda x: fg.jvp(fg.grad(f), (x,), (1.0,))[1],
}


def chosen_cases(operation: Primitive) -> list[Case]:
    """The first sample, and the first of complex numbers; not those without elements."""
    smooth = [
        case
        for case in cases_of(operation)
        if case.is_moderate and all(map(np.size, case.args)) and case.differentiable
    ]
    complexes = [case for case in smooth if any(map(np.iscomplexobj, case.args))]
    return [*smooth[:1], *complexes[:1]]


def has_values(f: Function) -> bool:
    """Whether the operation has values where an example is spoiled, be they NaN."""
    try:
        of_batch(f)(0.3)
    except FuncgradError:
        return False
    return True


def wrong(case: Case) -> Iterator[str]:
    several = case.differentiable if len(case.differentiable) > 1 else ()
    for poison, spoil in SPOILED.items():
        for batched in {case.differentiable, *[(k,) for k in several]}:
            f = function(case, spoil, batched)
            if not has_values(f):
                assert poison == "zeros"
                continue
            is_complex = any(map(np.iscomplexobj, case.args))
            ways = [*DERIVATIVES]
            if is_complex or poison == "zeros" or batched != case.differentiable:
                ways = ["grad", "grad of grad"]
            if batched != case.differentiable:
                ways = ways[poison == "zeros" :][:1]
            for way in ways:
                derive, pairs = DERIVATIVES[way], [("", of_batch, of_the_others)]
                if way == "grad":
                    pairs.append((" of slopes one by one", by_one, slopes_of_the_others))
                for text, batch, others in pairs:
                    expected = derive(others(f))(0.3)
                    try:
                        value = derive(batch(f))(0.3)
                    except FuncgradError as error:
                        value = f"{type(error).__name__}: {error}"
                    if isinstance(value, str) or not np.allclose(value, expected, 1e-6, 1e-9):
                        where = f"{case.described()}, {poison} in arguments {batched}"
                        yield f"{where}, {way}{text}: {value} instead of {expected}"


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_what_was_rejected_adds_nothing(operation: Primitive) -> None:
    if operation.name in EXCLUDED:
        pytest.skip(EXCLUDED[operation.name])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        failures = [text for case in chosen_cases(operation) for text in wrong(case)]
    assert not failures, "\n".join(failures)
