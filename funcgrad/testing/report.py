"""The message of a failed check: the wrong derivative, the error, and where to look.

Analytic and numerical derivatives are compared element by element, each with its tolerance.

A report ends with an example that can be pasted: points are written as Python code.

>>> import numpy as np
>>> _written({"w": np.array([0.5, 1.25]), "n": 3})
"{'w': np.array([0.5, 1.25]), 'n': 3}"

Searches climb towards the worst point. For them a check notes the ratio of each disagreement to the
allowed one. ``watched`` gives the largest ratio of a context; outside of it nothing is stored.

>>> with watched() as largest:
...     note(0.25)
...     note(0.125)
>>> largest()
0.25
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import DTYPES
from funcgrad.tensor.tensor import Tensor
from funcgrad.testing.numerical import Estimate, relative_tolerance
from funcgrad.testing.subject import MODE_NAMES, Array, Subject

_RATIOS: Final[ContextVar[list[float] | None]] = ContextVar("funcgrad_disagreements", default=None)


def note(ratio: float) -> None:
    """Note a disagreement as a multiple of the allowed one; above 1 the check fails."""
    ratios = _RATIOS.get()
    if ratios is not None:
        ratios.append(ratio)


@contextmanager
def watched() -> Iterator[Callable[[], float]]:
    """Watch the checks of this context; yields a function that returns the largest ratio so far."""
    ratios: list[float] = []
    token = _RATIOS.set(ratios)
    try:
        yield lambda: max(ratios, default=0.0)
    finally:
        _RATIOS.reset(token)


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


_MOST_ELEMENTS: Final = 64
_NATURAL: Final = frozenset({np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)})


def _written(value: object) -> str:
    """Return a value as an expression; long arrays and unknown objects become comments."""
    if isinstance(value, Tensor):
        return _array(np.asarray(value), "fg.tensor")
    if isinstance(value, np.ndarray):
        return _array(value, "np.array")
    if isinstance(value, np.generic) and value.dtype in DTYPES:
        return f"np.{value.dtype.name}({_numbers(value.item())})"
    if isinstance(value, (bool, int, float, complex)):
        return _numbers(value)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{key!r}: {_written(item)}" for key, item in value.items()]) + "}"
    names = getattr(value, "_fields", None)
    if isinstance(value, tuple) and names is not None:
        return _call(type(value).__name__, names, value)
    if isinstance(value, (tuple, list)):
        inside = ", ".join(map(_written, value))
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        return _call(type(value).__name__, names, [getattr(value, name) for name in names])
    return repr(value)


def _call(name: str, names: Sequence[str], values: Sequence[Any]) -> str:
    inside = [f"{key}={_written(value)}" for key, value in zip(names, values, strict=True)]
    return f"{name}({', '.join(inside)})"


def _array(array: np.ndarray[Any, Any], maker: str) -> str:
    if array.size > _MOST_ELEMENTS:
        return f"...  # {array.dtype} of shape {array.shape}"
    if not array.size and array.ndim > 1:
        return f"{maker}(np.zeros({array.shape}, {array.dtype.name!r}))"
    dtype = "" if array.dtype in _NATURAL and array.size else f", {array.dtype.name!r}"
    return f"{maker}({_numbers(array.tolist())}{dtype})"


def _numbers(value: object) -> str:
    return repr(value).replace("nan", "np.nan").replace("inf", "np.inf")


def example_text(law: str, f: Callable[..., Any], args: Sequence[Any], seed: int) -> list[str]:
    """Return the lines of code that repeat a law at a point.

    The source of functions made by ``strategies.functions`` comes first.
    """
    source = getattr(f, "source", None)
    name = getattr(f, "__name__", "f")
    name = name if name.isidentifier() else "f"
    return [
        "to repeat it:",
        "    import numpy as np",
        "    import funcgrad as fg",
        "    from funcgrad.testing import laws",
        *([f"    {line}" for line in source.splitlines()] if isinstance(source, str) else []),
        f"    {law}({name}, {_written(tuple(args))}, seed={seed})",
    ]
