"""``unary_to_nary``, under the name of autograd's module."""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.compat.autograd.differential_operators import unary_to_nary as unary_to_nary

if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
