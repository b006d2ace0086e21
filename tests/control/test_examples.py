"""Examples of a batch that went into another branch, or have ended, are refused by nobody.

All branches of a batch run for all examples where something is staged. What a branch would refuse,
as a matrix that is singular, an example does not bring that goes into another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._control.values import may_refuse, taking_part
from funcgrad.errors import MatrixError
from tests.conformance import in_turn
from tests.together import together

Function = Callable[[Any], Any]
linalg, scipy = fnp.linalg, fg.scipy.linalg


def root(x: Any) -> Any:
    start = fnp.ones(2)
    return fnp.sum(fg.custom_root(lambda y: x @ y + 0.1 * y**3 - 1.0, start, newton))


def newton(f: Function, y: Any) -> Any:
    for _ in range(8):
        y = y - linalg.solve(fg.jacfwd(f)(y), f(y))
    return y


@fg.custom_vjp
def of_the_user(x: Any) -> Any:
    return fnp.sum(x * x)


of_the_user.defvjp(
    lambda x: (fnp.sum(x * x), linalg.inv(x)), lambda inverse, ct: (ct * inverse @ inverse,)
)


@fg.custom_vjp
def refusing_later(x: Any) -> Any:
    return fnp.sum(x * x)


refusing_later.defvjp(
    lambda x: (fnp.sum(x * x), x), lambda x, ct: (ct * linalg.inv(x) @ linalg.inv(x),)
)

BRANCHES: dict[str, Function] = {
    "solve": lambda x: fnp.sum(linalg.solve(x, x[0])),
    "inv": lambda x: fnp.sum(linalg.inv(x)),
    "slogdet": lambda x: linalg.slogdet(x)[1],
    "det": linalg.det,
    "qr": lambda x: fnp.sum(linalg.qr(x)[0]),
    "cholesky": lambda x: fnp.sum(linalg.cholesky(x)),
    "sqrtm": lambda x: fnp.sum(fnp.real(scipy.sqrtm(x))),
    "logm": lambda x: fnp.sum(fnp.real(scipy.logm(x))),
    "lu": lambda x: fnp.sum(scipy.lu(x)[2]),
    "solve_triangular": lambda x: fnp.sum(scipy.solve_triangular(x, x[0])),
    "eigh": lambda x: fnp.sum(linalg.eigh(x)[1][0] * x[0]),
    "svd": lambda x: fnp.sum(linalg.svd(x)[0][0] * x[0]),
    "custom_root": root,
    "a rule of the user's": of_the_user,
    "a rule of the user's that inverts in reverse": refusing_later,
    "a loop that would not end": lambda x: fnp.sum(
        fg.while_loop(lambda y: y[0, 0] < 10.0, lambda y: 1.5 * y, x)
    ),
}


def directional(push: Function) -> Any:
    """A gradient of a function of matrices of 2 rows, from its derivatives in all directions."""
    return fnp.reshape(fnp.stack([push(e) for e in np.eye(4).reshape(4, 2, 2)]), (2, 2))


XS = np.array([[[2.0, 1.0], [1.0, 3.0]], [[0.1, 0.3], [0.3, 0.1]], [[3.0, 1.0], [1.0, 4.0]]])
SINGULAR = np.concatenate([XS, np.zeros((1, 2, 2))])
"""Of which the first and the third go into the branch."""


def chosen(f: Function) -> Function:
    return lambda x: fg.cond(x[0, 0] > 0.5, f, lambda x: fnp.sum(x * x), x)


def of_three(f: Function) -> Function:
    def g(x: Any) -> Any:
        number = fnp.floor(x[0, 0]).astype(int)
        return fg.switch(number, [lambda x: fnp.sum(x), lambda x: 2.0 * fnp.sum(x), f], x)

    return g


def repeated(f: Function) -> Function:
    """As many steps as it takes until the corner is small, for some none at all."""

    def goes_on(carry: Any) -> Any:
        return (carry[0] < 3) & (carry[1][0, 0] > 0.5)

    def step(carry: Any) -> Any:
        count, x = carry
        return count + 1, fnp.where(x[0, 0] > 2.5, 0.9 * x, 0.0 * x) + 1e-3 * f(x) * x

    return lambda x: fnp.sum(fg.while_loop(goes_on, step, (0, x))[1])


PLACES: tuple[Callable[[Function], Function], ...] = (chosen, of_three, repeated)
WAYS: dict[str, Callable[[Function], Function]] = {
    "jit of vmap of grad": lambda f: fg.jit(fg.vmap(fg.grad(f))),
    "vmap of jit of grad": lambda f: fg.vmap(fg.jit(fg.grad(f))),
    "vmap of grad of jit": lambda f: fg.vmap(fg.grad(fg.jit(f))),
    "jit of grad of vmap": lambda f: fg.jit(fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs)))),
    "grad of vmap of jit": lambda f: fg.grad(lambda xs: fnp.sum(fg.vmap(fg.jit(f))(xs))),
    "grad of jit of vmap": lambda f: fg.grad(lambda xs: fnp.sum(fg.jit(fg.vmap(f))(xs))),
    "vmap of grad": lambda f: fg.vmap(fg.grad(f)),
    "grad of vmap": lambda f: fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs))),
    "vmap of linearize": lambda f: fg.vmap(lambda x: directional(fg.linearize(f, x)[1])),
    "vmap of jvp": lambda f: fg.vmap(lambda x: directional(lambda t: fg.jvp(f, (x,), (t,))[1])),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BRANCHES)
@pytest.mark.parametrize("place", PLACES)
def test_examples_that_go_elsewhere_are_not_refused(
    place: Callable[[Function], Function], name: str
) -> None:
    f = place(BRANCHES[name])
    gradient = fg.grad(f)
    expected = np.stack([np.asarray(gradient(x)) for x in SINGULAR])
    turn = [*BRANCHES].index(name) + PLACES.index(place)
    for way, transform in in_turn([*WAYS.items()], turn, 3):
        found = np.asarray(transform(f)(SINGULAR))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11, err_msg=way)


@together("name", ["solve", "a rule of the user's", "slogdet", "qr", "cholesky"], quick=2)
@together("place", [chosen, repeated])
def test_second_derivatives_are_not_refused(
    place: Callable[[Function], Function], name: str
) -> None:
    f, direction = place(BRANCHES[name]), np.array([[1.0, 2.0], [-1.0, 0.5]])

    def pushed(x: Any) -> Any:
        return fg.jvp(fg.grad(f), (x,), (direction,))[1]

    def pulled(x: Any) -> Any:
        return fg.grad(lambda x: fnp.sum(fg.grad(f)(x) * direction))(x)

    for second in (pushed, pulled):
        expected = np.stack([np.asarray(second(x)) for x in SINGULAR])
        for mapped in (fg.jit(fg.vmap(second)), fg.vmap(second)):
            found = np.asarray(mapped(SINGULAR))
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_a_branch_that_no_example_takes_does_not_run() -> None:
    f = fg.vmap(fg.grad(chosen(BRANCHES["solve"])))
    for mapped in (fg.jit(f), f):
        np.testing.assert_array_equal(mapped(np.zeros((3, 2, 2))), np.zeros((3, 2, 2)))
        assert mapped(np.zeros((0, 2, 2))).shape == (0, 2, 2)


def test_what_every_number_may_go_through_is_left_as_it_is() -> None:
    safe = fg.program(lambda x: fnp.sum(fnp.log(x) / x))(np.ones(3))
    assert not may_refuse(safe)
    assert may_refuse(fg.program(linalg.inv)(np.eye(2)))
    assert may_refuse(fg.program(BRANCHES["a loop that would not end"])(np.eye(2)))
    staged = fg.program(fg.vmap(lambda x: fg.cond(x > 0.0, fnp.log, lambda x: x, x)))(np.ones(2))
    assert {"argmax", "gather"}.isdisjoint([equation.name for equation in staged.equations])


def test_others_bring_what_an_example_brings_that_takes_part() -> None:
    mask, values = np.array([False, True, False]), [np.array([1.0, 2.0, 3.0]), np.array(5.0)]
    own, shared = taking_part(mask, values, [True, False])
    np.testing.assert_array_equal(own, [2.0, 2.0, 2.0])
    assert shared == 5.0


def test_what_branches_and_bodies_close_over_is_not_refused_eagerly() -> None:
    def f(x: Any) -> Any:
        chosen = fg.cond(x[0, 0] > 0.5, lambda: linalg.inv(x)[0], lambda: x[1])
        many = fg.while_loop(
            lambda c: c[0] < 4.0 * x[0, 0], lambda c: (c[0] + 3.0, c[1] + linalg.inv(x)), (0.0, x)
        )
        return fnp.sum(chosen**2) + fnp.sum(many[1] ** 2)

    for derive in (lambda f: f, fg.grad, fg.hessian):
        expected = [np.asarray(derive(f)(x)) for x in SINGULAR]
        np.testing.assert_allclose(fg.vmap(derive(f))(SINGULAR), expected, rtol=1e-9, atol=1e-12)


def test_what_branches_close_over_is_not_refused_where_it_is_staged() -> None:
    def f(x: Any) -> Any:
        return fg.cond(x[0, 0] > 0.5, lambda: fnp.sum(linalg.inv(x) ** 2), lambda: fnp.sum(x))

    for derive in (lambda f: f, fg.grad):
        expected = [np.asarray(derive(f)(x)) for x in SINGULAR]
        np.testing.assert_allclose(fg.jit(fg.vmap(derive(f)))(SINGULAR), expected, rtol=1e-9)


def test_examples_of_a_batch_of_batches_are_not_refused() -> None:
    """In a row of the outer batch no example goes into the branch at all."""
    rows = np.stack([SINGULAR[1:3], SINGULAR[[1, 3]], SINGULAR[[0, 2]]])

    def inner(x: Any, y: Any) -> Any:
        branch = lambda: fg.cond(  # noqa: E731 - one branch within another
            y > 0.0, lambda x: fnp.sum(linalg.inv(x) ** 2), lambda x: linalg.slogdet(x)[1], x
        )
        return fg.cond(x[0, 0] > 0.5, branch, lambda: fnp.sum(x))

    for derive in (lambda f: f, fg.grad):
        f = derive(inner)
        for y in (np.array([1.0, -1.0, 1.0]), np.array([[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])):
            expected = [
                [np.asarray(f(x, np.ravel(b)[-1 if b.ndim == 0 else k])) for k, x in enumerate(row)]
                for row, b in zip(rows, y, strict=True)
            ]
            axes = (0, None) if y.ndim == 1 else 0
            found = fg.vmap(fg.vmap(f, in_axes=axes))(rows, y)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_map_within_a_branch_is_not_refused() -> None:
    """The branch runs for a batch of its own, whose examples all take part or none."""

    def f(x: Any) -> Any:
        shifts = np.array([0.0, 1.0])
        branch = lambda x: fnp.sum(  # noqa: E731
            fg.vmap(lambda s: linalg.solve(x * (1.0 + s), x[0]))(shifts) ** 2
        )
        return fg.cond(x[0, 0] > 0.5, branch, lambda x: fnp.sum(x), x)

    for derive in (lambda f: f, fg.grad):
        expected = [np.asarray(derive(f)(x)) for x in SINGULAR]
        np.testing.assert_allclose(fg.vmap(derive(f))(SINGULAR), expected, rtol=1e-9, atol=1e-12)


def test_a_loop_in_a_branch_ends_for_those_alone_that_go_into_it() -> None:
    def doubled(x: Any) -> Any:
        return fg.while_loop(lambda y: y < 10.0, lambda y: 2.0 * y, x)

    def f(x: Any) -> Any:
        return fg.cond(x > 0.0, doubled, lambda x: x * x, x)

    xs = np.array([3.0, 0.0, -1.0, 1.0])
    np.testing.assert_allclose(fg.vmap(f)(xs), [12.0, 0.0, 1.0, 16.0])
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(xs), [4.0, 0.0, -2.0, 16.0])


def test_a_matrix_that_all_examples_share_is_refused_if_any_needs_it() -> None:
    zeros = np.zeros((2, 2))
    f = fg.vmap(lambda x: fg.cond(x > 0.0, lambda x: linalg.inv(zeros)[0, 0] * x, fnp.sin, x))
    np.testing.assert_allclose(f(np.array([-1.0, -2.0])), np.sin([-1.0, -2.0]))
    with pytest.raises(MatrixError, match="singular"):
        f(np.array([-1.0, 2.0]))
