"""Lists of cotangents or tangents, some absent and some masked, as lists of values.

Programs take and return values. So a cotangent that is absent passes as nothing, a whole one as a
value, and a ``Masked`` one as two. The layout of a list says which is which.

>>> import numpy as np
>>> gap = Masked(np.array([1.0, 0.0]), np.array([True, False]))
>>> values = flat([1.0, None, gap])
>>> len(values), restored(layout_of([1.0, None, gap]), values)[:2]
(3, [1.0, None])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, TypeAlias

import numpy as np

from funcgrad._core.specs import Spec, shape_of, stand_in
from funcgrad._core.trace import Value
from funcgrad._transforms.masked import Cotangent, Masked


class Presence(Enum):
    """Where a cotangent is present: nowhere, everywhere, or by a mask."""

    ABSENT = 0
    WHOLE = 1
    SWITCHED = 2
    """``Masked``, with one truth value for all elements."""
    MASKED = 3


_ABSENT: Final = Presence.ABSENT
_WHOLE: Final = Presence.WHOLE

Layout: TypeAlias = tuple[Presence, ...]
"""Where each cotangent or tangent in a list is present."""


def presence_of(ct: Cotangent) -> Presence:
    """Where a cotangent is present."""
    if ct is None:
        return Presence.ABSENT
    if type(ct) is not Masked:
        return Presence.WHOLE
    return Presence.MASKED if shape_of(ct.mask) else Presence.SWITCHED


def layout_of(cts: Iterable[Cotangent]) -> Layout:
    """The layout of a list of cotangents or tangents."""
    return tuple(map(presence_of, cts))


def flat(cts: Sequence[Cotangent]) -> list[Value]:
    """The values that cotangents consist of, in one list."""
    values: list[Value] = []
    for ct in cts:
        if type(ct) is Masked:
            values += (ct.value, ct.mask)
        elif ct is not None:
            values.append(ct)
    return values


def restored(layout: Sequence[Presence], values: Iterable[Value]) -> list[Cotangent]:
    """Put values together to cotangents, the inverse of ``flat``; an iterator keeps the others."""
    remaining = iter(values)
    return [
        None
        if presence is _ABSENT
        else next(remaining)
        if presence is _WHOLE
        else Masked(next(remaining), next(remaining))
        for presence in layout
    ]


def present(layout: Sequence[Presence]) -> list[bool]:
    """Flags of the cotangents or tangents that are not absent."""
    return [presence is not Presence.ABSENT for presence in layout]


def stand_ins(presences: Sequence[Presence], specs: Sequence[Spec]) -> list[Cotangent]:
    """Stand-ins for cotangents, present like this, which take neither time nor memory."""
    cts: list[Cotangent] = []
    for presence, spec in zip(presences, specs, strict=True):
        strong = Spec(spec.shape, spec.dtype)
        if presence is Presence.ABSENT:
            cts.append(None)
        elif presence is Presence.WHOLE:
            cts.append(stand_in(strong))
        else:
            shape = spec.shape if presence is Presence.MASKED else ()
            cts.append(Masked(stand_in(strong), stand_in(Spec(shape, np.dtype(np.bool_)))))
    return cts
