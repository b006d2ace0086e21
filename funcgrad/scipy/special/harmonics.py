"""Spherical harmonics. SciPy evaluates them."""

from __future__ import annotations

from funcgrad._primitives.special_functions import harmonics as _p
from funcgrad.errors import MissingOptionError
from funcgrad.numpy.options import integer
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply


def sph_harm_y(
    n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, *, diff_n: int = 0
) -> Tensor:
    """The spherical harmonic of degree ``n`` and order ``m``.

    Parameters
    ----------
    n, m : array_like of int
        ``n`` is 0 or more; for ``m`` beyond it the result is 0.
    theta : array_like
        The polar angle, from 0 to pi. Beyond it values are SciPy's, with powers of
        ``abs(sin(theta))``. Derivatives are finite at the poles; of odd orders, which have a kink
        there, they are those of angles within.
    phi : array_like
        The azimuthal angle.
    diff_n : int
        0: derivatives are what ``fg.jvp`` and ``fg.jacfwd`` are for.

    Returns
    -------
    Tensor
        Complex.

    Raises
    ------
    MissingOptionError
        SciPy's derivatives are asked for.

    Examples
    --------
    >>> sph_harm_y(0, 0, 0.5, 0.5)
    Tensor((0.28209479177387814+0j))
    """
    if integer(diff_n, "sph_harm_y", "diff_n") != 0:
        raise MissingOptionError(
            f"sph_harm_y: diff_n={diff_n!r} is not available. Differentiate: fg.jacfwd(lambda t, p:"
            " sph_harm_y(n, m, t, p), argnums=(0, 1))."
        )
    return apply(_p.sph_harm_y, n, m, theta, phi)
