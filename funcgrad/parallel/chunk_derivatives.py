"""Derivatives of a sum or a mean over chunks of data: ``value_and_grad``, ``grad``, ``hvp``; and
``jacobian``, whose rows belong to the chunks.

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
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core import pytrees
from funcgrad._core.specs import shape_of
from funcgrad._core.users_values import freeze
from funcgrad._hints.lookup import answering
from funcgrad._transforms import jacobian as jacobians
from funcgrad._transforms import reverse
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.parallel.chunk_steps import Steps
from funcgrad.parallel.engines import AnyExecutor
from funcgrad.parallel.plans import Job
from funcgrad.tensor.tensor import wrap


def _weights(operation: str, reduce: str | Iterable[float]) -> Sequence[float] | None:
    """Check the option ``reduce``; return weights if it is that."""
    if isinstance(reduce, str) and reduce in ("mean", "sum"):
        return None
    try:
        weights = [float(weight) for weight in reduce]
    except (TypeError, ValueError):
        weights = []
    if isinstance(reduce, str) or not weights:
        raise ArgumentError(
            f"{operation}: reduce has to be 'mean', 'sum', or a number for each chunk, got"
            f" {reduce!r:.60}."
        )
    if not all(map(isfinite, weights)) or not fsum(weights):
        raise ArgumentError(
            f"{operation}: the weights of chunks have to be finite, and their sum not 0, got"
            f" {weights!r:.60}."
        )
    return weights


def _summed(job: Job, reduce: str | Iterable[float]) -> Callable[..., Any]:
    """The function from parameters, chunks and further arguments to the sum or mean of works."""
    weights = _weights(job.operation, reduce)
    steps = Steps(job)

    def summed(params: object, chunks: object, *args: object) -> Any:
        step, leaves = steps.step(params, args, chunks, weights), []
        values = step.total()
        is_sum = weights is None and reduce == "sum"
        divisor = None if is_sum else fsum(weights or [step.count])
        for value, spec in zip(values, step.plan.specs, strict=True):
            total = np.asarray(value)
            # In float64, which has every divisor, while float16 ends at 65504.
            wide = np.float64 if total.dtype.kind == "f" else total.dtype.type
            with np.errstate(all="ignore"):
                if divisor is not None:
                    total = np.asarray(total / wide(divisor))
                total = total.astype(spec.dtype, copy=False)
            leaves.append(wrap(freeze(total) if total.ndim else total[()]))
        return step.plan.result(leaves)

    return update_wrapper(summed, job.roots[0], updated=())


@answering
def value_and_grad(
    loss: Callable[..., Any],
    executor: AnyExecutor,
    reduce: str | Iterable[float] = "mean",
    *,
    dtype: DTypeLike | None = None,
    keep: int | None = None,
    timeout: float | None = None,
    allow_strangers: bool = False,
) -> Callable[..., Any]:
    """The function that returns a loss over chunks of data and its gradient, computed by workers.

    Parameters
    ----------
    loss : callable
        ``loss(params, chunk, *args)`` returns a real scalar. It is staged here, and workers receive
        its program, so it may be any function, also a closure or one of ``__main__``.
    executor : concurrent.futures.Executor, or client of Dask
        Threads, processes, or a cluster: ``dask.distributed.Client``, or its ``get_executor()``.
    reduce : {"mean", "sum"} or sequence of float
        What becomes of the losses of the chunks. Numbers are weights of the chunks, such as their
        lengths, of a weighted mean.
    dtype : dtype, optional
        The dtype of sums, such as ``"float64"``; by default that of the gradients. The result has
        the latter.
    keep : int, optional
        How many bytes of loaded chunks a worker may keep; by default a fourth of its memory.
    timeout : float, optional
        How many seconds the step may take; it may take for ever if not given.
    allow_strangers : bool
        Whether to accept workers whose processor or libraries have other last bits.

    Returns
    -------
    callable
        ``(params, chunks, *args) -> (value, gradient)``. Chunks are a list of pytrees of arrays,
        of paths of files, or of functions without arguments, which the workers call once and whose
        data they keep by key; or a Dask array or bag. The bits of the result do not depend on the
        executor, the number of its workers, or their deaths.

    Raises
    ------
    ArgumentError
        An option is not allowed, there are no chunks, or a function that loads one cannot be sent.
    ChunkError
        A chunk cannot be loaded, or kills its workers; the error has its index and the traceback.
    WorkerError
        There is no worker, or one has other versions or other numbers.
    DifferentiationError
        The loss returns no real scalar.

    Notes
    -----
    The sums follow a fixed binary tree over the indices of the chunks, and each worker multiplies
    matrices with one thread. ``funcgrad/parallel/README.md`` says what travels, and what happens
    when workers die.

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
    job = Job(
        "parallel.value_and_grad",
        lambda params, args, chunk: reverse.value_and_grad(loss)(params, chunk, *args),
        (loss,),
        *(executor, keep, timeout, allow_strangers, dtype),
    )
    return _summed(job, reduce)


@answering
def grad(
    loss: Callable[..., Any],
    executor: AnyExecutor,
    reduce: str | Iterable[float] = "mean",
    *,
    dtype: DTypeLike | None = None,
    keep: int | None = None,
    timeout: float | None = None,
    allow_strangers: bool = False,
) -> Callable[..., Any]:
    """The gradient of a loss over chunks of data, computed by workers.

    Parameters
    ----------
    loss : callable
        ``loss(params, chunk, *args)`` returns a real scalar.
    executor : concurrent.futures.Executor, or client of Dask
    reduce : {"mean", "sum"} or sequence of float
    dtype, keep, timeout, allow_strangers : optional
        As for ``value_and_grad``.

    Returns
    -------
    callable
        ``(params, chunks, *args) -> gradient``.

    See Also
    --------
    value_and_grad : the value as well; the options and errors are explained there.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import funcgrad as fg
    >>> with ThreadPoolExecutor(2) as executor:
    ...     fg.parallel.grad(lambda w, x: w * w * x, executor, "sum")(3.0, [1.0, 2.0])
    Tensor(18.0)
    """
    job = Job(
        "parallel.grad",
        lambda params, args, chunk: reverse.grad(loss)(params, chunk, *args),
        (loss,),
        *(executor, keep, timeout, allow_strangers, dtype),
    )
    return _summed(job, reduce)


@answering
def hvp(
    loss: Callable[..., Any],
    executor: AnyExecutor,
    reduce: str | Iterable[float] = "mean",
    *,
    dtype: DTypeLike | None = None,
    keep: int | None = None,
    timeout: float | None = None,
    allow_strangers: bool = False,
) -> Callable[..., Any]:
    """The Hessian of a loss over chunks of data times a vector, computed by workers.

    Parameters
    ----------
    loss : callable
        ``loss(params, chunk, *args)`` returns a real scalar.
    executor : concurrent.futures.Executor, or client of Dask
    reduce : {"mean", "sum"} or sequence of float
    dtype, keep, timeout, allow_strangers : optional
        As for ``value_and_grad``.

    Returns
    -------
    callable
        ``(params, tangents, chunks, *args) -> product``; the tangents have the tree, the shapes and
        the dtypes of the parameters.

    See Also
    --------
    value_and_grad : the options and errors are explained there.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import funcgrad as fg
    >>> with ThreadPoolExecutor(2) as executor:
    ...     fg.parallel.hvp(lambda w, x: w**3 * x, executor, "sum")(2.0, 1.0, [1.0, 2.0])
    Tensor(36.0)
    """
    job = Job(
        "parallel.hvp",
        lambda pair, args, chunk: jacobians.hvp(
            lambda params: loss(params, chunk, *args), pair[:1], pair[1:]
        ),
        (loss,),
        *(executor, keep, timeout, allow_strangers, dtype),
    )
    summed = _summed(job, reduce)

    def product(params: object, tangents: object, chunks: object, *args: object) -> Any:
        return summed((params, tangents), chunks, *args)

    return update_wrapper(product, loss, updated=())


@answering
def jacobian(
    f: Callable[..., Any],
    executor: AnyExecutor,
    *,
    keep: int | None = None,
    timeout: float | None = None,
    allow_strangers: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of a function with a row for each row of the data, computed by workers.

    Parameters
    ----------
    f : callable
        ``f(params, chunk, *args)`` returns a pytree of arrays, whose first axes belong to the rows
        of the chunk, such as residuals.
    executor : concurrent.futures.Executor, or client of Dask
    keep, timeout, allow_strangers : optional
        As for ``value_and_grad``.

    Returns
    -------
    callable
        ``(params, chunks, *args) -> jacobian``, as ``fg.jacrev`` returns it for all chunks one
        behind the other: an array of shape ``result.shape + params.shape`` for each pair of leaves.

    Raises
    ------
    ShapeError
        The function returns a number, which has no rows.

    Notes
    -----
    Forward or reverse mode is chosen for each chunk by the smaller side of its Jacobian.

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

        outputs = size(inner(params))  # its operations are dropped: nothing reads them
        mode = jacobians.jacfwd if size(params) <= outputs else jacobians.jacrev
        return mode(inner)(params)

    options = executor, keep, timeout, allow_strangers
    steps = Steps(Job("parallel.jacobian", work, (f,), *options, alike=False))

    def rows(params: object, chunks: object, *args: object) -> Any:
        step = steps.step(params, args, chunks)
        blocks = [step.plan.result(values) for values in step.stream()]
        return pytrees.map(lambda *leaves: wrap(freeze(np.concatenate(leaves))), *blocks)

    return update_wrapper(rows, f, updated=())
