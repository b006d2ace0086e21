"""Strategies for matrices with a property: definite, orthogonal, of low rank, clustered spectra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from funcgrad.errors import ArgumentError
from funcgrad.numpy.options import integer, pair, real_number
from funcgrad.tensor.tensor import tensor
from funcgrad.testing.strategies.arrays import Strategy, dtype_for, hypothesis_for, lattice

Array = np.ndarray[Any, Any]


def orthogonal(n: int, dtype: DTypeLike = np.float64) -> Strategy:
    """Draw orthogonal (for complex dtypes unitary) matrices; the simplest is the identity.

    Parameters
    ----------
    n : int
    dtype : dtype

    Returns
    -------
    Strategy

    Raises
    ------
    ArgumentError
        ``n`` is less than 1.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(orthogonal(2), lambda q: True)
    Tensor([[1., 0.],
            [0., 1.]])
    """
    size, kind = _size("strategies.orthogonal", n), dtype_for("strategies.orthogonal", dtype)
    return _seeded("strategies.orthogonal", lambda seed: _rotation(seed, size, kind))


def spd(n: int, condition: float = 1e6, dtype: DTypeLike = np.float64) -> Strategy:
    """Draw symmetric (Hermitian) positive definite matrices up to a condition number.

    The simplest is diagonal, with different eigenvalues from 0.5.

    Parameters
    ----------
    n : int
    condition : float
        The maximum condition number (ratio of two eigenvalues); for float32 choose 1e3.
    dtype : dtype

    Returns
    -------
    Strategy

    Raises
    ------
    ArgumentError
        ``n`` or ``condition`` is less than 1.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(spd(2), lambda a: True)
    Tensor([[0.5 , 0.  ],
            [0.  , 1.25]])
    """
    name = "strategies.spd"
    size, kind = _size(name, n), dtype_for(name, dtype)
    most = real_number(condition, name, "condition")
    if not 1 <= most < np.inf:
        raise ArgumentError(f"{name}: condition has to be a finite number >= 1, got {most:g}.")

    def made(seed: int) -> Array:
        values = lattice(size, -4.0, np.inf)
        if seed:
            spread = np.random.default_rng((seed, 1)).uniform(0, np.log(most), size)
            values = np.exp(spread - spread.min()) if size > 1 else values
        values = np.clip(values, values.min(), values.min() * most)
        rotation = _rotation(seed, size, kind)
        matrix = (rotation * values) @ rotation.conj().T
        return np.asarray((matrix + matrix.conj().T) / 2).astype(kind)

    return _seeded(name, made)


def low_rank(shape: tuple[int, int], rank: int, dtype: DTypeLike = np.float64) -> Strategy:
    """Draw matrices of a given rank, up to rounding.

    Parameters
    ----------
    shape : pair of int
    rank : int
    dtype : dtype

    Returns
    -------
    Strategy

    Raises
    ------
    ArgumentError
        The rank is larger than the shape allows.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(low_rank((2, 3), 1), lambda a: True)
    Tensor([[0.5, 0. , 0. ],
            [0. , 0. , 0. ]])
    """
    name = "strategies.low_rank"
    m, n = [_size(name, size) for size in pair(shape, name, "shape")]
    r, kind = integer(rank, name, "rank"), dtype_for(name, dtype)
    if not 0 <= r <= min(m, n):
        raise ArgumentError(f"{name}: no matrix of shape {(m, n)} has rank {r}.")

    def made(seed: int) -> Array:
        left, right = _rotation(seed, m, kind)[:, :r], _rotation(seed + 1 if seed else 0, n, kind)
        return np.asarray((left * lattice(r, -4.0, np.inf)) @ right[:r]).astype(kind)

    return _seeded(name, made)


def clustered_spectrum(
    n: int, clusters: int = 2, gap: float = 1e-6, dtype: DTypeLike = np.float64
) -> Strategy:
    """Draw symmetric (Hermitian) matrices whose eigenvalues come in clusters.

    Derivatives of eigenvectors divide by the gaps between eigenvalues: a hard test.

    Parameters
    ----------
    n : int
    clusters : int
        The number of clusters of about equal size.
    gap : float
        The distance of neighbours in a cluster; 0 for equal eigenvalues.
    dtype : dtype

    Returns
    -------
    Strategy

    Raises
    ------
    ArgumentError
        The clusters outnumber the eigenvalues, or the gap is negative.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(clustered_spectrum(3, gap=0.25), lambda a: True)
    Tensor([[0.5 , 0.  , 0.  ],
            [0.  , 0.75, 0.  ],
            [0.  , 0.  , 1.25]])
    """
    name = "strategies.clustered_spectrum"
    size, kind = _size(name, n), dtype_for(name, dtype)
    count, distance = integer(clusters, name, "clusters"), real_number(gap, name, "gap")
    if not 1 <= count <= size:
        raise ArgumentError(f"{name}: {size} eigenvalues cannot be in {count} clusters.")
    if not distance >= 0:
        raise ArgumentError(f"{name}: gap has to be at least 0, got {distance:g}.")
    centers = lattice(count, -4.0, np.inf)
    groups = np.array_split(np.arange(size), count)
    pairs = zip(centers, groups, strict=True)
    values = np.concatenate([center + distance * np.arange(len(group)) for center, group in pairs])

    def made(seed: int) -> Array:
        rotation = _rotation(seed, size, kind)
        matrix = (rotation * values) @ rotation.conj().T
        return np.asarray((matrix + matrix.conj().T) / 2).astype(kind)

    return _seeded(name, made)


def _size(name: str, n: object) -> int:
    size = integer(n, name, "n")
    if size < 1:
        raise ArgumentError(f"{name}: a matrix has to have rows and columns, got n = {size}.")
    return size


def _seeded(name: str, make: Callable[[int], Array]) -> Strategy:
    seeds = hypothesis_for(name).integers(0, 2**32 - 1)
    return seeds.map(lambda seed: tensor(make(seed)))


def _rotation(seed: int, n: int, dtype: np.dtype[Any]) -> Array:
    """Return the orthogonal factor of a normal random matrix; the identity for seed 0."""
    if seed == 0:
        return np.eye(n, dtype=dtype)
    rng = np.random.default_rng(seed)
    matrix: Any = rng.standard_normal((n, n))
    if dtype.kind == "c":
        matrix = matrix + 1j * rng.standard_normal((n, n))
    q, r = np.linalg.qr(matrix)
    diagonal = np.diagonal(r)
    return np.asarray(q * (diagonal / abs(diagonal))).astype(dtype)
