"""Programs of every kind for ``check_backend``: functions with their arguments.

>>> program = next(every_program())
>>> program.kind, program.name
('elementwise', 'sums and products')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.choices import cond, switch
from funcgrad._control.scans import scan
from funcgrad._control.whiles import fori_loop, while_loop
from funcgrad._core import pytrees
from funcgrad._staging.jit import jit
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.checkpoint import checkpoint
from funcgrad._transforms.custom import custom_jvp, custom_vjp
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.jacobian import hessian
from funcgrad._transforms.reverse import grad, value_and_grad
from funcgrad.nn.activations import gelu, relu, softplus
from funcgrad.random.continuous import normal, uniform
from funcgrad.random.keys import fold_in, key
from funcgrad.tensor.tensor import Tensor, tensor

Function: TypeAlias = Callable[..., Any]
Listed: TypeAlias = "tuple[str, Function, tuple[Any, ...]]"


@dataclass(frozen=True, slots=True)
class ProgramOfAKind:
    """A function on which a backend is checked.

    Attributes
    ----------
    kind, name : str
    function : callable
    args : tuple of pytrees
        Arrays and Python numbers.
    others : tuple of tuples
        Further arguments of the same shapes and dtypes, for which control flow may take another
        path.
    """

    kind: str
    name: str
    function: Function
    args: tuple[Any, ...]
    others: tuple[tuple[Any, ...], ...] = ()


X: Final = tensor([[0.5, -1.25, 2.0], [0.75, 1.5, -0.25]])
V: Final = tensor([0.5, -1.25, 2.0, 0.125])
N: Final = tensor([3, -1, 2, 7])
B: Final = tensor([True, False, True, True])
C: Final = tensor([0.5 + 1.0j, -1.25 - 0.5j, 2.0j])
SQUARE: Final = tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])


def every_program() -> Iterator[ProgramOfAKind]:
    """Yield the programs, kind by kind, the simplest first."""
    for kind, programs in _KINDS:
        for name, function, inputs in programs():
            args = _arrays(inputs)
            yield ProgramOfAKind(kind, name, function, args, (pytrees.map(_halved, args),))
    for name, function, first, *others in _branching():
        yield ProgramOfAKind("guards", name, function, _arrays(first), _arrays(tuple(others)))


def _arrays(args: tuple[Any, ...]) -> Any:
    """Convert the tensors among arguments to NumPy arrays."""
    return pytrees.map(lambda x: np.asarray(x) if isinstance(x, Tensor) else x, args)


def _halved(x: object) -> Any:
    if isinstance(x, np.ndarray) and x.dtype.kind in "fc":
        return np.asarray(x * 0.5, x.dtype)
    return x * 0.5 if type(x) is float else x


def _elementwise() -> Iterator[Listed]:
    yield "sums and products", lambda x, y: x * y + x - y / 2.0, (X, X + 3.0)
    yield "one operation", fnp.exp, (X,)
    yield "a chain", lambda x: fnp.tanh(fnp.sin(x) * fnp.exp(-x) + 1.0), (X,)
    yield "powers and roots", lambda x: fnp.sqrt(x**2 + 1.0) ** 1.5 + x**3, (X,)
    yield "broadcasting", lambda x, y: x[:, :, None] * y - x[0, 0], (X, V)
    yield "comparisons", lambda x: (x > 0, x == 0.5, fnp.logical_not(x < 1.0), fnp.sign(x)), (X,)
    yield "selection", lambda x: fnp.where(x > 0, fnp.log(fnp.abs(x)), x), (X,)
    yield "extrema", lambda x, y: (fnp.maximum(x, y), fnp.minimum(x, 0.0)), (X, X[::-1])
    yield "formulas", lambda x: gelu(x) + relu(x) * softplus(x), (X,)
    yield "rounding", lambda x: (fnp.floor(x), fnp.round(x, 1), fnp.trunc(x), x % 0.75), (X,)
    yield "angles", lambda x, y: fnp.arctan2(x, y) + fnp.hypot(x, y), (X, X + 0.5)
    yield (
        "infinities and NaN",
        lambda x: (1.0 / x, fnp.log(x), x - x),
        (np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e307]),),
    )


def _reductions() -> Iterator[Listed]:
    for name in ("sum", "mean", "prod", "max", "min", "var", "argmax", "argmin"):
        reduce: Function = getattr(fnp, name)
        yield name, lambda x, f=reduce: (f(x), f(x, axis=0), f(x, axis=-1)), (X,)
    yield "kept axes", lambda x: x - fnp.mean(x, axis=1, keepdims=True), (X,)
    yield "truth", lambda x: (fnp.any(x > 1, axis=0), fnp.all(x > -2), fnp.count_nonzero(x)), (X,)
    yield "softmax", lambda x: fnp.exp(x - fnp.logsumexp(x, axis=1, keepdims=True)), (X,)
    yield "running", lambda x: (fnp.cumsum(x, axis=1), fnp.cumprod(x, axis=0)), (X,)
    yield "of an expression", lambda x: fnp.sum(fnp.sin(x) * x), (X,)


def _movements() -> Iterator[Listed]:
    yield "views alone", lambda x: (x.T, x[::-1, 1:], fnp.reshape(x, (3, 2)), x[..., None]), (X,)
    yield "an argument again", lambda x: x, (X,)
    yield "views of results", lambda x: (x * 2.0).T[::-1] + 1.0, (X,)
    yield "joined", lambda x, y: (fnp.concatenate([x, y]), fnp.stack([x, y], axis=1)), (X, X * 2.0)
    yield "flipped and rolled", lambda x: fnp.flip(x, 0) + fnp.roll(x, 1, axis=1), (X,)
    yield "padded", lambda x: fnp.pad(x, ((1, 0), (0, 2))) * 2.0, (X,)
    yield "broadcast", lambda x: fnp.broadcast_to(x[:, None], (2, 4, 3)) + 1.0, (X,)
    yield "converted", lambda x: (x.astype("float32"), x.astype("int64"), x.astype(bool)), (X,)


def _contractions() -> Iterator[Listed]:
    yield "matrix product", lambda x, y: x @ y, (X, X.T)
    yield "with vectors", lambda a, v: (a @ v, v @ a, v @ v), (SQUARE, V[:3])
    yield "stacked", lambda x: fnp.matmul(x[None] * fnp.ones((4, 1, 1)), x.T), (X,)
    yield "einsum", lambda x, y: fnp.einsum("ij,kj->ik", x, y) + fnp.einsum("ij->", x), (X, X)
    yield "a layer", lambda w, b, x: fnp.tanh(x @ w + b), (SQUARE, V[:3], X)


def _gathers() -> Iterator[Listed]:
    yield "at places", lambda v, i: v[i] * 2.0, (V, np.array([2, 0, -1, 2]))
    yield "rows", lambda x, i: x[i] + fnp.take(x, i, axis=1), (SQUARE, np.array([2, 0, 0]))
    yield "where a mask holds", lambda v: v[np.array([True, False, True, True])], (V,)
    yield "set", lambda v, i: fnp.asarray(v).at[i].set(9.0), (V, np.array([1, 3]))
    yield "add", lambda v, i: fnp.asarray(v).at[i].add(fnp.exp(v[i])), (V, np.array([1, 1, 0]))
    yield "greatest", lambda v, i: fnp.asarray(v).at[i].max(1.0), (V, np.array([1, 0]))
    yield "a slice set", lambda x: fnp.asarray(x).at[:, 1:].set(x[:, :-1] * 2.0), (X,)


def _random() -> Iterator[Listed]:
    bits = np.asarray(key(3))
    yield "uniform", lambda k, scale: uniform(k, (5,)) * scale, (bits, 2.0)
    yield "normal", lambda k, x: x + normal(k, (2, 3)), (bits, X)
    yield (
        "keys in a loop",
        lambda k, x: scan(
            lambda c, number: (c + normal(fold_in(k, number), (3,)), None), x, np.arange(3)
        )[0],
        (bits, V[:3]),
    )


def _loops() -> Iterator[Listed]:
    def step(carry: Tensor, row: Tensor) -> Any:
        new = fnp.sin(carry) * 0.5 + row
        return new, new * 2.0

    def two(carry: Tensor, row: Tensor) -> Any:
        x, k = carry
        return (x * 0.5 + row, k + 1), (x, k * 2)

    yield "scan", partial(scan, step), (V[:3], X)
    yield "scan reversed", partial(scan, step, reverse=True), (V[:3], X)
    yield "scan of a pair", lambda x, rows: scan(two, (x, 0), rows), (V[:3], X)
    yield "scan without rows", lambda x: scan(lambda c, _: (c * 1.5, c[0]), x, None, length=4), (V,)
    yield "scan of no steps", lambda x: scan(step, x, fnp.zeros((0, 3))), (V[:3],)
    yield (
        "scan in a scan",
        lambda x, rows: scan(lambda c, row: scan(step, c, rows * row[0]), x, rows),
        (V[:3], X),
    )
    yield (
        "values that a body closes over",
        lambda x, w: scan(lambda c, row: (fnp.tanh(w @ c + row), c[0]), x, fnp.stack([x, x * 0.5])),
        (V[:3], SQUARE),
    )
    yield (
        "carries that change places",
        lambda x, y: fori_loop(0, 3, lambda _, c: (c[1], c[0] * 0.5), (x, y)),
        (V, V + 1.0),
    )
    yield "fori_loop", lambda x: fori_loop(1, 4, lambda k, c: c * 0.5 + k, x), (V,)
    yield (
        "while_loop",
        lambda x: while_loop(lambda c: fnp.sum(c * c) > 0.1, lambda c: c * 0.5, x),
        (V,),
    )
    yield (
        "a while_loop that does not begin",
        lambda x: while_loop(lambda c: fnp.sum(c) > 1e9, lambda c: c + 1.0, x),
        (V,),
    )
    yield (
        "a while_loop that counts",
        lambda x: while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, fnp.cos(s[1])), (0, x)),
        (0.5,),
    )


def _loops_backwards() -> Iterator[Listed]:
    def rolled(x: Tensor, rows: Tensor) -> Any:
        last, all_rows = scan(lambda c, row: (fnp.sin(c) * row, c * row), x, rows)
        return fnp.sum(last) + fnp.sum(all_rows**2)

    def shrunk(x: Tensor) -> Any:
        return fnp.sum(
            while_loop(lambda c: fnp.sum(c * c) > 0.5, lambda c: fnp.sin(c) * 0.75, x) ** 2
        )

    yield "scan", grad(rolled, argnums=(0, 1)), (V[:3], X)
    yield "scan, twice", hessian(rolled), (V[:3], X)
    yield "while_loop", grad(shrunk), (V,)
    yield "while_loop, twice", hessian(shrunk), (V,)
    yield "while_loop, forward", lambda x: jvp(shrunk, (x,), (x,)), (V,)
    yield "fori_loop", grad(lambda x: fnp.sum(fori_loop(0, 3, lambda k, c: c * c + k, x))), (V,)


def _choices() -> Iterator[Listed]:
    def f(x: Tensor) -> Any:
        return cond(fnp.sum(x) > 0, lambda x: fnp.sin(x) * 2.0, lambda x: x - 1.0, x)

    branches = [lambda x: x, lambda x: x * 2.0, lambda x: fnp.exp(x)]
    for sign in (1.0, -1.0):
        yield f"cond {sign:+}", f, (V * sign,)
        yield f"the gradient of cond {sign:+}", grad(lambda x: fnp.sum(f(x) ** 2)), (V * sign,)
    for number in (-1, 0, 1, 2, 5):
        yield f"switch {number}", lambda k, x: switch(k, branches, x), (np.int64(number), V)
    yield (
        "cond of results in pairs",
        lambda x: cond(x[0] > 0, lambda x: {"a": x, "b": 1.0}, lambda x: {"a": -x, "b": 2.0}, x),
        (V,),
    )
    yield (
        "cond in a scan",
        lambda x, rows: scan(
            lambda c, row: (cond(row[0] > 0.6, fnp.sin, lambda c: c * 2.0, c), c), x, rows
        ),
        (V[:3], X),
    )
    yield (
        "vmap of cond",
        vmap(lambda x: cond(x > 0, lambda x: x * 2.0, lambda x: fnp.exp(x), x)),
        (V,),
    )


def _branching() -> Iterator[tuple[Any, ...]]:
    """Yield functions with Python's control flow, which programs record as guards."""
    yield "if", lambda x: x * 2.0 if x[0] > 0 else fnp.exp(x), (V,), (-V,), (V * 3.0,), (-V,)
    yield "if of an argument", lambda x: x * 2.0 if x > 1 else -x, (2.0,), (0.5,), (3.0,)
    yield (
        "for",
        lambda n, x: sum([x * k for k in range(int(n))]),
        (np.int64(3), V),
        (np.int64(2), V),
        (np.int64(3), V),
    )
    yield "float", lambda x: fnp.asarray(float(x[0])) * x, (V,), (V * 2.0,), (V,)
    yield "an if behind another", _nested_ifs, (V,), (-V,), (V * 0.1,), (V,)
    yield "the gradient of if", grad(lambda x: x**3 if x > 0 else -x), (2.0,), (-1.0,), (3.0,)
    yield "if in a call", jit(lambda x: fnp.sum(x) if x[0] > 0 else fnp.prod(x)), (V,), (-V,)
    yield "signs of zero", lambda x: x * 1.0 if float(x) == 0.0 else x, (0.0,), (-0.0,), (0.0,)


def _nested_ifs(x: Tensor) -> Any:
    y = fnp.sin(x)
    if fnp.sum(y) > 0:
        z = y * 2.0
        return z + 1.0 if z[2] > 0.5 else z - 1.0
    return y


def _rules() -> Iterator[Listed]:
    @custom_vjp
    def clipped(x: Tensor) -> Any:
        return fnp.sin(x)

    clipped.defvjp(lambda x: (fnp.sin(x), x), lambda x, ct: (fnp.clip(ct * fnp.cos(x), -0.5, 0.5),))

    @custom_jvp
    def steep(x: Tensor) -> Any:
        return fnp.tanh(x)

    steep.defjvp(lambda primals, tangents: (steep(*primals), tangents[0] * 3.0))
    for name, f in (("custom_vjp", clipped), ("custom_jvp", steep)):
        yield name, lambda x, f=f: f(x) * 2.0, (V,)
        yield f"the gradient of {name}", grad(lambda x, f=f: fnp.sum(f(x) * x)), (V,)
        yield (
            f"{name} in a scan",
            grad(lambda x, f=f: fnp.sum(scan(lambda c, k: (f(c) + k, c), x, np.arange(3.0))[0])),
            (V,),
        )
    inside = checkpoint(lambda x: fnp.exp(fnp.sin(x)))
    yield "checkpoint", lambda x: inside(x) + 1.0, (V,)
    yield "the gradient of checkpoint", grad(lambda x: fnp.sum(inside(x) ** 2)), (V,)
    yield "jit in jit", lambda x: jit(lambda x: jit(fnp.sin)(x) * 2.0)(x) + 1.0, (V,)
    yield (
        "the gradient of jit in jit",
        grad(lambda x: fnp.sum(jit(lambda x: fnp.sin(x) * x)(x))),
        (V,),
    )


def _results() -> Iterator[Listed]:
    yield "a tree", lambda x: {"b": (x * 2.0, None), "a": [x + 1.0, fnp.sum(x)]}, (V,)
    yield "one value twice", lambda x: (x * 2.0,) * 2, (V,)
    yield "in an order of its own", lambda x, y: (y - x, x, y, x + y, x * 3.0), (V, V + 1.0)
    yield "constants", lambda x: (fnp.ones(3), x, np.arange(2), 2.5), (V,)
    yield "nothing", lambda x: (), (V,)
    yield "no argument", lambda: fnp.arange(3.0) * 2.0, ()
    yield (
        "arguments in a tree",
        lambda p: p["w"] @ p["b"][0] + p["b"][1],
        ({"w": SQUARE, "b": (V[:3], 2.0)},),
    )


def _numbers() -> Iterator[Listed]:
    """Yield functions of Python numbers, which are weak, as are results of operators on them."""
    yield "products", lambda x, v: (x * 2.0, x * v, -x), (1.5, V.astype(np.float32))
    yield "whole", lambda n, v: (n + 1, n * v, n**2, n / 2), (3, V.astype(np.float32))
    yield "truth", lambda b, v: (b * 2, b & True, v * b), (True, N.astype(np.int8))
    yield "complex", lambda z: (z * 2.0, z.real, abs(z)), (1.0 + 2.0j,)
    yield "returned as they are", lambda x, n: (x, n, 2.0 * x), (1.5, 3)
    yield "in loops", lambda x: fori_loop(0, 3, lambda k, c: c * 2.0 + k, x), (1.5,)
    yield "beside small floats", lambda x, h: x * h + 1.0, (0.1, V.astype("float16"))
    yield "the gradient", value_and_grad(lambda x: x * x * 3.0), (1.5,)
    yield "functions make them arrays", lambda x: (fnp.sin(x), fnp.add(x, 1)), (1.5,)


def _shapes() -> Iterator[Listed]:
    empty = np.zeros((0, 3))
    yield "empty", lambda x: (x * 2.0, fnp.sum(x, axis=0), fnp.sum(x), x.T @ x), (empty,)
    yield "0-d", lambda x: (x * 2.0, fnp.sin(x), x[None], fnp.reshape(x, (1, 1))), (np.array(2.0),)
    yield "a NumPy scalar", lambda x: (x * 2.0, fnp.exp(x)), (np.float32(2.0),)
    yield (
        "strides",
        lambda x: (x * 2.0, fnp.sum(x, axis=0), x @ x.T),
        (np.asarray(SQUARE)[::-2, ::2],),
    )
    yield "Fortran order", lambda x: (x + 1.0, fnp.ravel(x), x.T), (np.asfortranarray(X),)
    yield "one element", lambda x: fnp.sum(x * 2.0, axis=1), (np.ones((1, 1)),)
    yield "many elements", lambda x: fnp.sum(fnp.sin(x) * x + 1.0), (np.linspace(0, 1, 20_000),)
    yield "many axes", lambda x: fnp.sum(x * 2.0, axis=(0, 3)), (np.ones((2, 1, 3, 2, 1)),)


def _dtypes() -> Iterator[Listed]:
    def f(x: Tensor) -> Any:
        return x * x + x, fnp.sum(x, axis=0), fnp.maximum(x, 1), x > 0, x / 2

    for char in "efdbhilqBHILQFD":
        x = np.array([1, 3, 2]).astype(char)
        yield f"dtype {x.dtype}", (lambda x: f(x)[:2]) if char in "FD" else f, (x,)
    yield "truth values", lambda b: (~b, b & b[::-1], fnp.sum(b), b * 2.0), (B,)
    yield "mixed", lambda x, n: (x * n, n / 2, n + np.float32(1.0)), (V.astype(np.float32), N)
    yield "whole numbers wrap around", lambda n: n * n, (np.array([100, -100], np.int8),)
    yield "bits", lambda n: (n & 3, n | 4, n ^ 1, n << 1, n >> 1), (N,)
    yield "division of whole numbers", lambda n: (n // 2, n % 3, -n // 2), (N,)
    yield "complex numbers", lambda z: (z * z, z.real, z.imag, fnp.conj(z), fnp.exp(z)), (C,)
    yield "gradients in float32", grad(lambda x: fnp.sum(fnp.sin(x) * 2.0)), (V.astype(np.float32),)
    yield "gradients of complex", grad(lambda z: fnp.sum(fnp.abs(z) ** 2)), (C,)


def _opaque() -> Iterator[Listed]:
    yield "sort", lambda x: (fnp.sort(x, axis=1), fnp.argsort(x, axis=0)), (X,)
    yield "FFT", lambda x: fnp.fft.ifft(fnp.fft.fft(x) * 2.0).real, (V,)
    yield "solve", lambda a, b: fnp.linalg.solve(a, b) * 2.0, (SQUARE, V[:3])
    yield "several results", lambda a: fnp.linalg.eigh(a)[0] * 2.0, (SQUARE,)
    yield "inverse", lambda a: (fnp.linalg.inv(a), fnp.linalg.det(a)), (SQUARE,)
    yield "Cholesky backwards", grad(lambda a: fnp.sum(fnp.linalg.cholesky(a @ a.T))), (SQUARE,)


def _derivatives() -> Iterator[Listed]:
    def f(x: Tensor) -> Any:
        return fnp.sum(fnp.log(1.0 + fnp.exp(x @ x.T)) * 0.5)

    def loss(w: Tensor, x: Tensor) -> Any:
        return fnp.mean(fnp.tanh(x @ w) ** 2)

    yield "grad", grad(f), (X,)
    yield "value_and_grad", value_and_grad(loss), (SQUARE, X)
    yield "jvp", lambda x: jvp(f, (x,), (x * 0.5,)), (X,)
    yield "hessian", hessian(lambda v: fnp.sum(fnp.sin(v) * v**2)), (V,)
    yield "third order", grad(grad(grad(lambda x: fnp.sin(x) * x**4))), (0.7,)
    yield "vmap", vmap(lambda x, y: fnp.sum(x) * y), (X, X[:, 0])
    yield "vmap of grad", vmap(grad(loss), in_axes=(None, 0)), (SQUARE, X[:, None])
    yield (
        "vmap of scan",
        vmap(lambda x: scan(lambda c, row: (c * row, c), x, np.arange(1.0, 4.0))),
        (V,),
    )
    yield (
        "vmap of while_loop",
        vmap(lambda x: while_loop(lambda c: c < 3.0, lambda c: c * 2.0 + 1.0, x)),
        (fnp.abs(V),),
    )
    yield "grad of vmap", grad(lambda x: fnp.sum(vmap(fnp.prod)(x))), (X,)
    yield "selections", grad(lambda v: fnp.sum(fnp.where(v > 0, fnp.sqrt(v), 0.0))), (V,)


_KINDS: Final[tuple[tuple[str, Callable[[], Iterator[Listed]]], ...]] = (
    ("elementwise", _elementwise),
    ("reduction", _reductions),
    ("movement", _movements),
    ("contraction", _contractions),
    ("gather and scatter", _gathers),
    ("random", _random),
    ("loop", _loops),
    ("loop backwards", _loops_backwards),
    ("choice", _choices),
    ("rules and calls", _rules),
    ("results", _results),
    ("Python numbers", _numbers),
    ("shape", _shapes),
    ("dtype", _dtypes),
    ("opaque", _opaque),
    ("derivative", _derivatives),
)
