"""Programs with a planted cause of NaN or infinity, as a table of texts.

The line of the cause ends with ``#!``. Each is compiled under a file name of its own, so that its
lines are known, and is run in several ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp

Function = Callable[..., Any]


@dataclass(frozen=True)
class Planted:
    """A program with a planted cause.

    Attributes
    ----------
    name : str
    text : str
        Defines a function ``f``.
    args : tuple
    operation : str
        The operation that is to blame, or whose derivative is.
    ways : tuple of str
        How it is run, see ``WAYS``.
    step : tuple, optional
        The innermost loop and the number of its step.
    example : int, optional
    """

    name: str
    text: str
    args: tuple[Any, ...]
    operation: str
    ways: tuple[str, ...]
    step: tuple[str, int] | None = None
    example: int | None = None

    @property
    def line(self) -> str:
        """The line of the cause."""
        number = next(k for k, line in enumerate(self.text.splitlines(), 1) if line.endswith("#!"))
        return f"planted_{self.name}.py:{number}"

    def function(self) -> Function:
        """The function ``f`` that the text defines."""
        space: dict[str, Any] = {"fg": fg, "fnp": fnp, "np": np}
        exec(compile(self.text, f"planted_{self.name}.py", "exec"), space)
        return space["f"]


def _total(f: Function) -> Function:
    return lambda *args: fnp.sum(f(*args))


def _tangent(f: Function) -> Function:
    return lambda *args: fg.jvp(f, args, tuple(np.ones_like(x) for x in args))[1]


WAYS: dict[str, Callable[[Function], Function]] = {
    "eager": lambda f: f,
    "jit": fg.jit,
    "numpy": lambda f: fg.jit(f, backend="numpy"),
    "jit of jit": lambda f: fg.jit(lambda *args: fg.jit(f)(*args)),
    "vmap": lambda f: lambda *args: fg.vmap(f)(*[_batch(x) for x in args]),
    "jit of vmap": lambda f: lambda *args: fg.jit(fg.vmap(f))(*[_batch(x) for x in args]),
    "checkpoint": lambda f: fg.checkpoint(f),
    "program": lambda f: lambda *args: fg.program(f)(*args)(*args),
    "grad": lambda f: fg.grad(_total(f)),
    "jit of grad": lambda f: fg.jit(fg.grad(_total(f))),
    "grad of jit": lambda f: fg.grad(fg.jit(_total(f))),
    "vmap of grad": lambda f: lambda *args: fg.vmap(fg.grad(_total(f)))(*map(_batch, args)),
    "grad of checkpoint": lambda f: fg.grad(fg.checkpoint(_total(f))),
    "jvp": _tangent,
    "jit of jvp": lambda f: fg.jit(_tangent(f)),
    "jacrev": fg.jacrev,
    "jacfwd": fg.jacfwd,
    "vjp": lambda f: lambda *args: _pulled(f, args),
}


def _pulled(f: Function, args: tuple[Any, ...]) -> Any:
    out, pullback = fg.vjp(f, *args)
    return pullback(fg.tree.map(lambda x: np.ones_like(x), out))


def _batch(x: Any) -> Any:
    """Three examples, of which the one with number 1 is the argument, and others are harmless."""
    harmless = np.full(x.shape, 0.7)
    return fnp.stack([harmless, x, harmless])


def _planted(
    name: str,
    operation: str,
    ways: str,
    text: str,
    *args: Any,
    step: tuple[str, int] | None = None,
    example: int | None = None,
) -> Planted:
    arrays = tuple(np.asarray(arg, float) for arg in args)
    listed = tuple(way.strip() for way in ways.split(","))
    return Planted(name, text.strip() + "\n", arrays, operation, listed, step, example)


VALUES = (
    _planted(
        "quotient",
        "divide",
        "eager, jit, vmap, program",
        """
def f(x):
    y = fnp.sum(x)
    return x / y #!
""",
        [1.0, -1.0],
    ),
    _planted(
        "normalized",
        "divide",
        "eager, jit of jit",
        """
def f(x):
    centered = x - fnp.mean(x)
    spread = fnp.sqrt(fnp.mean(centered * centered))
    return fnp.sum(centered / spread) #!
""",
        [2.0, 2.0],
    ),
    _planted(
        "reciprocal",
        "reciprocal",
        "eager, numpy",
        """
def f(x):
    return 1.0 + fnp.reciprocal(x) #!
""",
        [1.0, 0.0],
    ),
    _planted(
        "logarithm",
        "log",
        "eager, jit, checkpoint, vmap",
        """
def f(x):
    p = x * 2.0
    a = fnp.log(p) #!
    return fnp.sum(a) * 3.0
""",
        [1.0, 0.0],
    ),
    _planted(
        "entropy",
        "log",
        "eager, jit",
        """
def f(p):
    safe = fnp.where(p > 0, p * fnp.log(fnp.where(p > 0, p, 1.0)), 0.0)
    bare = p * fnp.log(p) #!
    return fnp.sum(safe) - fnp.sum(bare)
""",
        [0.5, 0.0, 0.5],
    ),
    _planted(
        "log_of_negative",
        "log10",
        "eager, program",
        """
def f(x):
    gain = x - 5.0
    return fnp.log10(gain).sum() #!
""",
        [1.0, 10.0],
    ),
    _planted(
        "log1p_at_the_end",
        "log1p",
        "eager, jit",
        """
def f(x):
    return fnp.log1p(-x) #!
""",
        [0.5, 1.0],
    ),
    _planted(
        "root",
        "sqrt",
        "eager, jit of jit, vmap",
        """
def f(x):
    d = 1.0 - x * x
    return fnp.sqrt(d) #!
""",
        [0.5, 2.0],
    ),
    _planted(
        "negative_power",
        "constant_power",
        "eager, jit",
        """
def f(x):
    return fnp.sum(x ** -0.5) #!
""",
        [1.0, 0.0],
    ),
    _planted(
        "power_of_negative",
        "power",
        "eager, jit",
        """
def f(x, y):
    return fnp.power(x, y) #!
""",
        [1.0, -2.0],
        [0.5, 0.5],
    ),
    _planted(
        "angle",
        "arccos",
        "eager, vmap",
        """
def f(u):
    c = fnp.sum(u * u)
    return fnp.arccos(c) #!
""",
        [1.0, 1.0],
    ),
    _planted(
        "fisher",
        "arctanh",
        "eager, jit",
        """
def f(r):
    return fnp.arctanh(r) #!
""",
        [0.5, 1.0],
    ),
    _planted(
        "overflow_of_exp",
        "exp",
        "eager, jit, jit of vmap",
        """
def f(x):
    z = 100.0 * x
    e = fnp.exp(z) #!
    return e / fnp.sum(e)
""",
        [1.0, 20.0],
    ),
    _planted(
        "overflow_of_squares",
        "square",
        "eager, jit",
        """
def f(x):
    s = x ** 2 #!
    return fnp.sqrt(fnp.sum(s))
""",
        [1e200, 1.0],
    ),
    _planted(
        "overflow_of_product",
        "multiply",
        "eager, numpy",
        """
def f(x):
    y = x * x
    return y * y #!
""",
        [1e100, 1.0],
    ),
    _planted(
        "overflow_of_sum",
        "sum",
        "eager, jit",
        """
def f(x):
    return fnp.sum(x) #!
""",
        [1e308, 1e308],
    ),
    _planted(
        "overflow_of_matmul",
        "matmul",
        "eager, jit",
        """
def f(a, b):
    return fnp.tanh(a) @ b * 0.5 + a @ b #!
""",
        [[1e200, 0.0], [1.0, 1.0]],
        [[1e200, 1.0], [1.0, 1.0]],
    ),
    _planted(
        "masked_by_product",
        "divide",
        "eager, jit",
        """
def f(x):
    mask = fnp.where(x > 0, 1.0, 0.0)
    w = 1.0 / x #!
    return fnp.sum(w * mask)
""",
        [2.0, 0.0],
    ),
    _planted(
        "mask_of_constants",
        "log",
        "eager, jit",
        """
def f(x):
    mask = fnp.array([1.0, 0.0])
    bias = fnp.log(mask) #!
    return fnp.sum((x + bias) * mask)
""",
        [2.0, 0.0],
    ),
    _planted(
        "softmax_of_nothing",
        "subtract",
        "eager, jit",
        """
def f(s):
    s = fnp.where(s > 0, s, -fnp.inf)
    top = fnp.max(s, axis=-1, keepdims=True)
    e = fnp.exp(s - top) #!
    return e / fnp.sum(e, axis=-1, keepdims=True)
""",
        [[1.0, 2.0], [-1.0, -2.0]],
    ),
    _planted(
        "infinity_minus_infinity",
        "exp",
        "eager, program",
        """
def f(x):
    a = fnp.exp(x) #!
    return fnp.sum(a[0] - a[1])
""",
        [1000.0, 1000.0],
    ),
    _planted(
        "moved_and_gathered",
        "log",
        "eager, jit",
        """
def f(x):
    y = fnp.log(x) #!
    z = fnp.concatenate([fnp.flip(y), y[1:] + 1.0])
    z = fnp.reshape(z.T[fnp.array([4, 0, 2])], (3, 1))
    return fnp.sum(z)
""",
        [1.0, 2.0, 0.0],
    ),
    _planted(
        "scattered",
        "sqrt",
        "eager, jit",
        """
def f(x):
    roots = fnp.sqrt(x) #!
    unused = fnp.log(-x)
    y = fnp.zeros(4).at[fnp.array([3, 1])].add(roots)
    return fnp.cumsum(y.at[0].set(unused[0]).at[0].set(0.0))
""",
        [1.0, -2.0],
    ),
    _planted(
        "einsum",
        "divide",
        "eager, jit",
        """
def f(x):
    w = x / fnp.array([1.0, 0.0, 2.0]) #!
    return fnp.einsum("ij,kj->ik", fnp.ones((2, 3)), w)
""",
        [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]],
    ),
    _planted(
        "bad_example",
        "log",
        "eager, jit",
        """
def f(xs):
    def one(x):
        y = fnp.sum(x)
        return fnp.log(y) #!
    return fg.vmap(one)(xs)
""",
        [[1.0, 2.0], [3.0, 4.0], [1.0, -1.0], [5.0, 6.0]],
        example=2,
    ),
    _planted(
        "scan_that_diverges",
        "multiply",
        "eager, jit, numpy",
        """
def f(x):
    def step(c, _):
        c = c * c #!
        return c, c
    return fg.scan(step, x, None, length=20)
""",
        10.0,
        step=("scan", 8),
    ),
    _planted(
        "scan_over_data",
        "log",
        "eager, jit",
        """
def f(xs):
    def step(c, x):
        y = fnp.log(x) #!
        return c + y, c
    return fg.scan(step, 0.0, xs)[0]
""",
        [1.0, 2.0, 3.0, 0.0, 5.0],
        step=("scan", 3),
    ),
    _planted(
        "while_that_diverges",
        "exp",
        "eager, jit",
        """
def f(x):
    def goes_on(c):
        return c[1] < 6
    def step(c):
        x, k = c
        return fnp.exp(x), k + 1 #!
    return fg.while_loop(goes_on, step, (x, 0))[0]
""",
        1.0,
        step=("while_loop", 3),
    ),
    _planted(
        "for_that_divides",
        "divide",
        "eager, jit",
        """
def f(x):
    return fg.fori_loop(0, 5, lambda i, c: c + x / (i - 3), x) #!
""",
        1.0,
        step=("fori_loop", 3),
    ),
    _planted(
        "scan_with_a_checkpoint",
        "log",
        "eager, grad, vjp, jacrev, jvp",
        """
def f(xs):
    @fg.checkpoint
    def part(x):
        return fnp.log(x) #!
    return fg.scan(lambda c, x: (c + part(x), c), 0.0, xs)[0]
""",
        [1.0, 2.0, 3.0, -1.0, 5.0],
        step=("scan", 3),
    ),
    _planted(
        "loop_in_a_program",
        "multiply",
        "program",
        """
def f(x):
    def step(c, _):
        return c * c, None #!
    return fg.scan(step, x, None, length=20)[0]
""",
        10.0,
        step=("scan", 8),
    ),
    _planted(
        "batch_of_loops",
        "multiply",
        "eager, jit",
        """
def f(xs):
    def one(x):
        return fg.while_loop(lambda c: c[1] < 12, lambda c: (c[0] * c[0], c[1] + 1), (x, 0))[0] #!
    return fg.vmap(one)(xs)
""",
        [0.5, 10.0, 0.9],
        step=("while_loop", 8),
        example=1,
    ),
    _planted(
        "branch",
        "log",
        "eager, jit",
        """
def f(x):
    def low(x):
        return fnp.log(x) #!
    return fg.cond(fnp.sum(x) < 3.0, low, fnp.exp, x)
""",
        [1.0, 0.0],
    ),
    _planted(
        "branch_of_a_batch",
        "sqrt",
        "eager, jit",
        """
def f(xs):
    def low(x):
        return fnp.sqrt(x) #!
    return fg.vmap(lambda x: fg.cond(x < 3.0, low, fnp.sin, x))(xs)
""",
        [1.0, 5.0, -2.0],
        example=2,
    ),
    _planted(
        "map_over_rows",
        "divide",
        "eager, jit",
        """
def f(xs):
    return fg.map(lambda x: x / fnp.sum(x), xs) #!
""",
        [[1.0, 2.0], [1.0, -1.0]],
        step=("map", 1),
    ),
    _planted(
        "ode",
        "log",
        "eager, jit",
        """
def f(y):
    ys = fg.odeint(lambda t, y: -y, y, fnp.array([0.0, 1.0, 2.0]))
    return fnp.log(ys[2] - ys[1]) #!
""",
        1.0,
    ),
    _planted(
        "half_precision",
        "cast",
        "eager, jit",
        """
def f(x):
    y = x * 1e5
    return fnp.astype(y, fnp.float16) #!
""",
        [1.0, 0.0],
    ),
    _planted(
        "hypotenuse_of_infinity",
        "divide",
        "eager",
        """
def f(x):
    slope = x[1] / x[0] #!
    return fnp.arctan(slope) * fnp.hypot(slope, 1.0)
""",
        [0.0, 1.0],
    ),
)
"""Programs whose value is not finite."""

DERIVATIVES = (
    _planted(
        "root_at_zero",
        "sqrt",
        "grad, jit of grad, grad of jit, vmap of grad, jvp",
        """
def f(x):
    y = x * 1.0
    return fnp.sqrt(y) #!
""",
        [4.0, 0.0],
    ),
    _planted(
        "norm_at_zero",
        "sqrt",
        "grad, jit of grad, vmap of grad, grad of checkpoint",
        """
def f(x):
    squares = fnp.sum(x * x)
    return fnp.sqrt(squares) #!
""",
        [0.0, 0.0],
    ),
    _planted(
        "where_outside",
        "sqrt",
        "jvp, jit of jvp",
        """
def f(x):
    root = fnp.sqrt(x) #!
    return root * root
""",
        [1.0, 0.0],
    ),
    _planted(
        "product_of_roots",
        "sqrt",
        "grad, vjp, jacrev",
        """
def f(x):
    return fnp.sqrt(x) * fnp.sin(x) #!
""",
        [1.0, 0.0],
    ),
    _planted(
        "power_at_zero",
        "constant_power",
        "grad, jit of grad, jacfwd",
        """
def f(x):
    return x ** 0.3 #!
""",
        [1.0, 0.0],
    ),
    _planted(
        "angle_of_parallels",
        "arccos",
        "grad, jit of grad",
        """
def f(u):
    c = fnp.sum(u * u)
    return fnp.arccos(c) #!
""",
        [1.0, 0.0],
    ),
    _planted(
        "arcsine_at_the_end",
        "arcsin",
        "grad, jvp",
        """
def f(u):
    return fnp.arcsin(u) #!
""",
        [0.5, 1.0],
    ),
    _planted(
        "root_in_a_scan",
        "sqrt",
        "grad, jit of grad",
        """
def f(x):
    def step(c, k):
        return c + fnp.sqrt(x * k), None #!
    return fg.scan(step, 0.0, fnp.array([1.0, 0.0, 2.0]))[0]
""",
        1.0,
        step=("scan", 1),
    ),
    _planted(
        "own_rule",
        "divide",
        "grad, jit of grad, grad of jit",
        """
@fg.custom_vjp
def scaled(x):
    return fnp.sum(x)
def forward(x):
    return fnp.sum(x), x
def backward(x, ct):
    return (ct / x,) #!
scaled.defvjp(forward, backward)
def f(x):
    return scaled(x) * 2.0
""",
        [1.0, 0.0],
    ),
    _planted(
        "own_pushforward",
        "log",
        "jvp, jit of jvp, grad",
        """
@fg.custom_jvp
def flat(x):
    return x * 0.0
@flat.defjvp
def flat_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return flat(x), t * fnp.log(x) #!
def f(x):
    return flat(x)
""",
        [1.0, 0.0],
    ),
    _planted(
        "fixed_point_without_slope",
        "sqrt",
        "grad",
        """
def f(a):
    def update(x, a):
        return 0.5 * x + fnp.sqrt(a) #!
    return fg.fixed_point(update, 0.0, a)
""",
        0.0,
    ),
    _planted(
        "second_derivative",
        "constant_power",
        "grad",
        """
def f(x):
    def inner(y):
        return fnp.sum(y ** 1.5) #!
    return fg.grad(inner)(x)
""",
        [1.0, 0.0],
    ),
    _planted(
        "ode_with_root",
        "sqrt",
        "grad",
        """
def f(a):
    def slope(t, y, a):
        return fnp.sqrt(a) - y #!
    return fg.odeint(slope, 1.0, fnp.array([0.0, 0.5]), a)
""",
        0.0,
    ),
)
"""Programs whose derivative alone is not finite."""
