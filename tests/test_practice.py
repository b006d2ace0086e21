"""Programs of practice have the same results eagerly, and jitted on each backend."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from tests.tools.practice.all_tasks import TASKS
from tests.tools.practice.libraries import funcgrad
from tests.tools.practice.physics import DRAWING
from tests.tools.practice.task import Task

pytest.importorskip("llvmlite")
BACKENDS = ("numpy", "native", "xla") if find_spec("jax") else ("numpy", "native")
ALL = {task.name: task for task in (*TASKS, DRAWING)}


def largest_difference(actual: Any, expected: Any) -> float:
    """The largest difference of two trees, relative to the largest number of each result."""
    ratios = [0.0]
    for a, b in zip(fg.tree.leaves(actual), fg.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        missing = np.isnan(a) & np.isnan(b)
        a, b = np.where(missing, 0, a), np.where(missing, 0, b)
        scale = np.max(np.abs(b), initial=0.0) or 1.0
        off = np.max(np.abs(np.subtract(a, b, dtype=np.float64)), initial=0.0) / scale
        ratios.append(float(off) if np.isfinite(off) else np.inf)
    return max(ratios)


@pytest.mark.slow
@pytest.mark.parametrize("task", ALL.values(), ids=ALL)
def test_every_way_to_run_a_program_gives_the_same(task: Task) -> None:
    function, arguments = task.function(funcgrad()), task.arguments(small=True)
    expected = function(*arguments)
    for backend in BACKENDS:
        jitted = fg.jit(function, backend=backend)
        for _ in range(3):  # the first call stages it, the second has an entry
            assert largest_difference(jitted(*arguments), expected) <= task.tolerance
        assert not jitted.failures


def test_a_difference_is_seen() -> None:
    assert largest_difference((np.array([1.0, 100.0]),), (np.array([1.0, 101.0]),)) > 0.009
    assert largest_difference(np.float64(np.nan), np.float64(1.0)) == np.inf
    assert largest_difference(np.array([np.nan, 2.0]), np.array([np.nan, 2.0])) == 0.0
    with pytest.raises(ValueError, match="zip"):
        largest_difference((1.0,), (1.0, 2.0))
