"""Factorizations: results that an operation computes from triangular factors of matrices.

Solutions, inverses, determinants and the triangular factors themselves come from one elimination. A
``Factorization`` is data: it names the factors and the result. So a compiler that implements
elimination has all of these operations, and two operations on one matrix can share its factors.

>>> Factorization(Factors.ELIMINATION, FromFactors.SOLUTIONS).lower
True
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Factors(Enum):
    """Triangular factors of a matrix A. L is lower triangular, U upper.

    Attributes
    ----------
    ELIMINATION
        L U is A with permuted rows. L has ones on its diagonal. Rows are exchanged so that the
        pivot, which becomes the diagonal element of U, is the greatest in the rest of its column.
    SQUARE_ROOT
        L L^H = A, with a positive diagonal of L. One triangle of A is read.
    TRIANGLE
        A is triangular: one triangle of it is read.
    """

    ELIMINATION = auto()
    SQUARE_ROOT = auto()
    TRIANGLE = auto()


class FromFactors(Enum):
    """Results that are computed from triangular factors of A.

    Attributes
    ----------
    SOLUTIONS
        X with A X = B. B is the second operand, also a stack of matrices. Stacks broadcast.
    INVERSE
        The inverse of A.
    DETERMINANT
        The determinant of A.
    LOGARITHM
        Two results: the sign (or phase) of the determinant, and the logarithm of its absolute
        value.
    FACTOR
        The triangular factor L, or L^H if ``lower`` is false, with zeros beyond its triangle.
    """

    SOLUTIONS = auto()
    INVERSE = auto()
    DETERMINANT = auto()
    LOGARITHM = auto()
    FACTOR = auto()


class Factorization(NamedTuple):
    """A result computed from factors.

    Attributes
    ----------
    factors : Factors
    makes : FromFactors
    lower : bool
        Which triangle of A is read (if only one is), and which of two factors is the result.
    unit_diagonal : bool
        Whether the diagonal of A is not read, and counts as ones.
    bands : tuple of int, optional
        The numbers of diagonals below and above the main one, for a banded A that is stored by
        diagonals: ``bands[upper + i - j, j]`` is the element (i, j).
    raises : bool
        Whether a matrix without factors raises an error; otherwise its results are NaN.
    """

    factors: Factors
    makes: FromFactors
    lower: bool = True
    unit_diagonal: bool = False
    bands: tuple[int, int] | None = None
    raises: bool = True
