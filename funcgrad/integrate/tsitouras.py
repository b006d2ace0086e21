"""The coefficients of Tsitouras' pair of orders 5 and 4.

Source: Ch. Tsitouras, "Runge-Kutta pairs of order 5(4) satisfying only the first column simplifying
assumption", Computers and Mathematics with Applications 62 (2011), 770-775. Its interpolation of
order 4 agrees with the solution and its slope at both ends of a step; so it is the cubic through
them with a multiple of the quartic term, as for the pair of Dormand and Prince.

>>> from math import isclose
>>> all(isclose(sum(row), node) for row, node in zip(STAGES, NODES, strict=True))
True
"""

from __future__ import annotations

from typing import Final

NODES: Final = (0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0)
"""The times of the stages after the first, as fractions of a step."""

STAGES: Final = (
    (0.161,),
    (-0.008480655492356989, 0.335480655492357),
    (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
    (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
    (
        5.86145544294642,
        -12.92096931784711,
        8.159367898576159,
        -0.071584973281401,
        -0.028269050394068383,
    ),
    (
        0.09646076681806523,
        0.01,
        0.4798896504144996,
        1.379008574103742,
        -3.290069515436081,
        2.324710524099774,
    ),
)
"""The weights of the earlier slopes in each stage. The last stage is the solution, of order 5."""

ERROR: Final = (
    0.0017800110522257773,
    0.0008164344596567463,
    -0.007880878010261994,
    0.1447110071732629,
    -0.5823571654525552,
    0.45808210592918686,
    -0.015151515151515152,
)
"""The weights of the error: the solution of order 5 minus the solution of order 4."""

CONTINUATION: Final = (
    -1.0530884977290216,
    0.1017,
    2.490627285651253,
    -16.548102889244902,
    47.37952196281928,
    -34.87065786149661,
    2.5,
)
"""The weights of the slopes in the quartic term."""
