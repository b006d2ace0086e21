"""For each function of ``funcgrad.numpy`` that NumPy has too, how to draw arguments for it.

A generator takes a ``Draw`` and returns positional and named arguments. Ufuncs need none of their
own: their arguments follow from the number of them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import numpy as np

from tests.differential.family import Family, Generator, call
from tests.differential.fourier import FOURIER
from tests.differential.matrices import MATRICES
from tests.differential.products import PRODUCTS
from tests.differential.reductions import REDUCTIONS
from tests.differential.selections import SELECTIONS
from tests.differential.shapes import SHAPES
from tests.differential.surface import SURFACE

GENERATORS: Final[Family] = MappingProxyType(
    {**REDUCTIONS, **SELECTIONS, **SHAPES, **PRODUCTS, **FOURIER, **MATRICES, **SURFACE}
)


def generator_of(name: str) -> Generator | None:
    """The generator for a function of a name; None where there is none."""
    if name in GENERATORS:
        return GENERATORS[name]
    return _ufunc(getattr(np, name)) if isinstance(getattr(np, name, None), np.ufunc) else None


def _ufunc(function: np.ufunc) -> Generator:
    if function.nin == 1:
        return lambda d: call(d.array())
    return lambda d: call(*d.pair())
