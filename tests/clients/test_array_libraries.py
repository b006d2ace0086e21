"""Libraries over arrays of any kind: tensors in every mode agree with NumPy's arrays.

The extra ``dev`` has them all. A library that is not installed has no tests, unless
SciPy contains a copy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.clients.uses import LIBRARIES, Use, X, check_every_mode
from tests.together import together


def place_of(library: str) -> str | None:
    """Where a library is installed."""
    if find_spec(library.partition(".")[0]):
        return library
    brought = f"scipy._lib.{library}"
    return brought if library.startswith("array_api") and find_spec(brought) else None


def is_staged(library: str, number: int) -> bool:
    """Whether a use is tried in ``jit``.

    Xarray leads to all modules that are loaded, and the array API's libraries to all of Dask's:
    ``jit`` takes long to find that these are more than it can watch. One such use is enough.
    """
    return library != "xarray" and (number == 0 or not library.startswith("array_api"))


USES = [
    pytest.param(place, use, is_staged(library, number), id=f"{library}-{name}")
    for library, uses in LIBRARIES.items()
    if (place := place_of(library))
    for number, (name, use) in enumerate(uses.items())
]


@pytest.mark.slow
@pytest.mark.parametrize(("library", "use", "stages"), USES)
def test_a_library_computes_with_tensors_in_every_mode(
    library: str, use: Use, stages: bool
) -> None:
    module = importlib.import_module(library)
    if library == "einops":
        fg.interop.einops.register()
    check_every_mode(module, use, stages)


QUESTIONS: MappingProxyType[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        "is_array_api_obj": lambda m, t: m.is_array_api_obj(t),
        "is_numpy_array": lambda m, t: not m.is_numpy_array(t),
        "array_namespace": lambda m, t: m.array_namespace(t, 1.0, None) is fnp,
        "device": lambda m, t: m.device(t) == "cpu",
        "size": lambda m, t: m.size(t) == 12,
        "is_lazy_array": lambda m, t: not m.is_lazy_array(t),
    }
)


@together("name", QUESTIONS)
def test_questions_of_the_compatibility_layer(name: str) -> None:
    place = place_of("array_api_compat")
    assert place is not None
    assert QUESTIONS[name](importlib.import_module(place), fg.tensor(X))
