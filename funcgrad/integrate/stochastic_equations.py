"""``solve_sde``: solve a stochastic differential equation on a path that belongs to the key.

>>> import funcgrad as fg
>>> solution = solve_sde(
...     lambda t, y: -y, lambda t, y: 0.5, (0.0, 1.0), 1.0, fg.random.key(0), steps=4
... )
>>> solution.y
Tensor([1.        , ...])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import count_of, placed
from funcgrad._control.scans import scan
from funcgrad._core import pytrees
from funcgrad._core.pytrees import pytree
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import RAW, beside, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.integrate.noise_terms import NoisyTerms
from funcgrad.integrate.right_hand_side import real_dtype
from funcgrad.integrate.stochastic_steps import METHODS, Leaves, NoisyEquation
from funcgrad.random.brownian_paths import DEPTH, PathValues, path_at, path_keys, path_on_grid
from funcgrad.tensor.tensor import Tensor, wrap

Y = TypeVar("Y")

_NEAR: Final = 1e-9
"""Times that differ from the end of a step by less, in steps, are this end."""


@pytree(slots=True)
class NoisySolution(Generic[Y]):
    """The solution of a stochastic differential equation.

    Attributes
    ----------
    t : Tensor of shape (n,)
        The times.
    y : pytree
        The solution, a tree like ``y0`` with the times along a new last axis.
    w : pytree or Tensor
        The Brownian motion at these times, 0 at the first time of the interval: a tree like ``y0``
        for diagonal noise, an array of shape ``(n,)`` for scalar and ``(m, n)`` for general noise.
    """

    t: Tensor
    y: Y
    w: Any

    @property
    def success(self) -> Tensor:
        """Whether the solution is finite at all times."""
        finite = [fnp.all(fnp.isfinite(leaf)) for leaf in pytrees.leaves(self.y)]
        return fnp.all(fnp.stack(finite)) if finite else fnp.asarray(True)


@watched
@answering
def solve_sde(
    drift: Callable[..., Any],
    diffusion: Callable[..., Any],
    t_span: Sequence[ArrayLike],
    y0: object,
    key: ArrayLike,
    method: str = "euler",
    *,
    args: object = (),
    t_eval: ArrayLike | None = None,
    step: float | None = None,
    steps: int | None = None,
    noise: str = "diagonal",
) -> NoisySolution[Any]:
    """Solve the stochastic differential equation dy = drift(t, y) dt + diffusion(t, y) dW.

    Steps of equal size follow a Brownian path that belongs to the key, ``fg.random.brownian``: more
    steps, another method or other parameters see the same path. So derivatives are exact for the
    path, and the mean of gradients over many keys is the gradient of the expectation. ``vmap`` over
    keys solves for many paths at once.

    Parameters
    ----------
    drift : callable
        ``drift(t, y, *args)`` returns a pytree like y.
    diffusion : callable
        ``diffusion(t, y, *args)`` returns a pytree like y, whose leaves have one more axis with
        ``noise="general"``.
    t_span : pair of float
        The first and the last time.
    y0 : pytree of array_like
        The value of y at the first time, real. Integers become float64.
    key : key
        Determines the path.
    method : {"euler", "milstein", "srk", "heun"}
        ``"euler"`` (Euler and Maruyama) has strong order 1/2, and 1 if the diffusion does not
        depend on y. ``"milstein"`` has strong order 1, by a derivative of the diffusion.
        ``"srk"`` (Rößler's SRI1W1) has strong order 3/2. These three solve **Itô's** equation.
        ``"heun"`` solves **Stratonovich's** equation with strong order 1 (1/2 for general noise).
        All have weak order 1.
    args : tuple
        Further arguments of both functions; anything else than a tuple is one argument.
    t_eval : array_like of float, shape (n,), optional
        The times at which the solution is returned; by default the ends of all steps. A time within
        a step gets a step of its own from the beginning of that step.
    step : float, optional
        The greatest size of a step: the number of equal steps is the least power of two that
        suffices.
    steps : int, optional
        The number of steps; either ``step`` or ``steps``. Another number than a power of two takes
        5 to 20 times as long, since the path is a binary tree, the same one whatever the number.
    noise : {"diagonal", "scalar", "general"}
        ``"diagonal"``: each element of y has a Brownian motion, and its diffusion depends on this
        element only. ``"scalar"``: one motion moves all elements. ``"general"``: m motions; the
        diffusion has shape ``(*y.shape, m)``. General noise needs "euler" or "heun".

    Returns
    -------
    NoisySolution
        The times ``t``, the solution ``y`` with the times along the last axis, as in SciPy, and the
        motion ``w``. ``success`` is whether y is finite.

    Raises
    ------
    ArgumentError
        An option is not allowed, the interval is empty, or ``t_eval`` is outside of it.
    TreeError, ShapeError, DtypeError
        The result of a function is not like ``y0``, or ``t_eval`` is not a vector of real numbers.

    See Also
    --------
    funcgrad.random.brownian : The path.
    odeint : Equations without noise.

    Notes
    -----
    The solution has derivatives with respect to ``y0``, ``args``, the values that the functions
    close over, and ``t_span``, whose path is the scaled one. Times of ``t_eval`` have derivative 0.
    Reverse mode stores the state of each step.

    If the diffusion of diagonal noise depends on other elements than its own, "milstein" and "srk"
    are of order 1/2 only, unless the noise commutes: no Lévy areas of two motions are drawn.

    References
    ----------
    P. E. Kloeden, E. Platen, "Numerical solution of stochastic differential equations", 1992; A.
    Rößler, "Runge-Kutta methods for the strong approximation of solutions of stochastic
    differential equations", SIAM J. Numerical Analysis 48, 2010.

    Examples
    --------
    A call option on a stock with volatility 0.2, and its vega, by 20,000 paths.

    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> keys = fg.random.split(fg.random.key(0), 20_000)
    >>> def price(volatility):
    ...     def payoff(key):
    ...         stock = solve_sde(
    ...             lambda t, s: 0.03 * s, lambda t, s: volatility * s, (0.0, 1.0), 100.0, key,
    ...             "milstein", steps=8, t_eval=[1.0],
    ...         )
    ...         return fnp.maximum(stock.y[-1] - 105.0, 0.0)
    ...     return fnp.exp(-0.03) * fg.vmap(payoff)(keys).mean()
    >>> value, vega = fg.jit(fg.value_and_grad(price))(0.2)
    >>> round(float(value), 1), round(float(vega))
    (7.2, 40)
    """
    chosen = _method(method, noise)
    terms = NoisyTerms.read(
        drift, diffusion, y0, args if isinstance(args, tuple) else (args,), noise
    )
    grid = _Grid.read(t_span, step, steps, real_dtype(terms.start))
    equation = NoisyEquation(terms.drift, terms.diffusion, noise)
    keys = path_keys(key, terms.motions_of(grid.start), "solve_sde")
    wanted = _wanted(t_eval, grid)
    run = _NoisyRun(terms, equation, chosen, grid, keys, path_on_grid(keys, grid.steps))
    return run.at_places(wanted) if isinstance(wanted, Tensor) else run.at_ends(wanted)


def _method(method: object, noise: object) -> str:
    """Check the names of the method and of the noise."""
    for word, value, allowed in (
        ("method", method, tuple(METHODS)),
        ("noise", noise, ("diagonal", "scalar", "general")),
    ):
        if not isinstance(value, str) or value not in allowed:
            listed = ", ".join(map(repr, allowed))
            raise placed(
                ArgumentError, f"solve_sde: {word} has to be one of {listed}, got {value!r}."
            )
    if noise == "general" and method not in ("euler", "heun"):
        raise placed(
            ArgumentError,
            f"solve_sde: method={method!r} needs diagonal or scalar noise; with several motions for"
            " each element it would need their Lévy areas. Use 'euler' (Itô) or 'heun'"
            " (Stratonovich).",
        )
    return str(method)


class _Grid(NamedTuple):
    """Equal steps over an interval.

    Attributes
    ----------
    start, length : Tensor
        The first time and the length of the interval.
    steps : int
        The number of steps.
    precision : dtype
        The dtype of the times.
    """

    start: Tensor
    length: Tensor
    steps: int
    precision: np.dtype[Any]

    @classmethod
    def read(
        cls,
        t_span: Sequence[ArrayLike],
        step: float | None,
        steps: int | None,
        precision: np.dtype[Any],
    ) -> _Grid:
        """Check the interval and the number of steps."""
        try:
            first, last = t_span
        except (TypeError, ValueError):
            raise placed(
                ArgumentError,
                f"solve_sde: t_span has to be a pair, the first and the last time, got {t_span!r}.",
            ) from None
        ends = [operand(end, "solve_sde") for end in (first, last)]
        if any(shape_of(end) or dtype_of(end).kind not in "biuf" for end in ends):
            raise placed(ArgumentError, "solve_sde: both times of t_span have to be real scalars.")
        start, end = [wrap(end).astype(np.float64) for end in ends]
        length = end - start
        raw = concrete(length)
        known = type(raw) in RAW
        if known and not (0.0 < float(raw) < np.inf):
            raise placed(
                ArgumentError,
                f"solve_sde: t_span has to be finite and ascending, got {first!r} and {last!r}.",
            )
        if (step is None) == (steps is None):
            raise placed(
                ArgumentError, "solve_sde: pass either steps=, their number, or step=, their size."
            )
        if steps is None:
            size = concrete(operand(step, "solve_sde"))
            if not known or type(size) not in RAW or shape_of(size) or not float(size) > 0.0:
                raise placed(
                    ArgumentError,
                    f"solve_sde: step has to be a positive number, got {step!r}, and t_span must"
                    " not be traced: the number of steps is fixed. Pass steps=.",
                )
            steps = 1 << (max(ceil(float(raw) / float(size) * (1 - 1e-12)), 1) - 1).bit_length()
        count = count_of("solve_sde", "steps", steps)
        if count > 2**DEPTH:
            raise placed(
                ArgumentError,
                f"solve_sde: a path has at most {2**DEPTH} steps, got {count}. Solve for parts of"
                " the interval one after another, each with a key of its own.",
            )
        return cls(start, length, count, precision)

    def times(self, places: Tensor | np.ndarray[Any, Any]) -> Tensor:
        """The times at places from 0 to 1."""
        return (self.start + places * self.length).astype(self.precision)


def _wanted(t_eval: ArrayLike | None, grid: _Grid) -> np.ndarray[Any, Any] | Tensor:
    """The steps after which the solution is wanted; or places from 0 to 1 within steps."""
    if t_eval is None:
        return np.arange(grid.steps + 1)
    times = operand(t_eval, "solve_sde")
    if len(shape_of(times)) != 1 or dtype_of(times).kind not in "biuf":
        raise placed(
            ShapeError if dtype_of(times).kind in "biuf" else DtypeError,
            "solve_sde: t_eval has to be a vector of real times, got an array of shape"
            f" {shape_of(times)} and {dtype_of(times)}.",
        )
    places = stop_gradient((wrap(times).astype(np.float64) - grid.start) / grid.length)
    raw = concrete(places)
    if type(raw) not in RAW:
        return places
    steps = np.asarray(raw) * grid.steps
    if not np.all((steps >= -_NEAR) & (steps <= grid.steps + _NEAR)):
        raise placed(ArgumentError, "solve_sde: t_eval has times outside of t_span.")
    ends = np.rint(steps)
    return ends.astype(int) if np.all(abs(steps - ends) < _NEAR) else places


class _NoisyRun(NamedTuple):
    """An equation, a method, and the path at the ends of all steps."""

    terms: NoisyTerms
    equation: NoisyEquation
    method: str
    grid: _Grid
    keys: Tensor
    path: PathValues

    def at_ends(self, wanted: np.ndarray[Any, Any]) -> NoisySolution[Any]:
        """The solution after some of the steps; later steps are not taken."""
        most = int(wanted.max(initial=0))
        stride = int(wanted[0] or wanted[1] if len(wanted) > 1 else most) if len(wanted) else 1
        first = int(wanted[0] != 0) if len(wanted) else 0
        is_even = bool(most) and np.array_equal(wanted, stride * (np.arange(len(wanted)) + first))
        leaves = self._trajectory(most, stride if is_even and stride else 1)
        rows = np.arange(len(wanted)) + first if is_even else wanted
        motion = self.path.value[wanted]
        picked = [leaf[rows] for leaf in leaves]
        return self._solution(self.grid.times(wanted / self.grid.steps), picked, motion)

    def at_places(self, places: Tensor) -> NoisySolution[Any]:
        """The solution at any places: a step to each, from the end of the last step before it."""
        count = self.grid.steps
        steps = places * count
        near = fnp.rint(steps)
        is_end = abs(steps - near) < _NEAR
        inside = (steps > -_NEAR) & (steps < count + _NEAR)
        index = fnp.where(is_end, near, fnp.floor(steps))
        index = fnp.clip(fnp.nan_to_num(index), 0, count).astype(np.int64)
        path = path_at(self.keys, fnp.where(is_end, index / count, places))
        leaves = [leaf[index] for leaf in self._trajectory(count, 1)]
        before = PathValues(*[x[index] for x in self.path])
        fraction = fnp.where(is_end, 1.0, steps - index) / count
        # At the end of a step another one is computed, of full length, and not taken.
        moved = vmap(self._step)(
            self.grid.times(index / count), leaves, *self._noise(before, path, fraction)
        )
        known = fnp.where(inside, 1.0, np.nan)

        def chosen(after: Tensor, leaf: Tensor) -> Tensor:
            lead = (-1, *[1] * (leaf.ndim - 1))
            there = fnp.where(fnp.reshape(is_end, lead), leaf, after)
            return there * fnp.reshape(known, lead).astype(leaf.dtype)

        ends = [chosen(after, leaf) for after, leaf in zip(moved, leaves, strict=True)]
        return self._solution(self.grid.times(places), ends, path.value)

    def _trajectory(self, count: int, stride: int) -> Leaves:
        """The state after every ``stride``-th of ``count`` steps, with the start first."""
        before = PathValues(*[x[:count] for x in self.path])
        after = PathValues(*[x[1 : count + 1] for x in self.path])
        times = self.grid.times(np.arange(count) / self.grid.steps)
        xs = times, *self._noise(before, after, 1.0 / self.grid.steps)
        rows = count // stride
        blocks = pytrees.map(lambda x: fnp.reshape(x, (rows, stride, *x.shape[1:])), xs)

        def one(y: Leaves, x: tuple[Any, ...]) -> tuple[Leaves, None]:
            return self._step(x[0], y, *x[1:]), None

        def several(y: Leaves, x: tuple[Any, ...]) -> tuple[Leaves, Leaves]:
            if stride == 1:
                y = one(y, pytrees.map(lambda leaf: leaf[0], x))[0]
            else:
                y, _ = scan(one, y, x)
            return y, y

        _, leaves = scan(several, self.terms.start, blocks)
        return [
            fnp.concatenate([start[None], later])
            for start, later in zip(self.terms.start, leaves, strict=True)
        ]

    def _noise(
        self, before: PathValues, after: PathValues, fraction: Tensor | float
    ) -> tuple[Tensor, Leaves, Leaves]:
        """Sizes of steps, increments of the motion, and the integrals since each step began."""
        size, length = fnp.sqrt(self.grid.length), self.grid.length
        increments = self.terms.split((after.value - before.value) * size)
        areas = []
        if self.method == "srk":
            fractions = fraction[:, None] if isinstance(fraction, Tensor) else fraction
            area = after.area - before.area - fractions * before.value
            areas = self.terms.split(area * (size * length))
        sizes = fnp.broadcast_to(fraction * length, (before.value.shape[0],))
        return sizes.astype(self.grid.precision), increments, areas

    def _step(self, t: Tensor, y: Leaves, h: Tensor, increments: Leaves, areas: Leaves) -> Leaves:
        return METHODS[self.method](self.equation, t, y, h, (increments, areas))

    def _solution(self, times: Tensor, leaves: Leaves, path: Tensor) -> NoisySolution[Any]:
        y = self.terms.tree([fnp.moveaxis(leaf, 0, -1) for leaf in leaves])
        times = wrap(beside(concrete(times), path))
        motion = path * fnp.sqrt(self.grid.length)
        if self.equation.noise == "diagonal":
            parts = self.terms.split(motion)
            return NoisySolution(times, y, self.terms.tree([fnp.moveaxis(x, 0, -1) for x in parts]))
        motion = motion.astype(self.grid.precision)
        scalar = self.equation.noise == "scalar"
        return NoisySolution(times, y, motion[:, 0] if scalar else fnp.moveaxis(motion, 0, -1))
