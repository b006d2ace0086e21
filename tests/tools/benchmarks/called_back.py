"""The operations that machine code calls back, and the cost of such a call.

Every operation of the package is compiled for its samples. The table names those for which some
part is called back, the dtypes of these samples, and two times: of a jitted call, and of NumPy's
own evaluation of the same sample. The difference is the cost of leaving machine code. It writes the
table of ``examples/docs/called_back.md``::

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.called_back
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad as fg
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.specs import dtype_of
from funcgrad._passes.pipeline import optimize
from tests.conformance import every_primitive

PAGE: Final = Path(__file__).parents[3] / "examples" / "docs" / "called_back.md"
BEGIN: Final = "<!-- Written by python -m tests.tools.benchmarks.called_back from here on. -->\n"

_ALWAYS: Final = "; called back: "
_AT_TIMES: Final = "; called back at times: "


class CalledBack(NamedTuple):
    """An operation that is called back for some of its samples.

    Attributes
    ----------
    name : str
    kinds : str
        The dtypes of these samples, or "all".
    reasons : tuple of str
        The operations that are called back, and why.
    sample : Sample
        The first of these samples.
    """

    name: str
    kinds: str
    reasons: tuple[str, ...]
    sample: Sample


def called_by(primitive: Primitive, sample: Sample) -> tuple[list[str], list[str]]:
    """The operations that are called back for a sample: always, and for some values only."""
    program = optimize(fg.program(partial(primitive, **sample.params))(*sample.args))
    lines = NATIVE.inspect(NATIVE.prepare(program, False)).splitlines()
    always = [line.removeprefix(_ALWAYS) for line in lines if line.startswith(_ALWAYS)]
    at_times = [line.removeprefix(_AT_TIMES) for line in lines if line.startswith(_AT_TIMES)]
    return [line for line in always if line != "nothing"], at_times


def _kind(sample: Sample) -> str:
    """The widest dtype of a sample's arguments."""
    dtypes = [dtype_of(x) for x in sample.args]
    return str(max(dtypes, key=lambda dtype: "biufc".find(dtype.kind) * 100 + dtype.itemsize))


def findings(primitives: Sequence[Primitive]) -> Iterator[CalledBack]:
    """The operations that are called back for some sample with elements."""
    for primitive in primitives:
        called: list[tuple[Sample, list[str]]] = []
        kinds = set[str]()
        for sample in primitive.samples():
            if not all(np.size(x) for x in sample.args):
                continue
            kinds.add(_kind(sample))
            reasons, _ = called_by(primitive, sample)
            if reasons:
                called.append((sample, reasons))
        if called:
            these = {_kind(sample) for sample, _ in called}
            words = "all" if these == kinds else ", ".join(sorted(these))
            told = dict.fromkeys(reason for _, reasons in called for reason in reasons)
            yield CalledBack(primitive.name, words, tuple(told), called[0][0])


def microseconds(work: Callable[[], Any]) -> float:
    """The processor time of a call: the median of several samples, after some calls."""
    for _ in range(20):
        work()
    start, calls = process_time(), 0
    while not calls or process_time() - start < 2e-3:
        work()
        calls += 1
    times = []
    for _ in range(7):
        start = process_time()
        for _ in range(calls):
            work()
        times.append((process_time() - start) / calls)
    return median(times) * 1e6


def row(primitive: Primitive, called: CalledBack) -> str:
    """A line of the table."""
    args, params = called.sample.args, called.sample.params
    jitted = fg.jit(partial(primitive, **params), backend="native")
    with np.errstate(all="ignore"):
        ours = microseconds(lambda: jitted(*args))
        numpys = microseconds(lambda: primitive.evaluate(*args, **params))
    own = f"{called.name}: "
    reasons = [reason.removeprefix(own) for reason in called.reasons]
    return f"| `{called.name}` | {called.kinds} | {reasons[0]} | {ours:.1f} | {numpys:.1f} |"


def table() -> str:
    """The table of the page."""
    primitives = [*every_primitive(), *every_primitive(several=True)]
    by_name = {primitive.name: primitive for primitive in primitives}
    rows = [
        row(by_name[called.name], called)
        for called in sorted(findings(primitives), key=lambda called: called.name)
    ]
    head = ["| operation | dtypes | why | jitted, µs | NumPy, µs |", "|---|---|---|--:|--:|"]
    return "\n".join([*head, *rows, ""])


def main() -> None:
    """Write the table, or print the names of the operations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="print the names and reasons only")
    options = parser.parse_args()
    if options.names:
        for called in findings([*every_primitive(), *every_primitive(several=True)]):
            print(called.name, called.kinds, *called.reasons, sep=" | ")
        return
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.partition(BEGIN)[0] + BEGIN + "\n" + table(), encoding="utf-8")


if __name__ == "__main__":
    main()
