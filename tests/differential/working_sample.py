"""A call that works: what the samples of all packages are made of.

>>> Sample(abs, (-2,)).then(abs(-2))
2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


def _itself(x: Any) -> Any:
    return x


@dataclass(frozen=True)
class Sample:
    """A function, arguments with which it works, and what is done with its result."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    then: Callable[[Any], Any] = _itself
