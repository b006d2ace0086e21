"""The matrix-free methods have SciPy's arguments and results."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.scipy.sparse import linalg

SIZE = 30
RANDOM = np.random.default_rng(0)
GENERAL = RANDOM.normal(size=(SIZE, SIZE)) + 8.0 * np.eye(SIZE)
POSITIVE = GENERAL @ GENERAL.T
B = RANDOM.normal(size=SIZE)
MATRICES = {"cg": POSITIVE, "gmres": GENERAL, "bicgstab": GENERAL}

by_name = pytest.mark.parametrize("name", MATRICES)


def test_every_method_has_a_matrix() -> None:
    assert set(linalg.__all__) - {"factorized", "splu", "spsolve"} == set(MATRICES)


@by_name
def test_the_arguments_are_those_of_scipy_but_for_callbacks_and_failures(name: str) -> None:
    own = inspect.signature(getattr(linalg, name)).parameters
    theirs = inspect.signature(getattr(scipy.sparse.linalg, name)).parameters
    assert [*[word for word in theirs if "callback" not in word], "failed"] == list(own)
    assert all(own[word].default == theirs[word].default for word in own if word in theirs)


@by_name
def test_the_residual_is_as_small_as_was_asked_for(name: str) -> None:
    method, matrix = getattr(linalg, name), MATRICES[name]
    cases: list[dict[str, Any]] = [{"rtol": 1e-3}, {"rtol": 0.0, "atol": 1e-6}]
    for options in (*cases, {"rtol": 1e-9, "x0": B}):
        x, info = method(matrix, B, **options)
        bound = max(options["rtol"] * np.linalg.norm(B), options.get("atol", 0.0))
        assert int(info) == 0
        assert np.linalg.norm(matrix @ np.asarray(x) - B) <= 1.001 * bound
    start, info = method(matrix, B, x0=np.linalg.solve(matrix, B), rtol=1e-8, maxiter=1)
    assert int(info) == 0
    np.testing.assert_allclose(start, np.linalg.solve(matrix, B), rtol=1e-7)


@by_name
def test_steps_are_scipy_s(name: str) -> None:
    """After the same number of steps the solutions agree with SciPy's."""
    own, theirs = getattr(linalg, name), getattr(scipy.sparse.linalg, name)
    more: dict[str, Any] = {"restart": 3} if name == "gmres" else {}
    for preconditioner in (None, np.diag(1.0 / np.diag(MATRICES[name]))):
        options = {"rtol": 1e-12, "maxiter": 3, "M": preconditioner, **more}
        wanted, count = theirs(MATRICES[name], B, **options)
        found, info = own(MATRICES[name], B, **options)
        assert (int(info) > 0) == (count > 0)
        if preconditioner is None or name != "gmres":  # SciPy's GMRES has it on the left
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-10)


@by_name
def test_a_batch_of_systems_stops_for_each(name: str) -> None:
    method, matrix = getattr(linalg, name), MATRICES[name]
    right = np.stack([B, 0.0 * B, matrix[:, 0]])
    found, infos = fg.vmap(lambda b: method(lambda x: fnp.matmul(matrix, x), b, rtol=1e-11))(right)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right.T).T, atol=1e-9)
    assert infos.tolist() == [0, 0, 0]
