"""Plan sorts: by networks, where these are quicker than NumPy."""

from __future__ import annotations

from math import log, prod
from typing import Final

from funcgrad._backends.native.plan_steps import Fill, Sorting
from funcgrad._backends.native.unfinished_plan import UnfinishedPlan
from funcgrad._core.specs import Shape
from funcgrad._core.structure.structures import Opaque, Ordering
from funcgrad._programs.equation import Equation

_KINDS: Final = frozenset("?bBhHiIlLqQefd")

_MOST: Final = 1 << 14
_STEPS: Final = 16
"""The elements of a line, and the exchanges for each element, up to which a network is faster than
NumPy's sort. Eight lines of any length are: NumPy takes 1.5 to 5 times as long."""

_CALL: Final = 6000
"""The exchanges that take as long as a call of NumPy's sort; an order takes NumPy three times as
long. Lines of 200 elements take 0.6 of the time of the call, their orders 0.2 to 0.4."""

_FEWEST: Final = 32
"""The fewest candidates of a selection."""

_PASS, _PAIRS = 1.3, 2.0
"""The times of exchanges: of candidates one by one, and of vectors of elements and their places.

Candidates are sorted twice, and once more for as many later ones as there is room for: in a line
in random order, ``wanted * log(size / room)`` elements become candidates later.
"""

SAMPLE: Final = 64
"""From how many elements of a line a selection by ranks guesses where an element lies."""

_LOOK: Final = 0.5
"""The exchanges that take as long as the looks at an element, until few are left."""


def sorts(plan: UnfinishedPlan, equation: Equation, structure: Opaque, variable: int) -> bool:
    """Plan a sort; returns whether it has code that is quicker than NumPy's."""
    if structure.orders is None:
        return False
    form, spec = structure.orders(**dict(equation.params)), plan.specs[equation.operands[0]]
    if spec.dtype.char not in _KINDS or spec.weak:
        plan.lack = f"an order of {spec.dtype}"
        return False
    if not plan.is_emitted(equation, variable):
        return False
    if 0 in spec.shape or form.wanted == 0 or form.ranks == ():
        plan.append(Fill(variable))
        return True
    count = spec.shape[form.axis]
    if form.ranks is not None or selects(form, spec.shape):
        plan.prepare(equation.operands)
        plan.append(Sorting(variable, equation, form))
        return True
    lines = prod(spec.shape) // count
    steps = exchanges(count) / count / min(lines, 8)
    is_short = exchanges(count) * lines <= _CALL * (3 if form.places else 1)
    if not is_short and (count > _MOST or steps > _STEPS):
        plan.lack = "NumPy is faster for long lines"
        return False
    plan.prepare(equation.operands)
    plan.append(Sorting(variable, equation, form))
    return True


def selects(form: Ordering, shape: Shape) -> bool:
    """Whether a pass over lines, whose elements lie side by side, is quicker than a network."""
    size, wanted = shape[form.axis], form.wanted
    if wanted is None or any(other > 1 for other in shape[form.axis + 1 :]):
        return False
    room = candidates(wanted)
    if 2 * room > size:
        return False
    later = wanted * log(size / room) / (room - wanted)
    lanes = min(prod(shape) // size, 8)
    return _PASS * (2 + later) * exchanges(room) <= _PAIRS * exchanges(size) / lanes


def narrows(form: Ordering, shape: Shape) -> bool:
    """Whether selecting elements by their ranks is quicker than a network."""
    size = shape[form.axis]
    lanes = min(prod(shape) // size, 8)
    ranks = len(form.ranks or ())
    return size + ranks * (_LOOK * size + exchanges(SAMPLE)) <= exchanges(size) / lanes


def candidates(count: int) -> int:
    """How many candidates there are at most for so many wanted elements: a power of two."""
    return max(_FEWEST, 1 << (2 * count - 1).bit_length())


def exchanges(count: int) -> int:
    """About how many pairs of places a network compares."""
    levels = (count - 1).bit_length()
    return count * levels * (levels + 1) // 4
