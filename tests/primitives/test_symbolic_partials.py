"""Declared partial derivatives against symbolic derivatives of the declared formulas.

SymPy is an algebra as well: a formula that is written in intrinsics becomes an expression there. It
is differentiated by symbols, evaluated with 50 digits, and compared with the derivative that the
operation declares, in float64, at draws from the operation's samples.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Elementwise
from funcgrad.tensor.tensor import apply
from tests.conformance import every_primitive
from tests.together import together

sympy = pytest.importorskip("sympy")
pytestmark = pytest.mark.slow

DIGITS: Final = 50
TOLERANCE: Final = 1e-13
POINTS: Final = 5


class Symbols:
    """The intrinsics on SymPy's expressions; a dtype means nothing there."""

    def __getattr__(self, name: str) -> Any:
        same = getattr(sympy, ALIASES.get(name, name), None)
        if same is None:
            raise NotImplementedError(name)
        return same

    def square(self, x: Any) -> Any:
        return x**2

    def reciprocal(self, x: Any) -> Any:
        return 1 / x

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def subtract(self, x: Any, y: Any) -> Any:
        return x - y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def divide(self, x: Any, y: Any) -> Any:
        return x / y

    def power(self, x: Any, y: Any) -> Any:
        return sympy.sympify(x) ** sympy.nsimplify(y)

    def expm1(self, x: Any) -> Any:
        return sympy.exp(x) - 1

    def log1p(self, x: Any) -> Any:
        return sympy.log(1 + x)

    def exp2(self, x: Any) -> Any:
        return sympy.Integer(2) ** x

    def log2(self, x: Any) -> Any:
        return sympy.log(x) / sympy.log(2)

    def log10(self, x: Any) -> Any:
        return sympy.log(x) / sympy.log(10)

    def hypot(self, x: Any, y: Any) -> Any:
        return sympy.sqrt(x**2 + y**2)

    def astype(self, x: Any, dtype: Any) -> Any:
        return x

    def real(self, x: Any) -> Any:
        return x

    def cbrt(self, x: Any) -> Any:
        return sympy.sign(x) * abs(x) ** sympy.Rational(1, 3)

    def equal(self, x: Any, y: Any) -> Any:
        return sympy.Eq(x, y)

    def isnan(self, x: Any) -> Any:
        return sympy.false

    def isinf(self, x: Any) -> Any:
        return sympy.false

    def isfinite(self, x: Any) -> Any:
        return sympy.true

    def where(self, flag: Any, x: Any, y: Any) -> Any:
        return sympy.Piecewise((x, flag), (y, True))


ALIASES: Final = {
    "absolute": "Abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctanh": "atanh",
    "arctan2": "atan2",
    "maximum": "Max",
    "minimum": "Min",
}


class Real(sympy.Symbol):  # type: ignore[misc, name-defined]  # SymPy has no types here
    """A symbol for a float64, as formulas see one."""

    dtype = np.dtype(np.float64)
    shape = ()


def expression(primitive: Primitive, count: int, params: dict[str, Any]) -> Any:
    """The formula in symbols; None if it needs an intrinsic that SymPy lacks."""
    symbols = [Real(f"x{k}", real=True) for k in range(count)]
    structure = primitive.structure
    assert isinstance(structure, Elementwise)
    assert structure.formula is not None
    try:
        return symbols, sympy.sympify(structure.formula(Symbols(), *symbols, **params))
    except (NotImplementedError, TypeError, AttributeError, ValueError):
        return symbols, None


def smooth_samples(primitive: Primitive) -> list[Any]:
    return [
        sample
        for sample in primitive.samples()
        if sample.smooth
        and sample.args
        and all(np.asarray(x).dtype == np.float64 and np.size(x) for x in sample.args)
    ]


def subjects() -> dict[str, tuple[Primitive, Any]]:
    """The operations with a formula and samples in float64, with all parameters."""
    table: dict[str, tuple[Primitive, Any]] = {}
    for primitive in every_primitive():
        structure = primitive.structure
        if isinstance(structure, Elementwise) and structure.formula is not None:
            for sample in smooth_samples(primitive):
                label = f"{primitive.name}{dict(sample.params) or ''}"
                table.setdefault(label, (primitive, sample))
    return table


SUBJECTS: Final = subjects()


def differences(primitive: Primitive, sample: Any, factor: float = 1.0) -> int:
    """Compare all partials at some points; return how many were compared."""
    params = dict(sample.params)
    symbols, formula = expression(primitive, len(sample.args), params)
    if formula is None:
        return 0
    columns = [np.ravel(x)[:POINTS] for x in np.broadcast_arrays(*sample.args)]
    compared = 0
    for k, symbol in enumerate(symbols):
        if not np.issubdtype(columns[k].dtype, np.floating):
            continue

        def total(*xs: Any) -> Any:
            return fnp.sum(apply(primitive, *xs, **params))

        try:
            found = np.asarray(fg.grad(total, k)(*columns)) * factor
        except fg.errors.DifferentiationError:
            continue
        slope = formula.diff(symbol)
        if slope.has(sympy.Derivative, sympy.Subs, sympy.DiracDelta):
            continue  # of a jump, or of a function that SymPy cannot differentiate
        for place in range(len(columns[0])):
            point = {
                s: sympy.Float(float(c[place]), DIGITS)
                for s, c in zip(symbols, columns, strict=True)
            }
            exact = slope.subs(point).evalf(DIGITS)
            if not exact.is_Float and not exact.is_Integer and not exact.is_Rational:
                continue  # a kink of SymPy's, or a derivative that it does not have
            error = abs(sympy.Float(float(found[place]), DIGITS) - exact)
            assert error <= TOLERANCE * max(abs(exact), 1), (primitive.name, k, point, exact)
            compared += 1
    return compared


@together(("primitive", "sample"), SUBJECTS.values(), ids=list(SUBJECTS), pieces=2)
def test_partials_are_the_symbolic_derivatives(primitive: Primitive, sample: Any) -> None:
    differences(primitive, sample)


def test_most_formulas_are_compared() -> None:
    compared = {name for name, subject in SUBJECTS.items() if differences(*subject)}
    assert len(compared) >= 80, sorted(SUBJECTS.keys() - compared)


def test_a_wrong_partial_is_seen() -> None:
    with pytest.raises(AssertionError):
        differences(*SUBJECTS["tanh"], factor=1 + 1e-9)
