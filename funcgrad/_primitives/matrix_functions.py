"""Exponentials, logarithms and square roots of matrices, which SciPy computes.

The derivative of a matrix function in a direction E is the block above the diagonal of ``f([[A, E],
[0, A]])`` (Mathias, "A chain rule for matrix functions and applications", 1996). The second
derivative is found in the same way, so all orders are right wherever the function exists, even for
equal eigenvalues or without a basis of eigenvectors. The first derivative of the exponential has a
faster method (Al-Mohy and Higham, "Computing the Fréchet derivative of the matrix exponential",
2009). The derivative of a square root X solves ``X dX + dX X = dA``.

>>> expm(np.array([[0.0, 1.0], [0.0, 0.0]]))
array([[1., 1.],
       [0., 1.]])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.eigen_general import eigvals
from funcgrad._primitives.failures import failing
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.kinks import distance_to_cut, is_complex
from funcgrad._primitives.matrices import (
    MATRICES,
    Array,
    adjoint,
    batch_matrices,
    check_finite,
    linalg_dtype,
    of_stacks,
    position_of,
    stacks,
)
from funcgrad._primitives.matrix_equations import one_by_one, scipy_linalg, sylvester
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import view
from funcgrad.errors import MatrixError


def _blocks(x: Value, above: Value | None) -> Value:
    """[[x, above], [0, x]]."""
    axis = len(shape_of(x)) - 1
    zeros = np.zeros(shape_of(x), dtype_of(x))
    top = concatenate(x, zeros if above is None else above, axis=axis)
    return concatenate(top, concatenate(zeros, x, axis=axis), axis=axis - 1)


def _above(x: Value) -> Value:
    n = shape_of(x)[-1] // 2
    return view(x, key=Key((..., slice(n), slice(n, None))))


def _second(along: Primitive, x: Value, first: Value, second: Value, failed: str) -> Value:
    """The second derivative in two directions: symmetric, and here known to be linear in one."""
    return _above(along(_blocks(x, second), _blocks(first, None), failed=failed))


def _from_cut(x: Value, *_: Value, **__: Hashable) -> Value:
    """The distances of eigenvalues from the cut of the logarithm and of the square root."""
    return distance_to_cut(eigvals(x)) if is_complex(x) else ()


def _inside(x: Value, *_: Value, **__: Hashable) -> Value:
    """The domain: real matrices without negative eigenvalues, whose result is real."""
    if is_complex(x):
        return ()
    values = eigvals(x)
    on_axis = values.imag == 0
    return where(on_axis, values.real, distance_to_cut(where(on_axis, 1.0, values)))


_AT_CUT: Final = Kinks(_from_cut, _inside)


def _along(
    name: str, evaluate: Callable[[Array, Array], Any], kinks: Kinks | None = None
) -> Primitive:
    """The derivative of a function of a matrix in a direction."""

    def computed(x: Array, e: Array) -> Any:
        dtype = linalg_dtype(name, x.dtype, e.dtype)
        return one_by_one(evaluate, np.asarray(x, dtype), np.asarray(e, dtype))

    def push(
        tangents: tuple[Value, ...], out: Value, x: Value, e: Value, failed: str = "raise"
    ) -> Value:
        dx, de = tangents
        change = None if de is None else along(x, de, failed=failed)
        if dx is None:
            return change
        moved = _second(along, x, dx, e, failed)
        return moved if change is None else change + moved

    def pull(ct: Value, out: Value, x: Value, e: Value, failed: str = "raise") -> tuple[Any, Value]:
        back = adjoint(x)
        y = along(back, ct, failed=failed)
        return (lambda: _second(along, back, ct, adjoint(e), failed)), y

    def samples() -> Iterator[Sample]:
        for number, (x, e) in enumerate(zip(_matrices(141), _matrices(142), strict=True)):
            yield Sample((x, e), smooth=name == "expm" or number < 2)

    along: Primitive = failing(
        Primitive(
            f"{name}_along",
            computed,
            lambda x, e: Spec(x.shape, linalg_dtype(name, x.dtype, e.dtype)),
            Linearized(push, pull, linear_in=(1,)),
            batch_matrices,
            samples,
            structure=of_stacks(2, 2),
            traits=OWNS,
            kinks=kinks,
        )
    )
    return along


def _matrices(seed: int) -> Iterator[Any]:
    """With eigenvalues to the right of 0, where logarithms and roots are."""
    for x in stacks((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2), seed=seed):
        yield x * 0.5 + 2 * np.eye(x.shape[-1])
    yield np.array([[2.0, 1.0], [0.0, 2.0]])  # without a basis of eigenvectors
    yield 2 * np.eye(3)


def _samples() -> Iterator[Sample]:
    for x in _matrices(143):
        yield Sample((x,))


def _function(name: str, evaluate: Callable[[Array], Any], along: Primitive) -> Primitive:
    def computed(x: Array) -> Any:
        return one_by_one(evaluate, np.asarray(x, linalg_dtype(name, x.dtype)))

    return failing(
        Primitive(
            name,
            computed,
            lambda x: Spec(x.shape, linalg_dtype(name, x.dtype)),
            Linearized(
                lambda tangents, out, x, failed="raise": along(x, tangents[0], failed=failed),
                lambda ct, out, x, failed="raise": (along(adjoint(x), ct, failed=failed),),
            ),
            batch_matrices,
            _samples,
            structure=MATRICES,
            traits=OWNS,
            kinks=along.kinks,
        )
    )


# ---------------------------------------------------------------------------------- exponentials


def _expm_along(x: Array, e: Array) -> Any:
    if not np.all(np.isfinite(x)) or not np.all(np.isfinite(e)):
        return np.full_like(x, np.nan)
    return scipy_linalg("expm").expm_frechet(x, e, compute_expm=False)


expm_along: Primitive = _along("expm", _expm_along)
expm: Primitive = _function("expm", lambda x: scipy_linalg("expm").expm(x), expm_along)


# ------------------------------------------------------------------------------------ logarithms


def _real_if_real(x: Array) -> Array:
    """Convert complex arrays with zero imaginary parts to real: SciPy's result is then real."""
    return x if np.any(x.imag) else np.ascontiguousarray(x.real)


def _real_of_real(name: str, image: Array, dtype: np.dtype[Any], bound: float) -> Array:
    """The function of a matrix as real numbers, where the matrix is of them.

    Raises
    ------
    MatrixError
        Imaginary parts are more than rounding makes.
    """
    if dtype.kind == "c" or image.dtype.kind != "c":
        return image
    if np.max(np.abs(image.imag), initial=0) > bound:
        raise MatrixError(
            f"{name}: the matrix has a negative eigenvalue, so the result is not real."
            " Pass dtype=complex for complex results."
        )
    return np.ascontiguousarray(image.real)


_MODERATE: Final = 256
"""The exponents of two for which SciPy's logarithm keeps all digits."""


def _logm(x: Array) -> Any:
    logarithm = _logarithm(x)
    return _real_of_real("logm", logarithm, x.dtype, _bound_of_imaginary_parts(logarithm, x))


def _bound_of_imaginary_parts(logarithm: Array, x: Array) -> float:
    """A negative eigenvalue's is pi, which is some share of the logarithm of any number."""
    share: float = float(np.finfo(x.dtype).eps) ** 0.5
    return share * float(np.max(np.abs(logarithm), initial=1))


def _logarithm(x: Array) -> Any:
    if not np.all(np.isfinite(x)):
        raise MatrixError("logm: the matrix has infinities or NaN in it, and no logarithm.")
    if np.linalg.slogdet(x)[0] == 0:
        raise MatrixError("logm: the matrix is singular: it has no logarithm.")
    # Beyond some size SciPy's algorithm loses all digits; powers of two lose none.
    exponent = _exponent(x)
    far = exponent if abs(exponent) > _MODERATE else 0.0
    wide = _real_if_real(x) * np.float64(0.5**far)
    state = np.random.get_state()  # noqa: NPY002 - SciPy's estimate of an error draws from it
    try:
        with np.errstate(all="ignore"):  # SciPy judges its result by double precision
            logarithm = scipy_linalg("logm").logm(wide)
    except ValueError as error:  # numbers of too different sizes, as of a direction and a matrix
        raise MatrixError(
            f"logm: SciPy found no logarithm ({error}). Scale the matrix to a size near 1:"
            " logm(c * A) is logm(A) + log(c) * I."
        ) from None
    finally:
        np.random.set_state(state)  # noqa: NPY002 - a logarithm is no draw of the user's
    if far:
        logarithm = logarithm + far * np.log(2.0) * np.eye(len(x))
    return logarithm


def _logm_along(x: Array, e: Array) -> Any:
    """Both are scaled by powers of two to a size near 1, or digits would be lost."""
    n, e_exponent = len(x), _exponent(e)
    if not np.any(e):
        return np.zeros_like(e)
    x_exponent = _exponent(x)
    x, e = x * 0.5**x_exponent, e * 0.5**e_exponent
    blocks = _logarithm(np.block([[x, e], [np.zeros_like(x), x]]))
    first = blocks[:n, :n]
    _real_of_real("logm", first, x.dtype, _bound_of_imaginary_parts(first, x))
    above = blocks[:n, n:] * 2.0 ** (e_exponent - x_exponent)
    return above if x.dtype.kind == "c" else above.real


def _exponent(x: Array) -> Any:
    return np.frexp(np.max(np.abs(x), initial=0))[1].astype(float)


logm_along: Primitive = _along("logm", _logm_along, _AT_CUT)
logm: Primitive = _function("logm", _logm, logm_along)


# ---------------------------------------------------------------------------------- square roots


def _sqrtm(x: Array) -> Any:
    dtype = linalg_dtype("sqrtm", x.dtype)
    check_finite("sqrtm", x)
    root = scipy_linalg("sqrtm").sqrtm
    # The square of an imaginary part is a negative eigenvalue: perhaps a zero up to rounding.
    share = 10 * (x.shape[-1] * float(np.finfo(dtype).eps)) ** 0.5

    def real_of_real(x: Array) -> Array:
        image = root(_real_if_real(x))
        return _real_of_real("sqrtm", image, dtype, share * float(np.max(np.abs(image))))

    with np.errstate(all="ignore"):
        roots = one_by_one(real_of_real, np.asarray(x, dtype))
    failed = ~np.all(np.isfinite(roots), (-1, -2))
    if np.any(failed):
        raise MatrixError(f"sqrtm: the matrix{position_of(failed)} has no square root.")
    return roots


def _push_root(tangents: tuple[Value, ...], out: Value, x: Value, failed: str = "raise") -> Value:
    return sylvester(out, out, tangents[0], failed=failed)


def _pull_root(ct: Value, out: Value, x: Value, failed: str = "raise") -> tuple[Value]:
    back = adjoint(out)
    return (sylvester(back, back, ct, failed=failed),)


sqrtm: Primitive = failing(
    Primitive(
        "sqrtm",
        _sqrtm,
        lambda x: Spec(x.shape, linalg_dtype("sqrtm", x.dtype)),
        Linearized(_push_root, _pull_root),
        batch_matrices,
        _samples,
        structure=MATRICES,
        traits=OWNS,
        kinks=_AT_CUT,
    )
)
"""Square roots of matrices, real ones of real matrices, as logarithms are."""
