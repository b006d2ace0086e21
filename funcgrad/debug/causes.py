"""Causes as values, for programs and for people.

>>> import funcgrad as fg
>>> from funcgrad.debug.replays import replay
>>> (cause,) = causes_of(replay(lambda x: fg.numpy.log(x), (fg.tensor([1.0, 0.0]),), {}))
>>> cause.operation, cause.place, cause.text
('log', (1,), 'log(0.0) = -inf')
"""

from __future__ import annotations

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import shape_of
from funcgrad._core.structure.structures import Elementwise
from funcgrad._core.trace import Raw
from funcgrad.debug.elements import Mask, relation
from funcgrad.debug.replays import Event, Replay, ResultPlace
from funcgrad.debug.value_origins import Birth, births_of, is_infinite, is_nan, origins_of

_SHOWN = 3
"""So many elements of an operand are shown."""


@dataclass(frozen=True, slots=True)
class Cause:
    """An operation that made NaN or infinity of finite numbers, or NaN of infinities.

    Attributes
    ----------
    operation : str
        Its name; empty where something was not finite from the beginning.
    line : str
        The user's file and line.
    derivative : str
        ``"pull"`` or ``"tangent"`` where it belongs to the derivative of another operation; else
        empty.
    derivative_of, derivative_line : str
        The name of that operation, and its line.
    text : str
        The operation with its numbers at the place, such as ``"log(0.0) = -inf"``.
    place : tuple of int
        The first element of its result that is not finite.
    steps : tuple of pairs
        The loops around it, the outermost first: the name, and the number of the step.
    examples : tuple of int
        The number of the example in each ``vmap`` around it, the outermost first.
    bad_examples, all_examples : int
        How many examples are concerned, of how many.
    spoilt : int
        How many elements of the function's results are not finite because of it.
    origins : tuple of Cause
        Of NaN from infinities: where these come from.
    partners : tuple of str
        Of NaN from infinities: where the other operands come from.
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
        """The operation with its place in the user's code."""
        if not self.derivative:
            return self.operation + _at(self.line)
        inside = f"the {self.derivative} of {self.derivative_of}{_at(self.derivative_line)}"
        elsewhere = "" if self.line in ("", self.derivative_line) else _at(self.line)
        return f"{self.operation} in {inside}{elsewhere}"


def _at(line: str) -> str:
    return f" at {line}" if line else ""


def causes_of(run: Replay) -> list[Cause]:
    """The causes of what is not finite in the results, the one that spoils most first."""
    return [_cause_of(birth, spoilt) for birth, spoilt in births_of(run)]


def _cause_of(birth: Birth, spoilt: int = 0) -> Cause:
    """A birth in words and numbers."""
    node, mask = birth.node, birth.mask
    place = tuple(int(k) for k in np.unravel_index(int(np.argmax(mask)), mask.shape))
    if node.primitive is None:
        value = _number(np.asarray(node.outs[birth.position])[place])
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
    if birth.outside is not None:
        value = _number(np.asarray(node.operands[birth.outside])[place])
        reader = f"{node.primitive.name} reads it{_at(context.line)}"
        text = f"a value from outside of the arguments is {value}; {reader}"
        return Cause("", context.line, text=text, place=place, steps=steps, spoilt=spoilt)
    text = _text(node, birth.position, place)
    origins = tuple(map(_cause_of, origins_of(birth)))
    partners = _partners(birth, place) if origins else ()
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


_PAIR = "mask by where(mask, x, 0), inside of what is infinite too, not by a product with 0"
_GENERAL = "keep the operands in the range of the dtype, by scaling, clipping or float64"


def _number(value: object) -> str:
    return repr(value.item() if isinstance(value, np.generic | np.ndarray) else value)


def _elements(node: Event, position: int, place: tuple[int, ...]) -> list[Mask]:
    """The elements of the operands that one element of the result comes from."""
    assert node.primitive is not None
    one = np.zeros(shape_of(node.outs[position]), np.bool_)
    one[place] = True
    links = relation(node.primitive, node.operands, node.params or {}, one.shape)
    return links.backward(one)


def _text(node: Event, position: int, place: tuple[int, ...]) -> str:
    """The operation with its numbers at a place."""
    assert node.primitive is not None
    shown = []
    for operand, mask in zip(node.operands, _elements(node, position, place), strict=True):
        shown.append(_shown(operand, mask, isinstance(node.primitive.structure, Elementwise)))
    result = _number(np.asarray(node.outs[position])[place])
    return f"{node.primitive.name}({', '.join(shown)}) = {result}"


def _shown(operand: Raw, mask: Mask, single: bool) -> str:
    numbers = np.asarray(operand)[mask]
    if single and numbers.size == 1:
        return _number(numbers[0])
    odd = is_nan(numbers) | is_infinite(numbers)
    order = np.argsort(~odd, kind="stable")[:_SHOWN]
    if not odd.any() and numbers.size and numbers.dtype.kind in "fc":
        order = np.argsort(-np.abs(numbers), kind="stable")[:_SHOWN]
    inside = ", ".join([_number(numbers[k]) for k in order])
    more = f", … {numbers.size} numbers" if numbers.size > _SHOWN else ""
    return f"[{inside}{more}]"


def _partners(birth: Birth, place: tuple[int, ...]) -> tuple[str, ...]:
    """Where the finite operands of a birth from infinities come from."""
    node = birth.node
    texts = []
    for operand, mask in enumerate(_elements(node, birth.position, place)):
        numbers = np.asarray(node.operands[operand])[mask]
        source = node.places[operand]
        if numbers.size and not (is_nan(numbers) | is_infinite(numbers)).any():
            maker = "outside of the arguments" if source is None else _made_by(source)
            texts.append(f"the {_number(numbers[0])} is from {maker}")
    return tuple(texts)


def _argument(node: Event) -> str:
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
