"""Results of solvers: the solution, how good it is, and why the solver stopped.

>>> import funcgrad as fg
>>> found = fg.optimize.root_scalar(lambda x: x**3 - 2.0, bracket=(0.0, 2.0))
>>> found.x, found.success, found.message
(Tensor(1.25992105), Tensor(True), 'The change of x is below its tolerance.')
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._control.choices import is_unknown
from funcgrad._core import pytrees
from funcgrad._core.pytrees import pytree
from funcgrad._core.trace import concrete
from funcgrad.errors import ArgumentError, ConvergenceError, TracerError
from funcgrad.tensor.tensor import Tensor

X = TypeVar("X")

RUNNING: Final = 0
SMALL_SLOPE: Final = 1
SMALL_DECREASE: Final = 2
SMALL_STEP: Final = 3
SMALL_RESIDUAL: Final = 4
STOPPED: Final = 5
NOT_FINITE: Final = -1
NO_PROGRESS: Final = -2
NO_BRACKET: Final = -3
NO_SLOPE: Final = -4
INFEASIBLE: Final = -5

MESSAGES: Final = MappingProxyType(
    {
        RUNNING: "The maximum number of steps or evaluations is reached.",
        SMALL_SLOPE: "The gradient is below its tolerance.",
        SMALL_DECREASE: "The change of the function is below its tolerance.",
        SMALL_STEP: "The change of x is below its tolerance.",
        SMALL_RESIDUAL: "The residual is below its tolerance.",
        STOPPED: "The callback stopped the solver.",
        NOT_FINITE: "The function is not finite at the start.",
        NO_PROGRESS: "No step makes the function smaller, though the tolerances are not reached.",
        NO_BRACKET: "The function has the same sign at both ends of the bracket.",
        NO_SLOPE: "The derivative is zero, singular or not finite, so the method cannot go on.",
        INFEASIBLE: "No point is found that satisfies the constraints.",
    }
)
"""The reason for each status; the solver has succeeded where the status is greater than 0."""


@pytree(slots=True)
class Solution(Generic[X]):
    """The result of a solver. Under ``vmap`` each example has its own.

    Attributes
    ----------
    x : pytree
        The solution, a pytree like the start.
    fun : pytree or Tensor
        The value of the function at the solution.
    status : Tensor of int
        The reason why the solver stopped, as ``message`` tells it: greater than 0 if it has
        succeeded, 0 if it used up its steps, less than 0 if it failed.
    nit, nfev : Tensor of int
        The number of steps, and of evaluations of the function.
    jac : pytree or Tensor, optional
        The derivative at the solution: the Jacobian of residuals, or the gradient.
    multipliers : tuple of Tensor
        A Lagrange multiplier for each element of each constraint.
    """

    x: X
    fun: Any
    status: Tensor
    nit: Tensor
    nfev: Tensor
    jac: Any = None
    multipliers: Any = ()

    @property
    def success(self) -> Tensor:
        """Whether the solver has succeeded."""
        return self.status > 0

    @property
    def message(self) -> Any:
        """The reason why the solver stopped: a sentence; for a batch, an array of sentences."""
        status = concrete(self.status)
        if is_unknown(status):
            raise TracerError(
                "message: inside jit and vmap the status is not known. Read the message of the"
                " result, outside of the transformed function."
            )
        sentences = [MESSAGES[int(code)] for code in np.ravel(np.asarray(status))]
        if not self.status.shape:
            return sentences[0]
        return np.array(sentences, object).reshape(self.status.shape)

    @property
    def cost(self) -> Tensor:
        """Half the sum of the squared absolute values of ``fun``."""
        leaves = pytrees.leaves(self.fun)
        squares = [fnp.sum(fnp.real(leaf * fnp.conj(leaf))) for leaf in leaves]
        return 0.5 * fnp.sum(fnp.stack(squares)) if squares else fnp.zeros(())


def failed_way(failed: object, name: str) -> str:
    """Check the option ``failed`` of a solver.

    Raises
    ------
    ArgumentError
        It is unknown.
    """
    if not isinstance(failed, str) or failed not in ("raise", "nan", "keep"):
        raise placed(
            ArgumentError, f"{name}: failed has to be 'raise', 'nan' or 'keep', got {failed!r}."
        )
    return failed


def accepted(name: str, x: Any, status: Tensor, failed: str, advice: str) -> Any:
    """The solution as the option ``failed`` wants it where the solver has not succeeded.

    Raises
    ------
    ConvergenceError
        ``failed`` is "raise" and the status is known. Where it is not known, the solution is NaN.
    """
    if failed == "keep":
        return x
    raw = concrete(status)
    if failed == "raise" and not is_unknown(raw):
        if int(np.asarray(raw)) <= 0:
            raise placed(ConvergenceError, f"{name}: {MESSAGES[int(np.asarray(raw))]} {advice}")
        return x
    return pytrees.map(lambda leaf: fnp.where(status > 0, leaf, np.nan), x)


def first_status(pairs: Sequence[tuple[Any, Any]]) -> Tensor:
    """The status of the first condition that holds; 0 if none does."""
    status: Any = RUNNING
    for condition, code in reversed(pairs):
        status = fnp.where(condition, code, status)
    return fnp.asarray(status)
