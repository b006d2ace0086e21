"""Which leaves of a loop's carry have derivatives, a batch, a reader or a cotangent at some step.

A flag says that a leaf is followed, has a tangent, has a batch, is read, or has a cotangent. A step
may pass the flag on to other leaves, so steps are repeated until one adds nothing.

>>> spread([True, False, False], lambda flags: (None, [False, *flags[:-1]]))
([True, True, True], None)

Which results of a body depend on followed inputs is read from the program. Recording the body would
tell as well, but takes a hundred times as long.

>>> import funcgrad as fg
>>> body = fg.program(lambda a, b: (a * 2.0, a > b, b + 1))(1.0, 2.0)
>>> connected(body, [True, False])
([True, False, False], True)

A cotangent may be absent, whole, or ``Masked``. A loop carries the same at every step, and all
branches of a choice return the same, so presences are *joined*: a cotangent that is absent in one
branch and whole in another becomes a whole one with a mask of a single truth value.

>>> joined(Presence.ABSENT, Presence.WHOLE)
<Presence.SWITCHED: 2>
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import or_
from typing import Any, Final, TypeVar

import numpy as np

from funcgrad._core.specs import Spec, is_inexact, shape_of, stand_in
from funcgrad._core.structure.structures import Choice, Control, Loop
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.layout import Presence, presence_of
from funcgrad._transforms.masked import Cotangent, Masked, broadcast, fit, merged, plain

T = TypeVar("T")
Made = TypeVar("Made")


def spread(
    start: Sequence[T],
    step: Callable[[list[T]], tuple[Made, Iterable[T]]],
    join: Callable[[Any, Any], T] = or_,
) -> tuple[list[T], Made]:
    """Repeat a step that spreads flags over the leaves of a carry until it adds none.

    Parameters
    ----------
    start : sequence of flags
        The flag of each leaf of the carry at the beginning of the loop.
    step : callable
        From the flags before a step to a pair: anything made for such a step, for example its
        program, and the flags after it. Flags behind the flags of the carry are ignored.
    join : callable
        Joins the flags that a leaf has before and after a step.

    Returns
    -------
    flags, made
        The flags that hold at every step, and the object that ``step`` made for them.
    """
    flags = list(start)
    while True:
        made, after = step(flags)
        grown = [*map(join, flags, after)]
        if grown == flags:
            return flags, made
        flags = grown


# ----------------------------------------------------------------- results with derivatives

_WITH_RULES: Final = frozenset({"carried", "linearized", "transposed"})
"""Forms of differentials whose pushforward may find out that a tangent is zero."""


def connected(
    program: Program, flags: Sequence[bool], forward: bool = False
) -> tuple[list[bool], bool]:
    """Return which results surely depend on flagged inputs, and whether no others do.

    Others may where the program has calls with rules, or other operations that run programs.
    Flagged inputs have tangents if ``forward``, and are followed otherwise.
    """
    known = [*flags, *[False] * len(program.constants)]
    is_all = True
    for equation in program.equations:
        operands = [known[variable] for variable in equation.operands]
        results = [False] * len(equation.results)
        if True in operands:
            results, is_certain = _through(equation, operands, forward)
            is_all = is_all and is_certain
        pairs = zip(results, equation.results, strict=True)
        known += [flag and is_inexact(spec.dtype) for flag, spec in pairs]
    return [known[variable] for variable in program.outputs], is_all


def dependent_carry(
    program: Program,
    before: Sequence[bool],
    carry: Sequence[bool],
    after: Sequence[bool] = (),
    forward: bool = False,
) -> tuple[list[bool], tuple[list[bool], bool]]:
    """Return which leaves of a carry surely depend on flagged inputs at some step of a program.

    Also returns the result of ``connected`` where these leaves are flagged.
    """

    def step(state: list[bool]) -> tuple[tuple[list[bool], bool], list[bool]]:
        results, is_all = connected(program, [*before, *state, *after], forward)
        return (results, is_all), results

    return spread(carry, step)


def _through(
    equation: Equation, operands: Sequence[bool], forward: bool
) -> tuple[list[bool], bool]:
    """Return which results, if inexact, depend on flagged operands, and whether no others do."""
    operation, count = equation.operation, len(equation.results)
    if operation.is_foreign:
        return [False] * count, False
    if isinstance(operation.structure, Control):
        return _through_programs(operation.structure, equation, operands, forward), False
    if operation.form == "discrete":
        return [False] * count, True
    if forward and operation.form in _WITH_RULES:
        return [False] * count, False
    if count > 1 or len(operands) == 1:
        return [True] * count, True
    routes = zip(operands, operation.routes(len(operands)), strict=True)
    return [any(flag and route is not None for flag, route in routes)], True


def _through_programs(
    structure: Control, equation: Equation, operands: Sequence[bool], forward: bool
) -> list[bool]:
    """Return which results of a loop or choice surely depend on flagged operands; of calls none.

    Where programs close over traced values, which may be followed as well, no result is sure.
    """
    params = dict(equation.params)
    form = None if structure.form is None else structure.form(**params)
    if isinstance(form, Choice) and all(branch.is_raw for branch in form.branches):
        by_branch = [connected(branch, operands[1:], forward)[0] for branch in form.branches]
        return [any(column) for column in zip(*by_branch, strict=True)]
    if not isinstance(form, Loop) or not all(p.is_raw for p, _ in structure.runs(**params)):
        return [False] * len(equation.results)
    shared, carry, xs = form.parts(operands)
    state, (results, _) = dependent_carry(form.body, shared, carry, xs, forward)
    if forward:
        results[: form.carried] = state
    elif form.condition is not None:  # without a step the last carry is the first
        results[: form.carried] = map(max, carry, results)
    return results


# ------------------------------------------------------------ where cotangents are present


def joined(first: Presence, second: Presence) -> Presence:
    """Return the presence that can stand for both."""
    if first is second:
        return first
    least, most = sorted((first, second), key=lambda presence: presence.value)
    if least is Presence.ABSENT and most is Presence.WHOLE:
        return Presence.SWITCHED
    return most


def by_element(presence: Presence) -> Presence:
    """Replace a mask of one truth value by a mask with one for each element."""
    return Presence.MASKED if presence is Presence.SWITCHED else presence


def fitted(ct: Cotangent, spec: Spec) -> Cotangent:
    """Bring a cotangent to the shape and dtype of the value it belongs to; None stays None.

    A mask of one truth value for all elements stays one.
    """
    if ct is None:
        return None
    value = stand_in(spec)
    if type(ct) is not Masked:
        return broadcast(fit(ct, value, spec.shape), spec.shape)
    fitted_value = broadcast(fit(ct.value, value, spec.shape), spec.shape)
    mask = broadcast(ct.mask, spec.shape) if shape_of(ct.mask) else ct.mask
    return Masked(fitted_value, mask)


def with_presence(ct: Cotangent, presence: Presence, spec: Spec) -> Cotangent:
    """Convert a fitted cotangent to a presence that its presence was joined to."""
    ct_presence = presence_of(ct)
    if ct_presence is presence:
        return ct
    if ct is None:
        ct = Masked(zeros_like(spec), np.False_)
    elif ct_presence is Presence.WHOLE:
        ct = Masked(ct, np.True_)
    if presence is Presence.MASKED and spec.shape != shape_of(ct.mask):
        ct = Masked(ct.value, broadcast_to(ct.mask, shape=spec.shape))
    return ct


def begun(before: Cotangent, presence: Presence, spec: Spec) -> Cotangent:
    """Return the first value of a sum to which a loop adds cotangents.

    ``before`` is the sum of the cotangents before the loop. The first value is None where the loop
    adds none.
    """
    if presence is Presence.ABSENT:
        return None
    if Presence.WHOLE in (presence, presence_of(before)):
        return zeros_like(spec) if before is None else plain(before)
    return with_presence(before, joined(presence, presence_of(before)), spec)


def total(first: Cotangent, second: Cotangent) -> Cotangent:
    """Return the sum of two cotangents; each may be absent."""
    if first is None or second is None:
        return second if first is None else first
    if type(first) is Masked or type(second) is Masked:
        return merged(first, second)
    return first + second
