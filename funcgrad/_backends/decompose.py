"""Replace operations that a compiler lacks by their bodies, which consist of other operations.

>>> import funcgrad as fg
>>> staged = fg.program(fg.nn.softplus)(fg.tensor([1.0, 2.0]))
>>> print(decomposed(staged, lambda primitive: True).to_text(sources=False))
program softplus(x: float64[2]) -> float64[2]
  a = constant 0
  b: float64[2] = maximum x a
  c: float64[2] = absolute x
  d: float64[2] = negative c
  e: float64[2] = exp d
  f: float64[2] = log1p e
  g: float64[2] = add b f
  return g
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import stand_in
from funcgrad._core.trace import Raw, Trace, Value, concrete
from funcgrad._passes.workbench import Rule, Rules, Workbench, improve
from funcgrad._programs.algebra import body_of
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program
from funcgrad.tensor.tensor import Tensor

_DEEPEST: Final = 20
"""The deepest nesting of bodies. A deeper one means that a body contains its own operation."""


def decomposed(program: Program, lacks: Callable[[Primitive], bool]) -> Program:
    """Replace operations by their bodies, again and again until the compiler has all of them.

    Parameters
    ----------
    program : Program
    lacks : callable
        ``primitive -> bool``: whether the compiler lacks it. A primitive without a body stays.

    Returns
    -------
    Program
        The same object if nothing has changed. An operation stays if its body branches on values,
        returns ``NotImplemented``, or gives another dtype for these operands.
    """
    tried: set[Primitive] = set()  # some stay: their bodies cannot be written for some operands
    for _ in range(_DEEPEST):
        bodies = bodies_for(program, lacks)
        rules = {operation: bodies[operation] for operation in bodies if operation not in tried}
        if not rules:
            break
        program = improve(program, rules)
        tried |= {
            equation.operation for equation in program.equations if equation.operation in rules
        }
    return program


def bodies_for(program: Program, lacks: Callable[[Primitive], bool]) -> Rules:
    """Rewrite rules that replace each operation which the compiler lacks by its body."""
    operations = {equation.operation for equation in program.equations}
    bodies = {operation: body_of(operation) for operation in operations if lacks(operation)}
    return {operation: (_rule(body),) for operation, body in bodies.items() if body is not None}


def _rule(body: Callable[..., Value]) -> Rule:
    return partial(_written, body)


def _written(body: Callable[..., Value], bench: Workbench, equation: Equation) -> int | None:
    """Write a body's equations for an equation's operands; return the variable of the result."""
    writer = _BodyWriter(bench, equation)
    try:
        with np.errstate(all="ignore"):
            out = body(*map(writer.follow, equation.operands), **dict(equation.params))
    except _NoEquation:
        return None
    return None if out is NotImplemented else writer.variable(out)


class _NoEquation(BaseException):
    """Raised when a body cannot be written as equations."""


class _InBody(Tensor):
    """The tracer of a variable. Its value is a stand-in with the variable's shape and dtype."""

    __slots__ = ("_trace", "_variable")
    _variable: int

    def _reveal(self, use: str, exact: bool) -> Raw:
        raise _NoEquation


_new: Final[Any] = object.__new__


class _BodyWriter(Trace):
    """The trace that adds a body's operations to a workbench, instead of an equation."""

    __slots__ = ("_bench", "_equation")

    def __init__(self, bench: Workbench, equation: Equation) -> None:
        super().__init__(0)
        self._bench = bench
        self._equation = equation

    def follow(self, variable: int) -> Value:
        """Make the tracer of a variable."""
        tracer: _InBody = _new(_InBody)
        tracer._trace, tracer._variable = self, variable
        tracer._value = stand_in(self._bench.specs[variable])
        return tracer

    def variable(self, value: Value) -> int:
        """The variable of a tracer, or of a constant."""
        if type(value) is _InBody:
            return value._variable
        return self._bench.constant(concrete(value))

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Add an equation to the workbench."""
        operands = tuple([self.variable(arg) for arg in args])
        results = primitive.results(*[self._bench.specs[k] for k in operands], **params)
        if len(results) != 1:
            raise _NoEquation
        sorted_params, (result,) = tuple(sorted(params.items())), results
        return self.follow(
            self._bench.put(self._equation, primitive, operands, sorted_params, result)
        )
