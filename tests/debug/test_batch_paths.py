"""`fg.debug.paths`: which paths a batch takes."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg


def halved(x: Any, scale: Any = 1.0) -> Any:
    if x < 0:
        return x
    while x > scale:
        x = x / 2
    return x


def test_paths_have_examples_lines_and_answers() -> None:
    found = fg.debug.paths(halved)(np.array([0.5, -1.0, 3.0, 2.5]))
    line = halved.__code__.co_firstlineno
    first, loop = f"test_batch_paths.py:{line + 1}", f"test_batch_paths.py:{line + 3}"
    assert len(found) == 3
    assert sorted((path.examples.tolist(), path.answers) for path in found.paths) == [
        ([0], ((first, False), (loop, False))),
        ([1], ((first, True),)),
        ([2, 3], ((first, False), (loop, True))),
    ]
    text = str(found)
    assert text.startswith("paths of halved: 3 for 4 examples\n")
    assert f"  2 examples: 2, 3\n    {first}: False\n    {loop}: True" in text


def test_a_batch_that_agrees_takes_one_path() -> None:
    (path,) = fg.debug.paths(halved, in_axes=(0, None))(np.ones(3), 2.0).paths
    assert path.examples.tolist() == [0, 1, 2]
    assert path.answers == ()


def test_a_long_list_is_shortened() -> None:
    text = repr(fg.debug.paths(int)(np.arange(20)))
    assert text.endswith("... and 10 more")
    assert "paths of int: 20 for 20 examples" in text


def test_errors_are_those_of_vmap() -> None:
    with pytest.raises(fg.errors.BatchError):
        fg.debug.paths(halved)(np.ones(2), np.ones(3))
    with pytest.raises(fg.errors.FunctionError):
        fg.debug.paths(1.0)  # type: ignore[arg-type]
    with pytest.raises(fg.errors.BatchError, match="in_axes has to be an integer, None, or a tree"):
        fg.debug.paths(halved, in_axes="0")  # type: ignore[arg-type]
