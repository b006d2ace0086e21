"""Eigenvalues and singular values, with or without vectors; their gradients do not need vectors.

Besides the values they have two internal results ``told`` and ``count``, zeros, for the arguments
of ``weighted`` and ``slopes``.

>>> svdvals(np.array([[3.0, 0.0], [0.0, -2.0]]))
array([3., 2.])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import RAW, Value
from funcgrad._primitives import eigen, singular_values
from funcgrad._primitives.eigen import converged, hermitian_matrices
from funcgrad._primitives.failures import failing
from funcgrad._primitives.kinks import differences
from funcgrad._primitives.matrices import (
    Array,
    batch_matrices,
    hermitian_of,
    linalg_dtype,
    of_stacks,
    real_dtype,
)
from funcgrad._primitives.singular_values import matrices_of
from funcgrad._primitives.value_slopes import (
    by_vectors,
    directed,
    in_told_direction,
    slopes,
    taken,
    weighted,
)


def _evaluated(outs: tuple[Any, ...], values: Array, x: Array) -> Any:
    told = np.zeros(x.shape, linalg_dtype("svd", x.dtype))
    return *outs, told, np.zeros(x.shape[:-2], values.dtype)


def _specs(x: Spec) -> tuple[Spec, Spec, Spec]:
    dtype = linalg_dtype("svd", x.dtype)
    *lead, m, n = x.shape
    real = real_dtype(dtype)
    return Spec((*lead, min(m, n)), real), Spec(x.shape, dtype), Spec(tuple(lead), real)


def _how(params: Mapping[str, Hashable]) -> dict[str, Any]:
    return {"hermitian": "lower" in params, "lower": params.get("lower", True)}


def _slope(dx: Value, outs: tuple[Value, ...], x: Value, failed: str, **how: bool) -> Value:
    return slopes(x, *outs[-2:], directed(dx, **how), failed=failed, **how)


def _gradient(
    cts: tuple[Value, ...],
    values: Value,
    carriers: Sequence[Value],
    x: Value,
    failed: str,
    **how: bool,
) -> Value:
    """The cotangent of the matrix from the cotangents of the values and of ``told``."""
    g, told, count = cts
    g = values * 0 if g is None else g
    out = weighted(x, *carriers, g, least=told is None, failed=failed, **how)
    if told is not None:
        count = carriers[1] if count is None else count
        out = out + in_told_direction(x, told, g, count, failed=failed, **how)
    return taken(out, **how)


# ------------------------------------------------------------------------- values without vectors


def _push_values(
    tangents: tuple[Value, ...],
    outs: tuple[Value, ...],
    x: Value,
    failed: str = "raise",
    **params: Hashable,
) -> tuple[Value, ...]:
    return _slope(tangents[0], outs, x, failed, **_how(params)), None, None


def _pull_values(
    cts: tuple[Value, ...],
    outs: tuple[Value, ...],
    x: Value,
    failed: str = "raise",
    **params: Hashable,
) -> tuple[Value]:
    return (_gradient(cts, outs[0], outs[1:], x, failed, **_how(params)),)


def _values_alone(values: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate(x: Array, **params: Hashable) -> Any:
        out = values(x, **params)
        return _evaluated((out,), out, x)

    return evaluate


def _values_arrays(m: ModuleType, x: Array, lower: bool | None = None) -> tuple[Any, Any]:
    if lower is None:
        values = m.linalg.svd(x, compute_uv=False)
    else:
        values = m.linalg.eigvalsh(hermitian_of(m, x, lower))
    return _evaluated((values,), values, x), ~m.isfinite(values)


def _values_samples() -> Iterator[Sample]:
    for x in matrices_of(84):
        yield Sample((x,))
        if x.shape[-2:] in ((4, 2), (3, 2)):
            yield Sample((x + 1j * x[..., ::-1, :],))


def _hermitian_samples() -> Iterator[Sample]:
    for number, x in enumerate(hermitian_matrices(75)):
        yield Sample((x,), {"lower": number % 2 == 0})
        if number < 2:
            turned = x + 0.5j * (np.tri(x.shape[-1]) - np.tri(x.shape[-1]).T)
            yield Sample((turned,), {"lower": number % 2 == 1})
    yield Sample((np.eye(2),), {"lower": True}, smooth=False)


singular_values_told: Primitive = failing(
    Primitive(
        "svdvals",
        _values_alone(
            lambda x: converged("svdvals", lambda x: np.linalg.svd(x, compute_uv=False), x)
        ),
        lambda x, **_: _specs(x),
        Linearized(_push_values, _pull_values),
        batch_matrices,
        _values_samples,
        structure=of_stacks(2, arrays=_values_arrays),
        traits=OWNS,
        kinks=Kinks(lambda x, **_: (differences(svdvals(x)), least_singular_value(x))),
    )
)

eigenvalues_told: Primitive = failing(
    Primitive(
        "eigvalsh",
        _values_alone(
            lambda x, lower: converged(
                "eigvalsh", lambda x: np.linalg.eigvalsh(x, "L" if lower else "U"), x
            )
        ),
        lambda x, **_: _specs(x),
        Linearized(_push_values, _pull_values),
        batch_matrices,
        _hermitian_samples,
        structure=of_stacks(2, arrays=_values_arrays),
        traits=OWNS,
        kinks=Kinks(lambda x, lower, **_: differences(eigvalsh(x, lower=lower))),
    )
)


# ------------------------------------------------------------------------------------ with vectors


def _by_vectors(g: Array, outs: Sequence[Array], hermitian: bool, lower: bool) -> Any:
    """The results of ``weighted`` from given vectors, if no outer transformation traces them."""
    if hermitian:
        s, u = outs
        vh: Array = np.conj(np.swapaxes(u, -1, -2))
    else:
        u, s, vh = outs
        u, vh = u[..., : s.shape[-1]], vh[..., : s.shape[-1], :]
    return by_vectors(u, s, vh, g, not hermitian, hermitian)


def _with_told(base: Primitive, form: Callable[..., Any], at: int) -> Primitive:
    """A decomposition whose values (the result at a position) have derivatives without vectors.

    If vectors are used, its own rules apply.
    """
    rules: Any = base.differential

    def evaluate(x: Array, **params: Hashable) -> Any:
        outs = base.evaluate(x, **params)
        return _evaluated(outs, outs[at], x)

    def arrays(m: ModuleType, x: Array, **params: Hashable) -> tuple[Any, Any]:
        outs, flags = form(m, x, **params)
        return _evaluated(outs, outs[at], x), flags

    def resulting(x: Spec, **params: Hashable) -> tuple[Spec, ...]:
        specs: Any = base.result(x, **params)
        return *specs, *_specs(x)[1:]

    def push(
        tangents: tuple[Value, ...],
        outs: tuple[Value, ...],
        x: Value,
        failed: str = "raise",
        **params: Hashable,
    ) -> tuple[Value, ...]:
        @cache
        def moved() -> tuple[Value, ...]:  # raises where vectors are not determined
            return rules.push(tangents, outs[:-2], x, failed=failed, **params)

        late: list[Any] = [lambda k=k: moved()[k] for k in range(len(outs) - 2)]
        late[at] = _slope(tangents[0], outs, x, failed, **_how(params))
        return *late, None, None

    def pull(
        cts: tuple[Value, ...],
        outs: tuple[Value, ...],
        x: Value,
        failed: str = "raise",
        **params: Hashable,
    ) -> tuple[Value]:
        g, (told, count), how = cts[at], cts[-2:], _how(params)
        is_of_values = all(ct is None for k, ct in enumerate(cts[:-2]) if k != at)
        if is_of_values and told is None and {type(x), type(g)} <= RAW:
            return (taken(_by_vectors(g, outs[:-2], **how), **how),)
        if is_of_values:
            return (_gradient((g, told, count), outs[at], outs[-2:], x, failed, **how),)
        (pulled,) = rules.pull(cts[:-2], outs[:-2], x, failed=failed, **params)
        if told is not None:
            count = outs[-1] if count is None else count
            more = in_told_direction(
                x, told, outs[at] * 0 if g is None else g, count, failed=failed, **how
            )
            pulled = pulled + taken(more, **how)
        return (pulled,)

    return replace(
        base,
        name=base.name.removesuffix("_factors"),
        evaluate=evaluate,
        result=resulting,
        structure=of_stacks(2, arrays=arrays),
        differential=Linearized(push, pull),
    )


svd_told: Primitive = _with_told(singular_values.svd, singular_values.svd_arrays, 1)
eigh_told: Primitive = _with_told(eigen.eigh, eigen.eigh_arrays, 0)


def svd(x: Value, full_matrices: bool, failed: str = "raise") -> tuple[Value, ...]:
    """U, the singular values in descending order, and V^H; full ones or the first columns."""
    u, s, vh, *_ = svd_told(x, full_matrices=full_matrices, failed=failed)
    return u, s, vh


def eigh(x: Value, lower: bool, failed: str = "raise") -> tuple[Value, ...]:
    """The eigenvalues, in order, and the eigenvectors of Hermitian matrices."""
    w, v, *_ = eigh_told(x, lower=lower, failed=failed)
    return w, v


def svdvals(x: Value, failed: str = "raise") -> Value:
    """Singular values in descending order; those that are zero have the least subgradient, 0."""
    return singular_values_told(x, failed=failed)[0]


def eigvalsh(x: Value, lower: bool, failed: str = "raise") -> Value:
    """The eigenvalues in order; any choice of eigenvectors gives their derivatives."""
    return eigenvalues_told(x, lower=lower, failed=failed)[0]


def least_singular_value(x: Value, **_: Hashable) -> Value:
    """The distance of matrices from matrices of lower rank, on an axis of size 1."""
    return svdvals(x)[..., -1:]
