"""The parts of a program: equations, constants and guards, and their equality.

>>> Constant(0.0) == Constant(0.0), Constant(0.0) == Constant(-0.0), Constant(1) == Constant(1.0)
(True, False, False)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec, spec_of
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import NUMBERS, RAW, TracedValue, Value
from funcgrad._core.users_values import REFUSALS, explained
from funcgrad._primitives.elementwise import add
from funcgrad._primitives.structural import cast
from funcgrad.tensor.tensor import wrap

Params: TypeAlias = tuple[tuple[str, Any], ...]
"""Static parameters as pairs of name and value, sorted by name: a hashable mapping."""


def exact_key(value: Any) -> Hashable:
    """A key that distinguishes static values that ``==`` does not.

    The parameters 2 and 2.0, which promotes differently, get different keys, as do 0.0 and -0.0;
    NaN equals NaN.

    >>> 2 == 2.0, exact_key(2) == exact_key(2.0), exact_key((0.0,)) == exact_key((-0.0,))
    (True, False, False)
    """
    kind = type(value)
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if kind is slice:  # not hashable before Python 3.12
        return kind, exact_key((value.start, value.stop, value.step))
    if isinstance(value, tuple):
        return kind, tuple([exact_key(member) for member in value])
    if isinstance(value, np.generic):
        return kind, value.tobytes()
    return kind, value


def spec_inside(value: Value) -> Spec:
    """The spec of a value; a tracer of a Python number is weak, like the number."""
    if type(value) in RAW:
        return spec_of(value)
    inner = value
    while isinstance(inner, TracedValue):
        inner = inner._value
    return Spec(value.shape, value.dtype, type(inner) in NUMBERS)


def as_spec(value: Value, spec: Spec) -> Value:
    """Convert a value to the dtype and the weakness of a program's input.

    An array stays an array, even if the input is a Python number.

    >>> as_spec(2, Spec((), np.dtype(np.float32)))
    np.float32(2.0)
    """
    value_spec = spec_inside(value)
    if value_spec == spec or (
        spec.weak and value_spec.dtype == spec.dtype and type(value) not in RAW
    ):
        return value
    if type(value) in RAW and not value_spec.shape:
        made: Any = spec.dtype.type(value)
        return made.item() if spec.weak else made
    if spec.weak and value_spec.weak:  # adding -0.0 changes no value
        return add(value, spec.dtype.type(-0.0).item())
    return cast(value, dtype=spec.dtype)


def gives_way(weak: Spec, spec: Spec) -> bool:
    """Whether a Python number can be converted to a spec: to its kind or a wider one."""
    weak_rank, rank = ["bifc".index(ranked.dtype.kind.replace("u", "i")) for ranked in (weak, spec)]
    return weak.weak and not spec.shape and weak_rank <= rank


@dataclass(frozen=True, slots=True, eq=False)
class Equation:
    """One operation of a program.

    Attributes
    ----------
    operation : Primitive
    operands : tuple of int
        Variables.
    params : tuple of pairs
        Static parameters; programs, such as the body of a loop, are among them.
    results : tuple of Spec
        The specs of the results.
    source : str
        The user's line of the equation; comparisons ignore it.
    epoch : int
        0 at first, and a higher number each time a checkpointed function runs again. Equal
        equations of different epochs are not merged; otherwise the checkpoint would save no memory.
    """

    operation: Primitive
    operands: tuple[int, ...]
    params: Params
    results: tuple[Spec, ...]
    source: str = ""
    epoch: int = 0

    @property
    def name(self) -> str:
        """The name of the operation in the text of a program."""
        label = self.operation.label
        return self.operation.name if label is None else label(**dict(self.params))

    @property
    def settings(self) -> Params:
        """The parameters that the text of a program shows after the name."""
        structure = self.operation.structure
        is_call = not isinstance(structure, Control) or structure.inlines
        return () if is_call and self.operation.label is not None else self.params

    @property
    def called(self) -> Any:
        """The program whose equations may replace this one; None if this is not a call."""
        structure = self.operation.structure
        if not isinstance(structure, Control) or not structure.inlines:
            return None
        ((program, _),) = structure.runs(**dict(self.params))
        return program

    def on(self, operands: tuple[int, ...]) -> Equation:
        """Replace the operands, five times as fast as `dataclasses.replace`."""
        if operands == self.operands:
            return self
        return Equation(
            self.operation, operands, self.params, self.results, self.source, self.epoch
        )

    def _key(self) -> Hashable:
        return self.operation, self.operands, exact_key(self.params), self.results, self.epoch

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Equation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


class Constant:
    """A value inside a program; two are equal if dtype, shape and every bit agree.

    The value may be a tracer, if a function that is staged inside another transformation closes
    over one. A tracer equals only itself, and the program can be called only while that
    transformation runs.
    """

    __slots__ = ("_hash", "spec", "value")

    def __init__(self, value: Value) -> None:
        self.value = value
        self.spec = spec_inside(value)
        start = np.asarray(value).flat[:64].tobytes() if self.is_raw else id(value)
        self._hash = hash((self.spec, start))

    @property
    def is_raw(self) -> bool:
        """Whether the constant's value is known: it is not a tracer."""
        return type(self.value) in RAW

    @property
    def in_memory(self) -> Hashable:
        """A key of the bits and of how they lie: NumPy's order of sums depends on both."""
        return self, (self.value.strides or None) if type(self.value) is np.ndarray else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant) or self.spec != other.spec:
            return False
        if self.value is other.value:
            return True
        if not (self.is_raw and other.is_raw):
            return False
        return np.asarray(self.value).tobytes() == np.asarray(other.value).tobytes()

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Constant({self})"

    def __str__(self) -> str:
        if not self.is_raw:
            trace: Any = self.value._trace
            around = f"on {trace.title}" if trace.is_remote else "of a transformation around"
            return f"{self.spec} {around}"
        array = np.asarray(self.value)
        if not array.ndim:
            return str(array.item())
        numbers = [str(number) for number in array.flat[:3].tolist()]
        return f"{self.spec} {' '.join(numbers)}{' ...' if array.size > 3 else ''}"


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """A fact about a variable that the function's control flow relied on when it was staged.

    Attributes
    ----------
    variable : int
    use : str
        The conversion that the function used, such as ``bool(t)``.
    value : bool, int, float or complex
        The result of the conversion. The program is valid for inputs with the same result.
    source : str
        The user's line; comparisons ignore it.
    """

    variable: int
    use: str
    value: Any
    source: str = ""

    def _key(self) -> Hashable:
        return self.variable, self.use, exact_key(self.value)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Guard) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def finds(self, value: Value) -> Any:
        """Convert a value as the function did; a tracer may raise an error, as in the function."""
        return read_number(value, self.use)

    def holds(self, outcome: object) -> bool:
        """Whether the function would take the same path; 0.0 is not -0.0 here, and NaN is NaN."""
        return exact_key(outcome) == exact_key(self.value)


def read_number(value: Value, use: str) -> Any:
    """Convert a value of one element to a Python number, in the way that a guard names.

    ``bool``, ``int`` and ``index`` are Python's functions; any other use means the value itself.
    """
    read: Mapping[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "index": int}
    if type(value) in RAW:
        value = np.asarray(value).item()
    elif use not in read:
        value = wrap(value).item()
    return read[use](value) if use in read else value


EquationRun: TypeAlias = Callable[[Equation, tuple[Value, ...]], Sequence[Value]]
"""How the equations of a program are evaluated on their operands: ``bound``, or around it."""


def bound(equation: Equation, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """Evaluate an equation on raw values or tracers."""
    operation, params = equation.operation, dict(equation.params)
    try:
        outs = operation(*operands, **params)
        return outs if type(outs) is tuple else (outs,)
    except REFUSALS as error:
        if isinstance(operation.structure, Control) or operation.is_foreign:
            raise  # the inner function has already explained its error
        raise explained(error, operation.name, *operands, **params) from error
