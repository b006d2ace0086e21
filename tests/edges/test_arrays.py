"""Laws that functions of arrays keep at ties, zeros, infinities and scales, by discovery.

The generators of ``tests/differential`` make the calls; their numbers are drawn from small pools,
so that arrays are full of hard cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DegenerateError, MatrixError, TracerError
from tests.differential.calls import generator_of
from tests.differential.compare import called
from tests.differential.test_derivatives import ASKS_FOR_NUMBERS, NAMES, OF_ANY_BASIS, Apart, Case
from tests.differential.test_values import pair_of

POOLS: Final = (
    (0.0, -0.0, 1.0, 1.0),
    (2.0,),
    (0.0,),
    (0.0, 1.0, -1.0, np.inf),
    (1e200, 0.0, 1e200, -1e200),
    (1e-200, 0.0, -1e-200, 1.0),
)
MOST = 24
"""The greatest number of elements: pools are small, and Jacobians are not."""


class AtEdges(Apart):
    """Draws numbers from a pool."""

    def __init__(self, pool: Sequence[float], *seed: int) -> None:
        super().__init__(*seed)
        self.pool = np.array(pool)

    def numbers(self, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Elements of a dtype."""
        if np.dtype(dtype).kind != "f":
            return super().numbers(dtype, shape)
        return self.rng.choice(self.pool, shape).astype(dtype)


class EdgeCase(Case):
    """A call with numbers from a pool."""

    def flat(self, *leaves: Any) -> Any:
        """The real results in one vector."""
        parts = [part for part in self(*leaves) if np.dtype(part.dtype).kind == "f"]
        return fnp.concatenate([fnp.ravel(part) for part in parts]) if parts else fnp.zeros(0)


def is_real(case: EdgeCase) -> bool:
    """Whether the call has real arguments and results with few elements."""
    outcome = called(case.flat, case.leaves, {}).value
    few = 0 < sum(x.size for x in case.leaves) <= MOST
    real = all(x.dtype == np.float64 for x in case.leaves)
    return bool(few and real and outcome is not None and 0 < outcome.size <= MOST)


def drawn(name: str, pool: int, number: int) -> EdgeCase:
    """A call with arguments from a pool."""
    generator = generator_of(name)
    assert generator is not None
    draw = AtEdges(POOLS[pool], zlib.crc32(name.encode()), pool, number)
    return EdgeCase(pair_of(name)[0], *generator(draw))


def cases(name: str) -> Iterator[tuple[int, EdgeCase]]:
    """For each pool the first of a few random calls that has real arguments and results."""
    for pool, numbers in enumerate(POOLS):
        if name.startswith("linalg.") and not {np.inf, 1e200}.isdisjoint(numbers):
            continue  # of which there is no decomposition, and whose products are out of range
        tried = (called(drawn, (name, pool, number), {}).value for number in range(4))
        found = next((case for case in tried if case is not None and is_real(case)), None)
        if found is not None:
            yield pool, found


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def joined(parts: Any) -> Any:
    return np.concatenate([np.asarray(part, float).ravel() for part in parts])


def weighted(case: EdgeCase, mask: Any) -> Any:
    """A function of all leaves: a sum of some of the results, with different weights."""
    weights = np.linspace(1.0, 2.0, mask.size)[mask]
    return lambda *leaves: fnp.sum(case.flat(*leaves)[mask] * weights)


def wrong_with(case: EdgeCase, stages: bool) -> list[str]:
    """The laws that a call breaks, in words; only finite results are checked."""
    places = tuple(range(len(case.leaves)))
    finite = np.isfinite(np.asarray(case.flat(*case.leaves)))
    function = weighted(case, finite)
    slope = fg.grad(function, places)
    gradient = joined(slope(*case.leaves))
    along = [np.linspace(0.5, 1.5, x.size).reshape(x.shape) for x in case.leaves]
    found = []
    if np.isnan(gradient).any():
        found.append(f"NaN in the gradient {gradient.tolist()}")
    if not np.isfinite(gradient).all():
        return found
    size = float(np.abs(gradient) @ np.abs(joined(along))) or 1.0
    forward = float(fg.jvp(function, tuple(case.leaves), tuple(along))[1])
    if np.isfinite(size) and not abs(forward - gradient @ joined(along)) <= 1e-9 * size:
        found.append(f"forward {forward}, reverse {gradient.tolist()}")
    if stages:
        found += wrong_staged(case, slope, gradient)
    return [*found, *wrong_at_second_order(case, function, slope, along)]


def wrong_staged(case: EdgeCase, slope: Any, gradient: Any) -> Iterator[str]:
    staged = called(fg.jit(slope), case.leaves, {})
    if staged.error is None and not np.allclose(joined(staged.value), gradient, 1e-9, 0):
        yield f"staged {joined(staged.value).tolist()}, eager {gradient.tolist()}"
    elif staged.error is not None and not isinstance(staged.error, TracerError):
        yield f"staged: {staged.error}"


def wrong_at_second_order(case: EdgeCase, function: Any, slope: Any, along: Any) -> Iterator[str]:
    primals, tangents = tuple(case.leaves), tuple(along)
    change = joined(fg.jvp(slope, primals, tangents)[1])
    pushed = lambda *x: fg.jvp(function, x, tangents)[1]  # noqa: E731
    turned = joined(fg.grad(pushed, tuple(range(len(primals))))(*primals))
    if np.isnan(change).any():
        yield f"NaN at second order: {change.tolist()}"
    elif np.isfinite(change).all() and np.isfinite(turned).all():
        size = float(np.abs(turned).max(initial=0))
        if not np.allclose(change, turned, 1e-9, 1e-9 * size):
            yield f"forward over reverse {change.tolist()}, reverse over forward {turned.tolist()}"


EXCUSED = {
    **dict.fromkeys(
        ("float_power", "pow", "power"), "of negative bases there are whole powers alone"
    ),
    "linalg.pinv": "it jumps where the rank does: derivatives are those at the same rank",
}
SUBJECTS = [n for n in NAMES if n not in OF_ANY_BASIS | ASKS_FOR_NUMBERS | set(EXCUSED)]


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_laws_hold_at_edges(name: str) -> None:
    """At all pools; in turn staged at every third, which takes longest."""
    wrong = []
    turn = SUBJECTS.index(name)
    for pool, case in cases(name):
        stages = (pool + turn) % 3 == 0
        try:
            wrong += [(words, case.args, case.kwargs) for words in wrong_with(case, stages)]
        except (DegenerateError, MatrixError):
            continue  # which say what is not determined
    assert wrong == []
