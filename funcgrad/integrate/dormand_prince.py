"""The coefficients of the Dormand-Prince pair of orders 5 and 4.

Source: J. R. Dormand and P. J. Prince, "A family of embedded Runge-Kutta formulae", Journal of
Computational and Applied Mathematics 6 (1980), 19-26, table 2; also in Hairer, Nørsett and Wanner,
"Solving ordinary differential equations I", 2nd edition (1993), table II.5.2.

>>> from math import isclose
>>> all(isclose(sum(row), node) for row, node in zip(STAGES, NODES, strict=True))
True
"""

from __future__ import annotations

from typing import Final

NODES: Final = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
"""The times of the stages after the first, as fractions of a step."""

STAGES: Final = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
"""The weights of the earlier slopes in each stage. The last stage is the solution, of order 5; its
slope is the first slope of the next step."""

ERROR: Final = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
"""The weights of the error: the solution of order 5 minus the solution of order 4."""

CONTINUATION: Final = (
    -12715105075 / 11282082432,
    0.0,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)
"""Weights of the slopes in the quartic term. Added to the cubic through both ends and their slopes,
it makes the interpolation of order 4: L. F. Shampine, "Some practical Runge-Kutta formulas",
Mathematics of Computation 46 (1986), 135-150; in this form in Hairer, Nørsett and Wanner, section
II.6, and in their program DOPRI5.
"""
