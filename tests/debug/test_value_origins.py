"""What a walk back tells holds, on random programs: nothing finite is blamed, all origins are true.

The programs are those of the fuzzer, some of whose numbers are infinite or zero.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad import debug
from funcgrad.debug.elements import relation
from funcgrad.debug.replays import Replay, replay
from funcgrad.debug.value_origins import Origin, infinity_origins, is_nan, origins_of
from funcgrad.errors import FuncgradError
from tests.tools.fuzz.generate import BrokenError, generate
from tests.tools.fuzz.subject import Subject

PROGRAMS = 100


def subjects(first: int, count: int) -> Iterator[Subject]:
    """Programs that run."""
    for seed in range(first, first + 2 * count):
        try:
            subject = Subject(generate(np.random.default_rng([7, seed]), lambda name: 1.0))
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                subject.value  # noqa: B018 - run once, to see whether it does
        except (BrokenError, FuncgradError, ArithmeticError, ValueError, TypeError):
            continue
        yield subject
        count -= 1
        if not count:
            return


def leaves_of(tree: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in fg.tree.leaves(tree)]


def is_finite(tree: Any) -> bool:
    return all(np.isfinite(leaf).all() for leaf in leaves_of(tree) if leaf.dtype.kind in "fc")


def assert_same(run: Replay, value: Any) -> None:
    """A replay is finite where the function is; machine code may round the last bits otherwise."""
    assert len(run.outs) == len(leaves_of(value))
    for (_, raw, _), leaf in zip(run.outs, leaves_of(value), strict=True):
        raw = np.asarray(raw)
        assert raw.shape == leaf.shape
        assert raw.dtype == leaf.dtype
        np.testing.assert_array_equal(np.isfinite(raw), np.isfinite(leaf))


def assert_true(origin: Origin) -> None:
    """The elements are not finite, and no element that they come from is NaN."""
    node, mask = origin.node, origin.mask
    assert mask.any()
    if node.primitive is None:
        assert not np.isfinite(np.asarray(node.outs[origin.position])[mask]).any()
        return
    if origin.outside is not None:
        assert not np.isfinite(np.asarray(node.operands[origin.outside])[mask]).any()
        return
    out = np.asarray(node.outs[origin.position])
    assert not np.isfinite(out[mask]).any()
    links = relation(node.primitive, node.operands, node.params or {}, out.shape)
    nan = [is_nan(operand) for operand in node.operands]
    assert not (links.forward(nan) & mask & is_nan(out)).any()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 10 * PROGRAMS, 5 * PROGRAMS))
def test_programs_with_infinities_inside_are_not_blamed(first: int) -> None:
    reported = infinite = 0
    for subject in subjects(first, PROGRAMS // 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = replay(subject.f, subject.args, {})
            assert_same(run, subject.value)
            origins = origins_of(run)
            if is_finite(subject.value):
                infinite += bool(run.nodes)
                assert origins == []
                debug.nans(subject.f)(*subject.args)
            else:
                reported += 1
                assert origins, subject.text
                for origin, _ in origins:
                    assert_true(origin)
                    for source in infinity_origins(origin):
                        assert_true(source)
    assert infinite
    assert reported


def test_a_finite_result_of_infinities_is_no_error() -> None:
    def f(x: Any) -> Any:
        far = 1.0 / x
        return fg.numpy.sum(fg.numpy.arctan(far) + fg.numpy.exp(-far) + fg.numpy.minimum(far, 1.0))

    x = fg.tensor([0.0, 1.0])
    with np.errstate(all="ignore"):
        expected = f(x)
    assert debug.nans(f)(x) == expected
    assert debug.nans(fg.jit(f))(x) == fg.jit(f)(x)
    assert len(replay(f, (x,), {}).nodes) >= 1
