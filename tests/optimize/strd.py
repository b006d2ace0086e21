"""The 27 nonlinear fits of the Statistical Reference Datasets, with certified parameters.

The numbers are facts from NIST, "Statistical Reference Datasets: nonlinear regression", 1999; the
parameters are certified to 11 digits. ``nist_strd.txt`` holds, for each data set, the residual sum
of squares, two starts, the certified parameters, their standard deviations, and the data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp


class Certified(NamedTuple):
    """A fit: the residuals, the two starts, the certified parameters and their deviations."""

    residuals: Callable[[Any], Any]
    starts: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
    parameters: np.ndarray[Any, Any]
    deviations: np.ndarray[Any, Any]
    squares: float


def _rational(b: Any, x: Any, top: int) -> Any:
    above = sum(b[k] * x**k for k in range(top))
    return above / (1 + sum(b[top + k] * x ** (k + 1) for k in range(len(b) - top)))


def _seasons(b: Any, x: Any) -> Any:
    year = 2 * np.pi * x / 12
    level = b[0] + b[1] * np.cos(year) + b[2] * np.sin(year)
    for k in (3, 6):
        angle = 2 * np.pi * x / b[k]
        level = level + b[k + 1] * fnp.cos(angle) + b[k + 2] * fnp.sin(angle)
    return level


def _gauss(b: Any, x: Any) -> Any:
    peaks = b[2] * fnp.exp(-((x - b[3]) ** 2) / b[4] ** 2)
    peaks = peaks + b[5] * fnp.exp(-((x - b[6]) ** 2) / b[7] ** 2)
    return b[0] * fnp.exp(-b[1] * x) + peaks


MODELS: dict[str, Callable[[Any, Any], Any]] = {
    "Bennett5": lambda b, x: b[0] * (b[1] + x) ** (-1 / b[2]),
    "BoxBOD": lambda b, x: b[0] * (1 - fnp.exp(-b[1] * x)),
    "Chwirut": lambda b, x: fnp.exp(-b[0] * x) / (b[1] + b[2] * x),
    "DanWood": lambda b, x: b[0] * x ** b[1],
    "ENSO": _seasons,
    "Eckerle4": lambda b, x: b[0] / b[1] * fnp.exp(-0.5 * ((x - b[2]) / b[1]) ** 2),
    "Gauss": _gauss,
    "Hahn1": lambda b, x: _rational(b, x, 4),
    "Kirby2": lambda b, x: _rational(b, x, 3),
    "Lanczos": lambda b, x: sum(b[k] * fnp.exp(-b[k + 1] * x) for k in (0, 2, 4)),
    "MGH09": lambda b, x: b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3]),
    "MGH10": lambda b, x: b[0] * fnp.exp(b[1] / (x + b[2])),
    "MGH17": lambda b, x: b[0] + b[1] * fnp.exp(-x * b[3]) + b[2] * fnp.exp(-x * b[4]),
    "Misra1a": lambda b, x: b[0] * (1 - fnp.exp(-b[1] * x)),
    "Misra1b": lambda b, x: b[0] * (1 - (1 + b[1] * x / 2) ** -2.0),
    "Misra1c": lambda b, x: b[0] * (1 - (1 + 2 * b[1] * x) ** -0.5),
    "Misra1d": lambda b, x: b[0] * b[1] * x / (1 + b[1] * x),
    "Nelson": lambda b, x: b[0] - b[1] * x[0] * fnp.exp(-b[2] * x[1]),
    "Rat42": lambda b, x: b[0] / (1 + fnp.exp(b[1] - b[2] * x)),
    "Rat43": lambda b, x: b[0] / (1 + fnp.exp(b[1] - b[2] * x)) ** (1 / b[3]),
    "Roszman1": lambda b, x: b[0] - b[1] * x - fnp.arctan(b[2] / (x - b[3])) / np.pi,
    "Thurber": lambda b, x: _rational(b, x, 4),
}


def certified_fits() -> dict[str, Certified]:
    """All fits, by the names that NIST gives them."""
    text = (Path(__file__).parent / "nist_strd.txt").read_text().replace("\n ", " ")
    fits: dict[str, Certified] = {}
    blocks: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        words = line.split()
        if words[0][0].isupper():
            blocks[words[0]] = []
        blocks[next(reversed(blocks))].append(words)
    for name, lines in blocks.items():
        count = len(lines[5]) - 1
        head, first, second, parameters, deviations, y, *x = [
            _numbers(words[1:], count) for words in lines
        ]
        fits[name] = Certified(
            _residuals(name, y, x[0] if len(x) == 1 else np.stack(x)),
            (first, second),
            parameters,
            deviations,
            float(head[0]),
        )
    return fits


def _numbers(words: list[str], count: int) -> np.ndarray[Any, Any]:
    if "to" in words:  # equal steps
        return np.round(np.linspace(float(words[0]), float(words[2]), count), 9)
    return np.array(words, float)


def _residuals(name: str, y: Any, x: Any) -> Callable[[Any], Any]:
    model = MODELS[name if name in MODELS else name.rstrip("123")]
    measured = np.log(y) if name == "Nelson" else y
    return lambda b: model(b, x) - measured


def right_digits(fit: Any, certified: Any) -> float:
    """How many digits of the worst parameter are right, 11 at most."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.max(np.abs(np.asarray(fit) - certified) / np.abs(certified))
    return float(np.clip(-np.log10(max(error, 1e-11)), 0.0, 11.0)) if np.isfinite(error) else 0.0
