"""Hypergeometric functions. SciPy evaluates them.

They are differentiable in their last argument, to any order. With respect to their parameters no
formula is accurate over the whole range: asked for, such a derivative is an error, with a remedy.
"""

from __future__ import annotations

from funcgrad._primitives.special_functions import hypergeometric as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, apply2


def hyp0f1(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The confluent hypergeometric limit function.

    Examples
    --------
    >>> hyp0f1(1.0, 0.5)
    Tensor(1.5660829297563506)
    """
    return apply2(_p.hyp0f1, v, z)


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Kummer's confluent hypergeometric function, also of complex ``x``.

    Examples
    --------
    >>> hyp1f1(1.0, 1.0, 0.5)
    Tensor(1.6487212707001282)
    """
    return apply(_p.hyp1f1, a, b, x)


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, z: ArrayLike, /) -> Tensor:
    """Gauss's hypergeometric function, also of complex ``z``.

    Examples
    --------
    >>> hyp2f1(1.0, 1.0, 2.0, 0.5)
    Tensor(1.3862943611198901)
    """
    return apply(_p.hyp2f1, a, b, c, z)


def hyperu(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Tricomi's confluent function U, for positive ``x``, in which it has derivatives.

    Examples
    --------
    >>> hyperu(1.0, 2.0, 4.0)
    Tensor(0.25)
    """
    return apply(_p.hyperu, a, b, x)
