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

from collections.abc import Callable, Sequence
from functools import update_wrapper
from math import fsum, isfinite
from typing import Any, Final

import numpy as np

from funcgrad import trees
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.foreign_names import answering
from funcgrad.parallel.chunk_steps import Steps, options
from funcgrad.parallel.messages import Partial
from funcgrad.parallel.plans import StagingPlan
from funcgrad.shape import shape_of
from funcgrad.tensor import wrap
from funcgrad.transforms import jacobian as jacobians
from funcgrad.transforms import reverse
from funcgrad.users_values import freeze

_WORDS: Final = ("mean", "sum")


def _weights(operation: str, reduce: object) -> Sequence[float] | None:
    """Check the option ``reduce``; return weights if it is that."""
    if isinstance(reduce, str) and reduce in _WORDS:
        return None
    try:
        weights = [float(weight) for weight in reduce]  # type: ignore[attr-defined]  # what is no sequence is refused
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


def _mean(partial: Partial, plan: StagingPlan, divisor: float | None) -> Any:
    """The tree of results, divided, in the dtypes that one chunk's have."""
    leaves = []
    with np.errstate(all="ignore"):
        for value, spec in zip(partial.values, plan.specs, strict=True):
            total = np.asarray(value)
            if divisor is not None:
                total = np.asarray(total / total.dtype.type(divisor))
            total = total.astype(spec.dtype, copy=False)
            leaves.append(wrap(freeze(total) if total.ndim else total[()]))
    structure = plan.structure
    assert structure is not None  # the plan is staged when there is a result
    return trees.unflatten(structure, leaves)


def _reduced(
    operation: str,
    loss: Callable[..., Any],
    work: Callable[[Any, Any, Any], Any],
    reduce: Any,
    settings: Any,
) -> Callable[[Any, Any, tuple[Any, ...]], Any]:
    """The function from parameters, chunks and further arguments to the sum or mean of works."""
    weights = _weights(operation, reduce)
    steps = Steps(operation, work, (loss,), settings)

    def run(params: Any, chunks: Any, args: tuple[Any, ...]) -> Any:
        partial, plan, count = steps.total(params, args, chunks, weights)
        divisor = fsum(weights) if weights is not None else count if reduce == "mean" else None
        return _mean(partial, plan, divisor)

    return run


@answering
def value_and_grad(
    loss: Callable[..., Any],
    executor: Any,
    reduce: Any = "mean",
    *,
    dtype: Any = None,
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
    operation = "parallel.value_and_grad"
    settings = options(operation, executor, dtype, keep, timeout, allow_strangers)

    def work(params: Any, args: Any, chunk: Any) -> Any:
        return reverse.value_and_grad(loss)(params, chunk, *args)

    run = _reduced(operation, loss, work, reduce, settings)

    def value_and_gradient(params: Any, chunks: Any, *args: Any) -> Any:
        return run(params, chunks, args)

    return update_wrapper(value_and_gradient, loss, updated=())


@answering
def grad(
    loss: Callable[..., Any],
    executor: Any,
    reduce: Any = "mean",
    *,
    dtype: Any = None,
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
    operation = "parallel.grad"
    settings = options(operation, executor, dtype, keep, timeout, allow_strangers)

    def work(params: Any, args: Any, chunk: Any) -> Any:
        return reverse.grad(loss)(params, chunk, *args)

    run = _reduced(operation, loss, work, reduce, settings)

    def gradient(params: Any, chunks: Any, *args: Any) -> Any:
        return run(params, chunks, args)

    return update_wrapper(gradient, loss, updated=())


@answering
def hvp(
    loss: Callable[..., Any],
    executor: Any,
    reduce: Any = "mean",
    *,
    dtype: Any = None,
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
    operation = "parallel.hvp"
    settings = options(operation, executor, dtype, keep, timeout, allow_strangers)

    def work(pair: Any, args: Any, chunk: Any) -> Any:
        params, tangents = pair
        return jacobians.hvp(lambda inner: loss(inner, chunk, *args), (params,), (tangents,))

    run = _reduced(operation, loss, work, reduce, settings)

    def product(params: Any, tangents: Any, chunks: Any, *args: Any) -> Any:
        return run((params, tangents), chunks, args)

    return update_wrapper(product, loss, updated=())


@answering
def jacobian(
    f: Callable[..., Any],
    executor: Any,
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
    operation = "parallel.jacobian"
    settings = options(operation, executor, None, keep, timeout, allow_strangers)

    def work(params: Any, args: Any, chunk: Any) -> Any:
        outputs: list[int] = []

        def inner(params: Any) -> Any:
            out = f(params, chunk, *args)
            for leaf in trees.leaves(out):
                if not shape_of(leaf):
                    raise ShapeError(
                        f"{operation}: the function returns a number for a chunk. It has to return"
                        " arrays with a row for each row of the chunk."
                    )
            outputs.append(sum(int(np.prod(shape_of(leaf))) for leaf in trees.leaves(out)))
            return out

        inputs = sum(int(np.prod(shape_of(leaf))) for leaf in trees.leaves(params))
        inner(params)  # its operations are dropped: nothing reads them
        mode = jacobians.jacfwd if inputs <= outputs[0] else jacobians.jacrev
        return mode(inner)(params)

    steps = Steps(operation, work, (f,), settings, alike=False)

    def rows(params: Any, chunks: Any, *args: Any) -> Any:
        blocks = [block for _, block, _ in steps.results(params, args, chunks)]
        return trees.map(lambda *leaves: wrap(freeze(np.concatenate(leaves))), *blocks)

    return update_wrapper(rows, f, updated=())
