"""Steps of least squares by an orthogonal factor, where normal equations lose digits.

>>> import numpy as np
>>> least_step(np.array([[1.0, 1.0], [0.0, 1e-9], [0.0, 0.0]]), np.array([2.0, 1e-9, 7.0]), 0.0)
Tensor([-1., -1.])
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._core.users_values import ArrayLike
from funcgrad.scipy.linalg.triangular_systems import solve_triangular
from funcgrad.tensor.tensor import Tensor


def least_step(jacobian: ArrayLike, residuals: ArrayLike, added: ArrayLike) -> Tensor:
    """The step d with the least sum of squares of J d + r and added * d; NaN if not unique.

    Source: Golub, "Numerical methods for solving linear least squares problems", 1965.
    """
    matrix = fnp.asarray(jacobian)
    rows, count = matrix.shape
    below = fnp.eye(count, dtype=matrix.dtype) * added
    orthogonal, triangle = fnp.linalg.qr(fnp.concatenate([matrix, below]))
    image = fnp.asarray(residuals) @ orthogonal[:rows]
    return solve_triangular(triangle, -image, failed="nan")
