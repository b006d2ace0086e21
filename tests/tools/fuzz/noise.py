"""Measure how far rounding may move a result, by additional rounding.

A computation is run again with noise: the result of every operation that rounds is moved by some
units in the last place, at random. The scatter of the outcomes estimates how much any two orders of
the same arithmetic may differ, including cancellation, growth and the precision of every step
(Monte Carlo arithmetic: Parker, "Monte Carlo Arithmetic", UCLA 1997). A difference well above that
is not due to rounding; unless a program is ill-conditioned, even one far below 1e-6 is detected.

Results that did not round get no noise: elements that an operation copies from its operands (moved,
selected, the greatest), and short numbers such as 0.75 (the lower half of their digits is zero),
which come from exact arithmetic. So ties stay ties, and comparisons at them stay exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import numpy as np

import funcgrad as fg
from funcgrad._core import pytrees
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Choice, Control, Loop
from funcgrad._programs.inline import inlined

_ULPS: Final = 8.0
_RUNS: Final = 4


@dataclass(frozen=True, slots=True)
class Scatter:
    """The elements of a result without noise, and their deviations with noise.

    Attributes
    ----------
    center, spread : lists of array
        ``spread`` is infinite where an element was not finite in every run in the same way.
    meaningful : bool
        False where numbers that are not finite, or too large, became integers.
    """

    center: list[Any]
    spread: list[Any]
    meaningful: bool = True


def raw(value: Any) -> Any:
    """A Python number unchanged; any other value as a NumPy array."""
    if type(value) in (bool, int, float, complex):
        return value
    return np.asarray(value)[()]


def scatter(function: Callable[..., Any], args: Sequence[Any], seed: int = 0) -> Scatter | None:
    """The scatter of a function's results; None if it calls foreign functions."""
    program = inlined(fg.program(function)(*args))
    if any(
        each.operation.is_foreign and each.operation.name != "print" for each in program.equations
    ):
        return None
    values = [raw(leaf) for leaf in pytrees.leaves(args)]
    run = _Run(None)
    center = run.outputs(program, values)
    runs = [_Run(np.random.default_rng((seed, k))) for k in range(_RUNS)]
    others = [each.outputs(program, values) for each in runs]
    spread = [
        _spread(np.asarray(one), [np.asarray(other[k]) for other in others])
        for k, one in enumerate(center)
    ]
    return Scatter([np.asarray(each) for each in center], spread, run.meaningful)


def _spread(center: Any, others: list[Any]) -> Any:
    if center.dtype.kind not in "fc":
        same = np.all([other == center for other in others], axis=0)
        return np.where(same, 0.0, np.inf)
    wide = center.astype(np.complex128)
    found = np.zeros(center.shape)
    for other in others:
        far = np.abs(other.astype(np.complex128) - wide)
        finite = np.isfinite(center) & np.isfinite(other)
        same = (center == other) | (np.isnan(center) & np.isnan(other))
        found = np.maximum(found, np.where(finite, far, np.where(same, 0.0, np.inf)))
    return found


class _Run:
    """One evaluation of a program, with noise or without."""

    def __init__(self, rng: np.random.Generator | None) -> None:
        self._rng = rng
        self.meaningful = True

    def outputs(self, program: fg.Program, values: Sequence[Any]) -> list[Any]:
        known = [*values, *[constant.value for constant in program.constants]]
        for equation in program.equations:
            operands = [known[variable] for variable in equation.operands]
            params = dict(equation.params)
            structure = equation.operation.structure
            if isinstance(structure, Control):
                form = None if structure.form is None else structure.form(**params)
                if isinstance(form, Choice):
                    known += self._choice(form, operands)
                elif isinstance(form, Loop):
                    known += self._loop(form, operands, equation.results)
                else:
                    known += self._results(equation.operation, operands, params)
            elif len(equation.results) == 1:
                known.append(self._result(equation.operation, operands, params))
            else:
                known += self._results(equation.operation, operands, params)
        return [known[variable] for variable in program.outputs]

    def _choice(self, choice: Choice, operands: list[Any]) -> list[Any]:
        last = len(choice.branches) - 1
        return self.outputs(choice.branches[min(max(int(operands[0]), 0), last)], operands[1:])

    def _loop(self, loop: Loop, operands: list[Any], results: Sequence[Spec]) -> list[Any]:
        """A loop, each of whose steps makes its noise."""
        start = loop.shared + loop.carried
        shared, carry = operands[: loop.shared], operands[loop.shared : start]
        slices = operands[start:]
        stacked = []
        steps: Iterable[int] = count() if loop.length is None else range(loop.length)
        for step in reversed(range(loop.length)) if loop.length and loop.reverse else steps:
            if loop.condition and not self.outputs(loop.condition, [*shared, *carry])[0]:
                break
            rows = [np.asarray(each)[step] for each in slices]
            outs = self.outputs(loop.body, [*shared, *carry, *rows])
            carry = outs[: loop.carried]
            stacked.append(outs[loop.carried :])
        if loop.reverse:
            stacked.reverse()
        stacks = [
            np.array([outs[k] for outs in stacked], spec.dtype).reshape(spec.shape)
            for k, spec in enumerate(results[loop.carried :])
        ]
        return [*carry, *stacks]

    def _result(self, primitive: Any, operands: list[Any], params: dict[str, Any]) -> Any:
        exact = primitive.evaluate(*operands, **params)
        kind = np.asarray(exact).dtype.kind
        if self._rng is None or kind not in "fc":
            if kind in "iu" and primitive.name == "cast_discrete":
                given = np.asarray(operands[0])
                # The last bits of a large number are noise, and a small integer is made of these.
                large = np.isfinite(given) & (np.abs(given.real) >= 2**15)
                self.meaningful &= not np.any(large) or given.dtype.kind not in "fc"
            return exact
        taken = np.concatenate([np.ravel(operand) for operand in operands] or [np.zeros(0)])
        if taken.size > 20_000:
            return exact
        with np.errstate(all="ignore"):
            rounded = ~np.isin(exact, taken)
            if not np.any(rounded):
                return exact
            if primitive.form not in ("elementwise", "selecting"):  # one that adds up
                exact = primitive.evaluate(*[self._moved(each) for each in operands], **params)
            return self._moved(exact, rounded)

    def _results(self, primitive: Any, operands: list[Any], params: dict[str, Any]) -> list[Any]:
        """Several, of all of which every element counts as rounded."""
        if self._rng is not None:
            operands = [self._moved(each) for each in operands]
        exact = primitive.evaluate(*operands, **params)
        return [*exact] if self._rng is None else [self._moved(each) for each in exact]

    def _moved(self, value: Any, where: Any = True) -> Any:
        array = np.asarray(value)
        if array.dtype.kind not in "fc" or self._rng is None:
            return value
        limits = np.finfo(array.dtype)
        size = np.abs(array) * (_ULPS * limits.eps) + _ULPS * limits.smallest_subnormal
        step = self._signed(array.shape) * size
        if array.dtype.kind == "c":
            step = step + 1j * self._signed(array.shape) * size
        moving = where & ~_is_short(array)
        moved = np.where(moving, array + np.where(moving, step, 0), array).astype(array.dtype)
        weak = type(value) in (float, complex)
        return moved.item() if weak else moved[()]

    def _signed(self, shape: tuple[int, ...]) -> Any:
        """Random numbers of either sign and many sizes, so that two of them hardly cancel."""
        assert self._rng is not None
        return self._rng.choice([-1.0, 1.0], shape) * self._rng.uniform(0.5, 1.0, shape)


def _is_short(array: Any) -> Any:
    """Where the lower half of the digits is zero; also where a number is not finite.

    Numbers below the least normal one have few digits because they were rounded.
    """
    if array.dtype.kind == "c":
        return _is_short(array.real) & _is_short(array.imag)
    limits = np.finfo(array.dtype)
    mantissa, _ = np.frexp(array)
    scaled = mantissa * 2.0 ** (limits.nmant // 2)
    is_normal = (array == 0) | (np.abs(array) >= limits.smallest_normal)
    return (scaled == np.rint(scaled)) & is_normal | ~np.isfinite(array)
