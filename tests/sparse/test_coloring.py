"""Colorings are proper: checked by brute force on drawn patterns, and small on known ones."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funcgrad.sparse.coloring import column_colors, readable, row_colors, star_colors
from funcgrad.sparse.compression import compression, symmetric_compression
from funcgrad.sparse.patterns import Pattern


def drawn(seed: int, symmetric: bool = False) -> Pattern:
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, 12, 2)
    dense = rng.random((rows, rows if symmetric else columns)) < rng.uniform(0, 0.6)
    return Pattern.of(dense | dense.T if symmetric else dense)


def shares_a_row(dense: np.ndarray[Any, Any], colors: np.ndarray[Any, Any]) -> bool:
    return any(
        colors[i] == colors[j] and (dense[:, i] & dense[:, j]).any()
        for i, j in combinations(range(dense.shape[1]), 2)
    )


SEEDS = st.integers(0, 10**9)


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_columns_of_one_color_share_no_row(seed: int) -> None:
    pattern = drawn(seed)
    dense = pattern.matrix.toarray()
    assert not shares_a_row(dense, column_colors(pattern.matrix))
    assert not shares_a_row(dense.T, row_colors(pattern.matrix))


def has_path_of_two_colors(dense: np.ndarray[Any, Any], colors: np.ndarray[Any, Any]) -> bool:
    """Whether a path of four vertices, or an edge, has too few colors."""
    count = len(dense)
    edges = [(i, j) for i in range(count) for j in range(count) if i != j and dense[i, j]]
    if any(colors[i] == colors[j] for i, j in edges):
        return True
    return any(
        colors[a] == colors[c] and colors[b] == colors[d]
        for a, b in edges
        for c in np.flatnonzero(dense[b]).tolist()
        if c not in (a, b)
        for d in np.flatnonzero(dense[c]).tolist()
        if d not in (a, b, c)
    )


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_star_colorings_have_no_path_of_two_colors(seed: int) -> None:
    pattern = drawn(seed, symmetric=True)
    colors = star_colors(pattern.matrix)
    dense = pattern.matrix.toarray()
    assert not has_path_of_two_colors(dense, colors)
    either = np.zeros(dense.shape, bool)
    either[pattern.row_numbers, pattern.indices] = readable(pattern.matrix, colors)
    assert ((either | either.T) == dense).all()


def test_the_checks_see_mistakes() -> None:
    path = Pattern.of(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)).matrix.toarray()
    assert has_path_of_two_colors(path, np.array([0, 1, 0, 1]))
    assert shares_a_row(path, np.array([0, 1, 0, 1]))


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.sampled_from([None, "forward", "reverse", "both"]))
def test_every_element_is_read_from_its_product(seed: int, mode: str | None) -> None:
    pattern = drawn(seed)
    matrix = np.random.default_rng(seed).normal(size=pattern.shape) * pattern.matrix.toarray()
    how = compression(pattern, mode)
    forward = [matrix[:, how.columns == k].sum(axis=1) for k in range(how.forward_count)]
    reverse = [matrix[how.rows == k].sum(axis=0) for k in range(how.reverse_count)]
    flat = np.concatenate([*forward, *reverse, np.zeros(0)])
    assert (flat[how.places] == matrix[pattern.row_numbers, pattern.indices]).all()


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_hessians_are_read_from_their_products(seed: int) -> None:
    pattern = drawn(seed, symmetric=True)
    matrix = np.random.default_rng(seed).normal(size=pattern.shape) * pattern.matrix.toarray()
    matrix = matrix + matrix.T
    how = symmetric_compression(pattern)
    products = [matrix[:, how.columns == k].sum(axis=1) for k in range(how.forward_count)]
    flat = np.concatenate([*products, np.zeros(0)])
    assert (flat[how.places] == matrix[pattern.row_numbers, pattern.indices]).all()


@pytest.mark.parametrize(
    ("dense", "column", "row", "star"),
    [
        (np.eye(6), 1, 1, 1),
        (np.tri(6) * np.tri(6, k=1).T, 3, 3, None),
        (np.diag(np.ones(6)) + np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1), 3, 3, 3),
        (np.eye(6) + (np.arange(6) == 0) + (np.arange(6) == 0)[:, None], 6, 6, 2),
        (np.ones((3, 3)), 3, 3, 3),
        (np.zeros((3, 3)), 1, 1, 1),
        (np.kron(np.eye(4), np.ones((2, 2))), 2, 2, 2),
    ],
)
def test_known_counts(dense: Any, column: int, row: int, star: int | None) -> None:
    rows = Pattern.of(dense).matrix
    assert column_colors(rows).max() + 1 == (column if star is not None else 2)
    assert row_colors(rows).max() + 1 == (row if star is not None else 2)
    if star is not None:
        assert star_colors(rows).max() + 1 == star
