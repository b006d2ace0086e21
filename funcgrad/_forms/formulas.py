r"""Programs as formulas in LaTeX.

A value that is used once is written where it is used; others have a line of their own.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> print(latex(fg.program(lambda x, sigma: fnp.exp(-(x**2) / (2 * sigma**2)))(1.0, 2.0)))
f(x, \sigma) = \exp\left(\frac{-x^{2}}{2 \sigma^{2}}\right)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.trace import Raw
from funcgrad._forms.source_text import element_text, identifier
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program
from funcgrad.errors import ProgramError

_COMPARED, _ADDED, _MULTIPLIED, _RAISED, _WHOLE = range(5)
"""How tightly a text binds: less tight ones get parentheses beside an operator."""

_COMMANDS: Final = frozenset(
    "sin cos tan sinh cosh tanh arcsin arccos arctan exp log det max min".split()
)
"""Functions for which LaTeX has a command."""

_LETTERS: Final = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi"
    " psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega".split()
)
_LEFT_OUT: Final = ("False", "None")
"""Values of options that are not shown."""

_SPELLED_OUT: Final = 8
"""The largest size of an array that is written out."""


@dataclass(frozen=True, slots=True)
class Formula:
    """Text, and how tightly it binds."""

    text: str
    tight: int = _WHOLE

    def beside(self, tight: int) -> str:
        """The text beside an operator that binds so tightly."""
        return self.text if self.tight >= tight else rf"\left({self.text}\right)"


def latex(program: Program) -> str:
    """Write a program without loops, branches and guards as a formula."""
    if program.guards:
        raise ProgramError(
            f"to_latex: {program.name} depends on values by `if` or the like, so a formula holds"
            " for some arguments only. Choose with fnp.where."
        )
    names = [_name(name) for name in program.variable_names()]
    first = len(program.inputs)
    formulas = [Formula(name) for name in names[:first]]
    lines = []
    for k, constant in enumerate(program.constants, first):
        text = _constant(constant.value)
        if text is None:
            lines.append(rf"{names[k]} &= \text{{{constant.spec}, a constant}}")
        formulas.append(Formula(names[k]) if text is None else text)
    uses = Counter([k for equation in program.equations for k in equation.operands])
    for k, equation in enumerate(program.equations, len(formulas)):
        formula = _written(equation, [formulas[operand] for operand in equation.operands])
        if uses[k] > 1 and formula.tight < _WHOLE:
            lines.append(f"{names[k]} &= {formula.text}")
            formula = Formula(names[k])
        formulas.append(formula)
    results = ", ".join(formulas[k].text for k in program.outputs)
    if len(program.outputs) != 1:
        results = rf"\left({results}\right)"
    head = _name(identifier(program.name) or "f")
    lines.append(f"{head}({', '.join(names[:first])}) &= {results}")
    if len(lines) == 1:
        return lines[0].replace("&=", "=", 1)
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def _name(name: str) -> str:
    letter, _, index = name.partition("_")
    if letter in _LETTERS:
        letter = f"\\{letter}"
    elif len(letter) > 1:
        return rf"\mathrm{{{name}}}".replace("_", r"\_")
    return f"{letter}_{{{index}}}".replace("_{}", "") if index.isalnum() or not index else name


def _constant(value: Raw) -> Formula | None:
    """A number or a small array as text; None for others."""
    array: Any = np.asarray(value)
    if array.ndim > 2 or array.size > _SPELLED_OUT:
        return None
    if array.ndim:
        columns = array.reshape(-1, 1) if array.ndim == 1 else array
        rows = [" & ".join(_number(x).text for x in row) for row in columns]
        return Formula(r"\begin{pmatrix} " + r" \\ ".join(rows) + r" \end{pmatrix}")
    return _number(array[()])


def _number(value: Raw) -> Formula:
    if value.dtype.kind == "c":
        sign = "-" if value.imag < 0 else "+"
        imaginary = _number(abs(value.imag)).text
        return Formula(f"{_number(value.real).text} {sign} {imaginary} i", _ADDED)
    if value.dtype.kind == "b" or not np.isfinite(value):
        text = {"inf": r"\infty", "-inf": r"-\infty"}.get(str(value), rf"\mathrm{{{value}}}")
        return Formula(text, _ADDED)
    digits, _, exponent = element_text(value).strip("()").partition("e")
    digits = digits.removesuffix(".0")
    text = rf"{digits} \cdot 10^{{{int(exponent)}}}" if exponent else digits
    return Formula(text, _ADDED if digits.startswith("-") else _MULTIPLIED if exponent else _WHOLE)


def _written(equation: Equation, operands: Sequence[Formula]) -> Formula:
    programs = any(isinstance(value, Program) for _, value in equation.params)
    if programs or len(equation.results) != 1:
        reason = "contains a program" if programs else "has several results"
        place = f" at {equation.source}" if equation.source else ""
        raise ProgramError(
            f"to_latex: {equation.name}{place} {reason}, so it has no formula. print(program) lists"
            " the operations."
        )
    match equation.operation.operator, list(operands):
        case "-", [x]:
            return Formula(f"-{x.beside(_MULTIPLIED)}", _ADDED)
        case ("+" | "-") as sign, [x, y]:
            behind = _ADDED if sign == "+" and not y.text.startswith("-") else _MULTIPLIED
            return Formula(f"{x.beside(_ADDED)} {sign} {y.beside(behind)}", _ADDED)
        case ("*" | "@") as sign, [x, y]:
            dot = r" \cdot " if sign == "*" and y.text[0].isdigit() else " "
            return Formula(f"{x.beside(_MULTIPLIED)}{dot}{y.beside(_MULTIPLIED)}", _MULTIPLIED)
        case "/", [x, y]:
            return Formula(rf"\frac{{{x.text}}}{{{y.text}}}", _MULTIPLIED)
        case "**", [x, y]:
            return Formula(f"{x.beside(_WHOLE)}^{{{y.text}}}", _RAISED)
        case ("<" | "<=" | ">" | ">=" | "==" | "!=") as sign, [x, y]:
            shown = {"<=": r"\le", ">=": r"\ge", "==": "=", "!=": r"\ne"}.get(sign, sign)
            return Formula(f"{x.beside(_ADDED)} {shown} {y.beside(_ADDED)}", _COMPARED)
    return _called(equation, operands)


def _called(equation: Equation, operands: Sequence[Formula]) -> Formula:
    match equation.name, list(operands):
        case "square", [x]:
            return Formula(f"{x.beside(_WHOLE)}^{{2}}", _RAISED)
        case "sqrt", [x]:
            return Formula(rf"\sqrt{{{x.text}}}", _RAISED)
        case "reciprocal", [x]:
            return Formula(rf"\frac{{1}}{{{x.text}}}", _MULTIPLIED)
        case "absolute", [x]:
            return Formula(rf"\left|{x.text}\right|", _RAISED)
        case "matmul", [x, y]:
            return Formula(f"{x.beside(_MULTIPLIED)} {y.beside(_MULTIPLIED)}", _MULTIPLIED)
        case "transpose", [x] if len(equation.results[0].shape) == 2:
            return Formula(rf"{x.beside(_WHOLE)}^{{\top}}", _RAISED)
        case "where", [condition, x, y]:
            cases = rf"{x.text} & \text{{if }} {condition.text} \\ {y.text} & \text{{else}}"
            return Formula(rf"\begin{{cases}} {cases} \end{{cases}}", _RAISED)
    name = equation.name.replace("_", r"\_")
    command = f"\\{name}" if name in _COMMANDS else rf"\operatorname{{{name}}}"
    shown = [f"{key}={value}" for key, value in equation.settings if str(value) not in _LEFT_OUT]
    if shown:
        command += rf"_{{\text{{{', '.join(shown)}}}}}".replace("_", r"\_")[1:]
    return Formula(rf"{command}\left({', '.join(x.text for x in operands)}\right)", _RAISED)
