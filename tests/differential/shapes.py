"""Arguments of what makes and rearranges arrays."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tests.differential.draw import Draw
from tests.differential.family import Call, Family, Generator, call, one, plain

# ---------------------------------------------------------------------------------- shapes and axes


def _reshape(d: Draw) -> Call:
    x = d.array()
    size = np.size(x)
    shapes = [
        (size,),
        -1,
        (1, size),
        (size, 1, 1),
        (-1, 1),
        (2, -1),
        size,
        [size],
        (0, -1),
        (-1, -1),
    ]
    if size % 2 == 0:
        shapes += [(2, size // 2), (size // 2, -1)]
    return call(x, d.pick(*shapes), **d.options(0.2, order=lambda: d.pick("C", "F")))


def _permuted(d: Draw) -> Call:
    x = d.array()
    axes = [int(a) - np.ndim(x) * d.chance(0.3) for a in d.rng.permutation(np.ndim(x))]
    if d.chance(0.05):
        axes = axes[1:]
    return call(x, d.pick(tuple(axes), axes))


def _transpose(d: Draw) -> Call:
    return call(d.array()) if d.chance(0.3) else _permuted(d)


def _moveaxis(d: Draw) -> Call:
    x = d.array(low=1)
    count = d.integer(1, np.ndim(x))
    source, target = (tuple(map(int, d.rng.permutation(np.ndim(x))[:count])) for _ in "ab")
    return call(x, source, target) if d.chance() else call(x, d.axis(x, False), d.axis(x, False))


def _expand(d: Draw) -> Call:
    x = d.array()
    return call(x, d.pick(d.integer(-np.ndim(x) - 1, np.ndim(x)), (0, -1), (0, 2), (0, 0), ()))


def _broadcast_to(d: Draw) -> Call:
    x = d.array()
    shape = tuple(3 if n == 1 and d.chance() else n for n in np.shape(x))
    return call(x, d.pick(shape, (2, *shape), list(shape), shape[1:]))


def _roll(d: Draw) -> Call:
    x = d.array()
    if d.chance(0.3):
        return call(x, d.count(-9, 9))
    if np.ndim(x) > 1 and d.chance(0.4):
        return call(x, d.pick((1, -2), 3, [2, 1]), d.pick((0, 1), (1, -1)))
    return call(x, d.integer(-9, 9), d.axis(x))


def _repeat(d: Draw) -> Call:
    x = d.array()
    axis = d.pick(None, *range(-np.ndim(x), np.ndim(x)))
    size = np.size(x) if axis is None else np.shape(x)[axis]
    return call(x, d.pick(d.count(0, 3), [2], d.rng.integers(0, 3, size)), axis)


def _pad(d: Draw) -> Call:
    x = d.array(empty=d.chance(0.2))
    width = d.pick(d.integer(0, 4), (1, 2), [(1, 2)] * max(np.ndim(x), 1), ((0, 3),))
    mode = d.pick("constant", "edge", "reflect", "symmetric", "wrap", "constant")
    options = (
        d.options(constant_values=lambda: d.pick(1, 2.5, (1, 2), 0)) if mode == "constant" else {}
    )
    return call(x, width, mode, **options)


def _split(d: Draw, axis: bool = True, low: int = 1) -> Call:
    x = d.array(low=low)
    sections = d.pick(1, 2, 3, [1], [0, 2], [2, 1], (1, 5), [], np.array([1, 2]))
    return call(x, sections, **(d.options(axis=lambda: d.axis(x, False)) if axis else {}))


def _sequence(d: Draw, low: int = 0, vary: bool = True) -> list[Any]:
    """Arrays of one shape but perhaps for the first axis, and of different dtypes."""
    shape = d.shape(low)
    made = []
    for _ in range(d.integer(1, 3)):
        first = d.integer(0, 3) if vary and shape and d.chance(0.3) else None
        made.append(d.array(shape=shape if first is None else (first, *shape[1:])))
    return d.pick(made, tuple(made))


def _joined(d: Draw) -> Call:
    parts = _sequence(d, 1)
    return call(
        parts,
        **d.options(
            axis=lambda: d.pick(0, -1, None, 1, d.axis(parts[0])), dtype=lambda: d.dtype("fc")
        ),
    )


def _stacked(d: Draw) -> Call:
    parts = _sequence(d, 0, d.chance(0.1))
    rank = np.ndim(parts[0])
    return call(parts, **d.options(axis=lambda: d.integer(-rank - 1, rank)))


def _piled(d: Draw) -> Call:
    return call(_sequence(d))


def _append(d: Draw) -> Call:
    x = d.array()
    return call(x, d.array(shape=np.shape(x)), d.axis(x)) if d.chance() else call(x, d.array())


def _block(d: Draw) -> Call:
    a, b = d.ndarray(shape=(2, 2)), d.ndarray(shape=(2, 3))
    c, e = d.ndarray(shape=(1, 2)), d.ndarray(shape=(1, 3))
    return call(d.pick([[a, b], [c, e]], [a, b], [a, c], [1, 2], [[c], [a]], a, [[a, b], [c, c]]))


# ---------------------------------------------------------------------------------------- diagonals


def _offset(d: Draw) -> Any:
    return d.pick(d.count(-3, 3), d.integer(-5, 5))


def _diagonal(d: Draw) -> Call:
    x = d.array(low=2) if d.chance(0.95) else d.array()
    rank = max(np.ndim(x), 1)
    axes = {
        "axis1": lambda: d.integer(-rank, rank - 1),
        "axis2": lambda: d.integer(-rank, rank - 1),
    }
    return call(
        x, **d.options(offset=lambda: _offset(d)), **(d.options(1.0, **axes) if d.chance() else {})
    )


def _trace(d: Draw) -> Call:
    args, options = _diagonal(d)
    return args, options | d.options(0.3, dtype=lambda: d.target(args[0]))


def _with_offset(low: int, high: int = 3) -> Generator:
    return lambda d: call(d.array(low=low, high=high), **d.options(k=lambda: _offset(d)))


def _triangle(d: Draw) -> Call:
    return call(d.count(), **d.options(k=lambda: _offset(d), m=d.count))


def _eye(d: Draw) -> Call:
    return call(d.count(), **d.options(M=d.count, k=lambda: _offset(d), dtype=d.dtype))


def _vander(d: Draw) -> Call:
    return call(
        d.array(shape=d.pick((3,), (0,), (4,), (2, 2))), **d.options(N=d.count, increasing=d.flag)
    )


# ----------------------------------------------------------------------------------------- creation


def _sizes(d: Draw) -> Any:
    return d.pick(d.count(), (2, 3), [1, 2], (), (0, 2), np.array([2, 1]), (np.int32(2), 1), -1)


def _shaped(d: Draw) -> Call:
    return call(_sizes(d), **d.options(dtype=d.dtype))


def _like(d: Draw) -> Call:
    return call(d.array(), **d.options(0.3, dtype=d.dtype, shape=lambda: _sizes(d)))


def _full_like(d: Draw) -> Call:
    (x,), options = _like(d)
    return call(x, d.pick(0, 1, 2.5, np.int8(3), np.float32(1.5)), **options)


def _arange(d: Draw) -> Call:
    ends = [
        d.pick(d.integer(-4, 9), d.pick(0.5, -2.25, 7.0), np.float32(3), np.int8(5))
        for _ in range(3)
    ]
    return call(*ends[: d.integer(1, 3)], **d.options(0.3, dtype=lambda: d.dtype("iufc")))


def _spaced(d: Draw) -> Call:
    start, stop = d.pair("iuf", low=0, high=2)
    rank = max(np.ndim(start), np.ndim(stop))
    choices = {"num": lambda: d.pick(0, 1, 2, 5, d.count()), "endpoint": d.flag}
    choices |= {"dtype": lambda: d.dtype("ifc"), "axis": lambda: d.integer(-rank - 1, rank)}
    return call(start, stop, **d.options(**choices))


def _linspace(d: Draw) -> Call:
    args, options = _spaced(d)
    return args, options | d.options(0.3, retstep=d.flag)


def _logspace(d: Draw) -> Call:
    args, options = _spaced(d)
    return args, options | d.options(0.3, base=lambda: d.pick(2, 10.0, np.float32(3)))


def _geomspace(d: Draw) -> Call:
    start = d.rng.uniform(0.5, 3, d.shape(0, 1)).astype(d.dtype("f"))
    _, options = _spaced(d)
    options.pop("axis", None)
    if options.get("dtype", np.dtype("d")).kind in "iu":
        del options["dtype"]
    return call(start, d.pick(2.0, 9, start * 3), **options)


def _meshgrid(d: Draw) -> Call:
    axes = [d.array(shape=d.shape(0, 1)) for _ in range(d.integer(1, 3))]
    return call(*axes, **d.options(indexing=lambda: d.pick("xy", "ij"), sparse=d.flag))


SHAPES: Final[Family] = MappingProxyType(
    {
        "reshape": _reshape,
        "ravel": lambda d: call(d.array(), **d.options(order=lambda: d.pick("C", "F"))),
        "transpose": _transpose,
        "permute_dims": _permuted,
        "matrix_transpose": lambda d: call(d.array(low=1)),
        "moveaxis": _moveaxis,
        "rollaxis": lambda d: call(d.array(shape=(2, 3, 4)), d.integer(-3, 2), d.integer(-3, 3)),
        "swapaxes": lambda d: call(d.array(shape=(2, 3, 4)), d.integer(-3, 3), d.integer(-3, 2)),
        "expand_dims": _expand,
        "squeeze": lambda d: call(x := d.array(), **d.options(axis=lambda: d.axes(x))),
        "broadcast_to": _broadcast_to,
        "broadcast_arrays": lambda d: call(*d.pair()),
        **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d"), lambda d: call(*_sequence(d))),
        "flip": lambda d: call(x := d.array(), d.axes(x)),
        **dict.fromkeys(("fliplr", "flipud"), one),
        "rot90": lambda d: call(d.array(low=2), d.integer(-5, 5), **d.options(axes=lambda: (1, 0))),
        "roll": _roll,
        "repeat": _repeat,
        "tile": lambda d: call(
            d.array(), d.pick(2, (2, 1), [1, 3], (), 0, (2, 1, 2), np.array([2]))
        ),
        "resize": lambda d: call(d.array(), d.pick(4, (2, 3), (), (0,), [5], -1)),
        "pad": _pad,
        **dict.fromkeys(("split", "array_split"), _split),
        **dict.fromkeys(("hsplit", "vsplit", "dsplit"), lambda d: _split(d, False)),
        "unstack": lambda d: call(x := d.array(low=1), **d.options(axis=lambda: d.axis(x, False))),
        **dict.fromkeys(("concat", "concatenate"), _joined),
        "stack": _stacked,
        **dict.fromkeys(("hstack", "vstack", "row_stack", "dstack", "column_stack"), _piled),
        "append": _append,
        "block": _block,
        **dict.fromkeys(("diag",), _with_offset(1, 2)),
        "diagflat": _with_offset(0),
        **dict.fromkeys(("tril", "triu"), _with_offset(1)),
        "diagonal": _diagonal,
        "trace": _trace,
        "diag_indices": lambda d: call(d.count(), **d.options(ndim=lambda: d.count(1, 3))),
        "diag_indices_from": lambda d: call(d.array(shape=d.pick((2, 2), (3, 3, 3), (2, 3), (2,)))),
        **dict.fromkeys(("tril_indices", "triu_indices"), _triangle),
        **dict.fromkeys(("tril_indices_from", "triu_indices_from"), _with_offset(2, 2)),
        "vander": _vander,
        **dict.fromkeys(("eye", "tri"), _eye),
        "identity": lambda d: call(d.count(), **d.options(dtype=d.dtype)),
        **dict.fromkeys(("zeros", "ones", "empty"), _shaped),
        **dict.fromkeys(("zeros_like", "ones_like", "empty_like"), _like),
        "full": lambda d: call(_sizes(d), x := d.number(), **d.options(dtype=lambda: d.target(x))),
        "full_like": _full_like,
        "array": lambda d: call(
            x := plain(d.array()), **d.options(dtype=lambda: d.target(x), ndmin=d.count)
        ),
        "asarray": lambda d: call(x := plain(d.array()), **d.options(dtype=lambda: d.target(x))),
        "astype": lambda d: call(x := d.ndarray(), d.target(x)),
        "copy": one,
        "arange": _arange,
        "linspace": _linspace,
        "logspace": _logspace,
        "geomspace": _geomspace,
        "meshgrid": _meshgrid,
        "indices": lambda d: call(
            d.pick((2, 3), (2,), (), (0, 2)), **d.options(dtype=d.dtype, sparse=d.flag)
        ),
        "fromfunction": lambda d: call(
            lambda *axes: sum(axes), d.pick((2, 3), (4,)), **d.options(dtype=d.dtype)
        ),
    }
)
