"""Derivatives of functions of more data than one process can hold, computed by many workers.

The workers belong to a ``concurrent.futures.Executor``: threads, processes, or a Dask cluster. A
list of devices works, too. Workers process chunks of data, and their results are summed in a fixed
order. So the result is bit-for-bit the same with any number of workers, even if some die.

>>> from concurrent.futures import ThreadPoolExecutor
>>> import numpy as np
>>> from funcgrad import parallel
>>> def loss(w, chunk):
...     return ((chunk["x"] @ w - chunk["y"]) ** 2).mean()
>>> data = {"x": np.eye(4), "y": np.arange(4.0)}
>>> with ThreadPoolExecutor(2) as executor:
...     value_and_gradient = parallel.value_and_grad(loss, executor)
...     value_and_gradient(np.zeros(4), parallel.slices(data, 2))
(Tensor(3.5), Tensor([ 0. , -0.5, -1. , -1.5]))
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.parallel.chunk_derivatives import grad, hvp, jacobian, value_and_grad
from funcgrad.parallel.chunks import slices
from funcgrad.parallel.mapping import map, reduce

__all__ = ["grad", "hvp", "jacobian", "map", "reduce", "slices", "value_and_grad"]


if not TYPE_CHECKING:  # type checkers know the names
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
