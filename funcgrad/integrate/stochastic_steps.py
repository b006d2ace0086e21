"""One step of a method for stochastic differential equations, on lists of tensors.

The input is an equation, the time, the state, the length of the step, and the Brownian motion over
it; the output is the state at its end.

>>> import funcgrad as fg
>>> equation = NoisyEquation(lambda t, y: [-y[0]], lambda t, y: [0.5 + 0.0 * y[0]], "diagonal")
>>> motion = [fg.tensor(0.2)]
>>> METHODS["euler"](equation, fg.tensor(0.0), [fg.tensor(1.0)], fg.tensor(0.1), (motion, []))
[Tensor(1.0)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._transforms.forward import jvp
from funcgrad.tensor.tensor import Tensor

Leaves: TypeAlias = list[Tensor]
Term: TypeAlias = Callable[[Tensor, Leaves], Leaves]
Noise: TypeAlias = tuple[Leaves, Leaves]
"""Increments of the motion for each leaf, and the integrals of the motion since the step began,
which only "srk" needs."""


@dataclass(frozen=True, slots=True)
class NoisyEquation:
    """An equation dy = drift(t, y) dt + diffusion(t, y) dW.

    Attributes
    ----------
    drift, diffusion : callable
        ``(t, leaves of y) -> leaves``.
    noise : str
        "diagonal", "scalar" or "general": how the diffusion meets the motion.
    """

    drift: Term
    diffusion: Term
    noise: str

    def moved(self, t: Tensor, y: Leaves, increments: Leaves) -> Leaves:
        """The diffusion times the increments of the motion."""
        pairs = zip(self.diffusion(t, y), increments, strict=True)
        if self.noise != "general":
            return [g * dw for g, dw in pairs]
        return [fnp.sum(g * dw, -1) for g, dw in pairs]


Step: TypeAlias = Callable[[NoisyEquation, Tensor, Leaves, Tensor, Noise], Leaves]


def _euler(equation: NoisyEquation, t: Tensor, y: Leaves, h: Tensor, noise: Noise) -> Leaves:
    """Step by Euler and Maruyama: Itô, strong order 1/2."""
    rise = equation.drift(t, y)
    return _sum([1.0, h, 1.0], [y, rise, equation.moved(t, y, noise[0])])


def _heun(equation: NoisyEquation, t: Tensor, y: Leaves, h: Tensor, noise: Noise) -> Leaves:
    """Step by the mean of both ends: Stratonovich, strong order 1 for noise that commutes."""
    rise, motion = equation.drift(t, y), equation.moved(t, y, noise[0])
    end = _sum([1.0, h, 1.0], [y, rise, motion])
    later = equation.drift(t + h, end), equation.moved(t + h, end, noise[0])
    return _sum([1.0, 0.5 * h, 0.5 * h, 0.5, 0.5], [y, rise, later[0], motion, later[1]])


def _milstein(equation: NoisyEquation, t: Tensor, y: Leaves, h: Tensor, noise: Noise) -> Leaves:
    """Step with the derivative of the diffusion: Itô, strong order 1.

    For diagonal and scalar noise this derivative is one along the diffusion itself.
    """

    def diffusion(y: Leaves) -> Leaves:
        return equation.diffusion(t, y)

    rise, spread = equation.drift(t, y), diffusion(y)
    bend = jvp(diffusion, (y,), (spread,))[1]
    leaves = []
    for leaf, f, g, slope, dw in zip(y, rise, spread, bend, noise[0], strict=True):
        leaves.append(leaf + f * _like(h, f) + g * dw + slope * (0.5 * (dw * dw - _like(h, dw))))
    return leaves


class Tableau(NamedTuple):
    """The coefficients of a stochastic Runge-Kutta method, with Rößler's names.

    Attributes
    ----------
    drift_nodes, diffusion_nodes : tuple of float
        c(0) and c(1).
    drift_by_drift, drift_by_diffusion, diffusion_by_drift, diffusion_by_diffusion : tuples
        A(0), B(0), A(1) and B(1), row by row.
    alpha, beta1, beta2, beta3, beta4 : tuple of float
        The weights of the drift, and of the diffusion with four integrals of the motion.
    """

    drift_nodes: tuple[float, ...]
    diffusion_nodes: tuple[float, ...]
    drift_by_drift: tuple[tuple[float, ...], ...]
    drift_by_diffusion: tuple[tuple[float, ...], ...]
    diffusion_by_drift: tuple[tuple[float, ...], ...]
    diffusion_by_diffusion: tuple[tuple[float, ...], ...]
    alpha: tuple[float, ...]
    beta1: tuple[float, ...]
    beta2: tuple[float, ...]
    beta3: tuple[float, ...]
    beta4: tuple[float, ...]


SRI1W1: Final = Tableau(
    drift_nodes=(0.0, 3 / 4, 0.0, 0.0),
    diffusion_nodes=(0.0, 1 / 4, 1.0, 1 / 4),
    drift_by_drift=((), (3 / 4,), (), ()),
    drift_by_diffusion=((), (3 / 2,), (), ()),
    diffusion_by_drift=((), (1 / 4,), (1.0,), (0.0, 0.0, 1 / 4)),
    diffusion_by_diffusion=((), (1 / 2,), (-1.0,), (-5.0, 3.0, 1 / 2)),
    alpha=(1 / 3, 2 / 3, 0.0, 0.0),
    beta1=(-1.0, 4 / 3, 2 / 3, 0.0),
    beta2=(-1.0, 4 / 3, -1 / 3, 0.0),
    beta3=(2.0, -4 / 3, -2 / 3, 0.0),
    beta4=(-2.0, 5 / 3, -2 / 3, 1.0),
)
"""Strong order 3/2: Rößler, "Runge-Kutta methods for the strong approximation of solutions of
stochastic differential equations", SIAM J. Numerical Analysis 48, 2010, where it is SRI1W1."""


def _srk(equation: NoisyEquation, t: Tensor, y: Leaves, h: Tensor, noise: Noise) -> Leaves:
    """Step by Rößler's Runge-Kutta method SRI1W1: Itô, strong order 3/2.

    The integrals of the motion are w, ∫∫ dW dW / sqrt(h), ∫ W ds / h and ∫∫∫ dW dW dW / h.
    """
    rule, (increments, areas) = SRI1W1, noise
    root = fnp.sqrt(h)
    inverse = 1.0 / h
    means = [area * _like(inverse, area) for area in areas]
    rises: list[Leaves] = []
    spreads: list[Leaves] = []
    for i in range(4):
        here = y
        if i < 2:  # the drift has only two stages with a weight
            here = _weighted(here, rule.drift_by_drift[i], rises, [h] * len(y))
            here = _weighted(here, rule.drift_by_diffusion[i], spreads, means)
            rises.append(equation.drift(t + rule.drift_nodes[i] * h, here))
        else:
            rises.append(rises[0])  # stages 3 and 4 of the drift are at the start again
        there = _weighted(y, rule.diffusion_by_drift[i], rises, [h] * len(y))
        there = _weighted(there, rule.diffusion_by_diffusion[i], spreads, [root] * len(y))
        spreads.append(equation.diffusion(t + rule.diffusion_nodes[i] * h, there))
    end = _weighted(y, rule.alpha, rises, [h] * len(y))
    doubles = [0.5 * (w * w - _like(h, w)) / _like(root, w) for w in increments]
    triples = [w * (w * w * _like(inverse, w) - 3.0) / 6.0 for w in increments]
    for weights, integrals in zip(rule[-4:], (increments, doubles, means, triples), strict=True):
        end = _weighted(end, weights, spreads, integrals)
    return end


METHODS: Final = MappingProxyType(
    {"euler": _euler, "heun": _heun, "milstein": _milstein, "srk": _srk}
)


def _like(x: Tensor, leaf: Tensor) -> Tensor:
    """A number of the step in the precision of a leaf."""
    return x.astype(leaf.dtype)


def _sum(weights: Sequence[Any], terms: Sequence[Leaves]) -> Leaves:
    """The weighted sum of states."""
    sums = list(terms[0])
    for weight, term in zip(weights[1:], terms[1:], strict=True):
        sums = [
            x + (y * _like(weight, y) if isinstance(weight, Tensor) else y * weight)
            for x, y in zip(sums, term, strict=True)
        ]
    return sums


def _weighted(
    start: Leaves, weights: Sequence[float], stages: Sequence[Leaves], sizes: Sequence[Tensor]
) -> Leaves:
    """The start plus a size of each leaf times a weighted sum of stages."""
    chosen = [(weight, stage) for weight, stage in zip(weights, stages, strict=False) if weight]
    if not chosen:
        return start
    leaves = []
    for place, (leaf, size) in enumerate(zip(start, sizes, strict=True)):
        weight, stage = chosen[0]
        total = weight * stage[place]
        for weight, stage in chosen[1:]:
            total = total + weight * stage[place]
        leaves.append(leaf + total * _like(size, total))
    return leaves
