"""Losses of digits that the search does not report, with reasons; ``page.py`` lists them.

A derivative that is the small difference of large terms has the absolute error of these: the terms
of a second derivative are first derivatives over an argument, ``Loss.terms``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import scipy.special
import scipy.stats

from tests.tools.digits.search import Loss


class Excuse(NamedTuple):
    """Functions, in words and by a pattern, where they are excused, in words too, and why."""

    functions: str
    pattern: str
    where: Callable[[Loss], bool]
    at: str
    why: str


def _differs(loss: Loss) -> float:
    return abs(loss.found - loss.exactly)


def _is_difference(loss: Loss) -> bool:
    return len(loss.derivative) == 2 and _differs(loss) <= 1e-14 * loss.terms


def _scipy_is_off(loss: Loss) -> bool:
    """SciPy's value is no nearer to the right one than half of what ours is off."""
    space, name, *method = loss.subject.partition("[")[0].split(".")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if space == "stats":
            *shapes, scale = loss.point[1:]
            continuous = isinstance(getattr(scipy.stats, name), scipy.stats.rv_continuous)
            parameters = (*shapes, 0.0, scale) if continuous else loss.point[1:]
            value = getattr(getattr(scipy.stats, name), method[0])(loss.point[0], *parameters)
        elif space == "special":
            value = getattr(scipy.special, name)(*loss.point)
        else:
            return False
    if isinstance(value, tuple):
        value = value[int(loss.subject[-2])]
    return not loss.derivative and not 2 * abs(value - loss.exactly) < _differs(loss)


def _near_zero(loss: Loss) -> bool:
    """Beside powers of the arguments that cancel in it."""
    size = abs(loss.value)
    for place in loss.derivative:
        size /= abs(loss.point[place])
    return _differs(loss) <= 1e-13 * size


def _scale_is_far(loss: Loss) -> bool:
    value, *_, scale = loss.point
    if loss.subject.endswith(("ppf", "isf")):
        value = loss.value
    sizes = [abs(value), scale, abs(value) / scale]
    return min(sizes) < 1e-60 or max(sizes) > 1e60


def _shape_is_far(loss: Loss) -> bool:
    size = max(max(x, 1 / x) for x in loss.point[1:-1] or (1.0,) if x)
    return size > 1e3 or _differs(loss) <= 1e-13 * size * abs(loss.exactly)


def _is_far(loss: Loss) -> bool:
    return max(max(abs(x), 1 / abs(x)) for x in loss.point if x) > 1e3


def _is_near_certain(loss: Loss) -> bool:
    return _differs(loss) <= 1e-14 * max(1.0, *map(abs, loss.point))


def _anywhere(_: Loss) -> bool:
    return True


EXCUSES: Final = (
    Excuse(
        "all of `stats` and `special`",
        r"stats\..*|special\..*",
        _is_difference,
        "a second derivative nearly vanishes",
        "it is a difference of equal terms, and has their digits: an error of 1e-14 times a first"
        " derivative over an argument",
    ),
    Excuse(
        "all of `stats` and `special`",
        r"stats\..*|special\..*",
        _scipy_is_off,
        "SciPy's value is off",
        "values are SciPy's",
    ),
    Excuse(
        "distributions with a scale",
        r"stats\..*",
        _scale_is_far,
        "the value, the scale or their quotient is beyond 1e±60",
        "products on the way to derivatives leave the range, or its part with all digits",
    ),
    Excuse(
        "distributions with a shape",
        r"stats\..*",
        _shape_is_far,
        "a shape is far from 1",
        "1 is added to it, or subtracted: as many digits are lost as it has zeros; beyond 1e±3"
        " second derivatives may lose all of them",
    ),
    Excuse(
        "`truncnorm` in its bounds",
        r"stats\.truncnorm\..*",
        lambda loss: bool(loss.derivative) and max(abs(loss.found), abs(loss.exactly)) < 1e-17,
        "the derivative is below 1e-17",
        "integrals end where nothing of a probability is left",
    ),
    Excuse(
        "special functions",
        r"special\..*",
        _is_far,
        "an argument is beyond 1e±3",
        "`tests/scipy/special/test_digits.py` says of operations which keep theirs there; functions"
        " that are made of several do not",
    ),
    Excuse(
        "`ber` `bei` `ker` `kei` and their slopes",
        r"special\.(ber|bei|ker|kei)p?",
        lambda loss: abs(loss.point[0]) < 0.1,
        "the argument is below 0.1",
        "they are parts of complex numbers, of which the other one is greater",
    ),
    Excuse(
        "Bessel functions in their order and argument",
        r"special\.(iv|ivp|jn|jv|jvp|kn|kv|kvp|yn|yv|yvp)",
        _near_zero,
        "a derivative nearly vanishes",
        "neighbouring orders cancel in it: an error of 1e-13 times the value over arguments",
    ),
    Excuse(
        "`voigt_profile`",
        r"special\.voigt_profile",
        lambda loss: _differs(loss) <= 1e-9 * abs(loss.exactly),
        "more than three widths away, by up to 1e-9",
        "its slope, of Faddeeva's function w, is the small difference of a constant and 2 z w",
    ),
    Excuse(
        "`nn.softmax` `log_softmax` `cross_entropy` `ctc_loss`",
        r"nn\.(softmax|log_softmax|cross_entropy.*|ctc_loss)",
        _is_near_certain,
        "a probability is nearly 1",
        "it is the quotient by a sum that is nearly 1: an error of 1e-14",
    ),
)


def excused(loss: Loss) -> bool:
    """Whether a loss of digits is one that the page tells of."""
    return any(re.fullmatch(e.pattern, loss.subject) and e.where(loss) for e in EXCUSES)
