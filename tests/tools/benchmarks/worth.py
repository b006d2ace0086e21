"""The benefit of each pass: how long programs run, and are compiled, without it.

Passes are discovered: the rules and functions of the pipeline, by module, and the steps of
planning. Times are processor time on one core, the least of several, taken in turns until they are
stable; so compare them only with others of the same run::

    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.worth  # each pass left out
    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.worth --rules  # each single rule
    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.worth --together sink axes  # both
    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.worth --programs mixture net
    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.worth --native  # machine code's steps
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from inspect import isfunction
from math import inf
from statistics import geometric_mean
from time import process_time
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np

import funcgrad as fg
from funcgrad._backends.numpy import loops, plan, prepare, writer
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._backends.numpy.prepare import prepared
from funcgrad._backends.numpy.scalars import NONE
from funcgrad._backends.numpy.writer import numpy_source
from funcgrad._passes import pipeline
from funcgrad._passes.pipeline import optimize
from funcgrad._passes.workbench import Rules
from funcgrad._programs.program import Program
from tests.tools.benchmarks import native_worth
from tests.tools.benchmarks.programs import Case, every_program
from tests.tools.practice.all_tasks import TASKS
from tests.tools.practice.libraries import funcgrad
from tests.tools.practice.physics import DRAWING
from tests.tools.practice.task import Task

SAMPLE: Final = 0.003
"""Seconds that one sample takes at least."""

FEWEST, MOST = 8, 32
"""Rounds of samples."""

STILL: Final = 0.01
"""The allowed difference between the least of half the samples and the least of the others."""

INSTANCES: Final = 3
"""How often a program is compiled: each time its memory has another place, and another speed."""

NOTED: Final = 0.02
"""Smaller differences are not reported."""

Change = tuple[Any, str, Any]
"""A replacement of an attribute of a module."""


class Subject(NamedTuple):
    """A pass, rule or step that can be left out.

    Attributes
    ----------
    name : str
    rules : frozenset
        The rules that are removed from the pipeline's tables.
    changes : tuple of Change
        Further replacements.
    """

    name: str
    rules: frozenset[Any] = frozenset()
    changes: tuple[Change, ...] = ()


# -------------------------------------------------------------------------------- what is left out


_NEEDED: Final = frozenset(
    {"decompose", "pipeline", "prepare", "trials_of_passes", "workbench", "inline"}
)
"""Modules of what calls the passes, and of what nothing could be compiled without."""


def _module(function: Any) -> str:
    return str(function.__module__).rpartition(".")[2]


def _tables() -> dict[str, Rules]:
    """The pipeline's tables of rules, by their names in it."""
    return {
        name: value
        for name, value in vars(pipeline).items()
        if isinstance(value, Mapping) and all(type(rules) is tuple for rules in value.values())
    }


def _rules() -> list[Any]:
    found = [rule for table in _tables().values() for rules in table.values() for rule in rules]
    return list(dict.fromkeys(found))


def _whole_passes() -> Iterator[Subject]:
    """The functions from programs to programs that the pipeline, or the backend, calls."""
    for caller in (pipeline, prepare):
        for name, value in vars(caller).items():
            is_pass = isfunction(value) and value.__annotations__.get("return") == "Program"
            if is_pass and _module(value) not in _NEEDED:
                change = caller, name, lambda program: program
                yield Subject(_module(value), changes=(change,))


def subjects(single_rules: bool) -> list[Subject]:
    """Everything that can be left out by itself, or each rule."""
    if single_rules:
        return [Subject(_name_of(rule), frozenset({rule})) for rule in _rules()]
    parts = [Subject(_module(rule), frozenset({rule})) for rule in _rules()]
    parts += [*_whole_passes(), *_planning()]
    by_name: dict[str, list[Subject]] = {}
    for part in parts:
        by_name.setdefault(part.name, []).append(part)
    return [together(name, each) for name, each in by_name.items()]


def _name_of(rule: Any) -> str:
    return f"{_module(rule)}.{rule.__qualname__.replace('<locals>.', '')}"


def together(name: str, parts: Iterable[Subject]) -> Subject:
    """Leave out several subjects at once."""
    parts = [*parts]
    rules = frozenset[Any]().union(*[part.rules for part in parts])
    return Subject(name, rules, tuple([change for part in parts for change in part.changes]))


def _planning() -> list[Subject]:
    """The steps of planning that can be left out."""

    def nothing_taken(program: Program) -> plan.Plan:
        return replace(plan.plan_of(program), takes={})

    def as_without_steps(body: Program, shared: int, carried: int) -> plan.Plan:
        return plan.plan_of(body)

    changes = {
        "results over operands (planning)": (writer, "plan_of", nothing_taken),
        "memory of steps (planning)": (loops, "plan_of_steps", as_without_steps),
        "Python's floats (writing)": (writer, "scalars_of", lambda *args, **kwargs: NONE),
    }
    return [Subject(name, changes=(change,)) for name, change in changes.items()]


SUBJECTS: Final = {subject.name: subject for subject in subjects(single_rules=False)}


@contextmanager
def left_out(subject: Subject) -> Iterator[None]:
    with ExitStack() as stack:
        for change in subject.changes:
            stack.enter_context(patch.object(*change))
        for name, table in _tables().items():
            rest = {
                operation: tuple([rule for rule in rules if rule not in subject.rules])
                for operation, rules in table.items()
            }
            stack.enter_context(patch.object(pipeline, name, rest))
        yield


# --------------------------------------------------------------------------------------- measuring


def sampled(work: Callable[[], Any], times: int) -> float:
    start = process_time()
    for _ in range(times):
        work()
    return (process_time() - start) / times


def least_times(works: Sequence[Callable[[], Any]], most: int = MOST) -> list[float]:
    """The seconds of each function, measured in turns until they are stable."""
    counts = []
    for work in works:
        sampled(work, 1)
        counts.append(max(1, round(SAMPLE / max(sampled(work, 1), 1e-7))))
    found: list[list[float]] = [[] for _ in works]
    for round_ in range(most):
        for k in range(len(works)):
            at = (k + round_) % len(works)
            found[at].append(sampled(works[at], counts[at]))
        if round_ + 1 >= min(FEWEST, most) and all(map(_holds_still, found)):
            break
    return [min(times) for times in found]


def _holds_still(times: Sequence[float]) -> bool:
    first, second = min(times[::2]), min(times[1::2])
    return abs(first - second) <= STILL * min(first, second)


def ready(program: Program) -> tuple[str, list[Callable[..., Any]]]:
    """The generated text of a program, and functions that run it."""
    runs = prepared(optimize(program))
    return numpy_source(runs).text, [compile_program(runs) for _ in range(INSTANCES)]


def inputs_of(case: Case) -> list[Any]:
    leaves = [leaf for leaf in fg.tree.leaves(case.arguments) if leaf is not None]
    return [np.asarray(leaf) if isinstance(leaf, fg.Tensor) else leaf for leaf in leaves]


def measured_programs() -> dict[str, Case]:
    """The programs of the benchmarks and of practice, by name."""
    practice = {
        task.name: Case(task.function(funcgrad()), task.arguments(small=False)) for task in TASKS
    }
    return every_program() | practice


class Row(NamedTuple):
    """The effect of a subject on a program: times without it over times with it."""

    subject: str
    program: str
    run: float
    optimize: float
    first_call: float


def rows_of(name: str, case: Case, chosen: Sequence[Subject], calls: bool) -> list[Row]:
    """The benefit of each subject for one program."""
    program = fg.program(case.function)(*case.arguments)
    inputs = inputs_of(case)
    everything = Subject("")
    texts: dict[str, list[Callable[..., Any]]] = {}
    own: list[str] = []
    for subject in (everything, *chosen):
        with left_out(subject):
            text, runs = ready(program)
        texts.setdefault(text, runs)
        own.append(text)
    works = [partial(run, *inputs) for runs in texts.values() for run in runs]
    with np.errstate(all="ignore"):
        times = least_times(works)
    starts = range(0, len(times), INSTANCES)
    by_text = {t: min(times[k : k + INSTANCES]) for t, k in zip(texts, starts, strict=True)}
    optimizing = _times_without(
        (everything, *chosen), lambda: prepared(optimize(program)), 12 if calls else 0
    )
    first = _times_without(
        (everything, *chosen),
        lambda: fg.jit(case.function, backend="numpy")(*case.arguments),
        3 if calls else 0,
    )
    return [
        Row(
            subject.name,
            name,
            by_text[text] / by_text[own[0]],
            optimizing[k] / optimizing[0],
            first[k] / first[0],
        )
        for k, (subject, text) in enumerate(zip(chosen, own[1:], strict=True), 1)
    ]


def _times_without(
    chosen: Sequence[Subject], work: Callable[[], Any], rounds: int
) -> Sequence[float]:
    def within(subject: Subject) -> None:
        with left_out(subject):
            work()

    if not rounds:
        return [1.0] * len(chosen)
    return least_times([partial(within, each) for each in chosen], rounds)


def _report(rows: Sequence[Row], calls: bool) -> None:
    by_subject: dict[str, list[Row]] = {}
    for row in rows:
        by_subject.setdefault(row.subject, []).append(row)
    order = sorted(by_subject.items(), key=lambda each: -max(row.run for row in each[1]))
    for subject, own in order:
        optimizing = geometric_mean([row.optimize for row in own])
        first = geometric_mean([row.first_call for row in own])
        made = f"  optimizing x {optimizing:.2f}, first call x {first:.2f}" if calls else ""
        print(f"\n{subject}: left out, the mean run x {_mean(own):.3f}{made}")
        for row in sorted(own, key=lambda row: -row.run):
            if abs(row.run - 1) >= NOTED:
                print(f"    x {row.run:5.2f}  {row.program}")


def _mean(rows: Iterable[Row]) -> float:
    return geometric_mean([row.run for row in rows if row.run < inf] or [inf])


def native_rows(task: Task, chosen: Sequence[str]) -> list[Row]:
    """The benefit of each step of the native backend for one program of practice."""
    case = Case(task.function(funcgrad()), task.arguments(small=False))
    program = fg.program(case.function)(*case.arguments)
    effects = native_worth.effects(program, inputs_of(case), chosen, least_times)
    return [Row(name, task.name, *effect, 1.0) for name, effect in effects.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", action="store_true", help="each rule by itself")
    parser.add_argument("--only", nargs="*", default=[], help="words in the names of passes")
    parser.add_argument("--together", nargs="*", default=[], help="passes left out all at once")
    parser.add_argument("--programs", nargs="*", default=[], help="words in names of programs")
    parser.add_argument("--calls", action="store_true", help="the times of making ready, too")
    parser.add_argument("--native", action="store_true", help="steps of the native backend")
    options = parser.parse_args()
    rows: list[Row] = []
    if options.native:
        steps = [s for s in native_worth.STEPS if any(map(s.__contains__, options.only or [""]))]
        for task in (*TASKS, DRAWING):
            if any(map(task.name.__contains__, options.programs or [""])):
                rows += native_rows(task, steps)
                print(f"{task.name}: measured", flush=True)
        _report(rows, calls=False)
        return
    chosen = subjects(True) if options.rules else [*SUBJECTS.values()]
    if options.only:
        chosen = [s for s in chosen if any(word in s.name for word in options.only)]
    if options.together:
        parts = [each for each in chosen if each.name in options.together]
        chosen = [together(" and ".join(options.together), parts)]
    for name, case in measured_programs().items():
        if not options.programs or any(word in name for word in options.programs):
            rows += rows_of(name, case, chosen, options.calls)
            print(f"{name}: measured", flush=True)
    _report(rows, options.calls)


if __name__ == "__main__":
    main()
