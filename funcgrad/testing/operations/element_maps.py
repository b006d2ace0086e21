"""Structures: elements of a result depend on elements of the operands as declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.specs import Shape, spec_of
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.index_maps import Places
from funcgrad._core.structure.structures import (
    Contraction,
    Elementwise,
    Factored,
    Gather,
    Movement,
    Opaque,
    Random,
    Reduction,
    Scan,
    Scatter,
)
from funcgrad._core.trace import Raw, Value
from funcgrad.testing.operations.agreement import require, require_bits, require_near
from funcgrad.testing.operations.cases import Case, cases_of
from funcgrad.testing.operations.forms_of_opaque import (
    computes_arrays,
    keeps_finite,
    multiplies_windows,
    orders,
)
from funcgrad.testing.operations.interpreter import (
    drawn,
    factored,
    folded,
    gathered,
    scanned,
    scattered,
)
from funcgrad.testing.operations.properties import AtOnce, AtSamples, Property

# ------------------------------------------------------------------------------ memory


def _is_owned(case: Case) -> None:
    zeros = case.at(Sample(tuple(x * 0 for x in case.sample.args), case.sample.params))
    for at, name in ((case, ""), (zeros, " of zeros")):
        try:
            values = at.values()
        except (ValueError, ArithmeticError, Warning):
            continue  # zeros are invalid arguments
        for value, again in zip(values, at.values(), strict=True):
            for k, arg in enumerate(at.sample.args):
                shares = isinstance(arg, np.ndarray) and np.may_share_memory(value, arg)
                require(not shares, f"the result{name} lies in the memory of argument {k}")
            is_reused = np.may_share_memory(value, again)
            require(not is_reused, f"a second call{name} returns the memory of the first")


def _views_share(primitive: Primitive) -> None:
    require(not primitive.owns, "a view is declared to own its memory")
    cases = [case for case in cases_of(primitive) if np.size(case.args[0])]
    shared = [
        isinstance(case.args[0], np.ndarray) and np.may_share_memory(case.value(), case.args[0])
        for case in cases
    ]
    require(any(shared) or not cases, "no result lies in the memory of its operand")


# ------------------------------------------------------------------------------ elementwise


def _is_elementwise(case: Case) -> None:
    out = case.value()
    shape = np.broadcast_shapes(*[np.shape(arg) for arg in case.args])
    require(out.shape == shape, f"the shape is {out.shape} instead of {shape}")
    args = [np.broadcast_to(arg, shape) for arg in case.args]
    for place in list(np.ndindex(*shape))[:6]:
        alone = case.evaluate(*[arg[place] for arg in args])
        rounding = 1e-2 if out.itemsize == 2 else 1e-5
        require_near(alone, out[place], rounding, f"the element at {place} alone", False)


# ------------------------------------------------------------------------------ reductions


def _fold_of(primitive: Primitive) -> Fold | None:
    structure = primitive.structure
    return structure.fold if isinstance(structure, Reduction | Scan) else None


def _combines(case: Case) -> None:
    fold = _fold_of(case.primitive)
    x, axis = case.sample.args[0], next(iter(case.sample.params["axis"]), None)
    if fold is None or fold.ufunc is None or axis is None or x.shape[axis] < 2:
        return
    first, second = (case.evaluate(side) for side in np.split(x, [1], axis))
    require_near(fold.ufunc(first, second), case.value(), 1e-6, "two halves combined by the ufunc")


def _has_ufunc(primitive: Primitive) -> bool:
    fold = _fold_of(primitive)
    return (
        fold is not None and fold.ufunc is not None and isinstance(primitive.structure, Reduction)
    )


def _folds(case: Case) -> None:
    """Fold elements one by one; sums agree up to rounding in the result's dtype."""
    structure, params = case.primitive.structure, case.sample.params
    assert isinstance(structure, Reduction | Scan)
    fold, expected = structure.fold, case.value()
    shape, operands = np.shape(case.args[0]), [list(np.ravel(arg)) for arg in case.args]
    if fold is None:
        return
    if isinstance(structure, Scan):
        reverse = params.get("reverse", False)
        made = scanned(fold, expected.dtype, operands, shape, params["axis"], reverse)
    else:
        made = folded(fold, expected.dtype, operands, shape, params["axis"])
    out = np.array(made, expected.dtype).reshape(expected.shape)
    rounding = {"e": 1e-2, "f": 1e-5, "F": 1e-5}.get(expected.dtype.char, 1e-12)
    require_near(out, expected, rounding, "evaluate, against the fold")


def _draws(case: Case) -> None:
    structure, expected = case.primitive.structure, case.value()
    assert isinstance(structure, Random)
    if structure.block is not None:
        words = drawn(structure.block, case.sample.params, np.shape(expected), *case.args)
        require_bits(words, expected, "evaluate, against the blocks")


# ------------------------------------------------------------------------------ movements


def _movement(primitive: Primitive) -> Movement:
    assert isinstance(primitive.structure, Movement)
    return primitive.structure


def _moved(primitive: Primitive, args: tuple[Any, ...], case: Case) -> Raw:
    """Move the elements of arguments, one by one, by the index map."""
    structure, params = _movement(primitive), case.sample.params
    spec = primitive.results(*map(spec_of, args), **params)[0]
    pieces = structure.pieces(spec.shape, *map(np.shape, args), **params)
    require(pieces is not None, "the index map is missing: a window is not a view of the operands")
    out = np.zeros(int(np.prod(spec.shape)), spec.dtype)
    for piece in pieces or ():
        elements = np.ravel(args[piece.operand])
        for index in np.ndindex(*piece.shape):
            start = piece.start + int(np.dot(index, piece.strides))
            to = piece.to + int(np.dot(index, piece.to_strides))
            require(0 <= start < len(elements), f"an index map reads element {start}")
            require(0 <= to < len(out), f"an index map writes element {to}")
            if structure.adds and piece.operand:
                out[to] += elements[start]
            else:
                out[to] = elements[start]
    return out.reshape(spec.shape)


def _moves_as_said(case: Case) -> None:
    for dtype in "?bHqefdFD":
        first, args = 1, []
        for arg in case.sample.args:
            numbers = np.arange(first, first + np.size(arg)).astype(dtype)
            args.append(numbers.reshape(np.shape(arg)))
            first += np.size(arg)
        moved = _moved(case.primitive, tuple(args), case)
        name = f"evaluate of {np.dtype(dtype)}, against the index map"
        require_bits(case.evaluate(*args), moved, name)


def samples_with_rows_last(primitive: Primitive) -> Iterator[tuple[Sample, Any]]:
    """Yield the samples of a movement that work with rows last, and their parameters."""
    rows_last = _movement(primitive).rows_last
    if rows_last is not None:
        for sample in primitive.samples():
            params = rows_last(*map(np.shape, sample.args), **sample.params)
            if params is not None:
                yield sample, params


def _has_rows_last(case: Case) -> None:
    """Check a movement with rows last; operands with fewer axes have one row."""
    rows_last = _movement(case.primitive).rows_last
    if rows_last is None:
        return
    params = rows_last(*map(np.shape, case.args), **case.sample.params)
    if params is None:
        return
    expected = case.value()
    args = []
    for arg in case.sample.args:
        ones = expected.ndim - np.ndim(arg) if np.shape(arg)[:1] != expected.shape[:1] else 0
        args.append(np.moveaxis(np.reshape(arg, (1,) * ones + np.shape(arg)), 0, -1))
    out = case.primitive.evaluate(*args, **params)
    require_bits(out, np.moveaxis(expected, 0, -1), f"with rows last, by {params}")


# ------------------------------------------------------------------------------ stacks


def _stacks(case: Case) -> list[Shape]:
    pairs = zip(case.sample.args, case.primitive.cores, strict=True)
    return [np.shape(arg)[: np.ndim(arg) - core] for arg, core in pairs]


def _has_examples(case: Case) -> bool:
    return len(set(_stacks(case))) == 1 and all(map(np.size, case.sample.args))


def _keeps_examples_apart(case: Case) -> None:
    """Check that a change of one example leaves the results of other examples unchanged."""
    stack = (2, *_stacks(case)[0])
    place = (1, *(0,) * (len(stack) - 1))
    args = [np.stack([arg, arg]) for arg in case.sample.args]
    before = _several(case.evaluate(*args))
    for k in case.differentiable or range(len(args)):
        args[k][place] = args[k][place] * (1 + 2.0**-10)
    for whole, changed in zip(before, _several(case.evaluate(*args)), strict=True):
        require(
            whole.shape[: len(stack)] == stack,
            f"of a stack of the shape {stack} a result has the shape {whole.shape}",
        )
        others = np.ones(stack, bool)
        others[place] = False
        text = f"other examples of a stack, where only example {place} is changed"
        require_near(changed[others], whole[others], 1e-6, text)


def _several(out: Raw) -> list[Raw]:
    return [np.asarray(value) for value in (out if isinstance(out, tuple) else (out,))]


def _is_factored(case: Case) -> None:
    """Check that each example with factors has the results made of these factors."""
    structure = case.primitive.structure
    assert isinstance(structure, Factored)
    form = structure.factorization(**case.sample.params)
    operands = [np.asarray(arg) for arg in case.sample.args]
    cores = [x.shape[x.ndim - core :] for x, core in zip(operands, structure.cores, strict=True)]
    stack = np.broadcast_shapes(*_stacks(case))
    examples = [
        np.broadcast_to(x, (*stack, *core)) for x, core in zip(operands, cores, strict=True)
    ]
    outs = _several(case.evaluate(*case.sample.args))
    for place in np.ndindex(*stack):
        expected = factored(form, *[x[place] for x in examples])
        if expected is None or not all(np.isfinite(x).all() for x in expected):
            continue
        for actual, exact in zip([out[place] for out in outs], expected, strict=True):
            require_near(actual, exact, 1e-6, f"against factors, {form}")


def _runs_along_axis(case: Case) -> None:
    """Check that NumPy's loop over each line along the axis agrees with ``evaluate``."""
    structure, expected, (x,) = case.primitive.structure, case.value(), case.sample.args
    assert isinstance(structure, Opaque)
    assert structure.along is not None
    loop = structure.along(np.shape(x), np.asarray(x).dtype, **case.sample.params)
    if loop is not None:
        out, axes = np.empty_like(expected), [(loop.axis,), (), (loop.axis,)]
        loop.ufunc(x, loop.number, axes=axes, out=out)
        require_near(out, expected, 1e-6, "the loop along an axis")


# ------------------------------------------------------------------------------ others


def _gathers(case: Case) -> None:
    structure = case.primitive.structure
    assert isinstance(structure, Gather)
    places, expected = _places(case, structure), case.value()
    made = gathered(places, _listed(case), expected.dtype.type(0))
    out = np.array(made, expected.dtype).reshape(places.shape)
    require_bits(expected, out, "evaluate, against the places")


def _scatters(case: Case) -> None:
    structure = case.primitive.structure
    assert isinstance(structure, Scatter)
    places, expected, operands = _places(case, structure), case.value(), _listed(case)
    updates = operands[structure.updates]
    base = operands[0] if structure.updates else [0] * expected.size
    made = scattered(places, structure.fold, expected.dtype, base, updates, operands)
    out = np.array(made, expected.dtype).reshape(expected.shape)
    rounding = 0.0 if structure.fold is None else 1e-2 if expected.itemsize == 2 else 1e-5
    require_near(expected, out, rounding, "evaluate, against the places")


def _places(case: Case, structure: Gather | Scatter) -> Places:
    return structure.places(*map(np.shape, case.args), **case.sample.params)


def _listed(case: Case) -> list[list[Any]]:
    return [list(np.ravel(arg)) for arg in case.args]


def _looks_to_one_side(case: Case) -> None:
    """Check that changing elements at one end leaves results at the other end unchanged."""
    axis = case.sample.params["axis"]
    shape = np.shape(case.sample.args[-1])
    if not shape or shape[axis] < 2:
        return
    whole = np.moveaxis(case.value(), axis, 0)
    ends = []
    for end in (0, -1):
        changed = [np.array(arg) for arg in case.sample.args]
        for arg in changed:
            np.moveaxis(arg, axis, 0)[end] += 2
        after = np.moveaxis(np.asarray(case.evaluate(*changed)), axis, 0)
        ends.append(_are_same(after[-1 - end], whole[-1 - end]))
    require(any(ends), "a change at either end changes the other")


def _are_same(first: Raw, second: Raw) -> bool:
    return bool(np.array_equal(first, second, equal_nan=first.dtype.kind in "fc"))


def _letters_hold(case: Case) -> None:
    structure = case.primitive.structure
    assert isinstance(structure, Contraction)
    specs = [spec_of(np.asarray(arg)) for arg in case.args]
    first, second, out = structure.letters(*specs, **case.sample.params)
    letters = f"{first},{second}->{out}"
    require_near(case.value(), np.einsum(letters, *case.args), 1e-6, f"against einsum {letters}")


def _is_view(primitive: Primitive) -> bool:
    return bool(getattr(primitive.structure, "is_view", False))


def _has(kind: type[Any], field: str = "") -> Any:
    """Make a test whether a primitive's structure is of a class, and has a field."""

    def asks(primitive: Primitive) -> bool:
        structure: Value = primitive.structure
        return isinstance(structure, kind) and (not field or getattr(structure, field) is not None)

    return asks


ELEMENT_MAPS: Final = (
    Property(
        "structure: memory of its own",
        "Results share memory neither with arguments nor with other calls, with the trait OWNS.",
        "See evaluate: copy results that are arguments, or that it keeps. Or declare that it does"
        " not own them.",
        AtSamples(_is_owned),
        lambda primitive: primitive.owns,
    ),
    Property(
        "structure: views",
        "A view lies in the memory of its operand.",
        "See is_view.",
        AtOnce(_views_share),
        _is_view,
    ),
    Property(
        "structure: elementwise",
        "An element of the result depends on the elements at the same position.",
        "See structure: do not declare Elementwise. Or evaluate.",
        AtSamples(_is_elementwise),
        _has(Elementwise),
    ),
    Property(
        "structure: ufunc",
        "Reductions of two parts, combined by the ufunc of the fold, are the reduction of both.",
        "See fold, and its ufunc.",
        AtSamples(_combines),
        _has_ufunc,
    ),
    Property(
        "structure: fold",
        "Folding elements one by one agrees with `evaluate`.",
        "See fold: combine, identity, start, finish. Or evaluate.",
        AtSamples(_folds),
        lambda primitive: (
            isinstance(primitive.structure, Reduction | Scan)
            and primitive.structure.fold is not None
        ),
    ),
    Property(
        "structure: index map",
        "The windows of a movement read the elements that `evaluate` reads.",
        "See windows, or evaluate.",
        AtSamples(_moves_as_said),
        _has(Movement),
    ),
    Property(
        "structure: rows last",
        "With axis 0 moved to the end, a movement does the same.",
        "See rows_last: the parameters for this layout, or None.",
        AtSamples(_has_rows_last),
        _has(Movement, "rows_last"),
    ),
    Property(
        "structure: cores",
        "An example of a stack depends on the operands' examples at the same position.",
        "See cores: the number of trailing axes of an example of each operand. Or evaluate.",
        AtSamples(_keeps_examples_apart, _has_examples),
        lambda primitive: bool(primitive.cores),
    ),
    Property(
        "structure: along an axis",
        "The loop along an axis computes the operation.",
        "See along, its axis and number. Or evaluate.",
        AtSamples(_runs_along_axis),
        _has(Opaque, "along"),
    ),
    Property(
        "structure: products of windows",
        "Results are sums of products of elements of windows and of kernels.",
        "See windows: the names of the arrays, strides, dilations, groups. Or evaluate.",
        AtSamples(multiplies_windows),
        _has(Opaque, "windows"),
    ),
    Property(
        "structure: order",
        "Results are the elements along an axis in a stable order, or their places.",
        "See orders: axis, descending, places. Or evaluate.",
        AtSamples(orders),
        _has(Opaque, "orders"),
    ),
    Property(
        "structure: arrays",
        "Functions that libraries of arrays have compute the operation, and flag its errors.",
        "See arrays: its results, and flags. Or evaluate.",
        AtSamples(computes_arrays),
        _has(Opaque, "arrays"),
    ),
    Property(
        "structure: finite results",
        "The result is the first operand if that is finite.",
        "See keeps_finite, or evaluate.",
        AtSamples(keeps_finite),
        lambda primitive: (
            isinstance(primitive.structure, Opaque) and primitive.structure.keeps_finite
        ),
    ),
    Property(
        "structure: factors",
        "Results follow from triangular factors of the matrices.",
        "See factorization: which factors, and how results follow. Or evaluate.",
        AtSamples(_is_factored),
        _has(Factored),
    ),
    Property(
        "structure: random words",
        "Results are the words of the blocks of the formula.",
        "See block, or evaluate.",
        AtSamples(_draws),
        _has(Random),
    ),
    Property(
        "structure: gather",
        "Results of a gather are the elements of the first operand at the places.",
        "See places, or evaluate.",
        AtSamples(_gathers),
        _has(Gather),
    ),
    Property(
        "structure: scan",
        "Results of a scan depend on elements on one side only.",
        "See structure.",
        AtSamples(_looks_to_one_side),
        _has(Scan),
    ),
    Property(
        "structure: letters",
        "The letters of a contraction are its einsum.",
        "See letters.",
        AtSamples(_letters_hold),
        _has(Contraction),
    ),
    Property(
        "structure: scatter",
        "Updates go to the places, one after the other, and are folded there; other elements stay.",
        "See places, updates, fold. Or evaluate.",
        AtSamples(_scatters),
        _has(Scatter),
    ),
)
