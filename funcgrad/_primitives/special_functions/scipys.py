"""Primitives that SciPy evaluates: it is loaded when the first of them is computed.

>>> gammaln = evaluated_by_scipy("gammaln", partials=None)
>>> gammaln(3.0)
np.float64(0.6931471805599453)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from funcgrad._base.floating_errors import ignoring
from funcgrad._core import intrinsics
from funcgrad._core.primitive import Factor, Kinks, Primitive, Sample
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, Trait
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.elementwise import elementwise
from funcgrad.errors import DifferentiationError, DtypeError, MissingPackageError

HALF: Final = np.dtype(np.float16)
SINGLE: Final = (np.dtype(np.float32), np.dtype(np.complex64))


def scipy_special(name: str) -> Any:
    """The module ``scipy.special``, for the function of a name.

    Raises
    ------
    MissingPackageError
        SciPy is not installed.
    """
    try:
        import scipy.special
    except ImportError as error:
        raise MissingPackageError(
            f"{name}: SciPy evaluates this function, and it is not installed. Install it with `pip"
            " install scipy`."
        ) from error
    return scipy.special


def evaluated_by_scipy(
    name: str,
    *,
    partials: tuple[Factor, ...] | None,
    samples: Callable[[], Iterable[Sample]] = tuple,
    traits: Trait = TRANSCENDENTAL,
    whole: Sequence[int] = (),
    kinks: Kinks | None = None,
    ufunc: str = "",
) -> Primitive:
    """Declare an elementwise primitive that a ufunc of ``scipy.special`` evaluates.

    Results have SciPy's dtype, but that float16 stays float16, and that Python numbers do not widen
    float32: see ``in_precision``. The arguments that are ``whole`` SciPy takes
    as integers only, where rules have them in the result's precision. If the function of a name is
    written in Python, ``ufunc`` names the one that it calls, which is private: there may be none.
    """

    def evaluate(*args: Raw) -> Raw:
        converted = [whole_numbers(name, arg) if k in whole else arg for k, arg in enumerate(args)]
        return in_precision(getattr(scipy_special(name), name)(*converted), *args)

    return elementwise(
        name,
        evaluate,
        partials=partials,
        samples=samples,
        traits=traits | OWNS,
        ufunc="" if whole else ufunc or f"scipy.special:{name}",
        kinks=kinks,
    )


def evaluated_quietly(formula: Callable[..., Value]) -> Callable[..., Raw]:
    """Evaluate a formula on raw values without warnings, as SciPy does; the undefined is NaN."""

    def evaluate(*args: Raw) -> Raw:
        with ignoring():
            return formula(intrinsics, *args)[()]

    return evaluate


def whole_numbers(name: str, x: Raw) -> Raw:
    """Whole numbers of any dtype as integers."""
    if np.asarray(x).dtype.kind in "iub":
        return x
    with np.errstate(invalid="ignore"):
        integers = np.asarray(x).astype(np.int64)
    if np.any(integers != x):
        raise DtypeError(f"{name}: degree and order have to be integers, not {x!r}.")
    return integers


def in_double(
    name: str, function: Callable[..., Raw], keep: Sequence[int] = ()
) -> Callable[..., Raw]:
    """Evaluate a function of real arrays in float64, and return the dtype of the arguments.

    Parameters
    ----------
    name : str
    function : callable
        A function of float64 arrays, broadcast to one shape and raveled.
    keep : sequence of int
        Arguments that do not affect the dtype, since they are always integers.
    """

    def evaluate(*args: Raw, **params: int) -> Raw:
        counted = [arg for k, arg in enumerate(args) if k not in keep]
        kind = np.result_type(*counted)
        if kind.kind == "c":
            raise DtypeError(
                f"{name}: not defined for {kind}; it takes real arguments. Pass x.real or abs(x) if"
                " that is meant."
            )
        arrays = np.broadcast_arrays(*[np.asarray(arg, np.float64) for arg in args])
        with np.errstate(all="ignore"):
            result = function(*[array.ravel() for array in arrays], **params)
        return result.reshape(arrays[0].shape).astype(kind if kind.kind == "f" else np.float64)[()]

    return evaluate


def in_precision(result: Raw, *args: Raw) -> Raw:
    """A result in the precision of the arrays among the arguments, which SciPy's may exceed.

    Its ufuncs know no half precision, and some of them take Python numbers for float64.
    """
    dtypes = [arg.dtype for arg in args if isinstance(arg, (np.ndarray, np.generic))]
    if result.dtype.kind not in "fc" or not dtypes:
        return result[()]
    common = np.result_type(*dtypes)
    if common == HALF:
        return result.astype(HALF if result.dtype.kind == "f" else np.complex64)
    if len(dtypes) < len(args) and common in SINGLE:
        return result.astype(np.float32 if result.dtype.kind == "f" else np.complex64)
    return result[()]


def no_derivative(function: str, parameter: str, remedy: str) -> Callable[..., Value]:
    """The factor of a parameter in which no stable formula for the derivative is known."""
    return partial(_refused, (function, parameter, remedy))


def _refused(words: tuple[str, str, str], *args: Value, **params: object) -> Value:
    function, parameter, remedy = words
    raise DifferentiationError(
        f"{function}: the derivative with respect to {parameter} is not available: no formula for"
        f" it is accurate over the whole range. {remedy}"
    )
