"""Uses of libraries over arrays of any kind, and the laws that each of them has to keep.

(This file does not import pytest, since ``jit`` would follow it, as it follows all Python code that
a function leads to.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import funcgrad as fg
from funcgrad._staging.jit import JitWarning
from funcgrad.testing import laws

X = np.random.default_rng(5).uniform(0.5, 2.0, (3, 4))

Use = Callable[[Any, Any], Any]
"""A use of a library's module on an array."""


def _packed(m: Any, x: Any) -> Any:
    packed, shapes = m.pack([x, x[:, 0]], "a *")
    first, second = m.unpack(packed, shapes, "a *")
    return first * second[:, None]


def _expression(m: Any, x: Any) -> Any:
    shapes = ((3, 4), (3, 4))
    return m.contract_expression("ij,kj,kl->il", X, *shapes, constants=[0])(x, x)


def _parsed(m: Any, x: Any) -> Any:
    return x * m.parse_shape(x, "a b")["b"]


EINOPS = {
    "rearrange": lambda m, x: m.rearrange(x, "a (b c) -> c (b a)", b=2),
    "reduce by mean": lambda m, x: m.reduce(x, "a (b c) -> a b", "mean", c=2),
    "reduce by max": lambda m, x: m.reduce(x, "a b -> b", "max"),
    "repeat": lambda m, x: m.repeat(x, "a b -> a r b", r=2),
    "pack": _packed,
    "stack of a list": lambda m, x: m.rearrange([x, x * x], "n a b -> a (n b)"),
}
LABELLED = {
    "sum": lambda m, x: m.sum("r"),
    "std": lambda m, x: m.std("c"),
    "difference": lambda m, x: (m - m.mean("c")) ** 2,
    "where": lambda m, x: m.where(m > 1.0, 0.0),
    "functions of NumPy": lambda m, x: np.exp(m.transpose("c", "r")),
    "selection": lambda m, x: m.sel(r=20).isel(c=slice(2)) * m.isel(c=[0, 2]),
    "matrix product": lambda m, x: m.dot(m, dim="c"),
    "weights": lambda m, x: m.weighted(m.r).mean(),
    "windows": lambda m, x: m.rolling(c=2).mean().isel(c=slice(1, None)),
    "groups": lambda m, x: m.groupby("r").sum(),
    "median": lambda m, x: m.median("c"),
    "slopes": lambda m, x: m.differentiate("r"),
}


def _labelled(use: Use) -> Use:
    """A use of an array with names and coordinates."""

    def used(xarray: Any, x: Any) -> Any:
        named = xarray.DataArray(x, dims=("r", "c"), coords={"r": [10.0, 20.0, 30.0]})
        return use(named, x).data

    return used


LIBRARIES: dict[str, dict[str, Use]] = {
    "einops.array_api": EINOPS,
    "einops": {
        **EINOPS,
        "parse_shape": _parsed,
        "einsum": lambda m, x: m.einsum(x, x, "i j, k j -> i k"),
    },
    "opt_einsum": {
        "contract": lambda m, x: m.contract("ij,kj,kl->il", x, x, x),
        "contract with a constant": _expression,
    },
    "array_api_compat": {
        "array_namespace": lambda m, x: m.array_namespace(x).tanh(x) * m.size(x),
        "to_device": lambda m, x: m.to_device(x, m.device(x)) * float(m.is_array_api_obj(x)),
    },
    "array_api_extra": {
        "atleast_nd": lambda m, x: m.atleast_nd(x, ndim=3) ** 2,
        "kron": lambda m, x: m.kron(x, x),
        "cov": lambda m, x: m.cov(x),
        "sinc": lambda m, x: m.sinc(x),
    },
    "xarray": {name: _labelled(use) for name, use in LABELLED.items()},
}


def check_every_mode(module: Any, use: Use, stages: bool) -> None:
    """Check that tensors and tracers have the results of arrays, and numerical derivatives."""

    def f(x: Any) -> Any:
        return use(module, x)

    result = f(fg.tensor(X))
    assert isinstance(result, fg.Tensor)
    np.testing.assert_allclose(result, np.asarray(use(module, X)), rtol=1e-12)
    fg.testing.check_grads(f, (X,), order=1)
    laws.vmap_is_loop(f, (X,))
    if stages:
        with warnings.catch_warnings():  # libraries that look for Dask lead to all of its modules
            warnings.simplefilter("ignore", JitWarning)
            laws.jit_is_eager(f, (X,))
