"""Loops as users write them, by what makes them longer, and the ways to run them.

Each loop is a function of one argument (any tree of arrays) that does a constant amount of work for
each of ``length`` steps, so the time and memory of every use should grow as the length.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp


class Loop(NamedTuple):
    """A function, and its argument for a length."""

    function: Callable[[Any], Any]
    argument: Callable[[int], Any]
    exponent: int = 1
    """How its own work grows: 2 where each step makes a new array of the whole length."""
    scale: int = 1
    """How many times as long as others it is measured."""
    staging: bool = True
    """Whether staging is measured itself, and memory after it, or only time after it."""


WIDTH = 8


def _matrix(length: int) -> Any:
    return fg.tensor(np.random.default_rng(length).uniform(0.5, 0.9, (length, WIDTH)))


def _wide_rows(length: int) -> Any:
    return fg.tensor(np.random.default_rng(length).uniform(0.5, 0.9, (length, 200)))


def _columns(length: int) -> Any:
    return _matrix(length).T


def _vector(length: int) -> Any:
    return _matrix(length)[:, 0]


def _number(length: int) -> Any:
    return fg.tensor(0.5)


def rows(x: Any) -> Any:
    state: Any = 0.0
    for row in x:
        state = fnp.tanh(0.9 * state + row)
    return fnp.sum(state)


def rows_by_number(x: Any) -> Any:
    state = x[0]
    for t in range(1, len(x)):
        state = 0.5 * state + x[t] * x[t - 1]
    return fnp.sum(state**2)


def columns(x: Any) -> Any:
    state: Any = 0.0
    for t in range(x.shape[1]):
        state = fnp.sin(state + x[:, t])
    return fnp.sum(state)


def elements(x: Any) -> Any:
    state: Any = 0.0
    for t in range(len(x)):
        state = 0.9 * state + x[t] ** 2
    return state


def windows(x: Any) -> Any:
    total: Any = 0.0
    for t in range(len(x) - 3):
        total = total + fnp.sum(x[t : t + 3]) ** 2
    return total


def gathers(x: Any) -> Any:
    total: Any = 0.0
    for t in range(len(x)):
        total = total + fnp.prod(x[np.array([t, t // 2])])
    return total


def traced_places(x: Any) -> Any:
    order = fnp.argsort(x)
    total: Any = 0.0
    for t in range(len(x)):
        total = total + x[order[t]] ** 2
    return total


def network(x: Any) -> Any:
    weights = np.eye(WIDTH) * 0.5
    state: Any = fnp.zeros(WIDTH)
    states = []
    for row in x:
        state = fnp.tanh(weights @ state + row)
        states.append(state)
    return fnp.sum(fnp.stack(states) ** 2)


def sections(x: Any) -> Any:
    parts = [part * fnp.sum(part) for part in fnp.split(x, len(x))]
    return fnp.sum(fnp.concatenate(parts) ** 2)


def horner(x: Any) -> Any:
    total: Any = 0.0
    for t in range(len(x)):
        total = total * 0.5 + x[t]
    return total**2


def uses(x: Any) -> Any:
    total: Any = 0.0
    for t in range(len(x)):
        total = total + x[t] * x[0]
    return total


def running(x: Any) -> Any:
    return fnp.sum(fnp.cumsum(x**2, axis=0) * fnp.cumprod(x, axis=0))


def several(x: Any) -> Any:
    """Every reduction and order along the axis."""
    found = [fnp.prod(x, axis=0), fnp.max(x, axis=0), fnp.var(x, axis=0)]
    found += [fnp.median(x, axis=0), fnp.sort(x, axis=0)[0], fnp.diff(x, axis=0)[0]]
    return sum(fnp.sum(part**2) for part in found)


def leaves(tree: Any) -> Any:
    return sum(fnp.sum(x**2) for x in fg.tree.leaves(tree))


def nested(tree: Any) -> Any:
    total: Any = 0.0
    while tree:
        total = total + fnp.sin(tree["x"]) * tree["x"]
        tree = tree["next"]
    return total


def writes(x: Any) -> Any:
    """A functional update makes a new array: of the whole length in each step."""
    y = fnp.zeros_like(x)
    for t in range(len(x)):
        y = y.at[t].set(x[t] ** 2)
    return fnp.sum(y)


def growth(x: Any) -> Any:
    """As in NumPy, an array that grows by concatenation is copied in each step."""
    y = x[:1]
    for t in range(1, len(x)):
        y = fnp.concatenate([y, 0.5 * y[-1:] + x[t : t + 1]])
    return fnp.sum(y**2)


def _chain(length: int) -> Callable[[Any], Any]:
    def chain(x: Any) -> Any:
        for _ in range(length):
            x = 0.99 * fnp.sin(x)
        return x

    return chain


def _choices(length: int) -> Callable[[Any], Any]:
    """A chain of ``length`` else-ifs, of which the last one runs."""

    def choices(x: Any) -> Any:
        def otherwise(k: int) -> Callable[[Any], Any]:
            if k == length:
                return fnp.sin
            return lambda y: fg.cond(y > 1.0 + k, lambda y: y * k, otherwise(k + 1), y)

        return otherwise(0)(x)

    return choices


def _tree(length: int) -> Any:
    return {f"x{k}": fnp.full(3, 0.5 + k) for k in range(length)}


def _nested_tree(length: int) -> Any:
    tree: Any = None
    for k in range(length):
        tree = {"x": fg.tensor(0.5 + k), "next": tree}
    return tree


LOOPS: dict[str, Loop] = {
    "rows": Loop(rows, _matrix),
    "rows of 200": Loop(rows, _wide_rows, scale=10, staging=False),
    "rows by number": Loop(rows_by_number, _matrix),
    "columns": Loop(columns, _columns),
    "elements": Loop(elements, _vector),
    "windows": Loop(windows, _vector),
    "gathers": Loop(gathers, _vector),
    "traced places": Loop(traced_places, _vector),
    "network": Loop(network, _matrix),
    "sections": Loop(sections, _matrix),
    "horner": Loop(horner, _vector),
    "uses": Loop(uses, _vector),
    "running": Loop(running, _matrix),
    "several": Loop(several, _matrix),
    "leaves": Loop(leaves, _tree),
    "nested": Loop(nested, _nested_tree),
    "writes": Loop(writes, _vector, exponent=2),
    "growth": Loop(growth, _vector, exponent=2),
}
DEPTHS: dict[str, Callable[[int], Callable[[Any], Any]]] = {"chain": _chain}
NESTS: dict[str, Callable[[int], Callable[[Any], Any]]] = {"choices": _choices}
"""Loops that nest function calls, which Python limits in depth."""


def of_length(name: str, length: int) -> tuple[Callable[[Any], Any], Any]:
    """A loop and its argument."""
    if name in DEPTHS or name in NESTS:
        return (DEPTHS | NESTS)[name](length), fg.tensor(0.5)
    loop = LOOPS[name]
    return loop.function, loop.argument(length)


def _copies(tree: Any) -> Any:
    return fg.tree.map(lambda x: fnp.stack([x, 0.9 * x]), tree)


def _gradient_norm(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: sum(fnp.sum(leaf**2) for leaf in fg.tree.leaves(fg.grad(f)(x)))


WAYS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "eager": lambda f: f,
    "grad": fg.grad,
    "vjp pullback": lambda f: lambda x: fg.vjp(f, x)[1](1.0),
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: fg.linearize(f, x)[1](x),
    "hvp": lambda f: lambda x: fg.hvp(f, (x,), (x,)),
    "grad of grad": lambda f: fg.grad(_gradient_norm(f)),
    "vmap of grad": lambda f: lambda x: fg.vmap(fg.grad(f))(_copies(x)),
    "grad of vmap": lambda f: fg.grad(lambda x: fnp.sum(fg.vmap(f)(_copies(x)))),
    "grad of checkpoint": lambda f: fg.grad(fg.checkpoint(f)),
}
"""Functions of a loop. They are staged and jitted as well."""
