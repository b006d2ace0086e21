"""Linear operations, factors that are masks or read few values, and transposes of pushes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Linear, Linearized, Primitive, Selection
from funcgrad._core.specs import dtype_of
from funcgrad._core.trace import Raw, Value
from funcgrad._staging.jit import jit
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.linear import linear_transpose
from funcgrad._transforms.reverse import vjp
from funcgrad.errors import FuncgradError
from funcgrad.testing.operations.agreement import (
    ROUNDING,
    coarsest,
    direction,
    directions,
    require,
    require_all_near,
    require_bits,
    require_near,
)
from funcgrad.testing.operations.cases import Case
from funcgrad.testing.operations.declarations import is_differentiated
from funcgrad.testing.operations.properties import AtSamples, Property


def _has_derivative(case: Case) -> bool:
    return bool(case.differentiable)


# ------------------------------------------------------------------------------ Linear


def _linear(primitive: Primitive) -> Linear | None:
    differential = primitive.differential
    return differential if isinstance(differential, Linear) else None


def _is_linear(primitive: Primitive) -> bool:
    return _linear(primitive) is not None


def _is_linear_in_each(primitive: Primitive) -> bool:
    linear = _linear(primitive)
    return linear is not None and not linear.jointly


def _is_structural(primitive: Primitive) -> bool:
    linear = _linear(primitive)
    return linear is not None and linear.structural


def _is_its_own_pushforward(case: Case) -> None:
    linear = _linear(case.primitive)
    for k in case.differentiable:
        (x,) = point = case.point((k,))
        t = direction(case.rng(), x)
        tangent = jvp(case.function((k,)), point, (t,))[1]
        args = list(case.args)
        if linear is not None and linear.jointly:
            for other in case.differentiable:
                args[other] = np.zeros_like(args[other])
        args[k] = t
        require_near(tangent, case.evaluate(*args), 1e-12, f"tangent along argument {k}")


def _is_transposed(case: Case) -> None:
    for k in case.differentiable:
        (x,) = point = case.point((k,))
        f = case.function((k,))
        ct = direction(case.rng(), case.value())
        pulled = vjp(f, *point)[1](ct)
        require_all_near(linear_transpose(f, x)(ct), pulled, 1e-12, f"transpose in argument {k}")


def _masks_travel(case: Case) -> None:
    mask = np.asarray(case.rng().uniform(size=case.value().shape) < 0.5)
    routes = case.primitive.routes(len(case.args))
    for k in case.differentiable:
        of_mask, of_numbers = (
            np.asarray(routes[k](ct, *case.args, **case.sample.params)) != 0
            for ct in (mask, mask.astype(float))
        )
        require_bits(of_mask, of_numbers, f"the mask of argument {k}")


def _superposes(case: Case) -> None:
    """Check that a function accepted by ``linear_transpose`` is additive, and zero at zero."""
    rng = np.random.default_rng(8)
    for k, arg in enumerate(case.args):
        if np.asarray(arg).dtype != np.float64 or not np.size(arg):
            continue
        f = case.followed_function((k,))
        x, y = 2 * rng.standard_normal((2, *np.shape(arg)))
        try:
            linear_transpose(f, x)
        except FuncgradError:
            continue
        require_superposition(f, x, y, f"argument {k}")


def require_superposition(f: Callable[..., Any], x: Raw, y: Raw, subject: str) -> None:
    """Compare f(x + y) with f(x) + f(y), and f(0) with 0."""
    zeros = f(np.zeros_like(x))
    for both, one, other, zero in zip(f(x + y), f(x), f(y), zeros, strict=True):
        apart = np.asarray(one) + np.asarray(other)
        if np.all(np.isfinite(np.asarray(both) + apart)):
            require_near(both, apart, 1e-6, f"of a sum in {subject}")
            require_near(zero, np.zeros(zero.shape), 1e-9, f"at zero in {subject}")


def _is_linear_where_said(case: Case) -> None:
    """Check that a linear combination passes through, and zeros give zeros."""
    differential: Any = case.primitive.differential
    linear = differential.linear_arguments(case.sample.params)
    if not linear:
        return
    f, point, rng = case.followed_function(linear), case.point(linear), case.rng()
    first, second = directions(rng, point), directions(rng, point)
    mixed = [2 * x - 3 * y for x, y in zip(first, second, strict=True)]
    rounding = max(1e-9, 16 * max(float(np.finfo(x.dtype).eps) for x in mixed))
    sides = [2 * a - 3 * b for a, b in zip(f(*first), f(*second), strict=True)]
    require_all_near(f(*mixed), sides, rounding, f"a combination in arguments {linear}")
    zeros = [np.asarray(x) for x in f(*[x * 0 for x in first])]
    require(not any(map(np.any, zeros)), f"zeros in arguments {linear} give {zeros}")


# ------------------------------------------------------------------------------ pushes


def _push_is_transposed(case: Case) -> None:
    positions = case.differentiable
    f, point = case.followed_function(positions), case.point(positions)
    outs, pullback = vjp(f, *point)
    cts = tuple(direction(case.rng(), out) for out in outs)
    expected = pullback(cts)

    def push(*tangents: Value) -> Value:
        return jvp(f, point, tangents)[1]

    def transposed(*seeds: Value) -> Value:
        return linear_transpose(push, *point)(seeds)

    tolerance = max(ROUNDING[coarsest([*point, *outs])], 1e-9)
    for name, pulled in (("", transposed(*cts)), (", staged", jit(transposed)(*cts))):
        require_all_near(pulled, expected, tolerance, f"the push, transposed{name}")


# ------------------------------------------------------------------------------ factors


class _Unread:
    """Stands for a value that a factor must not read."""

    def __init__(self, value: Value) -> None:
        self.shape, self.dtype = np.shape(value), dtype_of(value)


def _factors_read_what_they_say(case: Case) -> None:
    values = case.value(), *case.args
    for k in case.differentiable:
        factor, reads = case.primitive.factors[k], case.primitive.reads[k]
        if callable(factor):
            left = [x if read else _Unread(x) for x, read in zip(values, reads, strict=True)]
            expected = _numbers(factor(*values, **case.sample.params))
            require_bits(_numbers(factor(*left, **case.sample.params)), expected, f"factor {k}")


def _numbers(factor: Value) -> Raw:
    return np.asarray(factor.mask if isinstance(factor, Selection) else factor)


def _factors_are_elementwise(case: Case) -> None:
    values = np.broadcast_arrays(case.value(), *case.args)
    for k in case.differentiable:
        factor = case.primitive.factors[k]
        if callable(factor):
            whole = np.broadcast_to(factor(*values, **case.sample.params), values[0].shape)
            for element in np.ndindex(values[0].shape):
                box = tuple([slice(i, i + 1) for i in element])
                alone = factor(*[value[box] for value in values], **case.sample.params)
                require_near(
                    np.ravel(alone), np.ravel(whole[box]), 1e-13, f"factor {k} at {element}", False
                )


def _selections_select(case: Case) -> None:
    out = case.value()
    for k, factor in enumerate(case.primitive.factors):
        if callable(factor):
            value = factor(out, *case.args, **case.sample.params)
            right = isinstance(value, Selection) or dtype_of(value) == np.bool_
            require(right, f"factor {k} is neither a mask nor a Selection")


LINEAR_RULES: Final = (
    Property(
        "linear: its own derivative",
        "The tangent of a Linear operation is the operation of the tangent.",
        "See differential: declare Partials or Linearized, or jointly, if it is not linear.",
        AtSamples(_is_its_own_pushforward, _has_derivative),
        _is_linear,
    ),
    Property(
        "linear: transposes",
        "The transposes of a Linear operation are its pullbacks.",
        "See transposes: one for each argument, of the cotangent and all arguments.",
        AtSamples(_is_transposed, _has_derivative),
        _is_linear_in_each,
    ),
    Property(
        "linear: masks",
        "Masks go back through a structural operation like ones and zeros.",
        "See structural: every element of the result is a sum of elements of the arguments.",
        AtSamples(_masks_travel, _has_derivative),
        _is_structural,
    ),
    Property(
        "linear: superposition",
        "An operation that is transposed is additive, and zero at zero.",
        "See differential: a factor that reads no argument says that the operation is linear;"
        " the trait JUMPS says that it is not.",
        AtSamples(_superposes),
        is_differentiated,
    ),
    Property(
        "linear: linear_in",
        "A Linearized operation is linear in the arguments that `linear_in` names.",
        "See linear_in.",
        AtSamples(_is_linear_where_said, _has_derivative),
        lambda primitive: isinstance(primitive.differential, Linearized),
    ),
    Property(
        "pushes are transposed",
        "The push of tangents is transposed to the pullback.",
        "See push: it is linear in the tangents, and written in primitives.",
        AtSamples(_push_is_transposed, lambda case: case.is_smooth, by_kind=True),
        is_differentiated,
    ),
    Property(
        "factors read only the values that they declare",
        "A factor does not read the parameters whose names start with an underscore.",
        "See partials: name parameters that are read without an underscore.",
        AtSamples(_factors_read_what_they_say, _has_derivative),
        lambda primitive: primitive.form in ("elementwise", "selecting"),
    ),
    Property(
        "factors are elementwise",
        "An element of a factor depends on the elements at the same position.",
        "See partials.",
        AtSamples(_factors_are_elementwise, _has_derivative),
        lambda primitive: primitive.form == "elementwise",
    ),
    Property(
        "selections select",
        "Factors of an operation that selects are masks, or Selections.",
        "See selects.",
        AtSamples(_selections_select, _has_derivative),
        lambda primitive: primitive.form == "selecting",
    ),
)
