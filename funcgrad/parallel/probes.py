"""Check that a worker has the caller's versions of libraries, and computes the same last bits.

BLAS libraries choose their kernels by the processor, and so does NumPy for exponentials. So each
worker multiplies two matrices and takes exponentials and logarithms at its first task.

>>> _answer() == _answer()
True
"""

from __future__ import annotations

import os
import socket
import sys
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from funcgrad._backends.choice import chosen_backend
from funcgrad.errors import WorkerError
from funcgrad.parallel.blas_threads import one_thread
from funcgrad.parallel.messages import Caller
from funcgrad.parallel.worker_store import RECENT, ChunkStore


def _answer() -> str:
    """Compute the digest of a product, an exponential and a logarithm in two precisions."""
    digest = blake2b(digest_size=16)
    with one_thread():
        for dtype in (np.float64, np.float32):
            x: Any = np.linspace(0.1, 7.0, 129 * 67, dtype=dtype).reshape(129, 67)
            for result in (x @ x.T, np.exp(x), np.log(x)):
                digest.update(result.tobytes())
    return digest.hexdigest()


def _versions(backend: str) -> tuple[tuple[str, str], ...]:
    """Return the versions of the computing packages; of llvmlite only if it compiles."""
    package: Any = sys.modules["funcgrad"]  # importing it here would be a cycle
    known = (("funcgrad", package.__version__), ("NumPy", np.__version__))
    return known if backend == "numpy" else (*known, ("llvmlite", RECENT.recall("llvmlite", _llvm)))


def _llvm() -> str:
    try:
        return version("llvmlite")
    except PackageNotFoundError:
        return "none"


def caller(
    operation: str, allow_other_bits: bool, keep: int | None, run: str, store: ChunkStore | None
) -> Caller:
    """Describe this process, for workers to compare with."""
    backend = chosen_backend(None, operation).name
    probe = "" if allow_other_bits else RECENT.recall("probe", _answer)
    return Caller(operation, _versions(backend), backend, probe, keep, run, store)


def dask_worker() -> Any:
    """Return the Dask worker that runs this task, or None."""
    distributed: Any = sys.modules.get("distributed")
    try:
        return None if distributed is None else distributed.get_worker()
    except ValueError:  # not a worker of Dask
        return None


def worker_name() -> str:
    """Return the address of this worker: Dask's address, or the machine's name and the process."""
    worker = dask_worker()
    return f"{socket.gethostname()}:{os.getpid()}" if worker is None else str(worker.address)


def check_worker(by: Caller) -> None:
    """Check that this worker agrees with the caller.

    Raises
    ------
    WorkerError
        The worker has another version of funcgrad, NumPy or llvmlite, or computes other last bits.
    """
    here = _versions(by.backend)
    if here != by.versions:
        differing = [
            f"{name} {there} and the worker {other}"
            for (name, there), (_, other) in zip(by.versions, here, strict=True)
            if there != other
        ]
        raise WorkerError(
            f"{by.operation}: the caller has {', '.join(differing)}, at {worker_name()}."
            " Results could differ: install the same version in both places."
        )
    if by.probe and RECENT.recall("probe", _answer) != by.probe:
        raise WorkerError(
            f"{by.operation}: the worker {worker_name()} computes a product, an exponential or a"
            " logarithm with other last bits than the caller, because its processor or libraries"
            " differ. Leave it out, or accept results that depend on the workers:"
            " allow_other_bits=True."
        )
