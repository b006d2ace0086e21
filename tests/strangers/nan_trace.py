"""A transformation that finds the operation, and its line, that makes the first NaN."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from funcgrad import extend


class NanTrace(extend.Trace):
    """A trace that looks for an operation with a NaN in its result and none in its operands."""

    title = "the search for NaN"
    has_numbers = True

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.birth: tuple[str, str] | None = None

    def process(
        self, primitive: extend.Primitive, args: tuple[Any, ...], params: Mapping[str, Any]
    ) -> Any:
        """Apply the operation at the outer level, and look at its operands and its results."""
        inner = tuple(map(self.inner, args))
        out = extend.bind(primitive, inner, params)
        made = out if isinstance(out, tuple) else (out,)
        if self.birth is None and any(map(_has_nan, made)) and not any(map(_has_nan, inner)):
            self.birth = primitive.name, extend.operations_line()
        return extend.Tracer.around(self, out)


def _has_nan(value: Any) -> bool:
    return bool(np.any(np.not_equal(value, value)))


def birth_of_nan(f: Callable[..., Any], *args: Any) -> tuple[str, str] | None:
    """The operation that makes the first NaN in a call, and the line; None if there is none."""
    with extend.begin_level() as level:
        trace = NanTrace(level)
        f(*[extend.Tracer.around(trace, arg) for arg in args])
    return trace.birth
