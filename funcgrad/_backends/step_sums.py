"""Sums of products over the steps of a loop, as one product after the loop.

The way back through a loop adds, at each step, a product of few rows to the cotangent of a matrix.
One product of all rows reads and writes the matrix once.

>>> import numpy as np
>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> from funcgrad._passes.pipeline import simplified
>>> def moments(xs):
...     return fg.scan(lambda c, x: (c + fnp.outer(x, fnp.sin(x)), None), fnp.zeros((8, 8)), xs)[0]
>>> staged = simplified(fg.program(moments)(np.ones((100, 8))))
>>> print(sum_after_loops(staged).to_text(sources=False))
program moments(xs: float64[100,8]) -> float64[8,8]
  a = constant float64[8,8] 0.0 0.0 0.0 ...
  b: float64[100,8] = scan xs body=<<lambda>> carried=0 length=100 shared=0
    program <lambda>(b: float64[8]) -> float64[8]
      a: float64[8] = sin b
      return a
  c: float64[8,8] = contract xs b subscripts='ca,cb->ab'
  d: float64[8,8] = add a c
  return d
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

from funcgrad._backends.control_forms import form_of
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import LETTERS, Loop, Trait
from funcgrad._primitives.contraction import contract
from funcgrad._primitives.elementwise import add
from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.equation import Equation
from funcgrad._programs.extract import extract
from funcgrad._programs.moved_elements import axes_along, letters_of, rearranged
from funcgrad._programs.program import Program

_STEPS: Final = 8
"""The fewest steps that pay."""

_SHARE: Final = 4
"""So many times as many elements as both factors a sum has at least. Gradients of recurrent nets
take 0.47 to 0.57 of the time with batches of 1, 0.70 to 0.74 with 4; a net in a differential
equation 0.8, sums of outer products 0.27. With 16 rows there is hardly a difference, and with 64
the memory of the factors costs more than the sums."""


class _Factor(NamedTuple):
    """A factor of a product in a body: its variable, and the letters of its axes.

    An axis of one element that the product does not have is a space.
    """

    variable: int
    letters: str


class _StepProduct(NamedTuple):
    """A product in a body: two factors, and the letters of the result."""

    factors: tuple[_Factor, _Factor]
    letters: str


class _StepSum(NamedTuple):
    """A leaf of a carry to which each step adds products and nothing else."""

    leaf: int
    products: list[_StepProduct]


def sum_after_loops(program: Program) -> Program:
    """Take sums of products out of loops; each becomes one product of the factors of all steps.

    The terms are added in another order. A loop that keeps no such sum stays as it is.
    """
    specs = program.index.specs
    sums: dict[int, tuple[Loop, list[_StepSum]]] = {}
    for position, equation in enumerate(program.equations):
        loop = form_of(equation, specs)
        if isinstance(loop, Loop) and _has_known_steps(loop):
            step_sums = [one for k in range(loop.carried) if (one := _step_sum(loop, k))]
            if step_sums:
                sums[position] = loop, step_sums
    if not sums:
        return program
    positions = iter(range(len(program.equations)))

    def step(draft: Draft, equation: Equation) -> Sequence[int]:
        position = next(positions)
        if position not in sums:
            return draft.append(equation)
        return _taken_out(draft, equation, *sums[position])

    return rewrite(program, step)


def _has_known_steps(loop: Loop) -> bool:
    known = loop.condition is None and loop.length is not None and loop.length >= _STEPS
    return known and not loop.examples and not loop.body.guards


def _step_sum(loop: Loop, leaf: int) -> _StepSum | None:
    """The products that each step adds to a leaf of the carry; None if it does anything else."""
    body: Program = loop.body
    index, start = body.index, loop.shared + leaf
    spec = body.inputs[start]
    if spec.dtype.char not in "fd" or spec.weak:
        return None
    terms, waiting = [], [body.outputs[leaf]]
    while waiting:
        variable = waiting.pop()
        maker = index.makers[variable]
        equation = body.equations[maker] if maker >= 0 else None
        if index.specs[variable] != spec or index.uses[variable] != 1:
            return None
        if equation is not None and equation.operation is add:
            waiting += equation.operands
        else:
            terms.append(variable)
    if start not in terms or len(terms) == 1:
        return None
    terms.remove(start)
    products = [_product(loop, variable) for variable in terms]
    known = [product for product in products if product is not None]
    return _StepSum(leaf, known) if len(known) == len(terms) else None


def _product(loop: Loop, variable: int) -> _StepProduct | None:
    """A product of few numbers at each step; None for other variables."""
    body: Program = loop.body
    maker, specs = body.index.makers[variable], body.index.specs
    if maker < 0:
        return None
    equation = body.equations[maker]
    letters = letters_of(equation, specs) or _letters_of_multiple(equation, specs)
    if letters is None:
        return None
    names = [text.replace(" ", "") for text in letters]
    if any(len({*text}) < len(text) for text in names):
        return None
    factors = [
        _source(body, _Factor(*pair)) for pair in zip(equation.operands, letters, strict=False)
    ]
    sizes = [prod(specs[factor.variable].shape) for factor in factors]
    dtype = specs[variable].dtype
    if any(specs[f.variable].dtype != dtype or specs[f.variable].weak for f in factors):
        return None
    if _SHARE * sum(sizes) > prod(specs[variable].shape):
        return None
    if not all(_changes(loop, factor.variable) for factor in factors):
        return None  # the changing factor would be summed before it is multiplied
    return _StepProduct((factors[0], factors[1]), letters[2])


def _letters_of_multiple(equation: Equation, specs: Sequence[Spec]) -> tuple[str, ...] | None:
    """The letters of an elementwise product, whose factors are repeated along axes; or None."""
    if Trait.PRODUCT not in equation.operation.traits or len(equation.operands) != 2:
        return None
    shape = equation.results[0].shape
    letters = LETTERS[: len(shape)]
    texts = []
    for operand in equation.operands:
        sizes = specs[operand].shape
        start = len(shape) - len(sizes)
        pairs = zip(sizes, shape[start:], letters[start:], strict=True)
        texts.append("".join([letter if size == whole else " " for size, whole, letter in pairs]))
    return (*texts, letters)


def _source(body: Program, factor: _Factor) -> _Factor:
    """The variable that a factor is another form of, which may exist for all steps anyway."""
    specs = body.index.specs
    while (maker := body.index.makers[factor.variable]) >= 0:
        equation = body.equations[maker]
        piece = rearranged(equation, specs)
        axes = None if piece is None else axes_along(piece, specs[equation.operands[0]].shape)
        if axes is None:
            break
        pairs = [*zip(axes, factor.letters, strict=True)]
        if any(axis is None and letter != " " for axis, letter in pairs):
            break
        letters = {axis: letter for axis, letter in pairs if axis is not None}
        source = equation.operands[0]
        rank = len(specs[source].shape)
        factor = _Factor(source, "".join([letters.get(axis, " ") for axis in range(rank)]))
    return factor


def _changes(loop: Loop, variable: int) -> bool:
    """Whether a variable of the body may differ from step to step."""
    constants = range(len(loop.body.inputs), loop.body.index.first_result)
    return variable >= loop.shared and variable not in constants


def _taken_out(
    draft: Draft, equation: Equation, loop: Loop, sums: Sequence[_StepSum]
) -> Sequence[int]:
    """Append a loop without some sums, and the sums; return the variables of all results."""
    body: Program = loop.body
    arrays = range(loop.shared + loop.carried, len(body.inputs))
    factors = [f.variable for one in sums for product in one.products for f in product.factors]
    ys = [*body.outputs[loop.carried :]]
    stacked = [*dict.fromkeys(v for v in factors if v not in arrays)]
    more = [variable for variable in stacked if variable not in ys]
    dropped = {one.leaf for one in sums}
    leaves = [k for k in range(loop.carried) if k not in dropped]
    inputs = [*range(loop.shared), *[loop.shared + k for k in leaves], *arrays]
    lean = loop._replace(
        body=extract(body, inputs, [*[body.outputs[k] for k in leaves], *ys, *more]),
        carried=len(leaves),
    )
    specs = [body.index.specs[variable] for variable in more]
    rows = [Spec((loop.length or 0, *spec.shape), spec.dtype) for spec in specs]
    old = equation.results
    moved = replace(
        equation,
        operands=tuple([equation.operands[k] for k in inputs]),
        params=tuple(sorted(lean.params().items())),
        results=(*[old[k] for k in leaves], *old[loop.carried :], *rows),
    )
    results = draft.append(moved)
    places = dict(zip([*ys, *more], results[len(leaves) :], strict=True))
    places |= {k: equation.operands[k] for k in arrays}
    ends = dict(zip(leaves, results, strict=False))
    for one in sums:
        total = equation.operands[loop.shared + one.leaf]
        for product in one.products:
            term = _of_all(draft, equation, product, places)
            total = draft.put(equation, add, [total, term], {})
        ends[one.leaf] = total
    stacks = results[len(leaves) : len(leaves) + len(ys)]
    return [*[ends[k] for k in range(loop.carried)], *stacks]


def _of_all(
    draft: Draft, equation: Equation, product: _StepProduct, places: Mapping[int, int]
) -> int:
    """Append the product of the factors of all steps."""
    used = "".join([factor.letters for factor in product.factors])
    step = next(letter for letter in LETTERS if letter not in used)
    operands, texts = [], []
    for variable, letters in product.factors:
        rows = draft.spec(places[variable]).shape
        sizes = [size for size, letter in zip(rows[1:], letters, strict=True) if letter != " "]
        operands.append(draft.reshaped(equation, places[variable], (rows[0], *sizes)))
        texts.append(step + letters.replace(" ", ""))
    subscripts = f"{texts[0]},{texts[1]}->{product.letters}"
    return draft.put(equation, contract, operands, {"subscripts": subscripts})
