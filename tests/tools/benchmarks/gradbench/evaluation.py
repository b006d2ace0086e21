"""What an evaluation is.

>>> from tests.tools.practice.libraries import funcgrad
>>> total = Evaluation("total", (3,), lambda lib: lib.np.sum, lambda draws, n: (np.ones(n),))
>>> total.program(funcgrad())(*total.arguments(3))
Tensor(3.0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Draws = np.random.Generator


class Evaluation(NamedTuple):
    """A function in any library, the sizes of its inputs, and its name in C++.

    Attributes
    ----------
    name : str
        The names that GradBench gives the evaluation and its function.
    sizes : tuple
        The smallest is the first.
    program : callable
        From a library (``tests/tools/practice/libraries.py``) to the function that is jitted.
    inputs : callable
        ``(draws, size) -> arguments``.
    by_hand : bool
        Whether the C++ has it, under its name with ``_``.
    backward_loop : bool
        Whether it is the reverse mode of a ``while_loop``, which JAX does not have.
    """

    name: str
    sizes: tuple[Any, ...]
    program: Callable[[Any], Callable[..., Any]]
    inputs: Callable[[Draws, Any], tuple[Any, ...]]
    by_hand: bool = True
    backward_loop: bool = False

    def arguments(self, size: Any) -> tuple[Any, ...]:
        """The same arguments at every call."""
        return self.inputs(np.random.default_rng(31337), size)
