"""The plan of a program: loop nests over arrays, products, loops, branches, and steps of NumPy.

What flows in is a prepared program; what flows out are steps, each of which reads views of buffers
that earlier ones have filled. Elementwise operations and reductions over one index space share a
nest, in which results that nothing else reads stay in registers. Movements are views.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> staged = fg.program(lambda x: fnp.sum(x[::-1] * x + 1.0))(fnp.ones(5))
>>> [type(step).__name__ for step in plan_of(staged).steps], len(plan_of(staged).steps[0].members)
(['Nest'], 3)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad import intrinsics
from funcgrad.backends.native.function_text import FunctionText
from funcgrad.backends.native.lanes import Lanes, NotEmitted, Value, element_type
from funcgrad.backends.native.plan_steps import (
    Callback,
    Fill,
    Folded,
    Formula,
    Member,
    NativePlan,
    Nest,
    Run,
    Step,
    Sweep,
    number_in,
)
from funcgrad.backends.native.views import View, composed, whole
from funcgrad.folds import SUM, Fold
from funcgrad.places import Piece, dense_strides
from funcgrad.programs.equation import Equation, Guard
from funcgrad.programs.program import Program
from funcgrad.programs.structures import letters_of, pieces_of
from funcgrad.shape import Shape, Spec
from funcgrad.structure import (
    Choice,
    Contraction,
    Control,
    Elementwise,
    Loop,
    Movement,
    Reduction,
)

_MOST_MEMBERS: Final = 200
"""Members of a nest; with more, values wait in memory anyway."""

_SMALL_PRODUCT: Final = 2048
"""The most multiplications of a matrix product that is a nest; calling NumPy takes as long."""


def plan_of(program: Program) -> NativePlan:
    """NativePlan how a program runs."""
    return _Planner(program).finished()


class _Planner:
    """An unfinished plan."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._specs = list(program.specs())
        count = program.index.first_result
        self._constants = dict(
            zip(range(len(program.inputs), count), program.constants, strict=True)
        )
        self._views = {v: whole(v, spec.shape) for v, spec in enumerate(self._specs[:count])}
        self._made_at = dict.fromkeys(range(count), -1)
        self._steps: list[Step] = []
        for equation, results in zip(program.equations, program.index.results, strict=True):
            self._add(equation, results)

    def finished(self) -> NativePlan:
        outputs: list[int] = []
        for variable in self._program.outputs:
            view = self._views[variable]
            dense = view.is_dense and not view.offset
            same_size = prod(view.shape) == prod(self._specs[view.buffer].shape)
            is_given = self._made_at[view.buffer] < 0
            if is_given or not dense or not same_size or view.buffer in outputs:
                view = self._copied(view, self._specs[variable].dtype)
            outputs.append(view.buffer)
        guards: dict[int, list[Guard]] = {}
        for guard in self._program.guards:
            view = self._views[guard.variable]
            guards.setdefault(self._made_at[view.buffer], []).append(guard)
        guarded = [self._views[guard.variable].buffer for guard in self._program.guards]
        self._store([*outputs, *guarded])
        return NativePlan(
            self._program,
            self._specs,
            self._views,
            self._steps,
            outputs,
            guards,
            self._lives(guarded),
            frozenset(self._constants),
        )

    def _lives(self, guarded: Iterable[int]) -> dict[int, tuple[int, int]]:
        """When the buffers of intermediate results are alive."""
        lives: dict[int, tuple[int, int]] = {}

        def touch(buffer: int, position: int) -> None:
            if self._made_at[buffer] >= 0:
                first, last = lives.get(buffer, (position, position))
                lives[buffer] = min(first, position), max(last, position)

        for position, step in enumerate(self._steps):
            for buffer in step.read(self._views):
                touch(buffer, position)
            for buffer in step.written:
                touch(buffer, position)
        for buffer in guarded:
            touch(buffer, self._made_at[buffer])
        return lives

    def _store(self, outputs: Sequence[int]) -> None:
        """Note the members of nests whose results are read from memory."""
        read = {*outputs}
        for step in self._steps:
            read.update(step.read(self._views))
        for step in self._steps:
            if isinstance(step, Nest):
                for member in step.members:
                    variable = member.variable
                    if variable not in step.stores and (variable in read or member.folded):
                        step.stores[variable] = whole(variable, self._specs[variable].shape)

    # ---------------------------------------------------------------------------------- equations

    def _add(self, equation: Equation, results: range) -> None:
        structure = equation.operation.structure
        if isinstance(structure, Control) and self._runs(equation, structure, results):
            return
        if len(results) == 1 and self._is_emitted(equation, results):
            variable = results[0]
            if isinstance(structure, Movement) and self._moves(equation, structure, variable):
                return
            if isinstance(structure, Reduction) and self._reduces(equation, structure, variable):
                return
            if isinstance(structure, Elementwise) and self._computes(equation, variable):
                return
            if isinstance(structure, Contraction) and self._contracts(equation, variable):
                return
            if isinstance(structure, Elementwise) and self._sweeps(equation, variable):
                return
        self._prepare(equation.operands)
        self._append(Callback(equation, results.start), results)

    def _is_emitted(self, equation: Equation, results: range) -> bool:
        """Whether all dtypes are of those that registers hold."""
        try:
            for variable in (*equation.operands, *results):
                element_type(self._specs[variable].dtype)
        except NotEmitted:
            return False
        return True

    def _append(self, step: Step, results: range) -> None:
        self._steps.append(step)
        for variable in results:
            self._made_at[variable] = len(self._steps) - 1
            self._views[variable] = whole(variable, self._specs[variable].shape)

    def _new(self, shape: Shape, dtype: np.dtype[Any]) -> int:
        """One more variable."""
        self._specs.append(Spec(shape, dtype))
        return len(self._specs) - 1

    def _number_of(self, variable: int) -> Any:
        constant = self._constants.get(variable)
        return None if constant is None or constant.spec.shape else number_in(constant)

    # ------------------------------------------------------------------------------ nests of loops

    def _computes(self, equation: Equation, variable: int) -> bool:
        structure: Any = equation.operation.structure
        if structure.formula is None:
            return False
        formula = partial(_with_params, structure.formula, dict(equation.params))
        dtype = self._specs[variable].dtype
        if not _can_be_written(
            formula, [self._operand(operand) for operand in equation.operands], dtype
        ):
            return False
        if 0 in self._specs[variable].shape:
            self._append(Fill(variable), range(variable, variable + 1))
        else:
            self._join(Member(variable, equation.operands, formula), self._specs[variable].shape)
        return True

    def _operand(self, variable: int) -> Any:
        """A number, or the spec of what is not known."""
        number = self._number_of(variable)
        return self._specs[variable] if number is None else number

    def _reduces(self, equation: Equation, structure: Reduction, variable: int) -> bool:
        params, fold = dict(equation.params), structure.fold
        if fold is None or len(equation.operands) != 1 or not {*params} <= {"axis", "keepdims"}:
            return False
        (operand,) = equation.operands
        shape, dtype = self._specs[operand].shape, self._specs[variable].dtype
        formula = partial(_first_state, fold, dtype)
        if 0 in shape or not params["axis"]:
            return False
        if not _can_be_written(formula, [self._operand(operand)], dtype):
            return False
        axes = frozenset([axis % len(shape) for axis in params["axis"]])
        folded = Folded(axes, fold, neutral_of(fold, dtype))
        self._join(Member(variable, (operand,), formula, folded), shape)
        return True

    def _contracts(self, equation: Equation, variable: int) -> bool:
        """Plan a small sum of products as a nest; for large ones NumPy's products are quicker."""
        letters, spec = letters_of(equation, self._specs), self._specs[variable]
        operands = equation.operands
        if letters is None or spec.dtype.kind not in "fiu":
            return False
        *factors, out = letters
        repeated = any(len({*text}) < len(text) for text in letters)
        if repeated or any(self._specs[operand].dtype != spec.dtype for operand in operands):
            return False
        sizes = {
            letter: size
            for text, operand in zip(factors, operands, strict=True)
            for letter, size in zip(text, self._specs[operand].shape, strict=True)
        }
        order = [*out, *[letter for letter in sizes if letter not in out]]
        shape = tuple([sizes[letter] for letter in order])
        if not 0 < prod(shape) <= _SMALL_PRODUCT:
            return False
        spread = []
        for text, operand in zip(factors, operands, strict=True):
            view, factor = self._views[operand], self._new(shape, spec.dtype)
            strides = dict(zip(text, view.strides, strict=True))
            along = tuple([strides.get(letter, 0) for letter in order])
            self._views[factor] = View(view.buffer, shape, along, view.offset)
            spread.append(factor)
        product = self._new(shape, spec.dtype)
        self._join(Member(product, tuple(spread), lambda m, x, y: m.multiply(x, y)), shape)
        if len(order) == len(out):
            self._views[variable] = self._views[product]
            return True
        folded = Folded(frozenset(range(len(out), len(order))), SUM, neutral_of(SUM, spec.dtype))
        formula = partial(_first_state, SUM, spec.dtype)
        self._join(Member(variable, (product,), formula, folded), shape)
        return True

    def _join(self, member: Member, shape: Shape) -> None:
        """Put an operation into the first nest over its index space that comes late enough."""
        read = [v for v in member.operands if self._number_of(v) is None]
        views = {v: self._views[v] for v in read}
        first = max([self._made_at[view.buffer] for view in views.values()], default=0)
        position = len(self._steps)
        for place in range(max(first, 0), len(self._steps)):
            if self._fits(views, place, shape):
                position = place
                break
        else:
            self._steps.append(Nest(shape))
        nest = self._steps[position]
        assert isinstance(nest, Nest)
        for variable, view in views.items():
            if self._made_at[view.buffer] < position:
                nest.reads[variable] = view
        nest.members.append(member)
        self._made_at[member.variable] = position
        self._views[member.variable] = whole(member.variable, self._specs[member.variable].shape)

    def _fits(self, views: Mapping[int, View], place: int, shape: Shape) -> bool:
        """Whether an operation on these views can be a member of a step."""
        nest = self._steps[place]
        if not isinstance(nest, Nest) or nest.shape != shape:
            return False
        if len(nest.members) >= _MOST_MEMBERS:
            return False
        elements = {member.variable for member in nest.members if member.folded is None}
        for variable, view in views.items():
            if self._made_at[view.buffer] < place:
                continue
            if variable not in elements or view != whole(variable, shape):
                return False
        return True

    def _copied(self, view: View, dtype: np.dtype[Any]) -> View:
        """A copy of a view, in C order.

        Its elements are copied as the bits of integers, so that they may be of any dtype.
        """
        copy = self._new(view.shape, dtype)
        if 0 in view.shape:
            self._append(Fill(copy), range(copy, copy + 1))
            return self._views[copy]
        count = max(dtype.itemsize // 8, 1)
        bits = np.dtype(f"u{dtype.itemsize // count}")
        shape = (*view.shape, count)
        strides = (*[stride * count for stride in view.strides], 1)
        source, target = self._new(shape, bits), self._new(shape, bits)
        nest = Nest(shape)
        nest.reads[source] = View(view.buffer, shape, strides, view.offset * count)
        nest.members.append(Member(target, (source,), lambda lanes, x: x))
        nest.stores[target] = whole(copy, shape)
        self._views[source] = nest.reads[source]
        self._append(nest, range(copy, copy + 1))
        self._made_at[target] = self._made_at[copy]
        return self._views[copy]

    # ---------------------------------------------------------------------------------- movements

    def _moves(self, equation: Equation, structure: Movement, variable: int) -> bool:
        pieces = pieces_of(equation, self._specs)
        spec = self._specs[variable]
        if pieces is None:
            return False
        dtypes = {self._specs[operand].dtype for operand in equation.operands}
        if dtypes != {spec.dtype} or any(self._specs[o].weak for o in equation.operands):
            return False
        operands = [self._views[operand] for operand in equation.operands]
        if len(pieces) == 1 and _is_whole(pieces[0], spec.shape):
            view = operands[pieces[0].operand]
            moved = composed(view, pieces[0])
            self._views[variable] = moved or self._forced(view, spec, pieces[0])
            return True
        if structure.adds:
            return False
        if sum([prod(piece.shape) for piece in pieces]) < prod(spec.shape) or 0 in spec.shape:
            self._append(Fill(variable), range(variable, variable + 1))
        self._views[variable] = whole(variable, spec.shape)
        for piece in pieces:
            view = operands[piece.operand]
            source = self._new(piece.shape, spec.dtype)
            self._views[source] = composed(view, piece) or self._forced(view, spec, piece)
            target = self._new(piece.shape, spec.dtype)
            self._steps.append(Nest(piece.shape))  # one that stores into this buffer
            nest = self._steps[-1]
            assert isinstance(nest, Nest)
            nest.reads[source] = self._views[source]
            nest.members.append(Member(target, (source,), lambda lanes, x: x))
            nest.stores[target] = View(variable, piece.shape, piece.to_strides, piece.to)
            self._made_at[variable] = self._made_at[target] = len(self._steps) - 1
        return True

    def _forced(self, view: View, spec: Spec, piece: Piece) -> View:
        """The box of a view that has to be copied first."""
        moved = composed(self._copied(view, spec.dtype), piece)
        assert moved is not None  # a copy in C order has one stride for each piece's axis
        return moved

    def _prepare(self, operands: Iterable[int]) -> None:
        """Have operands lie in C order in buffers of their own, as arrays of NumPy's do."""
        for operand in operands:
            view, spec = self._views[operand], self._specs[operand]
            size = prod(self._specs[view.buffer].shape)
            if not view.is_dense or view.offset or prod(view.shape) != size:
                self._views[operand] = self._copied(view, spec.dtype)

    # --------------------------------------------------------------------------- what NumPy does

    def _sweeps(self, equation: Equation, variable: int) -> bool:
        ufunc, spec = equation.operation.evaluate, self._specs[variable]
        if not isinstance(ufunc, np.ufunc) or equation.params or ufunc.nout != 1:
            return False
        if ufunc.signature is not None or 0 in spec.shape:
            return False
        specs = [self._specs[operand] for operand in equation.operands]
        if any(s.weak for s in specs) or any(s.shape not in ((), spec.shape) for s in specs):
            return False
        dtypes = ufunc.resolve_dtypes((*[s.dtype for s in specs], None))
        if dtypes != (*[s.dtype for s in specs], spec.dtype):
            return False  # it would convert its operands in pieces
        self._prepare(equation.operands)
        step = Sweep(ufunc, tuple(dtypes), equation.operands, variable)
        self._append(step, range(variable, variable + 1))
        return True

    def _runs(self, equation: Equation, structure: Control, results: range) -> bool:
        form = None if structure.form is None else structure.form(**dict(equation.params))
        if isinstance(form, Loop):
            stacks = len(form.body.outputs) > form.carried
            if form.length is None and (form.condition is None or stacks):
                return False  # as many slices as nobody knows before
            programs = [form.body] + ([] if form.condition is None else [form.condition])
        elif isinstance(form, Choice):
            programs = list(form.branches)
        else:
            return False
        specs = [spec for program in programs for spec in program.specs()]
        try:
            for spec in (*specs, *[self._specs[v] for v in (*equation.operands, *results)]):
                element_type(spec.dtype)
        except NotEmitted:
            return False
        if any(program.guards for program in programs):
            return False
        self._prepare(equation.operands)
        self._append(Run(equation, results.start, form, tuple(programs)), results)
        return True


def _is_whole(piece: Piece, shape: Shape) -> bool:
    """Whether a movement's only piece makes all of its result, in C order."""
    return piece.shape == shape and not piece.to and piece.to_strides == dense_strides(shape)


def _with_params(formula: Formula, params: dict[str, Any], m: Lanes, *operands: Any) -> Any:
    return formula(m, *operands, **params)


def _can_be_written(formula: Formula, operands: Sequence[Any], dtype: np.dtype[Any]) -> bool:
    """Whether there are instructions for a formula: it is written once, for nobody."""
    lanes = Lanes(FunctionText(), 1)
    values = [
        Value("%x", operand.dtype, lanes, operand.weak) if isinstance(operand, Spec) else operand
        for operand in operands
    ]
    try:
        lanes.astype(formula(lanes, *values), dtype)
    except NotEmitted:
        return False
    return True


def _first_state(fold: Fold, dtype: np.dtype[Any], m: Lanes, x: Any) -> Any:
    """The state of one element, if that is one number and does not depend on its place."""
    state = fold.of(m, dtype, _Nowhere(), x)
    if isinstance(state, tuple) or fold.finish is not None:
        raise NotEmitted("a reduction whose state has several numbers")
    return state


class _Nowhere:
    """A place that nobody may ask for."""


def neutral_of(fold: Fold, dtype: np.dtype[Any]) -> Any:
    """The number that changes no other: declared, or else the least or the greatest that there is.

    >>> from funcgrad.folds import GREATEST, LEAST, SUM
    >>> float64, int8 = np.dtype(float), np.dtype(np.int8)
    >>> neutral_of(GREATEST, float64), neutral_of(LEAST, int8), neutral_of(SUM, float64)
    (-inf, 127, -0.0)
    """
    if fold.identity is not None:  # 0.0 + -0.0 is 0.0
        return -0.0 if dtype.kind == "f" and fold.identity == 0 else fold.identity
    if dtype.kind == "f":
        least, greatest = -np.inf, np.inf
    elif dtype.kind == "b":
        least, greatest = False, True
    else:
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    for number, other in ((least, greatest), (greatest, least)):
        if fold.combine(intrinsics, dtype.type(number), dtype.type(other)) == other:
            return number
    raise NotEmitted("a reduction without a neutral number")
