"""Pictures of patterns as text.

>>> print(*braille(np.arange(4), np.arange(4), (4, 4)), sep="|")
⠑⢄
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_WIDTH: Final = 40
_HEIGHT: Final = 16
_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille cell, four rows of two."""


def braille(
    rows: np.ndarray[Any, Any], columns: np.ndarray[Any, Any], shape: tuple[int, int]
) -> list[str]:
    """Draw elements as dots, 8 to a character; a large matrix is made smaller.

    Parameters
    ----------
    rows, columns : arrays of int
        The places of the elements.
    shape : tuple of int
    """
    if 0 in shape:
        return []
    scale = max(shape[0] / (4 * _HEIGHT), shape[1] / (2 * _WIDTH), 1.0)
    down, across = [int(np.ceil(n / scale)) for n in shape]
    cells = np.zeros((-(-down // 4), -(-across // 2)), np.int64)
    y, x = (rows / scale).astype(np.int64), (columns / scale).astype(np.int64)
    np.bitwise_or.at(cells, (y // 4, x // 2), np.array(_DOTS)[y % 4, x % 2])
    return ["".join([chr(0x2800 + cell) for cell in line]) for line in cells.tolist()]
