"""Fold sums of the result into contractions.

A sum over a product of arrays is a product with fewer indices, so the whole product need not be
stored. The terms of the sum stay the same. Adding before multiplying is left to ``relax.py``: it
changes which results an infinite factor turns into NaN.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> x, y = fnp.ones((30, 20, 10)), fnp.ones((20, 10, 40))
>>> staged = fg.program(lambda x, y: fnp.sum(fnp.einsum("nki,kij->nkj", x, y), axis=1))(x, y)
>>> print(fold_into_contractions(staged).to_text(sources=False))
program <lambda>(x: float64[30,20,10], y: float64[20,10,40]) -> float64[30,40]
  a: float64[30,40] = contract x y subscripts='nki,kij->nj'
  return a
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from types import MappingProxyType
from typing import Final

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape
from funcgrad._core.structure.folds import SUM
from funcgrad._core.structure.structures import LETTERS, Contraction, Reduction, Trait
from funcgrad._passes.workbench import Rules, Workbench, improve
from funcgrad._primitives.contraction import contract, matmul
from funcgrad._primitives.elementwise import multiply
from funcgrad._primitives.structural import reshape
from funcgrad._programs.equation import Equation
from funcgrad._programs.moved_elements import is_matrix_product, letters_of
from funcgrad._programs.program import Program

_LARGE: Final = 2**14
"""The number of products from which on NumPy's ``einsum`` is faster than an array of products."""

_SOME: Final = 2**11
_SHORT: Final = 64
"""If rows are shorter than ``_SHORT``, ``_SOME`` products suffice: ``sum`` takes time per row."""

_LONG: Final = 2**7
"""The length of rows from which on sums along them are faster as dot products."""


def fold_into_contractions(program: Program) -> Program:
    """Fold sums of products of arrays into the products.

    Results are rounded as if the terms had been added in another order: a sum of n terms in all is
    off by at most ``n * eps * sum(abs(a * b))``. NaN and infinities stay in their places, since the
    terms are the same.
    """
    return improve(program, CONTRACTING)


class _Site:
    """An equation on a workbench, with the queries that the rules below need."""

    __slots__ = ("bench", "equation", "params")

    def __init__(self, bench: Workbench, equation: Equation) -> None:
        self.bench = bench
        self.equation = equation
        self.params = dict(equation.params)

    def shape(self, variable: int) -> Shape:
        return self.bench.specs[variable].shape

    def is_floating(self, *variables: int) -> bool:
        """Whether variables have the result's dtype, float32 or float64, or are Python numbers."""
        dtype = self.equation.results[0].dtype
        specs = [self.bench.specs[variable] for variable in variables]
        return dtype.char in "fd" and all(spec.weak or spec.dtype == dtype for spec in specs)

    def only_use(self, variable: int) -> Equation | None:
        """The equation that makes a variable, if nothing but this equation reads the variable."""
        maker = self.bench.makers[variable]
        return maker if maker is not None and self.bench.is_read_once(variable) else None

    def append(self, operation: Primitive, *operands: int, **params: Hashable) -> int:
        """Add an equation to the bench, and return its variable."""
        return self.bench.put(self.equation, operation, operands, tuple(sorted(params.items())))

    def finished(self, variable: int) -> int:
        """Reshape a variable to the shape of the result, if it has another one."""
        shape = self.equation.results[0].shape
        if self.shape(variable) == shape:
            return variable
        return self.append(reshape, variable, shape=shape)


# Sums.


def _sum(bench: Workbench, equation: Equation) -> int | None:
    """Fold the sum of a product without other readers into the product."""
    variable = equation.operands[0]
    made, structure = bench.makers[variable], equation.operation.structure
    is_sum = isinstance(structure, Reduction) and structure.fold is SUM
    if not is_sum or made is None or not _is_product(made):
        return None
    site = _Site(bench, equation)
    maker = site.only_use(variable)
    if maker is None or not site.is_floating(variable, *maker.operands) or not site.params["axis"]:
        return None
    if 0 in site.shape(variable):
        return None
    x, y = maker.operands[0], maker.operands[-1]
    if not isinstance(maker.operation.structure, Contraction):
        return _sum_of_multiples(site, x, y)
    letters = letters_of(maker, bench.specs)
    if letters is None:
        return None
    first, second, out = letters
    sum_letters = _without(out, site.params["axis"])
    if not {*first} ^ {*second} <= {*sum_letters}:
        return None  # an index of only one factor would be summed before the product
    return site.finished(_product(site, x, y, first, second, sum_letters))


def _is_product(maker: Equation) -> bool:
    operation = maker.operation
    return isinstance(operation.structure, Contraction) or Trait.PRODUCT in operation.traits


def _product(site: _Site, x: int, y: int, first: str, second: str, out: str) -> int:
    """Write a contraction as the simplest operation: ``multiply``, ``matmul`` or ``contract``."""
    if first == second == out:
        return site.append(multiply, x, y)
    if is_matrix_product(first, second, out):
        return site.append(matmul, x, y)
    if is_matrix_product(second, first, out):
        return site.append(matmul, y, x)
    return site.append(contract, x, y, subscripts=f"{first},{second}->{out}")


def _without(letters: str, places: Sequence[int]) -> str:
    return "".join([letters[k] for k in range(len(letters)) if k not in places])


def _sum_of_multiples(site: _Site, x: int, y: int) -> int | None:
    """Write the sum of an elementwise product as a contraction, if that is faster."""
    shape, axis = site.shape(site.equation.operands[0]), site.params["axis"]
    size = prod(shape)
    if site.shape(x) != shape or site.shape(y) != shape:
        return None  # a factor is broadcast
    letters = LETTERS[: len(shape)]
    if len(axis) == len(shape):
        return site.finished(_product(site, x, y, letters, letters, ""))
    if len(shape) - 1 in axis:
        if size < _LARGE or shape[-1] < _LONG:
            return None
    elif size < (_SOME if shape[-1] < _SHORT else _LARGE):
        return None
    sum_letters = _without(letters, axis)
    return site.finished(
        site.append(contract, x, y, subscripts=f"{letters},{letters}->{sum_letters}")
    )


CONTRACTING: Final[Rules] = MappingProxyType({Reduction: (_sum,)})
