"""Equations without a solution: an error, or with ``failed="nan"`` NaN for that example alone.

The functions are discovered: the test of one with the keyword ``failed`` fails if it has no case.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, ConvergenceError, MatrixError
from funcgrad.scipy.sparse import linalg
from tests.together import together

Function = Callable[..., Any]
GOOD, BAD = 2.0, 0.0
STACK = np.array([GOOD, BAD, 3.0])
ONE, START = fg.tensor([1.0, 0.5]), np.ones(1)


def diagonal(p: Any) -> Any:
    """A linear function of x, singular if p is 0."""
    return lambda x: fnp.stack([p * x[0], (p + 1.0) * x[1]])


def by_numpy(matvec: Any, b: Any) -> Any:
    """Raise NumPy's own error of a singular matrix."""
    matrix = np.stack([np.asarray(matvec(unit)) for unit in np.eye(2)], 1)
    return np.linalg.solve(matrix, np.asarray(b))


def by_steps(matvec: Any, b: Any) -> Any:
    """Return a pair, whose second part says whether there is a solution."""
    return linalg.cg(matvec, b, rtol=1e-13, maxiter=2)


def quadratic(x: Any, p: Any) -> Any:
    """An equation without a real root where p is 0."""
    return x**2 - p + 0.5


def newton(f: Any, x: Any) -> Any:
    """Raise SciPy's RuntimeError where it does not converge."""
    return optimize.newton(f, x, fprime=fg.grad(f), tol=1e-13, maxiter=30)


def hybrid(f: Any, x: Any) -> Any:
    """Call SciPy so that it returns its record."""
    return optimize.root(f, x, tol=1e-12)


def descended(f: Any, x: Any) -> Any:
    """Newton's method, which returns a record like SciPy's."""
    for _ in range(7):
        curvature = np.asarray(fg.hessian(f)(x))[0]
        x = x - np.asarray(fg.grad(f)(x)) / np.where(curvature, curvature, 1.0)
    slope = np.asarray(fg.grad(f)(x))
    return optimize.OptimizeResult(x=x, success=abs(slope[0]) < 1e-9, message="too steep")


def square_rooted(f: Any, x: Any) -> Any:
    record = optimize.least_squares(f, x, jac=fg.jacfwd(f), xtol=1e-15, gtol=1e-15, ftol=1e-15)
    return optimize.OptimizeResult(x=record.x, success=record.cost < 1e-9, message="too large")


def repeated(f: Any, x: Any) -> Any:
    return optimize.fixed_point(f, x, xtol=1e-13, maxiter=40, method="iteration")


def made_of_numbers(solution: Function) -> Function:
    return lambda p, failed: solution(failed=failed)(1.0, p)


def made_of(solution: Function) -> Function:
    return lambda p, failed: solution(failed=failed)(START, p)


def krylov(method: Function) -> Function:
    return lambda p, failed: method(diagonal(p), ONE, rtol=1e-13, failed=failed)[0]


CASES: dict[Any, list[Function]] = {
    fg.custom_linear_solve: [
        lambda p, failed, s=solve: fg.custom_linear_solve(
            diagonal(p), ONE * (p + 1.0), s, failed=failed
        )
        for solve in (fg.implicit.dense_solve, by_numpy, by_steps)
    ],
    fg.custom_root: [
        lambda p, failed: fg.custom_root(
            lambda x: quadratic(x, p), 1.0, newton, by_division, failed=failed
        ),
        # A linear equation, whose derivative does not depend on the root.
        lambda p, failed: fg.custom_root(
            lambda x: 2.0 * x - p - p**2 / 9.0, 1.0, positive, failed=failed
        ),
    ],
    fg.fixed_point: [
        lambda p, failed: fg.fixed_point(
            lambda x, q: (1.0 - q / 5.0) * x + 1.0, 1.0, p, failed=failed
        )
    ],
    fg.implicit.root: [
        made_of(lambda **o: fg.implicit.root(quadratic, hybrid, **o)),
        made_of_numbers(lambda **o: fg.implicit.root(quadratic, newton, **o)),
        # There is a root, and no derivative.
        made_of_numbers(
            lambda **o: fg.implicit.root(lambda x, p: (x - p) * p**2, lambda f, x: p0(f), **o)
        ),
    ],
    fg.implicit.minimize: [
        made_of(
            lambda **o: fg.implicit.minimize(
                lambda x, p: p * x[0] ** 2 + x[0] + x[0] ** 3 * p / 50.0, descended, **o
            )
        )
    ],
    fg.implicit.least_squares: [
        made_of(lambda **o: fg.implicit.least_squares(quadratic, square_rooted, **o))
    ],
    fg.implicit.fixed_point: [
        made_of(
            lambda **o: fg.implicit.fixed_point(
                lambda x, p: x * (1.0 - p / 3.0) + 1.0, repeated, **o
            )
        )
    ],
    fg.implicit.dense_solve: [
        lambda p, failed: fg.implicit.dense_solve(diagonal(p), ONE, failed=failed)
    ],
    fg.implicit.direct_solve: [
        lambda p, failed: fg.implicit.direct_solve(diagonal(p), ONE, failed=failed)
    ],
    fg.implicit.cg: [krylov(linalg.cg)],
    fg.implicit.gmres: [krylov(linalg.gmres)],
    fg.implicit.bicgstab: [krylov(linalg.bicgstab)],
    linalg.spsolve: [
        lambda p, failed: linalg.spsolve(
            fg.sparse.diags(fnp.stack([p, p + 1.0])), ONE, failed=failed
        )
    ],
}


def by_division(g: Any, y: Any) -> Any:
    return y / g(1.0)


def positive(f: Any, x: Any) -> Any:
    """Refuse roots that are not positive."""
    root = -float(f(0.0)) / 2.0
    if root <= 0.0:
        raise RuntimeError("no positive root")
    return root


def p0(f: Any) -> Any:
    """The root of (x - p) p²."""
    slope = float(f(1.0)) - float(f(0.0))
    return -float(f(0.0)) / slope if slope else 0.0


LATER = frozenset({(fg.implicit.root, 2)})
"""Cases whose value is there, but no derivative."""
PARAMETERS = [
    pytest.param(function, number, id=f"{function.__module__}.{function.__name__}-{number}")
    for function, cases in CASES.items()
    for number in range(len(cases))
]


def discovered() -> Iterator[Any]:
    for module in (fg, fg.implicit, linalg):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function) and "failed" in inspect.signature(function).parameters:
                yield function


def test_every_function_with_the_keyword_has_a_case() -> None:
    assert set(discovered()) == set(CASES)
    assert set(map(fg.implicit.__dict__.get, fg.implicit.__all__)) <= set(CASES)


@together("function", CASES, ids=lambda f: f"{f.__module__}.{f.__name__}")
@together("word", ["ignore", None, True, 1.0, ["nan"]])
def test_another_word_is_refused(function: Any, word: Any) -> None:
    with pytest.raises(ArgumentError, match=r"failed is 'raise'.* or 'nan'.*; not "):
        CASES[function][0](GOOD, word)


def total(solution: Function, failed: str) -> Function:
    return lambda p: fnp.sum(solution(p, failed) * 1.5)


def derivatives(f: Function) -> dict[str, Function]:
    def along(f: Function) -> Function:
        return lambda p: fg.jvp(f, (p,), (1.0,))[1]

    return {
        "value": f,
        "grad": fg.grad(f),
        "jvp": along(f),
        "grad of grad": fg.grad(fg.grad(f)),
        "jvp of grad": along(fg.grad(f)),
    }


def in_branches(f: Function) -> Function:
    return lambda stack: fg.vmap(lambda p: fg.cond(p < 9.0, f, lambda p: p, p))(stack)


MODES: Mapping[str, Callable[[Function], Function]] = MappingProxyType(
    {
        "one by one": lambda f: lambda stack: np.stack([f(p) for p in stack]),
        "vmap": fg.vmap,
        "jit": lambda f: fg.jit(fg.vmap(f)),
        "scan": lambda f: lambda stack: fg.scan(lambda c, p: (c, f(p)), 0.0, stack)[1],
        "cond": in_branches,
    }
)

TRIED: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "value": tuple(MODES),
        "grad": ("one by one", "jit"),
        "jvp": ("one by one",),
        "grad of grad": ("one by one",),
        "jvp of grad": ("jit",),
    }
)
"""Where derivatives are taken: both first ones are programs of one kind, and both second ones."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("function", "number"), PARAMETERS)
def test_nan_is_for_the_bad_example_alone_in_every_mode(function: Any, number: int) -> None:
    for name, f in derivatives(total(CASES[function][number], "nan")).items():
        is_lost = name != "value" or (function, number) not in LATER
        expected = np.array([f(GOOD), np.nan if is_lost else 0.0, f(3.0)])
        assert np.isfinite(expected[::2]).all()
        for mode, in_mode in MODES.items():
            if mode in TRIED[name]:
                assert_allclose(in_mode(f)(STACK), expected, rtol=1e-6, atol=1e-9, err_msg=mode)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@together(("function", "number"), PARAMETERS)
def test_nan_changes_nothing_where_there_is_a_solution(function: Any, number: int) -> None:
    solution = CASES[function][number]
    ways = (derivatives(total(solution, failed)) for failed in ("raise", "nan"))
    for raising, f in zip(*(way.values() for way in ways), strict=True):
        assert_allclose(raising(GOOD), f(GOOD), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@together(("function", "number"), PARAMETERS)
def test_what_is_known_to_fail_raises_without_the_word(function: Any, number: int) -> None:
    """SciPy's and NumPy's own errors reach the caller."""
    f = fg.grad(total(CASES[function][number], "raise"))
    with pytest.raises((ConvergenceError, MatrixError, np.linalg.LinAlgError, RuntimeError)):
        f(BAD)


def test_mistakes_in_solvers_stay_errors() -> None:
    def mistaken(f: Any, x: Any) -> Any:
        raise NotImplementedError("later")

    with pytest.raises(NotImplementedError, match="later"):
        fg.custom_root(lambda x: x - 1.0, 1.0, mistaken, failed="nan")


def test_an_error_that_a_traced_value_caused_stays_one() -> None:
    def solution(p: Any) -> Any:
        def hides_errors(f: Any, x: Any) -> Any:
            try:
                return float(p)
            except TypeError:
                raise RuntimeError("not a proper array") from None

        return fg.custom_root(lambda x: x - 1.0, 1.0, hides_errors, failed="nan")

    assert solution(1.0) == 1.0
    with pytest.raises(RuntimeError, match="not a proper array"):
        fg.jit(fg.grad(solution))(1.0)


def test_an_error_with_a_second_part_stays_one() -> None:
    def solver(f: Any, x: Any) -> Any:
        raise ConvergenceError("nowhere")

    with pytest.raises(ConvergenceError, match="nowhere"):
        fg.custom_root(lambda x: x, 1.0, solver, has_aux=True, failed="nan")
