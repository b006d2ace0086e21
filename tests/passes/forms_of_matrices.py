"""Forms, made of any two matrices, for each pass that rebuilds programs.

As in ``parts.py`` a form takes two arrays of one shape and gives one of that shape, so that
products are factors, terms and both of products and sums of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.passes.parts import Pick

# ------------------------------------------------------------------------------------- products


def products(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Products with one matrix, of others and of each other."""
    first = x @ y
    terms = pick(
        lambda: [first, y @ y, (0.5 * x) @ y],
        lambda: [first, first @ y, (first @ y) @ y, fnp.sin(first) @ y],
        lambda: [first, first @ y, x.T @ y, (x - y) @ y],
        lambda: [x @ x, (x @ x) @ x, y @ x, first @ x],
        lambda: [first @ first, first @ y, x @ first],
    )
    return sum(terms[1:], terms[0]) / len(terms)


def products_in_any_order(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Products of vectors with two matrices; each may read any earlier one."""

    def made(v: Any, w: Any) -> Any:
        return pick(lambda: v @ x, lambda: v @ x, lambda: v @ y, lambda: w @ y, lambda: v - w)

    values = [x[0], y[1], x[2] - y[0]]
    for _ in range(pick(6, 10)):
        values.append(made(pick(*values), pick(*values[-3:])))
    scaled = [v / (1.0 + fnp.max(fnp.abs(v))) for v in values]
    return fnp.stack(pick(scaled[-3:], scaled[3:6], [sum(scaled[1:], scaled[0])] * 3))


# ---------------------------------------------------------------------------- sums of products


def sums_in_any_order(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Products and sums, each of any others, added up repeatedly."""

    def made(a: Any, b: Any, c: Any) -> Any:
        return pick(
            lambda: a.T @ b + b.T @ c + c.T @ a,
            lambda: a.T @ b,
            lambda: c + a.T @ b + b.T @ b + a.T @ c,
            lambda: a + b + c,
            lambda: c - a,
            lambda: fnp.outer(a[0], b[1]) + fnp.outer(b[1], a[2]) + fnp.outer(a[0], c[0]) + c,
        )

    values = [x, y, x - y]
    for _ in range(pick(3, 6)):
        values.append(made(pick(*values), pick(*values), pick(*values[-3:])) / pick(1.0, 4.0))
    return values[-1] / (1.0 + fnp.max(fnp.abs(values[-1])))


def sums_of_products(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Sums of products of matrices; the products are terms and factors of others."""
    first = x.T @ y
    total = pick(
        lambda: first + y.T @ x + x.T @ x,
        lambda: x @ y + y @ x + x @ x + first,
        lambda: first + y.T @ y + (x - y).T @ x + x,
        lambda: fnp.einsum("ki,kj->ij", x, y) + y.T @ x + x.T @ x,
        lambda: fnp.einsum("ik,jk->ji", x, y) + fnp.einsum("ik,jk->ji", y, y) + y @ y.T,
    )
    return pick(
        lambda: total / 3,
        lambda: (total + total.T @ x + x.T @ total + y.T @ x) / 9,
        lambda: (total @ total + x @ y + y @ x) / 9,
        lambda: (x + total + y.T @ x + (y - x).T @ total) / 5,
    )


def sums_of_vectors(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Sums of vectors and of sums along an axis, beside products of the same operands."""
    w = pick(x, y, x * y)
    terms = pick(
        lambda: [fnp.sum(x, axis=0), fnp.sum(y, axis=0), fnp.sum(x * y, axis=0), y[0]],
        lambda: [x[0], x[1], x[2], y[0]],
        lambda: [x[0], fnp.sin(x[1]), x[0], fnp.sin(y[1])],
        lambda: [fnp.sum(x, axis=0), fnp.sum(x, axis=1), fnp.sum(w, axis=0), fnp.sum(w, axis=1)],
    )
    bias = sum(terms[1:], terms[0])
    weights = [v[:, None] * u for v, u in zip(terms, terms[1:] + terms[:1], strict=True)]
    return pick(
        lambda: bias * w,
        lambda: sum(weights, bias * x) / 4,
        lambda: sum(weights, x) / 4 + bias,
        lambda: bias + fnp.stack([terms[0] + terms[1] + terms[2]] * 3),
    )


# ---------------------------------------------------------------------------------- contractions


def sums_around(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Sums over products of numbers and of matrices."""
    product = pick(
        lambda: x * y,
        lambda: x @ y,
        lambda: x * x,
        lambda: fnp.square(x),
        lambda: x * y[0],
        lambda: x[:, :1] * y,
        lambda: 0.5 * x,
        lambda: fnp.einsum("ij,jk->ki", x, y),
        lambda: fnp.einsum("ij,ij->ij", x, y),
        lambda: fnp.einsum("i,j->ij", x[0], y[1]),
    )
    axis, kept = pick((0, False), (1, False), (0, True), (1, True), (None, False))
    total = fnp.sum(product, axis=axis, keepdims=kept)
    if axis == 1 and not kept:
        total = total[:, None]
    return pick(
        lambda: total * x / 3, lambda: (total * x + product) / 3, lambda: (total + total * y) / 3
    )


def sums_of_stacks(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Sums over stacks of products, with factors that are repeated."""
    deep = fnp.stack([x, y, x * y, x])
    other = pick(deep, fnp.broadcast_to(y, deep.shape), deep[::-1], fnp.stack([y, y, x, x]))
    product = pick(
        lambda: deep @ other,
        lambda: deep @ y,
        lambda: fnp.einsum("nij,njk->nik", deep, other),
        lambda: fnp.einsum("nij,nkj->nik", deep, other),
        lambda: fnp.einsum("nki,kij->nkj", deep[:, :, :3], deep[:3]),
        lambda: deep * other,
        lambda: fnp.transpose(deep @ other, (0, 2, 1)),
    )
    axis = pick(0, (0, 1), (0, 2), 2)
    total = fnp.sum(product, axis=axis)
    if axis == 2:
        return total[:3] / 4
    return (total * x if total.ndim < 2 else total) / 8


def transpositions(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Transpositions around and inside of products."""
    a = pick(lambda: x.T, lambda: x, lambda: fnp.transpose(x, (0, 1)), lambda: (x + y).T)
    b = pick(lambda: y.T, lambda: y, lambda: fnp.transpose(y, (0, 1)), lambda: x.T)
    subscripts = pick("ij,jk->ik", "ij,jk->ki", "ij,kj->ki", "ji,jk->ik", "ij,ij->ij", "ij,ji->ij")
    product = pick(lambda: a @ b, lambda: fnp.einsum(subscripts, a, b))
    return pick(
        lambda: product.T / 2,
        lambda: fnp.transpose(product, (0, 1)) / 2,
        lambda: (product.T + product) / 4,
        lambda: (product.T @ a.T).T / 4,
        lambda: fnp.einsum("ij,i->j", product, y[0]) * x / 4,
        lambda: fnp.einsum("i,ij->j", fnp.broadcast_to(x[0, 0], (3,)), product) * x / 4,
    )


def products_with_identities(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Products with constant identity matrices, with constants that are nearly such, with both."""
    identity = np.eye(3, dtype=x.dtype)
    matrix = fnp.asarray(
        pick(identity, identity, identity, identity[::-1].copy(), 2 * identity, np.tri(3))
    )
    value = pick(
        lambda: matrix @ x,
        lambda: x @ matrix,
        lambda: matrix @ x.T,
        lambda: (matrix @ (matrix @ x)) @ matrix,
        lambda: fnp.stack([x, y]) @ matrix,
        lambda: matrix @ fnp.stack([x, y]),
        lambda: fnp.stack([matrix @ x[0], x[1] @ matrix, y[0]]),
        lambda: matrix @ x + y @ matrix,
        lambda: fnp.asarray(identity.astype(np.float32)) @ x,
    )
    return value[0] if value.ndim == 3 else value


# ---------------------------------------------------------------------------------- loops and rows


def steps_of_loops(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Small operations on rows, all of one kind; some read the results of others."""

    def chain(v: Any) -> Any:
        return fnp.exp(-fnp.square(v * 0.5 - 1.0)) / (1.5 + fnp.abs(v))

    rows = [chain(v) for v in x]
    again = pick(
        lambda: [chain(v) for v in rows],
        lambda: [chain(v) for v in (rows[0], rows[1], y[2])],
        lambda: [v * w - v for v, w in zip(rows, y, strict=True)],
        lambda: [v * rows[0] - v for v in rows],
        lambda: [v * fnp.sum(v) - fnp.max(w) for v, w in zip(rows, y, strict=True)],
        lambda: [fnp.sin(v) + rows[k - 1] for k, v in enumerate(rows)],
        lambda: [rows[2], rows[0], rows[1]],
    )
    return pick(
        lambda: fnp.stack(again),
        lambda: fnp.concatenate([v[None] for v in again]),
        lambda: fnp.stack([*again, *rows])[1:4],
        lambda: fnp.stack(again) * sum(rows[1:], rows[0]),
        lambda: fnp.stack([v[::-1] for v in again]),
        lambda: x + again[1],
    )


def elementwise_steps(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Operations of one kind, repeated on any of the values so far."""
    return pick(
        lambda: fnp.sin(x) * 0.5 + fnp.sin(y),
        lambda: fnp.sin(x) + fnp.sin(fnp.sin(y)),
        lambda: fnp.where(x > 0.5, fnp.sin(x), fnp.sin(x - y)),
        lambda: fnp.sin(fnp.broadcast_to(x[0], x.shape)) - fnp.sin(x.T) + fnp.sin(y.T),
        lambda: fnp.maximum(x, y) - fnp.maximum(y, x[::-1]) + fnp.maximum(x, 0.25),
    )


def within_rows(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Operations that treat each row alike, and operations across rows."""
    deep = x[:, None, :] - y[0]
    return pick(
        lambda: x - fnp.max(x, axis=1, keepdims=True),
        lambda: fnp.exp(x) / fnp.sum(fnp.exp(x), axis=1, keepdims=True),
        lambda: fnp.min(deep, axis=1) + y,
        lambda: x - fnp.mean(y, axis=0),
        lambda: fnp.max(deep, axis=(0, 1)) * x,
        lambda: x.T + y,
        lambda: fnp.transpose(fnp.transpose(deep, (0, 2, 1)) * 2.0, (2, 0, 1))[0],
        lambda: fnp.concatenate([x[:, 1:], y[:, :1]], axis=1),
        lambda: fnp.concatenate([x[1:], y[:1]]),
        lambda: fnp.stack([x[:, 2], y[:, 0], x[:, 1]], axis=1),
        lambda: x + y[:, 1][:, None] * x[0],
        lambda: fnp.reshape(fnp.reshape(deep, (3, 3, 1)) + 1.0, x.shape) * y,
        lambda: fnp.einsum("ni,nj->ij", x, y) / 3 + x,
        lambda: (x @ y) / 3 - x,
        lambda: x + fnp.argmax(y, axis=1)[:, None] * 0.1,
        lambda: x + fnp.einsum("nk,nj->nkj", x, y)[:, 1] + fnp.einsum("kij,nkj->ni", deep, deep),
    )


# ------------------------------------------------------------------------------------------ calls


def calls(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Calls with rules of their own, nested and applied to each other's results."""

    @fg.custom_jvp
    def product(a: Any, b: Any) -> Any:
        return fnp.sin(a) * b, a + b

    product.defjvp(lambda primals, tangents: (product(*primals), product(*tangents)))
    again = fg.checkpoint(lambda a: product(a, a)[0] + 1.0)
    return pick(
        lambda: product(x, y)[0],
        lambda: product(x, x)[1] - product(*product(x, y))[0],
        lambda: again(x) * product(x, y)[1],
        lambda: again(again(x)) + again(x),
        lambda: fg.checkpoint(lambda a, b: again(a) @ b)(x, y) / 2,
    )


@dataclass(frozen=True)
class Ground:
    """The forms and conditions for the test of one pass.

    Attributes
    ----------
    forms : sequence of callables
    exact : bool
        Whether results keep their bits.
    free : mapping
        Replacements, by name, for functions that decide whether a change pays: it always does.
    """

    forms: Sequence[Callable[..., Any]]
    exact: bool = True
    free: Mapping[str, Any] = field(default_factory=dict)


PRODUCTS: Final = (products, products_in_any_order)
SUMS: Final = (sums_of_products, sums_of_vectors, sums_in_any_order)
CONTRACTED: Final = MappingProxyType({"contractions._sum": sums_around})
"""By the name of a rule, what it is made for."""

_CONTRACTED: Final = (sums_around, sums_of_stacks, transpositions)
_ROWS: Final = (steps_of_loops, elementwise_steps, within_rows)


def loops_half_read(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Loops and branches of which some results are read."""

    def step(carry: Any, row: Any) -> Any:
        first, second = carry
        return (first * row, second + first), (second * 2.0, fnp.abs(first))

    def scanned() -> Any:
        (first, second), (third, fourth) = fg.scan(step, (x[0], y[0]), y)
        return pick(first, second, third, fourth, third + second)

    def chosen() -> Any:
        first, second = fg.cond(x[0, 0] > y[0, 0], lambda: (x + y, x * y), lambda: (x - y, y))
        return pick(first, second, first * second)

    def repeated() -> Any:
        _, first, second = fg.while_loop(
            lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * y, c[2] + x), (0, x, y)
        )
        return pick(first, second)

    return x + pick(scanned, chosen, repeated)()


def loops_that_scatter(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Gradients of loops that read elements or blocks, and loops that change some elements."""

    form = pick(0, 1, 2)  # chosen once: outside of jit a step is called again and again

    def read(x: Any) -> Any:
        def add(c: Any, i: Any) -> Any:
            term = (lambda: x[i], lambda: fnp.dynamic_slice(x, (i, 0), (1, 2)), lambda: x[0, i])
            return c + fnp.sum(fnp.sin(term[form]())), None

        return fg.scan(add, 0.0, fnp.arange(3))[0]

    def step(c: Any, i: Any) -> Any:
        changed = (lambda: c.at[i].set(y[i]), lambda: c.at[i].add(c[0]), lambda: c + y)
        return changed[form](), None

    return pick(lambda: fg.grad(read)(x), lambda: fg.scan(step, x, fnp.arange(3))[0])


def sums_over_steps(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Loops that add products of vectors to a matrix at each step."""
    turned = pick(True, False)

    def step(c: Any, rows: Any) -> Any:
        v, w = rows
        product = fnp.outer(fnp.sin(v), w)
        return c + (product + fnp.outer(w, v) if turned else product), None

    return fg.scan(step, pick(x.T @ y, fnp.zeros_like(x.T @ y)), (x, y))[0]


def choices_by_one_flag(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Choices between computations by one flag, whose sides others may read, too."""
    long = fnp.sin(x) * 1.5 + x
    flag = pick(x[0, 0] > y[0, 0], ~(x[0, 0] > y[0, 0]))
    chosen = pick(
        lambda: fnp.where(flag, long, x),
        lambda: fnp.where(flag, 0.0, fnp.where(flag, y, long) * 2.0),
        lambda: fnp.where(flag, long, fnp.cos(y)) + fnp.where(flag, x, fnp.sum(long)),
        lambda: fnp.where(flag, long, x) + long,
    )
    return chosen() + y


def many_small_rows(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Elementwise functions, sums and products of many rows of three elements."""
    a, b = [fnp.concatenate([m, m + 1.0, m * 2.0, m.T]) for m in (x, y)]
    c = pick(
        lambda: a * b,
        lambda: fnp.cross(a, b),
        lambda: a / (1.0 + fnp.sum(b * b, axis=1, keepdims=True)),
        lambda: fnp.sum(a[:, :, None] * b[:, None], axis=2),
        lambda: fnp.stack([a[:, 0] * b[:, 1], b[:, 2], a[:, 1]], axis=1),
    )
    d = pick(lambda: c + a[:, ::-1], lambda: fnp.sin(c) * b, lambda: fnp.where(a > b, c, a))
    return d[:3] + d[9:]


GROUNDS: Final[Mapping[str, Ground]] = MappingProxyType(
    {
        "fold_into_contractions": Ground(
            _CONTRACTED, exact=False, free={"_LARGE": 0, "_SOME": 0, "_LONG": 0}
        ),
        "copy_products_with_identities": Ground(
            (products_with_identities,),
            free={"_LEAST_ROWS": 1, "_LEAST_ROWS_TURNED": 1, "_LEAST_VOLUME": 0},
        ),
        "put_rows_last": Ground(
            (within_rows, elementwise_steps),
            exact=False,
            free={
                "_MANY_ROWS": 1,
                "_LONGEST_ROW": 100,
                "_ROWS_TO_COLUMNS": 1,
                "_SOME": 0,
                "_LEAST_GAIN": -1e9,
            },
        ),
        "schedule": Ground((*PRODUCTS, *_ROWS), free={"_WORTH_IT": 0, "_GAIN": 0.999}),
        "merge_common_subexpressions": Ground((*PRODUCTS, *SUMS, *_ROWS)),
        "sum_after_loops": Ground((sums_over_steps,), exact=False, free={"_STEPS": 0, "_SHARE": 0}),
        "change_in_place": Ground((loops_that_scatter,)),
        "leave_out_unread": Ground((loops_half_read,)),
        "remove_dead_code": Ground((*_CONTRACTED, *_ROWS, calls)),
        "simplified": Ground((*PRODUCTS, *_ROWS, calls)),
        "optimize": Ground((*PRODUCTS, *SUMS, *_CONTRACTED, calls), exact=False),
        "prepared": Ground((*PRODUCTS, *SUMS, *_CONTRACTED, *_ROWS, calls), exact=False),
        "prepared_exactly": Ground((*PRODUCTS, *_ROWS, calls)),
        "inlined": Ground((calls, *_ROWS)),
        "small_axes_apart": Ground(
            (many_small_rows,), exact=False, free={"_LONG": 12, "_EXAMPLES": 1, "_WORTH": 1e9}
        ),
        "with_branches": Ground((choices_by_one_flag,), free={"_LEAST": 1, "_STORED": 0}),
    }
)
"""By the name of a pass."""
