"""The evaluations have the same results by every way to run them, at their smallest sizes."""

import numpy as np
import pytest

import funcgrad as fg
from tests.tools.benchmarks.gradbench.__main__ import EVALUATIONS, check, flat, ways
from tests.tools.benchmarks.gradbench.by_hand import built, has_compiler
from tests.tools.benchmarks.gradbench.evaluation import Evaluation
from tests.tools.practice.libraries import funcgrad, has_jax

ALL = {evaluation.name: evaluation for evaluation in EVALUATIONS}
DERIVATIVES = {
    "hello square": "hello double",
    "lse primal": "lse gradient",
    "llsq primal": "llsq gradient",
    "det primal": "det gradient",
    "gmm objective": "gmm jacobian",
    "lstm objective": "lstm jacobian",
}
"""The functions of which another evaluation is the gradient, in the first arguments."""


@pytest.mark.parametrize(("function", "gradient"), DERIVATIVES.items(), ids=DERIVATIVES)
def test_a_gradient_agrees_with_differences(function: str, gradient: str) -> None:
    evaluation = ALL[function]
    arguments, f = evaluation.arguments(evaluation.sizes[0]), evaluation.program(funcgrad())
    slopes = ALL[gradient].program(funcgrad())(*arguments)
    slopes = slopes if isinstance(slopes, tuple) else (slopes,)
    ways = [np.random.default_rng(3).standard_normal(s.shape) for s in slopes]
    ahead, behind = [
        [a + sign * 1e-6 * w for a, w in zip(arguments, ways, strict=False)] for sign in (1, -1)
    ]
    rest = arguments[len(ways) :]
    change = (float(f(*ahead, *rest)) - float(f(*behind, *rest))) / 2e-6
    expected = sum([float(np.sum(np.asarray(s) * w)) for s, w in zip(slopes, ways, strict=True)])
    assert change == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["saddle", "particle"])
def test_all_mixes_of_modes_agree(name: str) -> None:
    pytest.importorskip("llvmlite")  # without machine code they take minutes
    mixes = [e for e in EVALUATIONS if e.name.startswith(name)]
    results = [flat(fg.jit(e.program(funcgrad()))(*e.arguments(1))) for e in mixes]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(not has_compiler(), reason="there is no compiler of C++")
def test_the_functions_by_hand_agree() -> None:
    library = built()
    for evaluation in EVALUATIONS:
        if evaluation.by_hand:
            check(ways(evaluation, evaluation.sizes[0], library, peer=False))


@pytest.mark.slow
@pytest.mark.skipif(not has_jax(), reason="JAX is not installed")
@pytest.mark.parametrize("evaluation", EVALUATIONS, ids=[e.name for e in EVALUATIONS])
def test_the_peer_agrees(evaluation: Evaluation) -> None:
    check(ways(evaluation, evaluation.sizes[0], None, peer=True))


def test_a_difference_is_seen() -> None:
    calls = {"funcgrad": lambda _: fg.tensor([1.0, 2.0]), "JAX": lambda _: np.array([1.0, 2.1])}
    with pytest.raises(AssertionError, match="JAX is off"):
        check(calls)
