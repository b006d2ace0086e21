"""Tables by which the runtime takes calls: the arguments, the program, and the results.

A table for raw values only finds their memory. A table for a caller's own arguments, tensors and
arrays in tuples and dicts, checks first that they are of the kinds that the program is for, that no
outside value has changed, and that the program's best code is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.interface import MISS, OutsidePlaces
from funcgrad._backends.native.cpython import (
    ARRAY_DTYPE,
    ARRAY_RANK,
    ARRAY_SIZES,
    HEAD,
    TUPLE_ITEMS,
    field_offset,
)
from funcgrad._backends.native.entry_text import TableStep
from funcgrad._backends.native.native_code import NativeCode
from funcgrad._base.floating_errors import ERROR_STATE
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec
from funcgrad._programs.program import Program
from funcgrad.tensor.tensor import Tensor

Table: TypeAlias = tuple[np.ndarray[Any, Any], tuple[Any, ...]]
"""Words, and the objects that they refer to."""

Path: TypeAlias = tuple[tuple[TableStep, int, int], ...]
"""Steps from the arguments to one of them, or to a part of it."""

_ALL: Final = -1
_INT: Final = 0xFFFFFFFF
_DEEPEST: Final = 8
"""The deepest trees that a table is for."""


def raw_table(program: Program, code: NativeCode) -> Table:
    """A table for raw values; results come as a tuple of raw values."""
    table = _UnfinishedTable(program, code)
    for number in range(len(program.inputs)):
        table.go(_argument(number))
        table.step(TableStep.OPERAND, 8 * number)
    return table.finished(len(program.inputs), None, tuple)


def tensor_table(
    program: Program,
    code: NativeCode,
    types: Sequence[type[Any]],
    places: OutsidePlaces,
    build: Callable[..., Any] | None,
) -> Table | None:
    """A table for arguments with leaves of these types; see ``Direct.table``.

    None if such calls are left to Python: with names, integers of Python's, lists and classes, and
    if the program calls Python's functions.
    """
    specs = program.specs()
    weak = [spec for spec in program.inputs if spec.weak and spec.dtype.kind in "bi"]
    weak += [specs[o] for o in program.outputs if specs[o].weak and not is_float(specs[o])]
    if ERROR_STATE is None or code.calls_back or weak:
        return None
    table = _UnfinishedTable(program, code)
    table.step(TableStep.COUNT, 0, 0, code.time_left.calls.ctypes.data)
    variable = ERROR_STATE.read.__self__  # type: ignore[attr-defined]  # of a method
    states = table.address(ERROR_STATE.usual), table.address(ERROR_STATE.silent)
    table.begin(variable)
    table.step(TableStep.STATE, 0, *states)
    table.places(places)  # which may call Python, so it comes before the arguments
    count = table.trees(program.arguments, types)
    return None if count is None else table.finished(count, Tensor, build)


def is_float(spec: Spec) -> bool:
    """Whether values are Python's floats."""
    return spec.weak and spec.dtype.kind == "f"


def _argument(number: int) -> Path:
    return (TableStep.BEGIN, 0, 0), (TableStep.FOLLOW, 8 * number, 0)


class _UnfinishedTable:
    """The steps of a table, and the objects that they refer to."""

    def __init__(self, program: Program, code: NativeCode) -> None:
        self._program, self._code = program, code
        self._steps: list[int] = []
        self._referents: list[Any] = [program, code]

    def address(self, value: object) -> int:
        """The address of an object, which stays as long as the table."""
        self._referents.append(value)
        return id(value)

    def step(self, code: TableStep, offset: int = 0, first: int = 0, second: int = 0) -> None:
        """Append a step."""
        self._steps += code, offset, first, second

    def begin(self, owner: object) -> None:
        """Go on from an object."""
        self.step(TableStep.BEGIN, 0, 0, self.address(owner))

    def go(self, path: Path) -> None:
        """Go to a part of the arguments."""
        for code, offset, second in path:
            self.step(code, offset, 0, second)

    def is_there(self, offset: int, value: object) -> None:
        """Check that the address of an object is there."""
        self.step(TableStep.EQUAL, offset, _ALL, self.address(value))

    def trees(self, arguments: Structure, types: Sequence[type[Any]]) -> int | None:
        """Check and read the arguments of a call, and return how many there are.

        None if some are named, too deep, or in containers that are neither tuples nor dicts.
        """
        _, (_, count, _), *tokens = arguments.tokens  # type: ignore[misc]  # two containers
        waiting = [_argument(number) for number in reversed(range(count))]
        leaves = enumerate(types)
        for token in tokens:
            if not waiting:  # the container of named arguments
                return count if token and not token[1] else None
            path = waiting.pop()
            if token is None:
                self.leaf(path, *next(leaves))
                continue
            kind, size, keys = token
            if kind not in (tuple, dict, NoneType) or len(path) > _DEEPEST:
                return None
            self.go(path)
            self.is_there(HEAD - 8, kind)
            if kind is not NoneType:
                self.step(TableStep.EQUAL, HEAD, _ALL, size)
            ends: list[Path] = [((TableStep.FOLLOW, TUPLE_ITEMS + 8 * k, 0),) for k in range(size)]
            if kind is dict:
                ends = [((TableStep.ITEM, 0, self.address(key)),) for key in keys]
            waiting += [path + end for end in reversed(ends)]
        return None

    def leaf(self, path: Path, number: int, kind: type[Any]) -> None:
        """Check the type, dtype and shape of a leaf, and note where its elements are."""
        spec = self._program.inputs[number]
        dtype, shape = np.dtype(spec.dtype), spec.shape
        self.go(path)
        if kind is Tensor:
            self.is_there(HEAD - 8, Tensor)
            self.step(TableStep.FOLLOW, HEAD)
        if shape:
            self.is_there(HEAD - 8, np.ndarray)
            self.is_there(ARRAY_DTYPE, dtype)
            sizes = np.array(shape, np.int64)
            self._referents.append(sizes)
            self.step(TableStep.EQUAL, ARRAY_RANK, _INT, len(shape))
            self.step(TableStep.SIZES, ARRAY_SIZES, sizes.nbytes, sizes.ctypes.data)
        else:
            self.is_there(
                HEAD - 8, {"f": float, "c": complex}[dtype.kind] if spec.weak else dtype.type
            )
        self.step(TableStep.OPERAND, 8 * number)

    def places(self, places: OutsidePlaces) -> None:
        """Check that outside values are unchanged."""
        for owner, name, value in places.attributes:
            self.attribute(owner, name, value)
        for mapping, key, value in places.entries:
            self.begin(mapping)
            there = 0 if value is MISS else self.address(value)
            self.step(TableStep.ENTRY, 0, there, self.address(key))
        for mapping, size in places.sizes:
            self.begin(mapping)
            self.step(TableStep.EQUAL, HEAD, _ALL, size)
        if places.others is not None:
            self.begin(places.others)
            self.step(TableStep.HOLDS)

    def attribute(self, owner: object, name: str, value: object) -> None:
        """Check that a field of an object is unchanged."""
        there = 0 if value is None and name in _EMPTY else self.address(value)
        self.begin(owner)
        self.step(TableStep.EQUAL, field_offset(owner, name), _ALL, there)

    def finished(
        self, count: int, kind: type[Any] | None, build: Callable[..., Any] | None
    ) -> Table:
        """The table for calls of so many arguments; ``kind`` wraps results, ``build`` joins."""
        specs = self._program.specs()
        results: list[int] = []
        for spec in [specs[variable] for variable in self._program.outputs]:
            dtype = 0 if is_float(spec) else self.address(np.dtype(spec.dtype))
            results += dtype, len(spec.shape), *spec.shape
        told = np.array([*results, 0], np.int64)
        form = {None: 0, tuple: 1}.get(build) if build in (None, tuple) else self.address(build)
        words = [
            self._code.words.ctypes.data,
            count,
            len(self._program.inputs),
            len(self._program.outputs),
            told.ctypes.data,
            0 if kind is None else self.address(kind),
            form,
            *self._steps,
            *(TableStep.END, 0, 0, 0),
        ]
        return np.array(words, np.int64), (*self._referents, told)


_EMPTY: Final = ("__defaults__", "__kwdefaults__")
"""Fields of functions that are empty if Python says that they are None."""
