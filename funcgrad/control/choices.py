"""``cond`` and ``switch``: one of several functions, chosen by a value.

>>> import funcgrad as fg
>>> fg.grad(lambda x: fg.cond(x > 0, fg.numpy.log, lambda x: x * x, x))(2.0)
Tensor(0.5)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcgrad import trees
from funcgrad.control.carry import common_specs, placed, placed_operand, placed_values
from funcgrad.control.switch_operation import apply_switch, select
from funcgrad.control.values import as_spec
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, ShapeError
from funcgrad.foreign_names import answering
from funcgrad.programs.equation import spec_inside
from funcgrad.programs.program import Program
from funcgrad.shape import Spec, dtype_of, shape_of
from funcgrad.tensor import Tensor, wrap
from funcgrad.trace import RAW, Value
from funcgrad.transforms.arguments import check_function
from funcgrad.transforms.batch import Batched
from funcgrad.transforms.numberless import flat_program, running_stager, staged_body
from funcgrad.transforms.stager import Staged
from funcgrad.users_values import ArrayLike, described

__all__ = ["cond", "is_unknown", "switch", "truth"]


def is_unknown(value: Value) -> bool:
    """Whether a value has no single number: it is staged, or stands for a batch, at some level."""
    while type(value) not in RAW:
        if isinstance(value, Batched | Staged):
            return True
        value = value._value
    return False


def truth(operation: str, what: str, value: ArrayLike) -> Value:
    """A value that has to be one truth value."""
    if type(value) is Tensor and type(value._value) is np.bool_:  # at every step of a loop
        return value._value
    own = placed_operand(operation, what, value)
    if shape_of(own):
        raise ShapeError(
            placed(
                f"{operation}: {what} has to be one truth value, got an array of shape"
                f" {shape_of(own)}. Reduce it with fnp.any or fnp.all; to choose for each element"
                " use fnp.where."
            )
        )
    if dtype_of(own).kind != "b":
        raise DtypeError(
            placed(
                f"{operation}: {what} has to be a truth value, got {dtype_of(own)}. Compare it, as"
                " in x != 0."
            )
        )
    return own


@answering
def cond(
    pred: ArrayLike, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """Call one of two functions.

    Parameters
    ----------
    pred : array_like of bool, shape ()
    true_fun, false_fun : callable
        Of the operands; they return pytrees of one structure, with leaves of the same shapes and
        dtypes.
    *operands : pytrees

    Returns
    -------
    pytree
        ``true_fun(*operands)`` if ``pred`` holds, else ``false_fun(*operands)``.

    Raises
    ------
    ShapeError, DtypeError
        ``pred`` is no single truth value, or the functions return arrays of different kinds.
    TreeError
        The functions return different trees.

    See Also
    --------
    switch, funcgrad.numpy.where

    Notes
    -----
    Outside of ``jit`` this is Python's ``if``. In a program it is one operation, of which one
    branch runs. Where ``vmap`` gives every example a predicate of its own, both run for all, and
    each example gets what its own chooses: the other has no derivative, so that nothing infinite
    comes of it.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> root = lambda x: fg.cond(x > 0, fnp.sqrt, lambda x: 0.0 * x, x)
    >>> fg.vmap(fg.grad(root))(fg.tensor([4.0, 0.0]))
    Tensor([0.25, 0.  ])
    """
    for f in (true_fun, false_fun):
        check_function("cond", f)
    own = truth("cond", "the predicate", pred)
    names = ["false_fun", "true_fun"]
    return _chosen("cond", own, (false_fun, true_fun), operands, names)


@answering
def switch(index: ArrayLike, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Call one of several functions.

    Parameters
    ----------
    index : array_like of int, shape ()
        Below 0 it counts as 0, and from ``len(branches)`` on as the last.
    branches : sequence of callables
        Of the operands; they return pytrees of one structure, with leaves of the same shapes and
        dtypes.
    *operands : pytrees

    Returns
    -------
    pytree
        ``branches[index](*operands)``.

    Raises
    ------
    ArgumentError
        There is no branch.
    ShapeError, DtypeError, TreeError
        ``index`` is no single integer, or the branches disagree.

    See Also
    --------
    cond : with a truth value; more is said there.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> f = fg.jit(lambda k, x: fg.switch(k, [fnp.sin, fnp.cos, lambda x: x], x))
    >>> f(2, 0.5), f(7, 0.5), f(-1, 0.0)
    (Tensor(0.5), Tensor(0.5), Tensor(0.))
    """
    if not isinstance(branches, Sequence) or isinstance(branches, str):
        raise FunctionError(
            placed(f"switch: branches has to be a list of functions, got {described(branches)}.")
        )
    functions = list(branches)
    if not functions:
        raise ArgumentError(placed("switch: there is no branch; give at least one."))
    for k, f in enumerate(functions):
        check_function(f"switch: branches[{k}]", f)
    own = placed_operand("switch", "the index", index)
    if shape_of(own):
        raise ShapeError(
            placed(
                f"switch: the index has to be one integer, got an array of shape {shape_of(own)}."
            )
        )
    if dtype_of(own).kind not in "iu":
        raise DtypeError(
            placed(
                f"switch: the index has to be an integer, got {dtype_of(own)}. By a truth value"
                " fg.cond chooses."
            )
        )
    names = [f"branch {k}" for k in range(len(functions))]
    if len(functions) == 1:
        return functions[0](*operands)
    return _chosen("switch", own, functions, operands, names)


def _chosen(
    operation: str,
    index: Value,
    functions: Sequence[Callable[..., Any]],
    operands: Sequence[Any],
    names: Sequence[str],
) -> Any:
    if not is_unknown(index):
        number = int(wrap(index))
        return functions[min(max(number, 0), len(functions) - 1)](*operands)
    stager = running_stager()
    if stager is None:
        return _all_of(operation, index, functions, operands, names)
    leaves, structure = trees.flatten(tuple(operands))
    values = placed_values(operation, leaves, structure, lambda: "the operands")
    found: list[Any] = []

    def runs(f: Callable[..., Any]) -> Callable[[Sequence[Value]], list[Value]]:
        def run(own: Sequence[Value]) -> list[Value]:
            outs, result = trees.flatten(f(*trees.unflatten(structure, [wrap(x) for x in own])))
            found.append(result)
            return placed_values(operation, outs, result, lambda: "the result")

        return run

    specs = [spec_inside(value) for value in values]
    staged = [
        staged_body(stager, f"fg.{operation}", runs(f), specs, name, holds_all=True)
        for f, name in zip(functions, names, strict=True)
    ]
    closed = list({id(x): x for _, own in staged for x in own}.values())
    wanted = common_specs(
        operation, names, found, [_result_specs(program) for program, _ in staged]
    )
    every = [*specs, *map(spec_inside, closed)]
    programs = [_joining(*each, closed, len(specs), every, wanted) for each in staged]
    outs = apply_switch(index, [*values, *closed], programs)
    return trees.unflatten(found[0], [wrap(out) for out in outs])


def _result_specs(program: Program) -> list[Spec]:
    specs = program.specs()
    return [specs[variable] for variable in program.outputs]


def _joining(
    program: Program,
    closed: Sequence[Value],
    every: Sequence[Value],
    count: int,
    specs: Sequence[Spec],
    wanted: Sequence[Spec],
) -> Program:
    """A branch of all that the branches close over, with results of the kinds that all have."""
    places = {id(value): count + k for k, value in enumerate(every)}
    reads = [*range(count), *[places[id(value)] for value in closed]]

    def run(values: Sequence[Value]) -> list[Value]:
        outs = program.evaluate([values[k] for k in reads])
        return [as_spec(out, spec) for out, spec in zip(outs, wanted, strict=True)]

    return flat_program(program.name, run, specs)


def _all_of(
    operation: str,
    index: Value,
    functions: Sequence[Callable[..., Any]],
    operands: Sequence[Any],
    names: Sequence[str],
) -> Any:
    """The results of all functions, chosen for each example."""
    results, structures = [], []
    for f in functions:
        leaves, structure = trees.flatten(f(*operands))
        results.append(placed_values(operation, leaves, structure, lambda: "the result"))
        structures.append(structure)
    common_specs(operation, names, structures, [[*map(spec_inside, own)] for own in results])
    outs = select(index, results)
    return trees.unflatten(structures[0], [wrap(out) for out in outs])
