"""Comparisons of a backend's results with evaluation's, for ``check_backend``."""

from __future__ import annotations

from typing import Final

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import spec_of
from funcgrad._core.trace import RAW, Raw
from funcgrad._core.users_values import ArrayLike

_DIGITS: Final = 256.0
"""The allowed difference of results, in units in the last place of the largest element."""


class Wrong(Exception):  # noqa: N818 - a finding, which is listed with others
    """One program goes wrong; the error says how."""


def compare(where: str, out: object, expected: Raw) -> None:
    """Compare a raw result with the result of evaluation."""
    if type(out) not in RAW:
        raise Wrong(f"{where} is of type {type(out).__name__}, which is not a raw value")
    spec, wanted = spec_of(out), spec_of(expected)
    if spec.weak != wanted.weak:
        kind = "a Python number, since it is weak" if wanted.weak else f"{wanted} and not weak"
        raise Wrong(f"{where} is {type(out).__name__}; it has to be {kind}")
    if spec != wanted:
        raise Wrong(f"{where} is {spec}, evaluation's is {wanted}")
    compare_numbers(where, np.asarray(out), np.asarray(expected))


def compare_numbers(where: str, out: Raw, expected: Raw) -> None:
    if expected.dtype.kind in "fc":
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        x, y = out.astype(wide), expected.astype(wide)
        size = np.max(np.abs(y), initial=0.0, where=np.isfinite(y))
        slack = _DIGITS * np.finfo(expected.dtype).eps * (np.abs(y) + size)
        with np.errstate(all="ignore"):
            right = (x == y) | ((x != x) & (y != y)) | (np.abs(x - y) <= slack)
    else:
        right = out == expected
    if not np.all(right):
        index = tuple(map(int, np.argwhere(~right)[0])) if expected.ndim else ()
        place = f"[{', '.join(map(str, index))}]" if index else ""
        raise Wrong(
            f"{where} is {out[index]!r} at {place or 'its only element'}, evaluation's is"
            f" {expected[index]!r}"
        )


def same_bits(one: ArrayLike, other: ArrayLike) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


def compare_trees(where: str, actual: object, expected: object) -> None:
    (leaves, tree), (others, other) = pytrees.flatten(actual), pytrees.flatten(expected)
    if tree != other:
        raise Wrong(f"{where}: the result's tree is {tree}, evaluation's is {other}")
    for number, (leaf, wanted) in enumerate(zip(leaves, others, strict=True)):
        name = f"{where}: result {number} of {len(leaves)}"
        spec, said = spec_of(leaf), spec_of(wanted)
        if (spec.shape, spec.dtype) != (said.shape, said.dtype):
            raise Wrong(f"{name} is {spec}, evaluation's is {said}")
        compare_numbers(name, np.asarray(leaf), np.asarray(wanted))
