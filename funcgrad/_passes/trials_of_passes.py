"""Try a pass: run the program before and after it on the same values, and compare the results.

``FUNCGRAD_VALIDATE=1`` in the environment and ``fg.testing.validated()`` ask for it. A pass goes
through ``tried``. If the results differ by more than ``NUMBERS.md`` allows, a ``CheckError`` names
the pass, the rule, and the smallest program on which they differ.

The values are drawn from the samples of the operations that read an input, which the operations
declare, from a normal distribution, and from the edges: NaN, infinities, zeros of both signs, the
least positive values. Without sums the results have to agree in every bit. With sums, which have no
order, they may differ by as much as noise in the last bits of all operands moves the results.

Programs that act (prints, functions of other libraries), loops whose length depends on values,
partitions, which promise no order, and searches, which need sorted tables, are not tried; the
programs inside of loops are.

>>> import funcgrad as fg
>>> from funcgrad._primitives.elementwise import add, subtract
>>> from funcgrad._passes.workbench import improve
>>> def wrong(bench, equation):
...     return bench.put(equation, add, equation.operands)
>>> rules = {subtract: (wrong,)}
>>> staged = fg.program(lambda x: (x - 2.0) * 3.0)(1.0)
>>> difference(staged, improve(staged, rules)) is not None
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.floating_errors import quiet
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import (
    Choice,
    Control,
    Elementwise,
    Gather,
    Loop,
    Movement,
    Random,
)
from funcgrad._core.trace import Raw
from funcgrad._hooks.requested_checks import is_validated
from funcgrad._programs.equation import Equation
from funcgrad._programs.extract import extract
from funcgrad._programs.inline import inlined
from funcgrad._programs.program import Program
from funcgrad.errors import CheckError

Pass: TypeAlias = Callable[[Program], Program]
Values: TypeAlias = "Sequence[Raw]"
Array: TypeAlias = "np.ndarray[Any, Any]"

_MOST_ELEMENTS: Final = 200_000
"""Programs with more elements than that in all variables together are not tried."""
_MOST_STEPS: Final = 1000
_NOISY_RUNS: Final = 3
_NOISE: Final = 4.0
"""Noise in units in the last place; its effect is counted 16 times."""
_MOST_SAMPLES: Final = 8
_INSIDE: Final = 3
"""The number of points without edges, where bounds of rounding hold."""
_ORDERLESS: Final = (Elementwise, Movement, Gather, Random)
"""Structures of operations that add up nothing, so that a result has one value."""


def tried(
    change: Callable[..., Program],
    program: Program,
    rules: Mapping[Any, Any] | None = None,
    is_exact: bool = True,
) -> Program:
    """Apply a pass to a program; if asked, compare the results of both programs.

    Parameters
    ----------
    change : callable
    program : Program
    rules : mapping, optional
        The table of rules, if the pass is ``change(program, rules)``.
    is_exact : bool
        Whether results without sums keep every bit.

    Raises
    ------
    CheckError
        The results differ, or they have another tree.
    """
    apply = change if rules is None else partial(change, rules=rules)
    changed = apply(program)
    if changed is not program and is_validated():
        if (changed.arguments, changed.result) != (program.arguments, program.result):
            home = f"{change.__module__.rpartition('.')[2]}.{change.__name__}"
            raise CheckError(f"validated: the pass {home} changes the trees of {program.name}.")
        gap = difference(program, changed, is_exact)
        if gap is not None:
            raise CheckError(_WrongPass(change, rules, is_exact).of(program, gap))
    return changed


class Difference:
    """The values of the inputs at which two programs differ, and how."""

    def __init__(self, values: Values, text: str) -> None:
        self.values, self.text = values, text


def difference(before: Program, after: Program, is_exact: bool = True) -> Difference | None:
    """Look for values at which two programs with the same inputs have different results."""
    if not before.is_raw or not after.is_raw or not _can_be_tried(before):
        return None
    before, after = _plain(before), _plain(after)
    for values in islice(_points(before), None if is_exact else _INSIDE):
        text = difference_at(before, after, values, is_exact)
        if text:
            return Difference(values, text)
    return None


def _plain(program: Program) -> Program:
    """The program without calls and guards, which does not depend on how it is called."""
    return replace(inlined(program), guards=())


def difference_at(before: Program, after: Program, values: Values, is_exact: bool) -> str:
    """Compare two programs at a point; empty if the results agree, or the first one fails."""
    with quiet(), np.errstate(all="ignore"):
        try:
            expected = before.evaluate(values, _raw)
        except Exception:  # a program that raises has no result to compare
            return ""
        try:
            actual = after.evaluate(values, _raw)
        except Exception as error:  # as before
            return f"it raises {error!r}"
        if all(_is_same(*pair) for pair in zip(actual, expected, strict=True)):
            return ""
        has_bits = is_exact and _has_one_value(before) and _has_one_value(after)
        spreads = None if has_bits else _spreads(before, values, expected)
    for position, (one, other) in enumerate(zip(actual, expected, strict=True)):
        spread = None if spreads is None else spreads[position]
        text = _off(np.asarray(one), np.asarray(other), spread)
        if text:
            return f"result {position} is {text}"
    return ""


def _is_same(one: Raw, other: Raw) -> bool:
    """Whether two results agree in type, shape and every bit; NaN is NaN."""
    array, wanted = np.asarray(one), np.asarray(other)
    if (array.dtype, array.shape) != (wanted.dtype, wanted.shape):
        return False
    if array.dtype.kind not in "fc":
        return bool(np.array_equal(array, wanted))
    pairs = [(np.real(array), np.real(wanted)), (np.imag(array), np.imag(wanted))]
    return all(
        np.array_equal(x, y, equal_nan=True)
        and np.array_equal(np.signbit(x)[x == 0], np.signbit(y)[y == 0])
        for x, y in pairs
    )


def _off(actual: Array, expected: Array, spread: Array | None) -> str:
    """Say where results differ by more than their spread; empty if they do not."""
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    if spread is None:
        wrong = actual != expected
        if actual.dtype.kind in "fc":
            zeros = (actual == 0) & (expected == 0)
            wrong &= ~(np.isnan(actual) & np.isnan(expected))
            wrong |= zeros & (np.signbit(actual.real) != np.signbit(expected.real))
    elif actual.dtype.kind in "fc":
        both = np.isfinite(actual) & np.isfinite(expected)
        wide = np.result_type(actual.dtype, np.float64)
        gap = np.abs(np.where(both, actual, 0).astype(wide) - np.where(both, expected, 0))
        other = ~both & ~(np.isnan(actual) & np.isnan(expected)) & (actual != expected)
        wrong = np.where(both, gap > spread, other & np.isfinite(spread))
    else:
        wrong = (actual != expected) & (spread == 0)
    if not np.any(wrong):
        return ""
    place = tuple(int(axis) for axis in np.argwhere(wrong)[0])
    at = f" at {place}" if place else ""
    return f"{actual[place]!r} instead of {expected[place]!r}{at}"


# --------------------------------------------------------------------------------------- the points


def _can_be_tried(program: Program) -> bool:
    """Whether a program ends, acts on nothing, and has one right result."""
    if sum(prod(spec.shape) for spec in program.specs()) > _MOST_ELEMENTS:
        return False
    return all(map(_is_plain, program.equations))


def _is_plain(equation: Equation) -> bool:
    operation, params = equation.operation, dict(equation.params)
    if operation.has_effect or operation.is_foreign or "kth" in params or "side" in params:
        return False
    structure = operation.structure
    if not isinstance(structure, Control):
        return True
    form = None if structure.form is None else structure.form(**params)
    if isinstance(form, Loop):
        bodies: Sequence[Program] = (form.body,)
        if form.condition is not None or (form.length or 0) > _MOST_STEPS:
            return False
    elif isinstance(form, Choice):
        bodies = form.branches
    else:
        bodies = [body for body, _ in structure.runs(**params)]
        if isinstance(form, Program):
            bodies = [*bodies, form]
    return all(map(_can_be_tried, bodies))


def _has_one_value(program: Program) -> bool:
    """Whether no operation adds up, so that every result has one value."""
    return all(isinstance(e.operation.structure, _ORDERLESS) for e in program.equations)


def _points(program: Program) -> Iterator[Values]:
    """Values for the inputs: two draws from declared samples, normal ones, and two of edges."""
    pools = [_pool(program, variable, spec) for variable, spec in enumerate(program.inputs)]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        yield [
            _value(_drawn(rng, spec, pool, seed), spec)
            for spec, pool in zip(program.inputs, pools, strict=True)
        ]


def _pool(program: Program, variable: int, spec: Spec) -> Array:
    """The values of samples for the operands that an input is; those of the first reader."""
    for equation in program.equations:
        if variable in equation.operands:
            position = equation.operands.index(variable)
            samples = islice(equation.operation.samples(), _MOST_SAMPLES)
            arrays = [
                np.ravel(sample.args[position])
                for sample in samples
                if sample.smooth and position < len(sample.args)
            ]
            fitting = [array for array in arrays if array.dtype.kind == spec.dtype.kind]
            return np.concatenate([np.zeros(0, spec.dtype), *fitting]).astype(spec.dtype)
    return np.zeros(0, spec.dtype)


def _drawn(rng: np.random.Generator, spec: Spec, pool: Array, seed: int) -> Array:
    if seed < 2 and pool.size:
        return rng.choice(pool, spec.shape)
    if spec.dtype.kind == "b":
        return rng.integers(0, 2, spec.shape)
    if spec.dtype.kind in "iu":
        return rng.integers(0, 4, spec.shape)
    draw = rng.standard_normal(spec.shape)
    if spec.dtype.kind == "c":
        draw = draw + 1j * rng.standard_normal(spec.shape)
    if seed < _INSIDE:
        return draw
    least = float(np.finfo(spec.dtype).smallest_subnormal)
    edges = np.array([0.0, -0.0, 1.0, -1.0, least, -least, np.inf, -np.inf, np.nan])
    chosen = rng.choice(edges[: 6 if seed == _INSIDE else 9], spec.shape)
    return np.where(rng.integers(0, 2, spec.shape), chosen, draw)


def _value(drawn: Array, spec: Spec) -> Raw:
    array = np.asarray(drawn).astype(spec.dtype)
    if spec.weak:
        return array.item()
    array.flags.writeable = False
    return array if array.ndim else array[()]


# ------------------------------------------------------------------------------------- evaluation


def _raw(equation: Equation, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Evaluate an equation on raw values, outside of all transformations."""
    outs = equation.operation.evaluate(*operands, **dict(equation.params))
    several = outs if type(outs) is tuple else (outs,)
    pairs = zip(several, equation.results, strict=True)
    return tuple([np.asarray(out).item() if spec.weak else out for out, spec in pairs])


def _spreads(program: Program, values: Values, expected: Sequence[Raw]) -> list[Any]:
    """For each result, how far noise in the last bits of all operands moves its elements."""
    inner = (
        64.0 if any(isinstance(e.operation.structure, Control) for e in program.equations) else 1.0
    )
    spreads = []
    runs = [_noisy(program, values, seed) for seed in range(_NOISY_RUNS)]
    for position, value in enumerate(expected):
        array = np.asarray(value)
        if array.dtype.kind not in "fc":
            moved = [np.asarray(run[position]) != array for run in runs]
            spreads.append(np.where(np.any(moved, axis=0), np.inf, 0.0))
            continue
        limits = np.finfo(array.dtype)
        size = np.abs(array).astype(float)
        spread = 4 * float(limits.eps) * size + 4 * float(limits.smallest_subnormal)
        for run in runs:
            other = np.asarray(run[position])
            gap = np.abs(other - array).astype(float)
            same = (array == other) | (np.isnan(array) & np.isnan(other))
            gap = np.where(np.isfinite(gap), gap, np.where(same, 0.0, np.inf))
            spread = np.maximum(spread, 16 * inner * gap)
        spreads.append(spread)
    return spreads


def _noisy(program: Program, values: Values, seed: int) -> list[Any]:
    rng = np.random.default_rng((7, seed))

    def run(equation: Equation, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        structure = equation.operation.structure
        if isinstance(structure, (Movement, Gather)):
            return _raw(equation, operands)
        terms = max([np.size(operand) for operand in operands], default=1)
        most = max([1, *[prod(result.shape) for result in equation.results]])
        adds = not isinstance(structure, Elementwise)
        scale = _NOISE * (np.sqrt(max(terms / most, 1.0)) if adds else 1.0)
        return _raw(equation, tuple([_moved(operand, rng, scale) for operand in operands]))

    return program.evaluate(values, run)


def _moved(value: Raw, rng: np.random.Generator, scale: float) -> Raw:
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return value
    step = rng.choice([-1.0, 1.0], array.shape) * rng.uniform(0.5, 1.0, array.shape)
    moved = (array * (1 + scale * float(np.finfo(array.dtype).eps) * step)).astype(array.dtype)
    return moved.item() if type(value) in (float, complex) else moved[()]


# -------------------------------------------------------------------------------------- the report


class _WrongPass:
    """Names the pass and the rule, and shows the smallest program on which they go wrong."""

    def __init__(
        self, change: Callable[..., Program], rules: Mapping[Any, Any] | None, is_exact: bool
    ) -> None:
        self._change, self._rules, self._is_exact = change, rules, is_exact

    def of(self, program: Program, gap: Difference) -> str:
        """The text for a program at whose values the pass went wrong."""
        home = self._change.__module__.rpartition(".")[2]
        small, values, text = self._smallest(_plain(program), gap)
        name = f"{home}.{self._change.__name__}"
        lines = [f"validated: the pass {name} changes a result of {program.name}: {gap.text}."]
        if self._rules is not None:
            lines.append(f"The rule: {self._rule(self._rules, small, values)}.")
        inputs = [f"{name} = {value!r}" for name, value in zip(small.names, values, strict=True)]
        lines += [f"The smallest program that shows it ({text}):", small.to_text(), "becomes"]
        lines += [self._changed(small).to_text(sources=False), f"at {', '.join(inputs)}"]
        return "\n".join(lines)

    def _changed(self, program: Program, rules: Mapping[Any, Any] | None = None) -> Program:
        table = self._rules if rules is None else rules
        return self._change(program) if table is None else self._change(program, rules=table)

    def _told(
        self, program: Program, values: Values, rules: Mapping[Any, Any] | None = None
    ) -> str:
        changed = _plain(self._changed(program, rules))
        return difference_at(program, changed, values, self._is_exact)

    def _smallest(self, program: Program, gap: Difference) -> tuple[Program, Values, str]:
        """Find the fewest equations that go wrong: the last ones before one variable."""
        known: list[Any] = [*gap.values, *(constant.value for constant in program.constants)]

        def run(equation: Equation, operands: tuple[Any, ...]) -> tuple[Any, ...]:
            outs = _raw(equation, operands)
            known.extend(outs)
            return outs

        with quiet(), np.errstate(all="ignore"):
            program.evaluate(gap.values, run)
        for depth in (1, 2, 3, 4, 8, 16, 64):
            for results in program.index.results:
                piece, values, text = self._piece(program, results, depth, frozenset(), known)
                if text:
                    cut = frozenset[int]()
                    for variable in range(program.index.first_result, results.start):
                        smaller = self._piece(program, results, depth, cut | {variable}, known)
                        if smaller[2]:
                            cut |= {variable}
                            piece, values, text = smaller
                    return piece, values, text
        return program, gap.values, gap.text

    def _piece(
        self,
        program: Program,
        wanted: Sequence[int],
        depth: int,
        cut: frozenset[int],
        known: Sequence[Any],
    ) -> tuple[Program, Values, str]:
        """A piece of the program, the values of its inputs, and the error there."""
        sources = _sources(program, wanted, depth, cut)
        piece = extract(program, sources, list(wanted))
        values = [known[variable] for variable in sources]
        return piece, values, self._told(piece, values)

    def _rule(self, rules: Mapping[Any, Any], program: Program, values: Values) -> str:
        """The name of a rule that goes wrong without others, or of several that do so together."""

        def is_wrong(chosen: Sequence[Any]) -> bool:
            table = {key: tuple(f for f in row if f in chosen) for key, row in rules.items()}
            return bool(self._told(program, values, table))

        every = [*dict.fromkeys([rule for row in rules.values() for rule in row])]
        needed = [rule for rule in every if is_wrong([rule])]
        if not needed:
            needed = every
            for rule in every:
                fewer = [other for other in needed if other is not rule]
                needed = fewer if is_wrong(fewer) else needed
        names = [f"{rule.__module__}.{getattr(rule, '__qualname__', rule)}" for rule in needed]
        return " with ".join(name.removeprefix("funcgrad.") for name in names)


def _sources(program: Program, wanted: Sequence[int], depth: int, cut: frozenset[int]) -> list[int]:
    """The variables from which the last few equations compute the wanted ones; ``cut`` are some."""
    first = len(program.inputs)
    constants = range(first, first + len(program.constants))
    makers = program.index.makers
    level, sources = set(wanted), set[int]()
    seen = set[int]()
    for remaining in range(depth, -1, -1):
        following = set[int]()
        for variable in level - seen:
            seen.add(variable)
            maker = makers[variable]
            if variable in constants:
                continue
            if maker < 0 or remaining == 0 or variable in cut:
                sources.add(variable)
            else:
                following.update(program.equations[maker].operands)
        level = following
    return sorted(sources)
