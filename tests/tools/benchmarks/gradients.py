"""The cost of each gradient, as a multiple of its function, for every function of arrays.

Functions are found by calling what the namespaces export with arrays of 100,000 elements, along
either axis where they take one. The list begins with the dearest, and says which primitives no
function reached. Times compare two lines of one run, and nothing else::

    python -m tests.tools.benchmarks.gradients            # all
    python -m tests.tools.benchmarks.gradients prod sinc  # those with a word in their name
"""

import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from math import isqrt
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad._core.primitive import DISCRETE
from tests.conformance import every_primitive
from tests.tools.benchmarks.measured import seconds

MODULES = (fnp, nn)
SIZE = 100_000
MOST = 8.0
MEMORY = 4 << 30
"""In bytes: a function whose result takes more (``diag`` of a vector) is no subject."""


class Subject(NamedTuple):
    """A function of one array."""

    name: str
    function: Callable[[Any], Any]
    point: np.ndarray


def candidates(module: ModuleType, size: int) -> Iterator[Subject]:
    """Calls that may or may not have a meaning, with arrays of ``size`` elements."""
    rng = np.random.default_rng(0)
    vector, other = rng.uniform(0.2, 0.9, (2, size))
    tall = vector.reshape(size // 100, 100)
    square = rng.uniform(0.2, 0.9, (isqrt(size), isqrt(size)))
    for name in module.__all__:
        f: Any = getattr(module, name)
        if isinstance(f, type) or not callable(f):
            continue
        label = f"{module.__name__.rpartition('.')[2]}.{name}"
        forms: dict[str, Callable[..., Any]] = {
            "x": lambda f, x: f(x),
            "x, y": lambda f, x: f(x, other),
            "y, x": lambda f, x: f(other, x),
            "x > 0.5, x, y": lambda f, x: f(x > 0.5, x, other),
        }
        for arguments, call in forms.items():
            yield Subject(f"{label}({arguments})", partial(call, f), vector)
        yield Subject(f"{label}(matrix)", f, square)
        yield Subject(f"{label}(matrix, matrix)", partial(f, square), square)
        for axis in (0, 1):
            yield Subject(f"{label}(x, axis={axis})", partial(f, axis=axis), tall)


def subjects(words: list[str], size: int = SIZE) -> Iterator[Subject]:
    """The calls whose result is an array of real numbers that depend on the argument."""
    for module in MODULES:
        for subject in candidates(module, size):
            if words and not any(word in subject.name for word in words):
                continue
            try:
                out = subject.function(fg.tensor(subject.point[:2]))
                out = subject.function(fg.tensor(subject.point))
                gradient = fg.grad(total(subject))(subject.point)
                depends = out.dtype.kind == "f" and np.any(np.asarray(gradient))
            except Exception:
                continue
            if depends:
                yield subject


def total(subject: Subject) -> Callable[[Any], Any]:
    """The sum of all results of a function."""
    return lambda x: fnp.sum(subject.function(x))


def reached(subject: Subject) -> set[str]:
    """The primitives in a function."""
    names: set[str] = set()
    try:
        program = fg.program(subject.function)(fg.tensor(subject.point))
    except fg.errors.TracerError:  # the shape of its result depends on numbers
        return names
    waiting = [program]
    while waiting:
        for equation in waiting.pop().equations:
            names.add(equation.operation.name)
            if equation.called is not None:
                waiting.append(equation.called)
    return names


def limit_memory(most: int) -> None:
    """Limit the memory of this process: code that needs more raises MemoryError."""
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def main(words: list[str]) -> None:
    warnings.simplefilter("ignore")
    limit_memory(MEMORY)
    names: set[str] = set()
    rows = []
    for subject in subjects(words):
        x = fg.tensor(subject.point)
        function = seconds(partial(total(subject), x))
        gradient = seconds(partial(fg.value_and_grad(total(subject)), x))
        rows.append((gradient / function, function, subject.name))
        names |= reached(subject)
    for ratio, function, name in sorted(rows, reverse=True):
        print(f"{ratio:7.1f}{'  <- ' if ratio > MOST else '     '}{function * 1e6:9.0f} µs  {name}")
    missing = {p.name for p in every_primitive() if p.differential is not DISCRETE} - names
    print(f"{len(rows)} functions; not reached: {', '.join(sorted(missing)) if not words else '?'}")


if __name__ == "__main__":
    main(sys.argv[1:])
