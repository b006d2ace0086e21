"""Riemann's and Hurwitz's zeta functions. SciPy evaluates them."""

from __future__ import annotations

from funcgrad._primitives.special_functions import zetas as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Tensor:
    """The sum of ``(n + q)**-x`` over n from 0 on: Hurwitz's zeta function, with q = 1 Riemann's.

    Parameters
    ----------
    x : array_like
        Above 1; without ``q`` any real number, by analytic continuation.
    q : array_like, optional
        Derivatives with respect to ``x`` are available for positive ``q``, to any order; without
        ``q`` and below 0 up to the second.

    Returns
    -------
    Tensor

    Notes
    -----
    Derivatives with respect to ``x`` are by Euler and Maclaurin's formula, term by term (DLMF
    25.11.7); that with respect to ``q`` is ``-x * zeta(x + 1, q)``.

    Examples
    --------
    >>> zeta(2.0)
    Tensor(1.64493406684823)
    >>> zeta(2.0, 2.0)
    Tensor(0.64493406684823)
    """
    return apply1(_p.riemann_zeta, x) if q is None else apply2(_p.zeta, x, q)


def zetac(x: ArrayLike, /) -> Tensor:
    """Riemann's zeta function less 1, with all digits where that is small.

    Examples
    --------
    >>> zetac(60.0)
    Tensor(8.67361738e-19)
    """
    return apply1(_p.zetac, x)
