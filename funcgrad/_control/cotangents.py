"""Cotangents that pass through loops and branches, whose kinds have to agree.

A cotangent may be absent, whole, or ``Masked``. A loop carries the same kind at every step, and the
branches of a choice return the same kind, so kinds are *joined*: a cotangent that is absent in one
branch and whole in another becomes a whole one with a mask of a single truth value.

>>> joined(CotangentKind.ABSENT, CotangentKind.WHOLE)
<CotangentKind.SWITCHED: 2>
"""

from __future__ import annotations

import numpy as np

from funcgrad._core.specs import Spec, shape_of, stand_in
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.layout import CotangentKind, kind_of
from funcgrad._transforms.masked import Cotangent, Masked, broadcast, fit, merged


def joined(first: CotangentKind, second: CotangentKind) -> CotangentKind:
    """Return the kind that can stand for both."""
    least, most = sorted((first, second), key=lambda kind: kind.value)
    if least is CotangentKind.ABSENT and most is CotangentKind.WHOLE:
        return CotangentKind.SWITCHED
    return most


def fitted(ct: Cotangent, spec: Spec) -> Cotangent:
    """Bring a cotangent to the shape and dtype of the value it belongs to; None stays None.

    A mask of one truth value for all elements stays one.
    """
    if ct is None:
        return None
    value = stand_in(spec)
    if type(ct) is not Masked:
        return broadcast(fit(ct, value, spec.shape), spec.shape)
    fitted_value = broadcast(fit(ct.value, value, spec.shape), spec.shape)
    mask = broadcast(ct.mask, spec.shape) if shape_of(ct.mask) else ct.mask
    return Masked(fitted_value, mask)


def in_kind(ct: Cotangent, kind: CotangentKind, spec: Spec) -> Cotangent:
    """Convert a fitted cotangent to a kind that joins its own with others."""
    ct_kind = kind_of(ct)
    if ct_kind is kind:
        return ct
    if ct is None:
        ct = Masked(zeros_like(spec), np.False_)
    elif ct_kind is CotangentKind.WHOLE:
        ct = Masked(ct, np.True_)
    if kind is CotangentKind.MASKED and spec.shape != shape_of(ct.mask):
        ct = Masked(ct.value, broadcast_to(ct.mask, shape=spec.shape))
    return ct


def total(first: Cotangent, second: Cotangent) -> Cotangent:
    """Return the sum of two cotangents, either of which may be absent."""
    if first is None or second is None:
        return second if first is None else first
    if type(first) is Masked or type(second) is Masked:
        return merged(first, second)
    return first + second
