"""Names of intermediate values: for their gradients, and for checkpoints to keep them.

``probe(x, name)`` is the identity. Inside ``grad(f, probes=(name,))`` it marks the value, and the
gradient is returned with the gradient with respect to the marked value. Inside
``checkpoint(f, save=(name,))`` the value is retained. A context variable holds
the names that are asked for, so probes belong to one call, and to one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.context import current, entered
from funcgrad._core.specs import Spec, dtype_of, is_inexact, shape_of, spec_of
from funcgrad._core.trace import Trace, Value, running_traces
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._primitives.elementwise import add
from funcgrad._primitives.indexing import gather
from funcgrad._transforms.accumulation import Variables, accumulate
from funcgrad._transforms.answers import Rows
from funcgrad._transforms.call import Call
from funcgrad._transforms.composite import Recording, bind_composite, innermost_trace
from funcgrad._transforms.entries import Entry
from funcgrad._transforms.masked import Cotangent, fit_cotangent, values_there
from funcgrad._transforms.record import Recorder
from funcgrad.errors import DifferentiationError
from funcgrad.tensor.tensor import Tensor, wrap


def check_names(operation: str, names: Any, option: str = "probes") -> None:
    """Check that the probes that are asked for are names.

    Raises
    ------
    DifferentiationError
        They are not a tuple or list of strings.
    """
    several = isinstance(names, (tuple, list, set, frozenset))
    if not several or not all(isinstance(name, str) for name in names):
        raise DifferentiationError(
            f"{operation}: {option} has to be a tuple of names, as {option}=('h',), got {names!r}."
        )


class ProbeSet:
    """The names that one running gradient asks for, and the values marked so far."""

    __slots__ = ("_again", "_divisions", "_here", "_marked", "names", "outer", "recorder")

    def __init__(self, recorder: Recorder, names: Sequence[str], outer: Probes | None) -> None:
        self.recorder = recorder
        self.names = frozenset(names)
        self.outer = outer
        self._marked: dict[str, tuple[Spec, int]] = {}
        self._here: set[str] = set()
        self._again = False
        self._divisions: tuple[tuple[int, Rows | None, int], ...] = ()

    @property
    def level(self) -> int:
        """The level of the recorder, which follows the marked values."""
        return self.recorder.level

    def again(self) -> ProbeSet:
        """Copy the probes for a second run of the function, which may mark the same names again."""
        return self._copy(self.outer.again() if self.outer else None, True, self._divisions)

    def along_path(self, rows: Rows | None, size: int) -> ProbeSet:
        """Copy the probes for a run on some examples of a batch, or on all along one path.

        Runs along other paths mark the same names, for their examples.
        """
        batches = [trace for trace in running_traces() if trace.is_batch]
        axis = len([trace for trace in batches if trace.level > self.recorder.level])
        divisions = (*self._divisions, (axis, rows, size))
        outer = self.outer.along_path(rows, size) if self.outer else None
        return self._copy(outer, self._again, divisions)

    def _copy(self, outer: Probes | None, again: bool, divisions: Any) -> ProbeSet:
        probes = ProbeSet(self.recorder, (), outer)
        probes.names, probes._marked = self.names, self._marked
        probes._again, probes._divisions = again, divisions
        return probes

    def latest(self) -> ProbeSet:
        """The probes of the function's second run, if there is one, or these."""
        running = running_probes()
        while running is not None:
            if isinstance(running, ProbeSet) and running._marked is self._marked:
                return running
            running = running.outer
        return self

    def mark(self, name: str, value: Value) -> Value:
        """Follow a value under a name."""
        data = self.recorder.inner(value)
        if self._divisions:
            return self._mark_some(name, value)
        if self._again:
            slot = self._marked[name][1]
            self._marked[name] = spec_of(data), slot  # a loop may begin again in another precision
            return self._follow(data, value, slot)
        if name in self._marked:
            raise _marked_twice(name)
        slot = self.recorder.slot()
        self._marked[name] = spec_of(data), slot
        return self._follow(data, value, slot)

    def _mark_some(self, name: str, value: Value) -> Value:
        """Mark a value of some examples: it is a part of the value of the whole batch."""
        if name in self._here and not self._again:
            raise _marked_twice(name)
        self._here.add(name)
        shape = list(shape_of(value))
        for axis, rows, size in self._divisions:
            shape[axis] = shape[axis] if rows is None else size
        if name not in self._marked:
            self._marked[name] = Spec(tuple(shape), dtype_of(value)), self.recorder.slot()
        spec, slot = self._marked[name]
        if spec.shape != tuple(shape):
            raise DifferentiationError(
                f"probe: {name!r} has the shape {spec.shape} for some examples of a batch, and"
                f" {tuple(shape)} for others."
            )
        whole = self.recorder._tracer(np.full(shape, -0.0, dtype_of(value)), slot)
        for axis, rows, _ in self._divisions:
            whole = whole if rows is None else gather(whole, rows, axis=axis, unique=True)
        return add(value, whole)  # adding -0.0 changes no value

    def _follow(self, data: Value, value: Value, slot: int) -> Value:
        entry = MarkEntry(self.recorder.index_of(value), slot)
        return self.recorder.append_entry(entry, data)

    def gradients(self, cts: Sequence[Value]) -> dict[str, Any]:
        """The gradients by name, from the cotangents of the recorder's inputs."""
        missing = sorted(self.names - self._marked.keys())
        if missing:
            raise DifferentiationError(
                f"grad: the function marked no value as {', '.join(map(repr, missing))}; it marked"
                f" {sorted(self._marked) or 'none'}. Call fg.probe(x, name) on the value."
            )
        marked_cts = zip(self._marked.items(), cts[-len(self._marked) :], strict=True)
        seeds = values_there(cts)
        return {name: wrap(fit_cotangent(ct, spec, seeds)) for (name, (spec, _)), ct in marked_cts}


def _marked_twice(name: str) -> DifferentiationError:
    return DifferentiationError(
        f"probe: {name!r} was marked twice in one gradient. Give every value a name of its"
        f' own, in a loop for instance f"{name}{{i}}".'
    )


@dataclass(slots=True, eq=False)
class MarkEntry(Entry):
    """A marked value, whose cotangent is returned and pulled back further."""

    operand: int  # the variable that it is, or -1
    slot: int  # the input that gets its cotangent

    def push(self, tangents: Variables) -> Value:
        return tangents[self.operand]

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        accumulate(cotangents, self.slot, ct)
        if self.operand >= 0:
            accumulate(cotangents, self.operand, ct)


class RetainedSet:
    """The names whose values one checkpoint keeps, and the values marked so far.

    Names that checkpoints around keep are kept by those inside, too.
    """

    __slots__ = ("level", "marked", "names", "outer")

    def __init__(self, level: int, names: frozenset[str], outer: Probes | None) -> None:
        self.level = level  # of the trace that follows the marked values
        self.names = names
        self.outer = outer
        self.marked: list[tuple[str, Value]] = []

    def again(self) -> RetainedSet:
        """Copy the names for a second run of a function inside."""
        return self._inside(self.outer.again() if self.outer else None)

    def along_path(self, rows: Rows | None, size: int) -> RetainedSet:
        """Copy the names for a run on some examples of a batch, whose values are kept as well."""
        return self._inside(self.outer.along_path(rows, size) if self.outer else None)

    def _inside(self, outer: Probes | None) -> RetainedSet:
        copy = RetainedSet(self.level, self.names, outer)
        copy.marked = self.marked
        return copy

    def latest(self) -> RetainedSet:
        """The set itself, which all copies share their values with."""
        return self

    def mark(self, name: str, value: Value) -> Value:
        """Keep a value under a name."""
        self.marked.append((name, value))
        return value


Probes: TypeAlias = ProbeSet | RetainedSet


def running_probes() -> Probes | None:
    """The probes of the innermost gradient, or checkpoint with names, that is running."""
    return current().probes


def retained_sets(probes: Probes | None) -> Iterator[RetainedSet]:
    """The names that checkpoints around keep, the innermost first."""
    while probes is not None:
        if isinstance(probes, RetainedSet):
            yield probes
        probes = probes.outer


def retain_named(name: str, value: Value) -> None:
    """Let the checkpoints around that keep a name keep the value."""
    for retained in retained_sets(running_probes()):
        if name in retained.names:
            _ProbeCall(name, retained).apply(value)


def probe_again(probes: Probes | None) -> AbstractContextManager[None]:
    """While a function runs once more, as a checkpointed one, use the probes of its first run."""
    return entered(current()._replace(probes=probes.again() if probes is not None else None))


@contextmanager
def collect_probes(recorder: Recorder, names: Sequence[str]) -> Iterator[ProbeSet]:
    """While the function runs, let ``probe`` mark the values of these names."""
    context = current()
    probes = ProbeSet(recorder, names, context.probes)
    with entered(context._replace(probes=probes)):
        yield probes


class _ProbeCall(Call):
    """The identity on one value, which marks it when the call has reached the recorder.

    It changes the recorder, so a stager must not stage it as it does a ``RuleCall``.
    """

    __slots__ = ("_name", "probes")

    def __init__(self, name: str, probes: Probes) -> None:
        self._name = name
        self.probes = probes

    @property
    def name(self) -> str:
        return f"probe {self._name}"

    def reaches(self, value: Value) -> bool:
        """Whether a value belongs to the recorder, or to nothing that runs inside it."""
        trace = innermost_trace([value])
        return trace is None or trace.level <= self.probes.level

    def apply(self, value: Value) -> Value:
        """Mark a value, through whatever transformations run inside the recorder's."""
        if self.reaches(value):
            return self.probes.latest().mark(self._name, value)
        return bind_composite(self, [value])[0]

    def run(self, args: Sequence[Value]) -> list[Value]:
        return [self.apply(args[0])]

    def record(self, args: Sequence[Value], followed: Sequence[bool]) -> Recording:
        return Recording([self.apply(args[0])], list, list)

    def batched(self, size: int, flags: Sequence[bool], around: Trace | None = None) -> Call:
        return self


def probe(x: ArrayLike, name: str) -> Tensor:
    """Name an intermediate value, for ``grad(probes=...)`` or ``checkpoint(save=...)``.

    ``grad`` then also returns the gradient with respect to this value; ``checkpoint`` stores the
    value.

    Parameters
    ----------
    x : array_like
        The value, of a floating-point or complex dtype.
    name : str
        For ``grad`` unique within the function that is being differentiated.

    Returns
    -------
    Tensor
        A tensor equal to ``x``. Its gradient counts only operations on the returned tensor, not on
        ``x``. Inside ``vmap`` the gradient has the batch on axis 0, and is zero for examples whose
        path has no probe of this name.

    Raises
    ------
    DifferentiationError
        The name is used twice, or ``x`` has an integer or boolean dtype.

    Examples
    --------
    >>> import funcgrad as fg
    >>> def loss(w):
    ...     h = fg.probe(3.0 * w, "h")
    ...     return h * h
    >>> fg.grad(loss, probes=("h",))(2.0)
    (Tensor(36.0), {'h': Tensor(12.0)})
    """
    value = operand(x, "probe")
    probes, is_marked = running_probes(), False
    while probes is not None:
        if name in probes.names and not (is_marked and isinstance(probes, ProbeSet)):
            if isinstance(probes, ProbeSet):
                is_marked = True
                if not is_inexact(dtype_of(value)):
                    raise DifferentiationError(
                        f"probe: {name!r} has dtype {dtype_of(value)}, so it has no derivative."
                        " Cast it."
                    )
            value = _ProbeCall(name, probes).apply(value)
        probes = probes.outer
    return wrap(value)
