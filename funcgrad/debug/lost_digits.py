"""Count the digits that operations lose, by running a function in two precisions.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> lost = digits(lambda x: fnp.sqrt(x + 1.0) - fnp.sqrt(x))(fnp.float32(1e5))
>>> print(lost.losses[0].operation, round(lost.losses[0].lost))
subtract 5
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, Final, ParamSpec

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import ignoring
from funcgrad._core import pytrees
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Trait
from funcgrad._core.trace import NUMBERS, RAW, Raw, Trace, Value, begin_level, bind
from funcgrad._core.users_values import ArrayLike
from funcgrad._hooks.key_uses import repetition
from funcgrad._hooks.result_watch import watched_by
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.composite import Composite
from funcgrad._transforms.tracer import Tracer
from funcgrad.debug.contexts import Location, context
from funcgrad.debug.replays import JitOpener, follow_leaves, innermost_value
from funcgrad.tensor.tensor import Tensor

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Loss:
    """An operation that loses digits.

    Attributes
    ----------
    operation : str
    line : str
        The user's file and line; for a derivative, the line of the differentiated operation.
    lost : float
        How many decimal digits the worst element of the result has lost, compared with the operands
        or the dtype.
    digits : float
        How many decimal digits are right in the worst element.
    derivative : str
        The derivative to which the operation belongs, such as ``"pull of sqrt"``; else empty.
    steps : tuple of pairs
        The loops around it: the name, and the index of the step.
    """

    operation: str
    line: str
    lost: float
    digits: float
    derivative: str = ""
    steps: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        inside = f" in the {self.derivative}" if self.derivative else ""
        at = f" at {self.line}" if self.line else ""
        steps = "".join([f", step {step} of {loop}" for loop, step in self.steps])
        return (
            f"{self.operation}{inside}{at} loses {self.lost:.1f} digits; {self.digits:.1f} are"
            f" right{steps}"
        )


@dataclass(frozen=True, slots=True)
class LostDigits:
    """How many digits of a function's results are right, and which operations lose most.

    Attributes
    ----------
    digits : tuple of pairs
        The path of each result, and the number of right decimal digits of its worst element.
    losses : tuple of Loss
        The operations that lose a digit or more, the worst first; each line once.
    """

    digits: tuple[tuple[str, float], ...]
    losses: tuple[Loss, ...]

    def __repr__(self) -> str:
        lines = [f"result{path}: {right:.1f} digits are right" for path, right in self.digits]
        lines += [f"  {loss}" for loss in self.losses[:_SHOWN]]
        return "\n".join(lines)


_SHOWN = 10


def digits(f: Callable[P, object]) -> Callable[P, LostDigits]:
    """Make a function that reports how many digits of the results of ``f`` are correct.

    Use it to find cancellation and other losses of precision: the report lists the operations that
    lose digits, with their lines. Then rewrite these lines (``log1p``, ``expm1``, ``hypot``,
    scaling) or raise the precision.

    Parameters
    ----------
    f : callable
        A function of pytrees, also a result of ``grad`` or ``jit``.

    Returns
    -------
    callable
        A function with the arguments of ``f``. It returns ``LostDigits``: how many decimal digits
        of each result are right, and the operations that lose a digit or more.

    Raises
    ------
    FunctionError
        ``f`` cannot be called.

    Notes
    -----
    Each operation is evaluated twice: in its own precision, and in a higher one (float64 for
    float32 and float16, NumPy's longdouble for float64). An operation loses digits if the relative
    difference of its results is larger than the difference of its operands. Branches and loops
    follow the values in their own precision. Operations that NumPy does not have in longdouble,
    such as linear algebra, count as exact. On processors whose longdouble is float64, nothing is
    found for float64.

    This is a measurement at one point, with the errors that happen there; a bound would be larger.
    Compare Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., SIAM 2002, section
    1.7, on cancellation.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.debug as debug
    >>> def variance(x):
    ...     return fg.numpy.mean(x**2) - fg.numpy.mean(x) ** 2
    >>> x = fg.numpy.array([1000.0, 1000.1, 1000.2], dtype="float32")
    >>> debug.digits(variance)(x)
    result: ... digits are right
      subtract at <doctest ...>:2 loses ... digits; ... are right
    """
    check_function("digits", f)

    @wraps(f)
    def counted(*args: P.args, **kwargs: P.kwargs) -> LostDigits:
        with begin_level() as level, repetition():
            trace = _Twofold(level)
            dynamic, named = follow_leaves(f, args, kwargs, trace.argument)
            with watched_by(JitOpener(trace.argument)):
                function: Callable[..., object] = f
                result = function(*dynamic, **named)
            leaves = [
                (pytrees.key_path_text(path), _right(leaf._value, trace.precise(leaf)))
                for path, leaf in pytrees.leaves_with_path(result)
                if type(leaf) is Twofold and _is_inexact(leaf._value)
            ]
        return LostDigits(tuple(leaves), _by_line(trace.losses))

    return counted


class Twofold(Tracer):
    """A value, and the same value in a higher precision."""

    __slots__ = ("_line", "_precise")
    _line: str
    _precise: Raw


class _Twofold(Trace):
    """The trace that evaluates every operation twice.

    Attributes
    ----------
    losses : list of pairs
        The loss of each operation, and where it ran.
    """

    title = "digits"
    has_numbers = True
    __slots__ = ("losses",)

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.losses: list[tuple[Primitive, float, float, Location]] = []

    def argument(self, value: ArrayLike, path: str) -> Twofold:
        """Follow an argument, also of an inner function."""
        raw = value._value if isinstance(value, Tensor) else value
        exact = np.asarray(raw)[()] if type(raw) in (float, complex) else raw
        return self._beside(value, _widened(exact), "")

    def _beside(self, value: Value, precise: Raw, line: str) -> Twofold:
        followed: Twofold = Twofold.around(self, value)
        followed._precise, followed._line = precise, line
        return followed

    def precise(self, value: Value) -> Raw:
        """Return the value in the higher precision."""
        return value._precise if type(value) is Twofold else _widened(self.inner(value))

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Evaluate in both precisions, and count lost digits."""
        inner = tuple([self.inner(arg) for arg in args])
        precise = tuple([self.precise(arg) for arg in args])
        out = bind(primitive, inner, params)
        outs = out if type(out) is tuple else (out,)
        beside = self._evaluated(primitive, precise, params, outs)
        where = _placed(context(sys._getframe(1)))
        before = min(
            [_right(x, y) for x, y in zip(inner, precise, strict=True) if _is_inexact(x)],
            default=np.inf,
        )
        for value, exact in zip(outs, beside, strict=True):
            if _is_inexact(value):
                right = _right(value, exact)
                lost = min(before, _most(value)) - right
                if lost >= 1.0:
                    self.losses.append((primitive, lost, right, where))
        followed = [self._beside(x, y, where.line) for x, y in zip(outs, beside, strict=True)]
        return tuple(followed) if type(out) is tuple else followed[0]

    def _evaluated(
        self,
        primitive: Primitive,
        precise: Sequence[Raw],
        params: Mapping[str, Any],
        outs: Sequence[Raw],
    ) -> Sequence[Raw]:
        """Return the results in the higher precision, if the operation has one."""
        if Trait.CONVERTS in primitive.traits and _is_inexact(outs[0]):
            return (precise[0],)
        try:
            with ignoring():
                exact = primitive.evaluate(*precise, **params)
        except Exception:  # such as a missing routine of LAPACK for a dtype
            return [_widened(out) for out in outs]
        several = exact if type(exact) is tuple else (exact,)
        fits = [np.shape(x) == np.shape(y) for x, y in zip(several, outs, strict=True)]
        return several if all(fits) else [_widened(out) for out in outs]

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        """Run loops and calls operation by operation."""
        return call.run(args)


def _placed(where: Location) -> Location:
    """Return the context with the line of the differentiated operation."""
    if where.entry is None:
        return where
    primitive, out = where.entry
    followed = innermost_value(out, Twofold)
    line = where.line if followed is None else followed._line
    return where._replace(entry=(primitive, None), line=line)


_WIDER: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {"e": np.float64, "f": np.float64, "d": np.longdouble, "F": np.complex128, "D": np.clongdouble}
)


def _is_inexact(value: Raw) -> bool:
    kind = type(value)
    return kind is float or kind is complex or (kind not in NUMBERS and value.dtype.kind in "fc")


def _widened(value: Raw) -> Raw:
    """Convert a value, which may be on a device, to the higher precision; Python numbers stay."""
    if type(value) in NUMBERS:
        return value
    raw: Raw = value if type(value) in RAW else np.asarray(value)[()]
    return raw.astype(_WIDER[raw.dtype.char]) if raw.dtype.char in _WIDER else raw


def _most(value: Raw) -> float:
    """Return the number of decimal digits of the dtype."""
    dtype = np.asarray(value).dtype
    return float(-np.log10(np.finfo(dtype).eps / 2))


def _right(value: Raw, exact: Raw) -> float:
    """Return the right digits of the worst element; equal infinities and NaN are right."""
    x, y = np.asarray(value), np.asarray(exact)
    if not x.size or x.shape != y.shape:
        return _most(value)
    with ignoring():
        error = np.abs(y - x) / np.abs(y)
        error = np.where((x == y) | ~np.isfinite(x) | ~np.isfinite(y), 0, error)
        worst = float(np.max(error))
    if worst == 0:
        return _most(value)
    return float(np.clip(-np.log10(min(worst, 1.0)), 0.0, _most(value))) + 0.0  # never -0.0


def _by_line(losses: Sequence[tuple[Primitive, float, float, Location]]) -> tuple[Loss, ...]:
    """Return the greatest loss of each operation at each line, the greatest first."""
    worst: dict[tuple[str, str, str], Loss] = {}
    for primitive, lost, right, where in losses:
        inside = f"{where.derivative} of {where.entry[0].name}" if where.entry else ""
        key = primitive.name, where.line, inside
        if key not in worst or worst[key].lost < lost:
            worst[key] = Loss(primitive.name, where.line, lost, right, inside, where.steps)
    return tuple(sorted(worst.values(), key=lambda loss: -loss.lost))
