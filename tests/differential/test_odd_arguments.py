"""Whatever is passed for a parameter: an error is one of funcgrad's, or the one that NumPy raises.

Functions and parameters are found by discovery. Each call begins as one that works, and one of its
arguments is replaced by an odd value. An ``AttributeError`` or ``KeyError`` from inside is an
accident, whatever NumPy does; what NumPy refuses as an integer, a text or a shape is not computed
with; and where both compute, both compute the same.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad.errors import FuncgradError
from tests.differential.calls import generator_of
from tests.differential.compare import Outcome, as_arrays, called, difference
from tests.differential.draw import Draw
from tests.differential.odd import odd_values
from tests.differential.test_values import (
    LOOSE_ZEROS,
    WITHOUT_PEER,
    functions,
    pair_of,
    skip_if_numpy_is_too_old,
)
from tests.together import together

# NumPy's words for what tensors have no use for; flags are read by their truth.
WITHOUT_MEANING = frozenset(
    """
    bias copy deg descending endpoint equal_nan include_initial increasing keepdims kind optimize
    retstep return_counts return_index return_inverse returned right rowvar sparse stable
    """.split()
)
# What ours take beyond NumPy's, and say so.
WIDER = frozenset(
    [
        *[(name, "where") for name in ("all", "any", "max", "min", "sum", "prod", "amax", "amin")],
        *[(name, "where") for name in "nanmax nanmean nanmin nanprod nanstd nansum nanvar".split()],
        # NumPy's masks have no more axes than the numbers.
        *[(name, "0") for name in "nanmax nanmean nanmin nanprod nanstd nansum nanvar".split()],
        *[
            (name, "mean") for name in ("nanstd", "nanvar", "std", "var")
        ],  # NumPy computes in the dtype of the elements
        *[("nanmax", "initial"), ("nanmin", "initial")],  # NumPy's may be NaN
        *[("diff", "prepend"), ("diff", "append"), ("nanstd", "correction")],
        *[
            ("indices", "dtype"),
            ("nanvar", "correction"),
            ("corrcoef", "0"),
            ("partition", "1"),  # the order of the others is left open
            ("argpartition", "1"),
            ("inner", "0"),  # of an empty list NumPy 2.5 takes the dtype of the other
            ("inner", "1"),
            ("piecewise", "0"),
            ("fft.irfft2", "0"),  # NumPy reads memory beyond an empty array's
            ("fft.irfftn", "0"),
            ("nanpercentile", "0"),  # of nothing NumPy forgets the axes of the order
            ("nanpercentile", "2"),  # and over no axes it puts them behind the others
            ("nanquantile", "0"),
            ("nanquantile", "2"),
            *[(name, "0") for name in ("bartlett", "blackman", "hamming", "hanning", "kaiser")],
            ("polyfit", "rcond"),
            ("i0", "0"),  # infinite at infinity, where NumPy's is NaN
            ("trim_zeros", "0"),  # NumPy's is the list that it was given
            ("linalg.norm", "1"),  # powers that overflow on the way; fractions
            ("linalg.vector_norm", "ord"),
            ("linalg.lstsq", "rcond"),
            ("linalg.svd", "0"),  # of what is not Hermitian, though said to be
        ],
    ]
)
DTYPES = frozenset("can_cast finfo iinfo isdtype issubdtype promote_types result_type".split())
# NumPy counts to 2**62 here, and loses count of references to objects that cannot be multiplied.
ENDLESS = frozenset([("diff", "n")])
NO_INTEGERS = frozenset(
    "digit word bytes fraction nan inf rational decimal subclass object set dict".split()
)
ACCIDENTS = (
    NotImplementedError,
    AttributeError,
    KeyError,
    AssertionError,
    NameError,
    RecursionError,
    RuntimeError,
)

Call = tuple[tuple[Any, ...], dict[str, Any]]


def working_calls(name: str, wanted: int) -> Iterator[Call]:
    """Drawn calls with which our function and NumPy's work."""
    generator = generator_of(name)
    assert generator is not None
    for number in range(400):
        args, kwargs = generator(Draw(zlib.crc32(name.encode()), 7, number))
        arrays = [as_arrays(arg) for arg in args], {k: as_arrays(v) for k, v in kwargs.items()}
        functions = pair_of(name)
        if all(called(function, *arrays).error is None for function in functions):
            yield (tuple(arrays[0]), arrays[1])
            wanted -= 1
        if not wanted:
            return
    raise AssertionError(f"no call of {name} works")


def replaced(call: Call, function: Any, value: Any) -> Iterator[tuple[str, Call]]:
    """The calls with one argument replaced, for every parameter that the function has."""
    args, kwargs = call
    for place in range(len(args)):
        yield str(place), ((*args[:place], value(), *args[place + 1 :]), kwargs)
    taken = [p.name for p in inspect.signature(function).parameters.values()][: len(args)]
    for parameter in inspect.signature(function).parameters.values():
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.name not in taken:
            yield parameter.name, (args, {**kwargs, parameter.name: value()})


def is_accident(own: Exception, expected: Exception | None) -> bool:
    """Whether an error is none that was meant."""
    if isinstance(own, FuncgradError):
        return False
    if isinstance(own, MemoryError) or str(own).startswith("The truth value of"):
        return False  # more than there is; an array as a flag
    return isinstance(own, ACCIDENTS) or not isinstance(own, type(expected))


def for_numpy(x: Any) -> Any:
    """The same value without tensors, which would lead NumPy's functions back to ours."""
    if isinstance(x, fg.Tensor) and not x.ndim:
        return np.asarray(x)[()]
    if isinstance(x, fg.Tensor) or type(x).__name__ in ("Series", "DataFrame"):
        return np.asarray(x)
    if type(x) is list and any(isinstance(part, fg.Tensor) for part in x):
        return [np.asarray(part) for part in x]
    return x


def judged(name: str, parameter: str, key: str, own: Outcome, expected: Outcome) -> str | None:
    """What is wrong with an outcome; None where nothing is."""
    if own.error is not None:
        if isinstance(own.error, RuntimeError) and "no array today" in str(own.error):
            return None  # the user's own words
        if name in DTYPES and isinstance(own.error, (TypeError, ValueError)):
            return None  # NumPy's own, and of the dtypes alone
        accident = is_accident(own.error, expected.error)
        return f"{type(own.error).__name__}: {own.error}" if accident else None
    if parameter == "dtype" and key == "number":
        return None  # NumPy asks numbers for their dtype
    if parameter in WITHOUT_MEANING or (name, parameter) in WIDER:
        return None
    if expected.error is None:
        return difference(own, expected, 1e9, name not in LOOSE_ZEROS)
    if key in NO_INTEGERS and not isinstance(expected.error, ACCIDENTS):
        return difference(own, expected)
    return None


def swept(name: str, calls: int = 1) -> Iterator[str]:
    """What is wrong with a function, call by call."""
    function, peer = pair_of(name)
    for call in working_calls(name, calls):
        for key, value in odd_values().items():
            pairs = zip(*[replaced(call, function, value) for _ in "ab"], strict=True)
            for (parameter, (args, kwargs)), (_, (others, named)) in pairs:
                own = called(function, args, kwargs)
                plain = {k: for_numpy(v) for k, v in named.items()}
                expected = Outcome(error=NotImplementedError())
                if key == "subclass" and np.__version__.startswith("2.0."):
                    expected = own  # there such a number gives way to every dtype
                elif key != "objects" and (name, parameter) not in ENDLESS:
                    expected = called(peer, [for_numpy(arg) for arg in others], plain)
                found = judged(name, parameter, key, own, expected)
                if found:
                    yield f"{name}, {parameter} = {key}: {found}"


@pytest.mark.slow
@together("name", [name for name in functions() if name not in WITHOUT_PEER], pieces=2)
def test_odd_arguments_meet_meant_errors(name):
    skip_if_numpy_is_too_old(name)
    wrong = list(swept(name))
    assert not wrong, "\n".join(wrong[:5])
