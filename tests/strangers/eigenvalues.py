"""Two results: the eigenvalues and the eigenvectors of symmetric matrices."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend


def _evaluate(x: Any) -> tuple[Any, Any]:
    return tuple(np.linalg.eigh((x + np.swapaxes(x, -1, -2)) / 2))  # type: ignore[return-value]


def _push(tangents: tuple[Any, ...], outs: tuple[Any, Any], x: Any) -> tuple[Any, Any]:
    """dw = diag(D) and dv = v (F * D), with D = v' dx v and F[i, j] = 1 / (w[j] - w[i]).

    Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
    differentiation", 2008, section 3.1.
    """
    w, v = map(fnp.asarray, outs)
    dx = fnp.asarray(tangents[0])
    turned = fnp.swapaxes(v, -1, -2) @ ((dx + fnp.swapaxes(dx, -1, -2)) * 0.5) @ v
    same = np.eye(w.shape[-1], dtype=bool)
    apart = fnp.where(same, 1.0, w[..., None, :] - w[..., :, None])
    return fnp.sum(fnp.where(same, turned, 0.0), axis=-1), v @ fnp.where(same, 0.0, turned / apart)


def _samples() -> Iterator[extend.Sample]:
    rng = np.random.default_rng(1)
    for lead in ((), (2,), (0,)):
        x = rng.standard_normal((*lead, 3, 3))
        yield extend.Sample((x + np.diag([0.0, 4.0, 9.0]),))
    yield extend.Sample((np.array([[2.0]]),))


eigh = extend.Primitive(
    "eigh",
    _evaluate,
    lambda x: (extend.Spec(x.shape[:-1], x.dtype), x),
    extend.Linearized(_push),
    lambda primitive, size, args, batched, params: primitive(*args),  # of stacks as of matrices
    _samples,
    structure=extend.Opaque(cores=(2,)),
    traits=extend.OWNS,
)


def eigenvalues(x: Any) -> tuple[fg.Tensor, ...]:
    """The operation as users call it."""
    return extend.apply_several(eigh, x)
