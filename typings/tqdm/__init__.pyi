"""Stubs for what the examples use of tqdm, which ships no types."""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

class tqdm(Generic[T]):
    def __init__(
        self,
        iterable: Iterable[T] | None = None,
        desc: str | None = None,
        total: float | None = None,
        *,
        unit: str = "it",
        initial: float = 0,
        disable: bool | None = False,
    ) -> None: ...
    def __iter__(self) -> Iterator[T]: ...
    def set_postfix(
        self, ordered_dict: Any = None, refresh: bool = True, **kwargs: Any
    ) -> None: ...
    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None: ...
    def update(self, n: float = 1) -> bool | None: ...
    def close(self) -> None: ...
