"""Rows of loops in their order, results that no batch follows, and what nobody reads of a loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from funcgrad._control.spread import total
from funcgrad._passes.dead_code import leave_out_unread
from funcgrad._transforms.masked import Masked

XS = fg.tensor([0.5, 2.0, 3.0, 5.0, 7.0])


@pytest.mark.parametrize("reverse", [False, True])
def test_steps_before_the_loop_of_a_pullback_stay_in_their_order(reverse: bool) -> None:
    """What the last steps of three in a row pull back is of another kind in each of them."""

    def last(xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            first, second, _ = carry
            return (first * x, first * x, second * x), None

        return fg.scan(step, (1.0, 1.0, 1.0), xs, reverse=reverse)[0][2]

    expected = 210.0 / np.array([1.0, 4.0, 6.0, 10.0, 14.0])
    for f in (last, fg.jit(last), lambda xs: fg.program(last)(XS)(xs)):
        np.testing.assert_allclose(fg.grad(f)(XS), expected)


def test_the_rows_of_a_linear_loop_that_is_transposed_lie_in_front() -> None:
    def f(start: Any, xs: Any) -> Any:
        return fg.scan(lambda c, x: (0.5 * c + x, 2.0 * c), start, xs)

    start, xs = fnp.ones(2), fnp.ones((3, 2))
    ct = (fg.tensor([1.0, -2.0]), fg.tensor([[0.5, 1.0], [2.0, 3.0], [5.0, 7.0]]))
    expected = fg.vjp(f, start, xs)[1](ct)
    transposed = fg.linear_transpose(fg.jit(f), start, xs)(ct)
    for one, other in zip(transposed, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_rows_that_nobody_reads_go_where_the_loop_reads_all_its_operands() -> None:
    program = fg.program(lambda xs: fg.scan(lambda c, x: (c * x, fnp.sin(x)), 1.0, xs)[0])(XS)
    own = leave_out_unread(program)
    assert "sin" in program.to_text()
    assert "sin" not in own.to_text()
    np.testing.assert_allclose(own(XS), 105.0)


class Handing(extend.Trace):
    """A transformation that changes nothing."""

    title = "handing on"

    def process(
        self, primitive: extend.Primitive, args: tuple[Any, ...], params: Mapping[str, Any]
    ) -> Any:
        """Bind the operation further out."""
        return extend.Tracer.around(
            self, extend.bind(primitive, tuple(map(self.inner, args)), params)
        )


def test_a_result_that_does_not_depend_on_the_batch_has_one_too() -> None:
    """Whoever binds a loop meets its batching rule."""

    @fg.jit
    def loop(x: Any, y: Any) -> Any:
        return fg.fori_loop(0, 3, lambda i, c: (c[0] * x, c[1] * y), (x, y))

    def handed(x: Any) -> Any:
        with extend.begin_level() as level:
            trace = Handing(level)
            outs = loop(extend.Tracer.around(trace, x), extend.Tracer.around(trace, 2.0))
            return [trace.inner(out) for out in outs]

    powers, constant = fg.vmap(handed)(fnp.stack([XS, XS], axis=1))
    np.testing.assert_allclose(powers, np.stack([XS, XS], axis=1) ** 4)
    np.testing.assert_allclose(constant, np.full(5, 16.0))


def test_a_cotangent_with_holes_and_a_whole_one_add_up_in_either_order() -> None:
    gap = Masked(np.array([1.0, 0.0]), np.array([True, False]))
    whole = np.array([10.0, 20.0])
    for pair in ((gap, whole), (whole, gap)):
        np.testing.assert_allclose(total(*pair), [11.0, 20.0])
    both = total(gap, gap)
    assert isinstance(both, Masked)
    np.testing.assert_allclose(both.value, [2.0, 0.0])
    assert total(None, gap) is gap
    assert total(gap, None) is gap
