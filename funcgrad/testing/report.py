"""The message of a failed check: the wrong derivative, the error, and where to look.

Analytic and numerical derivatives are compared element by element, each with its tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad.testing.numerical import Estimate, relative_tolerance
from funcgrad.testing.subject import MODE_NAMES, Array, Subject

_COLUMNS: Final = 26


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The user's tolerances; None means the default of the dtype and the method."""

    absolute: float | None
    relative: float | None

    def parts(self, numerical: Estimate) -> tuple[float, float]:
        """Return the absolute and the relative tolerance for an estimate.

        A complex step loses no digits, but another order of operations does.
        """
        exact = numerical.method == "complex step"
        precision = numerical.precision
        relative = precision**0.45 if exact else relative_tolerance(precision)
        absolute = precision ** (0.6 if exact else 0.5)
        return (
            absolute if self.absolute is None else self.absolute,
            relative if self.relative is None else self.relative,
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The element at which the derivatives differ most, relative to its tolerance.

    Attributes
    ----------
    result : int
        The index of the result that contains the element.
    index : tuple of int
        The index of the element in that result.
    analytic, numerical : number
    error, tolerance : float
    terms : str
        The explanation of the tolerance.
    """

    result: int
    index: tuple[int, ...]
    analytic: Any
    numerical: Any
    error: float
    tolerance: float
    terms: str

    @property
    def agrees(self) -> bool:
        """Whether the derivatives agree; NaN agrees with nothing."""
        return bool(self.error <= self.tolerance)

    @property
    def ratio(self) -> float:
        """The error as a multiple of the tolerance; infinite for NaN."""
        ratio = self.error / self.tolerance if self.tolerance else float(self.error > 0) * np.inf
        return float(np.nan_to_num(ratio, nan=np.inf, posinf=np.inf))


def compare(
    analytic: Sequence[Array], numerical: Estimate, tolerance: Tolerance
) -> Comparison | None:
    """Find the worst element; None for empty arrays."""
    absolute, relative = tolerance.parts(numerical)
    worst: Comparison | None = None
    worst_ratio = -1.0
    with np.errstate(all="ignore"):
        for k, (a, n, noise) in enumerate(
            zip(analytic, numerical.values, numerical.noise, strict=True)
        ):
            if not n.size:
                continue
            error = abs(a.astype(complex) - n)
            allowed = absolute + relative * abs(n) + noise
            ratio = np.nan_to_num(error / allowed, nan=np.inf, posinf=np.inf)
            index = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
            if ratio[index] > worst_ratio:
                worst_ratio = float(ratio[index])
                terms = f"{absolute:.2g} + {relative:.2g} * |numerical|"
                if noise[index] > 0.1 * allowed[index]:
                    terms += f" + {noise[index]:.2g} for rounding"
                worst = Comparison(
                    result=k,
                    index=tuple([int(i) for i in index]),
                    analytic=a[index].item(),
                    numerical=n[index].item(),
                    error=float(error[index]),
                    tolerance=float(allowed[index]),
                    terms=terms,
                )
    return worst


def modes_text(modes: Sequence[str]) -> str:
    """Return nested modes in words, the outermost first.

    >>> modes_text(("rev", "fwd"))
    'forward mode over reverse mode'
    """
    names = dict(MODE_NAMES)
    return " over ".join(names[mode] for mode in reversed(modes))


def number(x: complex) -> str:
    """Format a number with the digits that matter in a comparison."""
    return f"{x.real:.10g}" if x.imag == 0 else f"{x:.10g}"


def row(label: str, text: str) -> str:
    """Format one line of a report."""
    return f"  {label:<12} {text}"


def table(rows: Sequence[tuple[str, Comparison]], limit: int = 8) -> list[str]:
    """Return a line for each argument: whether its derivative agrees; errors come first."""
    ordered = sorted(rows, key=lambda pair: pair[1].agrees)
    width = max(len(name) for name, _ in ordered)
    lines = [
        f"    {name:<{width}}  numerical {number(c.numerical)}, analytic {number(c.analytic)}"
        + ("" if c.agrees else "  <- differs")
        for name, c in ordered[:limit]
    ]
    if len(ordered) > limit:
        lines.append(f"    and {len(ordered) - limit} more")
    return lines


def place(subject: Subject, comparison: Comparison) -> str:
    """Return the path of the compared element."""
    name = subject.result_names[comparison.result]
    return name + (f"[{', '.join(map(str, comparison.index))}]" if comparison.index else "")
