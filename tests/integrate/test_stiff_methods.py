"""The implicit methods of ``solve_ivp``: their coefficients, options and machine code."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.integrate import radau_collocation, singly_implicit, solve_ivp
from funcgrad.integrate.backward_differences import _following, _rescaled
from tests.integrate.stiff_problems import STIFF_PROBLEMS, hires, robertson


def test_differences_for_another_size_belong_to_the_same_polynomial() -> None:
    def table(size: float, order: int) -> np.ndarray[Any, Any]:
        values = [np.polyval([1.0, -2.0, 0.5, 3.0][: order + 1], 2.0 - size * k) for k in range(9)]
        rows = []
        for _ in range(8):
            rows.append([values[0]])
            values = [a - b for a, b in itertools.pairwise(values)]
        return np.array(rows)

    for order in (1, 2, 3):
        found = _rescaled(fnp.asarray(table(0.1, order)), fnp.asarray(order), fnp.asarray(0.7))
        np.testing.assert_allclose(found[: order + 1], table(0.07, order)[: order + 1], atol=1e-13)


def test_the_continuous_solution_of_kvaerno5_has_order_4() -> None:
    a, d = np.array(singly_implicit.STAGES), np.array(singly_implicit.CONTINUATION)
    c = a.sum(1)
    trees = [d.sum(), d @ c, d @ c**2, d @ a @ c, d @ c**3, d @ (c * (a @ c)), d @ a @ c**2]
    expected = [0, 0, 0, 0, 1 / 4, 1 / 8, 1 / 12]
    np.testing.assert_allclose([*trees, d @ a @ a @ c], [*expected, 1 / 24], atol=1e-14)


def test_the_collocation_polynomial_of_radau_goes_through_its_increments() -> None:
    powers = np.array(radau_collocation.NODES)[:, None] ** np.arange(1, 4)
    np.testing.assert_allclose(powers @ np.array(radau_collocation.POWERS).T, np.eye(3), atol=1e-13)


@pytest.mark.parametrize("method", ["Rodas5P", "BDF"])
def test_small_systems_are_solved_in_machine_code(method: str) -> None:
    pytest.importorskip("llvmlite")
    start = STIFF_PROBLEMS[1].start
    solve = fg.jit(lambda y: solve_ivp(hires, (0, 1), y, method, [1.0]).y, backend="native")
    assert "called back: nothing" in solve.lower(start).source


def test_examples_of_a_batch_do_not_depend_on_each_other() -> None:
    starts = np.array([1.0, 0.0, 0.0]) + 0.1 * np.random.default_rng(0).random((16, 3))
    solve = fg.jit(fg.vmap(lambda y: solve_ivp(robertson, (0, 1e5), y, "Rodas5P", [1e5]).y[:, 0]))
    usual = np.asarray(solve(starts))
    order = np.random.default_rng(1).permutation(16)
    np.testing.assert_array_equal(np.asarray(solve(starts[order])), usual[order])
    starts[3] = np.nan
    others = np.asarray(solve(starts))
    assert np.isnan(others[3]).all()
    np.testing.assert_array_equal(np.delete(others, 3, 0), np.delete(usual, 3, 0))


@pytest.mark.parametrize("method", ["Kvaerno5", "Rodas5P", "Radau", "BDF"])
def test_an_equation_without_unknowns_is_solved(method: str) -> None:
    assert solve_ivp(lambda t, y: -y, (0.0, 1.0), np.zeros(0), method, [0.5, 1.0]).y.shape == (0, 2)


@pytest.mark.parametrize("method", ["Rodas5P"])
def test_algebraic_equations_have_a_singular_mass_matrix(method: str) -> None:
    def f(t: Any, y: Any) -> Any:
        *slopes, _ = robertson(t, y)
        return fnp.stack([*slopes, y.sum() - 1.0])

    mass = np.diag([1.0, 1.0, 0.0])
    sol = solve_ivp(f, (0, 40), [1.0, 0.0, 0.0], method, [40.0], rtol=1e-7, atol=1e-11, mass=mass)
    known = [0.7158270688, 0.9185534765e-5, 0.2841637457]  # Hairer and Wanner, section IV.10
    np.testing.assert_allclose(sol.y[:, 0], known, rtol=1e-6)
    with pytest.raises(ArgumentError, match=r"mass is singular \(rank 2 of 3\)"):
        solve_ivp(f, (0, 40), [1.0, 0.0, 0.0], "Kvaerno5", mass=mass)


def test_options_that_do_not_fit_are_refused() -> None:
    def f(t: Any, y: Any) -> Any:
        return -y

    with pytest.raises(ArgumentError, match=r"jac belongs to the methods 'Kvaerno5'.*'RK45' is"):
        solve_ivp(f, (0, 1), [1.0], jac="sparse")
    with pytest.raises(ArgumentError, match="mass belongs to the methods"):
        solve_ivp(f, (0, 1), [1.0], "DOP853", mass=np.eye(1))
    with pytest.raises(ArgumentError, match="jac has to be callable, 'sparse' or None, got 'full'"):
        solve_ivp(f, (0, 1), [1.0], "BDF", jac="full")
    with pytest.raises(ShapeError, match=r"jac has to have shape \(2, 2\)"):
        solve_ivp(f, (0, 1), [1.0, 2.0], "BDF", jac=np.eye(3))
    with pytest.raises(ShapeError, match=r"mass has to have shape \(2, 2\)"):
        solve_ivp(f, (0, 1), [1.0, 2.0], "BDF", mass=np.eye(3))
    with pytest.raises(DtypeError, match="mass is a real matrix, but y0 is complex"):
        solve_ivp(f, (0, 1), [1.0 + 1j], "BDF", mass=np.eye(1))


def test_a_step_goes_on_to_the_next_differences() -> None:
    values = np.random.default_rng(5).normal(size=9)
    tables = []
    for last in (8, 9):
        newest_first = [*values[:last][::-1]]
        rows = []
        for _ in range(8):
            rows.append([newest_first[0]])
            newest_first = [a - b for a, b in itertools.pairwise(newest_first)]
        tables.append(np.array(rows))
    before, after = tables
    for order in range(1, 6):
        change = fg.tensor(after[order + 1])
        following = _following(fg.tensor(before), change, fg.tensor(order))
        np.testing.assert_allclose(following[: order + 3], after[: order + 3], atol=1e-12)
        np.testing.assert_array_equal(following[order + 3 :], before[order + 3 :])
