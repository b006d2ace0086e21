"""Addresses in machine code: arrays, NumPy's inner loops, operations called back.

A *recipe* tells it in plain values, so that code from disk finds it again, in the programs that
the code was made from. Programs are counted in the order in which they are written.

An operation that is called back takes arrays over native memory, first of the operands but for
constants, then of the results, evaluates the operation, and puts its results in their place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.native.cpython import NativeError, inner_loop
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import FOREIGN
from funcgrad._core.trace import Raw, bind
from funcgrad._core.users_values import runs_apart
from funcgrad._hooks.evaluations import count
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

Recipe: TypeAlias = tuple[Any, ...]
"""A word, and arguments of ``_FINDERS[word]``."""

Referent: TypeAlias = tuple[int, Any]
"""An address, and the object that owns the memory there."""

_HOMES: Final = (
    "numpy",
    "scipy.special",
    "numpy.linalg._umath_linalg",
    "numpy.fft._pocketfft_umath",
)


def referent(recipe: Sequence[Any], programs: Sequence[Program]) -> Referent:
    """Find the referent of a recipe."""
    word, *arguments = recipe
    return _FINDERS[word](programs, *arguments)


def loop_recipes(ufunc: np.ufunc, dtypes: Sequence[np.dtype[Any]]) -> list[Recipe]:
    """The recipes of a ufunc's inner loop, and of its data if it has any."""
    name: Any = ufunc  # others could not find a ufunc without a name
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


def _table(programs: Sequence[Program], numbers: bytes) -> Referent:
    return _array(np.frombuffer(numbers, np.int64))


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


def _rows(programs: Sequence[Program], program: int, number: int, name: str) -> Referent:
    """An array that says where the nonzeros of a sparse matrix are."""
    equation = programs[program].equations[number]
    structure: Any = equation.operation.structure
    return _array(getattr(structure.rows(**dict(equation.params)), name))


_FINDERS: Final[Mapping[str, Callable[..., Referent]]] = MappingProxyType(
    {
        "constant": _constant,
        "unit": _unit,
        "number": _number,
        "table": _table,
        "loop": _loop,
        "callback": _callback,
        "arrays": _arrays,
        "rows": _rows,
    }
)


Read: TypeAlias = Callable[[Any], Raw]


def callback_of(
    equation: Equation, specs: Sequence[Spec], known: Mapping[int, Raw], rank: int = 0
) -> Callable[..., None]:
    """Make the function that is called back for an equation.

    Parameters
    ----------
    equation : Equation
    specs : sequence of Spec
        Of its operands.
    known : mapping
        The operands that are constants, by their place.
    rank : int
        The number of leading axes of a stack whose results are written only where they are NaN.
    """
    operation, params = equation.operation, dict(equation.params)
    # A user's function may keep its arguments.
    keeps = FOREIGN in operation.traits or runs_apart(operation.evaluate)
    reads = [_read(spec, keeps) for spec in specs]
    first_result = len(specs) - len(known)

    def call(*arrays: Any) -> None:
        count(operation.name)
        remaining = iter(arrays)
        operands = tuple(
            [
                known[place] if place in known else read(next(remaining))
                for place, read in enumerate(reads)
            ]
        )
        results = bind(operation, operands, params)
        results = results if isinstance(results, tuple) else (results,)
        for target, result in zip(arrays[first_result:], results, strict=True):
            where: Any = ...
            if rank:
                where = np.isnan(target.reshape(*target.shape[:rank], -1)).any(-1)
            target[where] = result[where] if rank else result

    return call


def _read(spec: Spec, keeps: bool) -> Read:
    """How an operand is read from an array over native memory."""
    if spec.weak:
        return lambda array: array.item()
    if not spec.shape:
        return lambda array: array[()]
    return np.array if keeps else lambda array: array
