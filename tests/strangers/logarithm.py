"""What triangular factors give: the logarithms of determinants of positive definite matrices."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend


def _push(tangents: tuple[Any, ...], outs: tuple[Any, Any], x: Any) -> tuple[Any, Any]:
    """The sign does not change, and d log det X is the trace of X^-1 dX."""
    inverse, dx = fnp.linalg.inv(fnp.asarray(x)), fnp.asarray(tangents[0])
    return None, fnp.sum(fnp.swapaxes(inverse, -1, -2) * dx, axis=(-2, -1))


def _samples() -> Iterator[extend.Sample]:
    rng = np.random.default_rng(1)
    for lead in ((), (2,), (0,)):
        x = rng.standard_normal((*lead, 3, 3))
        yield extend.Sample((x @ np.swapaxes(x, -1, -2) + np.eye(3),))


sign_and_logarithm = extend.Primitive(
    "sign_and_logarithm",
    lambda x: tuple(np.linalg.slogdet(x)),
    lambda x: (extend.Spec(x.shape[:-2], x.dtype), extend.Spec(x.shape[:-2], x.dtype)),
    extend.Linearized(_push),
    lambda primitive, size, args, batched, params: primitive(*args),  # of stacks as of matrices
    _samples,
    structure=extend.Factored(
        lambda: extend.Factorization(extend.Factors.ELIMINATION, extend.FromFactors.LOGARITHM),
        cores=(2,),
    ),
    traits=extend.OWNS,
)


def logarithm(x: Any) -> fg.Tensor:
    """The operation as users call it."""
    return extend.apply_several(sign_and_logarithm, x)[1]
