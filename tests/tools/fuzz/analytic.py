"""Derivatives against steps along the imaginary axis, which lose no digits.

What a program of real numbers makes of ``x + ih`` is ``f(x) + ih f'(x)`` up to ``h²``, if all its
operations are analytic: with h = 1e-30 the imaginary part is the derivative to the last digits,
where differences have eight (Squire and Trapp, "Using complex variables to estimate derivatives of
real functions", SIAM Review 40, 1998). It is found by NumPy's complex functions alone, without any
rule for derivatives.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import funcgrad as fg
from funcgrad._core import pytrees
from funcgrad._core.primitive import Linear
from funcgrad._programs.inline import inlined
from tests.tools.fuzz.compare import DifferenceError
from tests.tools.fuzz.noise import raw
from tests.tools.fuzz.subject import Subject

_STEP: Final = 1e-30
_UNSEEN: Final = 1e15 * _STEP**2
"""Slopes below which the third derivative may be all that a step tells: x³ at 0 has -h²."""

_ANALYTIC: Final = frozenset(
    "add subtract multiply divide negative positive reciprocal square sin cos tan exp exp2 log log2"
    " log10 sinh cosh tanh arcsinh arctan sqrt mean sum".split()
)
"""Beside what is linear: operations whose complex function NumPy has, to the last digits."""

_OF_PARTS: Final = frozenset("real imag conj complex cast_inexact irfft".split())
_DOUBLE: Final = np.dtype(np.float64)


def is_analytic(program: fg.Program) -> bool:
    """Whether complex numbers in the place of a program's real ones mean its analytic extension."""
    return all(
        spec.dtype == _DOUBLE for spec in program.specs() if spec.dtype.kind in "fc"
    ) and all(_keeps(each) for each in program.equations)


def _keeps(equation: Any) -> bool:
    primitive = equation.operation
    if len(equation.results) > 1:
        return False
    if all(spec.dtype != _DOUBLE for spec in equation.results):
        return False  # a look at numbers of which only the real part means anything
    linear = isinstance(primitive.differential, Linear)
    return (linear and primitive.name not in _OF_PARTS) or primitive.name in _ANALYTIC


def assert_complex_step(subject: Subject) -> bool:
    """Check the derivative along the tangents; whether there was anything to check."""
    program = inlined(subject.staged)
    if subject.is_held or program.guards or not is_analytic(program):
        return False
    moved = subject.merged([raw(x) + 1j * _STEP * np.asarray(t) for x, t in _steps(subject)])
    outs = _run(program, [raw(leaf) for leaf in pytrees.leaves(moved)])
    said = subject.scatter(subject.push, subject.point, "push")
    if said is None:
        return False
    wanted = [np.imag(out) / _STEP for out in outs if np.asarray(out).dtype.kind in "fc"]
    found = pytrees.leaves(subject.push(*subject.point))
    for k, (own, slope, spread) in enumerate(zip(found, wanted, said.spread, strict=True)):
        own, slope = np.asarray(own), np.broadcast_to(slope, np.shape(own))
        size = np.maximum(np.abs(own), np.abs(slope))
        allowed = 32 * spread + 1e-12 * size + _UNSEEN
        telling = np.isfinite(own) & np.isfinite(slope) & (allowed < 1e-3 * size + _UNSEEN)
        wrong = telling & (np.abs(own - slope) > allowed)
        if np.any(wrong):
            place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            raise DifferenceError(
                f"the derivative of result {k} is {own[place]!r}, that of a complex step"
                f" {slope[place]!r}"
            )
    return True


def _steps(subject: Subject) -> list[tuple[Any, Any]]:
    return list(zip(subject.xs, subject.tangents, strict=True))


def _run(program: fg.Program, values: list[Any]) -> list[Any]:
    known = [*values, *[constant.value for constant in program.constants]]
    for equation in program.equations:
        operands = [known[variable] for variable in equation.operands]
        if any(map(np.iscomplexobj, operands)):  # real arrays would not take complex updates
            operands = [x + 0j if np.asarray(x).dtype.kind == "f" else x for x in operands]
        known.append(equation.operation.evaluate(*operands, **dict(equation.params)))
    return [known[variable] for variable in program.outputs]
