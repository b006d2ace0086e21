"""``map`` over chunks or examples, and ``reduce`` with any combination.

>>> from concurrent.futures import ThreadPoolExecutor
>>> with ThreadPoolExecutor(2) as executor:
...     list(map(lambda x: x * x, executor)([1.0, 2.0]))
[Tensor(1.0), Tensor(4.0)]
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import update_wrapper
from operator import index
from typing import Any, SupportsIndex

import numpy as np

from funcgrad._hints.lookup import answering
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.batch import vmap
from funcgrad.errors import MissingPackageError
from funcgrad.parallel.chunk_steps import Steps
from funcgrad.parallel.chunks import slices
from funcgrad.parallel.device_engine import Workers
from funcgrad.parallel.messages import as_tensor
from funcgrad.parallel.plans import Job


@answering
def map(
    f: Callable[..., Any],
    executor: Workers,
    batch_size: SupportsIndex | None = None,
    *,
    progress: bool = False,
    keep: int | None = None,
    timeout: float | None = None,
    allow_other_bits: bool = False,
) -> Callable[..., Generator[Any, None, None]]:
    """Make a parallel map over chunks, or over examples in batches.

    Use it for predictions, simulations or features of more data than one process can hold. Results
    come in order.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` returns a pytree.
    executor : concurrent.futures.Executor, client of Dask, or list of devices
    batch_size : int, optional
        If given, ``f`` is a function of one example, and the data are arrays with one example in
        each row. Workers run ``fg.vmap(f)`` on this number of rows at once.
    progress : bool
        Whether to show a progress bar, with ``tqdm``.
    keep, timeout, allow_other_bits : optional
        As for ``value_and_grad``; the time is for one result.

    Returns
    -------
    callable
        ``(xs, *args) -> iterator``. Without a batch size, ``xs`` are chunks, as for
        ``value_and_grad``, and the iterator yields ``f`` of each chunk. With a batch size, ``xs``
        is a pytree of arrays, HDF5 datasets or zarr arrays, and the iterator yields the stacked
        results of each batch. Only a few results are computed ahead, so neither the data nor the
        results have to fit into memory. Closing the iterator cancels the remaining tasks.

    Raises
    ------
    ArgumentError
        The batch size is not positive, or an option is not allowed.
    MissingPackageError
        ``progress`` is true, and ``tqdm`` is not installed.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> import funcgrad as fg
    >>> norm = fg.parallel.map(fg.numpy.linalg.norm, ThreadPoolExecutor(2), batch_size=2)
    >>> for norms in norm(np.array([[3.0, 4.0], [0.0, 1.0], [5.0, 12.0]])):
    ...     print(norms)
    [5. 1.]
    [13.]
    """
    check_function("parallel.map", f)

    def work(params: object, args: tuple[object, ...], chunk: object) -> Any:
        return f(chunk, *args) if batch_size is None else vmap(lambda x: f(x, *args))(chunk)

    options = executor, keep, timeout, allow_other_bits
    steps = Steps(Job("parallel.map", work, (f,), *options, alike=False))
    if batch_size is not None:
        slices(np.zeros(0), batch_size)  # checks the size
    bar = _bar() if progress else None

    def mapped(xs: object, *args: object) -> Generator[Any, None, None]:
        chunks = xs if batch_size is None else slices(xs, index(batch_size))
        if batch_size is not None and not chunks:
            return
        step = steps.step((), args, chunks)
        shown = None if bar is None else bar(total=step.count)
        try:
            for values in step.stream():
                if shown is not None:
                    shown.update()
                yield step.plan.result([as_tensor(value) for value in values])
        finally:
            if shown is not None:
                shown.close()

    return update_wrapper(mapped, f, updated=())


def _bar() -> Any:
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise MissingPackageError(
            "parallel.map: progress=True needs tqdm: python -m pip install tqdm."
        ) from error
    return tqdm


@answering
def reduce(
    f: Callable[..., Any],
    combine: Callable[[Any, Any], Any],
    executor: Workers,
    *,
    keep: int | None = None,
    timeout: float | None = None,
    allow_other_bits: bool = False,
) -> Callable[..., Any]:
    """Make a parallel reduction: combine the results of chunks in a fixed binary tree.

    Use it for reductions other than a sum: extremes, histograms, merged statistics.

    Parameters
    ----------
    f : callable
        ``f(chunk, *args)`` returns a pytree with the same shapes for all chunks.
    combine : callable
        ``combine(left, right)`` combines two neighbouring results into one of the same structure
        and shapes. It should be associative, up to rounding.
    executor : concurrent.futures.Executor, client of Dask, or list of devices
    keep, timeout, allow_other_bits : optional
        As for ``value_and_grad``.

    Returns
    -------
    callable
        ``(chunks, *args) -> result``, bit-for-bit independent of the executor.

    Raises
    ------
    ArgumentError
        ``combine`` branches on values, as with `if`.
    ShapeError, TreeError
        The result of ``combine`` differs from its arguments in structure or shape, or the results
        of two chunks have different shapes.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def extremes(chunk):
    ...     return {"least": fnp.min(chunk), "greatest": fnp.max(chunk)}
    >>> def widest(a, b):
    ...     return {
    ...         "least": fnp.minimum(a["least"], b["least"]),
    ...         "greatest": fnp.maximum(a["greatest"], b["greatest"]),
    ...     }
    >>> with ThreadPoolExecutor(2) as executor:
    ...     chunks = fg.parallel.slices(np.array([3.0, 1.0, 2.0, 7.0, 5.0]), 2)
    ...     fg.parallel.reduce(extremes, widest, executor)(chunks)
    {'greatest': Tensor(7.0), 'least': Tensor(1.0)}
    """
    job = Job(
        "parallel.reduce",
        lambda params, args, chunk: f(chunk, *args),
        (f, combine),
        *(executor, keep, timeout, allow_other_bits),
        combine=combine,
    )
    steps = Steps(job)

    def reduced(chunks: object, *args: object) -> Any:
        step = steps.step((), args, chunks)
        values = step.total()
        return step.plan.result([as_tensor(step.delivered(value)) for value in values])

    return update_wrapper(reduced, f, updated=())
