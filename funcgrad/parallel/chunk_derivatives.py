"""Derivatives of a loss over chunks of data: ``value_and_grad``, ``grad``, ``hvp``, ``jacobian``.

>>> from concurrent.futures import ThreadPoolExecutor
>>> def loss(w, chunk):
...     return ((chunk @ w) ** 2).mean()
>>> with ThreadPoolExecutor(2) as executor:
...     gradient = grad(loss, executor)(np.ones(2), [np.eye(2)[:1], np.eye(2)[1:]])
>>> gradient
Tensor([1., 1.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from math import fsum, isfinite
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core import pytrees
from funcgrad._core.specs import shape_of
from funcgrad._hints.lookup import answering
from funcgrad._transforms import jacobian as jacobians
from funcgrad._transforms import reverse
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.parallel.chunk_steps import Steps
from funcgrad.parallel.device_engine import Workers
from funcgrad.parallel.messages import as_tensor
from funcgrad.parallel.plans import Job
from funcgrad.tensor.tensor import Tensor

Options: TypeAlias = "tuple[Workers, int | None, float | None, bool, DTypeLike | None]"


def _weights(operation: str, reduce: str | Iterable[float]) -> Sequence[float] | None:
    """Check the option ``reduce``; return the weights of the chunks, if any."""
    if isinstance(reduce, str) and reduce in ("mean", "sum"):
        return None
    try:
        weights = [float(weight) for weight in reduce]
    except (TypeError, ValueError):
        weights = []
    if isinstance(reduce, str) or not weights:
        raise ArgumentError(
            f"{operation}: reduce has to be 'mean', 'sum', or a weight for each chunk, got"
            f" {reduce!r:.60}."
        )
    if not all(map(isfinite, weights)) or not fsum(weights):
        raise ArgumentError(
            f"{operation}: the weights of chunks have to be finite, and their sum not 0, got"
            f" {weights!r:.60}."
        )
    return weights


def _over_chunks(
    name: str,
    of_chunk: Callable[..., Any],
    loss: Callable[..., Any],
    reduce: str | Iterable[float],
    options: Options,
) -> Callable[..., Any]:
    """Make the function of parameters, chunks and further arguments that returns a sum or mean.

    The terms are ``of_chunk(params, chunk, *args)``, computed by workers.
    """
    work = lambda params, args, chunk: of_chunk(params, chunk, *args)  # noqa: E731 - one line says it
    job = Job(f"parallel.{name}", work, (loss,), *options)
    weights = _weights(job.operation, reduce)
    steps = Steps(job)

    def summed(params: object, chunks: object, *args: object) -> Any:
        step, leaves = steps.step(params, args, chunks, weights), []
        values = step.total()
        is_sum = weights is None and reduce == "sum"
        divisor = None if is_sum else fsum(weights or [step.count])
        for value, spec in zip(values, step.plan.specs, strict=True):
            total: Any = value if isinstance(value, Tensor) else np.asarray(value)
            # Divide in float64: float16 ends at 65504.
            wide = np.float64 if total.dtype.kind == "f" else total.dtype.type
            with np.errstate(all="ignore"):
                if divisor is not None:
                    total = total / wide(divisor)
                total = total.astype(spec.dtype, copy=False)
            leaves.append(step.delivered(as_tensor(total)))
        return step.plan.result(leaves)

    return update_wrapper(summed, loss, updated=())


@answering
def value_and_grad(
    loss: Callable[..., Any],
    executor: Workers,
    reduce: str | Iterable[float] = "mean",
    *,
    dtype: DTypeLike | None = None,
    keep: int | None = None,
    timeout: float | None = None,
    allow_other_bits: bool = False,
) -> Callable[..., Any]:
    """Make a function that computes a loss over chunks of data, and its gradient, with workers.

    Use it if the data do not fit into the memory of one process, or one process is too slow. It is
    ``fg.value_and_grad`` of the mean (or sum) of ``loss`` over the chunks, and works with any
    optimizer.

    Parameters
    ----------
    loss : callable
        ``loss(params, chunk, *args)`` returns a real scalar. It is staged in this process, and
        workers receive its program. So it may be any function, also a closure or a function of
        ``__main__``.
    executor : concurrent.futures.Executor, client of Dask, or list of devices
        Threads, processes, or a cluster: ``dask.distributed.Client``, or its ``get_executor()``.
        Or devices, see ``fg.devices``: each has a worker.
    reduce : {"mean", "sum"} or sequence of float
        How to combine the losses of the chunks. A sequence has the weights of a weighted mean, such
        as the lengths of the chunks.
    dtype : dtype, optional
        The dtype of sums, such as ``"float64"``; by default the dtype of the gradients. The result
        always has the dtype of the gradients.
    keep : int, optional
        The maximum number of bytes of loaded chunks that a worker keeps; by default a fourth of its
        memory.
    timeout : float, optional
        The maximum number of seconds for a step; by default unlimited.
    allow_other_bits : bool
        Whether to accept workers whose processor or libraries give different last bits. Then
        results depend on the workers.

    Returns
    -------
    callable
        ``(params, chunks, *args) -> (value, gradient)``. Chunks are a list of pytrees of arrays, of
        paths of files, or of functions without arguments that load a chunk (workers call them once,
        and keep the data); or a Dask array or bag. The result is bit-for-bit independent of the
        executor, of the number of workers, and of workers that die; with devices, of their number.
        If the parameters are on a device, so is the result, else on the host.

    Raises
    ------
    ArgumentError
        An option is not allowed, the list of chunks is empty, or a function that loads a chunk
        cannot be sent.
    ChunkError
        A chunk cannot be loaded, or kills its workers; the error has its index and the traceback.
    WorkerError
        No worker is available, or a worker has other versions of libraries or different last bits.
    DeviceError
        A chunk or a parameter is on a device, and the workers compute on the host, or on others.
    DifferentiationError
        The result of the loss is not a real scalar.

    Notes
    -----
    Sums follow a fixed binary tree over the indices of the chunks, and each worker multiplies
    matrices with one thread. ``funcgrad/parallel/README.md`` explains which data are sent, and the
    effect of dying workers.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> import funcgrad as fg
    >>> x = np.arange(8.0)
    >>> def loss(w, chunk):
    ...     return ((chunk["y"] - w * chunk["x"]) ** 2).mean()
    >>> chunks = fg.parallel.slices({"x": x, "y": 3.0 * x}, 2)
    >>> with ThreadPoolExecutor(2) as executor:
    ...     fg.parallel.value_and_grad(loss, executor)(2.0, chunks)
    (Tensor(17.5), Tensor(-35.0))
    """
    options = executor, keep, timeout, allow_other_bits, dtype
    of_chunk = lambda *args: reverse.value_and_grad(loss)(*args)  # noqa: E731 - one line says it
    return _over_chunks("value_and_grad", of_chunk, loss, reduce, options)


@answering
def grad(
    loss: Callable[..., Any],
    executor: Workers,
    reduce: str | Iterable[float] = "mean",
    *,
    dtype: DTypeLike | None = None,
    keep: int | None = None,
    timeout: float | None = None,
    allow_other_bits: bool = False,
) -> Callable[..., Any]:
    """Make a function that computes the gradient of a loss over chunks of data with workers.

    Parameters
    ----------
    loss : callable
        ``loss(params, chunk, *args)`` returns a real scalar.
    executor : concurrent.futures.Executor, client of Dask, or list of devices
    reduce : {"mean", "sum"} or sequence of float
    dtype, keep, timeout, allow_other_bits : optional
        As for ``value_and_grad``.

    Returns
    -------
    callable
        ``(params, chunks, *args) -> gradient``.

    See Also
    --------
    value_and_grad : also returns the value; it explains the options and errors.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import funcgrad as fg
    >>> with ThreadPoolExecutor(2) as executor:
    ...     fg.parallel.grad(lambda w, x: w * w * x, executor, "sum")(3.0, [1.0, 2.0])
    Tensor(18.0)
    """
    options = executor, keep, timeout, allow_other_bits, dtype
    of_chunk = lambda *args: reverse.grad(loss)(*args)  # noqa: E731 - one line says it
    return _over_chunks("grad", of_chunk, loss, reduce, options)


@answering
def hvp(
    loss: Callable[..., Any],
    executor: Workers,
    reduce: str | Iterable[float] = "mean",
    *,
    dtype: DTypeLike | None = None,
    keep: int | None = None,
    timeout: float | None = None,
    allow_other_bits: bool = False,
) -> Callable[..., Any]:
    """Make a function that computes the product of a loss's Hessian and a vector with workers.

    For Newton and conjugate gradient methods on data in chunks; the Hessian is never formed.

    Parameters
    ----------
    loss : callable
        ``loss(params, chunk, *args)`` returns a real scalar.
    executor : concurrent.futures.Executor, client of Dask, or list of devices
    reduce : {"mean", "sum"} or sequence of float
    dtype, keep, timeout, allow_other_bits : optional
        As for ``value_and_grad``.

    Returns
    -------
    callable
        ``(params, tangents, chunks, *args) -> product``; the tangents have the structure, the
        shapes and the dtypes of the parameters.

    See Also
    --------
    value_and_grad : explains the options and errors.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import funcgrad as fg
    >>> with ThreadPoolExecutor(2) as executor:
    ...     fg.parallel.hvp(lambda w, x: w**3 * x, executor, "sum")(2.0, 1.0, [1.0, 2.0])
    Tensor(36.0)
    """

    def of_chunk(pair: tuple[object, object], chunk: object, *args: object) -> Any:
        return jacobians.hvp(lambda params: loss(params, chunk, *args), pair[:1], pair[1:])

    options = executor, keep, timeout, allow_other_bits, dtype
    summed = _over_chunks("hvp", of_chunk, loss, reduce, options)

    def product(params: object, tangents: object, chunks: object, *args: object) -> Any:
        return summed((params, tangents), chunks, *args)

    return update_wrapper(product, loss, updated=())


@answering
def jacobian(
    f: Callable[..., Any],
    executor: Workers,
    *,
    keep: int | None = None,
    timeout: float | None = None,
    allow_other_bits: bool = False,
) -> Callable[..., Any]:
    """Make a function that computes a Jacobian with a row for each row of the data, with workers.

    For Gauss-Newton methods and standard errors: the residuals of all data, chunk by chunk.

    Parameters
    ----------
    f : callable
        ``f(params, chunk, *args)`` returns a pytree of arrays with one row for each row of the
        chunk, such as residuals.
    executor : concurrent.futures.Executor, client of Dask, or list of devices
    keep, timeout, allow_other_bits : optional
        As for ``value_and_grad``.

    Returns
    -------
    callable
        ``(params, chunks, *args) -> jacobian``: the result of ``fg.jacrev`` for the concatenated
        chunks. For each pair of leaves it is an array of shape ``result.shape + params.shape``.

    Raises
    ------
    ShapeError
        The function returns a scalar, which has no rows.

    Notes
    -----
    For each chunk, the smaller side of its Jacobian decides between forward and reverse mode.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> import funcgrad as fg
    >>> with ThreadPoolExecutor(2) as executor:
    ...     chunks = fg.parallel.slices(np.arange(3.0), 2)
    ...     fg.parallel.jacobian(lambda w, x: w * x**2, executor)(2.0, chunks)
    Tensor([0., 1., 4.])
    """

    def size(tree: object) -> int:
        return sum(int(np.prod(shape_of(leaf))) for leaf in pytrees.leaves(tree))

    def work(params: object, args: tuple[object, ...], chunk: object) -> Any:
        def inner(params: object) -> Any:
            out = f(params, chunk, *args)
            if not all(map(shape_of, pytrees.leaves(out))):
                raise ShapeError(
                    "parallel.jacobian: the function returns a number for a chunk. It has to return"
                    " arrays with a row for each row of the chunk."
                )
            return out

        outputs = size(inner(params))  # nothing reads these operations, so they are dropped
        mode = jacobians.jacfwd if size(params) <= outputs else jacobians.jacrev
        return mode(inner)(params)

    options = executor, keep, timeout, allow_other_bits
    steps = Steps(Job("parallel.jacobian", work, (f,), *options, alike=False))

    def rows(params: object, chunks: object, *args: object) -> Any:
        step = steps.step(params, args, chunks)
        stream = ([step.delivered(value) for value in values] for values in step.stream())
        blocks = [step.plan.result(values) for values in stream]
        return pytrees.map(lambda *leaves: as_tensor(np.concatenate(leaves)), *blocks)

    return update_wrapper(rows, f, updated=())
