"""Programs as formulas in LaTeX, and a program's one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ProgramError
from tests.together import together

M = np.ones((2, 2))


@together(
    ("f", "formula"),
    [
        (lambda x, y: x - (y - x), r"x - \left(y - x\right)"),
        (lambda x, y: x + (y - x), "x + y - x"),
        (lambda x, y: x - (-y), r"x - \left(-y\right)"),
        (lambda x, y: (x + 1) * y, r"\left(x + 1\right) y"),
        (lambda x, y: y * 2.0, r"y \cdot 2"),
        (lambda x, y: x * -3.0, r"x \left(-3\right)"),
        (lambda x, y: (x**2) ** y, r"\left(x^{2}\right)^{y}"),
        (lambda x, y: (-x) ** 2, r"\left(-x\right)^{2}"),
        (lambda x, y: -(x**2), "-x^{2}"),
        (lambda x, y: (x / y) ** 2, r"\left(\frac{x}{y}\right)^{2}"),
        (lambda x, y: 1 / (x + y), r"\frac{1}{x + y}"),
        (lambda x, y: fnp.sqrt(x * y), r"\sqrt{x y}"),
        (lambda x, y: abs(x - y), r"\left|x - y\right|"),
        (lambda x, y: fnp.arctan2(x, y), r"\operatorname{arctan2}\left(x, y\right)"),
        (lambda x, y: fnp.sin(x) * 1e-7, r"\sin\left(x\right) \cdot 1 \cdot 10^{-7}"),
        (lambda x, y: (x, y), r"\left(x, y\right)"),
        (lambda x, y: x + fnp.inf, r"x + \infty"),
        (
            lambda x, y: fnp.where(x <= y, x, 0.0),
            r"\begin{cases} x & \text{if } x \le y \\ 0 & \text{else} \end{cases}",
        ),
    ],
)
def test_numbers(f: Any, formula: str) -> None:
    assert fg.program(f)(2.0, 3.0).to_latex() == f"f(x, y) = {formula}"


@together(
    ("f", "formula"),
    [
        (lambda A: A.T @ A, r"A^{\top} A"),
        (lambda A: (A + 1) @ A, r"\left(A + 1\right) A"),
        (lambda A: A @ np.array([1.5, -2.0]), r"A \begin{pmatrix} 1.5 \\ -2 \end{pmatrix}"),
        (lambda A: np.array([[1.0, 2.0]]) @ A, r"\begin{pmatrix} 1 & 2 \end{pmatrix} A"),
        (lambda A: fnp.sum(A, axis=0), r"\operatorname{sum}_{\text{axis=(0,)}}\left(A\right)"),
        (lambda A: fnp.sort(A, axis=0), r"\operatorname{sort}_{\text{axis=0}}\left(A\right)"),
    ],
)
def test_arrays(f: Any, formula: str) -> None:
    assert fg.program(f)(M).to_latex() == f"f(A) = {formula}"


def test_a_value_that_is_used_twice_has_a_line() -> None:
    def rate(x: Any, alpha_1: Any, weight: Any) -> Any:
        below = x * x + 1
        return below / (below + alpha_1) * weight

    assert fg.program(rate)(1.0, 2.0, 3.0).to_latex().splitlines() == [
        r"\begin{aligned}",
        r"c &= x x + 1 \\",
        r"\mathrm{rate}(x, \alpha_{1}, \mathrm{weight}) &= \frac{c}{c + \alpha_{1}}"
        r" \mathrm{weight}",
        r"\end{aligned}",
    ]


def test_a_large_constant_has_a_line_without_its_elements() -> None:
    table = np.arange(100.0)
    lines = fg.program(lambda x: fnp.sum(table * x))(2.0).to_latex().splitlines()
    assert lines[1] == r"a &= \text{float64[100], a constant} \\"


@together(
    ("f", "words"),
    [
        (lambda x: fg.fori_loop(0, 3, lambda i, c: c * x, x), r"scan at .*contains a program"),
        (lambda x: x if x > 0 else -x, r"depends on values by `if`.*fnp\.where"),
        (lambda x: fnp.linalg.eigh(x * M), "eigh.* has several results"),
    ],
)
def test_programs_without_a_formula(f: Any, words: str) -> None:
    with pytest.raises(ProgramError, match=rf"to_latex: .*{words}"):
        fg.program(f)(1.0).to_latex()


def test_a_program_in_a_tuple_is_one_line() -> None:
    staged = fg.program(lambda x, y: (x * y + 1, x))(np.ones(3), 2.0)
    assert repr((staged,)) == "(Program(<lambda>(x, y): 2 result(s), 2 equation(s)),)"
    assert str(staged).startswith("program <lambda>(x: float64[3]")
