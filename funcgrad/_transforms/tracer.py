"""The tracer of transformations that users write.

>>> from funcgrad._core.trace import Trace, begin_level, bind
>>> class Loud(Trace):
...     def process(self, primitive, args, params):
...         print(primitive.name)
...         return Tracer.around(self, bind(primitive, tuple(map(self.inner, args)), params))
>>> with begin_level() as level:
...     y = Tracer.around(Loud(level), 2.0) * 3.0 + 1.0
multiply
add
"""

from __future__ import annotations

from typing import Any, Final

from funcgrad._core.trace import RAW, Raw, Trace, Value, concrete
from funcgrad._core.users_values import operand
from funcgrad.errors import TracerError
from funcgrad.tensor.tensor import Tensor

_new: Final[Any] = object.__new__


class Tracer(Tensor):
    """A tensor that a trace of one's own follows; ``Tracer.around`` makes one.

    Attributes
    ----------
    inside : value
        The value that the transformations around see in its place.
    """

    __slots__ = ("_trace",)

    @classmethod
    def around(cls, trace: Trace, value: Value) -> Any:
        """Follow a value, or each of a tuple of values, as operations return them.

        Parameters
        ----------
        trace : Trace
        value : array_like, or a tuple of them
            Arrays, numbers, tensors, and tracers of transformations further out.

        Returns
        -------
        Tracer or tuple of Tracer
        """
        if isinstance(value, tuple):
            return tuple([cls.around(trace, component) for component in value])
        tracer = _new(cls)
        tracer._trace = trace
        tracer._value = concrete(operand(value, trace.title))
        return tracer

    @property
    def inside(self) -> Value:
        """The value that is followed."""
        return self._value

    def _reveal(self, use: str, exact: bool) -> Raw:
        self._trace.check()
        if not self._trace.has_numbers:
            raise TracerError(
                f"{use}: the tensor is followed by {self._trace.title}, which knows no number of"
                " it. If the number inside is the function's own, has_numbers = True in the class"
                f" {type(self._trace).__name__} says so."
            )
        value: Any = self._value
        return value if type(value) in RAW else value._reveal(use, exact)
