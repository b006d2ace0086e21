"""Frozen dataclasses: users' classes that are containers in a pytree.

>>> @pytree
... class Point:
...     x: float
...     y: float
...     unit: str = static_field(default="m")
>>> Point(1.0, 2.0)
Point(x=1.0, y=2.0, unit='m')
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform, overload

from funcgrad._base.fast_dataclass import delete_attribute, set_attribute
from funcgrad._base.record_text import REPR
from funcgrad.errors import FunctionError, TreeError

T = TypeVar("T")


def static_field(**options: Any) -> Any:
    """Declare a dataclass field that is a hashable part of the structure, not a child.

    >>> @pytree
    ... class Power:
    ...     base: float
    ...     exponent: int = static_field(default=2)
    >>> from funcgrad import tree
    >>> tree.flatten(Power(3.0))
    ([3.0], Structure(Power(base=*, exponent=2)))
    """
    metadata = {**(options.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(**options, metadata=metadata)


@overload
def pytree(cls: type[T], /) -> type[T]: ...
@overload
def pytree(**options: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, static_field))
def pytree(cls: type[Any] | None = None, /, **options: bool) -> Any:
    """Turn a class into a frozen dataclass that is a pytree, with its fields as children.

    Options are passed to `dataclass`. A frozen dataclass is returned unchanged; a dataclass that is
    not frozen raises `TreeError`.

    >>> @pytree(slots=True)
    ... class Point:
    ...     x: float
    ...     y: float
    >>> from funcgrad import tree
    >>> tree.map(lambda value: 10 * value, Point(1.0, 2.0))
    Point(x=10.0, y=20.0)
    """
    if cls is None:
        return functools.partial(pytree, **options)
    if not isinstance(cls, type):
        raise FunctionError(
            f"pytree: expected a class, got {type(cls).__name__}. Write @fg.pytree."
        )
    if "__dataclass_params__" not in vars(cls):
        has_repr = "__repr__" in vars(cls) or not options.get("repr", True)
        made: Any = dataclasses.dataclass(frozen=True, **options)(cls)
        if not has_repr:
            made.__repr__ = REPR
        made.__setattr__, made.__delattr__ = _refuse_assignment, delete_attribute
        if not hasattr(made, "_repr_html_"):
            made._repr_html_ = _html
        return made
    if not is_frozen_dataclass(cls):
        raise TreeError(f"dataclass {cls.__qualname__} is not frozen: use @pytree, not @dataclass")
    return cls


def _refuse_assignment(self: object, name: str, value: object) -> None:
    """Raise an error that says how to make a changed copy of an immutable record."""
    try:
        set_attribute(self, name, value)  # type: ignore[arg-type]  # a dataclass
    except dataclasses.FrozenInstanceError:
        kind = type(self).__name__
        advice = (
            f"a changed copy is dataclasses.replace(x, {name}=value), or fg.tree.at(x).{name}"
            ".set(value)"
            if hasattr(self, name)
            else f"declare the field {name} in the class, and make instances by a classmethod that"
            f" computes it and returns {kind}({name}=...), without an __init__"
        )
        raise dataclasses.FrozenInstanceError(
            f"cannot assign to field {name!r} of {kind}, which never changes: {advice}."
        ) from None


def _html(record: object) -> str:
    """HTML for notebooks: the arrays and the options of a model or a state."""
    from funcgrad._base.html import record_table

    return record_table(record)


def is_frozen_dataclass(kind: type[Any]) -> bool:
    """Whether a class is a dataclass whose instances cannot be assigned to."""
    return bool(getattr(getattr(kind, "__dataclass_params__", None), "frozen", False))
