"""Exact rules of passes at every number of half precision, and at pairs of them.

A rule keeps every bit, or does not apply. Here each form for which a rule is made runs before and
after the passes on all 65,536 numbers, beside a second argument that goes through as many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._passes.pipeline import optimize, simplified
from funcgrad._primitives.elementwise import multiply
from tests.subjects import assert_bits
from tests.together import together

pytestmark = pytest.mark.slow

EVERY: Final = np.arange(2**16, dtype=np.uint16).view(np.float16)
NUMBERS: Final = np.where(np.isnan(EVERY), np.float16(np.nan), EVERY)
SHUFFLES: Final = 8
"""How many second arguments each number meets."""

FORMS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "neutral factors": lambda x, y: (1.0 * x, x * 1.0, x / 1.0, fnp.float16(1) * x, x * y * 1.0),
    "neutral summands": lambda x, y: (x + 0.0, 0.0 + x, x - 0.0, x + -0.0, -0.0 + x),
    "opposites": lambda x, y: (x + -y, -y + x, x - -y, -x + -y, -x - y, 0 - -x, -x * -y),
    "opposites of sums": lambda x, y: (-(x + y), -(x - y), -(x * y), -(x / y)),
    "opposites beside numbers": lambda x, y: (-(3.0 * x), -(x / 3.0), -(3.0 / x), -x * 3.0),
    "numbers": lambda x, y: (0.3 * x + 0.3 * x, 2.0 * (3.0 * x), (x / 2.0) / 3.0, x * 0.0),
    "the same twice": lambda x, y: (x + x, x - x, x * x, x / x, x * y + y * x, (x + y) * (y + x)),
    "powers": lambda x, y: (x**2, x**1, x**0, x**-1, x**0.5, x**3, fnp.square(x) * x),
    "extrema": lambda x, y: (fnp.maximum(x, x), fnp.minimum(x, y), fnp.maximum(y, x)),
    "choices": lambda x, y: (
        fnp.where(x > y, x, y),
        fnp.where(x > 0, x, 0.0),
        fnp.where(True, x, y),
        fnp.where(x > y, fnp.where(x > y, x, 1.0), y),
    ),
    "absolute values": lambda x, y: (abs(-x), abs(abs(x)), abs(x * -1.0), fnp.sign(x) * abs(x)),
    "casts": lambda x, y: (
        x.astype(np.float32).astype(np.float16),
        x.astype(np.float16),
        (x.astype(np.float32) * 3.0).astype(np.float16),
    ),
    "moved": lambda x, y: (
        (x[:, None] * 1.0)[:, 0] + y,
        fnp.reshape(fnp.reshape(-x, (256, 256)), (-1,)) + fnp.flip(fnp.flip(-y)),
        fnp.broadcast_to(-x, (2, x.size))[0] - y,
        fnp.sum((x * y)[:, None], axis=1),
    ),
    "slopes": lambda x, y: (
        fg.grad(lambda x: fnp.sum(x * y + 1.0 * x))(x),
        fg.grad(lambda x: fnp.sum(fnp.tanh(x) * y))(x),
        fg.grad(lambda x: fnp.sum(fnp.where(x > 0, x * x, -x)))(x),
        fg.grad(lambda x: fnp.sum((x - y) ** 2 / 2.0))(x),
    ),
}


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


@together("name", FORMS)
def test_rules_keep_every_bit_at_every_number(name: str) -> None:
    staged = fg.program(FORMS[name])(NUMBERS, NUMBERS)
    programs = [optimize(staged), simplified(staged)]
    for seed in range(SHUFFLES):
        second = np.random.default_rng(seed).permutation(NUMBERS)
        expected = staged(NUMBERS, second)
        for program in programs:
            assert_bits(program(NUMBERS, second), expected)


def test_some_rule_applies_to_most_forms() -> None:
    changed = [
        name
        for name, form in FORMS.items()
        if optimize(staged := fg.program(form)(NUMBERS, NUMBERS)) != staged
    ]
    assert len(changed) >= 9, changed


def test_a_rule_that_fails_at_one_number_is_seen() -> None:
    """The sum of two products with 0.3 is not one with 0.6, where numbers are subnormal."""
    right = fg.program(lambda x: 0.3 * x + 0.3 * x)(NUMBERS)
    wrong = fg.program(lambda x: 0.6 * x)(NUMBERS)
    assert right.equations[0].operation is multiply
    with pytest.raises(AssertionError):
        assert_bits(wrong(NUMBERS), right(NUMBERS))
