"""Batches: ``vmap`` is a loop; also nested, empty, and combined with derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._core.trace import Value
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.testing.operations.agreement import (
    batch_of,
    coarsest,
    direction,
    directions,
    loop,
    require_all_near,
    require_near,
    require_specs,
)
from funcgrad.testing.operations.cases import Case
from funcgrad.testing.operations.declarations import is_differentiated
from funcgrad.testing.operations.properties import AtSamples, Property


def _has_arguments(case: Case) -> bool:
    return bool(case.args)


def _batchings(count: int) -> list[tuple[bool, ...]]:
    """Yield flags: each argument by itself, and all arguments together."""
    alone = [tuple(k == j for j in range(count)) for k in range(count)] if count <= 4 else []
    return [*alone, (True,) * count] if count > 1 else [(True,) * count]


def _axes(flags: Sequence[bool]) -> tuple[int | None, ...]:
    return tuple([0 if flag else None for flag in flags])


def _batched(args: Sequence[Value], flags: Sequence[bool], size: int) -> list[Value]:
    return [batch_of(x, size) if flag else x for x, flag in zip(args, flags, strict=True)]


def _words(flags: Sequence[bool]) -> str:
    return f"arguments {[k for k, flag in enumerate(flags) if flag]} batched"


def _listed(outs: Value) -> Sequence[Value]:
    return outs if isinstance(outs, tuple) else (outs,)


def _is_a_loop(case: Case) -> None:
    f = case.function()
    for flags in _batchings(len(case.args)):
        for size in (1, 3):
            args = _batched(case.args, flags, size)
            outs = _listed(vmap(f, in_axes=_axes(flags))(*args))
            expected = loop(case, args, flags, size)
            name = f"{size} examples, {_words(flags)}"
            require_specs(outs, expected, name)
            require_all_near(outs, expected, 1e-12, name)


def _is_empty_where_nothing_is(case: Case) -> None:
    outs = _listed(vmap(case.function())(*[batch_of(x, 0) for x in case.args]))
    one = loop(case, [batch_of(x, 1) for x in case.args], (True,) * len(case.args), 1)
    expected = [np.zeros((0, *x.shape[1:]), x.dtype) for x in one]
    require_specs(outs, expected, "no examples")


def _is_nested(case: Case) -> None:
    count = len(case.args)
    inner_flags = tuple(k % 2 == 0 for k in range(count))
    outer_flags = tuple(k % 2 == 1 or count == 1 for k in range(count))
    f = case.function()
    args: list[Value] = list(case.args)
    for flags in (inner_flags, outer_flags):
        args = _batched(args, flags, 2)
    within = vmap(f, in_axes=_axes(inner_flags))
    outs = _listed(vmap(within, in_axes=_axes(outer_flags), axis_size=2)(*args))
    for i in range(2):
        row = [a[i] if flag else a for a, flag in zip(args, outer_flags, strict=True)]
        expected = loop(case, row, inner_flags, 2)
        actual = [np.asarray(out)[i] for out in outs]
        require_all_near(actual, expected, 1e-12, f"outside {_words(outer_flags)}, inside others")


def _derivatives(case: Case) -> None:
    f = case.followed_function(case.differentiable)
    for flags in _batchings(len(case.differentiable)):
        _derivatives_of(case, f, flags)


def _derivatives_of(case: Case, f: Callable[..., Any], flags: tuple[bool, ...]) -> None:
    size, rng, axes = 2, case.rng(), _axes(flags)
    args = _batched(case.point(case.differentiable), flags, size)
    rows = [[a[i] if flag else a for a, flag in zip(args, flags, strict=True)] for i in range(size)]
    u = tuple(direction(rng, out) for out in vmap(f, in_axes=axes)(*args))
    v = directions(rng, args)
    pulled = [vjp(f, *row)[1](tuple(ct[i] for ct in u)) for i, row in enumerate(rows)]
    stacked = [np.stack(column) for column in zip(*pulled, strict=True)]
    tolerance = 1e-10 if coarsest(u) == 8 else 1e-4

    per_example = vmap(lambda u, *x: vjp(f, *x)[1](u), in_axes=(0, *axes))(u, *args)
    require_all_near(per_example, stacked, tolerance, f"vmap of vjp, {_words(flags)}")

    total = vjp(vmap(f, in_axes=axes), *args)[1](u)
    sums = [x if flag else np.sum(x, 0) for x, flag in zip(stacked, flags, strict=True)]
    require_all_near(total, sums, tolerance, f"vjp of vmap, {_words(flags)}")

    pushed = vmap(lambda x, v: jvp(f, x, v)[1], in_axes=(axes, axes))(tuple(args), v)
    tangents = [
        jvp(f, row, [t[i] if flag else t for t, flag in zip(v, flags, strict=True)])[1]
        for i, row in enumerate(rows)
    ]
    for k, column in enumerate(zip(*tangents, strict=True)):
        name = f"vmap of jvp, {_words(flags)}"
        require_near(pushed[k], np.stack(column), tolerance, name)


_RULE: Final = (
    "See batch: (primitive, size, arguments, batched, params), the batch on axis 0 of arguments and"
    " of results."
)

BATCHES: Final = (
    Property(
        "batch",
        "A batch is a loop over its examples.",
        _RULE,
        AtSamples(_is_a_loop, _has_arguments, by_kind=True),
    ),
    Property(
        "empty batch",
        "A batch without examples has results of the shapes and dtypes of others.",
        _RULE,
        AtSamples(_is_empty_where_nothing_is, _has_arguments, by_kind=True),
    ),
    Property(
        "batch of batches",
        "A batch of batches is a loop of loops.",
        f"{_RULE} It is written in primitives.",
        AtSamples(_is_nested, _has_arguments, by_kind=True),
    ),
    Property(
        "batch and derivatives",
        "Derivatives of a batch, and batches of derivatives, are loops.",
        f"{_RULE} See differential, too: rules read shapes of traced values by shape_of.",
        AtSamples(_derivatives, lambda case: case.is_smooth, by_kind=True),
        is_differentiated,
    ),
)
