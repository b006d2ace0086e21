"""``Tensor``: its operators, its methods, conversion, and NumPy's protocols.

``fg.tensor`` is the function: this package is imported first, and the function replaces its name.
"""

from funcgrad.tensor.tensor import Tensor as Tensor
from funcgrad.tensor.tensor import tensor as tensor
