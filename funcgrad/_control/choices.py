"""``cond`` and ``switch``: one of several functions, chosen by a value.

>>> import funcgrad as fg
>>> fg.grad(lambda x: fg.cond(x > 0, fg.numpy.log, lambda x: x * x, x))(2.0)
Tensor(0.5)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final, overload

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.carried_types import AnyNumber, Bound, State, Truth
from funcgrad._control.carry import common_specs, handed, placed, placed_values, single
from funcgrad._control.switch_operation import apply_switch, goes_into, select
from funcgrad._control.values import closed_together, specs_inside
from funcgrad._core import pytrees
from funcgrad._core.context import current, entered
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Shape, Spec, shape_of
from funcgrad._core.trace import RAW, Raw, TracedValue, Value, running_traces
from funcgrad._core.users_values import ArrayLike, described, is_weak
from funcgrad._hints.lookup import answering
from funcgrad._programs.equation import as_spec
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import running_stager, staged_body
from funcgrad._transforms.active_examples import active_mask, is_batched, with_active
from funcgrad._transforms.answers import Rows
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.batcher import Batched, Batcher
from funcgrad._transforms.flat_functions import run_for_few
from funcgrad._transforms.stager import Staged
from funcgrad.errors import ArgumentError, FunctionError
from funcgrad.tensor.tensor import Tensor, wrap

_FEW: Final = 4
_MANY_ELEMENTS: Final = 2**15
"""A branch runs for its examples only if at most one in four chooses it, and if its operands have
so many elements: taking the examples out and putting the results back takes 20 to 50 µs."""


def is_unknown(value: Value) -> bool:
    """Whether a value has no single number: at some level it is staged, or stands for a batch."""
    while type(value) not in RAW:
        if isinstance(value, Batched | Staged):
            return True
        if value._trace is not None and value._trace.is_remote:  # a number there, not copied
            return False
        value = value._value
    return False


def number_in(value: Value) -> Raw:
    """Return the raw value inside a value: it holds the values of all examples."""
    while type(value) not in RAW:
        value = value._trace.inner(value) if type(value) is Batched else value._value
    return value


def few_rows(mask: Value, shapes: Sequence[Shape]) -> Rows | None:
    """The examples for which a truth value holds, where it pays to run a branch for them only.

    None if they are many or small, or if values of the batch are followed further in. The branch
    works with values of these shapes.
    """
    batcher: Any = mask._trace if type(mask) is Batched else None
    if batcher is None or batcher.size * sum(map(prod, shapes)) < _MANY_ELEMENTS:
        return None
    running = [*running_traces(), None]
    if running[0] is not mask._trace or current().probes is not None:
        return None
    flags = np.asarray(number_in(mask))
    count = np.count_nonzero(flags)
    if flags.shape != (batcher.size,) or not count or _FEW * count > batcher.size:
        return None
    return np.flatnonzero(flags)


def is_array(x: object) -> bool:
    """Whether an object is a tensor, concrete or followed, that holds no Python number."""
    return isinstance(x, TracedValue) and not is_weak(x)


def truth(operation: str, what: str, value: ArrayLike) -> Value:
    """Check that a value is one truth value, and return it."""
    if type(value) is Tensor and type(value._value) is np.bool_:  # at every step of a loop
        return value._value
    reduce = " Reduce it with fnp.any or fnp.all; to choose for each element use fnp.where."
    return single(operation, what, value, "truth value", (reduce, " Compare it, as in x != 0."))


@overload
def cond(
    pred: Truth,
    true_fun: Callable[..., AnyNumber],
    false_fun: Callable[..., AnyNumber],
    *operands: object,
) -> Tensor: ...
@overload
def cond(
    pred: Truth, true_fun: Callable[..., State], false_fun: Callable[..., State], *operands: object
) -> State: ...
@answering
def cond(
    pred: Truth, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: object
) -> Any:
    """Call ``true_fun`` or ``false_fun``, depending on a predicate.

    Parameters
    ----------
    pred : array_like of bool, shape ()
    true_fun, false_fun : callable
        Take the operands and return pytrees of one structure, with leaves of the same shapes and
        dtypes. A Python number takes the dtype of the other function's result: an array, or a
        number of the same or a later type of bool, int, float and complex.
    *operands : pytrees

    Returns
    -------
    pytree
        ``true_fun(*operands)`` if ``pred`` holds, else ``false_fun(*operands)``.

    Raises
    ------
    ShapeError, DtypeError
        ``pred`` is not a single truth value, or the functions return different shapes or dtypes.
    TreeError
        The functions return different trees.

    See Also
    --------
    switch, funcgrad.numpy.where

    Notes
    -----
    Outside ``jit`` this is Python's ``if``. If a branch returns a Python number, the other branch
    is staged as well, to learn its dtypes. In a program ``cond`` is one operation, and only one
    branch runs. If the predicate differs between the examples of ``vmap``, a branch runs on the
    whole batch when any example chooses it. There are two exceptions: outside programs, a branch
    that few examples of a large batch choose runs on these examples only; in machine code, a large
    branch runs only for the examples that choose it. Each example gets the result of the branch
    that it chose. The other branch adds nothing to its derivative, not even an infinity, and raises
    no error for it: an operation that might raise one, such as the inverse of a singular matrix,
    gets the values of an example that chose the branch.

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
    predicate = truth("cond", "the predicate", pred)
    names = ["false_fun", "true_fun"]
    return _chosen("cond", predicate, (false_fun, true_fun), operands, names)


@overload
def switch(
    index: Bound, branches: Sequence[Callable[..., AnyNumber]], *operands: object
) -> Tensor: ...
@overload
def switch(index: Bound, branches: Sequence[Callable[..., State]], *operands: object) -> State: ...
@answering
def switch(index: Bound, branches: Sequence[Callable[..., Any]], *operands: object) -> Any:
    """Call one of several functions, chosen by an index.

    Parameters
    ----------
    index : array_like of int, shape ()
        The index of the branch. Below 0 it means the first branch, and beyond the end the last.
    branches : sequence of callables
        Take the operands and return pytrees of one structure, with leaves of the same shapes and
        dtypes.
    *operands : pytrees

    Returns
    -------
    pytree
        ``branches[index](*operands)``.

    Raises
    ------
    ArgumentError
        ``branches`` is empty.
    ShapeError, DtypeError, TreeError
        ``index`` is not a single integer, or the branches disagree.

    See Also
    --------
    cond : chooses by a truth value; its notes apply here as well.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> f = fg.jit(lambda k, x: fg.switch(k, [fnp.sin, fnp.cos, lambda x: x], x))
    >>> f(2, 0.5), f(7, 0.5), f(-1, 0.0)
    (Tensor(0.5), Tensor(0.5), Tensor(0.))
    """
    if not isinstance(branches, Sequence) or isinstance(branches, str):
        raise placed(
            FunctionError,
            f"switch: branches has to be a list of functions, got {described(branches)}.",
        )
    functions = list(branches)
    if not functions:
        raise placed(ArgumentError, "switch: branches is empty; pass at least one function.")
    for k, f in enumerate(functions):
        check_function(f"switch: branches[{k}]", f)
    remedies = "", " To choose by a truth value, use fg.cond."
    index_value = single("switch", "the index", index, "integer", remedies)
    names = [f"branch {k}" for k in range(len(functions))]
    return _chosen("switch", index_value, functions, operands, names)


def _chosen(
    operation: str,
    index: Value,
    functions: Sequence[Callable[..., Any]],
    operands: Sequence[Any],
    names: Sequence[str],
) -> Any:
    if len(functions) == 1:
        index = 0
    unknown = is_unknown(index)
    number = 0 if unknown else min(max(int(wrap(index)), 0), len(functions) - 1)
    if not unknown and all(map(is_array, operands)):  # the most common case, in a fifth of the time
        out = functions[number](*operands)
        if is_array(out):
            return out
        return Branches.of(operation, functions, names, operands).finished(number, out)
    branches = Branches.of(operation, functions, names, operands)
    if not unknown:
        return branches.finished(number, branches.call(number, branches.values))
    return branches.choose(index) if running_stager() else branches.select(index)


@dataclass(frozen=True, slots=True)
class Branches:
    """The functions of a choice, and the operands that they are called on.

    Attributes
    ----------
    operation : str
    functions : sequence of callables
    names : sequence of str
    structure : Structure
        The structure of the operands.
    values : list of values
        The leaves of the operands.
    """

    operation: str
    functions: Sequence[Callable[..., Any]]
    names: Sequence[str]
    structure: Structure
    values: list[Value]

    @classmethod
    def of(
        cls,
        operation: str,
        functions: Sequence[Callable[..., Any]],
        names: Sequence[str],
        operands: Sequence[Any],
    ) -> Branches:
        """Flatten the operands that a user's functions are to be called on."""
        leaves, structure = pytrees.flatten(tuple(operands))
        values = handed(placed_values(operation, leaves, structure, lambda: "the operands"))
        return cls(operation, functions, names, structure, values)

    def call(self, k: int, values: Sequence[Value]) -> Any:
        """Call one of the functions and return its results."""
        return self.functions[k](*pytrees.unflatten(self.structure, [wrap(x) for x in values]))

    def flat(self, out: object) -> tuple[list[Value], Structure]:
        """Return the leaves of a function's result as values, and its structure."""
        leaves, structure = pytrees.flatten(out)
        return placed_values(self.operation, leaves, structure, lambda: "the result"), structure

    def staged(self, k: int) -> tuple[Program, list[Value], Structure]:
        """Stage a function: its program, the values it closes over, its result's structure."""
        branch = WithAux(lambda values: self.flat(self.call(k, values)))
        place, specs = f"fg.{self.operation}", specs_inside(self.values)
        staged = staged_body(running_stager(), place, branch, specs, self.names[k], holds_all=True)
        return *staged, branch.aux

    def finished(self, k: int, out: object) -> Any:
        """Return the result of a choice, from the result of the function that ran.

        Arrays stay as they are. A Python number may give way to the results of other functions, so
        these are staged to learn their specs.
        """
        outs, structure = self.flat(out)
        specs = specs_inside(outs)
        if any(spec.weak for spec in specs):
            wanted = self._result_specs({k: (structure, specs)})
            outs = [as_spec(out, spec) for out, spec in zip(outs, wanted, strict=True)]
        return pytrees.unflatten(structure, [wrap(out) for out in outs])

    def _result_specs(self, ran: Mapping[int, tuple[Structure, list[Spec]]]) -> list[Spec]:
        """Return the common specs of the results of all functions, or of those that ran.

        Functions that did not run are staged where a Python number was returned; if one cannot be
        staged, only those that ran count. Choices inside them stage no further functions, since
        staging a function that calls itself would never end.
        """
        names = [self.names[k] for k in ran]
        structures, specs = [[*column] for column in zip(*ran.values(), strict=True)]
        chosen = common_specs(self.operation, names, structures, specs)
        numbers = [spec for branch_specs in specs for spec in branch_specs if spec.weak]
        context = current()
        if not (context.stages_branches and numbers):
            return chosen
        try:
            with entered(context._replace(stages_branches=False)):
                others = [self.staged(k) for k in range(len(self.functions)) if k not in ran]
            return common_specs(
                self.operation,
                [*names, *[program.name for program, _, _ in others]],
                [*structures, *[result for _, _, result in others]],
                [*specs, *[program.output_specs for program, _, _ in others]],
            )
        except Exception:  # a function that does not run may be one that cannot run
            return chosen

    def choose(self, index: Value) -> Any:
        """Append the operation that runs one of the functions, and return its results."""
        staged = []
        for k in range(len(self.functions)):
            # Operations on only closed-over values run here, for the examples that choose this k.
            goers = goes_into(index, k, len(self.functions)) if is_batched(index) else True
            with with_active(goers):
                staged.append(self.staged(k))
        structures = [structure for _, _, structure in staged]
        specs = [program.output_specs for program, _, _ in staged]
        wanted = common_specs(self.operation, self.names, structures, specs)
        pairs = [(program, closed) for program, closed, _ in staged]
        programs, closed = closed_together(pairs, specs_inside(self.values), wanted)
        outs = apply_switch(index, [*closed, *self.values], programs)
        return pytrees.unflatten(structures[0], [wrap(out) for out in outs])

    def _for_few(self, k: int, batcher: Batcher, rows: Rows) -> tuple[list[Value], Structure]:
        """Call a function for the few examples that choose it."""
        branch = WithAux(lambda values: self.flat(self.call(k, values)))
        with entered(current()._replace(active_examples=None)):
            return run_for_few(branch, batcher, rows, self.values), branch.aux

    def select(self, index: Value) -> Any:
        """Call the functions that some example chooses, and select results for each example."""
        count = len(self.functions)
        goers = [goes_into(index, k, count) for k in range(count)]
        taken = [k for k in range(count) if np.any(number_in(active_mask(goers[k])))]
        results: dict[int, list[Value]] = {}
        returned: dict[int, tuple[Structure, list[Spec]]] = {}
        shapes = [*map(shape_of, self.values)]
        for k in taken or range(count):  # all, where the batch is empty
            rows = few_rows(active_mask(goers[k]), shapes)
            if rows is None:
                with with_active(goers[k]):
                    results[k], structure = self.flat(self.call(k, self.values))
            else:
                results[k], structure = self._for_few(k, goers[k]._trace, rows)
            returned[k] = structure, specs_inside(results[k])
        wanted = self._result_specs(returned)
        fitting = {k: [*map(as_spec, outs, wanted)] for k, outs in results.items()}
        anything = next(iter(fitting.values()))  # for a function that no example chooses
        every = [fitting.get(k, anything) for k in range(count)]
        (tree, _), *_ = returned.values()
        return pytrees.unflatten(tree, [wrap(out) for out in select(index, every)])
