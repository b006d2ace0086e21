"""Functions with NumPy's and SciPy's names have their parameters and defaults.

Parameters that are missing are answered with a remedy; other differences have their reasons here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from funcgrad.errors import MissingOptionError
from tests.together import together

PAIRS = {
    "funcgrad.numpy.fft": "numpy.fft",
    "funcgrad.numpy.linalg": "numpy.linalg",
    "funcgrad.scipy.fft": "scipy.fft",
    "funcgrad.scipy.linalg": "scipy.linalg",
    "funcgrad.scipy.ndimage": "scipy.ndimage",
    "funcgrad.scipy.optimize": "scipy.optimize",
    "funcgrad.scipy.signal": "scipy.signal",
    "funcgrad.scipy.sparse.linalg": "scipy.sparse.linalg",
    "funcgrad.integrate": "scipy.integrate",
    "funcgrad.interpolate": "scipy.interpolate",
    "funcgrad.optimize": "scipy.optimize",
}
"""Our modules, and theirs; ``tests/numpy/test_coverage.py`` compares the names of ``numpy``."""

OTHERWISE_ORDERED = {
    "tensordot": "a and b have the names of numpy.tensordot",
    **dict.fromkeys(
        "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn".split(),
        "the functions are NumPy's, whose array is a",
    ),
    "eigvals": "overwrite_b is as in eig",
    "odeint": "the times are ts, and further arguments follow",
    "minimize_scalar": "the solver needs bounds, and no bracket",
    "fixed_point": "xtol and maxiter go by keyword",
    "OdeSolution": "made by solve_ivp alone",
    "least_squares": "all options go by keyword",
}

OTHER_DEFAULTS = {
    **dict.fromkeys(("lower", "UPLO"), "None says that both triangles are there"),
    **dict.fromkeys(("epsabs", "epsrel"), "None is SciPy's value, in the dtype of the limits"),
    **dict.fromkeys(("jac", "method", "x_scale"), "derivatives are exact, and methods are others"),
    **dict.fromkeys(("bounds", "args"), "None and () have one meaning"),
    **dict.fromkeys(("xtol", "maxiter"), "the method has no other default"),
    "window": "hann, under the name that all versions of SciPy know",
    "hmax": "None says that steps have no limit, SciPy's 0 as well",
    "full_output": "False, SciPy's 0",
    "lwork": "None, which newer versions of SciPy warn of",
}

OF_SOME_VERSIONS = {"eigvals", "lwork"}
"""Where SciPy differs from us in some of its versions only."""


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """The functions of both: a name, ours and theirs."""
    for ours, theirs in PAIRS.items():
        module, other = import_module(ours), import_module(theirs)
        for name in module.__all__:
            function, peer = getattr(module, name), getattr(other, name, None)
            is_ufunc = isinstance(peer, np.ufunc)
            if callable(function) and callable(peer) and not is_ufunc:
                yield f"{ours}.{name}", function, peer


FUNCTIONS = {name: (ours, theirs) for name, ours, theirs in pairs()}


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except ValueError:  # some of NumPy's versions hide it
        return {}


def by_place(function: Callable[..., Any]) -> list[str]:
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [name for name, each in parameters(function).items() if each.kind in kinds]


def reordered(ours: Callable[..., Any], theirs: Callable[..., Any]) -> bool:
    mine, peers = by_place(ours), by_place(theirs)
    return bool(peers) and mine[: len(peers)] != peers[: len(mine)]


def unlike(ours: Callable[..., Any], theirs: Callable[..., Any]) -> set[str]:
    """The parameters of both that have several defaults."""
    mine, peers = parameters(ours), parameters(theirs)
    return {
        name
        for name in mine.keys() & peers.keys()
        if repr(mine[name].default) != repr(peers[name].default)
        and "no value" not in repr(peers[name].default)
    }


def unanswered(ours: Callable[..., Any], theirs: Callable[..., Any]) -> list[str]:
    """The parameters of theirs without an answer: ours lacks them, and a call does not say so."""
    mine = parameters(ours)
    named = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in mine.values()):
        return []
    needed = [each for each in mine.values() if each.default is each.empty]
    places = [None for each in needed if each.kind is not each.KEYWORD_ONLY]
    without = []
    for name, each in parameters(theirs).items():
        if name in mine or each.kind in named:
            continue
        try:
            ours(*places, **{name: None})
        except MissingOptionError as error:
            if name in str(error):
                continue
        except TypeError:
            pass
        without.append(name)
    return without


def test_many_functions_are_compared() -> None:
    assert len(FUNCTIONS) > 200


@together("name", FUNCTIONS)
def test_parameters_are_theirs(name: str) -> None:
    ours, theirs = FUNCTIONS[name]
    word = name.rpartition(".")[2]
    assert word in OTHERWISE_ORDERED or not reordered(ours, theirs)
    assert unlike(ours, theirs) <= OTHER_DEFAULTS.keys()
    if not inspect.isclass(ours):
        assert unanswered(ours, theirs) == []


def test_each_reason_is_needed() -> None:
    swapped = {name.rpartition(".")[2] for name, pair in FUNCTIONS.items() if reordered(*pair)}
    assert OTHERWISE_ORDERED.keys() - OF_SOME_VERSIONS == swapped - OF_SOME_VERSIONS
    differing = {name for pair in FUNCTIONS.values() for name in unlike(*pair)}
    assert OTHER_DEFAULTS.keys() - OF_SOME_VERSIONS == differing - OF_SOME_VERSIONS


def test_differences_are_seen() -> None:
    def theirs(a: Any, b: Any = 1.0) -> None: ...

    def ours(b: Any = 2.0, *, c: Any = 0) -> None: ...

    assert reordered(ours, theirs)
    assert unlike(ours, theirs) == {"b"}
    assert unanswered(ours, theirs) == ["a"]
    with pytest.raises(MissingOptionError, match="leave it out"):
        FUNCTIONS["funcgrad.scipy.fft.fft"][0]([1.0], workers=2)
