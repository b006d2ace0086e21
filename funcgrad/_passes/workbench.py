"""Rewriting: visit the equations of a program in order, and replace them by rules.

A *rule* gets one equation, whose operands have been rewritten already, and returns a variable that
equals the result: an existing one, or the result of a new equation that the rule puts on the bench.
Rules are tried on new equations, too. Equal equations are merged, and unread equations are dropped
at the end.

>>> import funcgrad as fg
>>> from funcgrad._primitives.elementwise import multiply, square
>>> def squared(bench, equation):
...     x, y = equation.operands
...     return bench.put(equation, square, (x,)) if x == y else None
>>> print(improve(fg.program(lambda x: x * x)(3.0), {multiply: (squared,)}).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a: float64[] = square x
  return a
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec
from funcgrad._core.structure.index_maps import Piece
from funcgrad._core.structure.structures import Movement, Trait
from funcgrad._core.trace import Raw
from funcgrad._programs.equation import Constant, Equation, Params, exact_key
from funcgrad._programs.moved_elements import rearranged
from funcgrad._programs.program import Program

ANY: Final = "any operation"
"""The key for every primitive in a table of rules."""

_MOST_ROUNDS: Final = 16
_PLAIN: Final = frozenset({bool, int, str, type(None)})


class Workbench:
    """A program that is being rewritten.

    Old variables keep their numbers, so unchanged equations are not copied; variables that rules
    add come after them.

    Attributes
    ----------
    program : Program
        The original program.
    specs : list of Spec
        Specs by variable.
    makers : list of Equation or None
        For each variable, the equation that defines it; None for inputs and constants.
    constants : dict of Constant
        Constants by variable.
    uses : list of int
        For each variable, the number of its readers, without equations that have been dropped.
    current : int
        The first result, in the original program, of the equation that is visited; -1 while rules
        are tried on an equation that a rule has added.
    undecided : bool
        Set by a rule that may succeed in a later round, for example once an operand has a single
        reader.
    """

    def __init__(self, program: Program, book: _Book, start: _Book) -> None:
        self.program = program
        self.specs = list(program.specs())
        self.makers: list[Equation | None] = [None] * len(self.specs)
        self.uses = _uses(program, len(self.specs))
        self.constants: dict[int, Constant] = {}
        self.current = -1
        self.undecided = False
        self._book = book
        self._start = start
        self._results: dict[Hashable, Spec] = {}
        self._changed = False
        self._aliases = list(range(len(self.specs)))
        self._variables: dict[tuple[int, ...], int] = {}
        self._settings: dict[Hashable, int] = {(): 0}
        self._numbers: dict[Hashable, int] = {}
        self._operands: tuple[int, ...] = ()
        self._order: list[int] = []
        self._pieces: dict[Hashable, Piece | None] = {}
        for variable, constant in enumerate(program.constants, len(program.inputs)):
            first = self._numbers.setdefault(constant.in_memory, variable)
            self.constants[variable] = constant
            if first != variable:
                self._replace(variable, first)

    # Queries of rules.

    def is_made_by(self, variable: int, operation: Primitive) -> Equation | None:
        """The equation that defines a variable, if its operation is the given one."""
        maker = self.makers[variable]
        return maker if maker is not None and maker.operation is operation else None

    def rearranged(self, variable: int) -> Piece | None:
        """The strides of a variable's elements in another variable, or None; see below."""
        maker = self.makers[variable]
        return None if maker is None else self.rearrangement(maker)

    def rearrangement(self, equation: Equation) -> Piece | None:
        """The strides by which an equation takes elements from its operand; see ``rearranged``.

        None for other equations. Cached for one operation with equal shapes and parameters.
        """
        if len(equation.operands) != 1 or not isinstance(equation.operation.structure, Movement):
            return None
        shapes = equation.results[0].shape, self.specs[equation.operands[0]].shape
        key = equation.operation, shapes, _identity(equation.params)
        if key not in self._pieces:
            self._pieces[key] = rearranged(equation, self.specs)
        return self._pieces[key]

    def is_read_once(self, variable: int) -> bool:
        """Whether only the visited equation reads a variable."""
        uses = self.uses[variable]
        once = not uses or (uses == 1 and variable in self._operands)
        self.undecided = self.undecided or not once
        return once

    def known(
        self, like: Equation, operation: Primitive, operands: tuple[int, ...], params: Params = ()
    ) -> int | None:
        """The variable of an equal equation that exists in the epoch of ``like``, or None."""
        return self._variables.get(self._key(operation, operands, params, like.epoch))

    # Actions of rules.

    def constant(self, value: Raw) -> int:
        """The variable of a constant, which is added if it is new."""
        constant = Constant(value)
        variable = self._numbers.setdefault(constant.in_memory, len(self.specs))
        if variable == len(self.specs):
            self._append(constant.spec, None)
            self.constants[variable] = constant
        return variable

    def put(
        self,
        like: Equation,
        operation: Primitive,
        operands: tuple[int, ...],
        params: Params = (),
        result: Spec | None = None,
    ) -> int:
        """Add an equation, or find a simpler or equal one by the rules; return its variable.

        Parameters
        ----------
        like : Equation
            The replaced equation, from which it takes the user's line and the epoch.
        operation, operands, params
        result : Spec, optional
            The spec of the result, if it is known.
        """
        if result is None:
            result = self._result(operation, operands, params)
        equation = Equation(operation, operands, params, (result,), like.source, like.epoch)
        current, self.current = self.current, -1
        variable = self._resolved(equation, -1, self._book)
        self.current = current
        return variable

    def _result(self, operation: Primitive, operands: tuple[int, ...], params: Params) -> Spec:
        """The spec of a result, cached; it is weak if all operands are Python numbers."""
        specs = [self.specs[variable] for variable in operands]
        if params:
            (result,) = operation.results(*specs, **dict(params))
            return result
        key = operation, *specs
        spec = self._results.get(key)
        if spec is None:
            (spec,) = operation.results(*specs)
            self._results[key] = spec
        return spec

    # The rewriting.

    def visit(self, equation: Equation, first: int) -> None:
        """Rewrite the next equation of the program; its first result is the variable ``first``."""
        count = len(equation.results)
        if not any(self.uses[first : first + count]):
            self._changed = True
            return
        operands = tuple(map(self._aliases.__getitem__, equation.operands))
        book = self._start if operands == equation.operands else self._book
        equation = equation.on(operands)
        self.current, self._operands = first, operands
        if count == 1:
            replacement = self._resolved(equation, first, book)
        else:
            replacement = self._variable_of(equation, first)
        if replacement != first:
            for k in range(count):
                self._replace(first + k, replacement + k)
            for variable in operands:
                self._release(variable)

    def _resolved(self, equation: Equation, at: int, book: _Book) -> int:
        operation = equation.operation
        rules, _ = book.known.get(operation) or book.look_up(operation)
        for rule in rules:
            replacement = rule(self, equation)
            if replacement is not None and self.specs[replacement] == equation.results[0]:
                return replacement
        return self._variable_of(equation, at)

    def _variable_of(self, equation: Equation, at: int) -> int:
        key = self._key(equation.operation, equation.operands, equation.params, equation.epoch)
        known_variable = self._variables.get(key)
        if known_variable is not None:
            return known_variable
        if at < 0:
            at = len(self.specs)
            self._append(equation.results[0], equation)
        for variable in range(at, at + len(equation.results)):
            self.makers[variable] = equation
        self._variables[key] = at
        self._order.append(at)
        return at

    def _key(
        self, operation: Primitive, operands: tuple[int, ...], params: Params, epoch: int
    ) -> tuple[int, ...]:
        _, commutes = self._book.known.get(operation) or self._book.look_up(operation)
        if commutes and operands[0] > operands[1]:
            x, y = operands
            if self.specs[x].dtype.kind != "c" != self.specs[y].dtype.kind:
                operands = y, x
        settings = (
            self._settings.setdefault(_identity(params), len(self._settings)) if params else 0
        )
        # Integers: Python's collector does not look again and again at a tuple of them.
        return id(operation), settings, epoch, *operands

    def _append(self, spec: Spec, maker: Equation | None) -> None:
        self.specs.append(spec)
        self.makers.append(maker)
        self.uses.append(0)

    def _replace(self, old: int, new: int) -> None:
        """Replace a variable by another in all equations that read it."""
        self._changed = True
        self._aliases[old] = new
        count, self.uses[old] = self.uses[old], 0
        if count and not self.uses[new]:
            self._acquire(new)
            count -= 1
        self.uses[new] += count

    def _acquire(self, variable: int) -> None:
        """Count one more reader of a variable; the first also counts for the operands."""
        waiting = [variable]
        while waiting:
            variable = waiting.pop()
            self.uses[variable] += 1
            maker = self.makers[variable]
            if self.uses[variable] == 1 and maker is not None and len(maker.results) == 1:
                waiting += maker.operands

    def _release(self, variable: int) -> None:
        waiting = [variable]
        while waiting:
            variable = waiting.pop()
            self.uses[variable] -= 1
            maker = self.makers[variable]
            if self.uses[variable] == 0 and maker is not None and len(maker.results) == 1:
                waiting += maker.operands

    def finish(self) -> Program:
        """The rewritten program, without unread equations."""
        program, uses = self.program, self.uses
        if not self._changed and all(uses[variable] for variable in self.constants):
            return program
        places = list(range(len(program.inputs))) + [-1] * (len(self.specs) - len(program.inputs))
        number = len(program.inputs)
        constants = [variable for variable in self.constants if uses[variable]]
        for variable in constants:
            places[variable] = number
            number += 1
        equations = []
        for at in self._order:
            equation = self.makers[at]
            assert equation is not None
            end = at + len(equation.results)
            if not any(uses[at:end]):
                continue
            equations.append(equation.on(tuple(map(places.__getitem__, equation.operands))))
            for variable in range(at, end):
                places[variable] = number
                number += 1
        final = [places[variable] for variable in self._aliases]
        guards = [replace(guard, variable=final[guard.variable]) for guard in program.guards]
        constants_read = tuple([self.constants[variable] for variable in constants])
        outputs = tuple([final[variable] for variable in program.outputs])
        return replace(
            program,
            constants=constants_read,
            equations=tuple(equations),
            outputs=outputs,
            guards=tuple(dict.fromkeys(guards)),
        )


Rule: TypeAlias = Callable[[Workbench, Equation], "int | None"]
"""``(bench, equation) -> a variable that equals the result``, or None. A variable of another shape,
dtype or weakness is ignored, so that promotion does not change."""

Rules: TypeAlias = Mapping[Any, tuple[Rule, ...]]
"""Rules by operation, by trait, or by the class of a structure."""


def improve(program: Program, rules: Rules, first: Rules | None = None) -> Program:
    """Apply rules to a program until nothing changes, mostly in one or two rounds.

    Under ``ANY`` are the rules for every primitive. If ``rules`` have been applied to the program
    before, ``first`` has the rules to try on equations with unchanged operands: then ``rules`` are
    tried on new equations and their readers, in one round. Returns the same object if nothing has
    changed.
    """
    book = _Book(rules)
    start = book if first is None else _Book(first)
    for _ in range(_MOST_ROUNDS):
        bench = Workbench(program, book, start)
        for equation, results in zip(program.equations, program.index.results, strict=True):
            bench.visit(equation, results.start)
        before, program = program, bench.finish()
        if program is before or not bench.undecided or start is not book:
            break
    return program


def merge_common_subexpressions(program: Program) -> Program:
    """Compute equal operations on equal operands once, and store equal constants once.

    Parameters have to be identical (``exact_key``: 2 is not 2.0). Calls are equal if their rules
    and programs are equal. Equations of different epochs are never merged: a later epoch repeats
    work on purpose (``Equation.epoch``). ``improve`` merges with any table of rules; this pass only
    merges.

    >>> import funcgrad as fg
    >>> staged = fg.program(lambda x: (x + 1.0) * (x + 1.0))(3.0)
    >>> print(merge_common_subexpressions(staged).to_text(sources=False))
    program <lambda>(x: float64[]) -> float64[]
      a = constant 1.0
      b: float64[] = add x a
      c: float64[] = multiply b b
      return c
    """
    return improve(program, {})


def joined(*tables: Rules) -> Rules:
    """Join tables of rules; rules are tried in the order of the tables."""
    keys = dict.fromkeys([key for table in tables for key in table])
    rules = {key: [rule for table in tables for rule in table.get(key, ())] for key in keys}
    unique = {key: tuple(dict.fromkeys(rules_of_key)) for key, rules_of_key in rules.items()}
    return MappingProxyType(unique)


class _Book:
    """The rules for each operation, and whether it commutes, cached."""

    __slots__ = ("_rules", "_traits", "known")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._traits = [key for key in rules if isinstance(key, Trait)]
        self.known: dict[Primitive, tuple[tuple[Rule, ...], bool]] = {}

    def look_up(self, operation: Primitive) -> tuple[tuple[Rule, ...], bool]:
        """List the rules for every operation, for this one, its structure and its traits."""
        traits = [trait for trait in self._traits if trait in operation.traits]
        keys = ANY, operation, type(operation.structure), *traits
        rules = dict.fromkeys([rule for key in keys for rule in self._rules.get(key, ())])
        entry = self.known[operation] = tuple(rules), Trait.COMMUTATIVE in operation.traits
        return entry


def _uses(program: Program, total: int) -> list[int]:
    """For each variable, the number of its readers, without dead equations."""
    uses = [0] * total
    for variable in program.outputs:
        uses[variable] += 1
    for guard in program.guards:
        uses[guard.variable] += 1
    first = total
    for equation in reversed(program.equations):
        first -= len(equation.results)
        if any(uses[first : first + len(equation.results)]):
            for variable in equation.operands:
                uses[variable] += 1
    return uses


def _identity(params: Params) -> Hashable:
    """The ``exact_key`` of parameters, with a fast path for plain values."""
    parts: list[Hashable] = []
    for name, value in params:
        kind = type(value)
        if kind in _PLAIN or (kind is tuple and all(type(entry) is int for entry in value)):
            parts.append((name, kind, value))
        else:
            parts.append((name, exact_key(value)))
    return tuple(parts)
