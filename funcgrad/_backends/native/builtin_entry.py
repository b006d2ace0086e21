"""Builtins of Python that run programs, from Python's objects to pointers and back.

A builtin is the code of ``runtime_text.py`` with a table of its own: what arguments it takes, by
exact types, which code it runs, and which results it makes. It answers ``MISS`` to others.
A program has two: one for raw values, and one for the caller's own arguments, trees of tensors.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from math import prod
from types import MappingProxyType, NoneType
from typing import Any, Final

import numpy as np

from funcgrad._backends.interface import MISS, Unchanged
from funcgrad._backends.native.cpython import (
    DENSE,
    FIELDS,
    HEAD,
    LIST_ITEMS,
    TUPLE_ITEMS,
    WRITABLE,
    ArrayLayout,
    choose_code,
    offset_of,
    symbols,
)
from funcgrad._backends.native.native_code import NativeCode
from funcgrad._backends.native.processor import Code, Processor, Toolchain
from funcgrad._backends.native.runtime_text import RUNTIME
from funcgrad._base.floating_errors import ERROR_STATE
from funcgrad._core.pytrees import Node, Token
from funcgrad._core.specs import Spec
from funcgrad._programs.program import Program
from funcgrad.tensor.tensor import Tensor, wrap

CALLS: Final = ("call_back", "has_raised", "look", "look_between_calls", "refuse_memory")
"""The functions of the runtime that programs call."""


class _Word(IntEnum):
    """The codes of leaves and containers."""

    ARRAY, SCALAR, FLOAT, INTEGER, TRUTH, COMPLEX = range(6)
    NONE, TUPLE, LIST, DICT, RECORD, TENSOR, RAW = range(6, 13)
    FIELD, ITEM, SIZE, VARIABLE = range(13, 17)


class _Place(IntEnum):
    """The places of a table."""

    PROGRAM, INPUTS, OUTPUTS, POSITIONAL, NAMED, KEYS = range(6)
    TREE, RESULTS, RESULT_TREE, BYTES, IS_RAW = range(6, 11)
    CHECK, PLACES, OTHERS = range(11, 14)


_DEEPEST: Final = 200
"""The deepest tree that is taken apart natively, since that is recursive."""

_HEAP_TYPE: Final = 1 << 9
"""CPython's flag of a class that a ``class`` statement has made."""

_NUMBERS: Final[Mapping[str, tuple[int, type[Any]]]] = MappingProxyType(
    {
        "f": (_Word.FLOAT, float),
        "i": (_Word.INTEGER, int),
        "b": (_Word.TRUTH, bool),
        "c": (_Word.COMPLEX, complex),
    }
)
"""Python's numbers, by the kind of their dtype."""


class Runtime:
    """The code between Python and programs, and the makers of builtins that run it."""

    def __init__(self, tools: Toolchain, made: bytes) -> None:
        state = ERROR_STATE
        assert state is not None  # checked by those that make one
        objects = {
            "None": None,
            "True": True,
            "list": list,
            "dict": dict,
            "tuple": tuple,
            "ndarray": np.ndarray,
            "Exception": Exception,
            "Tensor": Tensor,
            "MISS": MISS,
            "error_state": state.read.__self__,  # type: ignore[attr-defined]  # a method's
            "usual_state": state.usual,
            "silent_state": state.silent,
            "looking_state": state.looking,
        }
        addresses = {name: id(value) for name, value in objects.items()}
        names = ("run", "dispatch", *CALLS)
        self.code: Code = tools.linked([made], {**symbols(), **addresses}, names)
        self._objects = objects
        flags = 0x0082  # METH_FASTCALL | METH_KEYWORDS
        self._run = _BuiltinDefinition(b"run", self.code.addresses["run"], flags, None)

    def raw_run(self, program: Program, code: NativeCode) -> Callable[..., Any]:
        """The program as a function of raw values, which returns a tuple of raw values."""
        table = _Table(program, code)
        table.words[_Place.POSITIONAL] = len(program.inputs)
        table.words[_Place.IS_RAW] = 1
        table.words[_Place.TREE] = table.put(
            [word for spec in program.inputs for word in table.leaf(spec)]
        )
        leaves = [_Word.RAW] * len(program.outputs)
        table.words[_Place.RESULT_TREE] = table.put(
            [_Word.TUPLE, table.address(tuple), len(leaves), *leaves]
        )
        return self._builtin(table)

    def tree_run(
        self, program: Program, code: NativeCode, check: Unchanged | None
    ) -> Callable[..., Any] | None:
        """The program as a function of its users' arguments; None where these are no plain trees.

        Parameters
        ----------
        program : Program
        code : NativeCode
        check : Unchanged or None
            Whether everything that the program relies on, besides its inputs, is unchanged.
        """
        tokens, result = program.arguments.tokens, program.result.tokens
        if not _is_plain(tokens) or not _is_plain(result):
            return None
        table = _Table(program, code)
        count = tokens[1][1]  # type: ignore[index]  # after the pair of (args, kwargs) come args
        behind = _behind(tokens, 2, count)
        keys = tokens[behind][2]  # type: ignore[index]  # kwargs
        leaves = [table.leaf(spec) for spec in program.inputs]
        split = tokens[2:behind].count(None)
        tree = table.tree(tokens[2:behind], leaves[:split])
        tree += table.tree(tokens[behind + 1 :], leaves[split:])
        table.words[_Place.POSITIONAL] = count
        table.words[_Place.NAMED] = len(keys)
        table.words[_Place.KEYS] = table.put([table.address(key) for key in keys])
        table.words[_Place.TREE] = table.put(tree)
        table.words[_Place.RESULT_TREE] = table.put(
            table.tree(result, [[int(_Word.TENSOR)]] * len(program.outputs))
        )
        if check is not None:
            table.check(check)
        return self._builtin(table)

    def _builtin(self, table: _Table) -> Callable[..., Any]:
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        held = (table.words, table.arrays, table.referents, self)
        return make(ctypes.addressof(self._run), held, None)

    def call_natively(self, instance: object) -> None:
        """Have an instance of a class that ``directly_callable`` has made be called natively.

        Its slot has a tuple of functions. They are called one after the other, until one does not
        answer ``MISS``; the last one is called with the instance before the arguments, and its
        answer is returned.
        """
        choose_code(instance, self.code.addresses["dispatch"])


class _Table:
    """An unfinished table of a builtin, and what its addresses refer to.

    Attributes
    ----------
    words : array
        The table.
    arrays : list of arrays
        The words that it refers to.
    referents : list
        The objects that they refer to.
    """

    def __init__(self, program: Program, code: NativeCode) -> None:
        self.arrays: list[Any] = [code.words]
        self.referents: list[Any] = [program, code]
        specs = program.specs()
        outputs = [specs[variable] for variable in program.outputs]
        self.words = np.zeros(len(_Place), np.int64)
        self.words[_Place.PROGRAM] = code.words.ctypes.data
        self.words[_Place.INPUTS] = len(program.inputs)
        self.words[_Place.OUTPUTS] = len(outputs)
        self.words[_Place.RESULTS] = self.put([word for o in outputs for word in self._result(o)])
        # Three words for an input, two and a number for a result; then the arena, which is aligned.
        self.words[_Place.BYTES] = 24 * len(program.inputs) + 32 * len(outputs) + 64 + code.size

    def put(self, words: Sequence[int]) -> int:
        """The address of words."""
        array = np.array([*words, 0], np.int64)
        self.arrays.append(array)
        return array.ctypes.data

    def address(self, value: object) -> int:
        """The address of an object."""
        self.referents.append(value)
        return id(value)

    def leaf(self, spec: Spec) -> list[int]:
        """The words of an argument that is one value."""
        dtype = np.dtype(spec.dtype)
        if spec.weak:
            code, kind = _NUMBERS[dtype.kind]
            return [code, self.address(kind)]
        if not spec.shape:
            return [_Word.SCALAR, self.address(dtype.type)]
        descr = self.address(dtype)
        return [_Word.ARRAY, self.address(np.ndarray), descr, len(spec.shape), *spec.shape]

    def _result(self, spec: Spec) -> list[int]:
        dtype = np.dtype(spec.dtype)
        descr, parts = self.address(dtype), {"f": 1, "c": 2}.get(dtype.kind, 0)
        floats = [parts * prod(spec.shape), 8 * dtype.itemsize // parts if parts else 0]
        if spec.weak:
            return [_NUMBERS[dtype.kind][0], descr, 0, 0, *floats]
        if not spec.shape:
            return [_Word.SCALAR, descr, 0, 0, *floats]
        return [_Word.ARRAY, descr, len(spec.shape), self.put(spec.shape), *floats]

    def check(self, check: Unchanged) -> None:
        """Put a check of outside values into the table."""
        words = [
            word
            for owner, name, value in check.attributes
            for word in (_Word.FIELD, *self._field(owner, name, value))
        ]
        for mapping, key, value in check.entries:
            words += [_Word.ITEM, *map(self.address, (mapping, key, value))]
        for mapping in check.empty:
            words += [_Word.SIZE, self.address(mapping), 0, 0]
        for variable, value in check.variables:
            words += [_Word.VARIABLE, self.address(variable), 0, self.address(value)]
        self.words[_Place.CHECK] = self.address(check.function)
        self.words[_Place.PLACES] = self.put([len(words) // 4, *words])
        if check.others is not None:
            self.words[_Place.OTHERS] = self.address(check.others)

    def _field(self, owner: object, name: str, value: object) -> tuple[int, int, int]:
        """Where an attribute lies, and what should be there; None is no object there."""
        there = 0 if value is None and name != "cell_contents" else self.address(value)
        return self.address(owner), FIELDS[name], there

    def tree(self, tokens: Sequence[Token], leaves: Sequence[list[int]]) -> list[int]:
        """The words of a tree, or of several one after the other."""
        words: list[int] = []
        remaining = iter(leaves)
        waiting: list[
            list[list[int]]
        ] = []  # the keys that are still to come, for each open container
        for token in tokens:
            while waiting and not waiting[-1]:
                waiting.pop()
            if waiting:
                words += waiting[-1].pop()
            if token is None:
                words += next(remaining)
                continue
            kind, size, aux = token
            keys: list[list[int]] = [[] for _ in range(size)]
            if kind is NoneType:
                words.append(_Word.NONE)
            elif kind is dict:
                words += [_Word.DICT, size]
                keys = [[self.address(key)] for key in aux]
            elif kind is list:
                words += [_Word.LIST, size]
            elif issubclass(kind, tuple):
                words += [_Word.TUPLE, self.address(kind), size]
            else:
                words += [_Word.RECORD, self.address(kind), len(aux.static), size]
                for name, _, value in aux.static:
                    words += [self.address(name), self.address(value)]
                keys = [[self.address(name)] for name in aux.names]
            waiting.append(keys[::-1])
        return words


def _behind(tokens: Sequence[Token], place: int, count: int) -> int:
    """The place of the token behind so many trees."""
    while count:
        token = tokens[place]
        count += -1 if token is None else token[1] - 1
        place += 1
    return place


def _is_plain(tokens: Sequence[Token]) -> bool:
    """Whether the runtime can take a tree apart and make one."""
    open_: list[int] = []
    for token in tokens:
        while open_ and not open_[-1]:
            open_.pop()
        if open_:
            open_[-1] -= 1
        if token is None:
            continue
        open_.append(token[1])
        if len(open_) > _DEEPEST or not _is_plain_container(token):
            return False
    return True


def _is_plain_container(node: Node) -> bool:
    kind, _, aux = node
    if kind in (tuple, list, NoneType):
        return True
    if kind is dict:
        return all(type(key) is str for key in aux)
    if kind is OrderedDict or hasattr(kind, "__tree_flatten__"):
        return False
    # A class of Python's, whose instances are allocated as all are.
    *classes, base = [c for c in kind.__mro__ if c is not tuple]
    return base is object and all(c.__flags__ & _HEAP_TYPE for c in classes)


class _BuiltinDefinition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


def runtime_text(processor: Processor) -> str:
    """The text of the runtime's module."""
    numbers = {member.name.lower(): member.value for group in (_Word, _Place) for member in group}
    example = wrap(2.5)
    text = RUNTIME.substitute(
        numbers,
        head=HEAD,
        type=HEAD - 8,
        items=TUPLE_ITEMS,
        list_items=LIST_ITEMS,
        value=offset_of(example, example._value),
        descr=ArrayLayout.descr,
        rank=ArrayLayout.rank,
        flags=ArrayLayout.flags,
        bound=HEAD + 8,
        dimensions=ArrayLayout.dimensions,
        dense=DENSE,
        writable=WRITABLE,
    )
    return text + _clock_text(processor)


def _clock_text(processor: Processor) -> str:
    """The function that reads a clock: some ticks a nanosecond; 0 where LLVM knows no clock.

    A 64-bit Arm lets programs read a clock of 24 MHz to 1 GHz, whose ticks are made 0.5 ns long.
    LLVM's ``readsteadycounter`` is 0 there, and ``readcyclecounter`` faults elsewhere.
    """
    if processor.is_arm:
        return _CLOCK_OF_ARM
    name = "readcyclecounter" if processor.triple.startswith("x86_64") else "readsteadycounter"
    return _CLOCK.replace("NAME", name)


_CLOCK: Final = """
define internal i64 @ticks() nounwind {
  %now = call i64 @llvm.NAME()
  ret i64 %now
}

declare i64 @llvm.NAME()
"""

_CLOCK_OF_ARM: Final = """
define internal i64 @ticks() nounwind {
  %now = call i64 @llvm.read_volatile_register.i64(metadata !{!"CNTVCT_EL0"})
  %rate = call i64 @llvm.read_volatile_register.i64(metadata !{!"CNTFRQ_EL0"})
  %length = udiv i64 2000000000, %rate
  %ticks = mul i64 %now, %length
  ret i64 %ticks
}

declare i64 @llvm.read_volatile_register.i64(metadata)
"""
