"""Random functions of one number that branch in Python, and the plain loop over examples.

A program is a tuple of statements; `Function` interprets it with Python's own `if`, `while`, `for`
and `return`, on whatever it is given: numbers, tensors, tracers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp

CONSTANTS = st.sampled_from([-1.3, -0.6, 0.2, 0.45, 1.1, 1.7])
VARIABLES = st.integers(0, 1)
_LEAVES = st.one_of(
    st.tuples(st.just("var"), VARIABLES),
    st.tuples(st.just("const"), CONSTANTS),
    st.tuples(st.just("int"), st.sampled_from([0, 2])),
)
EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["add", "mul", "ratio"]), inner, inner),
        st.tuples(st.sampled_from(["sin", "tanh", "square"]), inner),
    ),
    max_leaves=4,
)
CONDITIONS = st.one_of(
    st.tuples(st.just("greater"), EXPRESSIONS, CONSTANTS),
    st.tuples(st.just("between"), CONSTANTS, EXPRESSIONS, CONSTANTS),
)
_SIMPLE = st.one_of(
    st.tuples(st.just("assign"), VARIABLES, EXPRESSIONS),
    st.tuples(st.just("return"), EXPRESSIONS),
    st.tuples(st.just("append"), EXPRESSIONS),
    st.tuples(st.just("recurse"), VARIABLES),
    st.tuples(st.just("least"), VARIABLES),
)
STATEMENTS = st.recursive(
    _SIMPLE,
    lambda inner: st.one_of(
        st.tuples(
            st.just("if"),
            CONDITIONS,
            st.lists(inner, max_size=2).map(tuple),
            st.lists(inner, max_size=2).map(tuple),
        ),
        st.tuples(st.just("while"), CONDITIONS, st.lists(inner, max_size=1).map(tuple)),
        st.tuples(st.just("times"), VARIABLES, CONDITIONS, EXPRESSIONS),
    ),
    max_leaves=6,
)
PROGRAMS = st.lists(STATEMENTS, min_size=1, max_size=4).map(tuple)
BATCHES = st.integers(0, 2**31).map(np.random.default_rng)


class Function:
    """A program as a function of one number; it counts its runs, and notes its answers."""

    def __init__(self, program: Sequence[Any], returns: Callable[[Any], Any] = lambda y: y) -> None:
        self.program = program
        self.returns = returns
        self.runs = 0
        self.answers: list[Any] = []
        self.__name__ = "branching"

    def __call__(self, x: Any) -> Any:
        self.runs += 1
        self.answers = []
        return self.returns(self._call(x, 0))

    def _call(self, x: Any, depth: int) -> Any:
        state = [x, x * 0.5 + 0.3]
        values = [x]
        out = self._block(self.program, state, values, depth)
        return sum(values[1:], state[0] * state[1]) + 0.0 * x if out is None else out + 0.0 * x

    def _block(self, block: Sequence[Any], state: list[Any], values: list[Any], depth: int) -> Any:
        for statement in block:
            out = self._statement(statement, state, values, depth)
            if out is not None:
                return out
        return None

    def _statement(self, s: Any, state: list[Any], values: list[Any], depth: int) -> Any:
        match s:
            case ("assign", target, expression):
                state[target] = _value(expression, state)
            case ("return", expression):
                return _value(expression, state)
            case ("append", expression):
                values.append(_value(expression, state))
            case ("recurse", target):
                if depth < 3 and self._answer(state[target] > 0.4):
                    state[target] = self._call(state[target] * 0.5, depth + 1)
            case ("least", target):
                least = values[0]
                for value in values[1:]:  # as Python's min does
                    least = value if self._answer(value < least) else least
                state[target] = least
            case ("if", condition, then, other):
                taken = then if self._holds(condition, state) else other
                return self._block(taken, state, values, depth)
            case ("while", condition, body):
                for _ in range(4):
                    if not self._holds(condition, state):
                        break
                    out = self._block(body, state, values, depth)
                    if out is not None:
                        return out
                    state[0] = state[0] * 0.6
            case ("times", target, condition, expression):
                count = self._answer(fnp.clip(fnp.abs(state[target]) * 2, 0, 3), int)
                for _ in range(count):
                    state[target] = state[target] + 0.1 * _value(expression, state)
                    if self._holds(condition, state):
                        break
        return None

    def _holds(self, condition: Any, state: list[Any]) -> bool:
        match condition:
            case ("greater", expression, bound):
                return self._answer(_value(expression, state) > bound)
            case (_, low, expression, high):
                value = _value(expression, state)
                return self._answer(low < value) and self._answer(value < high)
        raise AssertionError(condition)

    def _answer(self, value: Any, convert: Callable[[Any], Any] = bool) -> Any:
        answer = convert(value)
        self.answers.append(answer)
        return answer


def _value(expression: Any, state: Sequence[Any]) -> Any:
    match expression:
        case ("var", place):
            return state[place]
        case ("const", number) | ("int", number):
            return number
        case ("add", a, b):
            return _value(a, state) + _value(b, state)
        case ("mul", a, b):
            return fnp.tanh(_value(a, state) * _value(b, state))
        case ("ratio", a, b):
            return _value(a, state) / (1.5 + fnp.sin(_value(b, state)))
        case ("sin", a):
            return fnp.sin(_value(a, state))
        case ("tanh", a):
            return fnp.tanh(_value(a, state))
        case ("square", a):
            return fnp.sin(_value(a, state) ** 2)
    raise AssertionError(expression)


def looped(f: Callable[[Any], Any], batch: Any) -> np.ndarray[Any, Any]:
    """The plain loop: a function's results for the examples of a batch, one by one."""
    return np.array([float(f(fg.tensor(x))) for x in np.asarray(batch).reshape(-1)]).reshape(
        np.shape(batch)
    )


def distinct_paths(f: Function, batch: Any) -> int:
    """How many paths the examples take, by the plain loop."""
    paths = set()
    for x in np.asarray(batch).reshape(-1):
        f(fg.tensor(x))
        paths.add(tuple(f.answers))
    return len(paths)
