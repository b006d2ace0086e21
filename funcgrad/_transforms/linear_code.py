"""A linear map as a program, apart from its residuals: the values that the program reads.

A linear map flows in as a function of leaves that closes over residuals, as a pullback over a
record. Out flow a program of these leaves and of the residuals, and the residuals. Maps that were
made by the same operations have equal programs, whatever the values are: residuals are told apart
by identity, never by value.

>>> import numpy as np
>>> x = np.float64(3.0)
>>> code, residuals = linear_code("push", lambda ts: [ts[0] * x], [spec_of(x)])
>>> residuals, code.evaluate([2.0, 10.0])
([np.float64(3.0)], [20.0])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from funcgrad._base.floating_errors import quiet
from funcgrad._core.specs import Spec, is_inexact, spec_of, stand_in
from funcgrad._core.trace import NUMBERS, Value, begin_level, concrete
from funcgrad._core.users_values import operand
from funcgrad._programs.equation import Constant
from funcgrad._programs.extract import extract, needed
from funcgrad._programs.names import variable_names
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import AbstractStager
from funcgrad._transforms.constant_pool import ConstantPool
from funcgrad.errors import DtypeError, ShapeError

LinearRun = Callable[[list[Value]], list[Value]]


class _PoolByIdentity(ConstantPool):
    """Constants, where arrays of equal contents are several."""

    __slots__ = ()

    def constant(self, value: Value) -> int:
        if type(value) in NUMBERS:
            return super().constant(value)
        if id(value) not in self._numbers:
            place = len(self._constants)
            self._constants[place], self._numbers[id(value)] = Constant(value), place
        return self._numbers[id(value)]


def linear_code(
    operation: str, run: LinearRun, specs: Sequence[Spec]
) -> tuple[Program, list[Value]]:
    """Stage a linear map of leaves, and return its program and its residuals.

    The specs are those of its leaves. Integer leaves, which have no tangent, are left out of the
    program's inputs. Python's scalars are not residuals, but constants of the program.
    """

    def of_present(values: Sequence[Value]) -> list[Value]:
        present = iter(values)
        leaves = [next(present) if is_inexact(spec.dtype) else None for spec in specs]
        return [concrete(out) for out in run(leaves)]

    stand_ins = [stand_in(spec) for spec in specs if is_inexact(spec.dtype)]
    with begin_level() as level:
        stager = AbstractStager(level, operation)
        stager._pool = _PoolByIdentity()
        staged, _, _ = stager.body(of_present, operation, stand_ins)
    count = len(staged.inputs)
    _, read = needed(staged, staged.outputs, range(count))
    lifted = [
        variable
        for variable, constant in enumerate(staged.constants, count)
        if variable in read and type(constant.value) not in NUMBERS
    ]
    code = extract(staged, [*range(count), *lifted], staged.outputs)
    # The user's line is where the tree was asked for, so it is left out.
    equations = tuple([replace(equation, source="") for equation in code.equations])
    names = tuple(variable_names((), len(code.inputs)))
    residuals = [staged.constants[variable - count].value for variable in lifted]
    return replace(code, equations=equations, names=names), residuals


def run_of(operation: str, code: Program, residuals: Sequence[Value]) -> LinearRun:
    """The function of leaves with this program and these residuals."""

    def run(leaves: list[Value]) -> list[Value]:
        present = [leaf for leaf in leaves if leaf is not None]
        values = [operand(residual, operation) for residual in residuals]
        for value, spec in zip(values, code.inputs[len(present) :], strict=True):
            _check_residual(operation, spec_of(value), spec)
        with quiet():
            return code.evaluate([*present, *values])

    return run


def _check_residual(operation: str, residual: Spec, spec: Spec) -> None:
    if residual.shape != spec.shape:
        is_batch = residual.shape[len(residual.shape) - len(spec.shape) :] == spec.shape
        remedy = (
            (" Run a batch of maps with fg.vmap(lambda linear, v: linear(v)).") if is_batch else ""
        )
        raise ShapeError(
            f"{operation}: a residual has the shape {residual.shape}, but the map was made for one"
            f" of {spec.shape}.{remedy}"
        )
    if residual.dtype != spec.dtype:
        raise DtypeError(
            f"{operation}: a residual has dtype {residual.dtype}, but the map was made for one of"
            f" {spec.dtype}."
        )
