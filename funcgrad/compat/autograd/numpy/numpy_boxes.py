"""``ArrayBox``, by which code asks whether a value is traced: ``isinstance(x, ArrayBox)``."""

from funcgrad.tensor import Tensor

ArrayBox = Tensor
