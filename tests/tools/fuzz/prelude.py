"""What the text of a generated program refers to, and a minimal program imports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import funcgrad as fg
import funcgrad.nn
import funcgrad.numpy as fnp
import funcgrad.scipy.fft
import funcgrad.scipy.linalg
import funcgrad.scipy.special
import funcgrad.scipy.stats
from funcgrad._primitives.sparse_matrices import SparseLayout
from funcgrad.tensor.tensor import apply
from tests.conformance import every_primitive, strangers
from tests.passes.forms_of_matrices import GROUNDS
from tests.passes.generator import FORMS, Pick, every_rule
from tests.strangers.eigenvalues import eigenvalues
from tests.strangers.iteration import iterated

__all__ = [
    "SparseLayout",
    "above",
    "between",
    "branched",
    "composed",
    "definite",
    "eigenvalues",
    "fg",
    "fit",
    "fnp",
    "form",
    "ground",
    "image",
    "iterated",
    "matrix",
    "np",
    "numbered",
    "rebuilt",
    "regular",
    "repeated",
    "run",
    "scanned",
    "simplex",
    "spectral",
    "switched",
    "total",
    "until",
    "with_clipped_vjp",
    "with_halved_vjp",
    "with_jvp",
    "with_linear_jvp",
    "with_vjp",
]


def _operation(primitive: Any) -> Callable[..., Any]:
    return lambda *args, **params: apply(primitive, *args, **params)


class _Operations:
    """Operations as attributes: ``jit`` follows those alone that a program names."""

    def __init__(self, operations: dict[str, Callable[..., Any]]) -> None:
        vars(self).update(operations)


run: Final[Any] = _Operations(
    {each.name: _operation(each) for each in (*every_primitive(), *strangers())}
)
"""Every primitive with one result by its name, strangers' too: ``run.sin(x)``."""


# What functions of a family want: made of any value, smoothly, with derivatives that flow.


def between(x: Any, low: float, high: float) -> Any:
    """Real numbers inside of an interval."""
    return low + (high - low) * (0.5 + 0.45 * fnp.tanh(fnp.asarray(x).real))


def above(x: Any, low: float) -> Any:
    """Real numbers above a limit, and not far from it."""
    return between(x, low, low + 4.0)


def simplex(x: Any) -> Any:
    """Three positive numbers whose sum is one."""
    return fg.nn.softmax(fnp.tanh(fnp.resize(fnp.asarray(x).real, (3,))))


def matrix(x: Any) -> Any:
    """A matrix of three rows, or a stack of them; whatever its rank."""
    x = fnp.asarray(x)
    return x if x.shape[-2:] == (3, 3) else fnp.resize(x, (3, 3))


def regular(x: Any) -> Any:
    """A matrix far from singular ones, with distinct eigenvalues."""
    return 0.25 * fnp.tanh(matrix(x)) + np.array([[2.0, 1.0, 0.0], [0, 3.0, 1.0], [0.5, 0, 4.0]])


def definite(x: Any) -> Any:
    """A Hermitian positive definite matrix."""
    x = fnp.tanh(matrix(x))
    return 0.25 * x @ fnp.conj(fnp.matrix_transpose(x)) + np.diag([1.0, 1.5, 2.0])


def spectral(function: Callable[..., Any], x: Any) -> Any:
    """A function of a Hermitian matrix, through its eigenvalues and eigenvectors."""
    values, vectors = fnp.linalg.eigh(definite(x))
    return (vectors * function(values)[..., None, :]) @ fnp.conj(fnp.matrix_transpose(vectors))


def rebuilt(x: Any) -> Any:
    """A matrix with its singular values squared, through its singular vectors."""
    left, values, right = fnp.linalg.svd(regular(x), full_matrices=False)
    return (left * (values * values)[..., None, :]) @ right


def image(x: Any) -> Any:
    """One image of one channel."""
    return matrix(x)[..., None, None, :, :] if fnp.ndim(x) < 3 else fnp.resize(x, (1, 1, 3, 3))


def total(x: Any) -> Any:
    """A real number that depends on every element; sums differ from element to element."""
    x = fnp.asarray(x)
    if x.dtype.kind == "c":
        return total(x.real) + 0.5 * total(x.imag)
    weights = np.arange(1, x.size + 1) % 5 + 1
    return fnp.sum(fnp.reshape(x, (-1,)) * weights.astype(x.dtype) * 0.25)


def with_jvp(f: Callable[..., Any]) -> Any:
    """The function with a rule that says what is so anyway."""
    ruled = fg.custom_jvp(f)
    ruled.defjvp(lambda primals, tangents: fg.jvp(f, primals, tangents))
    return ruled


def with_vjp(f: Callable[..., Any]) -> Any:
    """The same with a pullback."""
    ruled = fg.custom_vjp(f)
    ruled.defvjp(lambda *args: (f(*args), args), lambda args, ct: fg.vjp(f, *args)[1](ct))
    return ruled


def with_linear_jvp(f: Callable[..., Any]) -> Any:
    """A scaled copy whose rule calls itself on the tangent, as that of a linear function may."""

    @fg.custom_jvp
    def scaled(x: Any) -> Any:
        return 3.0 * x

    @scaled.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        return scaled(*primals), scaled(*tangents)

    return lambda *args: scaled(f(*args))


def with_halved_vjp(f: Callable[..., Any]) -> Any:
    """The function with half of its derivative, which no difference finds."""
    ruled = fg.custom_vjp(f)
    ruled.defvjp(
        lambda *args: (f(*args), args),
        lambda args, ct: fg.tree.map(lambda own: own * 0.5, fg.vjp(f, *args)[1](ct)),
    )
    return ruled


def with_clipped_vjp(f: Callable[..., Any]) -> Any:
    """The function with clipped cotangents: no linear map, and so none that is pushed."""
    ruled = fg.custom_vjp(f)

    def clipped(args: Any, ct: Any) -> Any:
        size = abs(ct)
        return fg.vjp(f, *args)[1](fnp.where(size > 0.25, 0.25 * ct, ct))

    ruled.defvjp(lambda *args: (f(*args), args), clipped)
    return ruled


# Running totals.


def composed(x: Any, y: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Where the functions t -> a t + b of two arrays, one after the other, take 1."""

    def after(first: Any, second: Any) -> Any:
        return first[0] * second[0], second[0] * first[1] + second[1]

    slopes = fnp.tanh(fnp.asarray(x))
    offsets = fit(slopes, y)
    a, b = fg.associative_scan(after, (slopes, offsets), reverse=reverse, axis=axis)
    return a + b


# Loops and branches, which carry and return numbers of Python beside arrays.


def product(x: Any, k: Any) -> Any:
    """A product in the dtype of the first.

    A Python number that each example chooses is an array in a batch, whose dtype would count.
    """
    return x * k.astype(x.dtype)


def branched(f: Callable[[Any], Any], x: Any) -> Any:
    """One of two functions by a number."""
    return fg.cond(total(x) > 0.5, f, lambda x: f(fit(x, x)), x)


def numbered(f: Callable[[Any], Any], x: Any) -> Any:
    """Numbers of Python of two kinds, and beside an array, as factors of a function."""
    large = total(x) > 0.5
    first = fg.cond(large, lambda k: k, lambda k: k * 2.5, 2)
    second = fg.cond(~large, lambda: total(x), lambda: 1)
    third = fg.cond(large, lambda done: ~done, lambda done: done, False)
    out = product(product(fnp.asarray(f(x)), first), second)
    return fnp.where(third, out, fnp.flip(out))


def switched(f: Callable[[Any], Any], x: Any) -> Any:
    """One of four functions by an integer."""
    index = fnp.clip(total(x), -1.0, 4.0).astype(int)
    functions = [f, lambda x: f(fit(x, x)), lambda x: fnp.flip(f(x)), lambda x: f(x) + f(x)]
    factors = [lambda: True, lambda: 3, lambda: 0.5, lambda: 2]
    return product(fg.switch(index, functions, x), fg.switch(index, factors))


def repeated(f: Callable[[Any], Any], x: Any) -> Any:
    """A loop that counts, and carries an array, a number of Python that changes and a flag."""

    def step(i: Any, carry: Any) -> Any:
        x, k, done = carry
        return fit(x, f(x)), (k + i) * 0.5, ~done ^ ~(i == 2)

    x, k, done = fg.fori_loop(1, 4, step, (x, 1, False))
    return fnp.where(done, x, x * k)


def until(f: Callable[[Any], Any], x: Any) -> Any:
    """A loop that stops by a number, a count or a flag."""

    def goes_on(carry: Any) -> Any:
        x, count, done = carry
        return (count < 3) & ~done & (total(x) < 1.5)

    def step(carry: Any) -> Any:
        x, count, _ = carry
        x = fnp.where(~(count == 1), fit(x, f(x)), x)
        return x, count + 1, total(x) < -1.0

    x, count, _ = fg.while_loop(goes_on, step, (x, 0, False))
    return product(x, count)


def scanned(f: Callable[[Any], Any], x: Any) -> Any:
    """A loop over an array, which carries and stacks numbers that begin as Python's."""

    def step(carry: Any, row: Any) -> Any:
        x, a, b = carry
        x = fit(x, f(x))
        return (x, b, (b + 1) * 0.5), (total(x) * a + row, b)

    rows = fnp.resize(fnp.asarray(x), (3,))
    (x, a, b), (first, second) = fg.scan(step, (x, 0, 2), rows)
    return x * a + b * fnp.sum(first * second)


def fit(like: Any, x: Any) -> Any:
    """Something of the shape and the dtype of one value that depends on another."""
    like = fnp.asarray(like)
    if like.dtype.kind in "fc":
        return (like + 0.125 * fnp.tanh(total(x))).astype(like.dtype)
    return fnp.where(total(x) > 0.5, like, fnp.flip(like))


_OPERATIONS: Final = {name: next(iter(operations)) for name, operations in every_rule().items()}


def form(rule: str, x: Any, y: Any, seed: int) -> Any:
    """Something of two matrices that a rule of a pass applies to."""
    return FORMS[rule](_OPERATIONS[rule], x, y, Pick(seed))


def ground(change: str, k: int, x: Any, y: Any, seed: int) -> Any:
    """Something of two matrices that a pass applies to."""
    return GROUNDS[change].forms[k](None, x, y, Pick(seed))
