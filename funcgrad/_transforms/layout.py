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


class CotangentKind(Enum):
    """Where a cotangent is present: nowhere, everywhere, or by a mask."""

    ABSENT = 0
    WHOLE = 1
    SWITCHED = 2
    """``Masked``, with one truth value for all elements."""
    MASKED = 3


_ABSENT: Final = CotangentKind.ABSENT
_WHOLE: Final = CotangentKind.WHOLE

Layout: TypeAlias = tuple[CotangentKind, ...]
"""The kinds of the cotangents or tangents in a list."""


def kind_of(ct: Cotangent) -> CotangentKind:
    """The kind of a cotangent."""
    if ct is None:
        return CotangentKind.ABSENT
    if type(ct) is not Masked:
        return CotangentKind.WHOLE
    return CotangentKind.MASKED if shape_of(ct.mask) else CotangentKind.SWITCHED


def layout_of(cts: Iterable[Cotangent]) -> Layout:
    """The layout of a list of cotangents or tangents."""
    return tuple(map(kind_of, cts))


def flat(cts: Sequence[Cotangent]) -> list[Value]:
    """The values that cotangents consist of, in one list."""
    values: list[Value] = []
    for ct in cts:
        if type(ct) is Masked:
            values += (ct.value, ct.mask)
        elif ct is not None:
            values.append(ct)
    return values


def restored(layout: Sequence[CotangentKind], values: Iterable[Value]) -> list[Cotangent]:
    """Put values together to cotangents, the inverse of ``flat``; an iterator keeps the others."""
    remaining = iter(values)
    return [
        None
        if kind is _ABSENT
        else next(remaining)
        if kind is _WHOLE
        else Masked(next(remaining), next(remaining))
        for kind in layout
    ]


def present(layout: Sequence[CotangentKind]) -> list[bool]:
    """Flags of the cotangents or tangents that are not absent."""
    return [kind is not CotangentKind.ABSENT for kind in layout]


def stand_ins(kinds: Sequence[CotangentKind], specs: Sequence[Spec]) -> list[Cotangent]:
    """Stand-ins for cotangents of some kinds, which take neither time nor memory."""
    cts: list[Cotangent] = []
    for kind, spec in zip(kinds, specs, strict=True):
        strong = Spec(spec.shape, spec.dtype)
        if kind is CotangentKind.ABSENT:
            cts.append(None)
        elif kind is CotangentKind.WHOLE:
            cts.append(stand_in(strong))
        else:
            shape = spec.shape if kind is CotangentKind.MASKED else ()
            cts.append(Masked(stand_in(strong), stand_in(Spec(shape, np.dtype(np.bool_)))))
    return cts
