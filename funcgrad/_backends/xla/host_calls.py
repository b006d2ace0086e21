"""Operations that XLA does not have: compiled programs call them on the host.

An error of such an operation is raised when the program has run. Operations that follow in the same
call are left out; a loop that calls them again and again is ended.

JAX runs callbacks in threads of its own, where its dtypes have 32 bits. So all values of 64 bits
pass as pairs of 32. Calls of one program run one after the other, since callbacks of several calls
may wait for each other's threads (JAX 0.10.2).

A loop that is called runs as code of the host, with the bits of its evaluation. Reverse mode runs a
loop twice, in two calls, and they have to take the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.xla.jax_library import jax_library
from funcgrad._backends.xla.xla_writer import XlaWriter
from funcgrad._base.floating_errors import quiet
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import Raw, Value
from funcgrad._programs.equation import Equation, bound
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import flat_program

HostCompile: TypeAlias = Callable[[Program], Callable[..., Sequence[Any] | None]]
"""Compiles a program for the host, with the bits of its evaluation."""

_HALF: Final = np.dtype(np.uint32)
_MOST_LEFT: Final = 1000
"""After an error, so many calls return zeros; a loop that goes on with them is ended."""


class HostCalls:
    """The operations that a compiled program calls on the host.

    Parameters
    ----------
    compile : callable, optional
        Compiles control flow; without it that is evaluated.

    Attributes
    ----------
    equations : list of Equation
    has_effects : bool
        Whether one of them prints, checks or runs a user's function, so that order matters.
    """

    def __init__(self, compile: HostCompile | None = None) -> None:
        self.equations: list[Equation] = []
        self.has_effects = False
        self._compile = compile
        self._lock = Lock()
        self._error: BaseException | None = None
        self._left = 0

    def run(self, program: Callable[[], Any]) -> Any:
        """Run the program to its end, and raise the error of an operation, if there was one."""
        outs = None
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
        computed = _HostCode(equation, specs, self._compile)

        def run(*arrays: Array) -> list[Any]:
            if self._error is None:
                try:
                    with quiet():
                        outs = computed(tuple(map(_raw, arrays, specs)))
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


class _HostCode:
    """An equation as a function of raw values; control flow is compiled at the first call."""

    def __init__(
        self, equation: Equation, specs: Sequence[Spec], compile: HostCompile | None
    ) -> None:
        self._equation, self._specs = equation, specs
        is_control = isinstance(equation.operation.structure, Control)
        self._compile = compile if is_control else None
        self._code: Callable[..., Sequence[Any] | None] | None = None

    def __call__(self, values: tuple[Raw, ...]) -> Sequence[Any]:
        if self._code is None and self._compile is not None:
            self._code, self._compile = self._compiled(self._compile), None
        if self._code is not None:
            with suppress(Exception):  # evaluation raises it again, in the operation's words
                outs = self._code(*values)
                if outs is not None:
                    return outs
        return bound(self._equation, values)

    def _compiled(self, compile: HostCompile) -> Callable[..., Sequence[Any] | None] | None:
        """The code; None if there is none, or where errors must not make it run twice."""
        with suppress(Exception):
            program = flat_program(self._equation.name, self._results, self._specs)
            return None if program.index.effects else compile(program)
        return None

    def _results(self, values: Sequence[Value]) -> list[Value]:
        outs = self._equation.operation(*values, **dict(self._equation.params))
        return list(outs) if isinstance(outs, tuple) else [outs]


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
