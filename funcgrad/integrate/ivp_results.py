"""Results of ``solve_ivp``, with SciPy's names.

>>> OdeResult(None, None, None, None, None, 8, 0, 0, fnp.asarray(0)).message
'The solver successfully reached the end of the integration interval.'
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.choices import is_unknown
from funcgrad._core.pytree_class import pytree
from funcgrad._core.trace import concrete
from funcgrad.errors import TracerError
from funcgrad.integrate.steps import DISORDER, TOO_MANY, TOO_SMALL
from funcgrad.tensor.tensor import Tensor

MESSAGES: Final = MappingProxyType(
    {
        1: "A termination event occurred.",
        0: "The solver successfully reached the end of the integration interval.",
        -1: "Required step size is less than spacing between numbers.",
        -2: "The maximum number of steps is reached.",
        -3: "The times are not sorted, or do not lie in the interval of integration.",
    }
)
"""The reason for each status: SciPy's sentences where SciPy has the status."""


@pytree(slots=True)
class OdeResult:
    """The result of ``solve_ivp``. Under ``vmap`` each example has its own.

    Attributes
    ----------
    t : Tensor, shape (times,)
    y : pytree of Tensor
        The solution, a pytree like ``y0``, with the times along the last axis: (n, times) for a
        vector.
    sol : OdeSolution or None
        The solution at all times.
    t_events : tuple of Tensor or None
        For each event the times at which it happened.
    y_events : tuple of pytrees or None
        The solution at these times; the events are along axis 0, as in SciPy.
    nfev, njev, nlu : Tensor of int
        The number of evaluations of the function and of its Jacobian, and of factorizations.
    status : Tensor of int
        0: the end is reached; 1: an event ended the integration; negative: it failed, as
        ``message`` tells.
    """

    t: Tensor
    y: Any
    sol: Any  # None or a value, as the call wants it: a union would be in the way of users
    t_events: Any
    y_events: Any
    nfev: Any
    njev: Any
    nlu: Any
    status: Tensor

    @property
    def success(self) -> Tensor:
        """Whether the end was reached, or an event ended the integration."""
        return self.status >= 0

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


def status_of(failure: Tensor, stopped: Tensor | None) -> Tensor:
    """The status that users see, from the kind of failure and whether an event ended it."""
    ended = fnp.asarray(0) if stopped is None else fnp.where(stopped, 1, 0)
    for kind, code in ((TOO_SMALL, -1), (TOO_MANY, -2), (DISORDER, -3)):
        ended = fnp.where(failure == kind, code, ended)
    return ended
