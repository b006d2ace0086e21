"""Causes of NaN and infinity as values.

>>> import funcgrad as fg
>>> from funcgrad.debug.replays import replay
>>> (cause,) = causes_of(replay(lambda x: fg.numpy.log(x), (fg.tensor([1.0, 0.0]),), {}))
>>> cause.operation, cause.place, cause.text
('log', (1,), 'log(0.0) = -inf')
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import shape_of
from funcgrad._core.structure.structures import Elementwise
from funcgrad.debug.elements import Mask, relation
from funcgrad.debug.replays import Replay, ReplayEvent, ResultPlace
from funcgrad.debug.value_origins import Origin, infinity_origins, is_infinite, is_nan, origins_of

_SHOWN = 3
"""The maximum number of elements of an operand that are shown."""


@dataclass(frozen=True, slots=True)
class Cause:
    """An operation that made NaN or infinity from finite elements, or NaN from infinities.

    Attributes
    ----------
    operation : str
        The name of the operation; empty if an argument or a closed-over value was not finite.
    line : str
        The user's file and line.
    derivative : str
        ``"pull"`` or ``"tangent"`` if the operation belongs to the derivative of another operation;
        else empty.
    derivative_of, derivative_line : str
        The name and the line of that other operation.
    text : str
        The operation with its values at the place, such as ``"log(0.0) = -inf"``.
    place : tuple of int
        The index of the first element of the result that is not finite.
    steps : tuple of pairs
        The loops around it, the outermost first: the name, and the index of the step.
    examples : tuple of int
        The index of the example in each ``vmap`` around it, the outermost first.
    bad_examples, all_examples : int
        How many examples are not finite, and how many examples there are.
    spoilt : int
        How many elements of the function's results are not finite because of this operation.
    origins : tuple of Cause
        For NaN from infinities: the causes of the infinities.
    partners : tuple of str
        For NaN from infinities: the operations that made the other operands.
    remedy : str
    """

    operation: str
    line: str
    derivative: str = ""
    derivative_of: str = ""
    derivative_line: str = ""
    text: str = ""
    place: tuple[int, ...] = ()
    steps: tuple[tuple[str, int], ...] = ()
    examples: tuple[int, ...] = ()
    bad_examples: int = 0
    all_examples: int = 0
    spoilt: int = 0
    origins: tuple[Cause, ...] = ()
    partners: tuple[str, ...] = ()
    remedy: str = ""

    @property
    def named(self) -> str:
        """The operation with its line in the user's code."""
        if not self.derivative:
            return self.operation + _at(self.line)
        inside = f"the {self.derivative} of {self.derivative_of}{_at(self.derivative_line)}"
        elsewhere = "" if self.line in ("", self.derivative_line) else _at(self.line)
        return f"{self.operation} in {inside}{elsewhere}"


def _at(line: str) -> str:
    return f" at {line}" if line else ""


def causes_of(run: Replay) -> list[Cause]:
    """Return the causes of the non-finite elements of the results, the worst first."""
    return [_cause_of(origin, spoilt) for origin, spoilt in origins_of(run)]


def _cause_of(origin: Origin, spoilt: int = 0) -> Cause:
    """Describe an origin in words and values."""
    node, mask = origin.node, origin.mask
    place = tuple(int(k) for k in np.unravel_index(int(np.argmax(mask)), mask.shape))
    if node.primitive is None:
        value = _number(np.asarray(node.outs[origin.position])[place])
        return Cause("", "", text=f"{_argument(node)} is {value}", place=place, spoilt=spoilt)
    context, forward = node.context, node.forward
    behind = None if forward is None else forward.node
    entry = None if context.entry is None else context.entry[0]
    steps, sizes = context.steps, context.sizes
    if behind is not None:
        steps, sizes = steps or behind.context.steps, sizes or behind.context.sizes
    if mask.shape[: len(sizes)] != sizes:
        sizes = ()
    rank = len(sizes)
    bad = np.any(mask, axis=tuple(range(rank, mask.ndim)))
    if origin.outside is not None:
        value = _number(np.asarray(node.operands[origin.outside])[place])
        reader = f"{node.primitive.name} reads it{_at(context.line)}"
        text = f"a closed-over value is {value}; {reader}"
        return Cause("", context.line, text=text, place=place, steps=steps, spoilt=spoilt)
    text = _text(node, origin.position, place)
    origins = tuple(map(_cause_of, infinity_origins(origin)))
    partners = _partners(origin, place) if origins else ()
    remedies = [origin.remedy for origin in origins if origin.remedy != _GENERAL]
    remedies += [(entry or node.primitive).remedy, _PAIR if partners else "", _GENERAL]
    return Cause(
        node.primitive.name,
        context.line,
        context.derivative,
        "" if entry is None else entry.name,
        "" if behind is None else behind.line,
        text,
        place,
        steps,
        place[:rank],
        int(np.count_nonzero(bad)) if rank else 0,
        int(bad.size) if rank else 0,
        spoilt,
        origins,
        partners,
        next(filter(None, remedies)),
    )


_PAIR = "mask by where(mask, x, 0), also inside of the infinite term, not by a product with 0"
_GENERAL = "keep the operands in the range of the dtype, by scaling, clipping or float64"


def _number(value: object) -> str:
    return repr(value.item() if isinstance(value, np.generic | np.ndarray) else value)


def _elements(node: ReplayEvent, position: int, place: tuple[int, ...]) -> list[Mask]:
    """Return the elements of the operands on which one element of the result depends."""
    assert node.primitive is not None
    one = np.zeros(shape_of(node.outs[position]), np.bool_)
    one[place] = True
    links = relation(node.primitive, node.operands, node.params or {}, one.shape)
    return links.backward(one)


def _text(node: ReplayEvent, position: int, place: tuple[int, ...]) -> str:
    """Return the operation with its values at a place."""
    assert node.primitive is not None
    pairs = zip(node.operands, _elements(node, position, place), strict=True)
    read = [np.asarray(operand)[mask] for operand, mask in pairs]
    single = isinstance(node.primitive.structure, Elementwise)
    zeros = any(is_infinite(numbers).any() for numbers in read)  # infinity times zero is NaN
    shown = [_shown(numbers, single, zeros) for numbers in read]
    result = _number(np.asarray(node.outs[position])[place])
    return f"{node.primitive.name}({', '.join(shown)}) = {result}"


def _shown(numbers: np.ndarray[Any, Any], single: bool, zeros: bool) -> str:
    if single and numbers.size == 1:
        return _number(numbers[0])
    odd = is_nan(numbers) | is_infinite(numbers)
    order = np.argsort(~odd, kind="stable")[:_SHOWN]
    if not odd.any() and numbers.size and numbers.dtype.kind in "fc":
        sizes = np.abs(numbers)
        order = np.argsort(sizes if zeros else -sizes, kind="stable")[:_SHOWN]
    inside = ", ".join([_number(numbers[k]) for k in order])
    more = f", … {numbers.size} elements" if numbers.size > _SHOWN else ""
    return f"[{inside}{more}]"


def _partners(origin: Origin, place: tuple[int, ...]) -> tuple[str, ...]:
    """Return where the finite operands come from, if NaN was made from infinities."""
    node = origin.node
    texts = []
    for operand, mask in enumerate(_elements(node, origin.position, place)):
        numbers = np.asarray(node.operands[operand])[mask]
        source = node.places[operand]
        if numbers.size and not (is_nan(numbers) | is_infinite(numbers)).any():
            maker = "a closed-over value" if source is None else _made_by(source)
            least = numbers[np.argmin(np.abs(numbers))]
            texts.append(f"the {_number(least)} is from {maker}")
    return tuple(texts)


def _argument(node: ReplayEvent) -> str:
    return f"the {'' if node.path.startswith('argument ') else 'argument '}{node.path}"


def _made_by(place: ResultPlace) -> str:
    node = place.node
    if node.primitive is None:
        return _argument(node)
    entry = node.context.entry
    behind = "" if node.forward is None else node.forward.node.line
    name = "" if entry is None else entry[0].name
    return Cause(
        node.primitive.name, node.context.line, node.context.derivative, name, behind
    ).named
