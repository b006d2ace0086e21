"""Addresses in machine code: arrays, NumPy's inner loops, operations called back.

A *recipe* tells it in plain values, so that code from disk finds it again, in the programs that
the code was made from. Programs have numbers, in the order in which they are written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.native.callbacks import callback_of
from funcgrad._backends.native.cpython import NativeError, inner_loop
from funcgrad._programs.program import Program

Recipe: TypeAlias = tuple[Any, ...]
"""A word, and arguments of ``_FINDERS[word]``."""

Referent: TypeAlias = tuple[int, Any]
"""An address, and the object that lies there, or that has what lies there."""

_HOMES: Final = (
    "numpy",
    "scipy.special",
    "numpy.linalg._umath_linalg",
    "numpy.fft._pocketfft_umath",
)


def referent(recipe: Sequence[Any], programs: Sequence[Program]) -> Referent:
    """Find what a recipe tells of."""
    word, *arguments = recipe
    return _FINDERS[word](programs, *arguments)


def loop_recipes(ufunc: np.ufunc, dtypes: Sequence[np.dtype[Any]]) -> list[Recipe]:
    """The recipes of a ufunc's inner loop, and of its data if it has any."""
    name: Any = ufunc  # of which nobody else can find one that has no name
    for home in _HOMES:
        if getattr(sys.modules.get(home), ufunc.__name__, None) is ufunc:
            name = f"{home}:{ufunc.__name__}"
    chars = "".join([dtype.char for dtype in dtypes])
    recipes: list[Recipe] = [("loop", name, chars, place) for place in (0, 1)]
    return recipes if referent(recipes[1], ())[0] else recipes[:1]


def _loop(programs: Sequence[Program], ufunc: np.ufunc | str, chars: str, place: int) -> Referent:
    there: np.ufunc = resolve_name(ufunc) if isinstance(ufunc, str) else ufunc
    loop = inner_loop(there, tuple(map(np.dtype, chars)))
    if loop is None:
        raise NativeError(f"native code: {there.__name__} has no loop for {chars}")
    return loop[place], there


def _constant(programs: Sequence[Program], program: int, number: int) -> Referent:
    constant = programs[program].constants[number]
    return _array(np.asarray(constant.value, constant.spec.dtype))


def _unit(programs: Sequence[Program], size: int, char: str) -> Referent:
    return _array(np.eye(size, dtype=np.dtype(char)))


def _number(programs: Sequence[Program], number: float, char: str) -> Referent:
    return _array(np.asarray(number, np.dtype(char)))


def _array(array: np.ndarray[Any, Any]) -> Referent:
    dense = np.ascontiguousarray(array)
    return dense.ctypes.data, dense


def _callback(programs: Sequence[Program], program: int, number: int, rank: int) -> Referent:
    """The function that evaluates an operation; of a stack, where results are NaN so far."""
    inside, equation = programs[program], programs[program].equations[number]
    specs, count = inside.specs(), len(inside.inputs)
    known = {
        place: inside.constants[operand - count].value
        for place, operand in enumerate(equation.operands)
        if count <= operand < inside.index.first_result
    }
    function = callback_of(equation, [specs[v] for v in equation.operands], known, rank)
    return id(function), function


def _arrays(programs: Sequence[Program], program: int, number: int) -> Referent:
    """The arrays that a callback takes: how many, and the dtype and the shape of each."""
    inside, equation = programs[program], programs[program].equations[number]
    specs, constants = inside.specs(), range(len(inside.inputs), inside.index.first_result)
    taken = [specs[v] for v in equation.operands if v not in constants] + [*equation.results]
    dtypes, words = [np.dtype(spec.dtype) for spec in taken], [len(taken)]
    for spec, dtype in zip(taken, dtypes, strict=True):
        words += [id(dtype), len(spec.shape), *spec.shape]
    address, table = _array(np.array(words, np.int64))
    return address, (table, dtypes)


_FINDERS: Final[Mapping[str, Callable[..., Referent]]] = MappingProxyType(
    {
        "constant": _constant,
        "unit": _unit,
        "number": _number,
        "loop": _loop,
        "callback": _callback,
        "arrays": _arrays,
    }
)
