"""A program together with its pullback, or its pushforward, staged as one program.

A program and values to stage with flow in; out flows a program of its arguments
and of cotangents, or tangents, with the results of both. ``linearization.py`` takes it apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.specs import spec_of, stand_in
from funcgrad._core.trace import RAW, Value
from funcgrad._passes.pipeline import simplified
from funcgrad._programs.equation import spec_inside
from funcgrad._programs.extract import extract
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import flat_program, running_stager
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.batcher import Batched
from funcgrad._transforms.call_values import has_rules
from funcgrad._transforms.flat_functions import run_pulled, run_pushed
from funcgrad._transforms.layout import Layout, Presence, flat, layout_of, restored
from funcgrad._transforms.masked import Cotangent, Masked
from funcgrad._transforms.stage import program as stage

Mapped: TypeAlias = tuple[list[Value], list[Cotangent], Sequence[int]]
"""A program's results, the cotangents or tangents from its pullback or pushforward, and the places
of the results that are connected; see ``WithDerivative``."""


@dataclass(frozen=True, slots=True)
class WithDerivative:
    """A program and its pullback, or its pushforward, in one.

    Attributes
    ----------
    program : Program
        ``(arguments + given cotangents or tangents) -> results + cotangents or tangents``.
    layout : Layout
        Which cotangents or tangents it returns, and how.
    connected : tuple of int
        For a pullback: the places of the results that depend on followed arguments.
    """

    program: Program
    layout: Layout
    connected: tuple[int, ...] = ()


def with_pullback(
    program: Program,
    followed: Sequence[bool],
    args: Sequence[Value],
    cts: Sequence[Cotangent],
    numbers: bool = True,
) -> WithDerivative:
    """Stage a program with its pullback; only the shapes and dtypes of the cotangents matter.

    Without ``numbers`` the same is true of the arguments: they are stand-ins.
    """

    def both(args: list[Value], cts: list[Cotangent]) -> Mapped:
        stager, effects = running_stager(), 0

        def evaluated(values: Sequence[Value]) -> list[Value]:
            nonlocal effects
            outs = program.evaluate(values)
            effects = 0 if stager is None else stager.effects()
            return outs

        outs, pulled, connected = run_pulled(evaluated, args, followed, cts)
        if stager is not None and stager.effects() > effects:  # effects of the pullback
            waiting = stager.after_effects(flat(pulled), effects)
            pulled = restored(layout_of(pulled), waiting)
        return outs, pulled, connected

    def made() -> WithDerivative:
        staged, layout, connected = _staged(both, program, args, cts, numbers)
        full = _without_full_masks(staged, layout, len(program.outputs))
        return WithDerivative(*full, connected)

    # Branches in branches are differentiated again with the equations around them.
    key = "pullback", tuple(followed), kinds(cts)
    return made() if numbers else program.derived(key, made)


def with_pushforward(
    program: Program, args: Sequence[Value], tangents: Sequence[Value], numbers: bool = True
) -> WithDerivative:
    """Stage a program with its pushforward; ``numbers`` as for ``with_pullback``."""

    def both(args: list[Value], tangents: list[Value]) -> Mapped:
        return *run_pushed(program.evaluate, args, tangents), ()

    def made() -> WithDerivative:
        return WithDerivative(*_staged(both, program, args, tangents, numbers))

    return made() if numbers else program.derived(("pushforward", kinds(tangents)), made)


def as_recorded(program: Program, followed: Sequence[bool]) -> Program:
    """The program that computes the results as recording does, without keeping anything.

    It is the program itself, except for calls with rules: where such a call is recorded, its
    results are computed by its rule, and their derivatives need not be those that the rule gives.
    """
    if not has_rules(program):
        return program
    args = [stand_in(spec) for spec in program.inputs]
    cts = [None] * len(program.outputs)
    both = with_pullback(program, followed, args, cts, numbers=False).program
    return extract(both, range(len(args)), both.outputs[: len(cts)])


def _staged(
    both: Callable[[list[Value], list[Cotangent]], Mapped],
    program: Program,
    args: Sequence[Value],
    cts: Sequence[Cotangent],
    numbers: bool,
) -> tuple[Program, Layout, tuple[int, ...]]:
    """Stage a function of two lists; also the layout of its results, and which are connected."""
    layout_in = layout_of(cts)

    def both_flat(*values: Value) -> tuple[list[Value], tuple[Layout, tuple[int, ...]]]:
        inner_args, inner_cts = values[: len(args)], restored(layout_in, values[len(args) :])
        outs, mapped, connected = both(list(inner_args), inner_cts)
        return [*outs, *flat(mapped)], (layout_of(mapped), tuple(connected))

    values, program_of_both = [*args, *flat(cts)], WithAux(both_flat)
    if numbers:
        staged = stage(program_of_both)(*map(example, values))
        letters = ("",) * (len(staged.inputs) - len(args))  # which stand for any
        staged = replace(staged, names=program.names + letters)
    else:
        staged = flat_program(
            program.name, lambda operands: program_of_both(*operands), [*map(spec_of, values)]
        )
    return simplified(staged), *program_of_both.aux


def _without_full_masks(program: Program, layout: Layout, count: int) -> tuple[Program, Layout]:
    """Drop masks that are known to be full, as the masks of x[:-1] and x[1:] are together.

    The cotangents come after ``count`` results.
    """
    known = dict(enumerate(program.constants, len(program.inputs)))
    variables, kinds = list(program.outputs[:count]), list(layout)
    for k, ct in enumerate(restored(layout, program.outputs[count:])):
        if type(ct) is Masked and ct.mask in known and np.all(known[ct.mask].value):
            ct, kinds[k] = ct.value, Presence.WHOLE
        variables += flat([ct])
    result = pytrees.of_leaves(len(variables))
    return replace(program, outputs=tuple(variables), result=result), tuple(kinds)


def example(value: Value) -> Value:
    """The raw value, or the tensor on a device, that a value stands for; for a batch, the value of
    the first example.

    >>> example(2.0)
    2.0
    """
    if type(value) in RAW or value._trace.is_remote:
        return value
    data = example(value._trace.inner(value) if type(value) is Batched else value._value)
    if type(value) is not Batched:
        return data
    return data[0] if len(data) else np.zeros(data.shape[1:], data.dtype)[()]


def kinds(cts: Sequence[Cotangent]) -> Hashable:
    """A key of cotangents or tangents: the shapes and dtypes that a program for them depends on."""
    keys: list[Hashable] = []
    for ct in cts:
        if type(ct) is np.ndarray:
            keys.append((ct.shape, ct.dtype))
        elif ct is None:
            keys.append(None)
        elif type(ct) is Masked:
            keys.append(kinds([ct.value, ct.mask]))
        else:
            spec = spec_inside(ct)
            keys.append((spec.shape, spec.dtype, True) if spec.weak else (spec.shape, spec.dtype))
    return tuple(keys)
