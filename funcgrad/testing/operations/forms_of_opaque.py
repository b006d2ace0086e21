"""Check the forms that opaque operations declare, which compilers write instead of them."""

from __future__ import annotations

import numpy as np

from funcgrad._core.structure.structures import Opaque
from funcgrad.testing.operations.agreement import require, require_near
from funcgrad.testing.operations.cases import Case


def multiplies_windows(case: Case) -> None:
    """Check sums of products of windows against one multiplication after the other."""
    structure, expected = case.primitive.structure, np.asarray(case.value())
    assert isinstance(structure, Opaque)
    assert structure.windows is not None
    form = structure.windows(**case.sample.params)
    arrays = dict(zip(form.arrays, [*map(np.asarray, case.sample.args), expected], strict=True))
    (examples, channels, *_), (filters, few, *sizes) = arrays["x"].shape, arrays["k"].shape
    exact = arrays[form.arrays[2]] = np.zeros(expected.shape, np.result_type(expected, np.float64))
    first, second, out = [arrays[name] for name in form.arrays]
    numbers = np.ndindex(examples, filters, few, *sizes, *arrays["y"].shape[2:])
    for n, o, c, *places in numbers:
        channel = o // (filters // form.groups) * (channels // form.groups) + c
        offsets, corners = places[: len(sizes)], places[len(sizes) :]
        steps = zip(corners, form.strides, offsets, form.dilations, strict=True)
        index = {
            "x": (n, channel, *[p * stride + w * dilation for p, stride, w, dilation in steps]),
            "k": (o, c, *offsets),
            "y": (n, o, *corners),
        }
        place, *others = [index[name] for name in reversed(form.arrays)]
        out[place] += second[others[0]] * first[others[1]]
    require_near(expected, exact.astype(expected.dtype), 1e-5, "against products of windows")


def orders(case: Case) -> None:
    """Check the order of elements against NumPy's stable sort."""
    structure, x = case.primitive.structure, np.asarray(case.sample.args[0])
    assert isinstance(structure, Opaque)
    assert structure.orders is not None
    form = structure.orders(**case.sample.params)
    lines = np.flip(x, form.axis) if form.descending else x
    order = np.argsort(lines, form.axis, kind="stable")
    if form.descending:
        order = x.shape[form.axis] - 1 - np.flip(order, form.axis)
    expected = order if form.places else np.take_along_axis(x, order, form.axis)
    if form.wanted is not None:
        size = x.shape[form.axis]
        some = np.arange(size - form.wanted, size) if form.last else np.arange(form.wanted)
        expected = expected.take(some, form.axis)
    if form.ranks is not None:
        expected = expected.take(form.ranks, form.axis)
    np.testing.assert_array_equal(case.value(), expected)


def computes_arrays(case: Case) -> None:
    """Check the functions of NumPy's names that compute the operation, with NumPy's."""
    structure, expected = case.primitive.structure, case.values()
    assert isinstance(structure, Opaque)
    assert structure.arrays is not None
    args = [np.asarray(x) for x in case.sample.args]
    if any(x.size == 0 for x in args):
        return
    wide = np.result_type(*expected)
    args = [x if x.dtype.kind in "fc" else x.astype(wide) for x in args]
    params = {name: value for name, value in case.sample.params.items() if name != "failed"}
    with np.errstate(all="ignore"):
        outs, flags = structure.arrays(np, *args, **params)
    require(flags is None or not np.any(flags), "a flag is set, and evaluate raises no error")
    outs = outs if isinstance(outs, tuple) else (outs,)
    for out, value in zip(outs, expected, strict=True):
        require_near(out, value, 1e-4 if wide.itemsize == 4 else 1e-9, "evaluate, against arrays")


def keeps_finite(case: Case) -> None:
    """Check that a finite first operand is the result."""
    first = np.asarray(case.sample.args[0])
    if np.all(np.isfinite(first)):
        np.testing.assert_array_equal(case.value(), first)
