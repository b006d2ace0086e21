"""Factorizations: what an operation computes from triangular factors of matrices.

Solutions, inverses, determinants and triangular factors themselves come from one elimination. A
``Factorization`` is data: which factors, and what is made of them. So a compiler that can eliminate
has all of these operations, and two of them with one matrix can share its factors.

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
        L U is A with its rows in another order. L has ones on its diagonal. Rows are exchanged so
        that the pivot, which comes to the diagonal of U, is the greatest in what is left of its
        column.
    SQUARE_ROOT
        L L^H = A, with positive numbers on the diagonal of L. One triangle of A is read.
    TRIANGLE
        A is triangular itself: one triangle of it is read.
    """

    ELIMINATION = auto()
    SQUARE_ROOT = auto()
    TRIANGLE = auto()


class FromFactors(Enum):
    """Results that triangular factors of A give.

    Attributes
    ----------
    SOLUTIONS
        X with A X = B, where B is the second operand, a stack of matrices too. Stacks broadcast.
    INVERSE
        The inverse of A.
    DETERMINANT
        The determinant of A.
    LOGARITHM
        Two results: the sign of the determinant, or its phase, and the logarithm of its size.
    FACTOR
        The triangular factor L, or L^H if ``lower`` is false, with zeros beyond its triangle.
    """

    SOLUTIONS = auto()
    INVERSE = auto()
    DETERMINANT = auto()
    LOGARITHM = auto()
    FACTOR = auto()


class Factorization(NamedTuple):
    """A result of factors.

    Attributes
    ----------
    factors : Factors
    makes : FromFactors
    lower : bool
        Which triangle of A is read, where only one is, and which of two factors is the result.
    unit_diagonal : bool
        Whether the diagonal of A is not read either, and counts as ones.
    bands : tuple of int, optional
        The numbers of diagonals below and above the main one, where A is zero but for these and is
        held by its diagonals: ``bands[upper + i - j, j]`` is the element (i, j).
    """

    factors: Factors
    makes: FromFactors
    lower: bool = True
    unit_diagonal: bool = False
    bands: tuple[int, int] | None = None
