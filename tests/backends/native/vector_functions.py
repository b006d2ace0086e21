"""Functions on vectors, compiled alone, and how far their results are from the exact ones."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.native.function_text import Arithmetic, FunctionText, module_text, needed
from funcgrad._backends.native.instructions import NotEmitted, Value, element_type
from funcgrad._backends.native.processor import Code, Processor, Toolchain, host
from funcgrad._backends.native.registers import Registers
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import intrinsics

Array: TypeAlias = "np.ndarray[Any, Any]"

HOST: Final = host()[0]
GENERIC: Final = Processor("generic" if HOST.is_arm else "x86-64", "", 128, HOST.triple)
AVX2: Final = Processor("haswell", "+avx2,+fma", 256, HOST.triple)

EDGES: Final = (
    *(0.0, 1.0, 2.0, 0.5, 3.0, 2.5, 7.0, 1e9, 1e15 + 1, 1e22, 1.5e6, np.inf, np.nan),
    *(5e-324, 1e-310, 1e-45, 1e-40, 1.17e-38, 3.4e38, 1.7e308, 710.0, 745.0, 89.0, 104.0),
    *(252.89821, 48039.664, 52516.434, 16367173.0),
)
"""Numbers where functions have poles, overflow or are subnormal, and those that are nearly whole
numbers of quarter turns; those with a minus too."""

RANGES: Final = ((-1.0, 1.0), (0.7, 1.5), (-10.0, 10.0), (-750.0, 750.0), (-1e7, 1e7))
"""Where numbers are drawn, besides all over the exponents."""


@dataclass(frozen=True, slots=True)
class VectorFunction:
    """A function on arrays, computed in vectors of some lanes."""

    ufunc: np.ufunc
    dtype: np.dtype[Any]
    machine: Processor = HOST
    width: int = 0
    level: int = 2

    def __call__(self, *operands: Array) -> Array:
        """Compute it for arrays of one length."""
        run, _code = _compiled(self)  # which is alive as long as its name
        count = operands[0].size
        padded = [np.append(x, np.ones(-count % 64, self.dtype)) for x in operands]
        out = np.empty_like(padded[0])
        run(*[x.ctypes.data for x in (out, *padded)], out.size)
        return out[:count]


@lru_cache(maxsize=8)  # as many as a test compares at each of several operands
def _compiled(function: VectorFunction) -> tuple[Callable[..., None], Code]:
    ufunc, dtype, machine = function.ufunc, function.dtype, function.machine
    width = function.width or machine.bits // 8 // dtype.itemsize
    lines = FunctionText(Arithmetic(machine.fuses, scales=machine.scales))
    lanes, names = Registers(lines, width), [f"%p{k}" for k in range(ufunc.nin)]

    def step(index: str, _: Any) -> tuple[()]:
        places = [lines.address(name, index, element_type(dtype)) for name in ("%out", *names)]
        operands = [lanes.load(place, dtype) for place in places[1:]]
        lanes.store(places[0], getattr(lanes, ufunc.__name__)(*operands))
        return ()

    lines.counted("%n", step, (), width)
    lines.emit("ret void")
    pointers = ", ".join([f"ptr {name}" for name in ("%out", *names)])
    text = lines.function(f"define void @run({pointers}, i64 %n)")
    module = module_text(needed(lines.definitions, lines.uses), lines.declarations, [text])
    tools = Toolchain(machine)
    code = tools.linked([tools.object_code(module, function.level)], {}, ["run"])
    kinds = [ctypes.c_void_p] * (ufunc.nin + 1)
    run = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_int64)(code.addresses["run"])

    return run, code


def approximated() -> list[np.ufunc]:
    """The intrinsics that are NumPy's functions and that machine code approximates."""
    return [
        ufunc
        for name in intrinsics.__all__
        if isinstance(ufunc := getattr(intrinsics, name), np.ufunc)
        and _has_instructions(ufunc, exact=False)
        and not _has_instructions(ufunc, exact=True)
    ]


def _has_instructions(ufunc: np.ufunc, exact: bool) -> bool:
    lanes = Registers(FunctionText(Arithmetic(exact=exact), is_draft=True), 1)
    operands = [Value("%x", np.dtype(np.float64), lanes)] * ufunc.nin
    try:
        getattr(lanes, ufunc.__name__)(*operands)
    except (NotEmitted, TypeError):
        return False
    return True


def draws(ufunc: np.ufunc, dtype: np.dtype[Any], count: int, seed: int) -> Iterator[list[Array]]:
    """Operands: edges, numbers with any bits, and numbers in ranges."""
    generator = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        edges = np.array([*EDGES, *[-x for x in EDGES]]).astype(dtype)
    grids = np.meshgrid(*[edges] * ufunc.nin)
    yield [grid.ravel() for grid in grids]
    bits = np.dtype(f"u{dtype.itemsize}")
    most = np.iinfo(bits).max
    yield [
        generator.integers(0, most, count, bits, endpoint=True).view(dtype)
        for _ in range(ufunc.nin)
    ]
    for low, high in RANGES:
        yield [generator.uniform(low, high, count).astype(dtype) for _ in range(ufunc.nin)]


def distance(ufunc: np.ufunc, actual: Array, operands: list[Array]) -> Array:
    """By how many units in the last place of the exact result each result differs from it.

    It is infinite where one is NaN or a zero of another sign and the other is not; so it is where
    one is infinite and the other is not close to the greatest number.
    """
    with np.errstate(all="ignore"):
        exact = ufunc(*[x.astype(np.longdouble) for x in operands])
        nearest = exact.astype(actual.dtype)
        unit = np.spacing(np.abs(nearest)).astype(np.longdouble)
        away = np.abs(actual.astype(np.longdouble) - exact) / unit
        greatest = np.finfo(actual.dtype).max
        away = np.where(np.isinf(nearest), np.where(np.abs(actual) >= greatest, 1.0, np.inf), away)
        away = np.where(nearest == actual, np.where(np.isfinite(exact), away, 0.0), away)
        zero = (exact == 0) & (actual == 0) & (np.signbit(exact) != np.signbit(actual))
        both = np.isnan(actual) & np.isnan(exact)
        either = np.isnan(actual) | np.isnan(exact)
    away = np.where(np.isinf(nearest) & (nearest == actual), 0.0, away)
    return np.where(both, 0.0, np.where(zero | either, np.inf, away))
