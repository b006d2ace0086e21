"""What a gradient costs, as a multiple of its function, for every function of arrays.

Functions are found by calling what the namespaces export with arrays of 100,000 elements, along
either axis where they take one. The list begins with the dearest, and says which primitives no
function reached. Times compare two lines of one run, and nothing else::

    python -m tests.benchmarks.gradients            # all
    python -m tests.benchmarks.gradients prod sinc  # those with a word in their name
"""

import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.primitive import DISCRETE
from funcgrad.programs.equation import body_of
from tests.conformance import every_primitive

MODULES = (fnp, nn)
SIZE = 100_000
MOST = 8.0
SLOWEST = 0.1
REPEATS = 7
MEMORY = 4 << 30
"""In bytes: a function whose result takes more (``diag`` of a vector) is no subject."""

_rng = np.random.default_rng(0)
VECTOR = _rng.uniform(0.2, 0.9, SIZE)
OTHER = _rng.uniform(0.2, 0.9, SIZE)
TALL = VECTOR.reshape(1000, 100)
SQUARE = _rng.uniform(0.2, 0.9, (316, 316))


class Subject(NamedTuple):
    """A function of one array."""

    name: str
    function: Callable[[Any], Any]
    point: np.ndarray


def candidates(module: ModuleType) -> Iterator[Subject]:
    """Calls that may or may not have a meaning."""
    for name in module.__all__:
        f: Any = getattr(module, name)
        if isinstance(f, type) or not callable(f):
            continue
        label = f"{module.__name__.rpartition('.')[2]}.{name}"
        forms: dict[str, Callable[..., Any]] = {
            "x": lambda f, x: f(x),
            "x, y": lambda f, x: f(x, OTHER),
            "y, x": lambda f, x: f(OTHER, x),
            "x > 0.5, x, y": lambda f, x: f(x > 0.5, x, OTHER),
        }
        for arguments, call in forms.items():
            yield Subject(f"{label}({arguments})", partial(call, f), VECTOR)
        yield Subject(f"{label}(matrix)", f, SQUARE)
        yield Subject(f"{label}(matrix, matrix)", partial(f, SQUARE), SQUARE)
        for axis in (0, 1):
            yield Subject(f"{label}(x, axis={axis})", partial(f, axis=axis), TALL)


def subjects(words: list[str]) -> Iterator[Subject]:
    """Calls that give an array of real numbers that depend on the argument."""
    for module in MODULES:
        for subject in candidates(module):
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
    """The sum of all that a function returns."""
    return lambda x: fnp.sum(subject.function(x))


def seconds(work: Callable[[], Any]) -> float:
    """The least processor time of some runs."""
    taken = []
    for _ in range(REPEATS):
        start = process_time()
        work()
        taken.append(process_time() - start)
        if sum(taken) > 0.2:
            break
    return min(taken)


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
            names.add(getattr(equation.operation, "name", ""))
            body = body_of(equation)
            if body is not None:
                waiting.append(body)
    return names


def main(words: list[str]) -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
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
