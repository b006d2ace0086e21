"""Integrals over panels: the rule of Gauss and Kronrod, and its error.

A panel is an interval in a variable of its own, ``t``; the integrand says how x follows from t. At
an end where an integrand may be singular, the nodes of a panel crowd: t = end + h u⁴, so the square
root of x and the logarithm are smooth in u.

>>> import funcgrad.numpy as fnp
>>> panel = Panel(*map(fnp.asarray, (0.0, 1.0, False, False)))
>>> ([value], error) = panel_sums(lambda x: [1.0 / fnp.sqrt(x)], panel)
>>> round(float(value), 2), bool(error > 1e-3)
(1.97, True)
>>> ([value], error) = panel_sums(lambda x: [1.0 / fnp.sqrt(x)], panel.crowded(True, False))
>>> value, bool(error < 1e-12)
(Tensor(2.0), True)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.floating_errors import ignoring
from funcgrad._core.pytrees import pytree
from funcgrad._transforms.batch import vmap
from funcgrad.tensor.tensor import Tensor

Integrand: TypeAlias = Callable[[Tensor], list[Tensor]]
"""``t -> leaves``, where t is a scalar."""

# The nodes in [0, 1) of the rule with 21 nodes, from outside, with their weights; and the weights
# of the rule of Gauss, which uses each second node. Source: Piessens and others, "QUADPACK", 1983.
_NODES: Final = (
    0.995657163025808080735527280689003,
    0.973906528517171720077964012084452,
    0.930157491355708226001207180059508,
    0.865063366688984510732096688423493,
    0.780817726586416897063717578345042,
    0.679409568299024406234327365114874,
    0.562757134668604683339000099272694,
    0.433395394129247190799265943165784,
    0.294392862701460198131126603103866,
    0.148874338981631210884826001129720,
    0.0,
)
_WEIGHTS: Final = (
    0.011694638867371874278064396062192,
    0.032558162307964727478818972459390,
    0.054755896574351996031381300244580,
    0.075039674810919952767043140916190,
    0.093125454583697605535065465083366,
    0.109387158802297641899210590325805,
    0.123491976262065851077958109585166,
    0.134709217311473325928054001771707,
    0.142775938577060080797094273138717,
    0.147739104901338491374841515972068,
    0.149445554002916905664936468389821,
)
_GAUSS_WEIGHTS: Final = (
    0.066671344308688137593568809893332,
    0.149451349150580593145863396957698,
    0.219086362515982043995534934228163,
    0.269266719309996355091226921569469,
    0.295524224714752870173815619188769,
)
NODES: Final = 21


def _rule(dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nodes in (0, 1), their weights, and the weights of the rule of Gauss."""
    half, weights = np.array(_NODES), np.array(_WEIGHTS)
    gauss = np.zeros(2 * half.size - 1)
    gauss[1 : half.size : 2] = gauss[-2 : -half.size - 1 : -2] = _GAUSS_WEIGHTS
    nodes = np.concatenate([1.0 - half, 1.0 + half[-2::-1]])
    both = np.concatenate([weights, weights[-2::-1]])
    nodes, both, gauss = (0.5 * x.astype(dtype) for x in (nodes, both, gauss))
    return nodes, both, gauss


@pytree(slots=True)
class Panel:
    """An interval, or many along axis 0, and the ends at which its nodes crowd."""

    left: Tensor
    right: Tensor
    crowds_left: Tensor
    crowds_right: Tensor

    def crowded(self, left: object, right: object) -> Panel:
        """The panel with nodes that crowd at one of its ends, or at none."""
        return Panel(self.left, self.right, fnp.asarray(left), fnp.asarray(right))

    def middle(self) -> Tensor:
        """The point where the panel is cut in two: u = 1/2 if the nodes crowd."""
        shares = fnp.where(self.crowds_left, 1.0 / 16.0, 0.5)
        shares = fnp.where(self.crowds_right, 15.0 / 16.0, shares)
        return self.left + shares.astype(self.left.dtype) * (self.right - self.left)

    def points(self) -> tuple[Tensor, Tensor]:
        """The nodes, and the weights of Kronrod's rule, in the variable t."""
        u, weights, _ = _rule(self.left.dtype)
        width = self.right - self.left
        near = width * u**4
        slope = width * weights
        crowd = slope * 4.0 * u**3
        t = fnp.where(self.crowds_left, self.left + near, self.left + width * u)
        t = fnp.where(self.crowds_right, self.right - near, t)
        return t, fnp.where(self.crowds_left | self.crowds_right, crowd, slope)


def panel_sums(f: Integrand, panel: Panel) -> tuple[list[Tensor], Tensor]:
    """The integrals of the leaves over a panel, and an estimate of the greatest error.

    The error follows from the difference to the rule of Gauss. Source: Piessens and others,
    "QUADPACK", 1983, section 2.2.1.1.
    """
    t, weights = panel.points()
    values = vmap(f)(t)
    eps = float(np.finfo(t.dtype).eps)
    _, kronrod, gauss = _rule(t.dtype)
    gauss_weights = weights * (gauss / kronrod)
    sums = [weighted(weights, value) for value in values]
    total = fnp.sum(weights)
    error = fnp.zeros((), t.dtype)
    with ignoring():
        for value, integral in zip(values, sums, strict=True):
            size = weighted(fnp.abs(weights), fnp.abs(value))
            spread = weighted(fnp.abs(weights), fnp.abs(value - integral / total))
            wrong = fnp.abs(integral - weighted(gauss_weights, value))
            scaled = spread * fnp.minimum(
                1.0, (200.0 * wrong / fnp.where(spread == 0.0, 1.0, spread)) ** 1.5
            )
            wrong = fnp.where((spread == 0.0) | (wrong == 0.0), wrong, scaled)
            error = fnp.maximum(error, fnp.max(fnp.maximum(wrong, 50.0 * eps * size), initial=0.0))
    return sums, error


def panel_integrals(f: Integrand, panel: Panel) -> list[Tensor]:
    """The integrals of the leaves over a panel."""
    t, weights = panel.points()
    return [weighted(weights, value) for value in vmap(f)(t)]


def weighted(weights: Tensor, values: Tensor) -> Tensor:
    """The weighted sum along axis 0."""
    return fnp.tensordot(weights, values, 1)
