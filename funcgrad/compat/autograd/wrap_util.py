"""``unary_to_nary``, under the name of autograd's module."""

from typing import TYPE_CHECKING

from funcgrad.compat.autograd.differential_operators import unary_to_nary as unary_to_nary
from funcgrad.foreign_names import missing_from as _missing_from

if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
