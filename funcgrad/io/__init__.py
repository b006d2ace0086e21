"""Save and load pytrees: models, states of optimizers and checkpoints, in the safetensors format.

>>> import os, tempfile
>>> import numpy as np
>>> from funcgrad import io
>>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
>>> io.save(path, {"layers": [{"weight": np.ones((2, 3)), "bias": np.zeros(2)}]})
>>> io.load(path)["layers"][0]["bias"]
Tensor([0., 0.])

PyTorch can read these files, and ``load`` reads files of PyTorch, by names such as
``layers.0.weight``. No part of a file is ever executed.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.io.checkpoints import Checkpoints
from funcgrad.io.loading import FileDescription, describe, differences, load, verify
from funcgrad.io.matching import Differences
from funcgrad.io.saving import save
from funcgrad.io.stored_tensors import StoredTensor

__all__ = [
    "Checkpoints",
    "Differences",
    "FileDescription",
    "StoredTensor",
    "describe",
    "differences",
    "load",
    "save",
    "verify",
]


if not TYPE_CHECKING:  # type checkers see the imports above
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
