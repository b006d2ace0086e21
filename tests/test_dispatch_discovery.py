"""Every function and ufunc of NumPy's on tensors: NumPy's result, or a clear error.

The functions are discovered, and so are their arguments: NumPy itself shows which of the sample
arguments it takes. The same arguments are then passed as tensors, concrete and traced.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pytest

import funcgrad as fg
from funcgrad.errors import FuncgradError
from tests.together import together

MODULES = (np, np.linalg, np.fft, np.emath, np.char, np.strings, np.lib.stride_tricks)

# No whole or half numbers: there rounding and comparison jump.
STACK = np.random.default_rng(0).normal(size=(2, 3, 3)) + 2.0 * np.eye(3)
MATRIX = STACK[0]
VECTOR = np.array([-0.53, 0.27, 0.78])
NARROW = np.array([-1.55, 2.1, 0.6], np.float32)
WHOLE = np.array([2, 0, 1])
MASK = np.array([True, False, True])
COMPLEX = np.array([1.1 + 2.2j, -0.6j, 3.1])

Samples: TypeAlias = tuple[tuple[Any, ...], ...]

SAMPLES: Samples = (
    (STACK,),
    (MATRIX,),
    (VECTOR,),
    (WHOLE,),
    (COMPLEX,),
    (VECTOR[0],),
    (STACK, STACK),
    (MATRIX, VECTOR),
    (VECTOR, VECTOR),
    (WHOLE, WHOLE),
    (MATRIX, 1),
    (STACK, WHOLE),
    (1, MATRIX),
    (VECTOR, WHOLE),
    (WHOLE, VECTOR),
    (MASK, VECTOR),
    ([VECTOR, NARROW],),
    ((MATRIX, MATRIX),),
    ((3, 3), VECTOR),
    (MATRIX, -1, 0),
    (MATRIX, 0, 1),
    (VECTOR, VECTOR, VECTOR),
    (WHOLE, VECTOR, VECTOR),
    (VECTOR, -1, 1),
    (MASK, VECTOR, WHOLE),
    (MATRIX, WHOLE[:, None], 1),
    (VECTOR, MASK, [1.5, 2.5]),
    (VECTOR, (2, 3)),
    (VECTOR, (3, 1)),
    (VECTOR, VECTOR, 1),
    (VECTOR, np.dtype(np.float32)),
    (np.dtype(np.float32), np.dtype(np.float64)),
    (WHOLE, (3, 3)),
    ((WHOLE, WHOLE), (3, 3)),
    (WHOLE, [VECTOR, VECTOR, VECTOR]),
    (WHOLE.astype(np.uint8),),
    (MATRIX @ MATRIX.T,),
    ("ij,j", MATRIX, VECTOR),
    (lambda x: x, 0, MATRIX),
    (lambda x, axis: x, MATRIX, 0),
    ([MASK], [VECTOR]),
)

OF_UFUNCS: Samples = ((NARROW,), (WHOLE, MASK), (NARROW, 2.0), (2.0, NARROW))
"""Mixtures of dtypes, also with Python numbers, where ufuncs have one rule for all."""

NOT_COMPARED = frozenset(
    """
    empty empty_like
    copyto fill_diagonal place put put_along_axis putmask
    unique_values
    eigh eigvalsh pinv
    save savetxt savez savez_compressed
    """.split()
)
"""Results or an order that are not defined, as of matrices that are not Hermitian but said to be;
what writes to arrays or files has its own tests."""

if np.lib.NumpyVersion(np.__version__) < "2.5.0":  # complex here and later, whatever the values
    NOT_COMPARED |= {"eig", "eigvals"}

TEXT = frozenset({"numpy.char", "numpy.strings"})

NEED_OTHERS = frozenset(
    """
    array_split bmat busday_count busday_offset busdaycalendar datetime_as_string is_busday
    fromiter fromfile fromstring frombuffer genfromtxt loadtxt
    """.split()
)
"""Functions that no sample need fit: of dates, of files."""


def functions() -> Iterator[Any]:
    """NumPy's functions that dispatch to tensors."""
    seen: set[int] = set()
    for module in MODULES:
        for name in dir(module):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # names that NumPy will drop
                function = getattr(module, name)
            dispatches = hasattr(function, "_implementation")
            if dispatches and name not in NOT_COMPARED and id(function) not in seen:
                seen.add(id(function))
                yield function


UNSOUND = frozenset(
    (ufunc, way) for ufunc in (np.arctan2, np.power) for way in ("reduce", "reduce of all")
)
"""On some processors NumPy forgets here what it has found so far: 2.4 has arctan2.reduce([a, b, c])
as arctan2(a, c). (Its ``accumulate`` is right, and so are ours.)"""


def calls_of_ufunc(ufunc: np.ufunc) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "call", ufunc
    if ufunc.nin == 2 and ufunc.nout == 1 and ufunc.signature is None:
        yield "outer", ufunc.outer
        yield "reduce", ufunc.reduce
        yield "reduce of all", lambda x: ufunc.reduce(x, axis=None)
        yield "accumulate", ufunc.accumulate
        yield "reduceat", lambda x: ufunc.reduceat(x, [0, 1])


def ufuncs() -> Iterator[tuple[str, Callable[..., Any]]]:
    found = {value for value in vars(np).values() if isinstance(value, np.ufunc)}
    for ufunc in sorted(found, key=lambda ufunc: ufunc.__name__):
        for way, call in calls_of_ufunc(ufunc):
            if (ufunc, way) not in UNSOUND:
                yield f"{ufunc.__name__} {way}", call


def replaced(x: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(replaced(each, change) for each in x)
    return change(x) if isinstance(x, (np.ndarray, np.generic)) else x


def copied(x: Any) -> Any:
    return replaced(x, np.copy)


def outcome(call: Callable[..., Any], args: Any) -> Any:
    """The result of a call, or the exception that it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call(*args)
        except Exception as error:  # NumPy raises all kinds for what it does not take
            return error


def is_numpys(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufc"


def assert_same(found: Any, expected: Any) -> None:
    """Compare with NumPy's result: structures, dtypes, shapes, values."""
    if isinstance(expected, (tuple, list)):
        assert isinstance(found, (tuple, list))
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif is_numpys(expected):
        # Of a list of tensors NumPy makes an array without asking.
        assert isinstance(found, (fg.Tensor, np.ndarray, np.generic))
        found = np.asarray(fg.stop_gradient(found))
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        coarse = expected.dtype.char in "efF"
        rtol = 8 * float(np.finfo(expected.dtype).eps) if coarse else 1e-12
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-14)
    elif isinstance(expected, np.ndarray):  # of text: NumPy's
        np.testing.assert_array_equal(found, expected)
    else:
        assert np.asarray(found == expected).all()


def assert_followed(found: Any, expected: Any, moved: Any, tracer: type) -> None:
    """Check that results that depend on the numbers of traced values are traced themselves."""
    if isinstance(expected, (tuple, list)):
        for parts in zip(found, expected, moved, strict=True):
            assert_followed(*parts, tracer)
    elif is_numpys(expected) and not np.allclose(expected, moved, 1e-12, 1e-12, equal_nan=True):
        assert isinstance(found, tracer)


def check_concrete(call: Callable[..., Any], samples: Samples) -> int:
    """Compare calls on tensors with NumPy's; returns how many samples NumPy accepted."""
    count = 0
    for args in samples:
        expected = outcome(call, copied(args))
        if isinstance(expected, Exception):
            continue
        count += 1
        found = outcome(call, replaced(args, fg.tensor))
        if not isinstance(found, FuncgradError):
            assert_same(found, expected)
    return count


def check_traced(call: Callable[..., Any], samples: Samples) -> None:
    """Compare a call on differentiated values with NumPy's."""
    for args in samples:
        inexact = inexact_arrays(args)
        expected = outcome(call, copied(args))
        if inexact and not isinstance(expected, Exception):
            moved = outcome(call, exchanged(args, [x * (1 + x.dtype.type(1e-6)) for x in inexact]))
            fg.vjp(partial(compare_inside, call, args, expected, moved), *inexact)


def inexact_arrays(args: Any) -> list[Any]:
    found: list[Any] = []
    replaced(args, lambda x: found.append(x) if x.dtype.kind in "fc" else None)
    return found


def exchanged(args: Any, inexact: Sequence[Any]) -> Any:
    """Arguments with other inexact arrays and copies of the rest, since some functions write."""
    following = iter(inexact)
    return replaced(args, lambda x: next(following) if x.dtype.kind in "fc" else x.copy())


def compare_inside(call: Any, args: Any, expected: Any, moved: Any, *traced: Any) -> Any:
    found = outcome(call, exchanged(args, traced))
    if not isinstance(found, FuncgradError):
        assert_same(found, expected)
        assert_followed(found, expected, moved, type(traced[0]))
    return traced[0]


@together("function", list(functions()))
def test_functions_give_numpys_results_or_a_clear_error(function: Any) -> None:
    fitted = check_concrete(function, SAMPLES)
    check_traced(function, SAMPLES)
    assert fitted or function.__name__ in NEED_OTHERS or function.__module__ in TEXT


UFUNCS = dict(ufuncs())


@together("name", UFUNCS)
def test_ufuncs_give_numpys_results_or_a_clear_error(name: str) -> None:
    check_concrete(UFUNCS[name], SAMPLES + OF_UFUNCS)
    check_traced(UFUNCS[name], SAMPLES + OF_UFUNCS)


def test_most_ufuncs_are_reached() -> None:
    reached = [name for name, call in UFUNCS.items() if check_concrete(call, SAMPLES)]
    assert len(reached) > 200


# --------------------------------------------------------------------------- masked arrays

MASKED = [
    name
    for name in np.ma.__all__
    if callable(getattr(np.ma, name)) and not isinstance(getattr(np.ma, name), type)
]


@together("name", MASKED)
def test_numbers_do_not_leave_a_trace_through_masked_arrays(name: str) -> None:
    call = getattr(np.ma, name)
    for args in SAMPLES:
        inexact = inexact_arrays(args)
        expected = outcome(call, copied(args))
        if inexact and not isinstance(expected, Exception):
            moved = outcome(call, exchanged(args, [x * (1 + x.dtype.type(1e-6)) for x in inexact]))
            fg.vjp(partial(follow_inside, call, args, expected, moved), *inexact)


def follow_inside(call: Any, args: Any, expected: Any, moved: Any, *traced: Any) -> Any:
    found = outcome(call, exchanged(args, traced))
    if not isinstance(found, Exception):
        assert_followed(found, expected, moved, type(traced[0]))
    return traced[0]


def test_masked_arrays_lead_to_no_memory_of_a_tensor() -> None:
    t = fg.tensor([1.0, 2.0])
    data = np.ma.getdata(t)
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 7.0
    masked = np.ma.masked_greater(t, 1.5)
    np.testing.assert_array_equal(masked.mask, [False, True])
    np.testing.assert_array_equal(t, [1.0, 2.0])
