"""``unary_to_nary``, under the name of autograd's module."""

from funcgrad.compat.autograd.differential_operators import unary_to_nary as unary_to_nary
