"""Programs of small arrays, element by element: each element becomes a variable of its own.

A batch of such a program has a vector of examples for each element. All of its operations are then
over the examples, so that they share loops, and values stay in registers. As arrays, vectors would
have the elements of an example side by side, and taking them apart would take most of the time.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> staged = fg.program(lambda x: fnp.sum(x[::-1] * x))(fg.tensor([1.0, 2.0]))
>>> print(by_elements(staged).to_text(sources=False))
program <lambda>(a: float64[2]) -> float64[]
  b = constant 0.0
  c: float64[] = view a key=(1,)
  d: float64[] = view a key=(0,)
  e: float64[] = view a key=(0,)
  f: float64[] = view a key=(1,)
  g: float64[] = multiply c e
  h: float64[] = multiply d f
  i: float64[] = add g h
  j: float64[] = add i b
  return j
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from funcgrad._backends.decompose import decomposed
from funcgrad._backends.native.element_matrices import solutions
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape, Spec, dtype_of
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._core.structure.index_maps import Piece
from funcgrad._core.structure.structures import (
    Choice,
    Contraction,
    Control,
    Elementwise,
    Factored,
    Gather,
    Loop,
    Movement,
    Reduction,
)
from funcgrad._core.trace import RAW, Value
from funcgrad._primitives.elementwise import multiply
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import stack
from funcgrad._primitives.structural import cast, reshape, view
from funcgrad._programs.algebra import ALGEBRA
from funcgrad._programs.equation import Equation
from funcgrad._programs.inline import inlined
from funcgrad._programs.moved_elements import letters_of, pieces_of
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import flat_program

MOST: Final = 16
"""The most elements of an array that comes apart."""


class _Apart(NamedTuple):
    """An array whose elements are values of their own, in C order."""

    items: Sequence[Value]
    shape: Shape


_Variable: TypeAlias = "Value | _Apart"

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.intp]]"
"""The numbers of an array's elements in C order, in the shape of the array."""


def by_elements(program: Program) -> Program:
    """Let small arrays of a program, and of the programs inside, come apart."""
    return _taken_apart(program, [False] * len(program.inputs), [False] * len(program.outputs))


def _comes_apart(spec: Spec) -> bool:
    return spec.shape != () and 0 < prod(spec.shape) <= MOST


def _taken_apart(program: Program, inputs: Sequence[bool], outputs: Sequence[bool]) -> Program:
    """The program whose flagged inputs and outputs are elements, and all small arrays inside."""
    key = "by elements", (*inputs,), (*outputs,)
    return program.derived(key, lambda: _staged(program, inputs, outputs))


def _staged(program: Program, inputs: Sequence[bool], outputs: Sequence[bool]) -> Program:
    plain = decomposed(inlined(program), _lacks)
    pairs = [*zip(plain.inputs, inputs, strict=True)]

    def run(values: Sequence[Value]) -> list[Value]:
        known = _grouped(values, pairs)
        known += [constant.value for constant in plain.constants]
        for equation in plain.equations:
            known += _results(equation, [known[operand] for operand in equation.operands], plain)
        outs = [known[variable] for variable in plain.outputs]
        return _spread(outs, plain.output_specs, outputs)

    return flat_program(program.name, run, _spread_specs(pairs))


def _lacks(operation: Primitive) -> bool:
    return isinstance(operation.structure, Reduction) and operation.structure.fold is None


# ----------------------------------------------------------------------- arrays and their elements


def _items(x: _Variable, spec: Spec) -> Sequence[Value]:
    """The elements of a value in C order."""
    if isinstance(x, _Apart):
        return x.items
    if not spec.shape:
        return [x]
    return [_element(x, spec.shape, number) for number in range(prod(spec.shape))]


def _element(x: Value, shape: Shape, number: int) -> Value:
    """The element of an array with a number in C order."""
    place = tuple(map(int, np.unravel_index(number, shape)))
    return x[place] if type(x) is np.ndarray else view(x, key=Key(place))


def _whole(x: _Variable) -> Value:
    """A value as an array."""
    if not isinstance(x, _Apart):
        return x
    flat = stack(*x.items, axis=0)
    return flat if len(x.shape) == 1 else reshape(flat, shape=x.shape)


def _together(items: Sequence[Value], spec: Spec) -> _Variable:
    """The array with these elements."""
    return _Apart(items, spec.shape) if spec.shape else items[0]


def _grouped(values: Sequence[Value], pairs: Sequence[tuple[Spec, bool]]) -> list[_Variable]:
    """Values of the specs, the elements of flagged ones together."""
    waiting = iter(values)
    return [
        _Apart([*islice(waiting, prod(spec.shape))], spec.shape) if flag else next(waiting)
        for spec, flag in pairs
    ]


def _spread(
    values: Sequence[_Variable], specs: Sequence[Spec], flags: Sequence[bool]
) -> list[Value]:
    """All values one after the other, flagged ones as elements."""
    spread: list[Value] = []
    for value, spec, flag in zip(values, specs, flags, strict=True):
        spread += _items(value, spec) if flag else [_whole(value)]
    return spread


def _spread_specs(pairs: Sequence[tuple[Spec, bool]]) -> list[Spec]:
    return [
        one
        for spec, flag in pairs
        for one in ([Spec((), spec.dtype)] * prod(spec.shape) if flag else [spec])
    ]


# ------------------------------------------------------------------------------------- equations


def _results(
    equation: Equation, operands: Sequence[_Variable], program: Program
) -> Sequence[_Variable]:
    """The results of an equation, as elements where it can be."""
    structure = equation.operation.structure
    specs = [program.specs()[operand] for operand in equation.operands]
    if isinstance(structure, Control):
        results = _of_programs(equation, structure, operands, specs)
        if results is not None:
            return results
    elif len(equation.results) == 1:
        (spec,) = equation.results
        if _comes_apart(spec) or (not spec.shape and any(map(_comes_apart, specs))):
            items = _of_elements(equation, structure, operands, specs)
            if items is not None:
                return [_together(items, spec)]
    outs = equation.operation(*map(_whole, operands), **dict(equation.params))
    return outs if isinstance(outs, list | tuple) else [outs]


def _of_elements(
    equation: Equation, structure: object, operands: Sequence[_Variable], specs: Sequence[Spec]
) -> Sequence[Value] | None:
    """The elements of a result in C order; None if the operation stays on arrays."""
    (spec,), params = equation.results, dict(equation.params)
    by_variable = dict(zip(equation.operands, specs, strict=True))
    if isinstance(structure, Movement):
        pieces = None if structure.adds else pieces_of(equation, by_variable)
        return None if pieces is None else _moved(pieces, operands, specs, spec)
    if not all(prod(s.shape) <= MOST for s in specs):
        return None
    arrays = [_items(x, s) for x, s in zip(operands, specs, strict=True)]
    numbers = [np.arange(prod(s.shape)).reshape(s.shape) for s in specs]
    if isinstance(structure, Elementwise):
        spread = [np.broadcast_to(along, spec.shape).ravel().tolist() for along in numbers]
        return [
            equation.operation(*[x[k] for x, k in zip(arrays, at, strict=True)], **params)
            for at in zip(*spread, strict=True)
        ]
    if isinstance(structure, Reduction) and {*params} == {"axis", "keepdims"}:
        return reduced(structure, arrays[0], numbers[0], spec, params["axis"])
    if isinstance(structure, Contraction) and spec.dtype.kind in "fciu":
        letters = letters_of(equation, by_variable)
        return None if letters is None else contracted(letters, arrays, numbers, spec)
    if isinstance(structure, Factored):
        return _solved(structure.factorization(**params), arrays, specs)
    if isinstance(structure, Gather) and all(type(x) in RAW for x in operands[1:]):
        places = equation.operation.evaluate(numbers[0], *operands[1:], **params)
        return [arrays[0][k] for k in np.ravel(places).tolist()]
    return None


def _moved(
    pieces: Sequence[Piece], operands: Sequence[_Variable], specs: Sequence[Spec], spec: Spec
) -> Sequence[Value]:
    items: list[Value] = [spec.dtype.type(0)] * prod(spec.shape)
    for piece in pieces:
        x, source = operands[piece.operand], specs[piece.operand]
        places = _numbers(piece.shape, piece.start, piece.strides)
        targets = _numbers(piece.shape, piece.to, piece.to_strides)
        for to, place in zip(targets, places, strict=True):
            if isinstance(x, _Apart):
                element = x.items[place]
            else:
                element = _element(x, source.shape, place) if source.shape else x
            items[to] = as_dtype(element, spec.dtype)
    return items


def as_dtype(x: Value, dtype: np.dtype[Any]) -> Value:
    return x if dtype_of(x) == dtype else cast(x, dtype=dtype)


def _numbers(shape: Shape, start: int, strides: Sequence[int]) -> list[int]:
    """The numbers of the elements that a piece goes through."""
    numbers = np.full(shape, start)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        numbers += (np.arange(size) * stride).reshape(-1, *(1,) * (len(shape) - axis - 1))
    return numbers.ravel().tolist()


def reduced(
    structure: Reduction, x: Sequence[Value], numbers: _Numbers, spec: Spec, axis: tuple[int, ...]
) -> Sequence[Value] | None:
    fold = structure.fold
    if fold is None or not axis or not numbers.size:
        return None
    axes = sorted([one % numbers.ndim for one in axis])
    left = [one for one in range(numbers.ndim) if one not in axes]
    rows = numbers.transpose(*left, *axes).reshape(prod(spec.shape), -1).tolist()
    items = []
    for row in rows:
        states = [
            fold.of(ALGEBRA, spec.dtype, k, x[number])
            if fold.start
            else as_dtype(x[number], spec.dtype)
            for k, number in enumerate(row)
        ]
        if fold.identity is not None:
            states.append(spec.dtype.type(fold.identity))
        items.append(fold.element(ALGEBRA, _folded(fold.combine, states)))
    return items


def _folded(combine: Callable[..., Any], states: Sequence[Any]) -> Any:
    """The states as one: neighbours first, so that few wait for another."""
    while len(states) > 1:
        pairs = [states[k : k + 2] for k in range(0, len(states), 2)]
        states = [combine(ALGEBRA, *pair) if len(pair) > 1 else pair[0] for pair in pairs]
    return states[0]


def contracted(
    letters: tuple[str, str, str],
    arrays: Sequence[Sequence[Value]],
    numbers: Sequence[_Numbers],
    spec: Spec,
) -> Sequence[Value]:
    first, second, out = letters
    sizes = dict(zip(first + second, numbers[0].shape + numbers[1].shape, strict=True))
    summed = [letter for letter in sizes if letter not in out]
    items = []
    for place in np.ndindex(spec.shape):
        at, terms = dict(zip(out, place, strict=True)), list[Value]()
        for inside in np.ndindex(*[sizes[letter] for letter in summed]):
            at.update(zip(summed, inside, strict=True))
            factors = [
                as_dtype(x[int(along[tuple([at[letter] for letter in text])])], spec.dtype)
                for x, along, text in zip(arrays, numbers, (first, second), strict=True)
            ]
            terms.append(multiply(*factors))
        zeros = [spec.dtype.type(0)] if summed else []  # one product may be -0.0
        items.append(_folded(lambda m, x, y: m.add(x, y), [*terms, *zeros]))
    return items


def _solved(
    form: Factorization, arrays: Sequence[Sequence[Value]], specs: Sequence[Spec]
) -> Sequence[Value] | None:
    """The elements of solutions or of an inverse that are NaN if there is none; else None."""
    dtype, n = specs[0].dtype, specs[0].shape[-1]
    is_known = form.factors is Factors.ELIMINATION and form.bands is None and not form.raises
    is_single = n > 0 and all(len(spec.shape) == 2 and spec.dtype == dtype for spec in specs)
    if not is_known or not is_single or dtype.kind != "f":
        return None
    if form.makes is FromFactors.SOLUTIONS:
        right = arrays[1]
    elif form.makes is FromFactors.INVERSE:
        right = [*np.eye(n, dtype=dtype).flat]
    else:
        return None
    return [x for row in solutions(_rows(arrays[0], n), _rows(right, n)) for x in row]


def _rows(items: Sequence[Value], count: int) -> Sequence[Sequence[Value]]:
    width = len(items) // count
    return [items[k * width : (k + 1) * width] for k in range(count)]


# ----------------------------------------------------------------------------- loops and choices


def _of_programs(
    equation: Equation, structure: Control, operands: Sequence[_Variable], specs: Sequence[Spec]
) -> list[_Variable] | None:
    """The results of a loop or a choice whose programs come apart, too; None for others."""
    params = dict(equation.params)
    form = None if structure.form is None else structure.form(**params)
    is_choice, results = isinstance(form, Choice), equation.results
    if isinstance(form, Loop):
        is_known = not form.examples and params == form.params()
    else:
        is_known = is_choice or structure.begins is not None
    if not is_known:
        return None
    first, stop, count = int(is_choice), len(operands), max(len(operands), len(results))
    if isinstance(form, Loop):
        stop, count = form.shared + form.carried, form.carried
    flags = [first <= k < stop and _comes_apart(spec) for k, spec in enumerate(specs)]
    for name, value in params.items():
        if isinstance(value, Program):
            ends = [k < count and _comes_apart(s) for k, s in enumerate(value.output_specs)]
            params[name] = _taken_apart(value, flags[first:][: len(value.inputs)], ends)
    if not is_choice:
        shared, carried = params["shared"], params["carried"]
        sizes = [prod(s.shape) if flag else 1 for s, flag in zip(specs, flags, strict=True)]
        params["shared"] = sum(sizes[:shared])
        params["carried"] = sum(sizes[shared : shared + carried])
    outs = equation.operation(*_spread(operands, specs, flags), **params)
    ends = [k < count and _comes_apart(spec) for k, spec in enumerate(results)]
    return _grouped(outs, [*zip(results, ends, strict=True)])
