"""Programs: an operation is staged, optimized, compiled, printed, saved and loaded."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Final

from funcgrad._core.trace import Value
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.program import Program
from funcgrad._staging.jit import jit
from funcgrad._transforms.reverse import vjp
from funcgrad._transforms.stage import program
from funcgrad.testing.operations.agreement import (
    ROUNDING,
    coarsest,
    direction,
    require,
    require_all_near,
    require_bits,
)
from funcgrad.testing.operations.cases import Case
from funcgrad.testing.operations.declarations import is_differentiated
from funcgrad.testing.operations.properties import AtSamples, Property


def _require_values(case: Case, outs: Value, subject: str) -> None:
    listed: Sequence[Value] = outs if isinstance(outs, tuple) else (outs,)
    for out, value in zip(listed, case.values(), strict=True):
        require_bits(out, value, subject)


def _is_staged(case: Case) -> None:
    f = case.function()
    staged = program(f)(*case.args).verify()
    operations = [equation.operation for equation in staged.equations]
    require(case.primitive in operations, f"its program has {operations} in its place")
    _require_values(case, staged(*case.args), "the program")
    again = program(f)(*case.args)
    require(staged == again, "two programs of one function differ")
    require(hash(staged) == hash(again), "two equal programs have different hashes")
    _require_values(case, optimize(staged).verify()(*case.args), "the optimized program")
    require(case.primitive.name in _text(staged, case), "its text does not name the operation")


def _text(staged: Program, case: Case) -> str:
    """Return the program's text, with labels replaced by the name."""
    return staged.to_text() if case.primitive.label is None else case.primitive.name


def _is_compiled(case: Case) -> None:
    # Machine code may sum in another order.
    _require_values(case, jit(case.function(), backend="numpy")(*case.args), "compiled")
    for k, arg in enumerate(case.args):
        alone = jit(case.function((k,)), backend="numpy")(arg)
        _require_values(case, alone, f"compiled for argument {k} only")


def _pullback_is_compiled(case: Case) -> None:
    f, point = case.followed_function(case.differentiable), case.point(case.differentiable)
    outs, pullback = vjp(f, *point)
    cts = tuple(direction(case.rng(), out) for out in outs)
    expected = pullback(cts)
    tolerance = max(1e-10, ROUNDING[coarsest([*point, *outs])] / 10)
    pulled = {
        "compiled pullback": jit(lambda cts, *x: vjp(f, *x)[1](cts))(cts, *point),
        "pullback of the compiled operation": vjp(jit(f), *point)[1](cts),
        "pullback of the program": vjp(program(f)(*point), *point)[1](cts),
    }
    for name, actual in pulled.items():
        require_all_near(actual, expected, tolerance, name)


def _is_saved(case: Case) -> None:
    staged = program(case.function())(*case.args)
    text = staged.to_json()
    read = Program.from_json(text)
    require(read == staged, "the program that was read from JSON differs")
    require(read.to_json() == text, "the JSON of the program that was read differs")
    require(pickle.loads(pickle.dumps(staged)) == staged, "the unpickled program differs")
    _require_values(case, read(*case.args), "the program that was read from JSON")


STAGES: Final = (
    Property(
        "staged",
        "The program of an operation has its value, before and after passes.",
        "See result, structure and traits: passes rely on them.",
        AtSamples(_is_staged, by_kind=True),
    ),
    Property(
        "compiled",
        "The NumPy backend computes the bits of `evaluate`.",
        "See formula, source and body: compiled code uses them instead of evaluate.",
        AtSamples(_is_compiled, by_kind=True),
    ),
    Property(
        "compiled pullbacks",
        "Compiled derivatives, and derivatives of compiled functions, are the operation's.",
        "See differential: rules must not read values. And formula, source and body.",
        AtSamples(_pullback_is_compiled, lambda case: case.is_smooth, by_kind=True),
        is_differentiated,
    ),
    Property(
        "saved",
        "A saved program finds the operation by its module and its name there.",
        "Define the operation at the top level of a module under a public name; parameters are"
        " numbers, texts, tuples, dtypes and the like.",
        AtSamples(_is_saved, by_kind=True),
    ),
)
