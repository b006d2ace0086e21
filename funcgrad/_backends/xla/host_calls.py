"""Operations that XLA does not have: compiled programs call them on the host.

An error of such an operation is stored under the number of the call of the program, and raised when
that has run. Operations that follow in the same call are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.xla.xla_writer import XlaWriter
from funcgrad._base.floating_errors import quiet
from funcgrad._core.specs import Spec
from funcgrad._programs.equation import Equation, bound


class HostCalls:
    """The operations that a compiled program calls on the host.

    Attributes
    ----------
    equations : list of Equation
    has_effects : bool
        Whether one of them prints, checks or runs a user's function, so that order matters.
    """

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.has_effects = False
        self._numbers = count(1)
        self._errors: dict[int, BaseException] = {}

    def number(self) -> np.int64:
        """A number for a call of the program."""
        return np.int64(next(self._numbers))

    def raise_error(self, number: np.int64) -> None:
        """Raise the error of a call, if there was one."""
        error = self._errors.pop(int(number), None)
        if error is not None:
            raise error

    def call(
        self,
        writer: XlaWriter,
        number: Array,
        equation: Equation,
        operands: Sequence[Array],
        specs: Sequence[Spec],
    ) -> list[Array]:
        """Add a call of an operation to the function that is being traced."""
        operation = equation.operation
        self.equations.append(equation)
        shapes = [writer.jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in equation.results]
        run = self._runner(equation, specs)
        if operation.has_effect or operation.is_foreign or not shapes:
            self.has_effects = True
            callback = writer.jax.experimental.io_callback
            outs = callback(run, shapes, number, *operands, ordered=True)
        else:
            outs = writer.jax.pure_callback(
                run, shapes, number, *operands, vmap_method="sequential"
            )
        return [*outs]

    def _runner(self, equation: Equation, specs: Sequence[Spec]) -> Callable[..., Any]:
        def run(number: Array, *arrays: Array) -> list[Any]:
            call = int(number)
            if call not in self._errors:
                try:
                    with quiet():
                        outs = bound(equation, tuple(map(_raw, arrays, specs)))
                    return [
                        np.asarray(out, spec.dtype)
                        for out, spec in zip(outs, equation.results, strict=True)
                    ]
                except BaseException as error:  # raised when the program has run
                    self._errors[call] = error
            return [np.zeros(spec.shape, spec.dtype) for spec in equation.results]

        return run


def _raw(array: Array, spec: Spec) -> Any:
    """A value of JAX's as evaluation takes it."""
    value = np.asarray(array)
    if spec.weak:
        return value.item()
    return value if spec.shape else value[()]
