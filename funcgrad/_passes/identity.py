"""Replace products with an identity matrix by copies of the other factor.

``jacfwd`` pushes forward an identity matrix of directions. If the function begins with a linear
map, such as ``x @ w``, this matrix is multiplied by ``w``.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def jacobian(x, w):
...     return fg.jacfwd(lambda x: fnp.tanh(x @ w))(x)
>>> staged = fg.program(jacobian)(fnp.ones(100), fnp.ones((100, 80)))
>>> count = [equation.operation.name for equation in staged.equations].count
>>> copied = copy_products_with_identities(staged)
>>> count("matmul"), [equation.operation.name for equation in copied.equations].count("matmul")
(2, 1)
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad._core.structure.index_maps import dense_strides
from funcgrad._core.structure.structures import Contraction
from funcgrad._passes.workbench import Rules, Workbench, improve
from funcgrad._primitives.identity_product import identity_product
from funcgrad._programs.equation import Constant, Equation
from funcgrad._programs.moved_elements import letters_of
from funcgrad._programs.program import Program

_LEAST_VOLUME: Final = 2**18
"""The number of multiplications from which on a product takes longer than a copy."""

_LEAST_ROWS: Final = 16
_LEAST_ROWS_TURNED: Final = 48
"""The rows of the matrix from which on a product takes longer than a copy, and longer than a copy
that transposes the array, which takes three times as long."""


def copy_products_with_identities(program: Program) -> Program:
    """Replace products with a constant identity matrix by copies if that is faster.

    No bit changes: the copy turns -0.0 into 0.0, as sums of products do. If an element is not
    finite, the product itself is computed, since infinities times 0 are NaN.

    The pass runs after the folding of sums and transpositions into products.
    """
    if not any(_is_identity(constant) for constant in program.constants):
        return program
    return improve(program, _RULES)


def _is_identity(constant: Constant) -> bool:
    shape = constant.spec.shape
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < _LEAST_ROWS or not constant.is_raw:
        return False
    value = np.asarray(constant.value)
    return bool((value.diagonal() == 1).all()) and np.count_nonzero(value) == shape[0]


def _product(bench: Workbench, equation: Equation) -> int | None:
    if not any(variable in bench.constants for variable in equation.operands):
        return None
    subscripts = letters_of(equation, bench.specs)
    if subscripts is None:
        return None
    (first, second, out), (x, y) = subscripts, equation.operands
    for matrix, other, matrix_letters, letters in ((x, y, first, second), (y, x, second, first)):
        spec = bench.specs[other]
        if (
            matrix in bench.constants
            and spec == equation.results[0]
            and spec.dtype.char in "fd"
            and _is_identity(bench.constants[matrix])
        ):
            axis = _replaced(matrix_letters, letters, out)
            if axis in (-1, -2) and len(letters) > 1 and _takes_less(bench, other, axis):
                return bench.put(equation, identity_product, (other,), (("axis", axis),))
    return None


def _replaced(matrix: str, letters: str, out: str) -> int:
    """The axis, counted from the end, that a matrix multiplies; 0 unless it is unique."""
    for before, after in ((matrix[0], matrix[1]), (matrix[1], matrix[0])):
        if before in letters and letters.replace(before, after) == out:
            return letters.index(before) - len(letters)
    return 0


def _takes_less(bench: Workbench, variable: int, axis: int) -> bool:
    shape, piece = bench.specs[variable].shape, bench.rearranged(variable)
    turned = piece is not None and piece.strides != dense_strides(shape)
    least = _LEAST_ROWS_TURNED if turned else _LEAST_ROWS
    return shape[axis] >= least and prod(shape) * shape[axis] >= _LEAST_VOLUME


_RULES: Final[Rules] = MappingProxyType({Contraction: (_product,)})
