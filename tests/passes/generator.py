"""Random programs of forms: nested in themselves, sharing operands, reading their own results.

A program begins with matrices and applies forms to its values, mostly to the last one. Earlier
values are read again, by the same form and by others, and may be outputs. So each value that a rule
looks at is in some program its own result, one or both of its operands, guarded, an output, or the
result of a call with rules of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad as fg
import funcgrad._passes
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Trait
from funcgrad._passes.workbench import ANY, Rule, Rules, Workbench
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program
from tests.conformance import every_primitive
from tests.passes.forms_of_algebra import ALGEBRAIC
from tests.passes.forms_of_matrices import CONTRACTED
from tests.passes.forms_of_moves import MOVING
from tests.passes.parts import Form
from tests.subjects import SPECIAL, fixed

SIZE: Final = 3
DTYPES: Final = tuple("fdefdeDi?")
FORMS: Final[Mapping[str, Form]] = MappingProxyType({**ALGEBRAIC, **MOVING, **CONTRACTED})
"""By the name of a rule, what it is made for."""


class Pick:
    """A random choice among values; a lambda that is chosen is called."""

    def __init__(self, seed: int, number: Any = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._number = number

    def __call__(self, *options: Any) -> Any:
        value = options[int(self._rng.integers(len(options)))]
        return value() if getattr(value, "__name__", "") == "<lambda>" else value

    def below(self, count: int) -> int:
        """A random natural number below a bound."""
        return int(self._rng.integers(count))


# ------------------------------------------------------------------------------- rules, discovered


def name_of(rule: Rule) -> str:
    """The module and the name of a rule."""
    module = rule.__module__.rpartition(".")[2]
    return f"{module}.{rule.__qualname__.replace('<locals>.', '')}"


def every_rule() -> dict[str, dict[Any, Rule]]:
    """By name, the operations that each rule of the package is for, with the rule itself."""
    found: dict[str, dict[Any, Rule]] = {}
    for module in iter_modules(funcgrad._passes.__path__, "funcgrad._passes."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, Mapping):
                for key, rules in value.items():
                    for rule in rules if isinstance(rules, tuple) else ():
                        if callable(rule):
                            own = dict.fromkeys(operations_of(key), rule)
                            found.setdefault(name_of(rule), {}).update(own)
    return {
        name: {ANY: own[ANY]} if ANY in own else dict(sorted(own.items(), key=_name_of_operation))
        for name, own in found.items()
    }


def operations_of(key: Any) -> list[Any]:
    """The operations that a key of a table stands for: a trait stands for the operations on real
    numbers that have it, the class of a structure for itself."""
    if not isinstance(key, Trait):
        return [key]
    return [
        primitive
        for primitive in every_primitive()
        if key in primitive.traits
        and np.asarray(next(iter(primitive.samples())).args[-1]).dtype == "d"
    ]


def _arguments_of(primitive: Primitive) -> tuple[Any, ...]:
    return next(iter(primitive.samples())).args


def _name_of_operation(item: tuple[Any, Rule]) -> str:
    return str(getattr(item[0], "name", item[0]))


def is_exact(rule: str) -> bool:
    """Whether a rule keeps every bit; others reorder sums or round differently."""
    return not rule.startswith(("relax.", "contractions."))


def counting(rules: Rules, counts: Counter[Hashable]) -> Rules:
    """The same rules, which count their applications by name and operation."""

    def counted(operation: Any, rule: Rule) -> Rule:
        def wrapper(bench: Workbench, equation: Equation) -> int | None:
            found = rule(bench, equation)
            if found is not None and bench.specs[found] == equation.results[0]:
                counts[name_of(rule), operation] += 1
            return found

        return wrapper

    return {
        operation: tuple([counted(operation, rule) for rule in own])
        for operation, own in rules.items()
    }


# --------------------------------------------------------------------------------------- programs


def arguments(seed: int, dtype: str, tame: bool = False) -> tuple[Any, ...]:
    """Three matrices and a number."""
    rng = np.random.default_rng(seed)
    shape = SIZE, SIZE
    if tame:
        values = [rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape) for _ in range(3)]
    else:
        values = [rng.choice(SPECIAL, shape) for _ in range(3)]
    with np.errstate(all="ignore"):
        if np.dtype(dtype).kind in "i?":
            values = [np.clip(np.nan_to_num(value), -3, 100) for value in values]
        if dtype == "D":
            values = [x + 1j * y for x, y in zip(values, values[1:] + values[:1], strict=True)]
        return (*[value.astype(dtype) for value in values], 1.5)


def program_of(forms: Sequence[tuple[Any, Form]], seed: int) -> Callable[..., Any]:
    """A function that applies forms in turn, each with its operation."""

    def f(*inputs: Any) -> Any:
        pick = Pick(seed)
        values = [fnp.asarray(value) for value in inputs[:-1]]
        for operation, form in forms:
            x = pick(values[-1], values[-1], values[pick.below(len(values))])
            y = pick(values[pick.below(len(values))], values[-1], values[-2], x)
            values.append(_applied(operation, form, x, y, pick))
        last, *others = values[-1], *values[2:-1]
        return pick(
            lambda: last,
            lambda: (last, pick(*others)),
            lambda: (last, last),
            lambda: sum([value for value in others if value.dtype == last.dtype], last),
        )

    return f


_OF_OTHER_DTYPES: Final = (fg.errors.DtypeError, TypeError, np.exceptions.ComplexWarning)
"""What forms raise that are not for the dtype of their operands."""


def _applied(operation: Any, form: Form, x: Any, y: Any, pick: Pick) -> Any:
    """The result of a form for two values; one time in eight in a call or behind a guard."""
    if y.dtype != x.dtype and pick(True, False):
        y = y.astype(x.dtype) if x.dtype.kind != "?" else y > 1
    way, seed = pick.below(16), pick.below(1 << 30)

    def made(x: Any, y: Any) -> Any:
        value = form(operation, x, y, Pick(seed))
        assert value.shape == x.shape
        return value

    try:
        if way == 0:
            return fg.checkpoint(made)(x, y)
        if way == 1:
            value = made(x, y)
            return value if bool(fnp.max(fnp.isnan(value)) < 2) else x
        return made(x, y)
    except _OF_OTHER_DTYPES:
        return x


def forms_around(
    rule: str, operation: Any, table: Mapping[str, Mapping[Any, Rule]], seed: int
) -> Any:
    """Forms, most of them of one rule. Exact and inexact rules are not mixed, since comparisons
    and casts would turn small differences into large ones."""
    rng = np.random.default_rng(seed)
    others = [name for name in FORMS if is_exact(name) == is_exact(rule)]
    chosen: list[tuple[Any, Form]] = []
    for _ in range(rng.integers(2, 6)):
        if rng.random() < 0.75:
            chosen.append((operation, FORMS[rule]))
        else:
            other = str(rng.choice(others))
            operations = [*table[other]]
            chosen.append((operations[rng.integers(len(operations))], FORMS[other]))
    return chosen


def staged(
    forms: Any, seed: int, dtype: str, tame: bool = False
) -> tuple[Program, tuple[Any, ...]]:
    """A program of forms, or of their derivative, and arguments."""
    f, args = program_of(forms, seed), arguments(seed, dtype, tame)
    if seed % 5 == 0 and np.dtype(dtype).kind == "f":
        f = _pushed(f)
    program = fg.program(f)(*args)
    free = (0, 1, 2, len(args), len(args), len(args))[seed % 6]
    return fixed(program, args, free), args[:free]


def _pushed(f: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative of a function with respect to all of its arguments."""
    return lambda *args: fg.jvp(f, args, args)[1]
