"""``ArrayBox``, by which code asks whether a value is traced: ``isinstance(x, ArrayBox)``."""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.tensor.tensor import Tensor

ArrayBox = Tensor


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
