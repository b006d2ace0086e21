"""Arguments of products, differences, comparisons, and what tells of arrays."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tests.differential.draw import Draw
from tests.differential.family import Call, Family, call, one

# ----------------------------------------------------------------------------------------- products


def _matmul(d: Draw) -> Call:
    d.finite = True
    n, k, m = (d.integer(0, 3) if d.chance(0.1) else d.integer(1, 3) for _ in "nkm")
    lead = d.pick((), (2,), (1,), (2, 1))
    left, right = d.pick((n, k), (k,), (*lead, n, k)), d.pick((k, m), (k,), (*lead, k, m))
    if d.chance(0.06):
        right = d.shape()
    return call(d.array(shape=left), d.array(shape=right))


def _inner(d: Draw) -> Call:
    d.finite = True
    k = d.integer(1, 3)
    return call(
        d.array(shape=d.pick((k,), (2, k), ())), d.array(shape=d.pick((k,), (3, k), (), (k + 1,)))
    )


def _vectors(d: Draw) -> Call:
    d.finite = True
    k = d.integer(0, 4)
    return call(
        d.array(shape=d.pick((k,), (2, k))),
        d.array(shape=d.pick((k,), (2, k))),
        **d.options(0.2, axis=lambda: -1),
    )


def _matvec(d: Draw) -> Call:
    d.finite = True
    n, k = d.integer(1, 3), d.integer(1, 3)
    return call(d.array(shape=d.pick((n, k), (2, n, k))), d.array(shape=d.pick((k,), (2, k))))


def _vecmat(d: Draw) -> Call:
    d.finite = True
    n, k = d.integer(1, 3), d.integer(1, 3)
    return call(d.array(shape=d.pick((k,), (2, k))), d.array(shape=d.pick((k, n), (2, k, n))))


def _vdot(d: Draw) -> Call:
    d.finite = True
    shape = d.shape()
    return call(d.array(shape=shape), d.array(shape=shape[::-1]))


def _tensordot(d: Draw) -> Call:
    d.finite = True
    a, b = d.array(shape=(2, 3, 4)), d.array(shape=d.pick((3, 4, 2), (4, 3), (3, 4)))
    return call(a, b, d.pick(0, 1, 2, ([1], [0]), ([1, 2], [0, 1]), (2, 0), ((0, 1), (0, 1))))


def _einsum(d: Draw) -> Call:
    d.finite = True
    form = d.pick(
        *("ij,jk->ik", "ii", "ij->ji", "ij,ij", "i,i->", "...j,j", "ij,j->i", "ab,bc,cd", "ii->i"),
        *("ij,i->", "ij,k->k"),
    )
    letters = {letter: d.integer(1, 3) for letter in "abcdijk"}
    terms = form.split("->")[0].split(",")
    return call(
        form,
        *[d.ndarray(shape=tuple(letters[c] for c in term.replace("...", ""))) for term in terms],
    )


def _cross(d: Draw) -> Call:
    d.finite = True
    size = 3 if d.chance(0.9) else 4
    return call(
        d.array("iuf", shape=d.pick((size,), (2, size))),
        d.array("iufc", shape=d.pick((3,), (2, 3))),
    )


def _kron(d: Draw) -> Call:
    d.finite = True
    return call(d.array(high=2), d.array(high=2))


def _any_pair(d: Draw) -> Call:
    d.finite = True
    return call(d.array(high=2), d.array(high=2))


# -------------------------------------------------------------------------------------- differences


def _diff(d: Draw) -> Call:
    x = d.array()
    options = d.options(0.3, axis=lambda: d.axis(x, False), n=lambda: d.count(0, 3))
    return call(
        x, **options, **d.options(0.15, prepend=lambda: d.number(), append=lambda: d.number())
    )


def _ediff1d(d: Draw) -> Call:
    ends = {"to_end": lambda: 1, "to_begin": lambda: d.pick(0, [3])}
    return call(d.array("ifc"), **d.options(0.3, **ends))


def _trapezoid(d: Draw) -> Call:
    y = d.array(low=1)
    options = d.options(
        0.3, axis=lambda: d.axis(y, False), dx=lambda: d.pick(2, 0.5, np.float32(0.25))
    )
    if d.chance(0.6):
        size = np.shape(y)[-1]
        options["x"] = d.pick(
            d.array(shape=(size,)), d.array(shape=np.shape(y)), d.array(shape=(2, size))
        )
    return call(y, **options)


# --------------------------------------------------------------------------------------- comparison


def _close(d: Draw) -> Call:
    x, y = d.pair("iufbc")
    if d.chance(0.3):
        y = _nudged(x)
    return call(
        x,
        y,
        **d.options(0.3, rtol=lambda: d.pick(0, 1e-3), atol=lambda: d.pick(0, 1), equal_nan=d.flag),
    )


def _nudged(x: Any) -> Any:
    """Nearly the same numbers."""
    with np.errstate(invalid="ignore"):
        return np.asarray(x) * 1.000001


def _same(d: Draw) -> Call:
    x = d.array()
    return call(x, d.pick(x, d.array(shape=np.shape(x)), d.array()))


def _same_or_nan(d: Draw) -> Call:
    args, _ = _same(d)
    return args, d.options(equal_nan=d.flag)


def _dtypes(d: Draw) -> Call:
    numbers = (True, 1, 2.0, 1j)
    return call(*[d.pick(d.dtype(), d.ndarray(), d.pick(*numbers)) for _ in range(d.integer(1, 3))])


PRODUCTS: Final[Family] = MappingProxyType(
    {
        "matmul": _matmul,
        "dot": _matmul,
        "inner": _inner,
        "outer": _any_pair,
        "kron": _kron,
        "vdot": _vdot,
        "vecdot": _vectors,
        "matvec": _matvec,
        "vecmat": _vecmat,
        "tensordot": _tensordot,
        "einsum": _einsum,
        "cross": _cross,
        "diff": _diff,
        "ediff1d": _ediff1d,
        **dict.fromkeys(("trapezoid", "trapz"), _trapezoid),
        **dict.fromkeys(("isclose", "allclose"), _close),
        "array_equal": _same_or_nan,
        "array_equiv": _same,
        **dict.fromkeys(
            ("real", "imag", "iscomplex", "isreal", "iscomplexobj", "isrealobj", "ndim", "shape"),
            one,
        ),
        **dict.fromkeys(("isposinf", "isneginf", "fix", "sinc"), one),
        "angle": lambda d: call(d.array(), **d.options(deg=d.flag)),
        **dict.fromkeys(("round", "around"), lambda d: call(d.array(), d.pick(0, 1, 2, -1, -2))),
        "size": lambda d: call(x := d.array(), d.axis(x)),
        "result_type": _dtypes,
        "promote_types": lambda d: call(d.dtype(), d.dtype()),
        "can_cast": lambda d: call(
            d.pick(d.dtype(), d.ndarray()), d.dtype(), d.pick("safe", "same_kind", "unsafe", "no")
        ),
        "isdtype": lambda d: call(
            d.dtype(), d.pick("bool", "integral", "real floating", "numeric", ("bool", "integral"))
        ),
        "finfo": lambda d: call(d.dtype("fc")),
        "iinfo": lambda d: call(d.dtype("iu")),
        "ldexp": lambda d: call(*d.pair("iuf", "i")),
    }
)
