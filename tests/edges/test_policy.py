"""The page about edges is true in both modes, staged, and at second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
from tests.edges.exceptions import EXCUSES
from tests.edges.page import BEGIN, PAGE, table
from tests.edges.policy import POLICY, Edge
from tests.edges.subjects import functions
from tests.together import together


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def along_axes(function: Any, x: Any) -> Any:
    """The derivative along each axis by itself, so that infinite slopes do not mix with others."""
    if not np.ndim(x):
        return fg.jvp(function, (x,), (1.0,))[1]
    return [float(fg.jvp(function, (x,), (row,))[1]) for row in np.eye(x.size)]


def bends(function: Any, x: Any) -> Any:
    """The second derivative, or the diagonal of the Hessian, by forward over reverse mode."""
    slope = fg.grad(function)
    if not np.ndim(x):
        return fg.jvp(slope, (x,), (1.0,))[1]
    return [float(fg.jvp(slope, (x,), (row,))[1][k]) for k, row in enumerate(np.eye(x.size))]


@together("edge", POLICY, ids=lambda edge: f"{edge.name} at {edge.at}")
def test_the_table_says_what_is_so(edge: Edge) -> None:
    x = np.asarray(edge.at, float)[()]
    at = float(x) if not np.ndim(x) else x
    assert_allclose(np.asarray(edge.function(at)), edge.value, rtol=1e-13)
    assert_allclose(np.asarray(fg.grad(edge.function)(at)), edge.first, rtol=1e-13)
    assert_allclose(np.asarray(fg.jit(fg.grad(edge.function))(at)), edge.first, rtol=1e-13)
    if np.isfinite(edge.first).all():
        assert_allclose(along_axes(edge.function, at), edge.first, rtol=1e-13)
    if edge.second is not None:
        rounding = 1e-15 if 0.1 < np.max(np.abs(x)) < 10 else 0.0
        assert_allclose(bends(edge.function, at), edge.second, rtol=1e-12, atol=rounding)


def test_the_page_is_up_to_date() -> None:
    # If this fails: python -m tests.edges.page
    assert PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].strip() == table().strip()


def test_functions_that_are_excused_exist() -> None:
    assert set(EXCUSES) <= set(functions())
