"""The Jacobian and the mass matrix of ``solve_ivp``, checked before anything is computed.

>>> import funcgrad as fg
>>> system = System.read(lambda t, y: -y, fg.tensor([1.0, 2.0]), name="solve_ivp")
>>> method, jac, mass = implicit_options(Radau(), system, "sparse", [[2.0, 0.0], [0.0, 1.0]])
>>> method.is_sparse, jac, mass.shape
(True, None, (2, 2))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import described, operand
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.integrate.backward_differences import BDF
from funcgrad.integrate.radau_collocation import Radau
from funcgrad.integrate.right_hand_side import System
from funcgrad.integrate.rosenbrock import Rodas5P
from funcgrad.integrate.singly_implicit import Kvaerno5
from funcgrad.integrate.step_methods import StepMethod
from funcgrad.sparse.sparse_arrays import SparseArray, sparse_operand
from funcgrad.tensor.tensor import Tensor, wrap

IMPLICIT = BDF | Kvaerno5 | Radau | Rodas5P


def implicit_options(
    method: StepMethod, system: System, jac: Any, mass: Any
) -> tuple[StepMethod, Callable[..., Any] | None, Tensor | None]:
    """Check the Jacobian and the mass matrix, and return them with the method.

    Raises
    ------
    ArgumentError, ShapeError, DtypeError
        The method needs neither of them, or they do not fit ``y0``.
    """
    for word, value in (("jac", jac), ("mass", mass)):
        if value is None:
            continue
        if not isinstance(method, IMPLICIT):
            raise placed(
                ArgumentError,
                f"solve_ivp: {word} belongs to the methods 'Kvaerno5', 'Rodas5P', 'Radau' and"
                f" 'BDF'; {method.name!r} is explicit, and does not use it.",
            )
        is_name = isinstance(value, str)
        if not is_name and any(leaf.dtype.kind == "c" for leaf in system.start):
            raise placed(
                DtypeError,
                f"solve_ivp: {word} is a real matrix, but y0 is complex. Write y as its real and"
                " its imaginary part.",
            )
    size = sum(leaf.size for leaf in system.start)
    matrix = None if mass is None else _mass(mass, size, method)
    if isinstance(jac, str):
        if jac != "sparse":
            raise placed(
                ArgumentError, f"solve_ivp: jac has to be callable, 'sparse' or None, got {jac!r}."
            )
        assert isinstance(method, IMPLICIT)
        return replace(method, is_sparse=True), None, matrix
    if jac is None or callable(jac):
        return method, jac, matrix
    sparse = sparse_operand(jac)
    constant: Tensor | SparseArray = (
        wrap(operand(jac, "solve_ivp: jac")) if sparse is None else sparse
    )
    if constant.shape != (size, size):
        raise placed(
            ShapeError,
            f"solve_ivp: jac has to have shape {(size, size)}, a row and a column for each element"
            f" of y0; it has {constant.shape}.",
        )
    return method, lambda t, y, *args: constant, matrix


def _mass(mass: Any, size: int, method: StepMethod) -> Tensor:
    matrix = wrap(operand(mass, "solve_ivp: mass"))
    if matrix.dtype.kind not in "biuf":
        raise placed(DtypeError, f"solve_ivp: mass has to be a real matrix, got {described(mass)}.")
    if matrix.shape != (size, size):
        raise placed(
            ShapeError,
            f"solve_ivp: mass has to have shape {(size, size)}, a row and a column for each element"
            f" of y0; it has {matrix.shape}.",
        )
    value = concrete(matrix)
    if method.name == "Kvaerno5" and type(value) in RAW:
        rank = np.linalg.matrix_rank(np.asarray(value, float)) if size else 0
        if rank < size:
            raise placed(
                ArgumentError,
                f"solve_ivp: mass is singular (rank {rank} of {size}), so some equations have no"
                " derivative. Use 'Rodas5P', 'Radau' or 'BDF'; 'Kvaerno5' needs y' at the start.",
            )
    return fnp.asarray(matrix).astype(float) if matrix.dtype.kind != "f" else matrix
