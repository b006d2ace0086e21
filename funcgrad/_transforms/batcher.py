"""The trace of ``vmap``, and its tracer.

To the function a batched tracer is one example; inside the tracer, the batch is on axis 0. Where
the function looks at the value of an example in Python and the examples answer differently, the
run goes on for the largest group with one answer, and the function runs again for the others
(``paths.py``). Values that were computed before have more examples on axis 0 than the batch has
from then on; they are narrowed where they are used. Where values of the whole batch are in other
hands, as in a branch of ``cond`` or in a rule, the run is abandoned instead, by ``Division``.

>>> import funcgrad as fg
>>> fg.vmap(lambda x: f"{x.shape} {x.dtype}" and x * 2)(fg.tensor([1.0, 2.0]))
Tensor([2., 4.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

import numpy as np

from funcgrad._base.users_line import users_line
from funcgrad._core.context import (
    current,
    delegate,
    delegated,
    holds_linear,
    repeated,
    within_linear,
)
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape, shape_of
from funcgrad._core.structure.structures import Random
from funcgrad._core.trace import (
    RAW,
    Raw,
    Trace,
    Value,
    bind1,
    bind2,
    concrete,
    escaped,
    running_traces,
)
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._transforms.active_examples import (
    errors_of,
    examples_at,
    refuses_numbers,
    with_stand_ins,
)
from funcgrad._transforms.answers import (
    LOOKS,
    Division,
    Rows,
    UnstagedError,
    active_rows,
    agree,
    answer_in_words,
    answers_of,
    is_staged,
    refusal,
    rows_by_answer,
)
from funcgrad._transforms.composite import Composite
from funcgrad._transforms.masked_paths import MaskedPath, path_for_patterns
from funcgrad._transforms.staged_paths import StagedPath
from funcgrad.errors import ConditionError, KeyReuseError, NonFiniteError, ShapeError
from funcgrad.tensor.tensor import Tensor

_new: Final[Any] = object.__new__
REFUSES: Final = 0
DIVIDES: Final = 1
SELECTS: Final = 2
_SAME_FOR_ALL: Final = TypeError, ShapeError, ConditionError, NonFiniteError, KeyReuseError
"""Errors about shapes and dtypes, which all examples share, and of checks, which name one."""


class Batched(Tensor):
    """One example of a batch, standing for all of them."""

    __slots__ = ("_index", "_trace")  # as others have them, so that these can become this

    @property
    def shape(self) -> Shape:
        """The sizes of the axes of one example."""
        return shape_of(self._value)[1:]

    def _reveal(self, use: str, exact: bool) -> Raw:
        return self._trace.look(self, use, exact)


class Batcher(Trace):
    """The trace of ``vmap``.

    Parameters
    ----------
    level, size : int
    around : Batcher, optional
        A trace of the same batch, whose tracers the function may close over.
    whole : int, optional
        How many examples the trace around had; by default ``size``.
    rows : Rows, optional
        The examples among these that this trace runs on; by default all.
    follows : int
        Whether the function may look at values of single examples: not (``REFUSES``), only
        while it is evaluated (``DIVIDES``), or also while it is staged (``SELECTS``).

    Attributes
    ----------
    size : int
        The number of examples, which falls where they divide.
    divisions : sequence of Division
        The divisions after which the run went on.
    division : Division or None
        The exception that abandoned the run, if it did not.
    path : StagedPath or None
        The path that the function takes while it is staged.
    masked : MaskedPath or None
        The path that it takes for all examples of the batches around, instead of dividing them.
    """

    is_batch = True
    __slots__ = (
        "_around",
        "_follows",
        "_is_plain",
        "_lends",
        "_open",
        "_whole",
        "division",
        "divisions",
        "masked",
        "path",
        "rows",
        "size",
        "title",
    )

    def __init__(
        self,
        level: int,
        size: int,
        follows: int = DIVIDES,
        around: Trace | None = None,
        whole: int = -1,
        rows: Rows | None = None,
    ) -> None:
        super().__init__(level)
        self.title = f"vmap over {size}"
        self.size = size
        self.rows = rows
        self.divisions: Sequence[Division] = ()
        self.division: Division | None = None
        self.path: StagedPath | None = None
        self.masked: MaskedPath | None = None
        self._follows = follows
        self._open = self._is_plain = True
        self._lends = False
        self._around: tuple[Batcher, ...] = ()
        if isinstance(around, Batcher):
            self._is_plain = False
            self._around = (around, *around._around)
            self._whole = size if whole < 0 else whole

    def close(self) -> None:
        """End the transformation; tracers used from now on raise."""
        self._open = self._is_plain = False
        for path in (self.path, self.masked):
            if path is not None:
                path.close()

    def follow_path(self, path: StagedPath) -> None:
        """Give the answers of a path while the function is staged."""
        self.path = path
        self._is_plain = False

    @property
    def runs_once(self) -> bool:
        """Whether the function needs no other run: its examples agreed wherever it looked."""
        is_whole = self.division is None and not self.divisions
        return is_whole and self.path is None and self.masked is None

    def check(self) -> None:
        if not self._open and self not in running_traces():
            raise escaped()

    @contextmanager
    def standing_in(self) -> Iterator[None]:
        """Within this context, interpret operations on tracers of the traces around that ended."""
        with ExitStack() as stack:
            for trace in self._around:
                stack.enter_context(delegated(trace, self))
            yield

    def lend(self) -> None:
        """Let another trace interpret operations where a context says so."""
        self._is_plain, self._lends = False, True

    def _reader(self) -> Any:
        """The trace that interprets operations in this context, if it is another one."""
        if self.path is not None:
            self.path.count_operation()
        return delegate(self) if self._lends and self._open else None

    def _successor(self, *args: Value) -> Batcher | None:
        """Find the trace that interprets an operation on tracers of batches that have ended.

        A rule of a call may run later, as in a pullback, and may close over tracers of the batches
        that the call belongs to. Others stand in for their traces, in the same order.
        """
        if not self._open:
            interpreter: Batcher | None = delegate(self)
            if interpreter is None:
                self.check()
            return interpreter
        if not self._around:
            return None
        for value in args:
            if type(value) is Batched and value._trace is not self:
                inside: Batcher | None = delegate(value._trace)
                if inside is not None and inside.level > self.level:
                    return inside
        return None

    def follow(self, data: Value) -> Batched:
        """A tracer for a value with the batch on axis 0."""
        tracer: Batched = _new(Batched)
        tracer._value = data
        tracer._trace = self
        return tracer

    def parts(self, value: Value) -> tuple[Value, bool]:
        """A value as the transformations around this one see it, and whether it has the batch."""
        if type(value) is Batched:
            if value._trace is self:
                data = value._value
                return data if self._is_plain else self._narrowed(data, self.size), True
            if value._trace in self._around:
                return self._from_around(value), True
        return concrete(value), False

    def inner(self, value: Value) -> Value:
        """A value as the transformations around this one see it."""
        return self.parts(value)[0]

    def _narrowed(self, data: Value, size: int) -> Value:
        """A value that was computed for more examples, for those in the batch when it had a size.

        Each division leaves fewer examples, so their number tells after which one it was computed.
        """
        count = shape_of(data)[0]
        rows: Rows | None = None
        for division in self.divisions:
            if count == division.size and count > size:
                rows = division.rows if rows is None else rows[division.rows]
                count = len(division.rows)
        return data if rows is None else examples_at(data, rows)

    def _from_around(self, tracer: Batched) -> Value:
        """The value of a tracer of a trace around, for the examples of this trace."""
        place = self._around.index(tracer._trace)
        data, outer = tracer._value, self._around[place]
        for inside in (*self._around[:place][::-1], self):
            data = outer._narrowed(data, inside._whole)
            data = data if inside.rows is None else examples_at(data, inside.rows)
            outer = inside
        return data

    def rebuild(self, tracer: Any, change: Callable[[Value], Value]) -> Value:
        return self.follow(change(tracer._value))

    def process1(self, primitive: Primitive, x: Value) -> Value:
        """The fast path of ``process`` for elementwise operations of one argument."""
        if not primitive.quick:
            return self.process(primitive, (x,), {})
        data = x._value
        if not self._is_plain:
            if interpreter := self._reader() or (not self._open and self._successor()):
                return interpreter.process1(primitive, x)
            data = self.parts(x)[0]
        try:
            return self.follow(bind1(primitive, data))
        except ArithmeticError:  # within np.errstate(all="raise"); `process` divides the examples
            return self.process(primitive, (x,), {})

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Value:
        """The fast path of ``process`` for elementwise operations whose axes line up already."""
        if not primitive.quick:
            return self.process(primitive, (x, y), {})
        if self._is_plain:  # `parts`, in less time
            batched = type(x) is Batched and x._trace is self
            batched_too = type(y) is Batched and y._trace is self
            first = x._value if batched else concrete(x)
            second = y._value if batched_too else concrete(y)
        elif interpreter := self._reader() or self._successor(x, y):
            return interpreter.process2(primitive, x, y)
        else:
            first, batched = self.parts(x)
            second, batched_too = self.parts(y)
        rank, other = len(shape_of(first)) - batched, len(shape_of(second)) - batched_too
        if (rank >= other or not batched) and (other >= rank or not batched_too):
            try:
                return self.follow(bind2(primitive, first, second))
            except ArithmeticError:
                pass
        return self.process(primitive, (x, y), {})

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Apply the primitive's batching rule."""
        if not self._is_plain:
            if interpreter := self._reader() or self._successor(*args):
                return interpreter.process(primitive, args, params)
            path = self.path
            draws = path is not None and isinstance(primitive.structure, Random)
            if draws and current().rerun is not path:
                with repeated(path):  # other paths may use the same key
                    return self.process(primitive, args, params)
        if refuses_numbers(primitive):
            args = with_stand_ins(args)
        inner, batched = [], []
        for arg in args:  # a loop, which takes a third of the time of three comprehensions
            data, flag = self.parts(arg)
            inner.append(data)
            batched.append(flag)
        values, flags = tuple(inner), tuple(batched)
        try:
            out = primitive.batch(primitive, self.size, values, flags, params)
        except Exception as error:
            # No lambda: its variables would be cells, which cost each operation 150 ns.
            retry = partial(_batched_again, primitive, flags, params)
            if not self._divide_failures(error, values, flags, retry):
                raise
            return self.process(primitive, args, params)
        return tuple(map(self.follow, out)) if type(out) is tuple else self.follow(out)

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        """Let an operation that is met as a whole run on the batch."""
        if holds_linear(self):
            if not call.is_linear:
                return list(delegate(self, is_linear=False).process_call(call, args))
            with within_linear():
                return self.process_call(call, args)
        if not self._is_plain and (interpreter := self._reader() or self._successor(*args)):
            return interpreter.process_call(call, args)
        try:
            return call.batch_in(self, args)
        except Exception as error:
            parts = [self.parts(arg) for arg in args]
            values, flags = [value for value, _ in parts], [flag for _, flag in parts]
            retry = partial(_called_again, call, flags)
            if not self._divide_failures(error, values, flags, retry):
                raise
            return self.process_call(call, args)

    def batch_of(self, value: Value) -> Value:
        """A value with the batch on axis 0, repeated for each example if it has none."""
        data, flag = self.parts(value)
        return data if flag else broadcast_to(data, shape=(self.size, *shape_of(data)))

    # Looks at values of single examples.

    def look(self, tracer: Batched, use: str, exact: bool) -> Raw:
        """The raw value of an example, where the function looks at it.

        If the examples do not agree about it, the run goes on for those that agree with this one.

        Raises a `Division` if the run cannot go on for some examples only.
        """
        if not self._open and (interpreter := self._successor()):
            return interpreter.look_at(interpreter.parts(tracer)[0], use, exact)
        return self.look_at(self.parts(tracer)[0], use, exact)

    def look_at(self, data: Value, use: str, exact: bool) -> Raw:
        """``look`` for the value inside a tracer."""
        if not self._follows or not use.startswith(LOOKS):
            raise refusal(use)
        if is_staged(data):
            return self._select(data, use)
        if self.masked is None and type(data) not in RAW and self._can_narrow():
            self.masked = None if self.divisions else path_for_patterns(self.size, data, use)
        if self.masked is not None and not self.masked.refused:
            return self.masked.choose(self.follow, data, use)
        raw = np.asarray(data if type(data) in RAW else data._reveal(use, exact))
        if self.size == 1:
            return raw[0]
        if not self.size:
            self._divide([])
        answers, active = answers_of(raw, use), active_rows(self, self.size)
        first = 0
        if active is not None:
            first = int(active.argmax())
            answers = np.where(active, answers, answers[first])
        if agree(answers):
            return raw[first]
        if self.path is not None:  # the program is for all examples
            return self._select(data, use)
        groups = rows_by_answer(answers)
        rows = self._divide([(answer_in_words(raw[rows[0]], use), rows) for rows in groups])
        return raw[rows[0]]

    def _divide(self, groups: list[tuple[object, Rows]]) -> Rows:
        """Go on with the largest of some groups of examples; return these examples.

        Raises
        ------
        Division
            The run cannot go on for some examples only.
        """
        if not self._open:
            raise escaped()
        if self.division is not None:  # the function went on, or looks in another thread
            raise self.division
        division = Division(self.level, groups, self.size)
        if not groups or not self._can_narrow():
            self.division = division
            raise division
        division.largest = max(range(len(groups)), key=lambda place: len(groups[place][1]))
        self._is_plain = False
        self.divisions = (*self.divisions, division)
        self.size = len(division.rows)
        return division.rows

    def _can_narrow(self) -> bool:
        """Whether all values of the batch are in tracers, so that the run may go on with some.

        A loop or a branch with examples that do not take part, a program that is being written, a
        rule, probes and threads of the function hold others.
        """
        context = current()
        if self._follows != SELECTS or context.active_examples is not None:
            return False
        if context.probes is not None:
            return False
        for trace in running_traces():
            if trace is self:
                return True
            if not (trace.has_numbers or (isinstance(trace, Batcher) and not trace._around)):
                return False
        return False

    def _select(self, data: Value, use: str) -> Raw:
        """Choose an answer while the function is staged."""
        if self._follows != SELECTS:
            raise UnstagedError(
                "under vmap it has a rule, or a part that is staged by itself, with a branch for"
                " each example of a batch"
            )
        path = self.path
        if path is None:
            path = StagedPath()
            self.follow_path(path)
            if self.divisions:  # by values that are known; a program needs all examples
                path.failed = True
                path.stop()
        return path.choose(self, data, use)

    def _divide_failures(
        self,
        error: Exception,
        values: Sequence[Value],
        flags: Sequence[bool],
        retry: Callable[[int, Sequence[Value]], object],
    ) -> bool:
        """Divide the examples if an operation raises an error for some of them only.

        Returns whether the run goes on with examples that have one outcome.
        """
        shared = isinstance(error, _SAME_FOR_ALL) and not isinstance(error, IndexError)
        can_divide = not shared and self.size > 1 and self._open and self._follows
        if not can_divide or any(map(is_staged, values)):
            return False
        answers, names = errors_of(self.size, values, flags, retry)
        if agree(answers):
            return False
        if self.path is not None:
            raise self.path.refuse(f"raises {names[-1]} at {users_line()} for some examples only")
        groups = rows_by_answer(answers)
        self._divide([(names[answers[rows[0]]] or "no error", rows) for rows in groups])
        return True


def _batched_again(
    primitive: Primitive,
    flags: Sequence[bool],
    params: Mapping[str, object],
    size: int,
    values: Sequence[Value],
) -> object:
    return primitive.batch(primitive, size, tuple(values), flags, params)


def _called_again(
    call: Composite, flags: Sequence[bool], size: int, values: Sequence[Value]
) -> object:
    return call.batch(size, values, flags)
