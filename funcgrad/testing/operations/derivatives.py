"""Derivatives: forward mode, reverse mode, and both against differences, to second order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Linearized, Primitive, Sample
from funcgrad._core.specs import dtype_of
from funcgrad._core.trace import Raw, Value
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.linear import linearize
from funcgrad._transforms.reverse import vjp
from funcgrad.errors import DegenerateError
from funcgrad.numpy.reductions import sum as summed
from funcgrad.numpy.selection import where
from funcgrad.testing.operations.agreement import (
    ROUNDING,
    coarsest,
    complex_step,
    differences,
    direction,
    directions,
    inner,
    inner_all,
    require,
    require_all_near,
    require_bits,
    require_near,
    require_specs,
)
from funcgrad.testing.operations.cases import Case, subsets
from funcgrad.testing.operations.declarations import (
    is_differentiated,
    is_elementwise,
    takes_other_dtypes,
)
from funcgrad.testing.operations.properties import AtSamples, Property


def _is_smooth(case: Case) -> bool:
    return case.is_smooth


def _is_moderate(case: Case) -> bool:
    return case.is_moderate


def _is_kink(case: Case) -> bool:
    return bool(case.differentiable) and not case.sample.smooth


# ------------------------------------------------------------------------------ first order


def _forward(case: Case) -> None:
    for positions in subsets(case.differentiable):
        point = case.point(positions)
        along = directions(case.rng(), point)
        outs, tangents = jvp(case.followed_function(positions), point, along)
        name = f"tangent along arguments {positions}"
        _require_values(case, outs)
        require_specs(tangents, outs, name)
        values = partial(_results_at, case, positions)
        expected, tolerance = differences(values, point, along)
        require_all_near(tangents, expected, tolerance, f"{name}, against differences")
        real = all(np.asarray(x).dtype == np.float64 for x in (*point, *outs))
        exact = complex_step(case, positions, along) if real else None
        # If a function is not analytic, the complex step is far off, not a little.
        if exact is not None and _are_close(exact, expected):
            require_all_near(tangents, exact, 1e-10, f"{name}, against a complex step")


def _results_at(case: Case, positions: Sequence[int], *point: Value) -> list[Raw]:
    return case.results_at(positions, point)


def _are_close(first: Sequence[Raw], second: Sequence[Raw]) -> bool:
    return all(np.allclose(a, b, 1e-4, 1e-4) for a, b in zip(first, second, strict=True))


def _require_values(case: Case, outs: Sequence[Value]) -> None:
    values = case.values()
    for out, k in zip(outs, case.followed, strict=True):
        require_bits(out, values[k], "the value that comes with the derivative")


def _reverse(case: Case) -> None:
    for positions in subsets(case.differentiable):
        point = case.point(positions)
        rng = case.rng()
        along = directions(rng, point)
        f = case.followed_function(positions)
        tangents = jvp(f, point, along)[1]
        outs, pullback = vjp(f, *point)
        _require_values(case, outs)
        cts = tuple(direction(rng, out) for out in outs)
        pulled = pullback(cts)
        require_specs(pulled, point, f"cotangents of arguments {positions}")
        tolerance = ROUNDING[coarsest([*point, *outs])]
        name = f"cotangents of arguments {positions} times tangents"
        require_near(inner_all(pulled, along), inner_all(cts, tangents), tolerance, name)


def _one_result_alone(case: Case) -> None:
    """Pull back the cotangent of one result at a time; the others have no cotangent."""
    point, rng = case.point(case.differentiable), case.rng()
    along = directions(rng, point)
    f = case.followed_function(case.differentiable)
    for place, k in enumerate(case.followed):
        alone = partial(_chosen, f, place)
        out, tangent = jvp(alone, point, along)
        ct = direction(rng, out)
        pulled = vjp(alone, *point)[1](ct)
        tolerance = ROUNDING[coarsest([*point, out])]
        name = f"cotangents of only result {k}, times tangents"
        require_near(inner_all(pulled, along), inner(ct, tangent), tolerance, name)


def _chosen(f: Callable[..., Any], place: int, *point: Value) -> Value:
    return f(*point)[place]


def _linearized(case: Case) -> None:
    point = case.point(case.differentiable)
    along = directions(case.rng(), point)
    f = case.followed_function(case.differentiable)
    outs, push = linearize(f, *point)
    expected, tangents = jvp(f, point, along)
    for out, other in zip(outs, expected, strict=True):
        require_bits(out, other, "the value")
    require_all_near(push(*along), tangents, 1e-12, "the pushed tangent")


# The cotangent of a sum is smaller than its operand; the cotangent of a choice has gaps.
_FORMS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "sum": lambda y, axis, mask: summed(y, axis=axis),
        "sum that keeps its axis": lambda y, axis, mask: summed(y, axis=axis, keepdims=True),
        "several sums": lambda y, axis, mask: summed(y) + summed(y, axis=axis, keepdims=True) + y,
        "choice": lambda y, axis, mask: where(mask, y, 0),
        "choice of sums": lambda y, axis, mask: where(
            np.all(mask, axis=axis), summed(y, axis=axis), 0
        ),
        "sum and slice": lambda y, axis, mask: summed(y, axis=axis, keepdims=True) + y[:1],
    }
)


def _cotangents_of_every_form(case: Case) -> None:
    f, point = case.followed_function(case.differentiable), case.point(case.differentiable)
    pullback = vjp(f, *point)[1]
    for place, k in enumerate(case.followed):
        value, rng = case.values()[k], case.rng()
        if not value.ndim:
            continue
        mask = rng.uniform(size=value.shape) < 0.6
        tolerance = ROUNDING[coarsest([*point, value])]
        for axis in {0, value.ndim - 1}:
            for name, choose in _FORMS.items():
                form = partial(choose, axis=axis, mask=mask)
                out, of_form = vjp(form, value)
                u = direction(rng, out)
                pulled = vjp(lambda *x, form=form, place=place: form(f(*x)[place]), *point)[1](u)
                cts = [
                    np.zeros(x.shape, x.dtype) for x in (case.values()[j] for j in case.followed)
                ]
                cts[place] = of_form(u)[0]
                require_all_near(pulled, pullback(tuple(cts)), tolerance, f"cotangent of a {name}")


# ------------------------------------------------------------------------------ kinks


def _modes_agree_at_kinks(case: Case) -> None:
    if not is_elementwise(case.primitive):
        with suppress(DegenerateError):  # the operation says that it has no derivative
            _require_one_derivative(case)
        return
    # One element at a time: the product of a zero tangent and an infinite factor of another element
    # would be NaN.
    columns = np.broadcast_arrays(*case.sample.args)
    for element in zip(*[column.ravel() for column in columns], strict=True):
        _modes_agree_at_element(case.at(Sample(element, case.sample.params, smooth=False)))


def _modes_agree_at_element(single: Case) -> None:
    for k in single.differentiable:
        point = single.point((k,))
        f = single.function((k,))
        for unit in (1, 1j) if np.iscomplexobj(point[0]) else (1,):
            tangent = np.asarray(jvp(f, point, (unit,))[1])
            units = (1.0, 1j) if np.iscomplexobj(tangent) else (1.0,)
            pulled = [inner(vjp(f, *point)[1](ct)[0], unit) for ct in units]
            sides = [np.real(tangent), np.imag(tangent)] if len(pulled) == 2 else [tangent]
            at = ", ".join(map(str, single.args))
            require_all_near(pulled, sides, 1e-12, f"reverse mode in argument {k} of ({at})")


def _require_one_derivative(case: Case) -> None:
    for positions in subsets(case.differentiable):
        point = case.point(positions)
        rng = case.rng()
        along = directions(rng, point)
        f = case.followed_function(positions)
        tangents = jvp(f, point, along)[1]
        cts = tuple(direction(rng, tangent) for tangent in tangents)
        forward = inner_all(cts, tangents)
        reverse = inner_all(vjp(f, *point)[1](cts), along)
        name = f"reverse mode in arguments {positions}"
        require(
            np.isfinite(forward) == np.isfinite(reverse),
            f"{name}: {reverse}, and {forward} in forward mode",
        )
        if np.isfinite(forward):
            tolerance = ROUNDING[coarsest([*point, *tangents])]
            require_near(reverse, forward, tolerance, name)


# ------------------------------------------------------------------------------ second order


def _second_order(case: Case) -> None:
    positions = case.differentiable
    f = case.followed_function(positions)
    point = case.point(positions)
    rng = case.rng()
    v, w = directions(rng, point), directions(rng, point)
    values = case.values()
    u = tuple(direction(rng, values[k]) for k in case.followed)

    def gradient(*x: Value) -> Value:
        return vjp(f, *x)[1](u)

    def tangent(*x: Value) -> Value:
        return jvp(f, x, v)[1]

    expected, tolerance = differences(gradient, point, w)
    over_reverse = jvp(gradient, point, w)[1]
    require_all_near(over_reverse, expected, 10 * tolerance, "forward over reverse")
    rounding = 1e-8 if tolerance < 1e-5 else 1e-3
    twice = vjp(gradient, *point)[1](v)
    over_forward = vjp(tangent, *point)[1](u)
    require_all_near(over_forward, twice, rounding, "reverse over forward, and over reverse")
    both = inner_all(over_reverse, v)
    require_near(inner_all(twice, w), both, rounding, "reverse over reverse, and forward over it")
    forward_twice = jvp(tangent, point, w)[1]
    require_near(inner_all(u, forward_twice), both, rounding, "forward twice, and over reverse")


# ------------------------------------------------------------------------------ precisions


def _single_precision(case: Case) -> None:
    low = case.in_single_precision()
    positions = case.differentiable
    rng = case.rng()
    values = case.values()
    v = directions(rng, case.point(positions))
    u = tuple(direction(case.rng(), values[k]) for k in case.followed)
    point = low.point(positions)
    lower = tuple(np.asarray(t).astype(dtype_of(x)) for t, x in zip(v, point, strict=True))
    f = low.followed_function(positions)
    outs, pullback = vjp(f, *point)
    cts = pullback(tuple(ct.astype(out.dtype) for ct, out in zip(u, outs, strict=True)))
    require_specs(cts, point, "cotangents")
    tangents = jvp(f, point, lower)[1]
    require_specs(tangents, outs, "tangents")
    g, exact = case.followed_function(positions), case.point(positions)
    require_all_near(tangents, jvp(g, exact, v)[1], 2e-3, "forward mode")
    require_all_near(cts, vjp(g, *exact)[1](u), 2e-3, "reverse mode")


def _half_precision(case: Case) -> None:
    low = case.cast_to({np.dtype("d"): np.dtype("e")})
    if low.is_refused:
        return
    point = low.point(case.differentiable)
    f = low.followed_function(case.differentiable)
    outs, pullback = vjp(f, *point)
    cts = pullback(tuple(np.ones(out.shape, out.dtype) for out in outs))
    require_specs(cts, point, "cotangents")
    require_specs(jvp(f, point, point)[1], outs, "tangents")


def _has_pull(primitive: Primitive) -> bool:
    return primitive.form == "transposed"


def _pull_is_the_transpose(case: Case) -> None:
    differential: Any = case.primitive.differential
    args = [np.asarray(arg) for arg in case.args]
    if any(arg.dtype.kind not in "fc" for arg in args):
        return
    rng = case.rng()
    outs = case.evaluate(*case.args)
    listed = outs if isinstance(outs, tuple) else (outs,)
    tangents = directions(rng, args)
    drawn = tuple(direction(rng, x) if k in case.followed else None for k, x in enumerate(listed))
    ct = drawn if isinstance(outs, tuple) else drawn[0]
    params = case.sample.params
    pushed = differential.push(tangents, outs, *args, **params)
    pulled = differential.pull(ct, outs, *args, **params)
    pulled = [g() if callable(g) else g for g in pulled]
    sides = pushed if isinstance(outs, tuple) else (pushed,)
    sides = [t() if callable(t) else t for t in sides]
    pairs = [(drawn[k], sides[k]) for k in case.followed if sides[k] is not None]
    forward = sum(inner(seed, side) for seed, side in pairs)
    reverse = sum(inner(t, g) for t, g in zip(tangents, pulled, strict=True) if g is not None)
    require_near(reverse, forward, 1e-10, "pulled cotangents, times tangents")


_FACTORS: Final = "See differential: the factors, transposes or push and pull."

DERIVATIVES: Final = (
    Property(
        "forward mode",
        "Tangents agree with differences of `evaluate`.",
        _FACTORS,
        AtSamples(_forward, _is_smooth),
        is_differentiated,
    ),
    Property(
        "reverse mode",
        "Reverse mode is the adjoint of forward mode.",
        f"{_FACTORS} Neither a transpose nor a complex factor conjugates the cotangent.",
        AtSamples(_reverse, _is_smooth),
        is_differentiated,
    ),
    Property(
        "one result alone",
        "A result that nothing depends on adds nothing to the cotangents.",
        "See push and pull: a cotangent that is None is zero.",
        AtSamples(_one_result_alone, lambda case: case.is_smooth and case.has_several),
        lambda primitive: isinstance(primitive.differential, Linearized),
    ),
    Property(
        "pull",
        "`pull` is the transpose of `push`.",
        "See pull: factors are conjugated. Without it, push is transposed mechanically.",
        AtSamples(_pull_is_the_transpose, _is_smooth),
        _has_pull,
    ),
    Property(
        "linearize",
        "A linearized operation pushes tangents as forward mode does.",
        f"{_FACTORS} Rules are written in primitives, and must not read values.",
        AtSamples(_linearized, _is_smooth, by_kind=True),
        is_differentiated,
    ),
    Property(
        "cotangents of every form",
        "Cotangents that are sums, or have gaps, are pulled back like dense ones.",
        f"{_FACTORS} For a Linear, see structural, gaps and patch.",
        AtSamples(_cotangents_of_every_form, _is_smooth, by_kind=True),
        is_differentiated,
    ),
    Property(
        "modes at kinks",
        "Both modes have the same derivative where the operation is not smooth.",
        f"{_FACTORS} Also at infinities, zeros, ties and NaN.",
        AtSamples(_modes_agree_at_kinks, _is_kink),
        is_differentiated,
    ),
    Property(
        "second order",
        "Second derivatives agree in all sequences of modes, and with differences.",
        f"{_FACTORS} Rules are written with primitives, not with NumPy's functions.",
        AtSamples(_second_order, _is_moderate),
        is_differentiated,
    ),
    Property(
        "derivatives in single precision",
        "Derivatives in float32 have its dtype, and are close to derivatives in float64.",
        f"{_FACTORS} Constants in them are Python numbers, which give way to arrays' dtypes.",
        AtSamples(_single_precision, _is_moderate),
        lambda primitive: is_differentiated(primitive) and takes_other_dtypes(primitive),
    ),
    Property(
        "derivatives in half precision",
        "Derivatives in float16 have its dtype.",
        f"{_FACTORS} Constants in them are Python numbers, which give way to arrays' dtypes.",
        AtSamples(_half_precision, lambda case: case.number == 0 and case.is_smooth),
        lambda primitive: is_differentiated(primitive) and takes_other_dtypes(primitive),
    ),
)
