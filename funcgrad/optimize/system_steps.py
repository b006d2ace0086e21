"""Iterations that find a root of a system of equations, as a vector.

>>> import funcgrad as fg
>>> f = lambda x: fg.numpy.stack([x[0] ** 2 + x[1] ** 2 - 2.0, x[0] - x[1]])
>>> ended = solved(Equations.read(f), fg.tensor([2.0, 0.5]), "hybr", 1e-10, 0.0, 50)
>>> ended.x, int(ended.status)
(Tensor([1., 1.]), 4)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.choices import cond
from funcgrad._control.whiles import while_loop
from funcgrad._core.pytrees import pytree
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.jacobian import jacfwd
from funcgrad.implicit.krylov import gmres
from funcgrad.optimize.iterations import Watch, looped
from funcgrad.optimize.solution import (
    NO_PROGRESS,
    NO_SLOPE,
    NOT_FINITE,
    RUNNING,
    SMALL_RESIDUAL,
    SMALL_STEP,
    first_status,
)
from funcgrad.tensor.tensor import Tensor


class Equations(NamedTuple):
    """The function whose root is wanted, and its matrix of derivatives at a point."""

    value: Callable[[Tensor], Tensor]
    jacobian: Callable[[Tensor], Tensor]

    @classmethod
    def read(
        cls, value: Callable[[Tensor], Tensor], jacobian: Callable[[Tensor], Tensor] | None = None
    ) -> Equations:
        """Take the Jacobian if there is one, else derive the function."""

        def derived(x: Tensor) -> Tensor:
            return jacfwd(value, holomorphic=x.dtype.kind == "c")(x)

        return cls(value, derived if jacobian is None else jacobian)


METHODS: Final = ("anderson", "broyden1", "hybr", "krylov", "newton")

_MIXED: Final = 5  # how many steps Anderson's method combines
_SHORTEST: Final = 1e-3  # the shortest step of the line search, as a share of the whole one


@pytree(slots=True)
class SystemState:
    """A point of the iteration.

    Attributes
    ----------
    x, value : Tensor of shape (n,)
        The point and the function there.
    memory : pytree
        The memory of the method.
    nit, nfev, status : Tensor
    """

    x: Tensor
    value: Tensor
    memory: Any
    nit: Tensor
    nfev: Tensor
    status: Tensor


def solved(
    f: Equations,
    x: Tensor,
    method: str,
    xtol: float,
    ftol: float,
    maxiter: int,
    watch: Watch | None = None,
) -> SystemState:
    """Iterate from a point to a root."""
    value = f.value(x)
    first = {
        "hybr": _dogleg_start,
        "newton": _nothing,
        "krylov": _nothing,
        "broyden1": _broyden_start,
        "anderson": _anderson_start,
    }[method](f, x, value)
    advance = {
        "hybr": _dogleg,
        "newton": _newton,
        "krylov": _krylov,
        "broyden1": _broyden,
        "anderson": _anderson,
    }[method]

    def goes_on(now: SystemState) -> Tensor:
        return (now.status == RUNNING) & (now.nit < maxiter)

    def step(now: SystemState) -> SystemState:
        return advance(f, now, xtol, ftol)

    start = SystemState(x, value, first, fnp.asarray(0), fnp.asarray(1), _status_of(value, ftol))
    return looped(goes_on, step, start, watch)


def _square(x: Tensor) -> Tensor:
    """The sum of the squares of the absolute values."""
    return fnp.sum(x.real**2 + x.imag**2) if x.dtype.kind == "c" else x @ x


def _length(x: Tensor) -> Tensor:
    return fnp.sqrt(_square(x))


def _status_of(value: Tensor, ftol: float) -> Tensor:
    size = fnp.max(fnp.abs(value), initial=0.0)
    return first_status([(~fnp.isfinite(size), NOT_FINITE), (size <= ftol, SMALL_RESIDUAL)])


def _moved(
    now: SystemState,
    x: Tensor,
    value: Tensor,
    memory: Any,
    whole: Tensor,
    tests: list[tuple[Any, int]],
    nfev: Any,
    xtol: float,
    ftol: float,
) -> SystemState:
    """The next state. ``whole`` is the step that the method wants, however long."""
    size = fnp.max(fnp.abs(value), initial=0.0)
    close = _length(whole) <= xtol * (xtol + _length(now.x))
    status = first_status([(size <= ftol, SMALL_RESIDUAL), (close, SMALL_STEP), *tests])
    return SystemState(x, value, memory, now.nit + 1, nfev, status)


# ------------------------------------------------------------------------------- steps in a region


@pytree(slots=True)
class _DoglegRegion:
    jacobian: Tensor
    scale: Tensor
    radius: Tensor


def _dogleg_start(f: Equations, x: Tensor, _: Tensor) -> _DoglegRegion:
    jacobian = f.jacobian(x)
    scale = _lengths(jacobian, fnp.zeros_like(x))
    size = _length(scale * x)
    return _DoglegRegion(
        jacobian, scale, fnp.where(size > 0.0, 100.0 * size, 100.0).astype(x.dtype)
    )


def _lengths(jacobian: Tensor, before: Tensor) -> Tensor:
    """The lengths of the columns, which never shrink; 1 for a column of zeros at first."""
    lengths = fnp.sqrt(fnp.sum(jacobian * jacobian, axis=0))
    lengths = fnp.where(lengths > 0.0, lengths, fnp.where(before > 0.0, before, 1.0))
    return fnp.maximum(lengths, before).astype(before.dtype)


def _dogleg(f: Equations, now: SystemState, xtol: float, ftol: float) -> SystemState:
    """Powell's step: along the gradient, then towards Newton's, within a region that adapts.

    Source: Powell, "A hybrid method for nonlinear equations", 1970; Moré, Garbow, Hillstrom, "User
    guide for MINPACK-1", 1980.
    """
    region: _DoglegRegion = now.memory
    jacobian, scale, radius = region.jacobian, region.scale, region.radius
    newton = fnp.linalg.solve(jacobian, -now.value, failed="nan")
    has_newton = fnp.all(fnp.isfinite(newton))
    newton = fnp.where(has_newton, newton, 0.0)
    slope = now.value @ jacobian / scale  # in units in which the region is a ball
    image = jacobian @ (slope / scale)
    best = (slope @ slope) / fnp.where(image @ image == 0.0, np.inf, image @ image)
    down, there = -best * slope, newton * scale
    step = _within(down, there, has_newton, radius) / scale
    trial = now.x + step
    value = f.value(trial)
    before, after = now.value @ now.value, value @ value
    linear = now.value + jacobian @ step
    predicted = before - linear @ linear
    ratio = (before - after) / fnp.where(predicted > 0.0, predicted, np.inf)
    better = ratio > 1e-4
    size = _length(step * scale)
    shrunk = 0.5 * fnp.minimum(size, radius)
    grown = fnp.maximum(radius, 2.0 * size)
    radius = fnp.where(~(ratio >= 0.1), shrunk, fnp.where(ratio >= 0.7, grown, radius))
    jacobian = cond(better, f.jacobian, lambda _: jacobian, trial)
    x = fnp.where(better, trial, now.x)
    memory = _DoglegRegion(jacobian, _lengths(jacobian, scale), radius.astype(x.dtype))
    wanted = fnp.where(has_newton, newton, np.inf)
    lost = radius <= xtol * (xtol + _length(now.x * scale)) * 1e-3
    tests = [(~has_newton & (_length(slope) == 0.0), NO_SLOPE), (lost, NO_PROGRESS)]
    there = fnp.where(better, value, now.value)
    return _moved(now, x, there, memory, wanted, tests, now.nfev + 1, xtol, ftol)


def _within(down: Tensor, newton: Tensor, has_newton: Tensor, radius: Tensor) -> Tensor:
    """The point of the path from 0 along the gradient and then to Newton's, within a radius."""
    near, far = _length(down), _length(newton)
    short = down * fnp.minimum(1.0, radius / fnp.where(near > 0.0, near, 1.0))
    leg = newton - down
    square, product = leg @ leg, leg @ down
    room = fnp.maximum(radius**2 - near**2, 0.0)
    root = fnp.sqrt(fnp.maximum(product**2 + square * room, 0.0))
    share = room / fnp.where(product + root > 0.0, product + root, np.inf)
    along = down + fnp.minimum(share, 1.0) * leg
    bent = fnp.where(near >= radius, short, along)
    return fnp.where(has_newton, fnp.where(far <= radius, newton, bent), short)


# ------------------------------------------------------------------------------ steps along a line


def _nothing(f: Equations, x: Tensor, value: Tensor) -> tuple[()]:
    return ()


def _searched(
    f: Equations, x: Tensor, value: Tensor, step: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Shorten a step until the residual shrinks; return the share, the value, and evaluations."""
    start = _square(value)

    def shorter(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        share, there, count = state
        after = _square(there)
        # The minimum of the parabola through the start, its slope -2 start, and the end.
        bend = start / fnp.where(fnp.isfinite(after), after - start + 2.0 * start * share, np.inf)
        smaller = fnp.clip(bend * share**2, 0.1 * share, 0.5 * share)
        return smaller, f.value(x + smaller * step), count + 1

    def too_long(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        share, there, _ = state
        after = _square(there)
        return ~(after <= (1.0 - 2e-4 * share) * start) & (share > _SHORTEST)

    one = fnp.asarray(1.0).astype(x.real.dtype)
    return while_loop(too_long, shorter, (one, f.value(x + step), fnp.asarray(1)))


def _along(
    f: Equations,
    now: SystemState,
    step: Tensor,
    memory: Callable[[Tensor, Tensor, Tensor], Any],
    tests: Callable[[Tensor], list[tuple[Any, int]]],
    xtol: float,
    ftol: float,
) -> SystemState:
    """Go along a step if that shrinks the residual.

    ``memory`` makes the next memory of the changes of x and of the value, and of whether the
    residual has shrunk; ``tests`` makes further reasons to stop of the latter.
    """
    has_step = fnp.all(fnp.isfinite(step))
    safe = fnp.where(has_step, step, 0.0)
    share, value, count = _searched(f, now.x, now.value, safe)
    shrunk = has_step & (_square(value) < _square(now.value))
    x = fnp.where(shrunk, now.x + share * safe, now.x)
    there = fnp.where(shrunk, value, now.value)
    following = memory(x - now.x, there - now.value, shrunk)
    wanted = fnp.where(has_step, step, np.inf)
    stops = tests(shrunk)
    singular = [(~has_step & condition, NO_SLOPE) for condition, _ in stops]
    causes = [*singular, *stops]
    return _moved(now, x, there, following, wanted, causes, now.nfev + count, xtol, ftol)


def _stuck(shrunk: Tensor) -> list[tuple[Any, int]]:
    return [(~shrunk, NO_PROGRESS)]


def _newton(f: Equations, now: SystemState, xtol: float, ftol: float) -> SystemState:
    step = fnp.linalg.solve(f.jacobian(now.x), -now.value, failed="nan")
    return _along(f, now, step, lambda *_: (), _stuck, xtol, ftol)


def _krylov(f: Equations, now: SystemState, xtol: float, ftol: float) -> SystemState:
    """Newton's step by GMRES, to a tolerance that falls with the residual.

    Source: Knoll and Keyes, "Jacobian-free Newton-Krylov methods", Journal of Computational Physics
    193, 2004.
    """

    def product(v: Tensor) -> Tensor:
        return jvp(f.value, (now.x,), (v,))[1]

    step, _ = gmres(product, -now.value, rtol=1e-6, failed="nan")
    return _along(f, now, step, lambda *_: (), _stuck, xtol, ftol)


@pytree(slots=True)
class _Corrected:
    """The inverse of the Jacobian, and whether it has no corrections."""

    inverse: Tensor
    fresh: Tensor


def _broyden_start(f: Equations, x: Tensor, value: Tensor) -> _Corrected:
    return _Corrected(fnp.linalg.inv(f.jacobian(x), failed="nan"), fnp.asarray(True))


def _broyden(f: Equations, now: SystemState, xtol: float, ftol: float) -> SystemState:
    """A quasi-Newton step; the inverse Jacobian is corrected by each, and computed if one fails.

    Source: Broyden, "A class of methods for solving nonlinear simultaneous equations", Mathematics
    of Computation 19, 1965.
    """
    inverse: Tensor = now.memory.inverse

    def following(change: Tensor, difference: Tensor, shrunk: Tensor) -> _Corrected:
        row = change @ inverse
        product = row @ difference
        safe = fnp.where(product == 0.0, np.inf, product)
        corrected = inverse + (change - inverse @ difference)[:, None] * (row / safe)
        computed = cond(
            shrunk, lambda _: corrected, lambda x: _broyden_start(f, x, x).inverse, now.x
        )
        return _Corrected(computed, ~shrunk)

    def tests(shrunk: Tensor) -> list[tuple[Any, int]]:
        return [(~shrunk & now.memory.fresh, NO_PROGRESS)]

    return _along(f, now, -(inverse @ now.value), following, tests, xtol, ftol)


@pytree(slots=True)
class _Mixture:
    changes: Tensor
    differences: Tensor


def _anderson_start(f: Equations, x: Tensor, value: Tensor) -> _Mixture:
    none = fnp.zeros((_MIXED, x.shape[0]), x.dtype)
    return _Mixture(none, none)


def _anderson(f: Equations, now: SystemState, xtol: float, ftol: float) -> SystemState:
    """A step along the value, mixed with earlier steps so that the residual would be least.

    Source: Anderson, "Iterative procedures for nonlinear integral equations", Journal of the ACM
    12, 1965; Walker and Ni, "Anderson acceleration for fixed-point iterations", 2011.
    """
    mixture: _Mixture = now.memory
    adjoint = mixture.differences.conj()
    matrix = adjoint @ mixture.differences.T
    slack = 1e-12 * fnp.max(fnp.diagonal(matrix).real) + np.finfo(matrix.dtype).tiny
    matrix = matrix + slack * fnp.eye(_MIXED, dtype=matrix.dtype)
    shares = fnp.linalg.solve(matrix, adjoint @ now.value, failed="nan")
    step = now.value - shares @ (mixture.changes + mixture.differences)
    x = now.x + step
    value = f.value(x)
    fine = fnp.all(fnp.isfinite(value))
    x, there = fnp.where(fine, x, now.x), fnp.where(fine, value, now.value)
    following = _Mixture(
        fnp.concatenate([mixture.changes[1:], (x - now.x)[None]]),
        fnp.concatenate([mixture.differences[1:], (there - now.value)[None]]),
    )
    tests = [(~fine, NO_PROGRESS)]
    return _moved(now, x, there, following, step, tests, now.nfev + 1, xtol, ftol)
