"""What SciPy's sparse matrices are needed for in derivatives: ``linalg``, without a matrix.

>>> from funcgrad.scipy.sparse import linalg
>>> linalg.cg([[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0])
(Tensor([1., 1.]), Tensor(0))
"""

from funcgrad.scipy.sparse import linalg

__all__ = ["linalg"]


def __dir__() -> list[str]:
    """The public names alone, for completion."""
    return list(__all__)
