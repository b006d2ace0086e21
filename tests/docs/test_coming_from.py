"""The tables of names: both sides of each row give the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad
from tests.together import together
from tests.tools.docs import coming_from

ROWS = [
    pytest.param(library, row, id=f"{library}: {row.ours.splitlines()[-1]}")
    for library in coming_from.LIBRARIES
    for row in coming_from.rows(library)
]


def assert_same(actual: Any, expected: Any, rtol: float) -> None:
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        assert np.shape(ours) == np.shape(theirs)
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-12)


@pytest.fixture(scope="module")
def store() -> dict[str, dict[str, Any]]:
    return coming_from.stored()


@pytest.fixture(scope="module")
def spaces() -> dict[str, dict[str, Any]]:
    return {name: coming_from.names(name, "ours") for name in coming_from.LIBRARIES}


@together(("library", "row"), ROWS)
def test_our_snippet_gives_the_numbers_of_theirs(
    library: str,
    row: coming_from.Row,
    store: dict[str, dict[str, Any]],
    spaces: dict[str, dict[str, Any]],
) -> None:
    ours = coming_from.leaves(coming_from.run(row.ours, spaces[library]))
    assert_same(ours, store[library][row.theirs], row.rtol)


@pytest.mark.slow
@pytest.mark.parametrize("library", coming_from.LIBRARIES)
def test_their_snippets_give_the_stored_numbers(
    library: str, store: dict[str, dict[str, Any]]
) -> None:
    if coming_from.installed(library) is None:
        pytest.skip(f"{library} is not installed")
    theirs = coming_from.numbers_of_a_process(library)
    assert theirs.keys() == store[library].keys()
    for row in coming_from.rows(library):
        assert_same(theirs[row.theirs], store[library][row.theirs], row.rtol)


@pytest.mark.parametrize("library", coming_from.LIBRARIES)
def test_rows_are_told_apart_by_their_snippets(library: str) -> None:
    snippets = [row.theirs for row in coming_from.rows(library)]
    assert len({*snippets}) == len(snippets)


@pytest.mark.parametrize("library", coming_from.LIBRARIES)
def test_rows_refer_to_public_names(library: str) -> None:
    for row in coming_from.rows(library):
        for name in row.see:
            holder: Any = funcgrad
            for attribute in name.split(".")[1:]:
                assert attribute in getattr(holder, "__all__", dir(holder)), name
                holder = getattr(holder, attribute)


def test_another_number_is_seen() -> None:
    with pytest.raises(AssertionError):
        assert_same([np.ones(2)], [[1.0, 1.0001]], 1e-9)
    with pytest.raises(AssertionError):
        assert_same([np.ones(2)], [[[1.0, 1.0]]], 1e-9)
