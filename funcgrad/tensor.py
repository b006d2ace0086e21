"""``Tensor``: an immutable array value, and what Python's operators do with it.

A tensor holds a raw value: an ``ndarray`` that nobody else can write to, or a NumPy scalar where
there are no dimensions (arithmetic on those is three times quicker than on 0-d arrays). Tracers are
tensors too, so ``isinstance(x, Tensor)`` holds inside transformations.

The operators bind their primitives directly, since a detour through the array namespace costs as
much as the operation itself on small arrays; the methods (``t.mean()``) take it.

>>> x = tensor([1.0, 2.0])
>>> x * x + 1
Tensor([2., 5.])
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from funcgrad.border import ArrayLike, explained, freeze, is_frozen, operand
from funcgrad.errors import ImmutableError, ShapeError, TracerError
from funcgrad.primitive import Primitive
from funcgrad.primitives import bitwise as bw
from funcgrad.primitives import comparison as cmp
from funcgrad.primitives import elementwise as ew
from funcgrad.primitives import rounding as rnd
from funcgrad.primitives.contraction import matmul
from funcgrad.primitives.indexing import index
from funcgrad.primitives.structural import matrix_transpose, reverse_axes
from funcgrad.shape import Shape, dtype_of, shape_of
from funcgrad.trace import RAW, Trace, TracedValue, Value, bind, bind1, bind2
