"""A function of many chunks, or of many examples: ``map``, and ``reduce`` with any combination.

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

from funcgrad._core.trace import Value
from funcgrad._core.users_values import freeze
from funcgrad._hints.lookup import answering
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.batch import vmap
from funcgrad.errors import MissingPackageError
from funcgrad.parallel.chunk_steps import Steps
from funcgrad.parallel.chunks import slices
from funcgrad.parallel.engines import AnyExecutor
from funcgrad.parallel.plans import Job
from funcgrad.tensor.tensor import wrap


def _tensor(value: Value) -> Any:
    array = np.asarray(value)
    return wrap(freeze(array) if array.ndim else array[()])


@answering
def map(
    f: Callable[..., Any],
    executor: AnyExecutor,
    batch_size: SupportsIndex | None = None,
    *,
    progress: bool = False,
    keep: int | None = None,
    timeout: float | None = None,
    allow_strangers: bool = False,
) -> Callable[..., Generator[Any, None, None]]:
    """Apply a function to each chunk, or to each example in batches, by workers, in order.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` returns a pytree.
    executor : concurrent.futures.Executor, or client of Dask
    batch_size : int, optional
        If given, ``f`` is a function of one example, and the data are arrays with an example for
        each row: workers run ``fg.vmap(f)`` on so many rows at once.
    progress : bool
        Whether to show a bar, by ``tqdm``.
    keep, timeout, allow_strangers : optional
        As for ``value_and_grad``; the time is that of one result.

    Returns
    -------
    callable
        ``(xs, *args) -> iterator``. Without a batch size ``xs`` are chunks, as for
        ``value_and_grad``, and the iterator yields ``f`` of each. With one, ``xs`` is a pytree of
        arrays, of datasets of HDF5 or of zarr, and it yields the results of so many rows, stacked.
        A few are computed ahead of their use, so that neither data nor results need fit in memory.
        Closing the iterator cancels what is still to be done.

    Raises
    ------
    ArgumentError
        The batch size is not positive, or an option is not allowed.
    MissingPackageError
        There is to be a bar, and ``tqdm`` is not installed.

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
    if batch_size is not None:
        slices(np.zeros(0), batch_size)  # which refuses a wrong one

    def work(params: object, args: tuple[object, ...], chunk: object) -> Any:
        return f(chunk, *args) if batch_size is None else vmap(lambda x: f(x, *args))(chunk)

    options = executor, keep, timeout, allow_strangers
    steps = Steps(Job("parallel.map", work, (f,), *options, alike=False))
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
                yield step.plan.result([_tensor(value) for value in values])
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
    executor: AnyExecutor,
    *,
    keep: int | None = None,
    timeout: float | None = None,
    allow_strangers: bool = False,
) -> Callable[..., Any]:
    """Combine the results of a function of each chunk, by workers, in a fixed binary tree.

    Parameters
    ----------
    f : callable
        ``f(chunk, *args)`` returns a pytree, with the same shapes for all chunks.
    combine : callable
        From two results, of neighbours in their order, to one like them. It should be associative,
        up to rounding.
    executor : concurrent.futures.Executor, or client of Dask
    keep, timeout, allow_strangers : optional
        As for ``value_and_grad``.

    Returns
    -------
    callable
        ``(chunks, *args) -> result``, with bits that do not depend on the executor.

    Raises
    ------
    ArgumentError
        ``combine`` looks at numbers, as `if` does.
    ShapeError, TreeError
        It does not return what it takes, or the results of two chunks have different shapes.

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
        *(executor, keep, timeout, allow_strangers),
        combine=combine,
    )
    steps = Steps(job)

    def reduced(chunks: object, *args: object) -> Any:
        step = steps.step((), args, chunks)
        values = step.total()
        return step.plan.result([_tensor(value) for value in values])

    return update_wrapper(reduced, f, updated=())
