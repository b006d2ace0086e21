"""Compare results: structure, shapes and dtypes exactly, numbers up to rounding.

If a result is NaN or infinite in every run with noise, the other has to be so too. Otherwise they
may differ by as much as the noise moves the result (``noise.py``), with a margin. If noise moves a
result by more than a thousandth of its size, it is not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._core import pytrees
from tests.tools.fuzz.noise import Scatter

Measured: TypeAlias = "Callable[[], Scatter | None]"
"""How far results may move; a function, since most agree exactly and need no measurement."""

MARGIN: Final = 8.0
_TELLING: Final = 1e-3


class DifferenceError(AssertionError):
    """Two results that differ by more than rounding explains."""


def assert_agree(
    actual: Any, expected: Any, measured: Measured, margin: float = 1.0, signs: bool = False
) -> None:
    """Check two trees of results.

    Parameters
    ----------
    measured : callable
        How far the expected leaves may move; None means only by rounding of their own size. Results
        without a meaning, such as the last bits of a large integer, are not compared.
    margin : float
        The factor by which they may differ more than usual.
    signs : bool
        Whether zeros have to have the same signs.
    """
    own, other = pytrees.leaves(actual), pytrees.leaves(expected)
    if len(own) != len(other):
        raise DifferenceError(f"{len(own)} results in the place of {len(other)}")
    pairs = [(np.asarray(one), np.asarray(two)) for one, two in zip(own, other, strict=True)]
    try:
        for k, (one, two) in enumerate(pairs):
            _assert_leaf(one, two, None, 1.0, k)
    except DifferenceError:
        scatter = measured()
        if scatter is not None and not scatter.meaningful:
            return
        for k, (one, two) in enumerate(pairs):
            _assert_leaf(one, two, None if scatter is None else scatter.spread[k], margin, k)
    if signs:
        for k, (one, two) in enumerate(pairs):
            _assert_signs(one, two, k)


def _assert_leaf(own: Any, other: Any, spread: Any, margin: float, k: int) -> None:
    if (own.shape, own.dtype) != (other.shape, other.dtype):
        raise DifferenceError(
            f"result {k}: {own.dtype}{own.shape} in the place of {other.dtype}{other.shape}"
        )
    if not other.size:
        return
    far, allowed = _distances(own, other, np.zeros(other.shape) if spread is None else spread)
    wrong = far > margin * allowed
    if np.any(wrong):
        where = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise DifferenceError(
            f"result {k}, element {tuple(int(i) for i in where)}: {own[where]!r} in the place of"
            f" {other[where]!r}; rounding explains {float(margin * allowed[where]):.2g}"
        )


def _assert_signs(own: Any, other: Any, k: int) -> None:
    """Check the signs of zeros, of complex numbers in both parts."""
    if other.dtype.kind not in "fc":
        return
    for one, two in ((own.real, other.real), (own.imag, other.imag)):
        wrong = (one == 0) & (two == 0) & (np.signbit(one) != np.signbit(two))
        if np.any(wrong):
            where = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            raise DifferenceError(
                f"result {k}, element {tuple(int(i) for i in where)}: {own[where]!r} in the place"
                f" of {other[where]!r}, a zero of the other sign"
            )


def _distances(own: Any, other: Any, spread: Any) -> tuple[Any, Any]:
    """The differences of elements, and the allowed ones; infinite where nothing is compared."""
    if other.dtype.kind not in "fc":
        return (own != other).astype(float), np.where(np.isfinite(spread), 0.0, np.inf)
    with np.errstate(all="ignore"):
        wide, target = own.astype(np.complex128), other.astype(np.complex128)
        same = (own == other) | (np.isnan(own) & np.isnan(other))
        if (
            other.dtype.kind == "c"
        ):  # which part is NaN or infinite depends on the order of products
            same |= ~np.isfinite(own) & ~np.isfinite(other)
        far = np.where(same, 0.0, np.abs(wide - target))
        far = np.where(np.isnan(far), np.inf, far)
        limits = np.finfo(other.dtype)
        size = np.where(np.isfinite(other), np.abs(target), 0.0)
        allowed = MARGIN * spread + 16 * limits.eps * size + 8 * limits.smallest_subnormal
        # Where terms cancel, whether all of them do is a matter of their order.
        cancels = (own == 0) | (other == 0)
        allowed = np.where(cancels, allowed + limits.eps / 64 * np.max(size), allowed)
        told = spread <= _TELLING * np.maximum(size, 1e-6) if limits.eps < 1e-4 else spread < 1.0
        return far, np.where(told, allowed, np.inf)
