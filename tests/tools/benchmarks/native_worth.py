"""The benefit of each step of the native backend: how long programs of practice run without it.

A step is left out by a replacement in a module, so that the backend plans or writes what it would
without; nothing of that is in the product. A program whose text stays the same is not measured.
Code is of the best level at once, and nothing is read from disk. ``worth`` runs it::

    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.worth --native
    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.worth --native --only bands masks
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import inf
from time import process_time
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np

from funcgrad._backends.control_forms import form_of
from funcgrad._backends.native import (
    code_cache,
    equal_nests,
    factor_text,
    function_site,
    matrix_planning,
    native_backend,
    native_code,
    nests,
    planner,
    product_text,
    registers,
    sharing,
)
from funcgrad._backends.native.cpython import NativeError
from funcgrad._backends.native.instructions import NotEmitted
from funcgrad._backends.native.native_backend import NativeBackend
from funcgrad._backends.native.plan_steps import Elimination
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.sharing import Sharing
from funcgrad._backends.native.small_matrices import MOST_ROWS, factors_size
from funcgrad._core.structure.factorizations import Factors
from funcgrad._core.structure.structures import (
    Control,
    Factored,
    Gather,
    Loop,
    Opaque,
    Random,
    Scan,
    Scatter,
)
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.program import Program

Change = tuple[Any, str, Any]
"""A replacement of an attribute of a module."""

FUNCTIONS: Final = (
    *("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "log", "log2", "log10", "log1p"),
    *("arcsinh", "arccosh", "arctanh", "sin", "cos", "tan", "arcsin", "arccos", "arctan"),
    *("arctan2", "cbrt", "hypot", "power", "erf", "erfc"),
)
"""The functions that vectors have; without one, NumPy's inner loop is called."""


def _never(*_: Any, **__: Any) -> bool:
    return False


def _refused(*_: Any, **__: Any) -> Any:
    raise NotEmitted("left out")


def _without(*names: str) -> tuple[Change, ...]:
    """Changes that leave out functions of vectors."""
    others = {name: how for name, how in registers.FUNCTIONS.items() if name not in names}
    methods = [name for name in names if name not in registers.FUNCTIONS]
    return (registers, "FUNCTIONS", others), *[(Registers, name, _refused) for name in methods]


def _short_triangles(plan: Any, equation: Any, structure: Any, variable: int) -> bool:
    """Factorizations, but for long triangles."""
    form = structure.factorization(**dict(equation.params))
    is_long = plan.specs[equation.operands[0]].shape[-1] > MOST_ROWS
    if form.factors is Factors.TRIANGLE and is_long:
        return False
    return matrix_planning.factorizes(plan, equation, structure, variable)


def _own_elimination(plan: Any, matrices: Any, dtype: Any) -> int:
    """Eliminate again for each use of a matrix."""
    shape = (*matrices.shape[:-2], factors_size(matrices.shape[-1]))
    factors: int = plan.new(shape, dtype)
    plan.append(Elimination(factors, matrices))
    return factors


def _fixed_lengths(plan: Any, equation: Any, structure: Any, variable: int) -> bool:
    """Loops, but for those of unknown length with stacks."""
    form = form_of(equation, plan.specs)
    if isinstance(form, Loop) and form.length is None and form.carried < len(equation.results):
        return False
    return planner._runs(plan, equation, structure, variable)


def _planned(kind: type, *planners: Callable[..., bool]) -> tuple[Change, ...]:
    """The change that equations of a structure are planned by these functions."""
    return ((planner, "_PLANNERS", {**planner._PLANNERS, kind: planners}),)


STEPS: Final[dict[str, tuple[Change, ...]]] = {
    "eliminations and roots written out": ((matrix_planning, "MOST_ROWS", 0),),
    "one elimination for all uses": ((matrix_planning, "_eliminated", _own_elimination),),
    "short substitution written out": ((factor_text, "MOST_ROWS", 0),),
    "long substitution": _planned(Factored, _short_triangles),
    "four vectors of long substitution": ((factor_text, "TOGETHER", 1),),
    "bands": ((matrix_planning, "MOST_DIAGONALS", 0),),
    "NumPy's loops over stacks of matrices": ((matrix_planning, "_by_numpy", _never),),
    "products in registers": ((product_text, "_MOST", dict.fromkeys((512, 256, 128), -1)),),
    "packing": ((product_text, "_OFTEN", 1 << 60),),
    "small products written out": ((product_text, "is_small", _never),),
    "products as members of nests": ((planner, "contracts", _never),),
    "equal nests": ((equal_nests, "_key", lambda *_: object()),),
    "scatters and carries in place": ((sharing, "_replaced", lambda *_: iter(())),),
    "results over operands": ((sharing, "_overwritten", lambda *_: iter(())),),
    "sharing of memory": ((function_site, "sharing_of", lambda *_: Sharing({}, {})),),
    "growing stacks": _planned(Control, _fixed_lengths),
    "masks": ((nests, "_WITH_MASKS", 1 << 30),),
    "few elements written out": ((nests, "_WRITTEN_OUT", 0),),
    "lanes over several loops": (
        (nests.NestWriter, "_gathering", property(lambda nest: Registers(nest._lines, 1))),
    ),
    "sums after loops": ((native_backend, "sum_after_loops", lambda program: program),),
    "two registers a vector": ((nests, "_LONG", 1 << 30),),
    "random words": _planned(Random),
    "gathers": _planned(Gather),
    "scatters": _planned(Scatter),
    "scans": _planned(Scan),
    "folds in order": ((planner, "folds_in_order", _never),),
    "loops along axes": _planned(Opaque, *planner._PLANNERS[Opaque][1:]),
    "NumPy's inner loops": ((planner, "_sweeps", _never),),
    "level 2": ((native_code, "BEST", 0),),
    **{f"vectors: {name}": _without(name) for name in FUNCTIONS},
    "vectors: all functions": _without(*FUNCTIONS),
}


@contextmanager
def left_out(changes: Sequence[Change]) -> Iterator[None]:
    """Without some steps; nothing is read from disk or written there."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(code_cache, "_folder", lambda: None))
        for change in changes:
            stack.enter_context(patch.object(*change))
        yield


def ready(program: Program) -> tuple[NativeBackend, Program, str]:
    """A backend that has compiled nothing, the program that it prepares, and its text."""
    backend = NativeBackend()
    runs = backend.prepare(optimize(program), False)
    return backend, runs, backend.inspect(runs)


def compiled(backend: NativeBackend, runs: Program) -> Callable[..., Any]:
    """The program at the best level at once."""
    with patch.object(native_code, "FIRST", native_code.BEST):
        run: Callable[..., Any] = backend.compile(runs).run
    return run


def first_level(backend: NativeBackend, runs: Program) -> float:
    """The seconds that it takes to compile a program for its first call."""
    start = process_time()
    backend.compile(runs)
    return process_time() - start


class Effect(NamedTuple):
    """The times of a program without a step over those with it; infinite if it does not compile."""

    run: float
    compiling: float


def effects(
    program: Program,
    inputs: Sequence[Any],
    chosen: Sequence[str],
    least_times: Callable[..., list[float]],
) -> dict[str, Effect]:
    """The effect of each step that changes a program."""
    made: dict[str, tuple[Callable[[], Any], float]] = {}
    needed: dict[str, Effect] = {}
    usual = ""
    for name in ("", *chosen):
        with left_out(STEPS.get(name, ())):
            try:
                backend, runs, text = ready(program)
                usual = usual or text
                if name and text == usual and name != "level 2":
                    continue
                seconds = first_level(backend, runs)
                made[name] = partial(compiled(backend, runs), *inputs), seconds
            except (KeyError, NativeError):  # what another step has to have
                needed[name] = Effect(inf, 1.0)
    with np.errstate(all="ignore"):
        times = least_times([work for work, _ in made.values()])
    first = made.pop("")[1]
    ratios = [time / times[0] for time in times[1:]]
    return needed | {
        name: Effect(ratio, seconds / first)
        for ratio, (name, (_, seconds)) in zip(ratios, made.items(), strict=True)
    }
