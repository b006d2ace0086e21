"""A user's function taken apart: tensors that it closes over, and a key for all else.

A function that is defined inside of another one is a new object at each call of that one. Two such
objects with equal keys do the same with their tensors:

>>> import funcgrad as fg
>>> def scaled(rate):
...     return lambda x: rate * x
>>> parts, others = function_parts(scaled(fg.tensor(2.0))), function_parts(scaled(fg.tensor(3.0)))
>>> parts.key == others.key, parts.tensors, others.tensors
(True, [Tensor(2.0)], [Tensor(3.0)])
>>> parts.joined([fg.tensor(5.0)])(2.0)
Tensor(10.0)
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._staging.lookups import lookups
from funcgrad._staging.static_arguments import exact, parts_of
from funcgrad.errors import FuncgradError
from funcgrad.tensor.tensor import Tensor

Remake: TypeAlias = Callable[[Iterator[Tensor]], Any]
"""From other tensors to an object like the one that was taken apart."""

_PLAIN: Final = frozenset({NoneType, bool, int, float, complex, str, bytes})
_LASTING: Final = (type, ModuleType, BuiltinFunctionType, np.ufunc, np.dtype, np.generic)
_LARGE: Final = 1 << 16
"""The bytes of an array from which on it should not outlive its function."""

_ACTING: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"})
_ACTIONS: Final = frozenset(
    "append breakpoint clear default_rng discard extend info input insert load"
    " monotonic next now open perf_counter pop popleft print put read readline remove setdefault"
    " sleep time update urandom warn write".split()
)
"""Names that code looks up to do more than compute, or to read values that change by themselves."""


class NoPartsError(Exception):
    """A function that is not a plain one, or closes over an object that may change or is large."""


@dataclass(frozen=True, slots=True)
class FunctionParts:
    """A function taken apart.

    Attributes
    ----------
    code : code
    key : hashable
        Equal for functions that differ in their tensors only.
    tensors : list of Tensor
        The tensors that it closes over, also in containers, in functions and in defaults.
    joined : callable
        From other tensors to a function like it.
    """

    code: CodeType
    key: Hashable
    tensors: list[Tensor]
    joined: Callable[[Sequence[Tensor]], Callable[..., Any]]


def function_parts(function: Callable[..., Any]) -> FunctionParts:
    """Take a function apart.

    Raises
    ------
    NoPartsError
        It is not a plain function, or closes over objects of other kinds.
    """
    if not isinstance(function, FunctionType):
        raise NoPartsError
    taking = _Taking()
    key, remake = taking.apart(function)
    tensors = taking.tensors
    return FunctionParts(function.__code__, key, tensors, lambda others: remake(iter(others)))


class _Taking:
    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self._outer: list[FunctionType] = []

    def apart(self, value: object) -> tuple[Hashable, Remake]:
        kind = type(value)
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return Tensor, next
        if kind in _PLAIN:
            return exact(value), lambda _: value
        if isinstance(value, _LASTING) or _is_small(value):
            return (kind, id(value)), lambda _: value
        if isinstance(value, FunctionType):
            return self._function(value)
        return self._tree(value)

    def _function(self, function: FunctionType) -> tuple[Hashable, Remake]:
        if any(function is outer for outer in self._outer) or len(self._outer) > 8:
            raise NoPartsError  # it calls itself
        self._outer.append(function)
        code, space = function.__code__, function.__globals__
        try:
            held = [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError:  # a name without a value so far
            raise NoPartsError from None
        names = function.__kwdefaults__ or {}
        defaults = function.__defaults__ or ()
        parts = [self.apart(value) for value in chain(held, defaults, names.values())]
        self._outer.pop()

        def remake(tensors: Iterator[Tensor]) -> FunctionType:
            values = [make(tensors) for _, make in parts]
            cells = tuple([CellType(value) for value in values[: len(held)]])
            others = values[len(held) :]
            made = FunctionType(code, space, function.__name__, (), cells)
            made.__defaults__ = tuple(others[: len(defaults)]) or None
            made.__kwdefaults__ = dict(zip(names, others[len(defaults) :], strict=True)) or None
            made.__qualname__, made.__module__ = function.__qualname__, function.__module__
            return made

        return (code, id(space), tuple([key for key, _ in parts]), len(held), *names), remake

    def _tree(self, value: object) -> tuple[Hashable, Remake]:
        try:
            leaves, structure = pytrees.flatten(value)
        except FuncgradError:
            raise NoPartsError from None
        if structure.tokens[0] is None or not any(isinstance(leaf, Tensor) for leaf in leaves):
            raise NoPartsError  # an object, or a container to which somebody may add
        parts = [self.apart(leaf) for leaf in leaves]
        key = structure, parts_of(structure), tuple([key for key, _ in parts])
        return key, lambda tensors: pytrees.unflatten(
            structure, [remake(tensors) for _, remake in parts]
        )


def _is_small(value: object) -> bool:
    return isinstance(value, np.ndarray) and type(value) is np.ndarray and value.nbytes < _LARGE


def acts(code: CodeType) -> bool:
    """Whether code may do more than compute, as far as its names and assignments tell.

    It may print, add to a list, read a clock, or assign to names and attributes outside of itself.

    >>> acts((lambda x: x + 1).__code__), acts((lambda x: print(x)).__code__)
    (False, True)
    """
    if not _ACTIONS.isdisjoint(lookups(code).attributes):
        return True
    waiting: list[CodeType] = [code]
    for inner in waiting:
        for line in dis.get_instructions(inner):
            outside = line.opname == "STORE_DEREF" and line.argval in inner.co_freevars
            if outside or line.opname in _ACTING:
                return True
        waiting += [constant for constant in inner.co_consts if isinstance(constant, CodeType)]
    return False
