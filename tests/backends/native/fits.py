"""Fits the polynomials of the native backend's functions; prints ``coefficients.py``.

    python -m tests.backends.native.fits > funcgrad/_backends/native/coefficients.py

A polynomial interpolates its function at Chebyshev's points, whose error is within a factor of two
or so of the least that a polynomial of that degree can have.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Any, Final, NamedTuple

import mpmath
from mpmath import mpf

mpmath.mp.dps = 60

_HEAD: Final = '''"""Coefficients of polynomials, and constants in pieces, of functions on vectors.

Written by ``python -m tests.backends.native.fits``, which says what is approximated, and where.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

Table: TypeAlias = Mapping[str, Mapping[str, tuple[float, ...]]]
"""Numbers by a name, then by the dtype's letter."""


def _table(text: str) -> Table:
    entries: dict[str, dict[str, tuple[float, ...]]] = {}
    for entry in text.strip().split("\\n\\n"):
        name, *lines = entry.split("\\n")
        letters: dict[str, list[float]] = {}
        for line in lines:
            letter, *numbers = line.split()
            letters.setdefault(letter, []).extend(map(float, numbers))
        entries[name] = {letter: tuple(numbers) for letter, numbers in letters.items()}
    return MappingProxyType({name: MappingProxyType(row) for name, row in entries.items()})


'''


class Fit(NamedTuple):
    """A function to approximate.

    Attributes
    ----------
    function : callable
    start, stop : number
        Where it is approximated.
    double, single : int
        The degrees for float64 and float32.
    """

    function: Callable[[Any], Any]
    start: Any
    stop: Any
    double: int
    single: int


def _quotient(f: Callable[[Any], Any], at_zero: Any) -> Callable[[Any], Any]:
    """A function of the square of r that is a quotient, with its limit at 0."""

    def of_square(z: Any) -> Any:
        return at_zero if z == 0 else f(mpmath.sqrt(z))

    return of_square


def _scaled_erfc(place: Any) -> Any:
    """``exp(x**2) (1 + 2 x) erfc(x)`` at ``x = 4 (1 + place) / (1 - place)``."""
    x = 4 * (1 + place) / (1 - place)
    return mpmath.erfc(x) * mpmath.exp(x * x) * (1 + 2 * x)


_HALF_LOG: Final = mpmath.log(2) / 2 * mpf("1.001")
_QUARTER: Final = mpmath.pi / 4 * mpf("1.001")
_S: Final = mpf(3) - 2 * mpmath.sqrt(2)  # (sqrt(2) - 1) / (sqrt(2) + 1)
_TAN: Final = mpmath.sqrt(2) - 1

FITS: Final = {
    # sinh r = r + r z p(z), cosh r = 1 + z / 2 + z**2 p(z), with z = r**2
    "sinh": Fit(
        _quotient(lambda r: (mpmath.sinh(r) - r) / r**3, mpf(1) / 6), 0, _HALF_LOG**2, 4, 2
    ),
    "cosh": Fit(
        _quotient(lambda r: (mpmath.cosh(r) - 1 - r**2 / 2) / r**4, mpf(1) / 24),
        0,
        _HALF_LOG**2,
        4,
        2,
    ),
    # sin r = r + r z p(z), cos r = 1 - z / 2 + z**2 p(z)
    "sin": Fit(_quotient(lambda r: (mpmath.sin(r) - r) / r**3, -mpf(1) / 6), 0, _QUARTER**2, 5, 3),
    "cos": Fit(
        _quotient(lambda r: (mpmath.cos(r) - 1 + r**2 / 2) / r**4, mpf(1) / 24),
        0,
        _QUARTER**2,
        5,
        3,
    ),
    # log((1 + s) / (1 - s)) = 2 s + s z p(z), with z = s**2
    "log": Fit(
        _quotient(lambda s: (mpmath.log((1 + s) / (1 - s)) - 2 * s) / s**3, mpf(2) / 3),
        0,
        _S**2 * mpf("1.001"),
        6,
        3,
    ),
    # the same without its first coefficient, over z: for powers, which need more digits
    "log beyond 2/3": Fit(
        _quotient(
            lambda s: (mpmath.log((1 + s) / (1 - s)) - 2 * s - s**3 * 2 / 3) / s**5, mpf(2) / 5
        ),
        0,
        _S**2 * mpf("1.001"),
        7,
        7,
    ),
    # arctan t = t + t z p(z)
    "arctan": Fit(
        _quotient(lambda t: (mpmath.atan(t) - t) / t**3, -mpf(1) / 3), 0, _TAN**2 * 1.001, 10, 4
    ),
    # arcsin s = s + s z p(z)
    "arcsin": Fit(
        _quotient(lambda s: (mpmath.asin(s) - s) / s**3, mpf(1) / 6), 0, mpf("0.2501"), 11, 5
    ),
    # erf x = x + x p(x**2); with t = (x - 4) / (x + 4) from x = 1/2 on
    # erfc x = exp(-x**2) (c + t p(t)) / (1 + 2 x)
    "erf": Fit(
        _quotient(lambda x: mpmath.erf(x) / x - 1, 2 / mpmath.sqrt(mpmath.pi) - 1), 0, 1, 11, 11
    ),
    "erfc": Fit(
        lambda t: (_scaled_erfc(t) - _scaled_erfc(0)) / t,
        -mpf(3.51) / mpf(4.49),
        mpf(24) / 32,
        21,
        21,
    ),
    # 1 / cbrt(m), of which Newton's method makes the rest
    "inverse_cbrt": Fit(lambda m: m ** (-mpf(1) / 3), mpf("0.707"), mpf("1.4143"), 4, 4),
}


def fitted(fit: Fit, degree: int) -> list[Any]:
    """The coefficients of the polynomial that interpolates a function at Chebyshev's points."""
    count = degree + 1
    middle, half = (fit.stop + fit.start) / mpf(2), (fit.stop - fit.start) / mpf(2)
    nodes = [mpmath.cos((2 * k + 1) * mpmath.pi / (2 * count)) for k in range(count)]
    matrix = mpmath.matrix(count, count)
    right = mpmath.matrix(count, 1)
    for row, node in enumerate(nodes):
        x = middle + half * node
        right[row] = fit.function(x)
        for column in range(count):
            matrix[row, column] = x**column
    return list(mpmath.lu_solve(matrix, right))


def rounded(number: Any, char: str) -> float:
    """The nearest number of a dtype."""
    double = float(number)
    return double if char == "d" else struct.unpack("f", struct.pack("f", double))[0]


def polynomials() -> dict[str, dict[str, tuple[float, ...]]]:
    """The coefficients that ``coefficients.py`` has."""
    return {
        name: {
            char: tuple([rounded(c, char) for c in fitted(fit, degree)])
            for char, degree in (("d", fit.double), ("f", fit.single))
        }
        for name, fit in FITS.items()
    }


def pieces(number: Any, sizes: Sequence[int], char: str) -> tuple[float, ...]:
    """A number as a sum of floats, the first of which have so many bits."""
    parts, left = [], mpf(number)
    for size in sizes:
        exponent = mpmath.floor(mpmath.log(abs(left), 2))
        unit = mpf(2) ** (exponent - size + 1)
        part = mpmath.nint(left / unit) * unit
        parts.append(float(part))
        left -= part
    return (*parts, rounded(left, char if sizes[0] < 33 or sizes[0] == 53 else "d"))


# By name: the number, and for float64 and float32 the bits of its first pieces.
PIECES: Final = {
    "log(2)": (mpmath.log(2), (40,), (15,)),
    "log(2), rounded": (mpmath.log(2), (53,), (24,)),
    "log10(2)": (mpmath.log10(2), (40,), (15,)),
    "1/log(2)": (1 / mpmath.log(2), (53,), (24,)),
    "1/log(10)": (1 / mpmath.log(10), (53,), (24,)),
    "pi/2 for turns": (mpmath.pi / 2, (33, 33, 33), (33,)),
    "pi/2": (mpmath.pi / 2, (53,), (24,)),
    "pi/4": (mpmath.pi / 4, (53,), (24,)),
    "pi": (mpmath.pi, (53,), (24,)),
    "erfc at 4": (_scaled_erfc(0), (53,), (24,)),
    "2/3": (mpf(2) / 3, (53,), (24,)),
}


def constants() -> dict[str, dict[str, tuple[float, ...]]]:
    """The constants in pieces that ``coefficients.py`` has."""
    return {
        name: {"d": pieces(number, double, "d"), "f": pieces(number, single, "f")}
        for name, (number, double, single) in PIECES.items()
    }


def words_of_two_over_pi() -> tuple[int, ...]:
    """The bits of 2 / pi behind the point, 64 to a word, for arguments of any size."""
    with mpmath.workdps(420):
        bits = int(mpmath.floor(2 / mpmath.pi * mpf(2) ** (64 * 20)))
    return tuple([bits >> (64 * (19 - k)) & (1 << 64) - 1 for k in range(20)])


def text() -> str:
    """The text of ``coefficients.py``."""
    lines = [_HEAD.rstrip("\n") + "\n\n"]

    def table(name: str, about: str, entries: dict[str, dict[str, tuple[float, ...]]]) -> None:
        lines.append(f'# {about}\n{name}: Final = _table(\n    """')
        for entry, by_dtype in entries.items():
            lines.append(entry)
            for char, numbers in by_dtype.items():
                wrapped = wrap(" ".join(map(repr, numbers)), 96, break_on_hyphens=False)
                lines.extend([f"{char} {line}" for line in wrapped])
            lines.append("")
        lines[-1] = '"""\n)\n'

    table("POLYNOMIALS", "The coefficients from the constant on.", polynomials())
    about = "Constants as sums of floats; the first have so few bits that products are exact."
    table("PIECES", about, constants())
    lines.append("# The bits of 2 / pi behind the point.")
    lines.append("TWO_OVER_PI: Final = (")
    lines.extend([f"    0x{word:016X}," for word in words_of_two_over_pi()])
    lines.append(")")
    return "\n".join(lines)


if __name__ == "__main__":
    print(text())
