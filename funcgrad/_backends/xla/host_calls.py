"""Operations that XLA does not have: compiled programs call them on the host.

An error of such an operation is raised when the program has run. Operations that follow in the same
call are left out; a loop that calls them again and again is ended.

JAX runs callbacks in threads of its own, where its dtypes have 32 bits. So all values of 64 bits
pass as pairs of 32. Calls of one program run one after the other, since callbacks of several calls
may wait for each other's threads (JAX 0.10.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.xla.jax_library import jax_library
from funcgrad._backends.xla.xla_writer import XlaWriter
from funcgrad._base.floating_errors import quiet
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.structures import Control
from funcgrad._programs.equation import Equation, bound

_HALF: Final = np.dtype(np.uint32)
_MOST_LEFT: Final = 1000
"""After an error, so many calls return zeros; a loop that goes on with them is ended."""


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
        self._lock = Lock()
        self._error: BaseException | None = None
        self._left = 0

    def run(self, program: Callable[[], Any]) -> Any:
        """Run the program to its end, and raise the error of an operation, if there was one."""
        with self._lock:
            self._error, self._left = None, _MOST_LEFT
            try:
                outs = jax_library().block_until_ready(program())
                if self.has_effects:
                    jax_library().effects_barrier()
            except Exception:
                if self._error is None:
                    raise
            error, self._error = self._error, None
        if error is not None:
            raise error
        return outs

    def call(
        self,
        writer: XlaWriter,
        equation: Equation,
        operands: Sequence[Array],
        specs: Sequence[Spec],
    ) -> list[Array]:
        """Add a call of an operation to the function that is being traced."""
        self.equations.append(equation)
        shapes = [
            writer.jax.ShapeDtypeStruct(*_halves(spec.shape, spec.dtype))
            for spec in equation.results
        ]
        operands = [_in_halves(writer, x) for x in operands]
        run = self._runner(equation, specs)
        if _acts(equation) or not shapes:
            self.has_effects = True
            callback = writer.jax.experimental.io_callback
            outs = callback(run, shapes, *operands, ordered=True)
        else:
            outs = writer.jax.pure_callback(run, shapes, *operands, vmap_method="sequential")
        return [
            _joined(writer, out, spec.dtype)
            for out, spec in zip(outs, equation.results, strict=True)
        ]

    def _runner(self, equation: Equation, specs: Sequence[Spec]) -> Callable[..., Any]:
        def run(*arrays: Array) -> list[Any]:
            if self._error is None:
                try:
                    with quiet():
                        outs = bound(equation, tuple(map(_raw, arrays, specs)))
                    return [
                        _as_halves(np.asarray(out, spec.dtype))
                        for out, spec in zip(outs, equation.results, strict=True)
                    ]
                except BaseException as error:  # raised when the program has run
                    self._error = error
            self._left -= 1
            if self._left < 0:
                raise RuntimeError("after an error, a loop went on")  # the error is raised instead
            return [_as_halves(np.zeros(spec.shape, spec.dtype)) for spec in equation.results]

        return run


def _acts(equation: Equation) -> bool:
    """Whether an operation has effects, or a program inside of it, so that order matters."""
    operation = equation.operation
    if operation.has_effect or operation.is_foreign:
        return True
    if not isinstance(operation.structure, Control):
        return False
    programs = operation.structure.runs(**dict(equation.params))
    return any(_acts(inner) for program, _ in programs for inner in program.equations)


def _halves(shape: Shape, dtype: np.dtype[Any]) -> tuple[Shape, np.dtype[Any]]:
    """The shape and the dtype in which values pass."""
    if dtype == np.complex128:
        return (*shape, 2, 2), _HALF
    return ((*shape, 2), _HALF) if dtype.itemsize == 8 and dtype.kind != "c" else (shape, dtype)


def _in_halves(writer: XlaWriter, x: Array) -> Array:
    lax = writer.lax
    if x.dtype == np.complex128:
        x = lax.concatenate(
            [lax.expand_dims(half, [len(x.shape)]) for half in (lax.real(x), lax.imag(x))],
            len(x.shape),
        )
    return lax.bitcast_convert_type(x, _HALF) if _halves((), x.dtype)[0] else x


def _joined(writer: XlaWriter, x: Array, dtype: np.dtype[Any]) -> Array:
    lax = writer.lax
    if dtype == np.complex128:
        x = lax.bitcast_convert_type(x, np.float64)
        last = len(x.shape) - 1
        return lax.complex(*[lax.index_in_dim(x, k, last, keepdims=False) for k in (0, 1)])
    return lax.bitcast_convert_type(x, dtype) if _halves((), dtype)[0] else x


def _as_halves(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    shape, dtype = _halves(x.shape, x.dtype)
    return np.frombuffer(x.tobytes(), dtype).reshape(shape)


def _raw(array: Array, spec: Spec) -> Any:
    """A value of JAX's as evaluation takes it."""
    value = np.array(array)
    if _halves((), spec.dtype)[0]:
        value = np.frombuffer(value.tobytes(), spec.dtype).reshape(spec.shape)
    if spec.weak:
        return value.item()
    return value if spec.shape else value[()]
