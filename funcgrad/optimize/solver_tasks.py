"""Solutions of solvers: by a program where the function can be staged, with their derivatives.

Outside of ``jit`` a solver runs as a program when its function comes again, with the same bits.
Under ``grad`` the program finds the solution, and the equation gives the derivative.

>>> import funcgrad as fg
>>> def iterate(functions, f, x):
...     return fg.fori_loop(0, 9, lambda _, x: x - f(x) / fg.grad(f)(x), x), (x, x, x)
>>> task = SolverTask("newton", "", (lambda x: x * x - 2.0,), (), lambda functions: functions[0],
...     iterate, lambda functions, x, parameters: [])
>>> results = [_program_result(task, fg.tensor(1.0), ()) for _ in range(2)]
>>> results[0], results[1].point
(None, Tensor(1.41421356))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import funcgrad.numpy as fnp
from funcgrad._base.floating_errors import ignoring
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.trace import RAW, concrete
from funcgrad._staging.function_parts import NoPartsError, function_parts
from funcgrad._staging.loop_programs import LoopPrograms
from funcgrad._staging.static_arguments import parts_of
from funcgrad._transforms.stop import stop_gradient
from funcgrad.implicit.direct import direct_solve
from funcgrad.implicit.roots import root_of
from funcgrad.optimize.solution import accepted, failed_way
from funcgrad.tensor.tensor import Tensor

_PROGRAMS: Final = LoopPrograms()

Functions: TypeAlias = tuple[Callable[..., Any], ...]
OfPoint: TypeAlias = Callable[[Any], Any]
"""The function of the point, with parameters that are fixed."""

Told: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""The status, and how many steps and evaluations were made."""


class SolverTask(NamedTuple):
    """A solver with its problem.

    Attributes
    ----------
    name, advice : str
        The public function, and what to do if it does not succeed.
    functions : tuple of callable
        The user's functions.
    options : hashable
        All else that the functions below depend on.
    problem : callable
        ``problem(functions)`` is the function whose arguments are the point and the parameters.
    iterate : callable
        ``iterate(functions, function of the point, start)`` is the solution, and ``Told``.
    finish : callable
        ``finish(functions, solution, parameters)`` lists further trees, such as a Jacobian.
    is_watched : bool
        Whether a callback looks at the steps, which are then made from Python.
    """

    name: str
    advice: str
    functions: Functions
    options: Hashable
    problem: Callable[[Functions], Callable[..., Any]]
    iterate: Callable[[Functions, Callable[[Any], Any], Any], tuple[Any, Told]]
    finish: Callable[[Functions, Any, Any], list[Any]]
    is_watched: bool = False


class ProgramResult(NamedTuple):
    """The results of a program, and whether derivatives of them may be asked for."""

    point: Any
    told: Told
    finished: list[Any]
    is_followed: bool


def task_solution(
    task: SolverTask,
    start: Any,
    parameters: tuple[Any, ...],
    derivative: str,
    failed: str,
    tangent_solve: Callable[..., Any] = direct_solve,
    **root_options: Any,
) -> tuple[Any, Told, list[Any]]:
    """The solution from a start, ``Told``, and the further trees of the task.

    ``root_options`` are further arguments of ``root_of``.
    """
    name, functions = task.name, task.functions
    failed_way(failed, name)
    by_program = None if task.is_watched else _program_result(task, start, parameters)
    if by_program is not None and not by_program.is_followed:
        point, told, finished, _ = by_program
        x = accepted(name, point, told[0], failed, task.advice)
        if failed == "nan" and not told[0] > 0:
            finished = task.finish(functions, x, parameters)
        return x, told, finished
    problem = task.problem(functions)

    def solve(function: Callable[[Any], Any], begin: Any, _: Any) -> Any:
        if by_program is not None:
            x, told = by_program.point, by_program.told
        else:
            with ignoring():  # a trial step may go too far
                x, told = task.iterate(functions, function, begin)
        return accepted(name, x, told[0], failed, task.advice), told

    if derivative == "steps":
        by_program = None
        x, told = solve(lambda point: problem(point, *parameters), start, ())
    else:
        way = "raise" if failed == "raise" else "nan"
        x, told = root_of(
            name,
            problem,
            start,
            parameters,
            solve,
            tangent_solve,
            has_aux=True,
            failed=way,
            **root_options,
        )
    return x, told, task.finish(functions, x, parameters)


def prompt_result(function: Callable[..., Any], args: list[Tensor], *options: Hashable) -> Any:
    """``function(*args, *options)``, by a program where that comes again."""

    def call(function: Callable[..., Any], args: list[Tensor]) -> Any:
        return function(*args, *options)

    result = _PROGRAMS.results(function, args, options, call)
    return call(function, args) if result is None else result


def _program_result(
    task: SolverTask, start: Any, parameters: tuple[Any, ...]
) -> ProgramResult | None:
    """The results by a program; None if there is none."""
    leaves, structure = pytrees.flatten((start, parameters))
    try:
        parts = function_parts(_bundle(task.functions))
        key = task.name, task.options, structure, parts_of(structure)
        hash(key)
    except (NoPartsError, TypeError):
        return None
    tensors = [fnp.asarray(leaf) for leaf in leaves]
    followed = [x for x in (*tensors, *parts.tensors) if type(concrete(x)) not in RAW]
    if followed:
        tensors, held = stop_gradient((tensors, parts.tensors))
        if any(type(concrete(x)) not in RAW for x in (*tensors, *held)):
            return None  # examples of a batch, or values of a program
        parts = replace(parts, tensors=held)

    def loop(function: Callable[..., Any], args: list[Tensor]) -> tuple[Any, Told, list[Any]]:
        return _run(task, _unbundled(function, len(task.functions)), structure, args)

    outs = _PROGRAMS.results(parts, tensors, key, loop)
    if outs is None:
        return None
    point, told, finished = outs
    return ProgramResult(point, told, finished, bool(followed))


def _run(
    task: SolverTask, functions: Functions, structure: Structure, args: Sequence[Tensor]
) -> tuple[Any, Told, list[Any]]:
    start, parameters = pytrees.unflatten(structure, args)
    problem = task.problem(functions)
    x, told = task.iterate(functions, lambda point: problem(point, *parameters), start)
    return x, told, task.finish(functions, x, parameters)


def _bundle(functions: Functions) -> Callable[..., Any]:
    """One function that holds several."""
    if len(functions) == 1:
        return functions[0]
    first, others = functions[0], _bundle(functions[1:])

    def bundle() -> tuple[Any, Any]:
        return first, others

    return bundle


def _unbundled(bundle: Callable[..., Any], count: int) -> Functions:
    if count == 1:
        return (bundle,)
    first, others = bundle()
    return (first, *_unbundled(others, count - 1))


def first_of(function: OfPoint) -> OfPoint:
    """A function that returns the first of several results."""
    return lambda x: function(x)[0]
