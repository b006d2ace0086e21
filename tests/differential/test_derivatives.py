"""Every function of ``funcgrad.numpy``, at drawn arguments: its derivatives, its batches, staged.

Functions are found by discovery. Calls are those of ``test_values``, at numbers without ties, where
what has kinks is smooth: there forward mode is reverse mode is a difference of values. A batch is a
loop over its examples, and a staged function computes what it does eagerly. Functions that ask for
the numbers themselves are named below, with the reason; all others work under every transformation.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad.errors import CheckError, TracerError
from tests.differential.calls import generator_of
from tests.differential.compare import Outcome, as_arrays, called
from tests.differential.draw import Draw, Nested
from tests.differential.test_values import WITHOUT_PEER, functions, pair_of
from tests.together import together

CALLS = 5

# The shape or the dtype of the result depends on numbers, for some arguments at least.
ASKS_FOR_NUMBERS = frozenset(
    """
    argwhere digitize extract flatnonzero histogram histogram_bin_edges intersect1d
    lib.scimath.arccos lib.scimath.arcsin lib.scimath.arctanh lib.scimath.log lib.scimath.log10
    lib.scimath.log2 lib.scimath.logn lib.scimath.power lib.scimath.sqrt nonzero poly polydiv
    polymul real_if_close roots setdiff1d setxor1d trim_zeros union1d unique where
    """.split()
)

# Those that ask by an `if`, which a batch follows for each example.
ASKS_BY_BRANCHES = frozenset(
    """
    lib.scimath.arccos lib.scimath.arcsin lib.scimath.arctanh lib.scimath.log lib.scimath.log10
    lib.scimath.log2 lib.scimath.logn lib.scimath.power lib.scimath.sqrt poly polydiv polymul
    real_if_close roots
    """.split()
)


# Vectors with signs, phases or bases that are nobody's; see test_eigen and test_orthogonal.
OF_ANY_BASIS = frozenset(["linalg.eigh", "linalg.qr", "linalg.svd"])


class Apart(Draw):
    """Draws numbers of double precision that are apart from one another, and from kinks."""

    def __init__(self, *seed: int) -> None:
        super().__init__(*seed)
        self.finite = True

    def dtype(self, kinds: str = "biufc") -> np.dtype[Any]:
        """A dtype of one of some kinds, of double precision if it is inexact."""
        chosen = super().dtype(kinds)
        return np.dtype({"f": "d", "c": "D"}.get(chosen.kind, chosen.char))

    def numbers(self, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Elements; inexact ones are never equal."""
        dtype = np.dtype(dtype)
        if dtype.kind != "f":
            return super().numbers(dtype, shape)
        return self.rng.normal(0, 1, shape)


class Case:
    """A call of a function, as a function of the inexact arrays among its arguments.

    It knows nothing of the draws: ``jit`` follows all that the methods of its class may read.
    """

    def __init__(
        self, own: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        self.own, self.args, self.kwargs = own, args, kwargs
        self.leaves: list[np.ndarray[Any, Any]] = []
        self._exchanged((self.args, self.kwargs), self._collected)

    def _collected(self, x: Any) -> Any:
        self.leaves.append(x)
        return x

    def _exchanged(self, x: Any, change: Callable[[Any], Any]) -> Any:
        if isinstance(x, Nested):
            return list(x)
        if isinstance(x, (list, tuple)):
            return type(x)([self._exchanged(part, change) for part in x])
        if isinstance(x, dict):
            return {key: self._exchanged(value, change) for key, value in x.items()}
        found = isinstance(x, np.ndarray) and x.dtype.kind in "fc"
        return change(x) if found else x

    def __call__(self, *leaves: Any) -> Any:
        following = iter(leaves)
        args, kwargs = self._exchanged((self.args, self.kwargs), lambda _: next(following))
        return [part for part in fg.tree.leaves(self.own(*args, **kwargs)) if is_array(part)]


def drawn(name: str, draw: Draw) -> Case:
    """A call of a function with drawn arguments."""
    generator = generator_of(name)
    assert generator is not None
    return Case(pair_of(name)[0], *generator(draw))


def works(case: Case, peer: Callable[..., Any]) -> bool:
    """Whether NumPy takes it, with finite results."""
    arrays = [as_arrays(arg) for arg in case.args]
    expected = called(peer, arrays, {k: as_arrays(v) for k, v in case.kwargs.items()})
    parts = called(case, case.leaves, {}).value or []
    finite = all(np.isfinite(np.asarray(part)).all() for part in parts)
    return bool(expected.error is None and case.leaves and parts and finite)


def is_smooth(case: Case) -> bool:
    """Whether results are inexact, and are of the same shapes and dtypes close by."""
    steps = [1e-5 * np.linspace(-1, 1.1, x.size).reshape(x.shape) for x in case.leaves]
    shifts = [
        [x + side * step for x, step in zip(case.leaves, steps, strict=True)] for side in (1, -1)
    ]
    here = kinds(case(*case.leaves))
    near = [kinds(called(case, shift, {}).value or []) for shift in shifts]
    return near == [here, here] and any(kind in "fc" for _, kind in here)


def kinds(parts: Sequence[Any]) -> list[tuple[Any, str]]:
    return [(part.shape, part.dtype.kind) for part in parts]


def is_array(x: Any) -> bool:
    return isinstance(x, (fg.Tensor, np.ndarray, np.generic))


@cache
def cases(name: str) -> list[Case]:
    """Calls that work; there are none of functions that take no inexact arrays."""
    seed, peer = zlib.crc32(name.encode()), pair_of(name)[1]
    calls = (drawn(name, Apart(seed, 11, number)) for number in range(4 * CALLS))
    return list(islice((case for case in calls if works(case, peer)), CALLS))


def assert_close(found: Sequence[Any], expected: Sequence[Any]) -> None:
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        own, other = np.asarray(own), np.asarray(other)
        assert (own.dtype, own.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-12)


NAMES = [name for name in functions() if name not in WITHOUT_PEER]


def test_most_functions_are_reached() -> None:
    assert len([name for name in NAMES if cases(name)]) > 240


def evaluated(case: Case) -> Callable[..., Any]:
    """The staged function, evaluated operation by operation."""
    return lambda *leaves: fg.program(case)(*leaves)(*leaves)


@pytest.mark.slow
@together("name", NAMES, pieces=3)
def test_staged_functions_compute_what_they_do_eagerly(name: str) -> None:
    """The first call is compiled; of the others the program is evaluated."""
    for number, case in enumerate(cases(name)):
        found = called(evaluated(case) if number else fg.jit(case), case.leaves, {})
        if not (name in ASKS_FOR_NUMBERS and isinstance(found.error, TracerError)):
            assert found.error is None, found.error
            assert_close(found.value, case(*case.leaves))


def batched(case: Case, branches: bool = True) -> tuple[Outcome, Outcome]:
    """The outcome of ``vmap`` over two examples, and that of a loop."""
    mirrored = [leaf[..., ::-1].copy() if leaf.ndim else -leaf for leaf in case.leaves]
    batch = [np.stack(pair) for pair in zip(case.leaves, mirrored, strict=True)]
    singles = called(lambda: [case(*case.leaves), case(*mirrored)], (), {})
    pairs = zip(*singles.value or [], strict=True)
    loop = called(lambda: [np.stack(pair) for pair in pairs], (), {})
    return called(fg.vmap(case, branches=branches), batch, {}), singles if singles.error else loop


@together("name", NAMES)
def test_derivatives_are_those_of_the_values_and_a_batch_is_a_loop(name: str) -> None:
    for case in cases(name):
        if name not in OF_ANY_BASIS and is_smooth(case):
            try:
                fg.testing.check_grads(case, case.leaves, order=1)
            except CheckError as error:
                if "at a kink or a jump" not in str(error):
                    raise
        found, expected = batched(case)
        may_ask = name in ASKS_FOR_NUMBERS - ASKS_BY_BRANCHES
        asks = may_ask and isinstance(found.error, TracerError)
        if not asks and expected.error is None:
            assert found.error is None, found.error
            assert_close(found.value, expected.value)


@together("name", sorted(ASKS_FOR_NUMBERS))
def test_functions_that_ask_for_numbers_say_so_of_batches(name: str) -> None:
    branches = name not in ASKS_BY_BRANCHES
    errors = [batched(case, branches)[0].error for case in cases(name)]
    assert any(isinstance(error, TracerError) for error in errors)
