"""Measures how far the functions on vectors are from the exact results.

    python -m tests.backends.native.ulps            # draws, for the table of the backend's README
    python -m tests.backends.native.ulps --every    # every float32, of functions of one argument

Extended precision is the reference, which NumPy has on x86 processors as ``longdouble``; for every
float32, float64.
"""

from __future__ import annotations

import sys

import numpy as np

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
    """The greatest distance over all of the 2**32 numbers, from float64's result."""
    function = VectorFunction(ufunc, np.dtype(np.float32))
    worst = 0.0
    for start in range(0, 1 << 32, _BLOCK):
        x = np.arange(start, start + _BLOCK, dtype=np.uint64).astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            actual, exact = function(x), ufunc(x.astype(np.float64))
            nearest = exact.astype(np.float32)
            unit = np.spacing(np.abs(nearest)).astype(np.float64)
            away = np.abs(actual - exact) / unit
        same = (nearest == actual) & (np.signbit(nearest) == np.signbit(actual))
        both = np.isnan(actual) & np.isnan(nearest)
        finite = np.isfinite(nearest) & np.isfinite(actual)
        edge = np.where(same | both, 0.0, np.inf)
        zero = (nearest == 0) & (actual == 0) & ~same
        worst = max(worst, float(np.where(finite & ~zero, away, edge).max()))
    return worst


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
