"""Integrals of smooth functions that decay, for derivatives that have no closed form.

>>> integral(lambda s: np.exp(-s), np.array([40.0]))
array([1.])

Derivatives of distributions with respect to their parameters are integrals of the density times a
score. Each is taken over the tail in which the score has one sign, so that nothing cancels, and in
a variable in which the integrand is analytic in a strip about the reals: Gauss and Legendre's rule
converges geometrically there. Beyond ``NOTHING_LEFT`` in the exponent the integrand does not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

NOTHING_LEFT: Final = 44.0
"""exp(-44) is 1e-19."""

# The positive zeros of Legendre's polynomial of degree 40, and the weights: a table, since to find
# them takes longer than most integrals do.
_RULE: Final = (
    (0.03877241750605082, 0.0775059479784248),
    (0.11608407067525521, 0.07703981816424797),
    (0.1926975807013711, 0.07611036190062624),
    (0.2681521850072537, 0.07472316905796826),
    (0.3419940908257585, 0.07288658239580406),
    (0.413779204371605, 0.07061164739128678),
    (0.4830758016861787, 0.0679120458152339),
    (0.5494671250951282, 0.06480401345660104),
    (0.6125538896679802, 0.06130624249292894),
    (0.6719566846141796, 0.05743976909939155),
    (0.7273182551899271, 0.05322784698393682),
    (0.7783056514265194, 0.04869580763507223),
    (0.8246122308333117, 0.04387090818567327),
    (0.8659595032122595, 0.038782167974472016),
    (0.9020988069688743, 0.033460195282547844),
    (0.9328128082786765, 0.0279370069800234),
    (0.9579168192137917, 0.02224584919416696),
    (0.9772599499837743, 0.01642105838190789),
    (0.990726238699457, 0.010498284531152813),
    (0.9982377097105593, 0.004521277098533191),
)
_PART: Final = 2048
"""How many integrals are computed at once: as many as fit the cache with their points."""


EVEN: Final = (0.0, 0.5, 1.0)
"""Two equal parts of an interval."""

GRADED: Final = (0.0, 0.008, 0.04, 0.2, 1.0)
"""Parts for an integrand that changes near the start, and decays slowly."""


def rule(ends: Sequence[float]) -> tuple[Array, Array]:
    """The points and weights of Gauss and Legendre on parts of [0, 1]."""
    half = np.array(_RULE)
    points = np.concatenate([-half[::-1, 0], half[:, 0]])
    weights = np.concatenate([half[::-1, 1], half[:, 1]])
    starts, sizes = np.array(ends)[:-1, None], np.diff(ends)[:, None]
    return (starts + sizes * (points + 1) / 2).ravel(), (sizes * weights / 2).ravel()


def integral(
    integrand: Callable[[Array], Array], length: Array, ends: Sequence[float] = EVEN
) -> Array:
    """The integrals from 0 to given lengths, one for each element.

    Parameters
    ----------
    integrand : callable
        Of an array of one more axis, in front, on which the points are.
    length : array
    ends : sequence of float
        Where the parts of the interval begin and end, relative to its length: from 0 to 1, with
        40 points in each.
    """
    points, weights = rule(ends)
    values = integrand(points.reshape(-1, *[1] * length.ndim) * length)
    return np.tensordot(weights, values, 1) * length


def in_parts(function: Callable[..., Array], *args: Array) -> Array:
    """A function of flat arrays, of some thousand elements at a time."""
    size = args[0].size
    values = [
        function(*[arg[start : start + _PART] for arg in args]) for start in range(0, size, _PART)
    ]
    return np.concatenate(values) if values else np.zeros(0)


def bell_polynomials(cumulants: Sequence[Array]) -> list[Array | float]:
    """The complete Bell polynomials, from the zeroth on.

    The n-th derivative of ``exp(f)`` is ``exp(f)`` times the n-th of these, of the derivatives of
    f from the first on (NIST Digital Library of Mathematical Functions, 26.8; Comtet, "Advanced
    Combinatorics", 1974, 3.3).

    >>> bell_polynomials([np.float64(2.0), np.float64(3.0)])[2]
    np.float64(7.0)
    """
    polynomials: list[Array | float] = [1.0]
    for n in range(len(cumulants)):
        terms = [math.comb(n, k) * polynomials[n - k] * cumulants[k] for k in range(n + 1)]
        polynomials.append(sum(terms[1:], terms[0]))
    return polynomials
