"""Distances from kinks keep the precision of arguments, and are 0 where those of float64 are."""

from __future__ import annotations

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad.debug.kinks_met import _distances as distances
from tests.conformance import Case, every_case, every_primitive, strangers
from tests.together import together

PRIMITIVES = [
    primitive
    for primitive in (
        *every_primitive(),
        *every_primitive(several=True),
        *strangers(),
        *strangers(several=True),
    )
    if primitive.kinks is not None
]
NARROW = {"float32": "complex64", "float16": None}


def narrowed(case: Case, dtype: str) -> list[np.ndarray] | None:
    """The arguments of a sample in another precision; None where it has none of that kind."""
    args = []
    for arg in map(np.asarray, case.args):
        kind = {"d": dtype, "D": NARROW[dtype]}.get(arg.dtype.char)
        if arg.dtype.kind in "fc" and kind is None:
            return None
        if kind is not None:
            finite = arg[np.isfinite(arg)]
            if (abs(finite) > 100).any() or not arg.size:
                return None
            arg = arg.astype(kind)
        args.append(arg)
    return args if any(arg.dtype.kind in "fc" for arg in args) else None


def widened(args: list[np.ndarray]) -> list[np.ndarray]:
    wide = {"e": np.float64, "f": np.float64, "F": np.complex128}
    return [arg.astype(wide.get(arg.dtype.char, arg.dtype)) for arg in args]


def agree(narrow: np.ndarray, wide: np.ndarray, scale: float, case: Case) -> bool:
    """Whether distances are equal within rounding, of the same side, and 0 at the same places."""
    eps = float(np.finfo(narrow.dtype).eps) if narrow.dtype != wide.dtype else 1e-6
    rounding = 16 * max(narrow.size, 4) * eps * (1 + scale) ** 2
    known = np.isfinite(wide)
    off = abs(narrow.astype(wide.dtype) - wide)[known]
    far = abs(wide[known]) > rounding
    sides = np.sign(narrow[known].real) == np.sign(wide[known].real)
    return bool((off <= rounding).all() and (sides | ~far).all())


@together("dtype", NARROW)
@together("primitive", PRIMITIVES, ids=str)
def test_distances_of_narrow_numbers(primitive: Primitive, dtype: str) -> None:
    with np.errstate(all="ignore"):
        for case in every_case([primitive]):
            args = narrowed(case, dtype)
            if args is None:
                continue
            try:
                at = distances(primitive, args, case.sample.params)
                exact = distances(primitive, widened(args), case.sample.params)
            except Exception:  # such as LAPACK, which has no half precision
                continue
            scale = max(float(np.max(abs(x), initial=0, where=np.isfinite(x))) for x in args)
            for narrow, wide in zip([*at[0], *at[1]], [*exact[0], *exact[1]], strict=True):
                narrow, wide = np.asarray(narrow), np.asarray(wide)
                assert narrow.shape == wide.shape
                alone = all(x.dtype.kind in "fc" for x in args)  # integers and narrow numbers widen
                assert not alone or narrow.dtype != wide.dtype, f"it widens, at {args}"
                assert agree(narrow, wide, scale, case), f"{narrow}, not {wide}, at {args}"
