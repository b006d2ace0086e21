"""How time and memory grow with the length of a loop, its depth, and the number of leaves.

For every loop of ``loops``, every function of ``gradients`` and every way to run them, the exponent
of growth is fitted to doubled lengths: 1 is linear. Anything that grows faster than its own work is
marked, and so is anything that takes longer staged than eagerly::

    python -m tests.tools.benchmarks.growth  # all; some ten minutes
    python -m tests.tools.benchmarks.growth rows windows --to 800  # these loops, up to a length
    python -m tests.tools.benchmarks.growth functions  # the functions alone
    python -m tests.tools.benchmarks.growth "rows of 200"  # 1,600 rows, 10 times the others
    python -m tests.tools.benchmarks.growth choices --to 24  # chains of 6, 12, 24 else-ifs
"""

import argparse
import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import funcgrad as fg
from tests.tools.benchmarks.gradients import limit_memory, subjects, total
from tests.tools.benchmarks.loops import DEPTHS, LOOPS, WAYS, Loop, of_length
from tests.tools.benchmarks.measured import exponent, least_exponent, peak, seconds

SLACK = 0.3
"""The amount that caches and noise may add to an exponent."""
SIZES = (10_000, 20_000, 40_000)
"""Of the arrays that functions are put on."""
CALL = 20e-6
"""The seconds that a call of a jitted function takes at least."""
SHORT = 0.05
"""The seconds above which work is timed only once, unless it seems to grow too fast."""
SLOW = 0.01
"""In seconds: a function that takes longer goes through the elements of its array one by one."""
FUNCTIONS = "functions"
FUNCTION_WAYS = ("eager", "grad", "jvp", "hvp", "vmap of grad")
"""The others are compositions of these."""
LATER = "jit, later calls"
MEMORY = 1 << 30
"""In bytes: outer products of such arrays are no subjects."""

Work = Callable[[], Any]
ONE = Loop(lambda x: x, lambda length: length)
"""What is deep rather than long is measured as a loop is."""


class Growth(NamedTuple):
    """The cost of the longest work, the fitted exponent, and the least between two lengths."""

    amount: float
    fitted: float
    least: float

    @classmethod
    def of(cls, lengths: Sequence[int], amounts: Sequence[float]) -> "Growth":
        return cls(amounts[-1], exponent(lengths, amounts), least_exponent(lengths, amounts))


def works(f: Callable[[Any], Any], way: str, x: Any) -> dict[str, Work]:
    """The ways to run a function: eagerly, staged, and jitted, the first time and later."""
    run = WAYS[way](f)
    jitted = fg.jit(run)
    return {
        "": lambda: run(x),
        "program": lambda: fg.program(run)(x),
        "jit, first call": lambda: fg.jit(run)(x),
        LATER: lambda: jitted(x),
    }


def first_calls(found: Sequence[Work]) -> None:
    """Run each work once, so that later measurements do not include the first call."""
    for work in found:
        work()


def measured(
    lengths: Sequence[int], found: Sequence[Work], most: float, weigh: bool = True
) -> tuple[Growth, Growth | None]:
    """How time and memory of work grow; anything that seems to grow too fast is timed again.

    With ``weigh`` allocations are traced. That searches for the line of each from the beginning of
    its function, which takes minutes for one with 20,000 lines.
    """
    memory = Growth.of(lengths, [peak(work) for work in found]) if weigh else None
    times = [seconds(work, most=SHORT) for work in found]
    time = Growth.of(lengths, times)
    for _ in range(3):
        if time.least <= most:
            break
        times = [
            min(before, seconds(work, most=SHORT))
            for before, work in zip(times, found, strict=True)
        ]
        time = Growth.of(lengths, times)
    return time, memory


def line(label: str, time: Growth, memory: Growth | None, most: float, eager: float | None) -> str:
    """A row of the table; ``eager`` is the time of a staged function where it is not staged."""
    marks = []
    ratio = ""
    if eager is not None:
        ratio = f" {time.amount / eager:5.2f} of eager"
        if time.amount > eager + CALL:
            marks.append("slower than eager")
    if time.least > most or (memory is not None and memory.least > most):
        marks.append("grows")
    exponents = (
        f"time {time.fitted:5.2f} memory {'-' if memory is None else f'{memory.fitted:.2f}':>5}"
    )
    held = f"{'-' if memory is None else f'{memory.amount / 1e6:.2f}':>8} MB"
    return f"{label:55} {exponents}   {time.amount * 1e3:9.2f} ms {held}{ratio}" + (
        f"  <- {', '.join(marks)}" if marks else ""
    )


def loop_table(name: str, way: str, longest: int) -> Iterator[str]:
    """A line for each use of a loop."""
    loop = LOOPS.get(name, ONE)
    longest *= loop.scale
    lengths = [longest // 4, longest // 2, longest]
    found = [works(f, way, x) for f, x in [of_length(name, length) for length in lengths]]
    most = loop.exponent + SLACK
    eager: float | None = None
    for kind in found[0] if loop.staging else ("", LATER):
        own = [work[kind] for work in found]
        if kind == LATER:
            first_calls(own)
        time, memory = measured(lengths, own, most, loop.staging or kind != LATER)
        label = f"{name}: {way}{', ' if kind else ''}{kind}"
        yield line(label, time, memory, most, eager if kind == LATER else None)
        eager = eager or time.amount


def function_table() -> Iterator[str]:
    """A line for each way to run each function of arrays, at once and jitted.

    A product of matrices grows as the power 3/2 of their sizes: derivatives are expected to grow
    as their function.
    """
    by_size = [{subject.name: subject for subject in subjects([], size)} for size in SIZES]
    for name in [name for name in by_size[0] if all(name in found for found in by_size)]:
        if seconds(partial(total(by_size[0][name]), by_size[0][name].point)) > SLOW:
            yield f"{name}: each element is an array to it, as in the loops"
            continue
        own = 1.0
        for way in FUNCTION_WAYS:
            forms = [found[name] for found in by_size]
            found = [works(total(form), way, fg.tensor(form.point)) for form in forms]
            eager: float | None = None
            for kind in ("", LATER):
                label = f"{name}: {way}{', ' if kind else ''}{kind}"
                runs = [work[kind] for work in found]
                try:
                    first_calls(runs)
                    time, memory = measured(SIZES, runs, own + SLACK)
                except fg.errors.FuncgradError as error:
                    yield f"{label:55} {type(error).__name__}"
                    continue
                if way == "eager" and kind == "":
                    own = max(own, time.fitted)
                yield line(label, time, memory, own + SLACK, eager)
                eager = time.amount


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loops", nargs="*", help=f"names of loops, or {FUNCTIONS}; all if none")
    parser.add_argument("--to", type=int, default=160, help="the longest length")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    limit_memory(MEMORY)
    gc.freeze()  # what imports left need not be looked at before each measurement
    for name in options.loops or [*LOOPS, *DEPTHS, FUNCTIONS]:
        tables = (
            [function_table()]
            if name == FUNCTIONS
            else [loop_table(name, way, options.to) for way in WAYS]
        )
        for table in tables:
            for row in table:
                print(row, flush=True)


if __name__ == "__main__":
    main()
