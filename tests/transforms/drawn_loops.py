"""Random functions of one number as Python source, with `while`, `if`, `break` and `return`."""

import linecache
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np

import funcgrad.numpy as fnp

NAMES = st.sampled_from("xyz")
_LEAVES = st.one_of(NAMES, NAMES, st.sampled_from(["0.3", "1.2", "2", "-0.7"]))
EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("fnp.tanh({} * {})".format, inner, inner),
        st.builds("({} / (1.5 + fnp.sin({})))".format, inner, inner),
        st.builds("fnp.sin({})".format, inner),
    ),
    max_leaves=3,
)
CONDITIONS = st.one_of(
    st.builds("{} > {}".format, EXPRESSIONS, st.sampled_from(["-0.4", "0.1", "0.6"])),
    st.builds("-0.5 < {} < 0.8".format, EXPRESSIONS),
    st.builds("{} < {} or {} > 0.5".format, NAMES, NAMES, NAMES),
    st.builds("not {} > 0.2".format, NAMES),
)
_SIMPLE = st.one_of(
    st.tuples(st.just("assign"), NAMES, EXPRESSIONS),
    st.tuples(st.just("assign"), NAMES, EXPRESSIONS),
    st.tuples(st.just("swap"), NAMES, NAMES, EXPRESSIONS),
    st.tuples(st.just("append"), EXPRESSIONS),
    st.tuples(st.just("count")),
    st.tuples(st.just("break"), CONDITIONS),
    st.tuples(st.just("continue"), CONDITIONS),
    st.tuples(st.just("return"), CONDITIONS, EXPRESSIONS),
)


def _blocks(inner: Any) -> Any:
    block = st.lists(inner, min_size=1, max_size=2).map(tuple)
    return st.one_of(
        st.tuples(st.just("if"), CONDITIONS, block, st.one_of(st.just(()), block)),
        st.tuples(st.just("while"), CONDITIONS, block),
        st.tuples(st.just("while"), st.just(""), block),
        st.tuples(st.just("while"), st.just(""), block),
        st.tuples(st.just("for"), block),
    )


STATEMENTS = st.recursive(_SIMPLE, _blocks, max_leaves=3)
LOOPS = st.tuples(
    st.lists(_SIMPLE, max_size=1),
    st.lists(_blocks(STATEMENTS), min_size=1, max_size=1),
    st.lists(_SIMPLE, max_size=1),
).map(lambda lists: (*lists[0], *lists[1], *lists[2]))


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.loops = 0

    def block(self, statements: Sequence[Any], depth: int, step: str = "") -> None:
        for statement in statements:
            self.statement(statement, depth, step)

    def say(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def statement(self, s: Any, depth: int, step: str) -> None:
        match s:
            case ("assign", name, expression):
                self.say(depth, f"{name} = {expression}")
            case ("swap", name, other, expression):
                self.say(depth, f"{name}, {other} = {expression}, {name}")
            case ("append", expression):
                self.say(depth, f"held[1]['sum'] = held[1]['sum'] + {expression}")
            case ("count",):
                self.say(depth, "count = (count + 1) % 2")
            case ("break", condition):
                if step:
                    self.say(depth, f"if {condition}: break")
            case ("continue", condition):
                if step:
                    self.say(depth, f"if {condition}:")
                    self.say(depth + 1, step)
                    self.say(depth + 1, "continue")
            case ("return", condition, expression):
                self.say(depth, f"if {condition}: return {expression} + 0.0 * start")
            case ("if", condition, then, other):
                self.say(depth, f"if {condition}:")
                self.block(then, depth + 1, step)
                if other:
                    self.say(depth, "else:")
                    self.block(other, depth + 1, step)
            case ("while", condition, body):
                self.loops += 1
                fuel = f"fuel{self.loops}"
                inner = f"{fuel} = {fuel} * 0.6 - 0.01 * fnp.sin(start)"
                self.say(depth, f"{fuel} = 1.0 + 0.5 * fnp.tanh(start)")
                more = f"({condition}) and " if condition else ""
                self.say(depth, f"while {more}{fuel} > 0.2:")
                self.block(body, depth + 1, inner)
                self.say(depth + 1, inner)
            case ("for", body):
                self.loops += 1
                self.say(depth, f"for k{self.loops} in range(2):")
                self.block(body, depth + 1, "pass")


def source_of(program: Sequence[Any]) -> str:
    """The source of a function of `x`."""
    writer = _Writer()
    writer.say(0, "def drawn(x):")
    writer.say(1, "start, y, z, count = x, x * 0.5 + 0.3, fnp.sin(3 * x), 0")
    writer.say(1, "held = [x, {'sum': 0.0}]")
    writer.block(program, 1)
    writer.say(1, "return x * y + z + held[1]['sum'] + count + 0.0 * start")
    return "\n".join(writer.lines) + "\n"


def function_of(program: Sequence[Any]) -> Any:
    """The function that a program stands for."""
    source = source_of(program)
    names: dict[str, Any] = {"fnp": fnp}
    file = f"<drawn {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)
    return names["drawn"]


BATCHES = st.integers(0, 2**31).map(np.random.default_rng)
