"""Special functions that ``jax.scipy.special`` computes accurately.

An operation declares the ufunc that evaluates it, see ``Elementwise``. The functions here are off
by at most 512 units in the last place of the greatest of the value, 1 for ``gammaln``, and the
value's change if the arguments change by their own size. Others of JAX's lose more digits: see
``README.md``.

>>> import pytest
>>> jax = pytest.importorskip("jax")
>>> one = Spec((1,), np.dtype(np.float32))
>>> special_function(XlaWriter(), "scipy.special:i0", [np.float32([0.0])], one)
Array([1.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.xla.xla_writer import UntranslatableError, XlaWriter
from funcgrad._core.specs import Spec

_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {name: name for name in "boxcox boxcox1p dawsn gamma gammaln i0 i0e i1 i1e".split()}
    | {"psi": "digamma", "_zeta": "zeta"}
)
"""JAX's names of SciPy's ufuncs."""


def _zeta_at_ends(jnp: Any, out: Array, s: Array, q: Array) -> Array:
    out = jnp.where((q <= 0) & (q == jnp.floor(q)) & (s > 1), np.inf, out)
    return jnp.where((q == np.inf) & (s > 1) & (s < np.inf), 0, out)


_MENDED: Final[Mapping[str, Callable[..., Array]]] = MappingProxyType(
    {
        "_zeta": _zeta_at_ends,
        "gammaln": lambda jnp, out, x: jnp.where(x == -np.inf, x, out),
        "psi": lambda jnp, out, x: jnp.where(x == 0, jnp.copysign(np.inf, -x), out),
    }
)
"""Restore SciPy's values at arguments where JAX's differ."""


def special_function(writer: XlaWriter, ufunc: str, operands: Sequence[Array], spec: Spec) -> Array:
    """The result of a ufunc of ``scipy.special``, named as in ``Elementwise``."""
    module, _, name = ufunc.partition(":")
    if name not in _NAMES or not module.startswith("scipy.special") or spec.dtype.kind != "f":
        raise UntranslatableError("only SciPy evaluates it")
    # JAX's gamma loses all digits in single precision.
    dtype = np.result_type(spec.dtype, np.float64 if name == "gamma" else np.float32)
    arrays = [writer.cast_to(x, dtype) for x in operands]
    out = getattr(writer.jax.scipy.special, _NAMES[name])(*arrays)
    if name in _MENDED:
        out = _MENDED[name](writer.jax.numpy, out, *arrays)
    return writer.expanded(out, spec.shape)
