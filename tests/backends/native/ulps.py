"""Measures how far the functions on vectors are from the exact results.

    python -m tests.backends.native.ulps            # draws, for the table of the backend's README
    python -m tests.backends.native.ulps --every    # every float32, of functions of one argument

Extended precision is the reference, which NumPy has on x86 processors as ``longdouble``; for every
float32, the same function of float64.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.backends.native.vector_functions import (
    GENERIC,
    HOST,
    VectorFunction,
    approximated,
    distance,
    draws,
)

_COUNT = 1_000_000
_BLOCK = 1 << 22


def greatest(function: VectorFunction, count: int, seed: int = 0) -> float:
    """The greatest distance of any result from the exact one, over some draws."""
    return max(
        [
            float(distance(function.ufunc, function(*operands), operands).max())
            for operands in draws(function.ufunc, function.dtype, count, seed)
        ]
    )


def over_every_float32(ufunc: np.ufunc) -> float:
    """The greatest distance over all of the 2**32 numbers, from the function of float64.

    That too is machine code, in the same loop: it takes seconds, and NumPy an hour.
    """
    farthest, numbers = fg.jit(partial(_farthest, ufunc), backend="native"), np.arange(_BLOCK)
    return max(
        float(farthest((numbers + start).astype(np.uint32).view(np.float32)))
        for start in range(0, 1 << 32, _BLOCK)
    )


def _farthest(ufunc: np.ufunc, x: Any) -> Any:
    """The greatest distance over some float32 numbers."""
    actual, exact = ufunc(x), ufunc(fnp.astype(x, np.float64))
    nearest = fnp.astype(exact, np.float32)
    _, exponent = fnp.frexp(fnp.astype(nearest, np.float64))
    unit = fnp.ldexp(1.0, fnp.maximum(exponent - 24, -149))
    same = (actual == nearest) & (fnp.signbit(actual) == fnp.signbit(nearest))
    both = fnp.isnan(actual) & fnp.isnan(nearest)
    zeros = (actual == 0) & (nearest == 0) & ~same
    finite = fnp.isfinite(actual) & fnp.isfinite(nearest) & ~zeros
    edge = fnp.where(same | both, 0.0, np.inf)
    return fnp.max(fnp.where(finite, fnp.abs(actual - exact) / unit, edge))


def main(arguments: list[str]) -> None:
    """Print a table of the greatest distances."""
    if "--every" in arguments:
        names = [argument for argument in arguments if not argument.startswith("-")]
        for ufunc in approximated():
            if ufunc.nin == 1 and (not names or ufunc.__name__ in names):
                print(f"{ufunc.__name__:10s} {over_every_float32(ufunc):.3f}", flush=True)
        return
    print("| function | float64 | float32 | float64 without fma | float32 without fma |")
    print("|---|---|---|---|---|")
    for ufunc in approximated():
        cells = [
            f"{greatest(VectorFunction(ufunc, np.dtype(char), machine), _COUNT):.2f}"
            for machine in (HOST, GENERIC)
            for char in "df"
        ]
        print(f"| {ufunc.__name__} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
