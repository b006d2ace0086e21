"""The functions that programs of practice call, of funcgrad and of JAX, under the same names.

JAX is no dependency: ``jax()`` loads it where it is installed.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.scipy import linalg, stats


def funcgrad() -> Any:
    """The functions of funcgrad."""
    transforms = "grad value_and_grad vmap jacfwd jacrev hessian jvp".split()
    loops = "scan while_loop fori_loop cond odeint".split()
    return SimpleNamespace(
        np=fnp,
        **{name: getattr(fg, name) for name in (*transforms, *loops)},
        relu=nn.relu,
        gelu=nn.gelu,
        sigmoid=nn.sigmoid,
        softplus=nn.softplus,
        softmax=nn.softmax,
        log_softmax=nn.log_softmax,
        logsumexp=nn.logsumexp,
        conv=lambda images, kernels: nn.conv(images, kernels, padding=1),
        tridiagonal=_tridiagonal,
        cholesky=lambda a: fnp.linalg.cholesky(a, failed="nan"),
        solve_triangular=lambda a, b, lower: linalg.solve_triangular(a, b, lower=lower),
        normal_cdf=stats.norm.cdf,
        segment_sum=nn.segment_sum,
        cut=_cut,
        normal=lambda seed, shape: fg.random.normal(fg.random.key(seed), shape),
    )


def _tridiagonal(lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
    """Solve with the matrix of three diagonals; the first of lower and the last of upper are 0."""
    bands = fnp.stack([fnp.roll(upper, 1), diagonal, fnp.roll(lower, -1)])
    return linalg.solve_banded((1, 1), bands, b)


def _cut(x: Any, start: Any, size: int, axis: int = 0) -> Any:
    """Return a slice of constant size from a place that may be traced, along an axis."""
    return x[(slice(None),) * axis + (slice(start, start + size),)]


def has_jax() -> bool:
    """Whether JAX is installed."""
    return find_spec("jax") is not None


def jax() -> Any:
    """The functions of JAX, with float64, one thread, and calls that compute before they return."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    library: Any = import_module("jax")
    library.config.update("jax_enable_x64", True)
    library.config.update("jax_cpu_enable_async_dispatch", False)
    import_module("jax.scipy")
    lax, nets = library.lax, library.nn
    names = "grad value_and_grad vmap jacfwd jacrev hessian jvp".split()
    loops = "scan while_loop fori_loop cond".split()
    return SimpleNamespace(
        np=library.numpy,
        **{name: getattr(library, name) for name in names},
        **{name: getattr(lax, name) for name in loops},
        odeint=import_module("jax.experimental.ode").odeint,
        relu=nets.relu,
        gelu=nets.gelu,
        sigmoid=nets.sigmoid,
        softplus=nets.softplus,
        softmax=nets.softmax,
        log_softmax=nets.log_softmax,
        logsumexp=nets.logsumexp,
        conv=lambda images, kernels: lax.conv(images, kernels, (1, 1), "SAME"),
        tridiagonal=lambda lower, diagonal, upper, b: lax.linalg.tridiagonal_solve(
            lower, diagonal, upper, b[:, None]
        )[:, 0],
        cholesky=library.numpy.linalg.cholesky,
        solve_triangular=lambda a, b, lower: library.scipy.linalg.solve_triangular(
            a, b, lower=lower
        ),
        normal_cdf=library.scipy.stats.norm.cdf,
        segment_sum=library.ops.segment_sum,
        cut=lax.dynamic_slice_in_dim,
        normal=lambda seed, shape: library.random.normal(library.random.key(seed), shape),
    )
