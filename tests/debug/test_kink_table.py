"""The table of conventions is what the declarations of operations say."""

from __future__ import annotations

import pytest

import funcgrad.numpy as fnp
from tests.debug import kink_table


@pytest.mark.slow
def test_the_page_is_up_to_date():
    """If it is not, ``python -m tests.debug.kink_table`` writes it anew."""
    pytest.importorskip("scipy")
    assert kink_table.PAGE.read_text() == kink_table.page()


@pytest.mark.parametrize(
    ("function", "row"),
    [
        (
            fnp.abs,
            "| `f(0)` | a kink, of `absolute` | 0 | -1, 1 | the subgradient of least norm | 5 |",
        ),
        (
            fnp.maximum,
            "| `f(1, 1)` | a kink, of `maximum` | 0.5 | 0, 1 | shared among equal elements | 6 |",
        ),
        (fnp.floor, "| `f(0)` | a jump, of `floor` | 0 | 0, 0 | the slope on both sides | 7 |"),
        (
            fnp.log,
            "| `f(0)` | the end of its domain, of `log` | inf | nan, inf | the limit from inside |"
            " 2 |",
        ),
        (
            fnp.reciprocal,
            "| `f(0)` | a pole, of `reciprocal` | -inf |  | where the value is infinite |  |",
        ),
    ],
    ids=("abs", "maximum", "floor", "log", "reciprocal"),
)
def test_a_row_tells_place_derivative_slopes_and_principle(function, row):
    assert row in list(kink_table.rows_of("f", function))


def test_elements_share_also_if_there_are_many():
    (row,) = {*kink_table.rows_of("f", fnp.max)}
    assert "shared among equal elements" in row


def test_smooth_functions_have_no_row():
    assert list(kink_table.rows_of("f", fnp.sin)) == []
