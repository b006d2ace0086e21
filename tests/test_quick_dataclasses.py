"""funcgrad's decorator does the same as the standard library's, method by method."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import numpy as np
import pytest

import funcgrad as fg
from funcgrad._base import fast_dataclass
from tests.together import together

Decorator = Callable[..., Callable[[type[Any]], type[Any]]]


def plain(decorate: Callable[[type[Any]], type[Any]]) -> type[Any]:
    @decorate
    class Record:
        """Two fields."""

        first: int
        second: Any = None

    return Record


def full(decorate: Callable[[type[Any]], type[Any]]) -> type[Any]:
    @decorate
    class Record:
        """A field of each kind."""

        count: ClassVar[int] = 3
        first: int
        made: list[int] = field(default_factory=list, compare=False)
        hidden: str = field(default="h", repr=False)
        seen: int = field(init=False, default=7)
        fresh: dict[str, int] = field(init=False, default_factory=dict, compare=False)
        late: int = field(init=False, repr=False)
        only: int = field(kw_only=True, default=1)

        def __post_init__(self) -> None:
            object.__setattr__(self, "late", 10 * self.first)

        def twice(self) -> int:
            return 2 * self.first

    return Record


def derived(decorate: Callable[[type[Any]], type[Any]]) -> type[Any]:
    base = full(decorate)

    @decorate
    class Record(base):  # type: ignore[valid-type, misc]
        """One field more, and one with another default."""

        hidden: str = "derived"
        added: float = 2.5

    return Record


def explicit(decorate: Callable[[type[Any]], type[Any]]) -> type[Any]:
    @decorate
    class Record:
        """Methods of its own."""

        first: int = 0
        second: int = 0

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.first == other.first

        def __repr__(self) -> str:
            return f"<{self.first}>"

    return Record


def single(decorate: Callable[[type[Any]], type[Any]]) -> type[Any]:
    @decorate
    class Record:
        """One field."""

        first: Any

    return Record


CLASSES = (plain, full, derived, explicit, single)
OPTIONS = [
    {"slots": True, "frozen": frozen, "eq": eq, "repr": shown}
    for frozen, eq, shown in itertools.product((False, True), repeat=3)
]
CALLS: tuple[Callable[[type[Any]], Any], ...] = (
    lambda kind: kind(1),
    lambda kind: kind(first=2),
    lambda kind: kind(3, [4]),
    lambda kind: kind(1, only=5),
    lambda kind: kind(1, hidden="x", added=3.0),
    lambda kind: kind(),
    lambda kind: kind(1, 2, 3, 4, 5, 6, 7, 8),
    lambda kind: kind(1, unknown=2),
    lambda kind: kind(first=1, seen=2),
)
USES: tuple[Callable[[Any], Any], ...] = (
    repr,
    lambda x: [(f.name, getattr(x, f.name, None)) for f in dataclasses.fields(x)],
    lambda x: hash(x) == hash(copy.copy(x)),
    lambda x: x == copy.deepcopy(x),
    lambda x: x == x,
    lambda x: x != 1,
    lambda x: dataclasses.replace(x, first=8) == x,
    lambda x: dataclasses.replace(x, first=x.first) == x,
    lambda x: repr(dataclasses.replace(x, first=9)),
    lambda x: dataclasses.asdict(x),
    lambda x: [(f.name, f.kw_only, f.compare) for f in dataclasses.fields(x)],
    lambda x: (x.__setattr__("first", 5), x.first),
    lambda x: (x.__delattr__("first"), hasattr(x, "first")),
    lambda x: x.__dict__,
    lambda x: x.twice(),
    lambda x: x.__match_args__,
    lambda x: type(x).__dataclass_params__.frozen,
    lambda x: x.count,
)


def outcome(kind: type[Any], call: Callable[[type[Any]], Any], use: Callable[[Any], Any]) -> str:
    """The result of a use of a new instance, or its error with the message, as text."""
    try:
        text = str(use(call(kind)))
    except (TypeError, ValueError, AttributeError) as error:
        text = f"{type(error).__name__}: {error}"
    return re.sub("object at 0x[0-9a-f]+", "object", text)


@together("options", OPTIONS, ids=str)
@together("make", CLASSES)
def test_it_does_what_the_standard_library_does(
    make: Callable[..., type[Any]], options: dict[str, Any]
) -> None:
    expected = make(dataclasses.dataclass(**options))
    ours = make(fast_dataclass.dataclass(**options))
    signature = re.sub("<object object at .*?>", "<factory>", str(inspect.signature(ours)))
    assert signature == str(inspect.signature(expected))
    assert (ours.__hash__ is None) == (expected.__hash__ is None)
    assert vars(ours)["__slots__"] == vars(expected)["__slots__"]
    for call, use in itertools.product(CALLS, USES):
        assert outcome(ours, call, use) == outcome(expected, call, use)


def test_instances_are_made_and_used() -> None:
    # Else the comparisons above would be of errors alone.
    kind = full(fast_dataclass.dataclass(slots=True, frozen=True))
    outcomes = [outcome(kind, call, use) for call, use in itertools.product(CALLS[:4], USES)]
    assert sum("Error" in text for text in outcomes) < len(outcomes) / 4


def test_equal_fields_are_compared_as_parts_of_tuples() -> None:
    # An array is not compared with itself, whose truth would be ambiguous.
    kind = single(fast_dataclass.dataclass(slots=True, frozen=True))
    array = np.zeros(3)
    assert kind(array) == kind(array)
    assert kind(float("nan")) != kind(float("nan"))
    assert kind(1) != plain(fast_dataclass.dataclass(slots=True, frozen=True))(1)


@fast_dataclass.dataclass(frozen=True, slots=True)
class Stored:
    """A class that pickle can find again."""

    first: int
    second: tuple[int, ...] = field(default=(), kw_only=True)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_frozen_instances_are_pickled(protocol: int) -> None:
    stored = Stored(1, second=(2, 3))
    assert pickle.loads(pickle.dumps(stored, protocol)) == stored


def test_a_user_may_inherit_with_the_standard_decorator() -> None:
    @dataclasses.dataclass(frozen=True)
    class Wider(Stored):
        third: int = 5

    assert Wider(1, third=2) == Wider(1, 2, second=())
    with pytest.raises(dataclasses.FrozenInstanceError):
        Wider(1).third = 3  # type: ignore[misc]


def test_no_attribute_is_set_but_where_a_class_only_inherits() -> None:
    class Plain(Stored):
        """Has a ``__dict__``."""

    plain: Any = Plain(1)
    plain.third = 3
    assert plain.third == 3
    del plain.third
    for record, name in ((plain, "first"), (Stored(1), "first"), (Stored(1), "third")):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"assign to field '{name}'"):
            setattr(record, name, 3)
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"delete field '{name}'"):
            delattr(record, name)


def test_what_is_not_frozen_does_not_inherit_from_what_is() -> None:
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):

        @fast_dataclass.dataclass(slots=True)
        class Thawed(Stored):  # type: ignore[misc]
            """Refused, as the standard library refuses it."""


@pytest.mark.parametrize("name", ["count", "unknown"])
def test_no_attribute_of_a_slotted_state_can_be_set_or_deleted(name):
    state = fg.optim.adam(1e-3).init(fg.tensor([1.0]))
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(state, name, 1)
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(state, name)
