"""Check that a solver's result solves the equation.

A step of Newton's method from the result tells the distance to the solution, in the units of the
unknown. A residual does not: it is small if the equation is multiplied by a small factor. Elements
at an active bound do not move, and their equations need not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.carry import placed
from funcgrad._control.choices import is_unknown
from funcgrad._core.specs import dtype_of
from funcgrad._core.trace import Value, concrete
from funcgrad.errors import ConvergenceError
from funcgrad.implicit.unknowns import Unknown
from funcgrad.tensor.tensor import Tensor, wrap

_BOUNDED: Final = (
    "If the element is at a bound, pass bounds=(lower, upper), or return SciPy's result if it has"
    " an active_mask. At the border of another constraint the derivative is not known: write the"
    " constraint into the variables, or as a penalty. "
)


def free_in(sides: Sequence[Value], slopes: Sequence[Value]) -> list[Value]:
    """Return 1 for elements that may move, 0 at a bound towards which the function falls."""
    return [concrete(_free(wrap(a), wrap(b))) for a, b in zip(sides, slopes, strict=True)]


def _free(side: Tensor, slope: Tensor) -> Tensor:
    is_held = (fnp.real(side * slope) < 0.0) | (fnp.real(side) == 2.0)
    return fnp.where(is_held, 0.0, 1.0).astype(side.dtype)


def held(values: Sequence[Value], free: Sequence[Value]) -> list[Value]:
    """Set values (None for zero) to 0 where they are not free."""
    if not free:
        return list(values)
    return [None if v is None else v * mask for v, mask in zip(values, free, strict=True)]


@dataclass(frozen=True, slots=True)
class Reached:
    """The check that a solution was reached.

    Attributes
    ----------
    unknown : Unknown
    tol : float
        The allowed step, relative to the elements.
    x, start, steps : sequences of values
        The solution, the starting point, and the step of Newton's method from the solution.
    """

    unknown: Unknown
    tol: float
    x: Sequence[Value]
    start: Sequence[Value]
    steps: Sequence[Value]

    def only(self, tangents: list[Value], residual: Sequence[Value], failed: str) -> list[Value]:
        """Return the tangents if the solution was reached, else raise an error or return NaN.
        Raises
        ------
        ConvergenceError
            It was not. Inside ``jit`` and ``vmap``, where values are not known, tangents are NaN.
        """
        ok = concrete(fnp.all(fnp.stack([fnp.all(near) for near in self._near()])))
        if failed == "raise" and not is_unknown(ok):
            if not bool(wrap(ok)):
                raise placed(ConvergenceError, self._reason(residual))
            return tangents
        factor = fnp.where(ok, 1.0, np.nan)
        return [concrete(wrap(t) * factor.astype(dtype_of(t))) for t in tangents]

    def _near(self) -> list[Tensor]:
        """Return whether the step of each element is small: relative to it, and to 1 or the
        greatest.

        The second test is for elements that are zero up to the precision of the solver.
        """
        pairs = zip(self.x, self.start, strict=True)
        sizes = [fnp.maximum(fnp.abs(wrap(x)), fnp.abs(wrap(s))) for x, s in pairs]
        most = fnp.max(fnp.stack([fnp.max(size, initial=0.0).astype(float) for size in sizes]))
        scale = fnp.minimum(most, 1.0)
        return [
            fnp.abs(wrap(step))
            <= self.tol * (fnp.abs(wrap(x)) + scale + np.sqrt(np.finfo(dtype_of(x)).eps))
            for step, x in zip(self.steps, self.x, strict=True)
        ]

    def _reason(self, residual: Sequence[Value]) -> str:
        near = [np.asarray(ok) for ok in self._near()]
        leaf = next(k for k, ok in enumerate(near) if not ok.all())
        place = tuple(int(k) for k in np.argwhere(~near[leaf])[0]) if near[leaf].shape else ()
        path = self.unknown.structure.paths()[leaf]
        at = f" at {path}{list(place) if place else ''}" if path or place else ""
        missing, step = (np.asarray(values[leaf])[place] for values in (residual, self.steps))
        name = self.unknown.operation
        bounded = name.endswith(("minimize", "least_squares"))
        return (
            f"{name}: the result of the solver does not solve the equation:"
            f" {'the slope' if bounded else 'the residual'}{at} is {missing:.3g}, and a step of"
            f" Newton's method{' there' if at else ''} is {step:.3g}, so the derivative is unknown."
            f" {_BOUNDED if bounded else ''}If the solver stopped early, allow more steps or a"
            " smaller tolerance; tol is the largest allowed step."
        )
