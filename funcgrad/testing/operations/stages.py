"""Programs: an operation is staged, optimized, compiled, printed, saved and loaded.

Compilers read formulas and bodies, which are definitions of ``evaluate``.

A formula has the bits of ``evaluate`` in every dtype, up to its declared error, and consists of
intrinsics only.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.structure.structures import UNEVEN, Elementwise
from funcgrad._core.trace import Raw, Value
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.algebra import body_of
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
    require_near,
    require_specs,
    require_ulps,
)
from funcgrad.testing.operations.cases import Case
from funcgrad.testing.operations.declarations import is_differentiated
from funcgrad.testing.operations.interpreter import Machine, Register
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


def formula_of(primitive: Primitive) -> Callable[..., Any] | None:
    """Return the formula of an element-wise operation, if it has one."""
    structure = primitive.structure
    return structure.formula if isinstance(structure, Elementwise) else None


def _require_ulps(case: Case, out: Raw, expected: Raw, subject: str) -> None:
    """Compare a formula with ``evaluate``, up to the declared error."""
    structure = case.primitive.structure
    ulps = structure.ulps if isinstance(structure, Elementwise) else 0
    if UNEVEN in case.primitive.traits:  # the sign of a zero may differ
        require_specs([out], [expected], subject)
        require_near(out, expected, 1e-5, subject, False)
    elif ulps and len(case.args) == 2:
        sizes = [np.where(np.isfinite(arg), arg, 0.0) for arg in np.broadcast_arrays(*case.args)]
        beside = np.maximum(*map(np.abs, sizes))
        require_ulps(out, expected, ulps, subject, beside)
    else:
        require_ulps(out, expected, ulps, subject)


def _in_dtypes(case: Case) -> Iterator[tuple[Case, str]]:
    """Yield a sample in every dtype of the operation, with the name of the dtype."""
    yield case, str(np.result_type(*case.args)) if case.args else ""
    for char in "?bBhiefF":
        args = tuple([_cast(arg, np.dtype(char)) for arg in case.sample.args])
        other = case.at(Sample(args, case.sample.params))
        try:
            other.evaluate(*other.args)
        except (TypeError, ValueError, OverflowError, np.exceptions.ComplexWarning):
            continue
        yield other, str(np.dtype(char))


def _cast(arg: Value, dtype: np.dtype[Any]) -> Value:
    array = np.asarray(arg)
    if array.dtype.kind not in "fc" or isinstance(arg, float | complex) or not array.size:
        return arg
    if dtype.kind in "iu":
        array = np.clip(np.nan_to_num(np.real(array)), -100 if dtype.kind == "i" else 0, 100)
    return np.real(array).astype(dtype)[()] if dtype.kind != "c" else array.astype(dtype)[()]


def _has_the_bits(sample: Case) -> None:
    formula = formula_of(sample.primitive)
    assert formula is not None
    for case, name in _in_dtypes(sample):
        out = formula(intrinsics, *case.args, **case.sample.params)
        expected = case.evaluate(*case.args)
        _require_ulps(case, out, expected, f"the formula in {name}")


def _formula_is_compiled(sample: Case) -> None:
    formula = formula_of(sample.primitive)
    assert formula is not None
    for case, name in _in_dtypes(sample):
        args = [np.asarray(arg) for arg in case.args]
        machine = Machine()
        registers = [machine.register(a.dtype) for a in args]
        out = formula(machine, *registers, **case.sample.params)
        right = type(out) is Register and out.machine is machine
        require(right, "the formula returns a constant")
        flat = [np.array(a).reshape(-1) for a in np.broadcast_arrays(*args)]
        flat_case = case.at(Sample(tuple(flat), case.sample.params))
        expected = np.asarray(case.evaluate(*flat))
        require(out.dtype == expected.dtype, f"{out.dtype} instead of {expected.dtype} in {name}")
        numbers = machine.run(*flat)[out.place]
        _require_ulps(flat_case, numbers, expected, f"its instructions in {name}")


def _has_body(primitive: Primitive) -> bool:
    return body_of(primitive) is not None


def _body_says_it(case: Case) -> None:
    primitive = case.primitive
    body = body_of(primitive)
    assert body is not None
    is_refused = False

    def f(*args: Value) -> Value:
        nonlocal is_refused
        out = body(*args, **case.sample.params)
        is_refused = out is NotImplemented
        return args if is_refused else out

    staged = program(f)(*case.args)
    if is_refused:  # compilers keep the operation there
        return
    names = [equation.operation.name for equation in staged.equations]
    require(primitive.name not in names, "the body applies the operation itself")
    require(not staged.guards, "the body branches on a value")
    out = np.asarray(staged.evaluate(list(case.sample.args))[0])
    expected = case.value()
    if primitive.body is None and UNEVEN not in primitive.traits:
        _require_ulps(case, out, expected, "the body made of the formula")
    else:
        require(out.dtype == expected.dtype, f"{out.dtype} instead of {expected.dtype}")
        require_near(out, expected, 1e-12, "the body")


def _has_formula(primitive: Primitive) -> bool:
    return formula_of(primitive) is not None


WRITTEN_FORMULAS: Final = (
    Property(
        "formula: values",
        "The formula has the bits of `evaluate` in every dtype, up to `ulps`.",
        "See formula, and ulps; leave out evaluate, and it follows from the formula.",
        AtSamples(_has_the_bits),
        _has_formula,
    ),
    Property(
        "formula: intrinsics",
        "The formula uses only intrinsics of `m`, and does not branch on values.",
        "See formula: m.absolute(x) rather than np.absolute(x), m.where rather than if.",
        AtSamples(_formula_is_compiled),
        _has_formula,
    ),
    Property(
        "body",
        "The body computes `evaluate` by other operations, or is NotImplemented.",
        "See body, and formula.",
        AtSamples(_body_says_it),
        _has_body,
    ),
)
