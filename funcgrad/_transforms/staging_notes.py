"""Notes that a stager takes: which values are surely equal, and which errors operations raised.

>>> from funcgrad._core.specs import spec_of
>>> from funcgrad._primitives.transcendental import sqrt
>>> errors = CaughtErrors()
>>> error = FloatingPointError("invalid value")
>>> errors.add(error, sqrt, [spec_of(-1.0)], {})
>>> errors.forget(error)
>>> errors.check()
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from funcgrad._base.users_line import users_line
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec, dtype_of, is_inexact
from funcgrad._core.trace import Value
from funcgrad._primitives.index_keys import Key
from funcgrad._programs.equation import Equation, Params, exact_key
from funcgrad._transforms.answers import UnstagedError


class EqualValues:
    """Variables that the same operations have made of the same values."""

    __slots__ = ("_first_with", "_known", "_seen")

    def __init__(self) -> None:
        self._known: dict[int, int] = {}  # for each variable the first one that is equal to it
        self._first_with: dict[Hashable, int] = {}
        self._seen = 0

    def first_equal(self, variable: int, equations: Mapping[int, Equation], count: int) -> int:
        """The first of all variables that are equal to one; ``count`` of them are taken."""
        known = self._known
        for first in range(self._seen, count):
            equation = equations.get(first)
            if equation is None:
                continue
            operands = tuple([known.get(operand, operand) for operand in equation.operands])
            operation = equation.operation
            if operation.is_foreign or operation.has_effect:
                operands = (first, *operands)  # it may return something else each time
            key = operation, exact_key(equation.params), operands
            place = self._first_with.setdefault(key, first)
            known.update({first + k: place + k for k in range(len(equation.results))})
        self._seen = count
        return known.get(variable, variable)


class CaughtErrors:
    """Errors that operations raised, for some values and not for others, while a function ran."""

    __slots__ = ("_errors",)

    def __init__(self) -> None:
        self._errors: list[tuple[BaseException, str]] = []

    def add(
        self,
        error: BaseException,
        primitive: Primitive,
        specs: Iterable[Spec],
        params: Mapping[str, Any],
    ) -> None:
        """Note an error of an operation, with the user's line, if it depends on values.

        It depends on shapes and dtypes only if the shape of the result cannot be found either.
        """
        with suppress(Exception):
            primitive.checked_result(*specs, **params)
            self._errors.append((error, users_line()))

    def forget(self, error: BaseException | None) -> None:
        """Forget an error that ends a path which no example takes."""
        while error is not None:
            self._errors = [pair for pair in self._errors if pair[0] is not error]
            error = error.__cause__ or error.__context__

    def check(self) -> None:
        """Check that the function, which has ended, has caught none.

        Raises
        ------
        UnstagedError
            It has, and for other values it would go on where the error was raised.
        """
        for error, line in self._errors:
            raise UnstagedError(
                f"it catches {type(error).__name__} at {line}, which depends on the values."
                " Choose before the error, with fg.cond"
            )


def waiting_place(outs: Sequence[Value]) -> int:
    """Which of some results waits for effects: one that derivatives read, if there is any."""
    return next((k for k, out in enumerate(outs) if is_inexact(dtype_of(out))), 0)


def hashable_params(params: Mapping[str, Any]) -> Params:
    """Parameters in the order of their names; a tuple of slices becomes a key that has a hash."""
    return tuple(
        [
            (name, Key(value) if type(value) is tuple and slice in map(type, value) else value)
            for name, value in sorted(params.items())
        ]
    )
