"""Sparse arrays in saved programs, files and pickles."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import sparse
from funcgrad.scipy.sparse.linalg import spsolve

X = fnp.asarray([1.0, 10.0, 100.0])


def matrix() -> sparse.SparseArray:
    return sparse.diags([[2.0, 3.0, 4.0], [1.0, 1.0]], [0, 1])


def test_programs_of_sparse_arrays_are_saved() -> None:
    def f(A: Any, x: Any) -> Any:
        return A.T, spsolve(A, A @ x)

    program = fg.program(f)(matrix(), X)
    again = fg.Program.from_json(program.to_json())
    flipped, x = again(matrix(), X)
    assert isinstance(flipped, sparse.SparseArray)
    assert flipped.pattern == matrix().pattern.transposed
    np.testing.assert_allclose(np.asarray(x), np.asarray(X))
    assert again.to_json() == program.to_json()
    with pytest.raises(fg.errors.FuncgradError):
        again(sparse.eye(3), X)


def test_a_saved_program_factors_a_constant_matrix_again() -> None:
    program = fg.program(lambda b: spsolve(matrix(), b))(X)
    again = fg.Program.from_json(program.to_json())
    assert np.asarray(again(X)).tolist() == np.asarray(program(X)).tolist()


def test_a_damaged_pattern_is_refused() -> None:
    program = fg.program(lambda A: A @ X)(matrix())
    document = json.loads(program.to_json())
    text = json.dumps(document)
    good = sparse.diags([1.0] * 3).pattern.layout
    for indptr, indices in (
        (good.indptr, np.array([0, 1, 9], np.int32).tobytes()),
        (good.indptr, np.array([0, 1, -1], np.int32).tobytes()),
        (np.array([0, 2, 1, 3], np.int32).tobytes(), good.indices),
        (good.indptr, good.indices[:5]),
        (b"", b""),
    ):
        with pytest.raises((ValueError, IndexError)):
            sparse.Pattern.__of_static_parts__((indptr, indices, (3, 3), False))
    with pytest.raises(fg.errors.ProgramError, match="is not made of static parts"):
        fg.Program.from_json(text.replace("funcgrad.sparse.patterns:Pattern", "builtins:dict"))


def test_files_compare_patterns(tmp_path: Path) -> None:
    path, A = tmp_path / "tree.npz", matrix()
    fg.io.save(path, {"A": A})
    loaded = fg.io.load(path, like={"A": 0 * A})
    assert np.asarray(loaded["A"].toarray()).tolist() == np.asarray(A.toarray()).tolist()
    other = sparse.diags([[2.0, 3.0, 4.0], [1.0, 1.0]], [0, -1])
    with pytest.raises(fg.errors.FuncgradError, match=r"A\.pattern"):
        fg.io.load(path, like={"A": other})
    assert list(fg.io.load(path)["A"]) == ["data"]


def test_copies_and_pickles() -> None:
    A = matrix()
    for again in (copy.deepcopy(A), pickle.loads(pickle.dumps(A))):
        assert again.pattern == A.pattern
        assert np.asarray(again @ X).tolist() == np.asarray(A @ X).tolist()
