"""The operations of programs, which are discovered, not listed.

*Primitives* have samples, which are valid arguments. *Functions* of public namespaces have
parameters whose names determine their arguments (``NAMED``); other arguments are tried, and dropped
if NumPy's rules forbid them. *Motifs* are expressions that the passes rewrite: texts with places
for values of one kind, with many nested and shared operands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.nn
import funcgrad.numpy as fnp
import funcgrad.scipy.fft
import funcgrad.scipy.linalg
import funcgrad.scipy.special
from funcgrad._core.primitive import Primitive
from funcgrad._primitives.sparse_matrices import SparseLayout
from tests.conformance import every_primitive, strangers

PRIMITIVES: Final[Mapping[str, Primitive]] = MappingProxyType(
    {each.name: each for each in (*every_primitive(), *strangers())}
)
"""Those of the package, and those that are declared outside of it."""

ARRAYS: Final = frozenset(
    "x x1 x2 a b arr m v ary y A z val values a1 a2 array condition fill_value prepend append"
    " to_end to_begin weights bins initial f p A c element test_elements logits".split()
)
"""Parameters that are arrays."""

MANY: Final = frozenset("arrays tup xi operands arrs".split())
"""Parameters that are several arrays."""

Draw = Callable[[np.random.Generator, int], Any]

NAMED: Final[Mapping[str, Draw]] = MappingProxyType(
    {
        "axis": lambda rng, ndim: int(rng.integers(-ndim, ndim)) if ndim else None,
        "axis1": lambda rng, ndim: 0,
        "axis2": lambda rng, ndim: int(rng.choice([1, -1])),
        "keepdims": lambda rng, ndim: bool(rng.integers(2)),
        "shape": lambda rng, ndim: [(-1,), (1, -1), (-1, 1), (2, 3), (3,)][rng.integers(5)],
        "new_shape": lambda rng, ndim: [(4,), (2, 2), (3, 1)][rng.integers(3)],
        "axes": lambda rng, ndim: tuple(int(k) for k in rng.permutation(ndim)),
        "k": lambda rng, ndim: int(rng.integers(-1, 3)),
        "n": lambda rng, ndim: int(rng.integers(1, 3)),
        "N": lambda rng, ndim: int(rng.integers(1, 4)),
        "offset": lambda rng, ndim: int(rng.integers(-1, 2)),
        "decimals": lambda rng, ndim: int(rng.integers(0, 3)),
        "indices_or_sections": lambda rng, ndim: [1, 2, 3, [1]][rng.integers(4)],
        "repeats": lambda rng, ndim: int(rng.integers(1, 3)),
        "reps": lambda rng, ndim: [2, (2, 1), (1, 2)][rng.integers(3)],
        "shift": lambda rng, ndim: int(rng.integers(-2, 3)),
        "kth": lambda rng, ndim: 0,
        "q": lambda rng, ndim: [0.5, 0.3, [0.25, 0.5]][rng.integers(3)],
        "indices": lambda rng, ndim: [0, [0, 1], [[1, 0]], -1][rng.integers(4)],
        "obj": lambda rng, ndim: int(rng.integers(0, 2)),
        "source": lambda rng, ndim: 0,
        "destination": lambda rng, ndim: -1,
        "pad_width": lambda rng, ndim: [1, (0, 1), (2, 0)][rng.integers(3)],
        "ddof": lambda rng, ndim: int(rng.integers(0, 2)),
        "num": lambda rng, ndim: int(rng.integers(2, 5)),
        "start": lambda rng, ndim: 0.5,
        "stop": lambda rng, ndim: 2.5,
        "descending": lambda rng, ndim: bool(rng.integers(2)),
        "increasing": lambda rng, ndim: bool(rng.integers(2)),
        "include_initial": lambda rng, ndim: True,
        "a_min": lambda rng, ndim: [-0.5, None][rng.integers(2)],
        "a_max": lambda rng, ndim: 0.75,
        "rowvar": lambda rng, ndim: bool(rng.integers(2)),
        "mode": lambda rng, ndim: ["constant", "edge", "reflect", "wrap"][rng.integers(4)],
        "nan": lambda rng, ndim: 0.5,
        "ord": lambda rng, ndim: [None, 1, 2, 3, "fro", np.inf][rng.integers(6)],
        "norm": lambda rng, ndim: ["ortho", "forward", "backward"][rng.integers(3)],
        "s": lambda rng, ndim: [(2,), (3, 2)][rng.integers(2)],
        "type": lambda rng, ndim: int(rng.integers(1, 5)),
        "UPLO": lambda rng, ndim: str(rng.choice(["L", "U"])),
        "hermitian": lambda rng, ndim: True,
        "lower": lambda rng, ndim: bool(rng.integers(2)),
        "trans": lambda rng, ndim: int(rng.integers(3)),
        "d": lambda rng, ndim: int(rng.integers(1, 3)),
        "window": lambda rng, ndim: int(rng.integers(1, 3)),
        "output_size": lambda rng, ndim: int(rng.integers(1, 3)),
        "dx": lambda rng, ndim: 0.5,
    }
)
"""What may stand for other parameters, given the number of axes of the first array."""

# Shapes or dtypes of results depend on numbers, their phases are nobody's, nothing in them is an
# array, or the texts of ``families`` have what their names do not tell.
_LEFT_OUT: Final = frozenset(
    """nonzero argwhere flatnonzero unique unique_all unique_counts unique_inverse unique_values
    extract compress piecewise fromfunction finfo iinfo can_cast
    isdtype promote_types result_type ix_ indices at empty empty_like arange array_equal
    array_equiv allclose iscomplexobj isrealobj ndim size shape select block astype lexsort
    ravel_multi_index unravel_index put_along_axis take_along_axis diag_indices eye identity tri
    tril_indices triu_indices ones zeros geomspace logspace bool_ einsum full digitize
    polymul polydiv roots trim_zeros union1d intersect1d setdiff1d setxor1d bincount histogram
    histogram2d histogramdd histogram_bin_edges eig eigvals logm sqrtm
    dynamic_slice dynamic_update_slice eigh svd""".split()
)

_NAMESPACES: Final = MappingProxyType(
    {
        "fnp": fnp,
        "fnp.linalg": fnp.linalg,
        "fnp.fft": fnp.fft,
        "fg.nn": funcgrad.nn,
        "fg.scipy.fft": funcgrad.scipy.fft,
        "fg.scipy.linalg": funcgrad.scipy.linalg,
        "fg.scipy.special": funcgrad.scipy.special,
    }
)


def every_function() -> dict[str, inspect.Signature]:
    """The public functions that take arrays, as programs call them, with their signatures."""
    found = {}
    for place, namespace in _NAMESPACES.items():
        for name in namespace.__all__:
            value = getattr(namespace, name)
            if not callable(value) or inspect.isclass(value) or name in _LEFT_OUT:
                continue
            signature = inspect.signature(value)
            if any(each in ARRAYS | MANY for each in signature.parameters):
                found[f"{place}.{name}"] = signature
    return found


def parameter_text(value: Any) -> str:
    """A static parameter as Python text."""
    if isinstance(value, np.dtype):
        return f"np.dtype('{value}')"
    if isinstance(value, SparseLayout):
        return repr(value)
    if isinstance(value, tuple):
        inside = ", ".join([parameter_text(each) for each in value])
        return f"({inside},)" if value else "()"
    return repr(value).replace("nan", "np.nan").replace("inf", "np.inf")


LOOKS: Final = (
    "{0} * float(fg.stop_gradient(total({1})))",
    "{0} + int(bool(fnp.sum({1}) > 0.3))",
    "{0} if bool(fnp.sum({1}) > 0.25) else {0} * 2.0",
    "fnp.stack([{0} * k for k in range(1 + int(bool(total({1}) > 0.4)))])[-1]",
)
"""Motifs that look at numbers: what Python does with them is seen by no transformation."""

MOTIFS: Final = (
    "{0} * 2.0",
    "0.5 * {0}",
    "-{0}",
    "{0} / 4",
    "{0} / 3.0",
    "{0} + {0}",
    "{0} + {1}",
    "{0} - {1}",
    "{0} * {1}",
    "{0} + -{1}",
    "-{0} * -{1}",
    "2.0 * (3.0 * {0})",
    "3.0 * {0} + 3.0 * {1}",
    "{0} / (1.5 + {1} * {1})",
    "{0} @ {1}",
    "{0} @ {1}.T",
    "{0}.T @ {1}",
    "({1} @ {0}) + (({0} @ {0}) @ {0})",
    "{0} @ {1} + {2} @ {1}",
    "{0} @ {1} + {0} @ {2}",
    "{0} @ ({1} @ {0})",
    "fnp.tanh({0} @ {1} + {2})",
    "{0}[0] @ {1} + {0}[-1] @ {1}",
    "fnp.stack([{0} @ {1}, {2} @ {1}, {1} @ {1}])",
    "fnp.sum({0} @ {1}, axis=0)",
    "fnp.sum({0}[:, None, :] * {1}[None, :, :], axis=-1)",
    "fnp.einsum('ij,jk->ik', {0}, {1})",
    "fnp.einsum('ij,ij->i', {0}, {1})",
    "fnp.einsum('ij,kj->ki', {0}, {1})",
    "fnp.eye(3) @ {0}",
    "{0}.T",
    "{0}.T.T",
    "{0}[::-1]",
    "{0}[1:]",
    "{0}[..., None]",
    "{0}[..., 0]",
    "{0}[:, ::2]",
    "{0}[0]",
    "{0}[-1]",
    "{0}.reshape(-1)",
    "fnp.broadcast_to({0}, (2, *{0}.shape))",
    "fnp.sum({0}, axis=-1, keepdims=True)",
    "fnp.sum({0}, axis=0)",
    "fnp.mean({0}, axis=-1)",
    "fnp.max({0}, axis=-1, keepdims=True)",
    "{0} - fnp.max({0}, axis=-1, keepdims=True)",
    "fnp.exp({0} - fnp.max({0}, axis=-1, keepdims=True))",
    "fnp.where({0} > 0, {0}, {1})",
    "fnp.where({0} > {1}, {0}, 0.0)",
    "fnp.where(fnp.logical_not({0} > 0), {1}, {0})",
    "fnp.where({0} > 0, fnp.where({0} > 0, {1}, 1.0), 2.0 * {0})",
    "fnp.where({0} > 0, fnp.log(fnp.where({0} > 0, {0}, 1.0)), 0.0)",
    "({0} > 0) * {1}",
    "{0} * fnp.astype({1} > 0, {0}.dtype)",
    "{0}.astype(np.float32)",
    "{0}.astype(np.float64)",
    "{0}.astype(np.float32).astype(np.float64)",
    "(50 * {0}).astype(np.uint8).astype({0}.dtype)",
    "(1 / {0}).astype(np.int16).astype({0}.dtype)",
    "{0} ** 2",
    "{0} ** 3",
    "{0} ** -1",
    "(1.5 + {0} * {0}) ** 0.5",
    "{0} * {0} * {0}",
    "fnp.square(-{0})",
    "abs({0})",
    "{0} % 0.7",
    "{0} // 0.7",
    "{0}.at[0].set({1}[0])",
    "{0}.at[..., 0].add({1}[..., 0])",
    "{0}.at[[0, 0]].add(0.5)",
    "{0}.at[0].multiply(2.0)",
    "{0}[[0, 0, -1]]",
    "fnp.concatenate([{0}, {1}])",
    "fnp.stack([{0}, {1}])",
    "fnp.sin({0})",
    "fnp.tanh({0})",
    "fnp.exp(fnp.tanh({0}))",
    "np.sin({0})",
    "np.sum({0}, axis=-1)",
    "np.maximum({0}, {1})",
    "np.linalg.trace({0})",
    "fg.stop_gradient({0}) * {1}",
    "fg.probe({0}, 'p')",
    "{0}.conj() * {1}",
    "{0}.real",
    "{0}.imag",
    "{0} * 1j",
    "{0} * True",
    "{0} + 1",
    "{0} - 0.0",
    "1.0 * {0} / 1.0",
    "fnp.zeros({0}.shape) + {0}",
    "fnp.arange({0}.size).reshape({0}.shape) * {0}",
    "fnp.cumsum({0}, axis=0)[::-1]",
    "fg.nn.logsumexp({0}, axis=-1)",
    "fg.nn.softmax({0}, axis=-1)",
    "fnp.sort({0})[..., -1]",
)
"""Texts in the places of which values of one shape or of shapes that broadcast are tried."""
